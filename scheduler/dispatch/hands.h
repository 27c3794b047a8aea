/*
 * The store's part of attempts in the hands of a process: claimed for a callback, and not ended yet. The pool of
 * callbacks in a dispatcher calls it; leaders use dispatcher/deliver/hands.h, the port to that pool.
 * tests/model/callbacks.pml is the protocol. See store.h for what a dt_store is.
 *
 *   owner    A random number that a process gives itself. Claims carry it (dispatch/leader.h), and it is a lease: if it
 *            is not renewed within its timeout, by MySQL's clock, it ends and its attempts are lost. The process stops
 *            using it earlier, and never renews it again.
 *   outcome  The process records the outcome of an attempt, if the attempt is still in the hands that it was claimed
 *            for.
 *   lost     If an owner is gone, the leader of a job's shard ends its attempts; dt_store_hands_lost finds them.
 */
#pragma once

#include "job/results/results.h"
#include "store/store.h"

/* Starts the lease of `owner` (above 0), and deletes leases that ended long ago. EXISTS: the number is taken; draw
 * another. */
DT_MUST_CHECK dt_status dt_store_hands_own(dt_store *store, int64_t owner, const char *name, int64_t timeout_ms,
                                           struct dt_error *err);
/* How often an owner asked for a renewal, and how often it was confirmed. */
struct dt_renewals {
    int64_t confirmed, asked;
};
/* Renews the lease, and counts the renewal. *there is false if the lease was deleted, or if MySQL was restored to a
 * state before a confirmed renewal. Then MySQL may list attempts in these hands that ended long ago. */
DT_MUST_CHECK dt_status dt_store_hands_renew(dt_store *store, int64_t owner, struct dt_renewals *renewals, bool *there,
                                             struct dt_error *err);
/* Ends the lease: attempts that are still in its hands are lost. */
DT_MUST_CHECK dt_status dt_store_hands_disown(dt_store *store, int64_t owner, struct dt_error *err);

/* A page of jobs with an attempt in the hands of an owner that is gone. */
struct dt_lost {
    int64_t after; /* ids above it; 0 at first */
    int64_t *v;    /* room for `limit`, the caller's */
    size_t limit, n;
    bool owners; /* some process holds a lease, so attempts may be lost later */
};
/* Reads the ids, ascending, moves `after` to the last one, and sets `owners`. A page that is not full is the last.
 * Rows of `hands` whose job is no longer in `jobs` are deleted. */
DT_MUST_CHECK dt_status dt_store_hands_lost(dt_store *store, struct dt_lost *lost, struct dt_error *err);
/* Removes the owner from its attempts of these jobs (ids ascending). */
DT_MUST_CHECK dt_status dt_store_hands_give_away(dt_store *store, int64_t owner, const int64_t *ids, size_t n,
                                                 struct dt_error *err);
/* An attempt in hands. No padding: it may be compared byte by byte. */
struct dt_hand {
    int64_t job_id, attempt;
};
/* Waits until no transaction of the shard's leader is open, then reads the attempts that this shard's leaders put
 * into the owner's hands, sorted by job. The wait makes sure that it finds a claim whose commit was in doubt. *hands
 * is in the arena. */
DT_MUST_CHECK dt_status dt_store_hands_of_shard(dt_store *store, int64_t owner, unsigned shard, struct dt_arena *arena,
                                                struct dt_hand **hands, size_t *n, struct dt_error *err);

/* An answer to a callback, and its effect. */
struct dt_hand_answer {
    struct dt_apply apply;   /* in: job_id and attempt; the result, unless `taken`. Out: its outcome */
    int64_t owner;           /* in: the number that the claim carried */
    struct dt_answer answer; /* in */
    bool taken;              /* in: the receiver reports later, so the attempt stays dispatched */
    bool held;               /* out: the attempt was still in these hands; if false, it was ended elsewhere and
                              * nothing was written */
};
/*
 * Records answers, at most one for each job, in one transaction of a handful of statements: removes the attempts from
 * their owner's hands, and applies their results as dt_store_apply does. OK: all answers are durable, except those
 * whose apply.outcome is BUSY. Nothing of these was written, and the caller tries again.
 */
DT_MUST_CHECK dt_status dt_store_hands_record(dt_store *store, const struct dt_shard_map *map,
                                              struct dt_hand_answer *answers, size_t n, struct dt_error *err);
