/*
 * Changing jobs and topics inside a transaction of the caller; for store/ only. The judgement is that of
 * dt_store_cancel, dt_store_patch, dt_store_run_now, dt_store_redrive and dt_store_replace.
 */
#ifndef DT_JOB_JOBS_TXN_H
#define DT_JOB_JOBS_TXN_H

#include "job/job.h"
#include "jobs.h"
#include "store/store_internal.h"
#include "topic/counts.h"
#include "topic/topics.h"

/* The open transaction, which began at now_ms. */
struct dt_change_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts *counts; /* has what changes */
    struct dt_arena *arena;   /* of what is read */
    struct dt_str actor;      /* for whom, noted with each change (events/events.h); absent: nobody is noted here */
};
enum dt_change_how { DT_CHANGE_CANCEL, DT_CHANGE_PATCH, DT_CHANGE_RUN_NOW, DT_CHANGE_REDRIVE, DT_CHANGE_REPLACE };
struct dt_job_change {
    enum dt_change_how how;
    int64_t id;               /* 0: the job that has the key */
    struct dt_str topic, key; /* topic absent: of any, with an id */
    const struct dt_patch *patch;
    bool keep_attempt;             /* of a cancel: further attempts alone */
    const struct dt_new_job *body; /* of a replace, which names the job by its key */
    struct dt_job job;             /* out: as of the functions of store.h */
    bool locked;                   /* out: another session has the row; with BUSY, and the transaction goes on */
};
/* Changes the job. NOT_FOUND, TOO_LATE, NOT_DEAD, and BUSY with `locked`, change nothing, and the transaction goes on;
 * with any other status but OK: roll back. NOT_FOUND of a replace: the caller may insert the row with `replace` set, in
 * the same transaction; a row that is SAME or CONFLICT then has met a job that came about meanwhile: roll back, and
 * again. */
DT_MUST_CHECK dt_status dt_change_in_txn(const struct dt_change_txn *txn, struct dt_job_change *change,
                                         struct dt_error *err);
/* Reads a job as it is in the open transaction, archived ones too, with its payload. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_job_read_in_txn(const struct dt_change_txn *txn, int64_t id, struct dt_job *job,
                                           struct dt_error *err);
/* Finds the job that has a key. NOT_FOUND: none has it. */
DT_MUST_CHECK dt_status dt_key_find(dt_db *db, struct dt_str topic, struct dt_str key, int64_t *id,
                                    struct dt_error *err);

/* The pause or the end of a pause. */
struct dt_topic_pausing {
    struct dt_str name;
    bool paused;
    struct dt_str actor;      /* for whom, noted with it; absent: nobody is noted */
    struct dt_topic_now *now; /* the topic afterwards; NULL: nobody wants to see it */
};
/* Pauses or resumes a topic in the open transaction, which began at now_ms, and holds the lock of all changes of topics
 * from then on. NOT_FOUND changes nothing, and the transaction goes on. */
DT_MUST_CHECK dt_status dt_topic_pause_in_txn(dt_db *db, int64_t now_ms, const struct dt_topic_pausing *pausing,
                                              struct dt_error *err);

/* Reads a topic, inside a transaction or outside. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_topic_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                                      struct dt_error *err);
/* "in." -> what is above all names that begin with it: names have no byte above 0x7E. Absent: memory is out. */
struct dt_str dt_topic_above_prefix(struct dt_arena *arena, struct dt_str prefix);

/*
 * Making jobs inside a transaction of the caller (intents, fires of schedules), by the code with which dt_store_insert
 * makes them in a transaction of its own. For store/ only.
 */

/* The rows to insert. maker: the random number of the block that their ids come from (jobs.h). */
struct dt_insert_rows {
    struct dt_insert *const *v;
    size_t n;
    int64_t maker;
    bool singly;   /* one after the other, so that one the server does not take is REFUSED alone */
    bool no_fires; /* keys of fires are RESERVED */
};
/*
 * Inserts the rows in the open transaction, which began at now_ms; those that are CREATED are counted in *counts.
 * EXISTS: an id is taken (singly: the outcome ID_TAKEN); INVALID: the server does not take one of the rows; with any
 * status but OK: roll back.
 */
DT_MUST_CHECK dt_status dt_insert_in_txn(dt_store *store, dt_db *db, int64_t now_ms, const struct dt_insert_rows *rows,
                                         struct dt_counts *counts, struct dt_error *err);

/*
 * Offers to pops, in the same transaction, those of the inserted rows that are due (dispatch/pop.h), so that a pop
 * that follows need not wait for a leader. Scans meet the rows all the same: a topic may have got another delivery a
 * moment ago. A pop leaves what is not due yet. room: for DT_OFFER_COLUMNS parameters a row.
 */
#define DT_OFFER_COLUMNS 3
DT_MUST_CHECK dt_status dt_offer_made(dt_db *db, const struct dt_insert_rows *rows, int64_t now_ms,
                                      struct dt_param *room, struct dt_error *err);

#endif
