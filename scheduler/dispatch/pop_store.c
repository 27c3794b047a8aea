/*
 * The claim of a pop:
 *
 *     read the topic ─▶ lock its gate, if it has limits ─▶ lock offers, in order ─▶ lock their jobs ─▶ judge
 *     ─▶ archive earlier attempts ─▶ claim ─▶ delete the offers ─▶ read the jobs ─▶ count, and commit
 *
 * Invariants:
 * - The topic is read inside the transaction. So after a pause was answered, no new pop claims jobs of the topic.
 * - A job is judged by its locked row; in-flight lists are read after the rows were locked.
 * - One commit writes the claim and deletes its offer.
 * - A pop never waits for a lock: it skips what is locked. It locks offers first, then jobs by id.
 */

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "job/change/jobs.h"
#include "job/change/jobs_row.h"
#include "job/change/jobs_txn.h"
#include "job/delivery.h"
#include "job/job.h"
#include "job/job_state.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "pop.h"
#include "store/store_internal.h"
#include "topic/counts.h"
#include "topic/limits.h"

#define ROUNDS  8  /* maximal number of pages of offers that one pop reads */
#define SOON_MS 20 /* clocks differ by less than this: an offer may seem early by this much, although its job is due */

enum fate {
    FATE_LEFT,  /* another session has the row locked, or an earlier attempt is in flight */
    FATE_STALE, /* this offer cannot be popped, and is deleted */
    FATE_CLAIM
};

/* An offer that this transaction has locked. When the job's row is locked too, `found` is set, and the members below it
 * get the job's values. */
struct offer {
    int64_t id, due_ms;
    enum fate fate;
    bool found;
    enum dt_job_state state;
    int64_t attempt, next_ms, ack_timeout_ms, bytes;
    int claim_shard;
    /* The members below are set only for a claim. */
    size_t place;
    int64_t ttr_ms;
};

struct popping {
    struct dt_pop *pop;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_counts counts;
    struct dt_error *err;
    bool limited;        /* whether the topic has limits */
    struct dt_gate gate; /* the topic's row with its limits, locked if the topic has any */
    size_t most;         /* maximal number of jobs to claim: pop->max, or less if the topic has less room */
    struct offer *page;  /* current page of offers; room for pop->max */
    size_t n_page;
    int64_t after_ms, after_id; /* position after which the next page begins */
    struct offer *claims;       /* offers that are claimed; room for pop->max */
    size_t n_claims, bytes;
    struct dt_strbuf text;
};

static dt_status read_popped_topic(struct popping *p, bool *open)
{
    *open = false;
    dt_status status = dt_db_query(p->db, dt_sql_select_pop_topic, DT_PARAMS(DT_P_STR(p->pop->topic)), p->err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(p->db)) {
        bool offers = dt_delivery_dealing((enum dt_delivery_id)dt_db_i64(p->db, 0)) == DT_DEALING_OFFERS;
        *open = offers && (dt_db_i64(p->db, 1) == 0 || DT_UNGUARDED(PAUSE));
        p->limited = dt_db_i64(p->db, 2) != 0;
    }
    return dt_db_end(p->db, p->err);
}

static dt_status lock_offers(struct popping *p, size_t limit)
{
    dt_assert_cmp(limit, <=, p->pop->max);
    p->n_page = 0;
    dt_status status = dt_db_query(p->db, dt_sql_lock_offers,
                                   DT_PARAMS(DT_P_STR(p->pop->topic), DT_P_INT(p->after_ms), DT_P_INT(p->now_ms),
                                             DT_P_INT(p->after_ms), DT_P_INT(p->after_id), DT_P_INT(limit)),
                                   p->err);
    if (status != DT_OK)
        return status;
    while (p->n_page < limit && dt_db_next(p->db))
        p->page[p->n_page++] = (struct offer){.due_ms = dt_db_i64(p->db, 0), .id = dt_db_i64(p->db, 1)};
    if (p->n_page) {
        p->after_ms = p->page[p->n_page - 1].due_ms;
        p->after_id = p->page[p->n_page - 1].id;
    }
    return dt_db_end(p->db, p->err);
}

/* Returns the ids of the offers for which `wanted` returns true (NULL: all), ascending. NULL: memory ran out. */
static int64_t *list_ids(const struct popping *p, const struct offer *v, size_t n,
                         bool (*wanted)(const struct offer *offer), size_t *n_ids)
{
    int64_t *ids = dt_arena_alloc(p->arena, (n ? n : 1) * sizeof(*ids));
    *n_ids = 0;
    for (size_t i = 0; ids && i < n; i++)
        if (!wanted || wanted(&v[i]))
            ids[(*n_ids)++] = v[i].id;
    if (ids)
        qsort(ids, *n_ids, sizeof(*ids), dt_by_job_id);
    return ids;
}

static bool offer_not_found(const struct offer *offer)
{
    return !offer->found;
}

/* Reads one row of the answer to dt_sql_lock_offered into its offers: a job may have an old offer besides the current
 * one. */
static dt_status read_offered_job(void *arg)
{
    struct popping *p = arg;
    const int64_t id = dt_db_i64(p->db, 0);
    for (size_t i = 0; i < p->n_page; i++) {
        struct offer *offer = &p->page[i];
        if (offer->id != id)
            continue;
        offer->found = true;
        offer->state = (enum dt_job_state)(dt_db_i64(p->db, 1) - 1);
        offer->attempt = dt_db_i64(p->db, 2);
        offer->next_ms = dt_db_i64(p->db, 3);
        offer->claim_shard = (int)dt_db_i64(p->db, 4);
        offer->ack_timeout_ms = dt_db_i64(p->db, 5);
        offer->bytes = dt_db_i64(p->db, 6);
    }
    return DT_OK;
}

static dt_status skip_offer(void *arg)
{
    struct popping *p = arg;
    const int64_t id = dt_db_i64(p->db, 0);
    for (size_t i = 0; i < p->n_page; i++)
        if (p->page[i].id == id)
            p->page[i].fate = FATE_LEFT;
    return DT_OK;
}

static dt_status lock_jobs(struct popping *p)
{
    size_t n;
    const int64_t *ids = list_ids(p, p->page, p->n_page, NULL, &n);
    if (!ids)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    dt_status status =
        dt_id_in_read(p->db, &dt_sql_lock_offered, DT_NO_PARAMS, DT_IDS(ids, n), read_offered_job, p, p->err);
    if (status != DT_OK)
        return status;
    /* An offer without a locked row: either the job does not exist, or another session has its row locked. */
    ids = list_ids(p, p->page, p->n_page, offer_not_found, &n);
    if (!ids)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < p->n_page; i++)
        if (!p->page[i].found)
            p->page[i].fate = FATE_STALE;
    return dt_id_in_read(p->db, &dt_sql_find_jobs, DT_NO_PARAMS, DT_IDS(ids, n), skip_offer, p, p->err);
}

static bool has_attempt(const struct offer *offer)
{
    return offer->fate == FATE_CLAIM && offer->attempt > 0 && !DT_UNGUARDED(POP_IN_HANDS);
}

static dt_status judge_offer(struct popping *p, struct offer *offer)
{
    if (!offer->found)
        return DT_OK;
    const bool as_offered = DT_GUARD(POP_STATE, dt_job_state_after(offer->state, DT_EVENT_CLAIM) != DT_STATE_ILLEGAL) &&
                            DT_GUARD(POP_DUE, offer->next_ms == offer->due_ms && offer->next_ms <= p->now_ms);
    offer->fate = as_offered ? FATE_CLAIM : FATE_STALE;
    if (offer->fate == FATE_STALE || offer->attempt == 0 || offer->claim_shard < 0 || DT_UNGUARDED(LIST_ELSEWHERE))
        return DT_OK;
    /* If jobs of the topic were sent to Kafka before, this job may be scheduled again while a shard's in-flight list
     * still has its last attempt, which will be sent. The list is read after the row was locked: an attempt that is not
     * in a list cannot enter one while the row is locked. */
    int64_t in_flight = 0;
    dt_status status =
        dt_db_read_number(p->db, dt_sql_find_in_flight, DT_PARAMS(DT_P_INT(offer->id), DT_P_INT(offer->claim_shard)),
                          NULL, &in_flight, p->err);
    if (in_flight)
        offer->fate = FATE_LEFT;
    return status;
}

/* Deletes those of the offers v[0..n) whose fate is `fate`. */
static dt_status delete_offers(struct popping *p, const struct offer *v, size_t n, enum fate fate)
{
    size_t some = 0;
    dt_strbuf_reset(&p->text);
    dt_json_begin_array(&p->text, NULL);
    for (size_t i = 0; i < n; i++) {
        if (v[i].fate != fate)
            continue;
        DT_JSON_PUT_ROW(&p->text, v[i].due_ms, v[i].id);
        some++;
    }
    dt_json_end_array(&p->text);
    return some ? dt_db_run(p->db, dt_sql_delete_offers, DT_PARAMS(DT_P_BUF(&p->text), DT_P_STR(p->pop->topic)), NULL,
                            p->err)
                : DT_OK;
}

static bool was_job_moved(const struct offer *offer)
{
    return offer->fate == FATE_STALE && offer->found && offer->state == DT_SCHEDULED;
}

/* Chooses the claims from the current page, in its order. Returns false if the pop has all jobs that it may have. */
static bool choose_from_page(struct popping *p)
{
    for (size_t i = 0; i < p->n_page; i++) {
        const struct offer *offer = &p->page[i];
        if (offer->fate != FATE_CLAIM)
            continue;
        const bool fits = p->bytes + (size_t)offer->bytes <= p->pop->max_bytes;
        p->pop->more = p->n_claims == p->most || (!fits && (p->n_claims || p->pop->must_fit));
        if (p->pop->more)
            return false;
        dt_assert(offer->found); /* each offer of the page was judged by the locked row of its job */
        dt_assert_cmp(p->n_claims, <, p->pop->max);
        struct offer *claim = &p->claims[p->n_claims];
        *claim = *offer;
        claim->place = p->n_claims++;
        claim->ttr_ms = p->pop->ttrs_ms ? p->pop->ttrs_ms[claim->place] : 0;
        p->bytes += (size_t)offer->bytes;
    }
    return p->n_claims < p->most;
}

/* Reads and judges one page of offers. Locks only as many offers as are still wanted, because other pops skip the
 * offers that this pop has locked. */
static dt_status pop_page(struct popping *p, bool *go_on)
{
    dt_assert_cmp(p->n_claims, <, p->most);
    const size_t wanted = p->most - p->n_claims;
    uint64_t changed;
    size_t n;
    dt_status status = lock_offers(p, wanted);
    *go_on = false;
    if (status != DT_OK || p->n_page == 0)
        return status;
    status = lock_jobs(p);
    for (size_t i = 0; status == DT_OK && i < p->n_page; i++)
        status = judge_offer(p, &p->page[i]);
    /* If the topic's jobs were callbacks before, the latest attempt may still be in the hands of a process. */
    const int64_t *ids = list_ids(p, p->page, p->n_page, has_attempt, &n);
    DT_THEN(status,
            !ids ? dt_fail(p->err, DT_NOMEM, "out of memory")
                 : dt_id_in_read(p->db, &dt_sql_find_in_hands, DT_NO_PARAMS, DT_IDS(ids, n), skip_offer, p, p->err));
    /* Marks the jobs of stale offers that are still scheduled, so that scans find them again. If a job also has
     * another offer, which is not stale, the job is offered once more, which does no harm. */
    ids = list_ids(p, p->page, p->n_page, was_job_moved, &n);
    DT_THEN(status,
            ids ? delete_offers(p, p->page, p->n_page, FATE_STALE) : dt_fail(p->err, DT_NOMEM, "out of memory"));
    if (status == DT_OK && n)
        status = dt_id_in_run(p->db, &dt_sql_mark_not_offered, DT_PARAMS(DT_P_INT(dt_near_end_ms(p->now_ms))),
                              DT_IDS(ids, n), &changed, p->err);
    *go_on = choose_from_page(p) && p->n_page == wanted;
    return status;
}

static dt_status choose_jobs(struct popping *p)
{
    bool go_on = true;
    dt_status status = DT_OK;
    p->page = dt_arena_alloc(p->arena, p->pop->max * sizeof(*p->page));
    p->claims = dt_arena_alloc(p->arena, p->pop->max * sizeof(*p->claims));
    if (!p->page || !p->claims)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    for (int round = 0; status == DT_OK && go_on && round < ROUNDS; round++)
        status = pop_page(p, &go_on);
    p->pop->more = p->pop->more || p->n_claims == p->most || go_on;
    return status;
}

static int compare_by_ttr_and_id(const void *a, const void *b)
{
    const struct offer *x = a;
    const struct offer *y = b;
    return x->ttr_ms != y->ttr_ms ? DT_ORDER(x->ttr_ms, y->ttr_ms) : dt_by_job_id(a, b);
}

static dt_status write_claims(struct popping *p)
{
    const struct dt_param now = DT_P_INT(p->now_ms);
    dt_status status = DT_OK;
    size_t some = 0;
    dt_strbuf_reset(&p->text);
    dt_json_begin_array(&p->text, NULL);
    for (size_t i = 0; i < p->n_claims; i++) { /* archives the previous attempts of these jobs in `attempts` */
        if (p->claims[i].attempt == 0)
            continue;
        DT_JSON_PUT_ROW(&p->text, p->claims[i].id);
        some++;
    }
    dt_json_end_array(&p->text);
    if (some)
        status = dt_db_run(p->db, dt_sql_keep_latest_attempts, DT_PARAMS(DT_P_BUF(&p->text)), NULL, p->err);
    /* Sorts the claims by time to report, because one statement writes all claims with the same time. */
    qsort(p->claims, p->n_claims, sizeof(*p->claims), compare_by_ttr_and_id);
    for (size_t from = 0, end; status == DT_OK && from < p->n_claims; from = end) {
        const int64_t ttr_ms = p->claims[from].ttr_ms;
        const struct dt_param ttr = DT_P_INT_OR_NULL(ttr_ms);
        uint64_t changed = 0;
        size_t n;
        for (end = from; end < p->n_claims && p->claims[end].ttr_ms == ttr_ms; end++)
            ;
        const int64_t *ids = list_ids(p, p->claims + from, end - from, NULL, &n);
        if (!ids)
            return dt_fail(p->err, DT_NOMEM, "out of memory");
        status = dt_id_in_run(
            p->db, &dt_sql_pop_jobs,
            DT_PARAMS(now, now, DT_P_INT(ttr_ms), now, ttr, now, ttr, DT_P_INT(dt_near_end_ms(p->now_ms)), now, now),
            DT_IDS(ids, n), &changed, p->err);
        if (status == DT_OK && changed != n)
            return dt_fail(p->err, DT_INTERNAL, "popped %llu of %zu locked jobs", (unsigned long long)changed, n);
    }
    return status;
}

int dt_pop_by_due(const void *a, const void *b)
{
    const struct dt_job *x = a;
    const struct dt_job *y = b;
    return x->due_at_ms != y->due_at_ms ? DT_ORDER(x->due_at_ms, y->due_at_ms) : DT_ORDER(x->id, y->id);
}

static dt_status read_job(void *arg)
{
    struct popping *p = arg;
    const struct offer key = {.id = dt_db_i64(p->db, 0)};
    const struct offer *claim = bsearch(&key, p->claims, p->n_claims, sizeof(*p->claims), dt_by_job_id);
    if (!claim)
        return dt_fail(p->err, DT_INTERNAL, "MySQL returned a job that was not requested");
    p->pop->n++;
    return dt_row_full(p->db, 0, p->arena, &p->pop->jobs[claim->place]);
}

static dt_status claim_jobs(struct popping *p)
{
    size_t n;
    if (p->n_claims == 0)
        return DT_OK;
    qsort(p->claims, p->n_claims, sizeof(*p->claims), dt_by_job_id);
    dt_status status = write_claims(p);
    qsort(p->claims, p->n_claims, sizeof(*p->claims), dt_by_job_id);
    const int64_t *ids = list_ids(p, p->claims, p->n_claims, NULL, &n);
    p->pop->n = 0;
    p->pop->jobs = dt_arena_alloc(p->arena, p->n_claims * sizeof(*p->pop->jobs));
    if (!ids || !p->pop->jobs)
        status = dt_fail(p->err, DT_NOMEM, "out of memory");
    DT_THEN(status, delete_offers(p, p->claims, p->n_claims, FATE_CLAIM));
    DT_THEN(status, dt_id_in_read(p->db, &dt_sql_select_popped, DT_NO_PARAMS, DT_IDS(ids, n), read_job, p, p->err));
    if (status == DT_OK && p->pop->n != n)
        status = dt_fail(p->err, DT_INTERNAL, "%zu of %zu popped jobs were found", p->pop->n, n);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < p->n_claims; i++)
        dt_counts_move(&p->counts, p->pop->topic, p->claims[i].id, DT_SCHEDULED, DT_DISPATCHED);
    return dt_topic_gate_claimed(p->db, p->now_ms, &p->gate, p->n_claims, p->err);
}

static dt_status try_pop(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct popping *p = arg;
    bool open;
    p->db = db;
    p->now_ms = now_ms;
    p->err = err;
    p->after_ms = p->after_id = 0;
    p->n_claims = p->bytes = p->pop->n = 0;
    p->pop->more = p->pop->passed = p->pop->at_limit = false;
    dt_status status = read_popped_topic(p, &open);
    if (status != DT_OK || !open)
        return status;
    p->most = p->pop->max;
    p->gate = (struct dt_gate){.topic = p->pop->topic};
    if (p->limited && !DT_UNGUARDED(LIMIT_POP)) {
        status = dt_topic_gates_lock(p->db, p->now_ms, &p->gate, 1, p->err);
        if (status == DT_OK && p->gate.busy)
            return dt_fail(p->err, DT_BUSY, "another session claims jobs of the topic");
        p->most = p->gate.room < p->most ? p->gate.room : p->most;
    }
    if (status == DT_OK && p->most)
        status = choose_jobs(p);
    DT_THEN(status, claim_jobs(p));
    if (status == DT_OK && p->n_claims < p->most && !p->pop->more)
        status = dt_db_read_number(p->db, dt_sql_find_due_offer,
                                   DT_PARAMS(DT_P_STR(p->pop->topic), DT_P_INT(p->now_ms + SOON_MS)), &p->pop->passed,
                                   NULL, p->err);
    dt_assert_cmp(p->n_claims, <=, p->most);
    p->pop->at_limit = p->most < p->pop->max && p->n_claims == p->most;
    p->pop->more &= !p->pop->at_limit;
    DT_FAIL_POINT_STATUS("pop.commit", status, err);
    return status;
}

dt_status dt_store_pop(dt_store *store, struct dt_pop *pop, struct dt_error *err)
{
    struct popping p = {.pop = pop, .arena = pop->arena};
    pop->jobs = NULL;
    dt_status status = dt_store_commit_work(store, &p.counts, try_pop, &p, err);
    dt_strbuf_clear(&p.text);
    if (status != DT_OK) {
        pop->n = 0;
        pop->more = pop->passed = false;
    }
    pop->at_limit |= status == DT_BUSY && p.gate.busy;
    return status == DT_BUSY && p.gate.busy ? DT_OK : status;
}

dt_status dt_store_pop_look(dt_store *store, const struct dt_str *topics, size_t n, enum dt_pop_topic *out,
                            struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf text = {0};
    dt_json_begin_array(&text, NULL);
    for (size_t i = 0; i < n; i++) {
        out[i] = DT_POP_TOPIC_UNKNOWN;
        /* A text that must be escaped in JSON is not the name of a topic; its result stays UNKNOWN. */
        dt_json_put_cut(&text, NULL, topics[i], DT_TOPIC_MAX);
    }
    dt_json_end_array(&text);
    dt_status status = dt_store_query(store, &db, dt_sql_look_at_offers, DT_PARAMS(DT_P_BUF(&text)), err);
    dt_strbuf_clear(&text);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const size_t place = (size_t)dt_db_i64(db, 0) - 1;
        const bool offers = dt_db_i64(db, 2) == 0 && dt_db_i64(db, 3) != 0;
        if (place >= n)
            continue;
        if (dt_delivery_dealing((enum dt_delivery_id)dt_db_i64(db, 1)) != DT_DEALING_OFFERS)
            out[place] = DT_POP_TOPIC_OTHER;
        else
            out[place] = offers ? DT_POP_TOPIC_OFFERS : DT_POP_TOPIC_EMPTY;
    }
    return dt_db_end(db, err);
}

#define AHEAD_MS 50 /* a job that is due later than this from now gets no offer: clocks differ by less */

dt_status dt_offer_made(dt_db *db, const struct dt_insert_rows *rows, int64_t now_ms, struct dt_param *room,
                        struct dt_error *err)
{
    struct dt_param *p = room;
    for (size_t i = 0; i < rows->n; i++) {
        const struct dt_insert *row = rows->v[i];
        if (row->outcome != DT_INSERT_CREATED || !row->popped || row->job.run_at_ms > now_ms + AHEAD_MS)
            continue;
        p = dt_params_add(p, DT_PARAMS(DT_P_STR(row->job.topic), DT_P_INT(row->job.run_at_ms), DT_P_INT(row->job.id)));
    }
    const size_t n = (size_t)(p - room) / DT_OFFER_COLUMNS;
    return n ? dt_db_run_many(db, dt_sql_insert_offers, (struct dt_param_rows){room, DT_OFFER_COLUMNS, n}, NULL, err)
             : DT_OK;
}

/*
 * Housekeeping of offers, in bounded steps. A walk has two halves:
 *
 *   offers   Reads the offers of each topic in order. If the job of an offer does not wait for that pop any more,
 *            deletes the offer.
 *   jobs     Reads jobs whose rows are marked as offered, in order of time. If a job's offer does not exist (the table
 *            was emptied), or its topic is not popped any more (its delivery was changed), removes the mark, so that
 *            scans find the job again.
 *
 * Invariants: rows are read without locks, so the condition of a repair may have changed. Each repair checks its
 * condition again, or does no harm: the next walk makes a missing offer again, and a pop deletes a superfluous offer.
 */

struct tidying {
    dt_db *db;
    struct dt_offers_walk *walk;
    int64_t now_ms;
    size_t limit, seen; /* limit: maximal number of rows to read; seen: number of rows that were read */
    struct dt_strbuf stale;
    int64_t *ids; /* ids of jobs that scans must find again; room for `limit` */
    size_t n_stale, n_ids;
    struct dt_error *err;
};

static dt_status delete_stale_offers(struct tidying *t)
{
    struct dt_offers_walk *walk = t->walk;
    const struct dt_str topic = {walk->topic, walk->topic_n};
    dt_status status = dt_db_query(t->db, dt_sql_select_offers,
                                   DT_PARAMS(DT_P_STR(topic), DT_P_INT(walk->due_ms), DT_P_INT(walk->due_ms),
                                             DT_P_INT(walk->id), DT_P_INT(t->limit)),
                                   t->err);
    if (status != DT_OK)
        return status;
    dt_strbuf_reset(&t->stale);
    dt_json_begin_array(&t->stale, NULL);
    for (; t->seen < t->limit && dt_db_next(t->db); t->seen++) {
        walk->due_ms = dt_db_i64(t->db, 0);
        walk->id = dt_db_i64(t->db, 1);
        if (dt_db_i64(t->db, 2))
            continue;
        DT_JSON_PUT_ROW(&t->stale, walk->due_ms, walk->id);
        t->n_stale++;
    }
    dt_json_end_array(&t->stale);
    status = dt_db_end(t->db, t->err);
    if (status == DT_OK && t->n_stale)
        status = dt_db_run(t->db, dt_sql_delete_offers, DT_PARAMS(DT_P_BUF(&t->stale), DT_P_STR(topic)), NULL, t->err);
    if (status != DT_OK || t->seen == t->limit)
        return status;
    /* The topic has no more offers: continues with the next topic, or with the second half of the walk. */
    status = dt_db_query(t->db, dt_sql_select_next_offering, DT_PARAMS(DT_P_STR(topic)), t->err);
    if (status != DT_OK)
        return status;
    const struct dt_str next = dt_db_next(t->db) ? dt_db_bytes(t->db, 0) : DT_STR_NONE;
    *walk = (struct dt_offers_walk){.of_jobs = !next.p || next.n > sizeof(walk->topic)};
    if (!walk->of_jobs) {
        memcpy(walk->topic, next.p, next.n);
        walk->topic_n = next.n;
    }
    return dt_db_end(t->db, t->err);
}

static dt_status repair_offered_jobs(struct tidying *t)
{
    struct dt_offers_walk *walk = t->walk;
    uint64_t changed;
    dt_status status = dt_db_query(
        t->db, dt_sql_select_offered,
        DT_PARAMS(DT_P_INT(walk->due_ms), DT_P_INT(walk->due_ms), DT_P_INT(walk->id), DT_P_INT(t->limit)), t->err);
    if (status != DT_OK)
        return status;
    for (; t->seen < t->limit && dt_db_next(t->db); t->seen++) {
        walk->id = dt_db_i64(t->db, 0);
        walk->due_ms = dt_db_i64(t->db, 1);
        bool popped = dt_delivery_dealing((enum dt_delivery_id)dt_db_i64(t->db, 3)) == DT_DEALING_OFFERS;
        if (!popped || !dt_db_i64(t->db, 4))
            t->ids[t->n_ids++] = walk->id;
    }
    status = dt_db_end(t->db, t->err);
    if (status == DT_OK && t->n_ids) {
        qsort(t->ids, t->n_ids, sizeof(*t->ids), dt_by_job_id);
        status = dt_id_in_run(t->db, &dt_sql_mark_not_offered, DT_PARAMS(DT_P_INT(dt_near_end_ms(t->now_ms))),
                              DT_IDS(t->ids, t->n_ids), &changed, t->err);
    }
    if (status == DT_OK && t->seen < t->limit)
        *walk = (struct dt_offers_walk){0};
    return status;
}

dt_status dt_store_tidy_offers(dt_store *store, struct dt_offers_walk *walk, int64_t now_ms, size_t limit,
                               size_t *repaired, bool *more, struct dt_error *err)
{
    struct tidying t = {.walk = walk, .now_ms = now_ms, .limit = limit, .err = err};
    *repaired = 0;
    *more = false;
    t.ids = dt_store_scratch(store, limit * sizeof(*t.ids));
    if (!t.ids)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_store_db(store, &t.db, err);
    DT_THEN(status, walk->of_jobs ? repair_offered_jobs(&t) : delete_stale_offers(&t));
    dt_strbuf_clear(&t.stale);
    if (status != DT_OK)
        return status;
    *repaired = t.n_stale + t.n_ids;
    *more = walk->of_jobs || walk->topic_n > 0;
    return DT_OK;
}
