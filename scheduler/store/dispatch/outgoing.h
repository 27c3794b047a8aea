/* Reading what is to be sent, inside a transaction; for store/ only. */
#ifndef DT_STORE_OUTGOING_H
#define DT_STORE_OUTGOING_H

#include "store/db/db.h"
#include "store/dispatch/store_dispatch.h"

/* What a message needs of its job's row `j`, in columns of their own, when it is small and may be claimed: else the
 * payload is NULL. */
#define DT_OUTGOING_SMALL                                                                                              \
    "j.state = 'scheduled' AND LENGTH(j.payload) <= 2048 AND COALESCE(LENGTH(j.headers), 0) <= 1024"
#define DT_OUTGOING_SQL                                                                                                \
    "j.job_key, j.partition_key, j.content_type, IF(" DT_OUTGOING_SMALL ", j.headers, NULL), IF(" DT_OUTGOING_SMALL    \
    ", j.payload, NULL)"
/* Copies the columns of DT_OUTGOING_SQL of the current row, from `first` on. *out stays NULL when the message is not
 * small. */
DT_MUST_CHECK dt_status dt_outgoing_small(dt_db *db, unsigned first, struct dt_arena *arena, struct dt_outgoing **out);

/* *out[i] belongs to claims->v[i]. A job whose row is gone has neither topic nor payload. */
DT_MUST_CHECK dt_status dt_outgoing_read(dt_db *db, const struct dt_inflight *claims, struct dt_arena *arena,
                                         struct dt_outgoing **out, struct dt_error *err);

#endif
