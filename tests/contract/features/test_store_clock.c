/* The test clock: its row, what time sessions have by it, how it is advanced; on a server. Nobody leads here. */

#include "features/clock/clock.h"
#include "job/change/jobs.h"
#include "store/leases.h"
#include "support/mysql_fixture.h"
#include "support/wait.h"

static struct dt_error err;

#define DAY_MS    INT64_C(86400000)
#define NEAR_MS   30000 /* so much may pass on a busy machine */
#define SYSTEM_MS "CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)"

static const char select_both[] = "SELECT " DT_SQL_NOW_MS ", " SYSTEM_MS;

struct rig {
    dt_store *store;
    struct dt_test_clock clock;
};

static void setup(struct rig *rig)
{
    mysql_fixture_make("store_clock");
    mysql_fixture.config.installation_test_clock = true;
    rig->store = mysql_fixture_store();
    OK(dt_store_migrate(rig->store, NULL, &err));
}

static void teardown(struct rig *rig)
{
    dt_store_free(rig->store);
    mysql_fixture_drop();
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static int64_t ahead_of(int64_t now_ms, int64_t system_ms)
{
    return now_ms - system_ms;
}

/* How far NOW() is ahead of SYSDATE() in the open query. */
static int64_t end_ahead(dt_db *db)
{
    assert_true(dt_db_next(db));
    int64_t ahead_ms = ahead_of(dt_db_i64(db, 0), dt_db_i64(db, 1));
    OK(dt_db_end(db, &err));
    return ahead_ms;
}

static void assert_near(int64_t ms, int64_t expected_ms)
{
    assert_in_range(ms - expected_ms + NEAR_MS, 0, 2 * NEAR_MS);
}

static void advance(struct rig *rig, int64_t by_ms)
{
    struct dt_clock_walk walk = {.by_ms = by_ms};
    OK(dt_store_test_clock_advance(rig->store, &walk, &rig->clock, &err));
    assert_true(walk.whole);
}

RIG_TEST(an_installation_made_with_a_test_clock_keeps_it)
{
    OK(dt_store_check_test_clock(rig->store, &err));
    OK(dt_store_test_clock(rig->store, &rig->clock, &err));
    assert_true(rig->clock.version > 0 && rig->clock.time.frozen_ms == 0 && rig->clock.time.ahead_ms == 0);
    mysql_fixture.config.installation_test_clock = false;
    assert_int_equal(dt_store_check_test_clock(rig->store, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "created with true"));
    mysql_fixture.config.installation_test_clock = true;
}

TEST(an_installation_with_jobs_gets_no_test_clock)
{
    struct dt_test_clock clock;
    struct dt_clock_walk walk = {.by_ms = 1};
    mysql_fixture_make("store_clock_real");
    mysql_fixture_migrate();
    dt_store *store = mysql_fixture_store();
    int64_t first;
    OK(dt_store_reserve_ids(store, 10, &first, &err));
    mysql_fixture.config.installation_test_clock = true;
    OK(dt_store_migrate(store, NULL, &err));
    assert_int_equal(dt_store_check_test_clock(store, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "created without"));
    assert_int_equal(dt_store_test_clock_advance(store, &walk, &clock, &err), DT_UNSUPPORTED);
    assert_int_equal(dt_store_test_clock_freeze(store, &clock, &err), DT_UNSUPPORTED);
    assert_int_equal(dt_store_test_clock_release(store, &clock, &err), DT_UNSUPPORTED);
    dt_store_free(store);
    mysql_fixture_drop();
}

RIG_TEST(statements_use_the_test_clock_and_sysdate_the_servers_clock)
{
    dt_db *db;
    int64_t now_ms, system_ms;
    advance(rig, 3 * DAY_MS);
    OK(dt_store_db(rig->store, &db, &err));
    OK(dt_db_query(db, select_both, DT_NO_PARAMS, &err));
    assert_near(end_ahead(db), 3 * DAY_MS);
    OK(dt_db_query_index(db, select_both, DT_NO_PARAMS, &err));
    assert_near(end_ahead(db), 3 * DAY_MS);
    system_ms = sql_number("SELECT " SYSTEM_MS);
    OK(dt_db_begin_at(db, &now_ms, &err));
    assert_near(ahead_of(now_ms, system_ms), 3 * DAY_MS);
    dt_db_rollback(db);
}

RIG_TEST(a_session_has_the_new_time_at_its_next_statement_in_a_transaction_too)
{
    dt_store *other = mysql_fixture_store();
    dt_db *db;
    OK(dt_store_db(other, &db, &err));
    OK(dt_db_begin_soon(db, &err));
    OK(dt_db_query(db, select_both, DT_NO_PARAMS, &err));
    int64_t before_ms = end_ahead(db);
    advance(rig, DAY_MS);
    OK(dt_db_query(db, select_both, DT_NO_PARAMS, &err));
    assert_near(end_ahead(db) - before_ms, DAY_MS);
    OK(dt_db_commit(db, &err));
    dt_store_free(other);
}

RIG_TEST(a_frozen_clock_stays_until_it_is_advanced_or_released)
{
    dt_db *db;
    OK(dt_store_test_clock_freeze(rig->store, &rig->clock, &err));
    int64_t at_ms = rig->clock.time.frozen_ms;
    assert_int_not_equal(at_ms, 0);
    OK(dt_store_test_clock_freeze(rig->store, &rig->clock, &err));
    assert_int_equal(rig->clock.time.frozen_ms, at_ms);
    OK(dt_store_db(rig->store, &db, &err));
    OK(dt_db_query(db, "SELECT " DT_SQL_NOW_MS " FROM (SELECT SLEEP(0.05)) s", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    assert_int_equal(dt_db_i64(db, 0), at_ms);
    OK(dt_db_end(db, &err));
    advance(rig, 60000);
    assert_int_equal(rig->clock.time.frozen_ms, at_ms + 60000);
    OK(dt_store_test_clock_release(rig->store, &rig->clock, &err));
    assert_int_equal(rig->clock.time.frozen_ms, 0);
    assert_in_range(dt_test_clock_now_ms(&rig->clock), at_ms + 60000, at_ms + 60000 + NEAR_MS);
}

RIG_TEST(concurrent_changes_of_the_clock_conflict_and_its_range_is_bounded)
{
    struct dt_clock_walk walk = {.by_ms = 12 * 366 * DAY_MS};
    struct dt_test_clock clock;
    struct dt_work_lease lease = {.work = "clock", .ms = 60000};
    OK(dt_work_lease_take(rig->store, &lease, &err));
    assert_int_equal(dt_store_test_clock_freeze(rig->store, &clock, &err), DT_BUSY);
    dt_work_lease_release(rig->store, &lease);
    OK(dt_store_test_clock(rig->store, &rig->clock, &err));
    assert_int_equal(dt_store_test_clock_advance(rig->store, &walk, &clock, &err), DT_INVALID);
    OK(dt_store_test_clock(rig->store, &clock, &err));
    assert_int_equal(clock.version, rig->clock.version);
}

/* ---- the follower ---- */

struct told {
    _Atomic int times;
};

static void count(void *arg)
{
    ((struct told *)arg)->times++;
}

RIG_TEST(a_process_notices_a_change_of_the_clock)
{
    struct told told = {0};
    dt_refclock ref;
    dt_watcher *watcher;
    dt_clock_follower *follower;
    dt_refclock_init(&ref, dt_clock_system());
    const struct dt_watcher_env listens = {.config = &mysql_fixture.config, .clock = dt_clock_system(), .ref = &ref};
    OK(dt_watcher_new(&listens, &watcher, &err));
    const struct dt_clock_follower_env env = {&mysql_fixture.config, &ref, watcher, &told, count};
    OK(dt_clock_follower_new(&env, &follower, &err));
    OK(dt_watcher_start(watcher, &err));
    AWAIT(told.times >= 1);
    OK(dt_store_test_clock(rig->store, &rig->clock, &err));
    assert_near(dt_refclock_earliest_ms(&ref), dt_test_clock_now_ms(&rig->clock));
    OK(dt_store_test_clock_freeze(rig->store, &rig->clock, &err));
    AWAIT(told.times >= 2);
    assert_int_equal(dt_refclock_earliest_ms(&ref), rig->clock.time.frozen_ms);
    assert_int_equal(dt_refclock_latest_ms(&ref), rig->clock.time.frozen_ms);
    OK(dt_store_test_clock_release(rig->store, &rig->clock, &err));
    AWAIT(told.times >= 3);
    dt_watcher_free(watcher);
    dt_clock_follower_free(follower);
    mysql_fixture.config.installation_test_clock = false;
    OK(dt_clock_follower_new(&env, &follower, &err));
    assert_null(follower);
    mysql_fixture.config.installation_test_clock = true;
}
