/* Owns the due scan: reads jobs that may be due from the shard's set in the index, or from MySQL if the set is not
 * trusted (shard_trust.c). If more jobs are due than fit into a batch, shard_queues.c decides which jobs are first. */
#include "base/assert.h"
#include "shard_parts.h"

#define DEGRADED_SCAN 10000 /* rows of MySQL that one due scan reads at most */
/* A walk reads only 1/PIECES of DEGRADED_SCAN rows at a time, because other jobs wait meanwhile. */
#define PIECES 8

void dt_shard_due_init(dt_shard_loop *l)
{
    dt_shard_trust_init(l);
    dt_limit_memory_clear(&l->limits);
    dt_shard_queues_init(l);
    l->due.unread_ms = l->due.read_ms = 0;
    dt_id_set_empty(&l->unknown.ids);
    dt_shard_due_from_start(l);
}

static size_t max_batch_jobs(const dt_shard_loop *l)
{
    return (size_t)l->env->config->dispatch_batch_jobs;
}

/* ---- the index ---- */

static dt_status query_due_index(dt_shard_loop *l, struct dt_due_scan *scan, struct dt_error *err)
{
    scan->marker = dt_shard_marker(l);
    return dt_index_due(l->index, l->shard, scan, err);
}

/* Reads up to *n entries from Redis into l->due.entries. The marker in the shard's set shows whether the set is still
 * the one that this leadership marked. If the answer to the last write of a marker was lost, the set may have the old
 * or the new marker. */
static dt_status scan_due_index(dt_shard_loop *l, int64_t now_ms, size_t *n, int64_t *next_ms)
{
    struct dt_due_scan scan = {
        .now_ms = now_ms, .limit = DT_SCAN_BATCHES * max_batch_jobs(l), .entries = l->due.entries};
    struct dt_error err = {0};
    if (dt_shard_believes_index(l))
        dt_shard_give_back(l);
    dt_status status = query_due_index(l, &scan, &err);
    if (status == DT_OK && !scan.marked && dt_shard_assume_marked(l))
        status = query_due_index(l, &scan, &err);
    dt_assert_cmp(scan.n, <=, scan.limit);
    *n = scan.n;
    *next_ms = scan.next_ms;
    DT_THEN(status, dt_shard_keep_marked(l, scan.marked, &err));
    dt_shard_note_index(l, status, &err);
    return status;
}

/* Adds due jobs to the hints: if more than two batches are due, or parked jobs may be sent, each queue's share;
 * otherwise all jobs, in order of time. While attempts wait for unread reports, shares are used from one batch on,
 * because these attempts may fill the head of the set. If the due scan reached its limit, some entries must be parked,
 * because more jobs may be due after the last entry. */
static dt_status add_due_hints(dt_shard_loop *l, size_t n, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t batch = max_batch_jobs(l);
    dt_status status = DT_OK;
    bool limit = n == DT_SCAN_BATCHES * batch;
    n = limit ? n : dt_shard_pass_by_unknown(l, n);
    bool backlog = n > batch, waits = dt_shard_parked_may_go(l);
    if (waits || n > 2 * batch || (backlog && l->due.unread_ms))
        status = n ? dt_shard_hint_fairly(l, n, &backlog, err) : DT_OK;
    else {
        dt_shard_forget_topics_unless_held(l);
        dt_shard_hint_first(l, n < batch ? n : batch);
    }
    l->due.backlog = backlog || limit || dt_shard_parked_may_go(l);
    if (l->due.backlog)
        *next_ms = now_ms;
    return status;
}

/* ---- MySQL instead ---- */

/* Returns parameters to scan the shard's due rows after (after_ms, after_id). */
static struct dt_shard_scan make_row_scan(const dt_shard_loop *l, int64_t now_ms, int64_t after_ms, int64_t after_id)
{
    return (struct dt_shard_scan){.map = &l->trust.map,
                                  .shard = l->shard,
                                  .now_ms = now_ms,
                                  .scan = DEGRADED_SCAN,
                                  .out = l->due.rows,
                                  .limit = max_batch_jobs(l),
                                  .after_ms = after_ms,
                                  .after_id = after_id};
}

static dt_status read_due_rows(dt_shard_loop *l, struct dt_shard_scan *part, size_t at, struct dt_error *err)
{
    dt_status status = dt_store_scan_shard(l->store, part, err);
    if (status != DT_OK)
        return status;
    dt_assert_cmp(part->n, <=, max_batch_jobs(l) * DT_SCAN_BATCHES - at);
    for (size_t i = 0; i < part->n; i++)
        l->due.entries[at + i] = (struct dt_entry){.id = l->due.rows[i].id, .due_ms = l->due.rows[i].next_ms};
    return DT_OK;
}

/* Reads rows ahead of the cursor, so that topics with few jobs do not wait. Called if more than a batch is due. */
static dt_status scan_rows_ahead(dt_shard_loop *l, int64_t now_ms, size_t n_head, struct dt_error *err)
{
    dt_shard_place_ahead(l, &l->due.entries[n_head - 1]);
    struct dt_shard_scan part = make_row_scan(l, now_ms, l->cursor.ahead_ms, l->cursor.ahead_id);
    part.scan = DT_SCAN_BATCHES * DEGRADED_SCAN;
    part.limit = DT_SCAN_BATCHES * max_batch_jobs(l) - n_head;
    dt_status status = read_due_rows(l, &part, n_head, err);
    DT_THEN(status, dt_shard_hint_rows(l, n_head, n_head + part.n, err));
    if (status != DT_OK)
        return status;
    dt_shard_ahead_to(l, part.after_ms, part.after_id);
    if (part.end)
        dt_shard_ahead_end(l);
    return DT_OK;
}

/* Reads a piece of the jobs that an earlier scan left because they may not be sent. If some of them may be sent now,
 * the next scan begins at the job that is overdue for longest. */
static dt_status rescan_skipped_jobs(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_shard_scan part = make_row_scan(l, dt_shard_walk_end_ms(l), l->cursor.walk_ms, l->cursor.walk_id);
    part.limit = (max_batch_jobs(l) + PIECES - 1) / PIECES;
    part.scan = DEGRADED_SCAN / PIECES;
    dt_status status = read_due_rows(l, &part, 0, err);
    if (status == DT_OK && part.n)
        status = dt_shard_sort_queues(l, part.n, true, err);
    if (status != DT_OK)
        return status;
    if (part.n && dt_shard_some_may_go(l))
        dt_shard_due_from_start(l);
    else
        dt_shard_walk_to(l, part.end ? 0 : part.after_ms, part.end ? 0 : part.after_id);
    return DT_OK;
}

/* Reads a bounded part of the due rows. With each scan, the cursor advances over overdue jobs; when it has passed all
 * of them, it starts again. */
static dt_status scan_due_rows(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    bool walks = !l->index && dt_shard_has_closed(l) && dt_shard_mono_us(l) >= l->cursor.walk_us;
    dt_status walked = walks ? rescan_skipped_jobs(l, err) : DT_OK;
    if (walked != DT_OK)
        return walked;
    dt_shard_begin_scan(l);
    struct dt_shard_scan part = make_row_scan(l, now_ms, l->cursor.ms, l->cursor.id);
    l->fair.n_hints = 0;
    dt_status status = read_due_rows(l, &part, 0, err);
    if (status != DT_OK)
        return status;
    *next_ms = now_ms;
    if (part.n == max_batch_jobs(l))
        return scan_rows_ahead(l, now_ms, part.n, err);
    /* At most a batch is due, so all due jobs may be sent. But a topic or host may have less room than due jobs; then
     * only as many of its jobs as there is room for are added. */
    if (part.n && (l->limits.n || l->full_us)) {
        const struct dt_entry *last = &l->due.entries[part.n - 1];
        status = dt_shard_hint_rows(l, part.n, part.n, err);
        l->due.backlog =
            /* The scan stopped before the last job, so jobs that may be sent were left. */
            l->cursor.ms != last->due_ms || l->cursor.id != last->id;
        if (status != DT_OK || l->due.backlog)
            return status;
    } else {
        dt_topic_memory_clear(&l->fair.memory);
        dt_shard_hint_first(l, part.n);
    }
    dt_shard_cursor_to(l, part.end ? 0 : part.after_ms, part.end ? 0 : part.after_id);
    if (!part.end)
        return DT_OK;
    l->cursor.reads_through = false; /* the index may be read again */
    dt_shard_end_sweep(l, now_ms);
    const struct dt_shard_scan later = make_row_scan(l, now_ms, 0, 0);
    return dt_store_next_due(l->store, &later, next_ms, err);
}

dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    l->fair.n_hints = 0;
    l->fair.rows = 0;
    l->due.backlog = false;
    *next_ms = 0;
    if (!l->index)
        return scan_due_rows(l, now_ms, next_ms, err);
    dt_status status = scan_due_index(l, now_ms, &n, next_ms);
    dt_shard_take_doubts(l);
    if (status == DT_OK && dt_shard_believes_index(l))
        return add_due_hints(l, n, now_ms, next_ms, err);
    return scan_due_rows(l, now_ms, next_ms, err);
}
