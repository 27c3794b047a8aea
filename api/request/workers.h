/* The threads that run requests, with the resources of each; and which callers were active lately. */
#pragma once

#include <stdatomic.h>

#include "base/text/json.h"
#include "request.h"
#include "session.h"
#include "store/store.h"

/*
 * Which callers were active lately, so that the long requests of one caller yield only while other callers are active.
 * dt_caller.fair_queue identifies a caller. Thread-safe, without locks: if two threads write at once one note is lost,
 * and the next request writes it again.
 */
#define DT_ACTIVITY_CALM_US INT64_C(500000) /* a caller counts as active for this time after a request */

struct dt_activity { /* zero = no caller was active */
    /* Time (monotonic, us) << 8 | caller: of the latest request, and of the latest earlier one of another caller. */
    _Atomic int64_t latest, before;
};

/* Notes a request. */
static inline void dt_activity_note(struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t latest = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)latest != caller)
        atomic_store_explicit(&activity->before, latest, memory_order_relaxed);
    else if (now_us - (latest >> 8) < DT_ACTIVITY_CALM_US / 64) /* a busy caller writes it seldom */
        return;
    atomic_store_explicit(&activity->latest, (int64_t)((uint64_t)now_us << 8 | caller), memory_order_relaxed);
}

/* Returns true if another caller is active. */
static inline bool dt_activity_of_others(const struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t last = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)last == caller)
        last = atomic_load_explicit(&activity->before, memory_order_relaxed);
    return last != 0 && (uint8_t)last != caller && now_us - (last >> 8) < DT_ACTIVITY_CALM_US;
}

/* Returns the JSON parser of the calling thread, which is freed when the thread ends. It is borrowed for the length of
 * a function, because a request changes threads. NULL: out of memory. */
dt_json *dt_scratch_json(void);

/*
 * Two kinds of threads. One of each starts with the pool, the others when they are first needed, so that an idle API
 * has few threads and connections.
 *
 * A worker has a MySQL connection (http.workers). Workers serve every request that is neither a create nor a result:
 * reads, changes, lists, topics. Their queue is bounded: if it is full the answer is 503 with Retry-After. A request
 * whose deadline passes in the queue gets 503 without being run. A request that has to wait for a state of MySQL is
 * postponed; meanwhile it uses neither a thread nor a connection.
 *
 * A slicer has no connection (api.batch_threads). It does long work in slices: after each slice, the other queued work
 * gets its turn. So a small array of jobs does not wait for a large one. Slicers have a lower priority (nice).
 */

typedef struct dt_workers dt_workers;

/* Runs on a worker, owns the request, may block on the store. DT_REPLY: the answer is filled in, and the pool resumes
 * the request. DT_PENDING: another part (the committer, the results batcher) has the request and will resume it. */
typedef enum dt_next (*dt_worker_fn)(struct dt_request *req, dt_store *store);

/* env and activity are borrowed and outlive the threads. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_workers_start(const struct dt_session_env *env, const struct dt_activity *activity,
                                         dt_workers **out, struct dt_error *err);
/* Returns true if a request has waited for more than a second while no worker was free. Any thread. */
bool dt_workers_busy(dt_workers *pool);
/* Answers queued requests whose deadline has passed with 503. Any thread. */
void dt_workers_expire(dt_workers *pool, int64_t now_us);
/* Completes all queued slices, answers queued requests with 503, and ends the threads. */
void dt_workers_stop(dt_workers *pool);
/* After dt_workers_stop. Accepts NULL. */
void dt_workers_free(dt_workers *pool);

/*
 * Queues a request, and suspends it if it is not suspended. Called by the thread that owns the request. If the queue is
 * full, fills in 503 and resumes the request. Always returns DT_PENDING.
 *
 * If the request may make MySQL read very many rows (reads_much) and other callers are active, only one such request of
 * its caller runs at a time. After it the caller's long requests pause: DT_WORKERS_RESTS times as long as it took, at
 * most DT_WORKERS_REST_US.
 */
#define DT_WORKERS_RESTS   4
#define DT_WORKERS_REST_US INT64_C(300000)
enum dt_next dt_workers_submit(dt_workers *pool, struct dt_request *req, dt_worker_fn run);
/*
 * Puts a request off: any worker calls `run` after DT_WORKERS_LATER_US, unless the pool ends or the request's deadline
 * passes before (both: 503). Called inside a dt_worker_fn. True: the caller returns DT_PENDING and does not touch the
 * request again. False: too many requests are put off; the caller keeps the request.
 */
#define DT_WORKERS_LATER_US INT64_C(4000)
DT_MUST_CHECK bool dt_workers_later(dt_workers *pool, struct dt_request *req, dt_worker_fn run);

/* Work that is done in slices. It is a member of the object that it works on, and lives until `run` returns false. */
struct dt_slice {
    /* Does one slice. True: there is more to do now. False: the pool does not touch it until it is queued again. */
    bool (*run)(struct dt_slice *slice);
    struct dt_slice *prev, *next; /* neighbours in the queue */
};
/* Queues the work, at most once until `run` returns false. Any thread, also inside `run`; does not block. False:
 * dt_workers_stop was called, and nothing was queued. */
bool dt_workers_slice(dt_workers *pool, struct dt_slice *slice);
