/* Rates: their text, and how many attempts they let begin. */

#include "support/suite.h"

#include "topic/limits.h"

#define NOW INT64_C(1795257000000)

static int64_t interval_of(const char *text)
{
    int64_t interval_ns = -1;
    return dt_rate_parse(dt_str(text), &interval_ns) ? interval_ns : 0;
}

TEST(a_rate_is_a_number_a_second_or_a_minute)
{
    assert_int_equal(interval_of("1/s"), 1000000000);
    assert_int_equal(interval_of("100/s"), 10000000);
    assert_int_equal(interval_of("600/m"), 100000000);
    assert_int_equal(interval_of("1/m"), INT64_C(60000000000));
    assert_int_equal(interval_of("9999999/s"), 101); /* rounded up: never more than was asked for */
    static const char *const bad[] = {"",     "5",    "/s", "0/s", "05/s",       "5/h",   "5/sec", "5 /s",
                                      "-5/s", "5/s ", "5/", "5s",  "10000000/s", "1e3/s", "5//s",  "5.5/s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(interval_of(bad[i]), 0);
    int64_t interval_ns;
    assert_false(dt_rate_parse(DT_STR_NONE, &interval_ns));
}

TEST(an_unused_rate_starts_with_nine_tenths_of_a_second)
{
    assert_int_equal(dt_rate_room(&(struct dt_rate){.interval_ns = interval_of("100/s")}, NOW), 90);
    assert_int_equal(dt_rate_room(&(struct dt_rate){.interval_ns = interval_of("10/s")}, NOW), 9);
    assert_int_equal(dt_rate_room(&(struct dt_rate){.interval_ns = interval_of("1/s")}, NOW), 1);
    assert_int_equal(dt_rate_room(&(struct dt_rate){.interval_ns = interval_of("1/m")}, NOW), 1);
}

TEST(a_used_up_rate_comes_back_one_by_one)
{
    struct dt_rate rate = {.interval_ns = interval_of("10/s")};
    dt_rate_take(&rate, NOW, 9);
    assert_int_equal(dt_rate_room(&rate, NOW), 0);
    assert_int_equal(dt_rate_opens_ms(&rate), NOW + 100);
    assert_int_equal(dt_rate_room(&rate, NOW + 99), 0);
    assert_int_equal(dt_rate_room(&rate, NOW + 100), 1);
    assert_int_equal(dt_rate_room(&rate, NOW + 350), 3);
    assert_int_equal(dt_rate_room(&rate, NOW + 60000), 9);
    dt_rate_take(&rate, NOW, 0);
    assert_int_equal(dt_rate_opens_ms(&rate), NOW + 100);
}

/* Whatever is asked when, the most in any ten seconds is 10 r + max(r, 1); with a backlog, nine tenths are used. */
static void drive(const char *text, double r, int64_t step_ms, int64_t jitter_ms)
{
    enum { MS = 60000 };
    static unsigned begun[MS + 1];
    struct dt_rate rate = {.interval_ns = interval_of(text)};
    uint64_t all = 0;
    memset(begun, 0, sizeof begun);
    for (int64_t ms = 0; ms < MS; ms += step_ms) {
        int64_t at = jitter_ms && ms > jitter_ms ? ms - rand() % jitter_ms : ms; /* clocks are not in step */
        size_t room = dt_rate_room(&rate, NOW + at);
        dt_rate_take(&rate, NOW + at, room);
        begun[at] += (unsigned)room;
        all += room;
    }
    double most = 10 * r + (r > 1 ? r : 1);
    uint64_t window = 0;
    for (int ms = 0; ms <= MS; ms++) {
        window += begun[ms];
        if (ms > 10000)
            window -= begun[ms - 10001];
        assert_true((double)window <= most);
    }
    assert_true((double)all >= 0.9 * r * (MS / 1000));
}

TEST(no_ten_seconds_have_more_than_the_rate_allows_and_most_of_it_is_used)
{
    static const struct {
        const char *text;
        double r;
    } rates[] = {{"100/s", 100}, {"600/m", 10},    {"1/s", 1},       {"7/m", 7 / 60.0},
                 {"90/m", 1.5},  {"5000/s", 5000}, {"1/m", 1 / 60.0}};
    srand(7);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        drive(rates[i].text, rates[i].r, 1, 0);
        drive(rates[i].text, rates[i].r, 50, 0);
        drive(rates[i].text, rates[i].r, 20, 40);
    }
}

TEST(a_changed_rate_keeps_the_used_part_of_the_burst)
{
    struct dt_rate rate = {.interval_ns = interval_of("1/m")};
    dt_rate_take(&rate, NOW, 1);
    struct dt_rate faster = {interval_of("100/s"), rate.next_ns};
    dt_rate_adopt(&faster, rate.interval_ns, NOW + 5);
    assert_int_equal(dt_rate_room(&faster, NOW + 5), 1);
    dt_rate_take(&faster, NOW + 5, 1);
    assert_int_equal(dt_rate_room(&faster, NOW + 5), 0);
    assert_int_equal(dt_rate_room(&faster, NOW + 15), 1);
    struct dt_rate same = rate;
    dt_rate_adopt(&same, rate.interval_ns, NOW + 5);
    assert_int_equal(same.next_ns, rate.next_ns);
}

/* How many attempts begin in so many seconds, if the rate changes in each of them. */
static size_t begun_while_changing(const char *one, const char *other, int seconds)
{
    struct dt_rate rate = {.interval_ns = interval_of(one)};
    size_t begun = 0;
    for (int s = 0; s < seconds; s++) {
        const int64_t was = rate.interval_ns, now = NOW + s * INT64_C(1000);
        rate.interval_ns = interval_of(s % 2 ? other : one);
        dt_rate_adopt(&rate, was, now);
        size_t room = dt_rate_room(&rate, now);
        dt_rate_take(&rate, now, room);
        begun += room;
    }
    return begun;
}

TEST(changes_of_a_rate_allow_no_extra_attempts)
{
    struct dt_rate rate = {.interval_ns = interval_of("2/m")};
    dt_rate_take(&rate, NOW, 1);
    struct dt_rate slower = {interval_of("1/m"), rate.next_ns};
    dt_rate_adopt(&slower, rate.interval_ns, NOW + 1000);
    assert_int_equal(dt_rate_room(&slower, NOW + 59999), 0);
    assert_int_equal(dt_rate_room(&slower, NOW + 60000), 1);
    rate = (struct dt_rate){.interval_ns = interval_of("100/s")};
    dt_rate_take(&rate, NOW, 90);
    slower.next_ns = rate.next_ns;
    dt_rate_adopt(&slower, rate.interval_ns, NOW); /* no more than an interval is owed */
    assert_int_equal(dt_rate_opens_ms(&slower), NOW + 60000);
    assert_in_range(begun_while_changing("1/m", "2/m", 120), 3, 5);
    assert_in_range(begun_while_changing("30/m", "29/m", 60), 15, 31);
    assert_true(begun_while_changing("5/s", "1/m", 60) <= 60 * 5);
}

TEST(a_clock_set_back_does_not_block_a_rate_for_long)
{
    struct dt_rate rate = {.interval_ns = interval_of("10/s")};
    dt_rate_take(&rate, NOW, 9);
    dt_rate_adopt(&rate, rate.interval_ns, NOW - 3600000);
    assert_int_equal(dt_rate_room(&rate, NOW - 3600000), 1);
    dt_rate_take(&rate, NOW - 3600000, 1);
    assert_int_equal(dt_rate_room(&rate, NOW - 3600000), 0);
    assert_int_equal(dt_rate_room(&rate, NOW - 3600000 + 100), 1);
}
