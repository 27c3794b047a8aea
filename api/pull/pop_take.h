/* Bodies of pops: what a client asks for. Pure. */
#ifndef DT_API_POP_TAKE_H
#define DT_API_POP_TAKE_H

#include "api.h"
#include "base/text/json.h"
#include "dispatch/pop.h"
#include "job/change/jobs.h"
#include "job/problem.h"
#include "request/request.h"

#define DT_POP_MAX       1000
#define DT_POP_TOPICS    100
#define DT_POP_WAIT_MS   60000
#define DT_POP_BYTES     ((size_t)8 << 20) /* of payloads in an answer */
#define DT_POP_ROOM_EACH 4                 /* memory that a byte of a payload may take, in rows and answer */

/* The form of the answer: jobs as REST shows them, or what a command is answered, with one job or with a list. */
enum dt_pop_form { DT_POP_FORM_JOBS, DT_POP_FORM_COMMAND, DT_POP_FORM_COMMAND_LIST };

struct dt_pop_wish {
    const struct dt_str *topics; /* in the arena of the faults */
    size_t n_topics;
    int64_t max;
    int64_t wait_ms, ttr_ms; /* ttr: 0 = the jobs' own time to report */
    enum dt_pop_form form;
};

/*
 * Decodes the body of a pop: json is its parsed text, NULL for an empty body. topic: from the path; absent: the body
 * names them. INVALID: faults has at least one. NOMEM.
 */
DT_MUST_CHECK dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                                           struct dt_pop_wish *out);

/* Carries a pop out: claims jobs of its topics in turn, tells the index their deadlines, and encodes them. */

/* One that takes a part of what a pop claims, with a time to report of its own. */
struct dt_pop_taker {
    size_t max;     /* jobs */
    int64_t ttr_ms; /* 0 = the jobs' own time to report */
    size_t n;       /* out: jobs that it gets */
};

/* Jobs that were claimed, and what is to be told of topics that cannot be popped from. */
struct dt_popped {
    /* In the arena: those of the first taker, by when they were due, then those of the second … */
    struct dt_job *jobs;
    size_t n, bytes;
    bool more;                          /* of some topic there may be more */
    bool passed;                        /* of some topic others had something locked */
    bool at_limit;                      /* some topic has no more room within its limits: nobody is told when it has */
    struct dt_str refused;              /* present: nothing was claimed, because this topic is … */
    enum dt_pop_topic why;              /* … unknown, or not popped from */
    const struct dt_command_job *names; /* the caller's: command.h */
};

/*
 * Claims for the topics of a wish, at most max_bytes of payloads; n takers (one at least) take what is claimed in their
 * order, and say how many jobs that may be and their times to report. A job whose time was over before the claim was
 * answered is not among them: its attempt is lost, as that of an answer that is lost. Runs where the store's thread is.
 * Statuses as of dt_store_pop; jobs that were claimed before a failure are in *out, and are to be handed out.
 * A wish that does not wait gets also what a leader offers just now, or another pop has locked and leaves: it looks a
 * few times more, for some milliseconds.
 */
DT_MUST_CHECK dt_status dt_pop_take(const struct dt_api *api, dt_store *store, const struct dt_pop_wish *wish,
                                    struct dt_pop_taker *takers, size_t n, size_t max_bytes, struct dt_arena *arena,
                                    struct dt_popped *out, struct dt_error *err);

/* Holds memory for up to max jobs: returns how many bytes of payloads (`most` at most) there is room for; 0: not even
 * for one job. */
size_t dt_pop_hold(struct dt_request *req, size_t max, size_t most);
/* Adds the answer of a pop: {"jobs":[…]}. */
void dt_pop_add(struct dt_strbuf *out, const struct dt_job *jobs, size_t n);

#endif
