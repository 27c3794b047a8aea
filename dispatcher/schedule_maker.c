/*
 * Makes the jobs of schedules; a tick:
 *
 * one transaction in MySQL (inserts jobs, writes the progress of their schedules) ─▶ update the index
 *
 * If the process is killed, the next tick makes the jobs that were not committed, and the reconciler finds jobs that
 * are missing in the index, usually long before they are due. When an API creates or changes a schedule, the API makes
 * the schedule's next fires. If a schedule is due earlier, the process's watcher (dispatch/watch.h) wakes this chore.
 * Without the watcher, this chore polls every LOOK_US.
 */
#include "intake.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/metrics.h"
#include "features/schedules/schedules.h"

/* LOOK_US: longest time between two polls. It may be this long, because fires are made a minute ahead, and the API that
 * changes a schedule makes the schedule's next fires. */
#define LOOK_US   INT64_C(10000000)
#define RETRY_US  INT64_C(500000)
#define LOCKED_US INT64_C(50000)    /* pause if other dispatchers have locked all due schedules */
#define ZONES_US  INT64_C(60000000) /* time between two checks for a new tzdata */

struct seen_zone {
    struct seen_zone *next;
    int64_t stamp;
    char name[DT_ZONE_NAME_MAX + 1];
};

struct dt_schedule_maker {
    struct dt_resting resting;
    const struct dt_process_env *env;
    struct dt_arena arena;
    dt_index *index;
    dt_zone_files *zones;
    struct dt_fire_maker fires;
    struct seen_zone *seen;
    int64_t zones_us; /* mono: when to check next whether tzdata has changed */
    dt_metric *made, *skipped, *returned;
};

/* ---- a new tzdata ---- */

/* If the file of a time zone has changed, or if this process sees the zone for the first time, makes all schedules of
 * the zone due. If two hosts have different versions of tzdata, each does this once. */
static void replan_changed_zones(struct dt_schedule_maker *m)
{
    struct dt_schedule_zones zones;
    struct dt_error err = {0};
    if (dt_clock_mono_us(m->env->clock) < m->zones_us)
        return;
    m->zones_us = dt_clock_mono_us(m->env->clock) + ZONES_US;
    dt_arena_reset(&m->arena);
    dt_status status = dt_store_schedule_zones(m->fires.store, &m->arena, &zones, &err);
    for (size_t i = 0; i < zones.n && status == DT_OK; i++) {
        const struct dt_str name = zones.v[i];
        struct seen_zone *z = m->seen;
        dt_zone *zone;
        uint64_t n = 0;
        if (dt_zone_files_get(m->zones, name, &zone, NULL) != DT_OK)
            continue; /* no log line, because the schedules of this zone report the problem */
        int64_t stamp = dt_zone_stamp(zone);
        dt_zone_free(zone);
        while (z && !dt_str_is(name, z->name))
            z = z->next;
        if (z && z->stamp == stamp)
            continue;
        if (!z) {
            if (name.n > DT_ZONE_NAME_MAX || !(z = calloc(1, sizeof(*z))))
                continue;
            memcpy(z->name, name.p, name.n);
            z->next = m->seen;
            m->seen = z;
        }
        status = dt_store_schedule_zone_is(m->fires.store, name, stamp, &n, &err);
        z->stamp = status == DT_OK ? stamp : ~stamp;
        if (n)
            DT_LOG(INFO, "schedules", "fires are computed again: the tzdata changed", DT_S("zone", z->name),
                   DT_I("schedules", n));
    }
    if (status != DT_OK)
        (void)dt_chore_failed(&m->resting.chore, DT_OUTAGE_MYSQL, "schedules are not checked for a new tzdata", status,
                              &err, 0);
}

/* ---- a tick ---- */

static int64_t tick_schedules(void *arg, void *store)
{
    struct dt_schedule_maker *m = arg;
    struct dt_fires_made made = {0};
    struct dt_error err = {0};
    atomic_store(&m->resting.rests, false);
    m->fires.store = store;
    replan_changed_zones(m);
    dt_arena_reset(&m->arena);
    dt_status status = dt_store_make_fires(&m->fires, &made, &err);
    int64_t now_us = dt_clock_mono_us(m->env->clock);
    if (status == DT_UNKNOWN && m->index) /* MySQL may have committed jobs that are not in the index */
        m->env->index_entries_lost(m->env->arg, m->index);
    if (status != DT_OK)
        return dt_chore_failed(&m->resting.chore, DT_OUTAGE_MYSQL, "schedules create no jobs", status, &err, RETRY_US);
    dt_metric_add(m->made, (int64_t)made.made);
    dt_metric_add(m->skipped, (int64_t)made.skipped);
    dt_metric_add(m->returned, (int64_t)made.returned);
    dt_intake_tell_index(m->env, m->index, &m->arena, m->fires.moves, m->fires.n_moves);
    int64_t next_us = made.next_look_ms ? dt_refclock_mono_us_at(m->env->ref, made.next_look_ms) : INT64_MAX;
    const bool rests = made.schedules || next_us > now_us;
    atomic_store(&m->resting.rests, rests);
    return dt_earlier(rests ? next_us : now_us + LOCKED_US, now_us + LOOK_US);
}

dt_status dt_schedule_maker_start(const struct dt_process_env *env, struct dt_resting **out, struct dt_error *err)
{
    const char *name = "duetime_fires_total";
    const char *help = "Fires of schedules, by outcome.";
    struct dt_schedule_maker *m = calloc(1, sizeof(*m));
    if (!m)
        return DT_NOMEM;
    m->env = env;
    m->made = dt_counter(name, help, "outcome=\"made\"");
    m->skipped = dt_counter(name, help, "outcome=\"overlap\"");
    m->returned = dt_counter(name, help, "outcome=\"returned\"");
    m->resting.chore = (struct dt_chore){.name = "schedules", .tick = tick_schedules, .arg = m};
    dt_status status = dt_zone_files_new(NULL, &m->zones);
    DT_THEN(status, dt_index_new(env->config, env->installation, env->clock, &m->index, err));
    m->fires = (struct dt_fire_maker){.zones = m->zones, .arena = &m->arena};
    if (status != DT_OK) {
        dt_schedule_maker_stop(&m->resting);
        return status;
    }
    dt_chores_add(env->chores, &m->resting.chore);
    *out = &m->resting;
    return DT_OK;
}

void dt_schedule_maker_stop(struct dt_resting *resting)
{
    struct dt_schedule_maker *m = (struct dt_schedule_maker *)resting; /* resting is its first member */
    if (!m)
        return;
    dt_chore_remove(&m->resting.chore);
    for (struct seen_zone *z = m->seen, *next; z; z = next) {
        next = z->next;
        free(z);
    }
    dt_index_free(m->index);
    dt_zone_files_free(m->zones);
    dt_arena_clear(&m->arena);
    free(m);
}
