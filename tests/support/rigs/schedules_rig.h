/* Schedules on a real server, for the suites about them. Time is moved by hand: a schedule's row says how far it is. */
#pragma once

#include "features/schedules/schedules.h"
#include "support/store_suite.h"
#include "topic/topics.h"

#define HOUR_MS INT64_C(3600000)
#define NAME    "nightly"

STORE_SUITE("schedules", 0)

static dt_zone_files *zones;

static inline void begin(void)
{
    assert_int_equal(dt_zone_files_new(NULL, &zones), DT_OK);
    open_store();
}

static inline void end(void)
{
    dt_zone_files_free(zones);
    close_store();
}

static inline void with_topic(void)
{
    empty_tables();
    OK(dt_store_topic_ensure(store, S("t"), NULL, &err));
}

static inline struct dt_schedule cron(const char *text)
{
    return (struct dt_schedule){.name = S(NAME),
                                .cron = dt_str(text),
                                .time_zone = S("Europe/Berlin"),
                                .job = {.topic = S("t"), .payload = S("{\"n\":1}"), .digest = "one"}};
}

static inline struct dt_schedule every(int64_t ms)
{
    struct dt_schedule s = cron(NULL);
    s.every_ms = ms;
    return s;
}

static inline struct dt_fire_maker a_maker(void)
{
    return (struct dt_fire_maker){.store = store, .zones = zones, .arena = &arena};
}

static inline struct dt_schedule put(struct dt_schedule s)
{
    struct dt_fire_maker maker = a_maker();
    struct dt_schedule_put ask = {.schedule = &s};
    struct dt_schedule out;
    OK(dt_store_schedule_put(&maker, &ask, &out, &err));
    return out;
}

static inline struct dt_fires_made make(void)
{
    struct dt_fire_maker maker = a_maker();
    struct dt_fires_made made;
    OK(dt_store_make_fires(&maker, &made, &err));
    return made;
}

static inline void set_paused(bool paused)
{
    struct dt_fire_maker maker = a_maker();
    struct dt_schedule s;
    OK(dt_store_schedule_pause(&maker, S(NAME), paused, &s, &err));
}

static inline int64_t count(const char *where)
{
    return sql_number("SELECT COUNT(*) FROM jobs WHERE %s", where);
}

#define SCHEDULED "state = 'scheduled'"
#define WITHDRAWN "state = 'cancelled' AND error_code = 'withdrawn' AND error_at > 0 AND next_at IS NULL"
#define OVERLAP   "state = 'cancelled' AND error_code = 'overlap'"

static inline void assert_jobs(int64_t scheduled, int64_t withdrawn)
{
    assert_int_equal(count(SCHEDULED), scheduled);
    assert_int_equal(count(WITHDRAWN), withdrawn);
    assert_sql_number(count("TRUE"), "SELECT COUNT(*) FROM job_keys");
    assert_int_equal(mysql_fixture_audit(), 0);
}

/* Moves a schedule back: its next fire was so long ago, and it is to be looked at. */
static inline void was_away(int64_t ms)
{
    run_sql("UPDATE schedules SET anchor_at = anchor_at - %lld; UPDATE schedule_fires SET next_fire_at = next_fire_at "
            "- %lld, last_fire_at = NULL, look_at = 1",
            (long long)ms, (long long)ms);
}

static inline void wait_for_the_next_fire(void)
{
    while (sql_number("SELECT CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) <= next_fire_at FROM schedule_fires"))
        continue;
}
