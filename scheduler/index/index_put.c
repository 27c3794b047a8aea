/*
 * Owns dt_index_put: entries of any shards that are added, moved or removed. Refuses to know why they are.
 */
#include "index_internal.h"

/* Adds the shard's changes to its link, at most DT_CHUNK removals and additions a command. What goes is removed before
 * what comes is added, within a command. */
static void build_changes(dt_index *index, unsigned shard, size_t n_gone, size_t n_new)
{
    const struct dt_index_batch *batch = index->batch;

    for (size_t g = 0, a = 0; g < n_gone || a < n_new;) {
        size_t goes = dt_at_most(n_gone - g, DT_CHUNK);
        size_t comes = dt_at_most(n_new - a, DT_CHUNK);

        const struct dt_change change = {.how = DT_CHANGE_PUT,
                                         .wake = batch->wake,
                                         .gone = batch->gone + g,
                                         .n_gone = goes,
                                         .new = batch->new + a,
                                         .n_new = comes};

        dt_change_command(index, shard, &change);
        g += goes;
        a += comes;
    }
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    dt_status first = DT_OK;

    index->batch->wake = wake;
    for (size_t at = 0, some; at < n; at += some) {
        some = dt_at_most(n - at, DT_INDEX_BATCH_MAX);
        dt_index_batch_load(index, map, entries + at, some, horizon_end_ms);
        dt_keep_first(&first, dt_index_batch_ask(index, build_changes, first == DT_OK ? err : NULL));
    }
    return first;
}
