/*
 * The parts of a process that use Kafka, besides its deliveries: topics, dead letters, commands, results, and how far
 * results are read.
 *
 *   reach, until it is OK ─▶ start ─▶ outbox, read_up_to, want_read ─▶ stop
 *
 * Without Kafka (kafka.brokers is empty) nothing connects or waits: dead letters are not sent, there are no commands,
 * and the process that receives a report applies it. Results that were stored while Kafka was configured are still
 * applied.
 */
#pragma once

#include "command_reader.h"
#include "features/doctor/finding.h"
#include "features/outbox/outbox.h"
#include "kafka.h"

/* Results from Kafka: a thread reads messages of <installation>.results in batches, applies the results in MySQL,
 * updates the index, and only then commits the offsets. An invalid record is sent to <installation>.results.rejected
 * with the reason. Results of jobs whose row another session keeps locked wait in MySQL (deferred_results), not in
 * memory. Without Kafka, the thread only applies results that wait in MySQL. */

typedef struct dt_results dt_results;

dt_status dt_results_start(const struct dt_process_env *env, dt_notice_producer *notices, dt_results **out,
                           struct dt_error *err);
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

dt_status dt_results_watermark_start(const struct dt_process_env *env, dt_results_watermark **out,
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

dt_status dt_examiner_start(const struct dt_process_env *env, dt_examiner **out);
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

/* Connects, creates kafka->admin and the installation's own topics. If Kafka does not answer, returns OK, and the
 * results thread creates the topics later. The caller frees the admin after the parts. */
dt_status dt_kafka_parts_reach(struct dt_kafka_env *kafka, struct dt_error *err);
/* Starts threads and chores. If this fails, the parts must still be stopped. */
dt_status dt_kafka_parts_start(const struct dt_process_env *env, dt_kafka_parts **out, struct dt_error *err);
/* Called when the outbox has dead letters for this process to send. Any thread. */
void dt_kafka_parts_outbox(dt_kafka_parts *parts);
/* Returns the watermarks (dt_results_watermark_up_to), or requests that they rise (dt_results_watermark_want). Without
 * Kafka, every report counts as read. Any thread. */
struct dt_read_up_to dt_kafka_parts_read_up_to(const dt_kafka_parts *parts);
void dt_kafka_parts_want_read(dt_kafka_parts *parts, unsigned shard, int64_t deadline_ms);
/* Returns the producer for messages of features; NULL without Kafka. It is not the producer of dead letters, so that
 * unanswered dead letters do not delay messages of features. Valid between the start and the stop of the parts. */
const struct dt_outbox_kafka *dt_kafka_parts_producer(const dt_kafka_parts *parts);
/* Joins the threads, frees. Accepts NULL. */
void dt_kafka_parts_stop(dt_kafka_parts *parts);
