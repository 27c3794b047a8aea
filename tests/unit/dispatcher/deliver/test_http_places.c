/* Places for callbacks: bounds, owners and their topics, dead hosts, and hosts that push back. */

#include "support/suite.h"

#include "base/http/callback_rules.h"
#include "deliver/http/http_places.h"

#define SECOND INT64_C(1000000)
#define MANY   3000

static dt_places *places;
static int64_t now_us, owner_id; /* owner_id: of the topics that ask */
static struct dt_place taken[MANY];
static size_t n_taken;

static void start(unsigned max_in_flight, unsigned per_host, size_t max_bytes)
{
    struct dt_places_limits limits = {max_in_flight, per_host, max_bytes};
    now_us = SECOND;
    n_taken = 0;
    owner_id = 1;
    assert_int_equal(dt_places_new(&limits, &places), DT_OK);
}

static void end(void)
{
    dt_places_free(places);
    places = NULL;
}

#define FRESH_TEST(name) TEST_WITH(name, NULL, end)

static struct dt_place_for of_topic(const char *topic)
{
    return (struct dt_place_for){owner_id, dt_str(topic)};
}

static bool take_bytes(const char *host, const char *topic, size_t bytes)
{
    const struct dt_place_for who = of_topic(topic);
    now_us++;
    dt_status status = dt_places_take(places, dt_str(host), &who, bytes, now_us, &taken[n_taken]);
    if (status == DT_OK)
        n_taken++;
    else
        assert_int_equal(status, DT_FULL);
    return status == DT_OK;
}

static bool take(const char *host, const char *topic)
{
    return take_bytes(host, topic, 1);
}

static unsigned room_at(uint32_t host, const char *topic)
{
    const struct dt_place_for who = of_topic(topic);
    return dt_places_room_at(places, host, &who, now_us);
}

static unsigned room_anywhere(const char *topic)
{
    const struct dt_place_for who = of_topic(topic);
    return dt_places_room_anywhere(places, &who, now_us);
}

static unsigned take_all(const char *host, const char *topic)
{
    unsigned n = 0;
    while (take(host, topic))
        n++;
    return n;
}

static void give_back(size_t i, enum dt_place_end how)
{
    now_us++;
    dt_places_give_back(places, &taken[i], how, now_us);
    taken[i] = taken[--n_taken];
}

/* Each place that is taken is answered and taken anew, some rounds long. */
static void answer_and_take(const char *host, const char *topic, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        give_back(0, DT_PLACE_ANSWERED);
        (void)take_all(host, topic);
    }
}

FRESH_TEST(a_dead_topic_holds_half_of_its_hosts_places)
{
    start(1000, 100, 1 << 20);
    assert_int_equal(take_all("h", "dead"), 50);
    assert_int_equal(take_all("h", "live"), 25);
    give_back(65, DT_PLACE_ANSWERED);
    assert_true(take_all("h", "live") > 1);
    assert_false(take("h", "dead"));
}

FRESH_TEST(dead_topics_leave_some_places_however_many_they_are)
{
    char topic[16];
    start(1000, 100, 1 << 20);
    for (int i = 0; i < 4; i++)
        for (int topics = 0; topics < 30; topics++) {
            assert_true(snprintf(topic, sizeof(topic), "t%d", topics) > 0);
            (void)take("h", topic);
        }
    assert_true(dt_places_taken(places) < 100);
    assert_true(take("h", "live"));
}

FRESH_TEST(a_topic_that_is_alone_and_answered_uses_all_places_of_its_owner_at_its_host)
{
    start(1000, 100, 1 << 20);
    (void)take_all("h", "t");
    answer_and_take("h", "t", 100);
    assert_int_equal(dt_places_taken(places), 100);
}

static unsigned held_with(const struct dt_place *like)
{
    unsigned n = 0;
    for (size_t i = 0; i < n_taken; i++)
        n += taken[i].at_host == like->at_host;
    return n;
}

FRESH_TEST(topics_that_are_answered_share_a_host)
{
    unsigned of_first = 0;
    start(1000, 100, 1 << 20);
    (void)take_all("h", "a");
    answer_and_take("h", "a", 100);
    assert_false(take("h", "b"));
    for (size_t i = 0; i < 2000; i++) {
        give_back(i * 7 % n_taken, DT_PLACE_ANSWERED);
        (void)take("h", "a");
        (void)take("h", "b");
    }
    of_first = held_with(&taken[0]);
    assert_in_range(of_first, 25, 75);
    assert_true(n_taken >= 83);
}

FRESH_TEST(a_waiting_topic_that_does_not_return_delays_no_other_topic)
{
    start(1000, 10, 1 << 20);
    (void)take_all("h", "a");
    answer_and_take("h", "a", 20);
    assert_int_equal(dt_places_taken(places), 10);
    assert_false(take("h", "b"));
    give_back(0, DT_PLACE_ANSWERED);
    assert_false(take("h", "a"));
    now_us += SECOND;
    assert_true(take("h", "a"));
}

static void take_in_turn(int names)
{
    char name[16];
    for (int i = 0; i < names; i++) {
        assert_true(snprintf(name, sizeof(name), "n%d", i) > 0);
        (void)take(name, name);
    }
}

FRESH_TEST(dead_hosts_leave_places_of_the_process_to_others)
{
    start(100, 50, 1 << 20);
    for (int i = 0; i < 300; i++) {
        take_in_turn(19);
        if (n_taken > 90)
            give_back(0, DT_PLACE_SILENT);
    }
    take_in_turn(19);
    assert_true(dt_places_taken(places) < 100);
    assert_true(take("live", "live"));
}

FRESH_TEST(one_topic_with_many_dead_hosts_leaves_half_of_the_process)
{
    char host[16];
    start(100, 50, 1 << 20);
    for (int i = 0; i < 200; i++) {
        assert_true(snprintf(host, sizeof(host), "h%d", i) > 0);
        (void)take(host, "dead");
    }
    assert_int_equal(dt_places_taken(places), 44);
    assert_true(take("live", "live"));
}

/* Each with a host of its own that does not answer. */
static void take_for_many_topics(unsigned topics, unsigned each, size_t bytes)
{
    char name[16];
    for (unsigned job = 0; job < each; job++)
        for (unsigned i = 0; i < topics; i++) {
            assert_true(snprintf(name, sizeof(name), "n%u", i) > 0);
            (void)take_bytes(name, name, bytes);
        }
}

static unsigned held_by(int64_t owner)
{
    unsigned n = 0;
    for (size_t i = 0; i < n_taken; i++)
        n += dt_place_owner(&taken[i]) == owner;
    return n;
}

FRESH_TEST(an_owner_leaves_an_eighth_of_the_process_however_many_topics_it_has)
{
    start(1000, 100, 1 << 20);
    take_for_many_topics(960, 4, 1);
    assert_int_equal(dt_places_taken(places), 875);
    owner_id = 2;
    assert_true(room_anywhere("live") > 10);
    assert_true(take_all("live", "live") > 10);
    owner_id = 3;
    assert_true(take_all("other", "other") > 10);
}

FRESH_TEST(an_owner_has_at_most_half_of_the_process_while_another_one_asks)
{
    start(100, 50, 1 << 20);
    take_for_many_topics(30, 100, 1);
    for (int i = 0; i < 1000; i++) { /* answers earn its topics places, but none beyond what their owner may have */
        now_us += SECOND / 100;
        give_back((size_t)i * 7 % n_taken, DT_PLACE_ANSWERED);
        owner_id = 2;
        (void)room_anywhere("rare");
        owner_id = 1;
        take_for_many_topics(30, 1, 1);
    }
    assert_in_range(held_by(1), 40, 50);
    now_us += 11 * SECOND; /* the other one has no work any more */
    take_for_many_topics(30, 100, 1);
    assert_int_equal(held_by(1), 87);
}

FRESH_TEST(an_owner_leaves_bytes_to_others_however_many_topics_it_has)
{
    start(1000, 100, 8000);
    take_for_many_topics(30, 30, 100);
    assert_true(dt_places_taken(places) <= 70);
    owner_id = 2;
    assert_true(take_bytes("live", "live", 1000));
    for (size_t i = n_taken - 1; i-- > 0;) /* all but the last one */
        give_back(i, DT_PLACE_ANSWERED);
    assert_int_equal(held_by(2), 1);
    owner_id = 1;
    take_for_many_topics(30, 30, 100);
    assert_in_range(held_by(1), 30, 35); /* half of what the other one leaves */
}

FRESH_TEST(an_owner_leaves_places_at_a_host_to_others_however_many_topics_it_has_there)
{
    char topic[16];
    start(1000, 100, 1 << 20);
    owner_id = 2;
    assert_true(take("h", "live"));
    owner_id = 1;
    for (int i = 0; i < 500; i++) {
        assert_true(snprintf(topic, sizeof(topic), "t%d", i % 100) > 0);
        (void)take("h", topic);
    }
    assert_int_equal(held_by(1), 49);
    owner_id = 2;
    assert_int_equal(take_all("h", "live"), 12); /* of the 25 that are its half of what the first one leaves */
}

FRESH_TEST(a_host_that_slows_one_owner_keeps_its_places_for_others)
{
    start(1000, 16, 1 << 20);
    for (int i = 0; i < 5; i++) {
        assert_true(take("h", "noisy"));
        give_back(0, DT_PLACE_PUSHED_BACK);
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h"), 1), 1);
    assert_int_equal(dt_places_of_host(places, dt_str("h"), 2), 16);
    owner_id = 2;
    assert_true(take_all("h", "quiet") > 3);
}

FRESH_TEST(all_places_and_bytes_are_returned_in_the_end)
{
    uint32_t x = 12345;
    char name[16];
    start(50, 8, 10000);
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525u + 1013904223u;
        owner_id = 1 + (x >> 30);
        assert_true(snprintf(name, sizeof(name), "%u.t%u", (unsigned)owner_id, (x >> 24) % 16) > 0);
        (void)take_bytes(&name[(x >> 20) % 2 ? 2 : 0], name, (x >> 10) % 1000);
        if (n_taken && (x >> 9) % 3)
            give_back((x >> 5) % n_taken, (enum dt_place_end)((x >> 13) % 4));
    }
    while (n_taken)
        give_back(0, DT_PLACE_UNUSED);
    assert_int_equal(dt_places_taken(places), 0);
    now_us += 11 * SECOND;
    assert_true(take_bytes("all", "all", 10000));
}

FRESH_TEST(the_bounds_of_places_and_bytes_are_never_exceeded)
{
    char name[16];
    start(40, 10, 1 << 20);
    for (int round = 0; round < 200; round++)
        for (int i = 0; i < 10; i++) {
            assert_true(snprintf(name, sizeof(name), "n%d", i) > 0);
            (void)take(name, name);
            assert_true(dt_places_taken(places) <= 40);
            if (round % 3 == 0 && n_taken > 0)
                give_back((size_t)round % n_taken, DT_PLACE_ANSWERED);
        }
    assert_true(dt_places_taken(places) >= 30);
}

FRESH_TEST(bytes_are_bounded_and_one_request_always_fits)
{
    start(1000, 100, 1000);
    assert_true(take_bytes("h", "t", 5000));
    assert_false(take_bytes("h", "u", 1));
    give_back(0, DT_PLACE_UNUSED);
    assert_true(take_bytes("h", "t", 400));
    assert_false(take_bytes("h", "t", 500));
    assert_true(take_bytes("h", "u", 475));
    assert_false(take_bytes("h", "v", 1)); /* an eighth is for other owners */
    owner_id = 2;
    assert_true(take_bytes("h", "w", 125));
    assert_false(take_bytes("h", "x", 1));
}

FRESH_TEST(a_host_that_pushes_back_gets_fewer_requests_until_it_answers_otherwise)
{
    start(1000, 8, 1 << 20);
    assert_int_equal(take_all("h", "a"), 4);
    assert_true(take("other", "a"));
    give_back(4, DT_PLACE_ANSWERED);
    give_back(0, DT_PLACE_PUSHED_BACK);
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 4);
    give_back(0, DT_PLACE_PUSHED_BACK); /* of the same time */
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 4);
    while (n_taken)
        give_back(0, DT_PLACE_SILENT);
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 4);
    for (int i = 0; i < 5; i++) {
        assert_true(take("h", "a"));
        give_back(0, DT_PLACE_PUSHED_BACK);
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 1);
    assert_true(take("h", "a"));
    assert_false(take("h", "b"));
    assert_int_equal(dt_places_of_host(places, dt_str("other"), owner_id), 8);
    give_back(0, DT_PLACE_ANSWERED);
    for (int i = 0; i < 20; i++) {
        assert_true(take("h", "a"));
        give_back(0, DT_PLACE_ANSWERED);
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 8);
}

FRESH_TEST(idle_hosts_that_were_slowed_are_eventually_forgotten)
{
    start(1000, 8, 1 << 20);
    assert_true(take("h", "a"));
    give_back(0, DT_PLACE_PUSHED_BACK);
    assert_true(take("i", "a"));
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 4);
    now_us += DT_PLACES_REMEMBERED_US + SECOND;
    assert_true(take("j", "a"));
    assert_true(take("k", "a"));
    assert_true(take("l", "a"));
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 8);
}

/* One that is in use stands in nobody's way, however long it was known before them. */
FRESH_TEST(idle_hosts_are_forgotten_even_if_an_older_host_is_in_use)
{
    start(1000, 8, 1 << 20);
    assert_true(take("busy", "a"));
    assert_true(take("h", "a"));
    give_back(1, DT_PLACE_PUSHED_BACK);
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 4);
    now_us += DT_PLACES_REMEMBERED_US + SECOND;
    for (int i = 0; i < 3; i++) {
        const char new_host[] = {(char)('i' + i), '\0'};
        assert_true(take(new_host, "a"));
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h"), owner_id), 8);
}

FRESH_TEST(a_topic_whose_jobs_name_their_hosts_continues_although_one_host_is_full)
{
    start(1000, 4, 1 << 20);
    assert_int_equal(take_all("dead", "t"), 2);
    assert_true(room_anywhere("t") > 100);
    assert_true(take("live", "t"));
}

FRESH_TEST(free_places_of_a_host_are_found_by_its_number)
{
    const char *const dead = "https://dead.example:443";
    uint32_t number = dt_callback_host_of(dt_str("https://DEAD.example/some/path"));
    start(1000, 4, 1 << 20);
    assert_int_equal(number, dt_callback_host_of(dt_str(dead)));
    assert_int_equal(dt_callback_host_of(dt_str("no url")), 0);
    assert_int_equal(room_at(number, "t"), 2); /* nothing is known of it */
    assert_int_equal(take_all(dead, "t"), 2);
    assert_int_equal(room_at(number, "t"), 0);
    assert_true(room_at(number, "u") > 0);
    while (n_taken > 0)
        dt_places_give_back(places, &taken[--n_taken], DT_PLACE_SILENT, now_us);
    assert_int_equal(room_at(number, "t"), 2);
}

/* Else a host that may have one callback at a time would never have its first. */
FRESH_TEST(an_unknown_host_has_a_place_however_few_it_may_have)
{
    for (unsigned per_host = 1; per_host <= 5; per_host++) {
        start(100, per_host, 1 << 20);
        assert_int_equal(room_at(4711, "t"), (per_host + 1) / 2);
        dt_places_free(places);
    }
    places = NULL;
}

static void assert_key(struct dt_last_url *last, const char *text, const char *key)
{
    assert_null(dt_last_url_read(last, dt_str(text)));
    assert_string_equal(last->url.key, key);
}

FRESH_TEST(a_repeated_url_has_the_same_host)
{
    struct dt_last_url last = {0};
    char refused[] = "http://a/#";
    char longest[DT_CALLBACK_URL_MAX + 2] = "http://b/";
    for (int i = 0; i < 2; i++) {
        assert_key(&last, "http://a/1", "http://a:80");
        assert_key(&last, "http://a/1", "http://a:80");
        assert_key(&last, "http://b/1", "http://b:80"); /* as long */
        assert_key(&last, "http://b/12", "http://b:80");
        assert_non_null(dt_last_url_read(&last, dt_str(refused)));
        assert_non_null(dt_last_url_read(&last, dt_str(refused)));
    }
    refused[9] = '1'; /* the memory of a text may have another one by now */
    assert_key(&last, refused, "http://a:80");
    assert_non_null(dt_last_url_read(&last, DT_STR_LIT("")));
    memset(longest + 9, 'x', sizeof(longest) - 10);
    assert_non_null(dt_last_url_read(&last, dt_str(longest)));
    longest[DT_CALLBACK_URL_MAX] = '\0';
    assert_key(&last, longest, "http://b:80");
    longest[7] = 'c';
    assert_key(&last, longest, "http://c:80");
    assert_key(&last, longest, "http://c:80");
}
