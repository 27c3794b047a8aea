/* Fires at the edges of clocks, by written tables. Each row: an expression, a zone, an instant, and the fires that follow it.
 * The instants of the changes are those of the tz database. */
#include "support/suite.h"

#include "base/text/timetext.h"
#include "base/text/zone.h"
#include "features/schedules/cron.h"

struct row {
    const char *cron, *zone, *after, *fires; /* fires: times, separated by spaces */
};

static void check_row(dt_zone_files *files, const struct row *row)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    dt_zone *zone;
    char got[25];
    assert_int_equal(dt_cron_parse(dt_str(row->cron), &cron, &err), DT_OK);
    assert_int_equal(dt_zone_files_get(files, dt_str(row->zone), &zone, &err), DT_OK);
    int64_t at_ms = 0;
    assert_int_equal(dt_time_parse(dt_str(row->after), &at_ms), DT_OK);
    for (const char *want = row->fires; *want; want += strcspn(want, " "), want += strspn(want, " ")) {
        const struct dt_str text = {want, strcspn(want, " ")};
        int64_t want_ms;
        at_ms = dt_cron_next_ms(&cron, zone, at_ms);
        dt_time_format(at_ms, got);
        assert_int_equal(dt_time_parse(text, &want_ms), DT_OK);
        if (at_ms != want_ms)
            fail_msg("%s in %s after %s: %s, not %.*s", row->cron, row->zone, row->after, got, (int)text.n, text.p);
    }
    dt_zone_free(zone);
}

static void check(const struct row *rows, size_t n)
{
    dt_zone_files *files;
    assert_int_equal(dt_zone_files_new(NULL, &files), DT_OK);
    for (size_t i = 0; i < n; i++)
        check_row(files, &rows[i]);
    dt_zone_files_free(files);
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

TEST(berlin_jumps_an_hour_and_repeats_one)
{
    static const struct row rows[] = {
        {"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
         "2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
        {"0,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
         "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z 2026-03-30T00:30:00Z"},
        {"0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
        {"*/30 1-3 * * *", "Europe/Berlin", "2026-03-28T23:59:59Z",
         "2026-03-29T00:00:00Z 2026-03-29T00:30:00Z 2026-03-29T01:00:00Z 2026-03-29T01:30:00Z 2026-03-29T23:00:00Z"},
        {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
        {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
        {"30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
         "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-25T02:30:00Z"},
        {"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z 2026-03-29T01:30:00Z"},
        {"0 */2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z 2026-03-29T04:00:00Z"},
        {"30 */2 * * *", "Europe/Berlin", "2026-10-24T23:00:00Z",
         "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-25T03:30:00Z"},
        {"0 9 * * MON-FRI", "Europe/Berlin", "2026-10-23T06:00:00Z",
         "2026-10-23T07:00:00Z 2026-10-26T08:00:00Z 2026-10-27T08:00:00Z"},
    };
    CHECK(rows);
}

TEST(the_rule_of_a_zone_continues_after_its_table)
{
    static const struct row rows[] = {
        {"30 2 * * *", "Europe/Berlin", "2090-03-25T12:00:00Z", "2090-03-26T01:00:00Z 2090-03-27T00:30:00Z"},
        {"30 2 * * *", "Europe/Berlin", "2090-10-28T12:00:00Z", "2090-10-29T00:30:00Z 2090-10-30T01:30:00Z"},
        {"30 2 * * *", "America/New_York", "2099-03-08T00:00:00Z", "2099-03-08T07:00:00Z 2099-03-09T06:30:00Z"},
    };
    CHECK(rows);
}

TEST(new_york_jumps_an_hour_and_repeats_one)
{
    static const struct row rows[] = {
        {"30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z 2026-03-09T06:30:00Z"},
        {"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z"},
        {"0 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:00:00Z"},
        {"*/20 0-23/1 * * *", "America/New_York", "2026-11-01T05:30:00Z",
         "2026-11-01T05:40:00Z 2026-11-01T06:00:00Z 2026-11-01T06:20:00Z 2026-11-01T06:40:00Z 2026-11-01T07:00:00Z"},
    };
    CHECK(rows);
}

TEST(lord_howe_changes_by_half_an_hour)
{
    static const struct row rows[] = {
        {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
        {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z 2026-04-05T15:15:00Z"},
        {"*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z",
         "2026-04-04T14:45:00Z 2026-04-04T15:00:00Z 2026-04-04T15:15:00Z 2026-04-04T15:30:00Z"},
        {"*/15 * * * *", "Australia/Lord_Howe", "2026-10-03T15:00:00Z",
         "2026-10-03T15:15:00Z 2026-10-03T15:30:00Z 2026-10-03T15:45:00Z"},
    };
    CHECK(rows);
}

TEST(kathmandu_is_a_quarter_of_an_hour_off)
{
    static const struct row rows[] = {
        {"0 9 * * *", "Asia/Kathmandu", "2026-11-25T00:00:00Z", "2026-11-25T03:15:00Z 2026-11-26T03:15:00Z"},
        {"0 * * * *", "Asia/Kathmandu", "2026-11-25T00:00:00Z", "2026-11-25T00:15:00Z 2026-11-25T01:15:00Z"},
        {"5 0 * * *", "Asia/Kathmandu", "1985-12-31T12:00:00Z", "1985-12-31T18:30:00Z 1986-01-01T18:20:00Z"},
    };
    CHECK(rows);
}

TEST(apia_skipped_a_friday)
{
    static const struct row rows[] = {
        {"0 9,15 * * *", "Pacific/Apia", "2011-12-29T19:00:00Z",
         "2011-12-30T01:00:00Z 2011-12-30T10:00:00Z 2011-12-30T19:00:00Z 2011-12-31T01:00:00Z"},
        {"0 0 * * *", "Pacific/Apia", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z 2011-12-31T10:00:00Z"},
        {"0 9 * * FRI", "Pacific/Apia", "2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z 2012-01-05T19:00:00Z"},
        {"0 */6 * * *", "Pacific/Apia", "2011-12-30T04:00:00Z", "2011-12-30T10:00:00Z 2011-12-30T16:00:00Z"},
    };
    CHECK(rows);
}

TEST(casablanca_goes_back_for_the_month_of_ramadan)
{
    static const struct row rows[] = {
        {"30 2 * * *", "Africa/Casablanca", "2023-03-18T12:00:00Z", "2023-03-19T01:30:00Z 2023-03-20T02:30:00Z"},
        {"30 2 * * *", "Africa/Casablanca", "2023-04-22T12:00:00Z", "2023-04-23T02:00:00Z 2023-04-24T01:30:00Z"},
        {"0 12 1 * *", "Africa/Casablanca", "2023-02-15T00:00:00Z",
         "2023-03-01T11:00:00Z 2023-04-01T12:00:00Z 2023-05-01T11:00:00Z"},
    };
    CHECK(rows);
}

TEST(cairo_brought_summer_time_back_in_2023)
{
    static const struct row rows[] = {
        {"30 0 * * FRI", "Africa/Cairo", "2023-04-27T00:00:00Z", "2023-04-27T22:00:00Z 2023-05-04T21:30:00Z"},
        {"30 23 * * *", "Africa/Cairo", "2023-10-26T12:00:00Z", "2023-10-26T20:30:00Z 2023-10-27T21:30:00Z"},
        {"0 12 * * *", "Africa/Cairo", "2023-04-26T12:00:00Z", "2023-04-27T10:00:00Z 2023-04-28T09:00:00Z"},
    };
    CHECK(rows);
}

TEST(utc_has_no_changes)
{
    static const struct row rows[] = {
        {"0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
        {"*/7 30 2 * * *", "UTC", "2026-03-29T02:30:55.500Z", "2026-03-29T02:30:56Z 2026-03-30T02:30:00Z"},
        {"0 0 1 1 *", "UTC", "1969-06-01T00:00:00Z", "1970-01-01T00:00:00Z"},
    };
    CHECK(rows);
}
