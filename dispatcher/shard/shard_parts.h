/*
 * The inside of a shard loop, shared by its files and nobody else. Everything but what is marked otherwise belongs
 * to the loop's own thread. Each part of the loop is written by the file that is named before it, and read by others.
 * Calls go downwards in this table, or from a line to those below it:
 *
 *   shard_loop.c       the thread: when to do which, idling, stepping down, what it reports about itself
 *   shard_takeover.c   a new epoch in the row; then the ledger, and settling what it has
 *   shard_batch.c      the leader transaction, and the thread that sends its head
 *   shard_tell.c       what the index is told
 *   shard_due.c        the due scan: what may be due, from the index or from MySQL
 *   shard_queues.c     which jobs go first when more are due than fit into a batch
 *   shard_held.c       why a topic's jobs may not go; held sets, where they wait; topics at their limits
 *   shard_trust.c      whether the index is believed; the present map; how far the readers of MySQL have come
 *   shard_memory.c     pure: topics of jobs, topics at their limits, due jobs whose topics are not known yet
 */
#ifndef DT_DISPATCHER_SHARD_PARTS_H
#define DT_DISPATCHER_SHARD_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* A set of ids of jobs: none is forgotten but all at once. Bounded; pure; one user at a time. */

#define DT_ID_SET_MAX 16384

/* Starts as zeroes; takes a quarter of a megabyte with the first id. */
struct dt_id_set {
    int64_t *v; /* a hash table; 0: a free place */
    size_t n;
};

/* Ids are not 0. False: the set is full, or memory is out; the id is not in it. */
bool dt_id_set_add(struct dt_id_set *set, int64_t id);
bool dt_id_set_has(const struct dt_id_set *set, int64_t id);
void dt_id_set_empty(struct dt_id_set *set);
void dt_id_set_clear(struct dt_id_set *set);

/*
 * The topics of a shard that are at their limits, and how many of their jobs may try to go. Pure.
 *
 * A topic that is not here may try all that it has: the leader transaction finds out. A topic that found no room is
 * here with nothing allowed, until it is granted something. What is remembered may be wrong by now, and is forgotten
 * after a while, so that whatever gets lost (a grant, a topic's limit) costs time only.
 */

#define DT_LIMIT_MEMORY_TOPICS 1024             /* a topic without a place here finds its limit again each time */
#define DT_LIMIT_WAITS_US      INT64_C(5000000) /* without a grant a topic tries again after this time */
#define DT_LIMIT_GRANTED_US    INT64_C(1000000) /* without use in this time a grant ends */

struct dt_limited_topic {
    char name[201];
    size_t allowed;   /* jobs that may still be tried */
    int64_t since_us; /* when that was last set, or room.c promised a grant: the owner writes it then */
    int64_t asked_us; /* the owner's: when room was last asked for; 0 = not since it was set */
};
struct dt_limit_memory {
    struct dt_limited_topic *v;
    size_t n, cap;
};

void dt_limit_memory_clear(struct dt_limit_memory *memory);
/* The jobs of a topic that may try to go now; SIZE_MAX: any number, nothing is known of it. */
size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us);
void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us);
/* Takes one job off what is allowed. True: it was the last one. */
bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic);
/* Forgets a topic: any number of its jobs may try. */
void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic);
void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us);

/*
 * A leader's memory of which topic a job has. Without it, each job of a backlog that goes through a held set would be
 * looked up in MySQL when it is parked, and again each time that it stands in the due set. Pure.
 *
 * The memory has a limited size: a job that it does not know is looked up, and forgetting one costs one more look. A
 * job's topic never changes, but whether the job waits for its acknowledgement does. So only scheduled jobs are
 * remembered, and the leader forgets those that it is about to claim. Which host a job's own callback_url names may
 * change as well: the memory knows only that there is such a URL.
 */

#define DT_TOPIC_MEMORY_JOBS   65536 /* a megabyte, while there is a backlog */
#define DT_TOPIC_MEMORY_TOPICS 64

struct dt_remembered;
/* Starts as zeroes; clear gives back all it took, and may be called at any time. */
struct dt_topic_memory {
    struct dt_remembered *jobs; /* by a hash of the id; a newcomer takes the place of who was there */
    char *topics[DT_TOPIC_MEMORY_TOPICS];
    size_t n_topics;
};

void dt_topic_memory_clear(struct dt_topic_memory *memory);
void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host);
void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id);
/* False: not known. *topic stays valid until the memory is cleared. */
bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host);

enum { WAKE = 1, TOPICS = 2, STOP = 4, RELEASE = 8, FOUND_OUT = 16, ROOM = 32, SENDER = 64 };

struct dt_shard_meters {
    dt_metric *dispatched, *lateness, *batch, *takeovers, *timed_out, *leader_txn_seconds, *epoch, *leading, *halted;
    dt_metric *undeliverable, *offered, *lost;
};

/* ---- shard_batch.c, shard_takeover.c ---- */

/* The list in the row, and whether its head is sent. A takeover reads the list again. */
struct dt_flight {
    struct dt_inflight list;
    bool sent;                   /* the first fence.send_n were committed; settle_offset is valid */
    int64_t settle_offset;       /* first offset after their ledger record */
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
    /* The request. The loop writes it before it sets busy, the thread until it clears busy. */
    _Atomic bool busy;
    struct dt_fence fence;
    struct dt_inflight list;
    const struct dt_outgoing *jobs; /* to send; arena holds them and their messages */
    struct dt_arena arena;
    dt_status status;
    struct dt_error err;
    struct dt_delivery_findings found;
    /* Only the loop writes these, and the thread reads state. */
    enum dt_sender_state state;
    bool idle;            /* closed because nothing was due */
    bool abandoned;       /* the leadership ended during the request: close when that returns */
    int64_t epoch;        /* of the last opening */
    int64_t wanted_us;    /* mono: since when it is wanted, but not open; 0 = open, or not wanted */
    int64_t retry_us;     /* mono: the earliest next opening */
    int64_t requested_us; /* mono: when the request was made */
    unsigned failures;    /* in a row */
    struct dt_outage_part outage;
};

dt_status dt_sender_start(struct dt_sender *sender, dt_delivery *delivery, void (*done)(void *arg), void *arg);
/* Joins the thread. Before, the caller makes the delivery's blocking calls return. */
void dt_sender_stop(struct dt_sender *sender);
/* Requests what `state` says, with copies of the fence and the list. Only if no request runs. NOMEM: none was made. */
DT_MUST_CHECK dt_status dt_sender_request(struct dt_sender *sender, enum dt_sender_state state,
                                          const struct dt_fence *fence, const struct dt_inflight *list);
bool dt_sender_busy(const struct dt_sender *sender);
/* Requests to close. Only if no request runs. */
void dt_sender_close(struct dt_sender *sender);

/* Mono: when the row was last compared with our fence; when MySQL's clock was last sampled. */
struct dt_shard_checked {
    int64_t fence_us, clock_us;
};

struct dt_shard_orphan {
    char topic[200]; /* jobs have it and `topics` has not; empty = none was met lately */
    int64_t met_us;
};

/* ---- shard_trust.c ---- */

struct dt_shard_trust {
    struct dt_shard_map map;
    int64_t filled_for;   /* generation of the map that the shard's set was filled for; it has got no slots since */
    bool up;              /* there is an index, it answered last time, and took the changes */
    uint64_t doubts;      /* the doubts after which MySQL was read through once, or is being read */
    bool rebuild_unasked; /* the set must not be believed, and the rebuild was not requested yet */
    /* The marker of this leadership in the set. */
    bool marked;                /* it was put there */
    bool says_whole;            /* and it says that the set is whole */
    int64_t mark_count;         /* its count */
    int64_t marked_us;          /* mono: when the index was last seen to take it */
    bool mark_unanswered;       /* the last marking failed, so a marker with the next count may exist */
    bool unanswered_says_whole; /* if it exists, it says that the set is whole */
    _Atomic bool whole;         /* the set is whole. Any thread sets, the loop clears, both with state_lock */
    _Atomic bool compared;      /* it was compared with MySQL since the last doubt. Any thread, with state_lock */
    struct dt_outage_part outage;
};

/* ---- shard_held.c ---- */

/*
 * Why the jobs of a queue may not be sent, as one word, and what follows from it. Only shard_held.c decides the
 * reason. Fair queues ask what follows. A new reason is a word and a line of the table.
 */
enum dt_closed {
    DT_CLOSED_NOT,         /* open */
    DT_CLOSED_FINDING_OUT, /* whether the topic can be written is being looked up */
    DT_CLOSED_NO_ROW,      /* jobs have the topic, and `topics` has not */
    DT_CLOSED_PAUSED,
    DT_CLOSED_LIMIT, /* it has no room within its limits */
    DT_CLOSED_FULL,  /* there is no place for its callbacks: a place that comes free is reported, so none is tried */
    DT_CLOSED_UNWRITABLE,
    DT_CLOSED_UNREAD /* timeouts: reports of the attempts may be unread */
};

struct dt_closed_rule {
    bool parks; /* due jobs are parked, except one, which finds out whether the queue is open again */
    bool few;   /* due jobs stay in the due set; of a few such queues at a time one job each is tried */
    bool holds; /* parked jobs stay parked */
    bool tries; /* the first parked job returns now and then, so that the topic is asked for again */
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
    bool reads_through; /* MySQL is being read once: after a doubt, or if the head of the index cannot be moved */
    int64_t ms, id;     /* the cursor: jobs before it were dealt with */
    int64_t began_ms, began_id; /* its position before the last due scan */
    /* A sweep is a scan from the longest overdue job to the first that is not due yet. */
    bool closed;                /* up to swept_ms it left only jobs that may not be sent */
    int64_t swept_ms;           /* the instant of its end; 0: it has not reached the end */
    int64_t walk_ms, walk_id;   /* position of the walk over the jobs that it left */
    int64_t walk_us;            /* mono: when the walk does its next piece */
    int64_t ahead_ms, ahead_id; /* position of the reader ahead of the cursor */
    int64_t ahead_us;           /* mono: when that reader last began at the cursor */
    bool ahead_ended;           /* it has reached its end since then */
    /* A bit for the hash of each queue of which it has skipped a job since then. Two queues may share a bit: both wait
     * for the cursor then, until the reader begins again with another salt. */
    uint64_t skipped[(1 << DT_SKIPPED_BITS) / 64];
    uint64_t salt;
};

/* ---- shard_memory.c ---- */

struct dt_shard_unknown {
    struct dt_id_set ids; /* jobs that scans skip; emptied when something may have changed … */
    int64_t since_us;     /* … and then since this time, mono */
};

/* ---- shard_due.c ---- */

struct dt_shard_due {
    struct dt_entry *entries; /* room for DT_SCAN_BATCHES, like the next one */
    struct dt_due *rows;
    bool backlog;      /* the last due scan left jobs that may be sent */
    int64_t unread_ms; /* the latest deadline of attempts whose reports may be unread; 0 = none */
    int64_t read_ms;   /* up to when Kafka's reports had been read at the last step */
};

/* ---- shard_held.c, shard_queues.c ---- */

/* A fair queue that has a held set: a topic, or the timeouts of one. */
struct dt_held_queue {
    char name[DT_HELD_NAME_SIZE];
    int64_t owner, number; /* of its topic; of the set */
    enum dt_closed closed; /* whether held jobs may be sent */
    size_t given;          /* entries that were given back before this due scan */
    int64_t next_ms;       /* when the first entry that is still held is due; 0: none is held */
};
struct dt_due_queue {
    struct dt_str topic; /* absent: jobs that have no row */
    uint32_t host;       /* not 0: those of its jobs that name this host, beyond the places that it has */
    size_t waiting, given;
    int64_t next_ms;          /* of what is held still, the first; with given only */
    size_t met, may;          /* entries of the topic before that one; of these, the ones that the queue may send */
    struct dt_due_queue *own; /* of timeouts: the topic's own queue; absent: nothing else of it is due */
    bool timeouts, held;
    enum dt_closed closed;
    size_t room; /* so many of it may be claimed now; of a host: so many of its jobs may join their topic's queue */
    size_t hash;
    bool left;    /* a job of it stays at MySQL's cursor */
    bool skipped; /* the reader ahead has skipped a job of it */
};
struct dt_fair_queues {
    struct dt_hint *hints; /* the next jobs; room for a batch */
    size_t n_hints;
    struct dt_held_queue *v;
    struct dt_turn *open; /* scratch: turns of the queues in v that may send; room for `cap` */
    size_t n, cap;
    struct dt_turns turns;         /* in giving back */
    size_t others;                 /* hints of the last due scan whose queues have no held set */
    int64_t held_us;               /* mono: when held sets were last listed */
    bool topics_changed;           /* since then */
    struct dt_topic_memory memory; /* of a backlog; empty when there is none whose topics are worth remembering */
    struct dt_arena arena;         /* of one due scan, with all below */
    struct dt_due_queue *queues;
    struct dt_fair_queue *parts; /* beside queues */
    size_t n_queues;
    uint32_t *of;      /* beside the due scan's entries: places in queues */
    size_t head, rows; /* of a due scan by both readers of MySQL: entries at the cursor, and all */
};

/* ---- shard_loop.c ---- */

/* Any thread sets these. They are never cleared. */
struct dt_shard_orders {
    _Atomic bool stop, release;
    _Atomic bool abort; /* the delivery's blocking calls stop when it is set */
};

/* Mono times of the thread's rhythm. */
struct dt_shard_pace {
    int64_t busy_us;      /* when there was last something to do */
    int64_t pause_end_us; /* the end of the pause after a batch */
    /* Of the step that requested the running send: when the next step follows, if the batch need not be settled
     * earlier; when it began; whether its batch took all due jobs. */
    int64_t next_us, began_us;
    bool took_all;
    int64_t locked_pause_us; /* a duration: until rows that others hold locked are looked at again */
};

/* Jobs whose attempts may be in the hands of an owner that is gone; each may be there several times. */
struct dt_shard_lost {
    int64_t *v; /* room for a batch */
    size_t n;
};

/* Successive batches that left due jobs: what they claim is the shard's full rate. */
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

    /* live as long as the loop */
    dt_store *store;
    dt_index *index; /* NULL: the installation has none, and MySQL is read for ever */
    dt_topic_snapshot *snapshot;
    dt_delivery *delivery;
    struct dt_sender sender;
    dt_hands_claims *claims;
    int64_t full_us;       /* when due jobs were last met for which there was no place; 0 = never */
    struct dt_arena arena; /* of one leader transaction */

    struct dt_fence fence; /* of this leadership; the store writes it in each of its transactions */
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
    struct dt_turns turns; /* in batches that could not take all */
    struct dt_shard_told told;

    pthread_mutex_t state_lock;
    struct dt_shard_lost lost;  /* under state_lock: any thread adds, the loop takes */
    struct dt_loop_state state; /* under state_lock, for any thread; its parts about the index are shard_trust.c's */
};

static inline int64_t dt_shard_mono_us(const dt_shard_loop *l)
{
    return dt_clock_mono_us(l->env->clock);
}

#define DT_SENDER_STALLED_US INT64_C(500000)
/* Stalled: the sender is wanted, but was not open for DT_SENDER_STALLED_US, because opening or a commit takes so long.
 * Jobs that wait for it are then parked. */
static inline bool dt_shard_sender_stalled(const dt_shard_loop *l)
{
    const struct dt_sender *s = &l->sender;
    int64_t since_us = s->wanted_us ? s->wanted_us : s->state == DT_SENDER_SENDING ? s->requested_us : 0;
    return s->state != DT_SENDER_OPEN && since_us && dt_shard_mono_us(l) - since_us > DT_SENDER_STALLED_US;
}

/* A part of the list is not sent yet: it is sent before anything is claimed. */
static inline bool dt_shard_has_remainder(const dt_shard_loop *l)
{
    return l->fence.inflight > l->fence.send_n;
}

/* ---- shard_takeover.c ---- */

/* Waits as long as the shard is to be left alone, because processes died of it. */
void dt_shard_wait_after_deaths(dt_shard_loop *l);
/* Writes a new epoch and token. OK: the row is ours, and flight is its list; whether that was sent is not known
 * yet. */
DT_MUST_CHECK dt_status dt_shard_begin_epoch(dt_shard_loop *l, struct dt_error *err);
/* Handles what the sender has finished: settles what the ledger has, or notes what was sent. Opens it if it is wanted.
 * Never waits for the delivery's server, whose failures return OK. Any other status ends the leadership. */
DT_MUST_CHECK dt_status dt_shard_tend_sender(dt_shard_loop *l, struct dt_error *err);
/* The pause after so many failures in a row, with jitter. alarm: an operator has to do something first. */
int64_t dt_shard_backoff_us(const dt_shard_loop *l, unsigned failures, bool alarm);
/* Closes the sender when a leadership ends: at once, or when its request returns. */
void dt_shard_abandon_sender(dt_shard_loop *l);

/* ---- shard_batch.c ---- */

/* Reads the unsent part of the list again, and requests to send its head. OK also if nothing is in flight. */
DT_MUST_CHECK dt_status dt_shard_send_remainder(dt_shard_loop *l, struct dt_error *err);
/* One leader transaction over the hints: settles what was sent, claims, sends, tells the index; sends the remainder.
 * Afterwards only the numbers of *txn count. */
DT_MUST_CHECK dt_status dt_shard_batch(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err);
/* Settles what was sent, and nothing else. */
DT_MUST_CHECK dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err);
/* Compares the row with our fence, samples MySQL's clock now and then, and has a map that is stale reloaded. */
DT_MUST_CHECK dt_status dt_shard_check_fence(dt_shard_loop *l, struct dt_error *err);
/* True: the watch of MySQL has seen the row as our fence is, and would tell. */
bool dt_shard_is_watched(const dt_shard_loop *l);
/* The topic without a row that was met lately, "" when there was none; borrowed until the next call. */
const char *dt_shard_orphan(dt_shard_loop *l);

/* ---- shard_due.c ---- */

#define DT_SCAN_BATCHES 8 /* the depth of a due scan */
/* Begins the due scans of a leadership. */
void dt_shard_due_init(dt_shard_loop *l);
/* Makes hints of what may be due at now_ms; *next_ms: when something is due after that (0 = not known). */
DT_MUST_CHECK dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err);

/* ---- shard_tell.c ---- */

/* Tells the index what became of the hints. What it cannot be told is in doubt. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Wakes APIs that wait for jobs of the topics that were offered. An API that misses this looks by itself later. */
void dt_shard_tell_offers(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Tells the index when a job is due next (0 = never), whatever it says now. */
void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done);
/* Drops the set of a shard that the map no longer names, before stepping down. */
void dt_shard_leave_index(dt_shard_loop *l);

/* ---- shard_held.c ---- */

/* Takes the room that was granted, and asks for room where none was. Before a due scan. */
void dt_shard_limits_tend(dt_shard_loop *l);
/* The jobs of a topic that may try to go; an answer for the leader transaction, from memory. */
size_t dt_shard_limit_allowed(void *loop, struct dt_str topic);
/* Notes what a leader transaction has claimed, and which topics had no room, before the index is told. */
void dt_shard_limits_note(dt_shard_loop *l, const struct dt_leader_txn *txn);

/* ---- shard_held.c ---- */

/* Begins the queues of a leadership: no held set is known. */
void dt_shard_queues_init(dt_shard_loop *l);
/* The backlog, if there is one, is parked. */
void dt_shard_forget_topics_unless_held(dt_shard_loop *l);
/* Topics changed: held sets are listed before the next due scan. */
void dt_shard_topics_changed(dt_shard_loop *l);
/* Lists the held sets, and which of them may go, when topics changed and every few seconds. */
void dt_shard_list_held(dt_shard_loop *l);
/* NULL: none of that name is known. */
struct dt_held_queue *dt_shard_find_held(struct dt_fair_queues *fair, struct dt_str name);
/* Notes that the held set exists, and why its jobs may not be sent. */
void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, enum dt_closed closed);
/* There may be room where there was none: asks again of each queue that is closed for that. */
void dt_shard_look_for_room(dt_shard_loop *l);
/* More reports were read: opens the queues of timeouts that waited for them. */
void dt_shard_open_timeouts(dt_shard_loop *l);
/* True: some parked job may be sent. */
bool dt_shard_parked_may_go(const dt_shard_loop *l);
/* Moves a part of each held set that may go back to the due set, before a due scan: about a batch in all. */
void dt_shard_give_back(dt_shard_loop *l);

/* ---- shard_queues.c ---- */

/* Fills fair.queues and fair.of: the queue of each of due.entries[0..n), from MySQL. by_host: jobs of a topic that
 * name a host without places for them have a queue of their own. */
DT_MUST_CHECK dt_status dt_shard_sort_queues(dt_shard_loop *l, size_t n, bool by_host, struct dt_error *err);
void dt_shard_hint_none(dt_shard_loop *l);
/* Hints at jobs whose attempts may be lost, in place of all others, if there are any. */
void dt_shard_hint_lost(dt_shard_loop *l);
/* Hints at due.entries[0..n), in order of time; n is a batch at most. */
void dt_shard_hint_first(dt_shard_loop *l, size_t n);
/* Hints at due.entries[0..n) of the index, each queue its part, and parks what is too much. *backlog: something that
 * may go was left where it is. */
DT_MUST_CHECK dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *backlog, struct dt_error *err);
/* Leaves these jobs (ascending) of the last due scan to the cursor, with all later jobs of their queues. The scan
 * read MySQL by both readers. */
void dt_shard_leave_to_cursor(dt_shard_loop *l, const int64_t *ids, size_t n);
/* True: of what was sorted into queues something may go, or is to be tried. */
bool dt_shard_some_may_go(const dt_shard_loop *l);
/* Hints at due.entries[0..n) of MySQL, each queue its part. The first n_head start at the cursor, which moves; the
 * reader ahead has read the others, and may move past them. */
DT_MUST_CHECK dt_status dt_shard_hint_rows(dt_shard_loop *l, size_t n_head, size_t n, struct dt_error *err);

/* ---- shard_trust.c ---- */

/* Begins a leadership: its marker is not there yet. */
void dt_shard_trust_init(dt_shard_loop *l);
/* The leadership has a new epoch: replaces its marker `was`. What is known of the set is kept. */
void dt_shard_trust_renew(dt_shard_loop *l, const struct dt_marker *was);
void dt_shard_read_map(dt_shard_loop *l);
/* The marker as this leadership has written it last. */
struct dt_marker dt_shard_marker(const dt_shard_loop *l);
/* True: the index is asked what is due; otherwise MySQL is. */
bool dt_shard_believes_index(const dt_shard_loop *l);
/* Entries may be missing in the set: it is not believed until it was compared with MySQL. */
void dt_shard_doubt_index(dt_shard_loop *l);
/* Takes note of the doubts that other threads have raised. */
void dt_shard_take_doubts(dt_shard_loop *l);
/* True: the answer to our last marking was lost, and dt_shard_marker is the one that it may have left there. */
bool dt_shard_assume_marked(dt_shard_loop *l);
/* The next due scan writes our marker again, which shows whether the index takes changes. */
void dt_shard_mark_soon(dt_shard_loop *l);
/*
 * Puts this leadership's marker into the set when it is missing or old, and when the set is whole by now and its
 * marker does not say so. there: our last marker was seen in it. A failure is the index's.
 */
DT_MUST_CHECK dt_status dt_shard_keep_marked(dt_shard_loop *l, bool there, struct dt_error *err);
/* Notes how the index answered a due scan; one that was out of reach is in doubt when it is back. */
void dt_shard_note_index(dt_shard_loop *l, dt_status status, const struct dt_error *err);

/* ---- shard_held.c ---- */

/* May a message of so many bytes be sent to this topic now? Not while the sender is stalled. For dt_leader_gate. */
enum dt_writable dt_shard_writable(void *loop, struct dt_str topic, int64_t owner, int64_t bytes);
/* Why due jobs of a topic may not be sent. Jobs of a topic without a row may: the leader transaction decides. */
enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic);
/* How many jobs of a topic, or of a held set of this name, may be claimed now, about; SIZE_MAX: as many as there
 * are. */
size_t dt_shard_room(dt_shard_loop *l, struct dt_str name);
/* How many jobs of the topic that name the host of this number themselves find a place there now; SIZE_MAX: they need
 * none. */
size_t dt_shard_room_at(dt_shard_loop *l, struct dt_str topic, uint32_t host);
/* Why the leader transaction has left jobs of a topic. */
enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic);

/* ---- shard_trust.c ---- */

/* Has the next due scans read MySQL once through, from the longest overdue on, in place of the index. */
void dt_shard_read_through(dt_shard_loop *l);
/* Takes the readers of MySQL back to the longest overdue: what they passed by may go now. */
void dt_shard_due_from_start(dt_shard_loop *l);
/* True: without an index, all that was due by the last scan and is there still may not go, as far as is known. */
bool dt_shard_has_closed(const dt_shard_loop *l);
/* A walk over those, a piece at a time, sees whether it is so still: it ends here … */
int64_t dt_shard_walk_end_ms(const dt_shard_loop *l);
/* … and has reached this position; 0, 0: the end, and it begins again after a reconcile.period. */
void dt_shard_walk_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* Begins a due scan of MySQL. Without an index a sweep begins at the longest overdue, or, where all of that may not
 * go, where the last one ended. */
void dt_shard_begin_scan(dt_shard_loop *l);
/* The scan has reached a job that is not due at now_ms. */
void dt_shard_end_sweep(dt_shard_loop *l, int64_t now_ms);
/* Notes what a leader transaction left. If jobs did not fit into the batch, the next due scan reads them again,
 * because later jobs of their topics would overtake them otherwise. */
void dt_shard_note_left(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Goes back after callbacks gave their places back, which happens all the time: a reader ahead that is under way first
 * reads to its end. */
void dt_shard_due_again(dt_shard_loop *l);
/* Moves the cursor: everything up to this place was dealt with. */
void dt_shard_cursor_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* The cursor reached the end: the index may be asked again. */
void dt_shard_cursor_end(dt_shard_loop *l);
/* Moves the reader ahead to `last`, the cursor's position, unless it is further already. If the cursor has reached
 * it, it begins there and has skipped nothing. */
void dt_shard_place_ahead(dt_shard_loop *l, const struct dt_entry *last);
void dt_shard_ahead_to(dt_shard_loop *l, int64_t ms, int64_t id);
/* The reader ahead has reached the end: moves it back by some time, or to the start. */
void dt_shard_ahead_end(dt_shard_loop *l);
/* Has the reader ahead skipped something of the queue with this hash? */
bool dt_shard_was_skipped(const dt_shard_loop *l, size_t hash);
void dt_shard_skip(dt_shard_loop *l, size_t hash);

/* ---- shard_memory.c ---- */

/* The topic of this due job is being found out. */
void dt_shard_note_unknown(dt_shard_loop *l, int64_t id);
/* Takes them out of due.entries[0..n). How many entries stay. */
size_t dt_shard_pass_by_unknown(dt_shard_loop *l, size_t n);

#endif
