/*
 * Which topic a job has, for as long as its leader may ask again: while a backlog goes through a held set, each of its
 * jobs would otherwise be looked up in MySQL when it is parked, and again each time that it stands in the due set.
 * Pure.
 *
 * A memory of limited size: what it does not know is asked for, and what it forgets costs one more question. A job's
 * topic never changes. Whether it waits for its acknowledgement does: only jobs that do not are remembered, and the
 * owner forgets those that it is about to claim.
 */
#ifndef DT_DISPATCHER_TOPIC_MEMORY_H
#define DT_DISPATCHER_TOPIC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define DT_TOPIC_MEMORY_JOBS   65536 /* a megabyte, while there is a backlog */
#define DT_TOPIC_MEMORY_TOPICS 64

struct dt_remembered;
/* Starts as zeroes; clear gives back all it took, and may be called at any time. */
struct dt_topic_memory {
    struct dt_remembered *jobs; /* by a hash of the id; a newcomer takes the place of who was there */
    char *topics[DT_TOPIC_MEMORY_TOPICS];
    size_t n_topics;
};

void dt_topic_memory_clear(struct dt_topic_memory *memory);
void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic);
void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id);
/* False: not known. *topic stays valid until the memory is cleared. */
bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic);

#endif
