/*
 * Internals of an admin, shared by its two files.
 *
 *   kafka_admin.c    requests to Kafka about topics, many at once; the installation's own topics
 *   kafka_topics.c   the cache of topics, and lookups on a thread of its own; start and end of the admin
 */
#pragma once

#include <pthread.h>

#include "job/job.h"
#include "kafka_common.h"

/* Maximal number of topics per request. Small, because other callers wait until the request is answered. */
#define DT_KAFKA_FIND_MAX 16

struct dt_kafka_lookups;

struct dt_kafka_admin {
    const struct dt_kafka_env *env;
    pthread_mutex_t request_lock; /* held during requests; protects the three members below */
    dt_kafka_on_demand *handle;
    rd_kafka_t *rk; /* valid while request_lock is held */
    rd_kafka_queue_t *queue;
    struct dt_kafka_lookups *lookups;
};

struct dt_kafka_finding {
    char name[DT_KAFKA_TOPIC_MAX + 1]; /* in */
    int64_t owner;                     /* input: the owner that is charged if the topic is created */
    dt_status status;                  /* OK, REFUSED, UNAVAILABLE (not known now), or BUSY (must be created) */
    bool made;                         /* the topic was missing, and was created */
    struct dt_kafka_topic_info info;   /* valid if status is OK */
    struct dt_error error;             /* valid if status is not OK */
};

/* ---- kafka_admin.c ---- */
/* Asks Kafka about up to DT_KAFKA_FIND_MAX topics; each name occurs once. If topics are created on demand, a missing
 * topic is created if `make` is true, and otherwise gets the status BUSY. Waits, and takes the request lock.
 * UNAVAILABLE: Kafka does not answer, and v is not valid. */
dt_status dt_kafka_admin_find(struct dt_kafka_admin *a, struct dt_kafka_finding *v, size_t n, bool make,
                              struct dt_error *err);

/* ---- kafka_topics.c ---- */
dt_status dt_kafka_lookups_new(struct dt_kafka_admin *a, struct dt_error *err);
void dt_kafka_lookups_free(struct dt_kafka_lookups *l); /* waits for running lookups; accepts NULL */
