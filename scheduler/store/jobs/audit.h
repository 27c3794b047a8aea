/*
 * The audit of counters: recounts `jobs`, piece by piece, and corrects what manual edits have changed.
 *
 * One thread's. It has a connection of its own, on which a transaction that reads stays open between the steps of a
 * piece.
 */
#ifndef DT_STORE_AUDIT_H
#define DT_STORE_AUDIT_H

#include "base/config.h"
#include "base/status.h"

typedef struct dt_audit dt_audit;
struct dt_audited {
    unsigned piece;
    bool done;         /* the piece was recounted; the next step begins the next one */
    int64_t rows;      /* that it has */
    int64_t corrected; /* of them, or of what was counted and is not there: how many the counters had wrong */
};

/* Does not connect yet. The configuration must outlive it. */
DT_MUST_CHECK dt_status dt_audit_new(const struct dt_config *config, dt_audit **out);
void dt_audit_free(dt_audit *audit);
/* Counts at most about `limit` rows. A failure forgets the piece: the next step begins it anew. BUSY: another process
 * recounted it at the same time. */
DT_MUST_CHECK dt_status dt_audit_step(dt_audit *audit, size_t limit, struct dt_audited *out, struct dt_error *err);
/* Ends the open transaction: nobody goes on with the piece for now, and it begins anew. */
void dt_audit_pause(dt_audit *audit);

#endif
