/*
 * The leader transaction: one transaction of MySQL in which a leader settles the batch that was sent, times out
 * attempts whose deadline has passed, and claims due jobs. The number of statements is a handful and does not depend on
 * the number of jobs.
 *
 * The caller fills in the members under "in", calls dt_leader_txn_commit, and reads the members under "out" if the
 * status was OK. The calls are made in the leader's thread. Inputs are borrowed for the call; outputs are in the arena.
 */
#pragma once

#include "base/fair.h"
#include "fence.h"
#include "job/inflight.h"
#include "job/job.h"
#include "job/shard.h"
#include "store/store.h"
#include "topic_snapshot.h"

/* The message of a claimed attempt: the columns that callers set (job/job.h), and its destination. The strings are in
 * the arena of the call that read the message; for a NULL column the string is absent. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
};

/* Reads the messages of attempts that are already in flight (after a takeover, or when a list was halved), even if
 * their rows have changed. *out: an array in the order of `claims`. If a job's row does not exist, topic and payload
 * are absent. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims,
                                               struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* An index entry, or a row of the due index, that says that a job may be due. due_ms 0: the time of the entry is
 * unknown; the time in the job's row is used. */
struct dt_hint {
    int64_t id, due_ms;
};

/* The outcome of a hint: what the index should have now. */
struct dt_seen {
    int64_t id, hint_ms;
    int64_t next_ms;    /* 0 = the entry is removed */
    bool elsewhere;     /* the job's slot belongs to another shard, whose set gets the entry */
    bool at_limit;      /* with hold: its topic is at its limit */
    bool timeout;       /* with hold: the attempt is overdue, but its reports may not be read yet */
    struct dt_str hold; /* with hold: present if the job is due, but this topic is paused, at its limit or cannot be
                         * written */
    uint32_t host;      /* with hold: number of the host in the job's URL, if only that host has no place; else 0 */
};
struct dt_seen_list {
    struct dt_seen *v;
    size_t n;
};

/* Whether a Kafka topic may take a message. */
enum dt_writable {
    DT_WRITABLE_NO,
    DT_WRITABLE_YES,
    DT_WRITABLE_UNKNOWN, /* unknown yet: the job is left for a later leader transaction */
    DT_WRITABLE_ALONE    /* perhaps too large for its topic: sent in a batch of one, so that a refusal concerns only
                       * this message */
};

/* ---- inputs ---- */

struct dt_leader_sent {
    const struct dt_inflight *list; /* the whole in-flight list; n = 0: nothing is in flight */
    /* True: it is not known yet whether the batch was sent. Nothing is claimed or settled, and jobs with an attempt in
     * the list are skipped. False: the first fence->send_n entries were sent and committed. */
    bool frozen;
    bool park;             /* the list is frozen for so long that index entries of its jobs are held */
    int64_t offset;        /* first offset after the ledger record of the batch */
    bool extend_deadlines; /* the claim of the batch is old, so the deadlines of its attempts restart now */
};

/* Times by MySQL's clock. An attempt may time out if its deadline is not later than these: earlier reports were
 * applied, or the wait for them has ended. */
struct dt_read_up_to {
    int64_t kafka_ms; /* for attempts that Kafka delivered */
    int64_t other_ms; /* for attempts of callbacks and pops */
};

/* The hints, the limits of a batch, and what the leader knows about topics and results. */
struct dt_leader_due {
    const struct dt_hint *hints; /* each id at most once */
    size_t n_hints;
    size_t max_jobs, max_bytes, max_topics; /* limits of a batch; max_topics counts Kafka topics */
    struct dt_turns *turns;                 /* turns of owners and topics, which decide who is first in a batch; kept
                                             * between transactions */
    const struct dt_shard_map *map;
    dt_topic_snapshot *topics; /* the transaction refreshes it if it is old */
    struct dt_read_up_to read_up_to;
};

/* An attempt that is about to be claimed into the hands of this process. Strings are borrowed. */
struct dt_hand_wanted {
    int64_t job_id, attempt;
    size_t bytes; /* approximate size of its message */
    struct dt_str topic;
    int64_t topic_owner; /* owner of the topic (topic/owners.h) */
    struct dt_str url;   /* callback URL of the job, else of its topic; absent: neither has one */
    bool own_url;
};
/* Whether a callback got a place in the pool of this process. */
enum dt_hand_place {
    DT_HAND_FULL,       /* the pool has no place now */
    DT_HAND_FULL_THERE, /* the host in the job's own URL has no place now; other jobs of the topic may get one */
    DT_HAND_TAKEN
};

/* Questions to the caller. These functions are called while rows are locked, so they must answer from memory. */
struct dt_leader_gate {
    enum dt_writable (*writable)(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
    void *arg;
    /* Reserves a place for a callback in this process. *owner: the number of the process in `hands`, which stays the
     * same during a transaction. If `take` is NULL, this process has no places. */
    enum dt_hand_place (*take)(void *hands, const struct dt_hand_wanted *wanted, int64_t *owner);
    void *hands;
    /* Returns how many jobs of a topic with limits this caller lets the transaction claim at most. NULL: any number. */
    size_t (*allowed)(void *limits, struct dt_str topic);
    void *limits;
};

/* `claiming` is called with the jobs that are about to be claimed, in order, and the fence as it will be. Rows are
 * locked and nothing is committed yet: if the transaction does not end with OK, the listener undoes what it prepared.
 * `claiming` must not wait. It is called before the claim is written, or after it if large messages had to be read
 * first. It may be NULL. */
struct dt_leader_listener {
    void (*claiming)(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                     const struct dt_claim *claims, size_t n);
    void *arg;
};

/* ---- outputs ---- */

/* What happened to the list that was sent. */
struct dt_leader_settled {
    size_t n;         /* number of entries that were removed from the head of the list */
    size_t remainder; /* entries still in flight; if above 0, the first fence->send_n of them are sent next, and
                       * nothing is claimed */
    struct dt_seen_list moved; /* settled attempts whose deadline was extended */
};

/* Why hints were not claimed. */
struct dt_leader_judged {
    size_t unread;        /* due jobs whose attempt may not have been sent, or whose report may be unread */
    int64_t unread_ms;    /* the latest deadline of these attempts */
    bool frozen;          /* some jobs were not claimed only because the list is frozen */
    struct dt_str orphan; /* topic without a row (after a manual edit) that has a due job, which is held; absent:
                           * none */
};

struct dt_leader_limits {
    size_t held; /* due jobs that are held because their topics have no room */
    size_t busy; /* due jobs left because another transaction claims jobs of their topics: retry in a few
                  * milliseconds */
};

struct dt_leader_chosen {
    int64_t shortest_ack_ms; /* the shortest acknowledgement timeout of the claimed jobs */
    bool more;               /* the batch is full, and `left` lists the hints that were not claimed */
    int64_t *left;           /* ids of the hints that were left, ascending; in the arena */
    size_t n_left;
};

struct dt_leader_timed_out {
    size_t n;
    bool outbox; /* a dead letter was written into the outbox */
};

/* What was claimed, in order of (due, id). */
struct dt_leader_batch {
    struct dt_outgoing *jobs;
    size_t n;
};

/* Jobs that this transaction offered to pops. */
struct dt_leader_offered {
    size_t n;
    struct dt_str *topics; /* names of the topics of these jobs, each once */
    size_t n_topics;
};

struct dt_leader_hands {
    struct dt_leader_batch
        claimed; /* claims into the hands of this process, which may send them after a confirmed commit */
    size_t lost; /* attempts that ended because their process is gone */
    size_t full; /* due jobs that are held because the pool of callbacks has no place */
};

/* The outcome of each hint that was not left, claimed hints included, and the ids that were left. */
struct dt_leader_seen {
    struct dt_seen *v;
    size_t n;
    size_t held;      /* number of outcomes with `hold` */
    int64_t *unknown; /* ids that were left because it is not known yet whether Kafka accepts messages for their
                       * topics */
    size_t n_unknown;
    bool locked; /* some hints were left because their rows are locked, because they wait for another shard's list or
                  * for reports, or as `unknown` */
};

struct dt_leader_txn {
    /* in */
    struct dt_leader_sent sent;
    struct dt_leader_due due;
    struct dt_leader_gate gate;
    struct dt_leader_listener listener;
    struct dt_arena *arena; /* memory for all outputs */

    /* out; all zero after any status but OK */
    int64_t now_ms; /* MySQL's clock in this transaction */
    bool stale_map; /* the shard map has a newer generation: nothing was claimed, and the caller must reload the map */
    struct dt_leader_settled settled;
    struct dt_leader_judged judged;
    struct dt_leader_limits limits;
    struct dt_leader_chosen chosen;
    struct dt_leader_timed_out timed_out;
    struct dt_leader_batch batch;
    struct dt_leader_offered offered;
    struct dt_leader_hands hands;
    struct dt_leader_seen seen;
};

/*
 * Locks the shard's row, compares it with the fence, does the following steps, and commits. All steps except the first
 * and the last consider only the jobs that `hints` names.
 *
 *   - Settles the batch: removes it from the in-flight list. If the list is frozen, nothing is settled or claimed into
 *     it, and jobs with an attempt in it are skipped.
 *   - Times out attempts whose deadline is not later than read_up_to, unless a stored result waits for their job
 *     (deferred_results).
 *   - Ends attempts as lost if their process is gone.
 *   - Claims scheduled jobs that are due, if the job is of this shard's slots, its topic is not paused, has room within
 *     its limits and can be written, and no earlier attempt is in another shard's list or in the hands of a process.
 *     Kafka jobs enter the list, callbacks the hands of this process. A topic's jobs are claimed in order of (due, id).
 *     If not all of them fit, each owner gets an equal part of the bytes, and so does each of its topics.
 *   - Offers scheduled jobs that are due, if their topic is popped and not paused; removes their index entries.
 *   - Writes list, send_n, batch_no and version into the row, and updates *fence.
 *
 * If a part of the list is still to be sent, nothing is claimed or timed out. If there is nothing to settle, time out
 * or claim, nothing is written. DEPOSED, HALTED, NOT_FOUND: nothing was written. After any status but OK the leadership
 * ends, and the shard must be taken over again.
 */
DT_MUST_CHECK dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn,
                                             struct dt_error *err);
