/*
 * How long a producer rests after a commit. Kafka writes a transaction's markers after it has answered EndTxn; who asks
 * for a partition of the next one before they are written is told CONCURRENT_TRANSACTIONS, and librdkafka then waits
 * for 20 ms. How long Kafka takes depends on the machine and what else it does, and is not told, so it is learnt: each
 * time the pause was too short it grows, otherwise it shrinks little by little. In balance one transaction in a
 * hundred comes too soon. Pure.
 */
#ifndef DT_DISPATCHER_KAFKA_PAUSE_H
#define DT_DISPATCHER_KAFKA_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/* librdkafka (2.0.2) itself waits for a millisecond more before it asks for a transaction's first partition. */
#define DT_KAFKA_PAUSE_MIN_US  INT64_C(500)
#define DT_KAFKA_PAUSE_MAX_US  INT64_C(5000)
#define DT_KAFKA_PAUSE_MORE_US INT64_C(1000)
#define DT_KAFKA_PAUSE_LESS_US INT64_C(10)
/* Between two requests of a transaction for partitions: so much means that the first was refused. */
#define DT_KAFKA_REFUSED_US INT64_C(15000)

/* The next pause, after a transaction that came too soon, or did not. */
int64_t dt_kafka_pause(int64_t pause_us, bool too_soon);

#endif
