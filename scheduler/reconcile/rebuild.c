/*
 * Owns the refilling of sets that were lost. Refuses to compare: it adds what is missing, nearest first, and leaves
 * what is there (entries that came since the loss are right; entries of an old copy are for the compares).
 *
 * The cursor goes through MySQL's due index from the longest overdue row up to the horizon, which moves on meanwhile:
 * the rebuild is over when a page is not full. While a page is added MySQL reads the next one, which waits for the next
 * step: what is told the index meanwhile is looked through once more by the walk. A shard that asks while one is under
 * way makes it start over for all, since nearest first matters most; adding again what is there already changes
 * nothing. A shard whose Redis does not answer starts over after RETRY_US.
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
    b->has_page = false;
    b->entries = 0;
}

bool dt_rebuild_active(const dt_reconciler *r)
{
    return r->rebuild.active && r->now_us >= r->rebuild.not_before_us;
}

/* The page's entries of one shard, or of all that are being rebuilt (shard -1), in r->entries. */
static size_t pick(dt_reconciler *r, int shard)
{
    const struct dt_rebuild *b = &r->rebuild;
    size_t n = 0;

    for (size_t i = 0; i < b->n_page; i++) {
        unsigned of = dt_shard_of(r->map, b->page[i].id);

        if (shard < 0 ? dt_shard_set_has(&b->shards, of) : (int)of == shard)
            r->entries[n++] = (struct dt_entry){b->page[i].id, b->page[i].next_ms, 0};
    }
    return n;
}

static void done(dt_reconciler *r, size_t n)
{
    r->rebuild.entries += (int64_t)n;
    dt_metric_add(r->rebuilt, (int64_t)n);
    for (size_t i = 0; i < n && dt_reconcile_is_soon(r, r->entries[i].due_ms); i++)
        dt_shard_set_add(&r->out->wake, dt_shard_of(r->map, r->entries[i].id));
}

/* Some endpoint failed: shard by shard, to see whose. */
static void add_singly(dt_reconciler *r)
{
    struct dt_rebuild *b = &r->rebuild;
    struct dt_error err;

    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        size_t n = dt_shard_set_has(&b->shards, shard) ? pick(r, (int)shard) : 0;

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

static void add_page(dt_reconciler *r)
{
    struct dt_error err;
    size_t n = pick(r, -1);

    if (dt_index_fill(r->index, r->map, r->entries, n, &err) == DT_OK)
        done(r, n);
    else
        add_singly(r);
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

static dt_status read_page(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;

    b->page_end_ms = dt_reconcile_horizon_end_ms(r);
    return dt_store_scan_due(r->store, 0, b->page_end_ms, b->at_ms, b->at_id, r->slice, b->page, &b->n_page, err);
}

/* Behind the page. Of one that is full the last millisecond, of which it may have a part only, is left to the next
 * page, so that one range of the due index is all of it. */
static void advance(dt_reconciler *r)
{
    struct dt_rebuild *b = &r->rebuild;
    size_t n = b->n_page;
    int64_t last_ms = n ? b->page[n - 1].next_ms : b->at_ms;

    b->at_id = n ? b->page[n - 1].id : b->at_id;
    b->at_ms = last_ms;
    if (n < r->slice || b->page[0].next_ms == last_ms)
        return;
    while (b->page[n - 1].next_ms == last_ms)
        n--;
    b->n_page = n;
    b->at_id = 0;
}

/* Adds the page while MySQL reads the next one; b->has_page tells whether that was got. */
static dt_status add_and_read(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    int64_t end_ms = dt_reconcile_horizon_end_ms(r);
    dt_status status = dt_store_ask_due(r->store, b->at_ms, end_ms, r->slice, err);

    b->has_page = false;
    add_page(r);
    if (status == DT_OK)
        status = dt_store_take_due(r->store, b->page, &b->n_page, err);
    b->has_page = status == DT_OK;
    b->page_end_ms = end_ms;
    return status;
}

dt_status dt_rebuild_step(dt_reconciler *r, struct dt_error *err)
{
    struct dt_rebuild *b = &r->rebuild;
    dt_status status = b->has_page ? DT_OK : read_page(r, err);
    bool more;

    if (status != DT_OK)
        return status;
    b->has_page = false;
    DT_FAIL_POINT("rebuild.page");
    more = b->n_page == r->slice;
    advance(r);
    if (more && b->at_id == 0)
        status = add_and_read(r, err);
    else
        add_page(r);
    if (!more || dt_shard_set_empty(&b->shards)) {
        finish(r, b->page_end_ms);
        start_over(r);
    }
    return status;
}
