/*
 * The rate of a topic: how it is written ("100/s", "600/m"), and how many attempts it lets begin now. Pure.
 *
 * A generic cell rate algorithm. What it remembers is one number, next_ns: when the next attempt would begin if they
 * came at the rate exactly. Attempts may be ahead of that by a burst of nine tenths of what a second allows, and one
 * may always come when it is its time. So with a rate of r a second, whatever the order in which times are told, at
 * most 10 r + max(0.9 r, 1) attempts begin within any ten seconds: of those the first leaves next_ns at its own time +
 * 1/r at least, each further one adds 1/r, and the last found next_ns no later than its own time + the burst.
 */
#ifndef DT_TOPIC_LIMITS_H
#define DT_TOPIC_LIMITS_H

#include "base/text/strbuf.h"
#include "store/store.h"

#define DT_RATE_MAX 9999999 /* a second, or a minute */

/* Reads a rate as nanoseconds from one attempt to the next, rounded up. False: it is none. */
bool dt_rate_parse(struct dt_str text, int64_t *interval_ns);

/* A rate, and how far it is used. */
struct dt_rate {
    int64_t interval_ns; /* > 0 */
    int64_t next_ns;     /* 0 = nothing has begun yet */
};
/* Takes up what was counted at another rate (was_interval_ns, 0 = none), or by a clock that has gone back since. A
 * burst that was used up stays so, but for one attempt; that one waits until an interval of this rate has passed since
 * the last attempt, so that a rate which changes all the time lets begin no more than the fastest of them. */
void dt_rate_adopt(struct dt_rate *rate, int64_t was_interval_ns, int64_t now_ms);
/* The number of attempts that may begin at now_ms. */
size_t dt_rate_room(const struct dt_rate *rate, int64_t now_ms);
/* Counts n attempts that begin at now_ms; n is not above the room. */
void dt_rate_take(struct dt_rate *rate, int64_t now_ms, size_t n);
/* The first millisecond with room for an attempt, if nothing begins before. */
int64_t dt_rate_opens_ms(const struct dt_rate *rate);

/*
 * Room for claims of topics that have limits: how many jobs of a topic one transaction may claim, so that all shards,
 * dispatchers and APIs together stay within `max_in_flight` and `rate_limit`. Whoever claims asks here; for a topic
 * without limits nobody does.
 *
 * A topic with a limit has a gate, a row of topic_gates. Whoever claims locks it, SKIP LOCKED, and keeps the lock until
 * its commit. So claims of one topic come one after the other, and nobody waits: who is refused is told `busy`, and
 * tries again a few milliseconds later. What is in flight is the sum of `dispatched` over the topic's rows of
 * job_counts: they are changed in the very transactions that change jobs (jobs/counts.h). The sum is read by a
 * statement of its own once the gate is locked. So it has all claims of earlier holders, whose commits are visible
 * before their locks go, and at most lacks places that are being freed at this moment: a limit is never exceeded. The
 * same statement subtracts attempts that a manual edit ended and that are still counted (archive/housekeeping.c). (A
 * DELETE by hand leaves the sum too high until the audit comes by: fewer are claimed meanwhile.)
 *
 *     struct dt_gate gates[] = {{.topic = topic}};              // topics with limits; each once
 *     dt_topic_gates_lock(db, now_ms, gates, 1, err);           // inside the transaction that claims
 *     … claim at most gates[0].room jobs of it, with dispatched_at = now_ms …
 *     dt_topic_gate_claimed(db, now_ms, &gates[0], claimed, err);
 *     … dt_counts_commit …
 *
 * Order of locks: gates are only tried (SKIP LOCKED) by whoever holds other locks, and who has to make a gate makes one
 * at most in a transaction. So it does not matter whether rows of jobs or gates are locked first.
 */

struct dt_db;

/* A topic that something is to be claimed of. */
struct dt_gate {
    struct dt_str topic; /* in; borrowed */
    size_t room;      /* out: so many jobs may be claimed; SIZE_MAX: the topic has no limit (any more). Places that the
                            caller's own transaction has freed are not among them */
    bool busy;        /* out: another transaction claims of the topic; there is no room in this one */
    bool full;        /* out: a limit is used, or nine tenths of one are: what is due waits for it */
    int64_t opens_ms; /* out: without room, when the rate gives room again; 0 = when an attempt ends */
    struct dt_rate rate; /* out: interval_ns 0 = the topic has no rate */
};

/* Tells the room of n topics without locks, for whoever waits or is asked why. */
DT_MUST_CHECK dt_status dt_store_gates_look(dt_store *store, struct dt_gate *gates, size_t n, struct dt_error *err);

/* ---- inside a transaction; for store/ only ---- */

/* Locks the gates of n topics and tells their room. now_ms: the dispatched_at of what is going to be claimed. */
DT_MUST_CHECK dt_status dt_topic_gates_lock(struct dt_db *db, int64_t now_ms, struct dt_gate *gates, size_t n,
                                            struct dt_error *err);
/* Counts what was claimed of a topic whose gate is locked; a statement only where the topic has a rate. */
DT_MUST_CHECK dt_status dt_topic_gate_claimed(struct dt_db *db, int64_t now_ms, struct dt_gate *gate, size_t claimed,
                                              struct dt_error *err);
/* Locks the gate of a topic that gets limits, waiting for it, and makes it when there is none. Before any other lock of
 * the transaction. */
DT_MUST_CHECK dt_status dt_topic_gate_make(struct dt_db *db, struct dt_str topic, struct dt_error *err);
/* Keeps the locked gate closed for half a second if the topic has had no limit so far. Before the limits are
 * written. */
DT_MUST_CHECK dt_status dt_topic_gate_close(struct dt_db *db, struct dt_str topic, int64_t now_ms,
                                            struct dt_error *err);

#endif
