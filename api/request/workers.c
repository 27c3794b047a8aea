/*
 * Owns the threads that work for requests, and their two queues: requests that may block on MySQL, and slices.
 *
 * Invariants: a request that is queued or put off is suspended and owned by the pool. Each request leaves the pool
 * exactly once: it was run, or answered with 503 (queue full, deadline passed, shutting down). All requests are put off
 * for the same time, so they run again in the order in which they were put off. A slice is queued at most once, and run
 * by one thread at a time.
 *
 * Fair queueing by caller: a worker takes the oldest request of the caller that was served least recently. If there are
 * several workers, no caller has all of them at once. To spare MySQL, a caller's long requests (reads_much) run one at
 * a time, with pauses between them, while other callers are active.
 */
#include "workers.h"

#include <pthread.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/outage.h"
#include "base/thread.h"

#define QUEUE_MAX 4096 /* larger than the number of requests that all connections can have */

#define CALLERS 256 /* number of different values of dt_caller.fair_queue */

#define SLICE_NICE 10 /* niceness of the threads that do slices: if processors are scarce, waiting clients come first */

#define BUSY_US INT64_C(1000000) /* the pool is busy if a request waits longer, and no worker was free meanwhile */

struct worker {
    struct dt_workers *pool;
    struct dt_thread thread;
    struct dt_session session;
    struct dt_outage_part outage;
};

struct dt_workers {
    const struct dt_session_env *env;
    const struct dt_activity *activity;
    struct worker *workers;
    size_t n_workers; /* number of workers that were started */
    struct dt_thread *slicers;
    pthread_mutex_t lock;
    pthread_cond_t wake, slice_queued;
    /* Members below: protected by the lock. */
    struct dt_request *queue[CALLERS][2]; /* queues by caller (utlist), oldest request first; [1]: long requests */
    size_t n;
    uint64_t served[CALLERS], takes; /* takes: requests taken; served: `takes` when the caller was last served */
    size_t running[CALLERS];         /* number of workers that run requests of the caller */
    size_t most;                     /* maximal number of workers for one caller */
    size_t running_long[CALLERS];    /* number of workers that run long requests of the caller */
    int64_t rests_until_us[CALLERS]; /* mono: until then the caller's long requests pause */
    int64_t rest_ends_us;            /* mono: when the first pause of a caller ends; INT64_MAX: no caller pauses */
    struct dt_request *later;        /* requests that were put off (utlist), in the order in which they run again */
    size_t n_later;
    unsigned sleeping, busy;
    int64_t free_us; /* mono: when a worker last found nothing to run */
    bool stopping;
    size_t n_slicers;        /* number of slicers (threads that do slices of long work) that were started */
    struct dt_slice *slices; /* queued slices (utlist) */
    size_t n_slices;         /* number of slices that are queued or running */
    bool slices_end;
    dt_metric *full, *queued, *at_work, *turns;
};

/* ---- the queues ---- */

static void append_request_locked(struct dt_request **line, size_t *n, struct dt_request *req)
{
    DL_APPEND2(*line, req, work.prev, work.next);
    ++*n;
}

static void delete_request_locked(struct dt_request **line, size_t *n, struct dt_request *req)
{
    dt_assert_cmp(*n, >, 0);
    DL_DELETE2(*line, req, work.prev, work.next);
    --*n;
}

static struct dt_request **queue_of_request(dt_workers *pool, const struct dt_request *req)
{
    return &pool->queue[req->caller.fair_queue][req->work.is_long];
}

static void set_gauges_locked(const dt_workers *pool)
{
    dt_metric_set(pool->queued, (double)(pool->n + pool->n_later));
    dt_metric_set(pool->at_work, pool->busy);
}

/* If a worker is idle, a queued request waits only because its caller already has too many running requests. In that
 * case the pool is not busy. */
bool dt_workers_busy(dt_workers *pool)
{
    int64_t oldest_us = INT64_MAX;
    pthread_mutex_lock(&pool->lock);
    const int64_t before_us = dt_clock_mono_us(pool->env->clock) - BUSY_US;
    for (size_t i = 0; i < 2 * CALLERS; i++)
        if (pool->queue[i / 2][i % 2])
            oldest_us = dt_earlier(oldest_us, pool->queue[i / 2][i % 2]->work.at_us);
    bool busy = oldest_us < before_us && pool->sleeping == 0 && pool->free_us < before_us;
    pthread_mutex_unlock(&pool->lock);
    return busy;
}

bool dt_workers_later(dt_workers *pool, struct dt_request *req, dt_worker_fn run)
{
    req->work.run = run;
    req->work.at_us = dt_clock_mono_us(pool->env->clock) + DT_WORKERS_LATER_US;
    req->work.is_long = false;
    pthread_mutex_lock(&pool->lock);
    bool room = pool->n_later < QUEUE_MAX;
    if (room)
        append_request_locked(&pool->later, &pool->n_later, req);
    if (pool->sleeping) /* a sleeping worker must set its timer, because this thread's next request may take long */
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return room;
}

/* Takes a request that was put off. NULL: none may run now. Called under the lock, like the functions below up to
 * take_request. */
static struct dt_request *take_postponed_request(dt_workers *pool)
{
    struct dt_request *first = pool->later;
    if (!first || (!pool->stopping && dt_clock_mono_us(pool->env->clock) < first->work.at_us))
        return NULL;
    delete_request_locked(&pool->later, &pool->n_later, first);
    return first;
}

/* Returns true if the caller's long requests must yield to other callers. If the caller pauses, brings rest_ends_us
 * forward to the end of the pause. */
static bool must_caller_yield_locked(dt_workers *pool, uint8_t caller, int64_t now_us)
{
    int64_t until_us = pool->rests_until_us[caller];
    bool waits = pool->running_long[caller] > 0 || until_us > now_us;
    if (!waits || !dt_activity_of_others(pool->activity, caller, now_us))
        return false;
    if (until_us > now_us)
        pool->rest_ends_us = dt_earlier(pool->rest_ends_us, until_us);
    return true;
}

static struct dt_request *take_queued_request(dt_workers *pool)
{
    struct dt_request *next = NULL;
    int64_t now_us = dt_clock_mono_us(pool->env->clock);
    pool->rest_ends_us = INT64_MAX;
    for (size_t i = 0; pool->n > 0 && i < 2 * CALLERS; i++) {
        const uint8_t caller = (uint8_t)(i / 2);
        struct dt_request *first = pool->queue[caller][i % 2];
        /* Without a token the caller is 0, and may use all workers. */
        if (!first ||
            (caller != 0 && !pool->stopping &&
             (pool->running[caller] >= pool->most || (i % 2 && must_caller_yield_locked(pool, caller, now_us)))))
            continue;
        const uint64_t served = next ? pool->served[next->caller.fair_queue] : 0;
        if (!next || pool->served[caller] < served ||
            (pool->served[caller] == served && first->work.at_us < next->work.at_us))
            next = first;
    }
    if (next) {
        pool->served[next->caller.fair_queue] = ++pool->takes;
        delete_request_locked(queue_of_request(pool, next), &pool->n, next);
    }
    return next;
}

/* Waits for a request. NULL: the worker must end. *stopping: the worker must refuse the request instead of running
 * it. */
static struct dt_request *take_request(dt_workers *pool, bool *stopping)
{
    struct dt_request *req;
    pthread_mutex_lock(&pool->lock);
    while (!(req = take_postponed_request(pool)) && !(req = take_queued_request(pool)) && !pool->stopping) {
        int64_t put_off_us = pool->later ? pool->later->work.at_us : INT64_MAX;
        int64_t until_us = dt_earlier(put_off_us, pool->rest_ends_us);
        pool->sleeping++;
        if (until_us < INT64_MAX)
            dt_clock_wait(&pool->wake, &pool->lock, until_us);
        else
            pthread_cond_wait(&pool->wake, &pool->lock);
        pool->sleeping--;
        pool->free_us = dt_clock_mono_us(pool->env->clock);
    }
    *stopping = pool->stopping;
    if (req) {
        pool->busy++;
        pool->running[req->caller.fair_queue]++;
        pool->running_long[req->caller.fair_queue] += req->work.is_long;
        if (pool->sleeping &&
            (pool->n || pool->n_later)) /* a sleeping worker may be able to run another queued request */
            pthread_cond_signal(&pool->wake);
    }
    set_gauges_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    return req;
}

static const char too_late[] = "the request waited too long for the database";

/* Refuses a request. req->then stays set: it runs after the resume, and may change the answer. */
static void refuse_request(struct dt_request *req, const char *why)
{
    dt_request_refuse(req, req->changed ? DT_PROBLEM_OUTCOME_UNKNOWN : DT_PROBLEM_UNAVAILABLE, "%s", why);
    dt_request_resume(req);
}

/* Moves requests whose deadline has passed to the list `late`. */
static void move_late_requests(struct dt_request **line, size_t *n, int64_t now_us, struct dt_request **late)
{
    struct dt_request *req;
    struct dt_request *next;
    DL_FOREACH_SAFE2(*line, req, next, work.next)
    {
        if (req->deadline_us > now_us)
            continue;
        delete_request_locked(line, n, req);
        DL_APPEND2(*late, req, work.prev, work.next);
    }
}

void dt_workers_expire(dt_workers *pool, int64_t now_us)
{
    struct dt_request *late = NULL;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; pool->n > 0 && i < 2 * CALLERS; i++)
        move_late_requests(&pool->queue[i / 2][i % 2], &pool->n, now_us, &late);
    move_late_requests(&pool->later, &pool->n_later, now_us, &late);
    set_gauges_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    while (late) {
        struct dt_request *req = late;
        DL_DELETE2(late, req, work.prev, work.next);
        refuse_request(req, too_late);
    }
}

/* ---- the threads ---- */

static void run_request(struct worker *w, struct dt_request *req)
{
    if (req->deadline_us <= dt_clock_mono_us(w->pool->env->clock)) {
        refuse_request(req, too_late);
        return;
    }
    struct dt_error err = {0};
    dt_status status = dt_session_begin(&w->session, &err);
    if (status == DT_OK)
        dt_outage_over(&w->outage);
    else
        dt_outage_failed(&w->outage, DT_OUTAGE_MYSQL, "workers", "requests are not served, because MySQL fails", status,
                         &err);
    /* If a request has changed something, it runs even if MySQL is down: its statements fail, and its answer says what
     * is known, which is better than an unknown outcome. */
    if (status == DT_OK || req->changed) {
        /* The audit log names the caller of each change. */
        dt_store_act_as(w->session.store, req->caller.name.p ? req->caller.name : DT_STR_LIT("-"));
        enum dt_next next = req->work.run(req, w->session.store);
        if (next == DT_REPLY) {
            dt_request_trim(req); /* because many answers may wait until the HTTP thread sends them */
            dt_request_resume(req);
        }
    } else {
        refuse_request(req, "the database does not answer");
    }
    dt_session_end(&w->session);
}

static void run_worker(void *arg)
{
    struct worker *w = arg;
    dt_workers *pool = w->pool;
    struct dt_request *req;
    bool stopping;
    while ((req = take_request(pool, &stopping))) {
        const uint8_t caller = req->caller.fair_queue;
        const bool is_long = req->work.is_long;
        const int64_t begun_us = dt_clock_mono_us(pool->env->clock);
        if (stopping)
            refuse_request(req, "the server is shutting down");
        else
            run_request(w, req);
        const int64_t now_us = dt_clock_mono_us(pool->env->clock);
        pthread_mutex_lock(&pool->lock);
        dt_assert(pool->busy > 0 && pool->running[caller] > 0);
        pool->busy--;
        pool->running[caller]--;
        if (is_long) {
            dt_assert_cmp(pool->running_long[caller], >, 0);
            pool->running_long[caller]--;
            pool->rests_until_us[caller] =
                now_us + dt_earlier(DT_WORKERS_RESTS * (now_us - begun_us), DT_WORKERS_REST_US);
        }
        set_gauges_locked(pool);
        pthread_mutex_unlock(&pool->lock);
        /* This worker takes the next request itself, so no other worker must be woken for requests of this caller. */
    }
    dt_session_clear(&w->session);
}

static dt_status add_worker_locked(dt_workers *pool)
{
    struct worker *w = &pool->workers[pool->n_workers];
    w->pool = pool;
    dt_status status = dt_session_init(&w->session, pool->env);
    if (status != DT_OK)
        return status;
    status = dt_thread_start(&w->thread, "worker", run_worker, w, NULL);
    if (status == DT_OK)
        pool->n_workers++;
    else
        dt_session_clear(&w->session);
    return status;
}

enum dt_next dt_workers_submit(dt_workers *pool, struct dt_request *req, dt_worker_fn run)
{
    const size_t workers = (size_t)pool->env->config->http_workers;
    if (!dt_request_suspended(req))
        dt_request_suspend(req);
    if (!dt_wall_pass(req)) {
        dt_request_resume(req);
        return DT_PENDING;
    }
    pthread_mutex_lock(&pool->lock);
    bool able = pool->n_workers < workers; /* a new worker can start, or one of the workers does not hang in MySQL */
    for (size_t i = 0; i < pool->n_workers && !able; i++)
        able = !dt_session_stalled(&pool->workers[i].session);
    dt_assert_cmp(pool->n, <=, QUEUE_MAX);
    const bool full = pool->n == QUEUE_MAX;
    const bool stopping = pool->stopping;
    req->work.run = run;
    req->work.is_long = req->reads_much;
    req->work.at_us = dt_clock_mono_us(pool->env->clock);
    if (able && !stopping && !full) {
        append_request_locked(queue_of_request(pool, req), &pool->n, req);
        if (pool->n + pool->n_later + pool->busy > pool->n_workers && pool->n_workers < workers)
            (void)!add_worker_locked(pool); /* if it cannot start, other workers serve the queue */
    }
    if (pool->sleeping)
        pthread_cond_signal(&pool->wake);
    set_gauges_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    /* From here on the request may not be touched if it was queued, because it may have run already. */
    if (!able) {
        refuse_request(req, "the database does not answer");
    } else if (stopping) {
        refuse_request(req, "the server is shutting down");
    } else if (full) {
        dt_metric_add(pool->full, 1);
        refuse_request(req, "too many requests are waiting");
    }
    return DT_PENDING;
}

/* ---- slices ---- */

static void count_slices_locked(dt_workers *pool, size_t n)
{
    pool->n_slices = n;
    dt_metric_set(pool->turns, (double)n);
}

static void append_slice_locked(dt_workers *pool, struct dt_slice *slice)
{
    DL_APPEND(pool->slices, slice);
    pthread_cond_signal(&pool->slice_queued);
}

static void run_slices(void *arg)
{
    dt_workers *pool = arg;
    dt_thread_lower(SLICE_NICE);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->slices && !pool->slices_end)
            pthread_cond_wait(&pool->slice_queued, &pool->lock);
        struct dt_slice *slice = pool->slices;
        if (!slice)
            break;
        DL_DELETE(pool->slices, slice);
        pthread_mutex_unlock(&pool->lock);
        const bool again = slice->run(slice);
        pthread_mutex_lock(&pool->lock);
        dt_assert_cmp(pool->n_slices, >, 0);
        if (again)
            append_slice_locked(pool, slice);
        else
            count_slices_locked(pool, pool->n_slices - 1);
    }
    pthread_mutex_unlock(&pool->lock);
}

static dt_status add_slicer_locked(dt_workers *pool)
{
    dt_status status = dt_thread_start(&pool->slicers[pool->n_slicers], "slices", run_slices, pool, NULL);
    pool->n_slicers += status == DT_OK;
    return status;
}

/* Starts another slicer (a thread that does slices of long work) if there are more slices than slicers. If it cannot
 * start, the other slicers do the work. */
bool dt_workers_slice(dt_workers *pool, struct dt_slice *slice)
{
    pthread_mutex_lock(&pool->lock);
    const bool open = !pool->slices_end;
    if (open) {
        count_slices_locked(pool, pool->n_slices + 1);
        append_slice_locked(pool, slice);
        if (pool->n_slices > pool->n_slicers && pool->n_slicers < (size_t)pool->env->config->api_batch_threads)
            (void)!add_slicer_locked(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return open;
}

/* ---- life ---- */

dt_status dt_workers_start(const struct dt_session_env *env, const struct dt_activity *activity, dt_workers **out,
                           struct dt_error *err)
{
    const struct dt_config *config = env->config;
    *out = NULL;
    dt_workers *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return dt_fail(err, DT_NOMEM, "no memory for the workers");
    pool->env = env;
    pool->activity = activity;
    pool->most = config->http_workers > 1 ? (size_t)(config->http_workers - (config->http_workers + 3) / 4) : 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->slice_queued, NULL);
    pool->full = dt_counter("duetime_api_workers_full_total", "Requests refused because all workers were busy.", "");
    pool->queued = dt_gauge("duetime_api_workers_queued", "Requests that wait for a worker.", "");
    pool->at_work = dt_gauge("duetime_api_workers_busy", "Workers that serve a request.", "");
    pool->turns = dt_gauge("duetime_api_turns", "Batches that are being parsed or wait to be parsed.", "");
    pool->workers = calloc((size_t)config->http_workers, sizeof(*pool->workers));
    pool->slicers = calloc((size_t)config->api_batch_threads, sizeof(*pool->slicers));
    dt_status status = pool->workers && pool->slicers ? DT_OK : DT_NOMEM;
    pthread_mutex_lock(&pool->lock);
    DT_THEN(status, add_worker_locked(pool));
    if (status == DT_OK && config->api_batch_threads > 0)
        status = add_slicer_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    if (status != DT_OK) {
        dt_workers_stop(pool);
        dt_workers_free(pool);
        return dt_fail(err, status, "the workers cannot start");
    }
    *out = pool;
    return DT_OK;
}

void dt_workers_stop(dt_workers *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->slices_end = true;
    pthread_cond_broadcast(&pool->slice_queued);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_slicers; i++)
        dt_thread_join(&pool->slicers[i]);
    dt_assert(!pool->slices && pool->n_slices == 0);
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_workers; i++)
        dt_thread_join(&pool->workers[i].thread);
    dt_assert(pool->n == 0 && pool->n_later == 0 && pool->busy == 0);
}

void dt_workers_free(dt_workers *pool)
{
    if (!pool)
        return;
    free(pool->workers);
    free(pool->slicers);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->slice_queued);
    free(pool);
}

/* ---- the parser of a thread ---- */

static pthread_key_t parser_key;
static pthread_once_t parser_once = PTHREAD_ONCE_INIT;
static bool parser_usable;

static void free_parser(void *json)
{
    dt_json_free(json);
}

static void make_parser_key(void)
{
    parser_usable = pthread_key_create(&parser_key, free_parser) == 0;
}

dt_json *dt_scratch_json(void)
{
    pthread_once(&parser_once, make_parser_key);
    if (!parser_usable)
        return NULL;
    dt_json *json = pthread_getspecific(parser_key);
    if (json)
        return json;
    if (dt_json_new(&json) != DT_OK)
        return NULL;
    if (pthread_setspecific(parser_key, json) != 0) {
        dt_json_free(json);
        return NULL;
    }
    return json;
}
