/*
 * Examiner, a chore: what this dispatcher sees that an API cannot (Kafka, ZooKeeper, its own clock and certificates),
 * for GET /v1/doctor. It writes when something changes, so that MySQL is asked for nothing where nothing is wrong.
 */
#ifndef DT_DISPATCHER_EXAMINER_H
#define DT_DISPATCHER_EXAMINER_H

#include "base/chores.h"
#include "base/config.h"
#include "features/doctor/finding.h"
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

/* Judges whether Kafka keeps its part of the promise, by the settings and the state of our topics, for GET /v1/doctor.
 * Pure. */

/* Hears of a finding; the texts are valid during the call. */
typedef void dt_found_here_fn(void *arg, enum dt_finding_kind finding, const char *subject, const char *detail);

/* Judges duetime's own topics. replicas: kafka.replication_factor. */
void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg);
/* Judges a topic that jobs are sent to. True: something was found. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg);

#endif
