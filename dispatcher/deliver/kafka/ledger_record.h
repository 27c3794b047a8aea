/*
 * Ledger records of two kinds: a batch lists the attempts of a committed transaction, and a barrier marks where a
 * takeover ends reading. Also interprets the records that a takeover finds between ledger_offset and its own barrier.
 * Pure.
 *
 *   key "batch":   {"installation":"<uuid>","shard":3,"epoch":17,"token":…,"batch":42,"list":[[id,attempt,due],…]}
 *   key "barrier": {"installation":"<uuid>","shard":3,"epoch":18,"token":…}
 *
 * Records of later versions will also be JSON objects with a string `installation`, so that this version can tell them
 * from records of strangers.
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

/* What a takeover has learned from the ledger so far. dt_ledger_view_record adds the records in order of offset. */
struct dt_ledger_view {
    const char *uuid;
    const struct dt_fence *fence; /* the fence of this takeover */
    const struct dt_inflight
        *inflight; /* in-flight list of the row; the last leader was about to send its first fence->send_n entries */
    int64_t settled_below; /* records below this offset were checked by an earlier takeover */
    dt_json *json;
    struct dt_inflight scratch;
    /* Number of records of the batch in flight; 1: the batch was committed; more: a contradiction. */
    size_t batches;
    bool barrier;        /* our own barrier was read; its token identifies it */
    int64_t next_offset; /* offset after our barrier */
    bool anchored;       /* the record right before settled_below was read, and is ours */
    size_t strangers;    /* number of skipped records of strangers, from settled_below on */
    int64_t stranger_at; /* offset of the first skipped record of a stranger */
    char problem[300];   /* if not empty, a contradiction, for which the shard must halt */
    dt_status status;    /* if not OK, a record could not be read (memory ran out), so nothing is known */
};

dt_status dt_ledger_view_init(struct dt_ledger_view *view, const char *uuid, const struct dt_fence *fence,
                              const struct dt_inflight *inflight);
void dt_ledger_view_clear(struct dt_ledger_view *view);
/* Makes the view empty, to read the ledger again from another offset. */
void dt_ledger_view_again(struct dt_ledger_view *view);
/* Adds a record to the view `arg`; a dt_ledger_fn. Returns false after our barrier, a contradiction or a failure, so
 * that reading stops. */
bool dt_ledger_view_record(void *arg, int64_t offset, struct dt_str key, struct dt_str value);
