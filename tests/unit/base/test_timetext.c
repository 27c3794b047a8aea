/* Durations and times as text: every form, bad input, rounding. */
#include <time.h>

#include "support/suite.h"

#include "base/text/timetext.h"

/* The text at the end of an allocation, without a terminator, so that the sanitizer sees who reads on. */
static char *held;

static struct dt_str hold(const char *text)
{
    size_t n = strlen(text);
    free(held);
    held = malloc(n ? n : 1);
    assert_non_null(held);
    memcpy(held, text, n);
    return (struct dt_str){held, n};
}

static void free_held(void)
{
    free(held);
}

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

TEST(good_durations_are_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"P3D", 3 * DAY},
        {"P1W", 7 * DAY},
        {"P1W2DT3H4M5S", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND},
        {"PT1M", MINUTE},
        {"PT15M", 15 * MINUTE},
        {"PT0S", 0},
        {"PT36H", 36 * HOUR},
        {"P0D", 0},
        {"PT0.5S", 500},
        {"PT0,5S", 500},
        {"PT1.5H", 90 * MINUTE},
        {"P0.5D", 12 * HOUR},
        {"P1DT0.25M", DAY + 15 * SECOND},
        {"PT00001S", SECOND},
        {"15s", 15 * SECOND},
        {"3m", 3 * MINUTE},
        {"1h", HOUR},
        {"2d", 2 * DAY},
        {"0s", 0},
        {"007s", 7 * SECOND},
        {"0", 0},
        {"1500", 1500},
        {"1500.0", 1500},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"1.5e3", 1500},
        {"5e-1", 1},
        {"P36525D", DT_DURATION_MAX_MS},
        {"36525d", DT_DURATION_MAX_MS},
        {"3155760000000", DT_DURATION_MAX_MS},
        {"3155760000e3", DT_DURATION_MAX_MS},
        {"PT0.000000000000000000S", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        if (dt_duration_parse(hold(cases[i].text), &ms) || ms != cases[i].ms)
            fail_msg("%s gives %lld", cases[i].text, (long long)ms);
    }
}

TEST(durations_finer_than_a_millisecond_round_up)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"PT0.001S", 1},
        {"PT0.0001S", 1},
        {"PT0.0010S", 1},
        {"PT0.0011S", 2},
        {"PT0.000000000000000001S", 1},
        {"PT0.0000000000000000000001S", 1},
        {"PT0.0010000000000000000000000S", 1},
        {"PT0.00100000000000000000000001S", 2},
        {"PT1.9999S", 2000},
        {"PT0.00001M", 1},
        {"PT0.999999999999999999999M", 60000},
        {"0.1", 1},
        {"1499.0001", 1500},
        {"1.1e0", 2},
        {"1.00000000000000000000001e3", 1001},
        {"1e-400", 1},
        {"10000000000000000001e-16", 1001},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        if (dt_duration_parse(hold(cases[i].text), &ms) || ms != cases[i].ms)
            fail_msg("%s gives %lld", cases[i].text, (long long)ms);
    }
}

TEST(a_number_is_read_exactly_whatever_its_exponent)
{
    static const struct {
        const char *text;
        int exponent;
        int64_t ms;
    } cases[] = {
        {"1.1", 3, 1100},
        {"1.0000000000000000000000000000000000000000000000000000000000000000000000000000001", 3, 1001},
        {"1000.00000000000000000000000000000000000000000000000000000000000000000000000000000", 0, 1000},
        {"0.0000000001", 3, 1},
        {"3155760000", 3, DT_DURATION_MAX_MS},
        {"31557600000000e-1", 0, DT_DURATION_MAX_MS},
        {"0.000003155760e+18", 0, DT_DURATION_MAX_MS},
        {"0e999999999999", 3, 0},
        {"-0.0", 0, 0},
    };
    static const char *const bad[] = {
        "", "-", "-0.1", "1.", ".5", "1e", "1e+", "3155760000000.1", "1e13", "1e99999999999", "1x"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        if (dt_number_parse_ms(hold(cases[i].text), cases[i].exponent, &ms) || ms != cases[i].ms)
            fail_msg("%s gives %lld", cases[i].text, (long long)ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = -7;
        if (dt_number_parse_ms(hold(bad[i]), 0, &ms) != DT_INVALID || ms != -7)
            fail_msg("\"%s\" is accepted: %lld", bad[i], (long long)ms);
    }
}

TEST(bad_durations_are_refused_and_do_not_change_the_output)
{
    static const char *const cases[] = {
        "",
        "P",
        "PT",
        "P1DT",
        "T1H",
        "-5",
        "+5",
        "-PT5M",
        "P-1D",
        "P1Y",
        "P1M",
        "P1Y2M",
        "PT1D",
        "P1H",
        "P1S",
        "PT1H2H",
        "PT1M1H",
        "PT1S1M",
        "P1D1W",
        "PT0.5H1M",
        "P0.5WT1S",
        "PT.5S",
        "PT5.S",
        "PT5",
        "P5",
        "p1d",
        "pt1m",
        "PT1m",
        "PT1S ",
        " PT1S",
        "PT 1S",
        "PT1SX",
        "15 s",
        "15S",
        "15sec",
        "1.5s",
        "1w",
        "1y",
        "s",
        "ms",
        "15ms",
        "abc",
        "1,5",
        "1e",
        "1e+",
        "e3",
        "1.e3",
        ".5",
        "5.",
        "0x10",
        "1_000",
        "Infinity",
        "NaN",
        "1e400",
        "P36526D",
        "36526d",
        "3155760000001",
        "P99999999999999999999D",
        "PT99999999999999999999S",
        "99999999999999999999999999",
        "PT1H1",
        "PTT1H",
        "P1DTT1H",
        "P1D T1H",
        "1e3s",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -7;
        dt_status status = dt_duration_parse(hold(cases[i]), &ms);
        if (status != DT_INVALID || ms != -7)
            fail_msg("\"%s\" is accepted: %lld", cases[i], (long long)ms);
    }
    assert_int_equal(dt_duration_parse((struct dt_str){"15s\0", 4}, &(int64_t){0}), DT_INVALID);
    assert_int_equal(dt_duration_parse(DT_STR_NONE, &(int64_t){0}), DT_INVALID);
}

TEST(a_slice_is_read_to_its_end_only)
{
    int64_t ms;
    assert_int_equal(dt_duration_parse((struct dt_str){"15s3", 3}, &ms), DT_OK);
    assert_int_equal(ms, 15 * SECOND);
    assert_int_equal(dt_duration_parse((struct dt_str){"1234e5", 4}, &ms), DT_OK);
    assert_int_equal(ms, 1234);
    assert_int_equal(dt_duration_parse((struct dt_str){"P1DT2H", 3}, &ms), DT_OK);
    assert_int_equal(ms, DAY);
}

static void assert_written(void (*add)(struct dt_strbuf *, int64_t), int64_t ms, const char *want)
{
    STRBUF(sb);
    add(&sb, ms);
    assert_string_equal(sb.p, want);
}

TEST(durations_are_written_in_their_usual_iso_form)
{
    assert_written(dt_duration_add_iso, 0, "PT0S");
    assert_written(dt_duration_add_iso, -5, "PT0S");
    assert_written(dt_duration_add_iso, 1, "PT0.001S");
    assert_written(dt_duration_add_iso, 500, "PT0.5S");
    assert_written(dt_duration_add_iso, 1050, "PT1.05S");
    assert_written(dt_duration_add_iso, MINUTE, "PT1M");
    assert_written(dt_duration_add_iso, 90 * SECOND, "PT1M30S");
    assert_written(dt_duration_add_iso, 3 * DAY, "P3D");
    assert_written(dt_duration_add_iso, 7 * DAY, "P7D");
    assert_written(dt_duration_add_iso, DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5, "P1DT2H3M4.005S");
    assert_written(dt_duration_add_iso, DT_DURATION_MAX_MS, "P36525D");
}

TEST(durations_are_written_short_in_the_largest_unit_that_divides_them)
{
    assert_written(dt_duration_add_short, 0, "0s");
    assert_written(dt_duration_add_short, 15 * SECOND, "15s");
    assert_written(dt_duration_add_short, 90 * SECOND, "90s");
    assert_written(dt_duration_add_short, 3 * MINUTE, "3m");
    assert_written(dt_duration_add_short, 60 * MINUTE, "1h");
    assert_written(dt_duration_add_short, 24 * HOUR, "1d");
    assert_written(dt_duration_add_short, 25 * HOUR, "25h");
    assert_written(dt_duration_add_short, 1500, "1500ms");
    assert_written(dt_duration_add_short, 1, "1ms");
}

TEST(a_duration_written_as_iso_is_read_as_the_same)
{
    STRBUF(sb);
    for (int64_t ms = 1; ms < DT_DURATION_MAX_MS; ms = ms * 3 + 7) {
        int64_t back = -1;
        dt_strbuf_reset(&sb);
        dt_duration_add_iso(&sb, ms);
        assert_int_equal(dt_duration_parse(dt_strbuf_str(&sb), &back), DT_OK);
        assert_int_equal(back, ms);
    }
}

TEST(good_times_are_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2025-01-01T00:00:00Z", INT64_C(1735689600000)},
        {"2026-11-21T10:30:00.123+02:00", INT64_C(1795249800123)},
        {"2026-11-21t08:30:00.123z", INT64_C(1795249800123)},
        {"2026-11-21T08:30:00.123-00:00", INT64_C(1795249800123)},
        {"2026-11-20T09:30:00.123-23:00", INT64_C(1795249800123)},
        {"2026-11-21T14:00:00.123+05:30", INT64_C(1795249800123)},
        {"2026-11-21T04:31:00.123-03:59", INT64_C(1795249800123)},
        {"2024-02-29T12:00:00Z", INT64_C(1709208000000)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
        {"2017-01-01T00:59:60+01:00", INT64_C(1483228800000)},
        {"2016-12-31T23:59:60.5Z", INT64_C(1483228800500)},
        {"0000-01-01T00:00:00Z", INT64_C(-62167219200000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"2038-01-19T03:14:08Z", INT64_C(2147483648000)},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -7;
        if (dt_time_parse(hold(cases[i].text), &ms) || ms != cases[i].ms)
            fail_msg("%s gives %lld", cases[i].text, (long long)ms);
    }
}

TEST(a_time_finer_than_a_millisecond_rounds_up)
{
    int64_t ms;
    assert_int_equal(dt_time_parse(DT_STR_LIT("1970-01-01T00:00:00.0001Z"), &ms), DT_OK);
    assert_int_equal(ms, 1);
    assert_int_equal(dt_time_parse(DT_STR_LIT("1970-01-01T00:00:00.001000000000000000000000Z"), &ms), DT_OK);
    assert_int_equal(ms, 1);
    assert_int_equal(dt_time_parse(DT_STR_LIT("1970-01-01T00:00:00.0010000000000000000000001Z"), &ms), DT_OK);
    assert_int_equal(ms, 2);
    assert_int_equal(dt_time_parse(DT_STR_LIT("1970-01-01T00:00:59.9999Z"), &ms), DT_OK);
    assert_int_equal(ms, 60000);
    assert_int_equal(dt_time_parse(DT_STR_LIT("1969-12-31T23:59:59.9999Z"), &ms), DT_OK);
    assert_int_equal(ms, 0);
}

TEST(bad_times_are_refused_and_do_not_change_the_output)
{
    static const char *const cases[] = {
        "",
        "2026",
        "2026-11-21",
        "2026-11-21T10:30:00",
        "2026-11-21T10:30Z",
        "2026-11-21 10:30:00Z",
        "2026-11-21T10:30:00 Z",
        "2026-11-21T10:30:00.Z",
        "2026-11-21T10:30:00,5Z",
        "2026-11-21T10:30:00+0200",
        "2026-11-21T10:30:00+02",
        "2026-11-21T10:30:0002:00",
        "2026-11-21T10:30:00+2:00",
        "2026-11-21T10:30:00+24:00",
        "2026-11-21T10:30:00+02:60",
        "2026-11-21T10:30:00ZZ",
        "2026-11-21T10:30:00Z ",
        " 2026-11-21T10:30:00Z",
        "2026-13-21T10:30:00Z",
        "2026-00-21T10:30:00Z",
        "2026-11-31T10:30:00Z",
        "2026-11-00T10:30:00Z",
        "2026-02-29T10:30:00Z",
        "2100-02-29T10:30:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T10:60:00Z",
        "2026-11-21T10:30:61Z",
        "2026-11-21T10:30:60Z",
        "2026-11-21T23:59:60+01:00",
        "26-11-21T10:30:00Z",
        "+2026-11-21T10:30:00Z",
        "-026-11-21T10:30:00Z",
        "12026-11-21T10:30:00Z",
        "2026-1-21T10:30:00Z",
        "2026-11-21T1:30:00Z",
        "2026/11/21T10:30:00Z",
        "20261121T103000Z",
        "1795249800123",
        "now",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -7;
        if (dt_time_parse(hold(cases[i]), &ms) != DT_INVALID || ms != -7)
            fail_msg("\"%s\" is accepted: %lld", cases[i], (long long)ms);
    }
    assert_int_equal(dt_time_parse(DT_STR_NONE, &(int64_t){0}), DT_INVALID);
}

/* The C library is the judge, over 8,000 years in steps that meet every hour and month. */
TEST(times_are_written_as_the_c_library_writes_them)
{
    for (int64_t s = INT64_C(-62167219200); s < INT64_C(253402300800); s += 86400 * 17 + 3607) {
        time_t t = (time_t)s;
        struct tm tm;
        char want[80], got[25];
        int64_t back;
        assert_non_null(gmtime_r(&t, &tm));
        snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.007Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
        dt_time_format(s * 1000 + 7, got);
        assert_string_equal(got, want);
        assert_int_equal(dt_time_parse(dt_str(got), &back), DT_OK);
        assert_int_equal(back, s * 1000 + 7);
    }
}

TEST(every_day_of_four_centuries_follows_the_one_before)
{
    char last[25] = "", now[25];
    for (int64_t day = -80000; day < 70000; day++) {
        dt_time_format(day * DAY, now);
        assert_true(strcmp(last, now) < 0);
        memcpy(last, now, sizeof last);
    }
}

TEST(times_out_of_range_are_written_as_the_nearest)
{
    char text[25];
    dt_time_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    dt_time_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000Z");
}

SUITE(NULL, free_held)
