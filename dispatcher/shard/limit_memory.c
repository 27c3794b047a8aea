/*
 * Owns a small list, which is empty as long as no topic is at its limit.
 * Invariant: a topic stands there once. Out of memory, or when it is full, nothing more is remembered.
 */
#include "limit_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void dt_limit_memory_clear(struct dt_limit_memory *memory)
{
    free(memory->v);
    *memory = (struct dt_limit_memory){0};
}

static struct dt_limited_topic *find(const struct dt_limit_memory *memory, struct dt_str topic)
{
    for (size_t i = 0; i < memory->n; i++)
        if (dt_str_is(topic, memory->v[i].name))
            return &memory->v[i];
    return NULL;
}

static bool is_old(const struct dt_limited_topic *topic, int64_t now_us)
{
    return now_us - topic->since_us >= (topic->allowed ? DT_LIMIT_GRANTED_US : DT_LIMIT_WAITS_US);
}

size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us)
{
    const struct dt_limited_topic *known = find(memory, topic);
    return known && !is_old(known, now_us) ? known->allowed : SIZE_MAX;
}

void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us)
{
    struct dt_limited_topic *known = find(memory, topic);
    if (!known && (memory->n == DT_LIMIT_MEMORY_TOPICS || topic.n >= sizeof(memory->v->name)))
        return;
    if (!known && memory->n == memory->cap) {
        size_t cap = memory->cap ? memory->cap * 2 : 8;
        struct dt_limited_topic *v = realloc(memory->v, cap * sizeof(*v));
        if (!v)
            return;
        memory->v = v;
        memory->cap = cap;
    }
    if (!known) {
        dt_assert_cmp(memory->n, <, memory->cap);
        known = &memory->v[memory->n++];
        *known = (struct dt_limited_topic){0};
        memcpy(known->name, topic.p, topic.n);
    }
    known->allowed = n;
    known->since_us = now_us;
    known->asked_us = 0;
}

bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic)
{
    struct dt_limited_topic *known = find(memory, topic);
    if (!known || known->allowed == 0 || known->allowed == SIZE_MAX)
        return false;
    return --known->allowed == 0;
}

void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic)
{
    struct dt_limited_topic *known = find(memory, topic);
    if (known)
        *known = memory->v[--memory->n];
}

void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us)
{
    for (size_t i = memory->n; i-- > 0;)
        if (is_old(&memory->v[i], now_us))
            memory->v[i] = memory->v[--memory->n];
}
