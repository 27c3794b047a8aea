/*
 * The audit of counters: recounts `jobs`, piece by piece, and corrects what manual edits have changed.
 *
 * A transaction that reads stays open between the steps of a piece: they get the same store, which nothing else uses
 * meanwhile.
 */
#ifndef DT_TOPIC_COUNTS_AUDIT_H
#define DT_TOPIC_COUNTS_AUDIT_H

#include "store/store.h"

typedef struct dt_audit dt_audit;
struct dt_audited {
    unsigned piece;
    bool done;         /* the piece was recounted; the next step begins the next one */
    int64_t rows;      /* that it has */
    int64_t corrected; /* of them, or of what was counted and is not there: how many the counters had wrong */
};

DT_MUST_CHECK dt_status dt_audit_new(dt_audit **out);
/* Accepts NULL. No piece is open. */
void dt_audit_free(dt_audit *audit);
/* Counts at most about `limit` rows. A failure forgets the piece: the next step begins it anew. BUSY: another process
 * recounted it at the same time. */
DT_MUST_CHECK dt_status dt_audit_step(dt_audit *audit, dt_store *store, size_t limit, struct dt_audited *out,
                                      struct dt_error *err);
/* Ends the open transaction, if there is one: the piece begins again with the next step. */
void dt_audit_end(dt_audit *audit);

#endif
