/* db.h on a real server. */

#include "support/mysql_fixture.h"
#include "support/wait.h"

static struct dt_error err;

struct rig {
    dt_db *db;
};

static void setup(struct rig *rig)
{
    mysql_fixture_make("db");
    mysql_fixture.config.mysql_lock_timeout = 1000;
    mysql_fixture.config.mysql_idle_transaction_timeout = 1000;
    run_sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k VARBINARY(20) NULL, p MEDIUMBLOB NULL, CHECK (id >= 0))");
    OK(dt_db_open(&mysql_fixture.config, &rig->db, &err));
}

static void teardown(struct rig *rig)
{
    dt_db_free(rig->db);
    mysql_fixture_drop();
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static int64_t ask(dt_db *db, const char *sql)
{
    OK(dt_db_query(db, sql, DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    int64_t n = dt_db_i64(db, 0);
    assert_false(dt_db_next(db));
    OK(dt_db_end(db, &err));
    return n;
}

static void kill_session(struct rig *rig)
{
    run_sql("KILL %lld", (long long)ask(rig->db, "SELECT CONNECTION_ID()"));
}

static const char insert[] = "INSERT INTO t (id, k, p) VALUES (?, ?, ?)";

RIG_TEST(values_are_read_back_as_they_were_written)
{
    static const char bytes[] = {'\xff', 0, '\x80', '\'', '\\', '\xc3', ' ', 'x', ' '};
    char *big = malloc(300000);
    memset(big, '\xfe', 300000);
    struct dt_str odd = {bytes, sizeof bytes}, large = {big, 300000};
    uint64_t changed = 0;
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(INT64_MAX), DT_P_STR(odd), DT_P_STR(large)), &changed, &err));
    assert_int_equal(changed, 1);
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_STR(odd)), NULL, &err));
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(2), DT_P_STR(DT_STR_LIT("")), DT_P_NULL), NULL, &err));
    for (int twice = 0; twice < 2; twice++) {
        OK(dt_db_query(rig->db,
                       "SELECT id, k, p, NULL, 12.5, COUNT(*) OVER () FROM t WHERE k <=> ? OR id < ? ORDER BY id",
                       DT_PARAMS(DT_P_STR(odd), DT_P_INT(10)), &err));
        assert_int_equal(dt_db_rows(rig->db), 3);
        assert_true(dt_db_next(rig->db));
        assert_int_equal(dt_db_i64(rig->db, 0), 1);
        assert_true(dt_db_is_null(rig->db, 1));
        assert_null(dt_db_bytes(rig->db, 1).p);
        assert_true(dt_str_eq(dt_db_bytes(rig->db, 2), odd));
        assert_true(dt_db_is_null(rig->db, 3));
        assert_int_equal(dt_db_i64(rig->db, 3), 0);
        assert_int_equal(dt_db_i64(rig->db, 4), 12);
        assert_int_equal(dt_db_i64(rig->db, 5), 3);
        assert_true(dt_db_next(rig->db));
        assert_false(dt_db_is_null(rig->db, 1));
        assert_non_null(dt_db_bytes(rig->db, 1).p);
        assert_int_equal(dt_db_bytes(rig->db, 1).n, 0);
        assert_true(dt_str_is(dt_db_bytes(rig->db, 0), "2"));
        assert_true(dt_db_next(rig->db));
        assert_true(dt_db_i64(rig->db, 0) == INT64_MAX);
        assert_true(dt_str_eq(dt_db_bytes(rig->db, 1), odd));
        assert_true(dt_str_eq(dt_db_bytes(rig->db, 2), large));
        assert_false(dt_db_next(rig->db));
        OK(dt_db_end(rig->db, &err));
        OK(dt_db_end(rig->db, &err));
    }
    free(big);
}

RIG_TEST(a_missing_column_is_null)
{
    assert_true(dt_db_is_null(rig->db, 0)); /* nothing was asked yet */
    OK(dt_db_query(rig->db, "SELECT 7", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(rig->db));
    assert_int_equal(dt_db_i64(rig->db, 0), 7);
    for (unsigned beyond = 1; beyond < 100; beyond += 49) {
        assert_true(dt_db_is_null(rig->db, beyond));
        assert_int_equal(dt_db_i64(rig->db, beyond), 0);
        assert_null(dt_db_bytes(rig->db, beyond).p);
    }
    OK(dt_db_end(rig->db, &err));
    assert_true(dt_db_is_null(rig->db, 0));
}

RIG_TEST(numbers_can_be_read_as_text)
{
    static const char sql[] = "SELECT id, IF(id = 2, NULL, -id) FROM t WHERE id >= ? AND id < ? ORDER BY id LIMIT ?";
    for (int id = 1; id < 5; id++)
        OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(id), DT_P_NULL, DT_P_NULL), NULL, &err));
    OK(dt_db_query_index(rig->db, sql, DT_PARAMS(DT_P_INT(1), DT_P_INT(INT64_MAX), DT_P_INT(2)), &err));
    assert_true(dt_db_next(rig->db));
    assert_int_equal(dt_db_i64(rig->db, 1), -1);
    assert_true(dt_db_next(rig->db));
    assert_int_equal(dt_db_i64(rig->db, 0), 2);
    assert_true(dt_db_is_null(rig->db, 1));
    assert_false(dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
    OK(dt_db_query_index(rig->db, sql, DT_PARAMS(DT_P_INT(INT64_MIN), DT_P_INT(1), DT_P_INT(2)), &err));
    assert_false(dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
    assert_int_equal(dt_db_query_index(rig->db, "SELECT nothing FROM t", DT_NO_PARAMS, &err),
                     dt_db_query(rig->db, "SELECT nothing FROM t", DT_NO_PARAMS, &err));
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), 4);
    OK(dt_db_query_index(rig->db, "SELECT 1", DT_NO_PARAMS, &err)); /* never ended: freed with the connection */
}

RIG_TEST(keys_differ_by_trailing_spaces)
{
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_STR(DT_STR_LIT("a")), DT_P_NULL), NULL, &err));
    OK(dt_db_query(rig->db, "SELECT id FROM t WHERE k = ?", DT_PARAMS(DT_P_STR(DT_STR_LIT("a "))), &err));
    assert_false(dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
}

RIG_TEST(a_json_parameter_can_be_joined)
{
    for (int i = 1; i < 5; i++)
        OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(i), DT_P_NULL, DT_P_NULL), NULL, &err));
    OK(dt_db_query(rig->db,
                   "SELECT t.id, j.w FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', w VARCHAR(20) PATH "
                   "'$[1]')) j STRAIGHT_JOIN t ON t.id = j.id ORDER BY t.id",
                   DT_PARAMS(DT_P_STR(DT_STR_LIT("[[2,\"two\"],[4,\"\\u00e9\"],[9,\"\"]]"))), &err));
    assert_true(dt_db_next(rig->db));
    assert_int_equal(dt_db_i64(rig->db, 0), 2);
    assert_true(dt_str_is(dt_db_bytes(rig->db, 1), "two"));
    assert_true(dt_db_next(rig->db));
    assert_true(dt_str_is(dt_db_bytes(rig->db, 1), "é"));
    assert_false(dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
}

RIG_TEST(many_rows_are_inserted_with_the_same_result_as_one_by_one)
{
    enum { ROWS = 2500 };
    static const char or_keep[] = "INSERT INTO t (id, k, p) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE id = id";
    struct dt_param *params = calloc(ROWS * 3, sizeof *params);
    uint64_t changed = 0;
    static const char bytes[] = "\xff\0x";
    for (int i = 0; i < ROWS; i++) {
        params[3 * i] = DT_P_INT(i);
        params[3 * i + 1] = i % 3 ? DT_P_STR(((struct dt_str){bytes, (size_t)(i % 4)})) : DT_P_NULL;
        params[3 * i + 2] = DT_P_NULL;
    }
    OK(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params, 3, ROWS}, &changed, &err));
    assert_int_equal(changed, ROWS);
    assert_int_equal(ask(rig->db, "SELECT SUM(IF(MOD(id, 3) = 0, k IS NULL, k = LEFT(X'FF0078', MOD(id, 4)))) FROM t"),
                     ROWS);
    for (int i = 0; i < ROWS; i++)
        params[3 * i].i += 1000;
    OK(dt_db_run_many(rig->db, or_keep, (struct dt_param_rows){params, 3, ROWS}, &changed, &err));
    assert_int_equal(changed, 1000);
    OK(dt_db_run_many(rig->db, or_keep, (struct dt_param_rows){params, 3, 1}, &changed, &err));
    assert_int_equal(changed, 0);
    OK(dt_db_run_many(rig->db, or_keep, (struct dt_param_rows){params, 3, 0}, &changed, &err));
    assert_int_equal(changed, 0);
    OK(dt_db_begin(rig->db, &err));
    assert_int_equal(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params, 3, ROWS}, &changed, &err),
                     DT_EXISTS);
    dt_db_rollback(rig->db);
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), ROWS + 1000);
    free(params);
}

RIG_TEST(a_statement_sent_with_the_commit_is_all_or_nothing)
{
    enum { ROWS = 64 };
    struct dt_param params[ROWS * 3];
    static const char bytes[] = "'\\\0;\xff";
    for (int i = 0; i < ROWS; i++) {
        params[3 * i] = DT_P_INT(i);
        params[3 * i + 1] = DT_P_NULL;
        params[3 * i + 2] = DT_P_STR(((struct dt_str){bytes, i % 2 ? sizeof bytes - 1 : 0}));
    }
    OK(dt_db_begin_soon(rig->db, &err));
    params[3 * (ROWS - 1)].i = 1000;
    OK(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params + 3 * (ROWS - 1), 3, 1}, NULL, &err));
    OK(dt_db_commit_with(rig->db, insert, (struct dt_param_rows){params, 3, ROWS - 1}, &err));
    dt_db_rollback(rig->db);
    assert_sql_number(ROWS - 1, "SELECT COUNT(*) FROM t WHERE id <> 1000");
    assert_sql_number(ROWS / 2 - 1, "SELECT COUNT(*) FROM t WHERE id <> 1000 AND HEX(p) = '275C003BFF'");
    /* one of them is there: nothing of the transaction is */
    OK(dt_db_begin_soon(rig->db, &err));
    params[0].i = 2000;
    OK(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params, 3, 1}, NULL, &err));
    assert_int_equal(dt_db_commit_with(rig->db, insert, (struct dt_param_rows){params, 3, ROWS - 1}, &err), DT_EXISTS);
    dt_db_rollback(rig->db);
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), ROWS);
    /* outside a transaction a statement commits itself again */
    OK(dt_db_begin_soon(rig->db, &err));
    OK(dt_db_commit(rig->db, &err));
    OK(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params, 3, 1}, NULL, &err));
    assert_sql_number(ROWS + 1, "SELECT COUNT(*) FROM t");
    OK(dt_db_begin(rig->db, &err));
    kill_session(rig);
    assert_int_equal(dt_db_commit_with(rig->db, insert, (struct dt_param_rows){params, 3, 1}, &err), DT_UNKNOWN);
    assert_int_equal(dt_db_commit_with(rig->db, insert, (struct dt_param_rows){params, 3, 1}, &err), DT_UNAVAILABLE);
}

RIG_TEST(a_lock_timeout_is_counted)
{
    struct dt_param row[] = {DT_P_INT(1), DT_P_NULL, DT_P_NULL};
    run_sql("INSERT INTO t (id) VALUES (1)");
    OK(dt_db_begin(mysql_fixture.db, &err));
    run_sql("UPDATE t SET k = 'x' WHERE id = 1");
    uint64_t number = dt_db_number(rig->db);
    OK(dt_db_begin(rig->db, &err));
    assert_int_equal(dt_db_commit_with(rig->db, insert, (struct dt_param_rows){row, 3, 1}, &err), DT_BUSY);
    dt_db_rollback(rig->db);
    assert_int_not_equal(dt_db_number(rig->db), number);
    dt_db_rollback(mysql_fixture.db);
}

RIG_TEST(rows_larger_than_a_packet_are_sent_in_several)
{
    size_t rows = dt_db_packet_max(rig->db) / 800000 + 3, bytes = 800000;
    if (rows > 200)
        rows = 200; /* a server that takes more than that at once: nothing to split */
    char *payload = malloc(bytes);
    memset(payload, 'x', bytes);
    struct dt_param *params = calloc(rows * 3, sizeof *params);
    for (size_t i = 0; i < rows; i++) {
        params[3 * i] = DT_P_INT(i);
        params[3 * i + 1] = DT_P_NULL;
        params[3 * i + 2] = DT_P_STR(((struct dt_str){payload, bytes}));
    }
    OK(dt_db_run_many(rig->db, insert, (struct dt_param_rows){params, 3, rows}, NULL, &err));
    assert_int_equal(ask(rig->db, "SELECT SUM(LENGTH(p) = 800000) FROM t"), rows);
    free(params);
    free(payload);
}

RIG_TEST(errors_of_mysql_map_to_statuses)
{
    dt_db *db = rig->db;
    struct dt_str longer = DT_STR_LIT("longer than twenty bytes");
    OK(dt_db_run(db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    assert_int_equal(dt_db_run(db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err), DT_EXISTS);
    assert_int_equal(dt_db_run(db, insert, DT_PARAMS(DT_P_INT(2), DT_P_STR(longer), DT_P_NULL), NULL, &err),
                     DT_INVALID);
    assert_int_equal(dt_db_run(db, insert, DT_PARAMS(DT_P_INT(-1), DT_P_NULL, DT_P_NULL), NULL, &err), DT_INVALID);
    assert_int_equal(dt_db_run(db, insert, DT_PARAMS(DT_P_NULL, DT_P_NULL, DT_P_NULL), NULL, &err), DT_INVALID);
    assert_int_equal(dt_db_run(db, "INSERT INTO nowhere VALUES (1)", DT_NO_PARAMS, NULL, &err), DT_SCHEMA);
    assert_int_equal(dt_db_run(db, "UPDATE t SET nothing = 1", DT_NO_PARAMS, NULL, &err), DT_SCHEMA);
    assert_true(dt_db_alive(db));
    assert_int_equal(ask(db, "SELECT COUNT(*) FROM t"), 1);
}

RIG_TEST(a_lock_timeout_spoils_the_transaction_until_it_is_rolled_back)
{
    static const char update[] = "UPDATE t SET k = 'x' WHERE id = ?";
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    OK(dt_db_begin(mysql_fixture.db, &err));
    OK(dt_db_run(mysql_fixture.db, update, DT_PARAMS(DT_P_INT(1)), NULL, &err));
    OK(dt_db_begin(rig->db, &err));
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(2), DT_P_NULL, DT_P_NULL), NULL, &err));
    assert_int_equal(dt_db_run(rig->db, update, DT_PARAMS(DT_P_INT(1)), NULL, &err), DT_BUSY);
    assert_int_equal(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(3), DT_P_NULL, DT_P_NULL), NULL, &err), DT_BUSY);
    assert_int_equal(dt_db_commit(rig->db, &err), DT_BUSY);
    dt_db_rollback(rig->db);
    dt_db_rollback(mysql_fixture.db);
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), 1);
}

/* The lock of a row is waited for when the answer has begun, so the error comes in the place of a row. */
RIG_TEST(a_statement_whose_rows_ended_in_an_error_is_executed_again)
{
    static const char lock[] = "SELECT id FROM t WHERE id >= ? ORDER BY id FOR UPDATE";
    struct dt_config patient =
        mysql_fixture.config; /* whoever holds the lock keeps it for as long as it is waited for */
    patient.mysql_idle_transaction_timeout = 10000;
    run_sql("INSERT INTO t (id) VALUES (1), (2), (3)");
    for (int64_t locked = 1; locked <= 3; locked += 2) {
        dt_db *other;
        OK(dt_db_open(&patient, &other, &err));
        OK(dt_db_begin(other, &err));
        OK(dt_db_query(other, lock, DT_PARAMS(DT_P_INT(locked)), &err));
        OK(dt_db_end(other, &err));
        OK(dt_db_begin(rig->db, &err));
        assert_int_equal(dt_db_query(rig->db, lock, DT_PARAMS(DT_P_INT(1)), &err), DT_BUSY);
        dt_db_rollback(rig->db);
        dt_db_rollback(other);
        dt_db_free(other);
        OK(dt_db_begin(rig->db, &err));
        OK(dt_db_query(rig->db, lock, DT_PARAMS(DT_P_INT(1)), &err));
        assert_int_equal(dt_db_rows(rig->db), 3);
        OK(dt_db_end(rig->db, &err));
        OK(dt_db_commit(rig->db, &err));
    }
}

RIG_TEST(a_lost_connection_stays_dead_until_it_is_reconnected)
{
    OK(dt_db_begin(rig->db, &err));
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    kill_session(rig);
    assert_int_equal(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(2), DT_P_NULL, DT_P_NULL), NULL, &err),
                     DT_UNAVAILABLE);
    assert_false(dt_db_alive(rig->db));
    assert_int_equal(dt_db_begin(rig->db, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_db_ping(rig->db, &err), DT_UNAVAILABLE);
    dt_db_rollback(rig->db);
    OK(dt_db_reconnect(rig->db, &err));
    assert_true(dt_db_alive(rig->db));
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), 0);
}

RIG_TEST(a_connection_with_an_unread_answer_is_replaced)
{
    OK(dt_db_query(rig->db, "SELECT 1", DT_NO_PARAMS, &err));
    OK(dt_db_reconnect(rig->db, &err));
    OK(dt_db_query_text(rig->db, DT_STR_LIT("SELECT 2"), &err));
    OK(dt_db_reconnect(rig->db, &err));
    assert_int_equal(ask(rig->db, "SELECT 3"), 3);
}

RIG_TEST(a_commit_without_an_answer_is_unknown)
{
    OK(dt_db_begin(rig->db, &err));
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    kill_session(rig);
    assert_int_equal(dt_db_commit(rig->db, &err), DT_UNKNOWN);
    assert_int_equal(err.status, DT_UNKNOWN);
    assert_int_equal(dt_db_commit(rig->db, &err), DT_UNAVAILABLE);
}

RIG_TEST(a_rolled_back_transaction_leaves_nothing)
{
    dt_db_rollback(rig->db);
    OK(dt_db_begin(rig->db, &err));
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    dt_db_rollback(rig->db);
    assert_int_equal(ask(rig->db, "SELECT COUNT(*) FROM t"), 0);
}

RIG_TEST(begin_at_returns_the_servers_time)
{
    int64_t before = ask(rig->db, "SELECT " DT_SQL_NOW_MS), now = 0;
    OK(dt_db_begin_at(rig->db, &now, &err));
    int64_t after = ask(rig->db, "SELECT " DT_SQL_NOW_MS);
    assert_true(before <= now && now <= after);
    assert_true(before > INT64_C(1700000000000));
    OK(dt_db_commit(rig->db, &err));
}

RIG_TEST(sessions_are_strict_read_committed_and_in_utc)
{
    assert_int_equal(ask(rig->db, "SELECT @@time_zone = '+00:00'"), 1);
    assert_int_equal(ask(rig->db, "SELECT @@sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"), 1);
    assert_int_equal(ask(rig->db, "SELECT @@innodb_lock_wait_timeout"), 1);
    assert_int_equal(ask(rig->db, "SELECT @@net_read_timeout"), 1); /* as long as it may stop inside a transaction */
    assert_int_equal(ask(rig->db, "SELECT @@net_write_timeout"), 1);
    assert_int_equal(ask(rig->db, "SELECT @@autocommit"), 1);
    const char *level = dt_db_server(rig->db) == DT_SERVER_MARIADB
                            ? "SELECT @@tx_isolation = 'READ-COMMITTED'"
                            : "SELECT @@transaction_isolation = 'READ-COMMITTED'";
    assert_int_equal(ask(rig->db, level), 1);
}

RIG_TEST(a_session_that_stops_inside_a_transaction_loses_its_locks)
{
    OK(dt_db_run(rig->db, insert, DT_PARAMS(DT_P_INT(1), DT_P_NULL, DT_P_NULL), NULL, &err));
    OK(dt_db_begin(rig->db, &err));
    OK(dt_db_run(rig->db, "UPDATE t SET k = 'x'", DT_NO_PARAMS, NULL, &err));
    dt_db *other;
    OK(dt_db_open(&mysql_fixture.config, &other, &err));
    dt_status status;
    AWAIT((status = dt_db_run(other, "DELETE FROM t", DT_NO_PARAMS, NULL, &err)) != DT_BUSY);
    OK(status);
    dt_db_free(other);
    assert_int_equal(dt_db_commit(rig->db, &err), DT_UNKNOWN);
}

RIG_TEST(scripts_discard_what_they_select)
{
    OK(dt_db_script(rig->db, DT_STR_LIT("CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2, 3; END"), &err));
    OK(dt_db_script(rig->db, DT_STR_LIT("CALL two()"), &err));
    OK(dt_db_script(rig->db, DT_STR_LIT("SELECT 1"), &err));
    OK(dt_db_run(rig->db, "SELECT 1", DT_NO_PARAMS, NULL, &err));
    assert_int_equal(ask(rig->db, "SELECT 7"), 7);
    assert_int_equal(dt_db_script(rig->db, DT_STR_LIT("CREATE TABLE"), &err), DT_INTERNAL);
}

static void fill_with(int rows, int bytes)
{
    run_sql("INSERT INTO t (id, p) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT "
            "n, REPEAT('x', %d) FROM s",
            rows, bytes);
}

RIG_TEST(a_stream_returns_each_row_as_it_arrives)
{
    fill_with(50, 100000);
    for (int twice = 0; twice < 2; twice++) {
        OK(dt_db_query_stream(rig->db, "SELECT id, p FROM t WHERE id > ? ORDER BY id", DT_PARAMS(DT_P_INT(0)), &err));
        for (int64_t id = 1; id <= 50; id++) {
            assert_true(dt_db_next(rig->db));
            assert_int_equal(dt_db_i64(rig->db, 0), id);
            assert_int_equal(dt_db_bytes(rig->db, 1).n, 100000);
        }
        assert_false(dt_db_next(rig->db));
        OK(dt_db_end(rig->db, &err));
        assert_int_equal(ask(rig->db, "SELECT 7"), 7);
    }
    assert_true(dt_db_alive(rig->db));
}

RIG_TEST(a_stream_that_ends_early_does_not_read_the_remaining_rows)
{
    static const char select[] = "SELECT id, p FROM t ORDER BY id";
    fill_with(200, 500000);
    OK(dt_db_query_stream(rig->db, select, DT_NO_PARAMS, &err));
    assert_true(dt_db_next(rig->db) && dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
    assert_false(dt_db_alive(rig->db));
    OK(dt_db_reconnect(rig->db, &err));
    assert_int_equal(ask(rig->db, "SELECT 7"), 7);
    /* A few rows are read to the end instead. */
    run_sql("DELETE FROM t WHERE id > 5");
    OK(dt_db_query_stream(rig->db, select, DT_NO_PARAMS, &err));
    assert_true(dt_db_next(rig->db) && dt_db_next(rig->db));
    OK(dt_db_end(rig->db, &err));
    assert_true(dt_db_alive(rig->db));
    assert_int_equal(ask(rig->db, "SELECT 8"), 8);
}

RIG_TEST(a_stream_that_breaks_off_ends_with_an_error)
{
    int rows = 0;
    fill_with(200, 500000);
    const int64_t session = ask(rig->db, "SELECT CONNECTION_ID()");
    OK(dt_db_query_stream(rig->db, "SELECT id, p FROM t ORDER BY id", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(rig->db));
    run_sql("KILL %lld", (long long)session);
    for (; rows < 200 && dt_db_next(rig->db); rows++)
        assert_int_equal(dt_db_i64(rig->db, 0), rows + 2);
    assert_in_range(rows, 0, 198);
    assert_int_not_equal(dt_db_end(rig->db, &err), DT_OK);
    OK(dt_db_reconnect(rig->db, &err));
    assert_int_equal(ask(rig->db, "SELECT 7"), 7);
}

RIG_TEST(an_unreachable_server_is_unavailable)
{
    dt_db *db = NULL;
    struct dt_config config = mysql_fixture.config;
    char nowhere[] = "/nonexistent/mysql.sock", nothing[] = "dt_no_such_database";
    config.mysql_socket = nowhere;
    assert_int_equal(dt_db_open(&config, &db, &err), DT_UNAVAILABLE);
    assert_null(db);
    config = mysql_fixture.config;
    config.mysql_database = nothing;
    assert_int_equal(dt_db_open(&config, &db, &err), DT_SCHEMA);
    OK(dt_db_new(&config, &db));
    assert_false(dt_db_alive(db));
    assert_int_equal(dt_db_begin(db, &err), DT_UNAVAILABLE);
    dt_db_free(db);
    dt_db_free(NULL);
}

RIG_TEST(a_server_that_does_not_answer_times_out)
{
    dt_db *db;
    struct dt_config config = mysql_fixture.config;
    config.mysql_io_timeout = 1000;
    OK(dt_db_open(&config, &db, &err));
    assert_int_equal(dt_db_run(db, "SELECT SLEEP(30)", DT_NO_PARAMS, NULL, &err), DT_UNAVAILABLE);
    assert_false(dt_db_alive(db));
    dt_db_free(db);
}

static void *cut_the_wait(void *db)
{
    mysql_fixture_await_statement("SELECT SLEEP(25)");
    dt_db_cut(db);
    dt_db_thread_end();
    return NULL;
}

RIG_TEST(a_wait_in_the_server_ends_when_the_connection_is_cut_and_stays_so)
{
    dt_db *db;
    OK(dt_db_open(&mysql_fixture.config, &db, &err));
    pthread_t other = start_thread(cut_the_wait, db);
    assert_int_equal(dt_db_run(db, "SELECT SLEEP(25)", DT_NO_PARAMS, NULL, &err), DT_UNAVAILABLE);
    pthread_join(other, NULL);
    assert_int_equal(dt_db_reconnect(db, &err), DT_UNAVAILABLE); /* whoever came to it late does not wait either */
    assert_false(dt_db_alive(db));
    dt_db_free(db);
}
