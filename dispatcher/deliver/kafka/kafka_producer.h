/*
 * A shard's producer pair: two transactional producers that take the transactions alternately. One thread owns a pair;
 * librdkafka's threads only post to it.
 */
#ifndef DT_DISPATCHER_KAFKA_PRODUCER_H
#define DT_DISPATCHER_KAFKA_PRODUCER_H

#include "kafka.h"

typedef struct dt_producer dt_producer;
/*
 * A new producer with two transactional ids, used by turns: <installation>-<uuid>-<shard>, and the same with -b;
 * metadata of the ledger asked for; init_transactions done for both: older producers of the shard are fenced, their
 * transactions complete. UNAVAILABLE: not within a transaction timeout, try again; REFUSED; SHUTDOWN when `stop`
 * (checked at least every 100 ms) became true.
 */
DT_MUST_CHECK dt_status dt_producer_new(const struct dt_kafka_env *env, unsigned shard, const _Atomic bool *stop,
                                        dt_producer **out, struct dt_error *err);
/* Any state; never blocks longer than about two seconds. A transaction whose commit was not asked for is aborted in the
 * background, if its connections are whole and Kafka answers within half a second; any other is left to the next
 * takeover's fencing. */
void dt_producer_free(dt_producer *producer);
/*
 * One transaction: the messages and one ledger record (key and value given) to partition `shard` of the ledger. It is
 * begun, whereupon the client sends everything by itself, copied; and it is committed: every delivery report in and
 * right, exactly one EndTxn request sent, no broker disconnect meanwhile. What was begun and is not committed is seen
 * by nobody who reads committed messages, and holds them up until it is aborted: the producer must be freed then.
 * dt_producer_send does both.
 *   OK       begun; committed, and *ledger_offset is the record's valid offset
 *   REFUSED  Kafka refused one of the messages for good; nothing is committed by this call, but the producer must be
 *            freed. Never for the ledger record, nor for what concerns the producer as a whole (no right to its
 *            transactional id, say): those are doubts
 *   DOUBT    anything else: free the producer and take over
 * Retriable errors before EndTxn are retried inside for at most about the transaction timeout, counted from the
 * beginning. Metadata of topics is asked for before that, at a topic's first use, for at most as long.
 */
DT_MUST_CHECK dt_status dt_producer_begin(dt_producer *producer, const struct dt_kafka_message *messages, size_t n,
                                          struct dt_str record_key, struct dt_str record_value, struct dt_error *err);
DT_MUST_CHECK dt_status dt_producer_commit(dt_producer *producer, int64_t *ledger_offset, struct dt_error *err);
DT_MUST_CHECK dt_status dt_producer_send(dt_producer *producer, const struct dt_kafka_message *messages, size_t n,
                                         struct dt_str record_key, struct dt_str record_value, int64_t *ledger_offset,
                                         struct dt_error *err);
/* Would these begin without waiting: their topics are known and take a whole batch. What it found holds for the next
 * dt_producer_begin, which must be with them. */
bool dt_producer_ready(dt_producer *producer, const struct dt_kafka_message *messages, size_t n);

/* Looks up existing topics before a batch needs them, all in one request. Waits for at most 0.5 s; what fails is left
 * to dt_producer_begin. Not while a transaction is open. */
void dt_producer_meet(dt_producer *producer, const struct dt_str *topics, size_t n);

/* After REFUSED: what was refused. Valid until the producer is freed. */
struct dt_kafka_refusal {
    const char *topic; /* whose message it was; empty when Kafka did not say */
    bool whole_topic;  /* it takes no message at all (missing, not authorised), not just this one */
};
struct dt_kafka_refusal dt_producer_refusal(const dt_producer *producer);

/*
 * ---- one producer of a pair (kafka_txn_producer.c), for kafka_producer.c alone ----
 *
 * One transactional id, one transaction at a time. Used by the owner's thread. What is not said here is as in kafka.h.
 */

typedef struct dt_txn_producer dt_txn_producer;

/* transactional.id = <installation>-<uuid>-<shard><suffix>; connects in the background. *out is to be freed whatever is
 * returned. */
DT_MUST_CHECK dt_status dt_txn_producer_new(const struct dt_kafka_env *env, unsigned shard, const char *suffix,
                                            dt_txn_producer **out, struct dt_error *err);
/* Waits for the ledger's metadata (it has to be connected: else asking for the coordinator costs half a second), then
 * has older producers with its id fenced and their transaction completed, without waiting for that. After *stop
 * is set, calls wait only for the answer to a commit. */
DT_MUST_CHECK dt_status dt_txn_producer_start(dt_txn_producer *p, int64_t deadline_us, const _Atomic bool *stop,
                                              struct dt_error *err);
/* Waits until the fencing that dt_txn_producer_start began is done. */
DT_MUST_CHECK dt_status dt_txn_producer_await_fenced(dt_txn_producer *p, int64_t deadline_us, const _Atomic bool *stop,
                                                     struct dt_error *err);
void dt_txn_producer_free(dt_txn_producer *p);

/* Has the messages' topics and their limits known: what is not yet is asked for. */
DT_MUST_CHECK dt_status dt_txn_producer_learn(dt_txn_producer *p, const struct dt_kafka_message *messages, size_t n,
                                              struct dt_error *err);
/* Has topics that exist known ahead of their first message, all by one request; what fails is left to
 * dt_txn_producer_learn. Waits for at most 0.2 s. */
void dt_txn_producer_meet(dt_txn_producer *p, const struct dt_str *names, size_t n);
/* Without asking anybody: are all topics known, and does each take a batch as large as ours? */
bool dt_txn_producer_ready(dt_txn_producer *p, const struct dt_kafka_message *messages, size_t n);
/* After either of the two for the same messages, with all topics known. It is the nth transaction of both lines; of the
 * record key and value count. */
DT_MUST_CHECK dt_status dt_txn_producer_begin(dt_txn_producer *p, uint32_t nth, const struct dt_kafka_message *messages,
                                              size_t n, const struct dt_kafka_message *record, struct dt_error *err);
DT_MUST_CHECK dt_status dt_txn_producer_commit(dt_txn_producer *p, int64_t *ledger_offset, struct dt_error *err);
struct dt_kafka_refusal dt_txn_producer_refusal(const dt_txn_producer *p);

#endif
