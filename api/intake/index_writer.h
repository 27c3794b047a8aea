/* Writes index entries to Redis, so that no request waits for Redis: one thread, a bounded queue, one pipeline for all
 * queued entries (dt_index_put with wake). If the queue is full or Redis is down, entries are dropped and leaders are
 * notified (dt_index_writer_on_loss): they read MySQL until the index is complete again. */
#pragma once

#include "index/index.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_index_writer dt_index_writer;

/* Starts the thread. All arguments are borrowed, and must outlive the writer. Unless OK, *out is NULL. It is also NULL
 * if the installation has no index: every function accepts NULL, and then does nothing. */
DT_MUST_CHECK dt_status dt_index_writer_start(const struct dt_session_env *env, dt_topic_cache *topics,
                                              dt_index_writer **out, struct dt_error *err);
/* Writes the queued entries (for a bounded time), and ends the thread. */
void dt_index_writer_stop(dt_index_writer *writer);
void dt_index_writer_free(dt_index_writer *writer);

/* Queues copies of the entries. due_ms 0: remove the entry. After a change of a job (patch, cancel, run-now, redrive)
 * always post its next_at. The committer posts no entries that are due after the horizon. Any thread; never blocks. */
void dt_index_writer_post(dt_index_writer *writer, const struct dt_entry *entries, size_t n);
/* Wakes the leader of the job's shard, after a row was written to the shard's outbox. Any thread. */
void dt_index_writer_outbox(dt_index_writer *writer, int64_t job_id);
/* Wakes all leaders, after a topic was paused or resumed, or a loss was reported. Any thread. */
void dt_index_writer_topics(dt_index_writer *writer);
/* Sets the function that is called if something could not be written: on any thread; it must not block. */
void dt_index_writer_on_loss(dt_index_writer *writer, void (*on_loss)(void *arg), void *arg);
/* How Redis answered the last write, or the last probe if there was no write for two seconds. */
struct dt_index_verdict {
    dt_status status; /* result of the last write or probe; OK before the first one */
    int64_t at_us;    /* mono: when it ended; 0: never */
    char text[320];   /* the reason, if status is not OK */
    char down[256];   /* endpoints that refuse changes (dt_index_failing) */
    int64_t losses;   /* how often something could not be written */
};
/* Copies the current verdict. If writer is NULL, it says: OK, never written, no endpoint takes changes. Any thread. */
void dt_index_writer_verdict(dt_index_writer *writer, struct dt_index_verdict *out);
