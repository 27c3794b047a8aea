/* The promises of index/index.h about wake-ups: what is announced to whom, and a channel that is lost. */

#include "support/rigs/index_rig.h"

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
    expect_heard(heard, &heard->outbox[shard], closing + 1);
    return heard->by_shard[shard] - before;
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

RIG_TEST(a_put_announces_its_shard_exactly_when_the_earliest_became_earlier, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
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
}

/* Its leader cannot have cleared it, whatever the reason, and sleeps for up to a second. */
RIG_TEST(jobs_due_soon_are_announced_although_an_overdue_job_is_still_first, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
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
}

RIG_TEST(many_entries_of_a_shard_cause_one_announcement, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
    struct dt_entry entries[500];
    int64_t id = 0;
    for (int i = 0; i < 500; i++)
        entries[i] = (struct dt_entry){id = id_of(fx, 3, id), 1000 - i, 0};
    OK(dt_index_put(fx->index, &fx->map, entries, 500, FAR, true, &fx->err));
    OK(dt_index_wake(fx->index, 3, true, &fx->err));
    expect_heard(&heard, &heard.outbox[3], 1);
    assert_int_equal(heard.by_shard[3], 1);
}

RIG_TEST(a_put_without_wake_announces_nothing, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
    put_one(fx, id_of(fx, 1, 0), 5);
    OK(dt_index_wake(fx->index, 1, true, &fx->err));
    expect_heard(&heard, &heard.outbox[1], 1);
    assert_int_equal(heard.by_shard[1], 0);
}

RIG_TEST(announcements_by_hand_arrive_with_their_meaning, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
    int all = heard.all;
    for (unsigned shard = 0; shard < fx->map.shards; shard++)
        OK(dt_index_wake(fx->index, shard, false, &fx->err));
    for (unsigned shard = 0; shard < fx->map.shards; shard++)
        expect_heard(&heard, &heard.by_shard[shard], 1);
    assert_int_equal(heard.outbox[0], 0);
    OK(dt_index_wake_all(fx->index, &fx->err));
    expect_heard(&heard, &heard.all, all + n_endpoints(fx));
}

RIG_TEST(a_wake_message_of_another_installation_is_not_heard, shared)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, n_endpoints(fx));
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_number(fx->endpoints, (unsigned)i, "PUBLISH %sx:wake 2", fx->installation);
    OK(dt_index_wake(fx->index, 2, true, &fx->err));
    expect_heard(&heard, &heard.outbox[2], 1);
    assert_int_equal(heard.by_shard[2], 0);
}

struct offers {
    _Atomic int a, b, any, others;
};

static void on_offers(void *arg, struct dt_str topic)
{
    struct offers *offers = arg;
    _Atomic int *count = !topic.p                  ? &offers->any
                         : dt_str_is(topic, "a.1") ? &offers->a
                         : dt_str_is(topic, "b")   ? &offers->b
                                                   : &offers->others;
    atomic_fetch_add(count, 1);
}

static void expect_offers(_Atomic int *count, int n)
{
    for (int64_t end = real_now_ms() + 3000; atomic_load(count) < n;)
        assert_true(real_now_ms() < end);
    assert_int_equal(atomic_load(count), n);
}

RIG_TEST(offers_are_announced_only_to_subscribers_that_wait_for_pops, shared)
{
    struct offers offers = {0};
    struct heard heard;
    WAKE(leaders) = listen_to(fx, &heard, n_endpoints(fx));
    WAKE(pops) = NULL;
    const struct dt_str topics[] = {dt_str("a.1"), dt_str("b")};
    OK(dt_wake_start_for_pops(&fx->config, fx->installation, on_offers, &offers, &pops, &fx->err));
    expect_offers(&offers.any, n_endpoints(fx)); /* it has begun to hear */
    for (unsigned shard = 0; shard < 4; shard++)
        OK(dt_index_tell_offers(fx->index, shard, topics, shard < 3 ? 2 : 1, &fx->err));
    expect_offers(&offers.a, 4);
    expect_offers(&offers.b, 3);
    OK(dt_index_wake(fx->index, 1, true, &fx->err));
    expect_heard(&heard, &heard.outbox[1], 1);
    OK(dt_index_wake_all(fx->index, &fx->err)); /* a topic was resumed: any may have jobs */
    expect_offers(&offers.any, 2 * n_endpoints(fx));
    assert_int_equal(offers.others, 0);
}

RIG_TEST(a_lost_wake_channel_is_reported_and_recovers_by_itself, private)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, 1);
    redis_server_kill(&fx->server);
    expect_heard(&heard, &heard.all, 2); /* lost */
    redis_server_again(&fx->server);
    expect_heard(&heard, &heard.all, 3); /* back */
    redis_fixture_number(fx->endpoints, 0, "PUBLISH %s:wake 6", fx->installation);
    expect_heard(&heard, &heard.by_shard[6], 1);
}

RIG_TEST(a_server_that_is_emptied_is_reported, private)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, 1);
    redis_fixture_text(fx->endpoints, 0, "FLUSHALL");
    expect_heard(&heard, &heard.all, 2);
    redis_fixture_text(fx->endpoints, 0, "FLUSHDB");
    expect_heard(&heard, &heard.all, 3);
}

RIG_TEST(a_server_that_denies_the_rights_for_tracking_is_used_nevertheless, private)
{
    static const char *const forbidden[][2] = {
        {"resetchannels", "&*:wake"}, {"-client|tracking", "+ping"}, {"-client|id", "+ping"}};

    for (unsigned i = 0; i < 3; i++) {
        struct heard heard;
        redis_fixture_text(fx->endpoints, 0, "ACL SETUSER default %s %s", forbidden[i][0], forbidden[i][1]);
        WAKE(wake) = listen_to(fx, &heard, 1);
        redis_fixture_number(fx->endpoints, 0, "PUBLISH %s:wake 6", fx->installation);
        expect_heard(&heard, &heard.by_shard[6], 1);
    }
}

RIG_TEST(a_hanging_server_is_noticed_by_its_missing_pong, private)
{
    struct heard heard;
    fx->config.redis_timeout = 300;
    WAKE(wake) = listen_to(fx, &heard, 1);
    stop_child(fx->server.pid);
    expect_heard(&heard, &heard.all, 2); /* PING after 5 s of silence, and 0.3 s for its answer */
    kill(fx->server.pid, SIGCONT);
    expect_heard(&heard, &heard.all, 3);
}

RIG_TEST(the_wake_channel_can_be_stopped_while_its_server_is_down, private)
{
    struct heard heard;
    dt_wake *wake;
    memset(&heard, 0, sizeof(heard));
    pthread_mutex_init(&heard.lock, NULL);
    redis_server_kill(&fx->server);
    OK(dt_wake_start(&fx->config, fx->installation, on_wake, &heard, &wake, &fx->err));
    dt_wake_stop(wake);
    assert_int_equal(heard.all, 0);
}
