/* The fair queues of a shard: how a batch is shared out, what is parked, and closed queues. */
#include "unit/dispatcher/shard/queues_suite.h"

/* ---- sharing out ---- */

RIG_TEST(each_topic_gets_an_equal_part_in_order_of_time)
{
    due(rig, 1, 0, 300, 1000); /* long due */
    due(rig, 2, 0, 60, 5000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
    assert_int_equal(hints_of(rig, 1, 0), BATCH / 2);
    assert_int_equal(hints_of(rig, 2, 0), BATCH / 2);
}

RIG_TEST(places_that_a_topic_does_not_need_are_given_to_others)
{
    due(rig, 1, 0, 300, 1000);
    due(rig, 2, 0, 10, 5000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), BATCH - 10);
    assert_int_equal(hints_of(rig, 2, 0), 10);
    assert_int_equal(rig->loop.fair.others, BATCH);
}

RIG_TEST(timeouts_have_their_own_queue_and_get_a_quarter)
{
    due(rig, 1, TIMEOUTS, 200, 1000);
    due(rig, 1, 0, 200, 3000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH / 4);
    assert_int_equal(hints_of(rig, 1, 0), BATCH - BATCH / 4);
}

/* However many there are, and however long they are due. */
RIG_TEST(topics_being_looked_up_use_no_room_of_others)
{
    size_t tried = 0;
    for (size_t topic = 2; topic < 60; topic++) {
        fake.unknown[topic] = true;
        due(rig, topic, 0, 4, 1000);
    }
    due(rig, 1, 0, 300, 5000);
    due_scan(rig);
    for (size_t topic = 2; topic < 60; topic++) {
        assert_in_range(hints_of(rig, topic, 0), 0, 1);
        tried += hints_of(rig, topic, 0);
        assert_int_equal(n_parked(topic_name(topic).p), 0); /* they may go soon */
    }
    assert_int_equal(tried, 16); /* so that somebody asks again */
    assert_int_equal(hints_of(rig, 1, 0), BATCH - 16);
    assert_true(rig->remainder);
}

/* ---- passing by ---- */

/* Of those that are due so many are not passed by. */
static size_t not_passed_by(struct rig *rig)
{
    size_t n = rig->n;
    rig->n = 0;
    return dt_shard_pass_by_unknown(&rig->loop, n);
}

RIG_TEST(jobs_are_skipped_while_their_topic_is_looked_up)
{
    due(rig, 1, 0, 3, 1000);
    assert_int_equal(not_passed_by(rig), 3);
    dt_shard_note_unknown(&rig->loop, 10000);
    dt_shard_note_unknown(&rig->loop, 10002);
    due(rig, 1, 0, 3, 1000);
    due(rig, 2, 0, 2, 1000);
    assert_int_equal(not_passed_by(rig), 3);
    assert_int_equal(rig->loop.due.entries[0].id, 10001);
    assert_int_equal(rig->loop.due.entries[1].id, 20000);
    assert_int_equal(rig->loop.due.entries[2].id, 20001);
    dt_shard_topics_changed(&rig->loop);
    due(rig, 1, 0, 3, 1000);
    assert_int_equal(not_passed_by(rig), 3);
}

/* Its row may have changed in another way than by what the leader is told. */
RIG_TEST(skipped_jobs_are_read_again_after_a_second)
{
    dt_shard_note_unknown(&rig->loop, 10000);
    fake.mono_us += SECOND / 2;
    dt_shard_note_unknown(&rig->loop, 10001); /* that puts the first one off no further */
    fake.mono_us += SECOND / 2 - 1;
    due(rig, 1, 0, 2, 1000);
    assert_int_equal(not_passed_by(rig), 0);
    fake.mono_us += 1;
    due(rig, 1, 0, 2, 1000);
    assert_int_equal(not_passed_by(rig), 2);
}

RIG_TEST(queued_jobs_of_a_topic_being_looked_up_are_not_tried)
{
    fake.unknown[2] = true;
    due(rig, 1, 0, 300, 5000);
    due(rig, 2, 0, 40, 1000);
    due(rig, 2, TIMEOUTS, 10, 1000);
    due_scan(rig);
    due(rig, 1, 0, 300, 5000);
    due(rig, 2, 0, 40, 1000);
    due(rig, 2, TIMEOUTS, 10, 1000);
    assert_int_equal(not_passed_by(rig), 300 + 10 + 1); /* timeouts do not wait; one was tried */
}

/* ---- parking ---- */

RIG_TEST(only_a_surplus_beyond_a_batch_is_parked_in_order)
{
    due(rig, 1, 0, 300, 1000);
    due(rig, 2, 0, 150, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 250);
    for (size_t i = 0; i < 250; i++)
        assert_int_equal(parked("t01")->ids[i], 10000 + 50 + i);
    assert_int_equal(n_parked("t02"), 0); /* a batch is left: it stays */
    assert_true(rig->remainder);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    assert_null(held(rig, "t02"));
    assert_true(dt_shard_parked_may_go(&rig->loop));
}

RIG_TEST(one_job_more_than_a_batch_is_a_surplus)
{
    due(rig, 1, 0, BATCH / 2 + BATCH, 1000);
    due(rig, 2, 0, BATCH / 2 + BATCH + 1, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 0);
    assert_int_equal(n_parked("t02"), BATCH + 1);
}

RIG_TEST(if_the_whole_surplus_is_parked_there_is_no_backlog)
{
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 200);
    assert_false(rig->remainder);
}

RIG_TEST(a_due_scan_at_its_limit_parks_what_exceeds_a_queues_share)
{
    for (size_t topic = 0; topic < 10; topic++)
        due(rig, topic, 0, SCAN / 10 - (topic == 0), 1000); /* one less than the limit */
    due_scan(rig);
    assert_int_equal(fake.n_sets, 0);
    for (size_t topic = 0; topic < 10; topic++)
        due(rig, topic, 0, SCAN / 10, 1000);
    due_scan(rig);
    assert_int_equal(fake.n_sets, 10);
    assert_int_equal(n_parked("t09"), SCAN / 10 - BATCH / 10);
}

RIG_TEST(one_due_scan_parks_a_bounded_number_of_queues)
{
    for (size_t topic = 0; topic < TOPICS; topic++)
        due(rig, topic, 0, SCAN / TOPICS, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
    assert_int_equal(fake.n_sets, 64);
    assert_true(rig->remainder);
}

RIG_TEST(jobs_without_a_topic_are_never_parked)
{
    fake.orphan[1] = true;
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(fake.n_sets, 0);
    assert_true(rig->remainder);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
}

RIG_TEST(if_parking_fails_mysql_is_read_instead_of_the_index)
{
    fake.refuse_hold = true;
    rig->loop.trust.marked_us = fake.mono_us;
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH); /* these go all the same */
    assert_true(rig->remainder);
    assert_true(rig->loop.cursor.reads_through);
    assert_int_equal(rig->loop.trust.marked_us, 0); /* does it take any change? */
    assert_int_equal(rig->loop.fair.n, 0);
}

/* ---- closed queues ---- */

RIG_TEST(one_job_of_an_unwritable_topic_is_tried_and_the_others_are_parked)
{
    fake.closed[1] = true;
    due(rig, 1, 0, 50, 1000);
    due(rig, 2, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 1);
    assert_int_equal(hints_of(rig, 2, 0), BATCH - 1);
    assert_int_equal(n_parked("t01"), 49);
    assert_true(dt_closed_rule(held(rig, "t01")->closed).holds);
}

/* Counted in due scans: as many of it go with the first one as if it were alone. */
RIG_TEST(an_unwritable_topic_does_not_slow_another)
{
    fake.closed[1] = true;
    for (int beside = 0; beside < 2; beside++) {
        due(rig, 2, 0, BATCH - 1, 5000);
        if (beside)
            due(rig, 1, 0, 4 * BATCH, 1000); /* all of it is overdue for longer */
        due_scan(rig);
        assert_int_equal(hints_of(rig, 2, 0), BATCH - 1);
        assert_int_equal(hints_of(rig, 1, 0), beside);
    }
}

RIG_TEST(a_paused_topic_is_closed_and_its_timeouts_are_not)
{
    fake.paused[1] = true;
    due(rig, 1, 0, 50, 1000);
    due(rig, 1, TIMEOUTS, 300, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 1);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH - 1);
    assert_int_equal(n_parked("t01"), 49);
    assert_int_equal(n_parked("t01~"), 300 - (BATCH - 1));
    assert_int_equal(held(rig, "t01~")->closed, DT_CLOSED_NOT);
}
