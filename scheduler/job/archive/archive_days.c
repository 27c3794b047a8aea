/*
 * The partitions of history: reading which exist, making those that are wanted, dropping those whose day or month is
 * over; and the search for one archived job in them.
 *
 * The number of a partition (history.part) says when its jobs are removed: YYYYMMDD on that day, YYYYMM in that month
 * (if the removal was more than DAYS_AHEAD days ahead when the job left `jobs`). 0 is the default partition `rest`, for
 * jobs that are kept longer than YEARS_AHEAD years, or whose own partition did not exist. The partitions are LIST
 * partitions, so each can be made at any time without splitting or copying another.
 *
 * Invariants:
 * - While history has a partition, history_attempts has it too, because archiving a job writes to both. So a partition
 *   is made in history_attempts before history, and dropped in history before history_attempts.
 * - Before a partition is dropped, its jobs are counted as removed, by history_counts, in a transaction that may be
 *   repeated.
 * - One session at a time changes partitions, under a lease that lasts longer than the server lets such a transaction
 *   idle (leases.h). If readers block the session, it does not wait long (lock_wait_timeout) and tries again later.
 */

#include "archive.h"
#include "base/assert.h"
#include "base/text/timetext.h"
#include "job/job.h"
#include "mysql/statements.h"
#include "store/leases.h"
#include "store/store_internal.h"

#define LEASE_MS    INT64_C(60000)
#define DAYS_AHEAD  400
#define YEARS_AHEAD 10
#define MARGIN_MS   60000 /* a partition is kept this long after its day or month, for archivers with slow clocks */
#define DROPS_MAX   4     /* most partitions that one call drops */
#define FIRST_DAY   1000000

static int32_t parse_digits(const char *text, size_t n)
{
    int32_t number = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] != '-')
            number = number * 10 + (text[i] - '0');
    return number;
}

int32_t dt_partition_of(int64_t purge_at_ms, int64_t now_ms)
{
    char text[25];
    int64_t days = purge_at_ms / DT_DAY_MS - now_ms / DT_DAY_MS;
    if (days > YEARS_AHEAD * 366)
        return 0;
    dt_time_format(purge_at_ms, text);
    return days > DAYS_AHEAD ? parse_digits(text, 7) : parse_digits(text, 10);
}

/* Returns the exclusive end of the partition's day or month. INT64_MAX for `rest`, and for a number that is no date. */
static int64_t partition_end_ms(int32_t part)
{
    char text[40];
    int64_t ms;
    if (part <= 0)
        return INT64_MAX;
    if (part >= FIRST_DAY) {
        snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", part / 10000, part / 100 % 100, part % 100);
        return dt_time_parse(dt_str(text), &ms) ? INT64_MAX : ms + DT_DAY_MS;
    }
    int year = part / 100;
    int month = part % 100;
    snprintf(text, sizeof(text), "%04d-%02d-01T00:00:00Z", month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1);
    return dt_time_parse(dt_str(text), &ms) ? INT64_MAX : ms;
}

static int compare_parts(const void *a, const void *b)
{
    const int32_t *x = a;
    const int32_t *y = b;
    return DT_ORDER(*x, *y);
}

bool dt_partitions_have(const struct dt_partitions *parts, int32_t part)
{
    return part == 0 || (parts->n && bsearch(&part, parts->v, parts->n, sizeof(*parts->v), compare_parts));
}

static void add_partition(struct dt_partitions *parts, int32_t part)
{
    if (parts->n < DT_PARTITIONS_MAX && !dt_partitions_have(parts, part)) {
        parts->v[parts->n++] = part;
        qsort(parts->v, parts->n, sizeof(*parts->v), compare_parts);
    }
}

static dt_status read_partition_numbers(dt_db *db, const char *sql, struct dt_partitions *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    out->n = 0;
    while (out->n < DT_PARTITIONS_MAX && dt_db_next(db))
        out->v[out->n++] = (int32_t)dt_db_i64(db, 0);
    qsort(out->v, out->n, sizeof(*out->v), compare_parts);
    return dt_db_end(db, err);
}

dt_status dt_store_partitions_read(dt_store *store, struct dt_partitions *out, struct dt_error *err)
{
    dt_db *db;
    out->read = false;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, read_partition_numbers(db, dt_sql_select_partitions, out, err));
    out->read = status == DT_OK;
    return status;
}

struct tending {
    dt_store *store;
    dt_db *db;
    struct dt_work_lease lease;
    struct dt_partitions *parts;    /* partitions of history */
    struct dt_partitions *attempts; /* partitions of history_attempts */
    int64_t now_ms;
    unsigned dropped;
    struct dt_error *err;
};

static dt_status add_or_drop_partition(struct tending *t, const char *table, bool make, int32_t part)
{
    char sql[200];
    int n = make ? snprintf(sql, sizeof(sql), "ALTER TABLE %s ADD PARTITION (PARTITION p%d VALUES IN (%d))", table,
                            part, part)
                 : snprintf(sql, sizeof(sql), "ALTER TABLE %s DROP PARTITION p%d", table, part);
    dt_assert_cmp(n, <, sizeof(sql));
    return dt_db_script(t->db, (struct dt_str){sql, (size_t)n}, t->err);
}

static dt_status drop_partition(struct tending *t, int32_t part)
{
    const struct dt_param number = DT_P_INT(part);
    const struct dt_params params = {&number, 1};
    dt_status status = dt_work_lease_keep(t->store, &t->lease, t->err);
    DT_THEN(status, dt_db_begin(t->db, t->err));
    if (status != DT_OK)
        return status;
    /* Counts the partition's jobs as removed. Queries do not find its rows any more, because the statements delete its
     * history_days, too. */
    status = dt_db_run(t->db, dt_sql_count_dropped, params, NULL, t->err);
    DT_THEN(status, dt_db_run(t->db, dt_sql_delete_dropped_counts, params, NULL, t->err));
    DT_THEN(status, dt_db_run(t->db, dt_sql_delete_dropped_days, params, NULL, t->err));
    status = dt_store_commit(t->db, status, t->err);
    if (status == DT_OK && dt_partitions_have(t->parts, part))
        status = add_or_drop_partition(t, "history", false, part);
    if (status == DT_OK && dt_partitions_have(t->attempts, part))
        status = add_or_drop_partition(t, "history_attempts", false, part);
    t->dropped += status == DT_OK;
    return status;
}

/* Drops partitions whose day or month is over. *more: further partitions are left for the next call. Reads the numbers
 * of partitions from `history`, `history_attempts` and the counters, because after an interrupted drop only some of the
 * three have the partition. */
static dt_status drop_ended_partitions(struct tending *t, bool *more)
{
    struct dt_partitions *all = malloc(sizeof(*all));
    if (!all)
        return dt_fail(t->err, DT_NOMEM, "out of memory");
    dt_status status = read_partition_numbers(t->db, dt_sql_select_counted_partitions, all, t->err);
    for (size_t i = 0; i < t->parts->n; i++)
        add_partition(all, t->parts->v[i]);
    for (size_t i = 0; i < t->attempts->n; i++)
        add_partition(all, t->attempts->v[i]);
    for (size_t i = 0; status == DT_OK && !*more && i < all->n; i++) {
        if (partition_end_ms(all->v[i]) >= t->now_ms - MARGIN_MS)
            continue;
        *more = t->dropped == DROPS_MAX;
        if (!*more)
            status = drop_partition(t, all->v[i]);
    }
    free(all);
    return status;
}

static dt_status maintain_under_lease(struct tending *t, const int32_t *wanted, size_t n, bool *more)
{
    dt_status status = dt_db_script(t->db, dt_str(dt_sql_limit_lock_wait), t->err);
    DT_THEN(status, read_partition_numbers(t->db, dt_sql_select_partitions, t->parts, t->err));
    DT_THEN(status, read_partition_numbers(t->db, dt_sql_select_attempt_partitions, t->attempts, t->err));
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        if (dt_partitions_have(t->parts, wanted[i]) || partition_end_ms(wanted[i]) <= t->now_ms)
            continue;
        if (!dt_partitions_have(t->attempts, wanted[i]))
            status = add_or_drop_partition(t, "history_attempts", true, wanted[i]);
        DT_THEN(status, add_or_drop_partition(t, "history", true, wanted[i]));
        if (status == DT_OK)
            add_partition(t->parts, wanted[i]);
    }
    DT_THEN(status, drop_ended_partitions(t, more));
    if (status == DT_OK && t->dropped)
        status = read_partition_numbers(t->db, dt_sql_select_partitions, t->parts, t->err);
    t->parts->read = status == DT_OK;
    return status;
}

dt_status dt_store_partitions_tend(dt_store *store, int64_t now_ms, const struct dt_wanted *wanted,
                                   struct dt_partitions *partitions, struct dt_tended *done, struct dt_error *err)
{
    struct tending t = {.store = store,
                        .lease = {.work = "partitions", .ms = LEASE_MS},
                        .parts = partitions,
                        .attempts = malloc(sizeof(*t.attempts)),
                        .now_ms = now_ms,
                        .err = err};
    *done = (struct dt_tended){0};
    partitions->read = false;
    dt_status status = t.attempts ? dt_work_lease_take(store, &t.lease, err) : DT_NOMEM;
    DT_THEN(status, dt_store_db(store, &t.db, err));
    DT_THEN(status, maintain_under_lease(&t, wanted->v, wanted->n, &done->more));
    if (t.db && dt_db_alive(t.db))
        (void)!dt_db_script(t.db, dt_str(dt_sql_reset_lock_wait), NULL);
    dt_work_lease_release(store, &t.lease);
    done->dropped = t.dropped;
    free(t.attempts);
    return status;
}

dt_status dt_store_partitions_ahead(dt_store *store, int64_t now_ms, unsigned days, struct dt_wanted *wanted,
                                    struct dt_error *err)
{
    dt_db *db;
    wanted->n = 0;
    dt_status status =
        dt_store_query(store, &db, dt_sql_select_retentions,
                       DT_PARAMS(DT_P_INT(DT_RETENTION_DEFAULT_MS), DT_P_INT(DT_RETENTION_DEFAULT_MS)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const int64_t retention_ms = dt_db_i64(db, 0);
        for (unsigned day = 0; day <= days && wanted->n < DT_WANTED_MAX && retention_ms < INT64_MAX / 2; day++) {
            const int64_t ends_ms = now_ms + day * DT_DAY_MS;
            int32_t part = dt_partition_of(ends_ms + retention_ms, ends_ms);
            if (part)
                wanted->v[wanted->n++] = part;
        }
    }
    return dt_db_end(db, err);
}

/*
 * ---- searching one job; see archive.h ----
 *
 * A row of the default partition may move at any time to a partition that did not exist when the search began. So if
 * the default partition was searched and the job was not found, the search is repeated once. A row of any other
 * partition stays in it until the job is redriven or the partition is dropped.
 */

#define BEFORE_ALL (-1)

struct dt_archive_search dt_archive_search_of(int64_t id)
{
    return (struct dt_archive_search){.params = {DT_P_INT(id)}, .after = BEFORE_ALL};
}

dt_status dt_archive_search_next(dt_db *db, struct dt_archive_search *search, struct dt_error *err)
{
    const int64_t id = search->params[0].i;
    dt_status status = dt_db_query(
        db, dt_sql_select_archive_partitions,
        DT_PARAMS(DT_P_INT(dt_job_home_day(id)), DT_P_INT(search->after), DT_P_INT(DT_ARCHIVE_PARTITIONS)), err);
    if (status != DT_OK)
        return status;
    for (search->n = 0; search->n < DT_ARCHIVE_PARTITIONS && dt_db_next(db); search->n++) {
        search->after = dt_db_i64(db, 0);
        search->with_default |= search->after == 0;
        search->params[1 + search->n] = DT_P_INT(search->after);
    }
    for (size_t i = search->n; i < DT_ARCHIVE_PARTITIONS; i++)
        search->params[1 + i] = DT_P_INT(search->after);
    status = dt_db_end(db, err);
    return status || search->n ? status : dt_fail(err, DT_NOT_FOUND, "history has no job %lld", (long long)id);
}

bool dt_archive_search_more(struct dt_archive_search *search, dt_status status)
{
    if (status != DT_NOT_FOUND)
        return false;
    if (search->n == DT_ARCHIVE_PARTITIONS)
        return true;
    bool more = search->with_default && !search->again;
    search->again = true;
    search->after = BEFORE_ALL;
    return more;
}

dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms, struct dt_error *err)
{
    static const char *const steps[] = {dt_sql_bring_back_job, dt_sql_bring_back_attempts, dt_sql_delete_archived_job,
                                        dt_sql_delete_archived_attempts};
    const struct dt_param id = DT_P_INT(job->id);
    struct dt_archive_search search = dt_archive_search_of(job->id);
    int64_t part = 0;
    int64_t key_until_ms = 0;
    bool found = false;
    dt_status status;
    dt_assert(job->state == DT_DEAD);
    do { /* finds the job's partition, without a lock */
        status = dt_archive_search_next(db, &search, err);
        DT_THEN(status, dt_db_read_number(db, dt_sql_select_archived_part,
                                          (struct dt_params){search.params, DT_ARCHIVE_PARAMS}, &found, &part, err));
        if (status == DT_OK && !found)
            status = DT_NOT_FOUND;
    } while (dt_archive_search_more(&search, status));
    DT_THEN(status, dt_db_read_number(db, dt_sql_lock_archived_job, DT_PARAMS(id, DT_P_INT(part), DT_P_INT(now_ms)),
                                      &found, &key_until_ms, err));
    if (status == DT_NOT_FOUND || (status == DT_OK && !found)) /* the job was redriven, or moved to another partition */
        return dt_fail(err, DT_BUSY, "job %lld left history meanwhile", (long long)job->id);
    for (size_t i = 0; status == DT_OK && i < sizeof(steps) / sizeof(*steps); i++)
        status = dt_db_run(db, steps[i], DT_PARAMS(id, DT_P_INT(part)), NULL, err);
    /* A redriven job is live again and gets its key back, unless another job has taken the key. */
    if (status == DT_OK && job->key.p)
        status = dt_db_run(db, dt_sql_delete_key_end, DT_PARAMS(DT_P_INT(key_until_ms), id), NULL, err);
    if (status == DT_OK && job->key.p)
        status =
            dt_db_run(db, dt_sql_bring_back_key, DT_PARAMS(DT_P_STR(job->topic), DT_P_STR(job->key), id), NULL, err);
    DT_THEN(status,
            dt_db_run(db, dt_sql_count_archived_out, DT_PARAMS(DT_P_STR(job->topic), DT_P_INT(part)), NULL, err));
    return status;
}
