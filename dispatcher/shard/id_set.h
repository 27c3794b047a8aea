/* A set of ids of jobs: none is forgotten but all at once. Bounded; pure; one user at a time. */
#ifndef DT_DISPATCHER_ID_SET_H
#define DT_DISPATCHER_ID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_ID_SET_MAX 16384

/* Starts as zeroes; takes a quarter of a megabyte with the first id. */
struct dt_id_set {
    int64_t *v; /* a hash table; 0: a free place */
    size_t n;
};

/* Ids are not 0. False: the set is full, or memory is out; the id is not in it. */
bool dt_id_set_add(struct dt_id_set *set, int64_t id);
bool dt_id_set_has(const struct dt_id_set *set, int64_t id);
/* Empties it; it keeps its memory. */
void dt_id_set_empty(struct dt_id_set *set);
/* Gives the memory back. */
void dt_id_set_clear(struct dt_id_set *set);

#endif
