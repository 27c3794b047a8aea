/*
 * Which Kafka topics a batch has when it cannot have all.
 *
 * A client of Kafka sends each partition of a transaction in a request of its own, and the shard's next batch waits for
 * the last answer: jobs of hundreds of topics in one batch make all that falls due meanwhile late. So a batch has a few
 * topics, and owners (topic/owners.h) take turns: an owner with many topics delays only its own jobs. A Kafka topic that
 * several owners use counts once.
 *
 * Invariants: candidates are sorted by (next_ms, id); an owner has all its jobs of a topic in the batch or none, so
 * that their order is kept; an older backlog keeps no other owner, and no other topic of its owner, out of batches.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "leader_parts.h"

/* A topic of an owner in the batch, or, before they are told apart, of one of its jobs. */
struct place {
    struct dt_str kafka_topic;
    int64_t owner;
    size_t first;  /* of its jobs: its place among the candidates */
    size_t number; /* of the Kafka topic */
    bool chosen;
};

static bool is_sent(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_CLAIM && !c->by_hands && !c->lost;
}

static int by_topic(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int names = dt_str_order(x->kafka_topic, y->kafka_topic);
    return names ? names : (x->owner > y->owner) - (x->owner < y->owner);
}

static int by_topic_and_first(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int topics = by_topic(a, b);
    return topics ? topics : (x->first > y->first) - (x->first < y->first);
}

/* Lists the topics of all that would be sent, *n places of *n_topics of Kafka. NULL: no memory. */
static struct place *list_topics(const struct dt_open_txn *t, size_t n_jobs, size_t *n, size_t *n_topics)
{
    struct place *v = dt_arena_alloc(t->io->arena, n_jobs * sizeof(*v));
    size_t jobs = 0;
    *n = *n_topics = 0;
    if (!v)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        if (is_sent(&t->v[i]))
            v[jobs++] = (struct place){.kafka_topic = t->v[i].kafka_topic, .owner = t->v[i].owner, .first = i};
    dt_assert_cmp(jobs, ==, n_jobs);
    qsort(v, jobs, sizeof(*v), by_topic_and_first);
    for (size_t i = 0; i < jobs; i++) {
        if (*n && by_topic(&v[*n - 1], &v[i]) == 0)
            continue;
        *n_topics += *n == 0 || !dt_str_eq(v[*n - 1].kafka_topic, v[i].kafka_topic);
        v[*n] = v[i];
        v[(*n)++].number = *n_topics;
    }
    return v;
}

static dt_status choose_topics(const struct dt_open_txn *t, struct place *v, size_t n, size_t n_topics, size_t most)
{
    struct dt_turn *turns = dt_arena_alloc(t->io->arena, n * sizeof(*turns));
    bool *there = dt_arena_alloc(t->io->arena, (n_topics + 1) * sizeof(*there));
    if (!turns || !there)
        return DT_NOMEM;
    memset(there, 0, (n_topics + 1) * sizeof(*there));
    for (size_t i = 0; i < n; i++)
        turns[i] = (struct dt_turn){v[i].owner, (int64_t)dt_str_hash(v[i].kafka_topic), .at = i};
    dt_turns_sort(t->io->due.turns, turns, n);
    for (size_t i = 0; i < n; i++) {
        struct place *place = &v[turns[i].at];
        place->chosen = there[place->number] || most;
        most -= place->chosen && !there[place->number];
        there[place->number] |= place->chosen;
    }
    return DT_OK;
}

dt_status dt_topics_choose(struct dt_open_txn *t)
{
    const size_t most = t->io->due.max_topics;
    size_t jobs = 0;
    size_t n;
    size_t n_topics;
    for (size_t i = 0; i < t->n; i++)
        jobs += is_sent(&t->v[i]);
    if (jobs <= most)
        return DT_OK;
    struct place *v = list_topics(t, jobs, &n, &n_topics);
    if (!v)
        return DT_NOMEM;
    if (n_topics <= most)
        return DT_OK;
    dt_status status = choose_topics(t, v, n, n_topics, most);
    for (size_t i = 0; status == DT_OK && i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        const struct place own = {.kafka_topic = c->kafka_topic, .owner = c->owner};
        const struct place *place = is_sent(c) ? bsearch(&own, v, n, sizeof(*v), by_topic) : NULL;
        dt_assert(place || !is_sent(c));
        if (place && !place->chosen)
            dt_candidate_leave(t, c);
    }
    return status;
}
