/*
 * What may be due, and what the index is told. Who goes first when that is too much is shard_lanes.c's.
 *
 * Invariants: whatever the index says is a hint, the claim decides; the index is told what MySQL has committed, and a
 * word that is lost costs a second at most. The set is believed only while it carries this leadership's marker with the
 * present count: the count rises with every marking, so a set that was lost, replaced, or put back from an older copy
 * is noticed at the next look, and MySQL is read until it is rebuilt. So is a set that was filled for another map, in
 * which the shard had fewer slots: its marker has that map's generation. A marker says that its set is whole only when
 * that is known: from an earlier marker that said so, or since the set was rebuilt; a leader that dies meanwhile leaves
 * a set that nobody believes.
 *
 * A whole set may lack entries all the same: those that somebody could not write. As soon as that is known, or the
 * index was out of reach, or a change of our own did not arrive, it is not believed until (1) every writer can write
 * again, (2) what is due soon has been compared with MySQL since (index_sure), and (3) MySQL was read through once for
 * what was due by then (not index_stuck).
 */
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "base/log.h"
#include "base/outage.h"
#include "job/shard_set.h"
#include "shard_parts.h"

#define SOON_MS       2000             /* a leader looks by itself once a second */
#define MARK_US       INT64_C(5000000) /* the index is asked to take a change at least this often */
#define DEGRADED_SCAN 10000
#define AHEAD_US      INT64_C(5000000) /* MySQL's reader ahead begins anew at the cursor this often */
#define AHEAD_BACK_MS 2000             /* otherwise so far back: commits come out of order, and clocks differ */

struct dt_marker dt_shard_marker(const dt_shard_loop *l)
{
    return (struct dt_marker){l->lease.epoch,       l->lease.token, l->mark_count,    l->filled_for,
                              l->lease.index_epoch, !l->vouched,    l->map.generation};
}

/* With the lock, so that whoever ends a rebuild has seen either all of it or nothing. */
static void lose(dt_shard_loop *l)
{
    l->vouched = l->lost = false;
    pthread_mutex_lock(&l->state_lock);
    l->index_whole = false;
    l->state.losses++;
    l->env->index_lost(l->env->arg, l->shard);
    pthread_mutex_unlock(&l->state_lock);
}

/* A map that only takes slots away leaves the set whole: what is too much in it is handed on when it is due, or removed
 * by the reconciler. From one map to the next only; in between the shard may have had fewer. */
void dt_shard_read_map(dt_shard_loop *l)
{
    struct dt_shard_map next;
    l->env->map(l->env->arg, &next);
    if (next.generation == l->map.generation && next.shards == l->map.shards)
        return;
    bool whole =
        l->map.shards && next.generation == l->map.generation + 1 && !dt_shard_map_gains(&l->map, &next, l->shard);
    l->map = next;
    if (whole || (l->filled_for && DT_UNGUARDED(FILLED_FOR)))
        return;
    l->filled_for = next.generation;
    if (l->marked && !l->vouched) /* it is being rebuilt for the old one */
        lose(l);
}

void dt_shard_look_init(dt_shard_loop *l)
{
    l->marked = l->vouched = l->mark_unsure = false;
    l->lost = !l->index_whole; /* a rebuild does not outlive the leadership that asked for it */
    l->mark_count = 0;
    l->held_us = l->marked_us = 0;
    l->lanes.n = l->lanes.others = 0;
    dt_lane_memory_clear(&l->lanes.memory);
    dt_shard_look_from_start(l);
}

void dt_shard_look_from_start(dt_shard_loop *l)
{
    l->scan_ms = l->scan_id = l->ahead_ms = l->ahead_id = l->ahead_us = 0;
}

/* ---- hints ---- */

static void hint_due(dt_shard_loop *l, int64_t id, int64_t due_ms)
{
    dt_lane_memory_forget(&l->lanes.memory, id);
    l->hints[l->n_hints++] = (struct dt_hint){id, due_ms};
}

/* Something may be missing in the set from now on, or have been up to now. */
static void doubt(dt_shard_loop *l)
{
    dt_shard_loop_doubt(l);
    l->env->index_doubted(l->env->arg);
}

/* With the lock, so that whoever compares knows which doubts his compare answers. */
static void take_doubts(dt_shard_loop *l)
{
    pthread_mutex_lock(&l->state_lock);
    uint64_t doubts = l->state.doubts;
    l->state.unsure = l->index_up && l->index_whole && !l->index_sure;
    pthread_mutex_unlock(&l->state_lock);
    if (doubts != l->doubts)
        dt_shard_pass_by_index(l);
    l->doubts = doubts;
}

bool dt_shard_believes_index(const dt_shard_loop *l)
{
    return l->index_up && l->index_whole && l->index_sure && !l->index_stuck &&
           l->env->index_told(l->env->arg, dt_index_home(l->index, l->shard));
}

/* The next marker, in place of whatever is there: the present one, as far as we have seen. */
static dt_status put_marker(dt_shard_loop *l, bool there, bool vouches, bool *intact, bool *gone, struct dt_error *err)
{
    const struct dt_marker present = dt_shard_marker(l);
    struct dt_marker next = present;
    next.count++;
    next.filling = !vouches;
    dt_status status = dt_index_mark(l->index, l->shard, next, there ? &present : NULL, intact, gone, err);
    l->mark_unsure = status != DT_OK;
    l->mark_vouches = vouches;
    if (status != DT_OK)
        return status;
    l->mark_count = next.count;
    l->vouched = vouches;
    l->marked_us = dt_shard_mono_us(l);
    return DT_OK;
}

/* The first marker of ours, or the first since the set was lost. */
static dt_status mark_anew(dt_shard_loop *l, struct dt_error *err)
{
    bool intact, gone;
    /* Another leader's marker is as good, once: later it means that an old copy of Redis came back. And where the
     * answer to the first marking was lost, nobody knows what was there before. */
    if (l->marked)
        l->lost = true;
    l->marked = l->vouched = false;
    dt_status status = put_marker(l, false, false, &intact, &gone, err);
    if (status != DT_OK)
        return status;
    if (l->lost || !intact) {
        struct dt_error why = {0};
        (void)dt_fail(&why, DT_UNAVAILABLE, "the marker of shard %u is not there, or another one", l->shard);
        dt_outage_failed(&l->index_outage, DT_OUTAGE_REDIS, "shard",
                         "the index was lost: reading from MySQL while it is rebuilt", DT_UNAVAILABLE, &why);
        lose(l);
    }
    l->marked = true;
    return DT_OK;
}

/* The next one of ours; where the last one, that we have just seen, is gone all of a sudden, the set went with it. */
static dt_status mark_again(dt_shard_loop *l, bool vouches, struct dt_error *err)
{
    bool intact, gone;
    dt_status status = put_marker(l, true, vouches, &intact, &gone, err);
    return status == DT_OK && gone ? mark_anew(l, err) : status;
}

/*
 * Puts our marker into the set, and sees that the index takes changes: one that answers but cannot be told anything
 * (read-only, out of memory) lacks new jobs and keeps old entries, so it must not be believed.
 */
static dt_status mark(dt_shard_loop *l, bool there, struct dt_error *err)
{
    if (there && l->marked)
        return mark_again(l, l->vouched, err);
    l->lost |= there; /* the answer to its marking was lost */
    return mark_anew(l, err);
}

/* The set is whole by now, and its marker does not say so yet. */
static dt_status vouch(dt_shard_loop *l, struct dt_error *err)
{
    return mark_again(l, true, err);
}

static size_t batch_jobs(const dt_shard_loop *l)
{
    return (size_t)l->env->config->dispatch_batch_jobs;
}

static dt_status ask_index(dt_shard_loop *l, int64_t now_ms, size_t *n, int64_t *next_ms, bool *marked,
                           struct dt_error *err)
{
    return dt_index_due(l->index, l->shard, dt_shard_marker(l), now_ms, DT_LOOK_BATCHES * batch_jobs(l), l->entries, n,
                        next_ms, marked, err);
}

/* From Redis: *n of l->entries. The marker tells whether the set is the one that was filled. A marking whose answer was
 * lost may have come about. */
static dt_status look_in_index(dt_shard_loop *l, int64_t now_ms, size_t *n, int64_t *next_ms)
{
    struct dt_error err = {0};
    bool marked = false;
    if (dt_shard_believes_index(l))
        dt_shard_give_back(l);
    dt_status status = ask_index(l, now_ms, n, next_ms, &marked, &err);
    if (status == DT_OK && !marked && l->mark_unsure) {
        l->mark_count++;
        l->vouched = l->mark_vouches;
        status = ask_index(l, now_ms, n, next_ms, &marked, &err);
    }
    if (status == DT_OK && (!marked || !l->marked || dt_shard_mono_us(l) - l->marked_us >= MARK_US))
        status = mark(l, marked, &err);
    if (status == DT_OK && l->index_whole && !l->vouched)
        status = vouch(l, &err);
    if (status != DT_OK)
        dt_outage_failed(&l->index_outage, DT_OUTAGE_REDIS, "shard", "no index: reading from MySQL", status, &err);
    else
        dt_outage_over(&l->index_outage);
    bool back = !l->index_up && status == DT_OK;
    l->index_up = status == DT_OK;
    if (back)
        doubt(l);
    return status;
}

/* What is due in order of time, or, when it is too much for that, each lane its part. */
static dt_status hint_entries(dt_shard_loop *l, size_t n, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t batch = batch_jobs(l);
    dt_status status = DT_OK;
    bool rest = n > batch, waits = dt_shard_lanes_wait(l);
    if (waits || n > 2 * batch)
        status = n ? dt_shard_hint_fairly(l, n, &rest, err) : DT_OK;
    else {
        dt_lane_memory_clear(&l->lanes.memory);
        for (size_t i = 0; i < n && i < batch; i++)
            hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    }
    l->backlog = rest || n == DT_LOOK_BATCHES * batch || dt_shard_lanes_wait(l);
    if (l->backlog)
        *next_ms = now_ms;
    return status;
}

/* ---- MySQL instead ---- */

/* Due rows of the shard after (*ms, *id), to l->entries[at...); the place that the scan reached. */
static dt_status scan(dt_shard_loop *l, int64_t now_ms, size_t at, size_t limit, size_t rows, size_t *n, bool *end,
                      int64_t *ms, int64_t *id, struct dt_error *err)
{
    dt_status status =
        dt_store_scan_shard(l->store, &l->map, l->shard, now_ms, *ms, *id, rows, limit, l->due, n, end, ms, id, err);
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

/* A lane of which something was passed by gets a part for what stands at the cursor alone: a part for what must not be
 * taken would be nobody's. */
static void see_skipped(dt_shard_loop *l, size_t n_head)
{
    struct dt_lanes *lanes = &l->lanes;
    for (size_t i = 0; i < lanes->n_queues; i++) {
        struct dt_queue *queue = &lanes->queues[i];
        for (size_t k = 0; k < l->n_skipped; k++)
            queue->skipped |= l->skipped[k] == queue->hash;
        queue->waiting = queue->skipped ? 0 : queue->waiting;
    }
    for (size_t i = 0; i < n_head; i++)
        lanes->queues[lanes->of[i]].waiting += lanes->queues[lanes->of[i]].skipped;
}

/* What the reader ahead leaves behind is the cursor's. False: it cannot remember any more. */
static bool skip(dt_shard_loop *l, struct dt_queue *queue)
{
    if (!queue->skipped && l->n_skipped < DT_SKIPPED) {
        l->skipped[l->n_skipped++] = queue->hash;
        queue->skipped = true;
    }
    return queue->skipped;
}

static bool take_row(dt_shard_loop *l, size_t i, bool may)
{
    struct dt_fair_lane *part = &l->lanes.parts[l->lanes.of[i]];
    if (!may || part->quota == 0)
        return false;
    part->quota--;
    hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    return true;
}

/*
 * Of l->entries the first n_head stand at the cursor, which moves as far as nothing is left behind that may go; the
 * others are further on. Each lane gets its part; of what is further on only lanes of which nothing was left at the
 * cursor, nor passed by further on, so that order is kept within a lane. True: the reader ahead may move on.
 */
static bool hint_rows(dt_shard_loop *l, size_t n_head, size_t n)
{
    bool passed = true;
    for (size_t i = 0; i < n_head; i++) {
        struct dt_queue *queue = &l->lanes.queues[l->lanes.of[i]];
        bool stays = !take_row(l, i, true) && !queue->closed;
        queue->left |= stays;
        passed &= !stays;
        if (passed) {
            l->scan_ms = l->entries[i].due_ms;
            l->scan_id = l->entries[i].id;
        }
    }
    for (size_t i = n_head; i < n; i++) {
        struct dt_queue *queue = &l->lanes.queues[l->lanes.of[i]];
        if (!take_row(l, i, !queue->left && !queue->skipped) && !skip(l, queue))
            return false;
        l->ahead_ms = l->entries[i].due_ms;
        l->ahead_id = l->entries[i].id;
    }
    return true;
}

/* More than a batch is due: a second reader goes on ahead of the cursor for those who are not many. */
static dt_status look_ahead(dt_shard_loop *l, int64_t now_ms, size_t n_head, struct dt_error *err)
{
    size_t n = 0;
    size_t room = DT_LOOK_BATCHES * batch_jobs(l) - n_head;
    bool end = true;
    place_ahead(l, &l->entries[n_head - 1]);
    int64_t ms = l->ahead_ms;
    int64_t id = l->ahead_id;
    dt_status status = scan(l, now_ms, n_head, room, DT_LOOK_BATCHES * DEGRADED_SCAN, &n, &end, &ms, &id, err);
    if (status == DT_OK)
        status = dt_shard_sort_lanes(l, n_head + n, err);
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

/* Bounded: a cursor goes through what is overdue, then starts over. */
static dt_status look_in_store(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    bool end = true;
    int64_t ms = l->scan_ms;
    int64_t id = l->scan_id;
    l->n_hints = 0;
    dt_status status = scan(l, now_ms, 0, batch_jobs(l), DEGRADED_SCAN, &n, &end, &ms, &id, err);
    if (status != DT_OK)
        return status;
    *next_ms = now_ms;
    if (n == batch_jobs(l))
        return look_ahead(l, now_ms, n, err);
    for (size_t i = 0; i < n; i++)
        hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    l->scan_ms = end ? 0 : ms;
    l->scan_id = end ? 0 : id;
    if (!end)
        return DT_OK;
    l->index_stuck = false;
    return dt_store_next_due(l->store, &l->map, l->shard, now_ms, DEGRADED_SCAN, next_ms, err);
}

dt_status dt_shard_look(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    l->n_hints = 0;
    l->backlog = false;
    *next_ms = 0;
    dt_status status = look_in_index(l, now_ms, &n, next_ms);
    take_doubts(l);
    if (status == DT_OK && dt_shard_believes_index(l))
        return hint_entries(l, n, now_ms, next_ms, err);
    return look_in_store(l, now_ms, next_ms, err);
}

/* ---- telling the index ---- */

void dt_shard_pass_by_index(dt_shard_loop *l)
{
    l->index_stuck = true;
    dt_shard_look_from_start(l);
}

/* Moves the entries of one topic that cannot go now, seen[first] and those after it, to the topic's held set. */
static dt_status hold_topic(dt_shard_loop *l, struct dt_seen *seen, size_t n, struct dt_entry *entries,
                            struct dt_error *err)
{
    struct dt_str topic = seen[0].hold;
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (seen[i].hold.p && dt_str_eq(seen[i].hold, topic)) {
            entries[held++] = (struct dt_entry){seen[i].id, seen[i].hint_ms, 0};
            seen[i].hold = DT_STR_NONE;
            seen[i].id = 0; /* dealt with */
        }
    dt_status status = dt_index_hold(l->index, l->shard, topic, entries, held, err);
    if (status == DT_OK)
        dt_shard_note_held(l, topic, false);
    return status;
}

/*
 * Entries of jobs whose slots have moved away (or that somebody with an old map put here): their shard gets them, its
 * leader is woken, and only then they leave this set. What their shard has already is newer than what was read here.
 */
static dt_status hand_on(dt_shard_loop *l, const struct dt_turn *turn, int64_t horizon_ms, struct dt_entry *entries,
                         struct dt_error *err)
{
    struct dt_shard_set soon = {0};
    size_t n = 0;
    for (size_t i = 0; i < turn->n_seen; i++) {
        const struct dt_seen *seen = &turn->seen[i];
        if (!seen->elsewhere || seen->next_ms >= horizon_ms)
            continue;
        entries[n++] = (struct dt_entry){seen->id, seen->next_ms, 0};
        if (seen->next_ms <= turn->now_ms + SOON_MS)
            dt_shard_set_add(&soon, dt_shard_of(&l->map, seen->id));
    }
    if (n == 0 || DT_UNGUARDED(HAND_ON))
        return DT_OK;
    dt_status status = dt_index_fill(l->index, &l->map, entries, n, err);
    for (unsigned shard = 0; status == DT_OK && shard < l->map.shards; shard++)
        if (dt_shard_set_has(&soon, shard))
            status = dt_index_wake(l->index, shard, false, err);
    return status;
}

/* Tells the index what became of the hints. What it cannot be told stays at its head and would be met again at every
 * look, before all others. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_turn *turn)
{
    if (!l->index_up || turn->n_seen + turn->n_moved == 0)
        return;
    int64_t horizon_ms = turn->now_ms + l->env->config->index_horizon;
    struct dt_fix *fixes = dt_arena_alloc(&l->arena, (turn->n_seen + turn->n_moved) * sizeof(*fixes));
    struct dt_entry *held = dt_arena_alloc(&l->arena, (turn->n_seen + 1) * sizeof(*held));
    struct dt_error err = {0};
    dt_status status = fixes && held ? DT_OK : DT_NOMEM;
    size_t n = 0;
    if (status == DT_OK)
        status = hand_on(l, turn, horizon_ms, held, &err);
    for (size_t i = 0; status == DT_OK && i < turn->n_seen; i++) {
        struct dt_seen *seen = &turn->seen[i];
        bool stays = !seen->elsewhere && seen->next_ms < horizon_ms;
        if (seen->hold.p)
            status = hold_topic(l, seen, turn->n_seen - i, held, &err);
        else if (seen->id)
            fixes[n++] = (struct dt_fix){seen->id, seen->hint_ms, stays ? seen->next_ms : 0};
    }
    for (size_t i = 0; status == DT_OK && i < turn->n_moved; i++) {
        const struct dt_seen *moved = &turn->moved[i];
        fixes[n++] = (struct dt_fix){moved->id, moved->hint_ms, moved->next_ms < horizon_ms ? moved->next_ms : 0};
    }
    if (status == DT_OK && n)
        status = dt_index_fix(l->index, l->shard, fixes, n, &err);
    if (status == DT_OK)
        return;
    DT_LOG(DEBUG, "shard", "the index was not told", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->marked_us = 0; /* does it take any change? */
    doubt(l);
    l->env->index_untold(l->env->arg, l->index); /* some of it may have been other shards' */
}

void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done)
{
    struct dt_entry entries[DT_WAS_MAX];
    struct dt_error err = {0};
    int64_t horizon_ms = dt_refclock_earliest_ms(l->env->ref) + l->env->config->index_horizon;
    size_t n = dt_entries_of_move(id, done->next_ms, done->was_ms, DT_WAS_MAX, entries);
    if (dt_index_put(l->index, &l->map, entries, n, horizon_ms, false, &err) == DT_OK)
        return;
    DT_LOG(DEBUG, "shard", "the index was not told", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->env->index_untold(l->env->arg, l->index);
}

void dt_shard_leave_index(dt_shard_loop *l)
{
    struct dt_error err = {0};
    if (l->shard < l->map.shards || dt_index_drop(l->index, l->shard, &err) == DT_OK)
        return;
    DT_LOG(INFO, "shard", "the set of a shard that is not needed any more stays", DT_I("shard", l->shard),
           DT_S("reason", err.text));
}
