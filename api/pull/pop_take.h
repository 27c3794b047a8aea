/* A pop: its body, one claim, and the answer. Pops that wait are in pop_room.h, and claim by this, too. */
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
#define DT_POP_BYTES     ((size_t)8 << 20) /* of payloads in an answer */
#define DT_POP_ROOM_EACH 4                 /* bytes of memory for a byte of payload, in rows and answer */

/* The form of the answer: that of REST, or that of a command, with one job or with a list. */
enum dt_pop_form { DT_POP_FORM_JOBS, DT_POP_FORM_COMMAND, DT_POP_FORM_COMMAND_LIST };

struct dt_pop_wish {
    const struct dt_str *topics; /* in the arena of the faults */
    size_t n_topics;
    int64_t max;
    int64_t wait_ms, ttr_ms; /* ttr_ms 0: the jobs' own ack_timeout */
    enum dt_pop_form form;
};

/*
 * Decodes the body of a pop; json NULL: the body is empty. topic: from the path; absent: the body names the topics.
 * INVALID: faults has at least one. NOMEM.
 */
DT_MUST_CHECK dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                                           struct dt_pop_wish *out);

/* One client that gets a part of a claim. */
struct dt_pop_taker {
    size_t max;     /* maximal number of jobs */
    int64_t ttr_ms; /* 0: the jobs' own ack_timeout */
    size_t n;       /* out: number of its jobs */
};

/* The outcome of a claim. */
struct dt_popped {
    /* In the arena: the jobs of the first taker by due time, then the jobs of the second, and so on. */
    struct dt_job *jobs;
    size_t n, bytes;
    bool more;                          /* a topic may have more jobs */
    bool passed;                        /* another pop had locked jobs of a topic */
    bool at_limit;                      /* a topic is at its limits, and no notification is sent when it has room */
    struct dt_str refused;              /* present: nothing was claimed because of this topic … */
    enum dt_pop_topic why;              /* … for this reason */
    const struct dt_command_job *names; /* set by the caller: command.h */
};

/*
 * Claims jobs for the topics of a wish, with at most max_bytes of payloads, or one larger job. n takers (at least one)
 * get them in order; they say how many jobs they take, and their ttr. If a job's ack_timeout has passed before MySQL
 * answered the claim, the job is not among them: its attempt is lost, as if the answer were lost. Runs on the store's
 * thread. Statuses as of dt_store_pop; jobs that were claimed before a failure are in *out, and must be delivered.
 *
 * If the wish does not wait, the claim is repeated a few times within some milliseconds, for jobs that a leader offers
 * just now, or that another pop has locked and leaves.
 */
DT_MUST_CHECK dt_status dt_pop_take(const struct dt_api *api, dt_store *store, const struct dt_pop_wish *wish,
                                    struct dt_pop_taker *takers, size_t n, size_t max_bytes, struct dt_arena *arena,
                                    struct dt_popped *out, struct dt_error *err);

/* How many bytes of payloads max jobs may have, at most `most`. */
size_t dt_pop_bytes(const struct dt_api *api, size_t max, size_t most);
/* Reserves memory for up to max jobs. Returns how many bytes of payloads (at most `most`) it is enough for; 0: not even
 * for one job. The answer keeps what it needs of that until it is sent (http_exchange.c). */
size_t dt_pop_hold(struct dt_request *req, size_t max, size_t most);
/* Adds the answer of a pop: {"jobs":[…]}. */
void dt_pop_add(struct dt_strbuf *out, const struct dt_job *jobs, size_t n);
