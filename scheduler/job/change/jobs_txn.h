/* Making and changing jobs, and pausing topics, inside a transaction of the caller; for the store only. Changes have
 * the same rules as dt_store_cancel, dt_store_patch, dt_store_run_now, dt_store_redrive and dt_store_replace. */
#pragma once

#include "job/job.h"
#include "jobs.h"
#include "store/store_internal.h"
#include "topic/counts.h"
#include "topic/topics.h"

/* The open transaction, and the time at which it began. */
struct dt_change_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts *counts; /* changes of the counters of jobs (topic/counts.h); each function adds its own */
    struct dt_arena *arena;   /* memory for values that are read */
    struct dt_str actor;      /* actor of the event of each change (events/events.h); absent: no event */
};
enum dt_change_how { DT_CHANGE_CANCEL, DT_CHANGE_PATCH, DT_CHANGE_RUN_NOW, DT_CHANGE_REDRIVE, DT_CHANGE_REPLACE };
struct dt_job_change {
    enum dt_change_how how;
    int64_t id;               /* 0: `key` names the job */
    struct dt_str topic, key; /* topic absent: `id` is set */
    const struct dt_patch *patch;
    bool keep_attempt;             /* for a cancel: only further attempts are cancelled */
    const struct dt_new_job *body; /* for a replace: the new body, with the key of the job */
    struct dt_job job;             /* out: the job after the change; if the change was refused, the unchanged job */
    bool locked;                   /* out, with BUSY: another session has the row locked, and the transaction
                                    * continues */
};
/* Changes the job. NOT_FOUND, TOO_LATE, NOT_DEAD, and BUSY with `locked` change nothing, and the transaction may
 * continue. After any other status but OK, the caller must roll back. After NOT_FOUND of a replace, the caller may
 * insert the row with `replace` set, in the same transaction. If that insert returns SAME or CONFLICT, another job was
 * made meanwhile: the caller rolls back and tries again. */
dt_status dt_change_in_txn(const struct dt_change_txn *txn, struct dt_job_change *change, struct dt_error *err);
/* Reads a job with its payload as the open transaction sees it, from `jobs` or the archive. NOT_FOUND: there is no such
 * job. */
dt_status dt_job_read_in_txn(const struct dt_change_txn *txn, int64_t id, struct dt_job *job, struct dt_error *err);
/* Finds the job that has a key. NOT_FOUND: no job has it. */
dt_status dt_key_find(dt_db *db, struct dt_str topic, struct dt_str key, int64_t *id, struct dt_error *err);

/* A request to pause or resume a topic. */
struct dt_topic_pausing {
    struct dt_str name;
    bool paused;
    struct dt_str actor;      /* actor of the event; absent: no event */
    struct dt_topic_now *now; /* out: the topic afterwards; may be NULL */
};
/* Pauses or resumes a topic in the open transaction, which began at now_ms. Until the transaction ends, it keeps the
 * lock of all changes of topics. NOT_FOUND changes nothing, and the transaction may continue. */
dt_status dt_topic_pause_in_txn(dt_db *db, int64_t now_ms, const struct dt_topic_pausing *pausing,
                                struct dt_error *err);

/* Reads a topic, in a transaction or without one. NOT_FOUND: there is no such topic. */
dt_status dt_topic_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                        struct dt_error *err);
/* Returns the lowest name above all names that begin with the prefix ("in." -> "in.\x7F"). Names have no byte above
 * 0x7E. Absent: memory ran out. */
struct dt_str dt_topic_above_prefix(struct dt_arena *arena, struct dt_str prefix);

/* ---- making jobs (intents, fires of schedules), as dt_store_insert does ---- */

/* The rows to insert. maker: the random number of the block from which their ids come (jobs.h). */
struct dt_insert_rows {
    struct dt_insert *const *v;
    size_t n;
    int64_t maker;
    bool singly;   /* insert row by row: if the server refuses a row, only that row is REFUSED */
    bool no_fires; /* rows with the key of a schedule's fire are RESERVED */
};
/* Inserts the rows in the open transaction, which began at now_ms; adds CREATED rows to *counts. EXISTS: an id is taken
 * (with `singly`, the row's outcome is ID_TAKEN instead). INVALID: the server refuses one of the rows. After any status
 * but OK, the caller must roll back. */
dt_status dt_insert_in_txn(dt_store *store, dt_db *db, int64_t now_ms, const struct dt_insert_rows *rows,
                           struct dt_counts *counts, struct dt_error *err);

/* Inside the transaction that inserted the rows, offers those that are due to pops (dispatch/pop.h), so that a pop does
 * not wait for a leader. Leaders may offer them again, because the topic's delivery may have just changed. A pop skips
 * offers that are not due yet. room: space for DT_OFFER_COLUMNS parameters of each row. */
#define DT_OFFER_COLUMNS 3
dt_status dt_offer_made(dt_db *db, const struct dt_insert_rows *rows, int64_t now_ms, struct dt_param *room,
                        struct dt_error *err);
