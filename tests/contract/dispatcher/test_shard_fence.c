/* What a leader with nothing to do asks its row now and then (shard_batch.c), on a real MySQL. */

#include "support/suite.h"

#include "shard/shard_parts.h"
#include "support/mysql_fixture.h"

static struct dt_process_env env;
static dt_shard_loop *l;
static struct dt_error err;

static void make(void)
{
    env = (struct dt_process_env){.clock = dt_clock_system()};
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->env = &env;
    mysql_fixture_open("fence", 1, &l->store);
    OK(dt_topic_snapshot_new(&l->snapshot));
    OK(dt_mailbox_new(&l->mailbox));
    OK(dt_store_read_topics(l->store, l->snapshot, &err));
    OK(dt_store_takeover(l->store, &(struct dt_leadership){0, 7, "host:1", "redis:1"}, &l->fence, &l->flight.list,
                         &err));
    dt_shard_map_init(&l->trust.map, sql_number("SELECT generation FROM installation"), 1);
}

static void drop(void)
{
    dt_inflight_clear(&l->flight.list);
    dt_mailbox_free(l->mailbox);
    dt_topic_snapshot_free(l->snapshot);
    dt_store_free(l->store);
    free(l);
    mysql_fixture_drop();
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

FRESH_TEST(without_an_index_the_fence_check_reports_changed_topics)
{
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(dt_mailbox_wait(l->mailbox, 0), 0);
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    OK(dt_shard_check_fence(l, &err));
    assert_int_equal(dt_mailbox_wait(l->mailbox, 0), DT_LOOP_AGAIN);
}
