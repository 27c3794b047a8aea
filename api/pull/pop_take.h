/* A pop: its body, one claim, and the answer. The waiting room (pop_room.c) makes the claims of waiting pops with these
 * functions, too. */
#pragma once

#include "api.h"
#include "base/text/json.h"
#include "dispatch/pop.h"
#include "job/change/jobs.h"
#include "job/problem.h"
#include "request/request.h"

#define DT_POP_MAX       1000
#define DT_POP_TOPICS    100
#define DT_POP_WAIT_MS   60000
#define DT_POP_BYTES     ((size_t)8 << 20) /* maximal bytes of payloads in an answer */
#define DT_POP_ROOM_EACH 4                 /* bytes of memory for each byte of payload: in rows, and in the answer */

/* Form of the answer. JOBS: for REST. COMMAND: one job, for a command. COMMAND_LIST: a list, for a command. */
enum dt_pop_form { DT_POP_FORM_JOBS, DT_POP_FORM_COMMAND, DT_POP_FORM_COMMAND_LIST };

struct dt_pop_wish {
    const struct dt_str *topics; /* topics to pop from, in the arena of the faults */
    size_t n_topics;
    int64_t max;
    int64_t wait_ms, ttr_ms; /* ttr_ms 0: each job's own ack_timeout */
    enum dt_pop_form form;
};

/* Decodes the body of a pop. json NULL: the body is empty. topic: the topic in the path; if it is absent, the body
 * names the topics. INVALID: faults has at least one fault. NOMEM: memory ran out. */
dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                             struct dt_pop_wish *out);

/* A client that gets a part of the claimed jobs. */
struct dt_pop_taker {
    size_t max;     /* maximal number of jobs */
    int64_t ttr_ms; /* 0: each job's own ack_timeout */
    size_t n;       /* out: number of jobs that it got */
};

/* The outcome of a claim. */
struct dt_popped {
    /* Jobs in the arena: the jobs of the first client (taker) by due time, then those of the second client, and so
     * on. */
    struct dt_job *jobs;
    size_t n, bytes;
    bool more;                          /* a topic may have more jobs */
    bool passed;                        /* jobs of a topic were left, because another pop had locked their rows */
    bool at_limit;                      /* a topic is at a limit; no notification tells when it has room again */
    struct dt_str refused;              /* topic that made the claim impossible, so nothing was claimed; absent: none */
    enum dt_pop_topic why;              /* why `refused` made the claim impossible */
    const struct dt_command_job *names; /* ids that add commands gave to the jobs; set by the caller (command.h) */
};

/*
 * Claims jobs for the topics of a wish (the parameters of a pop), with at most max_bytes of payloads, or one larger
 * job. The n takers (clients, at least one) get the jobs in order; each taker says how many jobs it wants, and their
 * ttr. If a job's ack_timeout had passed when MySQL answered the claim, the taker does not get the job: its attempt is
 * lost, as if the answer were lost. Runs on the store's thread. Statuses as of dt_store_pop; jobs that were claimed
 * before a failure are in *out, and must be delivered.
 *
 * If the pop does not wait, the claim is repeated a few times within some milliseconds, to find jobs that a leader is
 * just offering, or that another pop has locked but does not take.
 */
dt_status dt_pop_take(const struct dt_api *api, dt_store *store, const struct dt_pop_wish *wish,
                      struct dt_pop_taker *takers, size_t n, size_t max_bytes, struct dt_arena *arena,
                      struct dt_popped *out, struct dt_error *err);

/* Returns how many bytes the payloads of `max` jobs may have, but at most `most`. */
size_t dt_pop_bytes(const struct dt_api *api, size_t max, size_t most);
/* Reserves memory for up to `max` jobs. Returns how many bytes of payloads (at most `most`) fit in the memory; 0: not
 * even one job fits. The answer keeps the part of the memory that it uses, until it is sent (http_exchange.c). */
size_t dt_pop_hold(struct dt_request *req, size_t max, size_t most);
/* Adds the answer of a pop: {"jobs":[…]}. */
void dt_pop_add(struct dt_strbuf *out, const struct dt_job *jobs, size_t n);
