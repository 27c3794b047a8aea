/*
 * The inside of a shard loop; only its files include it. Unless marked otherwise, everything belongs to the loop's own
 * thread. Each part of the loop is written by the file named above it, and read by the other files. A file calls only
 * files below it in this table:
 *
 *   shard_loop.c       the thread: when to do which, idling, stepping down, what it reports about itself
 *   shard_takeover.c   a new epoch in the row; then the ledger, and settling what it has
 *   shard_batch.c      the leader transaction, and the thread that sends its head
 *   shard_tell.c       updates of the index
 *   shard_due.c        the due scan: what may be due, from the index or from MySQL
 *   shard_queues.c     which jobs go first when more are due than fit into a batch
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

/* A set of ids of jobs. Ids are removed only all at once. Bounded; pure; for one thread at a time. */

#define DT_ID_SET_MAX 16384

/* Starts as zeroes; allocates a quarter of a megabyte with the first id. */
struct dt_id_set {
    int64_t *v; /* a hash table; 0: a free slot */
    size_t n;
};

/* Ids are not 0. False: the set is full, or memory ran out; the id was not added. */
bool dt_id_set_add(struct dt_id_set *set, int64_t id);
bool dt_id_set_has(const struct dt_id_set *set, int64_t id);
void dt_id_set_empty(struct dt_id_set *set);
void dt_id_set_clear(struct dt_id_set *set);

/*
 * The topics of a shard that are at their limits, and how many of their jobs may be tried. Pure.
 *
 * If a topic is not in the list, all of its jobs may be tried: the leader transaction finds out. If it found no room,
 * it is in the list with 0 allowed until a grant. Entries may be outdated and expire after a while, so losing one (a
 * grant, a changed limit) only costs time.
 */

#define DT_LIMIT_MEMORY_TOPICS 1024             /* further topics find their limit again in each transaction */
#define DT_LIMIT_WAITS_US      INT64_C(5000000) /* without a grant, a topic is tried again after this time */
#define DT_LIMIT_GRANTED_US    INT64_C(1000000) /* a grant that is not used within this time ends */

struct dt_limited_topic {
    char name[201];
    size_t allowed;   /* jobs that may still be tried */
    int64_t since_us; /* when `allowed` was last set, or room.c promised a grant: then the owner sets it */
    int64_t asked_us; /* set by the owner: when room was last requested; 0 = not since `allowed` was set */
};
struct dt_limit_memory {
    struct dt_limited_topic *v;
    size_t n, cap;
};

void dt_limit_memory_clear(struct dt_limit_memory *memory);
/* The number of the topic's jobs that may be tried now; SIZE_MAX: any number, the topic is not in the list. */
size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us);
void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us);
/* Decrements the allowed jobs. True: it was the last one. */
bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic);
/* Removes a topic: any number of its jobs may be tried. */
void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic);
void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us);

/*
 * A leader's cache of the topics of jobs. Without it, each job of a backlog in a held set would be looked up in MySQL
 * when it is parked, and again whenever it is in the due set. Pure.
 *
 * The cache is bounded; a lost entry costs one lookup. A job's topic never changes, but whether the job waits for its
 * report does: so only scheduled jobs are cached, and the leader removes those that it is about to claim. The host of a
 * job's own callback_url may change too, so the cache only says that the job has such a URL.
 */

#define DT_TOPIC_MEMORY_JOBS   65536 /* a megabyte during a backlog */
#define DT_TOPIC_MEMORY_TOPICS 64

struct dt_remembered;
/* Starts as zeroes; clear frees all of it, and may be called at any time. */
struct dt_topic_memory {
    struct dt_remembered *jobs; /* by a hash of the id; a new id replaces an older one */
    char *topics[DT_TOPIC_MEMORY_TOPICS];
    size_t n_topics;
};

void dt_topic_memory_clear(struct dt_topic_memory *memory);
void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host);
void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id);
/* False: not cached. *topic stays valid until the memory is cleared. */
bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host);

enum { WAKE = 1, TOPICS = 2, STOP = 4, RELEASE = 8, FOUND_OUT = 16, ROOM = 32, SENDER = 64 };

struct dt_shard_meters {
    dt_metric *dispatched, *lateness, *batch, *takeovers, *timed_out, *leader_txn_seconds, *epoch, *leading, *halted;
    dt_metric *undeliverable, *offered, *lost;
};

/* ---- shard_batch.c, shard_takeover.c ---- */

/* The list in the row, and whether its head was sent. A takeover reads the list again. */
struct dt_flight {
    struct dt_inflight list;
    bool sent;                   /* the first fence.send_n were committed; settle_offset is valid */
    int64_t settle_offset;       /* the first offset after their ledger record */
    int64_t claimed_us, sent_us; /* mono; 0 = unknown */
    int64_t shortest_ack_ms;     /* of the jobs that were claimed then; 0 = unknown */
};

/* ---- shard_batch.c ---- */

enum dt_sender_state { DT_SENDER_CLOSED, DT_SENDER_OPENING, DT_SENDER_OPEN, DT_SENDER_SENDING };

struct dt_sender {
    dt_delivery *delivery;
    struct dt_thread thread;
    dt_mailbox *mailbox;
    void (*done)(void *arg); /* the request is done; on the sender's thread */
    void *arg;
    /* The request. The loop writes it before it sets busy; the thread writes it until it clears busy. */
    _Atomic bool busy;
    struct dt_fence fence;
    struct dt_inflight list;
    const struct dt_outgoing *jobs; /* to send; they and their messages are in arena */
    struct dt_arena arena;
    dt_status status;
    struct dt_error err;
    struct dt_delivery_findings found;
    /* Only the loop writes these; the thread also reads state. */
    enum dt_sender_state state;
    bool idle;            /* closed because no job was due */
    bool abandoned;       /* the leadership ended during the request: close when it returns */
    int64_t epoch;        /* of the last opening */
    int64_t wanted_us;    /* mono: since when an open sender is wanted; 0 = it is open, or not wanted */
    int64_t retry_us;     /* mono: the earliest next opening */
    int64_t requested_us; /* mono: when the request was made */
    unsigned failures;    /* consecutive failures */
    struct dt_outage_part outage;
};

dt_status dt_sender_start(struct dt_sender *sender, dt_delivery *delivery, void (*done)(void *arg), void *arg);
/* Joins the thread. First the caller makes the delivery's blocking calls return. */
void dt_sender_stop(struct dt_sender *sender);
/* Requests the work of `state`, with copies of the fence and the list. Only while no request runs. NOMEM: nothing was
 * requested. */
DT_MUST_CHECK dt_status dt_sender_request(struct dt_sender *sender, enum dt_sender_state state,
                                          const struct dt_fence *fence, const struct dt_inflight *list);
bool dt_sender_busy(const struct dt_sender *sender);
/* Requests to close. Only while no request runs. */
void dt_sender_close(struct dt_sender *sender);

/* Mono: when the row was last compared with our fence; when MySQL's clock was last sampled. */
struct dt_shard_checked {
    int64_t fence_us, clock_us;
};

struct dt_shard_orphan {
    char topic[200]; /* a topic that jobs have and `topics` lacks; empty = none was seen lately */
    int64_t met_us;
};

/* ---- shard_trust.c ---- */

struct dt_shard_trust {
    struct dt_shard_map map;
    int64_t filled_for;   /* generation of the map that the set was filled for; the shard got no slots since */
    bool up;              /* there is an index, and it answered and accepted changes last time */
    uint64_t doubts;      /* number of doubts up to which MySQL was read through once, or is being read */
    bool rebuild_unasked; /* the set must not be trusted, and its rebuild was not requested yet */
    /* The marker of this leadership in the set. */
    bool marked;                /* the marker was written */
    bool says_whole;            /* the marker says that the set is complete */
    int64_t mark_count;         /* the marker's counter */
    int64_t marked_us;          /* mono: when the index last accepted it */
    bool mark_unanswered;       /* the last marking failed, so a marker with the next counter may exist */
    bool unanswered_says_whole; /* if it exists, it says that the set is complete */
    _Atomic bool whole;         /* the set is complete. Any thread sets it, the loop clears it, both under state_lock */
    _Atomic bool compared;      /* compared with MySQL since the last doubt. Any thread, under state_lock */
    struct dt_outage_part outage;
};

/* ---- shard_held.c ---- */

/*
 * Why the jobs of a queue may not be sent, as one value, and what follows from it. Only shard_held.c decides the
 * reason; fair queues use its consequences. A new reason is a value and a row of the table.
 */
enum dt_closed {
    DT_CLOSED_NOT,         /* the queue is open */
    DT_CLOSED_FINDING_OUT, /* it is being looked up whether the topic can be written */
    DT_CLOSED_NO_ROW,      /* jobs have the topic, but `topics` has no row */
    DT_CLOSED_PAUSED,
    DT_CLOSED_LIMIT, /* no room within the topic's limits */
    DT_CLOSED_FULL,  /* no place for its callbacks: free places are reported, so no job is tried */
    DT_CLOSED_UNWRITABLE,
    DT_CLOSED_UNREAD /* timeouts: some reports of the attempts may be unread */
};

struct dt_closed_rule {
    bool parks; /* due jobs are parked, except one that is tried */
    bool few;   /* due jobs stay in the due set; one job each of a few such queues is tried at a time */
    bool holds; /* parked jobs stay parked */
    bool tries; /* now and then the first parked job returns, so that the topic is checked again */
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
    bool reads_through;         /* MySQL is being read once: after a doubt, or if the head of the index is stuck */
    int64_t ms, id;             /* the cursor: earlier jobs are handled */
    int64_t began_ms, began_id; /* its position before the last due scan */
    /* A sweep is a scan from the longest overdue job to the first that is not due yet. */
    bool closed;                /* up to swept_ms it left only jobs that may not be sent */
    int64_t swept_ms;           /* the time up to which it has read; 0: it has not reached the end */
    int64_t walk_ms, walk_id;   /* position of the walk over the jobs that it left */
    int64_t walk_us;            /* mono: when the walk does its next piece */
    int64_t ahead_ms, ahead_id; /* position of the reader ahead of the cursor */
    int64_t ahead_us;           /* mono: when that reader last began at the cursor */
    bool ahead_ended;           /* it has reached its end since then */
    /* One bit per hash of a queue of which it skipped a job since then. Two queues may share a bit: both then wait for
     * the cursor, until the reader starts again with another salt. */
    uint64_t skipped[(1 << DT_SKIPPED_BITS) / 64];
    uint64_t salt;
};

/* ---- shard_memory.c ---- */

struct dt_shard_unknown {
    struct dt_id_set ids; /* jobs that scans skip; emptied when their topics may have changed … */
    int64_t since_us;     /* … and after a while: mono, since when */
};

/* ---- shard_due.c ---- */

struct dt_shard_due {
    struct dt_entry *entries; /* room for DT_SCAN_BATCHES, like the next one */
    struct dt_due *rows;
    bool backlog;      /* the last due scan left jobs that may be sent */
    int64_t unread_ms; /* the latest deadline of attempts whose reports may be unread; 0 = none */
    int64_t read_ms;   /* up to when Kafka's reports were read at the last step */
};

/* ---- shard_held.c, shard_queues.c ---- */

/* A fair queue that has a held set: a topic, or the timeouts of one. */
struct dt_held_queue {
    char name[DT_HELD_NAME_SIZE];
    int64_t owner, number; /* owner of its topic; number of the set */
    enum dt_closed closed; /* whether parked jobs may be sent */
    size_t given;          /* entries that were returned before this due scan */
    int64_t next_ms;       /* when its first entry is due; 0: it is empty */
};
struct dt_due_queue {
    struct dt_str topic; /* absent: jobs without a row */
    uint32_t host;       /* not 0: jobs of the topic that name this host, beyond its places */
    size_t waiting, given;
    int64_t next_ms;          /* due time of the first entry still held; only with `given` */
    size_t met, may;          /* entries of the topic seen before that one; those of them that the queue may send */
    struct dt_due_queue *own; /* of timeouts: the topic's own queue; absent: no other job of it is due */
    bool timeouts, held;
    enum dt_closed closed;
    size_t room; /* how many jobs may be claimed now; of a host: how many may join their topic's queue */
    size_t hash;
    bool left;    /* a job of it stays at the cursor */
    bool skipped; /* the reader ahead has skipped a job of it */
};
struct dt_fair_queues {
    struct dt_hint *hints; /* the next jobs; capacity: a batch */
    size_t n_hints;
    struct dt_held_queue *v;
    struct dt_turn *open; /* scratch: turns of the queues in v that may send; capacity: `cap` */
    size_t n, cap;
    struct dt_turns turns;         /* turns in returning entries */
    size_t others;                 /* hints of the last due scan whose queues have no held set */
    int64_t held_us;               /* mono: when held sets were last listed */
    bool topics_changed;           /* topics changed since held_us */
    struct dt_topic_memory memory; /* during a backlog; otherwise empty */
    struct dt_arena arena;         /* of one due scan, with all members below */
    struct dt_due_queue *queues;
    struct dt_fair_queue *parts; /* parallel to queues */
    size_t n_queues;
    uint32_t *of;      /* parallel to the due scan's entries: indexes of queues */
    size_t head, rows; /* of a due scan with both readers of MySQL: entries at the cursor, and all entries */
};

/* ---- shard_loop.c ---- */

/* Any thread sets these. They are never cleared. */
struct dt_shard_orders {
    _Atomic bool stop, release;
    _Atomic bool abort; /* makes the delivery's blocking calls return */
};

/* The thread's schedule, in monotonic time. */
struct dt_shard_pace {
    int64_t busy_us;      /* when there was last work */
    int64_t pause_end_us; /* the end of the pause after a batch */
    /* Of the step that requested the running send: when the next step follows, unless the batch must be settled
     * earlier; when it began; whether its batch took all due jobs. */
    int64_t next_us, began_us;
    bool took_all;
    int64_t locked_pause_us; /* a duration: the pause before rows that other sessions lock are read again */
};

/* Jobs whose attempts may belong to an expired owner; duplicates are possible. */
struct dt_shard_lost {
    int64_t *v; /* capacity of a batch */
    size_t n;
};

/* Consecutive batches that left due jobs: their claims show the shard's full rate. */
struct dt_shard_run {
    int64_t began_us; /* mono; 0 = there is none */
    size_t claimed;
};

struct dt_shard_told {
    bool halt;
    struct dt_outage_part outage;
};

struct dt_shard_loop {
    const struct dt_loop_env *env;
    unsigned shard;
    struct dt_thread thread;
    dt_mailbox *mailbox; /* any thread posts */
    struct dt_shard_orders orders;
    struct dt_shard_meters meters;

    /* These exist as long as the loop. */
    dt_store *store;
    dt_index *index; /* NULL: the installation has no index, so MySQL is read */
    dt_topic_snapshot *snapshot;
    dt_delivery *delivery;
    struct dt_sender sender;
    dt_hands_claims *claims;
    int64_t full_us;       /* when a due job without a place was last seen; 0 = never */
    struct dt_arena arena; /* of one leader transaction */

    struct dt_fence fence; /* the fence of this leadership; every transaction of the store updates it */
    struct dt_flight flight;
    struct dt_shard_checked checked;
    struct dt_shard_orphan orphan;
    struct dt_shard_trust trust;
    struct dt_shard_cursor cursor;
    struct dt_shard_unknown unknown;
    struct dt_shard_due due;
    struct dt_fair_queues fair;
    struct dt_limit_memory limits; /* shard_held.c */
    struct dt_shard_pace pace;
    struct dt_shard_run run;
    struct dt_turns turns; /* turns in batches that could not take all */
    struct dt_shard_told told;

    pthread_mutex_t state_lock;
    struct dt_shard_lost lost;  /* under state_lock: any thread adds, the loop takes */
    struct dt_loop_state state; /* under state_lock, for any thread; shard_trust.c writes the parts about the index */
};

static inline int64_t dt_shard_mono_us(const dt_shard_loop *l)
{
    return dt_clock_mono_us(l->env->clock);
}

#define DT_SENDER_STALLED_US INT64_C(500000)
/* Whether the sender is wanted but was not open for DT_SENDER_STALLED_US, because opening or a commit takes long. Jobs
 * that wait for it are then parked. */
static inline bool dt_shard_sender_stalled(const dt_shard_loop *l)
{
    const struct dt_sender *s = &l->sender;
    int64_t since_us = s->wanted_us ? s->wanted_us : s->state == DT_SENDER_SENDING ? s->requested_us : 0;
    return s->state != DT_SENDER_OPEN && since_us && dt_shard_mono_us(l) - since_us > DT_SENDER_STALLED_US;
}

/* Whether a part of the list is unsent: it is sent before new jobs are claimed. */
static inline bool dt_shard_has_remainder(const dt_shard_loop *l)
{
    return l->fence.inflight > l->fence.send_n;
}

/* ---- shard_takeover.c ---- */

/* If processes died because of this shard, waits until the pause for that has passed. */
void dt_shard_wait_after_deaths(dt_shard_loop *l);
/* Writes a new epoch and token. OK: the row is ours, and flight is its list; whether that was sent is still unknown. */
DT_MUST_CHECK dt_status dt_shard_begin_epoch(dt_shard_loop *l, struct dt_error *err);
/* Handles what the sender has finished: settles what the ledger has, or notes what was sent. Opens it if it is wanted.
 * Never waits for the delivery's server, whose failures return OK. Any other status ends the leadership. */
DT_MUST_CHECK dt_status dt_shard_tend_sender(dt_shard_loop *l, struct dt_error *err);
/* The pause after this many consecutive failures, with jitter. alarm: only an operator can fix the cause. */
int64_t dt_shard_backoff_us(const dt_shard_loop *l, unsigned failures, bool alarm);
/* Closes the sender when a leadership ends: at once, or when its request returns. */
void dt_shard_abandon_sender(dt_shard_loop *l);

/* ---- shard_batch.c ---- */

/* Reads the unsent part of the list again, and requests to send its head. OK also if nothing is in flight. */
DT_MUST_CHECK dt_status dt_shard_send_remainder(dt_shard_loop *l, struct dt_error *err);
/* One leader transaction over the hints: settles, claims, sends, updates the index; then sends the remainder.
 * Afterwards only the numbers of *txn are valid. */
DT_MUST_CHECK dt_status dt_shard_batch(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err);
/* Only settles what was sent. */
DT_MUST_CHECK dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err);
/* Compares the row with our fence, samples MySQL's clock now and then, and requests a reload of an outdated map. */
DT_MUST_CHECK dt_status dt_shard_check_fence(dt_shard_loop *l, struct dt_error *err);
/* Whether the watch of MySQL has seen our fence in the row, and would report a change. */
bool dt_shard_is_watched(const dt_shard_loop *l);
/* A topic without a row that was seen lately; "" if none. Borrowed until the next call. */
const char *dt_shard_orphan(dt_shard_loop *l);

/* ---- shard_due.c ---- */

#define DT_SCAN_BATCHES 8 /* the depth of a due scan */
/* Initializes the due scans of a leadership. */
void dt_shard_due_init(dt_shard_loop *l);
/* Makes hints of jobs that may be due at now_ms. *next_ms: the next due time after that (0 = not known). */
DT_MUST_CHECK dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err);

/* ---- shard_tell.c ---- */

/* Updates the index for the hinted jobs. If an update fails, the index is doubted. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Wakes APIs that wait for jobs of the offered topics. An API that misses this polls later. */
void dt_shard_tell_offers(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Stores in the index when a job is next due (0 = never), whatever entry it has now. */
void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done);
/* Drops the set of a shard that the map no longer names, before stepping down. */
void dt_shard_leave_index(dt_shard_loop *l);

/* ---- shard_held.c ---- */

/* Before a due scan: takes the granted room, and requests room for topics without. */
void dt_shard_limits_tend(dt_shard_loop *l);
/* The number of the topic's jobs that may be tried, from memory; for the leader transaction. */
size_t dt_shard_limit_allowed(void *loop, struct dt_str topic);
/* Records what a leader transaction claimed, and which topics had no room. Called before the index is updated. */
void dt_shard_limits_note(dt_shard_loop *l, const struct dt_leader_txn *txn);

/* ---- shard_held.c ---- */

/* Initializes the queues of a leadership: no held set is known. */
void dt_shard_queues_init(dt_shard_loop *l);
/* Clears the topic memory, unless parked jobs still form a backlog. */
void dt_shard_forget_topics_unless_held(dt_shard_loop *l);
/* Topics changed: held sets are listed before the next due scan. */
void dt_shard_topics_changed(dt_shard_loop *l);
/* Lists the held sets, and which of them may be sent, if topics changed and every few seconds. */
void dt_shard_list_held(dt_shard_loop *l);
/* NULL: no held set of that name is known. */
struct dt_held_queue *dt_shard_find_held(struct dt_fair_queues *fair, struct dt_str name);
/* Records that the held set exists, and why its jobs may not be sent. */
void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, enum dt_closed closed);
/* There may be room again: checks each queue that is closed for lack of it. */
void dt_shard_look_for_room(dt_shard_loop *l);
/* More reports were read: opens the queues of timeouts that waited for them. */
void dt_shard_open_timeouts(dt_shard_loop *l);
/* Whether some parked job may be sent. */
bool dt_shard_parked_may_go(const dt_shard_loop *l);
/* Before a due scan: moves entries of held sets that may be sent back to the due set, about a batch in all. */
void dt_shard_give_back(dt_shard_loop *l);

/* ---- shard_queues.c ---- */

/* Fills fair.queues and fair.of: the queue of each of due.entries[0..n), from MySQL. by_host: if a topic's jobs name a
 * host without places for them, they have their own queue. */
DT_MUST_CHECK dt_status dt_shard_sort_queues(dt_shard_loop *l, size_t n, bool by_host, struct dt_error *err);
void dt_shard_hint_none(dt_shard_loop *l);
/* If attempts may be lost, hints only at their jobs. */
void dt_shard_hint_lost(dt_shard_loop *l);
/* Hints at due.entries[0..n), ordered by time; n is at most a batch. */
void dt_shard_hint_first(dt_shard_loop *l, size_t n);
/* Hints at due.entries[0..n) of the index, a share for each queue, and parks the surplus. *backlog: jobs that may be
 * sent were left in the due set. */
DT_MUST_CHECK dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *backlog, struct dt_error *err);
/* Leaves these jobs (ascending) of the last due scan to the cursor, with all later jobs of their queues. Only after a
 * scan with both readers of MySQL. */
void dt_shard_leave_to_cursor(dt_shard_loop *l, const int64_t *ids, size_t n);
/* Whether a sorted queue has jobs that may be sent or tried. */
bool dt_shard_some_may_go(const dt_shard_loop *l);
/* Hints at due.entries[0..n) of MySQL, a share for each queue. The first n_head start at the cursor, which moves; the
 * others are from the reader ahead, and may move past it. */
DT_MUST_CHECK dt_status dt_shard_hint_rows(dt_shard_loop *l, size_t n_head, size_t n, struct dt_error *err);

/* ---- shard_trust.c ---- */

/* Initializes the trust of a leadership: its marker is not written yet. */
void dt_shard_trust_init(dt_shard_loop *l);
/* The leadership has a new epoch: replaces its marker `was`. The knowledge about the set is kept. */
void dt_shard_trust_renew(dt_shard_loop *l, const struct dt_marker *was);
void dt_shard_read_map(dt_shard_loop *l);
/* The marker that this leadership wrote last. */
struct dt_marker dt_shard_marker(const dt_shard_loop *l);
/* Whether due jobs are read from the index; otherwise from MySQL. */
bool dt_shard_believes_index(const dt_shard_loop *l);
/* Entries may be missing in the set: it is not trusted until it was compared with MySQL. */
void dt_shard_doubt_index(dt_shard_loop *l);
/* Takes over the doubts that other threads raised. */
void dt_shard_take_doubts(dt_shard_loop *l);
/* Whether the answer to our last marking was lost. If so, dt_shard_marker becomes the marker that it may have
 * written. */
bool dt_shard_assume_marked(dt_shard_loop *l);
/* The next due scan writes our marker again, which shows whether the index takes changes. */
void dt_shard_mark_soon(dt_shard_loop *l);
/*
 * Writes this leadership's marker if it is missing or old, or if the set is complete now and the marker does not say
 * so. there: our last marker was seen in it. A failure is the index's.
 */
DT_MUST_CHECK dt_status dt_shard_keep_marked(dt_shard_loop *l, bool there, struct dt_error *err);
/* Records how the index answered a due scan. If it was unreachable, it is doubted when it answers again. */
void dt_shard_note_index(dt_shard_loop *l, dt_status status, const struct dt_error *err);

/* ---- shard_held.c ---- */

/* Whether a message of this size may be sent to the topic now. Not while the sender is stalled. For dt_leader_gate. */
enum dt_writable dt_shard_writable(void *loop, struct dt_str topic, int64_t owner, int64_t bytes);
/* Why due jobs of a topic may not be sent. If the topic has no row they may be tried: the leader transaction
 * decides. */
enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic);
/* About how many jobs of a topic, or of a held set with this name, may be claimed now; SIZE_MAX: no limit. */
size_t dt_shard_room(dt_shard_loop *l, struct dt_str name);
/* How many jobs of the topic that name the host with this number find a place there now; SIZE_MAX: they need none. */
size_t dt_shard_room_at(dt_shard_loop *l, struct dt_str topic, uint32_t host);
/* Why the leader transaction left jobs of a topic. */
enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic);

/* ---- shard_trust.c ---- */

/* Makes the next due scans read MySQL once completely, from the longest overdue job, instead of the index. */
void dt_shard_read_through(dt_shard_loop *l);
/* Moves the readers of MySQL back to the longest overdue job: skipped jobs may be sendable now. */
void dt_shard_due_from_start(dt_shard_loop *l);
/* Without an index: whether all jobs that were due at the last scan, and still are, may not be sent as far as is
 * known. */
bool dt_shard_has_closed(const dt_shard_loop *l);
/* A walk over these jobs, in pieces, checks whether that is still so. It ends at this time … */
int64_t dt_shard_walk_end_ms(const dt_shard_loop *l);
/* … and has reached this position; 0, 0: the end. It starts again after a reconcile.period. */
void dt_shard_walk_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* Begins a due scan of MySQL. Without an index a sweep starts at the longest overdue job, or where the last one ended
 * if none before that may be sent. */
void dt_shard_begin_scan(dt_shard_loop *l);
/* The scan has reached a job that is not due at now_ms. */
void dt_shard_end_sweep(dt_shard_loop *l, int64_t now_ms);
/* Records what a leader transaction left. If jobs did not fit into the batch, the next due scan reads them again,
 * because later jobs of their topics would overtake them. */
void dt_shard_note_left(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Moves the cursor back because callbacks freed places, which happens often: a running reader ahead first reads to its
 * end. */
void dt_shard_due_again(dt_shard_loop *l);
/* Moves the cursor: all jobs up to this position are handled. */
void dt_shard_cursor_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* The cursor reached the end: the index may be read again. */
void dt_shard_cursor_end(dt_shard_loop *l);
/* Moves the reader ahead to `last`, the cursor's position, unless it is further. If the cursor has reached it, it
 * starts there and has skipped nothing. */
void dt_shard_place_ahead(dt_shard_loop *l, const struct dt_entry *last);
void dt_shard_ahead_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* The reader ahead has reached the end: moves it back by a short time, or to the start. */
void dt_shard_ahead_end(dt_shard_loop *l);
/* Whether the reader ahead skipped a job of the queue with this hash. */
bool dt_shard_was_skipped(const dt_shard_loop *l, size_t hash);
void dt_shard_skip(dt_shard_loop *l, size_t hash);

/* ---- shard_memory.c ---- */

/* The topic of this due job is being looked up. */
void dt_shard_note_unknown(dt_shard_loop *l, int64_t id);
/* Removes such jobs from due.entries[0..n). Returns how many entries remain. */
size_t dt_shard_pass_by_unknown(dt_shard_loop *l, size_t n);
