/*
 * The attempts in the hands of a process: attempts that the process has claimed for callbacks and that have no recorded
 * outcome yet. These are the functions in MySQL, which a dispatcher's pool of callbacks calls. Leaders call
 * dispatcher/deliver/hands.h, the interface of that pool. tests/model/callbacks.pml models the protocol.
 * store/store.h explains what a dt_store is.
 *
 *   owner    A random number that a process gives itself, and its lease. Claims store the number (dispatch/leader.h).
 *            If the lease is not renewed within its timeout, by MySQL's clock, it ends and its attempts are lost. The
 *            process stops using the number before that, and never renews the lease again.
 *   outcome  The process records the outcome of an attempt only if the row in `hands` still has the owner of the claim.
 *   lost     If an owner's lease has ended, the leader of each job's shard ends the attempt as lost;
 *            dt_store_hands_lost finds these jobs.
 */
#pragma once

#include "job/results/results.h"
#include "store/store.h"

/* Starts the lease of `owner` (above 0), and deletes leases that ended long ago. EXISTS: another process has this
 * number; draw another number. */
dt_status dt_store_hands_own(dt_store *store, int64_t owner, const char *name, int64_t timeout_ms,
                             struct dt_error *err);
/* How often an owner has requested a renewal of its lease, and how often MySQL has confirmed one. */
struct dt_renewals {
    int64_t confirmed, asked;
};
/* Renews the lease, and counts the renewal. *there becomes false if the lease was deleted, or if MySQL was restored
 * to a state before a confirmed renewal. (After the restore, `hands` may have attempts of this owner that ended
 * long ago.) */
dt_status dt_store_hands_renew(dt_store *store, int64_t owner, struct dt_renewals *renewals, bool *there,
                               struct dt_error *err);
/* Ends the lease: attempts that are still in the owner's hands are lost. */
dt_status dt_store_hands_disown(dt_store *store, int64_t owner, struct dt_error *err);

/* A page of jobs whose attempt is in the hands of an owner whose lease has ended. */
struct dt_lost {
    int64_t after; /* only ids above this one are read; 0 at first */
    int64_t *v;    /* ids of the jobs; the caller's array, with room for `limit` */
    size_t limit, n;
    bool owners; /* some process holds a lease, so attempts may be lost later */
};
/* Reads the ids of the page, ascending, sets `after` to the last id, and sets `owners`. A page that is not full is the
 * last. Rows of `hands` whose job is no longer in `jobs` are deleted. */
dt_status dt_store_hands_lost(dt_store *store, struct dt_lost *lost, struct dt_error *err);
/* Removes the owner from its attempts of these jobs (ids ascending). Leaders then end the attempts as lost. */
dt_status dt_store_hands_give_away(dt_store *store, int64_t owner, const int64_t *ids, size_t n, struct dt_error *err);
/* An attempt in the hands of a process. The struct has no padding, so memcmp may compare it. */
struct dt_hand {
    int64_t job_id, attempt;
};
/* Waits until the shard's leader has no open transaction, then reads the attempts that leaders of this shard put into
 * the owner's hands, sorted by job. Because of the wait, a claim in doubt is found if it was committed. *hands is in
 * the arena. */
dt_status dt_store_hands_of_shard(dt_store *store, int64_t owner, unsigned shard, struct dt_arena *arena,
                                  struct dt_hand **hands, size_t *n, struct dt_error *err);

/* An answer to a callback, and its effect. */
struct dt_hand_answer {
    struct dt_apply apply;   /* in: job_id and attempt; the result, unless `taken`. Out: its outcome */
    int64_t owner;           /* in: the owner number under which the attempt was claimed */
    struct dt_answer answer; /* in */
    bool taken;              /* in: the receiver will report later, so the attempt stays dispatched */
    bool held;               /* out: the attempt was still in the owner's hands; if false, nothing was written */
};
/* Records answers, at most one for each job, in one transaction of a handful of statements: removes the attempts from
 * their owner's hands, and applies their results as dt_store_apply does. OK: every answer is durable, except answers
 * whose apply.outcome is BUSY. Nothing was written for a BUSY answer, and the caller must try it again. */
dt_status dt_store_hands_record(dt_store *store, const struct dt_shard_map *map, struct dt_hand_answer *answers,
                                size_t n, struct dt_error *err);
