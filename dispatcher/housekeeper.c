/*
 * Each tick of the four chores (housekeeper.h) is a bounded step. The reconciler decides when its next tick runs.
 * Promotion and the archive of finished jobs run in the process that the election names for the lowest shard, one step
 * after the other with pauses. (If two processes run them at once, nothing breaks, because every step is idempotent.)
 * The state of the shards led by this process is written within a second of a change, and once a period while there is
 * something to report. The reconciler's chore writes it, because only this chore may read the reconciler's figures.
 *
 * The process that archives also audits the counters of jobs (counts.c), one piece a tick, in steps of AUDIT_ROWS: if
 * nothing else is due, one piece in each [reconcile] audit, and never more than 1/AUDIT_SHARE of the time.
 *
 * Partitions of history are created a day or two ahead. They are checked once in PARTS_US, and at once if the archiver
 * misses one. If a partition cannot be created (a reader blocks it, or there is no right to ALTER), the archiver uses
 * `rest` until the next check: jobs never wait for partitions.
 */
#include "housekeeper.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/metrics.h"
#include "dispatch/pop.h"
#include "dispatch/shards.h"
#include "events/events.h"
#include "index/index.h"
#include "index/reconcile/reconcile.h"
#include "job/archive/archive.h"
#include "shard/shard_loop.h"
#include "topic/counts.h"

#define STATS_AT_ONCE 64
#define STEP_ROWS     1000
#define STEP_PAUSE_US INT64_C(20000)
#define IDLE_US       INT64_C(5000000)
#define NEWS_US       INT64_C(1000000) /* time between two checks whether the states of shards have changed */
#define DEFAULT_ROWS  200
#define KEY_ROWS      500
#define PARTS_US      INT64_C(300000000) /* time between two checks of history's partitions */
#define PARTS_SOON_US INT64_C(10000000)  /* pause after a failed or incomplete check of history's partitions */
#define DAYS_AHEAD    2
#define NOTICES_US    INT64_C(300000000) /* time between two searches for notices that no process sends */
/* Age from which on a notice is dropped; longer than a restart that removes or adds Kafka. */
#define NOTICES_MS INT64_C(3600000)
#define OFFER_ROWS 1000
#define WALK_US    INT64_C(10000000) /* time between the begins of two walks over all offers */
/* Time between two steps of a walk over all offers; longer if a step found nothing. */
#define OFFERS_US  INT64_C(200000)
#define AUDIT_ROWS 20000
/* At most 1/AUDIT_SHARE of the time is spent on audits: a piece that takes 20 ms is followed by a pause of 2 s. */
#define AUDIT_SHARE 100

struct dt_housekeeper {
    const struct dt_process_env *env;
    struct dt_chore reconciles, archives, tidies, audits;
    dt_index *index;

    /* State of the reconciler's ticks. */
    dt_reconciler *reconciler;
    _Atomic bool hurry;               /* a shard's set was lost, so the next tick runs now */
    uint64_t doubts[DT_SHARDS_MAX];   /* by shard: count of doubts (state.doubts) when this tick began */
    uint64_t compared[DT_SHARDS_MAX]; /* by shard: count of doubts (state.doubts) when the running compare began */
    /* By shard that this process leads: losses that its leader has counted (state.losses) when this tick began. */
    uint64_t losses[DT_SHARDS_MAX];
    /* mono: when the reconciler runs next; when the states of shards are checked next. */
    int64_t reconcile_us, stats_us;
    uint64_t told;   /* hash of the states of shards as last written */
    int64_t told_us; /* mono: when the states of shards were last written */

    /* State of the archive's ticks. */
    int64_t parts_us;   /* mono: when partitions are checked next */
    int64_t notices_us; /* mono: when notices that no process sends are searched for next */
    struct dt_archiver archiver;
    bool failed;       /* a part of the archive has failed in this tick */
    bool idle, rested; /* idle: the last complete tick found nothing to do; rested: the current tick only promotes */

    struct dt_offers_walk offers;
    dt_audit *audit;
    dt_metric *overdue, *held, *promoted, *moved, *purged, *freed, *dropped, *audited, *corrected, *offers_repaired;
};

static unsigned number_of_shards(const dt_housekeeper *h)
{
    return h->env->shards(h->env->arg);
}

/* Returns whether this process promotes and archives: the election names it for shard 0. It need not lead the shard,
 * because jobs must be promoted and archived even if Kafka is down or the shard is halted. */
static bool runs_archive(const dt_housekeeper *h)
{
    struct dt_loop_state state;
    return dt_loop_table_state(h->env->loops, 0, &state);
}

/* Logs a failure. The archive's next tick runs when it would have run without the failure. */
static void log_archive_failure(dt_housekeeper *h, const char *what, dt_status status, const struct dt_error *err)
{
    if (status == DT_OK)
        return;
    h->failed = true;
    (void)dt_chore_failed(&h->archives, DT_OUTAGE_MYSQL, what, status, err, 0);
}

static void maintain_partitions(dt_housekeeper *h, dt_store *store, int64_t now_ms, const struct dt_wanted *wanted)
{
    struct dt_error err = {0};
    struct dt_tended done;
    dt_status status = dt_store_partitions_tend(store, now_ms, wanted, &h->archiver.partitions, &done, &err);
    log_archive_failure(h, "partitions of history are not added or dropped", status, &err);
    h->archiver.make_do = status != DT_OK;
    h->parts_us = dt_clock_mono_us(h->env->clock) + (status != DT_OK || done.more ? PARTS_SOON_US : PARTS_US);
    dt_metric_add(h->dropped, done.dropped);
}

/* Archives some jobs, frees some keys, and empties some of the default partition (`rest` in SQL). Returns whether there
 * is more to do. */
static bool archive_some_jobs(dt_housekeeper *h, dt_store *store, int64_t now_ms)
{
    struct dt_error err = {0};
    struct dt_archived archived;
    size_t freed = 0;
    size_t sorted = 0;
    dt_status status = dt_store_archive(store, &h->archiver, now_ms, STEP_ROWS, &archived, &err);
    log_archive_failure(h, "finished jobs are not moved to history or removed", status, &err);
    bool misses = status == DT_OK && archived.wanted.n;
    if (misses)
        maintain_partitions(h, store, now_ms, &archived.wanted);
    dt_metric_add(h->moved, (int64_t)archived.moved);
    dt_metric_add(h->purged, (int64_t)archived.removed);
    status = dt_store_free_keys(store, now_ms, KEY_ROWS, &freed, &err);
    if (status == DT_OK && h->archiver.partitions.read)
        status = dt_store_sort_default(store, &h->archiver, now_ms, DEFAULT_ROWS, &sorted, &err);
    log_archive_failure(h, "keys of finished jobs are not freed, or history is not sorted into its partitions", status,
                        &err);
    dt_metric_add(h->freed, (int64_t)freed);
    return archived.more || misses || (status == DT_OK && (freed == KEY_ROWS || sorted > 0));
}

/* If there is no Kafka, drops old notices that a process with Kafka wrote: they will never be sent, and their jobs
 * could not be archived. */
static bool drop_old_notices(dt_housekeeper *h, dt_store *store, int64_t now_ms)
{
    struct dt_error err = {0};
    size_t done = 0;
    if (dt_config_has_kafka(h->env->config) || dt_clock_mono_us(h->env->clock) < h->notices_us)
        return false;
    dt_status status = dt_store_give_up_notices(store, now_ms - NOTICES_MS, STEP_ROWS, &done, &err);
    log_archive_failure(h, "dead letters for a Kafka that is no longer configured are not removed", status, &err);
    if (done)
        DT_LOG(WARN, "housekeeper", "dead letters were given up: this installation no longer has a Kafka",
               DT_I("notices", done));
    bool more = status == DT_OK && done == STEP_ROWS;
    h->notices_us = more ? 0 : dt_clock_mono_us(h->env->clock) + NOTICES_US;
    return more;
}

/* Does one step of each part of the archive. Returns whether there is more to do. */
static bool run_archive_steps(dt_housekeeper *h, dt_store *store)
{
    struct dt_error err = {0};
    struct dt_wanted wanted;
    size_t promoted = 0;
    int64_t now_ms = dt_refclock_earliest_ms(h->env->ref);
    h->failed = false;
    dt_status status = dt_store_promote(store, now_ms, STEP_ROWS, &promoted, &err);
    log_archive_failure(h, "jobs that fall due soon are not marked as near in MySQL", status, &err);
    dt_metric_add(h->promoted, (int64_t)promoted);
    if (status != DT_OK)
        return promoted == STEP_ROWS;
    h->rested = h->idle && !h->rested; /* while nothing is to be done, every second tick only promotes */
    if (h->rested)
        return promoted == STEP_ROWS;
    if (dt_clock_mono_us(h->env->clock) >= h->parts_us) {
        h->parts_us = dt_clock_mono_us(h->env->clock) + PARTS_SOON_US;
        status = dt_store_events_tend(store, now_ms, h->env->config->events_keep, &err);
        log_archive_failure(h, "partitions of events are not added or dropped", status, &err);
        status = dt_store_partitions_ahead(store, now_ms, DAYS_AHEAD, &wanted, &err);
        log_archive_failure(h, "partitions of history are not added or dropped", status, &err);
        if (status == DT_OK)
            maintain_partitions(h, store, now_ms, &wanted);
    }
    bool gives_up = drop_old_notices(h, store, now_ms), archives = archive_some_jobs(h, store, now_ms);
    h->idle = !h->failed && !archives && !gives_up;
    return promoted == STEP_ROWS || archives || gives_up;
}

static int64_t tick_archive(void *arg, void *store)
{
    dt_housekeeper *h = arg;
    const bool more = runs_archive(h) && run_archive_steps(h, store);
    const int64_t idle_us = dt_earlier(IDLE_US, h->env->config->reconcile_period * 1000);
    return dt_clock_mono_us(h->env->clock) + (more ? STEP_PAUSE_US : idle_us);
}

/* Does one step of the walk over all offers. */
static int64_t tick_cleanup(void *arg, void *store)
{
    dt_housekeeper *h = arg;
    struct dt_error err = {0};
    size_t repaired = 0;
    bool more = false;
    const int64_t now_ms = dt_refclock_earliest_ms(h->env->ref);
    const dt_status status =
        runs_archive(h) ? dt_store_tidy_offers(store, &h->offers, now_ms, OFFER_ROWS, &repaired, &more, &err) : DT_OK;
    if (status != DT_OK)
        (void)dt_chore_failed(&h->tidies, DT_OUTAGE_MYSQL, "offers to pops are not checked", status, &err, 0);
    dt_metric_add(h->offers_repaired, (int64_t)repaired);
    const int64_t pause_us = repaired == OFFER_ROWS ? STEP_PAUSE_US : OFFERS_US;
    return dt_clock_mono_us(h->env->clock) +
           (more ? pause_us : dt_earlier(WALK_US, 2 * h->env->config->reconcile_period * 1000));
}

/* Audits one piece of the counters, in one snapshot. */
static int64_t tick_audit(void *arg, void *store)
{
    dt_housekeeper *h = arg;
    struct dt_error err = {0};
    struct dt_audited audited = {0};
    dt_status status = DT_OK;
    const int64_t begun_us = dt_clock_mono_us(h->env->clock);
    const int64_t pause_us = h->env->config->reconcile_audit * 1000;
    while (status == DT_OK && !audited.done && runs_archive(h) && !dt_chore_stopping(&h->audits))
        status = dt_audit_step(h->audit, store, AUDIT_ROWS, &audited, &err);
    if (!audited.done)
        dt_audit_end(h->audit);
    if (status != DT_OK)
        (void)dt_chore_failed(&h->audits, DT_OUTAGE_MYSQL, "the counters are not audited", status, &err, 0);
    dt_metric_add(h->audited, audited.rows);
    dt_metric_add(h->corrected, audited.corrected);
    if (audited.corrected)
        DT_LOG(WARN, "housekeeper", "counters were corrected: jobs were edited manually", DT_I("piece", audited.piece),
               DT_I("jobs", audited.corrected), DT_I("of", audited.rows));
    const int64_t now_us = dt_clock_mono_us(h->env->clock);
    return now_us + dt_later(AUDIT_SHARE * (now_us - begun_us), pause_us);
}

static bool is_worth_reporting(const struct dt_loop_state *state)
{
    return state->leading || state->halted || state->waiting;
}

static struct dt_shard_stats shard_stats_of(dt_housekeeper *h, unsigned shard, const struct dt_loop_state *state)
{
    struct dt_reconcile_stats seen;
    dt_reconciler_stats(h->reconciler, shard, &seen);
    return (struct dt_shard_stats){.shard = shard,
                                   .epoch = state->marker.epoch,
                                   .waiting = state->waiting,
                                   .callbacks = state->callbacks,
                                   .detail = state->detail[0] ? state->detail : NULL,
                                   .generation = state->generation,
                                   .drains = state->drains,
                                   .held = seen.held,
                                   .overdue = seen.overdue,
                                   .oldest_due_at_ms = seen.oldest_due_at_ms,
                                   .drift_missing = seen.drift_missing,
                                   .drift_extra = seen.drift_extra,
                                   .drift_wrong = seen.drift_wrong};
}

/* Writes the states of shards, up to STATS_AT_ONCE in one statement. */
static dt_status write_stats(dt_housekeeper *h, dt_store *store, struct dt_error *err)
{
    struct dt_shard_stats stats[STATS_AT_ONCE];
    struct dt_loop_state states[STATS_AT_ONCE];
    size_t n = 0;
    dt_status status = DT_OK;
    for (unsigned shard = 0, all = number_of_shards(h); shard < all && status == DT_OK; shard++) {
        if (!dt_loop_table_state(h->env->loops, shard, &states[n]) || !is_worth_reporting(&states[n]))
            continue;
        stats[n] = shard_stats_of(h, shard, &states[n]);
        if (++n == STATS_AT_ONCE) {
            status = dt_store_put_stats(store, stats, n, err);
            n = 0;
        }
    }
    return status == DT_OK && n ? dt_store_put_stats(store, stats, n, err) : status;
}

/* Returns a hash of what the rows of shards should say. *live: some shard waits for something, or has due jobs. Also
 * sets the gauges, from the reconciler's latest figures of the shards that this process leads. */
static uint64_t hash_shard_reports(dt_housekeeper *h, bool *live)
{
    struct dt_loop_state state;
    uint64_t number = 1;
    int64_t overdue = 0;
    int64_t held = 0;
    *live = false;
    for (unsigned shard = 0, all = number_of_shards(h); shard < all; shard++) {
        if (!dt_loop_table_state(h->env->loops, shard, &state) || !is_worth_reporting(&state))
            continue;
        struct dt_shard_stats stats = shard_stats_of(h, shard, &state);
        const char *const words[] = {stats.waiting, stats.callbacks, stats.detail};
        overdue += state.leading ? stats.overdue : 0;
        held += state.leading ? stats.held : 0;
        *live |= stats.waiting || stats.callbacks || stats.detail || stats.overdue || stats.held;
        number = number * 31 + shard * 7 + (uint64_t)stats.epoch * 5 + (uint64_t)stats.generation * 3 +
                 (uint64_t)stats.drains * 11 + (uint64_t)(stats.drift_missing + stats.drift_extra + stats.drift_wrong);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            for (const char *p = words[i] ? words[i] : "-"; *p; p++)
                number = number * 31 + (unsigned char)*p;
    }
    dt_metric_set(h->overdue, (double)overdue);
    dt_metric_set(h->held, (double)held);
    return number;
}

static void report_stats(dt_housekeeper *h, dt_store *store)
{
    struct dt_error err = {0};
    if (dt_clock_mono_us(h->env->clock) < h->stats_us)
        return;
    const int64_t period_us = dt_earlier(IDLE_US, h->env->config->reconcile_period * 1000);
    h->stats_us = dt_clock_mono_us(h->env->clock) + dt_earlier(NEWS_US, period_us);
    bool live = false;
    uint64_t news = hash_shard_reports(h, &live);
    if (news == h->told && dt_clock_mono_us(h->env->clock) - h->told_us < (live ? period_us : 2 * period_us))
        return;
    h->told = news;
    h->told_us = dt_clock_mono_us(h->env->clock);
    if (write_stats(h, store, &err) != DT_OK) {
        h->told = 0; /* the next check writes the states again */
        DT_LOG(DEBUG, "housekeeper", "the state of shards was not written", DT_S("reason", err.text));
    }
}

static void reconcile_shards(dt_housekeeper *h, dt_store *store)
{
    struct dt_shard_map map;
    struct dt_shard_set led = {0};
    struct dt_loop_state state;
    struct dt_reconcile_out out = {0};
    bool awaits_compare = false;
    if (!atomic_exchange(&h->hurry, false) && dt_clock_mono_us(h->env->clock) < h->reconcile_us)
        return;
    h->env->map(h->env->arg, &map);
    /* Notes losses and doubts of each shard's set before the compare. */
    for (unsigned shard = 0, all = number_of_shards(h); shard < all; shard++)
        if (dt_loop_table_state(h->env->loops, shard, &state) && state.leading) {
            dt_shard_set_add(&led, shard);
            h->losses[shard] = state.losses;
            h->doubts[shard] = state.doubts;
            awaits_compare |= state.awaits_compare;
        }
    struct dt_reconcile_in in = {
        store,          dt_clock_mono_us(h->env->clock), dt_refclock_earliest_ms(h->env->ref), &map, &led,
        awaits_compare, h->env->none_due(h->env->arg)};
    dt_reconcile_tick(h->reconciler, &in, &out);
    h->reconcile_us = out.next_us;
    if (out.near_begun)
        memcpy(h->compared, h->doubts, sizeof(h->compared));
    for (unsigned shard = 0, all = number_of_shards(h); shard < all; shard++) {
        if (dt_shard_set_has(&out.near, shard))
            dt_loop_table_tell_number(h->env->loops, shard, dt_shard_loop_index_compared, h->compared[shard]);
        if (dt_shard_set_has(&out.whole, shard))
            dt_loop_table_tell_number(h->env->loops, shard, dt_shard_loop_index_whole, h->losses[shard]);
        if (dt_shard_set_has(&out.wake, shard))
            dt_loop_table_tell(h->env->loops, shard, DT_LOOP_DUE);
        if (dt_shard_set_has(&out.held, shard))
            dt_loop_table_tell(h->env->loops, shard, DT_LOOP_AGAIN);
    }
}

static int64_t tick_reconcile(void *arg, void *store)
{
    dt_housekeeper *h = arg;
    reconcile_shards(h, store);
    report_stats(h, store);
    return dt_earlier(h->reconcile_us, h->stats_us);
}

dt_status dt_housekeeper_start(const struct dt_process_env *env, dt_housekeeper **out, struct dt_error *err)
{
    dt_housekeeper *h = calloc(1, sizeof(*h));
    if (!h)
        return DT_NOMEM;
    h->env = env;
    h->overdue = dt_gauge(
        "duetime_overdue_jobs",
        "Jobs of this process's shards that are overdue by more than a second, up to one page of the reconciler.", "");
    h->held = dt_gauge("duetime_held_jobs",
                       "Due jobs of paused topics in this process's shards; they are held, not overdue.", "");
    h->promoted = dt_counter("duetime_promoted_total", "Jobs marked as near in MySQL because they fall due soon.", "");
    h->moved = dt_counter("duetime_moved_total", "Finished jobs that moved to history.", "");
    h->purged = dt_counter("duetime_purged_total",
                           "Finished jobs removed from the live table at the end of their retention.", "");
    h->freed = dt_counter("duetime_keys_freed_total", "Keys of finished jobs that were freed.", "");
    h->dropped = dt_counter("duetime_history_partitions_dropped_total",
                            "Partitions of history dropped at the end of their retention.", "");
    h->audited = dt_counter("duetime_count_audited_jobs_total", "Jobs recounted by the audit of counters.", "");
    h->corrected =
        dt_counter("duetime_count_corrected_jobs_total",
                   "Jobs whose state differed from the counters: edited manually, or because of a fault.", "");
    h->offers_repaired =
        dt_counter("duetime_offers_repaired_total",
                   "Repaired offers: offers that no pop could take, and jobs whose offer was missing.", "");
    h->reconciles = (struct dt_chore){.name = "reconciler", .tick = tick_reconcile, .arg = h};
    h->archives = (struct dt_chore){.name = "housekeeper", .tick = tick_archive, .arg = h};
    h->tidies = (struct dt_chore){.name = "offers", .tick = tick_cleanup, .arg = h};
    h->audits = (struct dt_chore){.name = "audit", .tick = tick_audit, .arg = h};
    dt_status status = dt_audit_new(&h->audit);
    DT_THEN(status, dt_index_new(env->config, env->installation, env->clock, &h->index, err));
    DT_THEN(status, dt_reconciler_new(env->config, h->index, &h->reconciler, err));
    if (status != DT_OK) {
        dt_housekeeper_stop(h);
        return status;
    }
    dt_chores_add(env->chores, &h->reconciles);
    dt_chores_add(env->chores, &h->archives);
    dt_chores_add(env->chores, &h->tidies);
    dt_chores_add(env->chores, &h->audits);
    *out = h;
    return DT_OK;
}

static void request_reconcile(dt_housekeeper *h)
{
    h->hurry = true;
    dt_chore_wake(&h->reconciles);
}

void dt_housekeeper_rebuild(dt_housekeeper *h, unsigned shard)
{
    if (!h)
        return;
    dt_reconciler_lost(h->reconciler, shard);
    request_reconcile(h);
}

void dt_housekeeper_doubt(dt_housekeeper *h)
{
    if (!h)
        return;
    dt_reconciler_doubt(h->reconciler);
    request_reconcile(h);
}

void dt_housekeeper_stop(dt_housekeeper *h)
{
    if (!h)
        return;
    dt_chore_remove(&h->reconciles);
    dt_chore_remove(&h->archives);
    dt_chore_remove(&h->tidies);
    dt_chore_remove(&h->audits);
    dt_reconciler_free(h->reconciler);
    dt_audit_free(h->audit);
    dt_index_free(h->index);
    free(h);
}
