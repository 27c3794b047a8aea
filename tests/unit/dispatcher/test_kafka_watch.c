/* What the watch of a transaction makes of librdkafka's log, and of connections that are closed. There is no server. */
#include <fcntl.h>

#include "support/suite.h"

#include "deliver/kafka/kafka_common.h"

static struct dt_kafka_watch watch;

static void begin(void)
{
    dt_kafka_watch_init(&watch);
    dt_kafka_watch_open(&watch);
}

static void end(void)
{
    dt_kafka_watch_clear(&watch);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

/* The topic that is told of after the line. */
static const char *after(const char *facility, const char *text)
{
    static char topic[DT_KAFKA_TOPIC_MAX + 1];
    dt_kafka_watch_log(&watch, facility, text);
    dt_kafka_watch_unjoined(&watch, topic, sizeof topic);
    return topic;
}

static const char *refused(const char *topic, const char *why)
{
    static char text[DT_KAFKA_TOPIC_MAX + 200];
    snprintf(text, sizeof text, "Failed to add partition \"%s\" [3] to transaction: %s", topic, why);
    return text;
}

FRESH_TEST(the_first_topic_refused_by_a_transaction_is_known)
{
    assert_string_equal(after("ADDPARTS", refused("orders.x", "Broker: Topic authorization failed")), "orders.x");
    assert_string_equal(after("ADDPARTS", refused("later", "Broker: Topic authorization failed")), "orders.x");
    dt_kafka_watch_open(&watch);
    assert_string_equal(after("ADDPARTS", refused("later", "Broker: Topic authorization failed")), "later");
}

FRESH_TEST(an_error_without_a_topic_names_no_topic)
{
    char name[DT_KAFKA_TOPIC_MAX + 2];
    assert_string_equal(after("ADDPARTS", "Adding partitions to transaction"), "");
    assert_string_equal(after("FAIL", refused("orders.x", "why")), "");
    assert_string_equal(after("ADDPARTS", refused("", "why")), "");
    assert_string_equal(
        after("ADDPARTS", refused("other", rd_kafka_err2str(RD_KAFKA_RESP_ERR_OPERATION_NOT_ATTEMPTED))), "");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_string_equal(after("ADDPARTS", refused(name, "longer than a name may be")), "");
    name[sizeof name - 2] = '\0';
    assert_string_equal(after("ADDPARTS", refused(name, "as long")), name);
}

FRESH_TEST(without_a_transaction_nothing_is_recorded)
{
    assert_true(dt_kafka_watch_close(&watch).clean == false); /* no EndTxn went out */
    assert_string_equal(after("ADDPARTS", refused("orders.x", "why")), "");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    watch.fds[watch.n_fds++] = fd;
    assert_int_equal(dt_kafka_watch_close_socket(&watch, fd), 0);
    assert_false(dt_kafka_watch_broken(&watch));
}

FRESH_TEST(a_closed_connection_counts_when_it_carried_something_of_the_transaction)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    watch.fds[watch.n_fds++] = fd;
    assert_int_equal(dt_kafka_watch_close_socket(&watch, other), 0);
    assert_false(dt_kafka_watch_broken(&watch));
    assert_int_equal(dt_kafka_watch_close_socket(&watch, fd), 0);
    assert_true(dt_kafka_watch_broken(&watch));
    assert_false(dt_kafka_watch_close(&watch).clean);
}

FRESH_TEST(with_too_many_connections_any_closed_one_counts)
{
    watch.n_fds = DT_KAFKA_WATCHED_MAX;
    memset(watch.fds, -1, sizeof watch.fds);
    assert_int_equal(dt_kafka_watch_close_socket(&watch, open("/dev/null", O_RDONLY | O_CLOEXEC)), 0);
    assert_true(dt_kafka_watch_broken(&watch));
}
