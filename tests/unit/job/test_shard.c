/* The three fixed hashes. The vectors were computed by a separate program (Python: zlib.crc32, the jump hash and XXH64
 * written from their papers and specification); stored data depends on them, so they must never change. */
#include "support/suite.h"
#include <zlib.h>

#include "job/shard.h"

TEST(slots_are_the_crc32_of_the_decimal_id)
{
    static const struct {
        int64_t id;
        unsigned slot;
    } cases[] = {
        {0, 801},
        {1, 951},
        {7, 642},
        {42, 136},
        {7316522, 352},
        {INT64_C(1099511627776), 297},
        {INT64_C(758011862122497), 31},
        {INT64_MAX, 734},
        {-5, 51},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(dt_slot(cases[i].id), cases[i].slot);
}

TEST(ids_spread_evenly_over_the_slots)
{
    static unsigned count[DT_SLOTS];
    for (int64_t id = 1; id <= 1024 * 1000; id++)
        count[dt_slot((INT64_C(690) << 40) + id)]++;
    for (int i = 0; i < DT_SLOTS; i++)
        assert_in_range(count[i], 700, 1300);
}

TEST(jump_hash_gives_the_published_values)
{
    static const struct {
        uint64_t key;
        unsigned buckets, bucket;
    } cases[] = {
        {0, 1, 0},
        {1, 4, 0},
        {2, 4, 3},
        {3, 4, 3},
        {10, 10, 7},
        {1023, 7, 4},
        {1023, 1024, 497},
        {0xdeadbeef, 64, 16},
        {UINT64_MAX, 1000, 313},
        {256, 1024, 520},
        {500, 3, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(dt_jump_hash(cases[i].key, cases[i].buckets), cases[i].bucket);
}

TEST(maps_are_the_same_in_all_versions)
{
    static const struct {
        unsigned shards;
        unsigned long crc;
    } cases[] = {{1, 4058561182}, {4, 509883417}, {7, 2990673611}, {64, 3109767676}, {1024, 2281713068}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[2 * DT_SLOTS];
        struct dt_shard_map map;
        dt_shard_map_init(&map, 5, cases[i].shards);
        for (unsigned slot = 0; slot < DT_SLOTS; slot++) {
            bytes[2 * slot] = (unsigned char)(map.of_slot[slot] & 0xff);
            bytes[2 * slot + 1] = (unsigned char)(map.of_slot[slot] >> 8);
        }
        assert_int_equal(crc32(0, bytes, sizeof bytes), cases[i].crc);
        assert_members(map, (generation, 5), (shards, cases[i].shards));
    }
}

TEST(a_job_belongs_to_the_shard_of_its_slot)
{
    struct dt_shard_map map;
    dt_shard_map_init(&map, 1, 7);
    for (int64_t id = 1; id < 1000; id++) {
        assert_int_equal(dt_shard_of(&map, id), dt_jump_hash(dt_slot(id), 7));
        assert_true(dt_shard_of(&map, id) < 7);
    }
}

/* One shard more moves 1/(n+1) of the slots, and only to the new shard. */
TEST(a_new_shard_takes_slots_and_no_others_move)
{
    for (unsigned shards = 1; shards < 64; shards++) {
        struct dt_shard_map before, after;
        unsigned moved = 0;
        dt_shard_map_init(&before, 1, shards);
        dt_shard_map_init(&after, 2, shards + 1);
        for (unsigned slot = 0; slot < DT_SLOTS; slot++) {
            if (before.of_slot[slot] == after.of_slot[slot])
                continue;
            assert_int_equal(after.of_slot[slot], shards);
            moved++;
        }
        assert_true(moved > 0 && moved < 2 * DT_SLOTS / (shards + 1));
    }
}

#define NAMES 3
static const struct dt_str names[NAMES] = {DT_STR_LIT("127.0.0.1:6379"), DT_STR_LIT("127.0.0.1:6380"),
                                           DT_STR_LIT("redis-a.example.internal.cluster.local:6379")};

TEST(rendezvous_picks_the_endpoint_of_the_fixed_vectors)
{
    static const unsigned want[24] = {1, 1, 1, 2, 0, 0, 2, 0, 0, 2, 1, 0, 1, 1, 2, 2, 2, 2, 0, 1, 1, 2, 1, 0};
    for (unsigned shard = 0; shard < 24; shard++)
        assert_int_equal(dt_rendezvous(shard, names, NAMES), want[shard]);
}

TEST(the_order_of_endpoints_does_not_matter)
{
    const struct dt_str turned[NAMES] = {names[2], names[0], names[1]};
    for (unsigned shard = 0; shard < 1024; shard++)
        assert_true(dt_str_eq(turned[dt_rendezvous(shard, turned, NAMES)], names[dt_rendezvous(shard, names, NAMES)]));
}

TEST(removing_an_endpoint_moves_only_its_own_shards)
{
    for (unsigned shard = 0; shard < 1024; shard++) {
        unsigned before = dt_rendezvous(shard, names, NAMES);
        if (before < 2)
            assert_int_equal(dt_rendezvous(shard, names, 2), before);
    }
}

TEST(a_single_endpoint_gets_all_shards_and_duplicates_are_ignored)
{
    const struct dt_str twins[2] = {DT_STR_LIT("a:1"), DT_STR_LIT("a:1")};
    for (unsigned shard = 0; shard < 100; shard++) {
        assert_int_equal(dt_rendezvous(shard, names, 1), 0);
        assert_int_equal(dt_rendezvous(shard, twins, 2), 0);
    }
}
