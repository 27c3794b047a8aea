/* What a process counts in memory of what it committed, and what percentiles say of a histogram. */

#include "support/suite.h"

#include "features/figures/figures.h"
#include "topic/counts.h"

static struct dt_tally taken; /* too large for a stack */

static void add(const char *topic, enum dt_tallied what, int64_t n)
{
    int64_t numbers[DT_TALLIES] = {0};
    numbers[what] = n;
    dt_tally_add(dt_str(topic), numbers);
}

static int64_t number_of(const char *topic, enum dt_tallied what)
{
    for (size_t i = 0; i < taken.n; i++)
        if (dt_str_is((struct dt_str){taken.rows[i].topic, taken.rows[i].topic_n}, topic))
            return taken.rows[i].n[what];
    return -1;
}

TEST(a_tally_is_collected_once)
{
    dt_tally_take(&taken);
    add("a", DT_TALLY_CREATED, 2);
    add("b", DT_TALLY_FAILED, 1);
    add("a", DT_TALLY_CREATED, 3);
    assert_true(dt_tally_take(&taken));
    assert_int_equal(taken.n, 2);
    assert_int_equal(number_of("a", DT_TALLY_CREATED), 5);
    assert_int_equal(number_of("b", DT_TALLY_FAILED), 1);
    assert_int_equal(taken.all[DT_TALLY_CREATED], 5);
    assert_int_equal(taken.all[DT_TALLY_FAILED], 1);
    assert_false(dt_tally_take(&taken));
    assert_int_equal(taken.n, 0);
}

TEST(topics_beyond_the_capacity_are_tallied_only_in_the_sum)
{
    char name[16];
    dt_tally_take(&taken);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < DT_TALLY_TOPICS + 50; i++) {
            snprintf(name, sizeof(name), "t%d", i);
            add(name, DT_TALLY_DEAD, 1);
        }
    assert_true(dt_tally_take(&taken));
    assert_int_equal(taken.n, DT_TALLY_TOPICS);
    assert_int_equal(taken.all[DT_TALLY_DEAD], 2 * (DT_TALLY_TOPICS + 50));
    assert_int_equal(number_of("t0", DT_TALLY_DEAD), 2);
    assert_int_equal(number_of("t149", DT_TALLY_DEAD), -1);
    add("t149", DT_TALLY_DEAD, 1);
    assert_true(dt_tally_take(&taken));
    assert_int_equal(number_of("t149", DT_TALLY_DEAD), 1);
}

/* Claims and failed attempts of one topic may leave its counters as they were: both have happened nevertheless. */
TEST(events_that_cancel_each_other_out_in_the_counters_are_tallied_separately)
{
    struct dt_counts counts;
    dt_counts_init(&counts);
    dt_counts_move(&counts, dt_str("t"), 1, DT_SCHEDULED, DT_DISPATCHED);
    dt_counts_move(&counts, dt_str("t"), 2, DT_DISPATCHED, DT_SCHEDULED);
    dt_counts_fail(&counts, dt_str("t"), 2, 1);
    dt_counts_merge(&counts);
    assert_int_equal(counts.n, 1);
    assert_int_equal(counts.v[0].n[DT_SCHEDULED], 0);
    assert_int_equal(counts.v[0].happened[DT_TALLY_DISPATCHED], 1);
    assert_int_equal(counts.v[0].happened[DT_TALLY_FAILED], 1);
    dt_counts_clear(&counts);
}

/* Whoever has no connection has committed nothing. */
TEST(an_uncommitted_change_is_not_tallied)
{
    struct dt_counts counts;
    dt_tally_take(&taken);
    dt_counts_init(&counts);
    dt_counts_make(&counts, dt_str("t"), 1);
    assert_int_equal(dt_counts_commit(NULL, &counts, DT_UNAVAILABLE, NULL), DT_UNAVAILABLE);
    assert_false(dt_tally_take(&taken));
}

TEST(percentiles_are_within_their_bucket)
{
    const struct dt_lateness buckets[] = {{0, 10000, 50}, {0, 20000, 49}, {0, 600000000, 1}};
    assert_true(dt_lateness_ms(buckets, 0, 0.5) < 0);
    assert_float_equal(dt_lateness_ms(buckets, 3, 0.5), 10, 0.001);
    assert_float_equal(dt_lateness_ms(buckets, 3, 0.25), 5, 0.001);
    assert_float_equal(dt_lateness_ms(buckets, 3, 0.99), 20, 0.001);
    assert_true(dt_lateness_ms(buckets, 3, 0.995) > 20);
    assert_float_equal(dt_lateness_ms(buckets, 3, 1), 600000, 0.001);
}
