/*
 * A loop of bounded steps. The reconciler says when it wants to be called next; promotion and purge run in the process
 * that leads the lowest shard (two at once do no harm: every step is idempotent), a step after the other with a pause
 * between, so that they never hold up anything; what leaders say about their shards is written once a period.
 */
#include "housekeeper.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/metrics.h"
#include "index/index.h"
#include "store/store_dispatch.h"

#define STEP_ROWS     1000
#define STEP_PAUSE_US INT64_C(20000)
#define IDLE_US       INT64_C(5000000)
#define SHARD_WORDS   (DT_SHARDS_MAX / 32)

struct dt_housekeeper {
    struct dt_housekeeper_env env;
    pthread_t thread;
    dt_mailbox *mailbox;
    _Atomic bool stop;
    _Atomic uint32_t lost[SHARD_WORDS];
    dt_store *store;
    dt_index *index;
    int64_t chores_us, stats_us; /* mono: not before */
    dt_metric *promoted, *purged;
};

static int64_t mono_us(const dt_housekeeper *h)
{
    return dt_clock_mono_us(h->env.clock);
}
static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool keeps_house(const dt_housekeeper *h)
{
    struct dt_loop_state state;
    return h->env.state(h->env.arg, 0, &state) && state.leading;
}

/* One step of each; true: there is more. */
static bool do_chores(dt_housekeeper *h)
{
    struct dt_error err = {0};
    size_t promoted = 0, purged = 0;
    int64_t now_ms = dt_refclock_earliest_ms(h->env.ref);
    dt_status status = dt_store_promote(h->store, now_ms, STEP_ROWS, &promoted, &err);
    if (status == DT_OK)
        status = dt_store_purge(h->store, now_ms, STEP_ROWS, &purged, &err);
    if (status != DT_OK)
        DT_LOG(WARN, "housekeeper", "chores wait", DT_S("status", dt_status_name(status)), DT_S("reason", err.text));
    dt_metric_add(h->promoted, (int64_t)promoted);
    dt_metric_add(h->purged, (int64_t)purged);
    return status == DT_OK && (promoted == STEP_ROWS || purged > 0);
}

static void chores(dt_housekeeper *h)
{
    if (mono_us(h) < h->chores_us)
        return;
    bool more = keeps_house(h) && do_chores(h);
    h->chores_us = mono_us(h) + (more ? STEP_PAUSE_US : earlier(IDLE_US, h->env.config->reconcile_period * 1000));
}

static dt_status write_stats(dt_housekeeper *h, struct dt_error *err)
{
    struct dt_shard_stats stats[64];
    struct dt_loop_state states[64];
    size_t n = 0;
    dt_status status = DT_OK;
    for (unsigned shard = 0; shard < h->env.shards && status == DT_OK; shard++) {
        if (!h->env.state(h->env.arg, shard, &states[n]) ||
            (!states[n].leading && !states[n].halted && !states[n].waiting))
            continue;
        stats[n] = (struct dt_shard_stats){.shard = shard,
                                           .epoch = states[n].marker.epoch,
                                           .waiting = states[n].waiting,
                                           .detail = states[n].detail[0] ? states[n].detail : NULL};
        if (++n == 64) {
            status = dt_store_put_stats(h->store, stats, n, err);
            n = 0;
        }
    }
    return status == DT_OK && n ? dt_store_put_stats(h->store, stats, n, err) : status;
}

static void tell_stats(dt_housekeeper *h)
{
    struct dt_error err = {0};
    if (mono_us(h) < h->stats_us)
        return;
    h->stats_us = mono_us(h) + earlier(IDLE_US, h->env.config->reconcile_period * 1000);
    if (write_stats(h, &err) != DT_OK)
        DT_LOG(DEBUG, "housekeeper", "nothing said about shards", DT_S("reason", err.text));
}

static void *run(void *arg)
{
    dt_housekeeper *h = arg;
    while (!h->stop) {
        chores(h);
        tell_stats(h);
        dt_mailbox_wait(h->mailbox, earlier(h->chores_us, h->stats_us));
    }
    return NULL;
}

static void free_parts(dt_housekeeper *h)
{
    dt_index_free(h->index);
    dt_store_free(h->store);
    dt_mailbox_free(h->mailbox);
    free(h);
}

dt_status dt_housekeeper_start(const struct dt_housekeeper_env *env, dt_housekeeper **out, struct dt_error *err)
{
    dt_housekeeper *h = calloc(1, sizeof *h);
    if (!h)
        return DT_NOMEM;
    h->env = *env;
    h->promoted = dt_counter("duetime_promoted_total", "Jobs whose day came near.", "");
    h->purged = dt_counter("duetime_purged_total", "Finished jobs deleted after their retention.", "");
    dt_status status = dt_mailbox_new(&h->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, env->ref, &h->store);
    if (status == DT_OK)
        status = dt_index_new(env->config, env->installation, env->clock, &h->index, err);
    if (status == DT_OK && pthread_create(&h->thread, NULL, run, h) != 0)
        status = dt_fail(err, DT_SYSTEM, "no thread for the housekeeper");
    if (status != DT_OK) {
        free_parts(h);
        return status;
    }
    *out = h;
    return DT_OK;
}

void dt_housekeeper_rebuild(dt_housekeeper *h, unsigned shard)
{
    if (!h)
        return;
    atomic_fetch_or(&h->lost[shard / 32], UINT32_C(1) << (shard % 32));
    dt_mailbox_signal(h->mailbox, 1);
}

void dt_housekeeper_stop(dt_housekeeper *h)
{
    if (!h)
        return;
    h->stop = true;
    dt_mailbox_signal(h->mailbox, 1);
    pthread_join(h->thread, NULL);
    free_parts(h);
}
