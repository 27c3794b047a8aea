/*
 * The inside of an admin, shared by its two files.
 *
 *   kafka_admin.c    requests to Kafka, of many topics at once; our own topics
 *   kafka_topics.c   what is known of topics: remembered, and looked up on a thread of its own; the admin's start and
 *   end
 */
#pragma once

#include <pthread.h>

#include "job/job.h"
#include "kafka_common.h"

/* Maximal number of topics per request, because other requests wait meanwhile. */
#define DT_KAFKA_FIND_MAX 16

struct dt_kafka_lookups;

struct dt_kafka_admin {
    const struct dt_kafka_env *env;
    pthread_mutex_t request_lock; /* around requests, and for the three below */
    dt_kafka_on_demand *handle;
    rd_kafka_t *rk; /* valid while a request runs */
    rd_kafka_queue_t *queue;
    struct dt_kafka_lookups *lookups;
};

struct dt_kafka_finding {
    char name[DT_KAFKA_TOPIC_MAX + 1]; /* in */
    int64_t owner;                     /* in: the owner that is charged if it is created */
    dt_status status;                  /* OK, REFUSED, UNAVAILABLE: not known now, or BUSY: must be created */
    bool made;                         /* it was missing, and was created */
    struct dt_kafka_topic_info info;   /* valid with OK */
    struct dt_error error;             /* valid with other statuses */
};

/* ---- kafka_admin.c ---- */
/* Asks Kafka about up to DT_KAFKA_FIND_MAX topics, each once. If one is missing and topics are created on demand, it
 * is created (make), or BUSY. Waits, and takes the request lock. UNAVAILABLE: Kafka does not answer, nothing was
 * learned. */
DT_MUST_CHECK dt_status dt_kafka_admin_find(struct dt_kafka_admin *a, struct dt_kafka_finding *v, size_t n, bool make,
                                            struct dt_error *err);

/* ---- kafka_topics.c ---- */
DT_MUST_CHECK dt_status dt_kafka_lookups_new(struct dt_kafka_admin *a, struct dt_error *err);
void dt_kafka_lookups_free(struct dt_kafka_lookups *l); /* accepts NULL; waits for running lookups */
