/*
 * Owns the items of a batch: which entry goes, which comes, and their order. Refuses to know the commands.
 * Invariant: once loaded, the items are grouped by shard, and sorted as a set is within a shard.
 */
#include "index_internal.h"

#include <stdlib.h>

#include "base/assert.h"

#define FEW    64u            /* so few items are sorted without being dealt out first */
#define FAR_MS INT64_C(60000) /* beyond the horizon by so much there are no entries, whatever the clocks say */

_Static_assert(DT_INDEX_BATCH_MAX <= DT_KNOWN_MAX, "a batch has more ids than the table of known ids has room for");

dt_status dt_index_batch_new(struct dt_index_batch **out)
{
    struct dt_index_batch *batch = malloc(sizeof(*batch));

    *out = batch;
    if (!batch)
        return DT_NOMEM;
    batch->items = batch->space;
    batch->dealt = batch->space + 2 * DT_INDEX_BATCH_MAX;
    return DT_OK;
}

/* ---- order ---- */

static int by_shard(const void *a, const void *b)
{
    const struct dt_shard_item *x = a;
    const struct dt_shard_item *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->item.due_ms != y->item.due_ms)
        return x->item.due_ms < y->item.due_ms ? -1 : 1;
    return dt_member_compare(&x->item.member, &y->item.member);
}

static void sort_items(struct dt_shard_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (by_shard(&items[i - 1], &items[i]) > 0) {
            qsort(items, n, sizeof(*items), by_shard);
            return;
        }
    }
}

/*
 * Deals the items out to their shards, the last item first, and sorts each shard's. A caller's entries are loaded from
 * the last to the first, so entries that came in the order of their times are in that order again, and the sort has
 * nothing to do.
 */
static void sort_batch(struct dt_index_batch *batch)
{
    size_t end[DT_SHARDS_MAX] = {0}; /* of the items of each shard */
    struct dt_shard_item *loaded = batch->items;
    size_t sum = 0;

    if (batch->n < FEW) {
        sort_items(loaded, batch->n);
        return;
    }
    for (size_t i = 0; i < batch->n; i++)
        end[loaded[i].shard]++;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) { /* their beginning at first: dealing moves it */
        size_t n = end[shard];

        end[shard] = sum;
        sum += n;
    }
    dt_assert_cmp(sum, ==, batch->n);
    batch->items = batch->dealt;
    batch->dealt = loaded;
    for (size_t i = batch->n; i-- > 0;)
        batch->items[end[loaded[i].shard]++] = loaded[i];
    for (size_t from = 0, to; from < batch->n; from = to) {
        to = end[batch->items[from].shard];
        sort_items(batch->items + from, to - from);
    }
}

/* ---- loading ---- */

static void add_item(struct dt_index_batch *batch, unsigned shard, bool gone, int64_t id, int64_t due_ms)
{
    dt_assert_cmp(batch->n, <, 2 * DT_INDEX_BATCH_MAX);
    batch->items[batch->n++] = (struct dt_shard_item){shard, gone, dt_item_of(id, due_ms, 0)};
}

/* Goes from the last entry to the first: a job's last due_ms is met first and counts, and every was_ms goes. */
void dt_index_batch_load(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                         int64_t horizon_end_ms)
{
    struct dt_index_batch *batch = index->batch;
    const int64_t last_ms = horizon_end_ms < INT64_MAX - FAR_MS ? horizon_end_ms + FAR_MS : INT64_MAX;

    dt_assert_cmp(n, <=, DT_INDEX_BATCH_MAX);
    batch->n = 0;
    dt_known_clear(index, n);
    for (size_t i = n; i-- > 0;) {
        const struct dt_entry *e = &entries[i];
        struct dt_known_id *known = dt_known_find(index, e->id);
        unsigned shard = dt_shard_of(map, e->id);
        int64_t due_ms = e->due_ms <= horizon_end_ms ? e->due_ms : 0;

        if (!known->id) {
            *known = (struct dt_known_id){e->id, due_ms};
            if (due_ms)
                add_item(batch, shard, false, e->id, due_ms);
        }
        if (e->was_ms && e->was_ms != known->due_ms && e->was_ms <= last_ms)
            add_item(batch, shard, true, e->id, e->was_ms);
    }
    sort_batch(batch);
}

/* ---- sending ---- */

/* The end of the items of one shard that begin at `from`. */
static size_t shard_end(const struct dt_index_batch *batch, size_t from)
{
    size_t to = from + 1;

    while (to < batch->n && batch->items[to].shard == batch->items[from].shard)
        to++;
    return to;
}

static void build_endpoint(dt_index *index, unsigned endpoint)
{
    struct dt_index_batch *batch = index->batch;

    for (size_t from = 0, to; from < batch->n; from = to) {
        unsigned shard = batch->items[from].shard;
        size_t n_gone = 0;
        size_t n_new = 0;

        dt_assert(from == 0 || batch->items[from - 1].shard < shard);
        to = shard_end(batch, from);
        if (dt_index_link(index, shard) != index->links[endpoint])
            continue;
        for (size_t i = from; i < to; i++) {
            if (batch->items[i].gone)
                batch->gone[n_gone++] = batch->items[i].item;
            else
                batch->new[n_new++] = batch->items[i].item;
        }
        batch->build(index, shard, n_gone, n_new);
    }
}

/* Marks the endpoints that the batch has something for. */
static void want_endpoints(dt_index *index, dt_index_batch_build_fn *build)
{
    struct dt_index_batch *batch = index->batch;

    memset(index->wanted, 0, index->n_links * sizeof(*index->wanted));
    for (size_t from = 0; from < batch->n; from = shard_end(batch, from))
        index->wanted[index->link_of[batch->items[from].shard % DT_SHARDS_MAX]] = true;
    batch->build = build;
}

dt_status dt_index_batch_send(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err)
{
    want_endpoints(index, build);
    return dt_index_send_wanted(index, build_endpoint, err);
}

dt_status dt_index_batch_ask(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err)
{
    want_endpoints(index, build);
    return dt_index_ask_wanted(index, build_endpoint, err);
}
