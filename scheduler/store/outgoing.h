/* Reading what is to be sent, inside a transaction; for store/ only. */
#ifndef DT_STORE_OUTGOING_H
#define DT_STORE_OUTGOING_H

#include "store/db.h"
#include "store/store_dispatch.h"

/* *out[i] belongs to claims->v[i]. A job whose row is gone has neither topic nor payload. */
DT_MUST_CHECK dt_status dt_outgoing_read(dt_db *db, const struct dt_claims *claims, struct dt_arena *arena,
                                         struct dt_outgoing **out, struct dt_error *err);

#endif
