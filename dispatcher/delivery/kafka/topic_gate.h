/*
 * A shard loop's memory of which Kafka topics can be written, so that a claim can ask while its row is locked. One a
 * thread; never waits for Kafka: what it does not know is found out elsewhere meanwhile. Topics are Kafka's names.
 */
#ifndef DT_DISPATCHER_TOPIC_GATE_H
#define DT_DISPATCHER_TOPIC_GATE_H

#include "kafka/kafka.h"
#include "store/dispatch/leader_txn.h"

typedef struct dt_topic_gate dt_topic_gate;

/* `told` is called on another thread when dt_topic_gate_resolve may have news. */
DT_MUST_CHECK dt_status dt_topic_gate_new(dt_kafka_admin *admin, const dt_clock *clock, void (*told)(void *arg),
                                          void *arg, dt_topic_gate **out);
void dt_topic_gate_free(dt_topic_gate *gate);
/* For dt_leader_gate.writable; arg: the gate. bytes = 0: of the topic as a whole. */
enum dt_writable dt_topic_gate_ask(void *arg, struct dt_str kafka_topic, int64_t bytes);
/* Takes in what has been found out by now of topics that were asked for and not known; does not wait for the others.
 * True: there is news, hints that were left may go now. */
bool dt_topic_gate_resolve(dt_topic_gate *gate);
/* Is anything still being found out? Then `told` will be called. */
bool dt_topic_gate_waits(const dt_topic_gate *gate);
/* Kafka refused a message to the topic. What was known of it is asked for anew; a topic that takes nothing although
 * Kafka describes it is left alone for a while, longer each time, and then tried with one message. */
void dt_topic_gate_refused(dt_topic_gate *gate, struct dt_str kafka_topic, bool whole_topic, const char *why);
/* Is there any topic that is being tried? Then tell what was sent. True: it takes messages again. */
bool dt_topic_gate_doubts(const dt_topic_gate *gate);
bool dt_topic_gate_sent(dt_topic_gate *gate, struct dt_str kafka_topic);
/* Why nothing can be found out at present, or a topic that due jobs wait for cannot be written; empty = fine. Valid
 * until the next call. */
const char *dt_topic_gate_trouble(const dt_topic_gate *gate);
/* Topics that due jobs wait for and that cannot be written. */
size_t dt_topic_gate_unwritable(const dt_topic_gate *gate);

#endif
