/*
 * The archiver: moves finished jobs from `jobs` to `history` with their attempts, or removes them if their retention is
 * over; frees keys in the order of key_ends; moves rows of the default partition (`rest`) to their own partitions.
 * Housekeeping, the second part: moves rows that fall due soon to the part of the due index with exact times, and
 * counts manual edits that ended an attempt or a job. Each step can be repeated or interrupted at any point.
 *
 * A batch of the archiver, whatever its size:
 *
 *     select jobs whose leave_at has passed, in order     SELECT, no locks
 *     BEGIN; lock them in order of ids, skip locked rows, check all conditions again
 *     leave out jobs with an attempt in flight            SELECT shards.inflight, as committed now
 *     copy attempts, rows and ends of keys to history     INSERT … SELECT (attempts and keys only if there are any)
 *     delete attempts, keys and rows                      DELETE (attempts, and keys of removed jobs, if any)
 *     write history_days                                  one row for each home day and partition
 *     write history_counts, removed_jobs                  one row for each topic, state and partition
 *     write job_counts, COMMIT
 *
 * Invariants: a job is in `jobs` or in `history`, never in both or in neither, wherever the process is killed. A job
 * stays in `jobs` if its notice waits in the outbox, if its attempt is in flight, or if it was made less than YOUNG_MS
 * ago: a process that lost the answer of its COMMIT reads the job back by id, and if the server executes that INSERT
 * late, it must find the id taken. A job that stays is skipped, so it does not delay others; it is found again after
 * the cursor has returned to the first job. If two archivers run, they lock rows in the same order and skip each
 * other's locked rows.
 */

#include "archive.h"
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "job/change/jobs_row.h"
#include "job/inflight.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

#ifndef YOUNG_MS
#define YOUNG_MS 30000
#endif
#define TRIES_MAX 10000 /* most archived attempts that a transaction moves, unless a single job has more */

struct finished_job {
    int64_t id;
    struct dt_str topic;
    enum dt_job_state state;
    int32_t part; /* number of the job's partition in history */
    bool removed; /* the job's retention is over, so it is deleted instead of moved */
    bool keyed;
    int64_t tries; /* number of archived attempts */
    int64_t key_until_ms, purge_at_ms;
};

struct archiving {
    dt_store *store;
    dt_db *db;
    struct dt_archiver *archiver;
    struct dt_archived *out;
    int64_t now_ms;
    struct dt_error *err;
    struct dt_arena arena;
    struct finished_job *v; /* sorted by id until they are counted */
    size_t n;
    bool moved_keyed, moved_retried, removed_keyed, retried;
    bool cut;                 /* some candidates are left for the next batch */
    struct dt_strbuf ids;     /* ids of all jobs of the batch: [id,...] */
    struct dt_strbuf moved;   /* jobs that move: [[id,part,key_until,purge_at],...] */
    struct dt_strbuf removed; /* [id,...] */
};

/* Reads candidates from the cursor on. After the last candidate the cursor returns to the first row. */
static dt_status select_candidates(struct archiving *a, size_t limit, struct dt_strbuf *ids, size_t *n)
{
    struct dt_archiver *m = a->archiver;
    dt_status status = dt_db_query(a->db, dt_sql_select_to_archive,
                                   DT_PARAMS(DT_P_INT(m->after_ms), DT_P_INT(a->now_ms), DT_P_INT(m->after_ms),
                                             DT_P_INT(m->after_id), DT_P_INT(limit)),
                                   a->err);
    if (status != DT_OK)
        return status;
    for (*n = 0; dt_db_next(a->db); (*n)++) {
        m->after_id = dt_db_i64(a->db, 0);
        m->after_ms = dt_db_i64(a->db, 1);
        dt_id_list_add(ids, m->after_id);
    }
    dt_id_list_end(ids);
    a->out->more = *n == limit;
    if (!a->out->more)
        m->after_ms = 1, m->after_id = 0;
    status = dt_db_end(a->db, a->err);
    return status == DT_OK && ids->failed ? DT_NOMEM : status;
}

/* Locks the candidates that may still be archived. If jobs have thousands of attempts, locks fewer jobs, so that the
 * transaction stays short. */
static dt_status lock_finished_jobs(struct archiving *a, struct dt_str candidates, size_t n)
{
    const dt_db *db = a->db;
    int64_t tries = 0;
    a->v = dt_arena_alloc(&a->arena, n * sizeof(*a->v));
    if (!a->v)
        return DT_NOMEM;
    dt_status status =
        dt_db_query(a->db, dt_sql_lock_to_archive,
                    DT_PARAMS(DT_P_STR(candidates), DT_P_INT(a->now_ms), DT_P_INT(a->now_ms - YOUNG_MS)), a->err);
    while (status == DT_OK && !a->cut && a->n < n && dt_db_next(a->db)) {
        struct finished_job *v = &a->v[a->n];
        const int64_t purge_at_ms = dt_db_i64(db, 5);
        const int64_t free_ms = dt_db_i64(db, 6) + dt_store_config(a->store)->history_keys;
        *v = (struct finished_job){.id = dt_db_i64(db, 0),
                                   .topic = dt_arena_copy(&a->arena, dt_db_bytes(db, 1)),
                                   .keyed = dt_db_i64(db, 3) != 0,
                                   .tries = dt_db_i64(db, 4) > 1 ? dt_db_i64(db, 4) - 1 : 0,
                                   .purge_at_ms = purge_at_ms,
                                   .removed = purge_at_ms <= a->now_ms,
                                   .part = dt_partition_of(purge_at_ms, a->now_ms),
                                   .key_until_ms = free_ms < purge_at_ms ? free_ms : purge_at_ms};
        status = v->topic.p ? dt_row_state(db, 2, &v->state) : DT_NOMEM;
        a->cut |= a->n && tries + v->tries > TRIES_MAX;
        tries += v->tries;
        a->n += status == DT_OK && !a->cut;
    }
    dt_status end = dt_db_end(a->db, status == DT_OK ? a->err : NULL);
    return status == DT_OK ? end : status;
}

/* Leaves out jobs with an attempt in flight, which a manual edit or a result finished: sending the attempt needs the
 * job's row. The in-flight lists are read after the rows were locked, as committed at that time. */
static dt_status exclude_jobs_in_flight(struct archiving *a)
{
    struct dt_inflight list = {0};
    dt_status status = dt_db_query(a->db, dt_sql_select_lists_in_flight, DT_NO_PARAMS, a->err);
    while (status == DT_OK && dt_db_next(a->db)) {
        size_t others = 0;
        status = dt_inflight_parse(dt_db_bytes(a->db, 0), &list);
        if (status != DT_OK || list.n == 0)
            continue;
        dt_inflight_sort_by_id(&list);
        for (size_t i = 0; i < a->n; i++)
            if (!dt_inflight_has(&list, a->v[i].id))
                a->v[others++] = a->v[i];
        a->n = others;
    }
    dt_status end = dt_db_end(a->db, status == DT_OK ? a->err : NULL);
    dt_inflight_clear(&list);
    return status == DT_OK ? end : status;
}

static dt_status list_chosen_jobs(struct archiving *a)
{
    struct dt_strbuf *moved = &a->moved;
    dt_json_begin_array(moved, NULL);
    for (size_t i = 0; i < a->n; i++) {
        const struct finished_job *v = &a->v[i];
        dt_id_list_add(&a->ids, v->id);
        a->retried |= v->tries > 0;
        if (v->removed) {
            dt_id_list_add(&a->removed, v->id);
            a->removed_keyed |= v->keyed;
            a->out->removed++;
            continue;
        }
        a->moved_keyed |= v->keyed;
        a->moved_retried |= v->tries > 0;
        a->out->moved++;
        dt_json_begin_array(moved, NULL);
        dt_json_put_int(moved, NULL, v->id);
        dt_json_put_int(moved, NULL, v->part);
        dt_json_put_int_or_null(moved, NULL, v->keyed, v->key_until_ms);
        dt_json_put_int(moved, NULL, v->purge_at_ms);
        dt_json_end_array(moved);
    }
    dt_id_list_end(&a->ids);
    dt_id_list_end(&a->removed);
    dt_json_end_array(moved);
    dt_assert_cmp(a->out->moved + a->out->removed, ==, a->n);
    return a->ids.failed || a->removed.failed || moved->failed ? DT_NOMEM : DT_OK;
}

static dt_status run_for_listed_jobs(struct archiving *a, const char *sql, const struct dt_strbuf *list, size_t rows)
{
    uint64_t affected = 0;
    dt_status status = dt_db_run(a->db, sql, DT_PARAMS(DT_P_BUF(list)), &affected, a->err);
    if (status == DT_OK && rows && affected != rows)
        status =
            dt_fail(a->err, DT_INTERNAL, "%llu of %zu locked jobs were archived", (unsigned long long)affected, rows);
    return status;
}

static int compare_by_counter(const void *a, const void *b)
{
    const struct finished_job *x = a;
    const struct finished_job *y = b;
    if (x->removed != y->removed)
        return x->removed ? 1 : -1;
    int order = dt_str_order(x->topic, y->topic);
    if (order == 0 && !x->removed)
        order = x->state != y->state ? DT_ORDER(x->state, y->state) : DT_ORDER(x->part, y->part);
    return order;
}

/* Counts in the order of the keys of the counters' tables, so that two archivers do not deadlock. */
static dt_status count_archived(struct archiving *a)
{
    enum { MOVED_COLUMNS = 4, REMOVED_COLUMNS = 2 };
    qsort(a->v, a->n, sizeof(*a->v), compare_by_counter);
    struct dt_param *moved = dt_arena_alloc(&a->arena, MOVED_COLUMNS * a->n * sizeof(*moved));
    struct dt_param *removed = dt_arena_alloc(&a->arena, REMOVED_COLUMNS * a->n * sizeof(*removed));
    size_t n_moved = 0;
    size_t n_removed = 0;
    if (!moved || !removed)
        return DT_NOMEM;
    for (size_t i = 0; i < a->n; i++) {
        const struct finished_job *v = &a->v[i];
        bool same = i && compare_by_counter(&a->v[i - 1], v) == 0;
        if (v->removed) {
            struct dt_param *p = removed + REMOVED_COLUMNS * (same ? n_removed - 1 : n_removed++);
            p[0] = DT_P_STR(v->topic);
            p[1] = DT_P_INT(same ? p[1].i + 1 : 1);
        } else {
            struct dt_param *p = moved + MOVED_COLUMNS * (same ? n_moved - 1 : n_moved++);
            p[0] = DT_P_STR(v->topic);
            p[1] = DT_P_STR(dt_str(dt_job_state_name(v->state)));
            p[2] = DT_P_INT(v->part);
            p[3] = DT_P_INT(same ? p[3].i + 1 : 1);
        }
    }
    dt_status status = DT_OK;
    if (n_moved)
        status = dt_db_run_many(a->db, dt_sql_count_archived, (struct dt_param_rows){moved, MOVED_COLUMNS, n_moved},
                                NULL, a->err);
    if (status == DT_OK && n_removed)
        status = dt_db_run_many(a->db, dt_sql_count_removed,
                                (struct dt_param_rows){removed, REMOVED_COLUMNS, n_removed}, NULL, a->err);
    return status;
}

struct day {
    int32_t home, part;
};

static int compare_by_day(const void *a, const void *b)
{
    const struct day *x = a;
    const struct day *y = b;
    return x->home != y->home ? DT_ORDER(x->home, y->home) : DT_ORDER(x->part, y->part);
}

/* Records in history_days which partitions have jobs of which home days, in the order of the table's key. A record is
 * not removed together with a job, because other jobs may need it. */
static dt_status record_days(dt_db *db, struct dt_arena *arena, const struct finished_job *v, size_t n,
                             struct dt_error *err)
{
    struct day *days = dt_arena_alloc(arena, n * sizeof(*days));
    struct dt_param *params = dt_arena_alloc(arena, 2 * n * sizeof(*params));
    size_t moved = 0;
    size_t noted = 0;
    if (!days || !params)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!v[i].removed)
            days[moved++] = (struct day){dt_job_home_day(v[i].id), v[i].part};
    qsort(days, moved, sizeof(*days), compare_by_day);
    for (size_t i = 0; i < moved; i++) {
        if (i && compare_by_day(&days[i - 1], &days[i]) == 0)
            continue;
        params[2 * noted] = DT_P_INT(days[i].home);
        params[2 * noted++ + 1] = DT_P_INT(days[i].part);
    }
    return noted ? dt_db_run_many(db, dt_sql_note_day, (struct dt_param_rows){params, 2, noted}, NULL, err) : DT_OK;
}

static dt_status archive_locked(struct archiving *a)
{
    dt_status status = list_chosen_jobs(a);
    if (status == DT_OK && a->moved_retried)
        status = run_for_listed_jobs(a, dt_sql_archive_attempts, &a->moved, 0);
    if (status == DT_OK && a->out->moved)
        status = run_for_listed_jobs(a, dt_sql_archive_jobs, &a->moved, a->out->moved);
    if (status == DT_OK && a->moved_keyed)
        status = run_for_listed_jobs(a, dt_sql_archive_keys, &a->moved, 0);
    if (status == DT_OK && a->retried)
        status = run_for_listed_jobs(a, dt_sql_delete_attempts, &a->ids, 0);
    if (status == DT_OK && a->removed_keyed)
        status = run_for_listed_jobs(a, dt_sql_delete_removed_keys, &a->removed, 0);
    if (status == DT_OK && a->removed_keyed)
        status = run_for_listed_jobs(a, dt_sql_delete_removed_command_ids, &a->removed, 0);
    DT_THEN(status, run_for_listed_jobs(a, dt_sql_delete_jobs, &a->ids, a->n));
    DT_THEN(status, record_days(a->db, &a->arena, a->v, a->n, a->err));
    return status == DT_OK ? count_archived(a) : status;
}

static dt_status archive_batch(struct archiving *a, struct dt_str candidates, size_t n)
{
    struct dt_counts counts;
    dt_status status = dt_db_begin(a->db, a->err);
    if (status != DT_OK)
        return status;
    status = lock_finished_jobs(a, candidates, n);
    if (status == DT_OK && a->n)
        status = exclude_jobs_in_flight(a);
    /* If a job's partition does not exist, adds it to the wanted ones. If `make_do` is set, moves the job to the
     * default partition instead. */
    for (size_t i = 0; status == DT_OK && i < a->n; i++) {
        struct dt_wanted *wanted = &a->out->wanted;
        struct finished_job *v = &a->v[i];
        size_t k = 0;
        if (v->removed || dt_partitions_have(&a->archiver->partitions, v->part))
            continue;
        while (k < wanted->n && wanted->v[k] != v->part)
            k++;
        if (a->archiver->make_do)
            v->part = 0;
        else if (k == wanted->n && k < DT_WANTED_MAX)
            wanted->v[wanted->n++] = v->part;
    }
    if (status != DT_OK || !a->n || a->out->wanted.n) {
        dt_db_rollback(a->db);
        return status;
    }
    status = archive_locked(a);
    DT_FAIL_POINT_STATUS("archive.commit", status, a->err);
    dt_counts_init(&counts);
    for (size_t i = 0; i < a->n && status == DT_OK && !DT_UNGUARDED(COUNT_ARCHIVED); i++)
        dt_counts_add(&counts, a->v[i].topic, dt_count_piece(a->v[i].id), (int)a->v[i].state, -1);
    status = dt_counts_commit(a->db, &counts, status, a->err);
    DT_FAIL_POINT_STATUS("archive.committed", status, a->err);
    return status;
}

/* Archives a batch that begins at the cursor; *n: number of candidates. */
static dt_status archive_next_batch(struct archiving *a, size_t limit, size_t *n)
{
    struct dt_strbuf candidates = {0};
    dt_status status = dt_store_db(a->store, &a->db, a->err);
    if (status == DT_OK && !a->archiver->partitions.read)
        status = dt_store_partitions_read(a->store, &a->archiver->partitions, a->err);
    DT_THEN(status, select_candidates(a, limit, &candidates, n));
    if (status == DT_OK && *n)
        status = archive_batch(a, dt_strbuf_str(&candidates), *n);
    dt_strbuf_clear(&candidates);
    return status;
}

dt_status dt_store_archive(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                           struct dt_archived *out, struct dt_error *err)
{
    struct archiving a = {.store = store, .archiver = archiver, .out = out, .now_ms = now_ms, .err = err};
    size_t n = 0;
    *out = (struct dt_archived){0};
    if (archiver->after_ms == 0)
        archiver->after_ms = 1;
    const int64_t before_ms = archiver->after_ms;
    const int64_t before_id = archiver->after_id;
    dt_status status = archive_next_batch(&a, archiver->singly ? 1 : limit, &n);
    const bool cut = a.cut && out->moved + out->removed > 0;
    /* If history already has a job with this id (the id was given out twice), the job must not block its batch: it
     * stays in `jobs`, and each try to archive it reports the error. */
    const bool at_fault = status == DT_EXISTS || status == DT_INVALID;
    const bool passed = status == DT_OK ? !out->wanted.n && !cut : at_fault && n <= 1;
    if (!passed) { /* the next call begins with this batch again, after the caller has made the partitions, or to
                    * archive the remaining jobs */
        archiver->after_ms = before_ms;
        archiver->after_id = before_id;
    }
    if (archiver->singly && (passed || status != DT_OK))
        archiver->singly--;
    out->more |= cut;
    if (status != DT_OK) {
        archiver->partitions.read = false; /* a partition that was read earlier may have been dropped */
        if (at_fault && !passed)
            archiver->singly = (unsigned)limit;
        *out = (struct dt_archived){.more = archiver->singly > 0};
    }
    dt_strbuf_clear(&a.removed);
    dt_strbuf_clear(&a.moved);
    dt_strbuf_clear(&a.ids);
    dt_arena_clear(&a.arena);
    return status;
}

/* Locks the rows of key_ends first. A redrive deletes the job's row of key_ends, so a live job never loses its key. */
dt_status dt_store_free_keys(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    static const char *const steps[] = {dt_sql_delete_ended_keys, dt_sql_delete_ended_command_ids,
                                        dt_sql_delete_key_ends};
    dt_db *db;
    struct dt_strbuf ends = {0};
    int64_t any = 0;
    *done = 0;
    dt_status status = dt_store_number(store, dt_sql_is_any_key_ended, DT_PARAMS(DT_P_INT(now_ms)), &any, err);
    if (status != DT_OK || !any)
        return status;
    status = dt_store_begin(store, &db, NULL, err);
    DT_THEN(status, dt_db_query(db, dt_sql_lock_ended_keys, DT_PARAMS(DT_P_INT(now_ms), DT_P_INT(limit)), err));
    if (status == DT_OK) {
        dt_json_begin_array(&ends, NULL);
        for (; dt_db_next(db); (*done)++)
            DT_JSON_PUT_ROW(&ends, dt_db_i64(db, 0), dt_db_i64(db, 1));
        dt_json_end_array(&ends);
        status = dt_db_end(db, err);
    }
    for (size_t i = 0; status == DT_OK && *done && i < sizeof(steps) / sizeof(*steps); i++)
        status = dt_db_run(db, steps[i], DT_PARAMS(DT_P_BUF(&ends)), NULL, err);
    status = dt_store_commit(db, status, err);
    dt_strbuf_clear(&ends);
    return status;
}

/* ---- the default partition ---- */

struct sorting {
    dt_db *db;
    struct dt_archiver *archiver;
    int64_t now_ms;
    size_t limit;
    struct dt_arena arena;
    /* The jobs that leave the default partition; there is memory for `limit` of them. `part` is the partition to which
     * a job moves. */
    struct finished_job *v;
    size_t n;
    struct dt_error *err;
};

static dt_status read_unsorted_rows(struct sorting *s)
{
    size_t rows = 0;
    dt_status status = dt_db_query(s->db, dt_sql_select_default_partition,
                                   DT_PARAMS(DT_P_INT(s->archiver->default_id), DT_P_INT(s->limit)), s->err);
    if (status != DT_OK)
        return status;
    for (; status == DT_OK && rows < s->limit && dt_db_next(s->db); rows++) {
        const int64_t purge_at_ms = dt_db_i64(s->db, 3);
        struct finished_job r = {.id = dt_db_i64(s->db, 0),
                                 .part = dt_partition_of(purge_at_ms, s->now_ms),
                                 .removed = purge_at_ms <= s->now_ms};
        s->archiver->default_id = r.id;
        if (!r.removed && (r.part == 0 || !dt_partitions_have(&s->archiver->partitions, r.part)))
            continue;
        r.topic = dt_arena_copy(&s->arena, dt_db_bytes(s->db, 1));
        status = r.topic.p ? dt_row_state(s->db, 2, &r.state) : DT_NOMEM;
        s->v[s->n++] = r;
    }
    if (rows < s->limit)
        s->archiver->default_id = 0;
    dt_status end = dt_db_end(s->db, status == DT_OK ? s->err : NULL);
    return status == DT_OK ? end : status;
}

static dt_status move_unsorted_row(dt_db *db, const struct finished_job *r, struct dt_error *err)
{
    uint64_t changed = 0;
    const struct dt_param to[] = {DT_P_INT(r->part), DT_P_INT(r->id)};
    dt_status status = r->removed
                           ? dt_db_run(db, dt_sql_delete_from_default, (struct dt_params){&to[1], 1}, &changed, err)
                           : dt_db_run(db, dt_sql_move_from_default, (struct dt_params){to, 2}, &changed, err);
    if (status != DT_OK || changed == 0) /* the job was redriven since it was read */
        return status;
    status = r->removed ? dt_db_run(db, dt_sql_delete_attempts_from_default, (struct dt_params){&to[1], 1}, NULL, err)
                        : dt_db_run(db, dt_sql_move_attempts_from_default, (struct dt_params){to, 2}, NULL, err);
    const struct dt_str state = dt_str(dt_job_state_name(r->state));
    DT_THEN(status,
            dt_db_run(db, dt_sql_uncount_in_default, DT_PARAMS(DT_P_STR(r->topic), DT_P_STR(state)), NULL, err));
    if (status == DT_OK && r->removed)
        status = dt_db_run(db, dt_sql_count_removed, DT_PARAMS(DT_P_STR(r->topic), DT_P_INT(1)), NULL, err);
    else if (status == DT_OK)
        status = dt_db_run(db, dt_sql_count_archived,
                           DT_PARAMS(DT_P_STR(r->topic), DT_P_STR(state), DT_P_INT(r->part), DT_P_INT(1)), NULL, err);
    return status;
}

dt_status dt_store_sort_default(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                                size_t *done, struct dt_error *err)
{
    struct sorting s = {.archiver = archiver, .now_ms = now_ms, .limit = limit, .err = err};
    *done = 0;
    s.v = dt_arena_alloc(&s.arena, (limit ? limit : 1) * sizeof(*s.v));
    dt_status status = s.v ? dt_store_db(store, &s.db, err) : DT_NOMEM;
    DT_THEN(status, read_unsorted_rows(&s));
    if (status == DT_OK && s.n) {
        status = dt_db_begin(s.db, err);
        for (size_t i = 0; status == DT_OK && i < s.n; i++)
            status = move_unsorted_row(s.db, &s.v[i], err);
        /* also records the days of jobs that were redriven meanwhile: a superfluous record only costs a search */
        DT_THEN(status, record_days(s.db, &s.arena, s.v, s.n, err));
        status = dt_store_commit(s.db, status, err);
    }
    *done = status == DT_OK ? s.n : 0;
    dt_arena_clear(&s.arena);
    return status;
}

/*
 * ---- housekeeping ----
 *
 * If a manual edit ends an attempt or a job, the row still has attempt_status `dispatched` or leave_at 0, because only
 * our statements change these columns. In the due index such rows are one range (band 2, key 0). Until this code counts
 * such a row, the counters and their audit count it in its state before the edit. So an edit is counted once.
 */

dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids, struct dt_counts *counts,
                        struct dt_arena *arena, struct dt_error *err)
{
    struct dt_strbuf locked = {0};
    /* Locks the edited rows, skipping locked ones, and counts each in its new state. */
    dt_status status = dt_db_query(db, dt_sql_lock_edited, DT_PARAMS(DT_P_STR(ids)), err);
    while (status == DT_OK && dt_db_next(db)) {
        int64_t id = dt_db_i64(db, 0);
        bool attempted = dt_row_attempt_status(db, 3) == DT_ATTEMPT_DISPATCHED;
        bool lived = dt_db_i64(db, 4) == 0;
        enum dt_job_state is = DT_SCHEDULED;
        struct dt_str topic = dt_arena_copy(arena, dt_db_bytes(db, 1));
        status = topic.p ? dt_row_state(db, 2, &is) : dt_fail(err, DT_NOMEM, "out of memory");
        if (status != DT_OK)
            break;
        /* Does not call dt_counts_move, because the figures count only changes by callers and consumers, not manual
         * edits. */
        const enum dt_job_state was = attempted ? DT_DISPATCHED : lived ? DT_SCHEDULED : is;
        dt_counts_add(counts, topic, dt_count_piece(id), (int)was, -1);
        dt_counts_add(counts, topic, dt_count_piece(id), (int)is, 1);
        dt_id_list_add(&locked, id);
    }
    dt_id_list_end(&locked);
    dt_status ended = dt_db_end(db, status == DT_OK ? err : NULL);
    DT_THEN(status, ended == DT_OK && locked.failed ? DT_NOMEM : ended);
    if (status == DT_OK && locked.n > 2)
        status = dt_db_run(
            db, dt_sql_end_edited,
            DT_PARAMS(DT_P_BUF(&locked), DT_P_INT(config->history_dead_after), DT_P_INT(config->history_after)), NULL,
            err);
    dt_strbuf_clear(&locked);
    return status;
}

/* Writes the ids that a query returns into a JSON list; *n: number of ids. */
static dt_status select_ids(dt_db *db, const char *sql, struct dt_params params, struct dt_strbuf *list, size_t *n,
                            struct dt_error *err)
{
    dt_strbuf_reset(list);
    dt_status status = dt_db_query(db, sql, params, err);
    if (status != DT_OK)
        return status;
    for (*n = 0; dt_db_next(db); ++*n)
        dt_id_list_add(list, dt_db_i64(db, 0));
    dt_id_list_end(list);
    status = dt_db_end(db, err);
    return status == DT_OK && list->failed ? DT_NOMEM : status;
}

dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf ids = {0};
    struct dt_counts counts;
    struct dt_arena arena = {0};
    dt_status ended = DT_OK;
    size_t edited = 0;
    size_t coming = 0;
    const struct dt_param end = DT_P_INT(dt_near_end_ms(now_ms));
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, select_ids(db, dt_sql_select_edited, DT_PARAMS(DT_P_INT(limit)), &ids, &edited, err));
    if (status == DT_OK && edited) {
        dt_counts_init(&counts);
        ended = dt_db_begin(db, err);
        if (ended == DT_OK)
            ended = dt_edited_end(db, dt_store_config(store), dt_strbuf_str(&ids), &counts, &arena, err);
        ended = dt_counts_commit(db, &counts, ended, err);
        dt_arena_clear(&arena);
    }
    if (ended != DT_OK)
        edited = 0;
    DT_THEN(status, select_ids(db, dt_sql_select_coming_near, DT_PARAMS(end, DT_P_INT(limit)), &ids, &coming, err));
    if (status == DT_OK && coming)
        status = dt_db_run(db, dt_sql_promote_jobs, DT_PARAMS(DT_P_BUF(&ids), end), NULL, err);
    *done = edited > coming ? edited : coming;
    dt_strbuf_clear(&ids);
    return status == DT_OK && ended != DT_BUSY ? ended : status; /* a later call finds the rows that are locked now */
}

dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf ids = {0};
    *done = 0;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, select_ids(db, dt_sql_select_old_notices, DT_PARAMS(DT_P_INT(before_ms), DT_P_INT(limit)), &ids,
                               done, err));
    if (status == DT_OK && *done)
        status = dt_db_run(db, dt_sql_delete_messages, DT_PARAMS(DT_P_BUF(&ids)), NULL, err);
    dt_strbuf_clear(&ids);
    return status;
}
