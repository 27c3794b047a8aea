/*
 * Owns: a handle's coming and going with its use.
 * Refuses to know: what it is used for.
 * Invariants: while there is a handle a janitor thread exists (unless none could be started; then the handle stays); it
 * sleeps until the handle may have gone unused for long enough, so it wakes about once in that time; without a handle
 * there is no thread. A handle is lent only while the settings are those that it was made with, and for AGE_MAX_US at
 * most, since certificates and passwords in files may have changed.
 */
#include "kafka_handle.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/thread.h"
#include "kafka_client.h"

#define AGE_MAX_US INT64_C(600000000)

struct dt_kafka_on_demand {
    const struct dt_kafka_env *env;
    const struct dt_kafka_on_demand_ops *ops;
    int64_t keep_us;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rd_kafka_t *rk;
    bool held, janitor, closing;
    int64_t used_us; /* when it was let go last */
    int64_t made_us;
    unsigned generation; /* of the settings that it was made with */
};

static void reap(const struct dt_kafka_on_demand_ops *ops, rd_kafka_t *rk)
{
    if (rk)
        dt_kafka_reap(rk, ops->closing, NULL, rk);
}

static void janitor_main(void *arg)
{
    struct dt_kafka_on_demand *h = arg;
    const struct dt_kafka_on_demand_ops *ops = h->ops;
    rd_kafka_t *unused = NULL;
    pthread_mutex_lock(&h->lock);
    while (!h->closing && h->rk) {
        const int64_t now_us = dt_kafka_now_us();
        const int64_t again_us = (h->held ? now_us : h->used_us) + h->keep_us;
        if (!h->held && now_us >= again_us) {
            unused = h->rk;
            h->rk = NULL;
        } else {
            dt_clock_wait(&h->changed, &h->lock, again_us);
        }
    }
    h->janitor = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock); /* h may be gone from here on */
    reap(ops, unused);
}

dt_status dt_kafka_on_demand_hold(dt_kafka_on_demand *h, rd_kafka_t **rk, struct dt_error *err)
{
    rd_kafka_t *outdated = NULL;
    rd_kafka_conf_t *conf;
    dt_status status = DT_OK;
    pthread_mutex_lock(&h->lock);
    dt_assert(!h->held);
    if (h->generation != dt_kafka_client_generation() || dt_kafka_now_us() >= h->made_us + AGE_MAX_US) {
        outdated = h->rk;
        h->rk = NULL;
    }
    if (!h->rk) {
        h->generation = dt_kafka_client_generation();
        h->made_us = dt_kafka_now_us();
        status = h->ops->conf(h->env, &conf, err);
        if (status == DT_OK)
            status = dt_kafka_handle_new(h->ops->type, conf, &h->rk, err);
    }
    if (status == DT_OK) {
        h->held = true;
        h->janitor = h->janitor || dt_thread_start_detached(janitor_main, h);
    }
    *rk = h->rk;
    pthread_mutex_unlock(&h->lock);
    reap(h->ops, outdated);
    return status;
}

void dt_kafka_on_demand_let_go(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    dt_assert(h->held);
    h->held = false;
    h->used_us = dt_kafka_now_us();
    pthread_mutex_unlock(&h->lock);
}

void dt_kafka_on_demand_discard(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    dt_assert(h->held);
    h->held = false;
    rd_kafka_t *rk = h->rk;
    h->rk = NULL;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    reap(h->ops, rk);
}

bool dt_kafka_on_demand_open(dt_kafka_on_demand *h)
{
    pthread_mutex_lock(&h->lock);
    bool open = h->rk;
    pthread_mutex_unlock(&h->lock);
    return open;
}

dt_status dt_kafka_on_demand_new(const struct dt_kafka_env *env, const struct dt_kafka_on_demand_ops *ops, int keep_ms,
                                 dt_kafka_on_demand **out, struct dt_error *err)
{
    struct dt_kafka_on_demand *h = calloc(1, sizeof(*h));

    *out = h;
    if (!h)
        return dt_fail(err, DT_NOMEM, "kafka handle");
    h->env = env;
    h->ops = ops;
    h->keep_us = keep_ms * INT64_C(1000);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    return DT_OK;
}

void dt_kafka_on_demand_free(dt_kafka_on_demand *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    dt_assert(!h->held);
    h->closing = true;
    pthread_cond_broadcast(&h->changed);
    while (h->janitor)
        pthread_cond_wait(&h->changed, &h->lock);
    rd_kafka_t *rk = h->rk;
    pthread_mutex_unlock(&h->lock);
    reap(h->ops, rk);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
