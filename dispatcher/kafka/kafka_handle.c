/*
 * Owns: a handle's coming and going with its use.
 * Refuses to know: what it is used for.
 * Invariants: while there is a handle a janitor thread exists (unless none could be started; then the handle stays); it
 * sleeps until the handle may have gone unused for long enough, so it wakes about once in that time; without a handle
 * there is no thread.
 */
#include "kafka_handle.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct dt_kafka_on_demand {
    const struct dt_kafka_env *env;
    const struct dt_kafka_on_demand_ops *ops;
    int64_t keep_us;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rd_kafka_t *rk;
    bool held, janitor, closing;
    int64_t used_us; /* when it was let go last */
};

static void reap(const struct dt_kafka_on_demand_ops *ops, rd_kafka_t *rk)
{
    if (rk)
        dt_kafka_reap(rk, ops->closing, NULL, rk);
}

/* The handle when it has gone unused for long enough, else NULL and the time to look again. Holds the lock. */
static rd_kafka_t *take_unused(struct dt_kafka_on_demand *w, int64_t *again_us)
{
    const int64_t now_us = dt_kafka_now_us();
    rd_kafka_t *rk = w->rk;

    *again_us = w->held ? now_us + w->keep_us : w->used_us + w->keep_us;
    if (w->held || now_us < *again_us)
        return NULL;
    w->rk = NULL;
    return rk;
}

static void janitor_main(void *arg)
{
    struct dt_kafka_on_demand *w = arg;
    const struct dt_kafka_on_demand_ops *ops = w->ops;
    rd_kafka_t *unused = NULL;
    int64_t again_us;

    pthread_mutex_lock(&w->lock);
    while (!w->closing && w->rk && (unused = take_unused(w, &again_us)) == NULL)
        dt_clock_wait(&w->changed, &w->lock, again_us);
    w->janitor = false;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock); /* w may be gone from here on */
    reap(ops, unused);
}

dt_status dt_kafka_on_demand_hold(dt_kafka_on_demand *w, rd_kafka_t **rk, struct dt_error *err)
{
    rd_kafka_conf_t *conf;
    dt_status status = DT_OK;

    pthread_mutex_lock(&w->lock);
    if (!w->rk) {
        status = w->ops->conf(w->env, &conf, err);
        if (status == DT_OK)
            status = dt_kafka_handle_new(w->ops->type, conf, &w->rk, err);
    }
    if (status == DT_OK) {
        w->held = true;
        w->janitor = w->janitor || dt_thread_start_detached(janitor_main, w);
    }
    *rk = w->rk;
    pthread_mutex_unlock(&w->lock);
    return status;
}

void dt_kafka_on_demand_let_go(dt_kafka_on_demand *w)
{
    pthread_mutex_lock(&w->lock);
    w->held = false;
    w->used_us = dt_kafka_now_us();
    pthread_mutex_unlock(&w->lock);
}

void dt_kafka_on_demand_discard(dt_kafka_on_demand *w)
{
    rd_kafka_t *rk;

    pthread_mutex_lock(&w->lock);
    w->held = false;
    rk = w->rk;
    w->rk = NULL;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    reap(w->ops, rk);
}

bool dt_kafka_on_demand_open(dt_kafka_on_demand *w)
{
    bool open;

    pthread_mutex_lock(&w->lock);
    open = w->rk != NULL;
    pthread_mutex_unlock(&w->lock);
    return open;
}

dt_status dt_kafka_on_demand_new(const struct dt_kafka_env *env, const struct dt_kafka_on_demand_ops *ops, int keep_ms,
                                 dt_kafka_on_demand **out, struct dt_error *err)
{
    struct dt_kafka_on_demand *w = calloc(1, sizeof(*w));

    *out = w;
    if (!w)
        return dt_fail(err, DT_NOMEM, "kafka handle");
    w->env = env;
    w->ops = ops;
    w->keep_us = keep_ms * INT64_C(1000);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return DT_OK;
}

void dt_kafka_on_demand_free(dt_kafka_on_demand *w)
{
    rd_kafka_t *rk;

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    while (w->janitor)
        pthread_cond_wait(&w->changed, &w->lock);
    rk = w->rk;
    pthread_mutex_unlock(&w->lock);
    reap(w->ops, rk);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
