/*
 * The leader transaction: one transaction of MySQL in which a leader settles the batch that was sent, times out
 * attempts whose deadline has passed, and claims what is due. It takes a handful of statements whatever the number of
 * jobs.
 *
 * The caller fills in the parts under "in", calls dt_leader_txn_commit, and reads the parts under "out" if that was
 * OK. All of it runs in the leader's thread. Inputs are borrowed for the call; outputs are in the arena.
 */
#pragma once

#include "base/fair.h"
#include "fence.h"
#include "job/inflight.h"
#include "job/job.h"
#include "job/shard.h"
#include "store/store.h"
#include "topic_snapshot.h"

/* The message of a claimed attempt: the columns that callers set (job/job.h), and its destination. Slices are in the
 * arena of the call that read it; for NULL columns they are absent. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
};

/* Reads the messages of attempts that are already in flight (after a takeover, or when a list was halved), even if
 * their rows have changed. *out: an array in the order of the claims. If a job's row does not exist, topic and
 * payload are absent. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims,
                                               struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* An index entry that says that a job may be due. due_ms 0: the entry's time is unknown, and the row's is used. */
struct dt_hint {
    int64_t id, due_ms;
};

/* The outcome of a hint: what the index should have now. */
struct dt_seen {
    int64_t id, hint_ms;
    int64_t next_ms;    /* 0 = the entry is removed */
    bool elsewhere;     /* its slot is another shard's: the entry moves there */
    bool at_limit;      /* with hold: its topic is at its limit */
    bool timeout;       /* with hold: an overdue attempt whose reports may not be read yet */
    struct dt_str hold; /* present: the job is due, but this topic is paused, at its limit or cannot be written: the
                           entry is held */
    uint32_t host;      /* with hold: the number of the host in the job's URL, if only that host has no place; else 0 */
};
struct dt_seen_list {
    struct dt_seen *v;
    size_t n;
};

/* Whether a Kafka topic may take a message. */
enum dt_writable {
    DT_WRITABLE_NO,
    DT_WRITABLE_YES,
    DT_WRITABLE_UNKNOWN, /* unknown yet: left for a later leader transaction */
    DT_WRITABLE_ALONE /* perhaps too large for its topic: sent in a batch of its own, so that a refusal is about it */
};

/* ---- inputs ---- */

struct dt_leader_sent {
    const struct dt_inflight *list; /* the whole list; n = 0: nothing is in flight */
    /* True: it is not known yet what was sent. Nothing is added or settled, and jobs with an attempt in the list are
     * skipped. False: the first fence->send_n entries were sent and committed. */
    bool frozen;
    bool park;             /* frozen for so long that entries of jobs in the list are held */
    int64_t offset;        /* first offset after its ledger record */
    bool extend_deadlines; /* its claim is old, so its deadlines restart now */
};

/* Times by MySQL's clock. An attempt may time out if its deadline is not later: earlier reports were applied, or the
 * wait for them has ended. */
struct dt_read_up_to {
    int64_t kafka_ms; /* for attempts that Kafka delivered */
    int64_t other_ms; /* for all others */
};

/* Hints of what may be due, the bounds of a batch, and what is known of topics and results. */
struct dt_leader_due {
    const struct dt_hint *hints; /* each id once */
    size_t n_hints;
    size_t max_jobs, max_bytes, max_topics; /* limits of a batch; max_topics counts Kafka topics */
    struct dt_turns *turns;                 /* who is next if a batch left jobs; kept between transactions */
    const struct dt_shard_map *map;
    dt_topic_snapshot *topics; /* refreshed if it is old */
    struct dt_read_up_to read_up_to;
};

/* An attempt that is about to be claimed into the hands of this process. Borrowed. */
struct dt_hand_wanted {
    int64_t job_id, attempt;
    size_t bytes; /* approximate size of its message */
    struct dt_str topic;
    int64_t topic_owner; /* topic/owners.h */
    struct dt_str url;   /* the job's own, else its topic's; absent: neither has one */
    bool own_url;
};
/* The answer to a request for a place. */
enum dt_hand_place {
    DT_HAND_FULL,       /* there is no place now */
    DT_HAND_FULL_THERE, /* the host in the job's own URL has none; other jobs of the topic may have one */
    DT_HAND_TAKEN
};

/* Called while rows are locked, so these functions must answer from memory. */
struct dt_leader_gate {
    enum dt_writable (*writable)(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
    void *arg;
    /* Reserves a place for a callback in this process. *owner: the number of the process, which stays the same
     * during a transaction. NULL: this process has no places. */
    enum dt_hand_place (*take)(void *hands, const struct dt_hand_wanted *wanted, int64_t *owner);
    void *hands;
    /* The most jobs of a topic with limits that may be claimed, if it has room for them; NULL: any number. */
    size_t (*allowed)(void *limits, struct dt_str topic);
    void *limits;
};

/*
 * Called with the jobs that are about to be claimed, in order, and the fence as it will be. Rows are locked and
 * nothing is committed yet: if the transaction does not end with OK, the listener undoes what it prepared. It must not
 * wait. It is called before the claim is written, or after it if large messages had to be read first. claiming may be
 * NULL.
 */
struct dt_leader_listener {
    void (*claiming)(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                     const struct dt_claim *claims, size_t n);
    void *arg;
};

/* ---- outputs ---- */

/* The list that was sent. */
struct dt_leader_settled {
    size_t n;         /* entries that left the list at its head */
    size_t remainder; /* entries still in flight; if any, the first fence->send_n are sent next, without a claim */
    struct dt_seen_list moved; /* settled attempts whose deadline became later */
};

/* Why hints wait. */
struct dt_leader_judged {
    size_t unread;        /* due jobs whose attempt may not have been sent, or whose report may be unread */
    int64_t unread_ms;    /* the latest of their deadlines */
    bool frozen;          /* jobs that could be claimed were left because the list is frozen */
    struct dt_str orphan; /* present: topic of a due job, held because `topics` has no such row (a manual edit) */
};

struct dt_leader_limits {
    size_t held; /* due jobs of topics that have no room */
    size_t busy; /* left because another transaction claims jobs of their topics: wait a few milliseconds */
};

struct dt_leader_chosen {
    int64_t shortest_ack_ms; /* the shortest acknowledgement timeout of the claimed jobs */
    bool more;               /* hints were left for the next leader transaction: the batch is full */
    int64_t *left;           /* the ids of these hints, ascending; in the arena */
    size_t n_left;
};

struct dt_leader_timed_out {
    size_t n;
    bool outbox; /* a dead letter waits in the outbox */
};

/* What was claimed, in order of (due, id). */
struct dt_leader_batch {
    struct dt_outgoing *jobs;
    size_t n;
};

/* Jobs that this transaction offered to pops. */
struct dt_leader_offered {
    size_t n;
    struct dt_str *topics; /* their topics, each once */
    size_t n_topics;
};

struct dt_leader_hands {
    struct dt_leader_batch
        claimed; /* claims into the hands of this process, which may send them once the commit is confirmed */
    size_t lost; /* attempts that ended because their process is gone */
    size_t full; /* jobs that are held because there is no place */
};

/* The outcomes of hints, and the hints that were left. Claimed hints have an outcome too. */
struct dt_leader_seen {
    struct dt_seen *v;
    size_t n;
    size_t held;      /* how many of them are held */
    int64_t *unknown; /* ids that were left because it is not known yet whether their topic can be written */
    size_t n_unknown;
    bool locked; /* some were left because their rows are locked, they wait for another shard's list or for reports
                    that are not read or applied yet, or they are unknown */
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
    bool stale_map; /* the map has a newer generation: reload it; nothing was claimed */
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
 * Locks the shard's row, compares it with the fence, does all of the following, and commits:
 *
 *   - settles the batch: it leaves the in-flight list. If the list is frozen, nothing is settled or claimed into it,
 *     and jobs with an attempt in it are skipped;
 *   - times out, among the hints, attempts whose deadline is not later than read_up_to, unless a stored result waits
 *     for their job (deferred_results);
 *   - ends as lost, among the hints, attempts whose process is gone;
 *   - claims, among the hints, what is scheduled and due: of this shard's slots, not paused, within the limits of its
 *     topic, writable, and with no earlier attempt in its claiming shard's list or in the hands of a process. Kafka
 *     jobs enter the list, callbacks the hands of this process. A topic's jobs are claimed in order of (due, id). If
 *     not all of them fit, each topic gets an equal part of the bytes;
 *   - offers, among the hints, scheduled and due jobs of topics that are popped and not paused; their index entries are
 *     removed;
 *   - writes list, send_n, batch_no and version into the row, and updates *fence.
 *
 * If a remainder of the list is in flight, nothing is claimed or timed out. If there is nothing to settle, time out or
 * claim, nothing is written. DEPOSED, HALTED, NOT_FOUND: nothing was written. After any status but OK the leadership
 * ends, and the shard must be taken over again.
 */
DT_MUST_CHECK dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn,
                                             struct dt_error *err);
