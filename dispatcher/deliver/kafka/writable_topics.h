/*
 * A shard loop's memory of which Kafka topics can be written, so that a claim can ask while its row is locked. One a
 * thread. It never waits for Kafka: another thread looks up what it does not know. Topics are Kafka's names.
 */
#ifndef DT_DISPATCHER_WRITABLE_TOPICS_H
#define DT_DISPATCHER_WRITABLE_TOPICS_H

#include "dispatch/leader.h"
#include "kafka.h"

typedef struct dt_writable_topics dt_writable_topics;

/* `told` is called on another thread when dt_writable_topics_resolve may have news. */
DT_MUST_CHECK dt_status dt_writable_topics_new(dt_kafka_admin *admin, const dt_clock *clock, void (*told)(void *arg),
                                               void *arg, dt_writable_topics **out);
void dt_writable_topics_free(dt_writable_topics *known);
/* For dt_leader_gate.writable; arg: the memory. bytes = 0: of the topic as a whole. */
enum dt_writable dt_writable_topics_ask(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
/* Takes in what has been found out by now of topics that were asked for and not known; does not wait for the others.
 * True: there is news, hints that were left may go now. */
bool dt_writable_topics_resolve(dt_writable_topics *known);
/* Names of topics that the last dt_writable_topics_resolve found writable and no earlier one had, `room` at most; they
 * hold until the memory is freed. */
size_t dt_writable_topics_found(const dt_writable_topics *known, struct dt_str *names, size_t room);
/* Whether a lookup still runs. Then `told` will be called. */
bool dt_writable_topics_waits(const dt_writable_topics *known);
/* Kafka refused a message to the topic. What was known of it is looked up again. If Kafka describes a topic that
 * takes nothing, it is left alone for a while, longer each time, and then tried with one message. */
void dt_writable_topics_refused(dt_writable_topics *known, struct dt_str kafka_topic, bool whole_topic,
                                const char *why);
/* Is there any topic that is being tried? Then tell what was sent. True: it takes messages again. */
bool dt_writable_topics_doubts(const dt_writable_topics *known);
bool dt_writable_topics_sent(dt_writable_topics *known, struct dt_str kafka_topic);
/* Why nothing can be found out at present, or a topic that due jobs wait for cannot be written; empty = fine. Valid
 * until the next call. */
const char *dt_writable_topics_trouble(const dt_writable_topics *known);
/* Topics that due jobs wait for and that cannot be written. */
size_t dt_writable_topics_unwritable(const dt_writable_topics *known);

#endif
