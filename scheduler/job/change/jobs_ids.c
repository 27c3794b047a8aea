/*
 * The ids of jobs: blocks of sequence numbers for new jobs, and finding jobs by the ids and keys that callers gave.
 *
 * Invariant: MySQL never gives a number out twice, even if the server was restored from an older copy. Reads lock
 * nothing.
 */
#include <sys/random.h>

#include "base/text/json_write.h"
#include "job/job.h"
#include "job/results/results.h"
#include "jobs.h"
#include "jobs_txn.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

#ifndef BLOCK_IDS
#define BLOCK_IDS INT64_C(20000)
#endif

dt_status dt_id_block_reserve(struct dt_id_block *block, dt_store *store, size_t n, struct dt_error *err)
{
    int64_t want = (int64_t)n > BLOCK_IDS ? (int64_t)n : BLOCK_IDS;
    int64_t first = 0;
    uint64_t random = 0;
    if (block->end - block->next >= (int64_t)n)
        return DT_OK;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    dt_status status = dt_store_reserve_ids(store, want, &first, err);
    if (status == DT_OK)
        *block = (struct dt_id_block){.next = first, .end = first + want, .maker = (int64_t)(random >> 1)};
    return status;
}

void dt_id_block_refill(struct dt_id_block *block, dt_store *store, size_t n)
{
    (void)!dt_id_block_reserve(block, store, n, NULL);
}

#define NUMBERS_A_MS INT64_C(16)

struct block {
    int64_t n, first;
};

static dt_status raise_next_id(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct block *block = arg;
    int64_t *first = &block->first;
    dt_status status = dt_db_read_number(db, dt_sql_lock_next_id, DT_NO_PARAMS, NULL, first, err);
    if (status != DT_OK)
        return status;
    if (*first < 1 || *first > INT64_MAX - block->n)
        return dt_fail(err, DT_SCHEMA, "the row of id_sequence is missing, or has no numbers left");
    if (*first < now_ms * NUMBERS_A_MS)
        *first = now_ms * NUMBERS_A_MS;
    return dt_db_run(db, dt_sql_set_next_id, DT_PARAMS(DT_P_INT(*first + block->n)), NULL, err);
}

dt_status dt_store_reserve_ids(dt_store *store, int64_t n, int64_t *first, struct dt_error *err)
{
    struct block block = {.n = n};
    if (n < 1)
        return dt_fail(err, DT_INVALID, "cannot reserve %lld ids", (long long)n);
    dt_status status = dt_store_commit_work(store, NULL, raise_next_id, &block, err);
    *first = block.first;
    /* If the answer to the COMMIT is missing, the block is not used: numbers may be lost, but no number is given out
     * twice. */
    return status == DT_UNKNOWN ? dt_fail(err, DT_UNAVAILABLE, "connection lost while taking ids") : status;
}

/*
 * ---- by the id of a command ----
 *
 * Any number of ids takes at most two statements. If no command gave a job the id, the id may be the number of a job,
 * because clients that pop a job only know its number.
 */

struct lookup {
    struct dt_command_job *v;
    size_t n;
    struct dt_arena *arena;
    dt_db *db;
    dt_status failed; /* NOMEM if a text could not be copied */
};

static void fill_found_job(struct lookup *l, struct dt_command_job *job, int64_t job_id, unsigned first)
{
    job->job_id = job_id;
    job->topic = dt_arena_copy(l->arena, dt_db_bytes(l->db, first));
    job->attempt = dt_db_i64(l->db, first + 1);
    if (!job->topic.p)
        l->failed = DT_NOMEM;
}

static dt_status find_jobs_by_command_id(struct lookup *l, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    dt_json_begin_array(&list, NULL);
    for (size_t i = 0; i < l->n; i++) {
        dt_json_begin_array(&list, NULL);
        dt_json_put_int(&list, NULL, (int64_t)i);
        dt_json_put_hex(&list, NULL, l->v[i].id);
        dt_json_end_array(&list);
    }
    dt_json_end_array(&list);
    dt_status status = dt_db_query(l->db, dt_sql_select_command_jobs, DT_PARAMS(DT_P_BUF(&list)), err);
    dt_strbuf_clear(&list);
    if (status != DT_OK)
        return status;
    while (dt_db_next(l->db)) {
        size_t i = (size_t)dt_db_i64(l->db, 0);
        if (i < l->n && !dt_db_is_null(l->db, 2)) /* a NULL topic: the job is not stored any more */
            fill_found_job(l, &l->v[i], dt_db_i64(l->db, 1), 2);
    }
    return dt_db_end(l->db, err);
}

static dt_status fill_jobs_by_number(void *arg)
{
    struct lookup *l = arg;
    const int64_t job_id = dt_db_i64(l->db, 0);
    for (size_t i = 0; i < l->n; i++) {
        int64_t number;
        if (l->v[i].job_id == 0 && dt_job_id_parse(l->v[i].id, &number) && number == job_id)
            fill_found_job(l, &l->v[i], job_id, 1);
    }
    return l->failed;
}

static dt_status find_jobs_by_number(struct lookup *l, struct dt_error *err)
{
    int64_t *numbers = dt_arena_alloc(l->arena, (l->n + 1) * sizeof(*numbers)); /* ascending, each once */
    size_t n = 0;
    size_t kept = 0;
    if (!numbers)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].job_id == 0 && dt_job_id_parse(l->v[i].id, &numbers[n]))
            n++;
    if (n > 1)
        qsort(numbers, n, sizeof(*numbers), dt_by_job_id);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[kept++] = numbers[i];
    if (kept == 0)
        return DT_OK;
    return dt_id_in_read(l->db, &dt_sql_select_numbered_jobs, DT_NO_PARAMS, DT_IDS(numbers, kept), fill_jobs_by_number,
                         l, err);
}

static dt_status look_up_jobs(dt_store *, dt_db *db, void *arg, struct dt_error *err)
{
    struct lookup *l = arg;
    l->db = db;
    l->failed = DT_OK;
    for (size_t i = 0; i < l->n; i++) {
        l->v[i].job_id = l->v[i].attempt = 0;
        l->v[i].topic = DT_STR_NONE;
    }
    dt_status status = find_jobs_by_command_id(l, err);
    DT_THEN(status, find_jobs_by_number(l, err));
    return status == DT_OK ? l->failed : status;
}

dt_status dt_store_command_jobs(dt_store *store, struct dt_command_job *v, size_t n, struct dt_arena *arena,
                                struct dt_error *err)
{
    struct lookup lookup = {.v = v, .n = n, .arena = arena};
    dt_db *db;
    return n ? dt_store_first(store, &db, look_up_jobs, &lookup, err) : DT_OK;
}

dt_status dt_key_find(dt_db *db, struct dt_str topic, struct dt_str key, int64_t *id, struct dt_error *err)
{
    bool found;
    dt_status status =
        dt_db_read_number(db, dt_sql_select_key, DT_PARAMS(DT_P_STR(topic), DT_P_STR(key)), &found, id, err);
    return status == DT_OK && !found ? dt_fail(err, DT_NOT_FOUND, "no job with this key") : status;
}

dt_status dt_store_find_key(dt_store *store, struct dt_str topic, struct dt_str key, int64_t *id, struct dt_error *err)
{
    dt_db *db;
    dt_status status;
    unsigned tries = 0;
    *id = 0;
    do {
        status = dt_store_db(store, &db, err);
        if (status != DT_OK)
            return status;
        status = dt_key_find(db, topic, key, id, err);
    } while (dt_store_read_again(&tries, status));
    return status;
}
