/*
 * Writes entries to Redis, so that no request waits for it: one thread, a bounded queue, one pipeline for all queued
 * entries (dt_index_put with wake). If the queue is full or Redis is down, entries are dropped and leaders are notified
 * (dt_index_writer_on_loss): they read MySQL until the index is complete again.
 */
#pragma once

#include "index/index.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_index_writer dt_index_writer;

/* Starts the thread. All arguments are borrowed and outlive the writer. *out is NULL unless OK, or if there is no
 * index: every function accepts NULL, and does nothing then. */
DT_MUST_CHECK dt_status dt_index_writer_start(const struct dt_session_env *env, dt_topic_cache *topics,
                                              dt_index_writer **out, struct dt_error *err);
/* Writes the queued entries (for a bounded time), ends the thread. */
void dt_index_writer_stop(dt_index_writer *writer);
void dt_index_writer_free(dt_index_writer *writer);

/* Queues copies of the entries. Any thread; never blocks. due_ms 0 = remove the entry. After a change (patch, cancel,
 * run-now, redrive) always post the job's next_at; the committer leaves out entries that are due after the horizon. */
void dt_index_writer_post(dt_index_writer *writer, const struct dt_entry *entries, size_t n);
/* Wakes the leader of the job's shard, after a row was written to its outbox. Any thread. */
void dt_index_writer_outbox(dt_index_writer *writer, int64_t job_id);
/* Wakes all leaders, after a topic was paused or resumed, or a loss was reported. Any thread. */
void dt_index_writer_topics(dt_index_writer *writer);
/* Sets the function that is called, on any thread, if something could not be written. It must not block. */
void dt_index_writer_on_loss(dt_index_writer *writer, void (*on_loss)(void *arg), void *arg);
/* Redis's answer to the last write, or to a probe if there was no write for two seconds. */
struct dt_index_verdict {
    dt_status status; /* OK before the first */
    int64_t at_us;    /* mono; 0 = never */
    char text[320];   /* the reason if it is not OK */
    char down[256];   /* the endpoints that refuse changes: dt_index_failing */
    int64_t losses;   /* how often something could not be written */
};
/* Copies the current verdict. writer NULL: OK, never written, no endpoint takes changes. Any thread. */
void dt_index_writer_verdict(dt_index_writer *writer, struct dt_index_verdict *out);
