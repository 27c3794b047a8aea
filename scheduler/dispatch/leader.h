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

/* The message of a claimed attempt: the columns that clients set (job/job.h), and its destination. The strings are in
 * the arena of the call that read the message; for a NULL column the string is absent. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
};

/* Reads the messages of attempts that are already in flight (after a takeover, or when a list was halved), even if the
 * rows have changed since the claim. *out: an array in the order of `claims`. If a job has no row, topic and payload
 * are absent. */
dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims, struct dt_arena *arena,
                                 struct dt_outgoing **out, struct dt_error *err);

/* A hint: an index entry, or a row of the due index, that says that a job may be due. due_ms: time of the entry; 0:
 * unknown, so the time in the job's row is used. */
struct dt_hint {
    int64_t id, due_ms;
};

/* The outcome of a hint: which entry the index should have now. */
struct dt_seen {
    int64_t id, hint_ms;
    int64_t next_ms; /* due time of the entry; 0: the entry is removed */
    bool elsewhere;  /* the job's slot belongs to another shard, whose set gets the entry instead */
    bool at_limit;   /* if `hold` is present: the topic is at its limit */
    bool timeout;    /* if `hold` is present: the attempt is overdue, but reports about it may not be read yet */
    /* If present, the entry is held under this topic: the job is due, but the topic is paused, at its limit or not
     * writable. */
    struct dt_str hold;
    /* If `hold` is present and only the host in the job's URL has no place: number of that host; otherwise 0. */
    uint32_t host;
};
struct dt_seen_list {
    struct dt_seen *v;
    size_t n;
};

/* Whether a Kafka topic may get a message. */
enum dt_writable {
    DT_WRITABLE_NO,
    DT_WRITABLE_YES,
    DT_WRITABLE_UNKNOWN, /* not known yet: the job is left for a later leader transaction */
    /* If the message is sent, it must be alone in its batch, so that a refusal concerns only this message. */
    DT_WRITABLE_ALONE
};

/* ---- inputs ---- */

struct dt_leader_sent {
    const struct dt_inflight *list; /* the whole in-flight list; n = 0: nothing is in flight */
    /* True: it is not known yet whether the batch was sent. Nothing is claimed or settled, and jobs with an attempt in
     * the list are skipped. False: the first fence->send_n entries were sent and committed. */
    bool frozen;
    bool park;             /* the in-flight list is frozen for so long that the index entries of its jobs are held */
    int64_t offset;        /* the offset after the ledger record of the batch */
    bool extend_deadlines; /* the claim of the batch is old, so the deadlines of its attempts are counted from now */
};

/* Times by MySQL's clock. An attempt may time out if its deadline is not later than the time for its kind: all reports
 * up to this time were applied, or the wait for them was given up. */
struct dt_read_up_to {
    int64_t kafka_ms; /* for attempts that Kafka delivered */
    int64_t other_ms; /* for attempts of callbacks and pops */
};

/* The hints, the limits of a batch, and what the leader knows about topics and results. */
struct dt_leader_due {
    const struct dt_hint *hints; /* each job at most once */
    size_t n_hints;
    size_t max_jobs, max_bytes, max_topics; /* limits of a batch; max_topics limits the number of Kafka topics */
    /* Turns of owners and topics, kept between transactions: who is first if a batch cannot take all. */
    struct dt_turns *turns;
    const struct dt_shard_map *map;
    dt_topic_snapshot *topics; /* the topic snapshot; the transaction refreshes it if it is outdated */
    struct dt_read_up_to read_up_to;
};

/* An attempt that is about to be claimed into the hands of this process. Strings are borrowed. */
struct dt_hand_wanted {
    int64_t job_id, attempt;
    size_t bytes; /* approximate size of the attempt's message */
    struct dt_str topic;
    int64_t topic_owner; /* owner of the topic (topic/owners.h) */
    struct dt_str url;   /* callback URL of the job, or else of its topic; absent: neither has one */
    bool own_url;
};
/* Whether a callback got a place in the pool of this process. */
enum dt_hand_place {
    DT_HAND_FULL,       /* the process has no place for the attempt now */
    DT_HAND_FULL_THERE, /* the host in the job's own URL has no place now; other jobs of the topic may get one */
    DT_HAND_TAKEN
};

/* Functions of the caller. They are called while rows are locked, so they must answer from memory. */
struct dt_leader_gate {
    enum dt_writable (*writable)(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
    void *arg;
    /* Reserves a place for a callback in this process. *owner: the owner number of this process in `hands`, which stays
     * the same during a transaction. If `take` is NULL, this process has no places. */
    enum dt_hand_place (*take)(void *hands, const struct dt_hand_wanted *wanted, int64_t *owner);
    void *hands;
    /* Returns how many jobs of a topic with limits the transaction may claim. NULL: any number. */
    size_t (*allowed)(void *limits, struct dt_str topic);
    void *limits;
};

/* `claiming` is called with the jobs that are about to be claimed, in order, and the fence as the claim will write it.
 * Rows are locked and nothing is committed yet: if the transaction does not end with OK, the listener undoes what it
 * prepared. `claiming` must not wait. It is called before the claim is written, or, if large messages have to be read
 * separately, after that. It may be NULL. */
struct dt_leader_listener {
    void (*claiming)(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                     const struct dt_claim *claims, size_t n);
    void *arg;
};

/* ---- outputs ---- */

/* What happened to the in-flight list. */
struct dt_leader_settled {
    size_t n; /* number of entries that were removed from the head of the list */
    /* Number of entries that remain; if above 0, nothing is claimed, and the first fence->send_n of these are sent
     * next. */
    size_t remainder;
    struct dt_seen_list moved; /* attempts of the batch whose deadline was extended */
};

/* Why hints were not claimed. */
struct dt_leader_judged {
    size_t unread;     /* number of due jobs whose attempt may not have been sent, or whose report may be unread */
    int64_t unread_ms; /* latest deadline of the attempts that `unread` counts */
    bool frozen;       /* some jobs were not claimed only because the in-flight list is frozen */
    /* Topic of a due job that has no row (after a manual edit), so the job is held; absent: there is no such topic. */
    struct dt_str orphan;
};

struct dt_leader_limits {
    size_t held; /* number of due jobs that are held because their topics have no room within their limits */
    /* Number of due jobs that were left because another transaction claims jobs of their topics: retry in a few
     * milliseconds. */
    size_t busy;
};

struct dt_leader_chosen {
    int64_t shortest_ack_ms; /* shortest acknowledgement timeout of the claimed jobs */
    bool more;               /* the batch is full, and `left` lists the hints that were not claimed */
    /* Ids of the hints that were not claimed because the batch is full, ascending; in the arena. */
    int64_t *left;
    size_t n_left;
};

struct dt_leader_timed_out {
    size_t n;
    bool outbox; /* a dead letter was written into the outbox */
};

/* The attempts that were claimed, in order of (due, id). */
struct dt_leader_batch {
    struct dt_outgoing *jobs;
    size_t n;
};

/* Jobs that this transaction offered to pops. */
struct dt_leader_offered {
    size_t n;
    struct dt_str *topics; /* names of the topics of the offered jobs, each once */
    size_t n_topics;
};

struct dt_leader_hands {
    struct dt_leader_batch
        claimed; /* attempts claimed into the hands of this process, which may send them when the commit is confirmed */
    size_t lost; /* number of attempts that ended as lost, because their process is gone */
    size_t full; /* number of due jobs that are held because the pool of callbacks has no place */
};

/* The outcome of each hint that was not left (claimed hints included), and ids of hints that were left. */
struct dt_leader_seen {
    struct dt_seen *v;
    size_t n;
    size_t held; /* number of outcomes with `hold` */
    /* Ids of hints that were left because it is not known yet whether their Kafka topics can be written. */
    int64_t *unknown;
    size_t n_unknown;
    /* Some hints were left: their rows are locked, they wait for another shard's in-flight list or for reports, or they
     * are in `unknown`. */
    bool locked;
};

struct dt_leader_txn {
    /* in */
    struct dt_leader_sent sent;
    struct dt_leader_due due;
    struct dt_leader_gate gate;
    struct dt_leader_listener listener;
    struct dt_arena *arena; /* memory for all outputs */

    /* out; all members are zero unless OK */
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
 * Locks the shard's row, compares it with the fence, does the following steps, and commits. The steps except the first
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
 *     If not all due jobs fit, each owner gets an equal part of the bytes, and each of its topics an equal part of
 *     that.
 *   - Offers scheduled jobs that are due, if their topic is popped and not paused; removes their index entries.
 *   - Writes list, send_n, batch_no and version into the row, and updates *fence.
 *
 * If a part of the list is still to be sent, nothing is claimed or timed out. If there is nothing to settle, time out
 * or claim, nothing is written. DEPOSED, HALTED, NOT_FOUND: nothing was written. After a status other than OK the
 * leadership ends, and the shard must be taken over again.
 */
dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn,
                               struct dt_error *err);
