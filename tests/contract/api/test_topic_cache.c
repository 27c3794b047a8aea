/* The snapshot of topics, on a real MySQL: whoever asks after a change gets what was read after it, those who wait
 * together are served by one reading, and topics that are wanted together are made in a few transactions. What a
 * session asks for is counted by the server. */
#include <unistd.h>

#include "request/topic_cache.h"
#include "support/mysql_fixture.h"
#include "support/wait.h"
#include "topic/topics.h"

static struct dt_error err;

#define READERS 8

static const struct dt_caller anybody = {.scopes = DT_SCOPE_WRITE | DT_SCOPE_ALL_TOPICS};

struct rig {
    dt_topic_cache *cache;
    dt_store *store;
};

/* Each call adds a microsecond: cached topics do not expire while the test is held up. */
static int64_t ticks(const dt_clock *)
{
    static _Atomic int64_t us = 1000000000;
    return atomic_fetch_add(&us, 1);
}

static void make(void)
{
    static const dt_clock clock = {.mono_us = ticks};
    static struct rig rig;
    memset(&rig, 0, sizeof(rig));
    mysql_fixture_open("topic_cache", 0, &rig.store);
    OK(dt_topic_cache_new(&mysql_fixture.config, &clock, &rig.cache));
    suite_state = &rig;
}

static void drop(void)
{
    struct rig *rig = suite_state;
    dt_topic_cache_free(rig->cache);
    dt_store_free(rig->store);
    mysql_fixture_drop();
}

/* A counter of the store's own session. */
static int64_t counted(dt_store *store, const char *name)
{
    char sql[80];
    dt_db *db;
    snprintf(sql, sizeof(sql), "SHOW SESSION STATUS LIKE '%s'", name);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query_text(db, dt_str(sql), &err));
    assert_true(dt_db_next(db));
    int64_t n = dt_db_i64(db, 1);
    OK(dt_db_end(db, &err));
    return n;
}

static bool knows(struct rig *rig, const char *name)
{
    struct dt_view *view = dt_topic_cache_view(rig->cache);
    bool is_there = dt_view_topic(view, dt_str(name)) != NULL;
    dt_view_release(view);
    return is_there;
}

#define RIG_TEST(name) TEST_OF(struct rig *rig, name, NULL, NULL)

RIG_TEST(a_snapshot_is_not_read_again_within_a_second)
{
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    int64_t before = counted(rig->store, "Com_stmt_execute");
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    assert_int_equal(counted(rig->store, "Com_stmt_execute") - before, 1); /* that one asked for the counter */
}

RIG_TEST(a_request_after_a_change_gets_a_snapshot_that_was_read_after_the_change)
{
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    for (int i = 0; i < 20; i++) {
        char name[20];
        snprintf(name, sizeof(name), "t%d", i);
        OK(dt_store_topic_ensure(rig->store, dt_str(name), NULL, &err));
        dt_topic_cache_invalidate(rig->cache);
        OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
        assert_true(knows(rig, name));
    }
}

struct reader {
    pthread_t thread;
    struct rig *rig;
    dt_store *store;
    dt_status status;
    int64_t asked;    /* statements */
    _Atomic pid_t id; /* of the reader's thread, set just before it asks */
};

static void *read_topics(void *arg)
{
    struct reader *r = arg;
    r->id = gettid();
    r->status = dt_topic_cache_refresh(r->rig->cache, DT_SNAPSHOT_TOPICS, r->store, NULL);
    dt_db_thread_end();
    return NULL;
}

/* All sleep at once: one waits for the server, the others wait for that one; a thread that holds a lock is awake. */
static bool sleep_all(struct reader *readers)
{
    for (size_t i = 0; i < READERS; i++) {
        char path[64], status = ' ';
        snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)readers[i].id);
        FILE *file = fopen(path, "r");
        int n = file ? fscanf(file, "%*d (%*[^)]) %c", &status) : 0;
        if (file)
            fclose(file);
        if (n != 1 || status != 'S')
            return false;
    }
    return true;
}

struct changer {
    pthread_t thread;
    dt_topic_cache *cache;
    _Atomic bool stop;
    _Atomic unsigned changes;
};

static void *change_all_the_time(void *arg)
{
    struct changer *c = arg;
    while (!c->stop) {
        dt_topic_cache_invalidate(c->cache);
        c->changes++;
        usleep(20);
    }
    return NULL;
}

/* Somebody makes topics as fast as they can be made: each reading is out of date before it has ended. */
RIG_TEST(requests_that_wait_together_share_one_read)
{
    struct reader readers[READERS] = {0};
    struct changer changer = {.cache = rig->cache};
    int64_t asked = 0;
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.rig = rig, .store = mysql_fixture_store()};
        OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, readers[i].store, &err));
        readers[i].asked = counted(readers[i].store, "Com_stmt_execute");
    }
    run_sql("LOCK TABLES installation WRITE");
    dt_topic_cache_invalidate(rig->cache);
    for (size_t i = 0; i < READERS; i++)
        readers[i].thread = start_thread(read_topics, &readers[i]);
    AWAIT(sleep_all(readers) && sleep_all(readers)); /* one reads, the others wait for it */
    changer.thread = start_thread(change_all_the_time, &changer);
    AWAIT(changer.changes > 1);
    run_sql("UNLOCK TABLES");
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    changer.stop = true;
    pthread_join(changer.thread, NULL);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(readers[i].status, DT_OK);
        asked += counted(readers[i].store, "Com_stmt_execute") - readers[i].asked - 1;
        dt_store_free(readers[i].store);
    }
    /* The first reading had begun before the others asked. */
    assert_in_range(asked, 1, 2);
}

static size_t wish_for(struct dt_topic_wish *wishes, char names[][32], size_t n, const char *prefix)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "%s%zu", prefix, i);
        wishes[i] = (struct dt_topic_wish){.name = dt_str(names[i]), .caller = &anybody};
    }
    return n;
}

RIG_TEST(topics_wanted_together_are_created_in_a_few_transactions)
{
    struct dt_topic_wish wishes[50];
    char names[50][32];
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    int64_t before = counted(rig->store, "Com_stmt_execute");
    int64_t commits = counted(rig->store, "Com_commit");
    size_t n = wish_for(wishes, names, 50, "many");
    OK(dt_topic_cache_ensure(rig->cache, rig->store, wishes, n, &err));
    assert_in_range(counted(rig->store, "Com_commit") - commits, 1, 4);
    assert_true(counted(rig->store, "Com_stmt_execute") > before);
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(wishes[i].status, DT_OK);
        assert_true(knows(rig, names[i]));
    }
}

/* One that may not be made takes no other with it, and is told which it was. */
RIG_TEST(topics_wanted_together_each_get_their_own_answer)
{
    struct dt_topic_wish wishes[6];
    const char *const names[] = {"a.b", "a_b", "duetime_results", "fresh", "there", "a.c"};
    const dt_status answers[] = {DT_OK, DT_INVALID, DT_INVALID, DT_OK, DT_OK, DT_OK};
    OK(dt_store_topic_ensure(rig->store, DT_STR_LIT("there"), NULL, &err));
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    for (size_t i = 0; i < 6; i++)
        wishes[i] = (struct dt_topic_wish){.name = dt_str(names[i]), .caller = &anybody};
    OK(dt_topic_cache_ensure(rig->cache, rig->store, wishes, 6, &err));
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(wishes[i].status, answers[i]);
        assert_int_equal(wishes[i].reason != NULL, answers[i] == DT_INVALID);
        assert_int_equal(knows(rig, names[i]), answers[i] == DT_OK);
    }
}

RIG_TEST(no_more_topics_are_created_together_than_the_limit_allows)
{
    struct dt_topic_wish wishes[40];
    char names[40][32];
    size_t made = 0;
    int64_t usual = mysql_fixture.config.limits_topics;
    mysql_fixture.config.limits_topics = sql_number("SELECT COUNT(*) FROM topics") + 23;
    OK(dt_topic_cache_refresh(rig->cache, DT_SNAPSHOT_TOPICS, rig->store, &err));
    size_t n = wish_for(wishes, names, 40, "bound");
    OK(dt_topic_cache_ensure(rig->cache, rig->store, wishes, n, &err));
    for (size_t i = 0; i < n; i++)
        made += wishes[i].status == DT_OK;
    assert_int_equal(made, 23);
    assert_sql_number(23, "SELECT COUNT(*) FROM topics WHERE name LIKE 'bound%%'");
    assert_string_equal(wishes[n - 1].reason, dt_topic_cache_refusal(rig->cache, DT_TOPIC_LIMIT));
    mysql_fixture.config.limits_topics = usual;
}

SUITE(make, drop)
