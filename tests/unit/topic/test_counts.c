/* What one transaction changes of the counters, gathered: however many topics and pieces it touches, in whatever order.
 */
#include "topic/counts.h"

#include "support/suite.h"

#define DAY    (INT64_C(1) << DT_SEQUENCE_BITS)
#define TOPICS 100
#define ROUNDS 7

static struct dt_str topic(int i)
{
    static char names[TOPICS][16];
    snprintf(names[i], sizeof names[i], "t%03d", i);
    return dt_str(names[i]);
}

static int64_t sum_of(const struct dt_counts *counts, int number)
{
    int64_t sum = 0;
    for (size_t i = 0; i < counts->n; i++)
        sum += counts->v[i].n[number];
    return sum;
}

TEST(alternating_topics_are_each_counted_however_many_they_are)
{
    static const int some[] = {1, 2, 31, 32, 33, 63, 64, 65, TOPICS};
    for (size_t s = 0; s < sizeof some / sizeof *some; s++) {
        struct dt_counts counts;
        dt_counts_init(&counts);
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < some[s]; i++) {
                dt_counts_make(&counts, topic(i), 1);
                if (i % 3 == 0)
                    dt_counts_move(&counts, topic(i), 1, DT_SCHEDULED, DT_CANCELLED);
            }
        dt_counts_merge(&counts);
        assert_members(counts, (failed, false), (n, some[s]));
        for (int i = 0; i < some[s]; i++) {
            const struct dt_count *c = &counts.v[i]; /* in the order of topics */
            assert_true(dt_str_eq(c->topic, topic(i)));
            assert_int_equal(c->piece, 0);
            assert_int_equal(c->n[DT_COUNT_CREATED], ROUNDS);
            assert_int_equal(c->n[DT_SCHEDULED], i % 3 ? ROUNDS : 0);
            assert_int_equal(c->n[DT_CANCELLED], i % 3 ? 0 : ROUNDS);
        }
        dt_counts_clear(&counts);
    }
}

TEST(alternating_days_are_counted_by_their_piece)
{
    struct dt_counts counts;
    dt_counts_init(&counts);
    for (int64_t day = 0; day < 3 * DT_COUNT_PIECES; day++)
        for (int i = 0; i < 2; i++)
            dt_counts_add(&counts, topic(i), dt_count_piece(day * DAY + 1 + i), DT_DEAD, 1);
    dt_counts_merge(&counts);
    assert_int_equal(counts.n, 2 * DT_COUNT_PIECES);
    for (size_t i = 0; i < counts.n; i++) {
        assert_true(dt_str_eq(counts.v[i].topic, topic((int)i / DT_COUNT_PIECES)));
        assert_int_equal(counts.v[i].piece, i % DT_COUNT_PIECES);
        assert_int_equal(counts.v[i].n[DT_DEAD], 3);
    }
    dt_counts_clear(&counts);
}

TEST(counting_continues_after_a_merge)
{
    struct dt_counts counts;
    dt_counts_init(&counts);
    for (int i = 9; i >= 0; i--) { /* merging puts them into another order */
        dt_counts_make(&counts, topic(i), 1);
        dt_counts_merge(&counts);
        dt_counts_make(&counts, topic(i), 1);
    }
    dt_counts_merge(&counts);
    assert_int_equal(counts.n, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(counts.v[i].n[DT_COUNT_CREATED], 2);
    dt_counts_clear(&counts);
}

TEST(changes_that_cancel_out_are_not_written)
{
    struct dt_counts counts;
    dt_counts_init(&counts);
    dt_counts_add(&counts, topic(1), dt_count_piece(1), DT_DEAD, 1);
    dt_counts_move(&counts, topic(2), 1, DT_DEAD, DT_DEAD);
    dt_counts_move(&counts, topic(3), 1, DT_SCHEDULED, DT_DISPATCHED);
    dt_counts_add(&counts, topic(1), dt_count_piece(1), DT_DEAD, -1);
    dt_counts_merge(&counts);
    assert_int_equal(counts.n, 1);
    assert_true(dt_str_eq(counts.v[0].topic, topic(3)));
    assert_int_equal(counts.v[0].n[DT_SCHEDULED], -1);
    assert_int_equal(counts.v[0].n[DT_DISPATCHED], 1);
    dt_counts_clear(&counts);
}

TEST(a_change_of_any_one_number_is_written)
{
    for (int number = 0; number < DT_COUNT_NUMBERS; number++)
        for (int64_t n = -1; n <= 1; n++) {
            struct dt_counts counts;
            dt_counts_init(&counts);
            dt_counts_add(&counts, topic(1), 5, number, n);
            dt_counts_merge(&counts);
            assert_int_equal(counts.n, n ? 1 : 0);
            dt_counts_clear(&counts);
        }
}

TEST(topics_with_a_common_prefix_are_distinct)
{
    struct dt_counts counts;
    dt_counts_init(&counts);
    static const char *const names[] = {"ab", "a", "abc", "b", "a", "ab"};
    for (size_t i = 0; i < 6; i++)
        dt_counts_make(&counts, dt_str(names[i]), 1);
    dt_counts_merge(&counts);
    assert_int_equal(counts.n, 4);
    assert_int_equal(sum_of(&counts, DT_COUNT_CREATED), 6);
    assert_true(dt_str_is(counts.v[0].topic, "a") && counts.v[0].n[DT_COUNT_CREATED] == 2);
    assert_true(dt_str_is(counts.v[1].topic, "ab") && counts.v[1].n[DT_COUNT_CREATED] == 2);
    assert_true(dt_str_is(counts.v[2].topic, "abc") && dt_str_is(counts.v[3].topic, "b"));
    dt_counts_clear(&counts);
}
