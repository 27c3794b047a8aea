/*
 * Posts entries to Redis off the answer's path: one thread, a bounded queue; what has gathered goes out in one pipeline
 * (dt_index_put with wake). What does not fit, or meets a Redis that is down, is dropped and counted: the reconciler
 * mends the index.
 */
#ifndef DT_API_INDEX_WRITER_H
#define DT_API_INDEX_WRITER_H

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"
#include "topic_cache.h"

typedef struct dt_index_writer dt_index_writer;

DT_MUST_CHECK dt_status dt_index_writer_start(const struct dt_config *config, const dt_clock *clock, dt_refclock *ref,
                                              dt_topic_cache *topics, dt_index_writer **out, struct dt_error *err);
/* Posts what is queued (bounded in time), ends the thread. */
void dt_index_writer_stop(dt_index_writer *writer);
void dt_index_writer_free(dt_index_writer *writer);

/* Any thread, never blocks, copies. due_ms 0 = remove the entry. After a change (patch, cancel, run-now, redrive) post
 * the job's next_at always; the committer leaves out what is due after the horizon. */
void dt_index_writer_post(dt_index_writer *writer, const struct dt_entry *entries, size_t n);
/* A row was written to the outbox of the job's shard: its leader should look. */
void dt_index_writer_outbox(dt_index_writer *writer, int64_t job_id);
/* A topic was paused or resumed: leaders should look. */
void dt_index_writer_topics(dt_index_writer *writer);
/* Did the last write reach Redis? (true before any) */
bool dt_index_writer_up(const dt_index_writer *writer);

#endif
