/*
 * Who leads how many shards, who gives some back, who takes which: the election's arithmetic, without a server.
 * Pure: no I/O, no globals, no time.
 */
#ifndef DT_DISPATCHER_ELECTOR_SHARE_H
#define DT_DISPATCHER_ELECTOR_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "job/shard.h"

/* How many of `shards` the member with this rank (0 = joined first) leads among `members` (> 0). All shares sum up to
 * `shards`. */
unsigned dt_share_of(unsigned shards, unsigned members, unsigned rank);

/*
 * Rank of the member whose node name contains `guid` among `names` (…-<sequence number>, any order), by sequence
 * number. False: it is not among them.
 */
bool dt_share_rank(const char *const *names, size_t n, const char *guid, unsigned *rank);

/* A member's view. mine and taken are indexed by shard and DT_SHARDS_MAX long. */
struct dt_share_view {
    unsigned shards, members, rank;
    bool leaving;      /* its share is none */
    const bool *mine;  /* led by this member, and not being given back already */
    const bool *taken; /* has a leader of whatever kind, or has not yet lost the last one */
};

struct dt_share_plan {
    unsigned release[DT_SHARDS_MAX], take[DT_SHARDS_MAX];
    size_t n_release, n_take;
};

/*
 * Plans the next step. A member above its share gives back the surplus (highest numbers first) and takes nothing; one
 * below it takes free shards, starting at a place of its own so that members who take at the same time seldom want the
 * same one. Shards that the map no longer names are given back.
 */
void dt_share_plan(const struct dt_share_view *view, struct dt_share_plan *out);

#endif
