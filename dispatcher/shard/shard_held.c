/*
 * Decides from memory why a topic's jobs may not be sent, and how many may be sent: the topic is paused or at its
 * limits, the delivery cannot write to it, or this process has no place for its callbacks. dt_closed_rule says what
 * follows from each reason.
 *
 * The second half of the file owns the shard's held sets, and topics at their limits.
 */

#include "base/assert.h"
#include "shard_parts.h"

enum dt_writable dt_shard_writable(void *loop, struct dt_str topic, int64_t owner, int64_t bytes)
{
    dt_shard_loop *l = loop;
    return dt_shard_sender_stalled(l) ? DT_WRITABLE_NO : dt_delivery_writable(l->delivery, topic, owner, bytes);
}

/* Returns how many callbacks of the topic may be sent: to the host with the number `host` (as in struct dt_topic_of),
 * or, if it is 0, to all hosts. */
static size_t count_callback_places(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    const struct dt_topic_callback *callback = dt_topic_snapshot_callback(l->snapshot, topic);
    const int64_t owner = dt_topic_snapshot_owner(l->snapshot, topic);
    if (!callback)
        return 0;
    return dt_hands_claims_room(l->claims, owner, topic, callback, host);
}

/* Returns the result of count_callback_places. If it is 0, also records the time: shard_loop.c then reports for a while
 * that callbacks wait. */
static size_t request_callback_places(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    size_t places = count_callback_places(l, topic, host);
    if (places == 0)
        l->full_us = dt_shard_mono_us(l);
    return places;
}

static enum dt_dealing dealing_of_topic(const dt_shard_loop *l, struct dt_str topic)
{
    return dt_delivery_dealing(dt_topic_snapshot_delivery(l->snapshot, topic));
}

static size_t count_allowed_by_limit(const dt_shard_loop *l, struct dt_str topic)
{
    bool limited = dt_topic_snapshot_limited(l->snapshot, topic) && dealing_of_topic(l, topic) != DT_DEALING_OFFERS;
    return limited ? dt_limit_memory_allowed(&l->limits, topic, dt_shard_mono_us(l)) : SIZE_MAX;
}

size_t dt_shard_room_at(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    return dealing_of_topic(l, topic) == DT_DEALING_HANDS ? request_callback_places(l, topic, host) : SIZE_MAX;
}

/* Returns why jobs that are parked in the held set `name` may not be sent. */
static enum dt_closed find_hold_reason(dt_shard_loop *l, struct dt_str name)
{
    uint32_t host;
    struct dt_str topic = dt_held_topic(name, &host);
    struct dt_str destination = dt_topic_snapshot_kafka_topic(l->snapshot, topic);
    if (!destination.p)
        return DT_CLOSED_NO_ROW;
    if (dt_topic_snapshot_paused(l->snapshot, topic))
        return DT_CLOSED_PAUSED;
    if (count_allowed_by_limit(l, topic) == 0)
        return DT_CLOSED_LIMIT;
    switch (dealing_of_topic(l, topic)) {
    case DT_DEALING_HANDS:
        return request_callback_places(l, topic, host) ? DT_CLOSED_NOT : DT_CLOSED_FULL;
    case DT_DEALING_OFFERS:
        return DT_CLOSED_NOT; /* these jobs are offered to clients, not sent */
    default:
        break;
    }
    switch (dt_shard_writable(l, destination, dt_topic_snapshot_owner(l->snapshot, topic), 0)) {
    case DT_WRITABLE_NO:
        return DT_CLOSED_UNWRITABLE;
    case DT_WRITABLE_UNKNOWN:
        return DT_CLOSED_FINDING_OUT;
    default:
        return DT_CLOSED_NOT;
    }
}

enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic)
{
    enum dt_closed why = find_hold_reason(l, topic);
    return why == DT_CLOSED_NO_ROW ? DT_CLOSED_NOT : why;
}

enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic)
{
    if (dt_topic_snapshot_paused(l->snapshot, topic))
        return DT_CLOSED_PAUSED;
    return dealing_of_topic(l, topic) == DT_DEALING_HANDS ? DT_CLOSED_FULL : DT_CLOSED_UNWRITABLE;
}

size_t dt_shard_room(dt_shard_loop *l, struct dt_str name)
{
    uint32_t host;
    struct dt_str topic = dt_held_topic(name, &host);
    size_t most = count_allowed_by_limit(l, topic);
    if (!dt_topic_snapshot_callback(l->snapshot, topic) || dealing_of_topic(l, topic) != DT_DEALING_HANDS)
        return most;
    size_t places = count_callback_places(l, topic, host);
    return places < most ? places : most;
}

/*
 * ---- held sets, where the surplus of long queues waits (shard_queues.c) ----
 *
 * Knows which held sets exist, whether their jobs may be sent, and how many jobs return to the due set before a due
 * scan. Held sets are hints like the due set: each leadership lists them when it begins, and then every few seconds.
 */

#define HELD_US      INT64_C(5000000) /* longest time between two listings of held sets */
#define HELD_AT_ONCE 8                /* maximal number of held sets from which jobs return before one due scan */

struct dt_held_queue *dt_shard_find_held(struct dt_fair_queues *fair, struct dt_str name)
{
    for (size_t i = 0; i < fair->n; i++)
        if (dt_str_is(name, fair->v[i].name))
            return &fair->v[i];
    return NULL;
}

static bool is_timeout_set(struct dt_str name)
{
    return name.n && name.p[name.n - 1] == DT_HELD_TIMEOUTS[0];
}

void dt_shard_queues_init(dt_shard_loop *l)
{
    l->fair.held_us = 0;
    l->fair.n = l->fair.others = 0;
    dt_topic_memory_clear(&l->fair.memory);
}

void dt_shard_topics_changed(dt_shard_loop *l)
{
    l->fair.topics_changed = true;
    dt_id_set_empty(&l->unknown.ids);
    if (!l->index) /* without an index there are no held sets: jobs of closed queues stay due in MySQL */
        dt_shard_due_from_start(l);
}

void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, enum dt_closed closed)
{
    struct dt_fair_queues *fair = &l->fair;
    struct dt_held_queue *known = dt_shard_find_held(fair, name);
    if (known)
        known->closed = closed;
    if (known || name.n >= sizeof(fair->v->name))
        return;
    if (fair->n == fair->cap) {
        size_t cap = fair->cap ? fair->cap * 2 : 16;
        struct dt_held_queue *v = realloc(fair->v, cap * sizeof(*v));
        fair->v = v ? v : fair->v;
        struct dt_turn *open = realloc(fair->open, cap * sizeof(*open));
        fair->open = open ? open : fair->open;
        if (!v || !open)
            return; /* memory ran out; the next listing of held sets finds this set */
        fair->cap = cap;
    }
    dt_assert_cmp(fair->n, <, fair->cap);
    struct dt_held_queue *held = &fair->v[fair->n++];
    uint32_t host;
    *held = (struct dt_held_queue){.closed = closed, .number = (int64_t)dt_str_hash(name)};
    memcpy(held->name, name.p, name.n);
    name.n -= is_timeout_set(name);
    held->owner = dt_topic_snapshot_owner(l->snapshot, dt_held_topic(name, &host));
}

/* Returns whether `held` is the held set of the topic, of the topic's jobs for one host, or of its timeouts. */
static bool is_held_set_of(const struct dt_held_queue *held, struct dt_str topic)
{
    uint32_t host;
    return dt_str_eq(dt_held_topic(dt_str(held->name), &host), topic);
}

/* Decides again whether the jobs in the topic's held sets may be sent. */
static void update_held_sets(dt_shard_loop *l, struct dt_str topic)
{
    for (size_t i = 0; i < l->fair.n; i++)
        if (is_held_set_of(&l->fair.v[i], topic))
            l->fair.v[i].closed = find_hold_reason(l, dt_str(l->fair.v[i].name));
}

static bool may_send_held(const struct dt_held_queue *held)
{
    return !dt_closed_rule(held->closed).holds;
}

static bool is_held_for_lack_of_room(const struct dt_held_queue *held)
{
    return held->closed == DT_CLOSED_LIMIT || held->closed == DT_CLOSED_FULL;
}

void dt_shard_look_for_room(dt_shard_loop *l)
{
    for (size_t i = 0; i < l->fair.n; i++)
        if (is_held_for_lack_of_room(&l->fair.v[i]))
            l->fair.v[i].closed = find_hold_reason(l, dt_str(l->fair.v[i].name));
}

void dt_shard_open_timeouts(dt_shard_loop *l)
{
    for (size_t i = 0; i < l->fair.n; i++)
        if (l->fair.v[i].closed == DT_CLOSED_UNREAD)
            l->fair.v[i].closed = DT_CLOSED_NOT;
    if (!l->index)
        dt_shard_due_from_start(l);
}

void dt_shard_forget_topics_unless_held(dt_shard_loop *l)
{
    /* If parked jobs may be sent, or wait for room, there is still a backlog. */
    for (size_t i = 0; i < l->fair.n; i++)
        if (may_send_held(&l->fair.v[i]) || is_held_for_lack_of_room(&l->fair.v[i]))
            return;
    dt_topic_memory_clear(&l->fair.memory);
}

bool dt_shard_parked_may_go(const dt_shard_loop *l)
{
    for (size_t i = 0; i < l->fair.n; i++)
        if (may_send_held(&l->fair.v[i]))
            return true;
    return false;
}

void dt_shard_list_held(dt_shard_loop *l)
{
    struct dt_error err = {0};
    struct dt_str *names;
    size_t n = 0;
    int64_t next_ms;
    const bool lists = l->trust.up;
    if ((l->index && !lists) || (!l->fair.topics_changed && dt_shard_mono_us(l) - l->fair.held_us < HELD_US))
        return;
    dt_arena_reset(&l->fair.arena);
    dt_status status = lists ? dt_index_held(l->index, l->shard, &l->fair.arena, &names, &n, &err) : DT_OK;
    if (status == DT_OK && (n || !lists))
        status = dt_store_read_topics(l->store, l->snapshot, &err);
    if (status != DT_OK)
        return; /* the next due scan tries again */
    l->fair.topics_changed = false;
    l->fair.held_us = dt_shard_mono_us(l);
    l->fair.n = 0;
    for (size_t i = 0; i < n; i++)
        dt_shard_note_held(l, names[i], is_timeout_set(names[i]) ? DT_CLOSED_NOT : find_hold_reason(l, names[i]));
    /* If the queue of a held set is closed, only the first entry returns to the due set, so that the topic is checked
     * again: other entries would only be parked again. */
    for (size_t i = 0; i < l->fair.n && status == DT_OK; i++) {
        const struct dt_held_queue *held = &l->fair.v[i];
        if (dt_closed_rule(held->closed).tries)
            status = dt_index_unhold(l->index, l->shard, dt_str(held->name), 1, &next_ms, &err);
    }
}

/* ---- giving back ---- */

/* Chooses up to HELD_AT_ONCE held sets whose queues are open; their owners take turns. Divides `room` entries among
 * these held sets. */
static size_t choose_held_sets(dt_shard_loop *l, struct dt_fair_queue *parts, size_t *which, size_t room)
{
    struct dt_fair_queues *fair = &l->fair;
    size_t open = 0;
    size_t n = 0;
    for (size_t i = 0; i < fair->n; i++) {
        fair->v[i].given = 0;
        if (may_send_held(&fair->v[i]))
            fair->open[open++] = (struct dt_turn){fair->v[i].owner, fair->v[i].number, .at = i};
    }
    dt_turns_sort(&fair->turns, fair->open, open);
    for (size_t i = 0; i < open && n < HELD_AT_ONCE; i++) {
        const struct dt_turn *turn = &fair->open[i];
        struct dt_held_queue *held = &fair->v[turn->at];
        const struct dt_str name = dt_str(held->name);
        /* A timeout claims nothing, so it needs no room. A queue without room stays closed until the leader is notified
         * that there is room; otherwise each scan would read its held set again. */
        size_t waiting = is_timeout_set(name) ? SIZE_MAX : dt_shard_room(l, name);
        if (waiting == 0) {
            held->closed = find_hold_reason(l, name);
            continue;
        }
        waiting = waiting < room ? waiting : room;
        dt_turns_note(&fair->turns, turn->owner, turn->thing);
        parts[n] = (struct dt_fair_queue){turn->owner, .waiting = waiting, .timeouts = is_timeout_set(name)};
        which[n++] = turn->at;
    }
    dt_fair_share(parts, n, room);
    return n;
}

/* Returns parked entries to the due set: as many as the last due scan left free in its batch, and at least half a
 * batch. */
void dt_shard_give_back(dt_shard_loop *l)
{
    struct dt_fair_queues *fair = &l->fair;
    struct dt_fair_queue parts[HELD_AT_ONCE];
    size_t which[HELD_AT_ONCE];
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    size_t room = fair->others < batch / 2 ? batch - fair->others : batch - batch / 2;
    size_t n = choose_held_sets(l, parts, which, room);
    for (size_t i = 0; i < n; i++) {
        struct dt_held_queue *held = &fair->v[which[i]];
        struct dt_error err;
        held->given = parts[i].quota;
        if (held->given &&
            dt_index_unhold(l->index, l->shard, dt_str(held->name), held->given, &held->next_ms, &err) != DT_OK) {
            held->given = 0; /* the due scan that follows reports the failure */
            break;
        }
    }
    for (size_t i = fair->n; i-- > 0;)
        if (fair->v[i].given && fair->v[i].next_ms == 0)
            fair->v[i] = fair->v[--fair->n];
}

/*
 * Owns what a leader knows of topics at their limits: which topics had no room for their jobs, and how many jobs may be
 * tried again. The chore `room` (shard/shard_loop.h) looks for room for all shards of the process, divides it among
 * them, and wakes their leaders. This file knows neither the limits nor what is in flight: the leader transaction
 * decides (topic/limits.h).
 *
 *   open ── no room in the leader transaction ──▶ closed, parked ── granted n ──▶ open for n jobs ─┬─ used up: closed
 *     ▲                                                                                            │
 *     └────────────── no job of it is parked any more, or the grant was not used within a second ──┘
 */

/* The leader repeats a request for room this often, because room.c drops old requests. */
#define ASK_AGAIN_US INT64_C(1000000)

static void close_topic_at_limit(dt_shard_loop *l, struct dt_str topic)
{
    dt_limit_memory_set(&l->limits, topic, 0, dt_shard_mono_us(l));
    update_held_sets(l, topic);
}

size_t dt_shard_limit_allowed(void *loop, struct dt_str topic)
{
    const dt_shard_loop *l = loop;
    return dt_limit_memory_allowed(&l->limits, topic, dt_shard_mono_us(l));
}

static void spend_grants(dt_shard_loop *l, const struct dt_leader_batch *claimed)
{
    for (size_t i = 0; l->limits.n && i < claimed->n; i++) {
        struct dt_str topic = claimed->jobs[i].topic;
        if (!dt_limit_memory_spend(&l->limits, topic))
            continue;
        /* The grant is used up: closes the topic's held sets, or forgets the limit if there are none. */
        bool held = false;
        for (size_t k = 0; k < l->fair.n && !held; k++)
            held = is_held_set_of(&l->fair.v[k], topic);
        if (dt_shard_believes_index(l) && !held)
            dt_limit_memory_forget(&l->limits, topic);
        else
            close_topic_at_limit(l, topic);
    }
}

void dt_shard_limits_note(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    if (txn->timed_out.n + txn->hands.lost)
        dt_room_news(l->env->room);
    spend_grants(l, &txn->batch);
    spend_grants(l, &txn->hands.claimed);
    for (size_t i = 0; txn->limits.held && i < txn->seen.n; i++) {
        const struct dt_seen *seen = &txn->seen.v[i];
        if (seen->at_limit && dt_shard_limit_allowed(l, seen->hold) != 0)
            close_topic_at_limit(l, seen->hold);
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
            update_held_sets(l, name);
            if (!dt_shard_believes_index(l))
                dt_shard_due_from_start(l);
        } else if (topic->allowed == 0 && !(topic->asked_us && now_us - topic->asked_us < ASK_AGAIN_US)) {
            topic->asked_us = now_us;
            if (dt_room_want(l->env->room, l->shard, name))
                topic->since_us = now_us;
        }
    }
}
