/* Carries out intents (intents.h) inside a transaction of the caller, which has locked the rows or offsets of the
 * intents. For inbox_store.c and command_batch.c. */
#pragma once

#include "intents.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* A set of hashes of jobs' names. Two names may have the same hash; then an intent waits without need. The set is in an
 * arena and cannot grow. */
struct dt_name_set {
    uint64_t *v;
    size_t mask, n;
};

/* The name of a job for which another session has locked an earlier intent. Later intents of this transaction for the
 * same job wait. */
struct dt_foreign_name {
    size_t from; /* index in this transaction of the first intent that is later than the locked one */
    uint64_t hash;
};

struct dt_intents_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts *counts;
    struct dt_arena *arena;
    struct dt_id_block *ids; /* has at least one id for each intent */
    struct dt_intent_topics *topics;
    bool singly; /* insert rows one by one, because the previous try ended with INVALID */
    struct dt_intent *v;
    size_t n;
    struct dt_name_set waiting; /* names of jobs for which an intent waits; dt_intents_init empties the set */
    struct dt_job_move *moves;  /* out, in the arena: jobs whose time changed, at most n */
    size_t n_moves;

    /* For intents_store.c only. */
    size_t room; /* n of dt_intents_init: capacity of moves, pending and known */
    /* sorted by `from`; the names of the first n_passed of them were added to `waiting` */
    struct dt_foreign_name *foreign;
    size_t n_foreign, n_passed;
    struct dt_name_set created;
    struct dt_intent **pending;
    size_t n_pending;
    struct dt_intent_topic *known;
    size_t n_known;
};

/* Allocates the lists, for n intents and for `foreign` intents of other sessions. Returns NOMEM if memory runs out. */
dt_status dt_intents_init(struct dt_intents_txn *txn, size_t foreign, struct dt_error *err);
/* Records that another session has locked an intent that is earlier than v[from]: v[from] and later intents for the
 * same job wait. Must be called in ascending order of `from`. */
void dt_intents_stand_behind(struct dt_intents_txn *txn, size_t from, struct dt_str topic, struct dt_str key,
                             int64_t job_id);
/* Carries out all intents that are not refused yet, and sets their outcomes. EXISTS: an id is taken. INVALID: the
 * server refuses one of the new rows. If the status is not OK, the caller must roll back and pass the status to
 * dt_intents_ended. */
dt_status dt_intents_in_txn(struct dt_intents_txn *txn, struct dt_error *err);
/* Must be called after a transaction with intents has ended with `status`. Returns BUSY if the caller should try again:
 * after EXISTS it has dropped the block of ids, after INVALID it has set *singly. Returns any other status unchanged,
 * also INVALID if *singly was set before. */
dt_status dt_intents_ended(dt_status status, struct dt_id_block *ids, bool *singly);
