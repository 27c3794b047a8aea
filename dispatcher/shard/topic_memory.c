/*
 * Invariant: a place holds the id that was noted last of those that share it, with the number of its topic, or id 0.
 * Out of memory, or with too many topics, nothing more is remembered.
 */
#include "topic_memory.h"

#include <stdlib.h>
#include <string.h>

struct dt_remembered {
    int64_t id;
    uint32_t topic;
    bool names_host;
};

static struct dt_remembered *place(const struct dt_topic_memory *memory, int64_t id)
{
    uint64_t mixed = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return &memory->jobs[mixed >> 48];
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
    if (number < DT_TOPIC_MEMORY_TOPICS)
        *place(memory, id) = (struct dt_remembered){id, (uint32_t)number, names_host};
}

void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id)
{
    if (memory->jobs && place(memory, id)->id == id)
        place(memory, id)->id = 0;
}

bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host)
{
    if (!memory->jobs || id == 0 || place(memory, id)->id != id)
        return false;
    *topic = dt_str(memory->topics[place(memory, id)->topic]);
    *names_host = place(memory, id)->names_host;
    return true;
}

void dt_topic_memory_clear(struct dt_topic_memory *memory)
{
    for (size_t i = 0; i < memory->n_topics; i++)
        free(memory->topics[i]);
    free(memory->jobs);
    *memory = (struct dt_topic_memory){0};
}
