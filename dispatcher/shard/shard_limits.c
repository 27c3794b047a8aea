/*
 * Owns what a leader knows of topics at their limits: which of its jobs found no room, and how many may try again. The
 * process asks for room on behalf of all its shards (shard/room.h), shares it out, and wakes the leaders that get
 * some.
 * Refuses to know: limits and what is in flight; the leader transaction decides (topic/topic_gate.h).
 *
 *   open ── no room in the leader transaction ──▶ closed, parked ── granted n ──▶ open for n jobs ─┬─ used up: closed
 *     ▲                                                                                            │
 *     └────────────── nothing of it is parked any more, or the grant was not used within a second ─┘
 */
#include "room.h"
#include "shard_parts.h"

#define ASK_AGAIN_US INT64_C(1000000) /* who asks for room is forgotten if it does not go on asking */

static void close_topic(dt_shard_loop *l, struct dt_str topic)
{
    dt_limit_memory_set(&l->limits, topic, 0, dt_shard_mono_us(l));
    dt_shard_reclose_held(l, topic);
}

size_t dt_shard_limit_allowed(void *loop, struct dt_str topic)
{
    const dt_shard_loop *l = loop;
    return dt_limit_memory_allowed(&l->limits, topic, dt_shard_mono_us(l));
}

static void spend(dt_shard_loop *l, const struct dt_leader_batch *claimed)
{
    for (size_t i = 0; l->limits.n && i < claimed->n; i++) {
        struct dt_str topic = claimed->jobs[i].topic;
        if (!dt_limit_memory_spend(&l->limits, topic))
            continue;
        /* As many jobs of the topic were claimed as were granted. */
        if (dt_shard_believes_index(l) && !dt_shard_has_held(l, topic))
            dt_limit_memory_forget(&l->limits, topic);
        else
            close_topic(l, topic);
    }
}

void dt_shard_limits_note(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    if (txn->timed_out.n + txn->hands.lost)
        dt_room_news(l->env->room);
    spend(l, &txn->batch);
    spend(l, &txn->hands.claimed);
    for (size_t i = 0; txn->limits.held && i < txn->seen.n; i++) {
        const struct dt_seen *seen = &txn->seen.v[i];
        if (seen->at_limit && dt_shard_limit_allowed(l, seen->hold) != 0)
            close_topic(l, seen->hold);
    }
}

void dt_shard_limits_tend(dt_shard_loop *l)
{
    if (l->limits.n == 0)
        return;
    int64_t now_us = dt_shard_mono_us(l);
    dt_limit_memory_age(&l->limits, now_us);
    for (size_t i = 0; i < l->limits.n; i++) {
        struct dt_limited_topic *topic = &l->limits.v[i];
        struct dt_str name = dt_str(topic->name);
        size_t granted = topic->allowed == 0 ? dt_room_take(l->env->room, l->shard, name) : 0;
        if (granted) {
            dt_limit_memory_set(&l->limits, name, granted, now_us);
            dt_shard_reclose_held(l, name);
            if (!dt_shard_believes_index(l))
                dt_shard_due_from_start(l);
        } else if (topic->allowed == 0 && !(topic->asked_us && now_us - topic->asked_us < ASK_AGAIN_US)) {
            topic->asked_us = now_us;
            if (dt_room_want(l->env->room, l->shard, name))
                topic->since_us = now_us;
        }
    }
}
