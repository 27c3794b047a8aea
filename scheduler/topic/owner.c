/*
 * Owns the numbers of owners. See owner.h.
 *
 * Prefixes are sorted by their bytes; each has a parent, the longest other prefix that begins it. All that is sorted
 * between a prefix and a name that it begins also begins with it. So the longest prefix of a name is the last one that
 * does not sort above the name, or else one of that one's parents, or there is none.
 */
#include "owner.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/assert.h"
#include "job/job.h"

static int64_t number_of(uint64_t hash)
{
    return (int64_t)(hash >> 2) + 1;
}

int64_t dt_owner_by_name(struct dt_str topic)
{
    const char *dot = topic.n ? memchr(topic.p, '.', topic.n) : NULL;
    return number_of(XXH3_64bits(topic.p, dot ? (size_t)(dot - topic.p) : topic.n));
}

static int by_prefix(const void *a, const void *b)
{
    const struct dt_owner_prefix *x = a;
    const struct dt_owner_prefix *y = b;
    int names = dt_str_order(x->prefix, y->prefix);
    if (names || x->of != y->of)
        return names ? names : (x->of > y->of) - (x->of < y->of);
    return (x->owner > y->owner) - (x->owner < y->owner);
}

static size_t sort_distinct(struct dt_owner_prefix *v, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(v, n, sizeof(*v), by_prefix);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !dt_str_eq(v[kept - 1].prefix, v[i].prefix))
            v[kept++] = v[i];
    return kept;
}

dt_status dt_owners_add(struct dt_owners *owners, struct dt_str topics, struct dt_arena *arena)
{
    const size_t first = owners->n;
    uint64_t hash = 0;
    while (topics.n) {
        const char *comma = memchr(topics.p, ',', topics.n);
        const struct dt_str prefix = {topics.p, comma ? (size_t)(comma - topics.p) : topics.n};
        topics = comma ? (struct dt_str){comma + 1, topics.n - prefix.n - 1} : DT_STR_NONE;
        if (!dt_topic_prefix_valid(prefix))
            continue;
        if (owners->n == owners->cap) {
            size_t cap = owners->cap ? 2 * owners->cap : 16;
            struct dt_owner_prefix *v = dt_arena_alloc(arena, cap * sizeof(*v));
            if (!v)
                return DT_NOMEM;
            if (owners->n)
                memcpy(v, owners->v, owners->n * sizeof(*v));
            owners->v = v;
            owners->cap = cap;
        }
        owners->v[owners->n++] = (struct dt_owner_prefix){.prefix = prefix};
    }
    if (owners->n == first)
        return DT_OK;
    owners->n = first + sort_distinct(owners->v + first, owners->n - first);
    for (size_t i = first; i < owners->n; i++)
        hash = XXH3_64bits_withSeed(owners->v[i].prefix.p, owners->v[i].prefix.n, hash);
    for (size_t i = first; i < owners->n; i++)
        owners->v[i].owner = number_of(hash), owners->v[i].of = owners->n - first;
    return DT_OK;
}

/* Returns 1 + the place of the longest of the prefixes v[0..at) that begins the text, 0 if none does. The last one that
 * could is v[at - 1]. */
static size_t longest_from(const struct dt_owners *owners, size_t at, struct dt_str text)
{
    while (at && !dt_str_begins(text, owners->v[at - 1].prefix)) {
        dt_assert_cmp(owners->v[at - 1].parent, <, at); /* a prefix sorts behind its parent */
        at = owners->v[at - 1].parent;
    }
    return at;
}

void dt_owners_sort(struct dt_owners *owners)
{
    owners->n = sort_distinct(owners->v, owners->n);
    for (size_t i = 0; i < owners->n; i++)
        owners->v[i].parent = longest_from(owners, i, owners->v[i].prefix);
}

int64_t dt_owners_of(const struct dt_owners *owners, struct dt_str topic)
{
    size_t begin = 0;
    size_t end = owners->n;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (dt_str_order(owners->v[middle].prefix, topic) <= 0)
            begin = middle + 1;
        else
            end = middle;
    }
    size_t at = longest_from(owners, begin, topic);
    return at ? owners->v[at - 1].owner : dt_owner_by_name(topic);
}
