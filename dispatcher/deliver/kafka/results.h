/*
 * Results from Kafka: one thread that consumes <installation>.results in batches, applies them in MySQL, tells the
 * index, and only then commits the offsets. A record that cannot be understood goes to <installation>.results.rejected
 * with the reason. Results of jobs whose row another session keeps locked wait in MySQL (deferred_results), not in
 * memory. Where there is no Kafka, the thread applies what waits there from before, and nothing else.
 */
#ifndef DT_DISPATCHER_RESULTS_H
#define DT_DISPATCHER_RESULTS_H

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"
#include "job/shard.h"
#include "kafka.h"

typedef struct dt_results dt_results;

/* Shared parts; must outlive the reader. Callbacks run on its thread. */
struct dt_results_env {
    const struct dt_config *config;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_notice_producer *notices;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    /* This process's place among the dispatchers, which share the partitions; false: not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    void (*outbox)(void *arg, unsigned shard); /* the shard's outbox has something; it may be led elsewhere */
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost: leaders must not believe the index */
    struct dt_room **room; /* told when attempts have ended; NULL, or none there yet: nobody is */
};

DT_MUST_CHECK dt_status dt_results_start(const struct dt_results_env *env, dt_results **out, struct dt_error *err);
void dt_results_stop(dt_results *results); /* finishes the batch at hand, joins, frees; NULL is accepted */

#endif
