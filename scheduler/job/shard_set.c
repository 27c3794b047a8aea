/* Sets of shards: see shard_set.h. */
#include "shard_set.h"

bool dt_shard_set_empty(const struct dt_shard_set *set)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        any |= set->bits[i];
    return any == 0;
}

struct dt_shard_set dt_shard_set_without(const struct dt_shard_set *a, const struct dt_shard_set *b)
{
    struct dt_shard_set left;
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        left.bits[i] = a->bits[i] & ~b->bits[i];
    return left;
}

void dt_shard_set_keep(struct dt_shard_set *set, const struct dt_shard_set *others)
{
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        set->bits[i] &= others->bits[i];
}
