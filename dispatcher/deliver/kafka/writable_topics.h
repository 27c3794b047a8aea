/* A shard loop's cache of which Kafka topics can be written, so that a claim can check while its row is locked. For one
 * thread. No function waits for Kafka: another thread looks up unknown topics. Names are those of topics in Kafka. */
#pragma once

#include "dispatch/leader.h"
#include "kafka.h"

typedef struct dt_writable_topics dt_writable_topics;

/* Creates a cache. `told` is called on another thread when dt_writable_topics_resolve may find answers. */
dt_status dt_writable_topics_new(dt_kafka_admin *admin, const dt_clock *clock, void (*told)(void *arg), void *arg,
                                 dt_writable_topics **out);
void dt_writable_topics_free(dt_writable_topics *known);
/* Whether a message of this size may be sent to the topic, for dt_leader_gate.writable; arg: the cache. bytes = 0:
 * whether the topic accepts messages at all. */
enum dt_writable dt_writable_topics_ask(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
/* Applies finished lookups of topics; does not wait for running lookups. Returns true if the state of a topic changed,
 * so that jobs that a transaction skipped may be sent now. */
bool dt_writable_topics_resolve(dt_writable_topics *known);
/* Returns the number of topics that the last dt_writable_topics_resolve found writable for the first time, at most
 * `room`, and stores their names, which are valid until the cache is freed. */
size_t dt_writable_topics_found(const dt_writable_topics *known, struct dt_str *names, size_t room);
/* Whether a lookup still runs. If so, `told` will be called. */
bool dt_writable_topics_waits(const dt_writable_topics *known);
/* Called when Kafka refused a message to the topic: the topic is looked up again. If Kafka refused the whole topic
 * although it describes the topic as writable, the topic is barred for a while, longer each time, and then tried with
 * one message. */
void dt_writable_topics_refused(dt_writable_topics *known, struct dt_str kafka_topic, bool whole_topic,
                                const char *why);
/* Returns whether any topic is being tried with one message. If so, the caller must report what was sent to
 * dt_writable_topics_sent, which returns true if the topic accepts messages again. */
bool dt_writable_topics_doubts(const dt_writable_topics *known);
bool dt_writable_topics_sent(dt_writable_topics *known, struct dt_str kafka_topic);
/* Why lookups fail at present, or why a topic that due jobs wait for cannot be written; empty: no trouble. Valid until
 * the next call. */
const char *dt_writable_topics_trouble(const dt_writable_topics *known);
/* Returns the number of topics that due jobs wait for and that cannot be written. */
size_t dt_writable_topics_unwritable(const dt_writable_topics *known);
