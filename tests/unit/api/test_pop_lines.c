/* Lines of waiting pops: which pop stands where, and whose line is served next. */

#include "support/suite.h"

#include "pull/pop_lines.h"

#define WISH(ttr, ...)                                                                                                 \
    (struct dt_pop_wish)                                                                                               \
    {                                                                                                                  \
        .topics = (const struct dt_str[]){__VA_ARGS__},                                                                \
        .n_topics = sizeof((const struct dt_str[]){__VA_ARGS__}) / sizeof(struct dt_str), .max = 1, .ttr_ms = (ttr)    \
    }
#define A        DT_STR_LIT("evil.a")
#define B        DT_STR_LIT("evil.b")
#define GOOD     DT_STR_LIT("good.a")
#define EVIL     1
#define STRANGER 2

static struct dt_pop_lines lines;
static struct dt_arena arena;

static struct dt_pop_waiter *stand(struct dt_pop_wish wish)
{
    int64_t owners[2];
    for (size_t i = 0; i < wish.n_topics; i++)
        owners[i] = dt_str_eq(wish.topics[i], GOOD) ? STRANGER : EVIL;
    struct dt_pop_waiter *waiter = dt_pop_waiter_new(&wish);
    assert_non_null(waiter);
    assert_true(dt_pop_lines_add(&lines, &wish, owners, waiter));
    return waiter;
}

static bool leave(struct dt_pop_waiter *waiter)
{
    const bool ready = dt_pop_lines_remove(&lines, waiter);
    free(waiter);
    return ready;
}

static void setup(void)
{
    lines = (struct dt_pop_lines){0};
}

static void teardown(void)
{
    while (lines.waiters)
        (void)leave(lines.waiters);
    assert_members(lines, (lines, NULL), (ready, NULL), (n, 0));
    dt_arena_clear(&arena);
}

#define FRESH_TEST(name) TEST_WITH(name, setup, teardown)

static bool is_next(int64_t now_us, struct dt_str topic)
{
    const struct dt_pop_line *line = dt_pop_lines_next_ready(&lines, now_us);
    return line && dt_str_eq(line->topic, topic);
}

FRESH_TEST(test_pops_of_a_topic_wait_in_one_line_in_order_of_arrival_whatever_else_they_request)
{
    struct dt_pop_waiter *first = stand(WISH(0, A));
    struct dt_pop_waiter *second = stand(WISH(7, B, A));
    struct dt_pop_waiter *third = stand(WISH(8, A));
    const struct dt_pop_line *line = first->places[0].line;
    assert_ptr_equal(line->first->waiter, first);
    assert_ptr_equal(line->first->next->waiter, second);
    assert_ptr_equal(line->first->next->next->waiter, third);
    assert_int_equal(lines.n, 3);
    leave(first);
    assert_ptr_equal(line->first->waiter, second);
    assert_true(dt_pop_lines_await(&lines, &WISH(1, A, B)));
    leave(second);
    assert_true(dt_pop_lines_await(&lines, &WISH(1, A)));
    assert_false(dt_pop_lines_await(&lines, &WISH(1, A, B)));
}

/* Each pop has another time to report and another list of topics: these are the caller's to choose. */
FRESH_TEST(test_an_offer_makes_one_line_ready_however_its_topic_is_waited_for)
{
    char names[100][16];
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof(names[i]), "evil.%d", i);
        stand(WISH(60000 + i, A, dt_str(names[i])));
    }
    dt_pop_lines_ready(&lines, A, 0);
    assert_true(is_next(0, A));
    assert_null(dt_pop_lines_next_ready(&lines, 0));
    dt_pop_lines_ready(&lines, DT_STR_LIT("not waited for"), 0);
    assert_null(dt_pop_lines_next_ready(&lines, 0));
}

FRESH_TEST(test_removing_the_last_pop_of_a_ready_line_reports_that_it_was_ready)
{
    struct dt_pop_waiter *first = stand(WISH(0, A));
    struct dt_pop_waiter *last = stand(WISH(0, A));
    dt_pop_lines_ready(&lines, A, 0);
    assert_false(leave(first));
    assert_true(leave(last));
    assert_false(leave(stand(WISH(0, A))));
}

FRESH_TEST(test_locked_rows_are_tried_again_less_and_less_often)
{
    const struct dt_popped locked = {.passed = true};
    const struct dt_popped some = {.n = 1, .passed = true};
    stand(WISH(0, A));
    for (int64_t pause_us = DT_POP_LATER_US; pause_us < 2 * DT_POP_STUCK_US; pause_us *= 2) {
        assert_true(dt_pop_lines_claimed(&lines, A, DT_OK, &locked, 0));
        assert_int_equal(dt_pop_lines_next_us(&lines), dt_earlier(pause_us, DT_POP_STUCK_US));
        assert_true(is_next(DT_POP_STUCK_US, A));
    }
    assert_true(dt_pop_lines_claimed(&lines, A, DT_OK, &some, 0));
    assert_int_equal(dt_pop_lines_next_us(&lines), DT_POP_LATER_US);
}

FRESH_TEST(test_an_owner_with_many_ready_lines_gets_as_many_turns_as_an_owner_with_one)
{
    char names[200][16];
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "evil.%d", i);
        stand(WISH(0, dt_str(names[i])));
        dt_pop_lines_ready(&lines, dt_str(names[i]), 0);
    }
    stand(WISH(0, GOOD));
    dt_pop_lines_ready(&lines, GOOD, 0);
    assert_int_equal(dt_pop_lines_rotate(&lines, 0, &arena), 2);
    assert_true(is_next(0, DT_STR_LIT("evil.0")));
    assert_true(is_next(0, GOOD));
    for (int i = 1; i < 200; i++) { /* an owner's lines in the order in which they got ready; alone, several at once */
        assert_int_equal(dt_pop_lines_rotate(&lines, 0, &arena), 200 - i < 16 ? 200 - i : 16);
        assert_true(is_next(0, dt_str(names[i])));
    }
    assert_int_equal(dt_pop_lines_rotate(&lines, 0, &arena), 0);
}

FRESH_TEST(test_a_line_is_ready_again_unless_a_claim_left_nothing_and_no_offer_came_meanwhile)
{
    static const struct {
        dt_status status;
        struct dt_popped popped;
        int64_t from_us; /* INT64_MAX: it is not ready */
    } claims[] = {
        {DT_OK, {.n = 0}, INT64_MAX},
        {DT_OK, {.n = 1}, INT64_MAX},
        {DT_OK, {.n = 1, .more = true}, 0},
        {DT_OK, {.n = 0, .more = true}, 100 + DT_POP_LATER_US}, /* all came too late */
        {DT_OK, {.n = 0, .passed = true}, 100 + DT_POP_LATER_US},
        {DT_OK, {.n = 1, .passed = true}, 100 + DT_POP_LATER_US},
        {DT_OK, {.n = 1, .at_limit = true}, 100 + DT_POP_LATER_US},
        {DT_OK, {.refused = DT_STR_LIT("evil.a")}, 0},
        {DT_UNAVAILABLE, {.n = 1}, 100 + DT_POP_AGAIN_US},
    };
    stand(WISH(0, A));
    for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); i++) {
        dt_pop_lines_ready(&lines, A, 0);
        assert_true(is_next(100, A));
        const bool left = dt_pop_lines_claimed(&lines, A, claims[i].status, &claims[i].popped, 100);
        assert_int_equal(left, claims[i].from_us < INT64_MAX);
        assert_int_equal(dt_pop_lines_next_us(&lines), claims[i].from_us);
        if (left) {
            if (claims[i].from_us)
                assert_null(dt_pop_lines_next_ready(&lines, claims[i].from_us - 1));
            assert_true(is_next(claims[i].from_us, A));
        }
    }
    dt_pop_lines_ready(&lines, A, 0);
    assert_true(is_next(100, A));
    dt_pop_lines_ready(&lines, A, 0); /* an offer, while the claim is under way */
    assert_false(dt_pop_lines_claimed(&lines, A, DT_OK, &(struct dt_popped){.n = 0}, 100));
    assert_true(is_next(100, A));
    dt_pop_lines_ready(&lines, A, 700);
    dt_pop_lines_ready(&lines, A, 0); /* an offer comes before the time for which a claim was put off */
    assert_true(is_next(100, A));
}

FRESH_TEST(test_a_line_that_ends_while_it_is_ready_is_not_served)
{
    struct dt_pop_waiter *both = stand(WISH(0, A, B));
    stand(WISH(0, B));
    dt_pop_lines_ready(&lines, A, 0);
    dt_pop_lines_ready(&lines, B, 0);
    leave(both);
    assert_true(is_next(0, B));
    assert_null(dt_pop_lines_next_ready(&lines, 0));
}
