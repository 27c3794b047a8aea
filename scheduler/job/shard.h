/* The shard of a job. slot = crc32(decimal id) mod 1024 (zlib's crc32, as in SQL's CRC32(id) % 1024), fixed for ever.
 * Slots map to shards by jump consistent hash (Lamping & Veach, 2014), shards to Redis endpoints by rendezvous hash. */
#pragma once

#include "base/text/strbuf.h"

#define DT_SLOTS 1024
#ifndef DT_SHARDS_MAX /* the simulator sets a small number, because many loops visit every shard */
#define DT_SHARDS_MAX 1024
#endif

unsigned dt_slot(int64_t job_id);
unsigned dt_jump_hash(uint64_t key, unsigned buckets);

/* The map of slots to shards of one generation. Copied by assignment. */
struct dt_shard_map {
    int64_t generation;
    unsigned shards;
    uint16_t of_slot[DT_SLOTS];
};
void dt_shard_map_init(struct dt_shard_map *map, int64_t generation, unsigned shards);
/* Returns true if the map `to` gives the shard slots that `from` does not give it. */
bool dt_shard_map_gains(const struct dt_shard_map *from, const struct dt_shard_map *to, unsigned shard);
static inline unsigned dt_shard_of(const struct dt_shard_map *map, int64_t job_id)
{
    return map->of_slot[dt_slot(job_id)];
}

/* Returns the index of the shard's endpoint among n names. The order of the names does not matter. */
unsigned dt_rendezvous(unsigned shard, const struct dt_str *names, unsigned n);

/* A set of shards, all below DT_SHARDS_MAX. Copied by assignment; all zero is the empty set. */
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
/* Removes the shards that `others` does not have. */
void dt_shard_set_keep(struct dt_shard_set *set, const struct dt_shard_set *others);
/* Returns the shards of a that are not in b. */
struct dt_shard_set dt_shard_set_without(const struct dt_shard_set *a, const struct dt_shard_set *b);
