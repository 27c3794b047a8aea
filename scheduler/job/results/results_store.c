/*
 * Results in batches: results that consumers report, and results that leaders set (timed out, undeliverable, lost).
 *
 * One transaction for a batch, with a handful of statements whatever the number of results (at most 960 ids in each):
 *
 *     read the jobs                                       SELECT
 *     decide each result in the order given               dt_job_decide, no statement
 *     read archived attempts, if any result is for one    SELECT
 *     read archived jobs, if `jobs` lacks any job         SELECT (and SELECT their archived attempts)
 *     write the jobs that succeeded                       UPDATE for each large group of equal rows, one for the others
 *     write the other jobs                                UPDATE, all values
 *     write the dead letters                              INSERT INTO messages
 *     count the changes of states                         with the COMMIT (counts.h)
 *
 * The first try reads without locks, which is much cheaper, and writes a row only if (attempt, state, version) have not
 * changed: a decision depends on nothing else. If a row has changed, everything is rolled back, and the second try
 * locks while it reads. A leader transaction cannot be rolled back for that, so it locks at once; its decisions also
 * depend on next_at, which a manual edit may change. If a try waits for a lock until the timeout, the next one skips
 * locked rows: their results are BUSY, and do not delay the others.
 *
 * Invariants: only decided changes are written. A dead letter is written together with the state of its job. Several
 * results of one job are decided one after the other and written once. Without Kafka no dead letter is written. Each
 * statement locks rows in the order of their ids, so that two batches seldom deadlock, and never if they lock while
 * reading.
 */

#include "base/assert.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "job/change/jobs_row.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "results.h"
#include "store/store_internal.h"

struct judged {
    struct dt_job was, job; /* was: the row as it was read, the first member for dt_by_job_id; job: the row after the
                             * results */
    struct dt_str topic;
    int64_t retention_ms;
    const struct dt_result *failure; /* result whose error becomes the job's last error; NULL = none */
    const struct dt_answer *answer;  /* answer of the latest result that has one; NULL = none */
    bool finished;                   /* an attempt of the job ended */
    bool dead_letter;
    unsigned changes, failures; /* changes: number of results that changed the job; failures: number of attempts that
                                 * failed by these results */
};

/* The job of a result, and the result's index in the batch. Sorted by job, then by index. */
struct place {
    int64_t id;
    size_t index;
};

/* Jobs whose rows get equal values form a group. If at least an eighth of the batch is in one group, the group gets its
 * own statement, so there are at most eight such statements. */
#define ALIKE_SHARE   8
#define ALIKE_MIN     16  /* a group of fewer jobs gets no statement of its own, which would cost more than it saves */
#define ANSWERED_MOST 128 /* most jobs in a statement with durations: for each row MySQL searches all of them */

struct batch {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_shard_map *map;
    int64_t now_ms;
    enum dt_locking locking;
    struct dt_apply *results;
    size_t n;
    struct place *places; /* job and index of each of the n results, sorted by job */
    int64_t *ids;         /* ids of the jobs: ascending, each once */
    size_t n_ids;
    struct judged *jobs; /* jobs found in `jobs`, ordered by id */
    size_t n_jobs;
    struct judged *archived; /* jobs found in `history`, which no result changes */
    size_t n_archived;
    size_t n_ended_well, n_others, n_dead;
    bool ask_earlier;
    struct dt_counts *counts;
    struct dt_arena *arena; /* memory for the names of topics, which must outlive the batch because the COMMIT uses
                             * them */
    struct dt_strbuf text;
    size_t text_most; /* half of the largest statement that MySQL accepts; when a list of rows has this size, the list
                       * is written */
    struct dt_error *err;
};

static int compare_judged_by_id(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return x->id != y->id ? DT_ORDER(x->id, y->id) : DT_ORDER(x->index, y->index);
}

/* Returns the index in `places` of the first result for this job, or n if there is none. */
static size_t first_index_of_job(const struct batch *b, int64_t id)
{
    size_t low = 0;
    size_t high = b->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->places[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < b->n && b->places[low].id == id ? low : b->n;
}

static const struct dt_id_in *const readings[] = {[DT_LOCK_NONE] = &dt_sql_select_judged,
                                                  [DT_LOCK_WAITING] = &dt_sql_lock_judged,
                                                  [DT_LOCK_PASSING_BY] = &dt_sql_lock_free_judged};

/* Copies the topic's name. Consecutive jobs of a topic share one copy. */
static struct dt_str read_job_topic(struct batch *b, const struct judged *before, unsigned column)
{
    struct dt_str topic = dt_db_bytes(b->db, column);
    return before && dt_str_eq(before->topic, topic) ? before->topic : dt_arena_copy(b->arena, topic);
}

static dt_status read_judged(void *arg)
{
    struct batch *b = arg;
    if (b->n_jobs == b->n_ids)
        return dt_fail(b->err, DT_INTERNAL, "MySQL returned a job that was not requested");
    const struct judged *before = b->n_jobs ? &b->jobs[b->n_jobs - 1] : NULL;
    struct judged *j = &b->jobs[b->n_jobs++];
    memset(j, 0, sizeof(*j));
    dt_status status = dt_row_judged(b->db, 0, b->arena, &j->was);
    unsigned next = DT_ROW_JUDGED_COLUMNS;
    j->was.version = dt_db_i64(b->db, next++);
    j->retention_ms = dt_db_is_null(b->db, next) ? DT_RETENTION_DEFAULT_MS : dt_db_i64(b->db, next);
    j->topic = read_job_topic(b, before, next + 1);
    if (!j->topic.p)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    j->job = j->was;
    return status != DT_OK ? dt_fail(b->err, status, "job %lld cannot be read", (long long)j->was.id) : DT_OK;
}

/* Returns whether the job was found in `jobs`. */
static bool was_job_read(const struct batch *b, int64_t id)
{
    return b->n_jobs && bsearch(&id, b->jobs, b->n_jobs, sizeof(*b->jobs), dt_by_job_id);
}

static dt_status mark_job_busy(void *arg)
{
    struct batch *b = arg;
    int64_t id = dt_db_i64(b->db, 0);
    struct dt_str topic = dt_db_bytes(b->db, 1);
    for (size_t i = was_job_read(b, id) ? b->n : first_index_of_job(b, id); i < b->n && b->places[i].id == id; i++) {
        struct dt_apply *a = &b->results[b->places[i].index];
        if (dt_topic_within(a->bound, topic))
            a->outcome = DT_OUTCOME_BUSY;
    }
    return DT_OK;
}

static dt_status read_jobs_of_batch(struct batch *b)
{
    b->ids = dt_arena_alloc(b->arena, b->n * sizeof(*b->ids));
    b->jobs = dt_arena_alloc(b->arena, b->n * sizeof(*b->jobs));
    if (!b->ids || !b->jobs)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n; i++)
        if (i == 0 || b->places[i].id != b->places[i - 1].id)
            b->ids[b->n_ids++] = b->places[i].id;
    const struct dt_ids ids = DT_IDS(b->ids, b->n_ids);
    dt_status status = dt_id_in_read(b->db, readings[b->locking], DT_NO_PARAMS, ids, read_judged, b, b->err);
    /* Jobs that were not returned may be locked by another session: then their results become BUSY. */
    if (status == DT_OK && b->n_jobs < b->n_ids && b->locking == DT_LOCK_PASSING_BY)
        status = dt_id_in_read(b->db, &dt_sql_find_jobs, DT_NO_PARAMS, ids, mark_job_busy, b, b->err);
    return status;
}

static bool is_of_earlier_attempt(const struct judged *j, const struct dt_result *result)
{
    return result->attempt >= 1 && result->attempt < j->was.attempt;
}

static bool has_succeeded(const struct judged *j)
{
    return j->job.state == DT_SUCCEEDED && j->changes == 1;
}

static void judge_job(struct batch *b, struct judged *j)
{
    const size_t first = first_index_of_job(b, j->was.id);
    size_t end = first;
    for (; end < b->n && b->places[end].id == j->was.id; end++) {
        struct dt_apply *a = &b->results[b->places[end].index];
        if (!dt_topic_within(a->bound, j->topic))
            continue;
        const struct dt_decision d = dt_job_decide(&j->job, &a->result, b->now_ms);
        a->outcome = d.outcome;
        b->ask_earlier |= d.outcome == DT_OUTCOME_STALE && is_of_earlier_attempt(j, &a->result);
        if (d.outcome != DT_OUTCOME_APPLIED)
            continue;
        j->job.state = d.state;
        j->job.attempt_status = d.attempt_status;
        j->job.next_at_ms = d.next_at_ms;
        j->job.failures = d.failures;
        j->failure = d.failed ? &a->result : j->failure;
        j->answer = a->answer ? a->answer : j->answer;
        j->finished |= d.finished;
        a->outbox = d.dead_letter && dt_config_has_kafka(b->config);
        j->dead_letter |= a->outbox;
        j->changes++;
        j->failures += d.failed;
    }
    /* The index may have the job's entry at its next_at, at the time at which its attempt was due, or at the attempt's
     * deadline. */
    const bool dispatched = j->was.state == DT_DISPATCHED;
    const int64_t ack_ms = dt_earlier(j->was.ack_timeout_ms, DT_ACK_MAX_MS);
    const int64_t deadline_ms = dispatched ? j->was.dispatched_at_ms + ack_ms : 0;
    for (size_t i = first; i < end; i++) {
        struct dt_apply *a = &b->results[b->places[i].index];
        a->next_at_ms = j->job.next_at_ms;
        a->was_ms[0] = j->was.next_at_ms;
        a->was_ms[1] = dispatched ? j->was.due_at_ms : 0;
        a->was_ms[2] = deadline_ms != j->was.next_at_ms ? deadline_ms : 0;
    }
    dt_assert(!j->dead_letter || (j->changes && j->job.state == DT_DEAD));
    b->n_dead += j->dead_letter;
    b->n_ended_well += j->changes && has_succeeded(j);
    b->n_others += j->changes && !has_succeeded(j);
}

static dt_status judge_earlier_attempts(struct batch *b, const char *sql, const struct judged *jobs, size_t n_jobs)
{
    if (!b->ask_earlier)
        return DT_OK;
    b->ask_earlier = false;
    dt_strbuf_reset(&b->text);
    dt_json_begin_array(&b->text, NULL);
    for (const struct judged *j = jobs; j < jobs + n_jobs; j++) {
        for (size_t i = first_index_of_job(b, j->was.id); i < b->n && b->places[i].id == j->was.id; i++) {
            const struct dt_apply *a = &b->results[b->places[i].index];
            if (a->outcome != DT_OUTCOME_STALE || !is_of_earlier_attempt(j, &a->result))
                continue;
            DT_JSON_PUT_ROW(&b->text, j->was.id, a->result.attempt);
        }
    }
    dt_json_end_array(&b->text);
    dt_status status = dt_db_query(b->db, sql, DT_PARAMS(DT_P_BUF(&b->text)), b->err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(b->db)) {
        const int64_t id = dt_db_i64(b->db, 0);
        const int64_t attempt = dt_db_i64(b->db, 1);
        const enum dt_attempt_status recorded = dt_row_attempt_status(b->db, 2);
        for (size_t i = first_index_of_job(b, id); i < b->n && b->places[i].id == id; i++) {
            struct dt_apply *a = &b->results[b->places[i].index];
            if (a->outcome == DT_OUTCOME_STALE && a->result.attempt == attempt &&
                dt_result_repeats(recorded, a->result.status))
                a->outcome = DT_OUTCOME_DUPLICATE;
        }
    }
    return dt_db_end(b->db, b->err);
}

static dt_status read_archived(struct batch *b, size_t asked)
{
    b->archived = dt_arena_alloc(b->arena, asked * sizeof(*b->archived));
    if (!b->archived)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    dt_status status =
        dt_db_query(b->db, dt_sql_select_archived_judged, DT_PARAMS(DT_P_BUF(&b->text), DT_P_INT(b->now_ms)), b->err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && b->n_archived < asked && dt_db_next(b->db)) {
        struct judged *j = &b->archived[b->n_archived++];
        memset(j, 0, sizeof(*j));
        status = dt_row_judged(b->db, 0, b->arena, &j->was);
        j->job = j->was;
        j->topic = read_job_topic(b, b->n_archived > 1 ? j - 1 : NULL, DT_ROW_JUDGED_COLUMNS);
        status = status == DT_OK && !j->topic.p ? dt_fail(b->err, DT_NOMEM, "out of memory") : status;
    }
    dt_status ended = dt_db_end(b->db, status != DT_OK ? NULL : b->err);
    return status != DT_OK ? status : ended;
}

/* An archived job is finished, so no result changes it. If a manual edit gave it another state, its results are
 * STALE. */
static dt_status judge_archived(struct batch *b)
{
    size_t unknown = 0;
    dt_strbuf_reset(&b->text);
    dt_json_begin_array(&b->text, NULL);
    for (size_t i = 0; i < b->n; i++) {
        const int64_t id = b->places[i].id;
        if ((i > 0 && id == b->places[i - 1].id) || was_job_read(b, id) ||
            b->results[b->places[i].index].outcome != DT_OUTCOME_UNKNOWN_JOB)
            continue;
        dt_json_put_int(&b->text, NULL, id);
        unknown++;
    }
    dt_json_end_array(&b->text);
    dt_status status = unknown ? read_archived(b, unknown) : DT_OK;
    for (size_t k = 0; status == DT_OK && k < b->n_archived; k++) {
        const struct judged *j = &b->archived[k];
        for (size_t i = first_index_of_job(b, j->was.id); i < b->n && b->places[i].id == j->was.id; i++) {
            struct dt_apply *a = &b->results[b->places[i].index];
            if (!dt_topic_within(a->bound, j->topic))
                continue;
            const struct dt_decision d = dt_job_decide(&j->job, &a->result, b->now_ms);
            a->outcome = d.outcome == DT_OUTCOME_APPLIED ? DT_OUTCOME_STALE : d.outcome;
            b->ask_earlier |= a->outcome == DT_OUTCOME_STALE && is_of_earlier_attempt(j, &a->result);
        }
    }
    return status == DT_OK
               ? judge_earlier_attempts(b, dt_sql_select_reported_archived_attempts, b->archived, b->n_archived)
               : status;
}

static int64_t purge_at_ms(const struct batch *b, const struct judged *j)
{
    return b->now_ms + dt_earlier(j->retention_ms, INT64_MAX - b->now_ms);
}

static int64_t archive_at_ms(const struct batch *b, const struct judged *j)
{
    return dt_leave_at_ms(b->config, j->job.state, b->now_ms, purge_at_ms(b, j));
}

/* Checks that every row was written as decided. If a row changed since it was read without a lock, returns BUSY. */
static dt_status check_written_rows(struct batch *b, uint64_t written, size_t rows)
{
    return written == rows ? DT_OK
                           : dt_fail(b->err, b->locking ? DT_INTERNAL : DT_BUSY,
                                     "results were written to %llu of %zu jobs", (unsigned long long)written, rows);
}

/* Runs a statement with the list of rows as its first parameter. All other parameters are the current time. */
static dt_status write_rows(struct batch *b, const char *sql, size_t params, size_t rows)
{
    uint64_t affected = 0;
    dt_json_end_array(&b->text);
    const struct dt_param all[] = {DT_P_BUF(&b->text), DT_P_INT(b->now_ms), DT_P_INT(b->now_ms), DT_P_INT(b->now_ms)};
    dt_status status = dt_db_run(b->db, sql, (struct dt_params){all, params}, &affected, b->err);
    return status != DT_OK ? status : check_written_rows(b, affected, rows);
}

static int compare_by_job(const void *a, const void *b)
{
    const struct judged *x = *(struct judged *const *)a;
    const struct judged *y = *(struct judged *const *)b;
    return DT_ORDER(x->was.id, y->was.id);
}

static int http_status_of(const struct judged *j)
{
    return j->answer ? j->answer->http_status : 0;
}

static int compare_likeness(const struct judged *x, const struct judged *y)
{
    const int64_t of_x[] = {x->was.attempt, x->was.version, x->was.state, x->retention_ms, http_status_of(x)};
    const int64_t of_y[] = {y->was.attempt, y->was.version, y->was.state, y->retention_ms, http_status_of(y)};
    for (size_t i = 0; i < sizeof(of_x) / sizeof(*of_x); i++)
        if (of_x[i] != of_y[i])
            return DT_ORDER(of_x[i], of_y[i]);
    return 0;
}

static int compare_judged_by_likeness(const void *a, const void *b)
{
    int order = compare_likeness(*(struct judged *const *)a, *(struct judged *const *)b);
    return order ? order : compare_by_job(a, b);
}

/* Writes a group of jobs that get equal values, except for the durations of callbacks. */
static dt_status write_equal_jobs(struct batch *b, struct judged *const *group, size_t n, int64_t *ids)
{
    const struct judged *j = group[0];
    uint64_t written = 0;
    dt_strbuf_reset(&b->text);
    for (size_t i = 0; i < n; i++) {
        ids[i] = group[i]->was.id;
        if (!j->answer)
            continue;
        /* Builds entries " id:value", in which the statement finds a job's duration by SUBSTRING_INDEX. */
        dt_strbuf_addc(&b->text, ' ');
        dt_strbuf_add_i64(&b->text, ids[i] - ids[0]);
        dt_strbuf_addc(&b->text, ':');
        dt_strbuf_add_i64(&b->text, dt_earlier(group[i]->answer->duration_ms, INT32_MAX));
    }
    const struct dt_param text = DT_P_BUF(&b->text);
    const struct dt_param now = DT_P_INT(b->now_ms);
    const struct dt_params all =
        DT_PARAMS(DT_P_INT(http_status_of(j)), text, text, DT_P_INT(ids[0]), now, DT_P_INT(purge_at_ms(b, j)),
                  DT_P_INT(archive_at_ms(b, j)), now, DT_P_INT(j->was.attempt), DT_P_INT(j->was.version),
                  DT_P_INT((int64_t)j->was.state + 1));
    const size_t first = j->answer ? 0 : 4;
    dt_status status = dt_id_in_run(b->db, j->answer ? &dt_sql_write_answered_successes : &dt_sql_write_alike_successes,
                                    (struct dt_params){all.v + first, all.n - first}, DT_IDS(ids, n), &written, b->err);
    return status != DT_OK ? status : check_written_rows(b, written, n);
}

void dt_answer_put(struct dt_strbuf *text, const struct dt_answer *answer)
{
    const struct dt_answer a = answer ? *answer : (struct dt_answer){.duration_ms = -1};
    dt_json_put_int_or_null(text, NULL, a.http_status, a.http_status);
    dt_json_put_int_or_null(text, NULL, a.duration_ms >= 0, dt_earlier(a.duration_ms, INT32_MAX));
}

static dt_status write_unequal_jobs(struct batch *b, struct judged *const *v, size_t n)
{
    if (n == 0)
        return DT_OK;
    size_t rows = 0;
    dt_strbuf_reset(&b->text);
    dt_json_begin_array(&b->text, NULL);
    for (; rows < n && b->text.n < b->text_most; rows++) {
        const struct judged *j = v[rows];
        dt_json_begin_array(&b->text, NULL);
        dt_json_put_int(&b->text, NULL, j->was.id);
        dt_json_put_int(&b->text, NULL, j->was.attempt);
        dt_json_put_int(&b->text, NULL, (int64_t)j->was.state + 1);
        dt_json_put_int(&b->text, NULL, j->was.version);
        dt_json_put_int(&b->text, NULL, purge_at_ms(b, j));
        dt_json_put_int(&b->text, NULL, archive_at_ms(b, j));
        dt_answer_put(&b->text, j->answer);
        dt_json_end_array(&b->text);
    }
    dt_status status = write_rows(b, dt_sql_write_successes, 3, rows);
    return status == DT_OK ? write_unequal_jobs(b, v + rows, n - rows) : status;
}

/* Writes each large group of `v` with its own statement. Adds all other jobs to `left`. */
static dt_status write_large_groups(struct batch *b, struct judged **v, size_t n, struct judged **left, size_t *n_left)
{
    int64_t *ids = dt_arena_alloc(b->arena, (n + 1) * sizeof(*ids));
    dt_status status = DT_OK;
    if (!ids)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    qsort(v, n, sizeof(struct judged *), compare_judged_by_likeness);
    for (size_t first = 0, end; status == DT_OK && first < n; first = end) {
        const size_t most = v[first]->answer ? ANSWERED_MOST : n;
        for (end = first + 1; end < n && end - first < most && compare_likeness(v[first], v[end]) == 0;)
            end++;
        const size_t group = end - first;
        if (group == n || (group >= ALIKE_MIN && group >= n / ALIKE_SHARE))
            status = write_equal_jobs(b, &v[first], group, ids);
        else
            for (size_t i = first; i < end; i++)
                left[(*n_left)++] = v[i];
    }
    return status;
}

/* Writes the jobs that succeeded: each large group of equal rows with its own statement, then all other jobs. If an
 * answer has no status or no duration, the column keeps its value. */
static dt_status write_succeeded(struct batch *b)
{
    struct judged **v = dt_arena_alloc(b->arena, (b->n_ended_well + 1) * sizeof(*v));
    struct judged **left = dt_arena_alloc(b->arena, (b->n_ended_well + 1) * sizeof(*left));
    size_t n = 0;
    size_t n_left = 0;
    if (!v || !left)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n_jobs; i++) {
        struct judged *j = &b->jobs[i];
        const bool half_answered = j->answer && (j->answer->http_status == 0 || j->answer->duration_ms < 0);
        if (has_succeeded(j))
            *(half_answered ? &left[n_left++] : &v[n++]) = j;
    }
    dt_assert_cmp(n + n_left, ==, b->n_ended_well);
    dt_status status = write_large_groups(b, v, n, left, &n_left);
    qsort(left, n_left, sizeof(struct judged *), compare_by_job);
    return status != DT_OK ? status : write_unequal_jobs(b, left, n_left);
}

static void add_other_job(struct batch *b, const struct judged *j)
{
    const struct dt_job *job = &j->job;
    const struct dt_result *failure = j->failure;
    const bool finished = dt_job_state_terminal(job->state);
    struct dt_strbuf *text = &b->text;
    struct dt_str code = failure ? failure->error_code : DT_STR_NONE;
    if (failure && !code.p && failure->status == DT_RESULT_TIMED_OUT)
        code = DT_STR_LIT("ack_timeout");
    dt_json_begin_array(text, NULL);
    dt_json_put_int(text, NULL, job->id);
    dt_json_put_int(text, NULL, job->attempt);
    dt_json_put_int(text, NULL, (int64_t)j->was.state + 1);
    dt_json_put_int(text, NULL, (int64_t)job->state + 1);
    dt_json_put_int(text, NULL, (int64_t)job->attempt_status);
    dt_json_put_int_or_null(text, NULL, job->next_at_ms, job->next_at_ms);
    dt_json_put_int(text, NULL, job->next_at_ms < dt_near_end_ms(b->now_ms));
    dt_json_put_int(text, NULL, job->failures);
    dt_json_put_int(text, NULL, j->changes);
    dt_json_put_int(text, NULL, j->finished);
    dt_json_put_int_or_null(text, NULL, finished && purge_at_ms(b, j), purge_at_ms(b, j));
    dt_json_put_int(text, NULL, failure ? 1 : 0);
    dt_json_put_cut(text, NULL, code, DT_ERROR_CODE_MAX);
    dt_json_put_cut(text, NULL, failure ? failure->error_message : DT_STR_NONE, DT_ERROR_MESSAGE_MAX);
    dt_json_put_int(text, NULL, j->was.version);
    dt_json_put_int(text, NULL, finished ? archive_at_ms(b, j) : 0);
    dt_answer_put(text, j->answer);
    dt_json_end_array(text);
}

static dt_status write_other_jobs(struct batch *b)
{
    size_t left = b->n_others;
    dt_status status = DT_OK;
    for (size_t i = 0, rows = 0; status == DT_OK && left; left -= rows, rows = 0) {
        dt_strbuf_reset(&b->text);
        dt_json_begin_array(&b->text, NULL);
        for (; i < b->n_jobs && rows < left && b->text.n < b->text_most; i++)
            if (b->jobs[i].changes && !has_succeeded(&b->jobs[i])) {
                add_other_job(b, &b->jobs[i]);
                rows++;
            }
        dt_assert_cmp(rows, >, 0);
        status = write_rows(b, dt_sql_write_outcomes, 4, rows);
    }
    return status;
}

static dt_status write_dead_letters(struct batch *b)
{
    enum { COLUMNS = 4 };
    if (!b->n_dead)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(b->arena, b->n_dead * COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n_jobs; i++) {
        const struct judged *j = &b->jobs[i];
        if (!j->dead_letter)
            continue;
        p = dt_params_add(p, DT_PARAMS(DT_P_INT(dt_shard_of(b->map, j->was.id)), DT_P_INT(j->was.id),
                                       DT_P_INT(j->was.attempt), DT_P_INT(b->now_ms)));
    }
    dt_assert_cmp(p - params, ==, b->n_dead * COLUMNS);
    return dt_db_run_many(b->db, dt_sql_insert_dead_letters, (struct dt_param_rows){params, COLUMNS, b->n_dead}, NULL,
                          b->err);
}

static dt_status apply_batch(struct batch *b)
{
    bool sorted = true;
    b->places = dt_arena_alloc(b->arena, b->n * sizeof(*b->places));
    if (!b->places)
        return dt_fail(b->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n; i++) {
        b->places[i] = (struct place){b->results[i].result.job_id, i};
        sorted &= i == 0 || b->places[i - 1].id <= b->places[i].id;
    }
    if (!sorted)
        qsort(b->places, b->n, sizeof(*b->places), compare_judged_by_id);
    dt_status status = read_jobs_of_batch(b);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < b->n_jobs; i++)
        judge_job(b, &b->jobs[i]);
    status = judge_earlier_attempts(b, dt_sql_select_reported_attempts, b->jobs, b->n_jobs);
    DT_THEN(status, judge_archived(b));
    DT_THEN(status, write_succeeded(b));
    DT_THEN(status, write_other_jobs(b));
    DT_THEN(status, write_dead_letters(b));
    /* Here every row was written as decided, so the counters may change. If a manual edit ended an attempt, the
     * counters still have its job as dispatched. */
    for (const struct judged *j = b->jobs; status == DT_OK && j < b->jobs + b->n_jobs; j++) {
        enum dt_job_state was = j->was.attempt_status == DT_ATTEMPT_DISPATCHED ? DT_DISPATCHED : j->was.state;
        if (j->changes && !DT_UNGUARDED(COUNT_RESULT))
            dt_counts_move(b->counts, j->topic, j->was.id, was, j->job.state);
        dt_counts_fail(b->counts, j->topic, j->was.id, j->failures);
    }
    return status;
}

dt_status dt_results_apply_within(const struct dt_results_txn *txn, struct dt_apply *results, size_t n,
                                  struct dt_error *err)
{
    struct batch b = {.db = txn->db,
                      .config = txn->config,
                      .map = txn->map,
                      .now_ms = txn->now_ms,
                      .locking = txn->locking,
                      .results = results,
                      .n = n,
                      .counts = txn->counts,
                      .arena = txn->arena,
                      .text_most = dt_db_packet_max(txn->db) / 2,
                      .err = err};
    if (n == 0)
        return DT_OK;
    for (size_t i = 0; i < n; i++) {
        results[i].outcome = DT_OUTCOME_UNKNOWN_JOB;
        results[i].next_at_ms = 0;
        results[i].outbox = false;
    }
    dt_status status = apply_batch(&b);
    dt_strbuf_clear(&b.text);
    return status;
}
