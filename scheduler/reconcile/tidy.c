/*
 * Owns:            what is left of the reconciler where the installation has no index: rows that a manual edit finished
 *                  and that stand in the due index still, where leaders would meet them again and again.
 * Refuses to know: the index. Where there is one, compare.c meets those rows.
 *
 * What is overdue is counted once a period, up to a slice of it, and tidied as it is there. Where there is more, a step
 * looks at a slice behind the last step's, and begins anew when it is through.
 */
#include "reconcile/parts.h"

#define OVERDUE_MS 1000 /* what is due for less is on its way */

static void move_cursor(dt_reconciler *r, size_t n)
{
    bool full = n == r->slice;

    r->tidy_ms = full ? r->page[n - 1].next_ms : 0;
    r->tidy_id = full ? r->page[n - 1].id : 0;
}

/* The finished ones among r->page[0..n), in r->ids; 0 when nothing can be said. */
static dt_status find_finished(dt_reconciler *r, size_t n, size_t *n_finished, struct dt_error *err)
{
    struct dt_truths truth = {0};
    dt_status status;

    *n_finished = 0;
    for (size_t i = 0; i < n; i++)
        r->ids[i] = r->page[i].id;
    status = dt_store_truth(r->store, r->ids, n, &r->arena, &truth, err);
    for (size_t i = 0; status == DT_OK && i < truth.n; i++) {
        if (truth.v[i].next_ms == 0 && dt_shard_set_has(&r->leads, dt_shard_of(r->map, truth.v[i].id)))
            r->ids[(*n_finished)++] = truth.v[i].id;
    }
    dt_arena_reset(&r->arena);
    return status;
}

/* Tidies r->page[0..n). */
static dt_status tidy_page(dt_reconciler *r, size_t n, struct dt_error *err)
{
    size_t n_finished = 0;
    size_t done = 0;
    dt_status status = find_finished(r, n, &n_finished, err);

    if (status == DT_OK)
        status = dt_store_tidy(r->store, r->ids, n_finished, &done, err);
    dt_metric_add(r->tidied, (int64_t)done);
    return status == DT_BUSY ? DT_OK : status; /* somebody holds one locked: it is met again */
}

dt_status dt_tidy_counted(dt_reconciler *r, size_t n, struct dt_error *err)
{
    r->tidy_owed = n == r->slice;
    return n ? tidy_page(r, n, err) : DT_OK;
}

dt_status dt_tidy_step(dt_reconciler *r, struct dt_error *err)
{
    const struct dt_due_window window = {
        .to_ms = r->now_ms - OVERDUE_MS, .after_ms = r->tidy_ms, .after_id = r->tidy_id, .limit = r->slice};
    size_t n = 0;
    dt_status status = dt_store_scan_due(r->store, &window, r->page, &n, err);

    if (status == DT_OK)
        move_cursor(r, n);
    return status == DT_OK && n ? tidy_page(r, n, err) : status;
}
