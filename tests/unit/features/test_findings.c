/* What is found from what was read: each finding at its bound, with its words, the gravest first. */

#include "support/suite.h"

#include "dispatch/shards.h"
#include "rest/doctor_rest.h"
#include "store/processes.h"

#define S(text) DT_STR_LIT(text)
#define NOW     INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */
#define DAY_MS  INT64_C(86400000)

static char found[2000], action[300];

static void hear(void *, const struct dt_finding *f)
{
    size_t n = strlen(found);
    snprintf(found + n, sizeof(found) - n, "%s%s%s|%s|%s", n ? "\n" : "", f->cause == DT_FINDING_KINDS ? "" : "> ",
             dt_finding_kinds[f->kind].name, f->subject, f->detail);
    snprintf(action, sizeof(action), "%s", f->action);
}

static struct dt_view view;
static struct dt_waiting waiting;
static struct dt_shards_view shards;
static struct dt_live_process dispatcher = {
    .dispatcher = true, .name = {"d:1", 3}, .version = {DUETIME_VERSION, sizeof(DUETIME_VERSION) - 1}};

/* An installation without any finding. */
static struct dt_examined fine(void)
{
    shards = (struct dt_shards_view){.dispatchers = {.n = 1, .now_ms = NOW}};
    view = (struct dt_view){.map = {.shards = 4}, .installation.generation = 1};
    waiting = (struct dt_waiting){.view = &view, .shards = &shards, .now_ms = NOW};
    return (struct dt_examined){
        .now_ms = NOW,
        .host_ms = NOW,
        .mysql = {.flush = 1, .has_binlog = true, .sync_binlog = 1, .now_ms = NOW, .packet = 16777216},
        .semi_sync = {.waits = true, .before_seen = true, .alone_ms = 10 * DAY_MS},
        .processes = &dispatcher,
        .n_processes = 1,
        .late_ms = 60000,
        .waiting = &waiting};
}

static void expect(const struct dt_examined *examined, const char *wanted)
{
    found[0] = '\0';
    dt_findings_judge(examined, hear, NULL);
    assert_string_equal(found, wanted);
}

TEST(a_sound_installation_has_no_finding)
{
    struct dt_examined e = fine();
    expect(&e, "");
    e.replicas = true;
    expect(&e, "");
    e.mysql.has_binlog = false;
    e.mysql.sync_binlog = 0;
    expect(&e, "");
}

TEST(asynchronous_replicas_are_reported)
{
    struct dt_examined e = fine();
    e.semi_sync.alone_ms = DAY_MS - 1;
    expect(&e, "");
    e.replicas = true;
    expect(&e, "mysql-semi-sync|mysql|if no replica answers, commits continue without one after 86399999 ms");
    e.semi_sync.alone_ms = DAY_MS;
    expect(&e, "");
    e.semi_sync.before_seen = false;
    expect(&e, "mysql-semi-sync|mysql|commits wait for a replica after others have seen them: the wait point is not "
               "AFTER_SYNC");
    e.semi_sync.waits = false;
    expect(&e, "mysql-semi-sync|mysql|commits wait for no replica");
    e.replicas = false;
    expect(&e, "");
}

TEST(clocks_may_differ_by_a_second_plus_the_round_trip)
{
    struct dt_examined e = fine();
    e.took_ms = 7;
    e.host_ms = NOW + 1007;
    expect(&e, "");
    e.host_ms = NOW + 1008;
    expect(&e, "api-clock|mysql|the API's clock is 1008 ms ahead of MySQL's");
    e.host_ms = NOW - 1007;
    expect(&e, "");
    e.host_ms = NOW - 1008;
    expect(&e, "api-clock|mysql|the API's clock is 1008 ms behind MySQL's");
}

TEST(a_redis_that_is_down_or_evicts_entries_is_reported)
{
    struct dt_examined e = fine();
    const struct dt_index_memory redis[] = {{"a:1", "noeviction"}, {"b:2", "allkeys-lru"}, {"c:3", ""}};
    e.redis = redis;
    e.n_redis = 3;
    expect(&e, "redis-policy|b:2|maxmemory-policy is allkeys-lru");
    e.redis_trouble = "b:2 does not answer";
    expect(&e, "redis-away|redis|b:2 does not answer\nredis-policy|b:2|maxmemory-policy is allkeys-lru");
}

TEST(mixed_versions_processes_without_redis_and_missing_dispatchers_are_reported)
{
    struct dt_examined e = fine();
    const struct dt_live_process processes[] = {
        {.name = S("a:1"), .version = S("0.0.9"), .index_down = S("*")},
        {.name = S("b:2"), .version = S(DUETIME_VERSION), .index_down = S("r:6")}};
    e.processes = processes;
    e.n_processes = 2;
    shards.dispatchers.n = 0;
    expect(&e, "no-dispatcher|dispatchers|no dispatcher was seen for four seconds\n"
               "index-incomplete|a:1|it cannot write to any Redis\nindex-incomplete|b:2|it cannot write to r:6\n"
               "process-versions|a:1|it has version 0.0.9, the API that answers has " DUETIME_VERSION);
    e.n_processes = 0;
    expect(&e, "no-dispatcher|dispatchers|no dispatcher was seen for four seconds");
}

TEST(findings_of_dispatchers_are_reported)
{
    struct dt_examined e = fine();
    const struct dt_process_finding told[] = {
        {S("kafka-topic-missing"), S("duetime.ledger"), S("it is not there"), S("d:1"), NOW},
        {S("of another version"), S("x"), S("y"), S("d:1"), NOW}};
    e.told = told;
    e.n_told = 2;
    e.inbox_errors = 3;
    expect(&e, "kafka-topic-missing|duetime.ledger|it is not there (seen by d:1)\n"
               "inbox-errors|job_inbox|3 rows have an error");
}

TEST(a_certificate_is_reported_thirty_days_before_it_expires)
{
    struct dt_examined e = fine();
    e.shown_ends_ms = NOW + 30 * DAY_MS;
    expect(&e, "");
    e.shown_ends_ms = NOW + 30 * DAY_MS - 1000;
    expect(&e, "certificate-file-ends|http.tls_cert|the served certificate of the API expires in 29 days");
    e.shown_ends_ms = NOW;
    expect(&e, "certificate-file-ends|http.tls_cert|the served certificate of the API expires in 0 days");
    e.shown_ends_ms = NOW - 1000;
    expect(&e, "certificate-file-ends|http.tls_cert|the served certificate of the API has expired");
}

/* Four shards that a dispatcher leads. */
static struct dt_shard_info *led_shards(void)
{
    static struct dt_shard_info v[5];
    for (unsigned i = 0; i < 5; i++)
        v[i] = (struct dt_shard_info){.shard = i, .owner = S("d:1"), .seen_at_ms = NOW, .generation = 1};
    shards.shards = v;
    shards.n = 4;
    return v;
}

TEST(a_shard_is_a_finding_when_it_is_halted_leaderless_silent_or_moving)
{
    struct dt_examined e = fine();
    struct dt_shard_info *v = led_shards();
    expect(&e, "");
    v[1].owner = DT_STR_NONE;
    v[2].halted = S("two batches");
    v[3].seen_at_ms = NOW - 15001;
    shards.n = 5; /* the last one is of no number any more */
    expect(&e, "shard-halted|shard 2|two batches\nshard-without-leader|shard 1|no running process leads it\n"
               "shard-without-leader|shard 3|its leader has not reported for 15 s\n"
               "shards-moving|shard 4|it does not match the new number of shards yet");
}

TEST(findings_are_listed_under_no_dispatcher_when_it_causes_them)
{
    struct dt_examined e = fine();
    struct dt_shard_info *v = led_shards();
    v[0].owner = v[1].owner = v[2].owner = v[3].owner = DT_STR_NONE;
    shards.n = 2;
    shards.dispatchers.n = 0;
    e.mysql.flush = 2;
    expect(&e, "no-dispatcher|dispatchers|no dispatcher was seen for four seconds\n"
               "> shard-without-leader|shard 0|no running process leads it\n"
               "> shard-without-leader|shard 1|no running process leads it\n"
               "mysql-flush|mysql|innodb_flush_log_at_trx_commit is 2");
}

TEST(a_shard_that_is_left_alone_after_deaths_is_listed_under_the_assertion)
{
    struct dt_examined e = fine();
    struct dt_shard_info *v = led_shards();
    const struct dt_process_finding told = {S("assertion"), S("shard 0, fence_store.c:9"), S("n == 4"), S("d:1"), NOW};
    v[0].owner = DT_STR_NONE;
    shards.n = 2;
    e.told = &told;
    e.n_told = 1;
    expect(&e, "assertion|shard 0, fence_store.c:9|n == 4 (seen by d:1)\n"
               "> shard-without-leader|shard 0|no running process leads it");
}

TEST(findings_are_listed_under_a_server_that_is_away_when_it_causes_them)
{
    struct dt_examined e = fine();
    struct dt_shard_info *v = led_shards();
    const struct dt_process_finding told = {S("kafka-away"), S("kafka"), S("timed out"), S("d:1"), NOW};
    shards.n = 2;
    v[0].waiting = S("kafka");
    v[0].detail = S("no answer");
    v[1].waiting = S("redis");
    expect(&e, "shard-waits|shard 0|it waits for kafka: no answer\nshard-waits|shard 1|it waits for redis\n"
               "> index-incomplete|shard 1|its set in Redis is being filled, or its leader cannot reach Redis");
    e.told = &told;
    e.n_told = 1;
    e.redis_trouble = "refused";
    expect(&e, "kafka-away|kafka|timed out (seen by d:1)\n> shard-waits|shard 0|it waits for kafka: no answer\n"
               "redis-away|redis|refused\n"
               "> index-incomplete|shard 1|its set in Redis is being filled, or its leader cannot reach Redis\n"
               "> shard-waits|shard 1|it waits for redis");
}

TEST(kafka_away_is_a_finding_when_dispatchers_wait_for_kafka_before_they_elect_leaders)
{
    struct dt_examined e = fine();
    struct dt_shard_info *v = led_shards();
    v[0].owner = DT_STR_NONE;
    shards.n = 1;
    shards.dispatchers.waits_kafka = true;
    expect(&e, "kafka-away|kafka|dispatchers wait for it before they elect leaders\n"
               "> shard-waits|shard 0|it waits for kafka");
}

TEST(the_action_of_a_finding_names_its_subject)
{
    struct dt_examined e = fine();
    struct dt_process_finding told = {S("kafka-min-isr"), S("orders"), S("2"), S("d:1"), NOW};
    e.told = &told;
    e.n_told = 1;
    expect(&e, "kafka-min-isr|orders|2 (seen by d:1)");
    assert_non_null(strstr(action, "--entity-name orders --add-config"));
    led_shards()[2].halted = S("why");
    e.n_told = 0;
    expect(&e, "shard-halted|shard 2|why");
    assert_non_null(strstr(action, "dt_clear_halt(2, 'resend', NULL)"));
}
