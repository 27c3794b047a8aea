/* The bytes that all requests may hold together. */
#include "support/suite.h"

#include "request/request.h"

#define THREADS 4
#define ROUNDS  20000

/* Two requests that share a budget of a hundred bytes. */
static struct dt_budget budget;
static struct dt_hold a, b;

static void start(void)
{
    dt_budget_init(&budget, 100);
    dt_hold_init(&a, &budget);
    dt_hold_init(&b, &budget);
}

#define BUDGET_TEST(name) TEST_WITH(name, start, NULL)

BUDGET_TEST(reserved_bytes_never_exceed_the_budget)
{
    assert_true(dt_hold_more(&a, 60));
    assert_true(dt_hold_more(&b, 40));
    assert_false(dt_hold_more(&a, 1));
    assert_false(dt_hold_more(&a, SIZE_MAX));
    assert_int_equal(a.n, 60);
    assert_int_equal(dt_budget_held(&budget), 100);
    dt_hold_less(&b, DT_HOLD_ALL);
    assert_true(dt_hold_more(&a, 40));
    dt_hold_less(&a, DT_HOLD_ALL);
    assert_int_equal(dt_budget_held(&budget), 0);
}

BUDGET_TEST(bulk_requests_leave_an_eighth_of_the_budget_to_others)
{
    struct dt_hold *bulk = &a, *small = &b;
    dt_budget_init(&budget, 80);
    assert_false(dt_hold_bulk(bulk, SIZE_MAX));
    assert_false(dt_hold_bulk(bulk, 71));
    assert_true(dt_hold_bulk(bulk, 70));
    assert_false(dt_hold_bulk(bulk, 1));
    assert_true(dt_hold_more(small, 8));
    assert_false(dt_hold_bulk(bulk, 1)); /* less is left than an eighth */
    assert_true(dt_hold_more(small, 2));
    dt_hold_less(bulk, 10);
    assert_true(dt_hold_more(small, 10)); /* what is not taken is anybody's */
    assert_false(dt_hold_bulk(bulk, 1));
    dt_hold_less(small, DT_HOLD_ALL);
    assert_true(dt_hold_bulk(bulk, 10));
    dt_hold_less(bulk, DT_HOLD_ALL);
    assert_int_equal(dt_budget_held(&budget), 0);
}

BUDGET_TEST(a_refusal_is_counted_and_charges_nothing)
{
    double before = dt_metric_value(budget.refused);
    assert_false(dt_hold_more(&a, 101));
    assert_true(dt_metric_value(budget.refused) == before + 1);
    assert_int_equal(a.n, 0);
    assert_int_equal(dt_budget_held(&budget), 0);
}

BUDGET_TEST(a_hold_releases_no_more_than_it_has)
{
    assert_true(dt_hold_more(&a, 10));
    assert_true(dt_hold_more(&b, 20));
    dt_hold_less(&a, 1000);
    assert_int_equal(dt_budget_held(&budget), 20);
    dt_hold_less(&a, DT_HOLD_ALL);
    dt_hold_less(&b, DT_HOLD_ALL);
    assert_int_equal(dt_budget_held(&budget), 0);
}

BUDGET_TEST(a_hold_can_be_raised_and_lowered)
{
    assert_true(dt_hold_exactly(&a, 70));
    assert_true(dt_hold_exactly(&a, 30));
    assert_int_equal(dt_budget_held(&budget), 30);
    assert_false(dt_hold_exactly(&a, 101));
    assert_int_equal(a.n, 30);
    assert_true(dt_hold_exactly(&a, 0));
    assert_int_equal(dt_budget_held(&budget), 0);
}

TEST(a_request_without_a_budget_may_hold_nothing)
{
    struct dt_request req = {0};
    assert_false(dt_hold_more(&req.hold, 1));
    dt_hold_less(&req.hold, 1);
}

static void *take_and_give(void *arg)
{
    struct dt_hold hold;
    dt_hold_init(&hold, arg);
    for (int i = 0; i < ROUNDS; i++) {
        bool got = dt_hold_more(&hold, 30);
        assert_true(dt_budget_held(arg) <= 100);
        if (got)
            dt_hold_less(&hold, 30);
    }
    dt_hold_less(&hold, DT_HOLD_ALL);
    return NULL;
}

BUDGET_TEST(bytes_moved_between_holds_stay_charged)
{
    assert_true(dt_hold_more(&a, 60));
    dt_hold_move(&a, &b, 50);
    assert_int_equal(a.n, 10);
    assert_int_equal(b.n, 50);
    dt_hold_move(&a, &b, 50);
    assert_int_equal(b.n, 60);
    dt_hold_less(&a, DT_HOLD_ALL);
    assert_int_equal(dt_budget_held(&budget), 60);
    dt_hold_less(&b, DT_HOLD_ALL);
    assert_int_equal(dt_budget_held(&budget), 0);
}

BUDGET_TEST(threads_share_a_budget_without_losing_a_byte)
{
    run_at_once(take_and_give, &budget, 0, THREADS);
    assert_int_equal(dt_budget_held(&budget), 0);
}
