/* Each call of the database in a piece of work fails once, as a server refuses it that goes on: the work then says so, and
 * nothing of it is there. So does each of its calls for memory, after which the work may also be whole. The linker wraps
 * both (tests/CMakeLists.txt). */

#include "dispatch/pop.h"
#include "dispatch/shards.h"
#include "features/alerts/alerts.h"
#include "features/operations/operations.h"
#include "features/schedules/schedules.h"
#include "features/tokens/tokens.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "support/rigs/failing_rig.h"
#include "support/store_suite.h"
#include "topic/topics.h"

#define MOST    400 /* calls of a work */
#define HOUR_MS INT64_C(3600000)

STORE_SUITE("failing", 0)

static dt_zone_files *zones;

static void begin(void)
{
    assert_int_equal(dt_zone_files_new(NULL, &zones), DT_OK);
    open_store();
    dt_store_act_as(store, S("somebody")); /* so that events are written as well */
}

static void end(void)
{
    dt_zone_files_free(zones);
    close_store();
}

/* A number that stands for what callers see of all tables; without times, which are others when a work is done later. */
static int64_t told(bool times)
{
    return mysql_fixture_number(
        &fx,
        "SELECT COALESCE((SELECT SUM(CRC32(CONCAT_WS('|', id, state, version, IF(%d, IFNULL(next_at, -1), 0), "
        "no_retries, topic))) FROM jobs), 0) + COALESCE((SELECT SUM(CRC32(CONCAT_WS('|', IF(%d, id, 0), state, "
        "matched, changed, refused, sample))) FROM operations), 0) * 3 + (SELECT COUNT(*) FROM operation_jobs) * 5 + "
        "(SELECT COUNT(*) FROM job_events) * 7 + (SELECT COUNT(*) FROM schedules) * 11 + COALESCE((SELECT "
        "SUM(CRC32(CONCAT_WS('|', IF(%d, next_fire_at, 0), IF(%d, last_fire_at, 0)))) FROM schedule_fires), 0) + "
        "COALESCE((SELECT SUM(CRC32(CONCAT_WS('|', name, paused, version))) FROM topics), 0) + (SELECT COUNT(*) FROM "
        "job_keys) * 13 + COALESCE((SELECT SUM(CRC32(CONCAT_WS('|', name, pending_jobs))) FROM api_tokens), 0) + "
        "COALESCE((SELECT SUM(version * 19 + paused) FROM schedules), 0) + (SELECT shards FROM installation) * 23 + "
        "COALESCE((SELECT SUM(silenced_until) FROM alerts), 0) + (SELECT COUNT(*) FROM pop_queue) * 29",
        times, times, times, times);
}

struct work {
    const char *name;
    void (*prepare)(void);
    dt_status (*run)(void);
};

static void empty_all_tables(void)
{
    mysql_fixture_empty(&fx, &arena);
    mysql_fixture_run(&fx, "DELETE FROM job_events; DELETE FROM operations; DELETE FROM operation_jobs; DELETE FROM "
                           "api_tokens; DELETE FROM alerts; DELETE FROM pop_queue");
}

/* What the work makes when nothing fails. */
static int64_t made_of(const struct work *work)
{
    empty_all_tables();
    work->prepare();
    MYSQL_FIXTURE_OK(work->run(), &err);
    return told(false);
}

/* The n-th call fails. False: the work has fewer. */
static bool fails_at(const struct work *work, enum kind kind, unsigned n, int64_t made)
{
    empty_all_tables();
    work->prepare();
    int64_t before = told(true);
    failed = false;
    left[kind] = n;
    dt_status status = work->run();
    left[kind] = 0;
    if (!failed)
        MYSQL_FIXTURE_OK(status, &err);
    else if (status != DT_OK && told(true) != before)
        fail_msg("%s: call %u failed, and some of it is there: %.200s", work->name, n, failed_call);
    else if (status == DT_OK && (kind != MEMORY || told(false) != made))
        fail_msg("%s: call %u failed, and nobody says so: %.200s", work->name, n, failed_call);
    return failed;
}

static void try_all(const struct work *works, size_t n_works)
{
    for (size_t i = 0; i < n_works; i++) {
        const int64_t made = made_of(&works[i]);
        for (enum kind kind = STATEMENT; kind < KINDS; kind++) {
            unsigned n = 1;
            while (n <= MOST && fails_at(&works[i], kind, n, made))
                n++;
            if ((n <= 2 && kind == STATEMENT) || n > MOST)
                fail_msg("%s has %u calls", works[i].name, n - 1);
            print_message("%s: each of %u %s failed once\n", works[i].name, n - 1,
                          kind == STATEMENT ? "statements" : "calls for memory");
        }
    }
}

#define TRY(...)                                                                                                       \
    do {                                                                                                               \
        const struct work works[] = {__VA_ARGS__};                                                                     \
        try_all(works, sizeof(works) / sizeof(*works));                                                                \
    } while (0)

/* ---- single jobs ---- */

static struct dt_job job;

static void some_jobs(void)
{
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    job_row(&fx, 1, "job_key = 'k1'");
    job_row(&fx, 2, NULL);
    job_row(&fx, 3, "state = 'dead', next_at = NULL, purge_at = 9000000000000");
    job_row_dispatched(&fx, 4, 1, 0);
}

static dt_status cancel(void)
{
    return dt_store_cancel(store, 1, false, &arena, &job, &err);
}

static dt_status cancel_retries(void)
{
    return dt_store_cancel(store, 4, true, &arena, &job, &err);
}

static dt_status run_now(void)
{
    return dt_store_run_now(store, 1, &arena, &job, &err);
}

static dt_status redrive(void)
{
    return dt_store_redrive(store, 3, &arena, &job, &err);
}

static dt_status patch(void)
{
    const struct dt_patch p = {
        .has_run_at = true, .run_at_ms = HOUR_MS, .run_at_is_delay = true, .has_payload = true, .payload = S("7")};
    return dt_store_patch(store, 1, &p, &arena, &job, &err);
}

static void a_job_with_a_key(void)
{
    some_jobs();
    mysql_fixture_run(&fx, "INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs WHERE "
                           "id = 1");
}

static dt_status replace(void)
{
    const struct dt_new_job body = {
        .topic = S("orders"), .key = S("k1"), .run_at_ms = INT64_C(4000000000000), .payload = S("7")};
    return dt_store_replace(store, &body, &arena, &job, &err);
}

TEST(a_change_of_a_job_fails_with_each_of_its_statements)
{
    TRY({"cancel", some_jobs, cancel}, {"cancel of retries", some_jobs, cancel_retries}, {"patch", some_jobs, patch},
        {"run-now", some_jobs, run_now}, {"redrive", some_jobs, redrive}, {"another body", a_job_with_a_key, replace});
}

/* ---- new jobs, results ---- */

/* One that has a key, one that has none, and one whose key somebody has. */
static dt_status insert(void)
{
    static const char *const keys[] = {"new", NULL, "k1"};
    struct dt_insert rows[3] = {{.outcome = DT_INSERT_REFUSED}};
    struct dt_insert *ptrs[3];
    int64_t created_ms;
    for (size_t i = 0; i < 3; i++) {
        rows[i].job = (struct dt_new_job){.id = 100 + (int64_t)i,
                                          .topic = S("orders"),
                                          .run_at_ms = INT64_C(4000000000000),
                                          .retry = S("15s"),
                                          .ack_timeout_ms = 1000,
                                          .key = dt_str(keys[i]),
                                          .payload = S("{}")};
        ptrs[i] = &rows[i];
    }
    return dt_store_insert(store, ptrs, 3, 4711, &created_ms, &err);
}

static void attempts_under_way(void)
{
    some_jobs();
    job_row_dispatched(&fx, 5, 1, 0);
    mysql_fixture_run(&fx, "UPDATE jobs SET retry = '' WHERE id = 5");
}

/* A failure that is tried again, and one that is the last. */
static dt_status apply(void)
{
    struct dt_shard_map map;
    dt_shard_map_init(&map, 1, 1);
    struct dt_apply results[] = {
        {.result = {.job_id = 4, .attempt = 1, .status = DT_RESULT_FAILED, .error_code = S("code")}},
        {.result = {.job_id = 5, .attempt = 1, .status = DT_RESULT_GAVE_UP}},
    };
    return dt_store_apply(store, &map, results, 2, &err);
}

TEST(new_jobs_and_results_fail_with_each_of_their_statements)
{
    TRY({"new jobs", some_jobs, insert}, {"results", attempts_under_way, apply});
}

/* ---- pops ---- */

static void offered_jobs(void)
{
    mysql_fixture_run(&fx, "INSERT INTO topics (name, delivery, created_at, updated_at) VALUES ('p', 'pull', 0, 0)");
    for (long long id = 1; id <= 3; id++) {
        job_row(&fx, id, "topic = 'p', run_at = 1, next_at = 1, near = -1");
        mysql_fixture_run(&fx, "INSERT INTO pop_queue (topic, due_at, job_id) VALUES ('p', 1, %lld)", id);
    }
}

/* Two of three jobs that are offered. */
static dt_status pop(void)
{
    struct dt_pop two = {.topic = S("p"), .max = 2, .max_bytes = 1000, .arena = &arena};
    dt_status status = dt_store_pop(store, &two, &err);
    if (status == DT_OK)
        assert_int_equal(two.n, 2);
    return status;
}

TEST(a_pop_fails_with_each_of_its_statements)
{
    TRY({"a pop", offered_jobs, pop});
}

/* ---- tokens ---- */

static void nothing(void) {}

static dt_status add_token(void)
{
    const struct dt_token token = {.name = S("a"), .scopes = S("read")};
    return dt_store_token_add(store, &token, &err);
}

static void a_token(void)
{
    OK(add_token());
}

static dt_status set_quota(void)
{
    struct dt_quota_limits quotas = dt_quota_all(DT_QUOTA_KEPT);
    struct dt_token token;
    quotas.v[DT_QUOTA_PENDING] = 7;
    return dt_store_token_set(store, S("a"), &quotas, &arena, &token, &err);
}

static dt_status revoke_token(void)
{
    return dt_store_token_revoke(store, S("a"), &err);
}

static dt_status waive_tokens(void)
{
    return dt_store_tokens_waive(store, &err);
}

TEST(a_change_of_tokens_fails_with_each_of_its_statements)
{
    TRY({"a token", nothing, add_token}, {"its quota", a_token, set_quota}, {"its end", a_token, revoke_token},
        {"the rule that none is asked for", nothing, waive_tokens});
}

/* ---- topics, operations ---- */

static dt_status change_topic(void)
{
    const struct dt_topic topic = {.name = S("orders"), .paused = true, .retention_ms = -1};
    struct dt_topic_now now = {.arena = &arena};
    return dt_store_topic_put(store, &topic, true, NULL, &now, &err);
}

static dt_status pause_topic(void)
{
    struct dt_topic_now now = {.arena = &arena};
    return dt_store_topic_pause(store, S("orders"), true, &now, &err);
}

static void only_its_topic(void)
{
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
}

static dt_status remove_topic(void)
{
    struct dt_topic_deletion deletion;
    return dt_store_topic_delete(store, S("orders"), &arena, &deletion, &err);
}

TEST(a_change_of_a_topic_fails_with_each_of_its_statements)
{
    TRY({"a new topic", nothing, change_topic}, {"a topic's settings", some_jobs, change_topic},
        {"its pause", some_jobs, pause_topic}, {"its end", only_its_topic, remove_topic});
}

static struct dt_operation operation;

static dt_status make_operation(void)
{
    const struct dt_operation_ask ask = {
        .kind = DT_OPERATION_CANCEL, .filter = {.topic = S("orders")}, .request = S("{}")};
    return dt_store_operation_make(store, &ask, 0, &arena, &operation, &err);
}

static dt_status step(void)
{
    struct dt_operation_piece piece = {.id = operation.id};
    return dt_store_operation_step(store, &piece, &arena, &err);
}

static void made_operation(void)
{
    some_jobs();
    OK(make_operation());
}

static dt_status stop_operation(void)
{
    struct dt_operation op;
    return dt_store_operation_stop(store, operation.id, &arena, &op, &err);
}

static void found_jobs(void)
{
    made_operation();
    OK(step());
}

static dt_status delete_topic(void)
{
    struct dt_topic_deletion deletion;
    const struct dt_operation_ask ask = {.filter.topic = S("orders")};
    dt_status status = dt_store_topic_delete_with_jobs(store, &ask, 0, &arena, &deletion, &err);
    operation = deletion.operation;
    return status;
}

static void marked_topic(void)
{
    some_jobs();
    OK(delete_topic());
}

TEST(an_operation_fails_with_each_of_its_statements)
{
    TRY({"an operation", some_jobs, make_operation}, {"what it finds", made_operation, step},
        {"what it changes", found_jobs, step}, {"deletion of a topic", some_jobs, delete_topic},
        {"what that cancels", marked_topic, step}, {"the stop of an operation", made_operation, stop_operation},
        {"the stop of a deletion", marked_topic, stop_operation});
}

/* ---- schedules ---- */

static struct dt_schedule a_schedule(void)
{
    return (struct dt_schedule){.name = S("hourly"),
                                .every_ms = HOUR_MS,
                                .time_zone = S("Europe/Berlin"),
                                .overlap = DT_OVERLAP_CANCEL,
                                .job = {.topic = S("orders"), .payload = S("1"), .digest = "one"}};
}

static dt_status put_schedule(void)
{
    struct dt_fire_maker maker = {.store = store, .zones = zones, .arena = &arena};
    struct dt_schedule s = a_schedule(), out;
    struct dt_schedule_put ask = {.schedule = &s};
    return dt_store_schedule_put(&maker, &ask, &out, &err);
}

static void a_fire_is_due_while_the_last_one_is_under_way(void)
{
    only_its_topic();
    OK(put_schedule());
    mysql_fixture_run(&fx, "UPDATE schedules SET anchor_at = anchor_at - 3600000; UPDATE schedule_fires SET "
                           "next_fire_at = next_fire_at - 3600000, look_at = 1");
}

static dt_status make_fires(void)
{
    struct dt_fire_maker maker = {.store = store, .zones = zones, .arena = &arena};
    struct dt_fires_made made;
    return dt_store_make_fires(&maker, &made, &err);
}

static void that_schedule(void)
{
    only_its_topic();
    OK(put_schedule());
}

static void two_fires_wait(void)
{
    that_schedule();
    for (long long id = 901; id <= 902; id++) {
        job_row(&fx, id, "job_key = CONCAT('hourly@', " DT_SQL_NOW_MS " + 60000 * (id - 900))");
        mysql_fixture_run(&fx,
                          "INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs "
                          "WHERE id = %lld",
                          id);
    }
}

static dt_status set_paused(bool paused)
{
    struct dt_fire_maker maker = {.store = store, .zones = zones, .arena = &arena};
    struct dt_schedule out;
    return dt_store_schedule_pause(&maker, S("hourly"), paused, &out, &err);
}

static dt_status pause_schedule(void)
{
    return set_paused(true);
}

static dt_status resume_schedule(void)
{
    return set_paused(false);
}

static void that_schedule_is_paused(void)
{
    that_schedule();
    OK(pause_schedule());
}

static dt_status delete_schedule(void)
{
    struct dt_fire_maker maker = {.store = store, .zones = zones, .arena = &arena};
    return dt_store_schedule_delete(&maker, S("hourly"), true, &err);
}

static dt_status fire_by_hand(void)
{
    struct dt_fire_maker maker = {.store = store, .zones = zones, .arena = &arena};
    return dt_store_schedule_run_now(&maker, S("hourly"), &job, &err);
}

TEST(a_schedule_fails_with_each_of_its_statements)
{
    TRY({"a schedule", only_its_topic, put_schedule},
        {"its fires", a_fire_is_due_while_the_last_one_is_under_way, make_fires},
        {"its pause", that_schedule, pause_schedule},
        {"its pause while two fires wait", two_fires_wait, pause_schedule},
        {"the end of that", that_schedule_is_paused, resume_schedule}, {"its end", that_schedule, delete_schedule},
        {"a fire by hand", that_schedule, fire_by_hand});
}

/* ---- the installation ---- */

static void two_shards(void)
{
    struct dt_installation inst;
    OK(dt_store_set_shards(store, 2, &inst, &err));
}

static dt_status three_shards(void)
{
    struct dt_installation inst;
    return dt_store_set_shards(store, 3, &inst, &err);
}

static void an_alert(void)
{
    mysql_fixture_run(&fx, "INSERT INTO alerts (id, kind, value, bound, began_at) VALUES (1, "
                           "'backlog', 2, 1, 1)");
}

static dt_status silence_alert(void)
{
    const struct dt_alert_silence silence = {.id = 1, .until_ms = HOUR_MS};
    struct dt_alert alert;
    return dt_store_alert_silence(store, &silence, &arena, &alert, &err);
}

TEST(a_change_of_the_installation_fails_with_each_of_its_statements)
{
    TRY({"the number of shards", two_shards, three_shards}, {"the silence of an alert", an_alert, silence_alert});
}

SUITE(begin, end)
