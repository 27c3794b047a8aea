/* Implements counts.h: the counters of jobs, the tally of events, and the audit of the counters. */
#include "counts.h"

#include <pthread.h>

#include "base/assert.h"
#include "mysql/statements.h"

_Static_assert(DT_SCHEDULED == 0 && DT_CANCELLED == 4, "columns stand in the order of states");

void dt_counts_init(struct dt_counts *counts)
{
    counts->v = counts->few;
    counts->n = 0;
    counts->cap = DT_COUNT_FEW;
    counts->failed = false;
    memset(counts->last, 0, sizeof(counts->last));
}

void dt_counts_clear(struct dt_counts *counts)
{
    if (counts->v != counts->few)
        free(counts->v);
    dt_counts_init(counts);
}

static int compare_by_topic_and_piece(const void *a, const void *b)
{
    const struct dt_count *x = a;
    const struct dt_count *y = b;
    size_t n = x->topic.n < y->topic.n ? x->topic.n : y->topic.n;
    int order = n && x->topic.p != y->topic.p ? memcmp(x->topic.p, y->topic.p, n) : 0;
    if (order == 0)
        order = DT_ORDER(x->topic.n, y->topic.n);
    return order ? order : DT_ORDER(x->piece, y->piece);
}

void dt_counts_merge(struct dt_counts *counts)
{
    struct dt_count *v = counts->v;
    size_t kept = 0;
    if (counts->n > 1)
        qsort(v, counts->n, sizeof(*v), compare_by_topic_and_piece);
    for (size_t i = 0; i < counts->n;) {
        struct dt_count sum = v[i++];
        bool changed = false;
        for (; i < counts->n && compare_by_topic_and_piece(&sum, &v[i]) == 0; i++) {
            for (int k = 0; k < DT_COUNT_NUMBERS; k++)
                sum.n[k] += v[i].n[k];
            for (int k = 0; k < DT_TALLIES; k++)
                sum.happened[k] += v[i].happened[k];
        }
        for (int k = 0; k < DT_COUNT_NUMBERS; k++)
            changed |= sum.n[k] != 0;
        for (int k = 0; k < DT_TALLIES; k++)
            changed |= sum.happened[k] != 0;
        if (changed)
            v[kept++] = sum;
    }
    counts->n = kept;
    memset(counts->last, 0, sizeof(counts->last));
}

static struct dt_count *find_or_add_count(struct dt_counts *counts, struct dt_str topic, unsigned piece)
{
    dt_assert_cmp(piece, <, DT_COUNT_PIECES);
    const size_t last = counts->last[piece];
    dt_assert_cmp(last, <=, counts->n);
    if (last && dt_str_eq(counts->v[last - 1].topic, topic))
        return &counts->v[last - 1];
    if (counts->n == counts->cap) {
        /* Merges the changes first, because many changes often concern few topics. */
        dt_counts_merge(counts);
        struct dt_count *more = counts->n < counts->cap / 2 ? NULL : malloc(2 * counts->cap * sizeof(*more));
        if (more) {
            memcpy(more, counts->v, counts->n * sizeof(*more));
            if (counts->v != counts->few)
                free(counts->v);
            counts->v = more;
            counts->cap *= 2;
        }
    }
    if (counts->n == counts->cap) {
        counts->failed = true;
        return NULL;
    }
    counts->v[counts->n] = (struct dt_count){.topic = topic, .piece = piece};
    counts->last[piece] = ++counts->n;
    return &counts->v[counts->n - 1];
}

void dt_counts_add(struct dt_counts *counts, struct dt_str topic, unsigned piece, int number, int64_t n)
{
    struct dt_count *c = find_or_add_count(counts, topic, piece);
    if (c)
        c->n[number] += n;
}

void dt_counts_make(struct dt_counts *counts, struct dt_str topic, int64_t id)
{
    struct dt_count *c = find_or_add_count(counts, topic, dt_count_piece(id));
    if (!c)
        return;
    c->n[DT_COUNT_CREATED]++;
    c->n[DT_SCHEDULED]++;
    c->happened[DT_TALLY_CREATED]++;
}

/* The event of the tally that is counted when a job enters a state; DT_TALLIES: no event. */
static const enum dt_tallied event_of[] = {[DT_SCHEDULED] = DT_TALLIES,
                                           [DT_DISPATCHED] = DT_TALLY_DISPATCHED,
                                           [DT_SUCCEEDED] = DT_TALLY_SUCCEEDED,
                                           [DT_DEAD] = DT_TALLY_DEAD,
                                           [DT_CANCELLED] = DT_TALLY_CANCELLED};

void dt_counts_move(struct dt_counts *counts, struct dt_str topic, int64_t id, enum dt_job_state was,
                    enum dt_job_state is)
{
    dt_assert_cmp(was, <, DT_JOB_STATES);
    dt_assert_cmp(is, <, DT_JOB_STATES);
    struct dt_count *c = was == is ? NULL : find_or_add_count(counts, topic, dt_count_piece(id));
    if (!c)
        return;
    c->n[was]--;
    c->n[is]++;
    if (event_of[is] != DT_TALLIES)
        c->happened[event_of[is]]++;
}

void dt_counts_fail(struct dt_counts *counts, struct dt_str topic, int64_t id, int64_t n)
{
    struct dt_count *c = n ? find_or_add_count(counts, topic, dt_count_piece(id)) : NULL;
    if (c)
        c->happened[DT_TALLY_FAILED] += n;
}

static dt_status commit_with_counts(dt_db *db, const struct dt_counts *counts, struct dt_error *err)
{
    enum { COLUMNS = 3 + DT_COUNT_NUMBERS };
    struct dt_param few[COLUMNS * 4];
    struct dt_param *params = few;
    struct dt_param *p;
    const int64_t writer = dt_db_number(db) % DT_COUNT_WRITERS;
    if (counts->n > 4)
        params = malloc(counts->n * COLUMNS * sizeof(*params));
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    p = params;
    for (size_t i = 0; i < counts->n; i++) {
        const struct dt_count *c = &counts->v[i];
        p = dt_params_add(p, DT_PARAMS(DT_P_STR(c->topic), DT_P_INT(c->piece), DT_P_INT(writer)));
        for (int k = 0; k < DT_COUNT_NUMBERS; k++)
            *p++ = DT_P_INT(c->n[k]);
    }
    dt_assert_cmp(p - params, ==, counts->n * COLUMNS);
    dt_status status =
        dt_db_commit_with(db, dt_sql_add_counts, (struct dt_param_rows){params, COLUMNS, counts->n}, err);
    if (params != few)
        free(params);
    return status;
}

dt_status dt_counts_commit(dt_db *db, struct dt_counts *counts, dt_status status, struct dt_error *err)
{
    if (db && status == DT_OK) {
        dt_counts_merge(counts);
        status = counts->failed ? dt_fail(err, DT_NOMEM, "out of memory")
                 : counts->n    ? commit_with_counts(db, counts, err)
                                : dt_db_commit(db, err);
    }
    for (size_t i = 0; db && status == DT_OK && i < counts->n; i++)
        dt_tally_add(counts->v[i].topic, counts->v[i].happened);
    if (db && status != DT_OK)
        dt_db_rollback(db);
    dt_counts_clear(counts);
    return status;
}

dt_status dt_store_commit_once(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms;
    if (counts)
        dt_counts_init(counts);
    dt_status status = dt_store_begin(store, &db, &now_ms, err);
    DT_THEN(status, work(arg, db, now_ms, err));
    return counts ? dt_counts_commit(db, counts, status, err) : dt_store_commit(db, status, err);
}

dt_status dt_store_commit_work(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_store_commit_once(store, counts, work, arg, err);
    } while (dt_store_again(&again, status));
    return status;
}

/* ---- the tally ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dt_tally tally; /* protected by `lock`, as is last_row */
static size_t last_row;       /* index of the row that was used last, because the next event often has the same topic */

static bool is_tally_of(const struct dt_tally_row *row, struct dt_str topic)
{
    return row->topic_n == topic.n && memcmp(row->topic, topic.p, topic.n) == 0;
}

/* Returns the row of a topic, which is added if needed. Returns NULL if the tally has DT_TALLY_TOPICS other topics
 * already. */
static struct dt_tally_row *tally_row_of(struct dt_str topic)
{
    if (last_row < tally.n && is_tally_of(&tally.rows[last_row], topic))
        return &tally.rows[last_row];
    for (size_t i = 0; i < tally.n; i++)
        if (is_tally_of(&tally.rows[i], topic)) {
            last_row = i;
            return &tally.rows[i];
        }
    dt_assert_cmp(tally.n, <=, DT_TALLY_TOPICS);
    if (tally.n == DT_TALLY_TOPICS || topic.n > DT_TOPIC_MAX)
        return NULL;
    last_row = tally.n++;
    struct dt_tally_row *row = &tally.rows[last_row];
    memset(row, 0, sizeof(*row));
    memcpy(row->topic, topic.p, topic.n);
    row->topic_n = topic.n;
    return row;
}

static bool all_zero(const int64_t n[DT_TALLIES])
{
    for (int i = 0; i < DT_TALLIES; i++)
        if (n[i])
            return false;
    return true;
}

static void add_tallies(int64_t to[DT_TALLIES], const int64_t n[DT_TALLIES])
{
    for (int i = 0; i < DT_TALLIES; i++)
        to[i] += n[i];
}

void dt_tally_add(struct dt_str topic, const int64_t n[DT_TALLIES])
{
    if (!topic.p || all_zero(n))
        return;
    pthread_mutex_lock(&lock);
    struct dt_tally_row *row = tally_row_of(topic);
    if (row)
        add_tallies(row->n, n);
    add_tallies(tally.all, n);
    pthread_mutex_unlock(&lock);
}

bool dt_tally_take(struct dt_tally *out)
{
    pthread_mutex_lock(&lock);
    memcpy(out->all, tally.all, sizeof(out->all));
    memcpy(out->rows, tally.rows, tally.n * sizeof(out->rows[0]));
    out->n = tally.n;
    tally.n = 0;
    memset(tally.all, 0, sizeof(tally.all));
    pthread_mutex_unlock(&lock);
    return !all_zero(out->all);
}

/*
 * ---- the audit ----
 *
 * The audit recounts `jobs`, one piece after the other. If manual edits or bugs changed rows without changing the
 * counters, it corrects the counters.
 *
 *     snapshot       reads the counters of the piece, then counts its rows in slices: all as committed at one moment
 *     difference     rows − counters. Our transactions do not change it, because each changes rows and counters alike
 *     correction     another transaction adds the difference to the counters, even if they have changed meanwhile
 *
 * Invariants: nothing is locked while rows are counted. A difference is added once: of two audits of a piece whose
 * snapshots overlap, only one raises the version that both have read. If a step fails, the piece is not corrected.
 */

struct dt_audit {
    dt_db *db; /* keeps a snapshot open from the first step of a piece to the last */
    unsigned piece;
    int64_t version, next_id, rows, corrected, found;
    struct dt_counts difference;
    struct dt_arena topics;
    struct dt_str topic; /* copy of the last row's topic */
};

dt_status dt_audit_new(dt_audit **out)
{
    dt_audit *a = *out = calloc(1, sizeof(*a));
    if (!a)
        return DT_NOMEM;
    dt_counts_init(&a->difference);
    return DT_OK;
}

void dt_audit_free(dt_audit *a)
{
    if (!a)
        return;
    dt_counts_clear(&a->difference);
    dt_arena_clear(&a->topics);
    free(a);
}

static dt_status read_topic_of_row(dt_audit *a, unsigned column, struct dt_error *err)
{
    struct dt_str topic = dt_db_bytes(a->db, column);
    if (!a->topic.p || !dt_str_eq(a->topic, topic))
        a->topic = dt_arena_copy(&a->topics, topic);
    return a->topic.p ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
}

/* Opens the snapshot, and subtracts the counters of the piece of `jobs` from the differences. */
static dt_status begin_audit_piece(dt_audit *a, dt_store *store, struct dt_error *err)
{
    a->next_id = 0;
    a->rows = 0;
    dt_assert_cmp(a->difference.n, ==, 0);
    dt_status status = dt_store_db(store, &a->db, err);
    DT_THEN(status, dt_db_begin_snapshot(a->db, err));
    DT_THEN(status, dt_db_query(a->db, dt_sql_select_audit, DT_PARAMS(DT_P_INT(a->piece)), err));
    if (status != DT_OK)
        return status;
    bool found = dt_db_next(a->db);
    a->version = found ? dt_db_i64(a->db, 0) : 0;
    a->corrected = found ? dt_db_i64(a->db, 1) : 0;
    status = dt_db_end(a->db, err);
    DT_THEN(status, dt_db_query(a->db, dt_sql_select_counters, DT_PARAMS(DT_P_INT(a->piece)), err));
    while (status == DT_OK && dt_db_next(a->db)) {
        status = read_topic_of_row(a, 0, err);
        for (int s = 0; status == DT_OK && s < DT_JOB_STATES; s++)
            dt_counts_add(&a->difference, a->topic, a->piece, s, -dt_db_i64(a->db, (unsigned)s + 1));
    }
    dt_status ended = dt_db_end(a->db, status != DT_OK ? NULL : err);
    return status != DT_OK ? status : ended;
}

/* Moves next_id to the next row of the piece. *there: false if all rows were counted. */
static dt_status find_next_day(dt_audit *a, bool *there, struct dt_error *err)
{
    for (*there = true; *there;) {
        int64_t id;
        dt_status status =
            dt_db_read_number(a->db, dt_sql_find_next_row, DT_PARAMS(DT_P_INT(a->next_id)), there, &id, err);
        if (*there)
            a->next_id = id;
        unsigned ahead = (a->piece + DT_COUNT_PIECES - dt_count_piece(a->next_id)) % DT_COUNT_PIECES;
        if (status != DT_OK || !*there || ahead == 0)
            return status;
        int64_t day = (int64_t)dt_job_home_day(a->next_id) + ahead;
        if (day > INT64_MAX >> DT_SEQUENCE_BITS)
            *there = false;
        else
            a->next_id = day << DT_SEQUENCE_BITS;
    }
    return DT_OK;
}

static dt_status count_slice_of_rows(dt_audit *a, size_t limit, size_t *rows, struct dt_error *err)
{
    const int64_t last = a->next_id | ((INT64_C(1) << DT_SEQUENCE_BITS) - 1);
    dt_status status =
        dt_db_query(a->db, dt_sql_count_rows, DT_PARAMS(DT_P_INT(a->next_id), DT_P_INT(last), DT_P_INT(limit)), err);
    int64_t highest = a->next_id;
    for (*rows = 0; status == DT_OK && dt_db_next(a->db);) {
        int64_t state = dt_db_i64(a->db, 1) - 1;
        int64_t n = dt_db_i64(a->db, 2);
        int64_t id = dt_db_i64(a->db, 3);
        status = read_topic_of_row(a, 0, err);
        if (status == DT_OK && state >= 0 && state < DT_JOB_STATES)
            dt_counts_add(&a->difference, a->topic, a->piece, (int)state, n);
        highest = id > highest ? id : highest;
        *rows += (size_t)n;
    }
    dt_status ended = dt_db_end(a->db, status != DT_OK ? NULL : err);
    a->rows += (int64_t)*rows;
    const int64_t counted = *rows < limit ? last : highest;
    a->next_id = counted < INT64_MAX ? counted + 1 : -1; /* -1: no row has a later home day */
    return status != DT_OK ? status : ended;
}

static int64_t sum_differences(const struct dt_count *c, int64_t *net)
{
    int64_t more = 0;
    int64_t fewer = 0;
    for (int s = 0; s < DT_JOB_STATES; s++)
        *(c->n[s] > 0 ? &more : &fewer) += c->n[s];
    *net = more + fewer;
    return more > -fewer ? more : -fewer;
}

static dt_status commit_correction(dt_audit *a, struct dt_error *err)
{
    enum { COLUMNS = 5 + DT_JOB_STATES };
    const struct dt_counts *d = &a->difference;
    struct dt_param *params = calloc(d->n, COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < d->n; i++) {
        int64_t net;
        int64_t corrected = sum_differences(&d->v[i], &net);
        p = dt_params_add(p, DT_PARAMS(DT_P_STR(d->v[i].topic), DT_P_INT(a->piece),
                                       DT_P_INT(dt_db_number(a->db) % DT_COUNT_WRITERS)));
        for (int s = 0; s < DT_JOB_STATES; s++)
            *p++ = DT_P_INT(d->v[i].n[s]);
        p = dt_params_add(p, DT_PARAMS(DT_P_INT(net), DT_P_INT(corrected)));
    }
    dt_assert_cmp(p - params, ==, d->n * COLUMNS);
    dt_status status =
        dt_db_commit_with(a->db, dt_sql_correct_counts, (struct dt_param_rows){params, COLUMNS, d->n}, err);
    free(params);
    return status;
}

static dt_status correct_piece(dt_audit *a, struct dt_audited *out, struct dt_error *err)
{
    int64_t net;
    uint64_t changed = 0;
    dt_counts_merge(&a->difference);
    if (a->difference.failed)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < a->difference.n; i++)
        out->corrected += sum_differences(&a->difference.v[i], &net);
    a->corrected += out->corrected;
    a->found = out->corrected;
    dt_status status = a->difference.n ? dt_db_begin(a->db, err) : DT_OK;
    if (status != DT_OK)
        return status;
    status = dt_db_run(a->db, a->version ? dt_sql_raise_audit : dt_sql_insert_audit,
                       DT_PARAMS(DT_P_INT(a->rows), DT_P_INT(a->corrected), DT_P_INT(a->found), DT_P_INT(a->piece),
                                 DT_P_INT(a->version)),
                       &changed, err);
    if (status == DT_EXISTS || (status == DT_OK && changed != 1))
        status = dt_fail(err, DT_BUSY, "piece %u was audited by another process", a->piece);
    return status == DT_OK && a->difference.n ? commit_correction(a, err) : status;
}

void dt_audit_end(dt_audit *a)
{
    if (a->db)
        dt_db_rollback(a->db);
    a->db = NULL;
    a->topic = DT_STR_NONE;
    dt_counts_clear(&a->difference);
    dt_arena_reset(&a->topics);
}

dt_status dt_audit_step(dt_audit *a, dt_store *store, size_t limit, struct dt_audited *out, struct dt_error *err)
{
    bool there = true;
    size_t counted = 0;
    size_t rows;
    dt_assert_cmp(a->piece, <, DT_COUNT_PIECES);
    dt_status status = a->db ? DT_OK : begin_audit_piece(a, store, err);
    *out = (struct dt_audited){.piece = a->piece};
    while (status == DT_OK && there && counted < limit) {
        status = find_next_day(a, &there, err);
        if (status != DT_OK || !there)
            break;
        status = count_slice_of_rows(a, limit - counted, &rows, err);
        counted += rows;
        there = a->next_id >= 0;
    }
    const bool done = status == DT_OK && !there;
    if (status == DT_OK && done) {
        dt_db_rollback(a->db);
        status = correct_piece(a, out, err);
    }
    if (status != DT_OK)
        *out = (struct dt_audited){.piece = a->piece};
    else if (done)
        *out = (struct dt_audited){a->piece, true, a->rows, out->corrected};
    if (status != DT_OK || done)
        dt_audit_end(a);
    if (done)
        a->piece = (a->piece + 1) % DT_COUNT_PIECES;
    return status;
}
