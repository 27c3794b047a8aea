/*
 * Posts entries to Redis off the answer's path: one thread, a bounded queue; entries that have gathered go out in one
 * pipeline (dt_index_put with wake). Entries that do not fit, or meet a Redis that is down, are dropped, and leaders
 * are told (dt_index_writer_on_loss): they read MySQL until the index is right again.
 */
#ifndef DT_API_INDEX_WRITER_H
#define DT_API_INDEX_WRITER_H

#include "index/index.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_index_writer dt_index_writer;

/* Starts the thread. All arguments are borrowed and outlive the writer. *out is NULL unless OK, and where there is no
 * index: every function accepts NULL, and has nothing to do then. */
DT_MUST_CHECK dt_status dt_index_writer_start(const struct dt_session_env *env, dt_topic_cache *topics,
                                              dt_index_writer **out, struct dt_error *err);
/* Posts what is queued (bounded in time), ends the thread. */
void dt_index_writer_stop(dt_index_writer *writer);
void dt_index_writer_free(dt_index_writer *writer);

/* Queues entries, which are copied. Any thread; never blocks. due_ms 0 = remove the entry. After a change (patch,
 * cancel, run-now, redrive) post the job's next_at always; the committer leaves out what is due after the horizon. */
void dt_index_writer_post(dt_index_writer *writer, const struct dt_entry *entries, size_t n);
/* Wakes the leader of the job's shard: a row was written to its outbox. Any thread. */
void dt_index_writer_outbox(dt_index_writer *writer, int64_t job_id);
/* Wakes all leaders: a topic was paused or resumed, or a loss is to be seen. Any thread. */
void dt_index_writer_topics(dt_index_writer *writer);
/* Sets the function that is called, on any thread, whenever something could not be written; it returns at once. */
void dt_index_writer_on_loss(dt_index_writer *writer, void (*on_loss)(void *arg), void *arg);
/* Redis's last answer to a write; where there was none for two seconds, to one that nobody reads. */
struct dt_index_verdict {
    dt_status status; /* OK before any */
    int64_t at_us;    /* mono; 0 = never */
    char text[320];   /* the reason when it is not OK */
    char down[256];   /* the endpoints that do not take changes: dt_index_failing */
    int64_t losses;   /* how often something could not be written */
};
/* Copies the present verdict. NULL: OK, never asked, and no endpoint takes changes. Any thread. */
void dt_index_writer_verdict(dt_index_writer *writer, struct dt_index_verdict *out);

#endif
