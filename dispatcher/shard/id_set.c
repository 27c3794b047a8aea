/* Open addressing, with linear probing: see Knuth, The Art of Computer Programming, 6.4, algorithm L. */
#include "id_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define PLACES (2 * (size_t)DT_ID_SET_MAX) /* a power of two */

/* The id's place, or the free one that it would get. */
static int64_t *place_of(const struct dt_id_set *set, int64_t id)
{
    dt_assert_cmp(set->n, <=, DT_ID_SET_MAX); /* so half of the places are free */
    size_t at = (size_t)(((uint64_t)id * 0x9e3779b97f4a7c15u) >> 32) & (PLACES - 1);
    while (set->v[at] && set->v[at] != id)
        at = (at + 1) & (PLACES - 1);
    return &set->v[at];
}

bool dt_id_set_add(struct dt_id_set *set, int64_t id)
{
    if (!set->v)
        set->v = calloc(PLACES, sizeof(*set->v));
    if (!set->v)
        return false;
    int64_t *place = place_of(set, id);
    if (*place == id)
        return true;
    if (set->n == DT_ID_SET_MAX)
        return false;
    *place = id;
    set->n++;
    return true;
}

bool dt_id_set_has(const struct dt_id_set *set, int64_t id)
{
    return set->n && *place_of(set, id) == id;
}

void dt_id_set_empty(struct dt_id_set *set)
{
    if (set->n)
        memset(set->v, 0, PLACES * sizeof(*set->v));
    set->n = 0;
}

void dt_id_set_clear(struct dt_id_set *set)
{
    free(set->v);
    *set = (struct dt_id_set){0};
}
