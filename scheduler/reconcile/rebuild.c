/*
 * Owns the refilling of sets that were lost. Refuses to compare: it adds what is missing, nearest first, and leaves
 * what is there (entries that came since the loss are right; entries of an old copy are for the compares).
 *
 * The cursor goes through MySQL's due index from the longest overdue row up to the horizon, which moves on meanwhile:
 * the rebuild is over when a page is not full. A shard that asks while one is under way makes it start over for all,
 * since nearest first matters most; adding again what is there already changes nothing. A shard whose Redis does not
 * answer starts over after RETRY_US.
 */
#include "base/fail_point.h"
#include "base/log.h"
#include "reconcile/parts.h"

#define RETRY_US INT64_C(500000)

void dt_rebuild_request(dt_reconciler *r, const struct dt_shard_set *shards)
{
    struct dt_rebuild *b = &r->rebuild;

    if (dt_shard_set_empty(shards))
        return;
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        b->shards.bits[i] |= shards->bits[i];
    if (!b->active)
        b->started_us = r->now_us;
    b->active = true;
    b->at_ms = b->at_id = 0;
    b->entries = 0;
}

bool dt_rebuild_active(const dt_reconciler *r)
{
    return r->rebuild.active && r->now_us >= r->rebuild.not_before_us;
}

/* The page's entries of one shard, or of all that are being rebuilt (shard -1), in r->entries. */
static size_t pick(dt_reconciler *r, int shard, size_t n_page)
{
    size_t n = 0;

    for (size_t i = 0; i < n_page; i++) {
        unsigned of = dt_shard_of(r->map, r->page[i].id);

        if (shard < 0 ? dt_shard_set_has(&r->rebuild.shards, of) : (int)of == shard)
            r->entries[n++] = (struct dt_entry){r->page[i].id, r->page[i].next_ms, 0};
    }
    return n;
}

static void done(dt_reconciler *r, size_t n)
{
    r->rebuild.entries += (int64_t)n;
    dt_metric_add(r->rebuilt, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        dt_reconcile_wake_for(r, dt_shard_of(r->map, r->entries[i].id), r->entries[i].due_ms);
}

/* Some endpoint failed: shard by shard, to see whose. */
static void add_singly(dt_reconciler *r, size_t n_page)
{
    struct dt_rebuild *b = &r->rebuild;
    struct dt_error err;

    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        size_t n = dt_shard_set_has(&b->shards, shard) ? pick(r, (int)shard, n_page) : 0;

        if (n == 0)
            continue;
        if (dt_index_add_missing(r->index, shard, r->entries, n, &err) == DT_OK) {
            done(r, n);
            continue;
        }
        dt_metric_add(r->failures, 1);
        dt_shard_set_remove(&b->shards, shard);
        dt_shard_set_add(&b->again, shard);
    }
}

static void add_page(dt_reconciler *r, size_t n_page)
{
    struct dt_error err;
    size_t n = pick(r, -1, n_page);

    if (dt_index_fill(r->index, r->map, r->entries, n, &err) == DT_OK)
        done(r, n);
    else
        add_singly(r, n_page);
}

static void finish(dt_reconciler *r, int64_t to_ms)
{
    struct dt_rebuild *b = &r->rebuild;

    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (!dt_shard_set_has(&b->shards, shard))
            continue;
        r->views[shard].loaded_ms = to_ms;
        r->views[shard].walked = r->views[shard].overdue_seen = true;
        if (!dt_reconcile_is_lost(r, shard)) /* again meanwhile: all over again */
            dt_shard_set_add(&r->out->whole, shard);
    }
    if (!dt_shard_set_empty(&b->shards))
        DT_LOG(INFO, "reconcile", "index rebuilt", DT_I("entries", b->entries),
               DT_I("ms", (r->now_us - b->started_us) / 1000));
    b->active = false;
    b->shards = (struct dt_shard_set){0};
    dt_reconcile_walk_soon(r); /* what a result ended between a page and its writing was put back */
}

/* Those whose Redis failed, from the start, a little later. */
static void start_over(dt_reconciler *r)
{
    struct dt_shard_set again = r->rebuild.again;

    if (dt_shard_set_empty(&again))
        return;
    r->rebuild.again = (struct dt_shard_set){0};
    r->rebuild.not_before_us = r->now_us + RETRY_US;
    dt_rebuild_request(r, &again);
}

dt_status dt_rebuild_step(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    int64_t to_ms = dt_reconcile_horizon_end_ms(r);
    size_t n = 0;
    dt_status status = dt_store_scan_due(r->store, 0, to_ms, b->at_ms, b->at_id, r->slice, r->page, &n, err);

    if (status != DT_OK)
        return status;
    DT_FAIL_POINT("rebuild.page");
    add_page(r, n);
    if (n) {
        b->at_ms = r->page[n - 1].next_ms;
        b->at_id = r->page[n - 1].id;
    }
    if (n < r->slice || dt_shard_set_empty(&b->shards)) {
        finish(r, to_ms);
        start_over(r);
    }
    return DT_OK;
}
