/*
 * A batch: entries of many shards that are sent to all their endpoints in one round trip. It is scratch memory of the
 * handle and belongs to the call that is under way. Internal to index/.
 *
 * Calling sequence: dt_index_batch_load, then dt_index_batch_ask; or dt_index_batch_send, and later dt_index_receive. A
 * batch may be sent again: every command is idempotent.
 */
#ifndef DT_INDEX_INDEX_BATCH_H
#define DT_INDEX_INDEX_BATCH_H

#include "index_internal.h"
#include "index_pack.h"

#define DT_INDEX_BATCH_MAX 16384u /* entries of one batch, so that memory is bounded */

/* A change of one shard's set: an entry that goes, or one that comes. */
struct dt_shard_item {
    uint32_t shard;
    bool gone;
    struct dt_item item;
};

/* Adds the commands for one shard, whose items are batch->gone[n_gone] and batch->new[n_new], to the shard's link. */
typedef void dt_index_batch_build_fn(dt_index *index, unsigned shard, size_t n_gone, size_t n_new);

struct dt_index_batch {
    struct dt_shard_item *items, *dealt; /* halves of `space`: the items, and room to deal them out to their shards */
    struct dt_shard_item space[4 * DT_INDEX_BATCH_MAX];
    struct dt_item gone[DT_INDEX_BATCH_MAX], new[DT_INDEX_BATCH_MAX]; /* of the shard whose commands are being built */
    size_t n;
    dt_index_batch_build_fn *build; /* of the round trip that is under way */
    bool wake;                      /* what build asks for: see dt_index_put */
};

DT_MUST_CHECK dt_status dt_index_batch_new(struct dt_index_batch **out);

/*
 * Makes the batch of entries[n], n at most DT_INDEX_BATCH_MAX; see dt_index_put for what an entry asks. The items of a
 * shard stand together in the order of a set. Of several entries of one job the last due_ms counts, and all their
 * was_ms go. An entry that is due after horizon_end_ms does not come; what stood far beyond it is not looked for.
 */
void dt_index_batch_load(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                         int64_t horizon_end_ms);

/* Writes the batch to the endpoints that it has something for. The first failure is the status; the others go on. */
DT_MUST_CHECK dt_status dt_index_batch_send(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err);
/* Sends the batch and receives: one round trip. The first failure is the status. */
DT_MUST_CHECK dt_status dt_index_batch_ask(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err);

#endif
