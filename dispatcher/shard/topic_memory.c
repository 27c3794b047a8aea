/*
 * Invariant: an id has WAYS places, which it shares with others; it stands in one of them at most, with the number of
 * its topic. A newcomer takes one that is free, or else the place of who was there. Out of memory, or with too many
 * topics, nothing more is remembered.
 */
#include "topic_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define WAYS 4 /* so that hardly a job of a backlog is forgotten: one that is costs a statement */

struct dt_remembered {
    int64_t id; /* 0: free */
    uint32_t topic;
    bool names_host;
};

/* The places of an id. */
static struct dt_remembered *places(const struct dt_topic_memory *memory, int64_t id)
{
    uint64_t mixed = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return &memory->jobs[mixed >> 48 & ~(uint64_t)(WAYS - 1)];
}

/* NULL: it has none. */
static struct dt_remembered *place_of(const struct dt_topic_memory *memory, int64_t id)
{
    struct dt_remembered *at = memory->jobs && id ? places(memory, id) : NULL;
    for (size_t i = 0; at && i < WAYS; i++)
        if (at[i].id == id)
            return &at[i];
    return NULL;
}

/* DT_TOPIC_MEMORY_TOPICS: there is no room for one more. */
static size_t number_of(struct dt_topic_memory *memory, struct dt_str topic)
{
    size_t n = memory->n_topics;
    for (size_t i = n; i-- > 0;)
        if (dt_str_is(topic, memory->topics[i]))
            return i;
    if (n == DT_TOPIC_MEMORY_TOPICS)
        return n;
    memory->topics[n] = strndup(topic.p, topic.n);
    if (!memory->topics[n])
        return DT_TOPIC_MEMORY_TOPICS;
    memory->n_topics++;
    return n;
}

void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host)
{
    if (!memory->jobs)
        memory->jobs = calloc(DT_TOPIC_MEMORY_JOBS, sizeof(*memory->jobs));
    if (!memory->jobs)
        return;
    size_t number = number_of(memory, topic);
    if (number == DT_TOPIC_MEMORY_TOPICS)
        return;
    struct dt_remembered *at = places(memory, id);
    struct dt_remembered *place = place_of(memory, id);
    for (size_t i = 0; !place && i < WAYS; i++)
        if (at[i].id == 0)
            place = &at[i];
    place = place ? place : &at[(uint64_t)id % WAYS];
    *place = (struct dt_remembered){id, (uint32_t)number, names_host};
}

void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id)
{
    struct dt_remembered *known = place_of(memory, id);
    if (known)
        known->id = 0;
}

bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host)
{
    const struct dt_remembered *known = place_of(memory, id);
    if (!known)
        return false;
    dt_assert_cmp(known->topic, <, memory->n_topics);
    *topic = dt_str(memory->topics[known->topic]);
    *names_host = known->names_host;
    return true;
}

void dt_topic_memory_clear(struct dt_topic_memory *memory)
{
    for (size_t i = 0; i < memory->n_topics; i++)
        free(memory->topics[i]);
    free(memory->jobs);
    *memory = (struct dt_topic_memory){0};
}
