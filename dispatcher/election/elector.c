/*
 * Owns:            the elector's thread, its functions for other threads, and the choice of the implementation.
 * Refuses to know: how leaders are found (elector_zk.c, elector_mysql.c), and what leading a shard means. The election
 *                  only decides which process tries; MySQL and Kafka ensure safety.
 *
 * Invariant: the events gained, release and lost are called on the elector's thread only. If this process's lease ends,
 * all of its shards are lost at that time.
 */
#include "elector.h"

#include "base/log.h"
#include "base/metrics.h"
#include "elector_kind.h"

#define IO_FLOOR_MS INT64_C(1000) /* minimum, because MySQL's client library counts timeouts in whole seconds */

static const struct dt_elector_kind *kind_of(const struct dt_config *config)
{
    return config->zookeeper_servers && config->zookeeper_servers[0] ? &dt_elector_zk : &dt_elector_mysql;
}

const char *dt_elector_name(const struct dt_config *config)
{
    return kind_of(config)->name;
}

enum dt_outage_of dt_elector_server(const struct dt_config *config)
{
    return kind_of(config)->server;
}

struct dt_config dt_lease_config(const struct dt_config *config)
{
    struct dt_config hasty = *config;
    const int64_t most_ms = dt_later(config->zookeeper_session_timeout * 2 / 3, IO_FLOOR_MS);
    hasty.mysql_io_timeout = dt_earlier(config->mysql_io_timeout, most_ms);
    hasty.mysql_connect_timeout = dt_earlier(config->mysql_connect_timeout, most_ms);
    hasty.mysql_lock_timeout = dt_earlier(config->mysql_lock_timeout, most_ms);
    return hasty;
}

void dt_elector_step(dt_elector *e, uint32_t signals)
{
    e->kind->step(e, signals);
}

int64_t dt_elector_next_us(const dt_elector *e)
{
    return e->kind->next_us(e);
}

static void run_elector(void *arg)
{
    dt_elector *e = arg;
    uint32_t signals = 0;
    while (!dt_thread_stopping(&e->thread)) {
        dt_elector_step(e, signals);
        signals = dt_mailbox_wait(e->box, dt_elector_next_us(e));
    }
    e->kind->close(e);
}

/* ---- any thread ---- */

void dt_elector_released(dt_elector *e, unsigned shard)
{
    if (shard >= DT_SHARDS_MAX)
        return;
    atomic_store(&e->released[shard], true);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

bool dt_elector_leads(const dt_elector *e, unsigned shard)
{
    return shard < DT_SHARDS_MAX && atomic_load(&e->leads[shard]) &&
           dt_lease_runs(&e->lease, dt_clock_mono_us(e->clock));
}

bool dt_elector_rank(const dt_elector *e, unsigned *rank, unsigned *members)
{
    const uint64_t place = atomic_load(&e->place);
    *rank = (unsigned)(place & UINT32_MAX);
    *members = (unsigned)(place >> 32);
    return place != 0;
}

static unsigned clamp_shards(unsigned shards)
{
    return shards < DT_SHARDS_MAX ? shards : (unsigned)DT_SHARDS_MAX;
}

void dt_elector_set_shards(dt_elector *e, unsigned shards)
{
    atomic_store(&e->shards, clamp_shards(shards));
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

void dt_elector_news(dt_elector *e)
{
    atomic_store(&e->news, true);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

void dt_elector_leave(dt_elector *e)
{
    atomic_store(&e->leaving, true);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

bool dt_elector_idle(const dt_elector *e)
{
    return atomic_load(&e->n_leads) == 0;
}

static void free_elector(dt_elector *e)
{
    dt_mailbox *box = e->box;
    e->kind->free(e);
    dt_mailbox_free(box);
}

void dt_elector_stop(dt_elector *e)
{
    if (!e)
        return;
    dt_thread_stop(&e->thread, e->box);
    free_elector(e);
}

dt_status dt_elector_new(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err)
{
    const struct dt_elector_kind *kind = kind_of(env->config);
    dt_mailbox *box = NULL;
    dt_elector *e = NULL;
    *out = NULL;
    if (dt_mailbox_new(&box) != DT_OK)
        return dt_fail(err, DT_NOMEM, "out of memory");
    const dt_status status = kind->make(env, box, &e, err);

    if (status != DT_OK) {
        dt_mailbox_free(box);
        return status;
    }
    e->kind = kind;
    e->clock = env->clock;
    e->events = env->events;
    e->box = box;
    atomic_store(&e->shards, clamp_shards(env->shards));
    *out = e;
    return DT_OK;
}

dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err)
{
    dt_status status = dt_elector_new(env, out, err); /* *out is set before any callback */
    DT_THEN(status, dt_thread_start(&(*out)->thread, "election", run_elector, *out, err));
    if (status == DT_OK) { /* reports the kind of election, once per process */
        const char *by = (*out)->kind->name;
        char label[32];

        snprintf(label, sizeof(label), "by=\"%s\"", by);
        dt_metric_set(
            dt_gauge("duetime_election",
                     "Always 1; the label by says what elects the leaders of shards: zookeeper, or mysql (leases).",
                     label),
            1);
        DT_LOG(INFO, "elector", "leaders are elected", DT_S("by", by));
    }
    if (status != DT_OK && *out) {
        free_elector(*out);
        *out = NULL;
    }
    return status;
}
