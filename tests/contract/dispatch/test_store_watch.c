/* The wait of a process in MySQL, and what ends it: watch_store.c and the procedure dt_wait, on a server. A second session
 * changes things meanwhile. */

#include "base/thread.h"
#include "dispatch/watch.h"
#include "store/leases.h"
#include "support/store_suite.h"

#define OWNER   "host:7"
#define WAIT_MS 1500  /* timeout of waits that no event ends */
#define LONG_MS 40000 /* timeout of waits that an event ends, on a busy machine too */

STORE_SUITE("store_watch", 4)

static struct dt_watch watch;
static struct dt_watched seen;
static const char *edit; /* of the second session */

static int64_t mono_ms(void)
{
    return dt_clock_mono_us(dt_clock_system()) / 1000;
}

/* Waits; returns how long it took. */
static int64_t look(int64_t wait_ms)
{
    int64_t begin_ms = mono_ms();
    watch.wait_ms = wait_ms;
    OK(dt_store_watch(store, &watch, &seen, &err));
    return mono_ms() - begin_ms;
}

static void know(void)
{
    (void)look(0);
    watch.generation = seen.generation;
    watch.topics_version = seen.topics_version;
    watch.leads = seen.leads;
    watch.due_from_ms = seen.now_ms - 2000;
    watch.look_from_ms = seen.now_ms - 2000;
}

static void fresh(void)
{
    run_sql("DELETE FROM jobs; UPDATE shards SET owner = NULL, halted = NULL; DELETE FROM processes; DELETE FROM "
            "job_inbox; DELETE FROM operations; DELETE FROM schedule_fires");
    watch = (struct dt_watch){.owner = OWNER, .process = 5};
    know();
}

#define RIG_TEST(name) TEST_WITH(name, fresh, NULL)

static void job(int64_t id, int64_t next_ms, bool near)
{
    run_sql("INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
            "digest, payload) VALUES (%lld, 't', 0, %lld, %d, '', 60000, 0, 0, 1, REPEAT('d', 16), 'x')",
            (long long)id, (long long)next_ms, near);
}

static void edit_meanwhile(void *)
{
    mysql_fixture_await_statement("%");
    run_sql("%s", edit);
}

/* How long the wait took during which that was done. */
static int64_t look_while(int64_t wait_ms, const char *change)
{
    struct dt_thread thread = {0};
    edit = change;
    assert_int_equal(dt_thread_start(&thread, "edit", edit_meanwhile, NULL, NULL), DT_OK);
    int64_t took_ms = look(wait_ms);
    dt_thread_join(&thread);
    return took_ms;
}

/* ---- the tests ---- */

RIG_TEST(a_wait_without_events_ends_at_its_time)
{
    job(5, seen.now_ms + 60000, true);
    job(6, seen.now_ms, false); /* not near: a far row is nobody's yet */
    assert_true(look(WAIT_MS) >= WAIT_MS - 5);
    assert_members(seen, (n_due, 0), (generation, watch.generation), (topics_version, watch.topics_version));
    assert_true(look(0) < LONG_MS);
}

RIG_TEST(a_wait_ends_when_jobs_become_due_and_reports_them_in_order)
{
    int64_t now_ms = seen.now_ms;
    job(5, now_ms + 300, true);
    assert_true(look(LONG_MS) < LONG_MS);
    assert_true(seen.now_ms >= now_ms + 300);
    assert_int_equal(seen.n_due, 1);
    assert_members(seen.due[0], (id, 5), (next_ms, now_ms + 300));
    watch.due_from_ms = now_ms + 301; /* that one is known */
    job(6, now_ms + 200, true);
    assert_true(look(WAIT_MS) >= WAIT_MS - 5);
    assert_int_equal(seen.n_due, 2);
    assert_int_equal(seen.due[0].id, 6);
    watch.look_from_ms = 0;
    job(7, 1, true);
    assert_true(look(0) < LONG_MS);
    assert_int_equal(seen.due[0].id, 7);
}

RIG_TEST(a_wait_ends_when_a_due_job_is_committed)
{
    int64_t took_ms =
        look_while(LONG_MS, "INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, "
                            "created_at, updated_at, maker, digest, payload) VALUES (8, 't', 0, "
                            "UNIX_TIMESTAMP(NOW(3)) * 1000, 1, '', 60000, 0, 0, 1, REPEAT('d', 16), 'x')");
    assert_true(took_ms < LONG_MS);
    assert_int_equal(seen.n_due, 1);
    assert_int_equal(seen.due[0].id, 8);
}

RIG_TEST(a_wait_returns_at_most_the_maximal_number_of_rows)
{
    run_sql("INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
            "digest, payload) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT j.i "
            "* 2 + k.i, 't', 0, 1000 + j.i, 1, '', 60000, 0, 0, 1, REPEAT('d', 16), 'x' FROM n j JOIN (SELECT 0 i "
            "UNION ALL SELECT 1) k");
    watch.look_from_ms = 0;
    (void)look(0);
    assert_int_equal(seen.n_due, DT_WATCH_DUE);
    assert_int_equal(seen.due[0].next_ms, 1001);
    assert_true(seen.due[DT_WATCH_DUE - 1].next_ms < 1600);
}

RIG_TEST(a_wait_ends_when_topics_or_the_shard_map_change)
{
    assert_true(look_while(LONG_MS, "UPDATE installation SET topics_version = topics_version + 1") < LONG_MS);
    assert_int_equal(seen.topics_version, watch.topics_version + 1);
    know();
    assert_true(look_while(LONG_MS, "UPDATE installation SET generation = generation + 1") < LONG_MS);
    assert_int_equal(seen.generation, watch.generation + 1);
}

RIG_TEST(a_wait_ends_when_a_leadership_begins_ends_or_is_halted)
{
    assert_int_equal(seen.n_rows, 0);
    assert_true(look_while(LONG_MS, "UPDATE shards SET owner = '" OWNER
                                    "', epoch = 9, token = 77, version = 3 WHERE shard = 2") < LONG_MS);
    assert_int_equal(seen.n_rows, 1);
    const struct dt_watched_row *row = &seen.rows[0];
    assert_true(row->shard == 2 && row->epoch == 9 && row->token == 77 && row->version == 3);
    know();
    assert_true(look_while(WAIT_MS, "UPDATE shards SET version = version + 1 WHERE shard = 2") >= WAIT_MS - 5);
    assert_int_equal(seen.rows[0].version, 4);
    assert_true(look_while(LONG_MS, "UPDATE shards SET halted = 'why' WHERE shard = 2") < LONG_MS);
    know();
    assert_true(look_while(LONG_MS, "UPDATE shards SET owner = 'else', epoch = 10, token = 78 WHERE shard = 2") <
                LONG_MS);
    assert_int_equal(seen.n_rows, 0);
}

/* ---- what the intake asks about ---- */

#define OPERATION(look_at)                                                                                             \
    "INSERT INTO operations (kind, request, topic_from, topic_to, run_from, run_to, created_from, created_to, walk, "  \
    "look_at, started_at) VALUES ('cancel', '', '', '', 0, 0, 0, 0, 'jobs', " look_at ", 1)"

RIG_TEST(a_wait_ends_for_requested_inbox_rows_operations_and_schedules)
{
    static const struct {
        const char *later, *now; /* nothing to do yet; and now there is */
        unsigned bit;
    } rows[] = {{"DO 0", "INSERT INTO job_inbox (topic, payload) VALUES ('t', '1')", DT_WATCH_INBOX},
                {OPERATION("8000000000000"), "UPDATE operations SET look_at = 1", DT_WATCH_OPERATIONS},
                {"INSERT INTO schedule_fires (name, look_at) VALUES ('s', 8000000000000)",
                 "UPDATE schedule_fires SET look_at = 1", DT_WATCH_SCHEDULES}};
    watch.owner = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run_sql("%s", rows[i].later);
        watch.intake = rows[i].bit;
        watch.intake_at_ms = 0;
        assert_true(look(300) >= 295);
        assert_int_equal(seen.intake, 0);
        assert_true(look_while(LONG_MS, rows[i].now) < LONG_MS);
        assert_int_equal(seen.intake, rows[i].bit);
        watch.intake = DT_WATCH_INTAKE & ~rows[i].bit; /* others do not ask, and are not told */
        watch.intake_at_ms = 0;
        (void)look(0);
        assert_int_equal(seen.intake & rows[i].bit, 0);
    }
    watch.intake = DT_WATCH_INTAKE;
    watch.intake_at_ms = 0;
    (void)look(0);
    assert_int_equal(seen.intake, DT_WATCH_INTAKE);
}

static void process(unsigned id, const char *kind, int age_ms)
{
    run_sql("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (%u, '%s', 'x', 0, "
            "UNIX_TIMESTAMP(SYSDATE(3)) * 1000 - %d)",
            id, kind, age_ms);
}

RIG_TEST(dispatchers_poll_in_turns_and_a_dead_one_loses_its_turn)
{
    watch.owner = NULL;
    watch.intake = DT_WATCH_INTAKE;
    for (unsigned rank = 0; rank < 3; rank++) { /* so many that live have ids below 5 */
        run_sql("DELETE FROM processes");
        process(5, "dispatcher", 0);
        process(4, "api", 0);
        process(3, "dispatcher", 5000);
        for (unsigned id = 1; id <= rank; id++)
            process(id, "dispatcher", 0);
        watch.intake_at_ms = 0;
        (void)look(0);
        assert_int_equal(seen.intake_at_ms % 200, 0);
        assert_int_equal(seen.intake_at_ms / 200 % (rank + 1), rank);
    }
}

RIG_TEST(a_wait_ends_when_the_test_clock_changes)
{
    run_sql("INSERT INTO test_clock (one, changed_at) VALUES (1, 0)");
    watch.owner = NULL;
    (void)look(0);
    watch.clock = true;
    watch.clock_version = seen.clock_version;
    assert_true(look(300) >= 295);
    assert_true(look_while(LONG_MS, "UPDATE test_clock SET version = version + 1") < LONG_MS);
    assert_int_equal(seen.clock_version, watch.clock_version + 1);
    run_sql("DELETE FROM test_clock");
}

/* ---- leases of what one process at a time does ---- */

RIG_TEST(a_lease_has_one_holder_until_it_is_released_or_expires)
{
    struct dt_work_lease first = {.work = "test", .ms = 60000};
    struct dt_work_lease second = first;
    struct dt_work_lease other = {.work = "other", .ms = 60000};
    OK(dt_work_lease_take(store, &first, &err));
    OK(dt_work_lease_take(store, &other, &err));
    assert_int_equal(dt_work_lease_take(store, &second, &err), DT_BUSY);
    dt_work_lease_release(store, &second); /* it is not its own */
    OK(dt_work_lease_keep(store, &first, &err));
    dt_work_lease_release(store, &first);
    OK(dt_work_lease_take(store, &second, &err));
    first.ms = second.ms = 1; /* short ones, which are renewed at each call */
    OK(dt_work_lease_keep(store, &second, &err));
    AWAIT(dt_work_lease_take(store, &first, &err) == DT_OK);
    assert_sql_number(first.holder, "SELECT holder FROM work_leases WHERE work = 'test'");
    run_sql("UPDATE work_leases SET until_at = UNIX_TIMESTAMP() * 1000 + 60000");
    assert_int_equal(dt_work_lease_keep(store, &second, &err), DT_BUSY);
    /* So far ahead only a clock that was set back can have put it. */
    run_sql("UPDATE work_leases SET until_at = 8000000000000");
    OK(dt_work_lease_keep(store, &second, &err));
    dt_work_lease_release(store, &second);
    dt_work_lease_release(store, &first);
    dt_work_lease_release(store, &other);
    assert_sql_number(0, "SELECT COUNT(*) FROM work_leases");
}

SUITE(open_store, close_store)
