/* Names of states, rules for topic names, the home day in the id, the near end. */
#include "support/suite.h"

#include "base/text/timetext.h"
#include "job/job.h"

static int64_t at(const char *text)
{
    int64_t ms = 0;
    assert_int_equal(dt_time_parse(dt_str(text), &ms), DT_OK);
    return ms;
}

TEST(states_have_the_words_of_the_schema)
{
    static const char *const words[] = {"scheduled", "dispatched", "succeeded", "dead", "cancelled"};
    assert_int_equal(DT_JOB_STATES, 5);
    for (int i = 0; i < DT_JOB_STATES; i++) {
        enum dt_job_state parsed;
        assert_string_equal(dt_job_state_name((enum dt_job_state)i), words[i]);
        assert_true(dt_job_state_parse(dt_str(words[i]), &parsed));
        assert_int_equal(parsed, i);
        assert_int_equal(dt_job_state_terminal((enum dt_job_state)i), i >= 2);
    }
}

TEST(unknown_words_are_no_states)
{
    static const char *const words[] = {"", "Scheduled", "schedule", "scheduledx", "done"};
    enum dt_job_state parsed = DT_DEAD;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_false(dt_job_state_parse(dt_str(words[i]), &parsed));
    assert_false(dt_job_state_parse(DT_STR_NONE, &parsed));
    assert_int_equal(parsed, DT_DEAD);
    assert_string_equal(dt_job_state_name((enum dt_job_state)99), "unknown");
}

TEST(attempt_statuses_have_the_words_of_the_contract)
{
    static const char *const words[] = {"none",    "dispatched", "succeeded",     "failed", "timed_out",
                                        "snoozed", "gave_up",    "undeliverable", "lost"};
    assert_int_equal(DT_ATTEMPT_STATUSES, 9);
    for (int i = 0; i < DT_ATTEMPT_STATUSES; i++)
        assert_string_equal(dt_attempt_status_name((enum dt_attempt_status)i), words[i]);
    assert_string_equal(dt_attempt_status_name((enum dt_attempt_status) - 1), "unknown");
}

TEST(good_topics_are_accepted)
{
    static const char *const topics[] = {"a",  "azAZ09", "orders.close", "A-Z_0.9",   "...", ".a",
                                         "_a", "-",      "duetime",      "duetimes.x"};
    char longest[DT_TOPIC_MAX + 1];
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        assert_null(dt_topic_check(dt_str(topics[i]), DT_STR_LIT("duetime")));
    memset(longest, 'x', DT_TOPIC_MAX);
    assert_null(dt_topic_check((struct dt_str){longest, DT_TOPIC_MAX}, DT_STR_LIT("duetime")));
    assert_null(dt_topic_check(DT_STR_LIT(".x"), DT_STR_NONE));
}

TEST(bad_topics_are_refused_with_a_reason)
{
    static const char *const topics[] = {"",   ".",  "..",  "__x",      "__",        "a b",     "a/b",
                                         "\t", "a:", "a\n", "\xc3\xa9", "duetime.x", "duetime."};
    char longer[DT_TOPIC_MAX + 1];
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        assert_non_null(dt_topic_check(dt_str(topics[i]), DT_STR_LIT("duetime")));
    memset(longer, 'x', sizeof longer);
    assert_non_null(dt_topic_check((struct dt_str){longer, sizeof longer}, DT_STR_LIT("duetime")));
    assert_non_null(dt_topic_check((struct dt_str){"a\0b", 3}, DT_STR_LIT("duetime")));
    assert_non_null(dt_topic_check(DT_STR_NONE, DT_STR_LIT("duetime")));
}

TEST(the_id_carries_the_home_day)
{
    assert_int_equal(dt_job_id(at("2025-01-01T00:00:00Z"), 1), 1);
    assert_int_equal(dt_job_id(at("2025-01-01T23:59:59.999Z"), 1), 1);
    assert_int_equal(dt_job_id(at("2025-01-02T00:00:00Z"), 1), (INT64_C(1) << 40) + 1);
    assert_int_equal(dt_job_id(at("2026-11-21T10:30:00Z"), 42), (INT64_C(689) << 40) + 42);
    assert_int_equal(dt_job_id(at("2024-12-31T23:59:59Z"), 3), 3);
    assert_int_equal(dt_job_id(-1, 3), 3);
}

TEST(ids_are_positive_for_every_time)
{
    assert_true(dt_job_id(INT64_MAX, 1) > 0);
    assert_true(dt_job_id(at("9999-12-31T23:59:59Z"), (INT64_C(1) << 40) - 1) > 0);
    assert_int_equal(dt_job_id(0, (INT64_C(1) << 40) + 5), 5); /* a sequence never reaches into the day */
    assert_int_equal(dt_job_id(0, (INT64_C(1) << 39) + 5), 5); /* nor into the numbers that are left to others */
    assert_int_equal(dt_job_id(0, (INT64_C(1) << 39) - 1), (INT64_C(1) << 39) - 1);
}

TEST(a_slow_batch_may_use_a_twentieth_of_the_time_to_report)
{
    assert_int_equal(dt_ack_may_lose_ms(0), 100);
    assert_int_equal(dt_ack_may_lose_ms(INT64_MIN), 100);
    assert_int_equal(dt_ack_may_lose_ms(2000), 100);
    assert_int_equal(dt_ack_may_lose_ms(10000), 500);
    assert_int_equal(dt_ack_may_lose_ms(300000), 1000);
    assert_int_equal(dt_ack_may_lose_ms(INT64_MAX), 1000);
}

TEST(the_near_end_is_the_end_of_the_day_in_48_hours)
{
    assert_int_equal(dt_near_end_ms(at("2026-11-21T00:00:00Z")), at("2026-11-24T00:00:00Z"));
    assert_int_equal(dt_near_end_ms(at("2026-11-21T23:59:59.999Z")), at("2026-11-24T00:00:00Z"));
    assert_int_equal(dt_near_end_ms(at("2026-11-22T00:00:00Z")), at("2026-11-25T00:00:00Z"));
    assert_int_equal(dt_near_end_ms(at("1960-02-27T12:00:00Z")), at("1960-03-01T00:00:00Z"));
}
