/*
 * Owns:            the exact compare of a window of time.
 * Refuses to know: what is done about a mismatch; a row or an entry that does not look alike becomes a suspect.
 *
 * A window is cut into pieces of at most a slice of rows. One step of a piece:
 *
 *   ROWS      A page of MySQL's due index from `from` on. If the page is full, the piece ends before the page's last
 *             millisecond, so that it is whole. More rows than a slice in one millisecond ("ties") are a piece of their
 *             own, in pages by id; all of their rows are suspects, since Redis orders equal scores otherwise (by the
 *             bytes of the ids).
 *   ENTRIES   The same piece in Redis, shard by shard. An entry that equals a row is fine. All other entries are
 *             suspects, and in the end all rows that no entry equalled.
 *
 * Rows are read before entries here, which decides nothing: an entry that equals a row as it was a moment ago was right
 * a moment ago, and whoever changed the row since tells the index. repair.c looks at suspects again, Redis first.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "parts.h"

#define LOOK_US    2  /* about the cost of a row or an entry that is fine */
#define SUSPECT_US 10 /* and of one that is not */

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

static void suspect(dt_reconciler *r, struct dt_suspect met)
{
    dt_assert_cmp(r->n_suspects, <, 2 * r->slice);
    r->suspects[r->n_suspects++] = met;
}

static dt_status step_rows(dt_reconciler *r, struct dt_compare *c, struct dt_error *err)
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
    if (!c->ties) { /* how far the piece reaches */
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
            suspect(r, (struct dt_suspect){row->id, DT_NOT_SEEN, row->next_ms, shard, true});
        } else {
            c->matched[c->n_rows] = false;
            c->rows[c->n_rows++] = *row;
        }
    }
    if (c->ties && n)
        c->tie_id = r->page[n - 1].id;
    if (c->ties && n == r->slice)
        return DT_OK; /* more of them at the next step */
    c->phase = DT_COMPARE_ENTRIES;
    c->shard = 0;
    c->has_after = false;
    return DT_OK;
}

static int by_due(const void *a, const void *b)
{
    const struct dt_due *x = a;
    const struct dt_due *y = b;

    if (x->next_ms != y->next_ms)
        return x->next_ms < y->next_ms ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Compares a page of one shard's entries with the rows. Returns how many there were: 0 = the shard has no more. */
static size_t compare_entries(dt_reconciler *r, struct dt_compare *c, size_t limit)
{
    const struct dt_range range = {
        .from_ms = c->from_ms, .to_ms = c->piece_end_ms, .after = c->has_after ? &c->after : NULL, .limit = limit};
    struct dt_error err;
    size_t n = 0;

    if (dt_index_range(r->index, c->shard, &range, r->entries, &n, &err) != DT_OK) {
        dt_metric_add(r->failures, 1);
        dt_shard_set_remove(&c->shards, c->shard); /* nothing can be said about this shard now */
        return 0;
    }
    dt_assert_cmp(n, <=, limit);
    r->work_us += (int64_t)n * LOOK_US;
    for (size_t i = 0; i < n; i++) {
        const struct dt_entry *entry = &r->entries[i];
        const struct dt_due key = {entry->id, entry->due_ms};
        const struct dt_due *row = NULL;

        if (dt_shard_of(r->map, entry->id) == c->shard)
            row = bsearch(&key, c->rows, c->n_rows, sizeof(key), by_due);
        if (row)
            c->matched[row - c->rows] = true;
        else
            suspect(r, (struct dt_suspect){entry->id, entry->due_ms, 0, c->shard, false});
    }
    if (n) {
        c->after = r->entries[n - 1];
        c->has_after = true;
    }
    return n;
}

static void step_entries(dt_reconciler *r, struct dt_compare *c)
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
            suspect(r, (struct dt_suspect){row->id, DT_NOT_SEEN, row->next_ms, shard, true});
    }
    c->from_ms = c->piece_end_ms; /* the next piece */
    c->ties = false;
    c->n_rows = 0;
    c->phase = c->from_ms < c->to_ms && !dt_shard_set_empty(&c->shards) ? DT_COMPARE_ROWS : DT_COMPARE_IDLE;
}

dt_status dt_compare_step(dt_reconciler *r, struct dt_compare *compare, struct dt_error *err)
{
    const struct dt_shard_set foreign = dt_shard_set_without(&compare->shards, &r->leads);
    dt_status status = DT_OK;

    dt_assert(dt_compare_active(compare));
    dt_assert(dt_shard_set_empty(&foreign)); /* a window has no shards that are not led */
    r->n_suspects = 0;
    r->work_us = 0;
    if (compare->phase == DT_COMPARE_ROWS)
        status = step_rows(r, compare, err);
    DT_FAIL_POINT_STATUS("reconcile.rows", status, err);
    if (status == DT_OK && compare->phase == DT_COMPARE_ENTRIES && !r->n_suspects)
        step_entries(r, compare);
    DT_FAIL_POINT_STATUS("reconcile.entries", status, err);
    r->work_us += (int64_t)r->n_suspects * SUSPECT_US;
    if (status == DT_OK)
        status = dt_repair(r, err);
    compare->shards = dt_shard_set_without(&compare->shards, &r->unrepaired);
    r->unrepaired = (struct dt_shard_set){0};
    if (status != DT_OK)
        compare->phase = DT_COMPARE_IDLE;
    return status;
}
