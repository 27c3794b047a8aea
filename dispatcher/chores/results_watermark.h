/*
 * Up to which instant the results topic has been read, for leaders: a report that lay in the topic before the deadline
 * of its attempt counts, also when it is read later, so an attempt is timed out only when everything is applied that
 * was in the topic at its deadline. Nobody is waited for longer than 30 s.
 *
 * One thread a process. Nothing is asked of Kafka while no leader waits.
 */
#ifndef DT_DISPATCHER_RESULTS_WATERMARK_H
#define DT_DISPATCHER_RESULTS_WATERMARK_H

#include "base/clock.h"
#include "kafka/kafka.h"

typedef struct dt_results_watermark dt_results_watermark;

/* Shared parts; must outlive it. */
struct dt_results_watermark_env {
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*wake)(void *arg, unsigned shard); /* its leader waits no longer; on the watch's thread, returns at once */
};

DT_MUST_CHECK dt_status dt_results_watermark_start(const struct dt_results_watermark_env *env,
                                                   dt_results_watermark **out, struct dt_error *err);
/* Any thread. Attempts whose deadline is not after this instant (by MySQL's clock) may be timed out. It never falls. */
int64_t dt_results_watermark_up_to(const dt_results_watermark *watch);
/* Any thread, never blocks. The leader of the shard waits for that instant; it says so again at least once a second for
 * as long as it does. */
void dt_results_watermark_want(dt_results_watermark *watch, unsigned shard, int64_t deadline_ms);
void dt_results_watermark_stop(dt_results_watermark *watch); /* joins, frees; NULL is accepted */

#endif
