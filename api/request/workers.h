/* The pool of threads that run requests, with their connections and parsers; and the record of callers that were active
 * lately. */
#pragma once

#include <stdatomic.h>

#include "base/text/json.h"
#include "request.h"
#include "session.h"
#include "store/store.h"

/* Which callers were active lately, so that the long requests of one caller yield only while other callers are active.
 * dt_caller.fair_queue identifies a caller. Thread-safe, without locks: if two threads write at the same time, one
 * record is lost until the next request writes it again. */
#define DT_ACTIVITY_CALM_US INT64_C(500000) /* how long a caller counts as active after a request */

struct dt_activity { /* all zeros: no caller was active */
    /* Both words: time (monotonic, us) << 8 | caller. latest: the latest request; before: the latest request of a
     * caller other than that of `latest`. */
    _Atomic int64_t latest, before;
};

/* Records that the caller made a request. */
static inline void dt_activity_note(struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t latest = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)latest != caller)
        atomic_store_explicit(&activity->before, latest, memory_order_relaxed);
    else if (now_us - (latest >> 8) < DT_ACTIVITY_CALM_US / 64) /* the record of a busy caller is rarely rewritten */
        return;
    atomic_store_explicit(&activity->latest, (int64_t)((uint64_t)now_us << 8 | caller), memory_order_relaxed);
}

/* Returns true if another caller than this one is active. */
static inline bool dt_activity_of_others(const struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t last = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)last == caller)
        last = atomic_load_explicit(&activity->before, memory_order_relaxed);
    return last != 0 && (uint8_t)last != caller && now_us - (last >> 8) < DT_ACTIVITY_CALM_US;
}

/* Returns the JSON parser of the calling thread, which is freed when the thread ends. A function may use the parser
 * only until the function returns, because a request moves between threads. NULL: out of memory. */
dt_json *dt_scratch_json(void);

/*
 * The pool has two kinds of threads. One thread of each kind starts with the pool, the others when they are first
 * needed, so that an idle API has few threads and connections.
 *
 * A worker has a MySQL connection (http.workers). Workers serve every request that is neither a create nor a result:
 * reads, changes, lists, topics. Their queue is bounded: if the queue is full, the answer is 503 with Retry-After. A
 * request whose deadline passes in the queue gets 503 without being run. A request that must wait until something
 * changes in MySQL is put off; meanwhile it uses neither a thread nor a connection.
 *
 * A slicer has no connection (api.batch_threads). It does long work in slices: after each slice, the other queued work
 * gets its turn. So a small array of jobs does not wait for a large one. Slicers have a lower priority (nice).
 */

typedef struct dt_workers dt_workers;

/* Serves a request on a worker; owns the request, and may block on the store. DT_REPLY: the answer is filled in, and
 * the pool resumes the request. DT_PENDING: another part (the committer, the results batcher) has the request and will
 * resume it. */
typedef enum dt_next (*dt_worker_fn)(struct dt_request *req, dt_store *store);

/* Starts the pool. env and activity are borrowed, and must outlive the pool's threads. Unless OK, *out is NULL. */
dt_status dt_workers_start(const struct dt_session_env *env, const struct dt_activity *activity, dt_workers **out,
                           struct dt_error *err);
/* Returns true if a request has waited for more than a second and no worker was free meanwhile. Any thread. */
bool dt_workers_busy(dt_workers *pool);
/* Answers queued requests whose deadline has passed, with 503. Any thread. */
void dt_workers_expire(dt_workers *pool, int64_t now_us);
/* Completes all queued slices, answers queued requests with 503, and ends the threads. */
void dt_workers_stop(dt_workers *pool);
/* Frees the pool, after dt_workers_stop. Accepts NULL. */
void dt_workers_free(dt_workers *pool);

/*
 * Queues a request, and suspends it if it is not suspended. Called by the thread that owns the request. If the queue is
 * full, fills in 503 and resumes the request. Always returns DT_PENDING.
 *
 * If the request may make MySQL read very many rows (reads_much) and other callers are active, only one such request of
 * its caller runs at a time. After such a request, the caller's long requests pause: DT_WORKERS_RESTS times as long as
 * it took, at most DT_WORKERS_REST_US.
 */
#define DT_WORKERS_RESTS   4
#define DT_WORKERS_REST_US INT64_C(300000)
enum dt_next dt_workers_submit(dt_workers *pool, struct dt_request *req, dt_worker_fn run);
/* Puts a request off: after DT_WORKERS_LATER_US any worker calls `run`. If the pool ends or the request's deadline
 * passes before that, the answer is 503. Called inside a dt_worker_fn. True: the caller returns DT_PENDING and does not
 * touch the request again. False: too many requests are put off; the caller keeps the request. */
#define DT_WORKERS_LATER_US INT64_C(4000)
DT_MUST_CHECK bool dt_workers_later(dt_workers *pool, struct dt_request *req, dt_worker_fn run);

/* Work that is done in slices. A member of the object that it works on; must live until `run` returns false. */
struct dt_slice {
    /* Does one slice. True: more is to do now. False: the pool does not touch the slice until it is queued again. */
    bool (*run)(struct dt_slice *slice);
    struct dt_slice *prev, *next; /* neighbours in the queue */
};
/* Queues the slices, unless they are queued already. Any thread, also inside `run`; does not block. False:
 * dt_workers_stop was called, and nothing was queued. */
bool dt_workers_slice(dt_workers *pool, struct dt_slice *slice);
