/*
 * Ledger records: what a committed transaction carried (batch), and where a takeover's reading ends (barrier). And the
 * judgement of what a takeover finds between ledger_offset and its own barrier. Pure.
 *
 *   key "batch":   {"installation":"<uuid>","shard":3,"epoch":17,"token":…,"batch":42,"list":[[id,attempt,due],…]}
 *   key "barrier": {"installation":"<uuid>","shard":3,"epoch":18,"token":…}
 *
 * Whatever else records may hold one day, each is a JSON object with a string `installation`: by that a version that
 * does not know them tells them from those of strangers.
 */
#ifndef DT_DISPATCHER_LEDGER_RECORD_H
#define DT_DISPATCHER_LEDGER_RECORD_H

#include "base/text/json.h"
#include "dispatch/fence.h"
#include "job/inflight.h"

#define DT_LEDGER_BATCH   DT_STR_LIT("batch")
#define DT_LEDGER_BARRIER DT_STR_LIT("barrier")

void dt_ledger_format_batch(struct dt_strbuf *out, const char *uuid, const struct dt_fence *fence,
                            const struct dt_claim *list, size_t n);
void dt_ledger_format_barrier(struct dt_strbuf *out, const char *uuid, const struct dt_fence *fence);

/* Fed with the records in order; see dt_ledger_view_record. */
struct dt_ledger_view {
    const char *uuid;
    const struct dt_fence *fence; /* of this takeover */
    const struct dt_inflight
        *inflight;         /* of the shard's row; the leader before was about to send the first fence->send_n */
    int64_t settled_below; /* records before this offset were judged earlier */
    dt_json *json;
    struct dt_inflight scratch;
    size_t batches;      /* 0 or 1: the batch in flight was committed; more is a problem */
    bool barrier;        /* our own barrier was read; its token identifies it */
    int64_t next_offset; /* after the barrier */
    bool anchored;       /* the record just below settled_below was read, and is one of ours */
    size_t strangers;    /* records that are no ledger's, not below settled_below: passed by */
    int64_t stranger_at; /* offset of the first */
    char problem[300];   /* not empty: what cannot be explained; the shard must halt */
    dt_status status;    /* not OK: a record could not be read, for reasons that are not its own: nothing is known */
};

DT_MUST_CHECK dt_status dt_ledger_view_init(struct dt_ledger_view *view, const char *uuid, const struct dt_fence *fence,
                                            const struct dt_inflight *inflight);
void dt_ledger_view_clear(struct dt_ledger_view *view);
/* Begins again, to read the ledger from another offset. */
void dt_ledger_view_again(struct dt_ledger_view *view);
/* A dt_ledger_fn: false once our barrier came by or something cannot be explained, or read. arg: the view. */
bool dt_ledger_view_record(void *arg, int64_t offset, struct dt_str key, struct dt_str value);

#endif
