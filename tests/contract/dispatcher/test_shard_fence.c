/* What a leader with nothing to do asks its row now and then (shard_batch.c), on a real MySQL. */

#include "support/suite.h"

#include "shard/shard_parts.h"
#include "support/mysql_fixture.h"

#define OK(status) MYSQL_FIXTURE_OK(status, &err)

static struct mysql_fixture fx;
static struct dt_loop_env env;
static dt_shard_loop *l;
static struct dt_error err;
static int stale; /* times that the map was called so */

static void stale_map(void *)
{
    stale++;
}

static void take_over(int64_t epoch)
{
    const struct dt_leadership leadership = {0, epoch, "host:1", "redis:1"};
    OK(dt_store_takeover(l->store, &leadership, &l->fence, &l->flight.list, &err));
}

static void make(void)
{
    stale = 0;
    mysql_fixture_make(&fx, "fence");
    fx.config.shards_count = 1;
    mysql_fixture_migrate(&fx);
    env = (struct dt_loop_env){.clock = dt_clock_system(), .stale_map = stale_map};
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->env = &env;
    l->store = mysql_fixture_store(&fx);
    OK(dt_topic_snapshot_new(&l->snapshot));
    OK(dt_mailbox_new(&l->mailbox));
    OK(dt_store_read_topics(l->store, l->snapshot, &err));
    take_over(7);
    dt_shard_map_init(&l->trust.map, mysql_fixture_number(&fx, "SELECT generation FROM installation"), 1);
}

static void drop(void)
{
    dt_inflight_clear(&l->flight.list);
    dt_mailbox_free(l->mailbox);
    dt_topic_snapshot_free(l->snapshot);
    dt_store_free(l->store);
    free(l);
    mysql_fixture_drop(&fx);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

FRESH_TEST(the_fence_check_passes_for_the_leader_and_reports_a_new_shard_map)
{
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(stale, 0);
    assert_true(l->checked.fence_us > 0);
    l->trust.map.generation--;
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(stale, 1);
}

FRESH_TEST(a_leader_whose_row_has_another_owner_steps_down)
{
    const struct dt_fence mine = l->fence;
    take_over(8);
    l->fence = mine;
    assert_int_equal(dt_shard_check_fence(l, &err), DT_DEPOSED);
}

FRESH_TEST(without_an_index_the_fence_check_reports_changed_topics)
{
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(dt_mailbox_wait(l->mailbox, 0), 0);
    mysql_fixture_run(&fx, "UPDATE installation SET topics_version = topics_version + 1");
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(dt_mailbox_wait(l->mailbox, 0), TOPICS);
}

SUITE(NULL, NULL)
