/* The messages of claimed attempts, read from the rows of their jobs, for the leader that is going to send them. */
#ifndef DT_DISPATCH_LEADER_H
#define DT_DISPATCH_LEADER_H

#include "base/fair.h"
#include "fence.h"
#include "job/inflight.h"
#include "job/job.h"
#include "job/shard.h"
#include "store/store.h"
#include "topic_snapshot.h"

/* The message of one claim: what the caller gave, by the table of columns (job/job.h), and where it goes.
 * Slices lie in the arena of the call that read it; those of columns that are NULL are absent. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
};

/* Reads the messages of attempts that are in flight already (after a takeover, or because a list was halved), whatever
 * their rows say by now. *out: an array in the order of the claims. A job whose row is gone has neither topic nor
 * payload. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims,
                                               struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* ---- inside a transaction; for store/ only ---- */

/* Copies the message's columns of the current row, from `first` on (job_rows.sql: lock_hinted). *out is NULL when the
 * message is not small, so that its payload was not read. */
DT_MUST_CHECK dt_status dt_outgoing_small(struct dt_db *db, unsigned first, struct dt_arena *arena,
                                          struct dt_outgoing **out);

/* Does what dt_store_read_outgoing does, inside the caller's transaction. */
DT_MUST_CHECK dt_status dt_outgoing_read(struct dt_db *db, const struct dt_inflight *claims, struct dt_arena *arena,
                                         struct dt_outgoing **out, struct dt_error *err);

/*
 * The leader transaction: one transaction of MySQL in which a leader settles the batch that was sent, times out
 * attempts whose deadline has passed, and claims what is due. It takes a handful of statements whatever the number of
 * jobs.
 *
 * The caller fills in the parts under "in", calls dt_leader_txn_commit, and reads the parts under "out" if that was OK.
 * Everything goes on in the leader's thread. What goes in is borrowed for the call; what comes out lies in the arena.
 */

/* An index entry that says that a job may be due. due_ms 0: nobody knows where its entry stands; the row says it. */
struct dt_hint {
    int64_t id, due_ms;
};

/* The outcome of a hint: what the index should say now. */
struct dt_seen {
    int64_t id, hint_ms;
    int64_t next_ms;    /* 0 = the entry goes away */
    bool elsewhere;     /* its slot is another shard's: the entry goes there */
    bool at_limit;      /* with hold: because its topic is at its limit */
    bool timeout;       /* with hold: an overdue attempt whose reports may be unread */
    struct dt_str hold; /* present: due, but this topic of it is paused, at its limit or cannot be written: the entry is
                           parked */
    uint32_t host;      /* with hold: the number of the host that it names, which alone has no place; 0 = not so */
};
struct dt_seen_list {
    struct dt_seen *v;
    size_t n;
};

/* May a Kafka topic take a message? */
enum dt_writable {
    DT_WRITABLE_NO,
    DT_WRITABLE_YES,
    DT_WRITABLE_UNKNOWN, /* left for a later leader transaction, the caller finds out meanwhile */
    DT_WRITABLE_ALONE /* perhaps too large for its topic: goes in a batch of its own, so that a refusal is about it */
};

/* ---- in ---- */

/* The in-flight list. */
struct dt_leader_sent {
    const struct dt_inflight *list; /* all of it; n = 0: nothing is in flight */
    /* Frozen: nothing is added or settled, and jobs with an attempt in the list are skipped, because it is not known
     * yet what was sent. False: the first fence->send_n entries were sent and committed. */
    bool frozen;
    bool park;             /* frozen for so long that jobs in the list are parked */
    int64_t offset;        /* first offset after its ledger record */
    bool extend_deadlines; /* its claim is so old that its deadlines are counted from now */
};

/* Instants by MySQL's clock. An attempt whose deadline is not later may time out: reports that came before the deadline
 * have been applied, or were waited for long enough. */
struct dt_read_up_to {
    int64_t kafka_ms; /* for attempts that Kafka delivered */
    int64_t other_ms; /* for all others */
};

/* Hints of what may be due, the bounds of a batch, and what is known of topics and results. */
struct dt_leader_due {
    const struct dt_hint *hints; /* each id once */
    size_t n_hints;
    size_t max_jobs, max_bytes, max_topics; /* of a batch; topics are Kafka's */
    struct dt_turns *turns; /* who had the last ones in batches that left something; kept between transactions */
    const struct dt_shard_map *map;
    dt_topic_snapshot *topics; /* refreshed if it is old */
    struct dt_read_up_to read_up_to;
};

/* An attempt that is about to be claimed into the hands of this process. Borrowed. */
struct dt_hand_wanted {
    int64_t job_id, attempt;
    size_t bytes; /* of its message, about */
    struct dt_str topic;
    int64_t topic_owner; /* topic/owners.h */
    struct dt_str url;   /* the job's own, or its topic's; absent: neither has one */
    bool own_url;
};
/* What became of the wish. */
enum dt_hand_place {
    DT_HAND_FULL,       /* there is no place now */
    DT_HAND_FULL_THERE, /* the host that the job names itself has none; jobs of the topic for others may have one */
    DT_HAND_TAKEN
};

/* Asked while rows are locked: it answers from memory. */
struct dt_leader_gate {
    enum dt_writable (*writable)(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes);
    void *arg;
    /* Takes a place in the hands of this process, and says whose number they have, the same throughout a transaction.
     * May be NULL: there never is a place. */
    enum dt_hand_place (*take)(void *hands, const struct dt_hand_wanted *wanted, int64_t *owner);
    void *hands;
    /* The most jobs of a topic with limits that may be claimed, if it has room for them; NULL: any number. */
    size_t (*allowed)(void *limits, struct dt_str topic);
    void *limits;
};

/*
 * Told what is about to be claimed, in order, with the fence as it will be, while rows are locked and nothing is
 * committed: whatever is prepared with it must come to nothing unless the transaction ends with OK. It does not wait.
 * It is told before the claim is written, or behind it when large messages had to be read first. claiming may be NULL.
 */
struct dt_leader_listener {
    void (*claiming)(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                     const struct dt_claim *claims, size_t n);
    void *arg;
};

/* ---- out ---- */

/* By leader.c: the list that was sent. */
struct dt_leader_settled {
    size_t n;         /* entries that left the list at its head */
    size_t remainder; /* entries that are still in flight, their first fence->send_n go next: no hint was looked at */
    struct dt_seen_list moved; /* settled attempts whose acknowledgement deadline was put off */
};

/* By leader.c: why hints wait. */
struct dt_leader_judged {
    size_t unread;        /* due jobs that wait to learn of their attempt: if it was sent, or what was reported */
    int64_t unread_ms;    /* the latest of their deadlines */
    bool frozen;          /* jobs that could be claimed are left, because the list is frozen */
    struct dt_str orphan; /* present: a due job's topic has no row in `topics` (a manual edit): its entry is held */
};

/* By leader_choose.c: jobs of topics with limits. */
struct dt_leader_limits {
    size_t held; /* their topics have no room */
    size_t busy; /* left, because another transaction claims of their topics: a few milliseconds later they can go */
};

/* By leader_choose.c. */
struct dt_leader_chosen {
    int64_t shortest_ack_ms; /* the shortest acknowledgement timeout of the claimed */
    bool more;               /* hints were left for the next leader transaction: they are over the limits */
    int64_t *left;           /* these, ascending, in the arena */
    size_t n_left;
};

/* By leader.c. */
struct dt_leader_timed_out {
    size_t n;
    bool outbox; /* a dead letter waits in the outbox */
};

/* By leader_claim.c: what was claimed, in order of (due, id). */
struct dt_leader_batch {
    struct dt_outgoing *jobs;
    size_t n;
};

/* By leader_claim.c: what waits for a pop from now on. */
struct dt_leader_offered {
    size_t n;
    struct dt_str *topics; /* whose jobs they are, each once */
    size_t n_topics;
};

/* By leader_claim.c and leader_claim.c. */
struct dt_leader_hands {
    struct dt_leader_batch claimed; /* into the hands of this process; they may go once the commit is confirmed */
    size_t lost;                    /* attempts that ended because their owner is gone */
    size_t full;                    /* jobs that are held because there was no place */
};

/* By leader.c: the hints that were settled one way or other, the claimed ones too, and how many were not. */
struct dt_leader_seen {
    struct dt_seen *v;
    size_t n;
    size_t held;      /* of them, those that are parked */
    int64_t *unknown; /* ids of those that were left because nobody could say yet whether their topic can be written */
    size_t n_unknown;
    bool locked; /* some were left because their rows are locked, or they wait for another shard's list, for reports
                       that may be unread or wait to be applied, or are unknown */
};

struct dt_leader_txn {
    /* in */
    struct dt_leader_sent sent;
    struct dt_leader_due due;
    struct dt_leader_gate gate;
    struct dt_leader_listener listener;
    struct dt_arena *arena; /* for all that comes out */

    /* out; all zero after any status but OK */
    int64_t now_ms; /* MySQL's clock in this transaction */
    bool stale_map; /* the map's generation rose: reload it; nothing was claimed */
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
 *   - times out, among the hints, attempts whose deadline is not later than read_up_to and whose jobs no stored
 *     result waits for (deferred_results);
 *   - ends, among the hints, attempts in the hands of a process that is gone as lost;
 *   - claims, among the hints, what is scheduled and due: of this shard's slots, not paused, within the limits of its
 *     topic, writable, with no earlier attempt in its claiming shard's list or in anybody's hands; into the list, or
 *     into the hands of this process; in order of (due, id) within a topic, and when not all of it fits an equal part
 *     of the bytes for each topic;
 *   - offers, among the hints, what is scheduled and due of topics whose jobs are popped, and not paused: their entries
 *     go away;
 *   - writes list, send_n, batch_no and version into the row, and updates *fence.
 *
 * While a remainder of the list is in flight nothing is claimed and nothing times out. Nothing at all is written when
 * there is nothing to settle, time out or claim. DEPOSED, HALTED, NOT_FOUND: nothing was written. Any status but OK:
 * the leadership is over, take over again.
 */
DT_MUST_CHECK dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn,
                                             struct dt_error *err);

#endif
