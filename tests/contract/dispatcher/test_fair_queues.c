/* Due scans and their fair queues (shard_due.c, shard_queues.c) on a real MySQL and Redis: more is due than goes in a
 * batch, and what waits stands in held sets. Whether Kafka takes a topic's messages is a fake. Whoever claims is, too: the
 * row goes, and so does the entry of the index. */

#include "support/suite.h"

#include "shard/shard_parts.h"
#include "support/job_rows.h"
#include "support/redis_fixture.h"

#define BATCH  10
#define SCAN   (DT_SCAN_BATCHES * BATCH)
#define TOPICS 24
#define MANY   40 /* jobs of a topic: all but the last of these have so many */
#define FEW    4
#define JOBS   ((TOPICS - 1) * MANY + FEW)
#define SCANS  1500
#define SECOND INT64_C(1000000)

static struct redis_server redis;
static struct dt_config config;
static struct dt_process_env env;
static dt_shard_loop *l;
static struct dt_error err;
static int64_t now_ms, mono_us;
static size_t claimed[TOPICS]; /* of each topic */
static size_t sets_at_most;    /* held sets that there were at once */
static bool closed[TOPICS];    /* Kafka does not take them */
static bool paused[TOPICS];
static int64_t epoch;

/* ---- the fakes ---- */

STUB(static int64_t, turned_us, (const dt_clock *clock), mono_us)

static const dt_clock turned = {.mono_us = turned_us};

static size_t number_of(struct dt_str topic)
{
    return (size_t)((topic.p[1] - '0') * 10 + topic.p[2] - '0');
}

enum dt_writable dt_delivery_writable(dt_delivery *, struct dt_str topic, int64_t, int64_t)
{
    return closed[number_of(topic)] ? DT_WRITABLE_NO : DT_WRITABLE_YES;
}

/* The housekeeper has nothing to fill in: the index has had all jobs from the beginning. */
static bool lost, doubted;

static void index_lost(void *, unsigned)
{
    lost = true;
}

static void index_doubted(void *)
{
    doubted = true;
}

STUB(static bool, index_told, (void *arg, const char *endpoint), true)

/* ---- the rig ---- */

/* An id tells the topic, and its place among the topic's jobs. */
static int64_t id_of(size_t topic, size_t n)
{
    return (int64_t)(topic * 1000 + n + 1);
}

/* The jobs of a topic are due in the order of their places; the few of the last topic after all others. */
static int64_t due_ms(size_t topic, size_t n)
{
    return now_ms - 100000 + (int64_t)(topic == TOPICS - 1 ? MANY + n : n) * 10 + (int64_t)topic % 7;
}

static size_t jobs_of(size_t topic)
{
    return topic == TOPICS - 1 ? FEW : MANY;
}

static void fill(void)
{
    struct dt_entry entries[JOBS];
    size_t at = 0;
    for (size_t t = 0; t < TOPICS; t++) {
        run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('t%02zu', 0, 0)", t);
        for (size_t n = 0; n < jobs_of(t); n++, at++)
            entries[at] = (struct dt_entry){.id = id_of(t, n), .due_ms = due_ms(t, n)};
    }
    for (size_t i = 0; i < JOBS; i++)
        job_row(entries[i].id, "topic = 't%02lld', run_at = %lld, next_at = %lld, near = 1",
                (long long)(entries[i].id / 1000), (long long)entries[i].due_ms, (long long)entries[i].due_ms);
    OK(dt_index_put(l->index, &l->trust.map, entries, JOBS, INT64_MAX, false, &err));
}

static void begin_leadership(void)
{
    l->trust.up = true;
    l->trust.whole = true;
    l->trust.compared = true;
    dt_shard_due_init(l);
    l->fence = (struct dt_fence){.epoch = ++epoch, .token = 4711};
}

static void make(void)
{
    memset(claimed, 0, sizeof(claimed));
    memset(closed, 0, sizeof(closed));
    memset(paused, 0, sizeof(paused));
    sets_at_most = 0;
    mysql_fixture_make("fair");
    mysql_fixture.config.shards_count = 1;
    mysql_fixture_migrate();
    redis_server_start(&redis, "");
    now_ms = mysql_now_ms();
    mono_us = 1000 * SECOND;
    config = redis_fixture_config(redis.endpoint, "", 1000);
    config.dispatch_batch_jobs = BATCH;
    env = (struct dt_process_env){.config = &config,
                                  .clock = &turned,
                                  .index_lost = index_lost,
                                  .index_doubted = index_doubted,
                                  .index_told = index_told};
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->env = &env;
    l->store = mysql_fixture_store();
    OK(dt_index_new(&config, "fair", dt_clock_system(), &l->index, &err));
    OK(dt_topic_snapshot_new(&l->snapshot));
    OK(dt_mailbox_new(&l->mailbox));
    l->fair.hints = calloc(BATCH, sizeof(*l->fair.hints));
    l->due.entries = calloc(SCAN, sizeof(*l->due.entries));
    l->due.rows = calloc(SCAN, sizeof(*l->due.rows));
    dt_shard_map_init(&l->trust.map, 1, 1);
    pthread_mutex_init(&l->state_lock, NULL);
    begin_leadership();
    fill();
}

static void drop(void)
{
    dt_topic_memory_clear(&l->fair.memory);
    dt_id_set_clear(&l->unknown.ids);
    dt_arena_clear(&l->fair.arena);
    pthread_mutex_destroy(&l->state_lock);
    free(l->fair.v);
    free(l->fair.open);
    free(l->fair.hints);
    free(l->due.entries);
    free(l->due.rows);
    dt_mailbox_free(l->mailbox);
    dt_topic_snapshot_free(l->snapshot);
    dt_index_free(l->index);
    dt_store_free(l->store);
    free(l);
    redis_server_kill(&redis);
    mysql_fixture_drop();
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

/* What is hinted at goes, each topic's jobs in their order. An entry may be left in the index although its row is gone. */
static void claim(void)
{
    struct dt_entry gone[BATCH];
    size_t n = 0;
    for (size_t i = 0; i < l->fair.n_hints; i++) {
        const int64_t id = l->fair.hints[i].id;
        const size_t topic = (size_t)(id / 1000);
        if (closed[topic] || paused[topic])
            continue; /* its row would be left as it is */
        if (id >= id_of(topic, claimed[topic])) {
            assert_int_equal(id, id_of(topic, claimed[topic]));
            claimed[topic]++;
            run_sql("DELETE FROM jobs WHERE id = %lld", (long long)id);
        }
        gone[n++] = (struct dt_entry){.id = id, .was_ms = due_ms(topic, (size_t)(id % 1000 - 1))};
    }
    if (n)
        (void)!dt_index_put(l->index, &l->trust.map, gone, n, INT64_MAX, false, &err);
}

static size_t held_sets(void)
{
    struct dt_str *names;
    size_t n = 0;
    ARENA(arena);
    OK(dt_index_held(l->index, 0, &arena, &names, &n, &err));
    return n;
}

static void scan_and_claim(void)
{
    int64_t next_ms;
    mono_us += SECOND / 100;
    dt_shard_list_held(l);
    OK(dt_shard_due_scan(l, now_ms, &next_ms, &err));
    assert_true(l->fair.n_hints <= BATCH);
    claim();
    if (lost)
        dt_shard_loop_index_whole(l, l->state.losses);
    if (doubted)
        dt_shard_loop_index_compared(l, l->state.doubts);
    lost = doubted = false;
}

static size_t all_claimed(void)
{
    size_t sum = 0;
    for (size_t t = 0; t < TOPICS; t++)
        sum += claimed[t];
    return sum;
}

/* Until so many are claimed; gives the number of scans. */
static int scan_until(size_t n)
{
    int scans = 0;
    for (; all_claimed() < n; scans++) {
        if (scans == SCANS)
            fail_msg("of %d jobs %zu are claimed", JOBS, all_claimed());
        scan_and_claim();
        if (scans % 20 == 0 && held_sets() > sets_at_most)
            sets_at_most = held_sets();
    }
    return scans;
}

/* ---- the tests ---- */

FRESH_TEST(many_topics_with_held_sets_are_drained_and_a_small_topic_does_not_wait)
{
    for (int scans = 0; claimed[TOPICS - 1] < FEW; scans++) {
        assert_true(scans < SCANS);
        scan_and_claim();
    }
    assert_in_range(all_claimed(), FEW, JOBS / 2);
    scan_until(JOBS);
    assert_true(sets_at_most > 8);
    scan_and_claim();
    assert_int_equal(l->fair.n_hints, 0);
    assert_int_equal(held_sets(), 0);
}

static void pause_first(size_t n)
{
    for (size_t t = 0; t < TOPICS; t++)
        paused[t] = t < n;
    run_sql("UPDATE topics SET paused = name < 't%02zu'; UPDATE installation SET topics_version = topics_version + 1",
            n);
    dt_shard_topics_changed(l);
}

FRESH_TEST(parked_jobs_of_a_paused_topic_are_sent_when_it_is_resumed)
{
    enum { PAUSED = 12 };
    pause_first(PAUSED);
    scan_until(JOBS - PAUSED * MANY);
    for (int i = 0; i < 50; i++)
        scan_and_claim();
    assert_int_equal(all_claimed(), JOBS - PAUSED * MANY);
    assert_int_equal(held_sets(), PAUSED);
    pause_first(0);
    scan_until(JOBS);
}

FRESH_TEST(jobs_that_kafka_does_not_accept_are_parked_and_sent_when_it_does)
{
    closed[3] = closed[5] = true;
    scan_until(JOBS - 2 * MANY);
    closed[3] = closed[5] = false;
    mono_us += 60 * SECOND;
    scan_until(JOBS);
}

FRESH_TEST(the_next_leader_finds_parked_jobs)
{
    scan_until(JOBS / 4);
    assert_true(held_sets() > 8);
    dt_topic_memory_clear(&l->fair.memory);
    begin_leadership();
    scan_until(JOBS);
    assert_int_equal(held_sets(), 0);
}

/* Nothing can be parked, nor be taken out: MySQL's rows say what is due. */
FRESH_TEST(with_a_full_redis_no_job_is_lost_or_duplicated)
{
    scan_until(JOBS / 4);
    redis_fixture_text(redis.endpoint, 0, "CONFIG SET maxmemory 1");
    scan_until(JOBS / 2);
    redis_fixture_text(redis.endpoint, 0, "CONFIG SET maxmemory 0");
    scan_until(JOBS);
}
