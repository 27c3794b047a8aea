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

/* Results from Kafka: a thread reads messages of <installation>.results in batches, applies the results in MySQL,
 * updates the index, and only then commits the offsets. An invalid record is sent to <installation>.results.rejected
 * with the reason. Results of jobs whose row another session keeps locked wait in MySQL (deferred_results), not in
 * memory. Without Kafka, the thread only applies results that wait in MySQL. */

typedef struct dt_results dt_results;

/* What a process provides to its results thread; it must outlive the thread. Callbacks run on that thread. */
struct dt_results_env {
    const struct dt_config *config;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_notice_producer *notices;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    /* Returns this process's rank among the dispatchers that share the partitions. False: the rank is not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    /* Called when messages were added to the shard's outbox; another process may lead the shard. */
    void (*outbox)(void *arg, unsigned shard);
    void (*index_entries_lost)(void *arg,
                               /* Called when index entries were lost: no leader may trust this index. */
                               const dt_index *index);
    struct dt_room **room; /* notified when attempts have ended (topics may have room); may be or point to NULL */
};

dt_status dt_results_start(const struct dt_results_env *env, dt_results **out, struct dt_error *err);
void dt_results_stop(dt_results *results); /* finishes the current batch, joins, frees; accepts NULL */

/*
 * The results watermark: the instant up to which the results topic has been read and applied. Leaders compare deadlines
 * of attempts with it: if a report was in the topic before its attempt's deadline, the report is accepted even if it is
 * read later, so an attempt times out only when the watermark has reached its deadline.
 *
 * There are two watermarks. Attempts that Kafka delivered do not time out while Kafka does not answer. When Kafka
 * answers again, their watermark waits 30 s for the reader of results, then rises without the reader. The watermark of
 * all other attempts waits 30 s for the reader, whether Kafka answers or not.
 *
 * The watermark is a chore. If no leader waits for it, the chore sends no request to Kafka.
 */

typedef struct dt_results_watermark dt_results_watermark;

/* What a process provides to its watermark; it must outlive the watermark. */
struct dt_results_watermark_env {
    dt_chores *chores;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*wake)(void *arg, unsigned shard); /* called in a tick when the shard's leader need not wait any more */
};

dt_status dt_results_watermark_start(const struct dt_results_watermark_env *env, dt_results_watermark **out,
                                     struct dt_error *err);
/* Returns both watermarks. Neither ever decreases. Any thread. */
struct dt_read_up_to dt_results_watermark_up_to(const dt_results_watermark *watermark);
/* Requests that both watermarks rise to deadline_ms, because the shard's leader waits for that. The leader repeats the
 * call at least once a second while it waits. Any thread, never blocks. */
void dt_results_watermark_want(dt_results_watermark *watermark, unsigned shard, int64_t deadline_ms);
void dt_results_watermark_stop(dt_results_watermark *watermark); /* accepts NULL */

/* The examiner, a chore: finds problems that an API cannot see (Kafka, ZooKeeper, this process's clock and
 * certificates), for GET /v1/doctor. It writes to MySQL only when its findings change. */

typedef struct dt_examiner dt_examiner;

/* What a process provides to its examiner. All borrowed, and must outlive the examiner. */
struct dt_examiner_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    const dt_refclock *ref;
    dt_kafka_admin *admin;    /* NULL without Kafka */
    int64_t process;          /* the id of this process's row in `processes` */
    _Atomic bool *kafka_away; /* set by the examiner: Kafka did not answer the last request */
};

dt_status dt_examiner_start(const struct dt_examiner_env *env, dt_examiner **out);
/* Stops the examiner. Waits at most as long as a request to Kafka takes. Accepts NULL. */
void dt_examiner_stop(dt_examiner *examiner);

/* Checks the settings and the state of topics in Kafka, for GET /v1/doctor. Pure. */

/* Receives a finding; the texts are valid during the call. */
typedef void dt_found_here_fn(void *arg, enum dt_finding_kind finding, const char *subject, const char *detail);

/* Checks the installation's own topics. replicas: kafka.replication_factor. */
void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg);
/* Checks a topic that jobs are sent to. Returns whether a finding was reported. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg);

/* ---- the parts together ---- */

typedef struct dt_kafka_parts dt_kafka_parts;

/* What a process provides to the parts that use Kafka. Copied; the objects that its members point at outlive the parts.
 * dt_kafka_parts_start sets `kafka` and `sent` of the outbox and `notices` of results. The chores of the outbox also
 * serve commands. */
struct dt_kafka_parts_env {
    struct dt_kafka_env *kafka; /* dt_kafka_parts_reach sets its admin; the caller sets all other members before */
    struct dt_outbox_env outbox;
    struct dt_results_env results;
    struct dt_results_watermark_env reads;
    void (*topics_changed)(void *arg); /* called with the `arg` of results after a command has changed topics */
};

dt_status dt_kafka_parts_new(const struct dt_kafka_parts_env *env, dt_kafka_parts **out);
/* Connects, and creates the installation's own topics. If Kafka does not answer, returns OK, and the results thread
 * creates them later. */
dt_status dt_kafka_parts_reach(dt_kafka_parts *parts, struct dt_error *err);
/* Starts threads and chores. If this fails, the parts must still be stopped. */
dt_status dt_kafka_parts_start(dt_kafka_parts *parts, struct dt_error *err);
/* Called when the outbox has dead letters for this process to send. Any thread. */
void dt_kafka_parts_outbox(dt_kafka_parts *parts);
/* Returns the watermarks (dt_results_watermark_up_to), or requests that they rise (dt_results_watermark_want). Without
 * Kafka, every report counts as read. Any thread. */
struct dt_read_up_to dt_kafka_parts_read_up_to(const dt_kafka_parts *parts);
void dt_kafka_parts_want_read(dt_kafka_parts *parts, unsigned shard, int64_t deadline_ms);
/* Returns the producer for messages of features; NULL without Kafka. It is not the producer of dead letters, so that
 * unanswered dead letters do not delay messages of features. Valid between the start and the stop of the parts. */
const struct dt_outbox_kafka *dt_kafka_parts_producer(const dt_kafka_parts *parts);
/* Joins the threads, frees. The admin must not be in use. Accepts NULL. */
void dt_kafka_parts_stop(dt_kafka_parts *parts);
