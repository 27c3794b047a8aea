/* Which topics a claim may take: what the memory answers, finds out, and learns from what Kafka refused. */

#include "support/suite.h"

#include "deliver/kafka/writable_topics.h"

#define SECOND INT64_C(1000000)
#define TOPIC  DT_STR_LIT("orders")

/* ---- a Kafka that knows one topic, and a clock ---- */

static struct {
    dt_status status;
    int64_t max_bytes;
    unsigned asked, forgotten, sends;
    int64_t now_us;
} kafka;

dt_status dt_kafka_asker_new(dt_kafka_admin *, void (*)(void *arg), void *arg, dt_kafka_asker **out)
{
    (void)arg;
    *out = NULL;
    return DT_OK;
}

STUB(void, dt_kafka_asker_free, (dt_kafka_asker * asker), )

void dt_kafka_asker_sends(dt_kafka_asker *, int64_t)
{
    kafka.sends++;
}

dt_status dt_kafka_asker_ask(dt_kafka_asker *, struct dt_str topic, int64_t, struct dt_kafka_topic_info *out,
                             struct dt_error *err)
{
    assert_true(dt_str_eq(topic, TOPIC) || dt_str_is(topic, "other"));
    kafka.asked++;
    *out = (struct dt_kafka_topic_info){.max_message_bytes = kafka.max_bytes, .partitions = 1};
    return kafka.status == DT_OK ? DT_OK : dt_fail(err, kafka.status, "Kafka says no");
}

void dt_kafka_admin_forget(dt_kafka_admin *, struct dt_str)
{
    kafka.forgotten++;
}

STUB(static int64_t, mono_us, (const dt_clock *clock), kafka.now_us)

static const dt_clock hand_clock = {.mono_us = mono_us};
static dt_writable_topics *known;

static void make(void)
{
    kafka.status = DT_OK;
    kafka.max_bytes = 1000;
    kafka.asked = kafka.forgotten = kafka.sends = 0;
    kafka.now_us = 1000 * SECOND;
    assert_int_equal(dt_writable_topics_new(NULL, &hand_clock, NULL, NULL, &known), DT_OK);
}

static void clear(void)
{
    dt_writable_topics_free(known);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

static enum dt_writable ask(int64_t bytes)
{
    return dt_writable_topics_ask(known, TOPIC, 1, bytes);
}

/* The topic as it is now is known. */
static void learn(void)
{
    (void)ask(1);
    dt_writable_topics_resolve(known);
}

static void refuse(bool whole)
{
    dt_writable_topics_refused(known, TOPIC, whole, "not authorised");
}

/* ---- knowing ---- */

FRESH_TEST(an_unknown_topic_is_looked_up_and_the_caller_notified)
{
    assert_int_equal(ask(10), DT_WRITABLE_UNKNOWN);
    assert_int_equal(kafka.asked, 0); /* a row is locked meanwhile */
    assert_true(dt_writable_topics_resolve(known));
    assert_int_equal(ask(10), DT_WRITABLE_YES);
    assert_false(dt_writable_topics_resolve(known)); /* nothing was asked for anew */
    assert_int_equal(kafka.asked, 1);
}

FRESH_TEST(the_maker_of_topics_learns_of_a_sending_owner_a_few_times_a_second)
{
    (void)ask(10);
    assert_int_equal(kafka.sends, 0); /* it does not send yet */
    learn();
    for (int i = 0; i < 100; i++, kafka.now_us += SECOND / 100)
        (void)ask(10);
    assert_in_range(kafka.sends, 4, 6);
    (void)dt_writable_topics_ask(known, TOPIC, 1, 0); /* a question about the topic as a whole sends nothing */
    assert_in_range(kafka.sends, 4, 6);
}

FRESH_TEST(a_topic_is_found_when_it_is_first_known_to_be_writable)
{
    struct dt_str found[2] = {{0}};
    assert_int_equal(dt_writable_topics_found(known, found, 2), 0);
    kafka.status = DT_REFUSED;
    learn();
    assert_int_equal(dt_writable_topics_found(known, found, 2), 0);
    kafka.status = DT_OK;
    kafka.now_us += 6 * SECOND;
    (void)dt_writable_topics_ask(known, DT_STR_LIT("other"), 1, 1);
    learn();
    assert_int_equal(dt_writable_topics_found(known, found, 2), 2);
    assert_true(dt_str_eq(found[0], TOPIC) != dt_str_eq(found[1], TOPIC));
    assert_int_equal(dt_writable_topics_found(known, found, 1), 1);
    kafka.now_us += 31 * SECOND;
    learn(); /* what is looked up anew is no find */
    assert_int_equal(dt_writable_topics_found(known, found, 2), 0);
}

FRESH_TEST(a_topic_that_is_still_being_looked_up_stays_wanted)
{
    kafka.status = DT_BUSY;
    assert_int_equal(ask(10), DT_WRITABLE_UNKNOWN);
    assert_false(dt_writable_topics_resolve(known));
    assert_int_equal(ask(10), DT_WRITABLE_UNKNOWN);
    assert_string_equal(dt_writable_topics_trouble(known), ""); /* it takes its time: nothing is wrong */
    assert_false(dt_writable_topics_resolve(known));
    assert_int_equal(kafka.asked, 2); /* once a time, whoever asked in between */
    kafka.status = DT_OK;
    assert_true(dt_writable_topics_resolve(known)); /* though nobody has asked since */
    assert_int_equal(ask(10), DT_WRITABLE_YES);
}

FRESH_TEST(a_known_topic_is_used_while_it_is_looked_up_again)
{
    learn();
    kafka.now_us += 31 * SECOND;
    assert_int_equal(ask(10), DT_WRITABLE_YES);
    kafka.max_bytes = 5;
    assert_false(dt_writable_topics_resolve(known)); /* no news: nobody waited */
    assert_int_equal(kafka.asked, 2);
    assert_int_equal(ask(10), DT_WRITABLE_ALONE);
}

FRESH_TEST(a_message_that_may_be_too_large_is_sent_alone)
{
    learn();
    assert_int_equal(ask(1000), DT_WRITABLE_YES);
    assert_int_equal(ask(1001), DT_WRITABLE_ALONE);
    assert_string_equal(dt_writable_topics_trouble(known), "");
}

FRESH_TEST(an_unwritable_topic_is_looked_up_again_and_reported_while_jobs_wait)
{
    kafka.status = DT_REFUSED;
    learn();
    assert_int_equal(ask(10), DT_WRITABLE_NO);
    assert_int_equal(ask(0), DT_WRITABLE_NO);
    assert_string_equal(dt_writable_topics_trouble(known), "Kafka says no");
    assert_int_equal(dt_writable_topics_unwritable(known), 1);
    kafka.now_us += 6 * SECOND;
    kafka.status = DT_OK;
    assert_int_equal(ask(10), DT_WRITABLE_NO);
    assert_true(dt_writable_topics_resolve(known));
    assert_int_equal(ask(10), DT_WRITABLE_YES);
    assert_string_equal(dt_writable_topics_trouble(known), "");
    assert_int_equal(dt_writable_topics_unwritable(known), 0);
}

FRESH_TEST(a_closed_topic_without_waiting_jobs_is_not_reported)
{
    kafka.status = DT_REFUSED;
    learn();
    kafka.now_us += 16 * SECOND;
    (void)ask(0); /* whether the held ones may come back: no due job */
    assert_string_equal(dt_writable_topics_trouble(known), "");
    assert_int_equal(dt_writable_topics_unwritable(known), 0);
}

FRESH_TEST(a_silent_kafka_is_reported_and_changes_nothing)
{
    kafka.status = DT_UNAVAILABLE;
    learn();
    assert_int_equal(ask(10), DT_WRITABLE_UNKNOWN);
    assert_string_equal(dt_writable_topics_trouble(known), "Kafka says no");
    assert_int_equal(dt_writable_topics_unwritable(known), 0);
    kafka.status = DT_OK;
    assert_true(dt_writable_topics_resolve(known));
    assert_string_equal(dt_writable_topics_trouble(known), "");
}

/* ---- refused ---- */

FRESH_TEST(a_refused_message_causes_a_new_lookup_of_its_topic)
{
    learn();
    kafka.max_bytes = 100;
    refuse(false);
    assert_int_equal(kafka.forgotten, 1);
    assert_int_equal(ask(500), DT_WRITABLE_UNKNOWN);
    assert_true(dt_writable_topics_resolve(known));
    assert_int_equal(ask(50), DT_WRITABLE_YES); /* the topic itself is fine */
    assert_int_equal(ask(500), DT_WRITABLE_ALONE);
    assert_false(dt_writable_topics_doubts(known));
}

FRESH_TEST(a_topic_that_refuses_everything_is_barred_and_then_tried_with_one_message)
{
    learn();
    refuse(true);
    assert_true(dt_writable_topics_doubts(known));
    assert_int_equal(ask(10), DT_WRITABLE_NO);
    assert_string_equal(dt_writable_topics_trouble(known), "not authorised");
    assert_int_equal(dt_writable_topics_unwritable(known), 1);
    kafka.now_us += 5 * SECOND;
    assert_int_equal(ask(0), DT_WRITABLE_NO); /* those that are held stay */
    learn();
    assert_int_equal(ask(10), DT_WRITABLE_ALONE);
    assert_int_equal(ask(0), DT_WRITABLE_NO);
    assert_true(dt_writable_topics_sent(known, TOPIC));
    assert_int_equal(ask(10), DT_WRITABLE_YES);
    assert_int_equal(ask(0), DT_WRITABLE_YES);
    assert_false(dt_writable_topics_doubts(known));
    assert_false(dt_writable_topics_sent(known, TOPIC)); /* no news */
    assert_int_equal(dt_writable_topics_unwritable(known), 0);
}

FRESH_TEST(each_failed_try_doubles_the_wait_up_to_five_minutes)
{
    int64_t wait = 5 * SECOND;
    learn();
    for (int i = 0; i < 12; i++) {
        refuse(true);
        kafka.now_us += wait - 1;
        assert_int_equal(ask(10), DT_WRITABLE_NO);
        kafka.now_us += 1;
        learn();
        assert_int_equal(ask(10), DT_WRITABLE_ALONE);
        wait = wait * 2 < 300 * SECOND ? wait * 2 : 300 * SECOND;
    }
}

FRESH_TEST(refusals_of_earlier_claims_count_once)
{
    learn();
    for (int i = 0; i < 50; i++)
        refuse(true); /* a whole batch of it, one after the other */
    kafka.now_us += 5 * SECOND;
    learn();
    assert_int_equal(ask(10), DT_WRITABLE_ALONE);
}

FRESH_TEST(the_states_of_topics_are_independent)
{
    learn();
    (void)dt_writable_topics_ask(known, DT_STR_LIT("other"), 1, 1);
    dt_writable_topics_resolve(known);
    refuse(true);
    assert_int_equal(dt_writable_topics_ask(known, DT_STR_LIT("other"), 1, 1), DT_WRITABLE_YES);
    assert_false(dt_writable_topics_sent(known, DT_STR_LIT("other")));
    assert_int_equal(dt_writable_topics_unwritable(known), 1);
}
