/*
 * One of a shard's two transactional producers (kafka_producer.c, the only one to include this, has them by turns): one
 * transactional id, one transaction at a time. Used by the owner's thread. What is not said here is as in kafka.h.
 */
#ifndef DT_DISPATCHER_KAFKA_TXN_PRODUCER_H
#define DT_DISPATCHER_KAFKA_TXN_PRODUCER_H

#include "kafka_producer.h"

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
