/* The set-up of the suites of the fair queues. Redis' held sets, MySQL's topics and the gate are fakes; fair.c and
 * shard_memory.c are the real ones. A job's id tells its queue: 10,000 times the number of its topic, and from 5,000 on
 * it waits for its acknowledgement. Everything is static, or in the place of a function of the product: a suite
 * includes this once. */
#pragma once

#include "support/suite.h"

#include "unit/dispatcher/shard/plain_topics.h"

#define BATCH    100
#define SCAN     (DT_SCAN_BATCHES * BATCH)
#define TOPICS   100
#define TIMEOUTS 5000
#define SECOND   INT64_C(1000000)

struct held_set {
    char name[DT_HELD_NAME_SIZE];
    size_t n;
    int64_t ids[SCAN];
};

static struct {
    int64_t mono_us;
    struct held_set *sets; /* TOPICS of them, as they are parked */
    size_t n_sets;
    struct held_set *given; /* what was asked back, and how much: n; none is there: next_ms says 0 */
    size_t n_given;
    int64_t next_ms; /* what unhold says of what remains */
    bool refuse_hold, refuse_unhold, refuse_held;
    const char *listed[TOPICS];
    size_t n_listed;
    unsigned held_asked, topics_read, topics_asked, ids_asked;
    bool paused[TOPICS], closed[TOPICS], unknown[TOPICS], orphan[TOPICS];
} fake;

static char names[TOPICS][8];

static inline struct dt_str topic_name(size_t number)
{
    snprintf(names[number], sizeof names[number], "t%02zu", number);
    return dt_str(names[number]);
}

static inline size_t number_of(struct dt_str name)
{
    return (size_t)((name.p[1] - '0') * 10 + name.p[2] - '0');
}

static inline int64_t mono_us(const dt_clock *)
{
    return fake.mono_us;
}

static const dt_clock hand_clock = {.mono_us = mono_us};

dt_status dt_index_hold(dt_index *, unsigned, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    if (fake.refuse_hold)
        return dt_fail(err, DT_UNAVAILABLE, "read-only");
    struct held_set *set = &fake.sets[fake.n_sets++];
    snprintf(set->name, sizeof set->name, "%.*s", (int)topic.n, topic.p);
    for (set->n = 0; set->n < n; set->n++)
        set->ids[set->n] = entries[set->n].id;
    return DT_OK;
}

dt_status dt_index_unhold(dt_index *, unsigned, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    if (fake.refuse_unhold)
        return dt_fail(err, DT_UNAVAILABLE, "read-only");
    struct held_set *set = &fake.given[fake.n_given++];
    snprintf(set->name, sizeof set->name, "%.*s", (int)topic.n, topic.p);
    set->n = limit;
    *next_ms = fake.next_ms;
    return DT_OK;
}

dt_status dt_index_held(dt_index *, unsigned, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    fake.held_asked++;
    if (fake.refuse_held)
        return dt_fail(err, DT_UNAVAILABLE, "away");
    *topics = dt_arena_alloc(arena, (fake.n_listed + 1) * sizeof **topics);
    for (*n = 0; *n < fake.n_listed; ++*n)
        (*topics)[*n] = dt_str(fake.listed[*n]);
    return DT_OK;
}

dt_status dt_store_read_topics(dt_store *, dt_topic_snapshot *, struct dt_error *)
{
    fake.topics_read++;
    return DT_OK;
}

dt_status dt_store_topics_of(dt_store *, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_topic_of *out,
                             struct dt_error *)
{
    fake.topics_asked++;
    fake.ids_asked += (unsigned)n;
    for (size_t i = 0; i < n; i++) {
        size_t number = (size_t)(ids[i] / 10000);
        assert_true(i == 0 || ids[i] > ids[i - 1]);
        out[i] = (struct dt_topic_of){.dispatched = ids[i] % 10000 >= TIMEOUTS};
        if (!fake.orphan[number])
            out[i].topic = dt_arena_copy(arena, topic_name(number));
    }
    return DT_OK;
}

struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *, struct dt_str topic)
{
    return topic.p ? topic : DT_STR_NONE;
}

bool dt_topic_snapshot_paused(const dt_topic_snapshot *, struct dt_str topic)
{
    return fake.paused[number_of(topic)];
}

enum dt_writable dt_delivery_writable(dt_delivery *, struct dt_str kafka_topic, int64_t, int64_t bytes)
{
    assert_int_equal(bytes, 0);
    size_t number = number_of(kafka_topic);
    return fake.closed[number] ? DT_WRITABLE_NO : fake.unknown[number] ? DT_WRITABLE_UNKNOWN : DT_WRITABLE_YES;
}

struct rig {
    struct dt_config config;
    struct dt_process_env env;
    dt_shard_loop loop;
    size_t n; /* entries of this due scan */
    bool remainder;
};

static inline void make(struct rig *rig)
{
    memset(&fake, 0, sizeof fake);
    fake.sets = calloc(TOPICS * 2, sizeof *fake.sets);
    fake.given = calloc(TOPICS * 2, sizeof *fake.given);
    fake.mono_us = 1000 * SECOND;
    rig->config.dispatch_batch_jobs = BATCH;
    rig->env = (struct dt_process_env){.config = &rig->config, .clock = &hand_clock};
    rig->loop.env = &rig->env;
    rig->loop.trust.up = true;
    rig->loop.due.entries = calloc(SCAN, sizeof *rig->loop.due.entries);
    rig->loop.fair.hints = calloc(BATCH, sizeof *rig->loop.fair.hints);
}

static inline void clear(struct rig *rig)
{
    dt_topic_memory_clear(&rig->loop.fair.memory);
    dt_arena_clear(&rig->loop.fair.arena);
    dt_id_set_clear(&rig->loop.unknown.ids);
    free(rig->loop.fair.v);
    free(rig->loop.fair.open);
    free(rig->loop.due.entries);
    free(rig->loop.fair.hints);
    free(fake.sets);
    free(fake.given);
}

/* n more entries of a queue are due: its first+1st, at `due` and each a millisecond later. */
static inline void due(struct rig *rig, size_t topic, size_t first, size_t n, int64_t due_ms)
{
    for (size_t i = 0; i < n; i++)
        rig->loop.due.entries[rig->n++] =
            (struct dt_entry){.id = (int64_t)(topic * 10000 + first + i), .due_ms = due_ms + (int64_t)i};
    assert_in_range(rig->n, 0, SCAN);
}

static inline int by_due(const void *a, const void *b)
{
    const struct dt_entry *x = a, *y = b;
    int64_t d = x->due_ms != y->due_ms ? x->due_ms - y->due_ms : x->id - y->id;
    return (d > 0) - (d < 0);
}

static inline void due_scan(struct rig *rig)
{
    struct dt_error err = {0};
    qsort(rig->loop.due.entries, rig->n, sizeof *rig->loop.due.entries, by_due);
    rig->loop.fair.n_hints = fake.n_sets = 0;
    assert_int_equal(dt_shard_hint_fairly(&rig->loop, rig->n, &rig->remainder, &err), DT_OK);
    rig->n = 0;
}

/* So many of the hints are of the queue, its first ones and in order. */
static inline size_t hints_of(const struct rig *rig, size_t topic, size_t first)
{
    size_t n = 0;
    bool timeouts = first >= TIMEOUTS;
    for (size_t i = 0; i < rig->loop.fair.n_hints; i++) {
        int64_t id = rig->loop.fair.hints[i].id;
        if (id / 10000 == (int64_t)topic && (id % 10000 >= TIMEOUTS) == timeouts)
            assert_int_equal(id, topic * 10000 + first + n++);
    }
    return n;
}

static inline const struct held_set *parked(const char *name)
{
    for (size_t i = 0; i < fake.n_sets; i++)
        if (strcmp(fake.sets[i].name, name) == 0)
            return &fake.sets[i];
    return NULL;
}

static inline size_t n_parked(const char *name)
{
    return parked(name) ? parked(name)->n : 0;
}

static inline const struct dt_held_queue *held(const struct rig *rig, const char *name)
{
    for (size_t i = 0; i < rig->loop.fair.n; i++)
        if (strcmp(rig->loop.fair.v[i].name, name) == 0)
            return &rig->loop.fair.v[i];
    return NULL;
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, make, clear)
