/*
 * Who goes first when more is due than a batch, and what happens to the others meanwhile.
 *
 * Each topic is a lane, and its acknowledgements that did not come in time are another one. While all that is due fits
 * into two batches nobody asks for lanes: due jobs leave in order of next_at. Beyond that a look takes several batches,
 * asks MySQL which lane each entry belongs to (once: lane_memory.h), gives each lane an equal part of the next batch,
 * in order of next_at, and parks what a lane has too much of in its held set, so that what is behind it comes to light.
 * From then on the lane gets its part from its held set:
 *
 *             too much (below), closed,                              its part of each batch
 *   due set ───── or the lane has a held set ──────▶ held:<lane> ────── while it is open ──────▶ due set
 *
 * Too much is more than a batch, or, when the look came to its limit, more than a lane's equal part of one: many lanes
 * together stand before others, too.
 *
 * A lane is closed while its topic is paused or cannot be written; timeouts are never closed. Parking costs a job one
 * move there and one back, however many wait.
 *
 * Invariants: within a lane jobs leave in order of next_at: what is due of a lane that has a held set goes there,
 * behind the others, but for as many as were just given back. Held sets are hints like the set itself: they are listed
 * anew by every leadership and every few seconds.
 */
#include <stdlib.h>

#include "base/log.h"
#include "fair.h"
#include "shard_parts.h"

#define HELD_US         INT64_C(5000000) /* held sets are listed this often without being told */
#define LANES_AT_ONCE   8                /* so many get something back at one look */
#define PARKS_AT_ONCE   64               /* so many are parked at one look */
#define UNKNOWN_AT_ONCE 16               /* of so many topics that are still being looked up one job is tried */

/* ---- lanes that have a held set ---- */

static struct dt_lane *find_lane(struct dt_lanes *lanes, struct dt_str name)
{
    for (size_t i = 0; i < lanes->n; i++)
        if (dt_str_is(name, lanes->v[i].name))
            return &lanes->v[i];
    return NULL;
}

static bool is_timeouts(struct dt_str name)
{
    return name.n && name.p[name.n - 1] == DT_HELD_TIMEOUTS[0];
}

/* May the jobs of a topic go, as far as this thread knows? */
static enum dt_writable topic_writable(dt_shard_loop *l, struct dt_str topic)
{
    struct dt_str kafka_topic = dt_topic_book_kafka_topic(l->book, topic);
    return kafka_topic.p && !dt_topic_book_paused(l->book, topic) ? dt_delivery_writable(l->delivery, kafka_topic, 0)
                                                                  : DT_WRITABLE_NO;
}

static bool topic_open(dt_shard_loop *l, struct dt_str topic)
{
    return topic_writable(l, topic) != DT_WRITABLE_NO;
}

void dt_shard_note_held(dt_shard_loop *l, struct dt_str name, bool open)
{
    struct dt_lanes *lanes = &l->lanes;
    struct dt_lane *known = find_lane(lanes, name);
    if (known)
        known->open = open;
    if (known || name.n >= sizeof(lanes->v->name))
        return;
    if (lanes->n == lanes->cap) {
        size_t cap = lanes->cap ? lanes->cap * 2 : 16;
        struct dt_lane *v = realloc(lanes->v, cap * sizeof(*v));
        if (!v)
            return; /* met again when they are listed */
        lanes->v = v;
        lanes->cap = cap;
    }
    struct dt_lane *lane = &lanes->v[lanes->n++];
    *lane = (struct dt_lane){.open = open};
    memcpy(lane->name, name.p, name.n);
}

static void drop_lane(struct dt_lanes *lanes, size_t i)
{
    lanes->v[i] = lanes->v[--lanes->n];
}

bool dt_shard_lanes_wait(const dt_shard_loop *l)
{
    for (size_t i = 0; i < l->lanes.n; i++)
        if (l->lanes.v[i].open)
            return true;
    return false;
}

/* Of a topic that cannot be written, or that nobody knows, only the first entry comes back, so that the topic is asked
 * for again: all of them would only be held again. */
static void try_closed(dt_shard_loop *l)
{
    struct dt_error err;
    int64_t next_ms;
    for (size_t i = 0; i < l->lanes.n; i++) {
        const struct dt_lane *lane = &l->lanes.v[i];
        if (!lane->open && !dt_topic_book_paused(l->book, dt_str(lane->name)) &&
            dt_index_unhold(l->index, l->shard, dt_str(lane->name), 1, &next_ms, &err) != DT_OK)
            return;
    }
}

void dt_shard_look_at_held(dt_shard_loop *l)
{
    struct dt_error err = {0};
    struct dt_str *names;
    size_t n = 0;
    if (!l->index_up || (!l->topics_changed && dt_shard_mono_us(l) - l->held_us < HELD_US))
        return;
    dt_arena_reset(&l->lanes.arena);
    dt_status status = dt_index_held(l->index, l->shard, &l->lanes.arena, &names, &n, &err);
    if (status == DT_OK && n)
        status = dt_store_read_topics(l->store, l->book, &err);
    if (status != DT_OK)
        return; /* again at the next look */
    l->topics_changed = false;
    l->held_us = dt_shard_mono_us(l);
    l->lanes.n = 0;
    for (size_t i = 0; i < n; i++)
        dt_shard_note_held(l, names[i], is_timeouts(names[i]) || topic_open(l, names[i]));
    try_closed(l);
}

/* ---- giving back ---- */

/* Those whose turn it is: up to LANES_AT_ONCE open ones, the first of them another one at each look. */
static size_t whose_turn(struct dt_lanes *lanes, struct dt_fair_lane *parts, size_t *which, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < lanes->n; i++)
        lanes->v[i].given = 0;
    for (size_t i = 0; i < lanes->n && n < LANES_AT_ONCE; i++) {
        size_t at = (lanes->turn + i) % lanes->n;
        if (!lanes->v[at].open)
            continue;
        parts[n] = (struct dt_fair_lane){.waiting = room, .timeouts = is_timeouts(dt_str(lanes->v[at].name))};
        which[n++] = at;
    }
    if (n)
        lanes->turn = which[0] + 1;
    dt_fair_share(parts, n, room);
    return n;
}

/* The room of a batch that what is not held left free at the last look, half of it at least. */
void dt_shard_give_back(dt_shard_loop *l)
{
    struct dt_lanes *lanes = &l->lanes;
    struct dt_fair_lane parts[LANES_AT_ONCE];
    size_t which[LANES_AT_ONCE];
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    size_t room = lanes->others < batch / 2 ? batch - lanes->others : batch - batch / 2;
    size_t n = whose_turn(lanes, parts, which, room);
    for (size_t i = 0; i < n; i++) {
        struct dt_lane *lane = &lanes->v[which[i]];
        struct dt_error err;
        lane->given = parts[i].quota;
        if (lane->given &&
            dt_index_unhold(l->index, l->shard, dt_str(lane->name), lane->given, &lane->next_ms, &err) != DT_OK) {
            lane->given = 0; /* the look will tell */
            break;
        }
    }
    for (size_t i = lanes->n; i-- > 0;)
        if (lanes->v[i].given && lanes->v[i].next_ms == 0)
            drop_lane(lanes, i);
}

/* ---- which lane is whose ---- */

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static bool same_lane(const struct dt_queue *queue, const struct dt_topic_of *of)
{
    return queue->timeouts == of->dispatched && (queue->topic.p == of->topic.p || dt_str_eq(queue->topic, of->topic));
}

static size_t hash(const struct dt_topic_of *of)
{
    return dt_str_hash(of->topic) ^ (of->dispatched ? 0x9e3779b9u : 0);
}

/* Where a lane stands, or would. slots: n_slots (a power of two), places among the queues + 1. */
static size_t slot_of(const struct dt_lanes *lanes, const uint32_t *slots, size_t n_slots, const struct dt_topic_of *of)
{
    size_t at = hash(of) & (n_slots - 1);
    while (slots[at] && !same_lane(&lanes->queues[slots[at] - 1], of))
        at = (at + 1) & (n_slots - 1);
    return at;
}

/* The place of a lane among those of this look; a new one at the end. */
static uint32_t place_of(struct dt_lanes *lanes, uint32_t *slots, size_t n_slots, const struct dt_topic_of *of)
{
    size_t at = slot_of(lanes, slots, n_slots, of);
    if (!slots[at]) {
        lanes->queues[lanes->n_queues] =
            (struct dt_queue){.topic = of->topic, .timeouts = of->dispatched, .hash = hash(of)};
        slots[at] = (uint32_t)++lanes->n_queues;
    }
    return slots[at] - 1;
}

static void find_own(struct dt_lanes *lanes, const uint32_t *slots, size_t n_slots)
{
    for (size_t i = 0; i < lanes->n_queues; i++) {
        const struct dt_topic_of own = {.topic = lanes->queues[i].topic};
        size_t at = lanes->queues[i].timeouts ? slot_of(lanes, slots, n_slots, &own) : 0;
        if (lanes->queues[i].timeouts && slots[at])
            lanes->queues[i].own = &lanes->queues[slots[at] - 1];
    }
}

/*
 * What was given back to a lane need not be what it may send: some of it was moved meanwhile, or is a hint that nobody
 * has taken away, of a job that was claimed. So its part ends where what is held still begins; of what is due at the
 * very same millisecond, where as many entries of its topic have been met as came back.
 */
static void end_parts(dt_shard_loop *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dt_queue *queue = &l->lanes.queues[l->lanes.of[i]];
        struct dt_queue *own = queue->timeouts ? queue->own : queue;
        int64_t due_ms = l->entries[i].due_ms;
        bool counts = !queue->timeouts || queue->met++ >= queue->given;
        if (!own || !counts || due_ms > own->next_ms || (due_ms == own->next_ms && own->met >= own->given))
            continue;
        own->met++;
        own->may += own == queue;
    }
}

static dt_status make_room(struct dt_lanes *lanes, size_t n, size_t n_slots, uint32_t **slots)
{
    dt_arena_reset(&lanes->arena);
    lanes->n_queues = 0;
    lanes->of = dt_arena_alloc(&lanes->arena, n * sizeof(*lanes->of));
    lanes->queues = dt_arena_alloc(&lanes->arena, n * sizeof(*lanes->queues));
    lanes->parts = dt_arena_alloc(&lanes->arena, n * sizeof(*lanes->parts));
    *slots = dt_arena_alloc(&lanes->arena, n_slots * sizeof(**slots));
    if (!lanes->of || !lanes->queues || !lanes->parts || !*slots)
        return DT_NOMEM;
    memset(*slots, 0, n_slots * sizeof(**slots));
    return DT_OK;
}

static void see_queues(dt_shard_loop *l)
{
    for (size_t i = 0; i < l->lanes.n_queues; i++) {
        struct dt_queue *queue = &l->lanes.queues[i];
        char name[DT_HELD_NAME_SIZE];
        const struct dt_lane *lane = find_lane(&l->lanes, dt_held_name(queue->topic, queue->timeouts, name));
        queue->held = lane != NULL;
        queue->given = lane ? lane->given : 0;
        queue->next_ms = queue->given ? lane->next_ms : 0;
        if (queue->timeouts || !dt_topic_book_kafka_topic(l->book, queue->topic).p)
            continue;
        enum dt_writable writable = topic_writable(l, queue->topic);
        queue->closed = writable == DT_WRITABLE_NO;
        queue->unknown = writable == DT_WRITABLE_UNKNOWN;
    }
}

/* The topics of ids[n), ascending: what is remembered, and for the others MySQL is asked. What queues up by its
 * acknowledgement is asked for each time. */
static dt_status topics_of(dt_shard_loop *l, const int64_t *ids, size_t n, struct dt_topic_of *out,
                           struct dt_error *err)
{
    struct dt_lanes *lanes = &l->lanes;
    int64_t *asked = dt_arena_alloc(&lanes->arena, n * sizeof(*asked));
    struct dt_topic_of *found = dt_arena_alloc(&lanes->arena, n * sizeof(*found));
    size_t n_asked = 0;
    size_t at = 0;
    if (!asked || !found)
        return dt_fail(err, DT_NOMEM, "lanes");
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct dt_topic_of){0};
        if (!dt_lane_memory_find(&lanes->memory, ids[i], &out[i].topic))
            asked[n_asked++] = ids[i];
    }
    if (n_asked == 0)
        return DT_OK;
    dt_status status = dt_store_topics_of(l->store, asked, n_asked, &lanes->arena, found, err);
    for (size_t i = 0; status == DT_OK && i < n && at < n_asked; i++) {
        if (ids[i] != asked[at])
            continue;
        out[i] = found[at++];
        if (out[i].topic.p && !out[i].dispatched)
            dt_lane_memory_note(&lanes->memory, ids[i], out[i].topic);
    }
    return status;
}

dt_status dt_shard_sort_lanes(dt_shard_loop *l, size_t n, struct dt_error *err)
{
    struct dt_lanes *lanes = &l->lanes;
    uint32_t *slots;
    size_t n_slots = 16;
    while (n_slots < 2 * n)
        n_slots *= 2;
    dt_status status = make_room(lanes, n, n_slots, &slots);
    int64_t *ids = dt_arena_alloc(&lanes->arena, n * sizeof(*ids));
    struct dt_topic_of *topics = dt_arena_alloc(&lanes->arena, n * sizeof(*topics));
    if (status != DT_OK || !ids || !topics)
        return dt_fail(err, DT_NOMEM, "lanes");
    for (size_t i = 0; i < n; i++)
        ids[i] = l->entries[i].id;
    qsort(ids, n, sizeof(*ids), by_number);
    status = topics_of(l, ids, n, topics, err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const int64_t *at = bsearch(&l->entries[i].id, ids, n, sizeof(*ids), by_number);
        lanes->of[i] = place_of(lanes, slots, n_slots, &topics[at - ids]);
        lanes->queues[lanes->of[i]].waiting++;
    }
    if (status != DT_OK)
        return status;
    find_own(lanes, slots, n_slots);
    see_queues(l);
    return DT_OK;
}

/* ---- sharing out ---- */

static size_t at_most(const struct dt_queue *queue, bool held_sets)
{
    size_t most = queue->waiting;
    if (queue->closed)
        most = 1; /* that one finds out whether the topic can be written again */
    else if (held_sets && queue->held)
        most = queue->timeouts ? queue->given : queue->may;
    return most < queue->waiting ? most : queue->waiting;
}

void dt_shard_share(dt_shard_loop *l, bool held_sets)
{
    struct dt_lanes *lanes = &l->lanes;
    size_t unknown = 0;
    for (size_t i = 0; i < lanes->n_queues; i++) {
        const struct dt_queue *queue = &lanes->queues[i];
        lanes->parts[i] = (struct dt_fair_lane){.waiting = at_most(queue, held_sets), .timeouts = queue->timeouts};
        if (queue->unknown) /* nothing of it can go yet, and there may be more of them than there is room */
            lanes->parts[i].waiting = unknown++ < UNKNOWN_AT_ONCE;
    }
    dt_fair_share(lanes->parts, lanes->n_queues, (size_t)l->env->config->dispatch_batch_jobs);
}

/* The entries of one lane that did not get a place, to its held set. */
static dt_status park_one(dt_shard_loop *l, size_t which, const struct dt_entry *entries, size_t n,
                          struct dt_error *err)
{
    const struct dt_queue *queue = &l->lanes.queues[which];
    char name[DT_HELD_NAME_SIZE];
    struct dt_str held = dt_held_name(queue->topic, queue->timeouts, name);
    dt_status status = dt_index_hold(l->index, l->shard, held, entries, n, err);
    if (status == DT_OK)
        dt_shard_note_held(l, held, !queue->closed);
    return status;
}

/* So many of a lane may stay in the due set. */
static size_t may_stay(const dt_shard_loop *l, bool limit)
{
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    size_t lanes = l->lanes.n_queues < PARKS_AT_ONCE ? l->lanes.n_queues : PARKS_AT_ONCE;
    return limit && lanes ? batch / lanes : batch;
}

/* left: those that did not get a place, lane by lane; those of lane i end where lanes->parts[i].waiting says. True: all
 * of them are parked. */
static bool park(dt_shard_loop *l, const struct dt_entry *left, size_t stay)
{
    struct dt_lanes *lanes = &l->lanes;
    struct dt_error err = {0};
    dt_status status = DT_OK;
    size_t from = 0;
    size_t parks = 0;
    bool all = true;
    for (size_t i = 0; status == DT_OK && i < lanes->n_queues; i++) {
        const struct dt_queue *queue = &lanes->queues[i];
        size_t n = lanes->parts[i].waiting - from;
        bool too_many = queue->closed || queue->held || n > stay;
        if (n && too_many && queue->topic.p && parks < PARKS_AT_ONCE) {
            status = park_one(l, i, left + from, n, &err);
            parks++;
        } else if (n)
            all = false;
        from = lanes->parts[i].waiting;
    }
    if (status == DT_OK)
        return all;
    DT_LOG(DEBUG, "shard", "nothing was parked", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->marked_us = 0; /* does the index take any change? */
    dt_shard_pass_by_index(l);
    return false;
}

/* Takes what got a place; what is left is brought together lane by lane. */
static size_t take(dt_shard_loop *l, size_t n, struct dt_entry *left)
{
    struct dt_lanes *lanes = &l->lanes;
    size_t end = 0;
    for (size_t i = 0; i < lanes->n_queues; i++) {
        size_t begin = end;
        end += lanes->queues[i].waiting - lanes->parts[i].quota;
        lanes->parts[i].waiting = begin; /* from now on: where its next one goes */
    }
    lanes->others = 0;
    for (size_t i = 0; i < n; i++) {
        struct dt_fair_lane *part = &lanes->parts[lanes->of[i]];
        if (part->quota == 0) {
            left[part->waiting++] = l->entries[i];
            continue;
        }
        part->quota--;
        lanes->others += !lanes->queues[lanes->of[i]].held;
        dt_lane_memory_forget(&lanes->memory, l->entries[i].id);
        l->hints[l->n_hints++] = (struct dt_hint){l->entries[i].id, l->entries[i].due_ms};
    }
    return end;
}

dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *rest, struct dt_error *err)
{
    dt_status status = dt_shard_sort_lanes(l, n, err);
    struct dt_entry *left = status == DT_OK ? dt_arena_alloc(&l->lanes.arena, n * sizeof(*left)) : NULL;
    if (status != DT_OK)
        return status;
    if (!left)
        return dt_fail(err, DT_NOMEM, "lanes");
    end_parts(l, n);
    dt_shard_share(l, true);
    size_t limit = DT_LOOK_BATCHES * (size_t)l->env->config->dispatch_batch_jobs;
    *rest = take(l, n, left) > 0 && !park(l, left, may_stay(l, n == limit));
    return DT_OK;
}
