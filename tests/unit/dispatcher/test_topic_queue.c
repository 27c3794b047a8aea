/* Topics that somebody wants to know of: each once, in turns between those who want them, never more than fit. */

#include "support/suite.h"

#include "deliver/kafka/topic_queue.h"
#include "topic/owners.h"

static dt_topic_queue *queue;

static void make(void)
{
    assert_int_equal(dt_topic_queue_new(&queue), DT_OK);
}

static void clear(void)
{
    dt_topic_queue_free(queue);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

static dt_status add(const char *name)
{
    return dt_topic_queue_add(queue, dt_str(name), dt_owner_by_name(dt_str(name)));
}

static dt_status add_numbered(const char *group, int number)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d", group, number);
    return add(name);
}

static void assert_next_at(int64_t now_us, const char *name)
{
    char next[DT_TOPIC_NAME_MAX + 1] = "";
    int64_t owner;
    assert_true(dt_topic_queue_ready_us(queue, now_us) <= now_us);
    assert_true(dt_topic_queue_take(queue, now_us, next, &owner));
    assert_string_equal(next, name);
    assert_int_equal(owner, dt_owner_by_name(dt_str(name)));
}

static void assert_next(const char *name)
{
    assert_next_at(1, name);
}

static void assert_none_until(int64_t now_us, int64_t ready_us)
{
    char next[DT_TOPIC_NAME_MAX + 1];
    int64_t owner;
    assert_int_equal(dt_topic_queue_ready_us(queue, now_us), ready_us);
    assert_false(dt_topic_queue_take(queue, now_us, next, &owner));
}

static void assert_empty(void)
{
    assert_none_until(1, INT64_MAX);
    assert_int_equal(dt_topic_queue_length(queue), 0);
}

FRESH_TEST(names_of_one_group_are_taken_in_order_and_once)
{
    assert_int_equal(add("orders.b"), DT_OK);
    assert_int_equal(add("orders.a"), DT_OK);
    assert_int_equal(add("orders.b"), DT_OK); /* it is there */
    assert_int_equal(dt_topic_queue_length(queue), 2);
    assert_next("orders.b");
    assert_int_equal(add("orders.b"), DT_OK); /* it was taken, so it is wanted anew */
    assert_next("orders.a");
    assert_next("orders.b");
    assert_empty();
}

FRESH_TEST(owners_with_many_topics_wait_for_owners_with_few)
{
    for (int i = 0; i < 300; i++)
        assert_int_equal(add_numbered("flood.", i), DT_OK);
    assert_int_equal(add("orders.close"), DT_OK);
    assert_int_equal(add("remind"), DT_OK);
    assert_next("flood.0");
    assert_next("orders.close");
    assert_next("remind");
    assert_int_equal(add("orders.open"), DT_OK);
    assert_next("flood.1");
    assert_next("orders.open");
    for (int i = 2; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, "flood.%d", i);
        assert_next(name);
    }
    assert_empty();
}

FRESH_TEST(a_full_group_leaves_room_for_others)
{
    for (int i = 0; i < DT_TOPIC_QUEUE_GROUP; i++)
        assert_int_equal(add_numbered("flood.", i), DT_OK);
    assert_int_equal(add("flood.more"), DT_FULL);
    assert_int_equal(add("flood.7"), DT_OK); /* it is there */
    assert_int_equal(add("orders"), DT_OK);
    assert_next("flood.0");
    assert_int_equal(add("flood.more"), DT_OK);
}

FRESH_TEST(the_queue_is_bounded)
{
    for (int i = 0; i < DT_TOPIC_QUEUE_MAX; i++)
        assert_int_equal(add_numbered("t", i), DT_OK);
    assert_int_equal(add("one-more"), DT_FULL);
    assert_int_equal(dt_topic_queue_length(queue), DT_TOPIC_QUEUE_MAX);
    assert_next("t0");
    assert_int_equal(add("one-more"), DT_OK);
    assert_int_equal(add("and-another"), DT_FULL);
}

#define SECOND INT64_C(1000000)

FRESH_TEST(a_group_whose_names_cost_more_than_its_share_waits_and_the_others_do_not)
{
    const int64_t t = 1000 * SECOND;
    const int64_t ready = t + DT_TOPIC_QUEUE_SHARE * 3 * SECOND - DT_TOPIC_QUEUE_AHEAD_US;
    for (int i = 0; i < 5; i++)
        assert_int_equal(add_numbered("flood.", i), DT_OK);
    assert_next_at(t, "flood.0");
    dt_topic_queue_charge(queue, dt_owner_by_name(DT_STR_LIT("flood")), SECOND, t); /* twenty seconds: in advance */
    assert_next_at(t, "flood.1");
    dt_topic_queue_charge(queue, dt_owner_by_name(DT_STR_LIT("flood")), 2 * SECOND, t);
    assert_none_until(t, ready);
    assert_int_equal(add("orders.close"), DT_OK);
    assert_next_at(t, "orders.close");
    assert_none_until(ready - 1, ready);
    assert_next_at(ready, "flood.2");
    assert_next_at(ready, "flood.3"); /* cost nothing: others had made it */
    assert_int_equal(dt_topic_queue_length(queue), 1);
}

FRESH_TEST(the_debt_of_a_group_is_remembered_while_it_has_no_topics)
{
    const int64_t t = 1000 * SECOND;
    const int64_t ready = t + DT_TOPIC_QUEUE_SHARE * 2 * SECOND - DT_TOPIC_QUEUE_AHEAD_US;
    assert_int_equal(add("flood.0"), DT_OK);
    assert_next_at(t, "flood.0");
    dt_topic_queue_charge(queue, dt_owner_by_name(DT_STR_LIT("flood")), 2 * SECOND, t);
    assert_none_until(t, INT64_MAX);
    assert_int_equal(add("flood.1"), DT_OK);
    assert_none_until(t + SECOND, ready);
    assert_next_at(ready, "flood.1");
    assert_none_until(ready + 1000 * SECOND, INT64_MAX); /* all is paid, and it is forgotten */
    assert_int_equal(add("flood.2"), DT_OK);
    assert_next_at(1, "flood.2");
}

FRESH_TEST(a_single_owner_has_no_debt)
{
    const int64_t t = 1000 * SECOND;
    const int64_t flood = dt_owner_by_name(DT_STR_LIT("flood"));
    int64_t owner = 0;
    assert_false(dt_topic_queue_alone(queue, &owner));
    for (int i = 0; i < 3; i++)
        assert_int_equal(add_numbered("flood.", i), DT_OK);
    dt_topic_queue_charge(queue, flood, 10 * SECOND, t);
    dt_topic_queue_charge(queue, dt_owner_by_name(DT_STR_LIT("orders")), SECOND, t); /* it wants nothing now */
    assert_true(dt_topic_queue_alone(queue, &owner));
    assert_int_equal(owner, flood);
    assert_true(dt_topic_queue_ready_us(queue, t) > t);
    dt_topic_queue_forgive(queue, flood);
    assert_next_at(t, "flood.0");
    assert_int_equal(add("orders.close"), DT_OK);
    assert_false(dt_topic_queue_alone(queue, &owner));
    dt_topic_queue_forgive(queue, dt_owner_by_name(DT_STR_LIT("orders")));
    assert_next_at(t, "orders.close");
    assert_true(dt_topic_queue_alone(queue, &owner));
    assert_next_at(t, "flood.1");
    dt_topic_queue_forgive(queue, 12345); /* nobody knows it */
}

FRESH_TEST(an_invalid_name_is_not_queued)
{
    char longest[DT_TOPIC_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(add(""), DT_INVALID);
    assert_int_equal(dt_topic_queue_add(queue, (struct dt_str){longest, DT_TOPIC_NAME_MAX + 1}, 1), DT_INVALID);
    assert_int_equal(dt_topic_queue_add(queue, (struct dt_str){longest, DT_TOPIC_NAME_MAX}, 1), DT_OK);
    assert_int_equal(add(".hidden"), DT_OK);
    assert_int_equal(add("."), DT_OK);
    assert_int_equal(dt_topic_queue_length(queue), 3);
}
