/*
 * A set of shards: a value, DT_SHARDS_MAX bits; zero is the empty set. Pure. Shards are below DT_SHARDS_MAX.
 */
#ifndef DT_JOB_SHARD_SET_H
#define DT_JOB_SHARD_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "shard.h"

struct dt_shard_set {
    uint64_t bits[DT_SHARDS_MAX / 64];
};
static inline bool dt_shard_set_has(const struct dt_shard_set *set, unsigned shard)
{
    return set->bits[shard / 64] >> (shard % 64) & 1;
}
static inline void dt_shard_set_add(struct dt_shard_set *set, unsigned shard)
{
    set->bits[shard / 64] |= UINT64_C(1) << (shard % 64);
}
static inline void dt_shard_set_remove(struct dt_shard_set *set, unsigned shard)
{
    set->bits[shard / 64] &= ~(UINT64_C(1) << (shard % 64));
}
bool dt_shard_set_empty(const struct dt_shard_set *set);
/* Takes out of the set what is not in the others, too. */
void dt_shard_set_keep(struct dt_shard_set *set, const struct dt_shard_set *others);
/* The shards of a that are not in b. */
struct dt_shard_set dt_shard_set_without(const struct dt_shard_set *a, const struct dt_shard_set *b);

#endif
