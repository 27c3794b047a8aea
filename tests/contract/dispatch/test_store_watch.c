/* The wait of a process in MySQL, and what ends it: watch_store.c and the procedure dt_wait, on a server. A second session
 * changes things meanwhile. */

#include "base/thread.h"
#include "dispatch/watch.h"
#include "store/leases.h"
#include "support/mysql_fixture.h"
#include "support/wait.h"

#define OWNER   "host:7"
#define WAIT_MS 1500  /* timeout of waits that no event ends */
#define LONG_MS 40000 /* timeout of waits that an event ends, on a busy machine too */

struct rig {
    struct mysql_fixture fx;
    dt_store *store;
    struct dt_watch watch;
    struct dt_watched seen;
    const char *edit; /* of the second session */
};

static int64_t mono_ms(void)
{
    return dt_clock_mono_us(dt_clock_system()) / 1000;
}

/* Waits; returns how long it took. */
static int64_t look(struct rig *rig, int64_t wait_ms)
{
    struct dt_error err = {0};
    int64_t begin_ms = mono_ms();
    rig->watch.wait_ms = wait_ms;
    OK(dt_store_watch(rig->store, &rig->watch, &rig->seen, &err));
    return mono_ms() - begin_ms;
}

static void know(struct rig *rig)
{
    (void)look(rig, 0);
    rig->watch.generation = rig->seen.generation;
    rig->watch.topics_version = rig->seen.topics_version;
    rig->watch.leads = rig->seen.leads;
    rig->watch.due_from_ms = rig->seen.now_ms - 2000;
    rig->watch.look_from_ms = rig->seen.now_ms - 2000;
}

static void setup(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    mysql_fixture_open(&rig->fx, "store_watch", 4, &rig->store);
    suite_state = rig;
}

static void teardown(void)
{
    struct rig *rig = suite_state;
    dt_store_free(rig->store);
    mysql_fixture_drop(&rig->fx);
    free(rig);
}

static int fresh(void **state)
{
    struct rig *rig = *state;
    mysql_fixture_run(&rig->fx,
                      "DELETE FROM jobs; UPDATE shards SET owner = NULL, halted = NULL; DELETE FROM processes; "
                      "DELETE FROM job_inbox; DELETE FROM operations; DELETE FROM schedule_fires");
    rig->watch = (struct dt_watch){.owner = OWNER, .process = 5};
    know(rig);
    return 0;
}

#define RIG_TEST(name) TEST_OF(struct rig *rig, name, fresh, NULL)

static void job(struct rig *rig, int64_t id, int64_t next_ms, bool near)
{
    mysql_fixture_run(
        &rig->fx,
        "INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, "
        "maker, digest, payload) VALUES (%lld, 't', 0, %lld, %d, '', 60000, 0, 0, 1, REPEAT('d', 16), 'x')",
        (long long)id, (long long)next_ms, near);
}

static void edit_meanwhile(void *arg)
{
    struct rig *rig = arg;
    mysql_fixture_await_statement(&rig->fx, "%");
    mysql_fixture_run(&rig->fx, "%s", rig->edit);
}

/* How long the wait took during which that was done. */
static int64_t look_while(struct rig *rig, int64_t wait_ms, const char *edit)
{
    struct dt_thread thread = {0};
    rig->edit = edit;
    assert_int_equal(dt_thread_start(&thread, "edit", edit_meanwhile, rig, NULL), DT_OK);
    int64_t took_ms = look(rig, wait_ms);
    dt_thread_join(&thread);
    return took_ms;
}

/* ---- the tests ---- */

RIG_TEST(a_wait_without_events_ends_at_its_time)
{
    job(rig, 5, rig->seen.now_ms + 60000, true);
    job(rig, 6, rig->seen.now_ms, false); /* not near: a far row is nobody's yet */
    assert_true(look(rig, WAIT_MS) >= WAIT_MS - 5);
    assert_members(rig->seen, (n_due, 0), (generation, rig->watch.generation),
                   (topics_version, rig->watch.topics_version));
    assert_true(look(rig, 0) < LONG_MS);
}

RIG_TEST(a_wait_ends_when_jobs_become_due_and_reports_them_in_order)
{
    int64_t now_ms = rig->seen.now_ms;
    job(rig, 5, now_ms + 300, true);
    assert_true(look(rig, LONG_MS) < LONG_MS);
    assert_true(rig->seen.now_ms >= now_ms + 300);
    assert_int_equal(rig->seen.n_due, 1);
    assert_members(rig->seen.due[0], (id, 5), (next_ms, now_ms + 300));
    rig->watch.due_from_ms = now_ms + 301; /* that one is known */
    job(rig, 6, now_ms + 200, true);
    assert_true(look(rig, WAIT_MS) >= WAIT_MS - 5);
    assert_int_equal(rig->seen.n_due, 2);
    assert_int_equal(rig->seen.due[0].id, 6);
    rig->watch.look_from_ms = 0;
    job(rig, 7, 1, true);
    assert_true(look(rig, 0) < LONG_MS);
    assert_int_equal(rig->seen.due[0].id, 7);
}

RIG_TEST(a_wait_ends_when_a_due_job_is_committed)
{
    int64_t took_ms =
        look_while(rig, LONG_MS,
                   "INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, "
                   "updated_at, maker, digest, payload) VALUES (8, 't', 0, UNIX_TIMESTAMP(NOW(3)) * 1000, 1, "
                   "'', 60000, 0, 0, 1, REPEAT('d', 16), 'x')");
    assert_true(took_ms < LONG_MS);
    assert_int_equal(rig->seen.n_due, 1);
    assert_int_equal(rig->seen.due[0].id, 8);
}

RIG_TEST(a_wait_returns_at_most_the_maximal_number_of_rows)
{
    mysql_fixture_run(
        &rig->fx,
        "INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
        "digest, payload) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT "
        "j.i * 2 + k.i, 't', 0, 1000 + j.i, 1, '', 60000, 0, 0, 1, REPEAT('d', 16), 'x' FROM n j JOIN (SELECT 0 i "
        "UNION ALL SELECT 1) k");
    rig->watch.look_from_ms = 0;
    (void)look(rig, 0);
    assert_int_equal(rig->seen.n_due, DT_WATCH_DUE);
    assert_int_equal(rig->seen.due[0].next_ms, 1001);
    assert_true(rig->seen.due[DT_WATCH_DUE - 1].next_ms < 1600);
}

RIG_TEST(a_wait_ends_when_topics_or_the_shard_map_change)
{
    assert_true(look_while(rig, LONG_MS, "UPDATE installation SET topics_version = topics_version + 1") < LONG_MS);
    assert_int_equal(rig->seen.topics_version, rig->watch.topics_version + 1);
    know(rig);
    assert_true(look_while(rig, LONG_MS, "UPDATE installation SET generation = generation + 1") < LONG_MS);
    assert_int_equal(rig->seen.generation, rig->watch.generation + 1);
}

RIG_TEST(a_wait_ends_when_a_leadership_begins_ends_or_is_halted)
{
    assert_int_equal(rig->seen.n_rows, 0);
    assert_true(look_while(rig, LONG_MS,
                           "UPDATE shards SET owner = '" OWNER
                           "', epoch = 9, token = 77, version = 3 WHERE shard = 2") < LONG_MS);
    assert_int_equal(rig->seen.n_rows, 1);
    const struct dt_watched_row *row = &rig->seen.rows[0];
    assert_true(row->shard == 2 && row->epoch == 9 && row->token == 77 && row->version == 3);
    know(rig);
    assert_true(look_while(rig, WAIT_MS, "UPDATE shards SET version = version + 1 WHERE shard = 2") >= WAIT_MS - 5);
    assert_int_equal(rig->seen.rows[0].version, 4);
    assert_true(look_while(rig, LONG_MS, "UPDATE shards SET halted = 'why' WHERE shard = 2") < LONG_MS);
    know(rig);
    assert_true(look_while(rig, LONG_MS, "UPDATE shards SET owner = 'else', epoch = 10, token = 78 WHERE shard = 2") <
                LONG_MS);
    assert_int_equal(rig->seen.n_rows, 0);
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
    rig->watch.owner = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mysql_fixture_run(&rig->fx, "%s", rows[i].later);
        rig->watch.intake = rows[i].bit;
        rig->watch.intake_at_ms = 0;
        assert_true(look(rig, 300) >= 295);
        assert_int_equal(rig->seen.intake, 0);
        assert_true(look_while(rig, LONG_MS, rows[i].now) < LONG_MS);
        assert_int_equal(rig->seen.intake, rows[i].bit);
        rig->watch.intake = DT_WATCH_INTAKE & ~rows[i].bit; /* others do not ask, and are not told */
        rig->watch.intake_at_ms = 0;
        (void)look(rig, 0);
        assert_int_equal(rig->seen.intake & rows[i].bit, 0);
    }
    rig->watch.intake = DT_WATCH_INTAKE;
    rig->watch.intake_at_ms = 0;
    (void)look(rig, 0);
    assert_int_equal(rig->seen.intake, DT_WATCH_INTAKE);
}

static void process(struct rig *rig, unsigned id, const char *kind, int age_ms)
{
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (%u, '%s', 'x', 0, "
                      "UNIX_TIMESTAMP(SYSDATE(3)) * 1000 - %d)",
                      id, kind, age_ms);
}

RIG_TEST(dispatchers_poll_in_turns_and_a_dead_one_loses_its_turn)
{
    rig->watch.owner = NULL;
    rig->watch.intake = DT_WATCH_INTAKE;
    for (unsigned rank = 0; rank < 3; rank++) { /* so many that live have ids below 5 */
        mysql_fixture_run(&rig->fx, "DELETE FROM processes");
        process(rig, 5, "dispatcher", 0);
        process(rig, 4, "api", 0);
        process(rig, 3, "dispatcher", 5000);
        for (unsigned id = 1; id <= rank; id++)
            process(rig, id, "dispatcher", 0);
        rig->watch.intake_at_ms = 0;
        (void)look(rig, 0);
        assert_int_equal(rig->seen.intake_at_ms % 200, 0);
        assert_int_equal(rig->seen.intake_at_ms / 200 % (rank + 1), rank);
    }
}

RIG_TEST(a_wait_ends_when_the_test_clock_changes)
{
    mysql_fixture_run(&rig->fx, "INSERT INTO test_clock (one, changed_at) VALUES (1, 0)");
    rig->watch.owner = NULL;
    (void)look(rig, 0);
    rig->watch.clock = true;
    rig->watch.clock_version = rig->seen.clock_version;
    assert_true(look(rig, 300) >= 295);
    assert_true(look_while(rig, LONG_MS, "UPDATE test_clock SET version = version + 1") < LONG_MS);
    assert_int_equal(rig->seen.clock_version, rig->watch.clock_version + 1);
    mysql_fixture_run(&rig->fx, "DELETE FROM test_clock");
}

/* ---- leases of what one process at a time does ---- */

RIG_TEST(a_lease_has_one_holder_until_it_is_released_or_expires)
{
    struct dt_error err = {0};
    struct dt_work_lease first = {.work = "test", .ms = 60000};
    struct dt_work_lease second = first;
    struct dt_work_lease other = {.work = "other", .ms = 60000};
    OK(dt_work_lease_take(rig->store, &first, &err));
    OK(dt_work_lease_take(rig->store, &other, &err));
    assert_int_equal(dt_work_lease_take(rig->store, &second, &err), DT_BUSY);
    dt_work_lease_release(rig->store, &second); /* it is not its own */
    OK(dt_work_lease_keep(rig->store, &first, &err));
    dt_work_lease_release(rig->store, &first);
    OK(dt_work_lease_take(rig->store, &second, &err));
    first.ms = second.ms = 1; /* short ones, which are renewed at each call */
    OK(dt_work_lease_keep(rig->store, &second, &err));
    AWAIT(dt_work_lease_take(rig->store, &first, &err) == DT_OK);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT holder FROM work_leases WHERE work = 'test'"),
                     first.holder);
    mysql_fixture_run(&rig->fx, "UPDATE work_leases SET until_at = UNIX_TIMESTAMP() * 1000 + 60000");
    assert_int_equal(dt_work_lease_keep(rig->store, &second, &err), DT_BUSY);
    /* So far ahead only a clock that was set back can have put it. */
    mysql_fixture_run(&rig->fx, "UPDATE work_leases SET until_at = 8000000000000");
    OK(dt_work_lease_keep(rig->store, &second, &err));
    dt_work_lease_release(rig->store, &second);
    dt_work_lease_release(rig->store, &first);
    dt_work_lease_release(rig->store, &other);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM work_leases"), 0);
}

SUITE(setup, teardown)
