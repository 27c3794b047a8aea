/* What a process reads of MySQL, and what it keeps there of itself: each call of the database in it fails once, and each
 * for memory, and the failure is told. */

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
#include "store/leases.h"
#include "store/processes.h"
#include "support/rigs/failing_rig.h"
#include "support/store_suite.h"
#include "topic/owners.h"
#include "topic/topics.h"

#define MOST    400 /* calls of a work */
#define LATE_MS INT64_C(9000000000000)

STORE_SUITE("upkeep", 0)

struct work {
    const char *name;
    dt_status (*run)(void);
};

static void fill(void)
{
    open_store();
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    job_row(&fx, 1, "job_key = 'k1'");
    job_row(&fx, 2, NULL);
    job_row(&fx, 3, "state = 'dead', next_at = NULL, purge_at = 9000000000000");
    job_row_dispatched(&fx, 4, 1, 0);
    mysql_fixture_run(&fx, "INSERT INTO job_keys (topic, job_key, job_id) VALUES ('orders', 'k1', 1)");
}

/* The n-th call fails. False: the work has fewer. */
static bool fails_at(const struct work *work, enum kind kind, unsigned n)
{
    dt_arena_reset(&arena);
    failed = false;
    left[kind] = n;
    dt_status status = work->run();
    left[kind] = 0;
    if (!failed && status != DT_OK)
        fail_msg("%s: %s: %s", work->name, dt_status_name(status), err.text);
    if (failed && kind != MEMORY && status == DT_OK)
        fail_msg("%s: call %u failed, and nobody says so: %.200s", work->name, n, failed_call);
    return failed;
}

static void try_all(const struct work *works, size_t n_works)
{
    for (size_t i = 0; i < n_works; i++)
        for (enum kind kind = STATEMENT; kind < KINDS; kind++) {
            unsigned n = 1;
            while (n <= MOST && fails_at(&works[i], kind, n))
                n++;
            if ((n < 2 && kind == STATEMENT) || n > MOST)
                fail_msg("%s has %u calls", works[i].name, n - 1);
        }
}

#define TRY(...)                                                                                                       \
    do {                                                                                                               \
        const struct work works[] = {__VA_ARGS__};                                                                     \
        try_all(works, sizeof(works) / sizeof(*works));                                                                \
    } while (0)

/* A work of one call, whose outcome nobody looks at. */
#define WORK(name, ...)                                                                                                \
    static dt_status name(void)                                                                                        \
    {                                                                                                                  \
        return __VA_ARGS__;                                                                                            \
    }

/* ---- jobs and topics ---- */

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

TEST(reads_of_jobs_and_topics_fail_with_each_of_their_calls)
{
    TRY({"a job", job}, {"its attempts", attempts}, {"a key", key}, {"counts of a topic", counts}, {"a topic", topic},
        {"loads of topics", loads}, {"overdue topics", overdue}, {"pending jobs", pending}, {"in flight", in_flight},
        {"tokens", tokens}, {"usage", usage});
}

/* ---- operations, schedules, alerts ---- */

WORK(operations, dt_store_operation_list(store, INT64_MAX, (struct dt_page_end){10, 0}, &arena,
                                         &(struct dt_operation_list){0}, &err))
WORK(next_operation, dt_store_operation_turns(store, &arena, &(struct dt_operation_turn *){0}, &(size_t){0}, &err))
WORK(schedules, dt_store_schedule_list(store, DT_STR_NONE, (struct dt_page_end){10, 0}, &arena,
                                       &(struct dt_schedule_list){0}, &err))
WORK(zones, dt_store_schedule_zones(store, &arena, &(struct dt_schedule_zones){0}, &err))
WORK(alerts, dt_store_alerts(store, 0, 10, &arena, &(struct dt_alert_list){0}, &err))
WORK(messages, dt_store_messages(store, &(struct dt_message_page){.kind = DT_MESSAGE_ALERT}, &arena, &err))
WORK(alert_topics, dt_store_alert_topics(store, true, &arena, &(struct dt_alert_topics){0}, &err))

TEST(reads_of_schedules_operations_and_the_inbox_fail_with_each_of_their_calls)
{
    TRY({"operations", operations}, {"the next operation", next_operation}, {"schedules", schedules}, {"zones", zones},
        {"alerts", alerts}, {"messages of alerts", messages}, {"alerts of topics", alert_topics});
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

TEST(a_membership_fails_with_each_of_its_calls)
{
    TRY({"joining", join}, {"a renewal", renew}, {"a look", look}, {"both", renew_and_look}, {"taking", take},
        {"giving back", release}, {"leaving", leave}, {"the end of a member", end_member},
        {"freeing leases", free_leases});
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

TEST(reads_of_processes_fail_with_each_of_their_calls)
{
    TRY({"a beat", beat}, {"processes", processes}, {"APIs", apis}, {"findings", findings}, {"deaths", deaths},
        {"the installation", installation}, {"shards", shards}, {"the server", server},
        {"the clock of tests", clock_of_tests}, {"the key of cursors", cursor_key}, {"ids", ids});
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

TEST(housekeeping_of_tables_fails_with_each_of_its_calls)
{
    TRY({"promotion", promote}, {"keys that are free", free_keys}, {"a look at the outbox", senders},
        {"what was sent", delete_messages}, {"what is due", count_due}, {"the n-th that is due", due_nth},
        {"usage of old days", expire_usage}, {"topics that got a job", revive}, {"the owners of topics", owners});
}

SUITE(fill, close_store)
