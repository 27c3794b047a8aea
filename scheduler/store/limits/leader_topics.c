/*
 * Which Kafka topics a batch has when it cannot have all.
 *
 * A client of Kafka sends each partition of a transaction in a request of its own, and the shard's next batch waits for
 * the last answer: jobs of hundreds of topics in one batch make all that falls due meanwhile late. So a batch has a few
 * topics, and owners (what stands before the first dot of a topic's name) take turns: the first topic of each goes
 * before the second of any. What an owner's many topics cost is their own time.
 *
 * Invariants: candidates are sorted by (next_ms, id); a topic has all its jobs in the batch or none, so that their
 * order is kept; if there are more owners than a batch has topics, each batch begins with another owner, and the topics
 * of one owner rotate in the same way: a backlog that is due before all others does not keep them out.
 */
#include <stdlib.h>

#include "job/job.h"
#include "store/dispatch/leader_parts.h"

/* A topic of the batch, or, before the topics are told apart, of one of its jobs. */
struct place {
    struct dt_str kafka_topic, owner;
    size_t first; /* of its jobs: its place among the candidates */
    size_t turn;  /* the number of topics of this owner that go before it */
    size_t rank;  /* the number of owners that go before its owner */
};

static bool is_sent(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_CLAIM && !c->by_hands && !c->lost;
}

static int compare(size_t x, size_t y)
{
    return (x > y) - (x < y);
}

static int by_topic(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int names = dt_str_order(x->kafka_topic, y->kafka_topic);
    return names ? names : compare(x->first, y->first);
}

static int by_owner(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int names = dt_str_order(x->owner, y->owner);
    return names ? names : compare(x->first, y->first);
}

static int by_turn(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return x->turn != y->turn ? compare(x->turn, y->turn) : compare(x->rank, y->rank);
}

/* The topics of all that would be sent; *n of them. NULL: no memory. */
static struct place *list_topics(const struct dt_open_txn *t, size_t n_jobs, size_t *n)
{
    struct place *v = dt_arena_alloc(t->io->arena, n_jobs * sizeof(*v));
    size_t jobs = 0;
    *n = 0;
    if (!v)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        if (is_sent(&t->v[i]))
            v[jobs++] =
                (struct place){.kafka_topic = t->v[i].kafka_topic, .owner = dt_topic_owner(t->v[i].topic), .first = i};
    qsort(v, jobs, sizeof(*v), by_topic);
    for (size_t i = 0; i < jobs; i++)
        if (*n == 0 || !dt_str_eq(v[*n - 1].kafka_topic, v[i].kafka_topic))
            v[(*n)++] = v[i];
    return v;
}

/* The topics that follow v[0] and have its owner, with it. */
static size_t of_one_owner(const struct place *v, size_t n)
{
    size_t same = 1;
    while (same < n && dt_str_eq(v[same].owner, v[0].owner))
        same++;
    return same;
}

/* Brings those that go to the front, sorted by name. When not even each owner has a place, an owner's next topic has
 * its turn after all owners had one; otherwise owners and topics that rotate together could always miss each other. */
static void choose_topics(const struct dt_open_txn *t, struct place *topics, size_t n, size_t most)
{
    size_t turn = dt_batch_turn(t);
    size_t owners = 0;
    size_t at = 0;
    qsort(topics, n, sizeof(*topics), by_owner);
    for (size_t i = 0; i < n; i += of_one_owner(topics + i, n - i))
        owners++;
    for (size_t i = 0, end; i < n; i = end, at++) {
        end = i + of_one_owner(topics + i, n - i);
        size_t first = (owners > most ? turn / owners : turn) % (end - i);
        for (size_t k = i; k < end; k++) {
            topics[k].turn = (k - i + (end - i) - first) % (end - i);
            topics[k].rank = (at + owners - turn % owners) % owners;
        }
    }
    qsort(topics, n, sizeof(*topics), by_turn);
    qsort(topics, most, sizeof(*topics), by_topic);
}

static int by_name(const void *name, const void *place)
{
    return dt_str_order(*(const struct dt_str *)name, ((const struct place *)place)->kafka_topic);
}

dt_status dt_topics_choose(struct dt_open_txn *t)
{
    const size_t most = t->io->due.max_topics;
    size_t jobs = 0;
    size_t n;
    for (size_t i = 0; i < t->n; i++)
        jobs += is_sent(&t->v[i]);
    if (jobs <= most)
        return DT_OK;
    struct place *topics = list_topics(t, jobs, &n);
    if (!topics)
        return DT_NOMEM;
    if (n <= most)
        return DT_OK;
    choose_topics(t, topics, n, most);
    for (size_t i = 0; i < t->n; i++) {
        struct dt_candidate *c = &t->v[i];
        if (is_sent(c) && !bsearch(&c->kafka_topic, topics, most, sizeof(*topics), by_name))
            dt_candidate_leave(t, c);
    }
    return DT_OK;
}
