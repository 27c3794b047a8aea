/*
 * New jobs: the transaction of a group commit.
 *
 * Statements of a batch, whatever its size (with array binding; without it a few more):
 *
 *     BEGIN + the server's time      (one round trip)
 *     INSERT job_keys                (keyed rows, in order of topic and key: all writers lock in that order)
 *     [SELECT job_keys               (which jobs have the keys that were taken)]
 *     [INSERT command_ids            (ids of commands, in the same way; then job_keys, for jobs whose key is free)]
 *     INSERT jobs
 *     [INSERT pop_queue              (jobs that can be popped at once)]
 *     INSERT job_counts + COMMIT     (one round trip)
 *
 * If there are no keys, and the server's time is known well enough, the batch starts with INSERT jobs.
 *
 * Invariants: a row is CREATED only if the committed transaction wrote its job and its key. A taken key affects only
 * its own row; all other errors are reported. If a statement fails because of one of its rows, the batch is rolled back
 * and repeated in one transaction that inserts row by row (`singly`), to find that row.
 *
 * If a COMMIT is not answered, the batch's rows are read with a lock on a new connection. If the old session is still
 * in its transaction, it has the rows locked, so the read waits until that transaction has ended; then all of the rows
 * exist, or none.
 */
#include <time.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "job/job.h"
#include "jobs.h"
#include "jobs_row.h"
#include "jobs_txn.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

#define KEY_COLUMNS     3
#define READ_BACK_US    INT64_C(15000000) /* longest wait for an old session to end its transaction */
#define READ_BACK_PAUSE 50                /* ms */
#define ROW_OVERHEAD    1024
#define OWNERS_AT_ONCE  ((size_t)1000) /* most keys in one statement, as a JSON list; the list has a megabyte at most */
#define OWNER_BYTES     1024           /* most bytes of a key in the list of a statement */

/* Groups of columns. If no job of a batch sets the columns of a group, they are not sent: their defaults cost the
 * server less than NULLs or zeros. */
enum { HAS_NEAR = 1, HAS_KEY = 2, HAS_EXTRAS = 4 };
enum { OWN_COLUMNS = 11, EXTRA_COLUMNS = 0 DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_ONE, DT_COLUMN_ONE) };
enum { JOB_COLUMNS = OWN_COLUMNS + 2 + EXTRA_COLUMNS }; /* most columns of a row */
static const char *const insert_forms[] = {
    [0] = dt_sql_insert_job,
    [HAS_NEAR] = dt_sql_insert_job_near,
    [HAS_KEY] = dt_sql_insert_job_key,
    [HAS_NEAR | HAS_KEY] = dt_sql_insert_job_near_key,
    [HAS_EXTRAS] = dt_sql_insert_job_extras,
    [HAS_NEAR | HAS_EXTRAS] = dt_sql_insert_job_near_extras,
    [HAS_KEY | HAS_EXTRAS] = dt_sql_insert_job_key_extras,
    [HAS_NEAR | HAS_KEY | HAS_EXTRAS] = dt_sql_insert_job_near_key_extras,
};

static size_t count_columns(unsigned has)
{
    return OWN_COLUMNS + (has & HAS_NEAR ? 1u : 0u) + (has & HAS_KEY ? 1u : 0u) +
           (has & HAS_EXTRAS ? EXTRA_COLUMNS : 0u);
}

/* A table of unique names, with the statements on it. Keys are unique in their topic, ids of commands in the
 * installation. */
static const struct name_space {
    bool by_topic;
    const char *insert, *owners, *take, *delete;
} namespaces[] = {
    [false] = {true, dt_sql_insert_key, dt_sql_select_key_owners, dt_sql_take_key, dt_sql_delete_key},
    [true] = {false, dt_sql_insert_command_id, dt_sql_select_command_id_owners, dt_sql_take_command_id,
              dt_sql_delete_command_id},
};

struct keyed {
    struct dt_insert *row;
    size_t order; /* index of the row in the batch: if several rows have the same name, the first row gets the job */
    const struct keyed *head; /* the first row with this name; only heads are inserted */
    int64_t owner;            /* id of the other job that has the name; 0 = none */
    unsigned char owner_digest[16];
};

struct batch {
    dt_store *store;
    dt_db *db;
    struct dt_insert *const *rows;
    size_t n;
    int64_t maker, now_ms;
    struct keyed *keyed; /* sorted: keys before ids of commands; then by topic (for keys), name and order */
    size_t n_keyed;
    struct dt_param *params;
    unsigned has;             /* HAS_* bits of the columns that at least one job of the batch sets */
    struct dt_counts *counts; /* changes of the counters of jobs by this transaction */
};

static const struct name_space *namespace_of(const struct keyed *k)
{
    return &namespaces[k->row->job.by_command];
}

static int compare_keys(const struct keyed *a, const struct keyed *b)
{
    const struct dt_new_job *x = &a->row->job;
    const struct dt_new_job *y = &b->row->job;
    int c = x->by_command - y->by_command;
    if (!c && namespace_of(a)->by_topic)
        c = dt_str_order(x->topic, y->topic);
    return c ? c : dt_str_order(x->key, y->key);
}

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a;
    const struct keyed *y = b;
    int c = compare_keys(x, y);
    return c ? c : DT_ORDER(x->order, y->order);
}

static void sort_keyed(struct batch *b)
{
    bool sorted = true; /* callers mostly send rows that are sorted by key already */
    for (size_t i = 1; i < b->n_keyed && sorted; i++)
        sorted = compare_keyed(&b->keyed[i - 1], &b->keyed[i]) < 0;
    if (!sorted)
        qsort(b->keyed, b->n_keyed, sizeof(*b->keyed), compare_keyed);
    for (size_t i = 0; i < b->n_keyed; i++) {
        struct keyed *k = &b->keyed[i];
        k->head = i && compare_keys(&b->keyed[i - 1], k) == 0 ? b->keyed[i - 1].head : k;
    }
}

static unsigned optional_columns(const struct dt_insert *row)
{
    const struct dt_new_job *job = &row->job;
    return (row->near ? HAS_NEAR : 0u) | (job->key.p ? HAS_KEY : 0u) | (dt_new_job_has_extras(job) ? HAS_EXTRAS : 0u);
}

/* Sets the outcomes that depend only on the batch itself. A row is CREATED until a statement finds a reason to refuse
 * it. */
static void set_initial_outcomes(struct batch *b)
{
    b->n_keyed = 0;
    b->has = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct dt_insert *row = b->rows[i];
        struct dt_new_job *job = &row->job;
        row->existing_id = 0;
        row->outcome = DT_INSERT_CREATED;
        if (!job->retry.p || job->ack_timeout_ms <= 0)
            row->outcome = DT_INSERT_NO_TOPIC;
        else if (ROW_OVERHEAD + dt_new_job_bytes(job) > dt_db_packet_max(b->db))
            row->outcome = DT_INSERT_TOO_LARGE;
        else if (job->key.p)
            b->keyed[b->n_keyed++] = (struct keyed){.row = row, .order = i};
        if (job->run_at_ms < b->now_ms)
            job->run_at_ms = b->now_ms;
        row->near = job->run_at_ms < dt_near_end_ms(b->now_ms);
        b->has |= optional_columns(row);
    }
    sort_keyed(b);
}

#define PUSH(kind, member, column) *p++ = DT_COLUMN_PARAM_##kind(job->member);

/* Adds the parameters of a row for the statement insert_forms[has]. Returns the end of the parameters. */
static struct dt_param *job_params(const struct batch *b, unsigned has, const struct dt_insert *row, struct dt_param *p)
{
    const struct dt_new_job *job = &row->job;
    p = dt_params_add(p, DT_PARAMS(DT_P_INT(job->id), DT_P_STR(job->topic), DT_P_INT(job->run_at_ms),
                                   DT_P_INT(job->run_at_ms), DT_P_STR(job->retry), DT_P_INT(job->ack_timeout_ms),
                                   DT_P_INT(b->now_ms), DT_P_INT(b->now_ms), DT_P_INT(b->maker),
                                   DT_P_STR(((struct dt_str){(const char *)job->digest, sizeof(job->digest)})),
                                   DT_P_STR(job->payload)));
    if (has & HAS_NEAR)
        *p++ = DT_P_INT(row->near);
    if (has & HAS_KEY)
        *p++ = DT_P_STR_OR_NULL(job->key);
    if (!(has & HAS_EXTRAS))
        return p;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, PUSH, PUSH)
    return p;
}

/* Adds the parameters that identify a name in this namespace. Returns the end of the parameters. */
static struct dt_param *name_params(const struct name_space *in, const struct dt_new_job *job, struct dt_param *p)
{
    if (in->by_topic)
        *p++ = DT_P_STR(job->topic);
    *p++ = DT_P_STR(job->key);
    return p;
}

static struct dt_param *key_params(const struct name_space *in, const struct dt_new_job *job, struct dt_param *p)
{
    p = name_params(in, job, p);
    *p++ = DT_P_INT(job->id);
    return p;
}

static void set_same_or_conflict(struct dt_insert *row, int64_t owner, const unsigned char digest[16])
{
    row->outcome = memcmp(row->job.digest, digest, 16) == 0 ? DT_INSERT_SAME : DT_INSERT_CONFLICT;
    row->existing_id = owner;
}

/* Sets owner and outcome of the rows whose name belongs to another job; of several rows with one name, only of the
 * first (head). *gone: number of rows whose name can be given to the new job, because the other job was removed or no
 * longer keeps the name. If the name belongs to a job with the row's own id, the name is not taken: INSERT jobs then
 * finds that the id exists. */
static dt_status read_key_owners(struct batch *b, struct keyed *keyed, size_t n, size_t *gone, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    dt_json_begin_array(&list, NULL);
    for (size_t i = 0; i < n; i++) {
        if (keyed[i].head != &keyed[i])
            continue;
        dt_json_begin_array(&list, NULL);
        dt_json_put_int(&list, NULL, (int64_t)i);
        dt_json_put_hex(&list, NULL, keyed[i].row->job.topic);
        dt_json_put_hex(&list, NULL, keyed[i].row->job.key);
        dt_json_end_array(&list);
    }
    dt_json_end_array(&list);
    dt_status status = dt_db_query(b->db, namespace_of(keyed)->owners,
                                   DT_PARAMS(DT_P_INT(dt_store_config(b->store)->history_keys), DT_P_BUF(&list)), err);
    dt_strbuf_clear(&list);
    if (status != DT_OK)
        return status;
    while (dt_db_next(b->db)) {
        size_t i = (size_t)dt_db_i64(b->db, 0);
        struct dt_str digest = dt_db_bytes(b->db, 2);
        if (i >= n || dt_db_i64(b->db, 1) == keyed[i].row->job.id)
            continue;
        keyed[i].owner = dt_db_i64(b->db, 1);
        /* The other job loses the name if the time for which it keeps it has passed, or if that job is finished and the
         * new job replaces it. */
        enum dt_job_state state;
        const bool live =
            !dt_db_is_null(b->db, 4) && dt_row_state(b->db, 4, &state) == DT_OK && !dt_job_state_terminal(state);
        const bool is_free =
            (!dt_db_is_null(b->db, 3) && dt_db_i64(b->db, 3) <= b->now_ms) || (keyed[i].row->replace && !live);
        if (digest.n == sizeof(keyed[i].owner_digest) && !is_free) {
            memcpy(keyed[i].owner_digest, digest.p, digest.n);
            set_same_or_conflict(keyed[i].row, keyed[i].owner, keyed[i].owner_digest);
        } else {
            ++*gone;
        }
    }
    return dt_db_end(b->db, err);
}

/* Finds the jobs that already have the names of the batch. If such a job was removed or no longer keeps its name, gives
 * the name to the new job. */
static dt_status find_name_owners(struct batch *b, struct keyed *keyed, size_t n, struct dt_error *err)
{
    const size_t fit = dt_db_packet_max(b->db) / OWNER_BYTES;
    const size_t most = fit < OWNERS_AT_ONCE ? fit : OWNERS_AT_ONCE;
    size_t gone = 0;
    dt_status status = DT_OK;
    dt_assert_cmp(most, >, 0);
    for (size_t i = 0; i < n && status == DT_OK; i += most)
        status = read_key_owners(b, keyed + i, n - i < most ? n - i : most, &gone, err);
    for (size_t i = 0; gone && i < n && status == DT_OK; i++) {
        const struct keyed *k = &keyed[i];
        if (k->head != k || !k->owner || k->row->outcome != DT_INSERT_CREATED)
            continue;
        struct dt_param params[KEY_COLUMNS + 1] = {DT_P_INT(k->row->job.id)};
        struct dt_param *end = name_params(namespace_of(k), &k->row->job, params + 1);
        *end++ = DT_P_INT(k->owner);
        status = dt_db_run(b->db, namespace_of(k)->take, (struct dt_params){params, (size_t)(end - params)}, NULL, err);
    }
    return status;
}

/* Refuses rows whose key is that of a schedule's fire, and removes them from b->keyed. Few keys have that form, and
 * they are sorted, so each schedule is looked up once. */
static dt_status refuse_fires(struct batch *b, struct dt_error *err)
{
    struct dt_str name;
    struct dt_str topic = DT_STR_NONE;
    struct dt_str last = DT_STR_NONE;
    bool there = false;
    dt_status status = DT_OK;
    size_t n = 0;
    for (size_t i = 0; i < b->n_keyed && status == DT_OK; i++) {
        struct dt_new_job *job = &b->keyed[i].row->job;
        bool maybe = dt_fire_key_split(job->key, &name);
        if (maybe && !(last.p && dt_str_eq(name, last) && dt_str_eq(job->topic, topic)))
            status = dt_db_read_number(b->db, dt_sql_find_schedule_of_key,
                                       DT_PARAMS(DT_P_STR(name), DT_P_STR(job->topic)), &there, NULL, err);
        if (maybe) {
            last = name;
            topic = job->topic;
        }
        if (maybe && there)
            b->keyed[i].row->outcome = DT_INSERT_RESERVED;
        else
            b->keyed[n++] = b->keyed[i];
    }
    if (n != b->n_keyed) {
        b->n_keyed = n;
        sort_keyed(b); /* rows were removed from the array, so `head` of each row must be set again */
    }
    return status;
}

/* ---- all rows at once ---- */

/* Inserts the names of CREATED rows into the table of this namespace; of several rows with one name, only the first
 * (head). *missed (may be NULL): set if some of the names existed. */
static dt_status insert_names(struct batch *b, const struct name_space *in, const struct keyed *keyed, size_t n,
                              bool *missed, struct dt_error *err)
{
    struct dt_param *p = b->params;
    size_t heads = 0;
    uint64_t inserted = 0;
    for (size_t i = 0; i < n; i++) {
        if (keyed[i].head != &keyed[i] || keyed[i].row->outcome != DT_INSERT_CREATED)
            continue;
        p = key_params(in, &keyed[i].row->job, p);
        heads++;
    }
    if (heads == 0)
        return DT_OK;
    size_t columns = (size_t)(p - b->params) / heads;
    dt_status status =
        dt_db_run_many(b->db, in->insert, (struct dt_param_rows){b->params, columns, heads}, &inserted, err);
    if (missed)
        *missed = inserted != heads;
    return status;
}

/* Inserts the names of one namespace. If several rows of the batch have the same name, the later ones get the outcome
 * SAME or CONFLICT with the job of the first. */
static dt_status insert_keyed_names(struct batch *b, struct keyed *keyed, size_t n, struct dt_error *err)
{
    bool missed = false;
    dt_status status = n ? insert_names(b, namespace_of(keyed), keyed, n, &missed, err) : DT_OK;
    if (status == DT_OK && missed)
        status = find_name_owners(b, keyed, n, err);
    for (size_t i = 0; i < n && status == DT_OK; i++) {
        const struct keyed *head = keyed[i].head;
        dt_assert(head->head == head);
        if (head == &keyed[i])
            continue;
        if (head->row->outcome == DT_INSERT_CREATED)
            set_same_or_conflict(keyed[i].row, head->row->job.id, head->row->job.digest);
        else
            set_same_or_conflict(keyed[i].row, head->owner, head->owner_digest);
    }
    return status;
}

static size_t list_job_params(struct batch *b)
{
    struct dt_param *p = b->params;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->rows[i]->outcome != DT_INSERT_CREATED)
            continue;
        p = job_params(b, b->has, b->rows[i], p);
        n++;
    }
    dt_assert_cmp(p - b->params, ==, n * count_columns(b->has));
    return n;
}

static void count_created_job(struct batch *b, const struct dt_new_job *job)
{
    if (!DT_UNGUARDED(COUNT_MADE))
        dt_counts_make(b->counts, job->topic, job->id);
}

static dt_status insert_listed_jobs(struct batch *b, size_t n, struct dt_error *err)
{
    dt_assert_cmp(n, <=, b->n);
    dt_status status = dt_db_run_many(b->db, insert_forms[b->has],
                                      (struct dt_param_rows){b->params, count_columns(b->has), n}, NULL, err);
    for (size_t i = 0; i < b->n && status == DT_OK; i++)
        if (b->rows[i]->outcome == DT_INSERT_CREATED)
            count_created_job(b, &b->rows[i]->job);
    return status;
}

/* ---- row by row, to find a row that the server refuses ---- */

static dt_status insert_job_alone(struct batch *b, struct dt_insert *row, struct dt_error *err)
{
    struct dt_param params[JOB_COLUMNS];
    const unsigned has = optional_columns(row);
    const struct dt_new_job *job = &row->job;
    const struct dt_param *end = job_params(b, has, row, params);
    dt_assert_cmp(end - params, ==, count_columns(has));
    dt_status status = dt_db_run(b->db, insert_forms[has], (struct dt_params){params, count_columns(has)}, NULL, err);
    if (status == DT_OK)
        count_created_job(b, job);
    if (status == DT_INVALID) {
        row->outcome = DT_INSERT_REFUSED;
        return DT_OK;
    }
    if (status != DT_EXISTS)
        return status;
    status = dt_db_query(b->db, dt_sql_select_maker, DT_PARAMS(DT_P_INT(job->id)), err);
    if (status != DT_OK)
        return status;
    struct dt_str digest = {(const char *)job->digest, sizeof(job->digest)};
    bool ours = dt_db_next(b->db) && dt_db_i64(b->db, 0) == b->maker && dt_str_eq(dt_db_bytes(b->db, 1), digest);
    status = dt_db_end(b->db, err);
    if (status == DT_OK && !ours)
        row->outcome = DT_INSERT_ID_TAKEN;
    return status;
}

static dt_status insert_keyed_job_alone(struct batch *b, struct keyed *k, struct dt_error *err)
{
    const struct name_space *in = namespace_of(k);
    struct dt_param params[KEY_COLUMNS];
    bool missed = false;
    k->head = k;
    dt_status status = insert_names(b, in, k, 1, &missed, err);
    if (status == DT_INVALID) {
        k->row->outcome = DT_INSERT_REFUSED;
        return DT_OK;
    }
    if (status == DT_OK && missed)
        status = find_name_owners(b, k, 1, err);
    if (status != DT_OK || k->row->outcome != DT_INSERT_CREATED)
        return status;
    status = insert_job_alone(b, k->row, err);
    if (status == DT_OK && k->row->outcome == DT_INSERT_CREATED && !in->by_topic)
        status = insert_names(b, &namespaces[false], k, 1, NULL, err);
    if (status != DT_OK || k->row->outcome == DT_INSERT_CREATED)
        return status;
    /* The job was not stored, so its name is removed again. */
    size_t n = (size_t)(key_params(in, &k->row->job, params) - params);
    return dt_db_run(b->db, in->delete, (struct dt_params){params, n}, NULL, err);
}

/* Inserts names, then jobs, and offers due jobs to pops. If `singly` is set, inserts row by row. */
static dt_status insert_all_rows(struct batch *b, bool singly, struct dt_error *err)
{
    size_t keys = 0;
    size_t n = 0;
    dt_status status = DT_OK;
    while (keys < b->n_keyed && !b->keyed[keys].row->job.by_command)
        keys++;
    struct keyed *ids = b->keyed + keys;
    if (!singly)
        status = insert_keyed_names(b, b->keyed, keys, err);
    if (status == DT_OK && !singly)
        status = insert_keyed_names(b, ids, b->n_keyed - keys, err);
    /* The job of a command can also be found by its key, if no other job has that key. */
    if (status == DT_OK && !singly)
        status = insert_names(b, &namespaces[false], ids, b->n_keyed - keys, NULL, err);
    if (status == DT_OK && !singly)
        n = list_job_params(b);
    if (n)
        status = insert_listed_jobs(b, n, err);
    for (size_t i = 0; singly && i < b->n_keyed && status == DT_OK; i++)
        status = insert_keyed_job_alone(b, &b->keyed[i], err);
    for (size_t i = 0; singly && i < b->n && status == DT_OK; i++)
        if (!b->rows[i]->job.key.p && b->rows[i]->outcome == DT_INSERT_CREATED)
            status = insert_job_alone(b, b->rows[i], err);
    const struct dt_insert_rows rows = {.v = b->rows, .n = b->n};
    return status == DT_OK ? dt_offer_made(b->db, &rows, b->now_ms, b->params, err) : status;
}

static dt_status commit_batch(struct batch *b, dt_status status, struct dt_error *err)
{
    DT_FAIL_POINT_STATUS("create.commit", status, err);
    status = dt_counts_commit(b->db, b->counts, status, err);
    DT_FAIL_POINT_STATUS("create.committed", status, err);
    return status;
}

static dt_status insert_in_transaction(struct batch *b, bool singly, struct dt_error *err)
{
    dt_status status = dt_store_begin(b->store, &b->db, &b->now_ms, err);
    if (status == DT_OK) {
        dt_counts_clear(b->counts);
        set_initial_outcomes(b);
        status = refuse_fires(b, err);
    }
    DT_THEN(status, insert_all_rows(b, singly, err));
    return commit_batch(b, status, err);
}

/* Begins the transaction with the INSERT of jobs, to save round trips. NOT_FOUND: nothing was written, because the
 * batch has keys, the server's time is unknown, or the connection broke before the COMMIT was sent. */
static dt_status insert_in_few_trips(struct batch *b, struct dt_error *err)
{
    if (!dt_store_knows_now(b->store, &b->now_ms))
        return DT_NOT_FOUND;
    dt_status status = dt_store_db(b->store, &b->db, err);
    if (status != DT_OK)
        return status;
    dt_counts_clear(b->counts);
    set_initial_outcomes(b);
    size_t n = b->n_keyed ? 0 : list_job_params(b);
    if (n == 0)
        return DT_NOT_FOUND;
    status = dt_db_begin_soon(b->db, err);
    DT_THEN(status, insert_listed_jobs(b, n, err));
    const struct dt_insert_rows rows = {.v = b->rows, .n = b->n};
    DT_THEN(status, dt_offer_made(b->db, &rows, b->now_ms, b->params, err));
    if (status == DT_UNAVAILABLE && !dt_db_alive(b->db))
        return DT_NOT_FOUND;
    return commit_batch(b, status, err);
}

/* Looks for the rows of the batch. If one row exists, all were committed. It tries every row, because some jobs may be
 * finished and removed already. BUSY: the session that wrote the rows is still in its transaction. */
static dt_status try_read_back_commit(struct batch *b, bool *there, struct dt_error *err)
{
    dt_status status = dt_store_begin(b->store, &b->db, NULL, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < b->n && status == DT_OK && !*there; i++)
        if (b->rows[i]->outcome == DT_INSERT_CREATED)
            status = dt_db_read_number(b->db, dt_sql_find_made,
                                       DT_PARAMS(DT_P_INT(b->rows[i]->job.id), DT_P_INT(b->maker)), there, NULL, err);
    dt_db_rollback(b->db);
    return status;
}

/* Must be called after a COMMIT that was not answered. OK: *there says whether it was committed. UNKNOWN: whether it
 * was committed could not be found out. */
static dt_status read_back_commit(struct batch *b, bool *there, struct dt_error *err)
{
    const struct timespec pause = {.tv_nsec = READ_BACK_PAUSE * 1000000L};
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + READ_BACK_US;
    struct dt_error why = {0};
    dt_status status;
    *there = true; /* a transaction that wrote nothing counts as committed */
    for (size_t i = 0; i < b->n; i++)
        *there &= b->rows[i]->outcome != DT_INSERT_CREATED;
    if (*there)
        return DT_OK;
    while ((status = try_read_back_commit(b, there, &why)) == DT_UNAVAILABLE || status == DT_BUSY) {
        if (dt_clock_mono_us(dt_clock_system()) > until_us)
            break;
        nanosleep(&pause, NULL);
    }
    if (status == DT_OK)
        return DT_OK;
    return dt_fail(err, DT_UNKNOWN, "connection lost during COMMIT; its outcome could not be read: %.200s", why.text);
}

/* Allocates memory for the work on the rows. Returns false if memory runs out. */
static bool allocate_insert(struct batch *b)
{
    size_t params = b->n * JOB_COLUMNS * sizeof(*b->params);
    char *room = dt_store_scratch(b->store, params + b->n * sizeof(*b->keyed));
    b->params = (struct dt_param *)(void *)room;
    b->keyed = room ? (struct keyed *)(void *)(room + params) : NULL;
    return room;
}

dt_status dt_insert_in_txn(dt_store *store, dt_db *db, int64_t now_ms, const struct dt_insert_rows *rows,
                           struct dt_counts *counts, struct dt_error *err)
{
    struct batch b = {.store = store, .db = db, .rows = rows->v, .n = rows->n, .maker = rows->maker};
    b.now_ms = now_ms;
    b.counts = counts;
    if (rows->n == 0)
        return DT_OK;
    if (!allocate_insert(&b))
        return dt_fail(err, DT_NOMEM, "out of memory");
    set_initial_outcomes(&b);
    dt_status status = rows->no_fires ? refuse_fires(&b, err) : DT_OK;
    return status == DT_OK ? insert_all_rows(&b, rows->singly, err) : status;
}

dt_status dt_store_insert(dt_store *store, struct dt_insert *const *rows, size_t n, int64_t maker, int64_t *created_ms,
                          struct dt_error *err)
{
    struct dt_counts counts;
    struct batch b = {.store = store, .rows = rows, .n = n, .maker = maker, .counts = &counts};
    struct dt_again again = {0};
    bool singly = false, committed = false, repeat;
    dt_status status;
    if (n == 0)
        return DT_OK;
    dt_counts_init(&counts);
    if (!allocate_insert(&b))
        return dt_fail(err, DT_NOMEM, "out of memory");
    do {
        status = singly ? DT_NOT_FOUND : insert_in_few_trips(&b, err);
        if (status == DT_NOT_FOUND)
            status = insert_in_transaction(&b, singly, err);
        repeat = !singly && (status == DT_EXISTS || status == DT_INVALID);
        singly |= repeat;
        if (status == DT_UNKNOWN) {
            status = read_back_commit(&b, &committed, err);
            if (status == DT_OK && !committed)
                status = DT_BUSY; /* the batch was certainly not committed, so it may be tried again */
        }
    } while (repeat || dt_store_again(&again, status));
    dt_counts_clear(&counts);
    if (status == DT_OK)
        *created_ms = b.now_ms;
    return status;
}

static bool report_invalid(struct dt_faults *faults, struct dt_problem *problem, const char *pointer,
                           const char *reason)
{
    dt_faults_add(faults, pointer, reason);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID, .detail = dt_str(reason), .faults = faults};
    return false;
}

struct dt_problem dt_topic_deleting(void)
{
    return (struct dt_problem){.type = DT_PROBLEM_TOPIC_DELETING,
                               .detail = DT_STR_LIT("a topic that is being deleted accepts nothing new")};
}

bool dt_insert_is_job(const struct dt_insert *row, const char *reason, struct dt_faults *faults,
                      struct dt_problem *problem)
{
    switch (row->outcome) {
    case DT_INSERT_CREATED:
    case DT_INSERT_SAME:
        return true;
    case DT_INSERT_CONFLICT:
        *problem = (struct dt_problem){.type = DT_PROBLEM_KEY_CONFLICT,
                                       .detail = DT_STR_LIT("a different request created the job of this key"),
                                       .id = row->existing_id};
        return false;
    case DT_INSERT_NO_TOPIC:
        return report_invalid(faults, problem, "/topic", "the topic does not exist, and jobs do not create topics");
    case DT_INSERT_REFUSED:
        return report_invalid(faults, problem, "/topic", reason ? reason : "the job cannot be stored");
    case DT_INSERT_TOO_LARGE:
        report_invalid(faults, problem, "/payload", "is larger than MySQL accepts (max_allowed_packet)");
        problem->type = DT_PROBLEM_TOO_LARGE;
        return false;
    case DT_INSERT_RESERVED:
        report_invalid(faults, problem, "/key", "is reserved for the fires of a schedule");
        problem->detail = DT_STR_LIT("the key belongs to a fire of a schedule");
        return false;
    case DT_INSERT_DELETING:
        *problem = dt_topic_deleting();
        return false;
    case DT_INSERT_ID_TAKEN:
        break;
    }
    *problem = (struct dt_problem){.type = DT_PROBLEM_INTERNAL};
    return false;
}

void dt_job_misfits(const struct dt_callback_misfit *misfit, struct dt_faults *faults, struct dt_problem *problem)
{
    dt_faults_add_misfit(faults, misfit);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID,
                                   .detail = DT_STR_LIT("the job does not fit the delivery of its topic"),
                                   .faults = faults};
}
