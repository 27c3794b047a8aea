/* Who goes next when more is due than fits. */
#include <string.h>

#include "support/suite.h"

#include "base/fair.h"

#define N(a) (sizeof(a) / sizeof *(a))

static size_t sum(const struct dt_fair_queue *queues, size_t n)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += queues[i].quota;
    return all;
}

TEST(queues_that_fit_into_a_batch_are_taken_whole)
{
    struct dt_fair_queue queues[] = {{.waiting = 3}, {.waiting = 0}, {.waiting = 7}};
    dt_fair_share(queues, N(queues), 10);
    assert_int_equal(queues[0].quota, 3);
    assert_int_equal(queues[1].quota, 0);
    assert_int_equal(queues[2].quota, 7);
}

TEST(a_queue_with_a_million_jobs_does_not_reduce_the_share_of_others)
{
    struct dt_fair_queue queues[] = {{.waiting = 1000000}, {.waiting = 5}, {.waiting = 40}};
    dt_fair_share(queues, N(queues), 2000);
    assert_int_equal(queues[1].quota, 5);
    assert_int_equal(queues[2].quota, 40);
    assert_int_equal(queues[0].quota, 1955);
}

TEST(queues_that_want_more_get_equal_parts_of_the_rest)
{
    struct dt_fair_queue queues[] = {{.waiting = 900}, {.waiting = 10}, {.waiting = 1000}};
    dt_fair_share(queues, N(queues), 1000);
    assert_int_equal(queues[0].quota, 495);
    assert_int_equal(queues[1].quota, 10);
    assert_int_equal(queues[2].quota, 495);
}

TEST(with_more_queues_than_room_the_longest_due_get_a_place)
{
    struct dt_fair_queue queues[] = {{.waiting = 9}, {.waiting = 9}, {.waiting = 9}, {.waiting = 9}};
    dt_fair_share(queues, N(queues), 2);
    assert_int_equal(queues[0].quota, 1);
    assert_int_equal(queues[1].quota, 1);
    assert_int_equal(queues[2].quota, 0);
    assert_int_equal(queues[3].quota, 0);
}

TEST(owners_get_equal_parts_however_many_queues_they_have)
{
    struct dt_fair_queue queues[] = {
        {1, .waiting = 90}, {2, .waiting = 90}, {1, .waiting = 90}, {1, .waiting = 90}, {1, .waiting = 10}};
    dt_fair_share(queues, N(queues), 120);
    assert_int_equal(queues[1].quota, 60);
    assert_int_equal(queues[0].quota, 17);
    assert_int_equal(queues[2].quota, 17);
    assert_int_equal(queues[3].quota, 16);
    assert_int_equal(queues[4].quota, 10);
    dt_fair_share(queues, N(queues), 240); /* what an owner does not need goes to the other */
    assert_int_equal(queues[1].quota, 90);
    assert_int_equal(sum(queues, N(queues)), 240);
}

TEST(with_more_queues_than_room_each_owner_gets_a_place_first)
{
    struct dt_fair_queue queues[] = {{1, .waiting = 9}, {1, .waiting = 9}, {1, .waiting = 9}, {2, .waiting = 9}};
    dt_fair_share(queues, N(queues), 2);
    assert_int_equal(queues[0].quota, 1);
    assert_int_equal(queues[3].quota, 1);
}

TEST(timeouts_get_a_quarter_if_other_queues_wait_and_otherwise_everything)
{
    struct dt_fair_queue queues[] = {{.waiting = 5000, .timeouts = true}, {.waiting = 5000}};
    dt_fair_share(queues, N(queues), 2000);
    assert_int_equal(queues[0].quota, 500);
    assert_int_equal(queues[1].quota, 1500);
    queues[1].waiting = 100;
    dt_fair_share(queues, N(queues), 2000);
    assert_int_equal(queues[0].quota, 1900);
    assert_int_equal(queues[1].quota, 100);
    dt_fair_share(queues, 1, 2000);
    assert_int_equal(queues[0].quota, 2000);
    for (size_t room = 2; room < 4; room++) { /* one of very few, so that the others get some, too */
        dt_fair_share(queues, N(queues), room);
        assert_int_equal(queues[0].quota, 1);
        assert_int_equal(queues[1].quota, room - 1);
    }
}

/* Whatever waits: nothing is lost, nobody gets more than waits, no two differ by more than one while both want more. */
TEST(any_mixture_is_shared_completely_and_evenly)
{
    uint32_t x = 12345;
    for (int round = 0; round < 2000; round++) {
        struct dt_fair_queue queues[9];
        size_t waits = 0, least = SIZE_MAX, most = 0, room = (x = x * 1664525u + 1013904223u) >> 22;
        for (size_t i = 0; i < N(queues); i++) {
            queues[i] = (struct dt_fair_queue){.waiting = (x = x * 1664525u + 1013904223u) >> (22 + i)};
            waits += queues[i].waiting;
        }
        dt_fair_share(queues, N(queues), room);
        assert_int_equal(sum(queues, N(queues)), waits < room ? waits : room);
        for (size_t i = 0; i < N(queues); i++) {
            assert_true(queues[i].quota <= queues[i].waiting);
            most = queues[i].quota > most ? queues[i].quota : most;
            if (queues[i].quota < queues[i].waiting)
                least = queues[i].quota < least ? queues[i].quota : least;
        }
        assert_true(least == SIZE_MAX || most - least <= 1);
    }
}

/* ---- turns ---- */

TEST(every_owner_has_a_turn_before_any_has_a_second)
{
    static struct dt_turns turns;
    struct dt_turn v[] = {{1, 10, .at = 0}, {1, 11, .at = 1}, {1, 12, .at = 2}, {2, 20, .at = 3}};
    turns = (struct dt_turns){0};
    dt_turns_sort(&turns, v, N(v));
    static const size_t never[] = {0, 3, 1, 2};
    for (size_t i = 0; i < N(v); i++)
        assert_int_equal(v[i].at, never[i]);
    dt_turns_note(&turns, 1, 10);
    dt_turns_sort(&turns, v, N(v));
    static const size_t one_had[] = {3, 1, 2, 0};
    for (size_t i = 0; i < N(v); i++)
        assert_int_equal(v[i].at, one_had[i]);
    dt_turns_sort(&turns, v, 0);
}

/* `most` go in a round; owners come and go. Returns the longest wait of a thing that is there all the time. */
static size_t longest_wait(size_t owners, size_t things, size_t most)
{
    static struct dt_turns turns;
    static struct dt_turn v[400];
    static size_t waits[400];
    size_t longest = 0;
    turns = (struct dt_turns){0};
    memset(waits, 0, sizeof(waits));
    for (size_t round = 0; round < 4 * owners * things; round++, turns.round++) {
        size_t n = 0;
        for (size_t i = 0; i < owners * things; i++)
            v[n++] = (struct dt_turn){(int64_t)(1 + i % owners), (int64_t)(1000 + i), .at = i};
        if (round % 2) {
            v[n] = (struct dt_turn){(int64_t)(500 + round), (int64_t)round, .at = n};
            n++;
        }
        dt_turns_sort(&turns, v, n);
        for (size_t i = 0; i < n; i++) {
            const bool goes = i < most;
            if (goes)
                dt_turns_note(&turns, v[i].owner, v[i].thing);
            if (v[i].thing < 1000)
                continue;
            size_t *wait = &waits[v[i].thing - 1000];
            *wait = goes ? 0 : *wait + 1;
            longest = *wait > longest ? *wait : longest;
        }
    }
    return longest;
}

TEST(no_queue_waits_longer_than_one_cycle_of_all_queues)
{
    static const size_t cases[][3] = {{1, 9, 1},   {2, 2, 1},    {3, 5, 2}, {6, 4, 1},
                                      {8, 20, 16}, {12, 25, 16}, {32, 1, 1}};
    for (size_t i = 0; i < N(cases); i++) {
        const size_t all = cases[i][0] * cases[i][1];
        assert_in_range(longest_wait(cases[i][0], cases[i][1], cases[i][2]), 0, 2 * (all / cases[i][2] + cases[i][1]));
    }
}

/* ---- places ---- */

static size_t take_all(struct dt_shares *shares, int64_t owner, int64_t now_us)
{
    size_t n = 0;
    while (dt_shares_take(shares, owner, 1, now_us))
        n++;
    return n;
}

TEST(a_single_owner_leaves_an_eighth_free)
{
    struct dt_shares shares = {.total = 80, .part = 2};
    assert_int_equal(take_all(&shares, 1, 0), 70);
    assert_int_equal(take_all(&shares, 2, 1), 5); /* half of what the other left */
    assert_int_equal(take_all(&shares, 3, 1), 2);
    assert_int_equal(take_all(&shares, 4, 1), 1);
    for (int i = 0; i < 40; i++)
        dt_shares_give_back(&shares, 1, 1);
    assert_int_equal(take_all(&shares, 1, 2), 6); /* 36 is half of the 72 that are not the others' */
    dt_shares_clear(&shares);
}

TEST(a_share_stays_reduced_for_a_while_after_another_owner_asked)
{
    struct dt_shares shares = {.total = 8, .part = 2};
    assert_true(dt_shares_take(&shares, 2, 1, 0));
    dt_shares_give_back(&shares, 2, 1);
    assert_int_equal(take_all(&shares, 1, DT_SHARES_ASKED_US), 4);
    assert_int_equal(take_all(&shares, 1, DT_SHARES_ASKED_US + 1000000), 3);
    dt_shares_clear(&shares);
}

TEST(the_smallest_room_has_a_place_for_one)
{
    struct dt_shares shares = {.total = 1, .part = 4};
    assert_int_equal(take_all(&shares, 1, 0), 1);
    assert_int_equal(take_all(&shares, 2, 0), 0);
    dt_shares_give_back(&shares, 2, 1); /* has none: nothing happens */
    dt_shares_give_back(&shares, 1, 1);
    assert_int_equal(take_all(&shares, 2, 0), 1);
    dt_shares_clear(&shares);
    shares = (struct dt_shares){.total = 0, .part = 2};
    assert_int_equal(take_all(&shares, 1, 0), 0);
    dt_shares_clear(&shares);
}

TEST(amounts_are_shared_by_the_same_rule_as_places)
{
    struct dt_shares bytes = {.total = 800, .part = 2};
    size_t most = 0;
    assert_true(dt_shares_take(&bytes, 1, 600, 0));
    assert_false(dt_shares_take(&bytes, 1, 101, 0));
    assert_true(dt_shares_take(&bytes, 1, 100, 0));
    assert_true(dt_shares_most(&bytes, 2, 1, &most));
    assert_int_equal(most, 50);                    /* half of what the other left */
    assert_true(dt_shares_take(&bytes, 2, 90, 1)); /* the first one may have what is free */
    assert_false(dt_shares_take(&bytes, 2, 1, 1));
    assert_false(dt_shares_take(&bytes, 3, 11, 1));
    dt_shares_give_back(&bytes, 1, 700);
    dt_shares_give_back(&bytes, 2, 90);
    assert_int_equal(bytes.used, 0);
    dt_shares_clear(&bytes);
}

TEST(an_amount_above_the_total_is_admitted_when_everything_is_free)
{
    struct dt_shares bytes = {.total = 10, .part = 2};
    size_t most = 1;
    assert_true(dt_shares_take(&bytes, 1, 50, 0));
    assert_true(dt_shares_most(&bytes, 2, 0, &most));
    assert_int_equal(most, 0);
    assert_false(dt_shares_take(&bytes, 2, 1, 0));
    dt_shares_give_back(&bytes, 1, 50);
    assert_true(dt_shares_take(&bytes, 2, 1, 0));
    assert_false(dt_shares_take(&bytes, 1, 50, 0));
    dt_shares_clear(&bytes);
}
