/*
 * The command that removes and adds entries of one shard's set (lua/change.lua). Internal to index/.
 */
#ifndef DT_INDEX_INDEX_CHANGE_H
#define DT_INDEX_INDEX_CHANGE_H

#include "index/index_internal.h"
#include "index/index_pack.h"

enum dt_change_how {
    DT_CHANGE_PUT,     /* what is added replaces an entry of the same job in the page */
    DT_CHANGE_MISSING, /* what is added leaves an entry of the same job in the page where it is */
    DT_CHANGE_FIX      /* what is added depends on a removal: its ref is the removal's number, from 1 */
};

/*
 * Adds one command to the link of the shard: gone[n_gone] is removed first, then new[n_new] is added; both are in the
 * order of dt_items_sort, each at most DT_CHUNK. wake: the script publishes a wake-up when the shard's leader may have to
 * act sooner (the rule is in lua/change.lua).
 */
void dt_change_command(dt_index *index, unsigned shard, bool wake, enum dt_change_how how, const struct dt_item *gone,
                       size_t n_gone, const struct dt_item *new, size_t n_new);

#endif
