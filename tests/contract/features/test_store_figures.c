/* Figures in MySQL: what several processes wrote of one step is added up, in both lengths of steps, and goes with its time. */
#include <stdatomic.h>

#include "features/figures/figures.h"
#include "support/store_suite.h"

#define AT_MS (DT_COARSE_MS * 6000000)

STORE_SUITE("figures", 0)

static struct dt_tally tally;

#define RIG_TEST(name) TEST_WITH(name, open_store, close_store)

/* The process counted so many jobs made of topic "t", and as many attempts of 10 ms lateness. */
static void write_step(int64_t writer, int64_t at_ms, int64_t n)
{
    const struct dt_lateness late = {.up_to_us = 10000, .attempts = n};
    tally = (struct dt_tally){.all = {n}, .n = 1};
    tally.rows[0] = (struct dt_tally_row){.topic = "t", .topic_n = 1, .n = {n}};
    const struct dt_figures_step step = {
        .at_ms = at_ms, .writer = writer, .tally = &tally, .overdue = n, .lateness = &late, .n_lateness = 1};
    OK(dt_store_figures_add(store, &step, &err));
}

static struct dt_figures_row *read_range(int64_t step_ms, int64_t slot_ms, const char *topic, size_t *n)
{
    struct dt_figures_row *rows;
    const struct dt_figures_range range = {step_ms, AT_MS, AT_MS + DT_COARSE_MS, slot_ms, dt_str(topic)};
    OK(dt_store_figures(store, &range, &arena, &rows, n, &err));
    return rows;
}

RIG_TEST(steps_of_all_writers_are_added_up)
{
    size_t n;
    write_step(1, AT_MS + 1, 3);
    write_step(2, AT_MS + DT_FINE_MS - 1, 4);
    write_step(1, AT_MS + 2, 5); /* the same step once more */
    write_step(1, AT_MS + DT_FINE_MS, 7);
    struct dt_figures_row *fine = read_range(DT_FINE_MS, DT_FINE_MS, NULL, &n);
    assert_int_equal(n, 2);
    assert_int_equal(fine[0].slot, AT_MS / DT_FINE_MS);
    assert_int_equal(fine[0].n[DT_TALLY_CREATED], 12);
    assert_int_equal(fine[0].overdue, 9); /* the most that each had */
    assert_int_equal(fine[1].n[DT_TALLY_CREATED], 7);
    struct dt_figures_row *coarse = read_range(DT_COARSE_MS, DT_COARSE_MS, "t", &n);
    assert_int_equal(n, 1);
    assert_int_equal(coarse[0].n[DT_TALLY_CREATED], 19);
}

/* What is overdue is a number of a moment: adding up moments would say nothing. */
RIG_TEST(a_longer_step_shows_the_maximum_of_overdue)
{
    size_t n;
    write_step(1, AT_MS, 3);
    write_step(2, AT_MS, 4);
    write_step(1, AT_MS + DT_FINE_MS, 5);
    struct dt_figures_row *rows = read_range(DT_FINE_MS, DT_COARSE_MS, NULL, &n);
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].n[DT_TALLY_CREATED], 12);
    assert_int_equal(rows[0].overdue, 7);
}

RIG_TEST(lateness_of_all_writers_is_one_histogram)
{
    struct dt_lateness *buckets;
    size_t n;
    write_step(1, AT_MS, 3);
    write_step(2, AT_MS, 4);
    const struct dt_figures_range range = {DT_FINE_MS, AT_MS, AT_MS + DT_FINE_MS, DT_FINE_MS, DT_STR_NONE};
    OK(dt_store_lateness(store, &range, &arena, &buckets, &n, &err));
    assert_int_equal(n, 1);
    assert_members(buckets[0], (up_to_us, 10000), (attempts, 7));
}

RIG_TEST(figures_are_deleted_after_their_retention_and_not_before)
{
    bool more;
    write_step(1, AT_MS, 1);
    write_step(1, AT_MS + DT_COARSE_MS, 1);
    OK(dt_store_figures_expire(store, AT_MS + DT_FINE_KEPT_MS, 100, &more, &err));
    assert_false(more);
    assert_sql_number(8, "SELECT COUNT(*) FROM figures");
    OK(dt_store_figures_expire(store, AT_MS + DT_FINE_KEPT_MS + 1, 1, &more, &err));
    assert_true(more);
    OK(dt_store_figures_expire(store, AT_MS + DT_FINE_KEPT_MS + 1, 100, &more, &err));
    assert_sql_number(2, "SELECT COUNT(*) FROM figures WHERE step_ms = 5000");
    assert_sql_number(1, "SELECT COUNT(*) FROM figures_lateness WHERE step_ms = 5000");
    OK(dt_store_figures_expire(store, AT_MS + DT_COARSE_KEPT_MS + 1, 100, &more, &err));
    assert_sql_number(2, "SELECT COUNT(*) FROM figures");
    assert_sql_number(1, "SELECT COUNT(*) FROM figures_lateness");
}

/* Dead jobs go to history and come back, again and again. */
static _Atomic bool moving;

static void *move_jobs(void *db)
{
    static const char sql[] =
        "UPDATE job_counts c JOIN history_counts h ON h.topic = c.topic SET c.dead = 5 - c.dead, h.jobs = 5 - h.jobs";
    bool moved = true;
    while (moved && atomic_load(&moving))
        moved = dt_db_run(db, sql, DT_NO_PARAMS, NULL, NULL) == DT_OK;
    return NULL;
}

RIG_TEST(jobs_that_move_to_history_meanwhile_are_counted_once)
{
    run_sql("INSERT INTO job_counts (topic, piece, writer, dead) VALUES ('t', 1, 1, 5)");
    run_sql("INSERT INTO history_counts (topic, state, part, jobs) VALUES ('t', 'dead', 1, 0)");
    atomic_store(&moving, true);
    pthread_t thread = start_thread(move_jobs, mysql_fixture.db);
    for (int i = 0; i < 300; i++) {
        struct dt_topic_load *loads;
        int64_t dead = 0;
        size_t n;
        dt_arena_reset(&arena);
        OK(dt_store_topic_loads(store, &arena, &loads, &n, &err));
        for (size_t j = 0; j < n; j++)
            dead += loads[j].jobs[DT_DEAD];
        assert_int_equal(dead, 5);
    }
    atomic_store(&moving, false);
    pthread_join(thread, NULL);
}

static double jobs_due_of(const char *topic)
{
    char label[64];
    snprintf(label, sizeof label, "topic=\"%s\"", topic);
    return dt_metric_value(dt_gauge("duetime_backlog_jobs", "", label));
}

RIG_TEST(overdue_jobs_are_reported_by_topic_until_they_are_gone)
{
    static struct dt_backlog backlog;
    run_sql("INSERT INTO pop_queue VALUES ('a', 1, 1), ('a', 2, 2), ('b', 1, 3), ('b\"}', 1, 4)");
    OK(dt_backlog_tell(&backlog, store, AT_MS, 0)); /* nothing is overdue here: nobody is asked */
    assert_int_equal(backlog.n, 0);
    OK(dt_backlog_tell(&backlog, store, AT_MS, 1));
    assert_int_equal(backlog.n, 2); /* what is no topic has no gauge */
    assert_true(jobs_due_of("a") > 1.5 && jobs_due_of("b") > 0.5);
    run_sql("DELETE FROM pop_queue WHERE topic = 'b'");
    OK(dt_backlog_tell(&backlog, store, AT_MS, 1));
    assert_true(jobs_due_of("a") > 1.5 && jobs_due_of("b") < 0.5);
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('a', TRUE, 1, 1)");
    OK(dt_backlog_tell(&backlog, store, AT_MS, 1));
    assert_true(jobs_due_of("a") < 0.5); /* held by its topic's pause */
    run_sql("DELETE FROM topics WHERE name = 'a'");
    OK(dt_backlog_tell(&backlog, store, AT_MS, 1));
    assert_true(jobs_due_of("a") > 1.5);
    OK(dt_backlog_tell(&backlog, store, AT_MS, 0));
    assert_true(jobs_due_of("a") < 0.5);
    dt_arena_clear(&backlog.arena);
}

static void due_row(int id, const char *topic, int64_t next_ms)
{
    run_sql("INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
            "digest, payload) VALUES (%d, '%s', 1, %lld, TRUE, '15s', 60000, 1, 1, 1, REPEAT('d', 16), 'x')",
            id, topic, (long long)next_ms);
}

RIG_TEST(held_jobs_do_not_hide_the_late_ones_of_another_topic)
{
    struct dt_topic_overdue *topics;
    size_t n;
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('h', TRUE, 1, 1)");
    run_sql("INSERT INTO pop_queue VALUES ('h', 5000, 900)");
    for (int id = 1; id <= 25; id++) /* two of each millisecond */
        due_row(id, "h", AT_MS - 9000 + id / 2);
    for (int id = 101; id <= 105; id++)
        due_row(id, "late", AT_MS - 2000 + id);
    OK(dt_store_topics_overdue(store, AT_MS, 10, &arena, &topics, &n, &err));
    assert_int_equal(n, 2);
    assert_true(topics[0].paused && !topics[1].paused);
    assert_int_equal(topics[0].jobs, 26); /* each row once, and what is offered once */
    assert_members(topics[0], (since_ms, 5000), (job, 900));
    assert_members(topics[1], (jobs, 5), (since_ms, AT_MS - 2000 + 101), (job, 101));
    run_sql("UPDATE topics SET paused = FALSE WHERE name = 'h'");
    OK(dt_store_topics_overdue(store, AT_MS, 10, &arena, &topics, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(topics[0].jobs, 11); /* nothing is held: one slice */
}
