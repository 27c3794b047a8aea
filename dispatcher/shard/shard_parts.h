/*
 * Internals of a shard loop; only its files include this header. Unless marked otherwise, everything belongs to the
 * loop's own thread. A comment above each part names the file that writes the part; the other files read it. A file
 * calls only files below it in this table:
 *
 *   shard_loop.c       the thread: when to do which step, idling, stepping down, what it reports about itself
 *   shard_takeover.c   a new epoch in the row; then reading the ledger, and settling what the ledger has
 *   shard_batch.c      the leader transaction, and the thread that sends the batch
 *   shard_tell.c       updates of the index
 *   shard_due.c        the due scan: which jobs may be due, from the index or from MySQL
 *   shard_queues.c     which jobs are first if more are due than fit into a batch
 *   shard_held.c       why a topic's jobs may not be sent; held sets, where they wait; topics at their limits
 *   shard_trust.c      whether the index is trusted; the current map; positions of the readers of MySQL
 *   shard_memory.c     pure: topics of jobs, topics at their limits, due jobs whose topics are not known yet
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/fair.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/strbuf.h"
#include "base/thread.h"
#include "deliver/delivery.h"
#include "deliver/hands.h"
#include "dispatch/fence.h"
#include "dispatch/leader.h"
#include "dispatch/scan.h"
#include "dispatch/topic_snapshot.h"
#include "job/inflight.h"
#include "job/job.h"
#include "shard_loop.h"

/* ---- shard_memory.c ---- */

/* A set of ids of jobs. Ids cannot be removed singly, only all at once. Bounded; pure; for one thread at a time. */

#define DT_ID_SET_MAX 16384

/* Must be zeroed before use; allocates a quarter of a megabyte when the first id is added. */
struct dt_id_set {
    int64_t *v; /* hash table of ids; 0: a free slot */
    size_t n;
};

/* Adds an id, which is not 0. False: the set is full, or memory ran out; the id was not added. */
bool dt_id_set_add(struct dt_id_set *set, int64_t id);
bool dt_id_set_has(const struct dt_id_set *set, int64_t id);
void dt_id_set_empty(struct dt_id_set *set);
void dt_id_set_clear(struct dt_id_set *set);

/*
 * The topics of a shard that are at their limits, and how many of their jobs may be tried. Pure.
 *
 * If a topic is not in the list, all of its jobs may be tried. If a leader transaction found no room for the topic's
 * jobs, the topic is in the list with 0 allowed jobs until it gets a grant. Entries may be outdated and expire after a
 * while, so a lost entry only costs time.
 */

/* Maximal number of topics in the list. Further topics at their limits are not remembered: each leader transaction
 * finds their limits again. */
#define DT_LIMIT_MEMORY_TOPICS 1024
#define DT_LIMIT_WAITS_US      INT64_C(5000000) /* if a topic gets no grant, its jobs are tried again after this time */
#define DT_LIMIT_GRANTED_US    INT64_C(1000000) /* a grant that is not used within this time expires */

struct dt_limited_topic {
    char name[201];
    size_t allowed;   /* number of jobs that may still be tried */
    int64_t since_us; /* mono: when `allowed` was last set, or when room.c last promised a grant */
    int64_t asked_us; /* mono: when room was last requested (by shard_held.c); 0: not since `allowed` was set */
};
struct dt_limit_memory {
    struct dt_limited_topic *v;
    size_t n, cap;
};

void dt_limit_memory_clear(struct dt_limit_memory *memory);
/* Returns how many of the topic's jobs may be tried now; SIZE_MAX: any number, because the topic is not in the list. */
size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us);
void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us);
/* Decrements the number of allowed jobs of the topic. Returns true if this makes it 0. */
bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic);
/* Removes a topic from the list, so that any number of its jobs may be tried. */
void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic);
void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us);

/*
 * A leader's cache of the topics of jobs. Without the cache, each job of a backlog would be looked up in MySQL when it
 * is parked in a held set, and again whenever it is in the due set. Pure.
 *
 * The cache is bounded; a lost entry costs one lookup. A job's topic never changes, but its state does. So only
 * scheduled jobs are cached, and the leader removes the jobs that it is about to claim, because they then wait for a
 * report. The host of a job's own callback_url may change too, so the cache only says that the job has such a URL.
 */

#define DT_TOPIC_MEMORY_JOBS   65536 /* number of cached jobs; they take a megabyte, allocated only during a backlog */
#define DT_TOPIC_MEMORY_TOPICS 64

struct dt_remembered;
/* Must be zeroed before use. dt_topic_memory_clear frees everything, and may be called at any time. */
struct dt_topic_memory {
    struct dt_remembered *jobs; /* hash table by job id; a new id replaces an older one */
    char *topics[DT_TOPIC_MEMORY_TOPICS];
    size_t n_topics;
};

void dt_topic_memory_clear(struct dt_topic_memory *memory);
void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host);
void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id);
/* Finds the topic of a job. False: the job is not cached. *topic stays valid until the memory is cleared. */
bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host);

enum { STOP = 8, RELEASE = 16, FOUND_OUT = 32, SENDER = 64 }; /* the bits below are those of enum dt_loop_news */

struct dt_shard_meters {
    dt_metric *dispatched, *lateness, *batch, *takeovers, *timed_out, *leader_txn_seconds, *epoch, *leading, *halted;
    dt_metric *undeliverable, *offered, *lost;
};

/* ---- shard_batch.c, shard_takeover.c ---- */

/* The in-flight list, and whether its head was sent. Each takeover reads the list from the row again. */
struct dt_flight {
    struct dt_inflight list;
    bool sent;                   /* the first fence.send_n entries were sent and committed; settle_offset is valid */
    int64_t settle_offset;       /* the offset after the ledger record of the entries that were sent */
    int64_t claimed_us, sent_us; /* mono: when the last batch was claimed, and sent; 0: unknown */
    int64_t shortest_ack_ms;     /* shortest ack_timeout in the last claimed batch; 0: unknown */
};

/* ---- shard_batch.c ---- */

enum dt_sender_state { DT_SENDER_CLOSED, DT_SENDER_OPENING, DT_SENDER_OPEN, DT_SENDER_SENDING };

struct dt_sender {
    dt_delivery *delivery;
    struct dt_thread thread;
    dt_mailbox *mailbox;
    void (*done)(void *arg); /* called on the sender's thread when the request is done */
    void *arg;
    /* The running request. The loop writes these members before it sets busy; then the sender's thread writes them
     * until it clears busy. */
    _Atomic bool busy;
    struct dt_fence fence;
    struct dt_inflight list;
    const struct dt_outgoing *jobs; /* jobs to send; the jobs and their messages live in `arena` */
    struct dt_arena arena;
    dt_status status;
    struct dt_error err;
    struct dt_delivery_findings found;
    /* Only the loop writes the members below. The sender's thread also reads `state`. */
    enum dt_sender_state state;
    bool idle;            /* the sender was closed because no job was due */
    bool abandoned;       /* the leadership ended during the request: the sender is closed when the request returns */
    int64_t epoch;        /* epoch in which the delivery was last opened */
    int64_t wanted_us;    /* mono: since when the loop needs an open sender; 0: the sender is open, or is not needed */
    int64_t retry_us;     /* mono: earliest time of the next opening */
    int64_t requested_us; /* mono: when the running request was made */
    unsigned failures;    /* number of consecutive failures */
    struct dt_outage_part outage;
};

dt_status dt_sender_start(struct dt_sender *sender, dt_delivery *delivery, void (*done)(void *arg), void *arg);
/* Joins the sender's thread. The caller must first make the delivery's blocking calls return. */
void dt_sender_stop(struct dt_sender *sender);
/* Requests the work that belongs to `state`, with copies of the fence and the in-flight list. Must not be called while
 * a request runs. NOMEM: nothing was requested. */
dt_status dt_sender_request(struct dt_sender *sender, enum dt_sender_state state, const struct dt_fence *fence,
                            const struct dt_inflight *list);
/* Requests to close the delivery. Must not be called while a request runs. */
void dt_sender_close(struct dt_sender *sender);

/* Monotonic times: fence_us: when the row was last compared with our fence; clock_us: when MySQL's clock was last
 * read. */
struct dt_shard_checked {
    int64_t fence_us, clock_us;
};

struct dt_shard_orphan {
    char topic[200]; /* topic of a due job that has no row in `topics`; empty: no such topic was seen lately */
    int64_t met_us;
};

/* ---- shard_trust.c ---- */

struct dt_shard_trust {
    struct dt_shard_map map;
    /* Generation of the shard map for which the shard's set was filled; since then, no map has given slots to the
     * shard. */
    int64_t filled_for;
    bool up;              /* there is an index, and its last answer was no failure */
    uint64_t doubts;      /* number of doubts (state.doubts) for which MySQL was read through, or is being read */
    bool rebuild_unasked; /* the shard's set must not be trusted, and its rebuild was not requested yet */
    /* The marker that this leadership writes into the shard's set: */
    bool marked;                /* the marker was written */
    bool says_whole;            /* the marker says that the shard's set is complete */
    int64_t mark_count;         /* counter in the marker, which each write of the marker increments */
    int64_t marked_us;          /* mono: when the index last accepted a write of the marker */
    bool mark_unanswered;       /* the last write of a marker failed, so the set may have the marker of that write */
    bool unanswered_says_whole; /* the marker whose write failed says that the set is complete */
    /* Whether the shard's set is complete. Protected by state_lock: any thread sets it, the loop clears it. */
    _Atomic bool whole;
    /* Whether the shard's set was compared with MySQL since the last doubt. Protected by state_lock; any thread changes
     * it. */
    _Atomic bool compared;
    struct dt_outage_part outage;
};

/* ---- shard_held.c ---- */

/* Why the jobs of a queue may not be sent, as one value, and what follows from it. Only shard_held.c decides the
 * reason; fair queues use the consequences. To add a reason, add a value here and a row to the table below. */
enum dt_closed {
    DT_CLOSED_NOT,         /* the queue's jobs may be sent */
    DT_CLOSED_FINDING_OUT, /* it is being looked up whether the topic can be written */
    DT_CLOSED_NO_ROW,      /* jobs have this topic, but the table `topics` has no row of it */
    DT_CLOSED_PAUSED,
    DT_CLOSED_LIMIT, /* no room within the topic's limits */
    /* No place for the topic's callbacks; no job is tried, because the leader is notified of free places. */
    DT_CLOSED_FULL,
    DT_CLOSED_UNWRITABLE,
    DT_CLOSED_UNREAD /* a queue of timed-out attempts, whose reports may be unread */
};

struct dt_closed_rule {
    bool parks; /* due jobs are parked, except one job per batch, which is tried */
    bool few;   /* due jobs stay in the due set; each batch tries one job each of a few of these queues */
    bool holds; /* parked jobs stay in their held set, even if the batch has room for them */
    bool tries; /* now and then the first parked job returns to the due set, so that a batch tries it */
};

static inline struct dt_closed_rule dt_closed_rule(enum dt_closed closed)
{
    static const struct dt_closed_rule rules[] = {
        [DT_CLOSED_NOT] = {.parks = false},
        [DT_CLOSED_FINDING_OUT] = {.few = true},
        [DT_CLOSED_NO_ROW] = {.holds = true, .tries = true},
        [DT_CLOSED_PAUSED] = {.parks = true, .holds = true},
        [DT_CLOSED_LIMIT] = {.parks = true, .holds = true, .tries = true},
        [DT_CLOSED_FULL] = {.parks = true, .holds = true},
        [DT_CLOSED_UNWRITABLE] = {.parks = true, .holds = true, .tries = true},
        [DT_CLOSED_UNREAD] = {.holds = true},
    };
    return rules[closed];
}

/* ---- shard_trust.c ---- */

#define DT_SKIPPED_BITS 16
struct dt_shard_cursor {
    /* All due jobs are being read from MySQL once: after a doubt, or because the head of the index is stuck. */
    bool reads_through;
    int64_t ms, id;             /* position of the cursor: all due jobs up to it are handled */
    int64_t began_ms, began_id; /* position of the cursor before the last due scan */
    /* A sweep reads from the longest overdue job to the first job that is not due yet. */
    bool closed;                /* the last sweep left jobs that may not be sent, due up to swept_ms */
    int64_t topics_version;     /* version of the topics when the last sweep of all due jobs began */
    int64_t left_ms;            /* the sweep left jobs that may be sent and are due after this time; INT64_MAX: none */
    int64_t swept_ms;           /* due time up to which the last sweep has read; 0: the sweep has not ended */
    int64_t walk_ms, walk_id;   /* position of the walk over the jobs that the last sweep left */
    int64_t walk_us;            /* mono: when the walk over these jobs continues */
    int64_t ahead_ms, ahead_id; /* position of the reader ahead of the cursor */
    int64_t ahead_us;           /* mono: when the reader that is ahead of the cursor last began at the cursor */
    /* Since it last began at the cursor, the reader that is ahead of it has reached the last due row. */
    bool ahead_ended;
    /* A bit for each queue, by its hash. It is set if the reader that is ahead of the cursor has skipped a job of the
     * queue since it last began at the cursor. If two queues share a bit, both wait for the cursor, until the reader
     * begins again with another salt. */
    uint64_t skipped[(1 << DT_SKIPPED_BITS) / 64];
    uint64_t salt;
};

/* ---- shard_memory.c ---- */

struct dt_shard_unknown {
    struct dt_id_set ids; /* jobs that due scans skip; emptied when topics may have become known, and after a while */
    int64_t since_us;     /* mono: when the first id was added to `ids` while it was empty */
};

/* ---- shard_due.c ---- */

struct dt_shard_due {
    struct dt_entry *entries; /* entries of a due scan; capacity of `entries` and of `rows`: DT_SCAN_BATCHES batches */
    struct dt_due *rows;
    bool backlog;      /* the last due scan left jobs in the due set that may be sent */
    int64_t unread_ms; /* latest deadline of timeouts that wait because reports may be unread; 0: none waits */
    int64_t read_ms;   /* time up to which reports in Kafka had been read at the last step */
};

/* ---- shard_held.c, shard_queues.c ---- */

/* A fair queue that has a held set: the jobs of a topic, of one host of a topic, or the timeouts of a topic. */
struct dt_held_queue {
    char name[DT_HELD_NAME_SIZE];
    int64_t owner, number; /* owner: owner of the queue's topic; number: identifies the held set */
    enum dt_closed closed; /* why parked jobs may not be sent */
    size_t given;          /* number of entries that returned to the due set before the current due scan */
    int64_t next_ms;       /* when the first entry of the held set is due; 0: the held set is empty */
};
struct dt_due_queue {
    struct dt_str topic; /* absent: the queue of jobs that have no row */
    uint32_t host;       /* not 0: a queue of the topic's jobs for this host, which has no place for them */
    size_t waiting, given;
    int64_t next_ms; /* due time of the first entry that is still in the held set; valid if `given` is not 0 */
    /* met: number of the queue's entries that are due before next_ms; may: how many of these may be sent. */
    size_t met, may;
    /* For a queue of timeouts: the queue of the same topic's other jobs; NULL: no other job of the topic is due. */
    struct dt_due_queue *own;
    bool timeouts, held;
    enum dt_closed closed;
    /* How many jobs may be claimed now; for a host's queue: how many of its jobs may join the topic's queue. */
    size_t room;
    size_t hash;
    bool left;    /* a job of this queue was left, and the cursor stays before it */
    bool skipped; /* the reader that is ahead of the cursor has skipped a job of this queue */
};
struct dt_fair_queues {
    struct dt_hint *hints; /* jobs for the next leader transaction; capacity: a batch */
    size_t n_hints;
    struct dt_held_queue *v;
    struct dt_turn *open; /* scratch: the held sets whose queues are open, to sort them by turns; capacity: `cap` */
    size_t n, cap;
    struct dt_turns turns;         /* turns of the owners from whose held sets entries returned last */
    size_t others;                 /* number of hints of the last due scan that belong to queues without a held set */
    int64_t held_us;               /* mono: when held sets were last listed */
    bool topics_changed;           /* topics changed since held_us */
    struct dt_topic_memory memory; /* topics of jobs during a backlog; otherwise empty */
    struct dt_arena arena;         /* memory for one due scan, for all members below */
    struct dt_due_queue *queues;
    struct dt_fair_queue *parts; /* parts[i] is for queues[i] */
    size_t n_queues;
    uint32_t *of; /* for each entry of the due scan, the index of its queue */
    /* Set by dt_shard_hint_rows: head: number of entries that were read at the cursor; rows: number of all entries,
     * with those read ahead of the cursor. Otherwise rows is 0. */
    size_t head, rows;
};

/* ---- shard_loop.c ---- */

/* Orders to the loop. Any thread sets them; they are never cleared. */
struct dt_shard_orders {
    _Atomic bool stop, release;
    _Atomic bool abort; /* if set, the delivery's blocking calls return */
};

/* The thread's schedule, in monotonic time. */
struct dt_shard_pace {
    int64_t busy_us;      /* when the loop last had work */
    int64_t pause_end_us; /* the end of the pause after a batch */
    /* About the step that requested the running send. next_us: when the next step follows (earlier if the batch must be
     * settled); began_us: when the step began; took_all: its batch took all due jobs. */
    int64_t next_us, began_us;
    bool took_all;
    int64_t locked_pause_us; /* pause before rows that other sessions have locked are read again */
};

/* Jobs whose attempts may belong to an expired owner; may contain duplicates. */
struct dt_shard_lost {
    int64_t *v; /* capacity: a batch */
    size_t n;
};

/* A run: consecutive batches that each left due jobs. The claims of a run show the shard's full rate. */
struct dt_shard_run {
    int64_t began_us; /* mono: when the first batch of the run began; 0: there is no run */
    size_t claimed;
};

struct dt_shard_told {
    bool halt;
    struct dt_outage_part outage;
};

struct dt_shard_loop {
    const struct dt_process_env *env;
    unsigned shard;
    struct dt_thread thread;
    dt_mailbox *mailbox; /* any thread may signal it */
    struct dt_shard_orders orders;
    struct dt_shard_meters meters;

    /* These members exist as long as the loop. */
    dt_store *store;
    dt_index *index; /* NULL: the installation has no index, so MySQL is read */
    dt_topic_snapshot *snapshot;
    dt_delivery *delivery;
    struct dt_sender sender;
    dt_hands_claims *claims;
    int64_t full_us;       /* mono: when a due callback without a place was last seen; 0: never */
    struct dt_arena arena; /* memory for one leader transaction */

    struct dt_fence fence; /* the fence of this leadership; every transaction of the leader updates it */
    struct dt_flight flight;
    struct dt_shard_checked checked;
    struct dt_shard_orphan orphan;
    struct dt_shard_trust trust;
    struct dt_shard_cursor cursor;
    struct dt_shard_unknown unknown;
    struct dt_shard_due due;
    struct dt_fair_queues fair;
    struct dt_limit_memory limits; /* written by shard_held.c */
    struct dt_shard_pace pace;
    struct dt_shard_run run;
    struct dt_turns turns; /* turns of the owners whose topics were in batches that could not take the topics of all */
    struct dt_shard_told told;

    pthread_mutex_t state_lock;
    struct dt_shard_lost lost; /* protected by state_lock: any thread adds jobs, the loop takes them */
    /* Protected by state_lock; any thread reads it; shard_trust.c writes what concerns the index. */
    struct dt_loop_state state;
};

static inline int64_t dt_shard_mono_us(const dt_shard_loop *l)
{
    return dt_clock_mono_us(l->env->clock);
}

#define DT_SENDER_STALLED_US INT64_C(500000)
/* Returns whether the sender has been needed but not open for DT_SENDER_STALLED_US, because opening or a commit takes
 * long. Jobs that need the sender are then parked. */
static inline bool dt_shard_sender_stalled(const dt_shard_loop *l)
{
    const struct dt_sender *s = &l->sender;
    int64_t since_us = s->wanted_us ? s->wanted_us : s->state == DT_SENDER_SENDING ? s->requested_us : 0;
    return s->state != DT_SENDER_OPEN && since_us && dt_shard_mono_us(l) - since_us > DT_SENDER_STALLED_US;
}

/* Returns whether a part of the in-flight list is unsent. That part is sent before new jobs are claimed. */
static inline bool dt_shard_has_remainder(const dt_shard_loop *l)
{
    return l->fence.inflight > l->fence.send_n;
}

/* ---- shard_takeover.c ---- */

/* If processes have died at assertions of this shard, waits until the pause that follows has passed. */
void dt_shard_wait_after_deaths(dt_shard_loop *l);
/* Writes a new epoch and token into the row. OK: this process leads the shard, and l->flight has the in-flight list of
 * the row; whether the list was sent is not known yet. */
dt_status dt_shard_begin_epoch(dt_shard_loop *l, struct dt_error *err);
/* Handles what the sender has finished: settles what the ledger shows, or records what was sent. Opens the sender if it
 * is needed. Never waits for Kafka. Returns OK if only Kafka failed; any other status ends the leadership. */
dt_status dt_shard_tend_sender(dt_shard_loop *l, struct dt_error *err);
/* Returns the pause after this many consecutive failures, with jitter. alarm: only an operator can fix the cause, so
 * the pause is longer. */
int64_t dt_shard_backoff_us(const dt_shard_loop *l, unsigned failures, bool alarm);
/* Closes the sender because a leadership ends: at once, or when its running request returns. */
void dt_shard_abandon_sender(dt_shard_loop *l);

/* ---- shard_batch.c ---- */

/* Reads the rows of the jobs in the head of the in-flight list again, and requests to send them. If the head is empty,
 * only returns OK. */
dt_status dt_shard_send_remainder(dt_shard_loop *l, struct dt_error *err);
/* Runs one leader transaction for the hinted jobs: settles, times out, claims. Then updates the index, and requests to
 * send the head of the in-flight list. Afterwards only the numbers in *txn are valid. */
dt_status dt_shard_batch(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err);
/* Runs a leader transaction that only settles what was sent. */
dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err);
/* Compares the row with our fence, reads MySQL's clock now and then, and requests a reload of an outdated map. */
dt_status dt_shard_check_fence(dt_shard_loop *l, struct dt_error *err);

/* ---- shard_due.c ---- */

#define DT_SCAN_BATCHES 8 /* number of batches that one due scan reads at most */
/* Initializes the state of due scans when a leadership begins. */
void dt_shard_due_init(dt_shard_loop *l);
/* Adds jobs that may be due at now_ms to the hints. *next_ms: the next due time after now_ms; 0: not known. */
dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err);

/* ---- shard_tell.c ---- */

/* Updates the index for the jobs of a leader transaction. If an update fails, the index is not trusted any more. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Wakes APIs that wait for jobs of the offered topics. If an API misses this, it finds the jobs when it polls. */
void dt_shard_tell_offers(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Stores in the index when a job is next due (0: never), whatever entry the job has in the index. */
void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done);
/* If the map no longer names the shard, drops the shard's set. Called before stepping down. */
void dt_shard_leave_index(dt_shard_loop *l);

/* ---- shard_held.c ---- */

/* Called before a due scan: takes granted room, and requests room for topics that have none. */
void dt_shard_limits_tend(dt_shard_loop *l);
/* Returns from memory how many of the topic's jobs may be tried; for the leader transaction. */
size_t dt_shard_limit_allowed(void *loop, struct dt_str topic);
/* Records what a leader transaction claimed, and which topics had no room. Called before the index is updated. */
void dt_shard_limits_note(dt_shard_loop *l, const struct dt_leader_txn *txn);

/* Initializes the queues when a leadership begins: no held set is known. */
void dt_shard_queues_init(dt_shard_loop *l);
/* Clears the topic memory, unless parked jobs still form a backlog. */
void dt_shard_forget_topics_unless_held(dt_shard_loop *l);
/* Called when topics changed: they are read, and held sets are listed, again before the next due scan. */
void dt_shard_topics_changed(dt_shard_loop *l);
/* Lists the held sets, and decides which of their jobs may be sent; without an index, only reads the topics. Does
 * nothing if the last listing is only seconds old and topics have not changed since. */
void dt_shard_list_held(dt_shard_loop *l);
/* Finds a held set by its name; NULL: no such set is known. */
struct dt_held_queue *dt_shard_find_held(struct dt_fair_queues *fair, struct dt_str name);
/* Records that the held set exists, and why its jobs may not be sent. */
void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, enum dt_closed closed);
/* Called when there may be room again: checks each queue that is closed for lack of room. */
void dt_shard_look_for_room(dt_shard_loop *l);
/* Called when more reports were read: opens the queues of timeouts that waited for these reports. */
void dt_shard_open_timeouts(dt_shard_loop *l);
/* Returns whether any parked job may be sent. */
bool dt_shard_parked_may_go(const dt_shard_loop *l);
/* Called before a due scan: moves entries from held sets, if they may be sent, back to the due set; about as many as
 * fit into a batch. */
void dt_shard_give_back(dt_shard_loop *l);

/* Returns whether a message of this size may be sent to the topic now; not while the sender is stalled. For
 * dt_leader_gate. */
enum dt_writable dt_shard_writable(void *loop, struct dt_str topic, int64_t owner, int64_t bytes);
/* Returns why due jobs of a topic may not be sent. If the topic has no row, its jobs may be tried, because only the
 * leader transaction can decide. */
enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic);
/* Returns about how many jobs of a topic, or of the held set with this name, may be claimed now; SIZE_MAX: no limit. */
size_t dt_shard_room(dt_shard_loop *l, struct dt_str name);
/* Returns how many jobs of the topic that name the host with this number find a place at the host now; SIZE_MAX: jobs
 * of the topic need no place. */
size_t dt_shard_room_at(dt_shard_loop *l, struct dt_str topic, uint32_t host);
/* Returns why the leader transaction did not claim jobs of a topic. */
enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic);

/* ---- shard_queues.c ---- */

/* Fills fair.queues, and fair.of with the queue of each of due.entries[0..n), according to MySQL. by_host: a topic's
 * jobs for a host that has no place for them form a queue of their own. */
dt_status dt_shard_sort_queues(dt_shard_loop *l, size_t n, bool by_host, struct dt_error *err);
/* If attempts may be lost, makes their jobs the hints, and returns true. Otherwise there are no hints. */
bool dt_shard_hint_lost(dt_shard_loop *l);
/* Adds all of due.entries[0..n), ordered by time, to the hints; n is at most a batch. */
void dt_shard_hint_first(dt_shard_loop *l, size_t n);
/* Adds due.entries[0..n), read from the index, to the hints: each queue gets a share, and other entries are parked.
 * *backlog: entries that may be sent were left in the due set. */
dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *backlog, struct dt_error *err);
/* Marks the queues of these jobs (ascending ids), which were read beyond the cursor, as skipped: their jobs wait for
 * the cursor. Must only be called if both readers of MySQL read in the last due scan. */
void dt_shard_leave_to_cursor(dt_shard_loop *l, const int64_t *ids, size_t n);
/* Returns whether any queue of dt_shard_sort_queues has jobs that may be sent or tried. */
bool dt_shard_some_may_go(const dt_shard_loop *l);
/* Adds due.entries[0..n), read from MySQL, to the hints: each queue gets a share. The first n_head entries were read at
 * the cursor, and advance it. The other entries were read by the reader that is ahead of the cursor. */
dt_status dt_shard_hint_rows(dt_shard_loop *l, size_t n_head, size_t n, struct dt_error *err);

/* ---- shard_trust.c ---- */

/* Initializes the trust in the index when a leadership begins: its marker is not written yet. */
void dt_shard_trust_init(dt_shard_loop *l);
/* Called when the leadership has a new epoch: its next marker replaces `was`. What is known about the shard's set is
 * kept. */
void dt_shard_trust_renew(dt_shard_loop *l, const struct dt_marker *was);
void dt_shard_read_map(dt_shard_loop *l);
/* Returns the marker that this leadership wrote last. */
struct dt_marker dt_shard_marker(const dt_shard_loop *l);
/* Returns whether due jobs are read from the index; otherwise they are read from MySQL. */
bool dt_shard_believes_index(const dt_shard_loop *l);
/* Called when the shard's set may lack entries: it is not trusted until it has been compared with MySQL. */
void dt_shard_doubt_index(dt_shard_loop *l);
/* Reads which doubts about the shard's set other threads have raised; after a new doubt, all due jobs are read from
 * MySQL once. */
void dt_shard_take_doubts(dt_shard_loop *l);
/* Returns whether the answer to the last write of our marker was lost. If so, dt_shard_marker returns the marker of
 * that write from now on. */
bool dt_shard_assume_marked(dt_shard_loop *l);
/* Makes the next due scan write our marker again, which shows whether the index accepts changes. */
void dt_shard_mark_soon(dt_shard_loop *l);
/* Writes this leadership's marker if it is missing or old, or if the shard's set is complete but the marker does not
 * say so. there: the due scan has seen our last marker in the set. If the write fails, the index counts as failed. */
dt_status dt_shard_keep_marked(dt_shard_loop *l, bool there, struct dt_error *err);
/* Records how the index answered a due scan. If the index could not be reached, it is not trusted until it answers
 * again and has been compared with MySQL. */
void dt_shard_note_index(dt_shard_loop *l, dt_status status, const struct dt_error *err);

/* Makes the next due scans read all due jobs from MySQL once, from the longest overdue job on, instead of the index. */
void dt_shard_read_through(dt_shard_loop *l);
/* Moves both readers of MySQL back to the longest overdue job, because jobs that they skipped may be sendable now. */
void dt_shard_due_from_start(dt_shard_loop *l);
/* Returns whether there is no index, and none of the jobs that were due at the last scan may be sent, as far as is
 * known; false if topics have changed since these jobs were read. */
bool dt_shard_has_closed(const dt_shard_loop *l);
/* If the last sweep left jobs that may not be sent, a walk checks these jobs again, some at a time. Returns the due
 * time at which the walk ends. */
int64_t dt_shard_walk_end_ms(const dt_shard_loop *l);
/* Records the position of the walk over the jobs that the last sweep left. 0, 0: the walk has ended, and begins again
 * after reconcile.period. */
void dt_shard_walk_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* Begins a due scan of MySQL. Without an index, this begins a sweep: at the longest overdue job, or, if no job before
 * the end of the last sweep may be sent, at that end, or where that sweep left a job that may. */
void dt_shard_begin_scan(dt_shard_loop *l);
/* Ends a sweep. Called when the scan has reached a job that is not due at now_ms. */
void dt_shard_end_sweep(dt_shard_loop *l, int64_t now_ms);
/* Records whether a leader transaction left some of the hints: the next sweep reads these jobs again. If jobs did not
 * fit into the batch, the next due scan does; otherwise later jobs of their topics would overtake them. */
void dt_shard_note_left(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Moves the cursor back. Called when callbacks freed places, which is often. So the reader that is ahead of the cursor
 * is moved back only if it has reached the end of the due rows. */
void dt_shard_due_again(dt_shard_loop *l);
/* Moves the cursor. All jobs up to this position are handled. */
void dt_shard_cursor_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* Moves the reader that is ahead of the cursor to `last`, the cursor's position, unless it is beyond `last`.
 * Afterwards, no queue counts as skipped. */
void dt_shard_place_ahead(dt_shard_loop *l, const struct dt_entry *last);
void dt_shard_ahead_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* Called when the reader that is ahead of the cursor has reached the end of the due rows: moves it back by a short
 * time, or to the start. */
void dt_shard_ahead_end(dt_shard_loop *l);
/* Returns whether the reader that is ahead of the cursor has skipped a job of the queue with this hash. */
bool dt_shard_was_skipped(const dt_shard_loop *l, size_t hash);
void dt_shard_skip(dt_shard_loop *l, size_t hash);

/* ---- shard_memory.c ---- */

/* Records that the topic of this due job is being looked up. */
void dt_shard_note_unknown(dt_shard_loop *l, int64_t id);
/* Removes jobs whose topics are being looked up from due.entries[0..n). Returns how many entries remain. */
size_t dt_shard_pass_by_unknown(dt_shard_loop *l, size_t n);
