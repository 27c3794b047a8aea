/* Another number of shards, in MySQL: shards_store.c. */

#include "dispatch/fence.h"
#include "dispatch/shards.h"
#include "job/inflight.h"
#include "store/processes.h"
#include "support/store_suite.h"

STORE_SUITE("shards", 4)

static struct dt_installation inst;
static struct dt_shard_range range;

#define RIG_TEST(name) TEST_WITH(name, open_store, close_store)

static void ask_for(unsigned shards)
{
    OK(dt_store_set_shards(store, shards, &inst, &err));
}

static void look(void)
{
    OK(dt_store_installation(store, &inst, &err));
    OK(dt_store_shard_range(store, &inst, &range, &err));
}

RIG_TEST(more_shards_get_rows_and_a_generation)
{
    ask_for(7);
    assert_members(inst, (shards, 7), (generation, 2));
    assert_sql_number(7, "SELECT COUNT(*) FROM shards WHERE inflight = '[]'");
    look();
    assert_members(inst, (shards, 7), (generation, 2));
    assert_members(range, (led, 7), (rows, 7));
}

RIG_TEST(setting_the_same_number_of_shards_again_changes_nothing)
{
    ask_for(7);
    ask_for(7);
    assert_members(inst, (shards, 7), (generation, 2));
}

RIG_TEST(an_impossible_number_of_shards_is_refused)
{
    assert_int_equal(dt_store_set_shards(store, 0, &inst, &err), DT_INVALID);
    assert_int_equal(dt_store_set_shards(store, DT_SHARDS_MAX + 1, &inst, &err), DT_INVALID);
    look();
    assert_members(inst, (shards, 4), (generation, 1));
}

RIG_TEST(no_slot_moves_while_a_shard_is_halted)
{
    run_sql("UPDATE shards SET halted = 'by hand' WHERE shard = 1");
    assert_int_equal(dt_store_set_shards(store, 7, &inst, &err), DT_HALTED);
    ask_for(4); /* as it is */
    look();
    assert_int_equal(inst.generation, 1);
    assert_int_equal(range.rows, 4);
}

RIG_TEST(a_removed_shard_that_returns_keeps_its_epoch_and_offsets)
{
    run_sql("UPDATE shards SET epoch = 9, ledger_offset = 77 WHERE shard = 3");
    ask_for(2);
    ask_for(4);
    assert_sql_number(9, "SELECT epoch FROM shards WHERE shard = 3");
    assert_sql_number(77, "SELECT ledger_offset FROM shards WHERE shard = 3");
    assert_int_equal(inst.generation, 3);
}

RIG_TEST(a_removed_shard_is_led_until_its_list_is_empty)
{
    run_sql("UPDATE shards SET inflight = '[[5,1,1]]', send_n = 1 WHERE shard = 2");
    ask_for(1);
    look();
    assert_members(range, (led, 3), (rows, 4));
    run_sql("UPDATE shards SET inflight = '[]', send_n = 0 WHERE shard = 2");
    look();
    assert_members(range, (led, 1), (rows, 4));
}

RIG_TEST(a_removed_shard_reports_its_leadership_until_it_steps_down)
{
    struct dt_fence named, gone;
    struct dt_inflight flight = {0};
    OK(dt_store_takeover(store, &(struct dt_leadership){1, 11, "host:1", "redis-a:1"}, &named, &flight, &err));
    OK(dt_store_takeover(store, &(struct dt_leadership){3, 13, "host:1", "redis-a:1"}, &gone, &flight, &err));
    ask_for(2);
    look();
    assert_int_equal(range.led, 2);
    assert_int_equal(range.standing[1], 0);
    assert_int_equal(range.standing[2], 0);
    assert_int_equal(range.standing[3], 13);
    OK(dt_store_step_down(store, &gone, &err));
    look();
    assert_int_equal(range.standing[3], 0);
    dt_inflight_clear(&flight);
}

RIG_TEST(only_named_or_still_led_shards_are_listed)
{
    struct dt_shard_info *shards;
    size_t n = 0;
    run_sql("UPDATE shards SET inflight = '[[5,1,1]]', send_n = 1 WHERE shard = 2");
    run_sql("UPDATE shards SET owner = 'host:1' WHERE shard = 3");
    ask_for(1);
    OK(dt_store_shards(store, &arena, &shards, &n, &(struct dt_dispatchers){0}, &err));
    assert_int_equal(n, 3);
    assert_int_equal(shards[0].shard, 0);
    assert_int_equal(shards[1].shard, 2);
    assert_int_equal(shards[2].shard, 3);
    assert_sql_number(3, "SELECT COUNT(*) FROM v_shards");
}

RIG_TEST(a_change_waits_for_no_leaders_transaction)
{
    struct dt_db *db;
    dt_store *other = mysql_fixture_store();
    OK(dt_store_db(other, &db, &err));
    OK(dt_db_begin(db, &err));
    OK(dt_db_query(db, "SELECT epoch FROM shards ORDER BY shard FOR UPDATE", DT_NO_PARAMS, &err));
    while (dt_db_next(db))
        ;
    OK(dt_db_end(db, &err));
    ask_for(9);
    assert_int_equal(inst.generation, 2);
    dt_db_rollback(db);
    dt_store_free(other);
}

RIG_TEST(a_set_that_moved_to_another_endpoint_is_trusted_only_from_a_new_epoch)
{
    struct dt_fence fence;
    struct dt_inflight flight = {0};
    OK(dt_store_takeover(store, &(struct dt_leadership){1, 11, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 1);
    OK(dt_store_takeover(store, &(struct dt_leadership){1, 12, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 1);
    OK(dt_store_takeover(store, &(struct dt_leadership){1, 13, "host:1", "redis-b:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 3);
    OK(dt_store_takeover(store, &(struct dt_leadership){1, 14, "host:1", "redis-a:1"}, &fence, &flight, &err));
    assert_int_equal(fence.index_epoch, 4);
    dt_inflight_clear(&flight);
}
