/*
 * Owns the API's one periodic thread and what it last found out about MySQL and Redis. Refuses to serve requests.
 *
 * Once a second: MySQL's clock, the schema (until it fits), topics, shards; every other time the tokens and Redis. A
 * server that is away costs one failed call a second, nothing else waits for it.
 */
#include "health.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/metrics.h"
#include "index/index.h"
#include "session.h"

#define TICK_MS 1000

struct dt_health {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_topic_cache *topics;
    dt_auth *auth;
    pthread_t thread;
    struct dt_session session;
    dt_index *index; /* the thread's own; NULL until the installation's name is known */
    unsigned ticks;
    bool schema_fits;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct dt_health_state state;
    bool stopping;
    dt_metric *mysql_up, *redis_up;
};

void dt_health_get(dt_health *h, struct dt_health_state *out)
{
    pthread_mutex_lock(&h->lock);
    *out = h->state;
    pthread_mutex_unlock(&h->lock);
    if (out->mysql != DT_OK || !dt_session_stalled(&h->session))
        return;
    out->mysql = DT_UNAVAILABLE;
    snprintf(out->mysql_text, sizeof(out->mysql_text), "the server does not answer");
}

void dt_health_drain(dt_health *h)
{
    pthread_mutex_lock(&h->lock);
    h->state.draining = true;
    pthread_mutex_unlock(&h->lock);
}

/* ---- one look ---- */

static dt_status check_schema(dt_health *h, struct dt_error *err)
{
    if (h->schema_fits)
        return DT_OK;
    dt_status status = dt_store_check_schema(h->session.store, err);
    h->schema_fits = status == DT_OK;
    return status;
}

/* Whatever else is wrong: a list that is not read again lets in whom it should not. */
static dt_status load_tokens(dt_health *h, struct dt_error *err)
{
    bool due = h->ticks % 2 == 0 || !dt_auth_known(h->auth);
    return due ? dt_auth_load(h->auth, h->session.store, err) : DT_OK;
}

static dt_status look_at_mysql(dt_health *h, struct dt_error *err)
{
    dt_store *store = h->session.store;
    dt_status status = dt_store_ping(store, err);
    if (status != DT_OK)
        return status;
    status = check_schema(h, err);
    dt_status known = load_tokens(h, status == DT_OK ? err : NULL);
    if (status == DT_OK)
        status = known;
    if (status == DT_OK)
        status = dt_topic_cache_refresh(h->topics, store, err);
    if (status == DT_OK)
        status = dt_topic_cache_refresh_shards(h->topics, store, err);
    return status;
}

static bool look_at_redis(dt_health *h)
{
    struct dt_view *view = dt_topic_cache_view(h->topics);
    if (!view)
        return false;
    dt_status status = DT_OK;
    if (!h->index)
        status = dt_index_new(h->config, view->installation.name, h->clock, &h->index, NULL);
    dt_view_release(view);
    return status == DT_OK && dt_index_ping(h->index, NULL) == DT_OK;
}

static void publish(dt_health *h, dt_status status, const struct dt_error *err, bool redis)
{
    pthread_mutex_lock(&h->lock);
    dt_status before = h->state.mysql;
    h->state.mysql = status;
    h->state.redis = redis;
    snprintf(h->state.mysql_text, sizeof(h->state.mysql_text), "%s",
             status == DT_OK ? "" : (err->text[0] ? err->text : dt_status_text(status)));
    pthread_mutex_unlock(&h->lock);
    dt_metric_set(h->mysql_up, status == DT_OK);
    dt_metric_set(h->redis_up, redis);
    if (before != status && status == DT_OK)
        DT_LOG(INFO, "health", "MySQL is ready");
    else if (before != status)
        DT_LOG(WARN, "health", "MySQL is not ready", DT_S("status", dt_status_name(status)), DT_S("error", err->text));
}

static void look(dt_health *h)
{
    struct dt_error err = {0};
    dt_status status = dt_session_begin(&h->session, &err);
    if (status == DT_OK)
        status = look_at_mysql(h, &err);
    if (status != DT_OK)
        h->schema_fits = false; /* it may be another server when it comes back */
    dt_session_end(&h->session);
    bool redis = h->ticks % 2 == 0 ? look_at_redis(h) : h->state.redis; /* only this thread writes it */
    publish(h, status, &err, redis);
    h->ticks++;
}

/* True: stop. */
static bool pause_ms(dt_health *h, int64_t ms)
{
    int64_t until_us = dt_clock_mono_us(h->clock) + ms * 1000;
    struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    pthread_mutex_lock(&h->lock);
    while (!h->stopping && pthread_cond_timedwait(&h->wake, &h->lock, &until) != ETIMEDOUT)
        continue;
    bool stop = h->stopping;
    pthread_mutex_unlock(&h->lock);
    return stop;
}

static void *run(void *arg)
{
    dt_health *h = arg;
    while (!pause_ms(h, TICK_MS))
        look(h);
    dt_session_clear(&h->session);
    return NULL;
}

/* ---- beginning and end ---- */

static void init_lock(dt_health *h)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, &attr);
    pthread_condattr_destroy(&attr);
}

dt_status dt_health_start(const struct dt_config *config, const dt_clock *clock, dt_refclock *ref,
                          dt_topic_cache *topics, dt_auth *auth, dt_health **out, struct dt_error *err)
{
    *out = NULL;
    dt_health *h = calloc(1, sizeof(*h));
    if (!h)
        return dt_fail(err, DT_NOMEM, "no memory for the health thread");
    h->config = config;
    h->clock = clock;
    h->ref = ref;
    h->topics = topics;
    h->auth = auth;
    h->state.mysql = DT_SHUTDOWN; /* not looked at yet: the first look is news, whatever it finds */
    h->mysql_up = dt_gauge("duetime_api_mysql_up", "1 = MySQL answers and has the schema.", "");
    h->redis_up = dt_gauge("duetime_api_redis_up", "1 = every Redis endpoint answers.", "");
    init_lock(h);
    dt_status status = dt_session_init(&h->session, config, clock, ref);
    if (status == DT_OK)
        look(h);
    if (status == DT_OK && pthread_create(&h->thread, NULL, run, h) != 0) {
        dt_session_clear(&h->session);
        status = DT_SYSTEM;
    }
    if (status != DT_OK) {
        dt_health_free(h);
        return dt_fail(err, status, "the health thread cannot start");
    }
    *out = h;
    return DT_OK;
}

void dt_health_stop(dt_health *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
}

void dt_health_free(dt_health *h)
{
    if (!h)
        return;
    dt_index_free(h->index);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->wake);
    free(h);
}
