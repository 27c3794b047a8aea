/* Implements jobs_row.h: copies columns of a row into a struct dt_job. */
#include "jobs_row.h"

_Static_assert(DT_JOB_STATES == 5, "the ENUM jobs.state has five words");
_Static_assert(DT_ATTEMPT_STATUSES == 9, "the ENUM jobs.attempt_status has eight words, then none");

/* Copies texts; sets `failed` if memory runs out. */
struct copier {
    const dt_db *db;
    struct dt_arena *arena;
    bool failed;
};

static struct dt_str copy_column_text(struct copier *c, unsigned column)
{
    struct dt_str cell = dt_db_bytes(c->db, column);
    if (!cell.p)
        return DT_STR_NONE;
    struct dt_str copied = dt_arena_copy(c->arena, cell);
    c->failed |= !copied.p;
    return copied;
}

dt_status dt_row_state(const dt_db *db, unsigned column, enum dt_job_state *out)
{
    int64_t n = dt_db_i64(db, column);
    if (n < 1 || n > DT_JOB_STATES)
        return DT_CORRUPT;
    *out = (enum dt_job_state)(n - 1);
    return DT_OK;
}

enum dt_attempt_status dt_row_attempt_status(const dt_db *db, unsigned column)
{
    int64_t n = dt_db_i64(db, column);
    return n > 0 && n < DT_ATTEMPT_STATUSES ? (enum dt_attempt_status)n : DT_ATTEMPT_NONE;
}

#define READ(kind, member, column) READ_##kind(member);
#define READ_INT(member)           job->member = dt_db_i64(c->db, n++)
#define READ_FLAG(member)          job->member = dt_db_i64(c->db, n++) != 0
#define READ_SHARD(member)         job->member = (int)dt_db_i64(c->db, n++)
#define READ_TEXT(member)          job->member = copy_column_text(c, n++)
#define READ_STATE(member)         status = dt_row_state(c->db, n++, &job->member)
#define READ_STATUS(member)        job->member = dt_row_attempt_status(c->db, n++)

static dt_status read_job_head(struct copier *c, unsigned first, struct dt_job *job)
{
    dt_status status = DT_OK;
    unsigned n = first;
    memset(job, 0, sizeof(*job));
    DT_JOB_COLUMNS(READ, READ, READ)
    job->next_at_ms = dt_job_state_terminal(job->state) ? 0 : job->next_at_ms;
    return status;
}

dt_status dt_row_head(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job)
{
    struct copier c = {.db = db, .arena = arena};
    dt_status status = read_job_head(&c, first, job);
    return c.failed ? DT_NOMEM : status;
}

dt_status dt_row_full(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job)
{
    struct copier c = {.db = db, .arena = arena};
    dt_status status = read_job_head(&c, first, job);
    job->payload = copy_column_text(&c, first + DT_ROW_HEAD_COLUMNS);
    return c.failed ? DT_NOMEM : status;
}

dt_status dt_row_judged(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job)
{
    struct copier c = {.db = db, .arena = arena};
    memset(job, 0, sizeof(*job));
    job->id = dt_db_i64(db, first);
    dt_status status = dt_row_state(db, first + 1, &job->state);
    job->next_at_ms = dt_db_i64(db, first + 2);
    job->attempt = dt_db_i64(db, first + 3);
    job->attempt_status = dt_row_attempt_status(db, first + 4);
    job->failures = dt_db_i64(db, first + 5);
    job->no_retries = dt_db_i64(db, first + 6) != 0;
    job->retry = copy_column_text(&c, first + 7);
    job->ack_timeout_ms = dt_db_i64(db, first + 8);
    job->due_at_ms = dt_db_i64(db, first + 9);
    job->dispatched_at_ms = dt_db_i64(db, first + 10);
    job->claim_shard = -1;
    job->next_at_ms = dt_job_state_terminal(job->state) ? 0 : job->next_at_ms;
    return c.failed ? DT_NOMEM : status;
}
