/*
 * Examiner, a chore: what this dispatcher sees that an API cannot (Kafka, ZooKeeper, its own clock and certificates),
 * for GET /v1/doctor. It writes when something changes, so that MySQL is asked for nothing where nothing is wrong.
 */
#ifndef DT_DISPATCHER_EXAMINER_H
#define DT_DISPATCHER_EXAMINER_H

#include "base/chores.h"
#include "base/config.h"
#include "kafka.h"

typedef struct dt_examiner dt_examiner;

/* All borrowed; must outlive the examiner. */
struct dt_examiner_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const dt_refclock *ref;
    dt_kafka_admin *admin;    /* NULL without Kafka */
    int64_t process;          /* the id of this process's row in `processes` */
    _Atomic bool *kafka_away; /* is written: Kafka did not answer the latest question */
};

DT_MUST_CHECK dt_status dt_examiner_start(const struct dt_examiner_env *env, dt_examiner **out);
/* Waits no longer than a request to Kafka takes. Accepts NULL. */
void dt_examiner_stop(dt_examiner *examiner);

#endif
