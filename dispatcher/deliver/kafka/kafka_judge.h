/* Judges whether Kafka keeps its part of the promise, by the settings and the state of our topics, for GET /v1/doctor.
 * Pure. */
#ifndef DT_DISPATCHER_KAFKA_JUDGE_H
#define DT_DISPATCHER_KAFKA_JUDGE_H

#include "features/doctor/finding.h"
#include "kafka.h"

/* Hears of a finding; the texts are valid during the call. */
typedef void dt_found_here_fn(void *arg, enum dt_finding_kind finding, const char *subject, const char *detail);

/* Judges duetime's own topics. replicas: kafka.replication_factor. */
void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg);
/* Judges a topic that jobs go to. True: something was found. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg);

#endif
