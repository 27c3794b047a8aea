/*
 * What may be due, and what the index is told.
 *
 * Invariants: whatever the index says is a hint, the claim decides; the index is told last, and a word that is lost
 * costs a second at most. The set is believed only while it carries this leadership's marker with the present count:
 * the count rises with every marking, so a set that was lost, replaced, or put back from an older copy is noticed at
 * the next look, and MySQL is read until it is rebuilt. So is a set that was filled for another map, in which the shard
 * had fewer slots: its marker has that map's generation.
 */
#include <stdlib.h>

#include "base/guard.h"
#include "base/log.h"
#include "shard_parts.h"

#define HELD_US       INT64_C(5000000) /* held sets are looked at this often without being told */
#define MARK_US       INT64_C(5000000) /* the index is asked to take a change at least this often */
#define DEGRADED_SCAN 10000
#define UNHOLD_STEP   10000

struct dt_marker dt_shard_marker(const dt_shard_loop *l)
{
    return (struct dt_marker){l->lease.epoch, l->lease.token, l->mark_count, l->filled_for, l->lease.index_epoch};
}

/* A map that only takes slots away leaves the set whole: what is too much in it is handed on when it is due, or removed
 * by the reconciler. From one map to the next only; in between the shard may have had fewer. */
void dt_shard_read_map(dt_shard_loop *l)
{
    struct dt_shard_map next;
    l->env->map(l->env->arg, &next);
    if (next.generation == l->map.generation && next.shards == l->map.shards)
        return;
    if (l->map.shards == 0 || next.generation != l->map.generation + 1 || dt_shard_map_gains(&l->map, &next, l->shard))
        l->filled_for = next.generation;
    l->map = next;
}

void dt_shard_look_init(dt_shard_loop *l)
{
    l->marked = l->mark_unsure = false;
    l->mark_count = 0;
    l->held_us = l->marked_us = 0;
    l->scan_ms = l->scan_id = 0;
}

/* ---- hints ---- */

static void hint_due(dt_shard_loop *l, int64_t id, int64_t due_ms)
{
    l->hints[l->n_hints++] = (struct dt_hint){id, due_ms};
}

/*
 * Puts our marker into the set, and sees that the index takes changes: one that answers but cannot be told anything
 * (read-only, out of memory) lacks new jobs and keeps old entries, so it must not be believed.
 */
static dt_status mark(dt_shard_loop *l, bool there, struct dt_error *err)
{
    bool intact = true;
    struct dt_marker next = dt_shard_marker(l);
    next.count++;
    dt_status status = dt_index_mark(l->index, l->shard, next, &intact, err);
    l->mark_unsure = status != DT_OK;
    if (status != DT_OK)
        return status;
    l->mark_count = next.count;
    l->marked_us = dt_shard_mono_us(l);
    /* An earlier leader's marker is as good, once: later it means that an old copy of Redis came back. */
    if (!there && (!intact || l->marked)) {
        l->index_whole = false;
        DT_LOG(WARN, "shard", "the index was lost: reading from MySQL while it is rebuilt", DT_I("shard", l->shard));
        l->env->index_lost(l->env->arg, l->shard);
    }
    l->marked = true;
    return DT_OK;
}

static dt_status ask_index(dt_shard_loop *l, int64_t now_ms, size_t *n, int64_t *next_ms, bool *marked,
                           struct dt_error *err)
{
    return dt_index_due(l->index, l->shard, dt_shard_marker(l), now_ms, (size_t)l->env->config->dispatch_batch_jobs,
                        l->entries, n, next_ms, marked, err);
}

/* From Redis. The marker tells whether the set is the one that was filled. A marking whose answer was lost may have
 * come about. */
static dt_status look_in_index(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms)
{
    struct dt_error err = {0};
    size_t n = 0;
    bool marked = false;
    dt_status status = ask_index(l, now_ms, &n, next_ms, &marked, &err);
    if (status == DT_OK && !marked && l->mark_unsure) {
        l->mark_count++;
        status = ask_index(l, now_ms, &n, next_ms, &marked, &err);
    }
    if (status == DT_OK && (!marked || dt_shard_mono_us(l) - l->marked_us >= MARK_US))
        status = mark(l, marked, &err);
    if (l->index_up && status != DT_OK)
        DT_LOG(WARN, "shard", "no index: reading from MySQL", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->index_up = status == DT_OK;
    for (size_t i = 0; status == DT_OK && i < n; i++)
        hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    return status;
}

/* From MySQL, bounded: a cursor goes through what is overdue, then starts over. */
static dt_status look_in_store(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    bool end = true;
    l->n_hints = 0;
    dt_status status = dt_store_scan_shard(l->store, &l->map, l->shard, now_ms, l->scan_ms, l->scan_id, DEGRADED_SCAN,
                                           (size_t)l->env->config->dispatch_batch_jobs, l->due, &n, &end, &l->scan_ms,
                                           &l->scan_id, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        hint_due(l, l->due[i].id, l->due[i].next_ms);
    if (!end) {
        *next_ms = now_ms;
        return DT_OK;
    }
    l->scan_ms = l->scan_id = 0;
    l->index_stuck = false;
    return dt_store_next_due(l->store, &l->map, l->shard, now_ms, DEGRADED_SCAN, next_ms, err);
}

dt_status dt_shard_look(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    l->n_hints = 0;
    *next_ms = 0;
    dt_status status = look_in_index(l, now_ms, next_ms);
    if (status == DT_OK && l->index_whole && !l->index_stuck)
        return DT_OK;
    return look_in_store(l, now_ms, next_ms, err);
}

/* ---- telling the index ---- */

void dt_shard_pass_by_index(dt_shard_loop *l)
{
    l->index_stuck = true;
    l->scan_ms = l->scan_id = 0;
}

/* Moves the entries of one topic that cannot go now, seen[first] and those after it, to the topic's held set. */
static dt_status hold_topic(dt_shard_loop *l, struct dt_seen *seen, size_t n, struct dt_entry *entries,
                            struct dt_error *err)
{
    struct dt_str topic = seen[0].hold;
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (seen[i].hold.p && dt_str_eq(seen[i].hold, topic)) {
            entries[held++] = (struct dt_entry){seen[i].id, seen[i].hint_ms};
            seen[i].hold = DT_STR_NONE;
            seen[i].id = 0; /* dealt with */
        }
    return dt_index_hold(l->index, l->shard, topic, entries, held, err);
}

/* Entries of jobs whose slots have moved away (or that somebody with an old map put here): their shard gets them, its
 * leader is woken, and only then they leave this set. */
static dt_status hand_on(dt_shard_loop *l, const struct dt_seen *seen, size_t n, int64_t horizon_ms,
                         struct dt_entry *entries, struct dt_error *err)
{
    size_t n_moved = 0;
    for (size_t i = 0; i < n; i++)
        if (seen[i].elsewhere)
            entries[n_moved++] = (struct dt_entry){seen[i].id, seen[i].next_ms};
    return n_moved ? dt_index_put(l->index, &l->map, entries, n_moved, horizon_ms, true, err) : DT_OK;
}

/* Tells the index what became of the hints. What it cannot be told stays at its head and would be met again at every
 * look, before all others. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_turn *turn)
{
    if (!l->index_up || turn->n_seen == 0)
        return;
    int64_t horizon_ms = turn->now_ms + l->env->config->index_horizon;
    struct dt_fix *fixes = dt_arena_alloc(&l->arena, turn->n_seen * sizeof *fixes);
    struct dt_entry *held = dt_arena_alloc(&l->arena, turn->n_seen * sizeof *held);
    struct dt_error err = {0};
    dt_status status = fixes && held ? DT_OK : DT_NOMEM;
    size_t n = 0;
    if (status == DT_OK)
        status = hand_on(l, turn->seen, turn->n_seen, horizon_ms, held, &err);
    for (size_t i = 0; status == DT_OK && i < turn->n_seen; i++) {
        struct dt_seen *seen = &turn->seen[i];
        bool stays = !seen->elsewhere && seen->next_ms < horizon_ms;
        if (seen->hold.p)
            status = hold_topic(l, seen, turn->n_seen - i, held, &err);
        else if (seen->id)
            fixes[n++] = (struct dt_fix){seen->id, seen->hint_ms, stays ? seen->next_ms : 0};
    }
    if (status == DT_OK && n)
        status = dt_index_fix(l->index, l->shard, fixes, n, &err);
    if (status == DT_OK)
        return;
    DT_LOG(DEBUG, "shard", "the index was not told", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->marked_us = 0; /* does it take any change? */
    dt_shard_pass_by_index(l);
}

void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, int64_t next_ms)
{
    const struct dt_entry entry = {id, next_ms};
    struct dt_error err = {0};
    int64_t horizon_ms = dt_refclock_earliest_ms(l->env->ref) + l->env->config->index_horizon;
    if (dt_index_put(l->index, &l->map, &entry, 1, horizon_ms, false, &err) != DT_OK)
        DT_LOG(DEBUG, "shard", "the index was not told", DT_I("shard", l->shard), DT_S("reason", err.text));
}

void dt_shard_leave_index(dt_shard_loop *l)
{
    struct dt_error err = {0};
    if (l->shard < l->map.shards || dt_index_drop(l->index, l->shard, &err) == DT_OK)
        return;
    DT_LOG(INFO, "shard", "the set of a shard that is not needed any more stays", DT_I("shard", l->shard),
           DT_S("reason", err.text));
}

/* ---- topics that were held back ---- */

/* Of a topic that cannot be written, or that nobody knows, only the first entry comes back, so that the topic is asked
 * for again: all of them would only be held again, and keep everybody else waiting meanwhile. */
static size_t unhold_step(dt_shard_loop *l, struct dt_str topic)
{
    struct dt_str kafka_topic = dt_topic_book_kafka_topic(l->book, topic);
    return !kafka_topic.p || dt_topic_gate_ask(l->gate, kafka_topic, 0) == DT_WRITABLE_NO ? 1 : UNHOLD_STEP;
}

static void give_back_held(dt_shard_loop *l)
{
    struct dt_arena arena;
    struct dt_str *topics;
    size_t n = 0;
    struct dt_error err = {0};
    dt_arena_init(&arena);
    dt_status status = dt_index_held(l->index, l->shard, &arena, &topics, &n, &err);
    if (status == DT_OK && n)
        status = dt_store_read_topics(l->store, l->book, &err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        int64_t left = 0;
        if (dt_topic_book_paused(l->book, topics[i]))
            continue;
        size_t some = unhold_step(l, topics[i]);
        status = dt_index_unhold(l->index, l->shard, topics[i], some, &left, &err);
        if (left && some > 1)
            l->topics_changed = true; /* go on at the next step */
    }
    dt_arena_clear(&arena);
}

void dt_shard_look_at_held(dt_shard_loop *l)
{
    if (!l->index_up || (!l->topics_changed && dt_shard_mono_us(l) - l->held_us < HELD_US))
        return;
    l->topics_changed = false;
    l->held_us = dt_shard_mono_us(l);
    give_back_held(l);
}
