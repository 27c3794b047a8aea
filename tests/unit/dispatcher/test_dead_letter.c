/* Dead letters: what Kafka would refuse for its size still arrives. */

#include "support/suite.h"

#include "deliver/kafka/message.h"

static struct dt_notice notice_of(struct dt_str payload, bool binary)
{
    return (struct dt_notice){.attempt = 3,
                              .made_at_ms = 1795273967083,
                              .job = {.id = 758663023165448,
                                      .topic = dt_str("orders"),
                                      .state = DT_DEAD,
                                      .attempt = 3,
                                      .failures = 3,
                                      .retry = dt_str("15s 3m"),
                                      .ack_timeout_ms = 60000,
                                      .payload = payload,
                                      .payload_binary = binary}};
}

static size_t size_of(const struct dt_kafka_message *message)
{
    size_t n = message->key.n + message->value.n;
    for (size_t i = 0; i < message->n_headers; i++)
        n += 10 + message->headers[i].name.n + message->headers[i].value.n;
    return n;
}

TEST(the_dead_letter_of_the_largest_binary_payload_fits_into_a_message)
{
    enum { LARGEST = 900000 };
    char *bytes = calloc(1, LARGEST);
    struct dt_arena arena = {0};
    struct dt_kafka_message message;
    struct dt_notice notice = notice_of((struct dt_str){bytes, LARGEST}, true);
    assert_int_equal(dt_message_of_notice(&notice, "duetime", &arena, &message), DT_OK);
    assert_true(size_of(&message) < 1040000);
    assert_true(message.value.n > 100);
    dt_arena_clear(&arena);
    free(bytes);
}

TEST(a_dead_letter_carries_the_payload)
{
    struct dt_kafka_message message;
    ARENA(arena);
    struct dt_notice notice = notice_of(dt_str("{\"order\":42}"), false);
    assert_int_equal(dt_message_of_notice(&notice, "duetime", &arena, &message), DT_OK);
    assert_true(dt_str_is(message.topic, "duetime.dead"));
    assert_true(message.value.n > 0 && message.value.n < 2000);
    bool carried = false;
    for (size_t i = 0; i + 12 <= message.value.n; i++)
        carried |= memcmp(message.value.p + i, "{\"order\":42}", 12) == 0;
    assert_true(carried);
}
