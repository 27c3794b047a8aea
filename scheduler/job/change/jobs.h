/* Jobs as callers make, read and change them. Each function is one transaction, or one read. */
#pragma once

#include "job/delivery.h"
#include "job/job.h"
#include "job/problem.h"
#include "store/store.h"

/* Reserves a block of n sequence numbers, [*first, *first + n). *first is at least sixteen times the server's clock in
 * milliseconds since 1970. So if a server is restored from a copy, it continues above the numbers that it gave out
 * after the copy was made. dt_job_id uses 39 bits of a number: for the jobs of one home day, numbers repeat after 397
 * days. */
dt_status dt_store_reserve_ids(dt_store *store, int64_t n, int64_t *first, struct dt_error *err);

enum dt_insert_outcome {
    DT_INSERT_CREATED,
    DT_INSERT_SAME,     /* the key exists, with an equal request */
    DT_INSERT_CONFLICT, /* the key exists, with another request */
    DT_INSERT_NO_TOPIC,
    DT_INSERT_ID_TAKEN, /* another job has the id: the caller inserts the row again with another id */
    DT_INSERT_REFUSED,  /* the server refuses this row */
    DT_INSERT_TOO_LARGE /* the row is larger than max_allowed_packet of MySQL */,
    DT_INSERT_RESERVED, /* the key is that of a schedule's fire */
    DT_INSERT_DELETING  /* the topic is being deleted; set by the caller, not by the store */
};
struct dt_insert {
    struct dt_new_job job; /* in: all members are final, including id, retry and ack_timeout */
    bool popped;           /* in: clients pop the jobs of this topic, so a due job is offered to them at once */
    bool replace;          /* in: if a finished job has the key, the new job takes it */
    enum dt_insert_outcome outcome; /* out */
    int64_t existing_id;            /* out: for SAME and CONFLICT */
    int64_t near;                   /* private to dt_store_insert */
};
/* Inserts all rows in one transaction. OK: every outcome is set, and jobs with CREATED are durable. UNKNOWN: the COMMIT
 * was not answered, and the rows could not be read afterwards, so the jobs may exist or not. After any other status
 * nothing was written. maker: the random number of this process's block of ids, by which the process recognizes its
 * rows. *created_ms: MySQL's time of the transaction. */
dt_status dt_store_insert(dt_store *store, struct dt_insert *const *rows, size_t n, int64_t maker, int64_t *created_ms,
                          struct dt_error *err);

/*
 * ---- one job (jobs_store.c) ----
 *
 * Each change sets *job to the row after the change; with TOO_LATE, NOT_DEAD and VERSION, to the unchanged row.
 * NOT_FOUND: neither `jobs` nor `history` has the job. TOO_LATE with job->unsettled: only an attempt whose batch is not
 * settled prevents the change. Its leader usually settles it within milliseconds, so the caller may try again.
 */

/* Reads a job with its payload, from `jobs` or the archive. */
dt_status dt_store_get(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job, struct dt_error *err);
/* Finds the id of the job that has the key. NOT_FOUND: no job has it. */
dt_status dt_store_find_key(dt_store *store, struct dt_str topic, struct dt_str key, int64_t *id, struct dt_error *err);
/* Sets *yes to whether the in-flight list of this shard has an attempt of the job. The list may change at once, so no
 * decision may depend on the answer. */
dt_status dt_store_in_flight(dt_store *store, int64_t id, int shard, bool *yes, struct dt_error *err);

/* Changes the members that the patch has. If no value changes, nothing is written. VERSION: the row has another
 * version. */
dt_status dt_store_patch(dt_store *store, int64_t id, const struct dt_patch *patch, struct dt_arena *arena,
                         struct dt_job *job, struct dt_error *err);
/* Replaces the body of the unfinished job that has the body's topic and key: its times, message and policy. The count
 * of failures restarts; the id and the numbers of attempts continue. If retry is absent or ack_timeout is 0, the
 * topic's value is used; body->id is not used. The job's row is locked, so an attempt is claimed either before the
 * change, with the old body (then the result is TOO_LATE), or after it, with the new body. NOT_FOUND: no unfinished job
 * has the key, and nothing was changed. The caller may then insert the body with `replace` set. If that insert returns
 * SAME or CONFLICT, another caller has just inserted a job with the key. */
dt_status dt_store_replace(dt_store *store, const struct dt_new_job *body, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err);
/* Cancels a job. OK: the job is cancelled, by this call or before. keep_attempt: an attempt in flight continues, and
 * only further attempts are cancelled. TOO_LATE: the job is finished, or an attempt is in flight; job->state and
 * job->attempt say which. */
dt_status dt_store_cancel(dt_store *store, int64_t id, bool keep_attempt, struct dt_arena *arena, struct dt_job *job,
                          struct dt_error *err);
/* Makes a scheduled job due now. TOO_LATE: the job is not scheduled. */
dt_status dt_store_run_now(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err);
/* Makes a dead job scheduled again, due now, and resets its count of failures. NOT_DEAD: the job is not dead. */
dt_status dt_store_redrive(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_job *job,
                           struct dt_error *err);

/* A job to find by an id in a command. */
struct dt_command_job {
    struct dt_str id;    /* in: id that the job's command gave, or the job's number */
    int64_t job_id;      /* out; 0 = there is no such job, or it was removed */
    struct dt_str topic; /* out, in the arena */
    int64_t attempt;     /* out: number of the latest attempt; 0 = none */
};
/* Finds jobs by the ids that commands use for them (jobs_ids.c). An archived job is found only if its own command gave
 * it the id. */
dt_status dt_store_command_jobs(dt_store *store, struct dt_command_job *v, size_t n, struct dt_arena *arena,
                                struct dt_error *err);

struct dt_attempt {
    int64_t attempt, due_at_ms, dispatched_at_ms, finished_at_ms;
    enum dt_attempt_status status;
    struct dt_str error_code, error_message;
    int64_t http_status; /* status in the receiver's answer; 0 = none */
    int64_t duration_ms; /* duration of a callback that has ended; -1 = none */
};
struct dt_attempt_filter {
    int64_t job_id, after; /* after: only attempts with a higher number */
    unsigned limit;
};
struct dt_attempt_list {
    struct dt_attempt *v; /* in the arena */
    size_t n;
    bool more; /* there are further attempts after the last one */
};
/* Lists attempts in ascending order. NOT_FOUND: there is no such job. The list is empty unless OK. */
dt_status dt_store_attempts(dt_store *store, const struct dt_attempt_filter *filter, struct dt_arena *arena,
                            struct dt_attempt_list *out, struct dt_error *err);

/*
 * A block of sequence numbers for new jobs, taken from MySQL as a whole, so that ids are known before the insert. Each
 * thread that makes jobs has its own block.
 *
 * If a server is restored from an older copy, dt_store_reserve_ids continues above the blocks that were given out after
 * the copy. If the server's clock was set back too, or the block was taken within the last second, two processes may
 * get the same block. So each block has a random number, its maker, which is written into the rows: by it a process
 * recognizes its own rows.
 */
struct dt_id_block {   /* zero at first */
    int64_t next, end; /* numbers left: [next, end) */
    int64_t maker;
};

/* Takes a new block if the current one has fewer than n numbers left; the numbers left are then never used. Statuses as
 * in store/store.h. */
dt_status dt_id_block_reserve(struct dt_id_block *block, dt_store *store, size_t n, struct dt_error *err);
/* Calls dt_id_block_reserve ahead of time, while no caller waits for an answer. If it fails, the next reserve tries
 * again. */
void dt_id_block_refill(struct dt_id_block *block, dt_store *store, size_t n);
/* Takes a number from the block, which must not be empty. */
static inline int64_t dt_id_block_next(struct dt_id_block *block)
{
    return block->next++;
}
/* Empties a block if another process has the same numbers. The next reserve takes another block. */
static inline void dt_id_block_drop(struct dt_id_block *block)
{
    block->next = block->end = 0;
}

/* Returns true if the outcome says that the row is a job, made now (CREATED) or before (SAME). Otherwise sets *problem
 * to the reason for the refusal, with faults in *faults, which must live as long as *problem. reason: the server's
 * message, for REFUSED; may be NULL. */
bool dt_insert_is_job(const struct dt_insert *row, const char *reason, struct dt_faults *faults,
                      struct dt_problem *problem);
/* Makes the problem for a job that does not fit the delivery of its topic. */
void dt_job_misfits(const struct dt_callback_misfit *misfit, struct dt_faults *faults, struct dt_problem *problem);

/* Returns the problem of a new job or schedule in a topic that is being deleted. */
struct dt_problem dt_topic_deleting(void);
