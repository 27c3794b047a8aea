/* The archive on a real server: its keys, its lists and counts, and its partitions from their making to their end. */
#include "contract/job/history_suite.h"
#include "job/change/jobs.h"
#include "job/list/list.h"
#include "job/results/results.h"
#include "topic/topics.h"

/* ---- keys ---- */

/* Of a command, the key is its id. */
static struct dt_insert insert_as(int64_t id, const char *key, unsigned char digest, bool by_command)
{
    struct dt_insert in = {.job = {.id = id,
                                   .topic = dt_str(by_command ? "others" : "orders"),
                                   .key = dt_str(key),
                                   .by_command = by_command,
                                   .run_at_ms = now + DAY,
                                   .retry = dt_str("15s"),
                                   .ack_timeout_ms = 1000,
                                   .payload = dt_str("{}")}};
    struct dt_insert *rows_of[] = {&in};
    int64_t created_ms;
    memset(in.job.digest, digest, sizeof in.job.digest);
    OK(dt_store_insert(store, rows_of, 1, 5, &created_ms, &err));
    return in;
}

static struct dt_insert insert(int64_t id, const char *key, unsigned char digest)
{
    return insert_as(id, key, digest, false);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, NULL)

FRESH_TEST(the_key_of_an_archived_job_is_in_use_until_it_expires)
{
    size_t done;
    mysql_fixture.config.history_keys = 2 * DAY;
    int64_t id = archive_job(1, "succeeded");
    struct dt_insert in = insert(IDS + 50, "k1", 'd');
    assert_members(in, (outcome, DT_INSERT_SAME), (existing_id, id));
    in = insert(IDS + 50, "k1", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CONFLICT);
    OK(dt_store_free_keys(store, now + DAY, 100, &done, &err));
    assert_int_equal(done, 0);
    OK(dt_store_free_keys(store, now + 2 * DAY, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(rows("job_keys") + rows("key_ends"), 0);
    in = insert(IDS + 51, "k1", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    OK(dt_store_get(store, id, &arena, &job, &err)); /* kept all the same */
}

FRESH_TEST(an_id_of_a_command_is_taken_as_long_as_its_jobs_key)
{
    size_t done;
    mysql_fixture.config.history_keys = 2 * DAY;
    run_sql("INSERT INTO command_ids (id, job_id) VALUES ('k1', %lld)",
            (long long)finished(1, "succeeded", 20 * MINUTE));
    archive_due();
    assert_int_equal(archived.moved, 1);
    struct dt_insert in = insert_as(IDS + 50, "k1", 'd', true);
    assert_int_equal(in.outcome, DT_INSERT_SAME);
    struct dt_command_job found = {.id = dt_str("k1")};
    OK(dt_store_command_jobs(store, &found, 1, &arena, &err));
    assert_int_equal(found.job_id, in.existing_id);
    assert_true(dt_str_is(found.topic, "orders") && found.attempt == 2);
    OK(dt_store_free_keys(store, now + 2 * DAY, 100, &done, &err));
    assert_int_equal(rows("command_ids"), 0);
    in = insert_as(IDS + 51, "k1", 'e', true);
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    run_sql("INSERT INTO command_ids (id, job_id) VALUES ('k2', %lld)",
            (long long)finished(2, "succeeded", 20 * MINUTE));
    run_sql("UPDATE jobs SET purge_at = %lld WHERE job_key = 'k2'", (long long)now);
    archive_due();
    assert_int_equal(archived.removed, 1);
    assert_int_equal(rows("command_ids"), 1); /* the later one's */
}

FRESH_TEST(a_key_is_free_after_its_own_time_or_with_its_job)
{
    static const struct {
        int64_t keys, kept, ends;
    } cases[] = {{2 * DAY, 3 * DAY, 2 * DAY}, {3 * DAY, 2 * DAY, 2 * DAY}, {DAY, DAY, DAY}};
    const int64_t at = now - 20 * MINUTE;
    for (int i = 0; i < 3; i++) {
        mysql_fixture.config.history_keys = cases[i].keys;
        int64_t id = finished(i, "succeeded", 20 * MINUTE);
        run_sql("UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(at + cases[i].kept), (long long)id);
        archive_due();
        assert_int_equal(archived.moved, 1);
        assert_sql_number(at + cases[i].ends, "SELECT free_at FROM key_ends WHERE job_id = %lld", (long long)id);
        assert_sql_number(at + cases[i].ends, "SELECT key_until FROM history WHERE id = %lld", (long long)id);
        assert_sql_number(at + cases[i].kept, "SELECT purge_at FROM history WHERE id = %lld", (long long)id);
    }
}

FRESH_TEST(an_expired_key_can_be_taken_before_housekeeping_frees_it)
{
    size_t done;
    mysql_fixture.config.history_keys = MINUTE;
    archive_job(1, "succeeded");
    struct dt_insert in = insert(IDS + 50, "k1", 'd');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    OK(dt_store_free_keys(store, now, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_sql_number(IDS + 50, "SELECT job_id FROM job_keys WHERE job_key = 'k1'");
    finished(2, "succeeded", 2 * MINUTE); /* still among the live ones */
    in = insert(IDS + 51, "k2", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    finished(3, "succeeded", MINUTE / 2);
    in = insert(IDS + 52, "k3", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CONFLICT);
}

/* ---- lists, counts ---- */

FRESH_TEST(lists_merge_live_and_archived_jobs)
{
    struct dt_job_list jobs;
    char text[200] = "";
    for (int i = 1; i <= 9; i += 2)
        finished(i, i % 4 == 1 ? "dead" : "succeeded", 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.moved, 5);
    for (int i = 2; i <= 8; i += 2) {
        job_row(IDS + i, "job_key = 'k%d'", i);
        run_sql("INSERT INTO job_keys VALUES ('orders', 'k%d', %lld)", i, (long long)(IDS + i));
    }
    static const struct {
        int state;
        const char *prefix, *expected;
    } cases[] = {{-1, NULL, "123456789"}, {DT_DEAD, NULL, "159"}, {DT_SCHEDULED, NULL, "2468"},
                 {-1, "k", "123456789"},  {DT_DEAD, "k", "159"},  {DT_SCHEDULED, "k", "2468"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned limit = 1; limit < 12; limit += 2) {
            struct dt_list_filter f = {.state = cases[c].state,
                                       .limit = limit,
                                       .payload = limit == 3,
                                       .topic = dt_str("orders"),
                                       .key_prefix = dt_str(cases[c].prefix)};
            if (!cases[c].prefix)
                f.key_prefix = DT_STR_NONE;
            size_t at = 0;
            do {
                OK(dt_store_list(store, &f, &arena, &jobs, &err));
                for (size_t i = 0; i < jobs.n; i++)
                    at += (size_t)snprintf(text + at, sizeof text - at, "%d", (int)(jobs.v[i].id - IDS));
                f.after_id = jobs.last_id;
                f.after_key = jobs.last_key;
            } while (jobs.more);
            assert_string_equal(text, cases[c].expected);
        }
}

/* 2,500 archived jobs, far more than a window; every 500th is dead. Nothing lives, or one job behind all of them. */
FRESH_TEST(a_filter_finds_archived_jobs_of_any_day)
{
    struct dt_job_list jobs;
    multiply(finished(0, "succeeded", 20 * MINUTE), 2500);
    run_sql("UPDATE jobs SET state = 'dead' WHERE id %% 500 = 499");
    do
        archive_due();
    while (archived.more);
    assert_int_equal(rows("history"), 2500);
    for (int lives = 0; lives < 2; lives++) {
        if (lives)
            job_row(IDS + 5000, "state = 'dead', next_at = NULL, job_key = 'k0z'");
        if (lives)
            run_sql("INSERT INTO job_keys VALUES ('orders', 'k0z', %lld)", (long long)(IDS + 5000));
        for (int by_key = 0; by_key < 2; by_key++) {
            struct dt_list_filter f = {.state = DT_DEAD, .limit = 2, .topic = dt_str("orders")};
            int found = 0, pages = 0;
            if (by_key)
                f.key_prefix = dt_str("k0");
            do {
                OK(dt_store_list(store, &f, &arena, &jobs, &err));
                for (size_t i = 0; i < jobs.n; i++)
                    assert_int_equal(jobs.v[i].state, DT_DEAD);
                found += (int)jobs.n;
                f.after_id = jobs.last_id;
                f.after_key = jobs.last_key;
            } while (jobs.more && ++pages < 10);
            assert_int_equal(found, 5 + lives);
        }
    }
}

FRESH_TEST(counts_of_a_topic_include_archived_jobs)
{
    struct dt_topic_counts counts;
    archive_job(1, "dead");
    archive_job(2, "succeeded");
    finished(3, "succeeded", MINUTE);
    mysql_fixture_audit();
    OK(dt_store_topic_counts(store, dt_str("orders"), &counts, &err));
    assert_int_equal(counts.by_state[DT_SUCCEEDED], 2);
    assert_int_equal(counts.by_state[DT_DEAD], 1);
}

/* ---- partitions ---- */

static int64_t parts_of(const char *table)
{
    return sql_number("SELECT COUNT(*) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND "
                      "TABLE_NAME = '%s' AND PARTITION_NAME <> 'rest'",
                      table);
}

static void drop_all(void)
{
    do
        OK(tend(now + 20000 * DAY, NULL, 0));
    while (tended.more);
}

FRESH_TEST(partitions_are_created_when_needed_and_dropped_after_their_day)
{
    drop_all();
    assert_int_equal(parts_of("history"), 0);
    run_sql("DELETE FROM removed_jobs");
    int64_t id = finished(1, "dead", 20 * MINUTE);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 0);
    assert_int_equal(archived.wanted.n, 1);
    assert_int_equal(archived.wanted.v[0], dt_partition_of(now - 20 * MINUTE + 30 * DAY, now));
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_int_equal(parts_of("history"), 1);
    assert_int_equal(parts_of("history_attempts"), 1);
    int64_t purge_at = now - 20 * MINUTE + 30 * DAY, day_end = purge_at - purge_at % DAY + DAY;
    OK(tend(day_end, NULL, 0));
    assert_int_equal(tended.dropped, 0);
    OK(tend(day_end + 2 * MINUTE, NULL, 0));
    assert_int_equal(tended.dropped, 1);
    assert_int_equal(parts_of("history") + parts_of("history_attempts"), 0);
    assert_int_equal(rows("history") + rows("history_attempts") + rows("history_counts") + rows("history_days"), 0);
    assert_sql_number(1, "SELECT removed FROM removed_jobs WHERE topic = 'orders'");
    assert_int_equal(dt_store_get(store, id, &arena, &job, &err), DT_NOT_FOUND);
    /* an archiver that does not know of it yet puts nothing where nothing is */
    archiver.partitions = (struct dt_partitions){.read = true, .n = 1, .v = {dt_partition_of(purge_at, now)}};
    finished(2, "dead", 20 * MINUTE);
    assert_int_not_equal(dt_store_archive(store, &archiver, now, 1000, &archived, &err), DT_OK);
    assert_int_equal(rows("jobs"), 1);
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_whole();
}

FRESH_TEST(partitions_are_dropped_in_order_a_few_at_a_time)
{
    int32_t wanted[9];
    drop_all();
    for (int i = 0; i < 9; i++)
        wanted[i] = dt_partition_of(now + (i + 1) * DAY, now);
    OK(tend(now, wanted, 9));
    assert_int_equal(archiver.partitions.n, 9);
    OK(tend(now + 8 * DAY, NULL, 0));
    assert_true(tended.more);
    assert_int_equal(parts_of("history"), 9 - tended.dropped);
    OK(tend(now + 8 * DAY, NULL, 0));
    assert_false(tended.more);
    assert_int_equal(parts_of("history"), 2);
    assert_int_equal(archiver.partitions.n, 2);
}

FRESH_TEST(an_interrupted_drop_is_finished_and_counted_once)
{
    drop_all();
    archive_job(1, "dead");
    run_sql("DELETE FROM removed_jobs");
    int32_t part = dt_partition_of(now - 20 * MINUTE + 30 * DAY, now);
    run_sql("INSERT INTO removed_jobs VALUES ('orders', 1)"); /* counted out, then killed */
    run_sql("DELETE FROM history_counts");
    run_sql("ALTER TABLE history DROP PARTITION p%d", part);
    OK(tend(now + 40 * DAY, NULL, 0));
    assert_int_equal(tended.dropped, 1);
    assert_int_equal(parts_of("history_attempts"), 0);
    assert_sql_number(1, "SELECT removed FROM removed_jobs");
}

FRESH_TEST(a_reader_that_blocks_a_partition_is_not_waited_for_long)
{
    drop_all();
    finished(1, "dead", 20 * MINUTE);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    run_sql("BEGIN");
    sql_number("SELECT COUNT(*) FROM history");
    assert_int_equal(tend(now, archived.wanted.v, archived.wanted.n), DT_BUSY);
    archiver.make_do = true; /* jobs do not wait for it */
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 1);
    assert_sql_number(0, "SELECT part FROM history");
    run_sql("COMMIT");
    assert_whole();
}

FRESH_TEST(rows_of_the_default_partition_are_moved_to_their_partition_or_deleted)
{
    size_t done;
    drop_all();
    run_sql("DELETE FROM removed_jobs");
    int64_t stays = finished(1, "dead", 20 * MINUTE), ever = finished(2, "succeeded", 20 * MINUTE);
    int64_t over = finished(3, "succeeded", 20 * MINUTE);
    run_sql("UPDATE jobs SET purge_at = 9223372036854775807 WHERE id = %lld", (long long)ever);
    run_sql("UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(now + MINUTE), (long long)over);
    archiver.make_do = true;
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 3);
    OK(dt_store_sort_default(store, &archiver, now, 100, &done, &err));
    assert_int_equal(done, 0);
    int32_t wanted[] = {dt_partition_of(now - 20 * MINUTE + 30 * DAY, now)};
    OK(tend(now, wanted, 1));
    OK(dt_store_sort_default(store, &archiver, now + 2 * MINUTE, 100, &done, &err));
    assert_int_equal(done, 2);
    assert_sql_number(wanted[0], "SELECT part FROM history WHERE id = %lld", (long long)stays);
    assert_sql_number(wanted[0], "SELECT part FROM history_attempts WHERE job_id = %lld", (long long)stays);
    assert_sql_number(0, "SELECT part FROM history WHERE id = %lld", (long long)ever);
    assert_int_equal(rows("history"), 2);
    assert_int_equal(rows("history_attempts"), 2);
    assert_sql_number(1, "SELECT removed FROM removed_jobs");
    assert_int_equal(rows("v_history_audit"), 0);
    assert_whole();
}

FRESH_TEST(partitions_are_created_ahead_for_the_topics_retentions)
{
    struct dt_wanted wanted;
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('a', NULL, 0, 0), ('b', 86400000, "
            "0, 0), ('c', 0, 0, 0), ('d', 9223372036854775807, 0, 0), ('e', 86400000, 0, 0)");
    OK(dt_store_partitions_ahead(store, now, 1, &wanted, &err));
    assert_int_equal(wanted.n, 4);
    for (size_t i = 0; i < wanted.n; i++)
        assert_true(
            wanted.v[i] == dt_partition_of(now + DAY, now) || wanted.v[i] == dt_partition_of(now + 2 * DAY, now) ||
            wanted.v[i] == dt_partition_of(now + 30 * DAY, now) || wanted.v[i] == dt_partition_of(now + 31 * DAY, now));
}

static int64_t keys_read(void)
{
    return session_status("SHOW SESSION STATUS LIKE 'Handler_read_key'");
}

FRESH_TEST(only_partitions_with_jobs_of_the_home_day_are_searched)
{
    enum { PARTS = 40 };
    struct dt_apply late[PARTS];
    struct dt_attempt_list attempts;
    /* `n` partitions more, with a job of another day in each. */
    for (int i = 1; i <= PARTS; i++) {
        const int32_t part = dt_partition_of(now + (40 + i) * DAY, now);
        OK(tend(now, &part, 1));
    }
    for (int i = 1; i <= PARTS; i++) {
        int64_t id = finished(1000 + i, "succeeded", 20 * MINUTE), home = id + ((int64_t)i << 40);
        run_sql("UPDATE jobs SET id = %lld, purge_at = %lld WHERE id = %lld", (long long)home,
                (long long)(now + (40 + i) * DAY), (long long)id);
        run_sql("UPDATE attempts SET job_id = %lld WHERE job_id = %lld", (long long)home, (long long)id);
    }
    archive_due();
    assert_int_equal(archived.moved, PARTS);
    int64_t id = archive_job(1, "dead"), before = keys_read();
    OK(dt_store_get(store, id, &arena, &job, &err));
    OK(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err));
    assert_int_equal(attempts.n, 2);
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_get(store, id + (INT64_C(900) << 40), &arena, &job, &err), DT_NOT_FOUND);
    for (int i = 0; i < PARTS; i++)
        late[i] = (struct dt_apply){.result = {.job_id = IDS + 1001 + i + ((int64_t)(i + 1) << 40),
                                               .attempt = 1,
                                               .status = DT_RESULT_FAILED,
                                               .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, late, PARTS, &err));
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(late[i].outcome, DT_OUTCOME_DUPLICATE);
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    int64_t keys = keys_read() - before;
    print_message("%lld looks\n", (long long)keys);
    assert_in_range(keys, 1, 10 * PARTS); /* a look into each partition for each job would be PARTS * PARTS */
}

FRESH_TEST(all_partitions_with_jobs_of_the_home_day_are_searched)
{
    int64_t id = archive_job(1, "dead");
    for (int i = 1; i < 20; i++)
        run_sql("INSERT INTO history_days (home_day, part) VALUES (690, %d)", 20200100 + i);
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    for (int i = 1; i < 20; i++)
        run_sql("INSERT INTO history_days (home_day, part) VALUES (690, %d)", 20990100 + i);
    run_sql("INSERT INTO history_days (home_day, part) VALUES (690, 0)");
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_whole();
}

/* A job is found by a look into each partition's primary key: nothing is read as a whole. */
FRESH_TEST(history_is_never_scanned_for_one_job)
{
    static const char *const questions_of[] = {
        "SELECT * FROM history WHERE id = 5",
        "SELECT * FROM v_jobs WHERE id = 5",
        "SELECT * FROM v_attempts WHERE job_id = 5",
        "SELECT h.id FROM history h FORCE INDEX (PRIMARY) WHERE h.id > 5 ORDER BY h.id LIMIT 10",
        "SELECT * FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key >= 1 AND due_key <= 5 AND (due_key > 1 OR "
        "id > 5) ORDER BY due_key, id LIMIT 10",
        "SELECT free_at FROM key_ends FORCE INDEX (PRIMARY) WHERE free_at <= 5 ORDER BY free_at, job_id LIMIT 10",
    };
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    if (dt_db_server(db) == DT_SERVER_MYSQL)
        skip(); /* its EXPLAIN cannot be prepared; integration/test_explain.py asks it by text */
    archive_job(1, "dead");
    multiply(finished(2, "succeeded", 20 * MINUTE), 1000);
    archive_due();
    for (size_t i = 0; i < sizeof questions_of / sizeof *questions_of; i++) {
        char sql[400];
        snprintf(sql, sizeof sql, "EXPLAIN %s", questions_of[i]);
        OK(dt_store_db(store, &db, &err));
        OK(dt_db_query_text(db, dt_str(sql), &err));
        while (dt_db_next(db)) {
            struct dt_str table = dt_db_bytes(db, 2), type = dt_db_bytes(db, 3);
            bool small = dt_str_is(table, "x") || dt_str_is(table, "p"); /* shard_stats, processes */
            bool derived = table.n && table.p[0] == '<';
            if (!derived && !small && (dt_str_is(type, "ALL") || dt_str_is(type, "index")))
                fail_msg("%s reads %.*s as a whole", questions_of[i], (int)table.n, table.p);
        }
        OK(dt_db_end(db, &err));
    }
}

SUITE(open_store, close_store)
