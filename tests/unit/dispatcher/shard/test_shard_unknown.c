/* Jobs that are passed by while their topic is being found out: how long, and which. The clock is a fake. */

#include "support/suite.h"

#include "shard/shard_parts.h"

#define SECOND INT64_C(1000000)
#define JOBS   4

static int64_t now_us;
static struct dt_loop_env env;
static dt_shard_loop *l;

STUB(static int64_t, mono_us, (const dt_clock *clock), now_us)

static const dt_clock turned = {.mono_us = mono_us};

static void make(void)
{
    now_us = 100 * SECOND;
    env = (struct dt_loop_env){.clock = &turned};
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->env = &env;
    l->due.entries = calloc(JOBS, sizeof(*l->due.entries));
    assert_non_null(l->due.entries);
}

static void drop(void)
{
    dt_id_set_clear(&l->unknown.ids);
    free(l->due.entries);
    free(l);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

/* Jobs 1 to 4 are due; gives the ids of those that are not passed by, as digits. */
static int64_t looked_at(void)
{
    int64_t digits = 0;
    for (size_t i = 0; i < JOBS; i++)
        l->due.entries[i] = (struct dt_entry){.id = (int64_t)i + 1, .due_ms = 50};
    size_t n = dt_shard_pass_by_unknown(l, JOBS);
    for (size_t i = 0; i < n; i++)
        digits = digits * 10 + l->due.entries[i].id;
    return digits;
}

FRESH_TEST(a_job_whose_topic_is_unknown_is_skipped_for_a_second)
{
    assert_int_equal(looked_at(), 1234);
    dt_shard_note_unknown(l, 2);
    now_us += SECOND / 2;
    dt_shard_note_unknown(l, 4); /* the time is counted from the first */
    assert_int_equal(looked_at(), 13);
    now_us += SECOND / 2 - 1;
    assert_int_equal(looked_at(), 13);
    now_us += 1;
    assert_int_equal(looked_at(), 1234);
    dt_shard_note_unknown(l, 1);
    now_us += SECOND - 1;
    assert_int_equal(looked_at(), 234);
}

FRESH_TEST(a_job_is_no_longer_skipped_when_its_topic_is_known)
{
    dt_shard_note_unknown(l, 3);
    assert_int_equal(looked_at(), 124);
    dt_id_set_empty(&l->unknown.ids);
    assert_int_equal(looked_at(), 1234);
}

SUITE(NULL, NULL)
