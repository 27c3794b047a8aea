/* What is found from what was read: each finding at its bound, with its words, the gravest first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "doctor/findings.h"

#define S(text) DT_STR_LIT(text)
#define NOW     INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */
#define DAY_MS  INT64_C(86400000)

static char found[2000];

static void hear(void *arg, enum dt_finding_kind kind, const char *subject, const char *detail)
{
    size_t n = strlen(found);
    (void)arg;
    snprintf(found + n, sizeof(found) - n, "%s%s|%s|%s", n ? "\n" : "", dt_finding_kinds[kind].name, subject, detail);
}

static struct dt_shards_view shards;
static struct dt_live_process dispatcher = {
    .dispatcher = true, .name = {"d:1", 3}, .version = {DUETIME_VERSION, sizeof(DUETIME_VERSION) - 1}};

/* An installation without any finding. */
static struct dt_examined fine(void)
{
    shards.n = 0;
    return (struct dt_examined){
        .now_ms = NOW,
        .host_ms = NOW,
        .mysql = {.flush = 1, .has_binlog = true, .sync_binlog = 1, .now_ms = NOW, .packet = 16777216},
        .semi_sync = {.waits = true, .before_seen = true, .alone_ms = 10 * DAY_MS},
        .processes = &dispatcher,
        .n_processes = 1,
        .shards = &shards};
}

static void expect(const struct dt_examined *examined, const char *wanted)
{
    found[0] = '\0';
    dt_findings_judge(examined, hear, NULL);
    assert_string_equal(found, wanted);
}

static void a_sound_installation_has_no_finding(void **state)
{
    struct dt_examined e = fine();
    (void)state;
    expect(&e, "");
    e.replicas = true;
    expect(&e, "");
    e.mysql.has_binlog = false;
    e.mysql.sync_binlog = 0;
    expect(&e, "");
}

static void settings_of_mysql_that_may_lose_commits_are_told(void **state)
{
    struct dt_examined e = fine();
    (void)state;
    e.mysql.flush = 2;
    e.mysql.sync_binlog = 0;
    expect(&e, "mysql-flush|mysql|innodb_flush_log_at_trx_commit is 2\nmysql-binlog|mysql|sync_binlog is 0");
}

static void a_server_that_takes_small_statements_only_is_told(void **state)
{
    struct dt_examined e = fine();
    (void)state;
    e.mysql.packet = 65536;
    e.payload_max = 40960;
    expect(&e, "mysql-packet|mysql|max_allowed_packet is 65536, and payloads may have 40960 bytes");
}

static void tables_whose_numbers_end_are_told(void **state)
{
    struct dt_examined e = fine();
    static const struct dt_ending_numbers ending[] = {{{"job_inbox", 9}, {"9223372036854775807", 19}}};
    (void)state;
    e.ending = ending;
    e.n_ending = 1;
    expect(&e, "mysql-numbers|job_inbox|its next AUTO_INCREMENT is 9223372036854775807, the last is "
               "9223372036854775807");
}

static void replicas_that_commits_do_not_wait_for_are_told_where_there_are_any(void **state)
{
    struct dt_examined e = fine();
    (void)state;
    e.semi_sync.alone_ms = DAY_MS - 1;
    expect(&e, "");
    e.replicas = true;
    expect(&e, "mysql-semi-sync|mysql|without a replica the primary goes on alone after 86399999 ms");
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

static void clocks_may_differ_by_a_second_and_by_what_the_question_took(void **state)
{
    struct dt_examined e = fine();
    (void)state;
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

static void a_redis_that_is_away_or_drops_entries_is_told(void **state)
{
    struct dt_examined e = fine();
    const struct dt_index_memory redis[] = {{"a:1", "noeviction"}, {"b:2", "allkeys-lru"}, {"c:3", ""}};
    (void)state;
    e.redis = redis;
    e.n_redis = 3;
    expect(&e, "redis-policy|b:2|maxmemory-policy is allkeys-lru");
    e.redis_trouble = "b:2 does not answer";
    expect(&e, "redis-policy|b:2|maxmemory-policy is allkeys-lru\nredis-away|redis|b:2 does not answer");
}

static void processes_of_other_versions_without_redis_or_none_that_dispatches_are_told(void **state)
{
    struct dt_examined e = fine();
    const struct dt_live_process processes[] = {
        {.name = S("a:1"), .version = S("0.0.9"), .index_down = S("*")},
        {.name = S("b:2"), .version = S(DUETIME_VERSION), .index_down = S("r:6")}};
    (void)state;
    e.processes = processes;
    e.n_processes = 2;
    expect(&e, "no-dispatcher|dispatchers|none was seen for four seconds\n"
               "index-incomplete|a:1|it cannot write to any Redis\nindex-incomplete|b:2|it cannot write to r:6\n"
               "process-versions|a:1|it is of version 0.0.9, the API that answers of " DUETIME_VERSION);
    e.n_processes = 0;
    expect(&e, "no-dispatcher|dispatchers|none was seen for four seconds");
}

static void what_dispatchers_told_is_passed_on(void **state)
{
    struct dt_examined e = fine();
    const struct dt_process_finding told[] = {
        {S("kafka-topic-missing"), S("duetime.ledger"), S("it is not there"), S("d:1")},
        {S("of another version"), S("x"), S("y"), S("d:1")}};
    (void)state;
    e.told = told;
    e.n_told = 2;
    e.inbox_errors = 3;
    expect(&e, "kafka-topic-missing|duetime.ledger|it is not there (seen by d:1)\n"
               "inbox-errors|job_inbox|3 rows are kept with an error");
}

static void a_certificate_is_told_of_from_thirty_days_before_its_end(void **state)
{
    struct dt_examined e = fine();
    (void)state;
    e.shown_ends_ms = NOW + 30 * DAY_MS;
    expect(&e, "");
    e.shown_ends_ms = NOW + 30 * DAY_MS - 1000;
    expect(&e,
           "certificate-file-ends|http.tls_cert|the certificate that is shown to callers of the API ends in 29 days");
    e.shown_ends_ms = NOW;
    expect(&e,
           "certificate-file-ends|http.tls_cert|the certificate that is shown to callers of the API ends in 0 days");
    e.shown_ends_ms = NOW - 1000;
    expect(&e, "certificate-file-ends|http.tls_cert|the certificate that is shown to callers of the API has ended");
}

static void shards_that_are_halted_led_by_nobody_or_wait_are_told(void **state)
{
    struct dt_examined e = fine();
    struct dt_view view = {.map = {.shards = 3}};
    struct dt_shard_info v[] = {{.shard = 0, .owner = S("d:1"), .waiting = S("kafka"), .detail = S("no answer")},
                                {.shard = 1},
                                {.shard = 2, .halted = S("two batches")},
                                {.shard = 3}}; /* of no number any more */
    (void)state;
    shards.shards = v;
    shards.n = 4;
    e.shards = &shards;
    e.view = &view;
    found[0] = '\0';
    dt_findings_judge(&e, hear, NULL);
    assert_non_null(strstr(
        found, "shard-halted|shard 2|two batches\nshard-without-leader|shard 1|no process that lives leads it\n"));
    assert_non_null(strstr(found, "shard-waits|shard 0|it waits for kafka: no answer"));
    assert_null(strstr(found, "shard 3"));
    assert_null(strstr(found, "leader|shard 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_installation_has_no_finding),
        cmocka_unit_test(settings_of_mysql_that_may_lose_commits_are_told),
        cmocka_unit_test(a_server_that_takes_small_statements_only_is_told),
        cmocka_unit_test(tables_whose_numbers_end_are_told),
        cmocka_unit_test(replicas_that_commits_do_not_wait_for_are_told_where_there_are_any),
        cmocka_unit_test(clocks_may_differ_by_a_second_and_by_what_the_question_took),
        cmocka_unit_test(a_redis_that_is_away_or_drops_entries_is_told),
        cmocka_unit_test(processes_of_other_versions_without_redis_or_none_that_dispatches_are_told),
        cmocka_unit_test(what_dispatchers_told_is_passed_on),
        cmocka_unit_test(a_certificate_is_told_of_from_thirty_days_before_its_end),
        cmocka_unit_test(shards_that_are_halted_led_by_nobody_or_wait_are_told),
    };
    return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
