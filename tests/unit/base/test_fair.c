/* Who goes next when more is due than fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/fair.h"

#define N(a) (sizeof(a) / sizeof *(a))

static size_t sum(const struct dt_fair_queue *queues, size_t n)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += queues[i].quota;
    return all;
}

static void what_fits_goes_all(void **state)
{
    struct dt_fair_queue queues[] = {{.waiting = 3}, {.waiting = 0}, {.waiting = 7}};
    (void)state;
    dt_fair_share(queues, N(queues), 10);
    assert_int_equal(queues[0].quota, 3);
    assert_int_equal(queues[1].quota, 0);
    assert_int_equal(queues[2].quota, 7);
}

static void a_queue_with_a_million_leaves_the_others_theirs(void **state)
{
    struct dt_fair_queue queues[] = {{.waiting = 1000000}, {.waiting = 5}, {.waiting = 40}};
    (void)state;
    dt_fair_share(queues, N(queues), 2000);
    assert_int_equal(queues[1].quota, 5);
    assert_int_equal(queues[2].quota, 40);
    assert_int_equal(queues[0].quota, 1955);
}

static void those_that_want_more_get_equal_parts_of_what_is_left(void **state)
{
    struct dt_fair_queue queues[] = {{.waiting = 900}, {.waiting = 10}, {.waiting = 1000}};
    (void)state;
    dt_fair_share(queues, N(queues), 1000);
    assert_int_equal(queues[0].quota, 495);
    assert_int_equal(queues[1].quota, 10);
    assert_int_equal(queues[2].quota, 495);
}

static void of_more_queues_than_room_the_longest_due_go(void **state)
{
    struct dt_fair_queue queues[] = {{.waiting = 9}, {.waiting = 9}, {.waiting = 9}, {.waiting = 9}};
    (void)state;
    dt_fair_share(queues, N(queues), 2);
    assert_int_equal(queues[0].quota, 1);
    assert_int_equal(queues[1].quota, 1);
    assert_int_equal(queues[2].quota, 0);
    assert_int_equal(queues[3].quota, 0);
}

static void timeouts_take_a_quarter_beside_others_and_all_without(void **state)
{
    struct dt_fair_queue queues[] = {{.waiting = 5000, .timeouts = true}, {.waiting = 5000}};
    (void)state;
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
static void any_mixture_is_shared_out_whole_and_evenly(void **state)
{
    uint32_t x = 12345;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_goes_all),
        cmocka_unit_test(a_queue_with_a_million_leaves_the_others_theirs),
        cmocka_unit_test(those_that_want_more_get_equal_parts_of_what_is_left),
        cmocka_unit_test(of_more_queues_than_room_the_longest_due_go),
        cmocka_unit_test(timeouts_take_a_quarter_beside_others_and_all_without),
        cmocka_unit_test(any_mixture_is_shared_out_whole_and_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
