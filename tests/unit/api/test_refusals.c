/* What a token has had refused: what is free, how its batches rest, and that it is forgotten. */
#include "support/suite.h"

#include "request/quotas.h"

#define SECOND  INT64_C(1000000)
#define ELEMENT (SECOND / DT_REFUSED_RATE)
#define START   (1000 * SECOND)

TEST(a_burst_of_refusals_is_free_and_further_ones_cause_a_pause)
{
    struct dt_refusals refusals = {0};
    assert_int_equal(dt_refusals_add(&refusals, DT_REFUSED_BURST - 1, START), 0);
    assert_int_equal(dt_refusals_add(&refusals, 1, START), 0);
    assert_int_equal(dt_refusals_add(&refusals, 1, START), ELEMENT);
    assert_int_equal(dt_refusals_add(&refusals, 300, START), 301 * ELEMENT);
}

TEST(refusals_of_a_waiting_client_are_limited_to_the_rate)
{
    struct dt_refusals refusals = {0};
    int64_t now_us = START;
    int64_t refused = 0;
    while (now_us < START + 60 * SECOND) {
        now_us += dt_refusals_add(&refusals, 300, now_us);
        refused += 300;
    }
    assert_in_range(refused, 60 * DT_REFUSED_RATE, DT_REFUSED_BURST + 61 * DT_REFUSED_RATE);
}

TEST(a_pause_is_bounded_and_refusals_are_forgotten_within_seconds)
{
    struct dt_refusals refusals = {0};
    for (int i = 0; i < 100; i++)
        dt_refusals_add(&refusals, 100000, START);
    assert_int_equal(dt_refusals_add(&refusals, 1, START), DT_REFUSED_REST_US);
    assert_int_equal(dt_refusals_add(&refusals, 1, START + DT_REFUSED_REST_US), ELEMENT);
    int64_t paid_us = START + DT_REFUSED_REST_US + DT_REFUSED_BURST * ELEMENT + ELEMENT;
    assert_int_equal(dt_refusals_add(&refusals, DT_REFUSED_BURST, paid_us), 0);
    assert_int_equal(dt_refusals_add(&refusals, 1, paid_us), ELEMENT);
}
