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

#include "job/job.h"
#include "support/redis_fixture.h"

#define FAR    INT64_C(9000000000000)
#define MARKER ((struct dt_marker){7, 12345, 3, 1, 0, false, 0})

struct fixture {
    bool gone; /* a marker */
    struct dt_config config;
    char endpoints[256], installation[64];
    struct redis_server server; /* port 0 = the shared servers are used */
    struct dt_shard_map map;
    dt_index *index;
    struct dt_error err;
    struct dt_due_scan due; /* the last one */
};

/* Asks what is due; fx->due has what was told. */
static dt_status due(struct fixture *fx, unsigned shard, struct dt_marker marker, int64_t now_ms, size_t limit,
                     struct dt_entry *entries)
{
    fx->due = (struct dt_due_scan){.marker = marker,
                                   .now_ms = now_ms,
                                   .limit = limit,
                                   .entries = entries,
                                   .n = 99, /* told, whatever it was */
                                   .next_ms = 99,
                                   .marked = true};
    return dt_index_due(fx->index, shard, &fx->due, &fx->err);
}

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

static int64_t score(struct fixture *fx, int64_t id)
{
    return redis_fixture_score(fx->index, &fx->map, id);
}

static void move_one(struct fixture *fx, int64_t id, int64_t was_ms, int64_t due_ms)
{
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms, was_ms}, 1, FAR, false, &fx->err));
}

/* As those do who know where the entry is. */
static void put_one(struct fixture *fx, int64_t id, int64_t due_ms)
{
    move_one(fx, id, score(fx, id), due_ms);
}

/* So many shards that no choice of ports gives all to one endpoint: of eight it does one time in 128. */
static void spread_over_endpoints(struct fixture *fx)
{
    dt_shard_map_init(&fx->map, 1, 64);
}

/* ---- put ---- */

/* A command of a key and bytes that no format can carry: these are written in hexadecimal digits. */
#define WITH_BYTES                                                                                                     \
    "local bytes = string.gsub(ARGV[2], '%x%x', function(h) return string.char(tonumber(h, 16)) end)\n"                \
    "if ARGV[1] == 'ZADD' then return redis.call('ZADD', KEYS[1], ARGV[3], bytes) end\n"                               \
    "return redis.call(ARGV[1], KEYS[1], bytes)"

/* The score that the entry has in a page, on whichever endpoint; -1 = none. */
static int64_t raw_score(struct fixture *fx, int64_t id, int64_t begin_ms, int digits)
{
    for (unsigned i = 0; i < (strchr(fx->endpoints, ',') ? 2 : 1); i++) {
        char member[17];

        snprintf(member, sizeof(member), "%0*llx", digits, (long long)(id & (digits < 16 ? 0xffffffffff : -1)));
        const char *text = redis_fixture_text(fx->endpoints, i, "EVAL %s 1 %s:{%u}:due:%lld ZSCORE %s", WITH_BYTES,
                                              fx->installation, dt_shard_of(&fx->map, id), (long long)begin_ms, member);

        if (text[0] != '(')
            return strtoll(text, NULL, 10);
    }
    return -1;
}

static void put_stores_an_entry_in_a_page_of_its_shards_set(void **state)
{
    struct fixture *fx = *state;
    const int64_t due_ms = INT64_C(1800000000123), begin_ms = due_ms - due_ms % 32768;
    int64_t today = dt_job_id(due_ms, 77), many = dt_job_id(due_ms, (INT64_C(1) << 32) + 78);
    int64_t other_day = (INT64_C(690) << 40) + 79;

    put_one(fx, today, due_ms);
    put_one(fx, many, due_ms);
    put_one(fx, other_day, due_ms);
    assert_int_equal(raw_score(fx, today, begin_ms, 8), due_ms - begin_ms);
    assert_int_equal(raw_score(fx, many, begin_ms, 10), due_ms - begin_ms);
    assert_int_equal(raw_score(fx, other_day, begin_ms, 16), due_ms - begin_ms);
    assert_int_equal(score(fx, today), due_ms);
    assert_int_equal(score(fx, many), due_ms);
    assert_int_equal(score(fx, other_day), due_ms);
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
    struct dt_entry entries[] = {{1, 1000, 0}, {2, 1001, 10}, {3, 900, 0}};

    for (int wake = 0; wake < 2; wake++) {
        put_one(fx, 2, 10);
        OK(dt_index_put(fx->index, &fx->map, entries, 3, 1000, wake, &fx->err));
        assert_int_equal(score(fx, 1), 1000);
        assert_int_equal(score(fx, 2), 0);
        assert_int_equal(score(fx, 3), 900);
    }
}

static long long commands_of(const struct fixture *fx)
{
    const char *at = strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "total_commands_processed:");

    assert_non_null(at);
    return atoll(at + strlen("total_commands_processed:"));
}

/* Nobody puts an entry there, so that Redis is not asked. */
static void put_does_not_look_for_what_was_far_after_the_horizon(void **state)
{
    struct fixture *fx = *state;
    const int64_t horizon_ms = 1000, minute_ms = 60000;
    struct dt_entry entries[] = {{1, 0, horizon_ms + minute_ms + 1}, {2, 0, FAR}, {3, FAR, FAR - 1}};
    long long before;

    put_one(fx, 4, horizon_ms + minute_ms);
    before = commands_of(fx);
    OK(dt_index_put(fx->index, &fx->map, entries, 3, horizon_ms, true, &fx->err));
    assert_int_equal(commands_of(fx), before + 1); /* the question itself */
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){4, 0, horizon_ms + minute_ms}, 1, horizon_ms, true,
                    &fx->err));
    assert_int_equal(score(fx, 4), 0);
}

static void the_last_of_several_entries_of_one_job_counts(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entries[] = {{4, 10, 0}, {4, 20, 0}, {5, 0, 0}, {5, 30, 0}};

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

    spread_over_endpoints(fx);
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 1000 + (int64_t)i, 0};
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, true, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n);
    for (unsigned i = 0; strchr(fx->endpoints, ',') && i < 2; i++) {
        int64_t keys = 0;

        for (unsigned shard = 0; shard < fx->map.shards; shard++)
            keys += redis_fixture_number(fx->endpoints, i, "EXISTS %s:{%u}:due", fx->installation, shard);
        assert_in_range(keys, 1, fx->map.shards - 1);
    }
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){entries[i].id, i % 2 ? 0 : 5, entries[i].due_ms};
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, false, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n / 2);
    free(entries);
}

static void put_of_nothing_is_nothing(void **state)
{
    struct fixture *fx = *state;

    OK(dt_index_put(fx->index, &fx->map, NULL, 0, FAR, true, &fx->err));
}

/* ---- who fills ---- */

static struct dt_filling taken(struct fixture *fx, dt_index *index)
{
    struct dt_filling f = {.shard = 1};

    OK(dt_index_take_fillings(index, 3, &f, 1, &fx->err));
    return f;
}

static struct dt_marker marked_as_filling(struct fixture *fx, int64_t count, const struct dt_marker *was)
{
    const struct dt_marker marker = {7, 12345, count, 2, 0, true, 3};
    bool intact;

    OK(dt_index_mark(fx->index, 1, marker, was, &intact, &fx->gone, &fx->err));
    return marker;
}

static void a_filling_is_one_handles_until_it_lets_go(void **state)
{
    struct fixture *fx = *state;
    dt_index *other;
    struct dt_filling f, g;

    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &other, &fx->err));
    assert_false(taken(fx, fx->index).wanted); /* nobody asked */
    marked_as_filling(fx, 1, NULL);
    f = taken(fx, fx->index);
    assert_true(f.wanted && f.ours && f.done_ms == 0 && f.generation == 3);
    g = taken(fx, other);
    assert_true(g.wanted && !g.ours && g.life == f.life);
    f.done_ms = 500;
    f.keep = true;
    OK(dt_index_tell_fillings(fx->index, &f, 1, &fx->err));
    assert_true(f.ours);
    g.ours = g.keep = true; /* so it believes */
    g.done_ms = 900;
    OK(dt_index_tell_fillings(other, &g, 1, &fx->err));
    assert_false(g.ours);
    assert_int_equal(taken(fx, fx->index).done_ms, 500);
    f.keep = false;
    OK(dt_index_tell_fillings(fx->index, &f, 1, &fx->err));
    g = taken(fx, other);
    assert_true(g.ours && g.done_ms == 500);
    usleep((DT_FILLING_MS + 50) * 1000);
    assert_true(taken(fx, fx->index).ours); /* the other one has not been heard of for long enough */
    OK(dt_index_drop(fx->index, 1, &fx->err));
    assert_false(taken(fx, fx->index).wanted);
    dt_index_free(other);
}

static void a_filling_for_another_map_is_not_taken(void **state)
{
    struct fixture *fx = *state;
    struct dt_marker marker = marked_as_filling(fx, 1, NULL), next = marker;
    struct dt_filling f = {.shard = 1};

    OK(dt_index_take_fillings(fx->index, 4, &f, 1, &fx->err));
    assert_true(f.wanted && !f.ours && f.generation == 3);
    f = taken(fx, fx->index);
    f.done_ms = 500;
    f.keep = true;
    OK(dt_index_tell_fillings(fx->index, &f, 1, &fx->err));
    next.count++;
    next.map = 4; /* its leader has got that one */
    OK(dt_index_mark(fx->index, 1, next, &marker, &(bool){false}, &fx->gone, &fx->err));
    assert_false(fx->gone);
    OK(dt_index_take_fillings(fx->index, 4, &f, 1, &fx->err));
    assert_true(f.ours && f.done_ms == 0);
}

/* Whoever is told to be at it for longer than anybody may ask for was told so before the clock was set back. */
static void a_clock_that_is_set_back_keeps_no_filling(void **state)
{
    struct fixture *fx = *state;

    marked_as_filling(fx, 1, NULL);
    for (int i = 0; i < (strchr(fx->endpoints, ',') ? 2 : 1); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{1}:due:filled",
                           "if redis.call('EXISTS', KEYS[1]) == 1 then "
                           "redis.call('HSET', KEYS[1], 'by', 'x', 'until', '99999999999999') end return ''",
                           fx->installation);
    assert_true(taken(fx, fx->index).ours);
}

static void what_is_filled_counts_as_long_as_its_marker_stays(void **state)
{
    struct fixture *fx = *state;
    struct dt_marker first = marked_as_filling(fx, 1, NULL), second;
    struct dt_filling f = taken(fx, fx->index);
    bool intact;

    f.done_ms = 500;
    f.keep = true;
    OK(dt_index_tell_fillings(fx->index, &f, 1, &fx->err));
    second = marked_as_filling(fx, 2, &first); /* a leader marks now and then */
    assert_int_equal(taken(fx, fx->index).done_ms, 500);
    marked_as_filling(fx, 3, &first); /* not the one that is there: an older copy came back */
    assert_true(fx->gone);
    assert_false(taken(fx, fx->index).wanted);
    marked_as_filling(fx, 4, NULL);
    assert_int_equal(taken(fx, fx->index).done_ms, 0);
    OK(dt_index_tell_fillings(fx->index, &f, 1, &fx->err)); /* what was done before does not count */
    assert_false(f.ours);
    assert_int_equal(taken(fx, fx->index).done_ms, 0);
    second.filling = false;
    second.count = 5;
    OK(dt_index_mark(fx->index, 1, second, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
    assert_false(taken(fx, fx->index).wanted); /* whole */
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

static int64_t real_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Puts with wake and tells how often the shard was announced: a later announcement by hand closes the count. */
static int announced(struct fixture *fx, struct heard *heard, unsigned shard, int64_t id, int64_t due_ms)
{
    int before = heard->by_shard[shard], closing = heard->outbox[shard];
    const struct dt_entry entry = {id, due_ms, score(fx, id)};

    OK(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, true, &fx->err));
    OK(dt_index_wake(fx->index, shard, true, &fx->err));
    expect_heard(heard, &heard->outbox[shard], closing + 1, 2000);
    return heard->by_shard[shard] - before;
}

static void a_put_announces_its_shard_exactly_when_the_earliest_became_earlier(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));
    const int64_t hence = real_now_ms() + 3600000;
    bool intact;

    for (unsigned shard = 0; shard < 4; shard++) { /* some on each endpoint */
        int64_t a = id_of(fx, shard, 0), b = id_of(fx, shard, a), c = id_of(fx, shard, b);

        OK(dt_index_mark(fx->index, shard, MARKER, NULL, &intact, &fx->gone, &fx->err)); /* a marker is no entry */
        assert_int_equal(announced(fx, &heard, shard, a, hence + 1000), 1);              /* the first */
        assert_int_equal(announced(fx, &heard, shard, b, hence + 2000), 0);              /* later */
        assert_int_equal(announced(fx, &heard, shard, c, hence + 1000), 0);              /* as early */
        assert_int_equal(announced(fx, &heard, shard, b, hence + 999), 1);               /* moved to the head */
        assert_int_equal(announced(fx, &heard, shard, b, hence + 999), 0);               /* said before */
        assert_int_equal(announced(fx, &heard, shard, b, 0), 0);                         /* removed */
        assert_int_equal(announced(fx, &heard, shard, a, hence + 3000), 0);              /* moved away from the head */
        assert_int_equal(announced(fx, &heard, shard, c, 0), 0);
        assert_int_equal(announced(fx, &heard, shard, b, FAR + 1), 0); /* beyond the horizon */
        assert_int_equal(announced(fx, &heard, shard, b, hence + 2999), 1);
    }
    dt_wake_stop(wake);
}

/* Its leader cannot have cleared it, whatever the reason, and sleeps for up to a second. */
static void while_something_overdue_stays_in_front_what_is_due_soon_is_announced(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, n_endpoints(fx));

    for (unsigned shard = 0; shard < 4; shard++) {
        int64_t a = id_of(fx, shard, 0), b = id_of(fx, shard, a), c = id_of(fx, shard, b), now = real_now_ms();

        assert_int_equal(announced(fx, &heard, shard, a, now - 5000), 1);
        assert_int_equal(announced(fx, &heard, shard, b, now + 300), 1);
        assert_int_equal(announced(fx, &heard, shard, c, now + 60000), 0); /* he looks before that */
        assert_int_equal(announced(fx, &heard, shard, c, now - 1000), 1);
        assert_int_equal(announced(fx, &heard, shard, a, 0), 0);
        assert_int_equal(announced(fx, &heard, shard, c, 0), 0);
        assert_int_equal(announced(fx, &heard, shard, c, real_now_ms() + 5000), 0); /* b is in front */
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
        entries[i] = (struct dt_entry){id = id_of(fx, 3, id), 1000 - i, 0};
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

static void a_server_that_is_emptied_says_so(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, 1);

    redis_fixture_text(fx->endpoints, 0, "FLUSHALL");
    expect_heard(&heard, &heard.all, 2, 1000);
    redis_fixture_text(fx->endpoints, 0, "FLUSHDB");
    expect_heard(&heard, &heard.all, 3, 1000);
    dt_wake_stop(wake);
}

static void a_server_that_may_not_say_that_is_listened_to_all_the_same(void **state)
{
    static const char *const forbidden[][2] = {
        {"resetchannels", "&*:wake"}, {"-client|tracking", "+ping"}, {"-client|id", "+ping"}};
    struct fixture *fx = *state;

    for (unsigned i = 0; i < 3; i++) {
        struct heard heard;

        redis_fixture_text(fx->endpoints, 0, "ACL SETUSER default %s %s", forbidden[i][0], forbidden[i][1]);
        dt_wake *wake = listen_to(fx, &heard, 1);
        redis_fixture_number(fx->endpoints, 0, "PUBLISH %s:wake 6", fx->installation);
        expect_heard(&heard, &heard.by_shard[6], 1, 2000);
        dt_wake_stop(wake);
    }
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
    int64_t a = id_of(fx, 2, 0), b = id_of(fx, 2, a), c = id_of(fx, 2, b);
    struct dt_entry got[8];

    OK(due(fx, 2, MARKER, 1000, 8, got));
    assert_int_equal(fx->due.n, 0);
    assert_int_equal(fx->due.next_ms, 0);
    assert_false(fx->due.marked);

    put_one(fx, b, 1000);
    put_one(fx, a, 900);
    put_one(fx, c, 1001);
    OK(due(fx, 2, MARKER, 1000, 8, got));
    assert_int_equal(fx->due.n, 2);
    assert_int_equal(got[0].id, a);
    assert_int_equal(got[0].due_ms, 900);
    assert_int_equal(got[1].id, b);
    assert_int_equal(got[1].due_ms, 1000);
    assert_int_equal(fx->due.next_ms, 1001);

    OK(due(fx, 2, MARKER, 1000, 1, got)); /* limit: the next one is due too */
    assert_int_equal(fx->due.n, 1);
    assert_int_equal(fx->due.next_ms, 1000);
    OK(due(fx, 2, MARKER, 5000, 3, got));
    assert_int_equal(fx->due.n, 3);
    assert_int_equal(fx->due.next_ms, 0);
}

static void the_marker_tells_a_leader_whether_its_set_is_still_there(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry got[4];
    bool intact = true;

    OK(dt_index_mark(fx->index, 1, MARKER, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact); /* a new set */
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_true(fx->due.marked);
    assert_int_equal(fx->due.n, 0); /* the marker itself is never due */
    assert_int_equal(fx->due.next_ms, 0);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, 12345, 4, 1, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* it counts on */
    assert_true(intact);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_false(fx->due.marked); /* so does an older copy of this leadership's set look */
    OK(due(fx, 1, (struct dt_marker){7, 12345, 4, 1, 0, false, 0}, FAR, 4, got));
    assert_true(fx->due.marked);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* another leadership */
    assert_true(intact);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_false(fx->due.marked);
    OK(due(fx, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, FAR, 4, got));
    assert_true(fx->due.marked);

    redis_fixture_forget(fx->endpoints, fx->installation);
    OK(due(fx, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, FAR, 4, got));
    assert_false(fx->due.marked);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
}

static void a_marker_of_another_map_or_from_before_a_move_is_not_believed(void **state)
{
    struct fixture *fx = *state;
    bool intact = true;

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, -5, 1, 2, 0, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 1, 2, 7, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_true(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){9, 6, 1, 3, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* filled for map 2 */
    assert_false(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){12, 6, 1, 3, 11, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* left here at epoch 9 */
    assert_false(intact);
}

static void a_set_that_its_leader_left_half_filled_is_believed_by_nobody(void **state)
{
    struct fixture *fx = *state;
    const struct dt_marker filling = {7, 12345, 1, 2, 0, true, 0};
    struct dt_entry got[4];
    bool intact = true;

    OK(dt_index_mark(fx->index, 1, filling, NULL, &intact, &fx->gone, &fx->err));
    OK(due(fx, 1, filling, FAR, 4, got));
    assert_true(fx->due.marked); /* it is ours, all the same */
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 1, 2, 0, true, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 2, 2, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* filled by now */
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){9, 5, 1, 2, 0, true, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_true(intact);
}

static void a_set_that_is_dropped_takes_its_marker_and_its_held_sets_with_it(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entry = {id_of(fx, 1, 0), 1000, 0}, other = {id_of(fx, 1, entry.id), 5000, 0}, got[4];
    struct dt_arena arena;
    struct dt_str *topics;
    int64_t next;
    size_t n = 9;
    bool intact = true;

    dt_arena_init(&arena);
    OK(dt_index_mark(fx->index, 1, MARKER, NULL, &intact, &fx->gone, &fx->err));
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), &entry, 1, &fx->err));
    OK(dt_index_add_missing(fx->index, 1, &other, 1, &fx->err));
    OK(dt_index_drop(fx->index, 1, &fx->err));
    assert_int_equal(
        redis_fixture_sum(fx->endpoints, "EVAL %s 0 %s:*", "return #redis.call('KEYS', ARGV[1])", fx->installation), 0);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_int_equal(fx->due.n, 0);
    assert_false(fx->due.marked);
    OK(dt_index_held(fx->index, 1, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), NULL, 0, &fx->err));
    OK(dt_index_unhold(fx->index, 1, DT_STR_LIT("t"), 10, &next, &fx->err));
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_int_equal(fx->due.n, 0); /* nothing was left in the held set */
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
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100, 0};
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
    int64_t a = id_of(fx, 4, 0), b = id_of(fx, 4, a), c = id_of(fx, 4, b), next_ms = -1;
    struct dt_entry entries[] = {{a, 100, 0}, {b, 100, 0}, {c, 300, 0}};
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

    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 1, &next_ms, &fx->err));
    assert_int_equal(next_ms, 300);
    assert_int_equal(score(fx, a), 100); /* earliest first */
    put_one(fx, c, 250);                 /* changed while it was held: that stays */
    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
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
    int64_t next_ms, count;

    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100 + (int64_t)i, 0};
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), entries, n, &fx->err));
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 2500, &next_ms, &fx->err));
    assert_int_equal(next_ms, 2600);
    OK(dt_index_count(fx->index, 0, 0, 2600, &count, &fx->err));
    assert_int_equal(count, 2500);
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 100000, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    free(entries);
}

/* ---- the reconciler's reads ---- */

static void a_range_can_be_walked_page_by_page_through_equal_scores(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry page[7], after = {0};
    char seen[401] = {0};
    int pages = 0;
    size_t n;

    dt_shard_map_init(&fx->map, 1, 1);
    for (int64_t id = 1; id <= 400; id++)
        put_one(fx, id, id <= 20 ? 50 : id <= 380 ? 100 : 200);
    for (;; pages++) {
        OK(dt_index_range(fx->index, 0, &(struct dt_range){60, 200, after.id ? &after : NULL, 7}, page, &n, &fx->err));
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

    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    put_one(fx, a, 100);
    put_one(fx, b, 200);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, 200, NULL, 4}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, a);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, FAR, &got[0], 4}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, b);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, FAR, &got[0], 4}, got, &n, &fx->err));
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
    struct dt_entry entries[] = {{a, 100, 0}, {b, 100, 0}};

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
        entries[i] = (struct dt_entry){i + 1, 1000, 0};
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
    static int64_t scores[N];
    static struct dt_entry entries[N], asked[N];

    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++) {
        entries[i] = (struct dt_entry){N - i, i % 3 ? 1000 + i : 0, 0};
        asked[i] = (struct dt_entry){N - i, 1000 + i, 0};
    }
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err));
    OK(dt_index_scores(fx->index, 0, asked, N, scores, &fx->err));
    for (int i = 0; i < N; i++)
        assert_int_equal(scores[i], i % 3 ? 1000 + i : 0);
}

static void members_that_are_nobodys_are_removed_where_they_are_met(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry got[3];
    int clean = 0;
    size_t n;

    put_one(fx, id, 100);
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i,
                           "ZADD %s:{0}:due 50 apple 51 -7 52 99999999999999999999 53.5 8 54 0x12", fx->installation);
    for (int i = 0; i < n_endpoints(fx); i++) {
        redis_fixture_text(fx->endpoints, (unsigned)i, "ZADD %s:{0}:due:0 3 cherry 5.5 lime -7000 pear",
                           fx->installation);
        redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{0}:due:0 ZADD ff00000000000000 6", WITH_BYTES,
                           fx->installation);
    }
    OK(dt_index_range(fx->index, 0, &(struct dt_range){0, 1000, NULL, 3}, got, &n,
                      &fx->err)); /* the first page is nothing else */
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, id);
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "ZADD %s:{0}:due 50 apple", fx->installation);
    OK(due(fx, 0, MARKER, 1000, 3, got));
    assert_int_equal(fx->due.n, 1);
    OK(due(fx, 0, MARKER, 1000, 1, got));
    assert_int_equal(fx->due.n, 1);
    assert_int_equal(got[0].id, id);
    for (int i = 0; i < n_endpoints(fx); i++) {
        const char *left = redis_fixture_text(fx->endpoints, (unsigned)i, "ZRANGE %s:{0}:due 0 -1", fx->installation);

        clean += strcmp(left, "0") == 0 &&
                 redis_fixture_number(fx->endpoints, (unsigned)i, "ZCARD %s:{0}:due:0", fx->installation) == 1;
    }
    assert_int_equal(clean, 1); /* the endpoint that has the shard */
}

/* ---- pages ---- */

#define NOON_2027 INT64_C(1820966400000)

/* What a set says of itself: "" when all is as index.h describes it. */
static const char SOUND[] =
    "local pages, before = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), -1\n"
    "for i = 1, #pages, 2 do\n"
    "  local key, start, top = KEYS[1] .. ':' .. pages[i], tonumber(pages[i + 1]), tonumber(pages[i + 3] or 'inf')\n"
    "  local e = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
    "  local n = #e / 2\n"
    "  if n == 0 then return 'nothing in ' .. key end\n"
    "  if start + e[2] < start or start + e[#e] >= top then return 'beyond its bounds: ' .. key end\n"
    "  if n > 64 and (e[2] ~= e[#e] or tonumber(e[2]) ~= 0) then return n .. ' entries in ' .. key end\n"
    "end\n"
    "return ''";

/* What a packed one looks like: how many pages are kept otherwise. */
static const char UNPACKED[] =
    "local n = 0\n"
    "for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf')) do\n"
    "  if redis.call('OBJECT', 'ENCODING', KEYS[1] .. ':' .. name) ~= 'listpack' then n = n + 1 end\n"
    "end\n"
    "return n";

static void expect_sound(struct fixture *fx)
{
    for (int i = 0; i < n_endpoints(fx); i++)
        assert_string_equal(
            redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{0}:due", SOUND, fx->installation), "");
}

/* What should be there, beside the set: dues[id], 0 = nothing. */
struct model {
    struct fixture *fx;
    uint64_t chance;
    int64_t dues[6000];
};
#define MODEL_IDS 5999

static uint64_t chance(struct model *m, uint64_t below)
{
    m->chance ^= m->chance << 13;
    m->chance ^= m->chance >> 7;
    m->chance ^= m->chance << 17;
    return m->chance % below;
}

/* Ids of today, of another day, and of a day with very many. */
static int64_t model_id(int i)
{
    return i % 7 == 0 ? i : dt_job_id(NOON_2027, i % 5 ? i : (INT64_C(1) << 32) + i);
}

/* Around midnight; now and then many at one instant. */
static int64_t model_time(struct model *m)
{
    static const int64_t instants[] = {NOON_2027, NOON_2027 + 43200000, NOON_2027 + 43100000};

    return chance(m, 5) == 0 ? instants[chance(m, 3)] : NOON_2027 + 41400000 + (int64_t)chance(m, 3600000);
}

static int pick_present(struct model *m, bool present)
{
    for (;;) {
        int i = 1 + (int)chance(m, MODEL_IDS);

        if ((m->dues[i] != 0) == present)
            return i;
    }
}

static size_t present_in(const struct model *m, int64_t from_ms, int64_t to_ms)
{
    size_t n = 0;

    for (int i = 1; i <= MODEL_IDS; i++)
        n += m->dues[i] && m->dues[i] >= from_ms && m->dues[i] < to_ms;
    return n;
}

static void model_puts(struct model *m)
{
    struct dt_entry entries[700];
    size_t n = 1 + chance(m, 700);

    for (size_t k = 0; k < n; k++) { /* several of one job in a call, too */
        int i = 1 + (int)chance(m, MODEL_IDS);
        int64_t due_ms = chance(m, 4) ? model_time(m) : 0;

        entries[k] = (struct dt_entry){model_id(i), due_ms, m->dues[i]};
        m->dues[i] = due_ms;
    }
    struct fixture *fx = m->fx;
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, chance(m, 2), &fx->err));
}

static void model_fixes(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_fix fixes[300];
    bool taken[MODEL_IDS + 1] = {false};
    size_t n = 0;

    for (size_t k = 0; k < 300 && present_in(m, 0, FAR) > 1000; k++) {
        int i = pick_present(m, true);
        int64_t due_ms = chance(m, 3) ? model_time(m) : 0;
        bool wrong = chance(m, 10) == 0;

        if (taken[i])
            continue;
        taken[i] = true;
        fixes[n++] = (struct dt_fix){model_id(i), m->dues[i] + wrong, due_ms};
        if (!wrong)
            m->dues[i] = due_ms;
    }
    OK(dt_index_fix(fx->index, 0, fixes, n, &fx->err));
}

static void model_fills(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry entries[900];
    bool taken[MODEL_IDS + 1] = {false};
    int64_t at_ms = chance(m, 2) ? model_time(m) : 0; /* one after the other, or anywhere */
    size_t n = 0;

    for (size_t k = 0; k < 900; k++) {
        int i = 1 + (int)chance(m, MODEL_IDS);

        if (taken[i])
            continue;
        taken[i] = true;
        if (!m->dues[i])
            m->dues[i] = at_ms ? (at_ms += (int64_t)chance(m, 30)) : model_time(m);
        entries[n++] = (struct dt_entry){model_id(i), m->dues[i], 0};
    }
    if (chance(m, 2))
        OK(dt_index_fill(fx->index, &fx->map, entries, n, &fx->err));
    else
        OK(dt_index_add_missing(fx->index, 0, entries, n, &fx->err));
}

/* The due, given back with a new time as a leader does. */
static void model_looks(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry got[200];
    int64_t now_ms = model_time(m), later_ms = 0;
    size_t there = present_in(m, 0, now_ms + 1), limit = 1 + chance(m, 200);

    OK(due(fx, 0, MARKER, now_ms, limit, got));
    assert_int_equal(fx->due.n, there < limit ? there : limit);
    for (size_t k = 1; k < fx->due.n; k++)
        assert_true(got[k - 1].due_ms <= got[k].due_ms);
    for (int i = 1; i <= MODEL_IDS; i++) {
        if (m->dues[i] > now_ms && (!later_ms || m->dues[i] < later_ms))
            later_ms = m->dues[i];
    }
    if (there > limit)
        assert_in_range(fx->due.next_ms, got[fx->due.n - 1].due_ms, now_ms);
    else
        assert_int_equal(fx->due.next_ms, later_ms);
}

static void model_compares(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry page[333], after = {0};
    int64_t from_ms = chance(m, 3) ? model_time(m) : 0, to_ms = from_ms + 1 + (int64_t)chance(m, 2000000), count;
    size_t n, seen = 0, limit = 1 + chance(m, 333);

    OK(dt_index_count(fx->index, 0, from_ms, to_ms, &count, &fx->err));
    assert_int_equal(count, present_in(m, from_ms, to_ms));
    do {
        OK(dt_index_range(fx->index, 0, &(struct dt_range){from_ms, to_ms, after.id ? &after : NULL, limit}, page, &n,
                          &fx->err));
        for (size_t k = 0; k < n; k++) {
            int i = (int)(page[k].id & 0xffff);

            assert_int_equal(page[k].id, model_id(i));
            assert_int_equal(page[k].due_ms, m->dues[i]);
            assert_true(k == 0 || page[k - 1].due_ms <= page[k].due_ms);
            after = page[k];
        }
        seen += n;
    } while (n);
    assert_int_equal(seen, present_in(m, from_ms, to_ms));
}

static void a_set_in_pages_is_what_a_plain_one_would_be_after_any_changes(void **state)
{
    struct model *m = calloc(1, sizeof(*m));

    m->fx = *state;
    m->chance = 88172645463325252;
    dt_shard_map_init(&m->fx->map, 1, 1);
    for (int step = 0; step < 100; step++) {
        switch (chance(m, 3)) {
        case 0:
            model_puts(m);
            break;
        case 1:
            model_fixes(m);
            break;
        default:
            model_fills(m);
        }
        model_looks(m);
        model_compares(m);
        expect_sound(m->fx);
    }
    free(m);
}

static int64_t used_memory(struct fixture *fx)
{
    return strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO memory"), "used_memory:") + 12, NULL, 10);
}

static void many_entries_take_less_than_a_seventh_of_the_memory_of_a_plain_set(void **state)
{
    struct fixture *fx = *state;
    enum { N = 100000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    int64_t before, ours, plain;

    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + (i * INT64_C(7919)) % 3600000, 0};
    before = used_memory(fx);
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err));
    ours = used_memory(fx) - before;
    expect_sound(fx);
    before = used_memory(fx);
    redis_fixture_text(fx->endpoints, 0, "EVAL %s 0 %s:plain %d",
                       "for i = 1, ARGV[2] do redis.call('ZADD', ARGV[1], i * 7919 % 3600000, "
                       "string.format('00000000-0000-0000-0000-%012d', i)) end",
                       fx->installation, N);
    plain = used_memory(fx) - before;
    assert_true(ours * 100 < plain * 15);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "EVAL %s 1 %s:{0}:due", UNPACKED, fx->installation), 0);
    free(entries);
}

static void a_lost_set_comes_back_in_packed_pages_that_a_distrustful_server_takes(void **state)
{
    struct fixture *fx = *state;
    enum { N = 30000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    /* bytes that look like digits to Redis: kept as integers there */
    const int64_t digits = INT64_C(0x31303030), digits5 = INT64_C(0x3939393930), minus = INT64_C(0x2d313233);

    dt_shard_map_init(&fx->map, 1, 2);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET sanitize-dump-payload yes");
    for (int i = 0; i < N; i++) {
        int64_t sequence = i % 4 == 0 ? digits + i / 4 : i % 4 == 1 ? digits5 + i : i % 4 == 2 ? minus + i / 4 : i + 1;

        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, sequence), NOON_2027 + (int64_t)i * i / 2, 0};
    }
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    expect_sound(fx);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "EVAL %s 1 %s:{0}:due", UNPACKED, fx->installation), 0);
    assert_in_range(redis_fixture_number(fx->endpoints, 0, "ZCARD %s:{0}:due", fx->installation), N / 2 / 62,
                    N / 2 / 50); /* they are full */
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){entries[i].id, 0, entries[i].due_ms};
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err)); /* each is found where it is */
    assert_int_equal(count_all(fx), 0);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "DBSIZE"), 0);
    free(entries);
}

static void what_came_since_the_loss_stays_beside_what_is_filled_in(void **state)
{
    struct fixture *fx = *state;
    enum { N = 5000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));

    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + i * 10, 0};
    for (int i = 0; i < N; i += 613)
        put_one(fx, entries[i].id, entries[i].due_ms);
    put_one(fx, dt_job_id(NOON_2027, 77777), NOON_2027 + 4321);
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err)); /* once more changes nothing */
    assert_int_equal(count_all(fx), N + 1);
    expect_sound(fx);
    for (int i = 0; i < N; i += 613)
        assert_int_equal(score(fx, entries[i].id), entries[i].due_ms);
    free(entries);
}

static void an_entry_whose_old_place_nobody_knew_is_there_beside_the_old_one(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry got[4];

    put_one(fx, id_of(fx, 0, id), 100000); /* another page begins behind the first */
    move_one(fx, id, 0, 500);
    move_one(fx, id, 0, 100500);
    assert_int_equal(score(fx, id), -1);
    OK(due(fx, 0, MARKER, 200000, 4, got));
    assert_int_equal(fx->due.n, 2); /* each id once */
    assert_int_equal(got[0].id, id);
    assert_int_equal(got[0].due_ms, 500);
    OK(dt_index_fix(fx->index, 0, &(struct dt_fix){id, 500, 100500}, 1, &fx->err)); /* the claim puts it right */
    assert_int_equal(score(fx, id), 100500);
}

/* Evicted, or deleted by hand: its entries went with it, as those of a set do with the set. */
static void a_page_that_is_gone_takes_the_marker_along(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), other = id_of(fx, 0, id);
    struct dt_entry got[4];
    bool intact;

    put_one(fx, other, 100000);
    put_one(fx, id, 100); /* in a page of its own */
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_number(fx->endpoints, (unsigned)i, "DEL %s:{0}:due:0", fx->installation);
    OK(due(fx, 0, MARKER, 1000, 4, got));
    assert_int_equal(fx->due.n, 0);
    OK(due(fx, 0, MARKER, 1000, 4, got));
    assert_false(fx->due.marked);
    assert_int_equal(fx->due.next_ms, 100000);
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);  /* the leader has it filled again */
    put_one(fx, other, 0); /* a page that is emptied takes nothing along */
    OK(due(fx, 0, MARKER, 1000000, 4, got));
    OK(due(fx, 0, MARKER, 1000000, 4, got));
    assert_true(fx->due.marked);
}

static void all_places_that_are_named_are_left(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry entries[] = {{id, 900000, 500}, {id, 900000, 100500}, {id, 900000, 333}};

    move_one(fx, id, 0, 500);
    move_one(fx, id, 0, 100500);
    OK(dt_index_put(fx->index, &fx->map, entries, 3, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 900000);
    for (int i = 0; i < 3; i++)
        entries[i] = (struct dt_entry){id, 0, 900000};
    OK(dt_index_put(fx->index, &fx->map, entries, 3, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 0);
}

static void a_server_that_cannot_take_packed_pages_is_filled_entry_by_entry(void **state)
{
    struct fixture *fx = *state;
    enum { N = 3000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));

    redis_fixture_text(fx->endpoints, 0, "ACL SETUSER default -restore");
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + i, 0};
    for (int twice = 0; twice < 2; twice++)
        OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    expect_sound(fx);
    free(entries);
}

/* ---- when things go wrong ---- */

static void flushed_scripts_are_loaded_again_without_anybody_noticing(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), next_ms;
    struct dt_entry got[4], after = {1, 1, 0};
    bool intact;
    size_t n;

    put_one(fx, 1, 1);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, 100, 0}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 100);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_fix(fx->index, 0, &(struct dt_fix){id, 100, 200}, 1, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_range(fx->index, 0, &(struct dt_range){0, FAR, &after, 4}, got, &n, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &(struct dt_entry){id, 200, 0}, 1, &fx->err));
    assert_int_equal(score(fx, id), 0);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 5, &next_ms, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
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
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, fx->endpoints)); /* says which */
    redis_server_again(&fx->server);
    assert_true(wait_until(pings, fx, 5000));
    assert_int_equal(score(fx, 1), 0); /* it came back empty: the marker tells a leader */
    put_one(fx, 1, 100);
    assert_int_equal(score(fx, 1), 100);
}

/* Ends every connection but the one that asks for it. */
static void end_connections(struct fixture *fx)
{
    assert_true(redis_fixture_number(fx->endpoints, 0, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

static void a_connection_that_the_server_ended_while_idle_fails_no_call(void **state)
{
    struct fixture *fx = *state;
    int64_t id = id_of(fx, 0, 0), out, at_ms;
    struct dt_entry entry = {id, 1, 0}, got[2];
    struct dt_fix fix = {id, 1, 2};
    struct dt_arena arena;
    struct dt_str *topics;
    bool flag;
    size_t n;

    dt_arena_init(&arena);
    OK(dt_index_ping(fx->index, &fx->err));
#define STALE_OK(call)                                                                                                 \
    do {                                                                                                               \
        end_connections(fx);                                                                                           \
        OK(call);                                                                                                      \
    } while (0)
    STALE_OK(dt_index_ping(fx->index, &fx->err));
    STALE_OK(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, true, &fx->err));
    STALE_OK(dt_index_wake(fx->index, 0, false, &fx->err));
    STALE_OK(dt_index_wake_all(fx->index, &fx->err));
    STALE_OK(due(fx, 0, MARKER, 5, 2, got));
    assert_int_equal(fx->due.n, 1);
    STALE_OK(dt_index_mark(fx->index, 0, MARKER, NULL, &flag, &fx->gone, &fx->err));
    STALE_OK(dt_index_fix(fx->index, 0, &fix, 1, &fx->err));
    assert_int_equal(score(fx, id), 2);
    STALE_OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &(struct dt_entry){id, 2, 0}, 1, &fx->err));
    STALE_OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 1, &out, &fx->err));
    STALE_OK(dt_index_held(fx->index, 0, &arena, &topics, &n, &fx->err));
    STALE_OK(dt_index_range(fx->index, 0, &(struct dt_range){0, 9, NULL, 2}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    STALE_OK(dt_index_count(fx->index, 0, 0, 9, &out, &fx->err));
    STALE_OK(dt_index_add_missing(fx->index, 0, &entry, 1, &fx->err));
    STALE_OK(dt_index_scores(fx->index, 0, &entry, 1, &at_ms, &fx->err));
    STALE_OK(dt_index_fill(fx->index, &fx->map, &entry, 1, &fx->err));
#undef STALE_OK
    dt_arena_clear(&arena);
}

static void a_server_that_was_started_anew_while_idle_fails_no_call(void **state)
{
    struct fixture *fx = *state;

    put_one(fx, 1, 100);
    for (int i = 0; i < 3; i++) {
        redis_server_kill(&fx->server);
        redis_server_again(&fx->server);
        OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100 + i, 0}, 1, FAR, true, &fx->err));
        assert_int_equal(score(fx, 1), 100 + i);
    }
}

static void *put_in_a_thread(void *arg)
{
    struct fixture *fx = arg;
    dt_status status =
        dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100, 0}, 1, FAR, true, &(struct dt_error){0});

    return (void *)(intptr_t)status;
}

static bool somebody_is_paused(void *arg)
{
    struct fixture *fx = arg;

    return strstr(redis_fixture_text(fx->endpoints, 0, "INFO clients"), "blocked_clients:1") != NULL;
}

static void a_connection_that_ends_before_the_first_answer_has_its_commands_sent_again(void **state)
{
    struct fixture *fx = *state;
    pthread_t thread;
    void *status;

    dt_index_free(fx->index);
    open_index(fx, 5000);
    OK(dt_index_ping(fx->index, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "CLIENT PAUSE 10000 WRITE");
    assert_int_equal(pthread_create(&thread, NULL, put_in_a_thread, fx), 0);
    assert_true(wait_until(somebody_is_paused, fx, 3000));
    end_connections(fx);
    redis_fixture_text(fx->endpoints, 0, "CLIENT UNPAUSE");
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, DT_OK);
    assert_int_equal(score(fx, 1), 100);
}

static void failing_is(struct fixture *fx, const char *list)
{
    char text[256];

    dt_index_failing(fx->index, text, sizeof(text));
    assert_string_equal(text, list);
}

/* Commands of several words, which a format as an argument would make one of. */
static void by_hand(struct fixture *fx, const char *command)
{
    char words[4][40] = {"", "", "", ""};
    int n = sscanf(command, "%39s %39s %39s %39s", words[0], words[1], words[2], words[3]);

    assert_in_range(n, 3, 4);
    if (n == 4)
        redis_fixture_text(fx->endpoints, 0, "%s %s %s %s", words[0], words[1], words[2], words[3]);
    else
        redis_fixture_text(fx->endpoints, 0, "%s %s %s", words[0], words[1], words[2]);
}

static void a_probe_tells_whether_changes_would_be_taken_and_leaves_nothing(void **state)
{
    static const char *const troubles[][2] = {
        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
        {"ACL SETUSER default -evalsha", "ACL SETUSER default +@all"},
        {"ACL SETUSER default -@write", "ACL SETUSER default +@all"},
    };
    struct fixture *fx = *state;

    OK(dt_index_probe(fx->index, &fx->err));
    failing_is(fx, "");
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "DBSIZE"), 0);
    for (unsigned i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        by_hand(fx, troubles[i][0]);
        OK(dt_index_ping(fx->index, &fx->err)); /* it is there, and well, for who asks no more */
        UNAVAILABLE(dt_index_probe(fx->index, &fx->err));
        failing_is(fx, "*");
        by_hand(fx, troubles[i][1]);
        OK(dt_index_probe(fx->index, &fx->err));
        failing_is(fx, "");
    }
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_probe(fx->index, &fx->err));
    failing_is(fx, "*");
}

static void who_listens_knows_whether_announcements_arrive(void **state)
{
    struct fixture *fx = *state;
    struct heard heard;
    dt_wake *wake = listen_to(fx, &heard, 1);

    assert_true(dt_wake_hears(wake));
    redis_server_kill(&fx->server);
    expect_heard(&heard, &heard.all, 2, 2000);
    assert_false(dt_wake_hears(wake));
    redis_server_again(&fx->server);
    expect_heard(&heard, &heard.all, 3, 5000);
    assert_true(dt_wake_hears(wake));
    dt_wake_stop(wake);
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
    struct dt_entry entry = {1, 1, 0}, got[2];
    struct dt_fix fix = {1, 1, 2};
    struct dt_arena arena;
    struct dt_str *topics;
    int64_t out;
    size_t n = 9;
    bool flag;

    dt_arena_init(&arena);
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_ping(fx->index, &fx->err));
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, false, &fx->err));
    UNAVAILABLE(dt_index_wake(fx->index, 0, false, &fx->err));
    UNAVAILABLE(dt_index_wake_all(fx->index, &fx->err));
    UNAVAILABLE(due(fx, 0, MARKER, 5, 2, got));
    assert_int_equal(fx->due.n, 0);
    UNAVAILABLE(dt_index_mark(fx->index, 0, MARKER, NULL, &flag, &fx->gone, &fx->err));
    UNAVAILABLE(dt_index_fix(fx->index, 0, &fix, 1, &fx->err));
    UNAVAILABLE(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 1, &out, &fx->err));
    UNAVAILABLE(dt_index_held(fx->index, 0, &arena, &topics, &n, &fx->err));
    UNAVAILABLE(dt_index_range(fx->index, 0, &(struct dt_range){0, 9, NULL, 2}, got, &n, &fx->err));
    UNAVAILABLE(dt_index_count(fx->index, 0, 0, 9, &out, &fx->err));
    UNAVAILABLE(dt_index_add_missing(fx->index, 0, &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_scores(fx->index, 0, &entry, 1, &out, &fx->err));
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
        UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, wake, &fx->err));
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
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, "READONLY"));
    OK(dt_index_count(fx->index, dt_shard_of(&fx->map, 1), 0, FAR, &count, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "REPLICAOF NO ONE");
    put_one(fx, 2, 100);
}

static void a_key_of_another_type_is_an_error_of_that_shard_alone(void **state)
{
    struct fixture *fx = *state;

    redis_fixture_text(fx->endpoints, 0, "SET %s:{0}:due nonsense", fx->installation);
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 0, 0), 1, 0}, 1, FAR, true, &fx->err));
    put_one(fx, id_of(fx, 1, 0), 100);
}

static void an_emptied_server_takes_new_entries(void **state)
{
    struct fixture *fx = *state;

    put_one(fx, 1, 100);
    redis_fixture_text(fx->endpoints, 0, "FLUSHALL");
    assert_int_equal(score(fx, 1), 0);
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100, 0}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, 1), 100);
}

static void entries_of_the_other_endpoints_arrive_when_one_is_down(void **state)
{
    struct fixture *fx = *state;
    struct dt_entry entries[100];
    struct redis_server other;
    char failing[128];
    dt_index *both;
    unsigned here = 0;

    spread_over_endpoints(fx);
    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), " %s , %s,", fx->server.endpoint, other.endpoint);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    OK(dt_index_ping(both, &fx->err));
    redis_server_kill(&other);
    for (int i = 0; i < 100; i++)
        entries[i] = (struct dt_entry){i + 1, 100, 0};
    UNAVAILABLE(dt_index_put(both, &fx->map, entries, 100, FAR, true, &fx->err));
    UNAVAILABLE(dt_index_ping(both, &fx->err));
    assert_non_null(strstr(fx->err.text, other.endpoint));
    dt_index_failing(both, failing, sizeof(failing));
    assert_string_equal(failing, other.endpoint);
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

    spread_over_endpoints(fx);
    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s,%s", fx->server.endpoint, other.endpoint);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    kill(other.pid, SIGSTOP);
    for (int64_t id = 1; id < 200 && !(ids[0] && ids[1]); id++) { /* which endpoint holds which? */
        dt_status status = dt_index_put(both, &fx->map, &(struct dt_entry){id, 100, 0}, 1, FAR, true, &fx->err);

        ids[status != DT_OK] = id;
    }
    assert_true(ids[0] && ids[1]);
    for (int i = 0; i < 1000; i++)
        OK(dt_index_put(both, &fx->map, &(struct dt_entry){ids[0], 100 + i, 0}, 1, FAR, true, &fx->err));
    /* waiting for silence takes at most a fifth of the time: one try of 0.3 s within the next second */
    before_us = dt_clock_mono_us(dt_clock_system());
    UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100, 0}, 1, FAR, true, &fx->err));
    for (int i = 0; i < 1000; i++)
        UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100, 0}, 1, FAR, true, &fx->err));
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
        OK(dt_index_put(a, &fx->map, &(struct dt_entry){id, 100 + id, 0}, 1, FAR, true, &fx->err));
        assert_int_equal(redis_fixture_score(b, &fx->map, id), 100 + id);
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

    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 2, 0), 100, 0}, 1, FAR, true, &fx->err));
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
    static const char *const bad[] = {" , ", "localhost", "h:0", "h:65536", "h:1x", ":6379", "h:"};
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

static void without_endpoints_there_is_no_index(void **state)
{
    struct dt_config config = redis_fixture_config("", "", 100);
    struct dt_error err;
    char down[8];
    dt_index *index = (dt_index *)&config;
    dt_wake *wake = (dt_wake *)&config;

    (void)state;
    assert_int_equal(dt_index_new(&config, "x", dt_clock_system(), &index, &err), DT_OK);
    assert_null(index);
    assert_int_equal(dt_wake_start(&config, "x", NULL, NULL, &wake, &err), DT_OK);
    assert_null(wake);
    assert_string_equal(dt_index_home(index, 3), "");
    dt_index_failing(index, down, sizeof(down));
    assert_string_equal(down, "*");
    dt_wake_stop(wake);
    dt_index_free(index);
}

int main(void)
{
#define T(f, setup) cmocka_unit_test_setup_teardown(f, setup, done)
    const struct CMUnitTest tests[] = {
        T(put_stores_an_entry_in_a_page_of_its_shards_set, shared),
        T(put_moves_removes_and_is_idempotent, shared),
        T(put_removes_what_is_due_after_the_horizon, shared),
        T(put_does_not_look_for_what_was_far_after_the_horizon, private),
        T(the_last_of_several_entries_of_one_job_counts, shared),
        T(put_takes_any_number_of_entries_of_any_shards_on_all_endpoints, shared),
        T(put_of_nothing_is_nothing, shared),
        T(a_put_announces_its_shard_exactly_when_the_earliest_became_earlier, shared),
        T(while_something_overdue_stays_in_front_what_is_due_soon_is_announced, shared),
        T(one_announcement_a_shard_is_enough_for_many_entries, shared),
        T(a_filling_is_one_handles_until_it_lets_go, shared),
        T(what_is_filled_counts_as_long_as_its_marker_stays, shared),
        T(a_filling_for_another_map_is_not_taken, shared),
        T(a_clock_that_is_set_back_keeps_no_filling, shared),
        T(a_put_without_wake_announces_nothing, shared),
        T(announcements_by_hand_arrive_with_their_meaning, shared),
        T(a_wake_message_of_another_installation_is_not_heard, shared),
        T(due_gives_what_is_due_in_order_and_the_time_of_the_next, shared),
        T(the_marker_tells_a_leader_whether_its_set_is_still_there, shared),
        T(a_marker_of_another_map_or_from_before_a_move_is_not_believed, shared),
        T(a_set_that_its_leader_left_half_filled_is_believed_by_nobody, shared),
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
        T(a_set_in_pages_is_what_a_plain_one_would_be_after_any_changes, shared),
        T(many_entries_take_less_than_a_seventh_of_the_memory_of_a_plain_set, private),
        T(a_lost_set_comes_back_in_packed_pages_that_a_distrustful_server_takes, private),
        T(what_came_since_the_loss_stays_beside_what_is_filled_in, shared),
        T(an_entry_whose_old_place_nobody_knew_is_there_beside_the_old_one, shared),
        T(a_page_that_is_gone_takes_the_marker_along, shared),
        T(all_places_that_are_named_are_left, shared),
        T(a_server_that_cannot_take_packed_pages_is_filled_entry_by_entry, private),
        T(a_lost_wake_channel_is_told_and_comes_back_by_itself, private),
        T(a_server_that_is_emptied_says_so, private),
        T(a_server_that_may_not_say_that_is_listened_to_all_the_same, private),
        T(a_server_that_stands_still_is_noticed_by_its_missing_pong, private),
        T(the_wake_channel_can_be_stopped_while_its_server_is_down, private),
        T(flushed_scripts_are_loaded_again_without_anybody_noticing, private),
        T(a_killed_server_is_unavailable_and_is_found_again, private),
        T(a_connection_that_the_server_ended_while_idle_fails_no_call, private),
        T(a_server_that_was_started_anew_while_idle_fails_no_call, private),
        T(a_probe_tells_whether_changes_would_be_taken_and_leaves_nothing, private),
        T(who_listens_knows_whether_announcements_arrive, private),
        T(a_connection_that_ends_before_the_first_answer_has_its_commands_sent_again, private),
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
        cmocka_unit_test(without_endpoints_there_is_no_index),
    };
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
