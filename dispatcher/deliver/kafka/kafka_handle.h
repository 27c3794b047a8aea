/*
 * An on-demand handle: a librdkafka handle that exists only while it is used and for keep_ms after, because each handle
 * wakes four times a second for nothing. One user at a time: the owner's lock sees to that. Included by kafka_*.c only.
 *
 *   hold ─▶ use ─▶ let_go, or discard when the handle did not do what it should
 */
#ifndef DT_DISPATCHER_KAFKA_HANDLE_H
#define DT_DISPATCHER_KAFKA_HANDLE_H

#include "kafka_common.h"

struct dt_kafka_on_demand_ops {
    rd_kafka_type_t type; /* a producer, when left out */
    /* Makes the configuration of the handle. */
    dt_status (*conf)(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err);
    /* Called before a handle is destroyed, on another thread; may be NULL. */
    void (*closing)(void *rk);
};

typedef struct dt_kafka_on_demand dt_kafka_on_demand;

DT_MUST_CHECK dt_status dt_kafka_on_demand_new(const struct dt_kafka_env *env, const struct dt_kafka_on_demand_ops *ops,
                                               int keep_ms, dt_kafka_on_demand **out, struct dt_error *err);
/* Lends the handle, and makes it when there is none. */
DT_MUST_CHECK dt_status dt_kafka_on_demand_hold(dt_kafka_on_demand *handle, rd_kafka_t **rk, struct dt_error *err);
void dt_kafka_on_demand_let_go(dt_kafka_on_demand *handle);
/* Ends the use, and the handle: the next hold makes another one. */
void dt_kafka_on_demand_discard(dt_kafka_on_demand *handle);
bool dt_kafka_on_demand_open(dt_kafka_on_demand *handle);
void dt_kafka_on_demand_free(dt_kafka_on_demand *handle); /* accepts NULL; nobody holds it */

#endif
