/* Lines of waiting pops: who stands where, and whose line is ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "pull/pop_lines.h"

#define WISH(ttr, ...)                                                                                                 \
    (struct dt_pop_wish)                                                                                               \
    {                                                                                                                  \
        .topics = (const struct dt_str[]){__VA_ARGS__},                                                                \
        .n_topics = sizeof((const struct dt_str[]){__VA_ARGS__}) / sizeof(struct dt_str), .ttr_ms = (ttr)              \
    }
#define A DT_STR_LIT("a")
#define B DT_STR_LIT("b")

static struct dt_pop_lines lines;

static void stand(struct dt_pop_wish wish, struct dt_pop_waiter *waiter)
{
    assert_true(dt_pop_lines_add(&lines, &wish, waiter));
}

static int setup(void **state)
{
    (void)state;
    dt_pop_lines_init(&lines);
    return 0;
}

static void those_who_want_the_same_stand_in_one_line_in_the_order_in_which_they_came(void **state)
{
    struct dt_pop_waiter first = {0};
    struct dt_pop_waiter second = {0};
    struct dt_pop_waiter other = {0};
    (void)state;
    stand(WISH(0, A), &first);
    stand(WISH(0, A), &second);
    stand(WISH(7, A), &other);
    assert_ptr_equal(first.line, second.line);
    assert_ptr_not_equal(first.line, other.line);
    assert_ptr_equal(first.line->first, &first);
    assert_ptr_equal(first.next, &second);
    assert_int_equal(lines.n, 3);
    assert_ptr_equal(dt_pop_lines_find(&lines, &WISH(7, A)), other.line);
    assert_null(dt_pop_lines_find(&lines, &WISH(0, A, B)));
    dt_pop_lines_remove(&lines, &first);
    assert_ptr_equal(second.line->first, &second);
    dt_pop_lines_remove(&lines, &second);
    assert_null(dt_pop_lines_find(&lines, &WISH(0, A)));
    dt_pop_lines_remove(&lines, &other);
    assert_null(lines.lines);
    assert_null(lines.topics);
}

static void an_offer_makes_the_lines_of_its_topic_ready_once_each_in_turn(void **state)
{
    struct dt_pop_waiter a = {0};
    struct dt_pop_waiter both = {0};
    struct dt_pop_waiter b = {0};
    (void)state;
    stand(WISH(0, A), &a);
    stand(WISH(0, A, B), &both);
    stand(WISH(0, B), &b);
    dt_pop_lines_offer(&lines, DT_STR_LIT("c"));
    assert_null(dt_pop_lines_next_ready(&lines));
    dt_pop_lines_offer(&lines, B);
    dt_pop_lines_offer(&lines, A);
    dt_pop_lines_offer(&lines, B);
    assert_ptr_equal(dt_pop_lines_next_ready(&lines), both.line);
    assert_ptr_equal(dt_pop_lines_next_ready(&lines), b.line);
    dt_pop_lines_ready(&lines, both.line);
    assert_ptr_equal(dt_pop_lines_next_ready(&lines), a.line);
    dt_pop_lines_remove(&lines, &both); /* it was ready, and goes with its last */
    assert_null(dt_pop_lines_next_ready(&lines));
    dt_pop_lines_offer(&lines, DT_STR_NONE);
    assert_non_null(dt_pop_lines_next_ready(&lines));
    assert_non_null(dt_pop_lines_next_ready(&lines));
    assert_null(dt_pop_lines_next_ready(&lines));
    dt_pop_lines_remove(&lines, &a);
    dt_pop_lines_remove(&lines, &b);
    assert_null(lines.topics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(those_who_want_the_same_stand_in_one_line_in_the_order_in_which_they_came, setup),
        cmocka_unit_test_setup(an_offer_makes_the_lines_of_its_topic_ready_once_each_in_turn, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
