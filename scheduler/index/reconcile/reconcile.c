/*
 * The order and pace of the reconciler: which step a tick does, and when the next tick is due. repair.c compares and
 * repairs, rebuild.c rebuilds.
 *
 * A tick does the first of the following steps that is due: promote rows that a manual edit moved near; the near
 * window; this period's slice of overdue rows; the count of overdue rows; a step at the edge of the horizon; a page of
 * the rebuild; an exact compare that the full scan requested; a step of the full scan; more steps at the edge; one more
 * slice of a long overdue queue. So a rebuild never delays the near jobs of other shards, and a full scan never delays
 * a rebuild. The next period begins after the compares of this period, and after one step of work that belongs to no
 * period. If these steps take longer than a period, all work is slower, but no step is skipped.
 *
 * Invariants: a window contains only shards that this process leads and does not rebuild. A shard's loaded_ms is never
 * later than what was compared or added for the shard, so that loading does not count as drift, nor drift as loading.
 */
#include "reconcile.h"

#include "base/assert.h"
#include "base/log.h"
#include "reconcile_parts.h"

#define OVERDUE_MS       1000 /* rows that are due for longer than this are overdue */
#define OVERLAP_MS       2000 /* overlap of two compares of the horizon's edge: commits arrive out of order */
#define OVERDUE_PAUSE_US INT64_C(200000)
#define OVERDUE_SHARE    20             /* a long queue of overdue rows takes at most 1/OVERDUE_SHARE of the time */
#define SCAN_PAUSE_US    INT64_C(50000) /* shortest pause between two steps of the full scan */
#define SCAN_SHARE       3              /* pause after an exact compare of the full scan: multiple of its duration */
#define PROMOTE_ROWS     1000           /* rows of one step; the housekeeper promotes most rows of a day */
#define FAIL_PAUSE_US    INT64_C(1000000)
#define SCAN_STEPS       12   /* most steps of a round of the full scan, if rows are few */
#define EXACT_ROWS       1000 /* a step with at most this many rows is compared exactly: counting costs as much */
#define EXACT_ROUNDS     16   /* one of so many larger steps is compared exactly; a different one in each round */
#define UNSURE_US        INT64_C(250000) /* pause between periods while leaders wait for a compare */

/* ---- the handle ---- */

static dt_status scratch_alloc(dt_reconciler *r)
{
    size_t n = r->slice;
    bool whole = true;
    r->views = calloc(DT_SHARDS_MAX, sizeof(*r->views));
    r->page = malloc(n * sizeof(*r->page));
    r->rebuild.page = malloc(n * sizeof(*r->rebuild.page));
    r->rebuild.notes = malloc(DT_SHARDS_MAX * sizeof(*r->rebuild.notes));
    r->rebuild.told = malloc(DT_SHARDS_MAX * sizeof(*r->rebuild.told));
    r->entries = malloc(2 * n * sizeof(*r->entries));
    r->suspects = malloc(2 * n * sizeof(*r->suspects));
    r->fixes = malloc(2 * n * sizeof(*r->fixes));
    r->ids = malloc(2 * n * sizeof(*r->ids));
    r->scores = malloc(2 * n * sizeof(*r->scores));
    for (size_t i = 0; i < DT_WINDOWS; i++) {
        r->windows[i].rows = malloc(n * sizeof(*r->windows[i].rows));
        r->windows[i].matched = malloc(n * sizeof(*r->windows[i].matched));
        whole &= r->windows[i].rows && r->windows[i].matched;
    }
    return whole && r->views && r->page && r->rebuild.page && r->rebuild.notes && r->rebuild.told && r->entries &&
                   r->suspects && r->fixes && r->ids && r->scores
               ? DT_OK
               : DT_NOMEM;
}

dt_status dt_reconciler_new(const struct dt_config *config, dt_index *index, dt_reconciler **out, struct dt_error *err)
{
    dt_reconciler *r = calloc(1, sizeof(*r));
    *out = NULL;
    if (!r)
        return dt_fail(err, DT_NOMEM, "out of memory");
    r->config = config;
    r->index = index;
    r->slice = (size_t)config->reconcile_slice;
    if (scratch_alloc(r) != DT_OK) {
        dt_reconciler_free(r);
        return dt_fail(err, DT_NOMEM, "out of memory");
    }
    r->loaded = dt_counter("duetime_index_loaded_total",
                           "Index entries added because their jobs are due within the horizon.", "");
    r->rebuilt = dt_counter("duetime_index_rebuilt_total", "Index entries added to sets that Redis had lost.", "");
    r->failures = dt_counter("duetime_reconcile_failures_total",
                             "Comparisons of the index with MySQL that failed because a server did not answer.", "");
    *out = r;
    return DT_OK;
}

void dt_reconciler_free(dt_reconciler *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < DT_WINDOWS; i++) {
        free(r->windows[i].rows);
        free(r->windows[i].matched);
    }
    free(r->views);
    free(r->page);
    free(r->rebuild.page);
    free(r->rebuild.notes);
    free(r->rebuild.told);
    free(r->entries);
    free(r->suspects);
    free(r->fixes);
    free(r->ids);
    free(r->scores);
    free(r->held);
    dt_arena_clear(&r->arena);
    dt_arena_clear(&r->held_arena);
    free(r);
}

void dt_reconciler_lost(dt_reconciler *r, unsigned shard)
{
    if (shard < DT_SHARDS_MAX)
        atomic_fetch_or(&r->lost[shard / 64], UINT64_C(1) << (shard % 64));
}

void dt_reconciler_doubt(dt_reconciler *r)
{
    r->doubt = true;
}

void dt_reconciler_stats(const dt_reconciler *r, unsigned shard, struct dt_reconcile_stats *out)
{
    const struct dt_shard_view *view = &r->views[shard % DT_SHARDS_MAX];
    *out = (struct dt_reconcile_stats){
        .overdue = view->overdue,
        .held = view->held,
        .oldest_due_at_ms = view->oldest_ms,
        .drift_missing = view->drift[DT_DRIFT_MISSING],
        .drift_extra = view->drift[DT_DRIFT_EXTRA],
        .drift_wrong = view->drift[DT_DRIFT_WRONG],
        .rebuilding = dt_shard_set_has(&r->rebuild.shards, shard % DT_SHARDS_MAX),
    };
}

/* ---- which shards are led ---- */

/* Updates the set of shards that this process leads, and reads the requests of other threads. */
static void update_shards(dt_reconciler *r, const struct dt_shard_set *leads)
{
    static const char *const kinds[DT_DRIFTS] = {"missing", "extra", "wrong"};
    const struct dt_shard_set gained = dt_shard_set_without(leads, &r->leads);
    struct dt_shard_set asked;
    /* The previous leader of a gained shard may have died between a commit and its update of the index. Only a full
     * scan finds such a loss. */
    if (!dt_shard_set_empty(&gained))
        dt_reconcile_full_scan_soon(r);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        bool was = dt_shard_set_has(&r->leads, shard), is = dt_shard_set_has(leads, shard);
        if (is == was)
            continue;
        r->views[shard] = (struct dt_shard_view){0};
        for (int kind = 0; is && kind < DT_DRIFTS; kind++) {
            char labels[64];
            snprintf(labels, sizeof(labels), "shard=\"%u\",kind=\"%s\"", shard, kinds[kind]);
            r->views[shard].meter[kind] = dt_counter(
                "duetime_index_drift_total", "Index entries that differed from MySQL and were repaired.", labels);
        }
    }
    r->leads = *leads;
    for (size_t i = 0; i < DT_WINDOWS; i++)
        dt_shard_set_keep(&r->windows[i].shards, leads);
    dt_shard_set_keep(&r->scan_shards, leads);
    dt_rebuild_keep(r, leads);
    /* If a leader requests a rebuild before this thread knows that it leads, the request waits. */
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        asked.bits[i] = atomic_fetch_and(&r->lost[i], ~r->leads.bits[i]) & r->leads.bits[i];
    /* Removes from the windows in progress the shards whose rebuild begins now. */
    for (size_t i = 0; i < DT_WINDOWS; i++)
        r->windows[i].shards = dt_shard_set_without(&r->windows[i].shards, &asked);
    r->scan_shards = dt_shard_set_without(&r->scan_shards, &asked);
    dt_rebuild_request(r, &asked);
    if (atomic_exchange(&r->doubt, false)) {
        dt_reconcile_full_scan_soon(r);
        r->next_period_us = dt_earlier(r->next_period_us, r->now_us);
    }
}

/* ---- the windows of a period ---- */

static void begin_reconcile_period(dt_reconciler *r)
{
    const struct dt_shard_set shards = dt_shard_set_without(&r->leads, &r->rebuild.shards);
    int64_t period_ms = r->config->reconcile_period;
    int64_t end_ms = dt_reconcile_horizon_end_ms(r);
    r->next_period_us = r->now_us + period_ms * 1000;
    r->stats_owed = true;
    if (!r->index) /* without Redis there is nothing to compare, and the housekeeper promotes often enough */
        return;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct dt_shard_view *view = &r->views[shard];
        int64_t fresh[DT_DRIFTS];
        int64_t sum = 0;
        if (!dt_shard_set_has(&r->leads, shard))
            continue;
        for (int kind = 0; kind < DT_DRIFTS; kind++) {
            dt_assert_cmp(view->drift[kind], >=, view->reported[kind]);
            fresh[kind] = view->drift[kind] - view->reported[kind];
            view->reported[kind] = view->drift[kind];
            sum += fresh[kind];
        }
        if (sum)
            DT_LOG(WARN, "reconcile", "the index had drifted and was repaired", DT_I("shard", shard),
                   DT_I("missing", fresh[DT_DRIFT_MISSING]), DT_I("extra", fresh[DT_DRIFT_EXTRA]),
                   DT_I("wrong", fresh[DT_DRIFT_WRONG]));
    }
    r->out->near_begun = true;
    r->hurry_us = r->now_us + UNSURE_US;
    r->near_end_ms = r->now_ms + 2 * period_ms < end_ms ? r->now_ms + 2 * period_ms : end_ms;
    dt_compare_start(&r->near, &shards, r->now_ms, r->near_end_ms);
    if (!dt_compare_active(&r->overdue)) /* otherwise it continues with its long queue */
        dt_compare_start(&r->overdue, &shards, 0, r->now_ms);
    if (!dt_compare_active(&r->edge)) {
        int64_t from_ms = r->edge_done_ms ? r->edge_done_ms - OVERLAP_MS : end_ms - 2 * period_ms;
        dt_compare_start(&r->edge, &shards, from_ms < r->near_end_ms ? r->near_end_ms : from_ms, end_ms);
        if (!dt_compare_active(&r->edge))
            r->edge_done_ms = end_ms; /* the near window includes the edge of the horizon */
    }
    r->overdue_owed = dt_compare_active(&r->overdue);
    r->edge_owed = dt_compare_active(&r->edge);
    r->promote_owed = r->held_owed = r->slower_owed = true;
}

static bool period_is_done(const dt_reconciler *r)
{
    return !r->promote_owed && !r->held_owed && !dt_compare_active(&r->near) && !r->overdue_owed && !r->stats_owed &&
           !r->edge_owed && !r->slower_owed;
}

/* ---- the steps of a period ---- */

/* Raises loaded_ms once overdue rows were compared, too: the index is now complete up to the end of the near window. */
static void raise_loaded_time(struct dt_shard_view *view)
{
    if (view->overdue_seen && view->loaded_ms < view->near_ms)
        view->loaded_ms = view->near_ms;
}

static dt_status compare_near_window(dt_reconciler *r, struct dt_error *err)
{
    int64_t end_ms = r->near.to_ms;
    dt_status status = dt_compare_step(r, &r->near, err);
    if (status != DT_OK || dt_compare_active(&r->near))
        return status;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct dt_shard_view *view = &r->views[shard];
        if (dt_shard_set_has(&r->near.shards, shard)) {
            view->near_ms = end_ms;
            dt_shard_set_add(&r->out->near, shard);
        }
        raise_loaded_time(view);
    }
    return DT_OK;
}

static dt_status compare_window_edge(dt_reconciler *r, struct dt_error *err)
{
    int64_t end_ms = r->edge.to_ms;
    dt_status status = dt_compare_step(r, &r->edge, err);
    r->edge_owed = false;
    if (status != DT_OK || dt_compare_active(&r->edge))
        return status;
    r->edge_done_ms = end_ms;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct dt_shard_view *view = &r->views[shard];
        if (!dt_shard_set_has(&r->leads, shard))
            continue;
        if (!dt_shard_set_has(&r->edge.shards, shard) && !dt_shard_set_has(&r->rebuild.shards, shard))
            view->scanned = false; /* Redis did not answer: the next full scan adds the jobs that entered the horizon */
        else if (view->scanned && view->loaded_ms < end_ms)
            view->loaded_ms = end_ms;
    }
    return DT_OK;
}

struct late_count {
    const dt_reconciler *r;
    struct {
        int64_t overdue, oldest_ms, held;
    } of[DT_SHARDS_MAX];
};

static void count_late_job(void *arg, const struct dt_late *late)
{
    struct late_count *count = arg;
    unsigned shard = dt_shard_of(count->r->map, late->id);
    int64_t *oldest_ms = &count->of[shard].oldest_ms;
    if (!dt_shard_set_has(&count->r->leads, shard))
        return;
    if (late->held) {
        count->of[shard].held++;
        return;
    }
    count->of[shard].overdue++;
    *oldest_ms = dt_older(*oldest_ms, late->next_ms > 1 ? late->next_ms : 0); /* 1: the row's due time is not known */
}

/* Counts overdue rows, and overdue rows of paused topics. If counting fails, the previous numbers stay. */
static dt_status count_overdue_rows(dt_reconciler *r, struct dt_error *err)
{
    struct late_count count = {.r = r};
    dt_status status =
        r->none_due ? DT_OK
                    : dt_store_visit_late(r->store, r->now_ms - OVERDUE_MS, r->slice, count_late_job, &count, err);
    if (status != DT_OK)
        return status;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        r->views[shard].overdue = count.of[shard].overdue;
        r->views[shard].oldest_ms = count.of[shard].oldest_ms;
        r->views[shard].held = count.of[shard].held;
    }
    r->stats_owed = false;
    return DT_OK;
}

static dt_status compare_overdue_rows(dt_reconciler *r, struct dt_error *err)
{
    dt_status status = dt_compare_step(r, &r->overdue, err);
    for (unsigned shard = 0; status == DT_OK && shard < DT_SHARDS_MAX && !dt_compare_active(&r->overdue); shard++) {
        if (!dt_shard_set_has(&r->overdue.shards, shard))
            continue;
        r->views[shard].overdue_seen = true;
        raise_loaded_time(&r->views[shard]);
    }
    if (r->overdue.phase != DT_COMPARE_ENTRIES) /* all entries of a piece were compared */
        r->overdue_owed = false;
    r->next_overdue_us = r->now_us + OVERDUE_PAUSE_US + OVERDUE_SHARE * r->work_us;
    return status;
}

/* ---- the full scan ---- */

/* Finds the shards that need an exact compare: at least the shards whose counts differ. If the Redis of a shard does
 * not answer, the shard is removed from the round. Entries are counted before rows. */
static dt_status compare_counts(dt_reconciler *r, int64_t to_ms, struct dt_shard_set *mismatched, struct dt_error *err)
{
    int64_t slots[DT_SLOTS];
    int64_t n_rows = 0;
    int64_t entries[DT_SHARDS_MAX];
    int64_t rows[DT_SHARDS_MAX] = {0};
    dt_status status;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (!dt_shard_set_has(&r->scan_shards, shard) ||
            dt_index_count(r->index, shard, r->scan_at_ms, to_ms, &entries[shard], NULL) == DT_OK)
            continue;
        dt_metric_add(r->failures, 1);
        dt_shard_set_remove(&r->scan_shards, shard);
    }
    status = dt_store_count_due(r->store, r->scan_at_ms, to_ms, slots, err);
    if (status != DT_OK)
        return status;
    for (unsigned slot = 0; slot < DT_SLOTS; slot++) {
        rows[r->map->of_slot[slot]] += slots[slot];
        n_rows += slots[slot];
    }
    /* Equal counts may hide one lost entry and one superfluous entry. So a step with few rows is always compared
     * exactly, and other steps in turn. */
    if (n_rows <= EXACT_ROWS || r->scan_steps++ % EXACT_ROUNDS == r->scan_rounds % EXACT_ROUNDS) {
        *mismatched = r->scan_shards;
        return DT_OK;
    }
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (dt_shard_set_has(&r->scan_shards, shard) && entries[shard] != rows[shard])
            dt_shard_set_add(mismatched, shard);
    }
    return DT_OK;
}

/* Does one step of the full scan: a slice of rows, however close together they are. If there are few rows, a round has
 * SCAN_STEPS steps. */
static dt_status run_full_scan_step(dt_reconciler *r, struct dt_error *err)
{
    const int64_t round_us = r->config->reconcile_walk * 1000;
    const int64_t span_ms = r->edge_done_ms - r->near_end_ms;
    struct dt_shard_set mismatched = {0};
    int64_t to_ms;
    if (r->scan_at_ms == 0) {
        r->scan_shards = dt_shard_set_without(&r->leads, &r->rebuild.shards);
        /* If a process has a change that did not reach the index yet, it may still send it, so another round
         * follows. */
        r->scan_owed = r->now_us < r->doubt_us + DT_RECONCILE_DOUBT_US;
    }
    if (r->scan_at_ms < r->near_end_ms) /* skips rows that are in the near window now */
        r->scan_at_ms = r->near_end_ms;
    if (r->scan_at_ms >= r->edge_done_ms) {
        for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
            struct dt_shard_view *view = &r->views[shard];
            if (!dt_shard_set_has(&r->scan_shards, shard))
                continue;
            view->scanned = true;
            if (view->loaded_ms < r->scan_at_ms)
                view->loaded_ms = r->scan_at_ms;
        }
        r->scan_at_ms = 0;
        r->scan_hurries = r->scan_owed;
        r->scan_steps = 0;
        r->scan_rounds++;
        r->next_scan_us = r->now_us + (r->scan_owed ? DT_RECONCILE_DOUBT_US : span_ms > 0 ? SCAN_PAUSE_US : round_us);
        return DT_OK;
    }
    int64_t steps = round_us / SCAN_PAUSE_US;
    steps = steps < 1 ? 1 : steps > SCAN_STEPS ? SCAN_STEPS : steps;
    int64_t end_ms = dt_earlier(r->scan_at_ms + span_ms / steps + 1, r->edge_done_ms);
    dt_status status = dt_store_due_nth(r->store, r->scan_at_ms, end_ms, r->slice, &to_ms, err);
    if (status != DT_OK)
        return status;
    if (to_ms <= r->scan_at_ms) /* all rows of the slice are due in the same millisecond */
        to_ms = r->scan_at_ms + 1;
    int64_t pause_us = (int64_t)((double)round_us * (double)(to_ms - r->scan_at_ms) / (double)span_ms);
    r->next_scan_us = r->now_us + (r->scan_hurries || pause_us < SCAN_PAUSE_US ? SCAN_PAUSE_US : pause_us);
    status = compare_counts(r, to_ms, &mismatched, err);
    if (status != DT_OK)
        return status;
    dt_compare_start(&r->exact, &mismatched, r->scan_at_ms, to_ms);
    r->scan_at_ms = to_ms;
    return DT_OK;
}

/* ---- the tick ---- */

static dt_status run_next_step(dt_reconciler *r, struct dt_error *err)
{
    dt_status status;
    size_t done;
    if (r->promote_owed) {
        /* If a manual edit moved a far row near, or ended an attempt or a job, the row is still in the far part of the
         * due index. Usually no such row exists. */
        r->promote_owed = false;
        status = dt_store_promote(r->store, r->now_ms, PROMOTE_ROWS, &done, err);
        return status == DT_BUSY ? DT_OK : status; /* BUSY: another process is promoting */
    }
    if (r->held_owed) {
        r->held_owed = false;
        return dt_reconcile_list_held(r);
    }
    if (dt_compare_active(&r->near))
        return compare_near_window(r, err);
    if (r->overdue_owed)
        return compare_overdue_rows(r, err);
    if (r->stats_owed)
        return count_overdue_rows(r, err);
    if (r->edge_owed)
        return compare_window_edge(r, err);
    r->slower_owed = false;
    if (dt_rebuild_active(r))
        return dt_rebuild_step(r, err);
    if (dt_compare_active(&r->exact)) { /* compares exactly where counts differed; afterwards the scan pauses */
        status = dt_compare_step(r, &r->exact, err);
        if (r->next_scan_us < r->now_us)
            r->next_scan_us = r->now_us;
        r->next_scan_us += SCAN_SHARE * r->work_us;
        return status;
    }
    if (r->edge_done_ms && r->now_us >= r->next_scan_us)
        return run_full_scan_step(r, err);
    if (dt_compare_active(&r->edge))
        return compare_window_edge(r, err);
    if (dt_compare_active(&r->overdue) && r->now_us >= r->next_overdue_us)
        return compare_overdue_rows(r, err);
    return DT_OK;
}

static int64_t next_tick_us(const dt_reconciler *r)
{
    int64_t next = r->awaits_compare ? dt_earlier(r->next_period_us, r->hurry_us) : r->next_period_us;
    if (!period_is_done(r) || dt_compare_active(&r->edge) || dt_compare_active(&r->exact) || dt_rebuild_active(r))
        return r->now_us;
    if (r->rebuild.active)
        next = dt_earlier(next, r->rebuild.not_before_us);
    if (dt_compare_active(&r->overdue))
        next = dt_earlier(next, r->next_overdue_us);
    return r->edge_done_ms ? dt_earlier(next, r->next_scan_us) : next;
}

void dt_reconcile_tick(dt_reconciler *r, const struct dt_reconcile_in *in, struct dt_reconcile_out *out)
{
    struct dt_error err = {0};
    *out = (struct dt_reconcile_out){0};
    r->out = out;
    r->map = in->map;
    r->now_ms = in->now_ms;
    r->store = in->store;
    r->now_us = in->mono_us;
    update_shards(r, in->leads);
    out->next_us = r->now_us + r->config->reconcile_period * 1000;
    if (dt_shard_set_empty(&r->leads))
        return;
    out->next_us = r->quiet_until_us;
    if (r->now_us < r->quiet_until_us)
        return;
    r->none_due = in->none_due;
    r->awaits_compare = in->awaits_compare;
    if (r->awaits_compare)
        r->next_period_us = dt_earlier(r->next_period_us, r->hurry_us);
    if (r->now_us >= r->next_period_us && period_is_done(r))
        begin_reconcile_period(r);
    dt_status status = run_next_step(r, &err);
    if (status == DT_OK) {
        dt_outage_over(&r->outage);
    } else { /* the windows cannot be trusted, so all start again after a pause; the rebuild keeps its position */
        dt_metric_add(r->failures, 1);
        dt_outage_failed(&r->outage, DT_OUTAGE_MYSQL, "reconcile", "the index cannot be compared with MySQL", status,
                         &err);
        r->near.phase = r->overdue.phase = r->edge.phase = r->exact.phase = DT_COMPARE_IDLE;
        r->promote_owed = r->held_owed = r->overdue_owed = r->stats_owed = r->edge_owed = r->slower_owed = false;
        r->next_period_us = r->quiet_until_us = r->now_us + FAIL_PAUSE_US;
    }
    out->next_us = next_tick_us(r);
    if (out->next_us < r->quiet_until_us)
        out->next_us = r->quiet_until_us;
}
