/*
 * Who goes first when more is due than a batch, and what is parked meanwhile. Redis' held sets, MySQL's topics and the
 * gate are fakes; fair.c and topic_memory.c are the real ones. A job's id tells its queue: 10,000 times the number of
 * its topic, and from 5,000 on it waits for its acknowledgement.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "shard/shard_parts.h"

#define BATCH    100
#define SCAN     (DT_SCAN_BATCHES * BATCH)
#define TOPICS   100
#define TIMEOUTS 5000
#define SECOND   INT64_C(1000000)

/* ---- Redis, MySQL and the gate ---- */

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

static struct dt_str topic_name(size_t number)
{
    snprintf(names[number], sizeof names[number], "t%02zu", number);
    return dt_str(names[number]);
}

static size_t number_of(struct dt_str name)
{
    return (size_t)((name.p[1] - '0') * 10 + name.p[2] - '0');
}

static int64_t mono_us(const dt_clock *clock)
{
    (void)clock;
    return fake.mono_us;
}

static const dt_clock hand_clock = {.mono_us = mono_us};

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    (void)index, (void)shard;
    if (fake.refuse_hold)
        return dt_fail(err, DT_UNAVAILABLE, "read-only");
    struct held_set *set = &fake.sets[fake.n_sets++];
    snprintf(set->name, sizeof set->name, "%.*s", (int)topic.n, topic.p);
    for (set->n = 0; set->n < n; set->n++)
        set->ids[set->n] = entries[set->n].id;
    return DT_OK;
}

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    (void)index, (void)shard;
    if (fake.refuse_unhold)
        return dt_fail(err, DT_UNAVAILABLE, "read-only");
    struct held_set *set = &fake.given[fake.n_given++];
    snprintf(set->name, sizeof set->name, "%.*s", (int)topic.n, topic.p);
    set->n = limit;
    *next_ms = fake.next_ms;
    return DT_OK;
}

dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    (void)index, (void)shard;
    fake.held_asked++;
    if (fake.refuse_held)
        return dt_fail(err, DT_UNAVAILABLE, "away");
    *topics = dt_arena_alloc(arena, (fake.n_listed + 1) * sizeof **topics);
    for (*n = 0; *n < fake.n_listed; ++*n)
        (*topics)[*n] = dt_str(fake.listed[*n]);
    return DT_OK;
}

dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err)
{
    (void)store, (void)snapshot, (void)err;
    fake.topics_read++;
    return DT_OK;
}

dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                             struct dt_topic_of *out, struct dt_error *err)
{
    (void)store, (void)err;
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

bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return false;
}

enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return DT_DELIVERY_KAFKA;
}

const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return NULL;
}

size_t dt_hands_claims_room(dt_hands_claims *claims, struct dt_str topic, const struct dt_topic_callback *callback)
{
    (void)claims;
    (void)topic;
    (void)callback;
    return 0;
}

struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    return topic.p ? topic : DT_STR_NONE;
}

bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    return fake.paused[number_of(topic)];
}

enum dt_writable dt_delivery_writable(void *arg, struct dt_str kafka_topic, int64_t bytes)
{
    (void)arg;
    assert_int_equal(bytes, 0);
    size_t number = number_of(kafka_topic);
    return fake.closed[number] ? DT_WRITABLE_NO : fake.unknown[number] ? DT_WRITABLE_UNKNOWN : DT_WRITABLE_YES;
}

void dt_shard_mark_soon(dt_shard_loop *l)
{
    l->trust.marked_us = 0;
}

/* ---- a loop ---- */

struct rig {
    struct dt_config config;
    struct dt_loop_env env;
    dt_shard_loop loop;
    size_t n; /* entries of this due scan */
    bool remainder;
};

static int make(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    memset(&fake, 0, sizeof fake);
    fake.sets = calloc(TOPICS * 2, sizeof *fake.sets);
    fake.given = calloc(TOPICS * 2, sizeof *fake.given);
    fake.mono_us = 1000 * SECOND;
    rig->config.dispatch_batch_jobs = BATCH;
    rig->env = (struct dt_loop_env){.config = &rig->config, .clock = &hand_clock};
    rig->loop.env = &rig->env;
    rig->loop.trust.up = true;
    rig->loop.due.entries = calloc(SCAN, sizeof *rig->loop.due.entries);
    rig->loop.fair.hints = calloc(BATCH, sizeof *rig->loop.fair.hints);
    dt_arena_init(&rig->loop.fair.arena);
    *state = rig;
    return 0;
}

static int clear(void **state)
{
    struct rig *rig = *state;
    dt_topic_memory_clear(&rig->loop.fair.memory);
    dt_arena_clear(&rig->loop.fair.arena);
    free(rig->loop.fair.v);
    free(rig->loop.due.entries);
    free(rig->loop.fair.hints);
    free(fake.sets);
    free(fake.given);
    free(rig);
    return 0;
}

/* n more entries of a queue are due: its first+1st, at `due` and each a millisecond later. */
static void due(struct rig *rig, size_t topic, size_t first, size_t n, int64_t due_ms)
{
    for (size_t i = 0; i < n; i++)
        rig->loop.due.entries[rig->n++] =
            (struct dt_entry){.id = (int64_t)(topic * 10000 + first + i), .due_ms = due_ms + (int64_t)i};
    assert_in_range(rig->n, 0, SCAN);
}

static int by_due(const void *a, const void *b)
{
    const struct dt_entry *x = a, *y = b;
    int64_t d = x->due_ms != y->due_ms ? x->due_ms - y->due_ms : x->id - y->id;
    return (d > 0) - (d < 0);
}

static void due_scan(struct rig *rig)
{
    struct dt_error err = {0};
    qsort(rig->loop.due.entries, rig->n, sizeof *rig->loop.due.entries, by_due);
    rig->loop.fair.n_hints = fake.n_sets = 0;
    assert_int_equal(dt_shard_hint_fairly(&rig->loop, rig->n, &rig->remainder, &err), DT_OK);
    rig->n = 0;
}

/* So many of the hints are of the queue, its first ones and in order. */
static size_t hints_of(const struct rig *rig, size_t topic, size_t first)
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

static const struct held_set *parked(const char *name)
{
    for (size_t i = 0; i < fake.n_sets; i++)
        if (strcmp(fake.sets[i].name, name) == 0)
            return &fake.sets[i];
    return NULL;
}

static size_t n_parked(const char *name)
{
    return parked(name) ? parked(name)->n : 0;
}

static const struct dt_held_queue *held(const struct rig *rig, const char *name)
{
    for (size_t i = 0; i < rig->loop.fair.n; i++)
        if (strcmp(rig->loop.fair.v[i].name, name) == 0)
            return &rig->loop.fair.v[i];
    return NULL;
}

/* ---- sharing out ---- */

static void each_topic_gets_an_equal_part_in_order_of_time(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 300, 1000); /* long due */
    due(rig, 2, 0, 60, 5000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
    assert_int_equal(hints_of(rig, 1, 0), BATCH / 2);
    assert_int_equal(hints_of(rig, 2, 0), BATCH / 2);
}

static void what_a_topic_does_not_need_goes_to_the_others(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 300, 1000);
    due(rig, 2, 0, 10, 5000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), BATCH - 10);
    assert_int_equal(hints_of(rig, 2, 0), 10);
    assert_int_equal(rig->loop.fair.others, BATCH);
}

static void timeouts_queue_up_by_themselves_and_get_a_quarter(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, TIMEOUTS, 200, 1000);
    due(rig, 1, 0, 200, 3000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH / 4);
    assert_int_equal(hints_of(rig, 1, 0), BATCH - BATCH / 4);
}

/* However many there are, and however long they are due. */
static void topics_that_are_being_looked_up_take_no_room_from_the_others(void **state)
{
    struct rig *rig = *state;
    size_t tried = 0;
    for (size_t topic = 2; topic < 60; topic++) {
        fake.unknown[topic] = true;
        due(rig, topic, 0, 4, 1000);
    }
    due(rig, 1, 0, 300, 5000);
    due_scan(rig);
    for (size_t topic = 2; topic < 60; topic++) {
        assert_in_range(hints_of(rig, topic, 0), 0, 1);
        tried += hints_of(rig, topic, 0);
        assert_int_equal(n_parked(topic_name(topic).p), 0); /* they may go soon */
    }
    assert_int_equal(tried, 16); /* so that somebody asks again */
    assert_int_equal(hints_of(rig, 1, 0), BATCH - 16);
    assert_true(rig->remainder);
}

/* ---- parking ---- */

static void more_than_a_batch_of_a_topic_is_parked_in_order_and_less_is_not(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 300, 1000);
    due(rig, 2, 0, 150, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 250);
    for (size_t i = 0; i < 250; i++)
        assert_int_equal(parked("t01")->ids[i], 10000 + 50 + i);
    assert_int_equal(n_parked("t02"), 0); /* a batch is left: it stays */
    assert_true(rig->remainder);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    assert_null(held(rig, "t02"));
    assert_true(dt_shard_parked_may_go(&rig->loop));
}

static void one_more_than_a_batch_is_too_much(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, BATCH / 2 + BATCH, 1000);
    due(rig, 2, 0, BATCH / 2 + BATCH + 1, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 0);
    assert_int_equal(n_parked("t02"), BATCH + 1);
}

static void when_all_the_rest_is_parked_nothing_that_may_go_is_left_where_it_is(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(n_parked("t01"), 200);
    assert_false(rig->remainder);
}

static void a_due_scan_that_came_to_its_limit_parks_what_is_more_than_a_queues_part(void **state)
{
    struct rig *rig = *state;
    for (size_t topic = 0; topic < 10; topic++)
        due(rig, topic, 0, SCAN / 10 - (topic == 0), 1000); /* one less than the limit */
    due_scan(rig);
    assert_int_equal(fake.n_sets, 0);
    for (size_t topic = 0; topic < 10; topic++)
        due(rig, topic, 0, SCAN / 10, 1000);
    due_scan(rig);
    assert_int_equal(fake.n_sets, 10);
    assert_int_equal(n_parked("t09"), SCAN / 10 - BATCH / 10);
}

static void at_most_so_many_queues_are_parked_at_one_due_scan(void **state)
{
    struct rig *rig = *state;
    for (size_t topic = 0; topic < TOPICS; topic++)
        due(rig, topic, 0, SCAN / TOPICS, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
    assert_int_equal(fake.n_sets, 64);
    assert_true(rig->remainder);
}

static void jobs_without_a_topic_are_never_parked(void **state)
{
    struct rig *rig = *state;
    fake.orphan[1] = true;
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(fake.n_sets, 0);
    assert_true(rig->remainder);
    assert_int_equal(rig->loop.fair.n_hints, BATCH);
}

static void where_nothing_can_be_parked_the_index_is_passed_by(void **state)
{
    struct rig *rig = *state;
    fake.refuse_hold = true;
    rig->loop.trust.marked_us = fake.mono_us;
    due(rig, 1, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, BATCH); /* these go all the same */
    assert_true(rig->remainder);
    assert_true(rig->loop.cursor.stuck);
    assert_int_equal(rig->loop.trust.marked_us, 0); /* does it take any change? */
    assert_int_equal(rig->loop.fair.n, 0);
}

/* ---- closed queues ---- */

static void of_a_topic_that_cannot_be_written_one_goes_and_the_others_are_parked(void **state)
{
    struct rig *rig = *state;
    fake.closed[1] = true;
    due(rig, 1, 0, 50, 1000);
    due(rig, 2, 0, 300, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 1);
    assert_int_equal(hints_of(rig, 2, 0), BATCH - 1);
    assert_int_equal(n_parked("t01"), 49);
    assert_true(dt_closed_rule(held(rig, "t01")->closed).holds);
}

static void a_paused_topic_is_closed_and_its_timeouts_are_not(void **state)
{
    struct rig *rig = *state;
    fake.paused[1] = true;
    due(rig, 1, 0, 50, 1000);
    due(rig, 1, TIMEOUTS, 300, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 1);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH - 1);
    assert_int_equal(n_parked("t01"), 49);
    assert_int_equal(n_parked("t01~"), 300 - (BATCH - 1));
    assert_int_equal(held(rig, "t01~")->closed, DT_CLOSED_NOT);
}

/* ---- queues with a held set ---- */

static void of_a_queue_with_a_held_set_only_what_was_given_back_goes(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.n_given, 1);
    assert_int_equal(fake.given[0].n, BATCH);
    due(rig, 1, 0, 40, 1000);  /* these came back: due before what is held still */
    due(rig, 1, 40, 30, 2001); /* newly due: behind them */
    due(rig, 2, 0, 10, 9000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 40);
    assert_int_equal(hints_of(rig, 2, 0), 10);
    assert_int_equal(n_parked("t01"), 30);
    assert_int_equal(rig->loop.fair.others, 10); /* so much room the held ones did not have */
}

static void at_the_millisecond_where_what_is_held_begins_as_many_go_as_came_back(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH - 20; /* half a batch is the least that it gets */
    fake.next_ms = 1000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.given[0].n, BATCH / 2);
    for (size_t i = 0; i < 80; i++)
        due(rig, 1, i, 1, 1000); /* all at once */
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), BATCH / 2);
    assert_int_equal(n_parked("t01"), 80 - BATCH / 2);
}

static void of_held_timeouts_as_many_go_as_came_back(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01~"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH;
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(fake.given[0].n, BATCH / 2);
    due(rig, 1, TIMEOUTS, BATCH / 2 + 10, 1000);
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), BATCH / 2);
    assert_int_equal(n_parked("t01~"), 10);
}

/* They stand in its due set, and came from elsewhere. */
static void timeouts_of_a_topic_are_none_of_the_jobs_that_it_got_back(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    rig->loop.fair.others = BATCH;
    fake.next_ms = 2000;
    dt_shard_give_back(&rig->loop);
    due(rig, 1, TIMEOUTS, 30, 1000);
    due(rig, 1, 0, 50, 1100);
    due(rig, 1, 50, 40, 2001); /* newly due */
    due_scan(rig);
    assert_int_equal(hints_of(rig, 1, 0), 50);
    assert_int_equal(n_parked("t01"), 40);
}

static void an_empty_held_set_is_none(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    dt_shard_note_held(&rig->loop, dt_str("t02"), DT_CLOSED_UNWRITABLE);
    dt_shard_note_held(&rig->loop, dt_str("t03"), DT_CLOSED_NOT);
    fake.next_ms = 0;
    dt_shard_give_back(&rig->loop);
    assert_null(held(rig, "t01"));
    assert_null(held(rig, "t03"));
    assert_non_null(held(rig, "t02")); /* a closed one got nothing, and stays */
    assert_int_equal(fake.n_given, 2);
    assert_false(dt_shard_parked_may_go(&rig->loop));
}

static void what_others_left_free_is_given_back_and_half_a_batch_at_least(void **state)
{
    struct rig *rig = *state;
    static const size_t others[] = {0, 10, 49, 50, 51, 99, 100};
    fake.next_ms = 7;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rig->loop.fair.others = others[i];
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        assert_int_equal(fake.given[0].n, others[i] < BATCH / 2 ? BATCH - others[i] : BATCH / 2);
    }
}

static void many_held_queues_take_turns_and_none_is_forgotten(void **state)
{
    enum { HELD = 30 };
    struct rig *rig = *state;
    size_t got[HELD] = {0};
    fake.next_ms = 7;
    for (size_t i = 0; i < HELD; i++)
        dt_shard_note_held(&rig->loop, topic_name(i), i % 5 ? DT_CLOSED_NOT : DT_CLOSED_PAUSED);
    assert_int_equal(rig->loop.fair.n, HELD);
    for (int round = 0; round < 60; round++) {
        fake.n_given = 0;
        dt_shard_give_back(&rig->loop);
        assert_int_equal(fake.n_given, 8);
        size_t sum = 0;
        for (size_t i = 0; i < fake.n_given; i++) {
            got[number_of(dt_str(fake.given[i].name))]++;
            sum += fake.given[i].n;
        }
        assert_int_equal(sum, BATCH);
    }
    for (size_t i = 0; i < HELD; i++)
        if (i % 5 == 0)
            assert_int_equal(got[i], 0);
        else
            assert_in_range(got[i], 15, 25); /* 480 among 24 */
}

static void where_nothing_is_given_back_nothing_is_counted_on(void **state)
{
    struct rig *rig = *state;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    fake.refuse_unhold = true;
    dt_shard_give_back(&rig->loop);
    assert_int_equal(held(rig, "t01")->given, 0);
    due(rig, 1, 0, 30, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, 0);
    assert_int_equal(n_parked("t01"), 30);
}

static void a_queue_is_noted_once_and_as_it_is_now(void **state)
{
    struct rig *rig = *state;
    char longest[DT_HELD_NAME_SIZE + 1];
    memset(longest, 'x', sizeof longest);
    for (int i = 0; i < 3; i++)
        dt_shard_note_held(&rig->loop, dt_str("t01"), i % 2 ? DT_CLOSED_PAUSED : DT_CLOSED_NOT);
    assert_int_equal(rig->loop.fair.n, 1);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_UNWRITABLE);
    assert_false(dt_shard_parked_may_go(&rig->loop));
    dt_shard_note_held(&rig->loop, (struct dt_str){longest, DT_HELD_NAME_SIZE}, DT_CLOSED_NOT); /* no name of ours */
    assert_int_equal(rig->loop.fair.n, 1);
}

/* ---- listing held sets ---- */

static void held_sets_are_listed_when_topics_changed_and_every_five_seconds(void **state)
{
    struct rig *rig = *state;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    assert_int_equal(fake.topics_read, 0); /* there are none */
    fake.mono_us += 5 * SECOND - 1;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    fake.mono_us += 1;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 2);
    rig->loop.fair.topics_changed = true;
    dt_shard_list_held(&rig->loop);
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 3);
}

static void without_redis_nothing_is_listed_and_what_failed_is_tried_at_the_next_due_scan(void **state)
{
    struct rig *rig = *state;
    rig->loop.fair.topics_changed = true;
    rig->loop.trust.up = false;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 0);
    rig->loop.trust.up = true;
    fake.refuse_held = true;
    dt_shard_note_held(&rig->loop, dt_str("t01"), DT_CLOSED_NOT);
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 1);
    assert_true(rig->loop.fair.topics_changed);
    assert_non_null(held(rig, "t01")); /* what was known stays */
    fake.refuse_held = false;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.held_asked, 2);
    assert_false(rig->loop.fair.topics_changed);
    assert_null(held(rig, "t01"));
}

static void what_is_held_is_open_unless_paused_or_closed_and_timeouts_always_are(void **state)
{
    struct rig *rig = *state;
    static const char *const listed[] = {"t01", "t02", "t03", "t02~", "t03~"};
    memcpy(fake.listed, listed, sizeof listed);
    fake.n_listed = 5;
    fake.paused[2] = fake.closed[3] = true;
    rig->loop.fair.topics_changed = true;
    dt_shard_list_held(&rig->loop);
    assert_int_equal(fake.topics_read, 1);
    assert_int_equal(held(rig, "t01")->closed, DT_CLOSED_NOT);
    assert_true(dt_closed_rule(held(rig, "t02")->closed).holds);
    assert_true(dt_closed_rule(held(rig, "t03")->closed).holds);
    assert_int_equal(held(rig, "t02~")->closed, DT_CLOSED_NOT);
    assert_int_equal(held(rig, "t03~")->closed, DT_CLOSED_NOT);
    assert_int_equal(fake.n_given, 1); /* one of the topic that cannot be written finds out whether it can again */
    assert_string_equal(fake.given[0].name, "t03");
    assert_int_equal(fake.given[0].n, 1);
}

/* ---- whose queue ---- */

static void a_topic_and_its_timeouts_are_two_queues_whatever_their_hashes(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    for (size_t first = 0; first + 4 <= TOPICS; first++) {
        rig->n = 0;
        for (size_t topic = first; topic < first + 4; topic++) {
            due(rig, topic, 0, 1, 1000);
            due(rig, topic, TIMEOUTS, 1, 1000);
        }
        assert_int_equal(dt_shard_sort_queues(&rig->loop, rig->n, &err), DT_OK);
        assert_int_equal(rig->loop.fair.n_queues, 8);
        for (size_t i = 0; i < 8; i++) {
            const struct dt_due_queue *queue = &rig->loop.fair.queues[i];
            assert_int_equal(queue->waiting, 1);
            assert_true(!queue->timeouts ||
                        (queue->own && !queue->own->timeouts && dt_str_eq(queue->own->topic, queue->topic)));
        }
    }
}

static void mysql_is_asked_once_for_a_jobs_topic_while_it_waits_and_again_for_its_timeout(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 150, 1000);
    due(rig, 1, TIMEOUTS, 100, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 250);
    size_t went = hints_of(rig, 1, 0);
    due(rig, 1, went, 150 - went, 1000 + (int64_t)went);
    due(rig, 1, TIMEOUTS, 100, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 250 + 100);
    assert_int_equal(hints_of(rig, 1, TIMEOUTS), 25);
}

static void what_is_about_to_be_claimed_is_asked_for_again(void **state)
{
    struct rig *rig = *state;
    due(rig, 1, 0, 50, 1000);
    due(rig, 2, 0, 50, 1000);
    due_scan(rig);
    assert_int_equal(rig->loop.fair.n_hints, 100);
    due(rig, 1, 0, 50, 1000);
    due_scan(rig);
    assert_int_equal(fake.ids_asked, 150);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_topic_gets_an_equal_part_in_order_of_time),
        T(what_a_topic_does_not_need_goes_to_the_others),
        T(timeouts_queue_up_by_themselves_and_get_a_quarter),
        T(more_than_a_batch_of_a_topic_is_parked_in_order_and_less_is_not),
        T(one_more_than_a_batch_is_too_much),
        T(when_all_the_rest_is_parked_nothing_that_may_go_is_left_where_it_is),
        T(a_due_scan_that_came_to_its_limit_parks_what_is_more_than_a_queues_part),
        T(topics_that_are_being_looked_up_take_no_room_from_the_others),
        T(at_most_so_many_queues_are_parked_at_one_due_scan),
        T(jobs_without_a_topic_are_never_parked),
        T(where_nothing_can_be_parked_the_index_is_passed_by),
        T(of_a_topic_that_cannot_be_written_one_goes_and_the_others_are_parked),
        T(a_paused_topic_is_closed_and_its_timeouts_are_not),
        T(of_a_queue_with_a_held_set_only_what_was_given_back_goes),
        T(at_the_millisecond_where_what_is_held_begins_as_many_go_as_came_back),
        T(of_held_timeouts_as_many_go_as_came_back),
        T(timeouts_of_a_topic_are_none_of_the_jobs_that_it_got_back),
        T(an_empty_held_set_is_none),
        T(what_others_left_free_is_given_back_and_half_a_batch_at_least),
        T(many_held_queues_take_turns_and_none_is_forgotten),
        T(where_nothing_is_given_back_nothing_is_counted_on),
        T(a_queue_is_noted_once_and_as_it_is_now),
        T(held_sets_are_listed_when_topics_changed_and_every_five_seconds),
        T(without_redis_nothing_is_listed_and_what_failed_is_tried_at_the_next_due_scan),
        T(what_is_held_is_open_unless_paused_or_closed_and_timeouts_always_are),
        T(a_topic_and_its_timeouts_are_two_queues_whatever_their_hashes),
        T(mysql_is_asked_once_for_a_jobs_topic_while_it_waits_and_again_for_its_timeout),
        T(what_is_about_to_be_claimed_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
