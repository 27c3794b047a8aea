/* The fair queues of a shard: queues with a held set, how those are listed, and whose queue an entry is. */
#include "unit/dispatcher/shard/queues_suite.h"

/* ---- queues with a held set ---- */

RIG_TEST(a_queue_with_a_held_set_sends_only_returned_jobs)
{
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.n_given, 1);
    assert_int_equal(fake.given[0].n, BATCH);
    due(rig, 1, 0, 40, 1000);  /* these came back: due before what is held still */
    due(rig, 1, 40, 30, 2001); /* newly due: behind them */
    due(rig, 2, 0, 10, 9000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 40);
    assert_int_equal(hints_of(rig, 2, 0), 10);
    assert_int_equal(n_parked("t01"), 30);
    assert_int_equal(rig->loop.fair.others, 10); /* so much room the held ones did not have */
}

RIG_TEST(at_the_first_held_millisecond_only_returned_jobs_are_sent)
{
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH - 20; /* half a batch is the least that it gets */
    fake.next_ms = 1000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.given[0].n, BATCH / 2);
    for (size_t i = 0; i < 80; i++)
        due(rig, 1, i, 1, 1000); /* all at once */
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), BATCH / 2);
    assert_int_equal(n_parked("t01"), 80 - BATCH / 2);
}

/* Twenty topics of one owner, and one of another. */
RIG_TEST(every_owner_gets_a_held_set_returned_before_any_gets_a_second)
{
    char name[8];
    size_t others = 0;
    plain.one_owner = 't';
    for (int i = 1; i <= 20; i++) {
        snprintf(name, sizeof name, "t%02d", i);
        dt_shard_note_held(&rig->loop, dt_str(name), DT_CLOSED_NOT);
    }
    dt_shard_note_held(&rig->loop, DT_STR_LIT("u01"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH;
    fake.next_ms = 2000;
    for (int i = 0; i < 5; i++) {
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        for (size_t k = 0; k < fake.n_given; k++)
            others += !strcmp(fake.given[k].name, "u01") && fake.given[k].n == BATCH / 4;
    }
    plain.one_owner = 0;
    assert_int_equal(others, 5);
}

/* Forty topics of one owner, and twenty other owners with one each, which are more than give something back at once. */
RIG_TEST(held_sets_of_many_owners_are_returned_in_turn)
{
    size_t got[20] = {0};
    char name[8];
    plain.one_owner = 't';
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, i < 40 ? "t%02d" : "u%02d", i < 40 ? i : i - 40);
        dt_shard_note_held(&rig->loop, dt_str(name), DT_CLOSED_NOT);
    }
    fake.next_ms = 2000;
    for (int i = 0; i < 21; i++) {
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        for (size_t k = 0; k < fake.n_given; k++)
            if (fake.given[k].name[0] == 'u')
                got[atoi(fake.given[k].name + 1)]++;
    }
    plain.one_owner = 0;
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(got[i], 8);
}

RIG_TEST(only_returned_timeouts_are_sent)
{
    dt_shard_note_held(&rig->loop, dt_str("t01~"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH;
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.given[0].n, BATCH / 2);
    due(rig, 1, TIMEOUTS, BATCH / 2 + 10, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH / 2);
    assert_int_equal(n_parked("t01~"), 10);
}

/* They stand in its due set, and came from elsewhere. */
RIG_TEST(timeouts_of_a_topic_do_not_count_as_its_returned_jobs)
{
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH;
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    due(rig, 1, TIMEOUTS, 30, 1000);
    due(rig, 1, 0, 50, 1100);
    due(rig, 1, 50, 40, 2001); /* newly due */
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 50);
    assert_int_equal(n_parked("t01"), 40);
}

RIG_TEST(an_empty_held_set_is_ignored)
{
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    dt_shard_note_held(&rig->loop, dt_str("t02"), DT_CLOSED_UNWRITABLE);
    dt_shard_note_held(&rig->loop, dt_str("t03"), DT_CLOSED_NOT);
    fake.next_ms = 0;
    dt_shard_give_back(&rig->loop);
    assert_null(held(rig, "t01"));
    assert_null(held(rig, "t03"));
    assert_non_null(held(rig, "t02")); /* a closed one got nothing, and stays */
    assert_int_equal(fake.n_given, 2);
    assert_false(dt_shard_parked_may_go(&rig->loop));
}

RIG_TEST(held_jobs_get_the_free_places_and_at_least_half_a_batch)
{
    static const size_t others[] = {0, 10, 49, 50, 51, 99, 100};
    fake.next_ms = 7;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rig->loop.fair.others = others[i];
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        assert_int_equal(fake.given[0].n, others[i] < BATCH / 2 ? BATCH - others[i] : BATCH / 2);
    }
}

RIG_TEST(many_held_queues_take_turns_and_none_is_forgotten)
{
    enum { HELD = 30 };
    size_t got[HELD] = {0};
    fake.next_ms = 7;
    for (size_t i = 0; i < HELD; i++)
        dt_shard_note_held(&rig->loop, topic_name(i), i % 5 ? DT_CLOSED_NOT : DT_CLOSED_PAUSED);
    assert_int_equal(rig->loop.fair.n, HELD);
    for (int round = 0; round < 60; round++) {
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        assert_int_equal(fake.n_given, 8);
        size_t sum = 0;
        for (size_t i = 0; i < fake.n_given; i++) {
            got[number_of(dt_str(fake.given[i].name))]++;
            sum += fake.given[i].n;
        }
        assert_int_equal(sum, BATCH);
    }
    for (size_t i = 0; i < HELD; i++)
        if (i % 5 == 0)
            assert_int_equal(got[i], 0);
        else
            assert_in_range(got[i], 15, 25); /* 480 among 24 */
}

RIG_TEST(if_returning_jobs_fails_none_are_expected)
{
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    fake.refuse_unhold = true;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(held(rig, "t01")->given, 0);
    due(rig, 1, 0, 30, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, 0);
    assert_int_equal(n_parked("t01"), 30);
}

/* What it has nothing to do with, it does not look at again and again. */
RIG_TEST(a_held_queue_without_room_is_closed_until_there_is_room)
{
    plain.called_back = 't';
    plain.all_places = 0;
    fake.next_ms = 7;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.n_given, 0);
    assert_false(dt_shard_parked_may_go(&rig->loop));
    plain.all_places = 5;
    dt_shard_look_for_room(&rig->loop);
    assert_true(dt_shard_parked_may_go(&rig->loop));
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.given[0].n, 5);
    memset(&plain, 0, sizeof plain);
}

/* ... or has no room at present. */
RIG_TEST(topics_of_jobs_are_cached_while_parked_jobs_may_be_sent)
{
    static const enum dt_closed words[] = {DT_CLOSED_NOT, DT_CLOSED_LIMIT, DT_CLOSED_PAUSED};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        due(rig, 1, 0, 40, 1000);
        due_scan(rig);
        due(rig, 1, 40, 120, 1000);
        due_scan(rig);
        fake.ids_asked = 0;
        dt_shard_note_held(&rig->loop, dt_str("t01"), words[i]);
        dt_shard_forget_topics_unless_held(&rig->loop);
        due(rig, 1, 140, 20, 1000); /* they were parked */
        due_scan(rig);
        assert_int_equal(fake.ids_asked, words[i] == DT_CLOSED_PAUSED ? 20 : 0);
    }
}

RIG_TEST(a_held_queue_is_recorded_once_with_its_current_state)
{
    char longest[DT_HELD_NAME_SIZE + 1];
    memset(longest, 'x', sizeof longest);
    for (int i = 0; i < 3; i++)
        dt_shard_note_held(&rig->loop, dt_str("t01"), i % 2 ? DT_CLOSED_PAUSED : DT_CLOSED_NOT);
    assert_int_equal(rig->loop.fair.n, 1);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_UNWRITABLE);
    assert_false(dt_shard_parked_may_go(&rig->loop));
    dt_shard_note_held(&rig->loop, (struct dt_str){longest, DT_HELD_NAME_SIZE}, DT_CLOSED_NOT); /* no name of ours */
    assert_int_equal(rig->loop.fair.n, 1);
}

/* ---- listing held sets ---- */

RIG_TEST(held_sets_are_listed_when_topics_changed_and_every_five_seconds)
{
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    assert_int_equal(fake.topics_read, 0); /* there are none */
    fake.mono_us += 5 * SECOND - 1;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    fake.mono_us += 1;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 2);
    rig->loop.fair.topics_changed = true;
    dt_shard_list_held(&rig->loop);
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 3);
}

RIG_TEST(a_failed_listing_of_held_sets_is_retried_at_the_next_due_scan)
{
    rig->loop.fair.topics_changed = true;
    rig->loop.index = (dt_index *)&fake;
    rig->loop.trust.up = false;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 0);
    rig->loop.trust.up = true;
    fake.refuse_held = true;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    assert_true(rig->loop.fair.topics_changed);
    assert_non_null(held(rig, "t01")); /* what was known stays */
    fake.refuse_held = false;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 2);
    assert_false(rig->loop.fair.topics_changed);
    assert_null(held(rig, "t01"));
}

RIG_TEST(held_jobs_may_be_sent_unless_their_topic_is_paused_or_closed_and_timeouts_always_may)
{
    static const char *const listed[] = {"t01", "t02", "t03", "t02~", "t03~"};
    memcpy(fake.listed, listed, sizeof listed);
    fake.n_listed = 5;
    fake.paused[2] = fake.closed[3] = true;
    rig->loop.fair.topics_changed = true;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.topics_read, 1);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    assert_true(dt_closed_rule(held(rig, "t02")->closed).holds);
    assert_true(dt_closed_rule(held(rig, "t03")->closed).holds);
    assert_int_equal(held(rig, "t02~")->closed, DT_CLOSED_NOT);
    assert_int_equal(held(rig, "t03~")->closed, DT_CLOSED_NOT);
    assert_int_equal(fake.n_given, 1); /* one of the topic that cannot be written finds out whether it can again */
    assert_members(fake.given[0], (name, "t03"), (n, 1));
}

/* Memory says when there is one. */
RIG_TEST(no_job_of_a_topic_without_callback_places_is_tried)
{
    static const char *const listed[] = {"t01", "t02"};
    memcpy(fake.listed, listed, sizeof listed);
    fake.n_listed = 2;
    plain.called_back = 't';
    rig->loop.fair.topics_changed = true;
    dt_shard_list_held(&rig->loop);
    assert_true(dt_closed_rule(held(rig, "t01")->closed).holds);
    assert_int_equal(fake.n_given, 0);
    plain.all_places = 5;
    fake.mono_us += 5 * SECOND;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.n_given, 2);
    memset(&plain, 0, sizeof plain);
}

/* ---- whose queue ---- */

RIG_TEST(a_topic_and_its_timeouts_are_two_queues_whatever_their_hashes)
{
    struct dt_error err = {0};
    for (size_t first = 0; first + 4 <= TOPICS; first++) {
        rig->n = 0;
        for (size_t topic = first; topic < first + 4; topic++) {
            due(rig, topic, 0, 1, 1000);
            due(rig, topic, TIMEOUTS, 1, 1000);
        }
        assert_int_equal(dt_shard_sort_queues(&rig->loop, rig->n, false, &err), DT_OK);
        assert_int_equal(rig->loop.fair.n_queues, 8);
        for (size_t i = 0; i < 8; i++) {
            const struct dt_due_queue *queue = &rig->loop.fair.queues[i];
            assert_int_equal(queue->waiting, 1);
            assert_true(!queue->timeouts ||
                        (queue->own && !queue->own->timeouts && dt_str_eq(queue->own->topic, queue->topic)));
        }
    }
}

RIG_TEST(the_topic_of_a_waiting_job_is_read_once_and_again_for_its_timeout)
{
    due(rig, 1, 0, 150, 1000);
    due(rig, 1, TIMEOUTS, 100, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 250);
    size_t went = hints_of(rig, 1, 0);
    due(rig, 1, went, 150 - went, 1000 + (int64_t)went);
    due(rig, 1, TIMEOUTS, 100, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 250 + 100);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), 25);
}

RIG_TEST(the_topics_of_the_next_claim_are_looked_up_again)
{
    due(rig, 1, 0, 50, 1000);
    due(rig, 2, 0, 50, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, 100);
    due(rig, 1, 0, 50, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 150);
}
