/*
 * Results from Kafka: one thread that consumes <installation>.results in batches, applies them in MySQL, tells the
 * index, and only then commits the offsets. A record that cannot be understood goes to <installation>.results.rejected
 * with the reason. Results of jobs whose row another session keeps locked wait in MySQL (deferred_results), not in
 * memory. Where there is no Kafka, the thread applies what waits there from before, and nothing else.
 */
#ifndef DT_DISPATCHER_RESULTS_H
#define DT_DISPATCHER_RESULTS_H

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "dispatch/leader_txn.h"
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
    struct dt_room **room; /* notified when attempts have ended; may be NULL, or point to NULL */
};

DT_MUST_CHECK dt_status dt_results_start(const struct dt_results_env *env, dt_results **out, struct dt_error *err);
void dt_results_stop(dt_results *results); /* finishes the batch at hand, joins, frees; NULL is accepted */

/*
 * The results watermark: the instant up to which the results topic has been read and applied, for leaders. A report
 * that lay in the topic before the deadline of its attempt counts, also when it is read later. So an attempt is timed
 * out only when the watermark has reached its deadline.
 *
 * There are two. Attempts that Kafka delivered do not time out while Kafka does not answer. When it answers again,
 * their watermark waits 30 s for the reader, then rises without it. The watermark of all other attempts waits 30 s for
 * the reader, whether Kafka answers or not.
 *
 * A chore. Kafka is asked nothing while no leader waits.
 */

typedef struct dt_results_watermark dt_results_watermark;

/* Shared parts; must outlive the watermark. */
struct dt_results_watermark_env {
    dt_chores *chores;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*wake)(void *arg, unsigned shard); /* its leader waits no longer; in a tick, returns at once */
};

DT_MUST_CHECK dt_status dt_results_watermark_start(const struct dt_results_watermark_env *env,
                                                   dt_results_watermark **out, struct dt_error *err);
/* Any thread. Neither instant ever falls. */
struct dt_read_up_to dt_results_watermark_up_to(const dt_results_watermark *watermark);
/* Any thread, never blocks. The leader of the shard waits until both watermarks have reached deadline_ms. It calls
 * again at least once a second while it waits. */
void dt_results_watermark_want(dt_results_watermark *watermark, unsigned shard, int64_t deadline_ms);
void dt_results_watermark_stop(dt_results_watermark *watermark); /* accepts NULL */

#endif
