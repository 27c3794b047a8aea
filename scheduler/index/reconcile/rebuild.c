/*
 * Refills due sets that Redis has lost. It adds missing entries in order of their times, and keeps existing entries:
 * entries that were added since the loss are right, and the compares remove entries of an older copy of the set.
 *
 * A pass reads MySQL's due index once, from the longest overdue row to the horizon, which moves forward during the
 * pass. The pass ends with a page that is not full. While a page is added, MySQL reads the next pages, AHEAD pages in
 * one statement. The last page of a statement is added in the next step. The full scan after the pass finds what
 * changed during the pass.
 *
 * Reading is most of the work, so a pass also fills lost sets of other leaders. It begins GATHER_US after a shard
 * requested it, so that sets that were lost together are filled together. The first process fills, and records its
 * progress in Redis every TELL_US (lua/filled.lua). The other processes read the records every POLL_US. They continue
 * where the first process stopped: at the end of its horizon, or earlier if its last record is DT_FILLING_MS old. If
 * Redis has no records, or only records of another slot map, each process fills its own sets.
 *
 *   requested ──▶ a pass over the sets that no other process fills ──▶ complete
 *     ▲            │ another shard requests: the pass begins again for all, so that near jobs come first
 *     ├────────────┤ the set's Redis failed, or the set was lost again (RETRY_US later)
 *     └────────────┘ another process fills the set (POLL_US later)
 *
 * Invariant: all rows that were due before at_ms when the pass read them are in the sets that the pass fills, and the
 * recorded progress never exceeds at_ms.
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "reconcile_parts.h"

#define RETRY_US   INT64_C(500000)
#define GATHER_US  INT64_C(20000)
#define POLL_US    INT64_C(20000)
#define TELL_US    INT64_C(200000)
#define AHEAD      4u              /* pages that one statement reads; MySQL is idle between two statements */
#define AHEAD_ROWS ((size_t)40000) /* most rows of one statement, unless one page has more */

/* ---- which process fills which set ---- */

/* Takes the fillings of our own shards, or of other leaders' shards, and adds their records after the first b->n_notes.
 * The pass fills the sets that no other process fills. Records of another slot map are ignored. If a shard of ours has
 * no record, the pass fills its set anyway. */
static void claim_fillings(dt_reconciler *r, bool own)
{
    struct dt_rebuild *b = &r->rebuild;
    const int64_t generation = (int64_t)r->map->generation;
    const size_t from = b->n_notes;
    size_t n = from;
    for (unsigned shard = 0; shard < r->map->shards; shard++) {
        if (own ? dt_shard_set_has(&b->shards, shard) : !dt_shard_set_has(&r->leads, shard)) {
            dt_assert_cmp(n, <, DT_SHARDS_MAX);
            b->notes[n++] = (struct dt_filling){.shard = shard, .generation = generation};
        }
    }
    if (dt_index_fillings(r->index, DT_FILLING_TAKE, b->notes + from, n - from, NULL) != DT_OK)
        dt_metric_add(r->failures, 1);
    for (size_t i = from; i < n; i++) {
        struct dt_filling note = b->notes[i];
        bool good = note.wanted && note.generation == generation;
        if (good ? !note.ours : !own)
            continue;
        dt_shard_set_add(&b->filling, note.shard);
        b->at_ms = dt_earlier(b->at_ms, good ? note.done_ms : 0);
        if (good)
            b->notes[b->n_notes++] = note;
    }
}

/* Begins a pass. A process fills the sets of other leaders only if it reads everything anyway, and only in one pass,
 * because a pass that starts again and again does not help them. */
static void begin_rebuild_pass(dt_reconciler *r)
{
    struct dt_rebuild *b = &r->rebuild;
    b->filling = (struct dt_shard_set){0};
    b->at_ms = INT64_MAX;
    b->at_id = 0;
    b->has_page = false;
    b->told_us = r->now_us;
    b->n_notes = 0;
    claim_fillings(r, true);
    b->passing = !dt_shard_set_empty(&b->filling);
    if (!b->passing)
        b->not_before_us = r->now_us + POLL_US;
    else if (b->at_ms == 0 && !b->helped) {
        claim_fillings(r, false);
        b->helped = true;
    }
}

/* Stops filling a set that was lost again since this process took it, or whose Redis does not answer. If this process
 * leads the shard, its set is rebuilt from the start. */
static void stop_filling_shard(struct dt_rebuild *b, unsigned shard)
{
    dt_shard_set_remove(&b->filling, shard);
    if (!dt_shard_set_has(&b->shards, shard))
        return;
    dt_shard_set_remove(&b->shards, shard);
    dt_shard_set_add(&b->again, shard);
}

static void write_filling_progress(dt_reconciler *r)
{
    if (dt_index_fillings(r->index, DT_FILLING_TELL, r->rebuild.notes, r->rebuild.n_notes, NULL) != DT_OK)
        dt_metric_add(r->failures, 1);
}

/* Records the progress of the pass. Releases the sets that the pass no longer fills; if `last`, all sets. */
static void record_progress(dt_reconciler *r, int64_t done_ms, bool last)
{
    struct dt_rebuild *b = &r->rebuild;
    size_t kept = 0;
    dt_assert(b->passing);
    b->told_us = r->now_us;
    for (size_t i = 0; i < b->n_notes; i++) {
        struct dt_filling *note = &b->notes[i];
        bool fills = dt_shard_set_has(&b->filling, note->shard);
        note->keep = fills && !last;
        note->done_ms = fills ? done_ms : note->done_ms;
        b->told[i] = note->life;
    }
    write_filling_progress(r);
    for (size_t i = 0; i < b->n_notes; i++) {
        const struct dt_filling *note = &b->notes[i];
        bool lapsed = note->wanted && note->life == b->told[i];
        if (note->ours && note->keep)
            b->notes[kept++] = *note;
        else if (!note->ours && !(lapsed && dt_shard_set_has(&b->shards, note->shard)))
            /* If our claim on one of our own sets expired, this pass continues to fill the set: adding an entry twice
             * is harmless. */
            stop_filling_shard(b, note->shard);
    }
    b->n_notes = kept;
}

/* Ends the pass. If another process continues the filling, it starts at the recorded progress. */
static void end_rebuild_pass(dt_reconciler *r)
{
    struct dt_rebuild *b = &r->rebuild;
    if (!b->passing)
        return;
    b->passing = false;
    b->filling = (struct dt_shard_set){0};
    for (size_t i = 0; i < b->n_notes; i++)
        b->notes[i].keep = false;
    write_filling_progress(r);
    b->n_notes = 0;
}

/* ---- requests ---- */

void dt_rebuild_request(dt_reconciler *r, const struct dt_shard_set *shards)
{
    struct dt_rebuild *b = &r->rebuild;
    if (dt_shard_set_empty(shards))
        return;
    end_rebuild_pass(r);
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        b->shards.bits[i] |= shards->bits[i];
    if (!b->active) {
        b->started_us = r->now_us;
        b->entries = 0;
    }
    b->active = true;
    if (b->not_before_us < r->now_us + GATHER_US)
        b->not_before_us = r->now_us + GATHER_US;
}

/* Requests another rebuild, after RETRY_US, of the shards whose sets must be rebuilt from the start. */
static void request_rebuild_again(dt_reconciler *r)
{
    struct dt_shard_set again = r->rebuild.again;
    if (dt_shard_set_empty(&again))
        return;
    r->rebuild.again = (struct dt_shard_set){0};
    r->rebuild.not_before_us = r->now_us + RETRY_US;
    dt_rebuild_request(r, &again);
}

void dt_rebuild_keep(dt_reconciler *r, const struct dt_shard_set *leads)
{
    struct dt_rebuild *b = &r->rebuild;
    dt_shard_set_keep(&b->shards, leads);
    dt_shard_set_keep(&b->again, leads);
    if (!b->active || !dt_shard_set_empty(&b->shards))
        return;
    if (dt_shard_set_empty(&b->again)) {
        end_rebuild_pass(r);
        b->active = b->helped = false;
    } else if (
        !b->passing) { /* request_rebuild_again is called when the pass, which fills sets of other leaders only, ends */
        request_rebuild_again(r);
    }
}

bool dt_rebuild_active(const dt_reconciler *r)
{
    return r->rebuild.active && r->now_us >= r->rebuild.not_before_us;
}

/* ---- reading and adding pages ---- */

/* Writes the entries of the page that belong to sets being filled into r->entries. Returns their number. */
static size_t select_entries_to_fill(dt_reconciler *r)
{
    const struct dt_rebuild *b = &r->rebuild;
    bool all = true;
    size_t n = 0;
    dt_assert_cmp(b->n_page, <=, r->slice);
    for (unsigned shard = 0; shard < r->map->shards && all; shard++)
        all = dt_shard_set_has(&b->filling, shard);
    for (size_t i = 0; i < b->n_page; i++)
        if (all || dt_shard_set_has(&b->filling, dt_shard_of(r->map, b->page[i].id)))
            r->entries[n++] = (struct dt_entry){b->page[i].id, b->page[i].next_ms, 0};
    return n;
}

static void record_added_entries(dt_reconciler *r, const struct dt_entry *entries, size_t n)
{
    r->rebuild.entries += (int64_t)n;
    dt_metric_add(r->rebuilt, (int64_t)n);
    for (size_t i = 0; i < n && dt_reconcile_is_soon(r, entries[i].due_ms); i++)
        dt_shard_set_add(&r->out->wake, dt_shard_of(r->map, entries[i].id));
}

/* Reads the replies to adding the first n of r->entries. If an endpoint failed, adds the entries shard by shard, to
 * find out which shards are affected. */
static void finish_adding_entries(dt_reconciler *r, size_t n, dt_status begun)
{
    struct dt_entry *of_shard = r->entries + n; /* room for n more entries: r->entries has two slices */
    struct dt_rebuild *b = &r->rebuild;
    if (dt_index_end_fill(r->index, NULL) == DT_OK && begun == DT_OK) {
        record_added_entries(r, r->entries, n);
        return;
    }
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        size_t found = 0;
        for (size_t i = 0; dt_shard_set_has(&b->filling, shard) && i < n; i++)
            if (dt_shard_of(r->map, r->entries[i].id) == shard)
                of_shard[found++] = r->entries[i];
        if (found == 0)
            continue;
        if (dt_index_add_missing(r->index, shard, of_shard, found, NULL) == DT_OK) {
            record_added_entries(r, of_shard, found);
            continue;
        }
        dt_metric_add(r->failures, 1);
        stop_filling_shard(b, shard);
    }
}

static void advance_position(struct dt_rebuild *b)
{
    if (b->n_page == 0)
        return;
    b->at_ms = b->page[b->n_page - 1].next_ms;
    b->at_id = b->page[b->n_page - 1].id;
}

/* Sends the current page to Redis, and reads MySQL's next page while Redis adds the current one. */
static dt_status add_page_and_read_next(dt_reconciler *r, dt_status asked, bool last, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    size_t n = select_entries_to_fill(r);
    dt_status begun = dt_index_begin_fill(r->index, r->map, r->entries, n, NULL);
    dt_status status = asked == DT_OK ? dt_store_take_due(r->store, r->slice, last, b->page, &b->n_page, err) : asked;
    finish_adding_entries(r, n, begun);
    return status;
}

/* Adds the current page, and the pages that one statement reads, except the last page of the statement: it remains in
 * b->page (b->has_page). */
static dt_status add_and_read_pages(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    /* Progress is recorded between two statements, so one statement must not read too many rows. */
    size_t pages = AHEAD_ROWS / r->slice;
    int64_t end_ms = dt_reconcile_horizon_end_ms(r);
    pages = pages >= AHEAD ? AHEAD : pages ? pages : 1;
    dt_status status = dt_store_ask_due(r->store, b->at_ms, end_ms, pages * r->slice, err);
    status = add_page_and_read_next(r, status, pages == 1, err);
    for (size_t page = 2; page <= pages && status == DT_OK && b->n_page == r->slice; page++) {
        advance_position(b);
        status = add_page_and_read_next(r, status, page == pages, err);
    }
    b->has_page = status == DT_OK;
    b->page_end_ms = end_ms;
    return status;
}

/* ---- the end of a pass ---- */

/* Reports which sets of this process's leaders are complete because the pass has filled them. */
static void finish_rebuild_pass(dt_reconciler *r, int64_t to_ms)
{
    struct dt_rebuild *b = &r->rebuild;
    dt_assert_cmp(b->n_notes, ==, 0); /* the pass has released all sets that it filled */
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (!dt_shard_set_has(&b->shards, shard) || !dt_shard_set_has(&b->filling, shard))
            continue;
        dt_shard_set_remove(&b->shards, shard);
        r->views[shard].loaded_ms = to_ms;
        r->views[shard].scanned = r->views[shard].overdue_seen = true;
        if (!dt_reconcile_is_lost(r, shard)) /* if a set was lost again meanwhile, it is rebuilt again */
            dt_shard_set_add(&r->out->whole, shard);
    }
    b->filling = (struct dt_shard_set){0};
    b->passing = false;
    b->not_before_us = r->now_us;
    /* If a job ended after its page was read, its entry was added nevertheless: the full scan removes it. */
    dt_reconcile_full_scan_soon(r);
    if (dt_shard_set_empty(&b->shards) && dt_shard_set_empty(&b->again)) {
        DT_LOG(INFO, "reconcile", "index rebuilt", DT_I("entries", b->entries),
               DT_I("ms", (r->now_us - b->started_us) / 1000));
        b->active = b->helped = false;
    }
    request_rebuild_again(r);
}

dt_status dt_rebuild_step(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    dt_status status = DT_OK;
    dt_assert(b->active && (b->passing || !dt_shard_set_empty(&b->shards)));
    if (!b->passing)
        begin_rebuild_pass(r);
    if (!b->passing)
        return DT_OK;
    if (!b->has_page) {
        b->page_end_ms = dt_reconcile_horizon_end_ms(r);
        const struct dt_due_window window = {
            .to_ms = b->page_end_ms, .after_ms = b->at_ms, .after_id = b->at_id, .limit = r->slice};
        status = dt_store_scan_due(r->store, &window, b->page, &b->n_page, err);
    }
    if (status != DT_OK)
        return status;
    b->has_page = false;
    DT_FAIL_POINT("rebuild.page");
    bool more = b->n_page == r->slice;
    advance_position(b);
    /* The last millisecond of a full page may be incomplete, so the page ends before it. The next page begins with this
     * millisecond and has all of its rows. */
    if (more && b->page[0].next_ms != b->at_ms) {
        while (b->page[b->n_page - 1].next_ms == b->at_ms)
            b->n_page--;
        b->at_id = 0;
    }
    if (more && b->at_id == 0) {
        status = add_and_read_pages(r, err);
    } else {
        size_t n = select_entries_to_fill(r);
        finish_adding_entries(r, n, dt_index_begin_fill(r->index, r->map, r->entries, n, NULL));
    }
    if (more && !dt_shard_set_empty(&b->filling)) {
        if (r->now_us - b->told_us >= TELL_US)
            record_progress(r, b->at_ms, false);
        return status;
    }
    record_progress(r, more ? b->at_ms : b->page_end_ms, true);
    finish_rebuild_pass(r, b->page_end_ms);
    return status;
}
