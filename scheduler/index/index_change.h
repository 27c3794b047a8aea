/*
 * The command that removes and adds entries of one shard's set (lua/change.lua). Internal to index/.
 */
#ifndef DT_INDEX_INDEX_CHANGE_H
#define DT_INDEX_INDEX_CHANGE_H

#include "index_internal.h"
#include "index_pack.h"

enum dt_change_how {
    DT_CHANGE_PUT,     /* what is added replaces an entry of the same job in the page */
    DT_CHANGE_MISSING, /* what is added leaves an entry of the same job in the page where it is */
    DT_CHANGE_FIX      /* what is added depends on a removal: its ref is the removal's number, from 1 */
};

/* Items that are removed first, and items that are added then; both are borrowed, in the order of dt_items_sort, each
 * at most DT_CHUNK. */
struct dt_change {
    enum dt_change_how how;
    bool wake; /* publish a wake-up when the shard's leader may have to act sooner (the rule is in lua/change.lua) */
    const struct dt_item *gone;
    size_t n_gone;
    const struct dt_item *new;
    size_t n_new;
};

/* Adds one command to the link of the shard. */
void dt_change_command(dt_index *index, unsigned shard, const struct dt_change *change);

#endif
