/* Places for callbacks: bounds, topics of one host, dead hosts, and hosts that push back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "delivery/http/http_places.h"
#include "job/callback/callback_url.h"

#define SECOND INT64_C(1000000)
#define MANY   3000

static dt_places *places;
static int64_t now_us;
static struct dt_place taken[MANY];
static size_t n_taken;

static void start(unsigned max_in_flight, unsigned per_host, size_t max_bytes)
{
    struct dt_places_limits limits = {max_in_flight, per_host, max_bytes};
    now_us = SECOND;
    n_taken = 0;
    assert_int_equal(dt_places_new(&limits, &places), DT_OK);
}

static int end(void **state)
{
    (void)state;
    dt_places_free(places);
    places = NULL;
    return 0;
}

static bool take_bytes(const char *host, const char *topic, size_t bytes)
{
    now_us++;
    dt_status status = dt_places_take(places, dt_str(host), dt_str(topic), bytes, now_us, &taken[n_taken]);
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

static void a_dead_topic_holds_half_of_its_hosts_places(void **state)
{
    (void)state;
    start(1000, 100, 1 << 20);
    assert_int_equal(take_all("h", "dead"), 50);
    assert_int_equal(take_all("h", "live"), 25);
    give_back(74, DT_PLACE_ANSWERED);
    assert_true(take_all("h", "live") > 1);
    assert_false(take("h", "dead"));
}

static void dead_topics_leave_a_part_however_many_they_are(void **state)
{
    char topic[16];
    (void)state;
    start(1000, 100, 1 << 20);
    for (int i = 0; i < 4; i++)
        for (int topics = 0; topics < 30; topics++) {
            assert_true(snprintf(topic, sizeof(topic), "t%d", topics) > 0);
            (void)take("h", topic);
        }
    assert_true(dt_places_taken(places) < 100);
    assert_true(take("h", "live"));
}

static void a_topic_that_is_alone_and_answered_uses_all_places_of_its_host(void **state)
{
    (void)state;
    start(1000, 100, 1 << 20);
    (void)take_all("h", "t");
    answer_and_take("h", "t", 100);
    assert_int_equal(dt_places_taken(places), 100);
}

static unsigned held_with(const struct dt_place *like)
{
    unsigned n = 0;
    for (size_t i = 0; i < n_taken; i++)
        n += taken[i].share == like->share;
    return n;
}

static void topics_that_are_answered_share_a_host(void **state)
{
    unsigned of_first = 0;
    (void)state;
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
    assert_true(n_taken >= 95);
}

static void a_waiter_that_does_not_come_back_holds_nobody_up(void **state)
{
    (void)state;
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

static void dead_hosts_leave_places_of_the_process_to_others(void **state)
{
    (void)state;
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

static void one_topic_with_many_dead_hosts_leaves_half_of_the_process(void **state)
{
    char host[16];
    (void)state;
    start(100, 50, 1 << 20);
    for (int i = 0; i < 200; i++) {
        assert_true(snprintf(host, sizeof(host), "h%d", i) > 0);
        (void)take(host, "dead");
    }
    assert_int_equal(dt_places_taken(places), 50);
    assert_true(take("live", "live"));
}

static void the_bounds_hold(void **state)
{
    char name[16];
    (void)state;
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

static void bytes_are_bounded_and_one_request_always_fits(void **state)
{
    (void)state;
    start(1000, 100, 1000);
    assert_true(take_bytes("h", "t", 5000));
    assert_false(take_bytes("h", "u", 1));
    give_back(0, DT_PLACE_UNUSED);
    assert_true(take_bytes("h", "t", 400));
    assert_false(take_bytes("h", "t", 400));
    assert_true(take_bytes("h", "u", 600));
    assert_false(take_bytes("h", "v", 1));
}

static void a_host_that_pushes_back_gets_fewer_until_it_answers_otherwise(void **state)
{
    (void)state;
    start(1000, 8, 1 << 20);
    assert_int_equal(take_all("h", "a"), 4);
    assert_true(take("other", "a"));
    give_back(4, DT_PLACE_ANSWERED);
    give_back(0, DT_PLACE_PUSHED_BACK);
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 4);
    give_back(0, DT_PLACE_PUSHED_BACK); /* of the same time */
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 4);
    while (n_taken)
        give_back(0, DT_PLACE_SILENT);
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 4);
    for (int i = 0; i < 5; i++) {
        assert_true(take("h", "a"));
        give_back(0, DT_PLACE_PUSHED_BACK);
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 1);
    assert_true(take("h", "a"));
    assert_false(take("h", "b"));
    assert_int_equal(dt_places_of_host(places, dt_str("other")), 8);
    give_back(0, DT_PLACE_ANSWERED);
    for (int i = 0; i < 20; i++) {
        assert_true(take("h", "a"));
        give_back(0, DT_PLACE_ANSWERED);
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 8);
}

static void idle_hosts_that_were_slowed_are_forgotten_in_the_end(void **state)
{
    (void)state;
    start(1000, 8, 1 << 20);
    assert_true(take("h", "a"));
    give_back(0, DT_PLACE_PUSHED_BACK);
    assert_true(take("i", "a"));
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 4);
    now_us += DT_PLACES_REMEMBERED_US + SECOND;
    assert_true(take("j", "a"));
    assert_true(take("k", "a"));
    assert_true(take("l", "a"));
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 8);
}

/* One that is in use stands in nobody's way, however long it was known before them. */
static void idle_hosts_are_forgotten_behind_one_that_is_in_use(void **state)
{
    (void)state;
    start(1000, 8, 1 << 20);
    assert_true(take("busy", "a"));
    assert_true(take("h", "a"));
    give_back(1, DT_PLACE_PUSHED_BACK);
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 4);
    now_us += DT_PLACES_REMEMBERED_US + SECOND;
    for (int i = 0; i < 3; i++) {
        const char new_host[] = {(char)('i' + i), '\0'};
        assert_true(take(new_host, "a"));
    }
    assert_int_equal(dt_places_of_host(places, dt_str("h")), 8);
}

static void a_topic_whose_jobs_name_their_hosts_goes_on_beside_a_full_one(void **state)
{
    (void)state;
    start(1000, 4, 1 << 20);
    assert_int_equal(take_all("dead", "t"), 2);
    assert_true(dt_places_room_anywhere(places, dt_str("t"), now_us) > 100);
    assert_true(take("live", "t"));
}

static void a_host_is_asked_for_by_its_number(void **state)
{
    const char *const dead = "https://dead.example:443";
    uint32_t number = dt_callback_host_of(dt_str("https://DEAD.example/some/path"));
    (void)state;
    start(1000, 4, 1 << 20);
    assert_int_equal(number, dt_callback_host_of(dt_str(dead)));
    assert_int_equal(dt_callback_host_of(dt_str("no url")), 0);
    assert_int_equal(dt_places_room_at(places, number, dt_str("t"), now_us), 2); /* nothing is known of it */
    assert_int_equal(take_all(dead, "t"), 2);
    assert_int_equal(dt_places_room_at(places, number, dt_str("t"), now_us), 0);
    assert_true(dt_places_room_at(places, number, dt_str("u"), now_us) > 0);
    while (n_taken > 0)
        dt_places_give_back(places, &taken[--n_taken], DT_PLACE_SILENT, now_us);
    assert_int_equal(dt_places_room_at(places, number, dt_str("t"), now_us), 2);
}

/* Else a host that may have one callback at a time would never have its first. */
static void a_host_that_nothing_is_known_of_has_a_place_however_few_it_may_have(void **state)
{
    (void)state;
    for (unsigned per_host = 1; per_host <= 5; per_host++) {
        start(100, per_host, 1 << 20);
        assert_int_equal(dt_places_room_at(places, 4711, dt_str("t"), now_us), (per_host + 1) / 2);
        dt_places_free(places);
    }
    places = NULL;
}

#define T(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_host_is_asked_for_by_its_number),
        T(a_dead_topic_holds_half_of_its_hosts_places),
        T(dead_topics_leave_a_part_however_many_they_are),
        T(a_topic_that_is_alone_and_answered_uses_all_places_of_its_host),
        T(topics_that_are_answered_share_a_host),
        T(a_waiter_that_does_not_come_back_holds_nobody_up),
        T(dead_hosts_leave_places_of_the_process_to_others),
        T(one_topic_with_many_dead_hosts_leaves_half_of_the_process),
        T(the_bounds_hold),
        T(bytes_are_bounded_and_one_request_always_fits),
        T(a_host_that_pushes_back_gets_fewer_until_it_answers_otherwise),
        T(idle_hosts_that_were_slowed_are_forgotten_in_the_end),
        T(idle_hosts_are_forgotten_behind_one_that_is_in_use),
        T(a_topic_whose_jobs_name_their_hosts_goes_on_beside_a_full_one),
        T(a_host_that_nothing_is_known_of_has_a_place_however_few_it_may_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
