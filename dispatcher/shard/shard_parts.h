/*
 * The inside of a shard loop, shared by its files and nobody else. Everything but what is marked otherwise belongs
 * to the loop's own thread.
 *
 *   shard_takeover.c   from "the election names us" to a row and a ledger that tell one story; the hint of a refusal
 *   shard_batch.c      the batch: the leader transaction in MySQL, and sending its head to Kafka
 *   shard_due.c        the due scan: what may be due, from the index or from MySQL
 *   shard_trust.c      whether the index may be believed
 *   shard_tell.c       what the index is told
 *   shard_queues.c     who goes first when more is due than a batch; held sets
 *   shard_loop.c       the thread: when to do which, idling, stepping down, what it says about itself
 */
#ifndef DT_DISPATCHER_SHARD_PARTS_H
#define DT_DISPATCHER_SHARD_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mailbox.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "delivery/delivery.h"
#include "fair.h"
#include "job/job.h"
#include "shard_loop.h"
#include "store/dispatch/fence.h"
#include "store/dispatch/inflight.h"
#include "store/dispatch/leader_txn.h"
#include "store/dispatch/scan.h"
#include "store/dispatch/takeover.h"
#include "store/dispatch/topic_snapshot.h"
#include "topic_memory.h"

/* Signals of a loop's mailbox. */
enum { WAKE = 1, TOPICS = 2, STOP = 4, RELEASE = 8, FOUND_OUT = 16 };

struct dt_shard_meters {
    dt_metric *dispatched, *lateness, *batch, *takeovers, *timed_out, *leader_txn_seconds, *epoch, *leading, *halted;
    dt_metric *undeliverable;
};

/* What the row's list holds, and how far its head has come. */
struct dt_flight {
    struct dt_inflight list;
    bool sent;                   /* the first fence.send_n were committed; settle_offset is valid */
    int64_t settle_offset;       /* first offset after their ledger record */
    int64_t claimed_us, sent_us; /* mono; 0 = who knows when */
    int64_t shortest_ack_ms;     /* of those that were claimed then; 0 = who knows */
};

/* A fair queue that has a held set: a topic, or the timeouts of one. */
struct dt_held_queue {
    char name[DT_HELD_NAME_SIZE];
    bool open;       /* what is held may go */
    size_t given;    /* entries that were given back before this due scan */
    int64_t next_ms; /* when the first entry that is still held is due; 0: none is held */
};
#define DT_SKIPPED 256
/* A fair queue as one due scan sees it. */
struct dt_due_queue {
    struct dt_str topic; /* absent: jobs that have no row */
    size_t waiting, given;
    int64_t next_ms; /* of what is held still, the first; with given only */
    size_t met, may; /* entries of the topic that stand before that one; those of them that the queue may send */
    struct dt_due_queue *own;    /* of timeouts: the topic's own queue; absent: nothing else of it is due */
    bool timeouts, held, closed; /* closed: paused, or cannot be written */
    bool unknown;                /* whether it can be written is being found out */
    size_t hash;
    bool left;    /* something of it stays where MySQL's cursor stands */
    bool skipped; /* the reader ahead of that has passed some of it by */
};
struct dt_fair_queues {
    struct dt_held_queue *v;
    size_t n, cap;
    size_t next;                   /* the held set that gives something back next */
    size_t others;                 /* hints of the last due scan whose queues have no held set */
    struct dt_topic_memory memory; /* of a backlog */
    struct dt_arena arena;         /* of one due scan, with all below */
    struct dt_due_queue *queues;
    struct dt_fair_queue *parts; /* beside queues */
    size_t n_queues;
    uint32_t *of; /* beside the loop's entries: places in queues */
};

struct dt_shard_loop {
    const struct dt_loop_env *env;
    unsigned shard;
    struct dt_thread thread;
    dt_mailbox *mailbox;        /* any thread posts */
    _Atomic bool stop, release; /* any thread sets */
    _Atomic bool abort;         /* blocking Kafka calls stop when it is set */
    _Atomic bool index_whole;   /* any thread sets, the loop clears, both with state_lock */
    _Atomic bool index_sure;    /* any thread sets and clears, with state_lock */
    struct dt_shard_meters meters;

    /* parts that live as long as the loop */
    dt_store *store;
    dt_index *index;
    dt_topic_snapshot *snapshot;
    dt_delivery *delivery;
    struct dt_arena arena; /* of one leader transaction */

    /* the leadership */
    struct dt_shard_map map;
    int64_t filled_for; /* generation of the map that the shard's set was filled for; it has got no slots since */
    struct dt_fence fence;
    struct dt_flight flight;
    int64_t checked_us, clock_us; /* mono: when the row was last compared; when MySQL's clock was last sampled */
    int64_t busy_us;              /* mono: when there was last something to do */
    int64_t pacing_end_us;        /* mono: the end of the pause after a batch */
    bool resume;                  /* an idle shard has something to do again: take over */
    bool halt_told;
    struct dt_outage_part outage, index_outage;

    /* due scans (shard_due.c) */
    bool index_up;
    bool index_stuck;         /* what stands at the head of the index cannot be moved: MySQL is read once through */
    uint64_t doubts;          /* so many are known here: MySQL is read once through since the last of them */
    bool marked;              /* this leadership has put its marker into its set */
    bool vouched;             /* and the marker says that the set is whole */
    bool lost;                /* the set is not to be believed, and the rebuild is not asked for yet */
    bool mark_unsure;         /* the last marking failed: the next count may be there already … */
    bool mark_vouches;        /* … and say that the set is whole */
    int64_t mark_count;       /* of the marker that is there */
    int64_t marked_us;        /* mono: when the index was last seen to take a change */
    struct dt_hint *hints;    /* room for a batch */
    struct dt_entry *entries; /* room for DT_SCAN_BATCHES, like the next one */
    struct dt_due *due;
    size_t n_hints;
    bool backlog; /* the last due scan left something that may go */
    struct dt_fair_queues fair;
    int64_t scan_ms, scan_id;   /* cursor of the degraded scan */
    int64_t ahead_ms, ahead_id; /* and of the one that goes on ahead of it */
    int64_t ahead_us;           /* mono: when that one last began at the first one's */
    size_t skipped[DT_SKIPPED]; /* since then: queues of which it passed something by, by their hashes */
    size_t n_skipped;
    int64_t held_us; /* mono: when held sets were last listed */
    int64_t locked_pause_us;
    bool topics_changed;
    char orphan[200]; /* a topic that jobs have and `topics` has not; empty = none was met lately */
    int64_t orphan_us;

    pthread_mutex_t state_lock;
    struct dt_loop_state state; /* under state_lock, for any thread */
};

static inline int64_t dt_shard_mono_us(const dt_shard_loop *l)
{
    return dt_clock_mono_us(l->env->clock);
}

/* Something of the list is not sent yet: it goes before anything is claimed. */
static inline bool dt_shard_has_remainder(const dt_shard_loop *l)
{
    return l->fence.inflight > l->fence.send_n;
}

/* ---- shard_takeover.c ---- */
/* All steps. OK: the row is ours, what the ledger has is settled, flight is what the row holds (sent = false). */
DT_MUST_CHECK dt_status dt_shard_take_over(dt_shard_loop *l, struct dt_error *err);

/* ---- shard_batch.c ---- */
/* What is in flight and not sent: its head goes, read anew. OK also when nothing is in flight. */
DT_MUST_CHECK dt_status dt_shard_send_remainder(dt_shard_loop *l, struct dt_error *err);
/* One leader transaction over l->hints: settles what was sent, claims, sends, tells the index; sends the remainder.
 * Afterwards only the numbers of *txn count. */
DT_MUST_CHECK dt_status dt_shard_batch(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err);
/* Settles what was sent, and nothing else. */
DT_MUST_CHECK dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err);

/* ---- shard_trust.c ---- */

/* Reads the present map into l->map. */
void dt_shard_read_map(dt_shard_loop *l);
/* The marker as this leadership has written it last. */
struct dt_marker dt_shard_marker(const dt_shard_loop *l);
/* True: the index is asked what is due; otherwise MySQL is. */
bool dt_shard_believes_index(const dt_shard_loop *l);
/* Entries may be missing in the set: it is not believed until it was compared with MySQL. */
void dt_shard_doubt_index(dt_shard_loop *l);
/* Takes note of the doubts that other threads have raised. */
void dt_shard_take_doubts(dt_shard_loop *l);
/*
 * Puts this leadership's marker into the set, which shows that the index takes changes. there: our last marker was seen
 * in it. A failure is the index's.
 */
DT_MUST_CHECK dt_status dt_shard_mark(dt_shard_loop *l, bool there, struct dt_error *err);
/* Says in the marker that the set is whole. */
DT_MUST_CHECK dt_status dt_shard_vouch(dt_shard_loop *l, struct dt_error *err);
/* Makes the next due scans go past the index: MySQL is read from the longest overdue on, with a cursor. */
void dt_shard_pass_by_index(dt_shard_loop *l);
/* Takes the readers of MySQL back to the longest overdue: what they passed by may go now. */
void dt_shard_due_from_start(dt_shard_loop *l);

/* ---- shard_tell.c ---- */

/* Tells the index what became of the hints. What it cannot be told is in doubt. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_leader_txn *txn);
/* Tells the index when a job is due next (0 = never), whatever it says now. */
void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done);
/* Drops the set of a shard that the map no longer names, before stepping down. */
void dt_shard_leave_index(dt_shard_loop *l);

/* ---- shard_due.c ---- */

/* Begins the due scans of a leadership. */
void dt_shard_due_init(dt_shard_loop *l);
/* Fills l->hints with what may be due at now_ms; *next_ms: when something is due after that (0 = not known). */
DT_MUST_CHECK dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err);

/* ---- shard_queues.c ---- */
#define DT_SCAN_BATCHES 8 /* the depth of a due scan */
/* Lists the held sets, and which of them may go, when topics changed and every few seconds. */
void dt_shard_list_held(dt_shard_loop *l);
/* Notes that the held set exists; open: its entries may go. */
void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, bool open);
/* True: some parked job may go. */
bool dt_shard_parked_may_go(const dt_shard_loop *l);
/* Moves a part of each held set that may go back to the due set, before a due scan: about a batch in all. */
void dt_shard_give_back(dt_shard_loop *l);
/* Fills l->fair.queues and l->fair.of: the queue of each of l->entries[0..n), from MySQL. */
DT_MUST_CHECK dt_status dt_shard_sort_queues(dt_shard_loop *l, size_t n, struct dt_error *err);
/* Fills l->fair.parts: how many of each queue go next. held_sets: of a queue that has one, only those that were given
 * back. */
void dt_shard_share(dt_shard_loop *l, bool held_sets);
/* Fills l->hints from l->entries[0..n), each queue its part, and parks what is too much. *remainder: something that may go
 * was left where it is. */
DT_MUST_CHECK dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *remainder, struct dt_error *err);

#endif
