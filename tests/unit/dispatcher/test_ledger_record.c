/* What a takeover makes of the ledger: every story that may stand there, and every one that must halt the shard. */

#include "support/suite.h"

#include "deliver/kafka/ledger_record.h"

#define UUID "0b9f2a52-1f0e-4c55-8a43-0d3a8a0f3c11"

struct rig {
    struct dt_fence fence;
    struct dt_claim list[2];
    struct dt_inflight inflight;
    struct dt_ledger_view view;
    struct dt_strbuf text;
};

static void setup(struct rig *rig)
{
    rig->fence = (struct dt_fence){.shard = 3, .epoch = 18, .token = 77, .batch_no = 5, .inflight = 2, .send_n = 2};
    rig->list[0] = (struct dt_claim){100, 1, 5000};
    rig->list[1] = (struct dt_claim){101, 2, 6000};
    rig->inflight = (struct dt_inflight){.v = rig->list, .n = 2};
    assert_int_equal(dt_ledger_view_init(&rig->view, UUID, &rig->fence, &rig->inflight), DT_OK);
}

static void teardown(struct rig *rig)
{
    dt_ledger_view_clear(&rig->view);
    dt_strbuf_clear(&rig->text);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static bool feed_batch(struct rig *rig, const char *uuid, int64_t epoch, const struct dt_claim *list, size_t n)
{
    struct dt_fence fence = rig->fence;
    fence.epoch = epoch;
    dt_strbuf_reset(&rig->text);
    dt_ledger_format_batch(&rig->text, uuid, &fence, list, n);
    return dt_ledger_view_record(&rig->view, 40, DT_LEDGER_BATCH, dt_strbuf_str(&rig->text));
}

static bool feed_barrier(struct rig *rig, int64_t epoch, int64_t token)
{
    struct dt_fence fence = rig->fence;
    fence.epoch = epoch;
    fence.token = token;
    dt_strbuf_reset(&rig->text);
    dt_ledger_format_barrier(&rig->text, UUID, &fence);
    return dt_ledger_view_record(&rig->view, 42, DT_LEDGER_BARRIER, dt_strbuf_str(&rig->text));
}

static void assert_halts(struct rig *rig, bool more, const char *why)
{
    assert_false(more);
    assert_false(rig->view.barrier);
    if (!strstr(rig->view.problem, why))
        fail_msg("'%s' does not say '%s'", rig->view.problem, why);
}

RIG_TEST(nothing_but_our_barrier_means_that_nothing_was_committed)
{
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (barrier, true), (batches, 0), (next_offset, 43), (problem, ""));
}

RIG_TEST(the_batch_in_flight_was_committed_when_its_record_is_there)
{
    assert_true(feed_batch(rig, UUID, 17, rig->list, 2));
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (batches, 1), (problem, ""));
}

RIG_TEST(barriers_of_earlier_takeovers_are_skipped)
{
    assert_true(feed_barrier(rig, 16, 5));
    assert_true(feed_barrier(rig, 17, 77));
    assert_false(feed_barrier(rig, 18, 77));
    assert_true(rig->view.barrier);
}

RIG_TEST(a_barrier_of_our_epoch_with_another_token_is_not_ours)
{
    assert_halts(rig, feed_barrier(rig, 18, 78), "epoch");
}

RIG_TEST(a_record_of_an_epoch_not_below_ours_halts)
{
    assert_halts(rig, feed_batch(rig, UUID, 18, rig->list, 2), "epoch");
}

RIG_TEST(a_barrier_of_a_later_epoch_halts)
{
    assert_halts(rig, feed_barrier(rig, 19, 77), "epoch");
}

RIG_TEST(a_record_of_another_installation_halts)
{
    assert_halts(rig, feed_batch(rig, "11111111-1f0e-4c55-8a43-0d3a8a0f3c11", 17, rig->list, 2),
                 "another installation");
}

RIG_TEST(a_second_batch_halts)
{
    assert_true(feed_batch(rig, UUID, 16, rig->list, 2));
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 2), "second batch");
}

RIG_TEST(a_batch_that_is_not_the_one_in_flight_halts)
{
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 1), "not the batch in flight");
}

RIG_TEST(a_batch_may_be_the_head_of_a_list_sent_in_parts)
{
    rig->fence.send_n = 1;
    assert_true(feed_batch(rig, UUID, 17, rig->list, 1));
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (batches, 1), (problem, ""));
}

RIG_TEST(a_batch_longer_than_the_head_of_a_list_halts)
{
    rig->fence.send_n = 1;
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 2), "not the batch in flight");
}

RIG_TEST(a_list_is_compared_entry_for_entry)
{
    for (int i = 0; i < 4; i++) {
        struct dt_claim list[2] = {rig->list[0], rig->list[1]};
        list[1].id += i == 0;
        list[1].attempt += i == 1;
        list[1].due_ms += i == 2;
        if (i == 3) {
            list[0] = rig->list[1];
            list[1] = rig->list[0];
        }
        rig->view.batches = 0;
        rig->view.problem[0] = '\0';
        assert_halts(rig, feed_batch(rig, UUID, 17, list, 2), "not the batch in flight");
    }
}

RIG_TEST(a_batch_with_nothing_in_flight_halts)
{
    rig->inflight.n = rig->fence.send_n = 0;
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 2), "not the batch in flight");
}

/* Read once more from its beginning, because it is young: all of it lies below 43. */
RIG_TEST(records_that_were_settled_are_skipped_when_they_are_read_again)
{
    const struct dt_claim done[] = {{90, 1, 4000}, {100, 3, 4000}};
    rig->view.settled_below = 43;
    assert_true(feed_batch(rig, UUID, 17, done, 2));
    assert_true(feed_batch(rig, UUID, 19, done, 1)); /* epochs repeat when MySQL goes back and a halt is cleared */
    assert_true(feed_barrier(rig, 17, 5));
    assert_true(dt_ledger_view_record(&rig->view, 40, DT_STR_LIT("junk"), DT_STR_LIT("[]")));
    assert_members(rig->view, (barrier, false), (batches, 0));
}

RIG_TEST(the_batch_in_flight_below_what_was_settled_halts)
{
    rig->view.settled_below = 43;
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 2), "recreated");
}

RIG_TEST(our_barrier_below_what_was_settled_halts)
{
    rig->view.settled_below = 43;
    assert_halts(rig, feed_barrier(rig, 18, 77), "recreated");
}

/* ---- others ---- */

#define LIT(s)                                                                                                         \
    {                                                                                                                  \
        "" s, sizeof(s) - 1                                                                                            \
    }
static const struct dt_str strangers[][2] = {
    {{NULL, 0}, LIT("hi")},
    {{NULL, 0}, {NULL, 0}},
    {LIT(""), LIT("")},
    {LIT("batch"), {NULL, 0}},
    {LIT("batch"), LIT("hi")},
    {LIT("batch"), LIT("{\"installation\":")},
    {LIT("batch"), LIT("{\"installation\":7,\"list\":[[100,1,5000],[101,2,6000]]}")},
    {LIT("batch"), LIT("{\"epoch\":17,\"token\":77,\"list\":[[100,1,5000],[101,2,6000]]}")},
    {LIT("barrier"), LIT("{\"epoch\":18,\"token\":77}")},
    {LIT("barrier"), LIT("\"" UUID "\"")},
    {LIT("other"), LIT("[[[[[[[[[[]]]]]]]]]]")},
};
enum { STRANGERS = sizeof strangers / sizeof *strangers };

static void feed_strangers(struct rig *rig, int64_t offset)
{
    for (int64_t i = 0; i < STRANGERS; i++)
        assert_true(dt_ledger_view_record(&rig->view, offset + i, strangers[i][0], strangers[i][1]));
}

RIG_TEST(a_record_that_names_no_installation_is_ignored)
{
    feed_strangers(rig, 30);
    assert_int_equal(rig->view.batches, 0);
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (barrier, true), (batches, 0), (problem, ""), (strangers, STRANGERS), (stranger_at, 30));
}

RIG_TEST(our_records_are_found_among_foreign_ones)
{
    feed_strangers(rig, 10);
    assert_true(feed_batch(rig, UUID, 17, rig->list, 2));
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (batches, 1), (strangers, STRANGERS));
}

RIG_TEST(a_second_batch_among_foreign_records_halts)
{
    assert_true(feed_batch(rig, UUID, 16, rig->list, 2));
    feed_strangers(rig, 41);
    assert_halts(rig, feed_batch(rig, UUID, 17, rig->list, 2), "second batch");
}

RIG_TEST(foreign_records_below_the_settled_offset_are_not_reported_again)
{
    rig->view.settled_below = 100;
    feed_strangers(rig, 10);
    assert_members(rig->view, (strangers, 0), (problem, ""));
}

RIG_TEST(a_record_with_a_foreign_or_incomplete_body_halts_the_shard)
{
    static const char *const values[] = {"{\"installation\":\"\"}", "{\"installation\":\"x\",\"epoch\":1}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        rig->view.problem[0] = '\0';
        assert_halts(rig, dt_ledger_view_record(&rig->view, 1, DT_LEDGER_BATCH, dt_str(values[i])),
                     "another installation");
        rig->view.problem[0] = '\0';
        assert_halts(rig, dt_ledger_view_record(&rig->view, 1, DT_STR_NONE, dt_str(values[i])), "another installation");
    }
    rig->view.problem[0] = '\0';
    assert_halts(rig,
                 dt_ledger_view_record(&rig->view, 1, DT_LEDGER_BATCH,
                                       DT_STR_LIT("{\"installation\":\"" UUID "\",\"epoch\":17}")),
                 "without a list");
    rig->view.problem[0] = '\0';
    assert_halts(rig,
                 dt_ledger_view_record(&rig->view, 1, DT_STR_LIT("note"),
                                       DT_STR_LIT("{\"installation\":\"" UUID "\",\"epoch\":17}")),
                 "does not know");
}

/* ---- the record before ---- */

RIG_TEST(our_record_just_below_the_settled_offset_proves_the_same_ledger)
{
    const struct dt_claim done[] = {{90, 1, 4000}};
    rig->view.settled_below = 41;
    assert_true(feed_batch(rig, UUID, 17, done, 1)); /* at 40 */
    assert_true(rig->view.anchored);
    dt_ledger_view_again(&rig->view);
    assert_false(rig->view.anchored);
    rig->view.settled_below = 43;
    assert_true(feed_barrier(rig, 17, 5)); /* at 42 */
    assert_true(rig->view.anchored);
}

RIG_TEST(a_record_elsewhere_does_not_prove_the_same_ledger)
{
    const struct dt_claim done[] = {{90, 1, 4000}};
    rig->view.settled_below = 42;
    assert_true(feed_batch(rig, UUID, 17, done, 1)); /* at 40 */
    assert_false(rig->view.anchored);
    rig->view.settled_below = 41;
    assert_true(feed_batch(rig, "11111111-1f0e-4c55-8a43-0d3a8a0f3c11", 17, done, 1));
    assert_true(dt_ledger_view_record(&rig->view, 40, DT_LEDGER_BATCH, DT_STR_LIT("hi")));
    assert_false(rig->view.anchored);
    rig->view.settled_below = 40;
    assert_true(feed_batch(rig, UUID, 17, rig->list, 2)); /* at 40: not below */
    assert_false(rig->view.anchored);
}

RIG_TEST(a_restarted_reading_starts_from_a_clean_view)
{
    feed_strangers(rig, 10);
    assert_true(feed_batch(rig, UUID, 16, rig->list, 2));
    dt_ledger_view_again(&rig->view);
    assert_true(feed_batch(rig, UUID, 16, rig->list, 2));
    assert_false(feed_barrier(rig, 18, 77));
    assert_members(rig->view, (batches, 1), (strangers, 0));
}
