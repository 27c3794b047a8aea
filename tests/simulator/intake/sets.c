/*
 * Sets of jobs, each of which an operation changes once. Those far ahead of their time are all changed, and nothing else
 * touches them: a job's version is the number of operations, and one. Those that are due meanwhile are cancelled, and never
 * sent afterwards, or refused.
 *
 * Whoever asked for an operation does some of its pieces itself, as an API does, and may leave it in the middle.
 */

#include "features/operations/operations.h"
#include "job/change/jobs.h"
#include "job/job.h"
#include "simulator/deliveries/arrivals.h"
#include "simulator/intake/intake.h"
#include "simulator/oracles.h"

#define SETS_MAX 2
#define SET_JOBS 9
#define HOUR_MS  INT64_C(3600000)

struct set {
    char prefix[8];
    unsigned topic, n;
    enum dt_operation_kind kind;
    bool near, by_key, made;
    int64_t from_ms, run_at_ms[SET_JOBS], shift_ms;
    int64_t ids[SET_JOBS], cancelled_us[SET_JOBS]; /* cancelled: when that was committed; 0 = it was not */
};

static struct {
    struct set v[SETS_MAX];
    unsigned n;
    bool at_work;
} it;

static void key_of(const struct set *s, unsigned i, char key[16])
{
    snprintf(key, 16, "%s%u", s->prefix, i);
}

/* ---- jobs ---- */

static struct dt_insert insert_of(const struct set *s, unsigned i, const char *key, int64_t sequence)
{
    struct dt_insert row = {.job = {.topic = workload_topic(s->topic),
                                    .key = dt_str(key),
                                    .run_at_ms = s->run_at_ms[i],
                                    .retry = DT_STR_LIT("200ms"),
                                    .ack_timeout_ms = 1500,
                                    .payload = DT_STR_LIT("{}"),
                                    .id = dt_job_id(s->run_at_ms[i], sequence)}};
    memcpy(row.job.digest, key, strlen(key));
    return row;
}

static bool take_ids(struct set *s, const struct dt_insert *rows)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (rows[i].outcome != DT_INSERT_CREATED && rows[i].outcome != DT_INSERT_SAME)
            return false;
        s->ids[i] = rows[i].outcome == DT_INSERT_SAME ? rows[i].existing_id : rows[i].job.id;
    }
    return true;
}

static bool insert_set(struct worker *w, struct set *s)
{
    struct dt_insert rows[SET_JOBS], *v[SET_JOBS];
    char keys[SET_JOBS][16];
    int64_t sequence, created_ms;
    dt_arena_reset(&w->arena);
    if (dt_store_reserve_ids(w->store, s->n, &sequence, &w->err) != DT_OK)
        return false;
    for (unsigned i = 0; i < s->n; i++) {
        key_of(s, i, keys[i]);
        rows[i] = insert_of(s, i, keys[i], sequence + i);
        v[i] = &rows[i];
    }
    return dt_store_insert(w->store, v, s->n, w->maker, &created_ms, &w->err) == DT_OK && take_ids(s, rows);
}

static void make_set(struct worker *w, struct set *s)
{
    s->from_ms = mysql_now_ms() + (s->near ? rnd_in(200, 600) : (36 + 24 * (int64_t)(s - it.v)) * HOUR_MS);
    for (unsigned i = 0; i < s->n; i++)
        s->run_at_ms[i] = s->from_ms + rnd_in(0, s->near ? 2000 : HOUR_MS);
    for (unsigned tries = 0; tries < 300 && !s->made; tries++) {
        s->made = insert_set(w, s);
        if (!s->made)
            fiber_sleep(rnd_in(10 * MS, 100 * MS));
    }
    for (unsigned i = 0; i < s->n && s->made; i++)
        workload_tell_index(w, s->ids[i], s->run_at_ms[i], 0);
}

/* ---- operations ---- */

static struct dt_operation_ask ask_of(const struct set *s)
{
    struct dt_operation_ask ask = {
        .kind = s->kind, .filter = {.topic = workload_topic(s->topic)}, .request = DT_STR_LIT("{}")};
    if (s->by_key)
        ask.filter.key_prefix = dt_str(s->prefix);
    else
        ask.filter.run = (struct dt_list_times){true, s->from_ms, s->from_ms + 12 * HOUR_MS};
    ask.shifts = s->kind == DT_OPERATION_RESCHEDULE;
    ask.shift_ms = s->shift_ms;
    if (one_in(2))
        ask.rate = DT_STR_LIT("10/s");
    return ask;
}

/* As an API does while a request waits. */
static void do_pieces(struct worker *w, int64_t id)
{
    for (int64_t n = rnd_in(0, 4); n; n--) {
        struct dt_operation_piece piece = {.id = id, .lease_ms = 1000};
        dt_arena_reset(&w->arena);
        if (dt_store_operation_step(w->store, &piece, &w->arena, &w->err) != DT_OK || !piece.id ||
            piece.shown.state != DT_OPERATION_RUNNING)
            return;
        for (size_t i = 0; i < piece.n_moves; i++)
            workload_tell_index(w, piece.moves[i].id, piece.moves[i].due_ms, piece.moves[i].was_ms);
        fiber_sleep(piece.wait_ms * MS);
    }
    if (one_in(2))
        (void)!dt_store_operation_hand_over(w->store, id, 0, &w->err);
}

static void *operator_main(void *)
{
    struct worker w = {.maker = (int64_t)(rnd() >> 2)};
    workload_connect(&w);
    for (unsigned i = 0; i < it.n; i++) {
        struct set *s = &it.v[i];
        fiber_sleep(rnd_in(0, 1500 * MS));
        make_set(&w, s);
        for (int64_t n = s->made ? rnd_in(1, s->kind == DT_OPERATION_RESCHEDULE ? 2 : 1) : 0; n; n--) {
            fiber_sleep(s->near ? rnd_in(0, 800 * MS) : rnd_in(0, 300 * MS));
            /* Where the outcome of making it is not known, the table says whether it is there. */
            const struct dt_operation_ask ask = ask_of(s);
            struct dt_operation op = {.id = 0};
            dt_arena_reset(&w.arena);
            dt_status status =
                dt_store_operation_make(w.store, &ask, one_in(2) ? 0 : rnd_in(200, 1500), &w.arena, &op, &w.err);
            TRACE("operation %lld on %s: %s", (long long)op.id, s->prefix, dt_status_name(status));
            if (status == DT_OK && one_in(2))
                do_pieces(&w, op.id);
        }
    }
    it.at_work = false;
    return NULL;
}

/* ---- what is drawn ---- */

void sets_forget(void)
{
    memset(&it, 0, sizeof it);
}

void sets_begin(void)
{
    it.n = (unsigned)rnd_in(1, SETS_MAX);
    for (unsigned i = 0; i < it.n; i++) {
        struct set *s = &it.v[i];
        *s = (struct set){.topic = (unsigned)rnd_in(0, TOPICS - 1), .n = (unsigned)rnd_in(2, SET_JOBS)};
        snprintf(s->prefix, sizeof s->prefix, "s%u-", i);
        s->near = one_in(3);
        s->kind = s->near || one_in(3) ? DT_OPERATION_CANCEL : DT_OPERATION_RESCHEDULE;
        s->by_key = s->near || one_in(2);
        s->shift_ms = rnd_in(1, 60) * 60000;
    }
    it.at_work = true;
    fiber_start(intake_proc, operator_main, NULL);
}

bool sets_done(void)
{
    return !it.at_work;
}

const char *sets_unrest(void)
{
    const struct table *operations = table_named("operations");
    for (size_t i = 0; i < operations->n; i++)
        if (!operations->rows[i]->committed || dt_str_is(cell_text(operations->rows[i], "state"), "running"))
            return "an operation is running";
    return NULL;
}

/* ---- judging ---- */

/* Notes when jobs were cancelled that were about to be sent. */
void sets_committed(void)
{
    for (unsigned k = 0; k < it.n; k++)
        for (unsigned i = 0; i < it.v[k].n && it.v[k].near && it.v[k].made; i++) {
            const struct row *row = table_find(table_named("jobs"), it.v[k].ids[i]);
            if (!it.v[k].cancelled_us[i] && row && dt_str_is(cell_text(row, "state"), "cancelled"))
                it.v[k].cancelled_us[i] = now_us;
        }
}

static bool is_of(const struct row *operation, const struct set *s)
{
    if (!dt_str_eq(cell_text(operation, "topic_from"), workload_topic(s->topic)))
        return false;
    return s->by_key ? !cell_null(operation, "key_prefix") && dt_str_is(cell_text(operation, "key_prefix"), s->prefix)
                     : cell_null(operation, "key_prefix") && cell_int(operation, "run_from") == s->from_ms;
}

/* Sums up what the operations on a set say of themselves; returns how many there were. */
static unsigned judge_operations(const struct set *s, int64_t *changed)
{
    const struct table *operations = table_named("operations");
    unsigned n = 0;
    *changed = 0;
    for (size_t i = 0; i < operations->n; i++) {
        const struct row *op = operations->rows[i];
        const int64_t matched = cell_int(op, "matched"), refused = cell_int(op, "refused");
        if (!is_of(op, s))
            continue;
        n++;
        *changed += cell_int(op, "changed");
        if (!dt_str_is(cell_text(op, "state"), "done") || cell_int(op, "changed") + refused != matched ||
            (!s->near && (matched != s->n || refused)))
            violated("operation", "operation %lld on the %u jobs of %s: matched %lld, changed %lld, refused %lld, %.*s",
                     (long long)cell_int(op, "id"), s->n, s->prefix, (long long)matched,
                     (long long)cell_int(op, "changed"), (long long)refused, (int)cell_text(op, "state").n,
                     cell_text(op, "state").p);
    }
    return n;
}

static void judge_far(const struct set *s, unsigned operations)
{
    const bool cancels = s->kind == DT_OPERATION_CANCEL;
    const int64_t moved_ms = cancels ? 0 : operations * s->shift_ms;
    for (unsigned i = 0; i < s->n; i++) {
        char key[16];
        unsigned n;
        key_of(s, i, key);
        const struct row *row = intake_find_job(s->topic, key, &n);
        const bool right = n == 1 && cell_int(row, "version") == 1 + operations &&
                           cell_int(row, "run_at") == s->run_at_ms[i] + moved_ms &&
                           dt_str_is(cell_text(row, "state"), cancels && operations ? "cancelled" : "scheduled");
        if (!right)
            violated("operation", "%u jobs of %s, of version %lld, %lld ms later, after %u operations", n, key,
                     (long long)(n ? cell_int(row, "version") : 0),
                     (long long)(n ? cell_int(row, "run_at") - s->run_at_ms[i] : 0), operations);
    }
}

static void judge_near(const struct set *s, int64_t changed)
{
    const struct broker_record *m;
    int64_t cancelled = 0;
    for (unsigned i = 0; i < s->n; i++) {
        char key[16];
        unsigned n;
        key_of(s, i, key);
        const struct row *row = intake_find_job(s->topic, key, &n);
        cancelled += n == 1 && dt_str_is(cell_text(row, "state"), "cancelled");
        for (size_t k = 0; (m = arrival(k)); k++)
            if (m->job == s->ids[i] && s->cancelled_us[i] && m->committed_us > s->cancelled_us[i])
                violated("operation", "%s was sent (attempt %lld) after it was cancelled", key, (long long)m->attempt);
    }
    if (cancelled != changed)
        violated("operation", "%lld jobs of %s are cancelled, and %lld were", (long long)cancelled, s->prefix,
                 (long long)changed);
}

void sets_judge(void)
{
    for (unsigned i = 0; i < it.n && !history_lost; i++) {
        const struct set *s = &it.v[i];
        int64_t changed;
        const unsigned operations = s->made ? judge_operations(s, &changed) : 0;
        if (s->made && s->near)
            judge_near(s, changed);
        else if (s->made)
            judge_far(s, operations);
    }
}
