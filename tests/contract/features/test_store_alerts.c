/* Alerts on a real server: which figures they are judged by, how they begin and end, and what becomes of their messages. */

#include "features/alerts/alerts.h"
#include "support/store_suite.h"
#include "topic/topics.h"

#define FIGURE(watched, kind) ((watched).figures[(kind)-DT_ALERT_TOPIC_KINDS - 1])

STORE_SUITE("alerts", 2)

enum { US = 7, OTHER, API1, API2 }; /* processes that live: two dispatchers, two APIs */

static void begin(void)
{
    empty_tables();
    static const char *const tables[] = {"alerts",      "messages",     "processes", "attempts",
                                         "shard_stats", "count_audits", "job_inbox", "alert_judge"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        run_sql("DELETE FROM %s", tables[i]);
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    run_sql("INSERT INTO processes (id, kind, name, started_at, seen_at) VALUES (7, 'dispatcher', 'h:7', 1, " SQL_NOW
            " + 60000), (8, 'dispatcher', 'h:8', 1, " SQL_NOW " + 60000), (9, 'api', 'h:9', 1, " SQL_NOW
            " + 60000), (10, 'api', 'h:10', 1, " SQL_NOW " + 60000)");
    struct dt_alert_watched now;
    OK(dt_store_watch_alerts(store, US, &now, &err));
}

#define FRESH_TEST(name) TEST_WITH(name, begin, NULL)

static int64_t number(const char *sql)
{
    return sql_number("%s", sql);
}

/* ---- the installation's figures ---- */

static struct dt_alert_watched watched_now(void)
{
    struct dt_alert_watched now;
    OK(dt_store_watch_alerts(store, US, &now, &err));
    assert_true(now.ours);
    return now;
}

FRESH_TEST(missing_parts_of_an_installation_are_counted)
{
    run_sql("UPDATE shards SET owner = 'h:7'");
    run_sql("UPDATE processes SET leads = '0,1' WHERE id = 7");
    struct dt_alert_watched now = watched_now();
    for (int i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
        assert_int_equal(now.figures[i], 0);

    run_sql("UPDATE shards SET halted = 'restored' WHERE shard = 1");
    run_sql("UPDATE processes SET leads = '1', waits = 'kafka,redis', index_down = 'r:1' WHERE id = 7");
    run_sql("INSERT INTO shard_stats (shard, seen_at, epoch) VALUES (0, " SQL_NOW ", 1)");
    run_sql("INSERT INTO job_inbox (topic, delay_ms) VALUES ('orders', 1), ('orders', 1); UPDATE job_inbox SET error = "
            "'no'");
    run_sql("INSERT INTO count_audits (piece, version, audited_at, jobs, corrected, found) VALUES (0, 1, 1, 9, 7, 0), "
            "(1, 1, 1, 9, 7, 3)");
    now = watched_now();
    assert_int_equal(FIGURE(now, DT_ALERT_SHARD_HALTED), 1);
    assert_int_equal(FIGURE(now, DT_ALERT_NO_LEADER), 1); /* shard 0; a halted one has none, and is told of as such */
    assert_int_equal(FIGURE(now, DT_ALERT_KAFKA_UNWRITABLE), 1);
    assert_int_equal(FIGURE(now, DT_ALERT_INDEX_INCOMPLETE), 2); /* a process, and a shard whose set is not whole */
    assert_int_equal(FIGURE(now, DT_ALERT_INBOX_ERRORS), 2);
    assert_int_equal(FIGURE(now, DT_ALERT_AUDIT_CORRECTED), 3);
}

/* ---- the lease ---- */

static void dies(int64_t process)
{
    run_sql("UPDATE processes SET seen_at = " SQL_NOW " - 4001 WHERE id = %lld", (long long)process);
}

static struct dt_alert_watched look(int64_t process)
{
    struct dt_alert_watched now;
    OK(dt_store_watch_alerts(store, process, &now, &err));
    return now;
}

static bool judges(int64_t process)
{
    return look(process).ours;
}

FRESH_TEST(one_process_judges_alerts_as_long_as_it_lives)
{
    assert_false(judges(OTHER));
    assert_false(judges(API1));
    assert_true(judges(US));
    assert_int_equal(look(US).lease_ms, 0);
    assert_int_equal(look(OTHER).lease_ms, 4000);
    run_sql("UPDATE processes SET seen_at = " SQL_NOW " - 2500 WHERE id = 7");
    assert_in_range(look(OTHER).lease_ms, 0, 1500);
    dies(US);
    assert_true(judges(OTHER));
    run_sql("UPDATE processes SET seen_at = " SQL_NOW " + 60000");
    assert_false(judges(US));
    assert_int_equal(look(11).lease_ms, 0); /* nothing says that it lives */
}

FRESH_TEST(an_api_judges_while_no_dispatcher_lives)
{
    struct dt_alert_watched now;
    assert_int_equal(FIGURE(watched_now(), DT_ALERT_NO_DISPATCHER), 0);
    dies(US);
    dies(OTHER);
    run_sql("DELETE FROM alert_judge"); /* a row that was deleted is written again */
    now = look(API1);
    assert_true(now.ours && FIGURE(now, DT_ALERT_NO_DISPATCHER) == 1);
    assert_false(judges(API2));
    run_sql("UPDATE processes SET seen_at = " SQL_NOW " + 60000");
    assert_true(judges(API1));
    assert_true(judges(OTHER));
    assert_false(judges(API1));
    assert_false(judges(11)); /* nothing says that it lives */
}

static bool from_dead(int64_t process)
{
    const struct dt_alert_watched now = look(process);
    return now.ours && now.from_dead;
}

FRESH_TEST(a_living_judge_finishes_its_messages_after_it_lost_the_lease)
{
    run_sql("UPDATE alert_judge SET process = 9");
    assert_false(from_dead(US)); /* from an API that lives */
    assert_false(from_dead(US)); /* it has the lease */
    dies(US);
    assert_true(from_dead(OTHER));
    assert_false(from_dead(OTHER));
    run_sql("DELETE FROM alert_judge");
    assert_true(from_dead(OTHER));
}

FRESH_TEST(a_topic_that_changes_is_noticed)
{
    const struct dt_alert_watched was = watched_now();
    OK(dt_store_topic_ensure(store, S("another"), NULL, &err));
    assert_true(watched_now().topics_version > was.topics_version);
}

FRESH_TEST(topics_with_alert_settings_are_read)
{
    struct dt_alert_topics topics;
    run_sql("UPDATE topics SET alerts = '{\"dead\":1}' WHERE name = 'orders'");
    OK(dt_store_topic_ensure(store, S("silent"), NULL, &err));
    OK(dt_store_alert_topics(store, false, &arena, &topics, &err));
    assert_int_equal(topics.n, 1);
    assert_true(dt_str_is(topics.v[0].name, "orders") && dt_str_is(topics.v[0].alerts, "{\"dead\":1}"));
    OK(dt_store_alert_topics(store, true, &arena, &topics, &err));
    assert_int_equal(topics.n, number("SELECT COUNT(*) FROM topics"));
}

/* ---- the figures of topics ---- */

FRESH_TEST(counters_include_live_and_archived_jobs)
{
    struct dt_alert_counts counts;
    int64_t dead = 0;
    run_sql("INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched, dead) VALUES ('orders', 1, 1, 5, 2, "
            "1), ('orders', 2, 1, -1, 1, 1), ('others', 1, 1, 9, 9, 9)");
    run_sql("INSERT INTO history_counts (topic, state, part, jobs) VALUES ('orders', 'dead', 20990101, 4), ('orders', "
            "'succeeded', 20990101, 7)");
    OK(dt_store_alert_counts(store, S("[\"orders\",\"none\"]"), &arena, &counts, &err));
    assert_int_equal(counts.n, 2);
    for (size_t i = 0; i < counts.n; i++)
        dead += counts.v[i].dead;
    assert_int_equal(dead, 6);
    assert_members(counts.v[0], (scheduled, 4), (dispatched, 3));
    run_sql("DELETE FROM history_counts");
}

/* What walks have found, and in how many slices; all topics together. */
static struct dt_alert_walked sum;
static unsigned slices;

static void add_walked(void *, const struct dt_alert_walked *walked)
{
    slices++;
    sum.due += walked->due;
    sum.oldest_ms = sum.oldest_ms ? sum.oldest_ms : walked->oldest_ms;
    sum.unreported_ms = sum.unreported_ms ? sum.unreported_ms : walked->unreported_ms;
}

/* until_us: INT64_MAX = one call; 0 = a slice a call. */
static struct dt_alert_walked walked_until(int64_t now_ms, int64_t until_us)
{
    struct dt_alert_walk walk = {.from_key = INT64_MIN, .to_key = INT64_MAX, .now_ms = now_ms, .found = add_walked};
    sum = (struct dt_alert_walked){0};
    slices = 0;
    while (!walk.over)
        OK(dt_store_alert_walk(store, &walk, dt_clock_system(), until_us, &err));
    return sum;
}

static struct dt_alert_walked walked(int64_t now_ms)
{
    return walked_until(now_ms, INT64_MAX);
}

FRESH_TEST(due_rows_are_counted_in_slices_and_each_row_once)
{
    const int64_t now_ms = mysql_now_ms();
    job_row(1, "next_at = %lld, near = 1", (long long)(now_ms - 500));
    job_rows_multiply(25000, 0); /* all at the same instant */
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = 24000", (long long)(now_ms - 9000));
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = 23000", (long long)(now_ms + 9000));
    run_sql("UPDATE jobs SET near = -1 WHERE id MOD 2");
    for (int64_t until_us = 0; until_us <= 1; until_us++) {
        assert_int_equal(walked_until(now_ms, until_us ? INT64_MAX : 0).due, 24999);
        assert_members(sum, (oldest_ms, now_ms - 9000), (unreported_ms, 0));
        assert_int_equal(slices, 2); /* 10,000 of each band, and the rest */
    }
}

/* Offers and takes back all jobs, again and again. */
static _Atomic bool moving;

static void *move_jobs(void *db)
{
    bool moved = true;
    while (moved && atomic_load(&moving))
        moved = dt_db_run(db, "UPDATE jobs SET near = -near", DT_NO_PARAMS, NULL, NULL) == DT_OK;
    return NULL;
}

FRESH_TEST(jobs_offered_during_the_count_are_counted_once)
{
    dt_db *db;
    const int64_t now_ms = mysql_now_ms();
    job_row(1, "next_at = %lld, near = 1", (long long)(now_ms - 500));
    job_rows_multiply(600, 0);
    dt_store *second = mysql_fixture_store();
    OK(dt_store_db(second, &db, &err));
    atomic_store(&moving, true);
    pthread_t thread = start_thread(move_jobs, db);
    for (int i = 0; i < 200; i++)
        assert_int_equal(walked(now_ms).due, 600);
    atomic_store(&moving, false);
    pthread_join(thread, NULL);
    dt_store_free(second);
}

/* A manual edit has ended the attempt, and was counted. */
FRESH_TEST(a_job_with_next_at_zero_or_less_counts_as_due)
{
    job_row(1, "attempt = 1, attempt_status = 'none', dispatched_at = 5, next_at = -9223372036854775808, near = 1");
    job_row(2, "ack_timeout_ms = 9223372036854775807, attempt = 1, attempt_status = 'none', next_at = 0, near = 1");
    assert_int_equal(walked(mysql_now_ms()).due, 2);
}

static int64_t unreported_since(void)
{
    return walked(mysql_now_ms()).unreported_ms;
}

FRESH_TEST(a_dispatch_without_a_report_counts_from_the_first_over_its_attempts)
{
    const int64_t now_ms = mysql_now_ms();
    job_row_dispatched(1, 1, 0);
    run_sql("UPDATE jobs SET near = 1, dispatched_at = %lld, next_at = %lld", (long long)(now_ms - 5000),
            (long long)(now_ms + 55000));
    assert_int_equal(unreported_since(), now_ms - 5000);
    run_sql("UPDATE jobs SET attempt = 4");
    run_sql("INSERT INTO attempts (job_id, attempt, status, dispatched_at) VALUES (1, 1, 'failed', %lld), (1, 2, "
            "'timed_out', %lld), (1, 3, 'lost', %lld)",
            (long long)(now_ms - 90000), (long long)(now_ms - 80000), (long long)(now_ms - 70000));
    assert_int_equal(unreported_since(), now_ms - 80000); /* the first attempt was reported */
    run_sql("UPDATE jobs SET state = 'scheduled', attempt_status = 'timed_out'");
    assert_int_equal(unreported_since(), now_ms - 80000); /* waits for its next attempt */
    run_sql("UPDATE jobs SET attempt_status = 'failed'");
    assert_int_equal(unreported_since(), 0);
}

FRESH_TEST(a_report_that_extended_an_attempt_shows_in_its_deadline)
{
    const int64_t now_ms = mysql_now_ms();
    job_row_dispatched(1, 1, 0);
    run_sql("UPDATE jobs SET near = 1, ack_timeout_ms = 60000, dispatched_at = %lld, next_at = %lld",
            (long long)(now_ms - 600000), (long long)(now_ms + 50000));
    assert_int_equal(unreported_since(), now_ms - 10000);
    run_sql("UPDATE jobs SET ttr_ms = 80000");
    assert_int_equal(unreported_since(), now_ms - 30000);
}

/* ---- alerts and their messages ---- */

static struct dt_alert_change late(unsigned targets)
{
    return (struct dt_alert_change){
        .judge = US,
        .event = DT_ALERT_BEGAN,
        .alert = {.topic = S("orders"), .kind = DT_ALERT_OVERDUE, .value = 1500, .limit = 1000},
        .targets = targets};
}

static struct dt_alert only_one(void)
{
    struct dt_alert_list list;
    OK(dt_store_alerts(store, 0, 10, &arena, &list, &err));
    assert_int_equal(list.n, 1);
    return list.v[0];
}

FRESH_TEST(an_alert_begins_once_with_one_message_per_target)
{
    struct dt_alert_change change = late(DT_ALERT_TO_TOPIC | DT_ALERT_TO_KAFKA);
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_alert alert = only_one();
    assert_true(dt_str_is(alert.topic, "orders"));
    assert_members(alert, (value, 1500), (limit, 1000), (told_at_ms, alert.began_at_ms));
    assert_int_equal(number("SELECT COUNT(*) FROM messages m JOIN alerts a ON a.id = m.alert AND a.began_at = "
                            "m.made_at WHERE m.type = 'began' AND m.target IN ('topic','kafka')"),
                     2);
    assert_int_equal(dt_store_alert_change(store, &change, &err), DT_EXISTS);
    assert_int_equal(number("SELECT COUNT(*) FROM messages"), 2);
}

FRESH_TEST(only_one_of_two_processes_reminds_of_or_ends_an_alert)
{
    struct dt_alert_change change = late(0);
    OK(dt_store_alert_change(store, &change, &err));
    change = (struct dt_alert_change){US, DT_ALERT_BEGAN, only_one(), DT_ALERT_TO_INSTALLATION};
    assert_int_equal(change.alert.told_at_ms, 0); /* nobody was told */
    OK(dt_store_alert_change(store, &change, &err));
    assert_int_equal(dt_store_alert_change(store, &change, &err), DT_VERSION);
    change.event = DT_ALERT_ENDED;
    OK(dt_store_alert_change(store, &change, &err));
    assert_int_equal(dt_store_alert_change(store, &change, &err), DT_VERSION);
    assert_int_equal(number("SELECT COUNT(*) FROM alerts"), 0);
    assert_int_equal(number("SELECT COUNT(*) FROM messages"), 2);
}

FRESH_TEST(a_process_whose_lease_has_ended_changes_no_alert)
{
    struct dt_alert_change change = late(DT_ALERT_TO_INSTALLATION);
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_alert_change changes[] = {change, change, change};
    changes[0].alert.kind = DT_ALERT_DEAD;
    changes[1].alert = changes[2].alert = only_one();
    changes[2].event = DT_ALERT_ENDED;
    dies(US);
    for (int other = 0; other <= 1; other++) {
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(dt_store_alert_change(store, &changes[i], &err), DT_DEPOSED);
        assert_true(judges(OTHER));
        run_sql("UPDATE processes SET seen_at = " SQL_NOW " + 60000"); /* it was stopped, and goes on */
    }
    assert_int_equal(number("SELECT COUNT(*) * 10 + (SELECT COUNT(*) FROM messages) FROM alerts"), 11);
}

FRESH_TEST(figures_of_active_alerts_are_updated)
{
    struct dt_alert_change change = late(0);
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_alert alert = only_one();
    alert.value = 99000;
    OK(dt_store_alert_values(store, &alert, 1, &err));
    assert_int_equal(only_one().value, 99000);
}

FRESH_TEST(an_alert_can_be_silenced_by_tokens_that_see_it)
{
    const struct dt_str prefixes[] = {DT_STR_LIT("shop.")};
    const struct dt_topic_bound others = {prefixes, 1};
    struct dt_alert_change change = late(0);
    struct dt_alert silenced;
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_alert_silence silence = {.id = only_one().id, .until_ms = 77, .bound = &others};
    assert_int_equal(dt_store_alert_silence(store, &silence, &arena, &silenced, &err), DT_NOT_FOUND);
    silence.bound = NULL;
    OK(dt_store_alert_silence(store, &silence, &arena, &silenced, &err));
    assert_int_equal(silenced.silenced_until_ms, 77);
    assert_int_equal(only_one().silenced_until_ms, 77);
    silence.id++;
    assert_int_equal(dt_store_alert_silence(store, &silence, &arena, &silenced, &err), DT_NOT_FOUND);
}

/* Messages of the judge that are due. */
static struct dt_message_page due_by(bool kafka)
{
    struct dt_message_row *v = dt_arena_alloc(&arena, 2 * DT_ALERT_MESSAGES_MAX * sizeof(*v));
    struct dt_message_page page = {
        .kind = DT_MESSAGE_ALERT, .now_ms = number("SELECT " SQL_NOW), .kafka = kafka, .more = true};
    size_t n = 0;
    while (page.more) {
        OK(dt_store_messages(store, &page, &arena, &err));
        for (size_t i = 0; i < page.n; i++)
            if (page.v[i].next_ms <= page.now_ms)
                v[n++] = page.v[i];
    }
    page.v = v;
    page.n = n;
    return page;
}

static struct dt_message_page due(void)
{
    return due_by(true);
}

static dt_status take(const struct dt_message_row *m, int64_t lease_ms)
{
    const struct dt_message_try taken = {.id = m->id, .tries = m->tries, .counts = true, .after_ms = lease_ms};
    return dt_store_put_off_messages(store, &taken, 1, &err);
}

/* After it was taken. */
static void not_arrived(const struct dt_message_row *m, int64_t after_ms)
{
    const struct dt_message_try failed = {
        .id = m->id, .tries = m->tries + 1, .after_ms = after_ms, .why = S("answered 500")};
    OK(dt_store_put_off_messages(store, &failed, 1, &err));
}

static void begin_and_end(unsigned targets)
{
    struct dt_alert_change change = late(targets);
    OK(dt_store_alert_change(store, &change, &err));
    change = (struct dt_alert_change){US, DT_ALERT_ENDED, only_one(), targets};
    OK(dt_store_alert_change(store, &change, &err));
}

FRESH_TEST(messages_of_an_alert_are_sent_in_order)
{
    begin_and_end(DT_ALERT_TO_TOPIC);
    run_sql("UPDATE topics SET alerts = '{\"url\":\"http://a/\"}' WHERE name = 'orders'");
    struct dt_message_page messages = due();
    assert_int_equal(messages.n, 1);
    const struct dt_message_row first = messages.v[0];
    assert_members(first, (type, DT_ALERT_BEGAN), (target, DT_TO_TOPICS_URL));
    assert_true(dt_str_is(first.setting, "{\"url\":\"http://a/\"}"));
    assert_true(first.alert_kind == DT_ALERT_OVERDUE && first.value == 1500 && first.bound == 1000);
    OK(take(&first, 5000));
    assert_int_equal(take(&first, 5000), DT_VERSION); /* somebody has taken it */
    messages = due();
    assert_int_equal(messages.n, 0);
    not_arrived(&first, 0);
    messages = due();
    assert_true(messages.n == 1 && messages.v[0].id == first.id && messages.v[0].tries == 1);
    assert_int_equal(number("SELECT error = 'answered 500' FROM messages ORDER BY id LIMIT 1"), 1);
    OK(dt_store_delete_messages(store, &first.id, 1, &err));
    messages = due();
    assert_true(messages.n == 1 && messages.v[0].type == DT_ALERT_ENDED);
}

FRESH_TEST(a_message_that_a_dead_sender_had_taken_for_the_first_time_is_due_at_once)
{
    begin_and_end(DT_ALERT_TO_TOPIC | DT_ALERT_TO_INSTALLATION);
    struct dt_message_page messages = due();
    assert_int_equal(messages.n, 2);
    const struct dt_message_row failed = messages.v[1];
    OK(take(&messages.v[0], 60000));
    OK(take(&failed, 60000));
    not_arrived(&failed, 60000);
    OK(dt_store_free_alert_messages(store, &err));
    messages = due();
    assert_true(messages.n == 1 && messages.v[0].id != failed.id && messages.v[0].tries == 1);
}

FRESH_TEST(messages_for_kafka_wait_for_a_process_that_writes_to_it)
{
    struct dt_alert_change change = late(DT_ALERT_TO_KAFKA | DT_ALERT_TO_INSTALLATION);
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_message_page messages = due_by(false);
    assert_true(messages.n == 1 && messages.v[0].target == DT_TO_OUR_URL);
    OK(dt_store_delete_messages(store, &messages.v[0].id, 1, &err));
    assert_int_equal(due_by(false).n, 0);
    assert_true(due().n == 1 && due().v[0].target == DT_TO_KAFKA);
}

FRESH_TEST(messages_that_were_never_tried_are_sent_first)
{
    struct dt_alert_change change = late(DT_ALERT_TO_TOPIC);
    OK(dt_store_alert_change(store, &change, &err));
    OK(take(&due().v[0], 0));
    change.alert.kind = DT_ALERT_DEAD;
    OK(dt_store_alert_change(store, &change, &err));
    struct dt_message_page messages = due();
    assert_int_equal(messages.n, 2);
    assert_int_equal(messages.v[0].alert_kind, DT_ALERT_DEAD);
}

FRESH_TEST(the_outbox_is_bounded)
{
    run_sql("INSERT INTO messages (kind, sender, alert, type, target, topic, alert_kind, value, bound, began_at, "
            "made_at) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT 'alert', "
            "0, 1000 + a.i, 'began', 'topic', 't', 'dead', 1, 1, 1, 1 FROM n a, (SELECT 1 UNION ALL SELECT 2 UNION ALL "
            "SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 "
            "UNION ALL SELECT 9 UNION ALL SELECT 10) b");
    run_sql("UPDATE topics SET owner = 5");
    run_sql("UPDATE messages SET topic = 'orders'");
    begin_and_end(DT_ALERT_TO_TOPIC);
    assert_int_equal(number("SELECT COUNT(*) FROM messages"), DT_ALERT_MESSAGES_MAX);
}

FRESH_TEST(an_owner_that_fills_the_outbox_does_not_block_other_owners)
{
    the_outbox_is_bounded();
    run_sql("UPDATE messages SET topic = 'gone'"); /* another owner's */
    begin_and_end(DT_ALERT_TO_TOPIC);
    assert_int_equal(number("SELECT COUNT(*) FROM messages"), DT_ALERT_MESSAGES_MAX + 2);
    const struct dt_message_page messages = due();
    assert_int_equal(messages.v[messages.n - 1].owner, 5);
}

/* They wait while no dispatcher lives. */
FRESH_TEST(messages_for_kafka_do_not_block_webhooks)
{
    the_outbox_is_bounded();
    run_sql("UPDATE messages SET target = 'kafka'");
    begin_and_end(DT_ALERT_TO_TOPIC | DT_ALERT_TO_INSTALLATION | DT_ALERT_TO_KAFKA);
    assert_int_equal(number("SELECT COUNT(*) FROM messages WHERE target <> 'kafka'"), 4);
    assert_int_equal(number("SELECT COUNT(*) FROM messages WHERE target = 'kafka'"), DT_ALERT_MESSAGES_MAX);
}

SUITE(open_store, close_store)
