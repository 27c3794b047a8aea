/*
 * The parts of a process that use Kafka, besides its deliveries: topics, dead letters, commands, results, and how far
 * results are read.
 *
 *   new ─▶ reach, until it is OK ─▶ start ─▶ outbox, read_up_to, want_read ─▶ stop
 *
 * Without Kafka (kafka.brokers is empty) nothing connects or waits: dead letters are not sent, there are no commands,
 * and the process that receives a report applies it. Results that were stored while Kafka was configured are still
 * applied.
 */
#pragma once

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "command_reader.h"
#include "dispatch/leader.h"
#include "features/doctor/finding.h"
#include "features/outbox/outbox.h"
#include "index/index.h"
#include "job/shard.h"
#include "kafka.h"

/*
 * Results from Kafka: one thread that consumes <installation>.results in batches, applies them in MySQL, tells the
 * index, and only then commits the offsets. An invalid record is sent to <installation>.results.rejected with the
 * reason. Results of jobs whose row another session keeps locked wait in MySQL (deferred_results), not in memory.
 * Without Kafka, the thread only applies the results that wait there.
 */

typedef struct dt_results dt_results;

/* Shared parts; they must outlive the reader. Callbacks run on its thread. */
struct dt_results_env {
    const struct dt_config *config;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_notice_producer *notices;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    /* This process's rank among the dispatchers that share the partitions; false: not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    void (*outbox)(void *arg, unsigned shard); /* the shard's outbox has messages; another process may lead it */
    void (*index_entries_lost)(void *arg,
                               const dt_index *index); /* entries were lost: leaders must not trust the index */
    struct dt_room **room; /* notified when attempts have ended; may be NULL, or point to NULL */
};

DT_MUST_CHECK dt_status dt_results_start(const struct dt_results_env *env, dt_results **out, struct dt_error *err);
void dt_results_stop(dt_results *results); /* finishes the current batch, joins, frees; accepts NULL */

/*
 * The results watermark: the instant up to which the results topic has been read and applied, for leaders. A report
 * that was in the topic before the deadline of its attempt is accepted, even if it is read later. So an attempt times
 * out only when the watermark has reached its deadline.
 *
 * There are two. Attempts that Kafka delivered do not time out while Kafka does not answer. When it answers again,
 * their watermark waits 30 s for the reader, then rises without it. The watermark of all other attempts waits 30 s for
 * the reader, whether Kafka answers or not.
 *
 * A chore. If no leader waits, it sends no request to Kafka.
 */

typedef struct dt_results_watermark dt_results_watermark;

/* Shared parts; they must outlive the watermark. */
struct dt_results_watermark_env {
    dt_chores *chores;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*wake)(void *arg, unsigned shard); /* its leader need not wait any more; called in a tick, returns at once */
};

DT_MUST_CHECK dt_status dt_results_watermark_start(const struct dt_results_watermark_env *env,
                                                   dt_results_watermark **out, struct dt_error *err);
/* Any thread. Neither time ever decreases. */
struct dt_read_up_to dt_results_watermark_up_to(const dt_results_watermark *watermark);
/* Any thread, never blocks. The leader of the shard waits until both watermarks have reached deadline_ms. It calls
 * again at least once a second while it waits. */
void dt_results_watermark_want(dt_results_watermark *watermark, unsigned shard, int64_t deadline_ms);
void dt_results_watermark_stop(dt_results_watermark *watermark); /* accepts NULL */

/*
 * The examiner, a chore: finds problems that an API cannot see (Kafka, ZooKeeper, this process's clock and
 * certificates), for GET /v1/doctor. It writes to MySQL only when its findings change.
 */

typedef struct dt_examiner dt_examiner;

/* All borrowed; they must outlive the examiner. */
struct dt_examiner_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const dt_refclock *ref;
    dt_kafka_admin *admin;    /* NULL without Kafka */
    int64_t process;          /* the id of this process's row in `processes` */
    _Atomic bool *kafka_away; /* set here: Kafka did not answer the last request */
};

DT_MUST_CHECK dt_status dt_examiner_start(const struct dt_examiner_env *env, dt_examiner **out);
/* Stops the examiner. Waits at most as long as a request to Kafka takes. Accepts NULL. */
void dt_examiner_stop(dt_examiner *examiner);

/* Pure: checks the settings and the state of our topics in Kafka, for GET /v1/doctor. */

/* Receives a finding; the texts are valid during the call. */
typedef void dt_found_here_fn(void *arg, enum dt_finding_kind finding, const char *subject, const char *detail);

/* Checks duetime's own topics. replicas: kafka.replication_factor. */
void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg);
/* Checks a topic that jobs are sent to. True: there is a finding. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg);

/* ---- the parts together ---- */

typedef struct dt_kafka_parts dt_kafka_parts;

/* Copied; the objects that its members point at outlive the parts. start sets `kafka` and `sent` of the outbox and
 * `notices` of results. The chores of the outbox also serve commands. */
struct dt_kafka_parts_env {
    struct dt_kafka_env *kafka; /* reach sets its admin; all other members are set before reach */
    struct dt_outbox_env outbox;
    struct dt_results_env results;
    struct dt_results_watermark_env reads;
    void (*topics_changed)(void *arg); /* called after a command; arg: the one of results */
};

DT_MUST_CHECK dt_status dt_kafka_parts_new(const struct dt_kafka_parts_env *env, dt_kafka_parts **out);
/* Connects, and creates the installation's own topics. If Kafka does not answer, returns OK, and the results thread
 * creates them later. */
DT_MUST_CHECK dt_status dt_kafka_parts_reach(dt_kafka_parts *parts, struct dt_error *err);
/* Starts threads and chores. After a failure the parts can only be stopped. */
DT_MUST_CHECK dt_status dt_kafka_parts_start(dt_kafka_parts *parts, struct dt_error *err);
/* Any thread: there are dead letters for this process to send. */
void dt_kafka_parts_outbox(dt_kafka_parts *parts);
/* Any thread: as dt_results_watermark_up_to and dt_results_watermark_want. Without Kafka every report counts as
 * read. */
struct dt_read_up_to dt_kafka_parts_read_up_to(const dt_kafka_parts *parts);
void dt_kafka_parts_want_read(dt_kafka_parts *parts, unsigned shard, int64_t deadline_ms);
/* For the messages of features, which have their own producer, so that dead letters that Kafka does not answer do not
 * delay them. Valid between the start and the stop of the parts. NULL without Kafka. */
const struct dt_outbox_kafka *dt_kafka_parts_producer(const dt_kafka_parts *parts);
/* Joins, frees. The admin must not be in use. Accepts NULL. */
void dt_kafka_parts_stop(dt_kafka_parts *parts);
