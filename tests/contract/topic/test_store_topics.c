/* Topics and shard information on a real server. */
#include "dispatch/shards.h"
#include "store/processes.h"
#include "support/store_suite.h"
#include "topic/topics.h"

STORE_SUITE("topics", 0)

#define RIG_TEST(name) TEST_WITH(name, open_store, close_store)

static int64_t topics_version(void)
{
    struct dt_installation inst;
    OK(dt_store_installation(store, &inst, &err));
    return inst.topics_version;
}

static struct dt_topic get(struct dt_str name)
{
    struct dt_topic t;
    OK(dt_store_topic_get(store, name, &arena, &t, &err));
    return t;
}

static bool put(struct dt_topic topic, bool set_paused)
{
    struct dt_topic_now now = {.arena = &arena};
    OK(dt_store_topic_put(store, &topic, set_paused, NULL, &now, &err));
    return now.created;
}

RIG_TEST(settings_are_read_back_as_stored)
{
    struct dt_topic t;
    assert_int_equal(dt_store_topic_get(store, S("a"), &arena, &t, &err), DT_NOT_FOUND);
    assert_true(put((struct dt_topic){.name = S("a"), .retention_ms = -1}, false));
    t = get(S("a"));
    assert_true(dt_str_is(t.name, "a"));
    assert_members(t, (kafka_topic.p, NULL), (retry.p, NULL), (ack_timeout_ms, 0), (retention_ms, -1), (paused, false),
                   (version, 1));
    assert_true(t.created_at_ms > 0 && t.created_at_ms == t.updated_at_ms);
    assert_false(put((struct dt_topic){.name = S("a"),
                                       .kafka_topic = S("out"),
                                       .retry = S(""),
                                       .ack_timeout_ms = 5,
                                       .retention_ms = 0,
                                       .paused = true},
                     true));
    t = get(S("a"));
    assert_true(dt_str_is(t.kafka_topic, "out"));
    assert_non_null(t.retry.p);
    assert_int_equal(t.retry.n, 0);
    assert_members(t, (ack_timeout_ms, 5), (retention_ms, 0), (paused, true), (version, 2));
}

RIG_TEST(a_put_without_a_delivery_keeps_the_topics)
{
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    assert_int_equal(get(S("a")).delivery, DT_DELIVERY_KAFKA);
    put((struct dt_topic){.name = S("a"), .retention_ms = -1, .delivery = DT_DELIVERY_PULL}, false);
    assert_int_equal(get(S("a")).delivery, DT_DELIVERY_PULL);
    int64_t v = topics_version();
    put((struct dt_topic){.name = S("a"), .retention_ms = -1}, false);
    assert_int_equal(get(S("a")).delivery, DT_DELIVERY_PULL);
    assert_int_equal(topics_version(), v);
    put((struct dt_topic){.name = S("b"), .retention_ms = -1, .delivery = DT_DELIVERY_HTTP}, false);
    assert_int_equal(get(S("b")).delivery, DT_DELIVERY_HTTP);
}

/* Since it was looked at last. */
static bool rose(int64_t *version)
{
    int64_t was = *version;
    *version = topics_version();
    return *version > was;
}

/* A process that has read the version keeps what it read of topics. */
RIG_TEST(a_restored_mysql_repeats_no_topics_version)
{
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    int64_t copied = topics_version();
    OK(dt_store_topic_pause(store, S("a"), true, NULL, &err));
    int64_t forgotten = topics_version();
    run_sql("UPDATE topics SET paused = FALSE");
    run_sql("UPDATE installation SET topics_version = %lld", (long long)copied);
    OK(dt_store_topic_ensure(store, S("b"), NULL, &err));
    assert_true(topics_version() > copied);
    assert_int_not_equal(topics_version(), forgotten);
}

RIG_TEST(changes_raise_the_topics_version_and_nothing_else_does)
{
    int64_t v = topics_version();
    struct dt_topic topic = {.name = S("a"), .retry = S("1s"), .retention_ms = -1};
    put(topic, false);
    assert_true(rose(&v));
    put(topic, false);
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    OK(dt_store_topic_pause(store, S("a"), false, NULL, &err));
    assert_int_equal(topics_version(), v);
    assert_int_equal(get(S("a")).version, 1);
    OK(dt_store_topic_pause(store, S("a"), true, NULL, &err));
    assert_true(rose(&v));
    OK(dt_store_topic_ensure(store, S("b"), NULL, &err));
    assert_true(rose(&v));
    topic.kafka_topic = S("x");
    put(topic, false);
    assert_true(rose(&v));
    topic.kafka_topic = S("a"); /* its own name is the default */
    put(topic, false);
    assert_true(rose(&v));
    assert_null(get(S("a")).kafka_topic.p);
}

RIG_TEST(clashing_kafka_names_are_refused)
{
    struct dt_topic_now now = {.arena = &arena};
    OK(dt_store_topic_ensure(store, S("a.b"), NULL, &err));
    assert_int_equal(dt_store_topic_ensure(store, S("a_b"), NULL, &err), DT_INVALID);
    struct dt_topic t = {.name = S("c"), .kafka_topic = S("a_b"), .retention_ms = -1};
    assert_int_equal(dt_store_topic_put(store, &t, false, NULL, &now, &err), DT_INVALID);
    t.kafka_topic = S("a.b"); /* the same Kafka topic is no clash */
    put(t, false);
    t = (struct dt_topic){.name = S("a_b"), .kafka_topic = S("other"), .retention_ms = -1};
    put(t, false);
    t.kafka_topic = DT_STR_NONE;
    assert_int_equal(dt_store_topic_put(store, &t, false, NULL, &now, &err), DT_INVALID);
    assert_true(dt_str_is(get(S("a_b")).kafka_topic, "other"));
    /* A topic may change between names that clash with none but its own. */
    put((struct dt_topic){.name = S("x.y"), .retention_ms = -1}, false);
    put((struct dt_topic){.name = S("x.y"), .kafka_topic = S("x_y"), .retention_ms = -1}, false);
    assert_int_equal(dt_store_topic_ensure(store, S("duetime_results"), NULL, &err), DT_INVALID);
    assert_int_equal(dt_store_topic_ensure(store, S("duetime_results_rejected"), NULL, &err), DT_INVALID);
    OK(dt_store_topic_ensure(store, S("duetime_orders"), NULL, &err));
    t = (struct dt_topic){.name = S("d"), .kafka_topic = S("duetime.ledger"), .retention_ms = -1};
    assert_int_equal(dt_store_topic_put(store, &t, false, NULL, &now, &err), DT_INVALID);
}

struct maker {
    const char *name;
    struct dt_topic_terms *terms;
    dt_status status;
};

static void *ensure(void *arg)
{
    struct maker *m = arg;
    dt_store *own = NULL;
    m->status = dt_store_new(&mysql_fixture.config, NULL, &own);
    if (!m->status)
        m->status = dt_store_topic_ensure(own, dt_str(m->name), m->terms, NULL);
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

RIG_TEST(one_of_two_clashing_topics_created_at_once_is_refused)
{
    for (int round = 0; round < 5; round++) {
        char names[8][20];
        struct maker m[8];
        int in = 0;
        for (int i = 0; i < 8; i++) {
            snprintf(names[i], sizeof names[i], "r%d%cx", round, i % 2 ? '.' : '_');
            m[i] = (struct maker){.name = names[i]};
        }
        run_at_once(ensure, m, sizeof *m, 8);
        for (int i = 0; i < 8; i++) {
            assert_true(m[i].status == DT_OK || m[i].status == DT_INVALID);
            in += m[i].status == DT_OK;
        }
        assert_int_equal(in, 4); /* all of the one name, none of the other */
        assert_sql_number(1, "SELECT COUNT(*) FROM topics WHERE kafka_fold = 'r%d_x'", round);
    }
}

static dt_status try_put(const char *name, const char *kafka_topic, struct dt_topic_terms *terms)
{
    struct dt_topic_now now = {.arena = &arena};
    struct dt_topic t = {.name = dt_str(name), .retention_ms = -1};
    if (kafka_topic)
        t.kafka_topic = dt_str(kafka_topic);
    dt_status status = dt_store_topic_put(store, &t, false, terms, &now, &err);
    assert_true(status == DT_OK || status == DT_INVALID);
    return status;
}

/* Whoever has read a topic changes what was read, and not what another has made of it meanwhile. */
RIG_TEST(a_topic_is_stored_only_onto_the_version_that_was_read)
{
    struct dt_topic_terms absent = {.of_version = true};
    struct dt_topic_terms read = {.of_version = true, .version = 1};
    assert_int_equal(try_put("a", NULL, &read), DT_INVALID); /* there is none to have been read */
    assert_int_equal(read.refusal, DT_TOPIC_CHANGED);
    assert_int_equal(try_put("a", NULL, &absent), DT_OK);
    assert_int_equal(try_put("a", "b", &absent), DT_INVALID);
    assert_int_equal(absent.refusal, DT_TOPIC_CHANGED);
    assert_int_equal(try_put("a", "b", &read), DT_OK);
    assert_int_equal(try_put("a", "c", &read), DT_INVALID);
    assert_int_equal(read.refusal, DT_TOPIC_CHANGED);
    assert_sql_number(1, "SELECT COUNT(*) FROM topics WHERE kafka_topic = 'b'");
}

static const char *const internal[] = {
    "other.ledger", "other.results", "other.results.rejected", "other.commands", "other.commands.rejected",
    "other.dead",   "a.b.c.ledger",  "__consumer_offsets",     ".results",       "other.alerts"};

RIG_TEST(a_check_refuses_internal_kafka_topics_in_manual_edits)
{
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++) {
        struct dt_str name = dt_str(internal[i]);
        assert_int_equal(dt_db_run(db, "INSERT INTO topics (name, created_at, updated_at) VALUES (?, 1, 1)",
                                   DT_PARAMS(DT_P_STR(name)), NULL, &err),
                         DT_INVALID);
        assert_int_equal(
            dt_db_run(db, "INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('t', ?, 1, 1)",
                      DT_PARAMS(DT_P_STR(name)), NULL, &err),
            DT_INVALID);
    }
    run_sql("INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('t', 'x.y', 1, 1)");
}

RIG_TEST(a_kafka_topic_outside_the_prefixes_is_kept_but_cannot_be_set)
{
    struct dt_topic_terms terms = {.foreign = true};
    assert_int_equal(try_put("in.a", "out", &terms), DT_INVALID);
    assert_int_equal(terms.refusal, DT_TOPIC_FOREIGN);
    assert_int_equal(try_put("in.a", "out", NULL), DT_OK);
    assert_int_equal(try_put("in.a", "out", &terms), DT_OK);
    assert_int_equal(try_put("in.a", "other", &terms), DT_INVALID);
    /* What is not the maker's to name is no way to ask whether it is there. */
    assert_int_equal(try_put("taken.x", NULL, NULL), DT_OK);
    assert_int_equal(try_put("in.a", "taken_x", &terms), DT_INVALID);
    assert_int_equal(terms.refusal, DT_TOPIC_FOREIGN);
}

RIG_TEST(topics_are_counted_for_each_prefix_that_the_name_begins_with)
{
    struct dt_topic_terms terms = {
        .prefix_topics_max = 2, .prefixes = (struct dt_str[]){S("in."), S("also-"), S("in.deep.")}, .n_prefixes = 3};
    put((struct dt_topic){.name = S("in"), .retention_ms = -1}, false);
    put((struct dt_topic){.name = S("in-x"), .retention_ms = -1}, false);
    put((struct dt_topic){.name = S("in/"), .retention_ms = -1}, false);
    assert_int_equal(try_put("in.a", NULL, &terms), DT_OK);
    assert_int_equal(try_put("in.deep.z", NULL, &terms), DT_OK);
    assert_int_equal(try_put("in.b", NULL, &terms), DT_INVALID);
    assert_int_equal(terms.refusal, DT_TOPIC_PREFIX_LIMIT);
    assert_int_equal(try_put("in.deep.y", NULL, &terms), DT_INVALID);
    assert_int_equal(try_put("also-a", NULL, &terms), DT_OK);
    assert_int_equal(try_put("in.a", "elsewhere", &terms), DT_OK);
}

RIG_TEST(concurrent_creates_do_not_exceed_the_maximal_number_of_topics)
{
    char names[16][8];
    struct maker m[16];
    struct dt_topic_terms terms = {.topics_max = 5};
    int in = 0;
    for (int i = 0; i < 16; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        m[i] = (struct maker){names[i], &terms, DT_OK};
    }
    run_at_once(ensure, m, sizeof *m, 16);
    for (int i = 0; i < 16; i++) {
        assert_true(m[i].status == DT_OK || m[i].status == DT_INVALID);
        in += m[i].status == DT_OK;
    }
    assert_int_equal(in, 5);
    assert_sql_number(5, "SELECT COUNT(*) FROM topics");
}

/* The names of a page, and " >" and where it goes on. */
static const char *names(struct dt_topic_filter filter)
{
    static char text[400];
    struct dt_topic_list topics;
    size_t k = 0;
    OK(dt_store_topic_list(store, &filter, &arena, &topics, &err));
    text[0] = '\0';
    for (size_t i = 0; i < topics.n; i++)
        k += (size_t)snprintf(text + k, sizeof text - k, "%s%.*s", i ? " " : "", (int)topics.v[i].name.n,
                              topics.v[i].name.p);
    if (topics.more)
        snprintf(text + k, sizeof text - k, " >%.*s", (int)topics.last.n, topics.last.p);
    return text;
}

RIG_TEST(the_list_of_topics_continues_after_a_name_in_byte_order)
{
    assert_string_equal(names((struct dt_topic_filter){.limit = 10}), "");
    OK(dt_store_topic_ensure(store, S("b"), NULL, &err));
    OK(dt_store_topic_ensure(store, S("B"), NULL, &err));
    OK(dt_store_topic_ensure(store, S("a-"), NULL, &err));
    assert_string_equal(names((struct dt_topic_filter){.limit = 2}), "B a- >a-");
    assert_string_equal(names((struct dt_topic_filter){.after = S("a-"), .limit = 2}), "b");
}

RIG_TEST(a_list_with_prefixes_reads_no_other_topics)
{
    static const char *const all[] = {"a", "in", "in-x", "in.a", "in.b", "in.b.c", "in0", "mail", "mailing", "z"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        OK(dt_store_topic_ensure(store, dt_str(all[i]), NULL, &err));
    struct dt_topic_filter f = {.bound = true, .limit = 10};
    assert_string_equal(names(f), "");
    f.prefixes = (struct dt_str[]){S("")};
    f.n_prefixes = 1;
    assert_string_equal(names(f), "");
    f.prefixes = (struct dt_str[]){S("mail"), S("in.b"), S("in."), S("in."), S("none."), S("")};
    f.n_prefixes = 6;
    assert_string_equal(names(f), "in.a in.b in.b.c mail mailing");
    f.limit = 2;
    assert_string_equal(names(f), "in.a in.b >in.b");
    f.after = S("in.b");
    assert_string_equal(names(f), "in.b.c mail >mail");
    f.after = S("mail");
    assert_string_equal(names(f), "mailing");
    f.after = S("zz");
    assert_string_equal(names(f), "");
}

RIG_TEST(a_page_reads_a_bounded_number_of_prefixes)
{
    struct dt_str prefixes[250];
    char texts[250][8];
    struct dt_topic_filter f = {.bound = true, .prefixes = prefixes, .n_prefixes = 250, .limit = 10};
    for (int i = 0; i < 250; i++) {
        snprintf(texts[i], sizeof texts[i], "p%03d.", i);
        prefixes[i] = dt_str(texts[i]);
    }
    OK(dt_store_topic_ensure(store, S("p249.last"), NULL, &err));
    assert_string_equal(names(f), " >p099.\x7f");
    f.after = S("p099.\x7f");
    assert_string_equal(names(f), " >p199.\x7f");
    f.after = S("p199.\x7f");
    assert_string_equal(names(f), "p249.last");
}

/* A near job, due in so many ms; 0 = finished. */
static void make_job(int id, const char *topic, const char *state, int due_in)
{
    char next[80] = "NULL";
    if (due_in)
        snprintf(next, sizeof next, DT_SQL_NOW_MS " + (%d)", due_in);
    run_sql("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, "
            "leave_at, maker, digest, payload) VALUES (%d, '%s', '%s', 0, %s, 1, '', 1, 0, 0, 1, 0, '', '')",
            id, topic, state, next);
}

RIG_TEST(counts_and_the_oldest_overdue_job_are_read)
{
    struct dt_topic_counts c;
    OK(dt_store_topic_counts(store, S("t"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 0);
    assert_int_equal(c.oldest_overdue_ms, 0);
    make_job(1, "t", "scheduled", -5000);
    make_job(2, "t", "scheduled", 60000);
    make_job(3, "u", "scheduled", -90000);
    make_job(4, "t", "dispatched", -99000); /* waits for its acknowledgement: not overdue */
    make_job(5, "t", "dead", 0);
    assert_int_equal(mysql_fixture_audit(), 5);
    OK(dt_store_topic_counts(store, S("t"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 2);
    assert_int_equal(c.by_state[DT_DISPATCHED], 1);
    assert_int_equal(c.by_state[DT_SUCCEEDED], 0);
    assert_int_equal(c.by_state[DT_DEAD], 1);
    assert_in_range(c.oldest_overdue_ms, 5000, 60000);
    OK(dt_store_topic_counts(store, S("u"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 1);
    assert_in_range(c.oldest_overdue_ms, 90000, 150000);
}

RIG_TEST(shards_are_listed_with_the_reports_of_their_leaders)
{
    struct dt_shard_info *shards;
    struct dt_dispatchers dispatchers;
    size_t n;
    run_sql("UPDATE shards SET epoch = 9, owner = 'h:1', inflight = '[[1,2,3],[4,5,6]]' WHERE shard = 2");
    run_sql("UPDATE shards SET halted = 'why', owner = 'h:2' WHERE shard = 3"); /* it is gone */
    OK(dt_store_beat(store,
                     &(struct dt_process){.id = 1, .dispatcher = true, .name = "h:1", .leads = "1,2", .waits = "kafka"},
                     &err));
    OK(dt_store_beat(store, &(struct dt_process){.id = 2, .dispatcher = true, .name = "h:2", .leads = "3"}, &err));
    run_sql("UPDATE processes SET seen_at = seen_at - 4001 WHERE id = 2");
    run_sql("INSERT INTO shard_stats (shard, seen_at, epoch, waiting, overdue, oldest_due_at, drift_extra) VALUES (2, "
            "77, 9, 'kafka', 5, 66, 4)");
    OK(dt_store_shards(store, &arena, &shards, &n, &dispatchers, &err));
    assert_int_equal(n, 4);
    assert_true(dispatchers.now_ms > INT64_C(1700000000000));
    assert_int_equal(dispatchers.n, 1); /* the other one was not seen for too long */
    assert_true(dispatchers.waits_kafka && !dispatchers.waits_redis);
    assert_in_range(dispatchers.seen_ms_ago, 0, 4000);
    assert_members(shards[0], (inflight, 0), (owner.p, NULL), (waiting.p, NULL), (seen_at_ms, 0));
    assert_members(shards[2], (shard, 2), (epoch, 9), (inflight, 2));
    assert_true(dt_str_is(shards[2].owner, "h:1"));
    assert_true(dt_str_is(shards[2].waiting, "kafka"));
    assert_members(shards[2], (seen_at_ms, 77), (overdue, 5), (oldest_due_at_ms, 66), (drift_extra, 4));
    assert_true(dt_str_is(shards[3].halted, "why"));
    assert_null(shards[3].owner.p);
    run_sql("UPDATE processes SET seen_at = seen_at - 4001");
    OK(dt_store_shards(store, &arena, &shards, &n, &dispatchers, &err));
    assert_null(shards[2].waiting.p); /* its leader, who said so, is gone */
    run_sql("UPDATE processes SET seen_at = seen_at + 4001 WHERE id = 1");
    assert_sql_number(2, "SELECT GROUP_CONCAT(shard) FROM v_shards WHERE owner IS NOT NULL");
}
