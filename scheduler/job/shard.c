/* Slots, shards and endpoints: three fixed hashes. They must never change, because stored data depends on them (a job's
 * slot decides which shard's set in Redis has its entry). The unit tests have vectors that other implementations
 * computed. */
#include "shard.h"

#include <xxhash.h>
#include <zlib.h>

unsigned dt_slot(int64_t job_id)
{
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t left = job_id < 0 ? -(uint64_t)job_id : (uint64_t)job_id;
    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (job_id < 0)
        digits[--at] = '-';
    return (unsigned)(crc32(0, (const Bytef *)digits + at, (uInt)(sizeof(digits) - at)) % DT_SLOTS);
}

/* If there is one bucket, the key is in bucket 0. When the n-th bucket is added, the key moves to that bucket with
 * probability 1/n. The loop does not try each n: a pseudo-random sequence seeded by the key gives the n of each next
 * move. */
unsigned dt_jump_hash(uint64_t key, unsigned buckets)
{
    int64_t bucket = 0;
    int64_t next = 0;
    while (next < (int64_t)buckets) {
        bucket = next;
        key = key * UINT64_C(2862933555777941757) + 1;
        next = (int64_t)((double)(bucket + 1) * ((double)(INT64_C(1) << 31) / (double)((key >> 33) + 1)));
    }
    return (unsigned)bucket;
}

void dt_shard_map_init(struct dt_shard_map *map, int64_t generation, unsigned shards)
{
    map->generation = generation;
    map->shards = shards;
    for (unsigned slot = 0; slot < DT_SLOTS; slot++)
        map->of_slot[slot] = (uint16_t)dt_jump_hash(slot, shards);
}

bool dt_shard_map_gains(const struct dt_shard_map *from, const struct dt_shard_map *to, unsigned shard)
{
    for (unsigned slot = 0; slot < DT_SLOTS; slot++)
        if (to->of_slot[slot] == shard && from->of_slot[slot] != shard)
            return true;
    return false;
}

unsigned dt_rendezvous(unsigned shard, const struct dt_str *names, unsigned n)
{
    unsigned best = 0;
    uint64_t best_weight = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t weight = XXH64(names[i].p, names[i].n, shard);
        if (i == 0 || weight > best_weight || (weight == best_weight && dt_str_order(names[i], names[best]) < 0)) {
            best = i;
            best_weight = weight;
        }
    }
    return best;
}

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
