/* Events lie in partitions of a day each, which are made before their day comes, and go with it when its last event was
 * kept for long enough. They are read in pages. */
#include "events/events.h"
#include "support/store_suite.h"

#define DAY_MS     INT64_C(86400000)
#define TODAY      INT64_C(20000) /* the number of a day */
#define NOON_MS    (TODAY * DAY_MS + DAY_MS / 2)
#define PARTITIONS "FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'job_events'"

STORE_SUITE("events", 0)

#define FRESH_TEST(name) TEST_WITH(name, open_store, close_store)

static void event_at(int64_t at_ms)
{
    run_sql("INSERT INTO job_events (at, actor, action) VALUES (%lld, 'a', 'cancel')", (long long)at_ms);
}

static int64_t events(void)
{
    return sql_number("SELECT COUNT(*) FROM job_events");
}

static int64_t days(void)
{
    return sql_number("SELECT COUNT(*) " PARTITIONS " AND partition_name LIKE 'd%%'");
}

/* The day has a partition, which ends where the next day begins. */
static bool has_day(int64_t day)
{
    return sql_number("SELECT COUNT(*) " PARTITIONS " AND partition_name = 'd%lld' AND partition_description = '%lld'",
                      (long long)day, (long long)((day + 1) * DAY_MS)) == 1;
}

FRESH_TEST(days_have_event_partitions_in_advance)
{
    OK(dt_store_events_tend(store, NOON_MS, DAY_MS, &err));
    assert_int_equal(days(), 3);
    assert_true(has_day(TODAY) && has_day(TODAY + 1) && has_day(TODAY + 2));
    OK(dt_store_events_tend(store, NOON_MS + DAY_MS / 2 - 1, DAY_MS, &err));
    assert_int_equal(days(), 3);
    OK(dt_store_events_tend(store, NOON_MS + DAY_MS / 2, DAY_MS, &err));
    assert_int_equal(days(), 4);
    assert_true(has_day(TODAY + 3));
}

FRESH_TEST(events_without_a_partition_are_moved_into_one_later)
{
    event_at(NOON_MS - 2 * DAY_MS); /* of a day before the first partition */
    event_at(NOON_MS + DAY_MS);
    event_at(NOON_MS + 5 * DAY_MS); /* of one behind the last */
    OK(dt_store_events_tend(store, NOON_MS, 100 * DAY_MS, &err));
    OK(dt_store_events_tend(store, NOON_MS + 5 * DAY_MS, 100 * DAY_MS, &err));
    assert_int_equal(days(), 8);
    assert_int_equal(events(), 3);
    assert_sql_number(1, "SELECT COUNT(*) FROM job_events PARTITION (d20005)");
}

FRESH_TEST(a_days_partition_is_dropped_when_its_last_event_expired)
{
    const int64_t over_ms = (TODAY + 1) * DAY_MS + 2 * DAY_MS; /* today's last event is two days old */
    OK(dt_store_events_tend(store, NOON_MS, 2 * DAY_MS, &err));
    event_at(NOON_MS - 9 * DAY_MS); /* goes with the first day that has a partition */
    event_at((TODAY + 1) * DAY_MS - 1);
    event_at((TODAY + 1) * DAY_MS);
    event_at(over_ms);
    OK(dt_store_events_tend(store, over_ms - 1, 2 * DAY_MS, &err));
    assert_int_equal(events(), 4);
    assert_true(has_day(TODAY));
    OK(dt_store_events_tend(store, over_ms, 2 * DAY_MS, &err));
    assert_int_equal(events(), 2);
    assert_false(has_day(TODAY));
    assert_true(has_day(TODAY + 1));
    OK(dt_store_events_tend(store, over_ms + 3 * DAY_MS, 2 * DAY_MS, &err)); /* several at once, after a pause */
    assert_int_equal(events(), 0);
    assert_true(has_day(TODAY + 4));
    assert_int_equal(days(), 5);
}

/* The rows of a page that are in memory: no more are read than it has. */
FRESH_TEST(a_page_ends_by_bytes_as_well_as_by_rows)
{
    static const struct {
        struct dt_page_end end;
        size_t n;
        bool more;
    } pages[] = {{{10, 0}, 6, false}, {{6, 0}, 6, true}, {{5, 0}, 5, true},
                 {{10, 1}, 1, true},  {{1, 1}, 1, true}, {{10, (size_t)1 << 20}, 6, false}};
    struct dt_event_filter filter = {.to_ms = INT64_MAX};
    struct dt_event_list list;
    for (int i = 0; i < 6; i++)
        event_at(NOON_MS + i);
    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
        filter.end = pages[i].end;
        OK(dt_store_events(store, &filter, &arena, &list, &err));
        assert_members(list, (n, pages[i].n), (more, pages[i].more));
        assert_int_equal(list.v[0].at_ms, NOON_MS + 5);
        dt_arena_clear(&arena);
    }
    run_sql("UPDATE job_events SET became = CONCAT('{\"a\":\"', REPEAT('x', 60000), '\"}')");
    filter.end = (struct dt_page_end){10, 200000};
    OK(dt_store_events(store, &filter, &arena, &list, &err));
    assert_in_range(list.n, 2, 4);
    assert_true(list.more);
    assert_in_range(arena.size, 200000, 500000); /* the last chunk may be as large as all before it */
}
