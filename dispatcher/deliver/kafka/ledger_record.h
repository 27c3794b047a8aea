/*
 * Ledger records: the contents of a committed transaction (batch), and the end of a takeover's reading (barrier). Also
 * interprets the records that a takeover finds between ledger_offset and its own barrier. Pure.
 *
 *   key "batch":   {"installation":"<uuid>","shard":3,"epoch":17,"token":…,"batch":42,"list":[[id,attempt,due],…]}
 *   key "barrier": {"installation":"<uuid>","shard":3,"epoch":18,"token":…}
 *
 * Future records will also be JSON objects with a string `installation`, so that older versions can tell them from
 * those of strangers.
 */
#pragma once

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
    const struct dt_fence *fence; /* the fence of this takeover */
    const struct dt_inflight
        *inflight;         /* of the shard's row; the last leader was about to send the first fence->send_n */
    int64_t settled_below; /* records before this offset were checked earlier */
    dt_json *json;
    struct dt_inflight scratch;
    size_t batches;      /* 0 or 1: the batch in flight was committed; more is a contradiction */
    bool barrier;        /* our own barrier was read; its token identifies it */
    int64_t next_offset; /* offset after the barrier */
    bool anchored;       /* the record just below settled_below was read, and is ours */
    size_t strangers;    /* number of strangers' records that were skipped, from settled_below on */
    int64_t stranger_at; /* offset of the first */
    char problem[300];   /* not empty: a contradiction; the shard must halt */
    dt_status status;    /* not OK: a record could not be read, for reasons outside of it, so nothing is known */
};

DT_MUST_CHECK dt_status dt_ledger_view_init(struct dt_ledger_view *view, const char *uuid, const struct dt_fence *fence,
                                            const struct dt_inflight *inflight);
void dt_ledger_view_clear(struct dt_ledger_view *view);
/* Starts again, to read the ledger from another offset. */
void dt_ledger_view_again(struct dt_ledger_view *view);
/* A dt_ledger_fn: false after our barrier, a contradiction or a failure. arg: the view. */
bool dt_ledger_view_record(void *arg, int64_t offset, struct dt_str key, struct dt_str value);
