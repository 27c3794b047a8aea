/*
 * Making jobs inside a transaction of the caller (intents, fires of schedules), by the code with which dt_store_insert
 * makes them in a transaction of its own. For store/ only.
 */
#ifndef DT_JOB_INSERT_TXN_H
#define DT_JOB_INSERT_TXN_H

#include "jobs.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* The rows to insert. maker: the random number of the block that their ids come from (id_block.h). */
struct dt_insert_rows {
    struct dt_insert *const *v;
    size_t n;
    int64_t maker;
    bool singly;   /* one after the other, so that one the server does not take is REFUSED alone */
    bool no_fires; /* keys of fires are RESERVED */
};
/*
 * Inserts the rows in the open transaction, which began at now_ms; those that are CREATED are counted in *counts.
 * EXISTS: an id is taken (singly: the outcome ID_TAKEN); INVALID: the server does not take one of the rows; with any
 * status but OK: roll back.
 */
DT_MUST_CHECK dt_status dt_insert_in_txn(dt_store *store, dt_db *db, int64_t now_ms, const struct dt_insert_rows *rows,
                                         struct dt_counts *counts, struct dt_error *err);

/*
 * Offers to pops, in the same transaction, those of the inserted rows that are due (dispatch/pop.h), so that a pop
 * that follows need not wait for a leader. Scans meet the rows all the same: a topic may have got another delivery a
 * moment ago. A pop leaves what is not due yet. room: for DT_OFFER_COLUMNS parameters a row.
 */
#define DT_OFFER_COLUMNS 3
DT_MUST_CHECK dt_status dt_offer_made(dt_db *db, const struct dt_insert_rows *rows, int64_t now_ms,
                                      struct dt_param *room, struct dt_error *err);

#endif
