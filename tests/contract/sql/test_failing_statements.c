/* Each statement of a piece of work fails once, as if a running server refused it: the work then returns the failure,
 * and has stored nothing. Each allocation of the work fails once, too; after that, the work may also have succeeded.
 * Only work that no request of the API does, or does with as many rows, is tried here;
 * api/http_server/test_failing_statements.py tries the requests. Work that only reads, or writes a process's own rows,
 * need only return the failure. The linker wraps the calls (tests/CMakeLists.txt). */

#include "dispatch/scan.h"
#include "dispatch/shards.h"
#include "features/alerts/alerts.h"
#include "features/clock/clock.h"
#include "features/doctor/process_findings.h"
#include "features/figures/figures.h"
#include "features/operations/operations.h"
#include "features/outbox/outbox_store.h"
#include "features/quotas/quotas.h"
#include "features/schedules/schedules.h"
#include "features/tokens/tokens.h"
#include "job/archive/archive.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "store/leases.h"
#include "store/processes.h"
#include "support/failing_calls.h"
#include "support/store_suite.h"
#include "topic/owners.h"
#include "topic/topics.h"

#define MOST    400 /* calls of a work */
#define HOUR_MS INT64_C(3600000)
#define LATE_MS INT64_C(9000000000000)

STORE_SUITE("failing", 0)

/* ---- what fails: of this thread, the n-th call from now on, once ---- */

/* ROOM: memory of an arena, which only mostly is a call for memory; nobody may go on without it. */
enum kind { STATEMENT, ROOM, MEMORY, KINDS };

static _Thread_local unsigned left[KINDS]; /* calls until one fails; 0: none does */
static _Thread_local bool failed;
static _Thread_local const char *failed_call __attribute__((unused));

static inline bool fails(enum kind kind, const char *call)
{
    if (left[kind] == 0 || --left[kind] > 0)
        return false;
    failed = true;
    failed_call = call;
    return true;
}

#define WRAP(name, what, params, args)                                                                                 \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    dt_status __wrap_##name params                                                                                     \
    {                                                                                                                  \
        return fails(STATEMENT, what) ? dt_fail(error, DT_INTERNAL, "the test lets it fail: %.60s", what)              \
                                      : __real_##name args;                                                            \
    }

CALLS_OF_THE_DATABASE(WRAP)

#define WRAP_MEMORY(type, name, params, args)                                                                          \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        return fails(MEMORY, #name) ? NULL : __real_##name args;                                                       \
    }

CALLS_FOR_MEMORY(WRAP_MEMORY)

/* ---- arenas, as far as another file asks them ---- */

__typeof__(dt_arena_alloc) __real_dt_arena_alloc;
__typeof__(dt_arena_alloc) __wrap_dt_arena_alloc;
void *__wrap_dt_arena_alloc(struct dt_arena *arena_of, size_t n)
{
    return fails(ROOM, "dt_arena_alloc") ? NULL : __real_dt_arena_alloc(arena_of, n);
}

__typeof__(dt_arena_copy) __real_dt_arena_copy;
__typeof__(dt_arena_copy) __wrap_dt_arena_copy;
struct dt_str __wrap_dt_arena_copy(struct dt_arena *arena_of, struct dt_str text)
{
    return text.p && fails(ROOM, "dt_arena_copy") ? DT_STR_NONE : __real_dt_arena_copy(arena_of, text);
}

/* ---- works ---- */

struct work {
    const char *name;
    dt_status (*run)(void);
    void (*prepare)(void); /* of a work that changes what callers see; NULL: what the test made serves */
};

/* A work of one call. */
#define WORK(name, ...)                                                                                                \
    static dt_status name(void)                                                                                        \
    {                                                                                                                  \
        return __VA_ARGS__;                                                                                            \
    }

static dt_zone_files *zones;
static struct dt_fire_maker maker;

static void begin(void)
{
    assert_int_equal(dt_zone_files_new(NULL, &zones), DT_OK);
    open_store();
    dt_store_act_as(store, S("somebody")); /* so that events are written as well */
    maker = (struct dt_fire_maker){.store = store, .zones = zones, .arena = &arena};
}

static void end(void)
{
    dt_zone_files_free(zones);
    close_store();
}

/* A number that stands for what callers see of all tables; without times, which are others when a work is done later. */
static int64_t told(bool times)
{
    return sql_number(
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

static void empty_all_tables(void)
{
    mysql_fixture_empty(&arena);
    run_sql("DELETE FROM job_events; DELETE FROM operations; DELETE FROM operation_jobs; DELETE FROM api_tokens; "
            "DELETE FROM alerts; DELETE FROM pop_queue");
}

static void begin_work(const struct work *work)
{
    dt_arena_reset(&arena);
    if (!work->prepare)
        return;
    empty_all_tables();
    work->prepare();
}

/* The n-th call fails. False: the work has fewer. `made` is what the work makes when nothing fails. */
static bool fails_at(const struct work *work, enum kind kind, unsigned n, int64_t made)
{
    begin_work(work);
    const int64_t before = work->prepare ? told(true) : 0;
    failed = false;
    left[kind] = n;
    dt_status status = work->run();
    left[kind] = 0;
    if (!failed)
        OK(status);
    else if (status != DT_OK && work->prepare && told(true) != before)
        fail_msg("%s: call %u failed, and some of it is there: %.200s", work->name, n, failed_call);
    else if (status == DT_OK && (kind != MEMORY || (work->prepare && told(false) != made)))
        fail_msg("%s: call %u failed, and nobody says so: %.200s", work->name, n, failed_call);
    return failed;
}

static void try_all(const struct work *works, size_t n_works)
{
    for (size_t i = 0; i < n_works; i++) {
        begin_work(&works[i]);
        OK(works[i].run());
        const int64_t made = told(false);
        for (enum kind kind = STATEMENT; kind < KINDS; kind++) {
            unsigned n = 1;
            while (n <= MOST && fails_at(&works[i], kind, n, made))
                n++;
            if ((n < (works[i].prepare ? 3 : 2) && kind == STATEMENT) || n > MOST)
                fail_msg("%s has %u calls", works[i].name, n - 1);
            print_message("%s: each of %u %s failed once\n", works[i].name, n - 1,
                          kind == STATEMENT ? "statements" : "calls for memory");
        }
    }
}

#define PLAIN(work)                                                                                                    \
    {                                                                                                                  \
#work, work, NULL                                                                                              \
    }

#define TRY(...)                                                                                                       \
    do {                                                                                                               \
        const struct work works[] = {__VA_ARGS__};                                                                     \
        try_all(works, sizeof(works) / sizeof(*works));                                                                \
    } while (0)

/* ---- many jobs, many results ---- */

static void some_jobs(void)
{
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    job_row(1, "job_key = 'k1'");
    job_row(2, NULL);
    job_row(3, "state = 'dead', next_at = NULL, purge_at = 9000000000000");
    job_row_dispatched(4, 1, 0);
    run_sql("INSERT INTO job_keys (topic, job_key, job_id) VALUES ('orders', 'k1', 1)");
}

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
    job_row_dispatched(5, 1, 0);
    run_sql("UPDATE jobs SET retry = '' WHERE id = 5");
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
    TRY({"new jobs", insert, some_jobs}, {"results", apply, attempts_under_way});
}

/* ---- tokens, schedules ---- */

WORK(waive_tokens, dt_store_tokens_waive(store, &err))

static void nothing(void) {}

static void that_schedule(void)
{
    struct dt_schedule out, hourly = {.name = S("hourly"),
                                      .every_ms = HOUR_MS,
                                      .time_zone = S("Europe/Berlin"),
                                      .overlap = DT_OVERLAP_CANCEL,
                                      .job = {.topic = S("orders"), .payload = S("1"), .digest = "one"}};
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    OK(dt_store_schedule_put(&maker, &(struct dt_schedule_put){.schedule = &hourly}, &out, &err));
}

static void a_fire_is_due_while_the_last_one_is_under_way(void)
{
    that_schedule();
    run_sql("UPDATE schedules SET anchor_at = anchor_at - 3600000; UPDATE schedule_fires SET next_fire_at = "
            "next_fire_at - 3600000, look_at = 1");
}

static void two_fires_wait(void)
{
    that_schedule();
    for (long long id = 901; id <= 902; id++) {
        job_row(id, "job_key = CONCAT('hourly@', " DT_SQL_NOW_MS " + 60000 * (id - 900))");
        run_sql("INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs WHERE id = %lld",
                id);
    }
}

WORK(make_fires, dt_store_make_fires(&maker, &(struct dt_fires_made){0}, &err))
WORK(pause_schedule, dt_store_schedule_pause(&maker, S("hourly"), true, &(struct dt_schedule){0}, &err))
WORK(delete_schedule, dt_store_schedule_delete(&maker, S("hourly"), true, &err))

TEST(tokens_and_a_schedule_fail_with_each_of_their_statements)
{
    TRY({"the rule that no token is asked for", waive_tokens, nothing},
        {"fires of a schedule", make_fires, a_fire_is_due_while_the_last_one_is_under_way},
        {"its pause while two fires wait", pause_schedule, two_fires_wait},
        {"its end with them", delete_schedule, two_fires_wait});
}

/* ---- reads, and what a process keeps of itself ---- */

static void fill(void)
{
    empty_all_tables();
    some_jobs();
}

#define FILLED_TEST(name) TEST_WITH(name, fill, NULL)

WORK(job, dt_store_get(store, 2, &arena, &(struct dt_job){0}, &err))
WORK(attempts, dt_store_attempts(store, &(struct dt_attempt_filter){.job_id = 4, .limit = 10}, &arena,
                                 &(struct dt_attempt_list){0}, &err))
WORK(key, dt_store_find_key(store, S("orders"), S("k1"), &(int64_t){0}, &err))
WORK(counts, dt_store_topic_counts(store, S("orders"), &(struct dt_topic_counts){0}, &err))
WORK(topic, dt_store_topic_get(store, S("orders"), &arena, &(struct dt_topic){0}, &err))
WORK(loads, dt_store_topic_loads(store, &arena, &(struct dt_topic_load *){0}, &(size_t){0}, &err))
WORK(overdue, dt_store_topics_overdue(store, LATE_MS, 10, &arena, &(struct dt_topic_overdue *){0}, &(size_t){0}, &err))
WORK(pending, dt_store_pending(store, &arena, &(struct dt_topic_pending *){0}, &(size_t){0}, &err))
WORK(in_flight, dt_store_in_flight(store, 4, 0, &(bool){0}, &err))
WORK(tokens, dt_store_token_list(store, &arena, &(struct dt_token *){0}, &(size_t){0},
                                 &(enum dt_token_rule){DT_TOKENS_ASKED}, &err))
WORK(usage, dt_store_usage(store, 0, &arena, &(struct dt_usage *){0}, &(size_t){0}, &err))

FILLED_TEST(reads_of_jobs_and_topics_fail_with_each_of_their_calls)
{
    TRY(PLAIN(job), PLAIN(attempts), PLAIN(key), PLAIN(counts), PLAIN(topic), PLAIN(loads), PLAIN(overdue),
        PLAIN(pending), PLAIN(in_flight), PLAIN(tokens), PLAIN(usage));
}

/* ---- operations, schedules, alerts ---- */

WORK(operations, dt_store_operation_list(store, INT64_MAX, (struct dt_page_end){10, 0}, &arena,
                                         &(struct dt_operation_list){0}, &err))
WORK(next_operation, dt_store_operation_turns(store, &arena, &(struct dt_operation_turn *){0}, &(size_t){0}, &err))
WORK(schedules, dt_store_schedule_list(store, DT_STR_NONE, (struct dt_page_end){10, 0}, &arena,
                                       &(struct dt_schedule_list){0}, &err))
WORK(time_zones, dt_store_schedule_zones(store, &arena, &(struct dt_schedule_zones){0}, &err))
WORK(alerts, dt_store_alerts(store, 0, 10, &arena, &(struct dt_alert_list){0}, &err))
WORK(messages, dt_store_messages(store, &(struct dt_message_page){.kind = DT_MESSAGE_ALERT}, &arena, &err))
WORK(alert_topics, dt_store_alert_topics(store, true, &arena, &(struct dt_alert_topics){0}, &err))

FILLED_TEST(reads_of_schedules_operations_and_the_inbox_fail_with_each_of_their_calls)
{
    TRY(PLAIN(operations), PLAIN(next_operation), PLAIN(schedules), PLAIN(time_zones), PLAIN(alerts), PLAIN(messages),
        PLAIN(alert_topics));
}

/* ---- processes and leases ---- */

static int64_t members;

WORK(join, dt_store_election_join(store, ++members, "a:1", 4000, &err))
WORK(renew, dt_store_election_renew(store, 1, false, &(bool){0}, &err))
WORK(look, dt_store_election_look(store, &(struct dt_election){0}, &err))
WORK(renew_and_look, dt_store_election_renew_and_look(store, 1, false, &(bool){0}, &(struct dt_election){0}, &err))
WORK(take, dt_store_election_take(store, 1, (const int64_t[]){0, 1}, 2, &err))
WORK(release, dt_store_election_release(store, 1, (const int64_t[]){0, 1}, 2, &err))
WORK(leave, dt_store_election_leave(store, 1, &err))
WORK(end_member, dt_store_election_end(store, 1, 0, &err))
WORK(free_leases, dt_store_election_free(store, &err))

FILLED_TEST(a_membership_fails_with_each_of_its_calls)
{
    TRY(PLAIN(join), PLAIN(renew), PLAIN(look), PLAIN(renew_and_look), PLAIN(take), PLAIN(release), PLAIN(leave),
        PLAIN(end_member), PLAIN(free_leases));
}

WORK(beat, dt_store_beat(store, &(struct dt_process){.id = 7, .name = "a:1"}, &err))
WORK(processes, dt_store_processes(store, &arena, &(struct dt_live_process *){0}, &(size_t){0}, &err))
WORK(apis, dt_store_quota_apis(store, &(int64_t){0}, &err))
WORK(findings, dt_store_findings(store, &arena, &(struct dt_process_finding *){0}, &(size_t){0}, &err))
WORK(deaths, dt_store_deaths(store, 3, &(struct dt_deaths){0}, &err))
WORK(installation, dt_store_installation(store, &(struct dt_installation){0}, &err))
WORK(shards,
     dt_store_shards(store, &arena, &(struct dt_shard_info *){0}, &(size_t){0}, &(struct dt_dispatchers){0}, &err))
WORK(server, dt_store_server_settings(store, &(struct dt_server_settings){0}, &err))
WORK(clock_of_tests, dt_store_test_clock(store, &(struct dt_test_clock){0}, &err))
WORK(cursor_key, dt_store_cursor_key(store, (unsigned char[DT_CURSOR_KEY]){0}, &err))
WORK(ids, dt_store_reserve_ids(store, 10, &(int64_t){0}, &err))

FILLED_TEST(reads_of_processes_fail_with_each_of_their_calls)
{
    TRY(PLAIN(beat), PLAIN(processes), PLAIN(apis), PLAIN(findings), PLAIN(deaths), PLAIN(installation), PLAIN(shards),
        PLAIN(server), PLAIN(clock_of_tests), PLAIN(cursor_key), PLAIN(ids));
}

/* ---- upkeep ---- */

WORK(promote, dt_store_promote(store, LATE_MS, 10, &(size_t){0}, &err))
WORK(owners, dt_store_topic_owners_update(store, &err))
WORK(free_keys, dt_store_free_keys(store, LATE_MS, 10, &(size_t){0}, &err))
WORK(senders, dt_store_senders(store, DT_MESSAGE_DEAD, &arena, &(struct dt_senders){0}, &err))
WORK(delete_messages, dt_store_delete_messages(store, (const int64_t[]){1, 2}, 2, &err))
WORK(count_due, dt_store_count_due(store, 0, LATE_MS, (int64_t[DT_SHARDS_MAX]){0}, &err))
WORK(due_nth, dt_store_due_nth(store, 0, LATE_MS, 1, &(int64_t){0}, &err))
WORK(expire_usage, dt_store_usage_expire(store, LATE_MS, &err))
WORK(revive, dt_store_topics_revive(store, &arena, &(size_t){0}, &err))

FILLED_TEST(housekeeping_of_tables_fails_with_each_of_its_calls)
{
    TRY(PLAIN(promote), PLAIN(free_keys), PLAIN(senders), PLAIN(delete_messages), PLAIN(count_due), PLAIN(due_nth),
        PLAIN(expire_usage), PLAIN(revive), PLAIN(owners));
}

SUITE(begin, end)
