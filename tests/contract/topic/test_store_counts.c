/* Counters of jobs by state on a real server: whatever happens to jobs, counters and rows say the same, at any moment;
 * what hands change is found by the audit or by the housekeeper, and counted once. */
#include "support/suite.h"

#include "dispatch/fence.h"
#include "dispatch/leader.h"
#include "dispatch/topic_snapshot.h"
#include "job/archive/archive.h"
#include "job/change/jobs.h"
#include "job/inflight.h"
#include "job/results/results.h"
#include "support/job_rows.h"
#include "topic/counts.h"
#include "topic/topics.h"

#define SHARDS 2
#define DAY    (INT64_C(1) << 40)
#define MINUTE INT64_C(60000)

static dt_store *store;
static struct dt_arena arena;
static struct dt_error err;
static struct dt_shard_map map;
static struct dt_job job;

static void open_store(void)
{
    mysql_fixture_open("counts", SHARDS, &store);
    mysql_fixture.config.history_after = mysql_fixture.config.history_dead_after = 0;
    mysql_fixture.config.mysql_lock_timeout = 2000;
    dt_shard_map_init(&map, 1, SHARDS);
}

static void close_store(void)
{
    mysql_fixture_close(store, &arena);
}

static void empty_tables(void)
{
    mysql_fixture_empty(&arena);
    run_sql("UPDATE shards SET epoch = epoch + 1, version = version + 1; INSERT INTO topics (name, created_at, "
            "updated_at) VALUES ('a', 1, 1), ('b', 1, 1)");
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- making and leading ---- */

static dt_status make(dt_store *by, const int64_t *ids, size_t n, const char *topic, bool keyed, int64_t run_at_ms)
{
    enum { MAX = 64 };
    struct dt_insert rows[MAX], *list[MAX];
    char keys[MAX][24];
    int64_t created;
    struct dt_error why = {0};
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "k%lld", (long long)ids[i]);
        rows[i] = (struct dt_insert){.job = {.id = ids[i],
                                             .topic = dt_str(topic),
                                             .key = keyed ? dt_str(keys[i]) : DT_STR_NONE,
                                             .run_at_ms = run_at_ms,
                                             .retry = DT_STR_LIT("1s"),
                                             .ack_timeout_ms = MINUTE,
                                             .payload = DT_STR_LIT("{}")}};
        list[i] = &rows[i];
    }
    return dt_store_insert(by, list, n, 1, &created, &why);
}

STUB(static enum dt_writable, always, (void *arg, struct dt_str topic, int64_t owner, int64_t bytes), DT_WRITABLE_YES)

struct leader {
    dt_store *store;
    dt_topic_snapshot *snapshot;
    struct dt_fence fence;
    struct dt_inflight flight;
    struct dt_arena arena;
    unsigned shard;
};

static dt_status lead(struct leader *l, struct dt_error *why)
{
    static _Atomic int64_t token = 1;
    dt_status status = dt_store_takeover(l->store, &(struct dt_leadership){l->shard, token++, "h:1", "r:1"}, &l->fence,
                                         &l->flight, why);
    struct dt_settled done;
    const struct dt_findings findings = {
        .inflight = &l->flight, .sent = true, .next_offset = l->fence.ledger_offset + 1, .map = &map};
    if (status == DT_OK)
        status = dt_store_takeover_settle(l->store, &l->fence, &findings, &done, why);
    if (status == DT_OK)
        dt_inflight_drop(&l->flight, l->flight.n);
    return status;
}

/* Settles, times out and claims among the ids given. */
static dt_status leader_txn(struct leader *l, const struct dt_hint *hints, size_t n, struct dt_error *why)
{
    struct dt_leader_txn t = {.sent = {.list = &l->flight, .offset = l->fence.ledger_offset + 1},
                              .due = {.hints = hints,
                                      .n_hints = n,
                                      .max_jobs = 1000,
                                      .max_topics = 1000,
                                      .max_bytes = 8 << 20,
                                      .map = &map,
                                      .topics = l->snapshot,
                                      .read_up_to = {INT64_MAX, INT64_MAX}},
                              .gate = {.writable = always},
                              .arena = &l->arena};
    dt_arena_reset(&l->arena);
    dt_status status = dt_leader_txn_commit(l->store, &l->fence, &t, why);
    if (status != DT_OK)
        return status;
    dt_inflight_clear(&l->flight);
    l->flight.v = calloc(t.batch.n + 1, sizeof *l->flight.v);
    for (size_t i = 0; i < t.batch.n; i++)
        l->flight.v[l->flight.n++] = t.batch.jobs[i].claim;
    l->flight.cap = t.batch.n + 1;
    return DT_OK;
}

static void leader_open(struct leader *l, unsigned shard)
{
    *l = (struct leader){.store = mysql_fixture_store(), .shard = shard};
    assert_int_equal(dt_topic_snapshot_new(&l->snapshot), DT_OK);
}

static void leader_close(struct leader *l)
{
    dt_topic_snapshot_free(l->snapshot);
    dt_inflight_clear(&l->flight);
    dt_arena_clear(&l->arena);
    dt_store_free(l->store);
}

/* ---- what must hold ---- */

/* For each topic and piece: rows of jobs in a state, less what the counters say. */
static int64_t miscounted(void)
{
    static const char sql[] =
        "SELECT COALESCE(SUM(ABS(w.n)), 0) FROM (SELECT topic, piece, state, SUM(n) AS n FROM (SELECT topic, (id DIV "
        "1099511627776) MOD 32 AS piece, state + 0 AS state, 1 AS n FROM jobs UNION ALL SELECT topic, piece, 1, "
        "-scheduled FROM job_counts UNION ALL SELECT topic, piece, 2, -dispatched FROM job_counts UNION ALL SELECT "
        "topic, piece, 3, -succeeded FROM job_counts UNION ALL SELECT topic, piece, 4, -dead FROM job_counts UNION ALL "
        "SELECT topic, piece, 5, -cancelled FROM job_counts) u GROUP BY topic, piece, state) w";
    return sql_number("%s", sql);
}

static void assert_counted(void)
{
    assert_int_equal(miscounted(), 0);
    assert_sql_number(0, "SELECT COALESCE(SUM(miscounted), 0) FROM v_recount");
    assert_sql_number(0, "SELECT COALESCE(SUM(ABS(missing)), 0) FROM v_audit");
}

#define assert_audit(topic, expected)                                                                                  \
    do {                                                                                                               \
        char text_[200];                                                                                               \
        assert_string_equal(                                                                                           \
            sql_text(text_, sizeof text_,                                                                              \
                     "SELECT CONCAT_WS(' ', created, scheduled, dispatched, succeeded, dead, cancelled, "              \
                     "removed, edited, corrected) FROM v_audit WHERE topic = '%s'",                                    \
                     topic),                                                                                           \
            expected);                                                                                                 \
    } while (0)

/* ---- one by one ---- */

FRESH_TEST(each_state_change_of_a_job_is_counted)
{
    const int64_t ids[] = {1, 2, 3, 4 + DAY, 5 + 40 * DAY, 6};
    OK(make(store, ids, 5, "a", false, 1));
    OK(make(store, ids + 5, 1, "b", true, INT64_C(4000000000000)));
    OK(make(store, (int64_t[]){7}, 1, "a", true, INT64_C(4000000000000)));
    assert_audit("a", "6 6 0 0 0 0 0 0 0");
    assert_counted();

    struct leader l[SHARDS];
    for (unsigned s = 0; s < SHARDS; s++) {
        struct dt_hint hints[5];
        for (int i = 0; i < 5; i++)
            hints[i] = (struct dt_hint){ids[i], 1};
        leader_open(&l[s], s);
        OK(lead(&l[s], &err));
        OK(leader_txn(&l[s], hints, 5, &err));
    }
    assert_audit("a", "6 1 5 0 0 0 0 0 0");
    assert_counted();

    struct dt_apply results[] = {
        {.result = {.job_id = 1, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = 1, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = 2, .attempt = 1, .status = DT_RESULT_FAILED, .retry_after_ms = -1}},
        {.result = {.job_id = 3, .attempt = 1, .status = DT_RESULT_GAVE_UP, .retry_after_ms = -1}},
        {.result = {.job_id = 4 + DAY, .attempt = 1, .status = DT_RESULT_EXTENDED, .retry_after_ms = -1}},
        {.result = {.job_id = 99, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
    };
    for (unsigned s = 0; s < SHARDS; s++)
        OK(leader_txn(&l[s], NULL, 0, &err));
    OK(dt_store_apply(store, &map, results, 6, &err));
    assert_audit("a", "6 2 2 1 1 0 0 0 0");
    assert_counted();

    /* an acknowledgement that does not come, and a second attempt */
    run_sql("UPDATE jobs SET next_at = 1 WHERE id IN (2, %lld)", (long long)(5 + 40 * DAY));
    struct dt_hint again[] = {{2, 1}, {5 + 40 * DAY, 1}};
    for (unsigned s = 0; s < SHARDS; s++)
        OK(leader_txn(&l[s], again, 2, &err));
    assert_audit("a", "6 2 2 1 1 0 0 0 0");
    assert_counted();

    OK(dt_store_cancel(store, 7, false, &arena, &job, &err));
    OK(dt_store_cancel(store, 7, false, &arena, &job, &err));
    assert_int_equal(dt_store_cancel(store, 1, false, &arena, &job, &err), DT_TOO_LATE);
    OK(dt_store_redrive(store, 3, &arena, &job, &err));
    OK(dt_store_run_now(store, 3, &arena, &job, &err));
    assert_audit("a", "6 2 2 1 0 1 0 0 0");
    assert_counted();
    for (unsigned s = 0; s < SHARDS; s++)
        leader_close(&l[s]);
}

FRESH_TEST(jobs_that_are_archived_and_jobs_that_return_are_counted)
{
    struct dt_archiver *archiver = calloc(1, sizeof *archiver);
    struct dt_archived archived;
    struct dt_tended tended;
    const int64_t ids[] = {1, 2, 3 + DAY};
    OK(make(store, ids, 3, "a", true, 1));
    for (int i = 0; i < 3; i++)
        OK(dt_store_cancel(store, ids[i], false, &arena, &job, &err));
    /* one died, as if it had; one was removed instead */
    run_sql("UPDATE jobs SET state = 'dead' WHERE id = 1; UPDATE jobs SET created_at = 1, leave_at = 1; UPDATE jobs "
            "SET purge_at = 2 WHERE id = 2");
    assert_int_equal(miscounted(), 2);
    assert_int_equal(mysql_fixture_audit(), 1);
    int64_t now = mysql_now_ms();
    OK(dt_store_archive(store, archiver, now, 100, &archived, &err));
    OK(dt_store_partitions_tend(store, now, &archived.wanted, &archiver->partitions, &tended, &err));
    OK(dt_store_archive(store, archiver, now, 100, &archived, &err));
    assert_members(archived, (moved, 2), (removed, 1));
    assert_audit("a", "3 0 0 0 1 1 1 0 1");
    assert_counted();
    OK(dt_store_redrive(store, 1, &arena, &job, &err));
    assert_audit("a", "3 1 0 0 0 1 1 0 1");
    assert_counted();
    run_sql("CALL dt_cancel(1)");
    assert_audit("a", "3 0 0 0 0 2 1 0 1");
    run_sql("UPDATE jobs SET state = 'dead' WHERE id = 1");
    assert_int_equal(mysql_fixture_audit(), 1);
    run_sql("CALL dt_redrive(1)");
    assert_audit("a", "3 1 0 0 0 1 1 0 2");
    assert_counted();
    free(archiver);
}

/* ---- hands ---- */

FRESH_TEST(counters_are_corrected_once_after_a_manual_edit_and_reported)
{
    const int64_t ids[] = {1, 2, 3 + DAY, 4 + 33 * DAY, 5 + 70 * DAY};
    OK(make(store, ids, 5, "a", false, INT64_C(4000000000000)));
    assert_int_equal(mysql_fixture_audit(), 0);
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id IN (1, %lld); DELETE FROM jobs WHERE id = 2",
            (long long)(4 + 33 * DAY));
    job_row(INT64_MAX, "topic = 'c'");
    job_row(INT64_C(8388607) << 40, "topic = 'c'");
    assert_audit("a", "5 5 0 0 0 0 0 0 0");
    assert_int_equal(mysql_fixture_audit(), 3);
    assert_audit("a", "5 4 0 0 0 0 0 -1 1");
    assert_audit("c", "0 2 0 0 0 0 0 2 2");
    size_t done;
    OK(dt_store_promote(store, sql_number("SELECT " DT_SQL_NOW_MS), 1000, &done, &err));
    assert_audit("a", "5 2 0 0 0 2 0 -1 1");
    assert_counted();
    assert_int_equal(mysql_fixture_audit(), 0);
    assert_sql_number(6, "SELECT SUM(jobs) FROM count_audits");
    assert_sql_number(3, "SELECT SUM(corrected) FROM count_audits");
    struct dt_topic_counts counts;
    OK(dt_store_topic_counts(store, dt_str("a"), &counts, &err));
    assert_int_equal(counts.by_state[DT_SCHEDULED], 2);
    assert_int_equal(counts.by_state[DT_CANCELLED], 2);
}

FRESH_TEST(concurrent_audits_of_a_piece_correct_it_once)
{
    dt_audit *audits[2];
    dt_store *stores[2];
    struct dt_audited out;
    for (int64_t id = 1; id <= 30; id++)
        job_row(id, "topic = 'a'");
    for (int i = 0; i < 2; i++) {
        OK(dt_store_new(&mysql_fixture.config, NULL, &stores[i]));
        OK(dt_audit_new(&audits[i]));
        OK(dt_audit_step(audits[i], stores[i], 10, &out, &err)); /* its snapshot is taken */
        assert_false(out.done);
    }
    OK(dt_audit_step(audits[0], stores[0], 100, &out, &err));
    assert_members(out, (done, true), (rows, 30), (corrected, 30));
    assert_int_equal(dt_audit_step(audits[1], stores[1], 100, &out, &err), DT_BUSY);
    assert_int_equal(out.corrected, 0);
    assert_counted();
    for (int i = 0; i < 2; i++) {
        dt_audit_free(audits[i]);
        dt_store_free(stores[i]);
    }
}

FRESH_TEST(a_change_during_the_count_is_not_reported_as_a_difference)
{
    dt_audit *audit;
    dt_store *own;
    struct dt_audited out;
    for (int64_t id = 1; id <= 40; id += 2)
        OK(make(store, &id, 1, "a", false, INT64_C(4000000000000)));
    OK(dt_store_new(&mysql_fixture.config, NULL, &own));
    OK(dt_audit_new(&audit));
    OK(dt_audit_step(audit, own, 10, &out, &err));
    for (int64_t id = 2; id <= 40; id += 2) /* before and behind where it stands */
        OK(make(store, &id, 1, "a", false, INT64_C(4000000000000)));
    for (int64_t id = 1; id <= 40; id += 3)
        OK(dt_store_cancel(store, id, false, &arena, &job, &err));
    run_sql("DELETE FROM jobs WHERE id IN (3, 39)"); /* after its snapshot: for the next pass */
    OK(dt_audit_step(audit, own, 100, &out, &err));
    assert_members(out, (done, true), (rows, 20), (corrected, 0));
    assert_int_equal(mysql_fixture_audit(), 2);
    assert_counted();
    dt_audit_free(audit);
    dt_store_free(own);
}

/* ---- counters that are locked ---- */

/* Whatever connection counts topic a's jobs of piece 0 has to wait. */
static void hold_counters(void)
{
    run_sql("INSERT INTO job_counts (topic, piece, writer) SELECT 'a', 0, n FROM (WITH RECURSIVE up AS (SELECT 0 AS n "
            "UNION ALL SELECT n + 1 FROM up WHERE n < 31) SELECT n FROM up) w ON DUPLICATE KEY UPDATE edited = edited; "
            "START TRANSACTION; UPDATE job_counts SET edited = edited + 1 WHERE topic = 'a'");
}

/* And the session that holds them is not idle for long. */
#define assert_waits_in_vain(call)                                                                                     \
    do {                                                                                                               \
        assert_int_equal(call, DT_BUSY);                                                                               \
        assert_sql_number(2, "SELECT COUNT(*) FROM jobs WHERE version = 1");                                           \
    } while (0)

/* A wait in vain ends the statement, and what came with it must not be committed. */
FRESH_TEST(a_change_that_times_out_on_a_counter_is_undone_and_can_be_repeated)
{
    struct leader l;
    struct dt_archived archived;
    struct dt_archiver *archiver = calloc(1, sizeof *archiver);
    const int64_t ids[] = {1, 2, 3}, keyed[] = {4}, more[] = {5, 6};
    const unsigned shard = dt_shard_of(&map, 1);
    const struct dt_hint hint = {1, 1};
    mysql_fixture.config.mysql_lock_timeout = 1000;
    leader_open(&l, shard);
    OK(lead(&l, &err));
    OK(make(l.store, ids, 3, "a", false, 1));
    OK(dt_store_cancel(l.store, 3, false, &arena, &job, &err));
    run_sql("UPDATE jobs SET created_at = 1, leave_at = 1 WHERE id = 3");
    archiver->make_do = true;

    hold_counters();
    assert_waits_in_vain(make(l.store, more, 2, "a", false, 1));
    assert_waits_in_vain(make(l.store, keyed, 1, "a", true, 1));
    assert_waits_in_vain(dt_store_cancel(l.store, 2, false, &arena, &job, &err));
    assert_waits_in_vain(leader_txn(&l, &hint, 1, &err));
    assert_waits_in_vain(dt_store_archive(l.store, archiver, mysql_now_ms(), 10, &archived, &err));
    run_sql("ROLLBACK");
    assert_audit("a", "3 2 0 0 0 1 0 0 0");
    assert_sql_number(2, "SELECT COUNT(*) FROM jobs WHERE state = 'scheduled' AND version = 1");
    assert_sql_number(0, "SELECT COUNT(*) FROM history");
    assert_sql_number(0, "SELECT COUNT(*) FROM shards WHERE inflight <> '[]'");
    assert_counted();

    /* by the same connection, and by the same leadership */
    OK(leader_txn(&l, &hint, 1, &err));
    assert_int_equal(l.flight.n, 1);
    struct dt_apply done = {.result = {.job_id = 1, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    hold_counters();
    assert_int_equal(dt_store_apply(l.store, &map, &done, 1, &err), DT_BUSY);
    run_sql("ROLLBACK");
    assert_audit("a", "3 1 1 0 0 1 0 0 0");
    OK(dt_store_apply(l.store, &map, &done, 1, &err));
    assert_int_equal(done.outcome, DT_OUTCOME_APPLIED);
    OK(make(l.store, more, 2, "a", false, 1));
    OK(make(l.store, keyed, 1, "a", true, 1));
    OK(dt_store_cancel(l.store, 2, false, &arena, &job, &err));
    OK(dt_store_archive(l.store, archiver, mysql_now_ms(), 10, &archived, &err));
    assert_int_equal(archived.moved, 1);
    assert_audit("a", "6 3 0 1 0 2 0 0 0");
    assert_counted();
    leader_close(&l);
    free(archiver);
    mysql_fixture.config.mysql_lock_timeout = 2000;
}

/* Of the whole server, which other suites use as well. */
static int64_t deadlocks(void)
{
    return sql_number("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'");
}

static void *cancel_one(void *arg)
{
    dt_store *own = mysql_fixture_store();
    struct dt_arena mine = {0};
    struct dt_job changed;
    struct dt_error why = {0};
    *(dt_status *)arg = dt_store_cancel(own, 1, false, &mine, &changed, &why);
    dt_arena_clear(&mine);
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

/* The server has taken all back by then: the COMMIT that was sent along must not pass for one of anything. */
FRESH_TEST(a_deadlock_over_a_counter_rolls_back_and_repeats_everything)
{
    const int64_t ids[] = {1, 2};
    dt_status status = DT_INTERNAL;
    OK(make(store, ids, 2, "a", false, INT64_C(4000000000000)));
    int64_t before = deadlocks();
    hold_counters();
    pthread_t thread = start_thread(cancel_one, &status);
    mysql_fixture_await_statement("INSERT INTO job_counts%");
    run_sql("UPDATE jobs SET payload = '7' WHERE id = 1");
    assert_true(deadlocks() > before);
    assert_sql_number(1 + DT_SCHEDULED, "SELECT state + 0 FROM jobs WHERE id = 1");
    run_sql("UPDATE job_counts SET edited = edited - 1 WHERE topic = 'a'; COMMIT");
    pthread_join(thread, NULL);
    OK(status);
    assert_sql_number(2, "SELECT version FROM jobs WHERE id = 1 AND state = 'cancelled' AND payload = '7'");
    assert_audit("a", "2 1 0 0 0 1 0 0 0");
    assert_counted();
}

/* ---- everything at once ---- */

enum { MAKERS = 3, BATCHES = 60, ROWS = 16, JOBS = MAKERS * BATCHES * ROWS };

static _Atomic bool stop;
static _Atomic int made;
static _Atomic int64_t audited, corrected;

static int64_t id_of(int n)
{
    return n + 1 + (n % 70) * DAY;
}

static void *make_many(void *arg)
{
    dt_store *own = mysql_fixture_store();
    for (int b = 0; b < BATCHES; b++) {
        int64_t ids[ROWS], first = ((intptr_t)arg * BATCHES + b) * ROWS;
        for (int i = 0; i < ROWS; i++)
            ids[i] = id_of((int)first + i);
        while (make(own, ids, ROWS, b % 3 ? "a" : "b", b % 4 == 0, b % 5 ? 1 : INT64_C(4000000000000)) != DT_OK)
            ; /* the same again: it is there, or it is not */
        made += ROWS;
    }
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

static void *lead_one(void *arg)
{
    struct leader l;
    unsigned seed = 7;
    struct dt_error why = {0};
    bool leads = false;
    leader_open(&l, (unsigned)(intptr_t)arg);
    while (!stop) {
        struct dt_hint hints[32];
        int first = rand_r(&seed) % JOBS;
        for (int i = 0; i < 32; i++)
            hints[i] = (struct dt_hint){id_of((first + i) % JOBS), 1};
        leads = (leads || lead(&l, &why) == DT_OK) && leader_txn(&l, hints, 32, &why) == DT_OK;
    }
    leader_close(&l);
    dt_db_thread_end();
    return NULL;
}

static void *report_and_change(void *arg)
{
    dt_store *own = mysql_fixture_store();
    unsigned seed = 1 + (unsigned)(intptr_t)arg;
    struct dt_arena mine = {0};
    struct dt_job changed;
    struct dt_error why = {0};
    while (!stop) {
        struct dt_apply results[12];
        for (int i = 0; i < 12; i++)
            results[i] = (struct dt_apply){.result = {.job_id = id_of(rand_r(&seed) % JOBS),
                                                      .attempt = 1 + rand_r(&seed) % 2,
                                                      .status = (enum dt_result_status)(rand_r(&seed) % 4),
                                                      .retry_after_ms = 0}};
        (void)!dt_store_apply(own, &map, results, 12, &why);
        (void)!dt_store_cancel(own, id_of(rand_r(&seed) % JOBS), false, &mine, &changed, &why);
        (void)!dt_store_redrive(own, id_of(rand_r(&seed) % JOBS), &mine, &changed, &why);
        dt_arena_reset(&mine);
    }
    dt_arena_clear(&mine);
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

static void *move_many(void *)
{
    dt_store *own = mysql_fixture_store();
    struct dt_archiver *archiver = calloc(1, sizeof *archiver);
    struct dt_error why = {0};
    struct dt_archived archived;
    while (!stop) { /* half a minute passes at once */
        archiver->make_do = true;
        (void)!dt_store_archive(own, archiver, dt_clock_real_ms(dt_clock_system()) + MINUTE, 50, &archived, &why);
    }
    free(archiver);
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

static void *audit_all_along(void *)
{
    dt_audit *audit = NULL;
    dt_store *own = NULL;
    struct dt_error why = {0};
    struct dt_audited out;
    const bool ready = dt_audit_new(&audit) == DT_OK && dt_store_new(&mysql_fixture.config, NULL, &own) == DT_OK;
    while (ready && !stop)
        if (dt_audit_step(audit, own, 25, &out, &why) == DT_OK) {
            audited += out.done;
            corrected += out.corrected;
        }
    if (audit)
        dt_audit_end(audit);
    dt_audit_free(audit);
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

FRESH_TEST(counters_match_the_rows_after_any_kill)
{
    enum { OTHERS = SHARDS + 2 + 1 + 1 };
    pthread_t makers[MAKERS], others[OTHERS];
    void *(*const work[OTHERS])(void *) = {lead_one,          lead_one,  report_and_change,
                                           report_and_change, move_many, audit_all_along};
    stop = false;
    made = 0;
    audited = corrected = 0;
    for (intptr_t i = 0; i < OTHERS; i++)
        others[i] = start_thread(work[i], (void *)i);
    for (intptr_t i = 0; i < MAKERS; i++)
        makers[i] = start_thread(make_many, (void *)i);
    for (int killed = 0; made < JOBS; killed = made) {
        while (made < JOBS && made < killed + JOBS / 12)
            assert_int_equal(miscounted(), 0); /* one statement sees one moment */
        mysql_fixture_kill_sessions();
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(makers[i], NULL);
    int64_t passes = audited + 64;
    while (audited < passes)
        assert_int_equal(miscounted(), 0);
    stop = true;
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    print_message("%lld pieces were audited meanwhile, %lld jobs are in history\n", (long long)audited,
                  (long long)sql_number("SELECT COUNT(*) FROM history"));
    assert_int_equal(corrected, 0);
    assert_counted();
    assert_sql_number(JOBS, "SELECT SUM(created) FROM v_audit");
    assert_sql_number(0, "SELECT COUNT(*) FROM v_history_audit");
    assert_in_range(sql_number("SELECT COUNT(*) FROM history"), 10, JOBS);
    assert_in_range(sql_number("SELECT COUNT(DISTINCT writer) FROM job_counts"), 2, DT_COUNT_WRITERS);
}

SUITE(open_store, close_store)
