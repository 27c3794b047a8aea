/* What a leader remembers of topics at their limits. */

#include "support/suite.h"

#include "shard/shard_parts.h"

#define T DT_STR_LIT("t")
#define U DT_STR_LIT("u")

static struct dt_limit_memory memory;

static void clear(void)
{
    dt_limit_memory_clear(&memory);
}

#define FRESH_TEST(name) TEST_WITH(name, NULL, clear)

FRESH_TEST(all_jobs_of_an_unknown_topic_may_be_tried)
{
    assert_true(dt_limit_memory_allowed(&memory, T, 1) == SIZE_MAX);
    assert_false(dt_limit_memory_spend(&memory, T));
    dt_limit_memory_forget(&memory, T);
    dt_limit_memory_age(&memory, 1);
}

FRESH_TEST(granted_places_are_spent_one_by_one)
{
    dt_limit_memory_set(&memory, T, 0, 1);
    dt_limit_memory_set(&memory, U, 0, 1);
    assert_int_equal(dt_limit_memory_allowed(&memory, T, 2), 0);
    assert_false(dt_limit_memory_spend(&memory, T));
    dt_limit_memory_set(&memory, T, 2, 3);
    assert_int_equal(dt_limit_memory_allowed(&memory, T, 3), 2);
    assert_false(dt_limit_memory_spend(&memory, T));
    assert_true(dt_limit_memory_spend(&memory, T));
    assert_int_equal(dt_limit_memory_allowed(&memory, T, 3), 0);
    assert_int_equal(dt_limit_memory_allowed(&memory, U, 3), 0);
    dt_limit_memory_forget(&memory, T);
    assert_true(dt_limit_memory_allowed(&memory, T, 3) == SIZE_MAX);
    assert_int_equal(dt_limit_memory_allowed(&memory, U, 3), 0);
}

FRESH_TEST(an_old_grant_is_not_used)
{
    dt_limit_memory_set(&memory, T, 0, 0);
    dt_limit_memory_set(&memory, U, 5, 0);
    assert_int_equal(dt_limit_memory_allowed(&memory, U, DT_LIMIT_GRANTED_US - 1), 5);
    assert_true(dt_limit_memory_allowed(&memory, U, DT_LIMIT_GRANTED_US) == SIZE_MAX);
    assert_int_equal(dt_limit_memory_allowed(&memory, T, DT_LIMIT_WAITS_US - 1), 0);
    assert_true(dt_limit_memory_allowed(&memory, T, DT_LIMIT_WAITS_US) == SIZE_MAX);
    dt_limit_memory_age(&memory, DT_LIMIT_GRANTED_US);
    assert_int_equal(memory.n, 1);
    dt_limit_memory_age(&memory, DT_LIMIT_WAITS_US);
    assert_int_equal(memory.n, 0);
}

FRESH_TEST(the_number_of_cached_topics_is_bounded)
{
    char name[16];
    for (int i = 0; i < DT_LIMIT_MEMORY_TOPICS + 10; i++) {
        snprintf(name, sizeof name, "t%d", i);
        dt_limit_memory_set(&memory, dt_str(name), 0, 1);
    }
    assert_int_equal(memory.n, DT_LIMIT_MEMORY_TOPICS);
    assert_true(dt_limit_memory_allowed(&memory, dt_str(name), 1) == SIZE_MAX);
    assert_int_equal(dt_limit_memory_allowed(&memory, DT_STR_LIT("t7"), 1), 0);
}
