/* job_inbox on a real server: what becomes of rows, in which order, and that several movers share them. */

#include "features/intents/inbox.h"
#include "support/fail_rule.h"
#include "support/store_suite.h"
#include "topic/topics.h"

#define HOUR "3600000"

STORE_SUITE("inbox", 0)

static struct dt_inbox_mover mover;

static struct dt_inbox_mover a_mover(dt_store *its_store)
{
    struct dt_inbox_mover m = {.store = its_store, .clock = dt_clock_system()};
    m.rules = (struct dt_job_rules){.max_delay_ms = mysql_fixture.config.limits_max_delay,
                                    .payload_max = (size_t)mysql_fixture.config.limits_payload,
                                    .headers_max = (size_t)mysql_fixture.config.limits_headers,
                                    .json_depth = (unsigned)mysql_fixture.config.limits_json_depth,
                                    .installation = S("duetime")};
    assert_int_equal(dt_json_new(&m.json), DT_OK);
    return m;
}

static void end_mover(struct dt_inbox_mover *m)
{
    dt_json_free(m->json);
    dt_arena_clear(&m->arena);
}

static void begin(void)
{
    empty_tables();
    run_sql("DELETE FROM job_inbox");
    OK(dt_store_topic_ensure(store, S("t"), NULL, &err));
    mover = a_mover(store);
}

static void end(void)
{
    end_mover(&mover);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

/* action, key, delay and payload as SQL. */
static void put(const char *values)
{
    run_sql("INSERT INTO job_inbox (topic, action, job_key, delay_ms, payload) VALUES ('t', %s)", values);
}

static struct dt_inbox_moved move_once(struct dt_inbox_mover *m)
{
    struct dt_inbox_moved moved = {0};
    bool some;
    OK(dt_store_look_at_inbox(m, &some, &err));
    if (some)
        OK(dt_store_move_inbox(m, &moved, &err));
    return moved;
}

static int64_t rows(const char *where)
{
    return sql_number("SELECT COUNT(*) FROM job_inbox WHERE %s", where);
}

static int64_t jobs(const char *where)
{
    return sql_number("SELECT COUNT(*) FROM jobs WHERE %s", where);
}

FRESH_TEST(rows_of_a_key_are_processed_in_order_despite_other_rows)
{
    put("'create', 'a', " HOUR ", '1'"), put("'create', 'b', " HOUR ", '1'"), put("'cancel', 'a', NULL, NULL");
    put("'replace', 'a', " HOUR ", '2'"), put("'change', 'b', NULL, '3'"), put("'change', 'a', NULL, '4'");
    put("'create', 'b', " HOUR ", '9'");
    struct dt_inbox_moved moved = move_once(&mover);
    assert_int_equal(moved.done, 6);
    assert_int_equal(moved.refused, 1); /* b exists, and the request that made it was another */
    assert_int_equal(jobs("job_key = 'a' AND state = 'cancelled' AND payload = '1'"), 1);
    assert_int_equal(jobs("job_key = 'a' AND state = 'scheduled' AND payload = '4'"), 1);
    assert_int_equal(jobs("job_key = 'b' AND state = 'scheduled' AND payload = '3'"), 1);
    assert_int_equal(rows("error LIKE 'key-conflict: %%' AND error_at > 0"), 1);
    assert_int_equal(mysql_fixture_audit(), 0);
}

/* Another session has the first row of a key: what comes behind it for that key waits, and nothing else does. */
FRESH_TEST(a_locked_row_delays_only_rows_with_its_key)
{
    put("'create', 'a', " HOUR ", '1'"), put("'cancel', 'a', NULL, NULL"), put("'create', 'b', " HOUR ", '1'");
    run_sql("BEGIN; SELECT id FROM job_inbox ORDER BY id LIMIT 1 FOR UPDATE");
    struct dt_inbox_moved moved = move_once(&mover);
    assert_members(moved, (done, 1), (waiting, 1));
    assert_int_equal(jobs("job_key = 'b'"), 1);
    assert_int_equal(jobs("TRUE"), 1);
    run_sql("ROLLBACK");
    assert_int_equal(move_once(&mover).done, 2);
    assert_int_equal(jobs("job_key = 'a' AND state = 'cancelled'"), 1);
}

/* Two movers whose rows of a key alternate would else wait for each other. */
FRESH_TEST(a_row_is_processed_although_later_ones_are_locked)
{
    put("'create', 'a', " HOUR ", '1'"), put("'change', 'a', NULL, '2'"), put("'change', 'a', NULL, '3'");
    run_sql("BEGIN; SELECT id FROM job_inbox WHERE payload = '2' FOR UPDATE");
    struct dt_inbox_moved moved = move_once(&mover);
    assert_members(moved, (done, 1), (waiting, 1));
    assert_int_equal(jobs("job_key = 'a' AND payload = '1'"), 1);
    run_sql("ROLLBACK");
    assert_int_equal(move_once(&mover).done, 2);
    assert_int_equal(jobs("job_key = 'a' AND payload = '3' AND version = 3"), 1);
}

/* The same for a job whose row somebody has. */
FRESH_TEST(a_locked_job_delays_only_its_own_rows)
{
    put("'create', 'a', " HOUR ", '1'"), move_once(&mover);
    put("'cancel', 'a', NULL, NULL"), put("'replace', 'a', " HOUR ", '2'"), put("'create', 'b', " HOUR ", '1'");
    run_sql("BEGIN; SELECT id FROM jobs FOR UPDATE");
    struct dt_inbox_moved moved = move_once(&mover);
    assert_members(moved, (done, 1), (waiting, 2));
    run_sql("ROLLBACK");
    assert_int_equal(move_once(&mover).done, 2);
    assert_int_equal(jobs("job_key = 'a' AND state = 'cancelled'"), 1);
    assert_int_equal(jobs("job_key = 'a' AND state = 'scheduled'"), 1);
}

FRESH_TEST(a_row_that_commits_late_with_a_low_id_is_not_overlooked)
{
    dt_store *other = mysql_fixture_store();
    struct dt_inbox_mover late = a_mover(other);
    run_sql("BEGIN");
    put("'create', 'low', " HOUR ", '1'");
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_run(db, "INSERT INTO job_inbox (topic, job_key, delay_ms) VALUES ('t', 'high', " HOUR ")", DT_NO_PARAMS,
                 NULL, &err));
    assert_int_equal(move_once(&late).done, 1);
    run_sql("COMMIT");
    assert_int_equal(move_once(&late).done, 1);
    assert_int_equal(jobs("job_key IN ('low', 'high')"), 2);
    end_mover(&late);
    dt_store_free(other);
}

/* Hundreds of rows are removed while the server believes the table to be small. */
FRESH_TEST(uncommitted_rows_do_not_block_a_mover)
{
    dt_store *other = mysql_fixture_store();
    struct dt_inbox_mover beside = a_mover(other);
    run_sql("BEGIN");
    put("'create', 'open', " HOUR ", '1'");
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_run(db,
                 "INSERT INTO job_inbox (topic, job_key, delay_ms) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i "
                 "+ 1 FROM n WHERE i < 300) SELECT 't', CONCAT('k', i), " HOUR " FROM n",
                 DT_NO_PARAMS, NULL, &err));
    assert_int_equal(move_once(&beside).done, 300);
    run_sql("ROLLBACK");
    assert_int_equal(rows("TRUE"), 0);
    end_mover(&beside);
    dt_store_free(other);
}

/* created_at is what delays count from, and nothing else: an application may have set it. */
FRESH_TEST(a_run_at_is_kept_whatever_created_at_says)
{
    int64_t at_ms = mysql_now_ms() + 600000;
    for (int i = 0; i < 3; i++) {
        run_sql(
            "INSERT INTO job_inbox (topic, action, job_key, run_at, created_at) VALUES ('t', '%s', 'k', %lld, %lld)",
            ((const char *[]){"create", "change", "replace"})[i], (long long)at_ms + i, (long long)at_ms + 3600000);
        assert_int_equal(move_once(&mover).done, 1);
        assert_sql_number(at_ms + i, "SELECT run_at FROM jobs");
    }
    assert_int_equal(jobs("version = 3"), 1);
    run_sql("INSERT INTO job_inbox (topic, job_key, delay_ms, created_at) VALUES ('t', 'old', 5, 0)");
    assert_int_equal(move_once(&mover).done, 1);
    assert_sql_number(1, "SELECT run_at >= created_at FROM jobs WHERE job_key = 'old'");
}

FRESH_TEST(a_missing_topic_is_created_by_its_first_row_if_allowed)
{
    run_sql("INSERT INTO job_inbox (topic, job_key, delay_ms) VALUES ('new', 'k', " HOUR "), ('a_b', 'k', " HOUR
            "), ('a.b', 'k', " HOUR ")");
    assert_true(move_once(&mover).again);
    move_once(&mover);
    move_once(&mover);
    assert_int_equal(jobs("topic = 'new'"), 1);
    assert_int_equal(jobs("topic IN ('a_b', 'a.b')"), 1);
    assert_int_equal(rows("error LIKE 'invalid: the name clashes in Kafka with that of another topic%%'"), 1);
    assert_int_equal(rows("error IS NULL"), 0);
}

FRESH_TEST(a_row_for_one_topic_too_many_is_refused_alone)
{
    const int64_t most = mysql_fixture.config.limits_topics;
    mysql_fixture.config.limits_topics = 2;
    run_sql("INSERT INTO job_inbox (topic, job_key, delay_ms) VALUES ('second', 'k', " HOUR "), ('third', 'k', " HOUR
            "), ('t', 'k', " HOUR ")");
    for (int i = 0; i < 4; i++)
        move_once(&mover);
    assert_int_equal(
        rows("topic = 'third' AND error = 'invalid: no topic can be created: limits.topics (2) is reached'"), 1);
    assert_sql_number(1, "SELECT COUNT(*) FROM v_inbox_errors WHERE topic = 'third'");
    assert_int_equal(rows("TRUE"), 1);
    assert_int_equal(jobs("topic IN ('t', 'second')"), 2);
    run_sql("INSERT INTO job_inbox (topic, job_key, delay_ms) VALUES ('second', 'l', " HOUR ")");
    assert_int_equal(move_once(&mover).done, 1);
    assert_sql_number(2, "SELECT COUNT(*) FROM topics");
    mysql_fixture.config.limits_topics = most;
}

FRESH_TEST(an_invalid_row_keeps_its_error_and_the_others_are_processed)
{
    for (int i = 0; i < 50; i++)
        put("'create', NULL, " HOUR ", '{'"), put("'create', NULL, " HOUR ", '[1]'"),
            put("'cancel', 'none', NULL, NULL");
    struct dt_inbox_moved moved = move_once(&mover);
    assert_members(moved, (done, 50), (refused, 100));
    assert_int_equal(rows("error LIKE 'malformed: payload: %%'"), 50);
    assert_int_equal(rows("error = 'not-found: no such job'"), 50);
    assert_sql_number(100, "SELECT COUNT(*) FROM v_inbox_errors WHERE error_at IS NOT NULL");
    assert_int_equal(move_once(&mover).refused, 0); /* they are looked at no more */
    int64_t n;
    uint64_t purged;
    OK(dt_store_count_inbox_errors(store, &n, &err));
    assert_int_equal(n, 100);
    run_sql("UPDATE job_inbox SET error_at = 5 ORDER BY id LIMIT 30");
    OK(dt_store_purge_inbox(store, 6, &purged, &err));
    assert_int_equal(purged, 30);
    assert_int_equal(rows("TRUE"), 70);
}

/* The place is counted from the payload's own first byte, whatever the row's text is put together with. */
FRESH_TEST(a_payload_with_invalid_json_is_refused_with_the_position)
{
    static const char *const texts[] = {"{\"a\" 1}", "", "[1,]", "\xEF\xBB\xBF{}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        const struct dt_json_limits limits = dt_job_json_limits(mover.rules.json_depth);
        struct dt_error why = {0};
        assert_int_equal(dt_json_parse(mover.json, dt_str(texts[i]), &limits, &why), DT_MALFORMED);
        run_sql("DELETE FROM job_inbox; INSERT INTO job_inbox (topic, job_key, delay_ms, payload) VALUES ('t', 'k', 1, "
                "'%s')",
                texts[i]);
        assert_int_equal(move_once(&mover).refused, 1);
        if (sql_number("SELECT error <> 'malformed: payload: %s' FROM job_inbox", why.text))
            fail_msg("'%s' is not refused with: %s", texts[i], why.text);
    }
}

FRESH_TEST(a_key_reserved_for_fires_is_refused_with_the_reason)
{
    run_sql("INSERT INTO schedules (name, topic, every_ms, anchor_at, time_zone, overlap, catch_up_ms, jitter_ms, "
            "paused, created_at, updated_at, version, digest, payload_binary, payload) VALUES ('s', 't', 1000, 0, "
            "'UTC', 'allow', 0, 0, FALSE, 1, 1, 1, 'd', FALSE, '1')");
    put("'create', 's@5', " HOUR ", '1'");
    put("'create', 's@5x', " HOUR ", '1'");
    assert_int_equal(move_once(&mover).done, 1);
    assert_int_equal(rows("error LIKE 'invalid: the key belongs to a fire of a schedule%%'"), 1);
    run_sql("DELETE FROM schedules");
}

/* A move that fails at any of its steps leaves all as it was, or has done all. */
FRESH_TEST(a_move_that_fails_at_any_statement_is_rolled_back_and_repeated)
{
    static const char *const points[] = {"inbox.locked", "inbox.carried_out", "inbox.written"};
    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        char rule[64];
        struct dt_inbox_moved moved;
        bool some;
        put("'create', NULL, " HOUR ", '1'"), put("'cancel', 'none', NULL, NULL");
        snprintf(rule, sizeof(rule), "%s=error:INTERNAL@1", points[i]);
        fail_rule(rule);
        OK(dt_store_look_at_inbox(&mover, &some, &err));
        assert_int_equal(dt_store_move_inbox(&mover, &moved, &err), DT_INTERNAL);
        fail_rule(NULL);
        assert_int_equal(jobs("TRUE"), i);
        assert_int_equal(rows("error IS NULL"), 2);
        assert_int_equal(move_once(&mover).done, 1);
        assert_int_equal(jobs("TRUE"), i + 1);
        assert_int_equal(rows("error IS NULL"), 0);
    }
    assert_int_equal(mysql_fixture_audit(), 0);
}

/* ---- several at once ---- */

#define MOVERS 3
#define KEYS   40

/* Until a look from the first row on meets none: what others have may come back. */
static void *move_until_empty(void *arg)
{
    dt_store *own = arg;
    struct dt_inbox_mover m = a_mover(own);
    struct dt_inbox_moved moved;
    struct dt_error why = {0};
    bool some = true;
    for (int i = 0; i < 20000 && some; i++) {
        const bool first = !m.after;
        dt_status status = dt_store_look_at_inbox(&m, &some, &why);
        if (status == DT_OK && some)
            status = dt_store_move_inbox(&m, &moved, &why);
        some = some || !first || status != DT_OK;
    }
    end_mover(&m);
    return NULL;
}

/* Each key: made, changed ten times to a number that rises. The version says that each change was made, once. */
FRESH_TEST(several_movers_share_rows_and_keep_the_order_of_each_key)
{
    pthread_t threads[MOVERS];
    dt_store *stores[MOVERS];
    run_sql("INSERT INTO job_inbox (topic, action, job_key, delay_ms, payload) SELECT 't', IF(n.seq = 0, 'create', "
            "'change'), k.seq, IF(n.seq = 0, " HOUR
            ", NULL), n.seq FROM (WITH RECURSIVE c AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM c WHERE seq < 10) "
            "SELECT seq FROM c) n, (WITH RECURSIVE d AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM d WHERE seq < "
            "40) SELECT seq FROM d) k ORDER BY n.seq, k.seq");
    assert_int_equal(rows("TRUE"), 11 * KEYS);
    for (int i = 0; i < MOVERS; i++) {
        stores[i] = mysql_fixture_store();
        threads[i] = start_thread(move_until_empty, stores[i]);
    }
    for (int i = 0; i < MOVERS; i++) {
        pthread_join(threads[i], NULL);
        dt_store_free(stores[i]);
    }
    assert_int_equal(rows("TRUE"), 0);
    assert_int_equal(jobs("version = 11 AND payload = '10'"), KEYS);
    assert_int_equal(mysql_fixture_audit(), 0);
}

SUITE(open_store, close_store)
