/* Messages of the commands topic on a real server: each has one effect, in its order, whoever reads it again. */

#include "base/text/timetext.h"
#include "features/intents/commands.h"
#include "features/outbox/outbox_store.h"
#include "support/fail_rule.h"
#include "support/store_suite.h"
#include "topic/topics.h"

#define HOUR "3600000"
#define MOST 64

STORE_SUITE("commands", 0)

static struct dt_command_taker taker;
static struct dt_command_place places[2];
static struct dt_command_message messages[MOST];
static struct dt_command_batch batch;

static void read_places(struct dt_command_place *v)
{
    v[0] = (struct dt_command_place){.partition = 0};
    v[1] = (struct dt_command_place){.partition = 1};
    OK(dt_store_command_places(store, v, 2, &err));
}

static void begin(void)
{
    empty_tables();
    run_sql("DELETE FROM command_offsets");
    run_sql("DELETE FROM messages");
    OK(dt_store_topic_ensure(store, S("t"), NULL, &err));
    taker = (struct dt_command_taker){.store = store, .rejected = "duetime.commands.rejected"};
    taker.rules = (struct dt_job_rules){.max_delay_ms = mysql_fixture.config.limits_max_delay,
                                        .payload_max = (size_t)mysql_fixture.config.limits_payload,
                                        .headers_max = (size_t)mysql_fixture.config.limits_headers,
                                        .json_depth = (unsigned)mysql_fixture.config.limits_json_depth,
                                        .installation = S("duetime")};
    assert_int_equal(dt_json_new(&taker.json), DT_OK);
    read_places(places);
    batch = (struct dt_command_batch){.v = messages, .places = places, .n_places = 2};
    batch.map = (struct dt_shard_map){.shards = 4};
}

static void end(void)
{
    dt_json_free(taker.json);
    dt_arena_clear(&taker.arena);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

/* One message more, at the next offset of its partition. */
static struct dt_command_message *say_in(int partition, const char *value)
{
    int64_t offset = places[partition].next;
    for (size_t i = 0; i < batch.n; i++)
        offset += messages[i].place == &places[partition];
    struct dt_command_message *m = &messages[batch.n++];
    *m = (struct dt_command_message){
        .place = &places[partition], .offset = offset, .value = dt_str(value), .patient = true};
    return m;
}

static struct dt_command_message *say(const char *value)
{
    return say_in(0, value);
}

static dt_status carry_out(void)
{
    dt_status status = dt_store_carry_out(&taker, &batch, false, &err);
    if (status == DT_OK)
        OK(dt_intent_topics_make(&taker.topics, store, 1, &err));
    return status;
}

static void done(size_t n_done, size_t n_refused, size_t n_waiting)
{
    OK(carry_out());
    assert_members(batch, (done, n_done), (refused, n_refused), (waiting, n_waiting));
    batch.n = 0;
    assert_int_equal(mysql_fixture_audit(), 0);
}

static int64_t jobs(const char *where)
{
    return sql_number("SELECT COUNT(*) FROM jobs WHERE %s", where);
}

static int64_t next_offset(int partition)
{
    return sql_number("SELECT next_offset FROM command_offsets WHERE kafka_partition = %d", partition);
}

/* What an answer to the i-th header of the last one says. */
static struct dt_str header_of(const struct dt_command_answer *a, const char *name)
{
    for (size_t i = 0; i < a->n_headers; i++)
        if (dt_str_is(a->headers[i].name, name))
            return a->headers[i].value;
    return DT_STR_NONE;
}

static bool has_text(struct dt_str text, const char *part)
{
    return text.p && memmem(text.p, text.n, part, strlen(part)) != NULL;
}

#define CREATE(key, payload)                                                                                           \
    "{\"action\":\"create\",\"topic\":\"t\",\"key\":\"" key "\",\"delay\":" HOUR ",\"payload\":" payload "}"
#define ON(action, key) "{\"action\":\"" action "\",\"topic\":\"t\",\"key\":\"" key "\"}"

FRESH_TEST(a_message_creates_a_job_and_advances_the_offset)
{
    say(CREATE("k", "{\"a\": 1}"));
    done(1, 0, 0);
    assert_int_equal(batch.n_moves, 1);
    assert_int_equal(batch.moves[0].due_ms, sql_number("SELECT next_at FROM jobs"));
    assert_int_equal(jobs("job_key = 'k' AND payload = '{\"a\": 1}' AND state = 'scheduled'"), 1);
    assert_int_equal(next_offset(0), 1);
    assert_int_equal(next_offset(1), 0);
    assert_int_equal(batch.answers.n, 0);
}

FRESH_TEST(every_action_has_the_same_effect_as_by_http)
{
    say(CREATE("a", "1")), say(CREATE("b", "1")), say(CREATE("c", "1")), say(CREATE("d", "1"));
    say(ON("cancel", "a")), say(ON("run_now", "c"));
    say("{\"action\":\"change\",\"topic\":\"t\",\"key\":\"b\",\"payload\":2}");
    say("{\"action\":\"replace\",\"topic\":\"t\",\"key\":\"d\",\"delay\":1,\"payload\":3}");
    say("{\"action\":\"pause\",\"topic\":\"t\"}");
    done(9, 0, 0);
    assert_true(batch.topics);
    assert_int_equal(jobs("job_key = 'a' AND state = 'cancelled'"), 1);
    assert_int_equal(jobs("job_key = 'b' AND payload = '2'"), 1);
    assert_int_equal(jobs("job_key = 'c' AND next_at <= updated_at"), 1);
    assert_int_equal(jobs("job_key = 'd' AND payload = '3'"), 1);
    assert_sql_number(1, "SELECT paused FROM topics WHERE name = 't'");
    say(ON("run_now", "c"))->reply_to = S("a.replies");
    done(1, 0, 0);
    assert_true(has_text(batch.answers.v[0].value, "\"waiting_for\":\"paused\""));
    run_sql("UPDATE topics SET paused = FALSE, delivery = 'pull'");
    say(ON("run_now", "c"))->reply_to = S("a.replies");
    done(1, 0, 0);
    assert_true(has_text(batch.answers.v[0].value, "\"waiting_for\":\"pop\""));
    run_sql("UPDATE topics SET paused = TRUE, delivery = 'kafka'");
    say("{\"action\":\"resume\",\"topic\":\"t\"}")->reply_to = S("a.replies");
    done(1, 0, 0);
    assert_int_equal(batch.answers.n, 1);
    assert_true(has_text(batch.answers.v[0].value, "{\"name\":\"t\""));
    assert_true(has_text(batch.answers.v[0].value, "\"paused\":false"));
    assert_sql_number(0, "SELECT paused FROM topics WHERE name = 't'");
}

/* As a leader would have it: dispatched, the attempt in no list. */
static void dispatch(const char *key)
{
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1, attempt_status = 'dispatched', dispatched_at = "
            "updated_at, due_at = next_at, next_at = next_at + 60000 WHERE job_key = '%s'",
            key);
}

FRESH_TEST(reports_by_key_and_by_id_are_applied_in_order)
{
    char by_id[160];
    say(CREATE("a", "1")), say(CREATE("b", "1"));
    done(2, 0, 0);
    dispatch("a"), dispatch("b");
    snprintf(by_id, sizeof(by_id), "{\"action\":\"report\",\"id\":\"%lld\",\"attempt\":1,\"status\":\"succeeded\"}",
             (long long)sql_number("SELECT id FROM jobs WHERE job_key = 'b'"));
    say("{\"action\":\"report\",\"topic\":\"t\",\"key\":\"a\",\"attempt\":1,\"status\":\"gave_up\"}");
    say(by_id);
    say("{\"action\":\"report\",\"topic\":\"t\",\"key\":\"none\",\"attempt\":1,\"status\":\"succeeded\"}");
    say(ON("cancel", "b"));
    OK(carry_out());
    assert_int_equal(batch.done, 2);
    assert_int_equal(batch.refused, 2); /* no such job; and what has succeeded is cancelled too late */
    assert_int_equal(batch.n_dead, 1);
    assert_int_equal(jobs("job_key = 'a' AND state = 'dead'"), 1);
    assert_int_equal(jobs("job_key = 'b' AND state = 'succeeded'"), 1);
    batch.n = 0;
}

FRESH_TEST(a_cancel_may_be_of_further_attempts)
{
    say(CREATE("a", "1"));
    done(1, 0, 0);
    dispatch("a");
    say(ON("cancel", "a")); /* too late */
    say("{\"action\":\"cancel\",\"topic\":\"t\",\"key\":\"a\",\"retries\":false}");
    say("{\"action\":\"cancel\",\"topic\":\"t\",\"key\":\"a\",\"retries\":1}");
    OK(carry_out());
    assert_int_equal(batch.refused, 3);
    batch.n = 0;
    assert_true(has_text(header_of(&batch.answers.v[2], "problem"), "must be true or false"));
    assert_int_equal(jobs("no_retries"), 0);
    say("{\"action\":\"cancel\",\"topic\":\"t\",\"key\":\"a\",\"retries\":true}");
    OK(carry_out());
    assert_int_equal(batch.done, 1);
    batch.n = 0;
    assert_int_equal(jobs("no_retries AND state = 'dispatched'"), 1);
}

FRESH_TEST(a_message_that_is_read_twice_changes_nothing)
{
    struct dt_command_place old[2];
    say(CREATE("k", "1"));
    done(1, 0, 0);
    memcpy(old, places, sizeof(old));
    say(ON("cancel", "k"));
    done(1, 0, 0);
    say(CREATE("other", "1")), say("{\"action\":\"replace\",\"topic\":\"t\",\"key\":\"k\",\"delay\":" HOUR "}");
    done(2, 0, 0);
    memcpy(places, old, sizeof(old)); /* a reader that stopped before the cancel, and goes on */
    say(ON("cancel", "k"));
    assert_int_equal(carry_out(), DT_DEPOSED);
    assert_int_equal(batch.done, 0);
    assert_int_equal(jobs("job_key = 'k' AND state = 'scheduled'"), 1); /* the job that replaced it lives */
    assert_int_equal(next_offset(0), 4);
    batch.n = 0;
    read_places(places);
    assert_members(places[0], (next, 4), (last, 3));
}

FRESH_TEST(a_stale_partition_does_not_affect_others)
{
    say_in(0, CREATE("a", "1")), say_in(1, CREATE("b", "1"));
    run_sql("UPDATE command_offsets SET next_offset = 7 WHERE kafka_partition = 1");
    assert_int_equal(carry_out(), DT_DEPOSED);
    assert_int_equal(jobs("TRUE"), 0);
    assert_int_equal(next_offset(0), 0);
    batch.n = 0;
}

FRESH_TEST(an_invalid_message_is_refused_alone_and_quoted_unchanged)
{
    const struct dt_message_header headers[] = {{S("trace"), S("x")}, {S("empty"), S("")}};
    say(CREATE("a", "1"));
    struct dt_command_message *m = say("{\"action\":\"create\"");
    m->key = S("the key"), m->headers = headers, m->n_headers = 2;
    say("[]"), say("{\"action\":\"sing\"}"), say(CREATE("b", "1"));
    say("")->value = DT_STR_NONE;
    say("{\"action\":\"create\",\"topic\":\"t\",\"delay\":1}"), say(ON("cancel", "none"));
    done(2, 6, 0);
    assert_int_equal(batch.answers.n, 6);
    const struct dt_command_answer *a = &batch.answers.v[0];
    assert_true(dt_str_is(a->topic, "duetime.commands.rejected"));
    assert_true(dt_str_is(a->key, "the key"));
    assert_true(dt_str_is(a->value, "{\"action\":\"create\""));
    assert_int_equal(a->n_headers, 3);
    assert_true(dt_str_is(a->headers[0].value, "x"));
    assert_true(has_text(header_of(a, "problem"), "/problems/malformed"));
    assert_true(has_text(header_of(&batch.answers.v[3], "problem"), "has no value"));
    assert_true(has_text(header_of(&batch.answers.v[4], "problem"), "\"/key\""));
    assert_true(has_text(header_of(&batch.answers.v[5], "problem"), "/problems/not-found"));
    assert_int_equal(next_offset(0), 8);
}

#define OF(topic, key) "{\"action\":\"create\",\"topic\":\"" topic "\",\"key\":\"" key "\",\"delay\":1,\"payload\":1}"

FRESH_TEST(a_message_for_one_topic_too_many_is_refused_alone)
{
    const int64_t most = mysql_fixture.config.limits_topics;
    mysql_fixture.config.limits_topics = 2;
    say_in(0, OF("second", "k")), say_in(1, OF("third", "k")), say_in(1, OF("t", "k"));
    for (int looks = 0; looks < 3 && (looks == 0 || batch.waiting); looks++)
        OK(carry_out());
    assert_members(batch, (done, 2), (refused, 1));
    assert_int_equal(batch.answers.n, 1);
    assert_true(dt_str_is(batch.answers.v[0].topic, "duetime.commands.rejected"));
    assert_true(has_text(batch.answers.v[0].value, "\"third\""));
    assert_true(has_text(header_of(&batch.answers.v[0], "problem"), "limits.topics (2) is reached"));
    assert_int_equal(jobs("topic IN ('t', 'second')"), 2);
    assert_int_equal(next_offset(1), 2);
    batch.n = 0;
    say(OF("second", "l"));
    done(1, 0, 0);
    assert_sql_number(2, "SELECT COUNT(*) FROM topics");
    mysql_fixture.config.limits_topics = most;
}

/* Of both partitions. */
static struct dt_message_page listed(void)
{
    struct dt_message_page pages[2];
    for (int64_t i = 0; i < 2; i++) {
        pages[i] = (struct dt_message_page){.kind = DT_MESSAGE_ANSWERS, .sender = i};
        OK(dt_store_messages(store, &pages[i], &arena, &err));
    }
    return pages[0].n ? pages[0] : pages[1];
}

FRESH_TEST(answers_are_stored_until_they_are_sent)
{
    int64_t ids[MOST];
    struct dt_command_answers left;
    say(CREATE("a", "1"))->reply_to = S("a.replies");
    struct dt_command_message *m = say_in(1, "{");
    m->reply_to = S("a.replies"), m->key = S("\xff\x00k"), m->value = S("{\xff");
    done(1, 1, 0);
    assert_int_equal(batch.answers.n, 3);
    const struct dt_message_page rows = listed();
    assert_int_equal(rows.n, 3);
    for (size_t i = 0; i < rows.n; i++)
        ids[i] = rows.v[i].id;
    OK(dt_store_read_command_answers(store, taker.json, ids, rows.n, &arena, &left, &err));
    assert_int_equal(left.n, 3);
    assert_int_equal(left.v[2].row, ids[2]);
    assert_true(dt_str_is(left.v[0].topic, "a.replies"));
    assert_true(dt_str_is(header_of(&left.v[0], "status"), "201"));
    assert_true(dt_str_is(header_of(&left.v[1], "status"), "400"));
    assert_true(has_text(left.v[0].value, "\"key\":\"a\""));
    assert_false(left.v[0].key.p);
    assert_true(dt_str_is(left.v[2].topic, "duetime.commands.rejected"));
    assert_true(dt_str_eq(left.v[2].value, S("{\xff")));
    assert_true(dt_str_eq(left.v[2].key, m->key));
    OK(dt_store_delete_messages(store, ids, rows.n, &err));
    assert_sql_number(0, "SELECT COUNT(*) FROM messages");
}

FRESH_TEST(a_row_has_answers_for_one_kafka_topic_and_the_owner_of_the_commands_topic)
{
    char topics[30][24];
    char value[30][120];
    run_sql("UPDATE topics SET owner = 77 WHERE name = 't'");
    for (size_t i = 0; i < 30; i++) {
        snprintf(topics[i], sizeof(topics[i]), "evil.r%zu.replies", i / 2);
        snprintf(value[i], sizeof(value[i]),
                 "{\"action\":\"create\",\"topic\":\"t\",\"key\":\"k%zu\",\"delay\":" HOUR "}", i);
        say(value[i])->reply_to = dt_str(topics[i]);
    }
    say(ON("run_now", "none"));
    done(30, 1, 0);
    const struct dt_message_page rows = listed();
    assert_int_equal(rows.n, 16);
    for (size_t i = 0; i < rows.n; i++)
        assert_int_equal(rows.v[i].owner, 77);
    assert_true(dt_str_is(rows.v[0].kafka_topic, "duetime.commands.rejected"));
    assert_true(dt_str_is(rows.v[1].kafka_topic, "evil.r0.replies"));
}

FRESH_TEST(no_answer_is_sent_to_a_reserved_topic)
{
    static const char *const bad[] = {"duetime.results",    "other.commands", "a b",      "",
                                      "__consumer_offsets", "orders",         "x-replies"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        say(CREATE("k", "1"))->reply_to = dt_str(bad[i]);
    OK(carry_out());
    assert_int_equal(batch.refused, sizeof(bad) / sizeof(*bad));
    assert_int_equal(jobs("TRUE"), 0);
    for (size_t i = 0; i < batch.answers.n; i++)
        assert_true(dt_str_is(batch.answers.v[i].topic, "duetime.commands.rejected"));
    batch.n = 0;
}

/* The installation's own names are nobody's to be answered in, be they in use or not; the others are. */
FRESH_TEST(a_refused_message_is_not_answered_to_a_reserved_topic)
{
    say(CREATE("k", "1"))->reply_to = S("duetime.mine");
    say("{")->reply_to = S("duetime.mine");
    say("{")->reply_to = S("duetime-x.replies");
    done(0, 3, 0);
    assert_int_equal(batch.answers.n, 4);
    for (size_t i = 0; i < 3; i++)
        assert_true(dt_str_is(batch.answers.v[i].topic, "duetime.commands.rejected"));
    assert_true(has_text(header_of(&batch.answers.v[0], "problem"), "header reply_to: must not start with"));
    assert_true(dt_str_is(batch.answers.v[3].topic, "duetime-x.replies"));
}

FRESH_TEST(an_answer_that_is_too_large_is_sent_without_the_payload)
{
    say(CREATE("k", "1"));
    done(1, 0, 0);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 900000), payload_binary = TRUE, content_type = 'a/b'");
    say(ON("cancel", "k"))->reply_to = S("a.replies");
    done(1, 0, 0);
    assert_true(batch.answers.v[0].value.n < 1000);
    assert_true(has_text(batch.answers.v[0].value, "\"state\":\"cancelled\""));
}

/* The clock of whoever sends may be an hour ahead, or behind: a time is a time. */
FRESH_TEST(a_run_at_is_kept_whatever_the_timestamp_of_its_message_is)
{
    static const char *const actions[] = {"create", "change", "replace"};
    static const int64_t clocks[] = {-2 * DT_DAY_MS, -3600000, 3600000};
    int64_t at_ms = mysql_now_ms() + 600000;
    for (size_t i = 0; i < 9; i++, at_ms += 1000) {
        char value[200];
        char at[25];
        dt_time_format(at_ms, at);
        snprintf(value, sizeof(value), "{\"action\":\"%s\",\"topic\":\"t\",\"key\":\"k\",\"run_at\":\"%s\"}",
                 actions[i == 0 ? 0 : 1 + i % 2], at);
        say(value)->timestamp_ms = mysql_now_ms() + clocks[i % 3];
        done(1, 0, 0);
        assert_sql_number(at_ms, "SELECT run_at FROM jobs");
    }
    int64_t now_ms = mysql_now_ms();
    say("{\"action\":\"create\",\"topic\":\"t\",\"key\":\"past\",\"run_at\":\"2020-01-01T00:00:00Z\"}")->timestamp_ms =
        now_ms + 3600000;
    say(CREATE("old", "1"))->timestamp_ms = 5;
    done(2, 0, 0);
    assert_in_range(sql_number("SELECT MIN(run_at) FROM jobs"), now_ms, mysql_now_ms());
    assert_true(sql_number("SELECT MIN(id) >> 40 FROM jobs") > 0); /* of a day of now */
}

FRESH_TEST(a_report_with_an_id_and_another_topic_is_refused)
{
    char text[200];
    say(CREATE("a", "1"));
    done(1, 0, 0);
    dispatch("a");
    for (int right = 0; right < 2; right++) {
        snprintf(text, sizeof(text),
                 "{\"action\":\"report\",\"id\":\"%lld\",\"topic\":\"%s\",\"attempt\":1,\"status\":\"succeeded\"}",
                 (long long)sql_number("SELECT id FROM jobs"), right ? "t" : "other");
        say(text);
        OK(carry_out());
        assert_members(batch, (done, right), (refused, !right));
        assert_int_equal(jobs("state = 'succeeded'"), right);
        batch.n = 0;
    }
}

FRESH_TEST(delays_count_from_the_message)
{
    int64_t now_ms = mysql_now_ms();
    say(CREATE("then", "1"))->timestamp_ms = now_ms - 3599000;
    say(CREATE("now", "1"));
    say(CREATE("far", "1"))->timestamp_ms = now_ms + mysql_fixture.config.limits_max_delay - 1000;
    say(CREATE("further", "1"))->timestamp_ms = now_ms + mysql_fixture.config.limits_max_delay + 60000;
    done(2, 2, 0);
    assert_in_range(sql_number("SELECT next_at FROM jobs WHERE job_key = 'then'"), now_ms + 500, now_ms + 1500);
    assert_true(sql_number("SELECT next_at FROM jobs WHERE job_key = 'now'") >= now_ms + 3600000);
}

/* Behind what waits for its topic all of its partition waits, and nothing of others. */
FRESH_TEST(messages_of_a_partition_wait_in_their_order)
{
    say_in(0, CREATE("a", "1"));
    say_in(0, "{\"action\":\"create\",\"topic\":\"made-then\",\"key\":\"a\",\"delay\":1}");
    say_in(0, ON("cancel", "a")), say_in(0, "{"), say_in(0, "{\"action\":\"pause\",\"topic\":\"t\"}");
    say_in(0, "{\"action\":\"report\",\"topic\":\"t\",\"key\":\"a\",\"attempt\":1,\"status\":\"succeeded\"}");
    say_in(1, CREATE("b", "1"));
    OK(carry_out());
    assert_members(batch, (done, 2), (waiting, 5), (again, true));
    assert_int_equal(next_offset(0), 1);
    assert_int_equal(next_offset(1), 1);
    assert_int_equal(jobs("job_key = 'a' AND state = 'scheduled'"), 1);
    memmove(messages, &messages[1], 5 * sizeof(*messages));
    batch.n = 5;
    done(4, 1, 0); /* the report is stale */
    assert_int_equal(jobs("topic = 't' AND job_key = 'a' AND state = 'cancelled'"), 1);
    assert_int_equal(next_offset(0), 6);
}

FRESH_TEST(a_locked_job_is_waited_for_up_to_a_limit)
{
    say(CREATE("a", "1"));
    done(1, 0, 0);
    run_sql("BEGIN; SELECT id FROM jobs FOR UPDATE");
    say(ON("cancel", "a")), say(CREATE("b", "1"));
    OK(carry_out());
    assert_int_equal(batch.waiting, 2);
    assert_int_equal(next_offset(0), 1);
    messages[0].last_try = true;
    OK(carry_out());
    assert_members(batch, (refused, 1), (waiting, 1));
    assert_int_equal(next_offset(0), 2);
    assert_true(has_text(header_of(&batch.answers.v[0], "problem"), "/problems/unavailable"));
    run_sql("ROLLBACK");
    messages[0] = messages[1];
    batch.n = 1;
    done(1, 0, 0);
}

/* Several reports at once, one of them on a job that somebody has: each goes by itself then. */
FRESH_TEST(reports_wait_for_an_earlier_one_that_waits)
{
    say(CREATE("a", "1")), say(CREATE("b", "1")), say(CREATE("c", "1"));
    done(3, 0, 0);
    dispatch("a"), dispatch("b"), dispatch("c");
    run_sql("BEGIN; SELECT id FROM jobs WHERE job_key = 'b' FOR UPDATE");
    for (const char *key = "abc"; *key; key++) {
        static char text[3][128];
        snprintf(text[key[0] - 'a'], sizeof(text[0]),
                 "{\"action\":\"report\",\"topic\":\"t\",\"key\":\"%c\",\"attempt\":1,\"status\":\"succeeded\"}", *key);
        say(text[key[0] - 'a']);
    }
    OK(carry_out());
    assert_members(batch, (done, 1), (waiting, 2));
    run_sql("ROLLBACK");
    assert_int_equal(jobs("state = 'succeeded'"), 1);
    memmove(messages, &messages[1], 2 * sizeof(*messages));
    batch.n = 2;
    OK(carry_out());
    batch.n = 0;
    assert_int_equal(jobs("state = 'succeeded'"), 3);
}

/* A transaction that fails at any step leaves nothing behind: neither an effect nor an offset, nor an answer. */
FRESH_TEST(a_batch_of_messages_is_applied_as_a_whole_or_not_at_all)
{
    static const char *const points[] = {"commands.carried_out=error@1", "commands.raised=error@1"};
    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        say(CREATE("a", "1"))->reply_to = S("a.replies");
        fail_rule(points[i]);
        assert_int_equal(carry_out(), DT_UNAVAILABLE);
        fail_rule(NULL);
        assert_int_equal(jobs("TRUE"), 0);
        assert_int_equal(next_offset(0), 0);
        assert_sql_number(0, "SELECT COUNT(*) FROM messages");
        batch.n = 0;
    }
    say(CREATE("a", "1"));
    done(1, 0, 0);
}

FRESH_TEST(a_message_that_always_fails_is_refused_alone)
{
    say(CREATE("a", "1"));
    OK(dt_store_carry_out(&taker, &batch, true, &err));
    assert_int_equal(batch.refused, 1);
    assert_int_equal(next_offset(0), 1);
    assert_true(has_text(header_of(&batch.answers.v[0], "problem"), "/problems/internal"));
    batch.n = 0;
}

FRESH_TEST(a_halted_partition_shows_the_reason_until_it_continues)
{
    struct dt_command_place elsewhere = {.partition = 0, .next = 5};
    OK(dt_store_halt_commands(store, &elsewhere, "not so", &err));
    assert_sql_number(0, "SELECT COUNT(halted) FROM v_commands");
    OK(dt_store_halt_commands(store, &places[0], "made anew", &err));
    assert_sql_number(1, "SELECT COUNT(halted) FROM v_commands");
    say(CREATE("a", "1"));
    done(1, 0, 0);
    assert_sql_number(0, "SELECT COUNT(halted) FROM v_commands");
}

SUITE(open_store, close_store)
