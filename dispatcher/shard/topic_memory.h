/*
 * A leader's memory of which topic a job has. Without it, each job of a backlog that goes through a held set would be
 * looked up in MySQL when it is parked, and again each time that it stands in the due set. Pure.
 *
 * The memory has a limited size: a job that it does not know is looked up, and forgetting one costs one more look. A
 * job's topic never changes, but whether the job waits for its acknowledgement does. So only scheduled jobs are
 * remembered, and the leader forgets those that it is about to claim. Which host a job's own callback_url names may
 * change as well: the memory knows only that there is such a URL.
 */
#ifndef DT_DISPATCHER_TOPIC_MEMORY_H
#define DT_DISPATCHER_TOPIC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

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
void dt_topic_memory_note(struct dt_topic_memory *memory, int64_t id, struct dt_str topic, bool names_host);
void dt_topic_memory_forget(struct dt_topic_memory *memory, int64_t id);
/* False: not known. *topic stays valid until the memory is cleared. */
bool dt_topic_memory_find(const struct dt_topic_memory *memory, int64_t id, struct dt_str *topic, bool *names_host);

#endif
