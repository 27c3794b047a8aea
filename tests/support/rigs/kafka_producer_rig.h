/* A producer of a suite's own, and what its readers see. */
#pragma once

#include <glob.h>

#include "base/metrics.h"
#include "support/kafka_fixture.h"
#include "support/redis_fixture.h"

static struct kafka_fixture fx;

static inline void make(void)
{
    kafka_fixture_make(&fx, "producer");
}

static inline void clear(void)
{
    kafka_fixture_clear(&fx);
}

static inline const char *ledger(void)
{
    return kafka_fixture_own(&fx, "ledger");
}

FREED_AT(dt_producer *, dt_producer_free)
#define PRODUCER(name) OWNED(dt_producer *, name, dt_producer_free_at)

static inline dt_producer *producer(unsigned shard)
{
    struct dt_error err = {0};
    dt_producer *p = NULL;
    KAFKA_FIXTURE_OK(dt_producer_new(&fx.env, shard, NULL, &p, &err), &err);
    return p;
}

static inline struct dt_kafka_message message(const char *key, const char *value)
{
    return (struct dt_kafka_message){.topic = dt_str(fx.topic), .key = dt_str(key), .value = dt_str(value)};
}

static inline dt_status send_one(dt_producer *p, const char *key, const char *value, int64_t *offset,
                                 struct dt_error *err)
{
    const struct dt_kafka_message m = message(key, value);
    return dt_producer_send(p, &m, 1, DT_STR_LIT("batch"), dt_str(key), offset, err);
}

static inline size_t count(const char *topic, enum kafka_view view)
{
    struct kafka_seen *seen;
    size_t n = kafka_fixture_read(&fx, topic, view, &seen);
    free(seen);
    return n;
}

static inline size_t committed(const char *topic)
{
    return count(topic, KAFKA_COMMITTED);
}

#define RIG_TEST(name) TEST_WITH(name, make, clear)
