/*
 * Owns the due scan: the shard's set in the index is asked what may be due, or MySQL where the set is not believed
 * (shard_trust.c). Refuses to decide who goes first when that is too much (shard_queues.c).
 */
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "base/log.h"
#include "base/outage.h"
#include "job/shard_set.h"
#include "shard_parts.h"

#define MARK_US       INT64_C(5000000) /* the index is asked to take a change at least this often */
#define DEGRADED_SCAN 10000
#define AHEAD_US      INT64_C(5000000) /* MySQL's reader ahead begins anew at the cursor this often */
#define AHEAD_BACK_MS 2000             /* otherwise so far back: commits come out of order, and clocks differ */

void dt_shard_due_init(dt_shard_loop *l)
{
    l->marked = l->vouched = l->mark_unsure = false;
    l->lost = !l->index_whole; /* a rebuild does not outlive the leadership that asked for it */
    l->mark_count = 0;
    l->held_us = l->marked_us = 0;
    l->fair.n = l->fair.others = 0;
    dt_topic_memory_clear(&l->fair.memory);
    dt_shard_due_from_start(l);
}

/* ---- hints ---- */

static void hint_due(dt_shard_loop *l, int64_t id, int64_t due_ms)
{
    dt_topic_memory_forget(&l->fair.memory, id);
    l->hints[l->n_hints++] = (struct dt_hint){id, due_ms};
}

static size_t batch_jobs(const dt_shard_loop *l)
{
    return (size_t)l->env->config->dispatch_batch_jobs;
}

static dt_status ask_index(dt_shard_loop *l, struct dt_due_scan *scan, struct dt_error *err)
{
    scan->marker = dt_shard_marker(l);
    return dt_index_due(l->index, l->shard, scan, err);
}

/* From Redis: *n of l->entries. The marker tells whether the set is the one that was filled. A marking whose answer was
 * lost may have come about. */
static dt_status scan_index(dt_shard_loop *l, int64_t now_ms, size_t *n, int64_t *next_ms)
{
    struct dt_due_scan scan = {.now_ms = now_ms, .limit = DT_SCAN_BATCHES * batch_jobs(l), .entries = l->entries};
    struct dt_error err = {0};
    if (dt_shard_believes_index(l))
        dt_shard_give_back(l);
    dt_status status = ask_index(l, &scan, &err);
    if (status == DT_OK && !scan.marked && l->mark_unsure) {
        l->mark_count++;
        l->vouched = l->mark_vouches;
        status = ask_index(l, &scan, &err);
    }
    *n = scan.n;
    *next_ms = scan.next_ms;
    if (status == DT_OK && (!scan.marked || !l->marked || dt_shard_mono_us(l) - l->marked_us >= MARK_US))
        status = dt_shard_mark(l, scan.marked, &err);
    if (status == DT_OK && l->index_whole && !l->vouched)
        status = dt_shard_vouch(l, &err);
    if (status != DT_OK)
        dt_outage_failed(&l->index_outage, DT_OUTAGE_REDIS, "shard", "no index: reading from MySQL", status, &err);
    else
        dt_outage_over(&l->index_outage);
    bool back = !l->index_up && status == DT_OK;
    l->index_up = status == DT_OK;
    if (back)
        dt_shard_doubt_index(l);
    return status;
}

/* Hints at what is due in order of time, or, when it is too much for that, each queue its part. */
static dt_status hint_entries(dt_shard_loop *l, size_t n, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t batch = batch_jobs(l);
    dt_status status = DT_OK;
    bool remainder = n > batch, waits = dt_shard_parked_may_go(l);
    if (waits || n > 2 * batch)
        status = n ? dt_shard_hint_fairly(l, n, &remainder, err) : DT_OK;
    else {
        dt_topic_memory_clear(&l->fair.memory);
        for (size_t i = 0; i < n && i < batch; i++)
            hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    }
    l->backlog = remainder || n == DT_SCAN_BATCHES * batch || dt_shard_parked_may_go(l);
    if (l->backlog)
        *next_ms = now_ms;
    return status;
}

/* ---- MySQL instead ---- */

/* Due rows of the shard after (*ms, *id), to l->entries[at...); the place that the scan reached. */
static dt_status read_rows(dt_shard_loop *l, int64_t now_ms, size_t at, size_t limit, size_t rows, size_t *n, bool *end,
                           int64_t *ms, int64_t *id, struct dt_error *err)
{
    struct dt_shard_scan scan = {.map = &l->map,
                                 .shard = l->shard,
                                 .now_ms = now_ms,
                                 .scan = rows,
                                 .out = l->due,
                                 .limit = limit,
                                 .after_ms = *ms,
                                 .after_id = *id};
    dt_status status = dt_store_scan_shard(l->store, &scan, err);
    *n = scan.n;
    *end = scan.end;
    *ms = scan.after_ms;
    *id = scan.after_id;
    for (size_t i = 0; status == DT_OK && i < *n; i++)
        l->entries[at + i] = (struct dt_entry){.id = l->due[i].id, .due_ms = l->due[i].next_ms};
    return status;
}

/* The reader ahead is through: what is created or moved meanwhile may have appeared behind it. */
static void ahead_again(dt_shard_loop *l)
{
    bool all = dt_shard_mono_us(l) - l->ahead_us >= AHEAD_US;
    l->ahead_ms = all ? 0 : l->ahead_ms - AHEAD_BACK_MS;
    l->ahead_id = 0;
}

/* Not before the cursor; if it has come that far, from there with a clean slate. */
static void place_ahead(dt_shard_loop *l, const struct dt_entry *last)
{
    if (l->ahead_ms > last->due_ms || (l->ahead_ms == last->due_ms && l->ahead_id >= last->id))
        return;
    l->ahead_ms = last->due_ms;
    l->ahead_id = last->id;
    l->ahead_us = dt_shard_mono_us(l);
    l->n_skipped = 0;
}

/* A queue of which something was passed by gets a part for what stands at the cursor alone: a part for what must not be
 * taken would be nobody's. */
static void see_skipped(dt_shard_loop *l, size_t n_head)
{
    struct dt_fair_queues *fair = &l->fair;
    for (size_t i = 0; i < fair->n_queues; i++) {
        struct dt_due_queue *queue = &fair->queues[i];
        for (size_t k = 0; k < l->n_skipped; k++)
            queue->skipped |= l->skipped[k] == queue->hash;
        queue->waiting = queue->skipped ? 0 : queue->waiting;
    }
    for (size_t i = 0; i < n_head; i++)
        fair->queues[fair->of[i]].waiting += fair->queues[fair->of[i]].skipped;
}

/* What the reader ahead leaves behind is the cursor's. False: it cannot remember any more. */
static bool skip(dt_shard_loop *l, struct dt_due_queue *queue)
{
    if (!queue->skipped && l->n_skipped < DT_SKIPPED) {
        l->skipped[l->n_skipped++] = queue->hash;
        queue->skipped = true;
    }
    return queue->skipped;
}

static bool take_row(dt_shard_loop *l, size_t i, bool may)
{
    struct dt_fair_queue *part = &l->fair.parts[l->fair.of[i]];
    if (!may || part->quota == 0)
        return false;
    part->quota--;
    hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    return true;
}

/*
 * Of l->entries the first n_head stand at the cursor, which moves as far as nothing is left behind that may go; the
 * others are further on. Each queue gets its part; of what is further on only queues of which nothing was left at the
 * cursor, nor passed by further on, so that order is kept within a queue. True: the reader ahead may move on.
 */
static bool hint_rows(dt_shard_loop *l, size_t n_head, size_t n)
{
    bool passed = true;
    for (size_t i = 0; i < n_head; i++) {
        struct dt_due_queue *queue = &l->fair.queues[l->fair.of[i]];
        bool stays = !take_row(l, i, true) && !queue->closed;
        queue->left |= stays;
        passed &= !stays;
        if (passed) {
            l->scan_ms = l->entries[i].due_ms;
            l->scan_id = l->entries[i].id;
        }
    }
    for (size_t i = n_head; i < n; i++) {
        struct dt_due_queue *queue = &l->fair.queues[l->fair.of[i]];
        if (!take_row(l, i, !queue->left && !queue->skipped) && !skip(l, queue))
            return false;
        l->ahead_ms = l->entries[i].due_ms;
        l->ahead_id = l->entries[i].id;
    }
    return true;
}

/* More than a batch is due: a second reader goes on ahead of the cursor for those who are not many. */
static dt_status scan_ahead(dt_shard_loop *l, int64_t now_ms, size_t n_head, struct dt_error *err)
{
    size_t n = 0;
    size_t room = DT_SCAN_BATCHES * batch_jobs(l) - n_head;
    bool end = true;
    place_ahead(l, &l->entries[n_head - 1]);
    int64_t ms = l->ahead_ms;
    int64_t id = l->ahead_id;
    dt_status status = read_rows(l, now_ms, n_head, room, DT_SCAN_BATCHES * DEGRADED_SCAN, &n, &end, &ms, &id, err);
    if (status == DT_OK)
        status = dt_shard_sort_queues(l, n_head + n, err);
    if (status != DT_OK)
        return status;
    see_skipped(l, n_head);
    dt_shard_share(l, false);
    if (!hint_rows(l, n_head, n_head + n))
        return DT_OK;
    l->ahead_ms = ms;
    l->ahead_id = id;
    if (end)
        ahead_again(l);
    return DT_OK;
}

/* Reads a bounded part: a cursor goes through what is overdue, then starts over. */
static dt_status scan_store(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    bool end = true;
    int64_t ms = l->scan_ms;
    int64_t id = l->scan_id;
    l->n_hints = 0;
    dt_status status = read_rows(l, now_ms, 0, batch_jobs(l), DEGRADED_SCAN, &n, &end, &ms, &id, err);
    if (status != DT_OK)
        return status;
    *next_ms = now_ms;
    if (n == batch_jobs(l))
        return scan_ahead(l, now_ms, n, err);
    for (size_t i = 0; i < n; i++)
        hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    l->scan_ms = end ? 0 : ms;
    l->scan_id = end ? 0 : id;
    if (!end)
        return DT_OK;
    l->index_stuck = false;
    const struct dt_shard_scan later = {.map = &l->map, .shard = l->shard, .now_ms = now_ms, .scan = DEGRADED_SCAN};
    return dt_store_next_due(l->store, &later, next_ms, err);
}

dt_status dt_shard_due_scan(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    l->n_hints = 0;
    l->backlog = false;
    *next_ms = 0;
    dt_status status = scan_index(l, now_ms, &n, next_ms);
    dt_shard_take_doubts(l);
    if (status == DT_OK && dt_shard_believes_index(l))
        return hint_entries(l, n, now_ms, next_ms, err);
    return scan_store(l, now_ms, next_ms, err);
}
