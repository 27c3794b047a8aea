/*
 * Commands of one request while they are carried out: one after the other, those of one kind that stand together as one
 * group. Owned by the thread that owns the request.
 */
#ifndef DT_API_COMMAND_RUN_H
#define DT_API_COMMAND_RUN_H

#include "api.h"
#include "command.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "intake/results_batcher.h"
#include "request/request.h"

/* A command, and what became of it. */
struct dt_run_command {
    struct dt_command command;
    int64_t job_id;    /* of finish and delete; 0 = there is none */
    dt_status status;  /* OK: success; INVALID: it failed, `error` says why; others: a server of ours failed */
    const char *error; /* of INVALID; lives as long as the request */
    bool answered;     /* its answer is written already */
};

struct dt_run {
    struct dt_request *req;
    struct dt_run_command *v;
    size_t n;
    bool array;                /* the answer is one */
    size_t next, end;          /* the group under way; equal: there is none */
    size_t refused;            /* answered commands that failed by their sender's fault */
    struct dt_gate_entry rest; /* before the answer; zero until it begins */
    struct dt_strbuf out;      /* answers */
    size_t popped_bytes;       /* of payloads that are in it */
    uint64_t heard;            /* of offers, before a pop looked for them */
    bool waits;                /* the one command is a pop that found nothing, and may wait */
    struct dt_create *rows;
    struct dt_unit unit; /* of a group of adds */
    struct dt_apply *applies;
    size_t *applied_to; /* by place in `applies`: the finish */
    struct dt_reports reports;
};

/* Begins the answer of the next command. */
void dt_run_begin_answer(struct dt_run *run);
/* Fails a command: INVALID. error: static text, or of the request's arena. */
void dt_run_fail(struct dt_run_command *command, const char *error);

/* Carry a group out, on a worker (workers.h). */
enum dt_next dt_run_finish(struct dt_request *req, dt_store *store);
enum dt_next dt_run_delete(struct dt_request *req, dt_store *store);
enum dt_next dt_run_pop(struct dt_request *req, dt_store *store);

#endif
