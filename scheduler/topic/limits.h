/*
 * Limits of topics: the rate ("100/s", "600/m"), in pure functions; and the room, which is how many jobs may be
 * claimed.
 *
 * The rate is a generic cell rate algorithm. Its state is one number, next_ns: the time at which the next attempt would
 * begin if attempts began exactly at the rate. An attempt may begin before next_ns, by at most nine tenths of a second
 * (the burst); one attempt may always begin at next_ns.
 *
 * So at a rate of r a second, at most 10 r + max(0.9 r, 1) attempts begin within any ten seconds, even if they are
 * counted in another order than that of their times. Proof: the first of these attempts sets next_ns to at least its
 * own time + 1/r, each further attempt adds 1/r, and for the last one next_ns was at most its own time + the burst.
 */
#pragma once

#include "base/text/strbuf.h"
#include "store/store.h"

#define DT_RATE_MAX 9999999 /* largest number in a rate, for a second or a minute */

/* Reads a rate as nanoseconds from one attempt to the next, rounded up. Returns false if the text is not a rate. */
bool dt_rate_parse(struct dt_str text, int64_t *interval_ns);

/* A rate and its state. */
struct dt_rate {
    int64_t interval_ns; /* > 0 */
    int64_t next_ns;     /* 0 = no attempt has begun yet */
};
/* Converts a state to this rate, if it was counted at another rate (was_interval_ns; 0 = none) or with a clock that was
 * set back since. If the burst was used up, it stays used up, except for one attempt, which must wait until an interval
 * of the new rate has passed since the last attempt. So if a rate changes again and again, the attempts never exceed
 * the fastest of its values. */
void dt_rate_adopt(struct dt_rate *rate, int64_t was_interval_ns, int64_t now_ms);
/* Returns how many attempts may begin at now_ms. */
size_t dt_rate_room(const struct dt_rate *rate, int64_t now_ms);
/* Counts n attempts that begin at now_ms. n must not exceed dt_rate_room. */
void dt_rate_take(struct dt_rate *rate, int64_t now_ms, size_t n);
/* Returns the first millisecond at which an attempt may begin, if no other attempt begins earlier. */
int64_t dt_rate_opens_ms(const struct dt_rate *rate);

/*
 * ---- room: how many jobs of a topic one transaction may claim, so that all processes together keep its limits ----
 *
 * A topic with a limit has a gate, which is a row of topic_gates. A transaction that claims jobs of the topic locks the
 * gate with SKIP LOCKED until its commit. So the jobs of one topic are claimed by one transaction at a time, and no
 * other waits: if it does not get the lock, the gate is `busy`, and the leader or pop tries again a few milliseconds
 * later.
 *
 * The number of attempts in flight is the sum of `dispatched` over the topic's rows of job_counts, which change in the
 * transactions that change jobs (topic/counts.h). A separate statement reads the sum after the gate was locked. So the
 * sum includes all earlier claims, because a commit is visible before its lock on the gate ends. An attempt that ends
 * at this moment may still be counted; that never exceeds the limit. The same statement subtracts attempts that a
 * manual edit ended and that are still counted (job/archive/archive_store.c). After a manual DELETE the sum is too high
 * until the next audit: until then, fewer jobs are claimed.
 *
 *     struct dt_gate gates[] = {{.topic = topic}};              // topics with limits; each once
 *     dt_topic_gates_lock(db, now_ms, gates, 1, err);           // inside the transaction that claims
 *     … claim at most gates[0].room jobs of the topic, with dispatched_at = now_ms …
 *     dt_topic_gate_claimed(db, now_ms, &gates[0], claimed, err);
 *     … dt_counts_commit …
 *
 * Order of locks: a transaction that holds other locks only tries gates (SKIP LOCKED), and makes at most one gate. So
 * it may lock rows of jobs and gates in any order.
 */

struct dt_db;

/* What a transaction that wants to claim jobs of a topic must know about its limits. The gate is the row of
 * topic_gates. */
struct dt_gate {
    struct dt_str topic; /* in: name of the topic; borrowed */
    /* out: most jobs that may be claimed; SIZE_MAX: the topic has no limit (any more). Attempts that the caller's
     * own transaction ends still count as in flight */
    size_t room;
    bool busy;           /* out: another transaction claims jobs of the topic, so `room` is 0 */
    bool full;           /* out: at least nine tenths of a limit are used, so due jobs wait */
    int64_t opens_ms;    /* out: if there is no room, when the rate allows the next attempt; 0 = when an attempt ends */
    struct dt_rate rate; /* out: the rate and its state; interval_ns 0 = the topic has no rate */
};

/* Reads how many jobs of each topic may be claimed (room), without locks. The numbers may change at once, so a claim
 * must not rely on them. */
dt_status dt_store_gates_look(dt_store *store, struct dt_gate *gates, size_t n, struct dt_error *err);

/* ---- inside a transaction; for the store only ---- */

/* Locks the gates (rows of topic_gates) of n topics, and reads how many jobs of each may be claimed. now_ms: the
 * dispatched_at of the jobs to be claimed. */
dt_status dt_topic_gates_lock(struct dt_db *db, int64_t now_ms, struct dt_gate *gates, size_t n, struct dt_error *err);
/* Counts jobs that were just claimed against their topic's rate. The topic's gate must be locked. Runs a statement only
 * if the topic has a rate. */
dt_status dt_topic_gate_claimed(struct dt_db *db, int64_t now_ms, struct dt_gate *gate, size_t claimed,
                                struct dt_error *err);
/* Locks the gate (row of topic_gates) of a topic that gets limits. If there is no gate, makes it. Waits for the lock,
 * so it must be the first lock of the transaction. */
dt_status dt_topic_gate_make(struct dt_db *db, struct dt_str topic, struct dt_error *err);
/* If the topic had no limit before, allows no claims for half a second, because some processes do not know the limit
 * yet. The gate (row of topic_gates) must be locked, and the new limits must not be written yet. */
dt_status dt_topic_gate_close(struct dt_db *db, struct dt_str topic, int64_t now_ms, struct dt_error *err);
