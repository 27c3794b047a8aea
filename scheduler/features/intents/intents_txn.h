/* Carries out intents (intents.h) inside a transaction of the caller, which has locked the intents' rows or offsets:
 * inbox_store.c and command_batch.c. */
#pragma once

#include "intents.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* A set of names of jobs, as hashes; two names may have the same hash. It is in an arena, and its room for names is
 * fixed when it is made. */
struct dt_name_set {
    uint64_t *v;
    size_t mask, n;
};

/* An intent that another session has, so this transaction does not carry it out. Later intents of this transaction for
 * the same job wait. */
struct dt_foreign_name {
    size_t from; /* index of the first intent of this transaction that follows it */
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
    bool singly; /* insert rows one by one, because the last try ended with INVALID */
    struct dt_intent *v;
    size_t n;
    struct dt_name_set waiting; /* names of jobs whose intents wait; dt_intents_init empties it */
    struct dt_job_move *moves;  /* out, in the arena, at most n */
    size_t n_moves;

    /* The members below are used by intents_store.c only. */
    size_t room;                     /* room of moves, pending and known: n when they were prepared */
    struct dt_foreign_name *foreign; /* ascending by `from`; the names of the first n_passed are in `waiting` */
    size_t n_foreign, n_passed;
    struct dt_name_set created;
    struct dt_intent **pending;
    size_t n_pending;
    struct dt_intent_topic *known;
    size_t n_known;
};

/* Prepares the lists, with room for n intents and `foreign` foreign ones. Returns NOMEM if memory runs out. */
DT_MUST_CHECK dt_status dt_intents_init(struct dt_intents_txn *txn, size_t foreign, struct dt_error *err);
/* Adds a foreign intent that precedes v[from]: from v[from] on, intents for the job that it names wait. Must be called
 * in ascending order of `from`. */
void dt_intents_stand_behind(struct dt_intents_txn *txn, size_t from, struct dt_str topic, struct dt_str key,
                             int64_t job_id);
/* Carries out all intents that are not refused yet, and sets their outcomes. EXISTS: an id is taken. INVALID: the
 * server refuses one of the new rows. If the status is not OK, the caller rolls back, and passes the status to
 * dt_intents_ended. */
DT_MUST_CHECK dt_status dt_intents_in_txn(struct dt_intents_txn *txn, struct dt_error *err);
/* Prepares the next try after a transaction with intents ended with `status`. Returns BUSY if another try can help:
 * after EXISTS it drops the ids, after INVALID it sets *singly. Returns any other status unchanged, and also INVALID if
 * *singly was set before. */
DT_MUST_CHECK dt_status dt_intents_ended(dt_status status, struct dt_id_block *ids, bool *singly);
