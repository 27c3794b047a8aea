/*
 * Deadlines of attempts that were sent. The time for a result begins with the claim; if sending took long, the leader
 * has it begin anew, in the transaction in which it settles the batch. For store/ only.
 */
#ifndef DT_DISPATCH_LEADER_PARTS_H
#define DT_DISPATCH_LEADER_PARTS_H

#include "base/assert.h"
#include "fence.h"
#include "job/inflight.h"
#include "job/results/results.h"
#include "leader.h"
#include "mysql/db.h"
#include "topic/counts.h"
#include "topic/limits.h"

/*
 * Puts the deadlines of attempts that were sent to now_ms + their ack timeout, never earlier than they are, and only
 * where the row still says dispatched with that attempt. Rows that others hold locked are passed by. moved (may be
 * NULL; else with room for sent->n): gets the jobs whose deadline moved, from hint_ms to next_ms.
 */
DT_MUST_CHECK dt_status dt_deadlines_extend(dt_db *db, const struct dt_inflight *sent, int64_t now_ms,
                                            struct dt_seen_list *moved, struct dt_error *err);

/*
 * The parts of the leader transaction: shared by its files, included by nobody else.
 *
 *   leader.c         begins, goes through the others in this order, writes the shard's row, commits
 *   leader_choose.c  the hinted jobs: locked and read, with what other shards have in flight of them
 *   leader_claim.c       attempts in the hands of a process: ended when it is gone, and written
 *   leader.c       what becomes of each
 *   leader_choose.c      which of those that may be claimed have room within limits, and fit into the batch
 *   leader_choose.c      and, when they are of more Kafka topics than a batch may have, of which
 *   leader.c    ends the attempts whose time for a result is over
 *   leader_claim.c       writes the claim, and reads its messages
 *   leader_claim.c      offers to pops what leaders do not claim
 *
 * All of it is one thread's, between the lock of the shard's row and the COMMIT. Memory comes from the arena of
 * struct dt_leader_txn; only `foreign`, `frozen` and `counts` are freed, by leader.c.
 */

/* The outcome of a hint in this transaction. */
enum dt_fate {
    DT_FATE_GONE,      /* nothing is due of it any more: its entry goes away */
    DT_FATE_ELSEWHERE, /* its slot is another shard's */
    DT_FATE_LEFT,      /* nothing now: it is looked at again later */
    DT_FATE_MOVED,     /* it is due at another time */
    DT_FATE_HELD,      /* it is due, but its topic takes nothing now */
    DT_FATE_CLAIM,     /* it is claimed */
    DT_FATE_OFFER,     /* it is offered: whoever asks for it claims it */
    DT_FATE_TIMEOUT    /* its attempt has had its time for a result */
};

/* A hinted job as its locked row says. */
struct dt_candidate {
    int64_t id, hint_ms, next_ms, attempt, ack_timeout_ms, bytes;
    int claim_shard;           /* -1: no attempt yet */
    enum dt_job_state state;   /* as locked */
    enum dt_job_state claimed; /* with DT_FATE_CLAIM: what a claim makes of it, by the table of states */
    enum dt_fate fate;
    bool found, alone, chosen, unknown;
    bool by_hands; /* with DT_FATE_CLAIM: into the hands of this process, and not into the list */
    bool in_hands; /* its latest attempt is in hands whose owner lives: nobody else ends it or claims the next one */
    bool lost;     /* its latest attempt was in hands whose owner is gone */
    bool limited;  /* its topic has a limit */
    bool at_limit; /* with DT_FATE_HELD: there is no room */
    uint32_t host; /* with DT_FATE_HELD: of struct dt_seen */
    bool busy;     /* with DT_FATE_LEFT: another transaction claims of its topic, or the list is frozen */
    struct dt_str topic,
        kafka_topic;             /* kafka_topic and owner: if the topic has a row, and pops do not claim its jobs */
    int64_t owner;               /* of the topic */
    struct dt_str callback_url;  /* its own; absent: it has none */
    struct dt_outgoing *message; /* NULL: too large to be read before it is chosen */
};

/* A leader transaction that is open. */
struct dt_open_txn {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_fence *fence;
    struct dt_leader_txn *io; /* the caller's: each part of it is written by the file that its comment names */
    struct dt_error *err;
    struct dt_fence_row row;

    /* leader_choose.c */
    struct dt_candidate *v; /* by id; from dt_claims_choose on by (next_ms, id) */
    size_t n;
    bool by_due;                /* they are in that order by now */
    struct dt_inflight foreign; /* what other shards that claimed some of these have in flight: by id */
    struct dt_inflight frozen;  /* the list of this shard if it is frozen, else empty: by id */
    bool foreign_unknown;       /* a manual edit broke such a list: it may have any job */
    struct dt_str topic;        /* the latest copy of a topic's name */

    /* leader.c */
    struct dt_str kafka_topic; /* the latest copy of a Kafka topic's name */

    /* leader_choose.c */
    struct dt_gate *gates;      /* of topics with limits that jobs are claimed of */
    struct dt_limited *limited; /* beside gates */
    size_t n_gates;
    struct dt_claim *claims;
    size_t n_claims, n_timeouts, n_retries;
    struct dt_claim *hands; /* claims into the hands of this process */
    size_t n_hands;
    int64_t owner;    /* the number that they are written with */
    size_t n_emptied; /* rows of `hands` that owners which are gone have left */

    /* for the COMMIT */
    struct dt_counts counts;
    struct dt_shrink shrink; /* of the list that was sent */
};

/* The transaction as the results of candidates are applied in it. Their rows are locked, so nothing waits. */
static inline struct dt_results_txn dt_open_txn_results(struct dt_open_txn *t)
{
    return (struct dt_results_txn){.db = t->db,
                                   .config = t->config,
                                   .map = t->io->due.map,
                                   .now_ms = t->row.now_ms,
                                   .locking = DT_LOCK_WAITING,
                                   .counts = &t->counts,
                                   .arena = t->io->arena};
}

/* ---- leader_choose.c ---- */

/* Makes a candidate of each hint, refreshes the topic snapshot, locks the rows and reads all that judging needs. Rows
 * that others hold locked are passed by: their candidates are not `found`. */
DT_MUST_CHECK dt_status dt_candidates_read(struct dt_open_txn *t);
/* The candidate of an id, NULL if there is none. Only while they are sorted by id. */
struct dt_candidate *dt_candidates_find(struct dt_open_txn *t, int64_t id);
/* The ids of the candidates that `wanted` picks (NULL: all), in their order; *n of them. NULL: no memory. */
const int64_t *dt_candidates_ids(const struct dt_open_txn *t, bool (*wanted)(const struct dt_candidate *c), size_t *n);
/* Does the shard that claimed the candidate's latest attempt still have it in flight, and is it another shard? */
bool dt_candidate_in_flight_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c);

/* ---- leader_claim.c ---- */

/* Reads which candidates' latest attempts are in somebody's hands. The attempts of owners that are gone end here: their
 * jobs are candidates for their next attempt from then on, as they are in the table. Before judging. */
DT_MUST_CHECK dt_status dt_hands_look(struct dt_open_txn *t);
/* Takes a place for the candidate's next attempt in the hands of this process. False: there is none. */
enum dt_hand_place dt_hands_take(struct dt_open_txn *t, const struct dt_candidate *c);
/* Writes whose hands the claims are in. */
DT_MUST_CHECK dt_status dt_hands_write(struct dt_open_txn *t);

/* ---- leader.c ---- */

/* Gives every candidate its fate. */
DT_MUST_CHECK dt_status dt_candidates_judge(struct dt_open_txn *t);

/* ---- leader_choose.c ---- */

/* Sorts the candidates by (next_ms, id), holds those beyond a limit, lists the claims that fit into one batch, and
 * leaves the others. Counts timeouts and retries. */
DT_MUST_CHECK dt_status dt_claims_choose(struct dt_open_txn *t);
/* Counts what was chosen in the rates of its topics. */
DT_MUST_CHECK dt_status dt_limits_write(struct dt_open_txn *t);

/* Leaves a job that does not fit into the batch. Part of dt_claims_choose. */
static inline void dt_candidate_leave(struct dt_open_txn *t, struct dt_candidate *c)
{
    struct dt_leader_chosen *chosen = &t->io->chosen;
    dt_assert_cmp(chosen->n_left, <, t->n);
    c->fate = DT_FATE_LEFT;
    chosen->more = true;
    chosen->left[chosen->n_left++] = c->id;
}

/* ---- leader_choose.c ---- */

/* Leaves what would be sent beyond the number of Kafka topics that a batch may have. Part of dt_claims_choose. */
DT_MUST_CHECK dt_status dt_topics_choose(struct dt_open_txn *t);

/* ---- leader.c ---- */

/* Leaves attempts to the results that wait for their jobs' rows (deferred_results). Before dt_claims_choose. */
DT_MUST_CHECK dt_status dt_timeouts_leave_deferred(struct dt_open_txn *t);
/* Ends the attempts whose fate is DT_FATE_TIMEOUT, as a reported failure ends one. Their fate is afterwards MOVED,
 * GONE, or LEFT where the result was not applied. */
DT_MUST_CHECK dt_status dt_timeouts_write(struct dt_open_txn *t);

/* ---- leader_claim.c ---- */

/* Makes the chosen jobs dispatched, reads their messages into io->batch, and tells the caller's listener while nothing
 * is committed. */
DT_MUST_CHECK dt_status dt_claims_write(struct dt_open_txn *t);

/* ---- leader_claim.c ---- */

/* Puts the jobs whose fate is DT_FATE_OFFER into pop_queue, and marks their rows. */
DT_MUST_CHECK dt_status dt_offers_write(struct dt_open_txn *t);

#endif
