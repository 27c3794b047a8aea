/*
 * The delivery by Kafka, as a shard's leader uses it: sends claimed attempts, and reports to a new leader which of the
 * claimed attempts were sent. If an installation has no Kafka (kafka.brokers is empty), nothing connects: no topic can
 * be written, so jobs wait, and an in-flight list that is not empty is frozen (deliver/kafka/delivery_kafka.c).
 *
 * A dt_delivery belongs to one shard. It is made when the shard's loop starts and freed when the loop ends. Calls in
 * brackets may wait for Kafka and run on the sender's thread (shard_batch.c); all other calls run on the loop's thread.
 * While a call in brackets runs, the loop calls only writable, finding_out and trouble. The order of the calls:
 *
 *   takeover   (MySQL: epoch + 1) ─▶ [forget ─▶ fence ─▶ read] ─▶ (MySQL: settle, or halt) ─▶ settled ─▶ start
 *   batch      clear ─▶ (MySQL, inside the transaction: writable, begin ahead) ─▶ (MySQL: commit)
 *              ─▶ [begin, unless it was begun ahead ─▶ commit] ─▶ finish
 *   between    resolve, tend, notice
 *   the end    [close]
 *
 * Invariants:
 *   - Readers see messages only after dt_delivery_commit; the claim is committed before that.
 *   - If a call returns a status other than OK, the leadership has ended. Nothing is sent again from memory; the next
 *     dt_delivery_read decides what was sent.
 */
#pragma once

#include "dispatch/fence.h"
#include "job/inflight.h"
#include "process.h"

typedef struct dt_delivery dt_delivery;

/* What a shard provides to its delivery. Copied; the objects that its members point at outlive the delivery. */
struct dt_delivery_env {
    const struct dt_process_env *env;
    unsigned shard;
    const _Atomic bool *abort; /* if it is set, blocking calls return SHUTDOWN; they poll it */
    void (*told)(void *arg);   /* called on any thread when dt_delivery_resolve may find answers; must return at once */
    void *arg;
};

/* Creates a closed delivery, without connecting. The caller frees *out. */
dt_status dt_delivery_new(const struct dt_delivery_env *env, dt_delivery **out);
void dt_delivery_free(dt_delivery *delivery);

/* ---- takeover ---- */

struct dt_delivery_findings {
    char halt[320];      /* if not empty: why the shard must halt: the sent batches and the row contradict each other */
    bool sent;           /* the first fence->send_n entries of the in-flight list were sent and committed */
    int64_t next_offset; /* offset at which the next read of the ledger begins; becomes the row's ledger_offset */
    /* Borrowed: the list that this process had sent when Kafka permanently refused a message of it, unchanged; n = 0:
     * there was no refusal. */
    struct dt_inflight refused;
    const char *refusal; /* why Kafka refused `refused`; borrowed */
};

/* Begins a takeover: closes the delivery, and clears the state of the earlier leadership, except a remembered
 * refusal. */
void dt_delivery_forget(dt_delivery *delivery);
/* Opens the delivery so that earlier leaders of the shard can no longer send or commit. UNAVAILABLE: call it again.
 * REFUSED: Kafka refuses permanently. SHUTDOWN: env.abort was set. */
dt_status dt_delivery_fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err);
/* Called after dt_delivery_fence: reads what was sent since fence->ledger_offset and compares it with the in-flight
 * list. *findings is valid only after OK; its borrowed members stay valid until dt_delivery_settled or
 * dt_delivery_forget_refusal. */
dt_status dt_delivery_read(dt_delivery *delivery, const struct dt_fence *fence, const struct dt_inflight *inflight,
                           struct dt_delivery_findings *findings, struct dt_error *err);
/* Called after MySQL has committed the transaction that settled the findings: drops the remembered refusal, which that
 * transaction has applied. */
void dt_delivery_settled(dt_delivery *delivery, const struct dt_delivery_findings *findings);
/* Called if Kafka refused a step of the takeover: drops the remembered refusal, because Kafka may have refused this
 * client, and not a message. */
void dt_delivery_forget_refusal(dt_delivery *delivery);
/* Begins the leadership: stores in the shard's row what must be stored before a batch is sent. Commits a leader
 * transaction if needed. If it does not return OK, the leadership has ended. */
dt_status dt_delivery_start(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err);

/* ---- a batch ---- */

/* A batch: the first fence->send_n entries of the in-flight list, with their messages. All members are borrowed until
 * the commit. */
struct dt_delivery_batch {
    const struct dt_fence
        *fence; /* the fence as in the row, or as the row will be after the commit if the batch is ahead of its claim */
    const struct dt_claim *claims; /* the entries of the in-flight list */
    const struct dt_outgoing
        *jobs; /* the message of each entry. A message without a topic is not sent: the job's row was deleted */
    struct dt_arena *arena; /* memory for the messages; lives until the commit */
};
struct dt_delivered {
    int64_t settle_offset; /* the offset after the batch's ledger record */
    bool reopened;         /* a barred topic accepts messages again */
};

/* Called when a leader transaction begins: forgets the last batch. */
void dt_delivery_clear(dt_delivery *delivery);
/* Begins to send a batch. If `ahead`, the batch's claim is not committed yet, so the delivery begins only if it need
 * not wait; dt_delivery_begun returns whether it did. A failure is returned by dt_delivery_commit. */
void dt_delivery_begin(dt_delivery *delivery, const struct dt_delivery_batch *batch, bool ahead);
/* Returns whether dt_delivery_begin has begun to send, or has failed, since the last dt_delivery_clear. */
bool dt_delivery_begun(const dt_delivery *delivery);
/* Returns the failure of a batch that was begun, with its reason in *err. OK: no batch was begun, or it has not failed
 * yet. */
dt_status dt_delivery_begin_status(const dt_delivery *delivery, struct dt_error *err);
/* Commits the batch that was begun. MySQL must have committed the claim before. */
dt_status dt_delivery_commit(dt_delivery *delivery, struct dt_error *err);
/* Handles the outcome of dt_delivery_commit: its status and error, with the row's fence and in-flight list. If this
 * function does not return OK, the caller closes the delivery and opens it in a new epoch. REFUSED: Kafka will never
 * accept one of the messages; the delivery remembers the list for the next takeover. */
dt_status dt_delivery_finish(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                             const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err);

/* ---- topics ---- */

/* Returns whether a message of this size may be sent to the topic now; bytes = 0: whether the topic accepts messages at
 * all. If the topic must be created, this is charged to `owner` (topic/owners.h). Answers from memory. */
enum dt_writable dt_delivery_writable(dt_delivery *delivery, struct dt_str topic, int64_t owner, int64_t bytes);
/* Applies the results of lookups. Returns whether jobs that a transaction skipped may be sent now. Never waits. */
bool dt_delivery_resolve(dt_delivery *delivery);
/* Returns whether a lookup of a topic runs. If so, env.told is called when it ends. */
bool dt_delivery_finding_out(const dt_delivery *delivery);

/* ---- between batches ---- */

/* Does a bounded step of maintenance while the shard is led, and returns at once. May commit a leader transaction of
 * its own. If it does not return OK, the leadership has ended. */
dt_status dt_delivery_tend(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err);
/* Returns why due jobs wait for the delivery; empty: no job waits. Updates the delivery's gauges. Valid until the next
 * call. */
const char *dt_delivery_trouble(dt_delivery *delivery);
/* Writes a text about the delivery for operators, which is shown if no job waits. Empty: there is nothing to report. */
void dt_delivery_notice(const dt_delivery *delivery, char *text, size_t size);
/* Returns whether the delivery is open and uses threads or connections even while no job is due. If so, an idle shard
 * closes it. */
bool dt_delivery_worth_closing(const dt_delivery *delivery);
/* Closes connections and aborts a begun batch. dt_delivery_fence can open the delivery again. */
void dt_delivery_close(dt_delivery *delivery);
