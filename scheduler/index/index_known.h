/*
 * A scratch table of job ids, to find the second entry of one job in a batch or a due scan. It belongs to the call of
 * the index that is under way. Internal to index/.
 *
 * Calling sequence: dt_known_clear(index, n), then dt_known_find at most n times with different ids. Who finds a slot
 * whose id is 0 fills it in.
 */
#ifndef DT_INDEX_INDEX_KNOWN_H
#define DT_INDEX_INDEX_KNOWN_H

#include <string.h>

#include "base/assert.h"
#include "index_internal.h"

#define DT_KNOWN_SLOTS 65536u /* a power of two */
#define DT_KNOWN_MAX   (DT_KNOWN_SLOTS / 2)

struct dt_known_id {
    int64_t id;     /* 0 = a free slot */
    int64_t due_ms; /* what the caller likes */
};

/* Empties the table and makes room for n ids, at most DT_KNOWN_MAX. */
static inline void dt_known_clear(dt_index *index, size_t n)
{
    size_t slots = 16;

    dt_assert_cmp(n, <=, DT_KNOWN_MAX);
    while (slots < 2 * n)
        slots *= 2;
    index->known_mask = slots - 1;
    memset(index->known, 0, slots * sizeof(*index->known));
}

/* The slot of the id, or the free slot that is to be filled in for it. */
static inline struct dt_known_id *dt_known_find(const dt_index *index, int64_t id)
{
    size_t i = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 48) & index->known_mask;

    while (index->known[i].id && index->known[i].id != id)
        i = (i + 1) & index->known_mask;
    return &index->known[i];
}

#endif
