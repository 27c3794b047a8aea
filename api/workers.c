/*
 * Owns the pool of threads that may block on MySQL for a request, and its queue. Refuses to know what the requests are
 * about.
 *
 * Invariants: whoever is in the queue is suspended and owned by the pool; each request leaves it exactly once: run, or
 * answered with 503 (queue full, deadline passed, shutting down).
 */
#include "workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "session.h"

#define QUEUE_MAX 4096u /* power of two; more than all connections can have under way */

struct task {
    struct dt_request *req;
    dt_worker_fn run;
};

struct worker {
    struct dt_workers *pool;
    pthread_t thread;
    struct dt_session session;
};

struct dt_workers {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    struct worker *workers;
    size_t n_workers; /* started */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct task queue[QUEUE_MAX];
    size_t head, n;
    unsigned sleeping;
    bool stopping;
    dt_metric *full;
};

/* ---- the queue ---- */

static bool stalled(const dt_workers *pool)
{
    for (size_t i = 0; i < pool->n_workers; i++)
        if (!dt_session_stalled(&pool->workers[i].session))
            return false;
    return true;
}

static dt_status push(dt_workers *pool, struct task task)
{
    dt_status status = DT_OK;
    if (stalled(pool))
        return DT_UNAVAILABLE;
    pthread_mutex_lock(&pool->lock);
    if (pool->stopping)
        status = DT_SHUTDOWN;
    else if (pool->n == QUEUE_MAX)
        status = DT_FULL;
    else
        pool->queue[(pool->head + pool->n++) & (QUEUE_MAX - 1)] = task;
    if (pool->sleeping)
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* False: the end. stopping: do not run it any more. */
static bool pop(dt_workers *pool, struct task *task, bool *stopping)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->n == 0 && !pool->stopping) {
        pool->sleeping++;
        pthread_cond_wait(&pool->wake, &pool->lock);
        pool->sleeping--;
    }
    bool got = pool->n > 0;
    if (got) {
        *task = pool->queue[pool->head];
        pool->head = (pool->head + 1) & (QUEUE_MAX - 1);
        pool->n--;
    }
    *stopping = pool->stopping;
    pthread_mutex_unlock(&pool->lock);
    return got;
}

static void refuse(struct dt_request *req, const char *why)
{
    req->then = NULL;
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "%s", why);
    dt_request_resume(req);
}

enum dt_next dt_workers_submit(dt_workers *pool, struct dt_request *req, dt_worker_fn run)
{
    if (!dt_request_suspended(req))
        dt_request_suspend(req);
    dt_status status = push(pool, (struct task){req, run});
    if (status == DT_FULL)
        dt_metric_add(pool->full, 1);
    if (status != DT_OK)
        refuse(req, status == DT_FULL       ? "too many requests are waiting"
                    : status == DT_SHUTDOWN ? "the server is shutting down"
                                            : "the database does not answer");
    return DT_PENDING;
}

/* ---- the threads ---- */

static void serve(struct worker *w, struct task task)
{
    struct dt_request *req = task.req;
    if (req->deadline_us <= dt_clock_mono_us(w->pool->clock)) {
        refuse(req, "the request waited too long for the database");
        return;
    }
    struct dt_error err = {0};
    if (dt_session_begin(&w->session, &err) == DT_OK) {
        enum dt_next next = task.run(req, w->session.store);
        if (next == DT_REPLY)
            dt_request_resume(req);
    } else
        refuse(req, "the database does not answer");
    dt_session_end(&w->session);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    struct task task;
    bool stopping;
    while (pop(w->pool, &task, &stopping)) {
        if (stopping)
            refuse(task.req, "the server is shutting down");
        else
            serve(w, task);
    }
    dt_session_clear(&w->session);
    return NULL;
}

static dt_status worker_start(dt_workers *pool, struct worker *w)
{
    w->pool = pool;
    dt_status status = dt_session_init(&w->session, pool->config, pool->clock, pool->ref);
    if (status != DT_OK)
        return status;
    if (pthread_create(&w->thread, NULL, run, w) != 0) {
        dt_session_clear(&w->session);
        return DT_SYSTEM;
    }
    pool->n_workers++;
    return DT_OK;
}

dt_status dt_workers_start(const struct dt_config *config, const dt_clock *clock, dt_refclock *ref, dt_workers **out,
                           struct dt_error *err)
{
    *out = NULL;
    dt_workers *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return dt_fail(err, DT_NOMEM, "no memory for the workers");
    pool->config = config;
    pool->clock = clock;
    pool->ref = ref;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->full = dt_counter("duetime_api_workers_full_total", "Requests refused because all workers were busy.", "");
    pool->workers = calloc((size_t)config->http_workers, sizeof(*pool->workers));
    dt_status status = pool->workers ? DT_OK : DT_NOMEM;
    for (int64_t i = 0; status == DT_OK && i < config->http_workers; i++)
        status = worker_start(pool, &pool->workers[i]);
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
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

void dt_workers_free(dt_workers *pool)
{
    if (!pool)
        return;
    free(pool->workers);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    free(pool);
}
