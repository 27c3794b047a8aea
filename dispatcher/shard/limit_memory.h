/*
 * The topics of a shard that are at their limits, and how many of their jobs may try to go. Pure.
 *
 * A topic that is not here may try all that it has: the leader transaction finds out. A topic that found no room is
 * here with nothing allowed, until it is granted something. What is remembered may be wrong by now, and is forgotten
 * after a while, so that whatever gets lost (a grant, a topic's limit) costs time only.
 */
#ifndef DT_DISPATCHER_LIMIT_MEMORY_H
#define DT_DISPATCHER_LIMIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

#define DT_LIMIT_MEMORY_TOPICS 1024             /* what finds no place here finds out again and again */
#define DT_LIMIT_WAITS_US      INT64_C(5000000) /* without a grant a topic tries by itself after this time */
#define DT_LIMIT_GRANTED_US    INT64_C(1000000) /* who does not use a grant up in this time has nothing that waits */

struct dt_limited_topic {
    char name[201];
    size_t allowed;   /* jobs that may still try to go */
    int64_t since_us; /* when that was last set, or somebody promised a grant: the owner writes it then */
    int64_t asked_us; /* the owner's: when room was last asked for; 0 = not since it was set */
};
/* Starts as zeroes; clear gives back what it took. */
struct dt_limit_memory {
    struct dt_limited_topic *v;
    size_t n, cap;
};

void dt_limit_memory_clear(struct dt_limit_memory *memory);
/* The jobs of a topic that may try to go now; SIZE_MAX: any number, nothing is known of it. */
size_t dt_limit_memory_allowed(const struct dt_limit_memory *memory, struct dt_str topic, int64_t now_us);
/* Allows n jobs of a topic from now on. */
void dt_limit_memory_set(struct dt_limit_memory *memory, struct dt_str topic, size_t n, int64_t now_us);
/* Takes one job off what is allowed. True: it was the last one. */
bool dt_limit_memory_spend(struct dt_limit_memory *memory, struct dt_str topic);
/* Forgets a topic: any number of its jobs may try. */
void dt_limit_memory_forget(struct dt_limit_memory *memory, struct dt_str topic);
/* Forgets what is too old to be believed. */
void dt_limit_memory_age(struct dt_limit_memory *memory, int64_t now_us);

#endif
