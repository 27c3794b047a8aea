/* Migrations and the installation row on a real server. */
#include <stdatomic.h>

#include "support/suite.h"

#include "store/migrations.h"
#include "support/mysql_fixture.h"

static struct dt_error err;

FREED_AT(dt_store *, dt_store_free)
#define STORE(name) OWNED(dt_store *, name, dt_store_free_at)

static _Atomic int logged;
static void count_log(const char *)
{
    logged++;
}

static void setup(void)
{
    mysql_fixture_make("schema");
    logged = 0;
}

#define RIG_TEST(name) TEST_WITH(name, setup, mysql_fixture_drop)

static void set_text(char **option, const char *value)
{
    free(*option);
    *option = strdup(value);
    assert_non_null(*option);
}

RIG_TEST(the_first_migration_creates_the_installation)
{
    struct dt_installation inst;
    STORE(store) = mysql_fixture_store();
    set_text(&mysql_fixture.config.installation_name, "acme.eu");
    mysql_fixture.config.shards_count = 7;
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, dt_migrations_n);
    OK(dt_store_check_schema(store, &err));
    OK(dt_store_installation(store, &inst, &err));
    assert_string_equal(inst.name, "acme.eu");
    assert_int_equal(strlen(inst.uuid), 36);
    assert_members(inst, (shards, 7), (generation, 1), (topics_version, 1));
    assert_sql_number(7, "SELECT COUNT(*) FROM shards WHERE inflight = '[]' AND epoch = 0");
    assert_sql_number(6, "SELECT MAX(shard) FROM shards");
    assert_sql_number(1, "SELECT next_id FROM id_sequence");
}

RIG_TEST(a_second_migration_run_changes_nothing)
{
    struct dt_installation before, after;
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, count_log, &err));
    OK(dt_store_installation(store, &before, &err));
    set_text(&mysql_fixture.config.installation_name, "other");
    mysql_fixture.config.shards_count = 9;
    logged = 0;
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, 0);
    OK(dt_store_installation(store, &after, &err));
    assert_memory_equal(&before, &after, sizeof before);
}

struct migrator {
    dt_status status;
    struct dt_error err;
};

static void *migrate(void *arg)
{
    struct migrator *m = arg;
    dt_store *store = NULL;
    m->status = dt_store_new(&mysql_fixture.config, NULL, &store);
    if (!m->status)
        m->status = dt_store_migrate(store, count_log, &m->err);
    dt_store_free(store);
    dt_db_thread_end();
    return NULL;
}

RIG_TEST(concurrent_migrations_run_once)
{
    enum { N = 5 };
    struct migrator m[N] = {0};
    run_at_once(migrate, m, sizeof *m, N);
    for (int i = 0; i < N; i++)
        MYSQL_FIXTURE_OK(m[i].status, &m[i].err);
    assert_int_equal(logged, dt_migrations_n);
}

RIG_TEST(an_interrupted_migration_continues_where_it_stopped)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, count_log, &err));
    int64_t steps = sql_number("SELECT step FROM schema_migrations WHERE version = 1");
    assert_true(steps > 5);
    /* As if it had been killed before the last statement: what came before must not run again. */
    run_sql("UPDATE schema_migrations SET applied_at = 0, step = step - 1 WHERE version = 1");
    run_sql("DROP PROCEDURE dt_renew_member");
    run_sql("DROP TABLE deferred_results");
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    logged = 0;
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, 1);
    assert_sql_number(1, "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE() AND "
                         "routine_name = 'dt_renew_member'");
    assert_sql_number(0, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                         "table_name = 'deferred_results'");
    assert_sql_number(steps, "SELECT step FROM schema_migrations WHERE version = 1");
    assert_sql_number(1, "SELECT applied_at > 0 FROM schema_migrations WHERE version = 1");
}

RIG_TEST(messages_of_three_tables_move_into_one_each_once)
{
    char found[200];
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, count_log, &err));
    run_sql("CREATE TABLE outbox SELECT 1 id, 3 shard, 7 job_id, 2 attempt, 100 made_at; CREATE TABLE command_answers "
            "SELECT 1 id, 5 kafka_partition, '[]' answers, 101 created_at, 't' of_topic, 'a.replies' topic; CREATE "
            "TABLE alert_messages SELECT 1 id, 9 alert, 'ended' type, 'kafka' target, 't' topic, 'dead' kind, 4 value, "
            "3 bound, 2 began_at, 102 made_at, 103 next_at, 6 tries, 'why' error");
    for (int killed = 0; killed <= 1; killed++) { /* the second time as if it had not been recorded */
        run_sql("UPDATE schema_migrations SET applied_at = 0, step = 0 WHERE version = 3");
        OK(dt_store_migrate(store, count_log, &err));
        sql_text(found, sizeof(found),
                 "SELECT GROUP_CONCAT(CONCAT_WS(' ', kind, sender, made_at, next_at, tries, job_id, attempt, topic, "
                 "kafka_topic, answers, alert, type, target, alert_kind, value, bound, began_at, error) ORDER BY id) "
                 "FROM messages");
        assert_string_equal(
            found,
            "dead 3 100 0 0 7 2 ,answers 5 101 0 0 t a.replies [],alert 0 102 103 6 t 9 ended kafka dead 4 3 2 why");
    }
    assert_sql_number(0, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                         "table_name IN ('outbox', 'command_answers', 'alert_messages')");
}

RIG_TEST(a_migration_tolerates_a_statement_done_before_its_step_was_stored)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    int64_t steps = sql_number("SELECT step FROM schema_migrations WHERE version = 3");
    for (int64_t step = steps - 1; step >= 0; step--) {
        if (step < 9 && step % 3 == 2) /* rows move from a table that the step before has made */
            continue;
        run_sql("UPDATE schema_migrations SET applied_at = 0, step = %lld WHERE version = 3", (long long)step);
        OK(dt_store_migrate(store, NULL, &err));
    }
    steps = sql_number("SELECT step FROM schema_migrations WHERE version = 1");
    for (int64_t step = steps - 1; step >= 0; step -= 7) {
        run_sql("UPDATE schema_migrations SET applied_at = 0, step = %lld WHERE version = 1", (long long)step);
        OK(dt_store_migrate(store, NULL, &err));
    }
}

RIG_TEST(migrations_that_were_run_by_hand_before_are_tolerated)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    run_sql("DROP TABLE schema_migrations");
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, dt_migrations_n);
    OK(dt_store_check_schema(store, &err));
    assert_sql_number(mysql_fixture.config.shards_count, "SELECT COUNT(*) FROM shards");
}

RIG_TEST(a_schema_of_another_program_is_refused)
{
    STORE(store) = mysql_fixture_store();
    struct dt_installation inst;
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    assert_int_equal(dt_store_installation(store, &inst, &err), DT_SCHEMA);
    OK(dt_store_migrate(store, NULL, &err));
    OK(dt_store_check_schema(store, &err));
    run_sql("UPDATE schema_migrations SET version = version + 1, needs = NULL ORDER BY version DESC");
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    run_sql("UPDATE schema_migrations SET version = version - 1 ORDER BY version");
    OK(dt_store_check_schema(store, &err));
    run_sql("DELETE FROM installation");
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
}

/* Two later migrations; the programs that the second one needs. NULL: itself. */
static void assert_newer(dt_store *store, int64_t needs, dt_status want)
{
    run_sql("UPDATE schema_migrations SET needs = NULLIF(%lld, 0) WHERE version = %d", (long long)needs,
            dt_migrations_n + 2);
    assert_int_equal(dt_store_check_schema(store, &err), want);
    if (want != DT_OK)
        assert_non_null(strstr(err.text, "which needs programs of"));
}

RIG_TEST(a_newer_schema_is_accepted_if_its_migrations_permit_it)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    run_sql("INSERT INTO schema_migrations (version, name, applied_at, step, needs) VALUES (%d, 'a', 1, 1, 1), "
            "(%d, 'b', 0, 0, NULL)",
            dt_migrations_n + 1, dt_migrations_n + 2);
    assert_newer(store, 0, DT_SCHEMA);
    assert_newer(store, dt_migrations_n + 1, DT_SCHEMA);
    assert_newer(store, dt_migrations_n, DT_OK);
    assert_newer(store, 1, DT_OK);
    OK(dt_store_migrate(store, count_log, &err)); /* nothing of its own is missing */
}

/* Later ones that permit it do not make up for one of its own that is missing. */
RIG_TEST(a_missing_migration_is_noticed_among_later_ones)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    run_sql("INSERT INTO schema_migrations (version, name, applied_at, step, needs) VALUES (%d, 'a', 1, 1, 1)",
            dt_migrations_n + 1);
    OK(dt_store_check_schema(store, &err));
    run_sql("UPDATE schema_migrations SET applied_at = 0 WHERE version = %d", dt_migrations_n);
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    assert_non_null(strstr(err.text, "migrations are applied"));
}

/* The rows of schema_migrations after the first n of the 51 migrations before the baseline. */
static void make_chain(int n)
{
    run_sql("DELETE FROM schema_migrations");
    for (int i = 1; i <= n; i++)
        run_sql("INSERT INTO schema_migrations (version, name, applied_at, step, needs) VALUES (%d, '%s', %d, 1, "
                "NULLIF(%d, 0))",
                i,
                i == 1    ? "tables"
                : i == 51 ? "edited_rows"
                          : "other",
                i, i > 32 ? i - 1 : 0);
}

RIG_TEST(a_schema_of_the_last_migration_before_the_baseline_is_adopted)
{
    struct dt_installation before, after;
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    OK(dt_store_installation(store, &before, &err));
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('t', 1, 1)");
    run_sql("UPDATE shards SET epoch = 7");
    make_chain(51);
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    assert_non_null(strstr(err.text, "run duetime-api --migrate"));
    run_sql("DROP VIEW v_dead"); /* would come back if the baseline ran */
    logged = 0;
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, dt_migrations_n - 1);
    OK(dt_store_check_schema(store, &err));
    OK(dt_store_installation(store, &after, &err));
    assert_memory_equal(&before, &after, sizeof(before));
    assert_sql_number(1, "SELECT COUNT(*) FROM topics");
    assert_sql_number(7, "SELECT MIN(epoch) FROM shards");
    assert_sql_number(
        0, "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = DATABASE() AND table_name = 'v_dead'");
    assert_sql_number(dt_migrations_n, "SELECT COUNT(*) FROM schema_migrations");
    OK(dt_store_migrate(store, count_log, &err));
    assert_int_equal(logged, dt_migrations_n - 1);
}

RIG_TEST(an_earlier_schema_from_before_the_baseline_is_refused)
{
    STORE(store) = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    run_sql("DROP VIEW v_dead");
    for (int i = 0; i < 4; i++) {
        make_chain((int[]){1, 30, 50, 51}[i]);
        if (i == 3)
            run_sql("UPDATE schema_migrations SET applied_at = 0 WHERE version = 51"); /* under way */
        else if (i == 0) /* the table had no such column before the 32nd */
            run_sql("ALTER TABLE schema_migrations DROP COLUMN needs");
        int64_t rows = sql_number("SELECT COUNT(*) FROM schema_migrations");
        logged = 0;
        assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
        assert_int_equal(dt_store_migrate(store, count_log, &err), DT_SCHEMA);
        assert_non_null(strstr(err.text, "commit 101109e9"));
        assert_int_equal(logged, 0);
        assert_sql_number(rows, "SELECT COUNT(*) FROM schema_migrations");
        if (i == 0)
            run_sql("ALTER TABLE schema_migrations ADD COLUMN needs INT NULL");
    }
    assert_sql_number(
        0, "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = DATABASE() AND table_name = 'v_dead'");
}

RIG_TEST(a_bad_installation_name_is_refused)
{
    STORE(store) = mysql_fixture_store();
    set_text(&mysql_fixture.config.installation_name, "no spaces");
    assert_int_equal(dt_store_migrate(store, NULL, &err), DT_INVALID);
    assert_int_equal(dt_store_check_schema(store, &err), DT_SCHEMA);
    set_text(&mysql_fixture.config.installation_name, "fine");
    OK(dt_store_migrate(store, NULL, &err));
    OK(dt_store_check_schema(store, &err));
}

RIG_TEST(due_columns_follow_next_at)
{
    mysql_fixture_migrate();
    run_sql("INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
            "digest, payload) VALUES (1, 't', 0, 86400123, 0, '', 1, 0, 0, 0, '', ''), (2, 't', 0, 86400123, 1, '', 1, "
            "0, 0, 0, '', '')");
    run_sql("INSERT INTO jobs (id, topic, state, run_at, leave_at, retry, ack_timeout_ms, created_at, updated_at, "
            "maker, digest, payload) VALUES (3, 't', 'dead', 0, 77, '', 1, 0, 0, 0, '', '')");
    assert_sql_number(1, "SELECT due_band = 0 AND due_key = 86400000 FROM jobs WHERE id = 1");
    assert_sql_number(1, "SELECT due_band = 1 AND due_key = 86400123 FROM jobs WHERE id = 2");
    assert_sql_number(1, "SELECT due_band = 2 AND due_key = 77 FROM jobs WHERE id = 3");
    assert_int_equal(dt_db_script(mysql_fixture.db, DT_STR_LIT("UPDATE jobs SET next_at = NULL WHERE id = 1"), &err),
                     DT_INVALID);
    assert_int_equal(dt_db_script(mysql_fixture.db, DT_STR_LIT("UPDATE jobs SET attempt = -1 WHERE id = 1"), &err),
                     DT_INVALID);
}

static dt_status sample(dt_store *store, dt_refclock *ref, struct dt_error *why)
{
    dt_status status = dt_store_ping(store, why);
    assert_true(status || atomic_load(&ref->taken_us) != 0);
    return status;
}

RIG_TEST(a_ping_samples_the_clock_and_reconnects)
{
    dt_refclock ref;
    STORE(store) = NULL;
    dt_db *db;
    dt_refclock_init(&ref, dt_clock_system());
    OK(dt_store_new(&mysql_fixture.config, &ref, &store));
    OK(sample(store, &ref, &err));
    int64_t now = sql_number("SELECT " DT_SQL_NOW_MS);
    assert_in_range(dt_refclock_latest_ms(&ref) - now, 0, 2000);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query(db, "SELECT CONNECTION_ID()", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    int64_t session = dt_db_i64(db, 0);
    OK(dt_db_end(db, &err));
    run_sql("KILL %lld", (long long)session);
    assert_int_equal(dt_store_ping(store, &err), DT_UNAVAILABLE);
    OK(sample(store, &ref, &err));
}
