/*
 * The delivery by Kafka, as a shard's leader uses it: sends claimed attempts, and tells a new leader which of them were
 * sent. If an installation has no Kafka (kafka.brokers is empty), nothing connects: no topic can be written, so jobs
 * wait, and a list that is not empty is frozen (deliver/kafka/delivery_kafka.c).
 *
 * A dt_delivery belongs to one shard. It is made when the shard's loop starts and freed when it ends. Calls in brackets
 * may wait for Kafka and run on the sender's thread (shard_batch.c); others run on the loop's thread. While a call in
 * brackets runs, the loop calls only writable, finding_out and trouble. The protocol of the calls:
 *
 *   takeover   (MySQL: epoch + 1) ─▶ [forget ─▶ fence ─▶ read] ─▶ (MySQL: settle, or halt) ─▶ settled ─▶ start
 *   batch      clear ─▶ (MySQL, inside the transaction: writable, begin ahead) ─▶ (MySQL: commit)
 *              ─▶ [begin, unless it was begun ahead ─▶ commit] ─▶ finish
 *   between    resolve, tend, notice
 *   the end    [close]
 *
 * Invariants:
 *   - Readers see messages only after dt_delivery_commit; the claim is committed before that.
 *   - After any status except OK the leadership has ended. Nothing is sent again from memory; the next dt_delivery_read
 *     decides what was sent.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/config.h"
#include "deliver/kafka/kafka.h"
#include "dispatch/fence.h"
#include "dispatch/leader.h"
#include "job/inflight.h"

typedef struct dt_delivery dt_delivery;

struct dt_kafka_env; /* deliver/kafka/kafka.h */

/* Clients and pools that the deliveries of a process share. Borrowed: it outlives every delivery. */
struct dt_delivery_servers {
    const struct dt_kafka_env *kafka;
    struct dt_hands *hands; /* hands.h: attempts that leaders claim into the hands of the process */
};

/* The surroundings that a shard provides. Copied; the objects that its members point at outlive the delivery. */
struct dt_delivery_env {
    const struct dt_delivery_servers *servers;
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    unsigned shard;
    const _Atomic bool *abort; /* blocking calls poll it and end with SHUTDOWN */
    void (*told)(void *arg);   /* called on any thread when dt_delivery_resolve may have news; returns at once */
    void *arg;
};

/* Nothing is connected yet. *out is freed by the caller. */
DT_MUST_CHECK dt_status dt_delivery_new(const struct dt_delivery_env *env, dt_delivery **out);
void dt_delivery_free(dt_delivery *delivery);

/* ---- takeover ---- */

struct dt_delivery_findings {
    char halt[320];      /* not empty: the sent batches and the row contradict each other, so the shard must halt */
    bool sent;           /* the first fence->send_n entries of the in-flight list were sent and committed */
    int64_t next_offset; /* where the next read begins: the row's new ledger_offset */
    /* Borrowed: the exact list that this process had sent when Kafka refused it permanently; n = 0: none. */
    struct dt_inflight refused;
    const char *refusal; /* the reason of that refusal; borrowed */
};

/* Begins a takeover: closes the delivery and forgets the earlier leadership, except a refusal. */
void dt_delivery_forget(dt_delivery *delivery);
/* Opens the delivery so that earlier leaders of the shard cannot send or commit any more. UNAVAILABLE: try again;
 * REFUSED; SHUTDOWN. */
DT_MUST_CHECK dt_status dt_delivery_fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err);
/* After fence: reads what was sent since fence->ledger_offset and compares it with the in-flight list. *findings is
 * valid only after OK; its borrowed members stay valid until dt_delivery_settled or dt_delivery_forget_refusal. */
DT_MUST_CHECK dt_status dt_delivery_read(dt_delivery *delivery, const struct dt_fence *fence,
                                         const struct dt_inflight *inflight, struct dt_delivery_findings *findings,
                                         struct dt_error *err);
/* The findings are settled and committed in MySQL: forgets the refusal, which was used. */
void dt_delivery_settled(dt_delivery *delivery, const struct dt_delivery_findings *findings);
/* A step of the takeover was refused, so the remembered refusal may have been about us, and not about a message. */
void dt_delivery_forget_refusal(dt_delivery *delivery);
/* The leadership begins: stores in the shard's row what must be there before a batch is sent. Commits a leader
 * transaction if needed. Any status except OK: the leadership has ended. */
DT_MUST_CHECK dt_status dt_delivery_start(dt_delivery *delivery, dt_store *store, struct dt_fence *fence,
                                          struct dt_error *err);

/* ---- a batch ---- */

/* The batch: the head of the in-flight list, the first fence->send_n entries. All borrowed until the commit. */
struct dt_delivery_batch {
    const struct dt_fence
        *fence; /* as in the row; if ahead of the claim: as the row will be when the claim is committed */
    const struct dt_claim *claims; /* entries of the in-flight list */
    const struct dt_outgoing
        *jobs;              /* the message of each entry; without a topic: its row was deleted, and it is skipped */
    struct dt_arena *arena; /* for the messages; lives until the commit */
};
struct dt_delivered {
    int64_t settle_offset; /* the first offset after the batch's ledger record */
    bool reopened;         /* a barred topic accepts messages again */
};

/* A leader transaction begins: forgets what was sent before. */
void dt_delivery_clear(dt_delivery *delivery);
/* Begins sending a batch. ahead: its claim is not committed yet, so it begins only if it need not wait, and
 * dt_delivery_begun returns whether it did. A failure is returned by dt_delivery_commit. */
void dt_delivery_begin(dt_delivery *delivery, const struct dt_delivery_batch *batch, bool ahead);
/* Whether sending was begun since the last clear, or failed to begin. */
bool dt_delivery_begun(const dt_delivery *delivery);
/* Whether a begun sending has failed already; the reason is in *err. OK: not begun, or no failure yet. */
DT_MUST_CHECK dt_status dt_delivery_begin_status(const dt_delivery *delivery, struct dt_error *err);
/* Commits what was begun. MySQL must have committed the claim. */
DT_MUST_CHECK dt_status dt_delivery_commit(dt_delivery *delivery, struct dt_error *err);
/* Handles the outcome of dt_delivery_commit: its status and error, with the row's fence and inflight. If this does not
 * return OK, the caller closes the delivery and opens it in a new epoch. REFUSED: the server will never accept one of
 * the messages; the delivery remembers the list for the next takeover. */
DT_MUST_CHECK dt_status dt_delivery_finish(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                                           const struct dt_inflight *inflight, struct dt_delivered *out,
                                           struct dt_error *err);

/* ---- topics ---- */

/* Whether a message of this size may be sent to the topic now; bytes = 0: the topic as a whole. If the topic must be
 * created, `owner` (topic/owners.h) is charged. Answers from memory. */
enum dt_writable dt_delivery_writable(dt_delivery *delivery, struct dt_str topic, int64_t owner, int64_t bytes);
/* Applies the results of lookups. True: jobs that were left may be sent now. Never waits. */
bool dt_delivery_resolve(dt_delivery *delivery);
/* Whether a lookup runs; env.told is called when it ends. */
bool dt_delivery_finding_out(const dt_delivery *delivery);

/* ---- between batches ---- */

/* Maintenance while leading: a bounded step that returns at once. May commit its own leader transaction. Any status
 * except OK: the leadership has ended. */
DT_MUST_CHECK dt_status dt_delivery_tend(dt_delivery *delivery, dt_store *store, struct dt_fence *fence,
                                         struct dt_error *err);
/* Why due jobs wait for the delivery; empty: they do not wait. Updates the delivery's gauges. Valid until the next
 * call. */
const char *dt_delivery_trouble(dt_delivery *delivery);
/* A message for operators if no job waits; empty: none. */
void dt_delivery_notice(const dt_delivery *delivery, char *text, size_t size);
/* Whether it is open and costs something while idle; then an idle shard closes it. */
bool dt_delivery_worth_closing(const dt_delivery *delivery);
/* Closes connections and aborts what was begun. It can be fenced again. */
void dt_delivery_close(dt_delivery *delivery);
