/* Cron expressions as text, and the days that they name. */
#include "support/suite.h"

#include "base/text/timetext.h"
#include "features/schedules/cron.h"

#define FIRES 6

struct row {
    const char *cron, *after;
    const char *fires[FIRES];
};

static int64_t ms_of(const char *text)
{
    int64_t ms = 0;
    assert_int_equal(dt_time_parse(dt_str(text), &ms), DT_OK);
    return ms;
}

static int64_t day_ms(const char *day)
{
    char text[32];
    strcpy(text, day);
    return ms_of(strlen(day) == 10 ? strcat(text, "T00:00:00Z") : day);
}

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dt_error err = {0};
        struct dt_cron cron;
        char got[25];
        if (dt_cron_parse(dt_str(rows[i].cron), &cron, &err) != DT_OK)
            fail_msg("%s: %s", rows[i].cron, err.text);
        int64_t at_ms = day_ms(rows[i].after);
        for (int k = 0; k < FIRES && rows[i].fires[k]; k++) {
            at_ms = dt_cron_next_ms(&cron, NULL, at_ms);
            dt_time_format(at_ms, got);
            if (at_ms != day_ms(rows[i].fires[k]))
                fail_msg("%s: fire %d is %s, not %s", rows[i].cron, k, got, rows[i].fires[k]);
        }
    }
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void assert_refused(const char *text, const char *why)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    if (dt_cron_parse(dt_str(text), &cron, &err) != DT_INVALID)
        fail_msg("'%s' is taken", text);
    if (!strstr(err.text, why))
        fail_msg("'%s' is refused with '%s', not '%s'", text, err.text, why);
}

TEST(five_fields_begin_with_minutes_and_six_with_seconds)
{
    static const struct row rows[] = {
        {"5 4 * * *", "2026-11-25", {"2026-11-25T04:05:00Z", "2026-11-26T04:05:00Z"}},
        {"10 5 4 * * *", "2026-11-25", {"2026-11-25T04:05:10Z", "2026-11-26T04:05:10Z"}},
        {"  5\t 4 * *  * ", "2026-11-25", {"2026-11-25T04:05:00Z"}},
    };
    CHECK(rows);
}

TEST(lists_ranges_and_steps_are_understood)
{
    static const struct row rows[] = {
        {"0 8-10,17 * * *",
         "2026-11-25",
         {"2026-11-25T08:00:00Z", "2026-11-25T09:00:00Z", "2026-11-25T10:00:00Z", "2026-11-25T17:00:00Z"}},
        {"0 8-14/3 * * *",
         "2026-11-25",
         {"2026-11-25T08:00:00Z", "2026-11-25T11:00:00Z", "2026-11-25T14:00:00Z", "2026-11-26T08:00:00Z"}},
        {"40/10 0 * * *", "2026-11-25", {"2026-11-25T00:40:00Z", "2026-11-25T00:50:00Z", "2026-11-26T00:40:00Z"}},
        {"0 0 1 */5 *", "2026-01-02", {"2026-06-01", "2026-11-01", "2027-01-01"}},
        {"0 0 1 feb,nov-dec *", "2026-01-02", {"2026-02-01", "2026-11-01", "2026-12-01", "2027-02-01"}},
    };
    CHECK(rows);
}

TEST(weekdays_have_names_and_wrap_around)
{
    static const struct row rows[] = {
        {"0 0 * * MON-FRI", "2026-11-26", {"2026-11-27", "2026-11-30"}},
        {"0 0 * * FRI-MON", "2026-11-25", {"2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30", "2026-12-04"}},
        {"0 0 * * 5-7", "2026-11-25", {"2026-11-27", "2026-11-28", "2026-11-29", "2026-12-04"}},
        {"0 0 * * 0", "2026-11-25", {"2026-11-29", "2026-12-06"}},
        {"0 0 * * 7", "2026-11-25", {"2026-11-29", "2026-12-06"}},
        {"0 0 * * 7-2", "2026-11-25", {"2026-11-29", "2026-11-30", "2026-12-01", "2026-12-06"}},
        {"0 0 * * 3/2", "2026-11-25", {"2026-11-27", "2026-12-02"}},
        {"0 0 ? * wed", "2026-11-25", {"2026-12-02"}},
        {"0 0 * * FRI-MON/2", "2026-11-25", {"2026-11-27", "2026-11-29", "2026-12-04"}},
    };
    CHECK(rows);
}

TEST(if_both_day_fields_are_restricted_either_may_match)
{
    static const struct row rows[] = {
        {"0 0 13 * FRI", "2026-11-01", {"2026-11-06", "2026-11-13", "2026-11-20", "2026-11-27", "2026-12-04"}},
        {"0 0 13 * *", "2026-11-01", {"2026-11-13", "2026-12-13"}},
        {"0 0 */2 * MON", "2026-11-01", {"2026-11-09", "2026-11-23", "2026-12-07"}},
        {"0 0 13 * */2", "2026-08-01", {"2026-08-13", "2026-09-13", "2026-10-13", "2026-12-13"}},
        {"0 0 L * 1#1", "2026-11-01", {"2026-11-02", "2026-11-30", "2026-12-07", "2026-12-31"}},
    };
    CHECK(rows);
}

TEST(last_and_nearest_days_are_found)
{
    static const struct row rows[] = {
        {"0 0 L * *", "2026-01-31", {"2026-02-28", "2026-03-31", "2026-04-30"}},
        {"0 0 L 2 *", "2027-03-01", {"2028-02-29", "2029-02-28"}},
        {"0 0 LW * *", "2026-01-31", {"2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"}},
        {"0 0 15W * *", "2026-01-31", {"2026-02-16", "2026-03-16", "2026-04-15", "2026-05-15"}},
        {"0 0 1W * *", "2026-07-31", {"2026-08-03", "2026-09-01"}},
        {"0 0 31W * *", "2026-05-01", {"2026-05-29", "2026-07-31", "2026-08-31", "2026-10-30"}},
        {"0 0 1,15W,L * *", "2026-02-01", {"2026-02-16", "2026-02-28", "2026-03-01"}},
        {"0 0 * * 5L", "2026-11-01", {"2026-11-27", "2026-12-25", "2027-01-29"}},
        {"0 0 * * friL", "2026-11-01", {"2026-11-27"}},
        {"0 0 * * 1#5", "2026-11-01", {"2026-11-30", "2027-03-29"}},
        {"0 0 * * 7#1,sat#2", "2026-11-01", {"2026-11-14", "2026-12-06", "2026-12-12"}},
    };
    CHECK(rows);
}

TEST(words_like_daily_are_expressions)
{
    static const struct row rows[] = {
        {"@hourly", "2026-11-25", {"2026-11-25T01:00:00Z"}}, {"@daily", "2026-11-25", {"2026-11-26"}},
        {"@midnight", "2026-11-25", {"2026-11-26"}},         {"@weekly", "2026-11-25", {"2026-11-29"}},
        {"@Monthly", "2026-11-25", {"2026-12-01"}},          {"@yearly", "2026-11-25", {"2027-01-01"}},
        {"@annually", "2026-11-25", {"2027-01-01"}},
    };
    CHECK(rows);
}

TEST(refusals_name_the_field)
{
    assert_refused("", "has 0 fields");
    assert_refused("* * * *", "has 4 fields");
    assert_refused("* * * * * * *", "has 7 fields");
    assert_refused("60 * * * *", "the field minute: '60'");
    assert_refused("* 24 * * *", "the field hour: '24'");
    assert_refused("* * 0 * *", "the field day of month: '0'");
    assert_refused("* * * 13 *", "the field month: '13'");
    assert_refused("* * * * 8", "the field day of week: '8'");
    assert_refused("61 * * * * *", "the field second: '61'");
    assert_refused("5-1 * * * *", "ends before it begins");
    assert_refused("* * * NOV-FEB *", "ends before it begins");
    assert_refused("*/0 * * * *", "step");
    assert_refused("*/61 * * * *", "step");
    assert_refused("1, * * * *", "empty element");
    assert_refused("? * * * *", "the field minute");
    assert_refused("* L * * *", "the field hour");
    assert_refused("* * * * L", "needs a weekday before its L");
    assert_refused("* * * * 1#6", "from 1 to 5");
    assert_refused("* * 32W * *", "before its W");
    assert_refused("* * * * MONDAY", "the field day of week: 'MONDAY'");
    assert_refused("-1 * * * *", "the field minute");
    assert_refused("1-2-3 * * * *", "the field minute");
    assert_refused("@reboot", "@yearly");
    assert_refused("@every 5m", "@yearly");
}

TEST(expressions_that_never_match_are_refused)
{
    assert_refused("0 0 31 2 *", "never fires");
    assert_refused("0 0 30,31 2 *", "never fires");
    assert_refused("0 0 31 4,6,9,11 ?", "never fires");
    assert_refused("0 0 31W 2 *", "never fires");
}

TEST(rare_days_are_found_at_once)
{
    static const struct row rows[] = {
        {"0 0 29 2 *", "2026-01-01", {"2028-02-29", "2032-02-29"}},
        {"0 0 */28 2 MON", "2026-01-01", {"2027-02-01", "2038-02-01"}},
        {"0 0 */28 2 1#5", "2026-01-01", {"2044-02-29", "2072-02-29"}},
    };
    CHECK(rows);
}
