/* The messages of claimed attempts, read from the rows of their jobs, for the leader that is going to send them. */
#ifndef DT_DISPATCH_OUTGOING_H
#define DT_DISPATCH_OUTGOING_H

#include "job/inflight.h"
#include "job/job.h"
#include "store/store.h"

/* The message of one claim: what the caller gave, by the table of columns (job/job.h), and where it goes.
 * Slices lie in the arena of the call that read it; those of columns that are NULL are absent. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
};

/* Reads the messages of attempts that are in flight already (after a takeover, or because a list was halved), whatever
 * their rows say by now. *out: an array in the order of the claims. A job whose row is gone has neither topic nor
 * payload. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims,
                                               struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* ---- inside a transaction; for store/ only ---- */

/* Copies the message's columns of the current row, from `first` on (job_rows.sql: lock_hinted). *out is NULL when the
 * message is not small, so that its payload was not read. */
DT_MUST_CHECK dt_status dt_outgoing_small(struct dt_db *db, unsigned first, struct dt_arena *arena,
                                          struct dt_outgoing **out);

/* Does what dt_store_read_outgoing does, inside the caller's transaction. */
DT_MUST_CHECK dt_status dt_outgoing_read(struct dt_db *db, const struct dt_inflight *claims, struct dt_arena *arena,
                                         struct dt_outgoing **out, struct dt_error *err);

#endif
