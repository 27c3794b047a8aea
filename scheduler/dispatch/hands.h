/*
 * The store's part of attempts in the hands of a process: claimed for a callback, and not ended yet. Called by the pool
 * of callbacks in a dispatcher; dispatcher/deliver/hands.h is the port before that pool, which leaders use.
 * tests/model/callbacks.pml is the protocol. See store.h for what a dt_store is.
 *
 *   owner    A random number that a process gives itself. Claims carry it (dispatch/leader.h), and it is a lease:
 *            if it was not renewed for its timeout by MySQL's clock it has ended, and its attempts are lost. The
 *            process lets go of it earlier, and never renews it again.
 *   outcome  The process records what came of an attempt, if the attempt is still in the hands that it was claimed for.
 *   lost     The leader of a job's shard ends attempts in the hands of an owner that is gone; dt_store_hands_lost finds
 *            them.
 */
#ifndef DT_DISPATCH_HANDS_H
#define DT_DISPATCH_HANDS_H

#include "job/results/results.h"
#include "store/store.h"

/* ---- owners (hands_store.c) ---- */

/* Begins the lease of a number above 0. EXISTS: draw another one. Forgets numbers that ended long ago. */
DT_MUST_CHECK dt_status dt_store_hands_own(dt_store *store, int64_t owner, const char *name, int64_t timeout_ms,
                                           struct dt_error *err);
/* An owner's renewals: those that were confirmed, and those that were asked for. */
struct dt_renewals {
    int64_t confirmed, asked;
};
/* Renews it, and counts. *there: false when it was forgotten, or when MySQL went back to before a renewal that was
 * confirmed: what it says is in these hands may have left them long ago. */
DT_MUST_CHECK dt_status dt_store_hands_renew(dt_store *store, int64_t owner, struct dt_renewals *renewals, bool *there,
                                             struct dt_error *err);
/* Ends it: whatever is still in its hands is lost from now on. */
DT_MUST_CHECK dt_status dt_store_hands_disown(dt_store *store, int64_t owner, struct dt_error *err);

/* ---- lost attempts (hands_store.c) ---- */

/* A page of jobs of which an attempt is in the hands of an owner that is gone. */
struct dt_lost {
    int64_t after; /* ids above it; 0 at first */
    int64_t *v;    /* room for `limit`, the caller's */
    size_t limit, n;
    bool owners; /* some process has a number, so attempts may be lost soon */
};
/* Fills in the ids, ascending, moves `after` to the last one, and sets `owners`. A page that is not full is the last.
 * Rows of jobs that are not in `jobs` any more are removed. */
DT_MUST_CHECK dt_status dt_store_hands_lost(dt_store *store, struct dt_lost *lost, struct dt_error *err);
/* The attempts of these jobs (ascending) that are in the owner's hands are nobody's from now on. */
DT_MUST_CHECK dt_status dt_store_hands_give_away(dt_store *store, int64_t owner, const int64_t *ids, size_t n,
                                                 struct dt_error *err);
/* An attempt in somebody's hands. No padding: it may be compared byte by byte. */
struct dt_hand {
    int64_t job_id, attempt;
};
/* Waits until no transaction of the shard's leader is under way, then reads what this shard's leaders put into the
 * owner's hands, by job: among it a claim whose commit was in doubt. *hands lies in the arena. */
DT_MUST_CHECK dt_status dt_store_hands_of_shard(dt_store *store, int64_t owner, unsigned shard, struct dt_arena *arena,
                                                struct dt_hand **hands, size_t *n, struct dt_error *err);

/* ---- outcomes (hands_store.c) ---- */

/* An answer to a callback, and what came of it. */
struct dt_hand_answer {
    struct dt_apply apply;   /* in: job_id and attempt; the result, unless `taken`. Out: its outcome */
    int64_t owner;           /* in: whose number the claim carried */
    struct dt_answer answer; /* in */
    bool taken;              /* in: the receiver reports later, so the attempt stays dispatched */
    bool held;               /* out: it was still in these hands; false: somebody else ended it, nothing was written */
};
/*
 * Records answers, one a job at most, in one transaction of a handful of statements: what is still in its owner's hands
 * leaves them, and its result is applied as dt_store_apply does. OK: all is durable, but for what is BUSY
 * (apply.outcome): that is as it was, try again.
 */
DT_MUST_CHECK dt_status dt_store_hands_record(dt_store *store, const struct dt_shard_map *map,
                                              struct dt_hand_answer *answers, size_t n, struct dt_error *err);

#endif
