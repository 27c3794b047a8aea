/*
 * A librdkafka handle that exists only while it is used and for some seconds after: each one that exists wakes four
 * times a second for nothing. One user at a time (the owner's lock sees to that). Included by kafka_*.c only.
 */
#ifndef DT_DISPATCHER_KAFKA_WARM_H
#define DT_DISPATCHER_KAFKA_WARM_H

#include "kafka_common.h"

struct dt_kafka_warm_ops {
    rd_kafka_type_t type; /* a producer, when left out */
    /* The configuration of the handle. */
    dt_status (*conf)(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err);
    /* Before a handle is destroyed, on another thread; may be NULL. */
    void (*closing)(void *rk);
};

typedef struct dt_kafka_warm dt_kafka_warm;

DT_MUST_CHECK dt_status dt_kafka_warm_new(const struct dt_kafka_env *env, const struct dt_kafka_warm_ops *ops,
                                          int keep_ms, dt_kafka_warm **out, struct dt_error *err);
/* The handle, made when there is none. */
DT_MUST_CHECK dt_status dt_kafka_warm_hold(dt_kafka_warm *warm, rd_kafka_t **rk, struct dt_error *err);
void dt_kafka_warm_let_go(dt_kafka_warm *warm);
/* Instead of letting it go: the next hold gets another one. */
void dt_kafka_warm_discard(dt_kafka_warm *warm);
bool dt_kafka_warm_open(dt_kafka_warm *warm);
void dt_kafka_warm_free(dt_kafka_warm *warm); /* accepts NULL; nobody holds it */

#endif
