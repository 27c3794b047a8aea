/*
 * The inside of the leader transaction, for dispatch/ alone.
 *
 *   leader.c         the order of the steps, the fate of each hinted job, timeouts, the shard's row, the COMMIT
 *   leader_choose.c  the choice among the jobs that may be claimed
 *   leader_rows.c    the rows of hinted jobs; claims, rows of `hands` and offers; messages
 *
 * All functions run in one thread, between the lock of the shard's row and the COMMIT. Memory comes from the arena of
 * struct dt_leader_txn, except `foreign`, `frozen` and `counts`, which leader.c frees.
 */
#pragma once

#include "base/assert.h"
#include "fence.h"
#include "job/inflight.h"
#include "job/results/results.h"
#include "leader.h"
#include "mysql/db.h"
#include "topic/counts.h"
#include "topic/limits.h"

/* The outcome of a hint in this transaction. */
enum dt_fate {
    DT_FATE_GONE,      /* the job is finished or does not exist: its index entry is removed */
    DT_FATE_ELSEWHERE, /* the job's slot belongs to another shard */
    DT_FATE_LEFT,      /* the job is skipped: a later transaction judges it again */
    DT_FATE_MOVED,     /* the job is due at another time */
    DT_FATE_HELD,      /* the job is due, but cannot be claimed now: its index entry is held */
    DT_FATE_CLAIM,     /* the job is claimed */
    DT_FATE_OFFER,     /* the job is offered to pops */
    DT_FATE_TIMEOUT    /* the job's attempt timed out */
};

/* A hinted job, with the values of its locked row. */
struct dt_candidate {
    int64_t id, hint_ms, next_ms, attempt, ack_timeout_ms, bytes;
    int claim_shard;           /* shard whose in-flight list the latest attempt was claimed into; -1: none */
    enum dt_job_state state;   /* state in the locked row */
    enum dt_job_state claimed; /* with DT_FATE_CLAIM: the state after the claim */
    enum dt_fate fate;
    bool found, alone, chosen, unknown;
    bool by_hands; /* with DT_FATE_CLAIM: claimed into the hands of this process, not into the in-flight list */
    bool in_hands; /* the latest attempt is in the hands of a process that is alive, and only that process ends it */
    bool lost;     /* the latest attempt was in the hands of a process that is gone */
    bool limited;  /* the job's topic has a limit */
    bool at_limit; /* with DT_FATE_HELD: the job's topic has no room */
    uint32_t host; /* with DT_FATE_HELD: number of the host without a place (dt_callback_host_of), or 0 */
    /* With DT_FATE_LEFT: another transaction claims jobs of the topic, or the in-flight list is frozen. */
    bool busy;
    /* kafka_topic and owner are not set if the topic has no row, or if its jobs are popped. */
    struct dt_str topic, kafka_topic;
    int64_t owner;               /* owner of the topic */
    struct dt_str callback_url;  /* the job's own URL; absent: it has none */
    struct dt_outgoing *message; /* the message; NULL: too large to be read before the job is chosen */
};

struct dt_open_txn {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_fence *fence;
    struct dt_leader_txn *io; /* inputs and outputs of the transaction */
    struct dt_error *err;
    struct dt_fence_row row;

    /* used by leader_rows.c: the candidates */
    struct dt_candidate *v; /* sorted by id; after dt_claims_choose by (next_ms, id) */
    size_t n;
    bool by_due; /* whether v is sorted by (next_ms, id) */
    /* In-flight lists of the other shards that claimed attempts of candidates, merged; sorted by job id. */
    struct dt_inflight foreign;
    /* Copy of this shard's in-flight list if it is frozen, otherwise empty; sorted by job id. */
    struct dt_inflight frozen;
    bool foreign_unknown; /* a manual edit broke the in-flight list of another shard, so any job may be in it */
    struct dt_str topic;  /* last copy of a topic's name; consecutive candidates share it */

    /* used by leader.c */
    struct dt_str kafka_topic; /* last copy of a Kafka topic's name; consecutive candidates share it */

    /* used by leader_choose.c: the choice */
    struct dt_gate *gates;      /* rows of those topics with limits that have candidates */
    struct dt_limited *limited; /* limited[i] has the limits of the topic whose row is gates[i] */
    size_t n_gates;
    struct dt_claim *claims;
    size_t n_claims, n_timeouts, n_retries;
    struct dt_claim *hands; /* claims of callbacks, into the hands of this process */
    size_t n_hands;
    int64_t owner;    /* owner number of this process in `hands` */
    size_t n_emptied; /* number of rows of `hands` that were deleted because their process is gone */

    /* used for the COMMIT */
    struct dt_counts counts;
    struct dt_shrink shrink; /* how settling shortens the in-flight list */
};

/* Returns the transaction in which results of candidates are applied. The rows of candidates are locked, so applying a
 * result does not wait. */
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

/* Sorts the candidates by (next_ms, id), holds candidates that exceed a limit, lists the claims that fit into one
 * batch, and leaves all other candidates. Counts timeouts and retries. */
dt_status dt_claims_choose(struct dt_open_txn *t);
/* Counts the chosen jobs in the rates of their topics. */
dt_status dt_limits_write(struct dt_open_txn *t);

/* ---- leader_rows.c ---- */

/* Makes a candidate of each hint, refreshes the topic snapshot, locks the jobs' rows and reads what is needed to judge
 * the candidates. If another session has a row locked, `found` of its candidate is false. */
dt_status dt_candidates_read(struct dt_open_txn *t);
/* Returns the candidate of an id, NULL if there is none. The candidates must still be sorted by id. */
struct dt_candidate *dt_candidates_find(struct dt_open_txn *t, int64_t id);
/* Called for a row of an answer that has the id of a candidate: sets the candidate's fate to DT_FATE_LEFT. arg: the
 * struct dt_open_txn. */
dt_status dt_candidate_leave(void *arg);
/* Returns the ids of the candidates for which `wanted` returns true (NULL: all), in the order of candidates. *n: their
 * number. NULL: memory ran out. */
const int64_t *dt_candidates_ids(const struct dt_open_txn *t, bool (*wanted)(const struct dt_candidate *c), size_t *n);
/* Returns true if another shard claimed the candidate's latest attempt and still has it in flight. */
bool dt_candidate_in_flight_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c);
/* Reads which candidates' latest attempts are in the hands of a process. Must be called before candidates are judged.
 * If that process is gone, ends the attempt as lost, and prepares its candidate for the next attempt. */
dt_status dt_hands_look(struct dt_open_txn *t);
/* Writes the claims of the chosen jobs and their rows of `hands`, reads the messages into io->batch, and calls the
 * caller's listener. */
dt_status dt_claims_write(struct dt_open_txn *t);
/* Puts the jobs whose fate is DT_FATE_OFFER into pop_queue, and marks their rows. */
dt_status dt_offers_write(struct dt_open_txn *t);

/* ---- fence_store.c ---- */

/* Sets the deadlines of attempts that were sent to now_ms + their ack timeout, if the job's row is still dispatched
 * with the attempt. A deadline never becomes earlier. Rows that another session has locked are skipped. moved (NULL, or
 * with room for sent->n) gets the jobs whose deadline changed, with the old deadline in hint_ms and the new one in
 * next_ms. */
dt_status dt_deadlines_extend(dt_db *db, const struct dt_inflight *sent, int64_t now_ms, struct dt_seen_list *moved,
                              struct dt_error *err);
