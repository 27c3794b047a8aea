/* Operations on a real server: which jobs they find, what becomes of them, and how a piece goes on where another
 * process has left off. */

#include "features/operations/operations.h"
#include "support/store_suite.h"
#include "topic/owners.h"

#define HOUR_MS INT64_C(3600000)

static struct dt_operation op;
static struct dt_operation_piece piece;

STORE_SUITE("operations", 0)

static struct dt_operation_ask ask_of(enum dt_operation_kind kind)
{
    return (struct dt_operation_ask){.kind = kind, .filter = {.topic = S("orders")}, .request = S("{}")};
}

/* Rows that were made by plain SQL are counted as the product counts its own. */
static void count_rows(void)
{
    run_sql("INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched, succeeded, dead) SELECT topic, (id "
            ">> 40) MOD 32, 31, SUM(state = 'scheduled'), SUM(state = 'dispatched'), SUM(state = 'succeeded'), "
            "SUM(state = 'dead') FROM jobs GROUP BY topic, (id >> 40) MOD 32 ON DUPLICATE KEY UPDATE scheduled = "
            "VALUES(scheduled), dead = VALUES(dead)");
}

static int64_t make(const struct dt_operation_ask *ask)
{
    count_rows();
    OK(dt_store_operation_make(store, ask, 0, &arena, &op, &err));
    return op.id;
}

static void step(int64_t id)
{
    piece = (struct dt_operation_piece){.id = id, .owner = -dt_owner_by_name(S("orders"))};
    OK(dt_store_operation_step(store, &piece, &arena, &err));
}

static void show(int64_t id)
{
    OK(dt_store_operation_get(store, id, &arena, &op, &err));
}

static void run(const struct dt_operation_ask *ask)
{
    int64_t id = make(ask);
    for (int i = 0; i < 100 && (i == 0 || piece.shown.state == DT_OPERATION_RUNNING); i++)
        step(id);
    show(id);
    assert_members(op, (state, DT_OPERATION_DONE), (matched, op.changed + op.refused));
}

static int64_t number(const char *expression)
{
    return sql_number("SELECT %s FROM jobs", expression);
}

/* Jobs 1 to n, an hour ahead and a second apart. */
static void jobs(int64_t n)
{
    job_row(1, "job_key = 'k1'");
    job_rows_multiply(n, 1000);
}

static void empty_all(void)
{
    empty_tables();
    run_sql("DELETE FROM operations; DELETE FROM operation_jobs");
}

#define FRESH_TEST(name) TEST_WITH(name, empty_all, NULL)

/* ---- what is found ---- */

FRESH_TEST(all_scheduled_jobs_of_a_topic_are_cancelled_and_counted)
{
    jobs(5);
    job_row(90, "topic = 'other'");
    job_row_dispatched(91, 1, 0);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    run(&ask);
    assert_int_equal(op.changed, 5);
    assert_int_equal(number("SUM(state = 'cancelled' AND next_at IS NULL AND version = 2 AND purge_at > 0)"), 5);
    assert_job(90, "state", "scheduled");
    assert_job(91, "state", "dispatched");
    assert_sql_number(5, "SELECT SUM(cancelled) FROM job_counts WHERE topic = 'orders'");
    assert_true(dt_str_is(op.sample, "[\"1\",\"2\",\"3\",\"4\",\"5\"]"));
    assert_true(op.finished_at_ms >= op.started_at_ms);
}

/* How many events have these texts; in LIKE's form. */
static int64_t events_like(const char *was, const char *became)
{
    return sql_number("SELECT COUNT(*) FROM job_events WHERE job_id = 1 AND was LIKE '%s' AND became LIKE '%s'", was,
                      became);
}

FRESH_TEST(the_event_of_a_job_has_its_state_before_and_after)
{
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    job_row(1, NULL);
    dt_store_act_as(store, S("who"));
    run(&ask);
    assert_int_equal(
        events_like("{\"state\":\"scheduled\",\"next_at\":\"%Z\"}", "{\"state\":\"cancelled\",\"next_at\":null}"), 1);
    run_sql("UPDATE jobs SET state = 'dead', purge_at = 9000000000000");
    ask = ask_of(DT_OPERATION_REDRIVE);
    run(&ask);
    assert_int_equal(
        events_like("{\"state\":\"dead\",\"next_at\":null}", "{\"state\":\"scheduled\",\"next_at\":\"2%Z\"}"), 1);
    dt_store_act_as(store, DT_STR_NONE);
}

/* How many windows a preview looks at until it has found all, and how many that is. */
static int windows_of(const struct dt_operation_ask *ask, int64_t matched)
{
    struct dt_operation_preview preview = {.ask = ask};
    int windows = 0;
    for (; !preview.over; windows++)
        OK(dt_store_operation_preview(store, &preview, &arena, &err));
    assert_int_equal(preview.matched, matched);
    return windows;
}

FRESH_TEST(a_list_of_ids_is_restricted_to_the_visible_topics)
{
    int64_t ids[] = {1, 2, 3, 77};
    struct dt_str prefix = S("ord");
    struct dt_topic_bound bound = {&prefix, 1};
    jobs(3);
    run_sql("UPDATE jobs SET topic = 'other' WHERE id = 2");
    struct dt_operation_ask ask = {
        .kind = DT_OPERATION_RUN_NOW, .filter = {.ids = ids, .n_ids = 4}, .request = S("{}"), .bound = &bound};
    int64_t id = make(&ask);
    show(id);
    assert_members(op, (found, true), (matched, 2));
    step(id);
    assert_int_equal(piece.shown.state, DT_OPERATION_DONE);
    assert_int_equal(number("SUM(version = 2 AND run_at = next_at AND near)"), 2);
    assert_job(2, "version", "1");
}

FRESH_TEST(a_preview_finds_the_same_jobs_and_stores_nothing)
{
    jobs(25);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    struct dt_operation_preview preview = {.ask = &ask};
    count_rows();
    while (!preview.over)
        OK(dt_store_operation_preview(store, &preview, &arena, &err));
    assert_int_equal(preview.matched, 25);
    for (int i = 0; i < DT_OPERATION_SAMPLE; i++)
        assert_int_equal(preview.ids[i], i + 1);
    assert_sql_number(0, "SELECT (SELECT COUNT(*) FROM operations) + (SELECT COUNT(*) FROM operation_jobs)");
    assert_int_equal(number("SUM(version)"), 25);
}

FRESH_TEST(more_jobs_than_a_window_are_found_by_id_and_by_key)
{
    jobs(10050);
    run_sql("UPDATE jobs SET job_key = CONCAT('k', id); INSERT INTO job_keys SELECT topic, job_key, id FROM jobs");
    count_rows();
    for (int by_key = 0; by_key < 2; by_key++) {
        struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
        if (by_key)
            ask.filter.key_prefix = S("k");
        assert_int_equal(windows_of(&ask, 10050), 2);
    }
}

/* What other days have costs nothing; an edit by hand that is not counted yet hides no job. */
FRESH_TEST(only_days_with_jobs_of_the_topic_are_searched)
{
    /* Some 10,000 jobs of another topic on each of the days 1 and 3, and three of ours on day 2. */
    jobs(20050);
    run_sql("UPDATE jobs SET topic = 'other', id = id + ((1 + (id MOD 2) * 2) << 40);UPDATE jobs SET topic = 'orders', "
            "id = id + (1 << 40) WHERE id >> 40 = 1 ORDER BY id LIMIT 3");
    count_rows();
    run_sql("UPDATE job_counts SET dead = scheduled, scheduled = 0");
    static const char *const names[] = {"orders", "absent", "ord*", "absent*"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
        ask.filter.topic = dt_str(names[i]);
        assert_int_equal(windows_of(&ask, names[i][0] == 'o' ? 3 : 0), 1);
    }
}

/* ---- what becomes of them ---- */

FRESH_TEST(jobs_that_changed_after_they_were_found_are_refused)
{
    jobs(5);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t id = make(&ask);
    step(id); /* finds */
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1 WHERE id = 1; DELETE FROM jobs WHERE id = 2;UPDATE jobs "
            "SET attempt = 1, claim_shard = 0 WHERE id = 3;UPDATE shards SET inflight = '[[3,1,9]]' WHERE shard = "
            "0;UPDATE jobs SET attempt = 1 WHERE id = 4; INSERT INTO hands VALUES (4, 1, 0, 0)");
    step(id);
    show(id);
    assert_members(op, (state, DT_OPERATION_DONE), (changed, 1), (refused, 4));
    assert_job(5, "state", "cancelled");
    assert_int_equal(number("SUM(version)"), 5);
    assert_int_equal(piece.n_moves, 1);
    assert_members(piece.moves[0], (id, 5), (due_ms, 0));
    assert_true(piece.moves[0].was_ms > 0);
}

FRESH_TEST(a_shift_moves_each_job_from_its_current_time_and_never_before_now)
{
    jobs(3);
    run_sql("UPDATE jobs SET run_at = run_at + %lld, next_at = run_at, near = FALSE WHERE id = 3",
            (long long)(100 * 24 * HOUR_MS));
    int64_t was1 = sql_number("SELECT next_at FROM jobs WHERE id = 1");
    int64_t was3 = sql_number("SELECT next_at FROM jobs WHERE id = 3");
    int64_t before = mysql_now_ms();
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.shifts = true;
    ask.shift_ms = HOUR_MS;
    run(&ask);
    assert_sql_number(was1 + HOUR_MS, "SELECT next_at FROM jobs WHERE id = 1");
    ask.shift_ms = -3 * HOUR_MS;
    run(&ask);
    assert_in_range(sql_number("SELECT run_at FROM jobs WHERE id = 1"), before, mysql_now_ms());
    assert_sql_number(was3 - 2 * HOUR_MS, "SELECT run_at FROM jobs WHERE id = 3");
    assert_int_equal(number("SUM(run_at = next_at AND version = 3 AND near = (id < 3))"), 3);
}

FRESH_TEST(a_spread_puts_jobs_at_even_distances_in_the_order_of_their_times)
{
    jobs(4);
    run_sql("UPDATE jobs SET run_at = run_at - 5000 WHERE id = 4");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.at_ms = 4000000000000;
    ask.spread_ms = 1000;
    run(&ask);
    assert_int_equal(number("SUM(next_at = 4000000000000 + ELT(id, 250, 500, 750, 0) AND run_at = next_at)"), 4);
    assert_int_equal(number("SUM(near)"), 0);
}

/* 29/100 has no floating-point number: 28.999… of 100 ms. */
FRESH_TEST(a_spread_is_computed_in_integers)
{
    jobs(100);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.at_ms = 4000000000000;
    ask.spread_ms = 100;
    ask.delays = false;
    run(&ask);
    assert_int_equal(number("SUM(run_at = 4000000000000 + id - 1)"), 100);
}

FRESH_TEST(a_shift_takes_no_job_further_than_a_request_could)
{
    jobs(2);
    int64_t most = mysql_fixture.config.limits_max_delay;
    run_sql("UPDATE jobs SET run_at = %lld, next_at = run_at, near = FALSE WHERE id = 2",
            (long long)(mysql_now_ms() + most - HOUR_MS));
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.shifts = true;
    ask.shift_ms = 2 * HOUR_MS;
    run(&ask);
    assert_members(op, (changed, 1), (refused, 1));
    assert_job(2, "version", "1");
    assert_int_equal(piece.n_moves, 1);
    ask.shift_ms = -HOUR_MS;
    run(&ask);
    assert_int_equal(op.changed, 2);
}

FRESH_TEST(a_spread_from_a_past_time_begins_now)
{
    jobs(4);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.at_ms = -5;
    ask.spread_ms = 4 * HOUR_MS;
    run(&ask);
    assert_int_equal(number("COUNT(DISTINCT next_at)"), 4);
    assert_int_equal(number("MAX(next_at)"), op.started_at_ms + 3 * HOUR_MS);
    assert_true(number("MIN(next_at)") >= op.started_at_ms);
}

/* Manual edits and dt_shift_all may bring numbers whose sum is none. */
FRESH_TEST(a_shift_ends_at_the_last_representable_time)
{
    jobs(2);
    run_sql("UPDATE jobs SET next_at = -9223372036854775808 WHERE id = 1");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.shifts = true;
    ask.shift_ms = -HOUR_MS;
    int64_t before = mysql_now_ms();
    run(&ask);
    assert_in_range(sql_number("SELECT next_at FROM jobs WHERE id = 1"), before, mysql_now_ms());
    ask.shift_ms = INT64_MAX - 7;
    run(&ask);
    assert_int_equal(op.refused, 2);
    run_sql("UPDATE jobs SET next_at = 253402300799999 WHERE id = 1");
    ask.shift_ms = -1;
    run(&ask);
    assert_int_equal(number("SUM(next_at = 253402300799998 AND NOT near)"), 1);
    ask.shift_ms = INT64_MIN;
    run(&ask);
    assert_in_range(number("MIN(next_at)"), before, mysql_now_ms());
}

FRESH_TEST(a_delay_counts_from_the_start_and_is_the_same_for_all)
{
    jobs(3);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.delays = true;
    ask.at_ms = 2 * HOUR_MS;
    run(&ask);
    assert_int_equal(number("COUNT(DISTINCT next_at)"), 1);
    assert_int_equal(number("MAX(next_at)"), op.started_at_ms + 2 * HOUR_MS);
    assert_int_equal(number("SUM(near)"), 3);
}

FRESH_TEST(dead_jobs_are_redriven_also_from_history)
{
    jobs(3);
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL, failures = 3, attempt = 3, error_code = 'boom', purge_at "
            "= 8000000000000000, leave_at = 1");
    run_sql("UPDATE jobs SET state = 'succeeded' WHERE id = 2");
    job_rows_archive("id = 3");
    run_sql("INSERT INTO history_counts VALUES ('orders', 'dead', 0, 1)");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_REDRIVE);
    ask.filter.error_code = S("boom");
    run(&ask);
    assert_int_equal(op.changed, 2);
    assert_int_equal(number("SUM(state = 'scheduled' AND failures = 0 AND attempt = 3 AND near)"), 2);
    assert_sql_number(0, "SELECT COUNT(*) FROM history");
    assert_sql_number(2, "SELECT SUM(scheduled) FROM job_counts");
}

/* One window of `jobs` and one of history, whatever else is there. */
FRESH_TEST(dead_jobs_are_searched_only_among_finished_ones)
{
    jobs(20050);
    run_sql(
        "UPDATE jobs SET state = 'dead', next_at = NULL, leave_at = 9000 - id, error_at = id WHERE id MOD 4000 = 0");
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id <= 5");
    job_rows_archive("id IN (1, 2, 3, 8000, 16000)");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_REDRIVE);
    assert_int_equal(windows_of(&ask, 5), 2);
    ask.filter.topic = S("*");
    assert_int_equal(windows_of(&ask, 5), 2);
    ask.filter.failed = (struct dt_list_times){true, 4000, 16000};
    assert_int_equal(windows_of(&ask, 3), 2);
    run(&ask);
    assert_int_equal(op.changed, 3);
    assert_job(8000, "state", "scheduled");
    assert_job(4000, "state", "scheduled");
    assert_job(20000, "state", "dead");
}

/* A place is a time and an id: those of one time are passed one by one, in `jobs` as in history. */
FRESH_TEST(more_jobs_that_died_at_one_time_than_a_window_are_found_once_each)
{
    jobs(10050);
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL, leave_at = 70, error_at = 7");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_REDRIVE);
    assert_int_equal(windows_of(&ask, 10050), 3);
    job_rows_archive("TRUE");
    assert_int_equal(windows_of(&ask, 10050), 3);
    ask.filter.failed = (struct dt_list_times){true, 7, 8};
    assert_int_equal(windows_of(&ask, 10050), 3);
    ask.filter.failed = (struct dt_list_times){true, 8, 9};
    assert_int_equal(windows_of(&ask, 0), 2);
}

/* As a program does that looks for dead jobs in the order of their ids. */
FRESH_TEST(an_operation_begun_by_another_version_is_searched_again)
{
    jobs(3);
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL, leave_at = 70");
    struct dt_operation_ask ask = ask_of(DT_OPERATION_REDRIVE);
    int64_t id = make(&ask);
    run_sql("UPDATE operations SET after_id = 2");
    for (int i = 0; i < 4; i++)
        step(id);
    show(id);
    assert_int_equal(op.changed, 3);
}

/* ---- pieces ---- */

FRESH_TEST(each_job_is_changed_once_by_any_number_of_processes)
{
    enum { JOBS = 2600 };
    dt_store *other = mysql_fixture_store();
    int pieces = 0;
    int64_t changed = 0;
    jobs(JOBS);
    run_sql("UPDATE jobs SET run_at = 5000000 WHERE id > 1200"); /* many at one time */
    struct dt_operation_ask ask = ask_of(DT_OPERATION_RESCHEDULE);
    ask.at_ms = 4000000000000;
    int64_t id = make(&ask);
    do {
        piece = (struct dt_operation_piece){.owner = -dt_owner_by_name(S("orders"))};
        OK(dt_store_operation_step(pieces % 2 ? other : store, &piece, &arena, &err));
        assert_int_equal(piece.id, id);
        changed += piece.changed;
        if (pieces++ == 1) { /* matches by now, and does not belong to it */
            job_row(9000, "run_at = 1, created_at = created_at + 100000");
            run_sql("UPDATE jobs SET topic = 'orders' WHERE id = 9000");
        }
    } while (piece.shown.state == DT_OPERATION_RUNNING && pieces < 50);
    dt_store_free(other);
    show(id);
    assert_int_equal(changed, JOBS);
    assert_int_equal(op.changed, JOBS);
    assert_int_equal(pieces, 4); /* one finds, three change */
    assert_int_equal(number("SUM(version = 2)"), JOBS);
    assert_job(9000, "version", "1");
}

/* An operation that nobody waits for finds its jobs while its caller makes others. */
FRESH_TEST(a_job_that_is_made_after_the_start_is_not_in_the_set)
{
    jobs(2);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t id = make(&ask);
    long long start_ms = sql_number("SELECT started_at FROM operations WHERE id = %lld", (long long)id);
    run_sql("UPDATE jobs SET created_at = %lld + id", start_ms - 1);
    run_sql("UPDATE operations SET created_to = %lld", start_ms + 1000); /* as dt_cancel_all has it */
    step(id);
    step(id);
    show(id);
    assert_int_equal(op.matched, 1);
    assert_job(1, "state", "cancelled");
    assert_job(2, "state", "scheduled");
}

FRESH_TEST(a_piece_that_is_rolled_back_leaves_nothing)
{
    int64_t lock_timeout = mysql_fixture.config.mysql_lock_timeout;
    jobs(3);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t id = make(&ask);
    step(id);
    mysql_fixture.config.mysql_lock_timeout = 1000;
    dt_store *impatient = mysql_fixture_store();
    run_sql("START TRANSACTION; SELECT id FROM jobs WHERE id = 2 FOR UPDATE");
    piece = (struct dt_operation_piece){.id = id};
    assert_int_equal(dt_status_class(dt_store_operation_step(impatient, &piece, &arena, &err)), DT_CLASS_RETRY);
    assert_int_equal(piece.n_moves, 0);
    run_sql("ROLLBACK");
    mysql_fixture.config.mysql_lock_timeout = lock_timeout;
    dt_store_free(impatient);
    assert_int_equal(number("SUM(version)"), 3);
    step(id);
    assert_int_equal(number("SUM(state = 'cancelled')"), 3);
}

FRESH_TEST(a_locked_operation_is_skipped)
{
    jobs(1);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t id = make(&ask);
    run_sql("START TRANSACTION; SELECT id FROM operations FOR UPDATE");
    step(0);
    assert_int_equal(piece.id, 0);
    step(id);
    assert_int_equal(piece.id, 0);
    run_sql("ROLLBACK");
    step(0);
    assert_int_equal(piece.id, id);
}

FRESH_TEST(a_lease_excludes_dispatchers_until_it_expires_or_is_released)
{
    jobs(1);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    OK(dt_store_operation_make(store, &ask, HOUR_MS, &arena, &op, &err));
    const int64_t id = op.id;
    step(0);
    assert_int_equal(piece.id, 0);
    assert_true(sql_number("SELECT look_at FROM operations") > mysql_now_ms() + HOUR_MS / 2);
    OK(dt_store_operation_hand_over(store, id, HOUR_MS, &err)); /* as a slow rate wants it */
    step(0);
    assert_int_equal(piece.id, 0);
    OK(dt_store_operation_hand_over(store, id, 0, &err));
    step(0);
    assert_int_equal(piece.id, id);
}

FRESH_TEST(a_rate_limits_a_piece_and_sets_the_time_of_the_next)
{
    jobs(40);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    ask.rate = S("100/s");
    int64_t id = make(&ask);
    step(id);
    step(id);
    assert_members(piece, (changed, 20), (wait_ms, 200));
}

FRESH_TEST(an_operation_is_not_due_again_until_its_rate_allows_more_jobs)
{
    jobs(2);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    ask.rate = S("1/m");
    int64_t id = make(&ask);
    step(id);
    step(id);
    step(0);
    assert_int_equal(piece.id, 0);
}

FRESH_TEST(a_stopped_operation_changes_no_more_jobs_and_leaves_no_rows)
{
    jobs(2);
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t id = make(&ask);
    step(id);
    OK(dt_store_operation_stop(store, id, &arena, &op, &err));
    step(id);
    assert_int_equal(piece.shown.state, DT_OPERATION_STOPPED);
    assert_int_equal(number("SUM(version)"), 2);
    step(0); /* cleans */
    assert_sql_number(0, "SELECT COUNT(*) FROM operation_jobs");
    OK(dt_store_operation_stop(store, id, &arena, &op, &err));
    show(id);
    assert_members(op, (state, DT_OPERATION_STOPPED), (matched, 2), (changed, 0));
    step(0);
    assert_int_equal(piece.id, 0);
    run_sql("UPDATE operations SET finished_at = finished_at - 2592000000, look_at = finished_at + 2592000000");
    step(0);
    assert_int_equal(dt_store_operation_get(store, id, &arena, &op, &err), DT_NOT_FOUND);
}

FRESH_TEST(operations_are_listed_latest_first_and_a_failed_one_says_why)
{
    struct dt_operation_list list;
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    int64_t first = make(&ask);
    int64_t second = make(&ask);
    OK(dt_store_operation_fail(store, second, S("why"), &err));
    OK(dt_store_operation_list(store, INT64_MAX, (struct dt_page_end){10, 0}, &arena, &list, &err));
    assert_int_equal(list.n, 2);
    assert_members(list.v[0], (id, second), (state, DT_OPERATION_FAILED));
    assert_true(dt_str_is(list.v[0].error, "why"));
    OK(dt_store_operation_list(store, second, (struct dt_page_end){10, 0}, &arena, &list, &err));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.v[0].id, first);
}

SUITE(open_store, close_store)
