/*
 * Who has asked for something lately: so that what takes long for one caller gives way while others ask too, and takes
 * all there is when nobody else does. Callers are told apart by dt_caller.fair_queue. Thread-safe, without locks: a
 * note that is lost to another thread's is made by the next request.
 */
#ifndef DT_API_WORKERS_H
#define DT_API_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/json.h"
#include "request.h"
#include "session.h"
#include "store/store.h"

#define DT_ACTIVITY_CALM_US INT64_C(500000) /* so long after a request its caller counts as one who asks */

struct dt_activity { /* zero = nobody has asked */
    /* Time (monotonic, us) << 8 | caller, of the latest request, and of the latest one before it of another caller. */
    _Atomic int64_t latest, before;
};

/* Notes a request. */
static inline void dt_activity_note(struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t latest = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)latest != caller)
        atomic_store_explicit(&activity->before, latest, memory_order_relaxed);
    else if (now_us - (latest >> 8) < DT_ACTIVITY_CALM_US / 64) /* busy callers write it seldom */
        return;
    atomic_store_explicit(&activity->latest, (int64_t)((uint64_t)now_us << 8 | caller), memory_order_relaxed);
}

/* Says whether others than this caller ask for something, too. */
static inline bool dt_activity_of_others(const struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t last = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)last == caller)
        last = atomic_load_explicit(&activity->before, memory_order_relaxed);
    return last != 0 && (uint8_t)last != caller && now_us - (last >> 8) < DT_ACTIVITY_CALM_US;
}

/*
 * One JSON parser a thread, made when first asked for and freed when the thread ends. It is borrowed for the length of
 * a function: nothing of a request may stay in it, because a request changes threads.
 */

/* The parser of the calling thread. NULL: memory is out. */
dt_json *dt_scratch_json(void);

/*
 * Workers: the threads that work for requests, of two kinds. One of each is started with the pool, the others when they
 * are first needed, so that an API with little to do has few threads and connections.
 *
 * Those with a MySQL connection each (http.workers) serve every request that is neither a create nor a result: reads,
 * changes, lists, topics. A bounded queue (when full: 503 with Retry-After); a request that waited past its deadline
 * gets 503 unrun. A request that has to wait for something in MySQL is put off: it holds neither a thread nor a
 * connection meanwhile.
 *
 * Those without do long work that waits for nobody, in time slices: after each piece of a work the
 * pieces of all other work that is queued come first. So a small array of jobs does not wait for a large one. These
 * threads ask for less processor time than others (nice).
 */

typedef struct dt_workers dt_workers;

/* Runs on a worker thread, owns the request, may block on the store. DT_REPLY: the answer is filled in, the pool
 * resumes the request. DT_PENDING: it was handed on (to the committer, the results batcher) and will be resumed by
 * someone else. */
typedef enum dt_next (*dt_worker_fn)(struct dt_request *req, dt_store *store);

/* Starts the first threads. env and activity are borrowed and outlive them. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_workers_start(const struct dt_session_env *env, const struct dt_activity *activity,
                                         dt_workers **out, struct dt_error *err);
/* Says whether somebody has waited for more than a second while no worker was free. Any thread. */
bool dt_workers_busy(dt_workers *pool);
/* Answers queued requests whose time is up with 503. Any thread. */
void dt_workers_expire(dt_workers *pool, int64_t now_us);
/* Does all queued slices to their end, answers queued requests with 503, ends the threads. */
void dt_workers_stop(dt_workers *pool);
/* After dt_workers_stop. Accepts NULL. */
void dt_workers_free(dt_workers *pool);

/*
 * Queues a request. Called from an HTTP thread (inside a handler; the request is suspended), or from any thread that
 * owns a suspended request (a unit's done). When the queue is full the 503 is filled in and the request resumed. Always
 * returns DT_PENDING: return dt_workers_submit(req->api->workers, req, get_job);
 *
 * If it may make MySQL read very many rows (reads_much), the caller has one of these run at a time while others ask for
 * something, too, and a rest after each: DT_WORKERS_RESTS times as long as it took, and DT_WORKERS_REST_US at most.
 */
#define DT_WORKERS_RESTS   4
#define DT_WORKERS_REST_US INT64_C(300000)
enum dt_next dt_workers_submit(dt_workers *pool, struct dt_request *req, dt_worker_fn run);
/*
 * Puts a request off; called from a worker, inside a dt_worker_fn. run(req) is called again in DT_WORKERS_LATER_US, on
 * any worker, unless the pool ends or the request's deadline passes before (both are answered with 503). True: return
 * DT_PENDING and touch the request no more. False: too many are put off already; the request is still the caller's.
 */
#define DT_WORKERS_LATER_US INT64_C(4000)
DT_MUST_CHECK bool dt_workers_later(dt_workers *pool, struct dt_request *req, dt_worker_fn run);

/* Work that is done piece by piece. It is embedded in what it works on, and lives until run says false. */
struct dt_slice {
    /* Does one piece. True: there is more to do now. False: the slice is not touched any more until it is queued
     * again. */
    bool (*run)(struct dt_slice *slice);
    struct dt_slice *prev, *next; /* of the queue */
};
/* Queues the work, once until run says false. Any thread, also inside run; does not block. False: dt_workers_stop was
 * called, and nothing was queued. */
bool dt_workers_slice(dt_workers *pool, struct dt_slice *slice);

#endif
