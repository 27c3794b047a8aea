/*
 * The promises of index/index.h, on real Redis servers: the shared ones, and private ones that are killed, stopped,
 * filled up and flushed.
 */
#include "index/index.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/redis_fixture.h"

#define FAR    INT64_C(9000000000000)
#define MARKER ((struct dt_marker){7, 12345, 3, 1, 0})

struct fixture {
    struct dt_config config;
    char endpoints[256], installation[64];
    struct redis_server server; /* port 0 = the shared servers are used */
    struct dt_shard_map map;
    dt_index *index;
    struct dt_error err;
};

static void open_index(struct fixture *fx, int64_t timeout_ms)
{
    fx->config = redis_fixture_config(fx->endpoints, fx->server.password, timeout_ms);
    redis_fixture_name(fx->installation, sizeof(fx->installation), "ix");
    dt_shard_map_init(&fx->map, 1, 8);
    assert_int_equal(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &fx->index, &fx->err), DT_OK);
}

static int shared(void **state)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    *state = fx;
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", redis_fixture_endpoints());
    open_index(fx, 2000);
    return 0;
}

static int private_with(void **state, const char *password)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    *state = fx;
    redis_server_start(&fx->server, password);
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", fx->server.endpoint);
    open_index(fx, 300);
    return 0;
}

static int private(void **state)
{
    return private_with(state, "");
}
static int private_with_password(void **state)
{
    return private_with(state, "open sesame");
}

static int done(void **state)
{
    struct fixture *fx = *state;

    dt_index_free(fx->index);
    if (fx->server.port)
        redis_server_kill(&fx->server);
    else
        redis_fixture_forget(fx->endpoints, fx->installation);
    free(fx);
    return 0;
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        fx->err.text[0] = '\0';                                                                                        \
        dt_status status_ = (call);                                                                                    \
        if (status_ != DT_OK)                                                                                          \
            fail_msg("%s: %s", #call, fx->err.text);                                                                   \
    } while (0)
#define UNAVAILABLE(call) assert_int_equal((call), DT_UNAVAILABLE)

/* The smallest id above `above` that belongs to the shard. */
static int64_t id_of(const struct fixture *fx, unsigned shard, int64_t above)
{
    do
        above++;
    while (dt_shard_of(&fx->map, above) != shard);
    return above;
}

static void put_one(struct fixture *fx, int64_t id, int64_t due_ms)
{
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms}, 1, FAR, false, &fx->err));
}

/* 0 = absent */
static int64_t score(struct fixture *fx, int64_t id)
{
    int64_t out = -1;

    OK(dt_index_scores(fx->index, dt_shard_of(&fx->map, id), &id, 1, &out, &fx->err));
    return out;
}

/* ---- put ---- */

static void put_stores_an_entry_in_its_shards_set_with_its_time_as_the_score(void **state)
{
    struct fixture *fx = *state;
    int64_t id = (INT64_C(690) << 40) + 77, found = 0;

    put_one(fx, id, 1800000000123);
    assert_int_equal(score(fx, id), 1800000000123);
    for (unsigned i = 0; i < 2 && strchr(fx->endpoints, ','); i++)
        found += strcmp(redis_fixture_text(fx->endpoints, i, "ZSCORE %s:{%u}:due %lld", fx->installation,
                                           dt_shard_of(&fx->map, id), (long long)id),
                        "1800000000123") == 0;
    assert_int_equal(found, 1);
}

static void put_moves_removes_and_is_idempotent(void **state)
{
    struct fixture *fx = *state;

    put_one(fx, 5, 1000);
    put_one(fx, 5, 1000);
    put_one(fx, 5, 500);
    assert_int_equal(score(fx, 5), 500);
    put_one(fx, 5, 0);
    put_one(fx, 5, 0);
    assert_int_equal(score(fx, 5), 0);
}

static void put_removes_what_is_due_after_the_horizon(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entries[] = {{1, 1000}, {2, 1001}, {3, 900}};

    for (int wake = 0; wake < 2; wake++) {
        put_one(fx, 2, 10);
        OK(dt_index_put(fx->index, &fx->map, entries, 3, 1000, wake, &fx->err));
        assert_int_equal(score(fx, 1), 1000);
        assert_int_equal(score(fx, 2), 0);
        assert_int_equal(score(fx, 3), 900);
    }
}

static void the_last_of_several_entries_of_one_job_counts(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entries[] = {{4, 10}, {4, 20}, {5, 0}, {5, 30}};

    OK(dt_index_put(fx->index, &fx->map, entries, 4, FAR, true, &fx->err));
    assert_int_equal(score(fx, 4), 20);
    assert_int_equal(score(fx, 5), 30);
}

static int64_t count_all(struct fixture *fx)
{
    int64_t sum = 0, n;

    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        OK(dt_index_count(fx->index, shard, 0, FAR, &n, &fx->err));
        sum += n;
    }
    return sum;
}

static void put_takes_any_number_of_entries_of_any_shards_on_all_endpoints(void **state)
{
    struct fixture *fx = *state;
    size_t n = 50000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));

    dt_shard_map_init(&fx->map, 1, 64); /* so many that no choice of ports gives all to one endpoint */
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 1000 + (int64_t)i};
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, true, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n);
    for (unsigned i = 0; strchr(fx->endpoints, ',') && i < 2; i++) {
        int64_t keys = 0;

        for (unsigned shard = 0; shard < fx->map.shards; shard++)
            keys += redis_fixture_number(fx->endpoints, i, "EXISTS %s:{%u}:due", fx->installation, shard);
        assert_in_range(keys, 1, fx->map.shards - 1);
    }
    for (size_t i = 0; i < n; i++)
        entries[i].due_ms = i % 2 ? 0 : 5;
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, false, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n / 2);
    free(entries);
}

static void put_of_nothing_is_nothing(void **state)
{
    struct fixture *fx = *state;

    OK(dt_index_put(fx->index, &fx->map, NULL, 0, FAR, true, &fx->err));
}

/* ---- wake-ups ---- */

struct heard {
    pthread_mutex_t lock;
    int by_shard[DT_SHARDS_MAX], outbox[DT_SHARDS_MAX], all;
};

static void on_wake(void *arg, int shard, bool outbox)
{
    struct heard *heard = arg;

    pthread_mutex_lock(&heard->lock);
    if (shard < 0)
        heard->all++;
    else if (outbox)
        heard->outbox[shard]++;
    else
        heard->by_shard[shard]++;
    pthread_mutex_unlock(&heard->lock);
}

struct expect {
    struct heard *heard;
    const int *counter;
    int at_least;
};

static bool was_heard(void *arg)
{
    struct expect *expect = arg;

    pthread_mutex_lock(&expect->heard->lock);
    bool yes = *expect->counter >= expect->at_least;
    pthread_mutex_unlock(&expect->heard->lock);
    return yes;
}

static void expect_heard(struct heard *heard, const int *counter, int at_least, int deadline_ms)
{
    if (!wait_until(was_heard, &(struct expect){heard, counter, at_least}, deadline_ms))
        fail_msg("heard %d of %d", *counter, at_least);
}

static dt_wake *listen_to(struct fixture *fx, struct heard *heard, int endpoints)
{
    dt_wake *wake;

    memset(heard, 0, sizeof(*heard));
    pthread_mutex_init(&heard->lock, NULL);
    OK(dt_wake_start(&fx->config, fx->installation, on_wake, heard, &wake, &fx->err));
    expect_heard(heard, &heard->all, endpoints, 3000); /* once for each channel that came up */
    return wake;
}

static int n_endpoints(const struct fixture *fx)
{
    return strchr(fx->endpoints, ',') ? 2 : 1;
}

/* Puts with wake and tells how often the shard was announced: a later announcement by hand closes the count. */
static int announced(struct fixture *fx, struct heard *heard, unsigned shard, int64_t id, int64_t due_ms)
{
    int before = heard->by_shard[shard], closing = heard->outbox[shard];

    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms}, 1, FAR, true, &fx->err));
    OK(dt_index_wake(fx->index, shard, true, &fx->err));
    expect_heard(heard, &heard->outbox[shard], closing + 1, 2000);
    return heard->by_shard[shard] - before;
}

static void a_put_announces_its_shard_exactly_when_the_earliest_became_earlier(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));
    bool intact;

    for (unsigned shard = 0; shard < 4; shard++) { /* some on each endpoint */
        int64_t a = id_of(fx, shard, 0), b = id_of(fx, shard, a), c = id_of(fx, shard, b);

        OK(dt_index_mark(fx->index, shard, MARKER, &intact, &fx->err)); /* a marker is no entry */
        assert_int_equal(announced(fx, &heard, shard, a, 1000), 1);     /* the first */
        assert_int_equal(announced(fx, &heard, shard, b, 2000), 0);     /* later */
        assert_int_equal(announced(fx, &heard, shard, c, 1000), 0);     /* as early */
        assert_int_equal(announced(fx, &heard, shard, b, 999), 1);      /* moved to the head */
        assert_int_equal(announced(fx, &heard, shard, b, 999), 0);      /* said before */
        assert_int_equal(announced(fx, &heard, shard, b, 0), 0);        /* removed */
        assert_int_equal(announced(fx, &heard, shard, a, 3000), 0);     /* moved away from the head */
        assert_int_equal(announced(fx, &heard, shard, c, 0), 0);
        assert_int_equal(announced(fx, &heard, shard, b, FAR + 1), 0); /* beyond the horizon */
        assert_int_equal(announced(fx, &heard, shard, b, 2999), 1);
    }
    dt_wake_stop(wake);
}

static void one_announcement_a_shard_is_enough_for_many_entries(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));
    struct dt_entry entries[500];
    int64_t id = 0;

    for (int i = 0; i < 500; i++)
        entries[i] = (struct dt_entry){id = id_of(fx, 3, id), 1000 - i};
    OK(dt_index_put(fx->index, &fx->map, entries, 500, FAR, true, &fx->err));
    OK(dt_index_wake(fx->index, 3, true, &fx->err));
    expect_heard(&heard, &heard.outbox[3], 1, 2000);
    assert_int_equal(heard.by_shard[3], 1);
    dt_wake_stop(wake);
}

static void a_put_without_wake_announces_nothing(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));

    put_one(fx, id_of(fx, 1, 0), 5);
    OK(dt_index_wake(fx->index, 1, true, &fx->err));
    expect_heard(&heard, &heard.outbox[1], 1, 2000);
    assert_int_equal(heard.by_shard[1], 0);
    dt_wake_stop(wake);
}

static void announcements_by_hand_arrive_with_their_meaning(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));
    int all = heard.all;

    for (unsigned shard = 0; shard < fx->map.shards; shard++)
        OK(dt_index_wake(fx->index, shard, false, &fx->err));
    for (unsigned shard = 0; shard < fx->map.shards; shard++)
        expect_heard(&heard, &heard.by_shard[shard], 1, 2000);
    assert_int_equal(heard.outbox[0], 0);
    OK(dt_index_wake_all(fx->index, &fx->err));
    expect_heard(&heard, &heard.all, all + n_endpoints(fx), 2000);
    dt_wake_stop(wake);
}

static void a_wake_message_of_another_installation_is_not_heard(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));

    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_number(fx->endpoints, (unsigned)i, "PUBLISH %sx:wake 2", fx->installation);
    OK(dt_index_wake(fx->index, 2, true, &fx->err));
    expect_heard(&heard, &heard.outbox[2], 1, 2000);
    assert_int_equal(heard.by_shard[2], 0);
    dt_wake_stop(wake);
}

static void a_lost_wake_channel_is_told_and_comes_back_by_itself(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, 1);

    redis_server_kill(&fx->server);
    expect_heard(&heard, &heard.all, 2, 2000); /* lost */
    redis_server_again(&fx->server);
    expect_heard(&heard, &heard.all, 3, 5000); /* back */
    redis_fixture_number(fx->endpoints, 0, "PUBLISH %s:wake 6", fx->installation);
    expect_heard(&heard, &heard.by_shard[6], 1, 2000);
    dt_wake_stop(wake);
}

static void a_server_that_stands_still_is_noticed_by_its_missing_pong(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, 1);

    kill(fx->server.pid, SIGSTOP);
    expect_heard(&heard, &heard.all, 2, 8000); /* PING after 5 s of silence, 0.3 s for its answer */
    kill(fx->server.pid, SIGCONT);
    expect_heard(&heard, &heard.all, 3, 5000);
    dt_wake_stop(wake);
}

static void the_wake_channel_can_be_stopped_while_its_server_is_down(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake;

    memset(&heard, 0, sizeof(heard));
    pthread_mutex_init(&heard.lock, NULL);
    redis_server_kill(&fx->server);
    OK(dt_wake_start(&fx->config, fx->installation, on_wake, &heard, &wake, &fx->err));
    dt_wake_stop(wake);
    assert_int_equal(heard.all, 0);
}

/* ---- the leader's look ---- */

static void due_gives_what_is_due_in_order_and_the_time_of_the_next(void **state)
{
    struct fixture *fx = *state;
    int64_t a = id_of(fx, 2, 0), b = id_of(fx, 2, a), c = id_of(fx, 2, b), next;
    struct dt_entry got[8];
    size_t n = 99;
    bool marked = true;

    OK(dt_index_due(fx->index, 2, MARKER, 1000, 8, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 0);
    assert_int_equal(next, 0);
    assert_false(marked);

    put_one(fx, b, 1000);
    put_one(fx, a, 900);
    put_one(fx, c, 1001);
    OK(dt_index_due(fx->index, 2, MARKER, 1000, 8, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 2);
    assert_int_equal(got[0].id, a);
    assert_int_equal(got[0].due_ms, 900);
    assert_int_equal(got[1].id, b);
    assert_int_equal(got[1].due_ms, 1000);
    assert_int_equal(next, 1001);

    OK(dt_index_due(fx->index, 2, MARKER, 1000, 1, got, &n, &next, &marked,
                    &fx->err)); /* limit: the next one is due too */
    assert_int_equal(n, 1);
    assert_int_equal(next, 1000);
    OK(dt_index_due(fx->index, 2, MARKER, 5000, 3, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 3);
    assert_int_equal(next, 0);
}

static void the_marker_tells_a_leader_whether_its_set_is_still_there(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry got[4];
    int64_t next;
    size_t n;
    bool marked, intact = true;

    OK(dt_index_mark(fx->index, 1, MARKER, &intact, &fx->err));
    assert_false(intact); /* a new set */
    OK(dt_index_due(fx->index, 1, MARKER, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_true(marked);
    assert_int_equal(n, 0); /* the marker itself is never due */
    assert_int_equal(next, 0);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, 12345, 4, 1, 0}, &intact, &fx->err)); /* it counts on */
    assert_true(intact);
    OK(dt_index_due(fx->index, 1, MARKER, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_false(marked); /* so does an older copy of this leadership's set look */
    OK(dt_index_due(fx->index, 1, (struct dt_marker){7, 12345, 4, 1, 0}, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_true(marked);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0}, &intact, &fx->err)); /* another leadership */
    assert_true(intact);
    OK(dt_index_due(fx->index, 1, MARKER, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_false(marked);
    OK(dt_index_due(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0}, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_true(marked);

    redis_fixture_forget(fx->endpoints, fx->installation);
    OK(dt_index_due(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0}, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_false(marked);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0}, &intact, &fx->err));
    assert_false(intact);
}

static void a_marker_of_another_map_or_from_before_a_move_is_not_believed(void **state)
{
    struct fixture *fx = *state;
    bool intact = true;

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, -5, 1, 2, 0}, &intact, &fx->err));
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 1, 2, 7}, &intact, &fx->err));
    assert_true(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){9, 6, 1, 3, 0}, &intact, &fx->err)); /* filled for map 2 */
    assert_false(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){12, 6, 1, 3, 11}, &intact, &fx->err)); /* left here at epoch 9 */
    assert_false(intact);
}

static void a_set_that_is_dropped_takes_its_marker_and_its_held_sets_with_it(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entry = {id_of(fx, 1, 0), 1000}, got[4];
    struct dt_arena arena;
    struct dt_str *topics;
    int64_t next;
    size_t n = 9;
    bool marked, intact = true;

    dt_arena_init(&arena);
    OK(dt_index_mark(fx->index, 1, MARKER, &intact, &fx->err));
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), &entry, 1, &fx->err));
    OK(dt_index_drop(fx->index, 1, &fx->err));
    OK(dt_index_due(fx->index, 1, MARKER, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 0);
    assert_false(marked);
    OK(dt_index_held(fx->index, 1, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), NULL, 0, &fx->err));
    OK(dt_index_unhold(fx->index, 1, DT_STR_LIT("t"), 10, &next, &fx->err));
    OK(dt_index_due(fx->index, 1, MARKER, FAR, 4, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 0); /* nothing was left in the held set */
    dt_arena_clear(&arena);
}

static void a_fix_changes_an_entry_only_while_it_has_the_score_that_was_seen(void **state)
{
    struct fixture *fx = *state;
    int64_t a = id_of(fx, 5, 0), b = id_of(fx, 5, a), c = id_of(fx, 5, b), d = id_of(fx, 5, c);
    struct dt_fix fixes[] = {{a, 100, 500}, {b, 100, 500}, {c, 100, 0}, {d, 100, 500}};

    put_one(fx, a, 100);
    put_one(fx, b, 101); /* changed meanwhile */
    put_one(fx, c, 100);
    OK(dt_index_fix(fx->index, 5, fixes, 4, &fx->err));
    assert_int_equal(score(fx, a), 500);
    assert_int_equal(score(fx, b), 101);
    assert_int_equal(score(fx, c), 0);
    assert_int_equal(score(fx, d), 0); /* absent: not made */
}

static void thousands_of_fixes_go_in_one_call(void **state)
{
    struct fixture *fx = *state;
    size_t n = 40000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));
    struct dt_fix *fixes = calloc(n, sizeof(*fixes));
    int64_t count;

    dt_shard_map_init(&fx->map, 1, 1);
    for (size_t i = 0; i < n; i++) {
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100};
        fixes[i] = (struct dt_fix){(int64_t)i + 1, i % 4 ? 100 : 99, 200};
    }
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, false, &fx->err));
    OK(dt_index_fix(fx->index, 0, fixes, n, &fx->err));
    OK(dt_index_count(fx->index, 0, 200, 201, &count, &fx->err));
    assert_int_equal(count, n / 4 * 3);
    free(entries);
    free(fixes);
}

/* ---- held sets ---- */

static void entries_of_a_paused_topic_are_held_and_given_back(void **state)
{
    struct fixture *fx = *state;
    int64_t a = id_of(fx, 4, 0), b = id_of(fx, 4, a), c = id_of(fx, 4, b), left = -1;
    struct dt_entry entries[] = {{a, 100}, {b, 100}, {c, 300}};
    struct dt_arena arena;
    struct dt_str *topics;
    size_t n;

    dt_arena_init(&arena);
    put_one(fx, a, 100);
    put_one(fx, b, 101);                                                               /* was changed: stays */
    OK(dt_index_hold(fx->index, 4, DT_STR_LIT("orders.close"), entries, 3, &fx->err)); /* c is in no set at all */
    assert_int_equal(score(fx, a), 0);
    assert_int_equal(score(fx, b), 101);
    OK(dt_index_held(fx->index, 4, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_true(dt_str_is(topics[0], "orders.close"));
    OK(dt_index_held(fx->index, 3, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);

    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 1, &left, &fx->err));
    assert_int_equal(left, 1);
    assert_int_equal(score(fx, a), 100); /* earliest first */
    put_one(fx, c, 250);                 /* changed while it was held: that stays */
    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 10, &left, &fx->err));
    assert_int_equal(left, 0);
    assert_int_equal(score(fx, c), 250);
    OK(dt_index_held(fx->index, 4, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);
    dt_arena_clear(&arena);
}

static void giving_back_is_bounded_by_its_limit(void **state)
{
    struct fixture *fx = *state;
    size_t n = 5000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));
    int64_t left, count;

    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100 + (int64_t)i};
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), entries, n, &fx->err));
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 2500, &left, &fx->err));
    assert_int_equal(left, 2500);
    OK(dt_index_count(fx->index, 0, 0, 2600, &count, &fx->err));
    assert_int_equal(count, 2500);
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 100000, &left, &fx->err));
    assert_int_equal(left, 0);
    free(entries);
}

/* ---- the reconciler's reads ---- */

static void a_range_can_be_walked_page_by_page_through_equal_scores(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry page[7], after = {0, 0};
    char seen[401] = {0};
    int pages = 0;
    size_t n;

    dt_shard_map_init(&fx->map, 1, 1);
    for (int64_t id = 1; id <= 400; id++) /* 8..12 digits apart: byte order is not numeric order */
        put_one(fx, id, id <= 20 ? 50 : id <= 380 ? 100 : 200);
    for (;; pages++) {
        OK(dt_index_range(fx->index, 0, 60, 200, after.id ? &after : NULL, 7, page, &n, &fx->err));
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            assert_in_range(page[i].id, 21, 380);
            assert_int_equal(page[i].due_ms, 100);
            assert_int_equal(seen[page[i].id]++, 0);
        }
        after = page[n - 1];
        if (pages % 3 == 0)
            put_one(fx, after.id, 0); /* the page's end need not stay there */
    }
    for (int id = 21; id <= 380; id++)
        assert_int_equal(seen[id], 1);
    assert_in_range(pages, 52, 53);
}

static void a_range_leaves_out_its_end_and_the_marker(void **state)
{
    struct fixture *fx = *state;
    int64_t a = id_of(fx, 0, 0), b = id_of(fx, 0, a), count;
    struct dt_entry got[4];
    size_t n;
    bool intact;

    OK(dt_index_mark(fx->index, 0, MARKER, &intact, &fx->err));
    put_one(fx, a, 100);
    put_one(fx, b, 200);
    OK(dt_index_range(fx->index, 0, 100, 200, NULL, 4, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, a);
    OK(dt_index_range(fx->index, 0, 100, FAR, &got[0], 4, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, b);
    OK(dt_index_range(fx->index, 0, 100, FAR, &got[0], 4, got, &n, &fx->err));
    assert_int_equal(n, 0);
    OK(dt_index_count(fx->index, 0, 100, 200, &count, &fx->err));
    assert_int_equal(count, 1);
    OK(dt_index_count(fx->index, 0, 0, FAR, &count, &fx->err));
    assert_int_equal(count, 2);
}

static void what_is_added_as_missing_never_overwrites(void **state)
{
    struct fixture *fx = *state;
    int64_t a = id_of(fx, 6, 0), b = id_of(fx, 6, a);
    struct dt_entry entries[] = {{a, 100}, {b, 100}};

    put_one(fx, a, 70);
    OK(dt_index_add_missing(fx->index, 6, entries, 2, &fx->err));
    assert_int_equal(score(fx, a), 70);
    assert_int_equal(score(fx, b), 100);
}

static void filling_adds_to_all_shards_and_never_overwrites(void **state)
{
    struct fixture *fx = *state;
    enum { N = 20000 };
    static struct dt_entry entries[N];

    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){i + 1, 1000};
    put_one(fx, 77, 5);
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    assert_int_equal(score(fx, 77), 5);
    assert_int_equal(score(fx, N), 1000);
}

static void scores_come_in_the_order_of_the_ids_asked_for(void **state)
{
    struct fixture *fx = *state;
    enum { N = 3500 };
    static int64_t ids[N], scores[N];
    static struct dt_entry entries[N];

    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++) {
        ids[i] = N - i;
        entries[i] = (struct dt_entry){N - i, i % 3 ? 1000 + i : 0};
    }
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err));
    OK(dt_index_scores(fx->index, 0, ids, N, scores, &fx->err));
    for (int i = 0; i < N; i++)
        assert_int_equal(scores[i], i % 3 ? 1000 + i : 0);
}

static void members_that_are_nobodys_are_removed_where_they_are_met(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), next;
    struct dt_entry got[3];
    size_t n;
    bool marked;

    put_one(fx, id, 100);
    redis_fixture_text(fx->endpoints, 0, "PING");
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i,
                           "ZADD %s:{0}:due 50 apple 51 -7 52 99999999999999999999 53.5 8 54 0x12", fx->installation);
    OK(dt_index_range(fx->index, 0, 0, 1000, NULL, 3, got, &n, &fx->err)); /* the first page is nothing else */
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, id);
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "ZADD %s:{0}:due 50 apple", fx->installation);
    OK(dt_index_due(fx->index, 0, MARKER, 1000, 3, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 1);
    OK(dt_index_due(fx->index, 0, MARKER, 1000, 1, got, &n, &next, &marked, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, id);
}

/* ---- when things go wrong ---- */

static void flushed_scripts_are_loaded_again_without_anybody_noticing(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), left;
    struct dt_entry got[4], after = {1, 1};
    bool intact;
    size_t n;

    put_one(fx, 1, 1);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, 100}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 100);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_fix(fx->index, 0, &(struct dt_fix){id, 100, 200}, 1, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_range(fx->index, 0, 0, FAR, &after, 4, got, &n, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &(struct dt_entry){id, 200}, 1, &fx->err));
    assert_int_equal(score(fx, id), 0);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 5, &left, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_mark(fx->index, 0, MARKER, &intact, &fx->err));
}

static bool pings(void *arg)
{
    struct fixture *fx = arg;

    return dt_index_ping(fx->index, NULL) == DT_OK;
}

static void a_killed_server_is_unavailable_and_is_found_again(void **state)
{
    struct fixture *fx = *state;

    put_one(fx, 1, 100);
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, fx->endpoints)); /* says which */
    redis_server_again(&fx->server);
    assert_true(wait_until(pings, fx, 5000));
    assert_int_equal(score(fx, 1), 0); /* it came back empty: the marker tells a leader */
    put_one(fx, 1, 100);
    assert_int_equal(score(fx, 1), 100);
}

/* A clock that stands still until it is told to go on. */
static int64_t still_us;
static int64_t still(const dt_clock *clock)
{
    (void)clock;
    return still_us;
}

static void nobody_connects_again_before_the_back_off_is_over(void **state)
{
    struct fixture *fx = *state;
    dt_clock clock = {.mono_us = still, .real_ms = still};
    dt_index *index;

    still_us = 1000000000;
    OK(dt_index_new(&fx->config, fx->installation, &clock, &index, &fx->err));
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    redis_server_again(&fx->server);
    UNAVAILABLE(dt_index_ping(index, &fx->err)); /* at once, without a look */
    still_us += 9000;
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    still_us += 12000; /* the first back-off is at most 20 ms */
    OK(dt_index_ping(index, &fx->err));

    redis_server_kill(&fx->server);
    for (int i = 0; i < 20; i++) {
        UNAVAILABLE(dt_index_ping(index, &fx->err));
        still_us += 2000001; /* they grow, but never beyond 2 s */
    }
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    redis_server_again(&fx->server);
    still_us += 900000; /* and are no shorter than half of that now */
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    still_us += 1100001;
    OK(dt_index_ping(index, &fx->err));
    dt_index_free(index);
}

static void every_call_says_unavailable_while_the_server_is_down(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entry = {1, 1}, got[2];
    struct dt_fix fix = {1, 1, 2};
    struct dt_arena arena;
    struct dt_str *topics;
    int64_t id = 1, out;
    size_t n = 9;
    bool flag;

    dt_arena_init(&arena);
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_ping(fx->index, &fx->err));
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, false, &fx->err));
    UNAVAILABLE(dt_index_wake(fx->index, 0, false, &fx->err));
    UNAVAILABLE(dt_index_wake_all(fx->index, &fx->err));
    UNAVAILABLE(dt_index_due(fx->index, 0, MARKER, 5, 2, got, &n, &out, &flag, &fx->err));
    assert_int_equal(n, 0);
    UNAVAILABLE(dt_index_mark(fx->index, 0, MARKER, &flag, &fx->err));
    UNAVAILABLE(dt_index_fix(fx->index, 0, &fix, 1, &fx->err));
    UNAVAILABLE(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 1, &out, &fx->err));
    UNAVAILABLE(dt_index_held(fx->index, 0, &arena, &topics, &n, &fx->err));
    UNAVAILABLE(dt_index_range(fx->index, 0, 0, 9, NULL, 2, got, &n, &fx->err));
    UNAVAILABLE(dt_index_count(fx->index, 0, 0, 9, &out, &fx->err));
    UNAVAILABLE(dt_index_add_missing(fx->index, 0, &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_scores(fx->index, 0, &id, 1, &out, &fx->err));
    UNAVAILABLE(dt_index_fill(fx->index, &fx->map, &entry, 1, &fx->err));
    dt_arena_clear(&arena);
}

static void a_late_answer_is_never_taken_for_another_commands(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), count, before_us = dt_clock_mono_us(dt_clock_system());

    put_one(fx, id, 100);
    kill(fx->server.pid, SIGSTOP);
    UNAVAILABLE(dt_index_count(fx->index, 0, 0, FAR, &count, &fx->err)); /* its answer, 1, comes later */
    assert_true(dt_clock_mono_us(dt_clock_system()) - before_us < 2000000);
    kill(fx->server.pid, SIGCONT);
    assert_true(wait_until(pings, fx, 5000));
    OK(dt_index_count(fx->index, 0, 0, 50, &count, &fx->err));
    assert_int_equal(count, 0);
}

static void a_server_without_memory_is_unavailable_but_the_connection_goes_on(void **state)
{
    struct fixture *fx = *state;
    int64_t connections, count;

    put_one(fx, 1, 100);
    connections = redis_fixture_number(fx->endpoints, 0, "EVAL %s 0", "return 0");
    connections =
        strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "connections_received:") + 21, NULL, 10);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 1");
    for (int wake = 0; wake < 2; wake++) {
        UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100}, 1, FAR, wake, &fx->err));
        assert_non_null(strstr(fx->err.text, "OOM"));
    }
    OK(dt_index_count(fx->index, dt_shard_of(&fx->map, 1), 0, FAR, &count, &fx->err)); /* reading goes on */
    assert_int_equal(count, 1);
    put_one(fx, 1, 0); /* so does removing */
    assert_int_equal(score(fx, 1), 0);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 0");
    put_one(fx, 2, 100);
    /* only the commands by hand connected: two CONFIG SET and this INFO */
    assert_int_equal(
        strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "connections_received:") + 21, NULL, 10),
        connections + 3);
}

static void a_read_only_server_is_unavailable_for_writes(void **state)
{
    struct fixture *fx = *state;
    int64_t count;

    put_one(fx, 1, 100);
    redis_fixture_text(fx->endpoints, 0, "REPLICAOF 127.0.0.1 1");
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, "READONLY"));
    OK(dt_index_count(fx->index, dt_shard_of(&fx->map, 1), 0, FAR, &count, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "REPLICAOF NO ONE");
    put_one(fx, 2, 100);
}

static void a_key_of_another_type_is_an_error_of_that_shard_alone(void **state)
{
    struct fixture *fx = *state;

    redis_fixture_text(fx->endpoints, 0, "SET %s:{0}:due nonsense", fx->installation);
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 0, 0), 1}, 1, FAR, true, &fx->err));
    put_one(fx, id_of(fx, 1, 0), 100);
}

static void an_emptied_server_takes_new_entries(void **state)
{
    struct fixture *fx = *state;

    put_one(fx, 1, 100);
    redis_fixture_text(fx->endpoints, 0, "FLUSHALL");
    assert_int_equal(score(fx, 1), 0);
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, 1), 100);
}

static void entries_of_the_other_endpoints_arrive_when_one_is_down(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entries[100];
    struct redis_server other;
    dt_index *both;
    unsigned here = 0;

    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), " %s , %s,", fx->server.endpoint, other.endpoint);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    OK(dt_index_ping(both, &fx->err));
    redis_server_kill(&other);
    for (int i = 0; i < 100; i++)
        entries[i] = (struct dt_entry){i + 1, 100};
    UNAVAILABLE(dt_index_put(both, &fx->map, entries, 100, FAR, true, &fx->err));
    UNAVAILABLE(dt_index_ping(both, &fx->err));
    assert_non_null(strstr(fx->err.text, other.endpoint));
    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        int64_t n;

        here += dt_index_count(both, shard, 0, FAR, &n, NULL) == DT_OK && n > 0;
    }
    assert_in_range(here, 1, fx->map.shards - 1);
    dt_index_free(both);
}

static void a_silent_endpoint_keeps_no_others_entries_waiting(void **state)
{
    struct fixture *fx = *state;
    struct redis_server other;
    int64_t ids[2] = {0, 0}, before_us;
    dt_index *both;

    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s,%s", fx->server.endpoint, other.endpoint);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    kill(other.pid, SIGSTOP);
    for (int64_t id = 1; id < 200 && !(ids[0] && ids[1]); id++) { /* which endpoint holds which? */
        dt_status status = dt_index_put(both, &fx->map, &(struct dt_entry){id, 100}, 1, FAR, true, &fx->err);

        ids[status != DT_OK] = id;
    }
    assert_true(ids[0] && ids[1]);
    for (int i = 0; i < 1000; i++)
        OK(dt_index_put(both, &fx->map, &(struct dt_entry){ids[0], 100 + i}, 1, FAR, true, &fx->err));
    /* waiting for silence takes at most a fifth of the time: one try of 0.3 s within the next second */
    before_us = dt_clock_mono_us(dt_clock_system());
    UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100}, 1, FAR, true, &fx->err));
    for (int i = 0; i < 1000; i++)
        UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100}, 1, FAR, true, &fx->err));
    assert_true(dt_clock_mono_us(dt_clock_system()) - before_us < 900000);
    dt_index_free(both);
    redis_server_kill(&other);
}

static void a_shard_stays_where_it_is_when_the_list_is_written_in_another_order(void **state)
{
    struct fixture *fx = *state;
    struct redis_server other;
    char turned[128], straight[128];
    struct dt_config config;
    dt_index *a, *b;

    redis_server_start(&other, "");
    snprintf(straight, sizeof(straight), "%s,%s", fx->server.endpoint, other.endpoint);
    snprintf(turned, sizeof(turned), "%s,%s", other.endpoint, fx->server.endpoint);
    config = redis_fixture_config(straight, "", 500);
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &a, &fx->err));
    config.redis_endpoints = turned;
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &b, &fx->err));
    for (int64_t id = 1; id <= 50; id++) {
        int64_t seen;

        OK(dt_index_put(a, &fx->map, &(struct dt_entry){id, 100 + id}, 1, FAR, true, &fx->err));
        OK(dt_index_scores(b, dt_shard_of(&fx->map, id), &id, 1, &seen, &fx->err));
        assert_int_equal(seen, 100 + id);
    }
    dt_index_free(a);
    dt_index_free(b);
    redis_server_kill(&other);
}

static void a_password_opens_the_server_for_commands_and_wake_ups(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, 1);

    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 2, 0), 100}, 1, FAR, true, &fx->err));
    expect_heard(&heard, &heard.by_shard[2], 1, 2000);
    dt_wake_stop(wake);
}

static void a_wrong_or_missing_password_is_unavailable_and_says_why(void **state)
{
    struct fixture *fx = *state;
    struct dt_config config = redis_fixture_config(fx->endpoints, "wrong", 300);
    dt_index *index;

    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &index, &fx->err));
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    assert_non_null(strstr(fx->err.text, "WRONGPASS"));
    dt_index_free(index);
    config.redis_password = (char[]){""};
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &index, &fx->err));
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    assert_non_null(strstr(fx->err.text, "NOAUTH"));
    dt_index_free(index);
}

static void a_bad_list_of_endpoints_is_refused_with_the_element(void **state)
{
    static const char *const bad[] = {"", " , ", "localhost", "h:0", "h:65536", "h:1x", ":6379", "h:"};
    struct dt_error err;
    dt_index *index;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_config config = redis_fixture_config(bad[i], "", 100);

        assert_int_equal(dt_index_new(&config, "x", dt_clock_system(), &index, &err), DT_INVALID);
        assert_null(index);
        assert_non_null(strstr(err.text, "redis.endpoints"));
    }
    struct dt_config config = redis_fixture_config("127.0.0.1:1", "", 100);
    assert_int_equal(dt_index_new(&config, "", dt_clock_system(), &index, &err), DT_INVALID);
}

int main(void)
{
#define T(f, setup) cmocka_unit_test_setup_teardown(f, setup, done)
    const struct CMUnitTest tests[] = {
        T(put_stores_an_entry_in_its_shards_set_with_its_time_as_the_score, shared),
        T(put_moves_removes_and_is_idempotent, shared),
        T(put_removes_what_is_due_after_the_horizon, shared),
        T(the_last_of_several_entries_of_one_job_counts, shared),
        T(put_takes_any_number_of_entries_of_any_shards_on_all_endpoints, shared),
        T(put_of_nothing_is_nothing, shared),
        T(a_put_announces_its_shard_exactly_when_the_earliest_became_earlier, shared),
        T(one_announcement_a_shard_is_enough_for_many_entries, shared),
        T(a_put_without_wake_announces_nothing, shared),
        T(announcements_by_hand_arrive_with_their_meaning, shared),
        T(a_wake_message_of_another_installation_is_not_heard, shared),
        T(due_gives_what_is_due_in_order_and_the_time_of_the_next, shared),
        T(the_marker_tells_a_leader_whether_its_set_is_still_there, shared),
        T(a_marker_of_another_map_or_from_before_a_move_is_not_believed, shared),
        T(a_set_that_is_dropped_takes_its_marker_and_its_held_sets_with_it, shared),
        T(a_fix_changes_an_entry_only_while_it_has_the_score_that_was_seen, shared),
        T(thousands_of_fixes_go_in_one_call, shared),
        T(entries_of_a_paused_topic_are_held_and_given_back, shared),
        T(giving_back_is_bounded_by_its_limit, shared),
        T(a_range_can_be_walked_page_by_page_through_equal_scores, shared),
        T(a_range_leaves_out_its_end_and_the_marker, shared),
        T(what_is_added_as_missing_never_overwrites, shared),
        T(filling_adds_to_all_shards_and_never_overwrites, shared),
        T(scores_come_in_the_order_of_the_ids_asked_for, shared),
        T(members_that_are_nobodys_are_removed_where_they_are_met, shared),
        T(a_lost_wake_channel_is_told_and_comes_back_by_itself, private),
        T(a_server_that_stands_still_is_noticed_by_its_missing_pong, private),
        T(the_wake_channel_can_be_stopped_while_its_server_is_down, private),
        T(flushed_scripts_are_loaded_again_without_anybody_noticing, private),
        T(a_killed_server_is_unavailable_and_is_found_again, private),
        T(nobody_connects_again_before_the_back_off_is_over, private),
        T(every_call_says_unavailable_while_the_server_is_down, private),
        T(a_late_answer_is_never_taken_for_another_commands, private),
        T(a_server_without_memory_is_unavailable_but_the_connection_goes_on, private),
        T(a_read_only_server_is_unavailable_for_writes, private),
        T(a_key_of_another_type_is_an_error_of_that_shard_alone, private),
        T(an_emptied_server_takes_new_entries, private),
        T(entries_of_the_other_endpoints_arrive_when_one_is_down, private),
        T(a_silent_endpoint_keeps_no_others_entries_waiting, private),
        T(a_shard_stays_where_it_is_when_the_list_is_written_in_another_order, private),
        T(a_password_opens_the_server_for_commands_and_wake_ups, private_with_password),
        T(a_wrong_or_missing_password_is_unavailable_and_says_why, private_with_password),
        cmocka_unit_test(a_bad_list_of_endpoints_is_refused_with_the_element),
    };
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
