/* Writes index entries to Redis, so that no request waits for Redis: one thread, a bounded queue, one pipeline for all
 * queued entries (dt_index_put with wake). If the queue is full or Redis is down, entries are dropped and leaders are
 * notified (dt_index_writer_on_loss); leaders then read MySQL until the index is complete again. */
#pragma once

#include "index/index.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_index_writer dt_index_writer;

/* Starts the thread. All arguments are borrowed, and must outlive the writer. Unless OK, *out is NULL. *out is also
 * NULL if the installation has no index; every function accepts NULL, and then does nothing. */
dt_status dt_index_writer_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer **out,
                                struct dt_error *err);
/* Ends the thread, after writing the queued entries for a bounded time. */
void dt_index_writer_stop(dt_index_writer *writer);
void dt_index_writer_free(dt_index_writer *writer);

/* Queues copies of the entries. due_ms 0: the entry is removed. After a change of a job (patch, cancel, run-now,
 * redrive), the job's next_at must always be posted; the committer only posts entries that are due before the horizon.
 * Any thread; never blocks. */
void dt_index_writer_post(dt_index_writer *writer, const struct dt_entry *entries, size_t n);
/* Wakes the leader of the job's shard. Called after a row was written to the shard's outbox. Any thread. */
void dt_index_writer_outbox(dt_index_writer *writer, int64_t job_id);
/* Wakes all leaders. Called after a topic was paused or resumed, or a loss was reported. Any thread. */
void dt_index_writer_topics(dt_index_writer *writer);
/* Sets the function that is called if an entry could not be written; it is called on any thread, and must not block. */
void dt_index_writer_on_loss(dt_index_writer *writer, void (*on_loss)(void *arg), void *arg);
/* How Redis answered the last write, or the last probe if there was no write for two seconds. */
struct dt_index_verdict {
    dt_status status; /* result of the last write or probe; OK before the first one */
    int64_t at_us;    /* mono: when that write or probe ended; 0: never */
    char text[320];   /* the reason, if status is not OK */
    char down[256];   /* endpoints that refuse changes (dt_index_failing) */
    int64_t losses;   /* number of losses so far */
};
/* Copies the current verdict. If writer is NULL, the verdict is OK, but nothing was written (at_us 0) and no endpoint
 * takes changes (down is "*"). Any thread. */
void dt_index_writer_verdict(dt_index_writer *writer, struct dt_index_verdict *out);
