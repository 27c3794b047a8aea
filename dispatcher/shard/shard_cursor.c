/*
 * Owns where the two readers of MySQL stand: the cursor, which goes through what is overdue while the index is not
 * believed, and the reader ahead of it, for queues that are not long. Refuses to know what they read (shard_due.c) and
 * who goes first (shard_queues.c).
 *
 * Invariant: the cursor passes nothing that may be sent. The reader ahead remembers the queues of which it has skipped
 * a job until it begins again at the cursor.
 */
#include "shard_parts.h"

#define AHEAD_US      INT64_C(5000000) /* the reader ahead begins anew at the cursor this often */
#define WALK_US       INT64_C(200000)  /* between two pieces of a walk over what may not go */
#define AHEAD_BACK_MS 2000             /* otherwise so far back: commits come out of order, and clocks differ */

static void cursor_from_start(dt_shard_loop *l)
{
    l->cursor.ms = l->cursor.id = 0;
    l->cursor.swept_ms = l->cursor.walk_ms = l->cursor.walk_id = 0;
}

void dt_shard_due_from_start(dt_shard_loop *l)
{
    cursor_from_start(l);
    l->cursor.ahead_ms = l->cursor.ahead_id = l->cursor.ahead_us = 0;
}

void dt_shard_due_again(dt_shard_loop *l)
{
    if (l->cursor.ahead_ended)
        dt_shard_due_from_start(l);
    else
        cursor_from_start(l);
}

void dt_shard_read_through(dt_shard_loop *l)
{
    l->cursor.reads_through = true;
    dt_shard_due_from_start(l);
}

void dt_shard_cursor_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    l->cursor.ms = ms;
    l->cursor.id = id;
}

bool dt_shard_has_closed(const dt_shard_loop *l)
{
    return l->cursor.closed && l->cursor.swept_ms;
}

void dt_shard_begin_scan(dt_shard_loop *l)
{
    struct dt_shard_cursor *c = &l->cursor;
    bool from_start = !l->index && !c->ms;
    if (from_start && dt_shard_has_closed(l))
        c->ms = c->swept_ms - AHEAD_BACK_MS;
    else if (from_start)
        c->closed = false;
    c->began_ms = c->ms;
    c->began_id = c->id;
}

int64_t dt_shard_walk_end_ms(const dt_shard_loop *l)
{
    return l->cursor.swept_ms - AHEAD_BACK_MS;
}

void dt_shard_walk_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    struct dt_shard_cursor *c = &l->cursor;
    int64_t period_us = l->env->config->reconcile_period * 1000;
    c->walk_ms = ms;
    c->walk_id = id;
    c->walk_us = dt_shard_mono_us(l) + (ms ? WALK_US : dt_later(period_us, WALK_US));
}

void dt_shard_end_sweep(dt_shard_loop *l, int64_t now_ms)
{
    if (!l->cursor.swept_ms)
        dt_shard_walk_to(l, 0, 0);
    l->cursor.swept_ms = now_ms;
}

void dt_shard_note_left(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    struct dt_shard_cursor *c = &l->cursor;
    c->closed |= txn->seen.held > 0;
    if (txn->seen.locked || txn->chosen.more || txn->judged.frozen)
        c->swept_ms = 0; /* whatever is left for another reason than being closed is to be met again soon */
    if (!txn->chosen.more)
        return;
    if (c->began_ms < c->ms || (c->began_ms == c->ms && c->began_id < c->id))
        dt_shard_cursor_to(l, c->began_ms, c->began_id);
}

void dt_shard_cursor_end(dt_shard_loop *l)
{
    l->cursor.reads_through = false;
}

void dt_shard_place_ahead(dt_shard_loop *l, const struct dt_entry *last)
{
    struct dt_shard_cursor *c = &l->cursor;
    if (c->ahead_ms > last->due_ms || (c->ahead_ms == last->due_ms && c->ahead_id >= last->id))
        return;
    c->ahead_ms = last->due_ms;
    c->ahead_id = last->id;
    c->ahead_us = dt_shard_mono_us(l);
    c->ahead_ended = false;
    memset(c->skipped, 0, sizeof(c->skipped));
    c->salt++;
}

void dt_shard_ahead_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    l->cursor.ahead_ms = ms;
    l->cursor.ahead_id = id;
}

/* Jobs that are created or moved meanwhile may have appeared behind the reader ahead. */
void dt_shard_ahead_end(dt_shard_loop *l)
{
    bool all = dt_shard_mono_us(l) - l->cursor.ahead_us >= AHEAD_US;
    dt_shard_ahead_to(l, all ? 0 : l->cursor.ahead_ms - AHEAD_BACK_MS, 0);
    l->cursor.ahead_ended = true;
}

static size_t bit_of(const struct dt_shard_cursor *c, size_t hash)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: Fibonacci hashing, Knuth 6.4 */
    return (size_t)((((uint64_t)hash ^ c->salt * odd) * odd) >> (64 - DT_SKIPPED_BITS));
}

bool dt_shard_was_skipped(const dt_shard_loop *l, size_t hash)
{
    const size_t bit = bit_of(&l->cursor, hash);
    return l->cursor.skipped[bit / 64] >> bit % 64 & 1;
}

void dt_shard_skip(dt_shard_loop *l, size_t hash)
{
    const size_t bit = bit_of(&l->cursor, hash);
    l->cursor.skipped[bit / 64] |= UINT64_C(1) << bit % 64;
}
