/* Retry schedules as text. */
#include "support/suite.h"

#include "job/job.h"
#include "job/job_json.h"

static void assert_reads(const char *text, unsigned want_n, const int64_t *want)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n = 999;
    assert_int_equal(dt_retry_parse(dt_str(text), delays, &n), DT_OK);
    assert_int_equal(n, want_n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(delays[i], want[i]);
}

TEST(the_default_schedule_is_read)
{
    assert_reads(DT_RETRY_DEFAULT, 9,
                 (const int64_t[]){15000, 180000, 600000, 1800000, 1800000, 3600000, 7200000, 21600000, 54000000});
}

TEST(the_default_schedule_is_canonical)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n;
    STRBUF(sb);
    assert_int_equal(dt_retry_parse(DT_STR_LIT(DT_RETRY_DEFAULT), delays, &n), DT_OK);
    dt_retry_format(&sb, delays, n);
    assert_string_equal(sb.p, DT_RETRY_DEFAULT);
}

TEST(empty_and_absent_texts_are_no_retries)
{
    unsigned n = 5;
    assert_reads("", 0, NULL);
    assert_reads("  \t", 0, NULL);
    assert_int_equal(dt_retry_parse(DT_STR_NONE, (int64_t[DT_RETRY_MAX]){0}, &n), DT_OK);
    assert_int_equal(n, 0);
}

TEST(an_empty_schedule_is_written_as_nothing)
{
    STRBUF(sb);
    dt_retry_format(&sb, NULL, 0);
    assert_int_equal(sb.n, 0);
}

TEST(hand_edited_texts_are_read_in_every_duration_form)
{
    assert_reads("15s,3m", 2, (const int64_t[]){15000, 180000});
    assert_reads(" 15s ,\n PT3M,,1500ms  250 ", 4, (const int64_t[]){15000, 180000, 1500, 250});
    assert_reads("0s", 1, (const int64_t[]){0});
}

TEST(invalid_retry_texts_are_refused)
{
    static const char *const cases[] = {"15",  "15 s", "soon", "15s 3m oops", "[\"15s\"]", "15s;3m",
                                        "-5s", "ms",   "5sms", "36526d",      "1.5s"};
    for (size_t i = 1; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned n = 7;
        if (dt_retry_parse(dt_str(cases[i]), (int64_t[DT_RETRY_MAX]){0}, &n) != DT_INVALID || n != 0)
            fail_msg("\"%s\" is accepted", cases[i]);
    }
    assert_reads(cases[0], 1, (const int64_t[]){15});
}

TEST(at_most_a_hundred_delays_are_accepted)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n;
    STRBUF(sb);
    for (int i = 0; i < DT_RETRY_MAX; i++)
        dt_strbuf_adds(&sb, "1s ");
    assert_int_equal(dt_retry_parse(dt_strbuf_str(&sb), delays, &n), DT_OK);
    assert_int_equal(n, DT_RETRY_MAX);
    dt_strbuf_adds(&sb, "1s");
    assert_int_equal(dt_retry_parse(dt_strbuf_str(&sb), delays, &n), DT_INVALID);
}

TEST(the_longest_canonical_text_fits_its_column)
{
    int64_t delays[DT_RETRY_MAX];
    for (int i = 0; i < DT_RETRY_MAX; i++)
        delays[i] = DT_DURATION_MAX_MS - 1;
    STRBUF(sb);
    dt_retry_format(&sb, delays, DT_RETRY_MAX);
    assert_true(sb.n <= DT_RETRY_TEXT_MAX);
}

TEST(a_written_schedule_is_read_as_the_same)
{
    const int64_t delays[] = {0, 1, 999, 1000, 1001, 59999, 60000, 3600000, 86400000, 86400001, DT_DURATION_MAX_MS};
    STRBUF(sb);
    dt_retry_format(&sb, delays, sizeof delays / sizeof delays[0]);
    assert_reads(sb.p, sizeof delays / sizeof delays[0], delays);
}

TEST(a_schedule_is_shown_in_short_forms_that_can_be_read_back)
{
    static const struct {
        const char *stored, *shown;
    } rows[] = {
        {"", "[]"},
        {"15s", "[\"15s\"]"},
        {"15s 3m,1h, 2d", "[\"15s\",\"3m\",\"1h\",\"2d\"]"},
        {" , 250ms 1500ms 2000ms", "[\"PT0.25S\",\"PT1.5S\",\"2s\"]"},
        {"1.5s PT1M PT0.5S", "[\"1.5s\",\"1m\",\"PT0.5S\"]"},
        {"soon s 5x", "[\"soon\",\"s\",\"5x\"]"},
        {"\"", "[\"\\\"\"]"},
    };

    STRBUF(out);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dt_strbuf_reset(&out);
        dt_retry_put(&out, NULL, dt_str(rows[i].stored));
        assert_string_equal(out.p, rows[i].shown);
    }
}
