/* Another number of shards, in MySQL: shards_store.c. */

#include "support/suite.h"

#include "dispatch/fence.h"
#include "dispatch/shards.h"
#include "job/inflight.h"
#include "store/processes.h"
#include "support/mysql_fixture.h"

static struct dt_error err;

struct rig {
    struct mysql_fixture fx;
    dt_store *store;
    struct dt_installation inst;
    struct dt_shard_range range;
};

static void setup(struct rig *rig)
{
    mysql_fixture_open(&rig->fx, "shards", 4, &rig->store);
}

static void teardown(struct rig *rig)
{
    dt_store_free(rig->store);
    mysql_fixture_drop(&rig->fx);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static void ask_for(struct rig *rig, unsigned shards)
{
    OK(dt_store_set_shards(rig->store, shards, &rig->inst, &err));
}

static void look(struct rig *rig)
{
    OK(dt_store_installation(rig->store, &rig->inst, &err));
    OK(dt_store_shard_range(rig->store, &rig->inst, &rig->range, &err));
}

RIG_TEST(more_shards_get_rows_and_a_generation)
{
    ask_for(rig, 7);
    assert_members(rig->inst, (shards, 7), (generation, 2));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM shards WHERE inflight = '[]'"), 7);
    look(rig);
    assert_members(rig->inst, (shards, 7), (generation, 2));
    assert_members(rig->range, (led, 7), (rows, 7));
}

RIG_TEST(setting_the_same_number_of_shards_again_changes_nothing)
{
    ask_for(rig, 7);
    ask_for(rig, 7);
    assert_members(rig->inst, (shards, 7), (generation, 2));
}

RIG_TEST(an_impossible_number_of_shards_is_refused)
{
    assert_int_equal(dt_store_set_shards(rig->store, 0, &rig->inst, &err), DT_INVALID);
    assert_int_equal(dt_store_set_shards(rig->store, DT_SHARDS_MAX + 1, &rig->inst, &err), DT_INVALID);
    look(rig);
    assert_members(rig->inst, (shards, 4), (generation, 1));
}

RIG_TEST(no_slot_moves_while_a_shard_is_halted)
{
    mysql_fixture_run(&rig->fx, "UPDATE shards SET halted = 'by hand' WHERE shard = 1");
    assert_int_equal(dt_store_set_shards(rig->store, 7, &rig->inst, &err), DT_HALTED);
    ask_for(rig, 4); /* as it is */
    look(rig);
    assert_int_equal(rig->inst.generation, 1);
    assert_int_equal(rig->range.rows, 4);
}

RIG_TEST(a_removed_shard_that_returns_keeps_its_epoch_and_offsets)
{
    mysql_fixture_run(&rig->fx, "UPDATE shards SET epoch = 9, ledger_offset = 77 WHERE shard = 3");
    ask_for(rig, 2);
    ask_for(rig, 4);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT epoch FROM shards WHERE shard = 3"), 9);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT ledger_offset FROM shards WHERE shard = 3"), 77);
    assert_int_equal(rig->inst.generation, 3);
}

RIG_TEST(a_removed_shard_is_led_until_its_list_is_empty)
{
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[[5,1,1]]', send_n = 1 WHERE shard = 2");
    ask_for(rig, 1);
    look(rig);
    assert_members(rig->range, (led, 3), (rows, 4));
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[]', send_n = 0 WHERE shard = 2");
    look(rig);
    assert_members(rig->range, (led, 1), (rows, 4));
}

RIG_TEST(a_removed_shard_reports_its_leadership_until_it_steps_down)
{
    struct dt_fence named, gone;
    struct dt_inflight flight = {0};
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){1, 11, "host:1", "redis-a:1"}, &named, &flight, &err));
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){3, 13, "host:1", "redis-a:1"}, &gone, &flight, &err));
    ask_for(rig, 2);
    look(rig);
    assert_int_equal(rig->range.led, 2);
    assert_int_equal(rig->range.standing[1], 0);
    assert_int_equal(rig->range.standing[2], 0);
    assert_int_equal(rig->range.standing[3], 13);
    OK(dt_store_step_down(rig->store, &gone, &err));
    look(rig);
    assert_int_equal(rig->range.standing[3], 0);
    dt_inflight_clear(&flight);
}

RIG_TEST(only_named_or_still_led_shards_are_listed)
{
    struct dt_shard_info *shards;
    size_t n = 0;
    ARENA(arena);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[[5,1,1]]', send_n = 1 WHERE shard = 2");
    mysql_fixture_run(&rig->fx, "UPDATE shards SET owner = 'host:1' WHERE shard = 3");
    ask_for(rig, 1);
    OK(dt_store_shards(rig->store, &arena, &shards, &n, &(struct dt_dispatchers){0}, &err));
    assert_int_equal(n, 3);
    assert_int_equal(shards[0].shard, 0);
    assert_int_equal(shards[1].shard, 2);
    assert_int_equal(shards[2].shard, 3);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM v_shards"), 3);
}

RIG_TEST(a_change_waits_for_no_leaders_transaction)
{
    struct dt_db *db;
    dt_store *other = mysql_fixture_store(&rig->fx);
    OK(dt_store_db(other, &db, &err));
    OK(dt_db_begin(db, &err));
    OK(dt_db_query(db, "SELECT epoch FROM shards ORDER BY shard FOR UPDATE", DT_NO_PARAMS, &err));
    while (dt_db_next(db))
        ;
    OK(dt_db_end(db, &err));
    ask_for(rig, 9);
    assert_int_equal(rig->inst.generation, 2);
    dt_db_rollback(db);
    dt_store_free(other);
}

RIG_TEST(a_set_that_moved_to_another_endpoint_is_trusted_only_from_a_new_epoch)
{
    struct dt_fence fence;
    struct dt_inflight flight = {0};
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){1, 11, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 1);
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){1, 12, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 1);
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){1, 13, "host:1", "redis-b:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 3);
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){1, 14, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 4);
    dt_inflight_clear(&flight);
}

SUITE(NULL, NULL)
