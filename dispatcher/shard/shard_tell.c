/* Owns the updates of the index after a claim or a settlement: new due times, parked entries, and entries of other
 * shards. Only changes that MySQL has committed are written to the index. A lost update delays a job by a second at
 * most. */
#include "base/guard.h"
#include "base/log.h"
#include "job/results/results.h"
#include "shard_parts.h"

#define SOON_MS 2000 /* a leader looks for due jobs at least once a second, so nearer due times need no wake-up */

/* Parks the entries that have the same topic, host and kind as seen[0] and cannot be sent now: in the held set of the
 * topic, of the host, or of the topic's timeouts. */
static dt_status park_topic_entries(dt_shard_loop *l, struct dt_seen *seen, size_t n, struct dt_entry *entries,
                                    struct dt_error *err)
{
    struct dt_str topic = seen[0].hold;
    uint32_t host = seen[0].host;
    bool timeout = seen[0].timeout;
    enum dt_closed why = timeout ? DT_CLOSED_UNREAD : seen[0].at_limit ? DT_CLOSED_LIMIT : dt_shard_why_left(l, topic);
    char text[DT_HELD_NAME_SIZE];
    struct dt_str name = host ? dt_held_name_at(topic, host, text) : dt_held_name(topic, timeout, text);
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (seen[i].hold.p && seen[i].host == host && seen[i].timeout == timeout && dt_str_eq(seen[i].hold, topic)) {
            entries[held++] = (struct dt_entry){seen[i].id, seen[i].hint_ms, 0};
            seen[i].hold = DT_STR_NONE;
            seen[i].id = 0; /* the entry is handled: id 0 makes later calls skip it */
        }
    dt_status status = dt_index_hold(l->index, l->shard, name, entries, held, err);
    if (status == DT_OK)
        dt_shard_note_held(l, name, why);
    return status;
}

/* Moves entries of jobs whose slots belong to another shard now (or that a process with an old map wrote here). The
 * entries are added to the other shard's set, the other shard's leader is woken, and only then the entries are removed
 * from this set. If the other set already has an entry of the job, that entry is newer, and is kept. */
static dt_status move_to_own_shard(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t horizon_ms,
                                   struct dt_entry *entries, struct dt_error *err)
{
    struct dt_shard_set soon = {0};
    size_t n = 0;
    for (size_t i = 0; i < txn->seen.n; i++) {
        const struct dt_seen *seen = &txn->seen.v[i];
        if (!seen->elsewhere || seen->next_ms >= horizon_ms)
            continue;
        entries[n++] = (struct dt_entry){seen->id, seen->next_ms, 0};
        if (seen->next_ms <= txn->now_ms + SOON_MS)
            dt_shard_set_add(&soon, dt_shard_of(&l->trust.map, seen->id));
    }
    if (n == 0 || DT_UNGUARDED(HAND_ON))
        return DT_OK;
    dt_status status = dt_index_fill(l->index, &l->trust.map, entries, n, err);
    for (unsigned shard = 0; status == DT_OK && shard < l->trust.map.shards; shard++)
        if (dt_shard_set_has(&soon, shard))
            status = dt_index_wake(l->index, shard, false, err);
    return status;
}

/* Updates the index for the jobs of a leader transaction. An entry that could not be updated would stay at the head of
 * the set, and every due scan would read it before all other entries. */
void dt_shard_tell_index(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    if (!l->trust.up || txn->seen.n + txn->settled.moved.n == 0)
        return;
    int64_t horizon_ms = txn->now_ms + l->env->config->index_horizon;
    struct dt_fix *fixes = dt_arena_alloc(&l->arena, (txn->seen.n + txn->settled.moved.n) * sizeof(*fixes));
    struct dt_entry *held = dt_arena_alloc(&l->arena, (txn->seen.n + 1) * sizeof(*held));
    struct dt_error err = {0};
    dt_status status = fixes && held ? DT_OK : DT_NOMEM;
    size_t n = 0;
    DT_THEN(status, move_to_own_shard(l, txn, horizon_ms, held, &err));
    for (size_t i = 0; status == DT_OK && i < txn->seen.n; i++) {
        struct dt_seen *seen = &txn->seen.v[i];
        bool stays = !seen->elsewhere && seen->next_ms < horizon_ms;
        if (seen->hold.p)
            status = park_topic_entries(l, seen, txn->seen.n - i, held, &err);
        else if (seen->id)
            fixes[n++] = (struct dt_fix){seen->id, seen->hint_ms, stays ? seen->next_ms : 0};
    }
    for (size_t i = 0; status == DT_OK && i < txn->settled.moved.n; i++) {
        const struct dt_seen *moved = &txn->settled.moved.v[i];
        fixes[n++] = (struct dt_fix){moved->id, moved->hint_ms, moved->next_ms < horizon_ms ? moved->next_ms : 0};
    }
    if (status == DT_OK && n)
        status = dt_index_fix(l->index, l->shard, fixes, n, &err);
    if (status == DT_OK)
        return;
    DT_LOG(DEBUG, "shard", "the index was not updated", DT_I("shard", l->shard), DT_S("reason", err.text));
    dt_shard_mark_soon(l); /* the next write of the marker shows whether the index accepts changes */
    dt_shard_doubt_index(l);
    l->env->index_entries_lost(l->env->arg, l->index); /* the lost entries may be of other shards, too */
}

void dt_shard_tell_offers(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    struct dt_error err = {0};
    dt_metric_add(l->meters.offered, (int64_t)txn->offered.n);
    if (!l->trust.up || txn->offered.n == 0)
        return;
    if (dt_index_tell_offers(l->index, l->shard, txn->offered.topics, txn->offered.n_topics, &err) != DT_OK)
        DT_LOG(DEBUG, "shard", "waiting pops were not notified of offers", DT_I("shard", l->shard),
               DT_S("reason", err.text));
}

void dt_shard_tell_moved(dt_shard_loop *l, int64_t id, const struct dt_settled *done)
{
    struct dt_entry entries[DT_WAS_MAX];
    const size_t n = dt_entries_of_move(id, done->next_ms, done->was_ms, DT_WAS_MAX, entries);
    dt_process_tell_index(l->env, l->index, &l->trust.map, entries, n, false);
}

void dt_shard_leave_index(dt_shard_loop *l)
{
    struct dt_error err = {0};
    if (!l->index || l->shard < l->trust.map.shards || dt_index_drop(l->index, l->shard, &err) == DT_OK)
        return;
    DT_LOG(INFO, "shard", "the Redis set of a removed shard was not deleted", DT_I("shard", l->shard),
           DT_S("reason", err.text));
}
