/* Where the reader ahead goes on when it has come to its end. The clock is a fake. */

#include "support/suite.h"

#include "shard/shard_parts.h"

#define SECOND INT64_C(1000000)

static int64_t now_us;
static struct dt_process_env env;
static dt_shard_loop *l;

STUB(static int64_t, mono_us, (const dt_clock *clock), now_us)

static const dt_clock turned = {.mono_us = mono_us};

static void make(void)
{
    now_us = 100 * SECOND;
    env = (struct dt_process_env){.clock = &turned};
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->env = &env;
    assert_int_equal(dt_topic_snapshot_new(&l->snapshot), DT_OK);
}

static void drop(void)
{
    dt_topic_snapshot_free(l->snapshot);
    free(l);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

/* Jobs that came in behind it are met all the same, some seconds later; to begin anew each time would cost a walk. */
FRESH_TEST(the_reader_ahead_moves_back_a_little_and_regularly_to_the_start)
{
    const struct dt_entry place = {.id = 7, .due_ms = 900000};
    dt_shard_place_ahead(l, &place);
    now_us += 4 * SECOND;
    dt_shard_ahead_end(l);
    assert_int_equal(l->cursor.ahead_ms, place.due_ms - 2000);
    now_us += 2 * SECOND;
    dt_shard_place_ahead(l, &place);
    now_us += 4 * SECOND;
    dt_shard_ahead_end(l);
    assert_int_equal(l->cursor.ahead_ms, place.due_ms - 2000);
    now_us += SECOND;
    dt_shard_ahead_end(l);
    assert_int_equal(l->cursor.ahead_ms, 0);
}

FRESH_TEST(the_reader_ahead_is_never_moved_back_by_the_cursor)
{
    dt_shard_place_ahead(l, &(struct dt_entry){.id = 7, .due_ms = 900000});
    dt_shard_place_ahead(l, &(struct dt_entry){.id = 7, .due_ms = 800000});
    dt_shard_place_ahead(l, &(struct dt_entry){.id = 6, .due_ms = 900000});
    assert_members(l->cursor, (ahead_ms, 900000), (ahead_id, 7));
}

/* Otherwise what is due later in its topic would go first. */
FRESH_TEST(the_cursor_moves_back_when_jobs_did_not_fit_into_the_batch)
{
    const struct dt_leader_txn left = {.chosen.more = true};
    const struct dt_leader_txn all = {.chosen.more = false};
    dt_shard_cursor_to(l, 500000, 3);
    dt_shard_begin_scan(l);
    dt_shard_cursor_to(l, 700000, 5);
    dt_shard_ahead_to(l, 800000, 6);
    dt_shard_note_left(l, &all);
    assert_int_equal(l->cursor.ms, 700000);
    dt_shard_note_left(l, &left);
    assert_members(l->cursor, (ms, 500000), (id, 3));
    assert_int_equal(l->cursor.ahead_ms, 800000); /* others go on there */
    dt_shard_due_from_start(l);                   /* further back already */
    dt_shard_note_left(l, &left);
    assert_int_equal(l->cursor.ms, 0);
}

/* Two jobs further on: the queue of the one that was left is passed by from then on. */
FRESH_TEST(after_the_head_only_queues_with_left_jobs_wait_for_the_cursor)
{
    struct dt_entry entries[] = {{.id = 1, .due_ms = 10}, {.id = 7, .due_ms = 20}, {.id = 8, .due_ms = 30}};
    struct dt_due_queue queues[] = {{.hash = 11}, {.hash = 22}};
    uint32_t of[] = {0, 0, 1};
    static const int64_t left[] = {1, 8};
    l->due.entries = entries;
    l->fair.queues = queues;
    l->fair.of = of;
    l->fair.head = 1;
    l->fair.rows = 3;
    dt_shard_leave_to_cursor(l, left, 2);
    assert_false(dt_shard_was_skipped(l, 11));
    assert_true(dt_shard_was_skipped(l, 22));
    dt_shard_place_ahead(l, &(struct dt_entry){.id = 9, .due_ms = 40});
    assert_false(dt_shard_was_skipped(l, 22));
}

/* Each is remembered; few of the other queues are taken for one of them, and not the same ones when it begins again. */
FRESH_TEST(the_reader_ahead_advances_when_it_has_skipped_jobs_of_thousands_of_queues)
{
    enum { SKIPPED = 3000, OTHERS = 3000 };
    size_t both = 0;
    bool before[OTHERS];
    for (size_t round = 0; round < 2; round++) {
        size_t taken = 0;
        dt_shard_place_ahead(l, &(struct dt_entry){.id = 1, .due_ms = 40 + (int64_t)round});
        for (size_t i = 0; i < SKIPPED; i++)
            dt_shard_skip(l, i);
        for (size_t i = 0; i < SKIPPED; i++)
            assert_true(dt_shard_was_skipped(l, i));
        for (size_t i = 0; i < OTHERS; i++) {
            const bool is = dt_shard_was_skipped(l, SKIPPED + i);
            both += round && is && before[i];
            before[i] = is;
            taken += is;
        }
        assert_in_range(taken, 0, OTHERS / 10);
    }
    assert_in_range(both, 0, OTHERS / 50);
}
