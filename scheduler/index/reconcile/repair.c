/*
 * The exact compare of a window of time, and the repair of what differs.
 *
 * A window is compared in pieces of at most a slice of rows. One step of a piece:
 *
 *   ROWS      Reads a page of MySQL's due index from `from` on. If the page is full, the piece ends before the page's
 *             last millisecond, so that the piece has all rows of its time. If one millisecond has more rows than a
 *             slice ("ties"), the millisecond is a piece of its own, read in pages by id; all of its rows are suspects,
 *             since Redis orders equal scores by the bytes of the ids.
 *   ENTRIES   Reads the same piece in Redis, shard by shard. An entry that equals a row is right. All other entries are
 *             suspects, and after the last entry all rows without an equal entry.
 *
 * A compare reads rows before entries, which is safe: an entry that equals a row read a moment ago was right then, and
 * a process that has changed the row since updates the index. The repair reads each suspect again, Redis first.
 *
 * The order of a repair is always the same:
 *
 *   (1) read the entry in Redis, at its row's time or where a window found it
 *   (2) read the row in MySQL
 *   (3) change the entry, if it still is where (1) found it; an entry that was absent in (1) is only added
 *
 * A process that changes a row commits first and updates the index afterwards: dt_index_put removes the old entry and
 * adds the new entry; dt_index_fix does both only if the claimed hint still exists. The order (1), (2), (3) is right
 * against each of these changes:
 *
 *   a create             It commits, then adds. An entry that (1) sees has a committed row, so (2) finds the row: a
 *                        fresh entry is never extra. (A repair that read the row first would miss the row and remove
 *                        its entry.) If (1) sees no entry and (2) sees a row, we add the entry before the API does.
 *   a change, T1 to T2   If it commits after (2), we still write T1. If its put runs after our (3), the put removes T1.
 *                        If its put runs before (3), our condition for moving T1 fails, or a T1 that we add remains
 *                        beside T2 as a hint, as after a cancel. If it commits before (2), we write T2 ourselves.
 *   a claim              It moves the row to its deadline D, and then the entry from the hint's time to D, like a
 *                        change. If the leader has not updated the index yet, we do.
 *   a cancel, a result   It ends the row, then removes the entry. If (2) precedes its commit and (3) follows its
 *                        removal, we may add an entry without a live row. The entry is a hint: the claim reads the row
 *                        and removes the entry. Nothing is sent.
 *   T1, T2, T1           A row leaves T1 and returns to T1 between (1) and (3), while we move its entry to T2. The
 *                        entry is wrong until the next compare. The job is late at worst, never lost, never early.
 *
 * If the number of shards changes, (2) also reads the generation of the slot map. While our map has another generation,
 * nothing is decided about the job. An entry in the set of a shard that its slot has left is extra.
 *
 * The reconcilers of an old and a new leader do the same repairs, so both may work at once.
 *
 * Three things are repaired but do not count as drift: rows that changed within the last GRACE_MS (their process may
 * still be updating the index); jobs that enter the horizon for the first time (loaded_ms); due rows of a topic that is
 * paused or has a held set (the topic cannot be written, or has too many due jobs). Their entries belong into the held
 * set, from which the leader moves them back.
 */

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "job/job.h"
#include "reconcile_parts.h"

#define LOOK_US    2  /* approximate cost, in µs, of a row or an entry that is right */
#define SUSPECT_US 10 /* approximate cost, in µs, of a suspect, which the repair reads again */

#define GRACE_MS 2000
#define SLACK_MS 2000 /* tolerance of loaded_ms: the clocks of two processes differ, and commits arrive out of order */

#define HELD_SETS_MAX 4

/* Lists the topics with held sets. If a due row of one of these topics is not in the due set, that is no mismatch. */
dt_status dt_reconcile_list_held(dt_reconciler *r)
{
    dt_arena_reset(&r->held_arena);
    r->n_held = 0;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct dt_str *topics;
        struct dt_error err;
        size_t n = 0;
        if (!dt_shard_set_has(&r->leads, shard) ||
            dt_index_held(r->index, shard, &r->held_arena, &topics, &n, &err) != DT_OK || n == 0)
            continue;
        struct dt_held *grown = realloc(r->held, (r->n_held + n) * sizeof(*grown));
        if (!grown)
            return DT_NOMEM;
        r->held = grown;
        for (size_t i = 0; i < n; i++)
            r->held[r->n_held++] = (struct dt_held){shard, topics[i]};
    }
    return DT_OK;
}

/* ---- step (1): scores of suspects ---- */

static int compare_suspects_by_id(const void *a, const void *b)
{
    const struct dt_suspect *x = a;
    const struct dt_suspect *y = b;
    if (x->id != y->id)
        return DT_ORDER(x->id, y->id);
    if (x->shard != y->shard)
        return DT_ORDER(x->shard, y->shard);
    /* if an entry and a row were found for the same job, the entry is first */
    return (x->seen_ms == DT_NOT_SEEN) - (y->seen_ms == DT_NOT_SEEN);
}

/* Records that a call failed, so that nothing is decided about the shard now. Returns whether the call failed. */
static bool note_shard_failure(dt_reconciler *r, unsigned shard, dt_status status)
{
    if (status != DT_OK) {
        dt_metric_add(r->failures, 1);
        dt_shard_set_add(&r->unrepaired, shard);
    }
    return status != DT_OK;
}

static void request_scores(dt_reconciler *r, unsigned shard)
{
    struct dt_error err;
    size_t n = 0;
    for (size_t i = 0; i < r->n_suspects; i++) {
        if (r->suspects[i].shard == shard && r->suspects[i].seen_ms == DT_NOT_SEEN)
            r->entries[n++] = (struct dt_entry){r->suspects[i].id, r->suspects[i].row_ms, 0};
    }
    if (n == 0)
        return;
    if (note_shard_failure(r, shard, dt_index_scores(r->index, shard, r->entries, n, r->scores, &err)))
        return; /* the scores stay unknown, so nothing is decided about these suspects */
    n = 0;
    for (size_t i = 0; i < r->n_suspects; i++) {
        if (r->suspects[i].shard == shard && r->suspects[i].seen_ms == DT_NOT_SEEN)
            r->suspects[i].seen_ms = r->scores[n++];
    }
}

/* ---- entries in held sets ---- */

/* Returns whether the suspect is an overdue row without an entry in its due set. */
static bool may_be_held(const dt_reconciler *r, const struct dt_suspect *s, unsigned shard)
{
    return s->shard == shard && s->row && s->seen_ms == 0 && s->row_ms <= r->now_ms;
}

/* Skips rows whose entry is in a held set at the row's time: the leader moves the entry back or removes it. So a
 * backlog of ten thousand rows is not read and held again. If there are many held sets, holding the rows again costs
 * less than reading each set. */
static void skip_held(dt_reconciler *r, unsigned shard)
{
    struct dt_error err;
    size_t n_sets = 0;
    for (size_t set = 0; set < r->n_held; set++)
        n_sets += r->held[set].shard == shard;
    for (size_t set = 0; n_sets <= HELD_SETS_MAX && set < r->n_held; set++) {
        size_t n = 0;
        if (r->held[set].shard != shard)
            continue;
        for (size_t i = 0; i < r->n_suspects; i++) {
            if (may_be_held(r, &r->suspects[i], shard))
                r->entries[n++] = (struct dt_entry){r->suspects[i].id, r->suspects[i].row_ms, 0};
        }
        if (n == 0 ||
            note_shard_failure(
                r, shard, dt_index_held_scores(r->index, shard, r->held[set].topic, r->entries, n, r->scores, &err)))
            continue;
        n = 0;
        for (size_t i = 0; i < r->n_suspects; i++) {
            struct dt_suspect *s = &r->suspects[i];
            if (may_be_held(r, s, shard) && r->scores[n++] == s->row_ms)
                s->seen_ms = DT_NOT_SEEN;
        }
    }
}

/* ---- step (2): what the index should have ---- */

enum remedy { LEAVE, FIX, ADD, HOLD };

struct verdict {
    enum remedy what;
    int64_t to_ms; /* FIX: the entry's new time; 0: remove the entry */
    bool counts, timeout;
    int64_t elsewhere_ms; /* FIX: time of the entry in another shard's set, to which its slot belongs; 0: none */
    enum dt_drift kind;
    struct dt_str topic;
    uint32_t host; /* HOLD: number of the host whose held set gets the entry; 0: the topic's held set */
};

static bool has_held_set(const dt_reconciler *r, unsigned shard, struct dt_str name)
{
    for (size_t i = 0; i < r->n_held; i++) {
        if (r->held[i].shard == shard && dt_str_eq(r->held[i].topic, name))
            return true;
    }
    return false;
}

static struct verdict judge_missing_entry(const dt_reconciler *r, const struct dt_suspect *s, const struct dt_truth *t,
                                          bool settled)
{
    const struct dt_shard_view *view = &r->views[s->shard];
    bool due = t->next_ms <= r->now_ms, timeout = t->state == DT_DISPATCHED, on_its_way = false;
    char text[DT_HELD_NAME_SIZE];
    struct verdict hold = {.what = HOLD, .to_ms = t->next_ms, .topic = t->topic, .timeout = timeout};
    if (due && !timeout && t->host && has_held_set(r, s->shard, dt_held_name_at(t->topic, t->host, text))) {
        hold.host = t->host;
        return hold;
    }
    if (due && ((!timeout && t->topic_paused) || has_held_set(r, s->shard, dt_held_name(t->topic, timeout, text))))
        return hold;
    /* If the shard has held sets, a due row without an entry may be moving between the due set and a held set. */
    for (size_t i = 0; due && i < r->n_held; i++)
        on_its_way |= r->held[i].shard == s->shard;
    return (struct verdict){.what = ADD,
                            .to_ms = t->next_ms,
                            .kind = DT_DRIFT_MISSING,
                            .counts = settled && t->next_ms < view->loaded_ms - SLACK_MS && !on_its_way};
}

/* Decides what to do about a suspect, from the row that was read after its entry. t is NULL if the row does not
 * exist. */
static struct verdict judge_suspect(const dt_reconciler *r, const struct dt_suspect *s, const struct dt_truth *t)
{
    bool settled = !t || llabs(r->now_ms - t->updated_at_ms) > GRACE_MS;
    bool here = t && t->next_ms && dt_shard_of(r->map, s->id) == s->shard;
    int64_t should_ms = here && t->next_ms < dt_reconcile_horizon_end_ms(r) ? t->next_ms : 0;
    struct verdict leave = {.what = LEAVE};
    if (s->seen_ms == should_ms)
        return leave;
    if (t && t->generation != r->map->generation) /* a process that has the new map may have added this entry */
        return leave;
    if (s->seen_ms == 0)
        return judge_missing_entry(r, s, t, settled);
    /* The entry exists, and its score differs from should_ms (0: no entry should exist). */
    struct verdict verdict = {
        .what = FIX, .to_ms = should_ms, .counts = settled, .kind = should_ms ? DT_DRIFT_WRONG : DT_DRIFT_EXTRA};
    if (t && !here && t->next_ms < dt_reconcile_horizon_end_ms(r))
        verdict.elsewhere_ms = t->next_ms;
    if (here && should_ms == 0)
        verdict.kind = DT_DRIFT_WRONG; /* the job moved beyond the end of the horizon */
    return verdict;
}

/* ---- step (3): changes of entries ---- */

/* Returns an array with a verdict for each of r->suspects, in the step's arena. */
static struct verdict *judge_suspects(dt_reconciler *r, const struct dt_truth *truth, size_t n_truth)
{
    struct verdict *verdicts = dt_arena_alloc(&r->arena, r->n_suspects * sizeof(*verdicts));
    size_t at = 0;
    for (size_t i = 0; verdicts && i < r->n_suspects; i++) {
        while (at < n_truth && truth[at].id < r->suspects[i].id)
            at++;
        const struct dt_truth *t = at < n_truth && truth[at].id == r->suspects[i].id ? &truth[at] : NULL;
        verdicts[i] = judge_suspect(r, &r->suspects[i], t);
    }
    return verdicts;
}

/* Does what the shard's verdicts say: changes entries (FIX) or adds missing entries (ADD). */
static void apply_shard_verdicts(dt_reconciler *r, unsigned shard, const struct verdict *verdicts, enum remedy what)
{
    struct dt_shard_view *view = &r->views[shard];
    struct dt_error err;
    size_t n = 0;
    for (size_t i = 0; i < r->n_suspects; i++) {
        const struct dt_suspect *s = &r->suspects[i];
        if (s->shard != shard || verdicts[i].what != what)
            continue;
        if (what == FIX)
            r->fixes[n++] = (struct dt_fix){s->id, s->seen_ms, verdicts[i].to_ms};
        else
            r->entries[n++] = (struct dt_entry){s->id, verdicts[i].to_ms, 0};
    }
    if (n == 0 || note_shard_failure(r, shard,
                                     what == FIX ? dt_index_fix(r->index, shard, r->fixes, n, &err)
                                                 : dt_index_add_missing(r->index, shard, r->entries, n, &err)))
        return;
    for (size_t i = 0; i < r->n_suspects; i++) {
        const struct verdict *v = &verdicts[i];
        if (r->suspects[i].shard != shard || v->what != what)
            continue;
        if (v->to_ms && dt_reconcile_is_soon(r, v->to_ms))
            dt_shard_set_add(&r->out->wake, shard);
        if (v->counts) {
            view->drift[v->kind]++;
            dt_metric_add(view->meter[v->kind], 1);
        } else if (what == ADD) {
            dt_metric_add(r->loaded, 1);
        }
    }
}

/* Holds all entries that belong into the same held set as suspect `first`, and sets their verdicts to LEAVE. The leader
 * is notified, because it may just have emptied and removed the held set. */
static void hold_entries_of_set(dt_reconciler *r, size_t first, struct verdict *verdicts)
{
    const unsigned shard = r->suspects[first].shard;
    const struct verdict like = verdicts[first];
    char text[DT_HELD_NAME_SIZE];
    struct dt_str name =
        like.host ? dt_held_name_at(like.topic, like.host, text) : dt_held_name(like.topic, like.timeout, text);
    struct dt_error err;
    size_t n = 0;
    size_t kept = 0;
    for (size_t i = first; i < r->n_suspects; i++) {
        struct verdict *v = &verdicts[i];
        if (r->suspects[i].shard != shard || v->what != HOLD || v->timeout != like.timeout || v->host != like.host ||
            !dt_str_eq(v->topic, like.topic))
            continue;
        r->entries[n++] = (struct dt_entry){r->suspects[i].id, v->to_ms, 0};
        v->what = LEAVE;
    }
    dt_assert_cmp(n, >, 0);
    /* If the leader has moved an entry back to the due set meanwhile, the entry stays there. */
    if (note_shard_failure(r, shard, dt_index_scores(r->index, shard, r->entries, n, r->scores, &err)))
        return;
    for (size_t i = 0; i < n; i++) {
        if (r->scores[i] == 0)
            r->entries[kept++] = r->entries[i];
    }
    if (kept && !note_shard_failure(r, shard, dt_index_hold(r->index, shard, name, r->entries, kept, &err)))
        dt_shard_set_add(&r->out->held, shard);
}

/* If the slot of an entry belongs to another shard now, adds the entry to that shard's set, before it is removed from
 * this set. The process that added the entry here (with an old map) assumes that the index is up to date. The leader of
 * the other shard may be in another process. */
static void move_to_other_shards(dt_reconciler *r, const struct verdict *verdicts)
{
    struct dt_error err;
    struct dt_shard_set soon = {0};
    size_t n = 0;
    for (size_t i = 0; i < r->n_suspects; i++) {
        if (verdicts[i].what != FIX || !verdicts[i].elsewhere_ms)
            continue;
        r->entries[n++] = (struct dt_entry){r->suspects[i].id, verdicts[i].elsewhere_ms, 0};
        if (dt_reconcile_is_soon(r, verdicts[i].elsewhere_ms))
            dt_shard_set_add(&soon, dt_shard_of(r->map, r->suspects[i].id));
    }
    if (n == 0 || DT_UNGUARDED(HAND_ON))
        return;
    if (dt_index_fill(r->index, r->map, r->entries, n, &err) != DT_OK) {
        dt_metric_add(r->failures, 1);
        return;
    }
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (dt_shard_set_has(&soon, shard) && dt_index_wake(r->index, shard, false, &err) != DT_OK)
            dt_metric_add(r->failures, 1);
}

static dt_status repair_suspects(dt_reconciler *r, const struct dt_shard_set *shards, struct dt_error *err)
{
    struct dt_truths truth;
    struct verdict *verdicts;
    bool misses_due_ones = false;
    dt_status status;
    for (size_t i = 0; i < r->n_suspects; i++) {
        dt_assert(r->suspects[i].seen_ms != DT_NOT_SEEN);
        r->ids[i] = r->suspects[i].id;
    }
    status = dt_store_truth(r->store, r->ids, r->n_suspects, &r->arena, &truth, err);
    if (status != DT_OK)
        return status;
    verdicts = judge_suspects(r, truth.v, truth.n);
    for (size_t i = 0; verdicts && i < r->n_suspects; i++)
        misses_due_ones |= verdicts[i].what == ADD && verdicts[i].to_ms <= r->now_ms;
    if (misses_due_ones) { /* leaders may move entries to held sets at any time: lists the sets again */
        status = dt_reconcile_list_held(r);
        if (status != DT_OK)
            return dt_fail(err, status, "the held sets could not be listed");
        verdicts = judge_suspects(r, truth.v, truth.n);
    }
    DT_FAIL_POINT("reconcile.judged");
    if (!verdicts)
        return dt_fail(err, DT_NOMEM, "out of memory");
    move_to_other_shards(r, verdicts);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (!dt_shard_set_has(shards, shard))
            continue;
        apply_shard_verdicts(r, shard, verdicts, FIX);
        apply_shard_verdicts(r, shard, verdicts, ADD);
    }
    for (size_t i = 0; i < r->n_suspects; i++) {
        if (verdicts[i].what == HOLD)
            hold_entries_of_set(r, i, verdicts);
    }
    return DT_OK;
}

static dt_status repair_index(dt_reconciler *r, struct dt_error *err)
{
    struct dt_shard_set shards = {0};
    dt_status status = DT_OK;
    size_t kept = 0;
    dt_assert_cmp(r->n_suspects, <=, 2 * r->slice);
    if (r->n_suspects == 0)
        return DT_OK;
    /* A job whose score is wrong was found twice, as an entry and as a row, or as entries of two sets. Keeps one
     * suspect for each set. */
    qsort(r->suspects, r->n_suspects, sizeof(*r->suspects), compare_suspects_by_id);
    for (size_t i = 0; i < r->n_suspects; i++) {
        struct dt_suspect *last = kept ? &r->suspects[kept - 1] : NULL;
        dt_shard_set_add(&shards, r->suspects[i].shard);
        if (last && last->id == r->suspects[i].id && last->shard == r->suspects[i].shard &&
            r->suspects[i].seen_ms == DT_NOT_SEEN)
            last->row |= r->suspects[i].row;
        else
            r->suspects[kept++] = r->suspects[i];
    }
    r->n_suspects = kept;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (!dt_shard_set_has(&shards, shard))
            continue;
        request_scores(r, shard);
        skip_held(r, shard);
    }
    kept = 0;
    for (size_t i = 0; i < r->n_suspects; i++) {
        if (r->suspects[i].seen_ms != DT_NOT_SEEN)
            r->suspects[kept++] = r->suspects[i];
    }
    r->n_suspects = kept;
    if (r->n_suspects)
        status = repair_suspects(r, &shards, err);
    r->n_suspects = 0;
    dt_arena_reset(&r->arena);
    return status;
}

/* ---- comparing a window ---- */

void dt_compare_start(struct dt_compare *compare, const struct dt_shard_set *shards, int64_t from_ms, int64_t to_ms)
{
    dt_assert(!dt_compare_active(compare));
    compare->phase = from_ms < to_ms && !dt_shard_set_empty(shards) ? DT_COMPARE_ROWS : DT_COMPARE_IDLE;
    compare->shards = *shards;
    compare->from_ms = from_ms;
    compare->to_ms = to_ms;
    compare->ties = false;
    compare->n_rows = 0;
}

static void add_suspect(dt_reconciler *r, struct dt_suspect found)
{
    dt_assert_cmp(r->n_suspects, <, 2 * r->slice);
    r->suspects[r->n_suspects++] = found;
}

static dt_status compare_rows_slice(dt_reconciler *r, struct dt_compare *c, struct dt_error *err)
{
    const struct dt_due_window window = {.from_ms = c->from_ms,
                                         .to_ms = c->ties ? c->piece_end_ms : c->to_ms,
                                         .after_ms = c->ties ? c->from_ms : 0,
                                         .after_id = c->ties ? c->tie_id : 0,
                                         .limit = r->slice};
    size_t n = 0;
    dt_status status = dt_store_scan_due(r->store, &window, r->page, &n, err);

    if (status != DT_OK)
        return status;
    r->work_us += (int64_t)n * LOOK_US;
    if (!c->ties) { /* sets the end of the piece, unless the piece is a single millisecond */
        bool full = n == r->slice;

        c->ties = full && r->page[n - 1].next_ms == c->from_ms;
        c->piece_end_ms = c->ties ? c->from_ms + 1 : full ? r->page[n - 1].next_ms : c->to_ms;
        c->n_rows = 0;
    }
    for (size_t i = 0; i < n && r->page[i].next_ms < c->piece_end_ms; i++) {
        const struct dt_due *row = &r->page[i];
        unsigned shard = dt_shard_of(r->map, row->id);
        if (!dt_shard_set_has(&c->shards, shard))
            continue;
        if (c->ties) {
            add_suspect(r, (struct dt_suspect){row->id, DT_NOT_SEEN, row->next_ms, shard, true});
        } else {
            c->matched[c->n_rows] = false;
            c->rows[c->n_rows++] = *row;
        }
    }
    if (c->ties && n)
        c->tie_id = r->page[n - 1].id;
    if (c->ties && n == r->slice)
        return DT_OK; /* the next step reads further rows of this millisecond */
    c->phase = DT_COMPARE_ENTRIES;
    c->shard = 0;
    c->has_after = false;
    return DT_OK;
}

static int compare_rows_by_due(const void *a, const void *b)
{
    const struct dt_due *x = a;
    const struct dt_due *y = b;
    return x->next_ms != y->next_ms ? DT_ORDER(x->next_ms, y->next_ms) : DT_ORDER(x->id, y->id);
}

/* Compares a page of one shard's entries with the rows. Returns the number of entries in the page; 0: the last page was
 * read. */
static size_t compare_entries(dt_reconciler *r, struct dt_compare *c, size_t limit)
{
    const struct dt_range range = {
        .from_ms = c->from_ms, .to_ms = c->piece_end_ms, .after = c->has_after ? &c->after : NULL, .limit = limit};
    struct dt_error err;
    size_t n = 0;

    if (dt_index_range(r->index, c->shard, &range, r->entries, &n, &err) != DT_OK) {
        dt_metric_add(r->failures, 1);
        dt_shard_set_remove(&c->shards, c->shard); /* the entries cannot be read, so the shard leaves the compare */
        return 0;
    }
    dt_assert_cmp(n, <=, limit);
    r->work_us += (int64_t)n * LOOK_US;
    for (size_t i = 0; i < n; i++) {
        const struct dt_entry *entry = &r->entries[i];
        const struct dt_due key = {entry->id, entry->due_ms};
        const struct dt_due *row = NULL;
        if (dt_shard_of(r->map, entry->id) == c->shard)
            row = bsearch(&key, c->rows, c->n_rows, sizeof(key), compare_rows_by_due);
        if (row)
            c->matched[row - c->rows] = true;
        else
            add_suspect(r, (struct dt_suspect){entry->id, entry->due_ms, 0, c->shard, false});
    }
    if (n) {
        c->after = r->entries[n - 1];
        c->has_after = true;
    }
    return n;
}

static void compare_entries_slice(dt_reconciler *r, struct dt_compare *c)
{
    for (size_t budget = r->slice; budget > 0 && c->shard < DT_SHARDS_MAX;) {
        size_t n = dt_shard_set_has(&c->shards, c->shard) ? compare_entries(r, c, budget) : 0;
        budget -= n;
        if (n == 0) {
            c->shard++;
            c->has_after = false;
        }
    }
    if (c->shard < DT_SHARDS_MAX)
        return;
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct dt_due *row = &c->rows[i];
        unsigned shard = dt_shard_of(r->map, row->id);
        if (!c->matched[i] && dt_shard_set_has(&c->shards, shard))
            add_suspect(r, (struct dt_suspect){row->id, DT_NOT_SEEN, row->next_ms, shard, true});
    }
    c->from_ms = c->piece_end_ms; /* continues with the next piece */
    c->ties = false;
    c->n_rows = 0;
    c->phase = c->from_ms < c->to_ms && !dt_shard_set_empty(&c->shards) ? DT_COMPARE_ROWS : DT_COMPARE_IDLE;
}

dt_status dt_compare_step(dt_reconciler *r, struct dt_compare *compare, struct dt_error *err)
{
    const struct dt_shard_set foreign = dt_shard_set_without(&compare->shards, &r->leads);
    dt_status status = DT_OK;
    dt_assert(dt_compare_active(compare));
    dt_assert(dt_shard_set_empty(&foreign)); /* a window contains only shards that this process leads */
    r->n_suspects = 0;
    r->work_us = 0;
    if (compare->phase == DT_COMPARE_ROWS)
        status = compare_rows_slice(r, compare, err);
    DT_FAIL_POINT_STATUS("reconcile.rows", status, err);
    if (status == DT_OK && compare->phase == DT_COMPARE_ENTRIES && !r->n_suspects)
        compare_entries_slice(r, compare);
    DT_FAIL_POINT_STATUS("reconcile.entries", status, err);
    r->work_us += (int64_t)r->n_suspects * SUSPECT_US;
    DT_THEN(status, repair_index(r, err));
    compare->shards = dt_shard_set_without(&compare->shards, &r->unrepaired);
    r->unrepaired = (struct dt_shard_set){0};
    if (status != DT_OK)
        compare->phase = DT_COMPARE_IDLE;
    return status;
}
