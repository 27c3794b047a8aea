/* See workload.h. */
#include "simulator/workload.h"

#include "dispatch/shards.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "simulator/deliveries/arrivals.h"
#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/mysql.h"
#include "topic/topics.h"

#define OPS_MAX      1024
#define WORKERS      3
#define POPPERS      2
#define HORIZON_MS   12000     /* the last run_at that is asked for */
#define MAP_RESTS_US (5 * SEC) /* after a change of the number of shards: longer than any leader is held up */

struct journal *journal;

static struct {
    const struct dt_config *config;
    struct op ops[OPS_MAX];
    unsigned n_ops, n_taken;
    struct proc *api, *outside;
    struct fiber *workers[WORKERS];
    dt_refclock ref;
    bool healed;
    unsigned lives;
    unsigned poisoned;
    int64_t reshard_us;  /* when another number of shards was asked for, or set; 0 = never */
    unsigned resharding; /* so many asked for one and have no answer */
} it;

static const char *const topics[TOPICS] = {"orders", "mails", "calls"};

struct dt_str workload_topic(unsigned i)
{
    return dt_str(topics[i]);
}

static int64_t start_us(void)
{
    return 100 * SEC;
}

/* ---- what is to be asked ---- */

struct op *workload_plan(enum ask ask, unsigned job, int64_t when_us)
{
    static struct op overflow;
    if (it.n_ops == OPS_MAX)
        return &overflow;
    struct op *op = &it.ops[it.n_ops++];
    *op = (struct op){.ask = ask, .job = job, .when_us = when_us > now_us ? when_us : now_us, .retry_after_ms = -1};
    for (unsigned i = 0; i < WORKERS; i++)
        if (it.workers[i])
            fiber_wake(it.workers[i]);
    return op;
}

static struct op *next_op(bool by_hand)
{
    struct op *best = NULL;
    for (unsigned i = it.n_taken; i < it.n_ops; i++) {
        struct op *op = &it.ops[i];
        if (i == it.n_taken && op->taken && op->done)
            it.n_taken++;
        if (!op->taken && (op->ask == ASK_EDIT) == by_hand && (!best || op->when_us < best->when_us))
            best = op;
    }
    return best;
}

bool workload_healed(void)
{
    return it.healed;
}

bool workload_done(void)
{
    for (unsigned i = 0; i < it.n_ops; i++)
        if (!it.ops[i].done)
            return false;
    return it.healed && intake_done();
}

/* ---- the API ---- */

struct answer *workload_ask(enum ask what, unsigned job)
{
    if (journal->n_answers == ANSWERS_MAX)
        broken("the journal is full");
    struct answer *a = &journal->answers[journal->n_answers++];
    *a = (struct answer){.ask = what, .job = job, .asked_us = now_us, .attempt = -1};
    return a;
}

void workload_answered(struct answer *a, dt_status status, const struct dt_job *job)
{
    a->answered_us = now_us;
    a->status = (int)status;
    if (job && (status == DT_OK || status == DT_TOO_LATE)) {
        a->attempt = job->attempt;
        a->state = job->state;
        a->next_at_ms = job->next_at_ms;
        a->run_at_ms = job->run_at_ms;
    }
    TRACE("ANSWER %d of job %lld: %s, %s attempt %lld", (int)a->ask,
          (long long)(a->job < JOBS_MAX ? journal->jobs[a->job].id : 0), dt_status_name(status),
          job && a->attempt >= 0 ? dt_job_state_name(a->state) : "-", (long long)a->attempt);
}

void workload_tell_index(struct worker *w, int64_t id, int64_t next_at_ms, int64_t was_ms)
{
    const struct dt_entry entry = {id, next_at_ms, was_ms};
    if (!w->index)
        return;
    int64_t horizon_ms = mysql_now_ms() + it.config->index_horizon;
    if (dt_index_put(w->index, &journal->map, &entry, 1, horizon_ms, true, &w->err) != DT_OK)
        TRACE("api: the index was not told");
}

static void make_digest(unsigned char digest[16], unsigned job)
{
    memset(digest, 0, 16);
    memcpy(digest, &job, sizeof job);
}

/* Not even by a MySQL that has forgotten it. In the very moment of a restore numbers may be ahead of the clock. */
static void judge_new_id(const struct answer *a, int64_t id)
{
    const bool thousands = journal->n_schedules || intake_takes_ids(); /* of ids are taken at once */
    const int64_t ahead_us = thousands ? SEC : JOBS_MAX * MS;
    if (mysql_restored_us && a->asked_us < mysql_restored_us + ahead_us)
        return;
    for (unsigned i = 0; i < journal->n_jobs; i++)
        if (i != a->job && journal->jobs[i].id == id)
            violated("O2", "id %lld was given to job %u and to job %u", (long long)id, i, a->job);
}

/* A keyed create whose outcome is not known is asked again, as a client would. */
static void ask_again(const struct op *op)
{
    struct op *again = workload_plan(op->ask, op->job, now_us + rnd_in(1 * MS, 500 * MS));
    again->delay_ms = op->delay_ms;
}

static void create(struct worker *w, struct op *op)
{
    struct journal_job *j = &journal->jobs[op->job];
    struct answer *a = workload_ask(ASK_CREATE, op->job);
    int64_t sequence, created_ms, run_at_ms = mysql_now_ms() + op->delay_ms;
    dt_status status = dt_store_reserve_ids(w->store, 1, &sequence, &w->err);
    static const char *const retries[] = {"1s", "", "500ms 1s", "200ms"};
    const struct dt_str payload = DT_STR_LIT("{}");
    struct dt_insert row = {.job = {.topic = dt_str(topics[j->topic]),
                                    .run_at_ms = run_at_ms,
                                    .retry = dt_str(retries[op->job % 4]),
                                    .ack_timeout_ms = op->job % 8 == 7 ? rnd_in(4, 20) * 1000 : rnd_in(1, 4) * 700,
                                    .payload = payload}},
                     *rows[1] = {&row};
    if (j->keyed)
        row.job.key = dt_str(j->key);
    make_digest(row.job.digest, op->job);
    if (status == DT_OK) {
        row.job.id = dt_job_id(run_at_ms, sequence);
        judge_new_id(a, row.job.id);
        if (!j->id)
            j->id = row.job.id;
        status = dt_store_insert(w->store, rows, 1, w->maker, &created_ms, &w->err);
    }
    if (status == DT_OK && row.outcome == DT_INSERT_CREATED) {
        j->id = row.job.id;
        j->run_at_ms = row.job.run_at_ms;
        j->accepted = true;
    } else if (status == DT_OK && row.outcome == DT_INSERT_SAME) {
        j->id = row.existing_id;
        j->accepted = true;
        j->run_at_ms = 0; /* that of an earlier request */
    } else if (status == DT_OK) {
        status = DT_EXISTS;
        if (row.outcome != DT_INSERT_ID_TAKEN)
            violated("create", "job %u: outcome %d", op->job, (int)row.outcome);
    }
    workload_answered(a, status, NULL);
    if (status != DT_OK && j->keyed)
        ask_again(op);
    if (j->accepted && row.outcome == DT_INSERT_CREATED && j->poisoned)
        broker_poison(j->id, one_in(2) ? now_us + rnd_in(20 * MS, 6 * SEC) : NEVER);
    if (status == DT_OK && row.outcome == DT_INSERT_CREATED)
        workload_tell_index(w, j->id, j->run_at_ms, 0);
}

static void change(struct worker *w, struct op *op)
{
    struct journal_job *j = &journal->jobs[op->job];
    struct answer *a = workload_ask(op->ask, op->job);
    struct dt_job job = {0};
    dt_status status;
    if (op->ask == ASK_CANCEL || op->ask == ASK_CANCEL_RETRIES)
        status = dt_store_cancel(w->store, j->id, op->ask == ASK_CANCEL_RETRIES, &w->arena, &job, &w->err);
    else if (op->ask == ASK_RUN_NOW)
        status = dt_store_run_now(w->store, j->id, &w->arena, &job, &w->err);
    else if (op->ask == ASK_REDRIVE) {
        j->revived = true;
        status = dt_store_redrive(w->store, j->id, &w->arena, &job, &w->err);
    } else {
        struct dt_patch patch = {.has_run_at = !op->payload || one_in(2),
                                 .run_at_ms = op->delay_ms,
                                 .run_at_is_delay = true,
                                 .has_payload = op->payload,
                                 .payload = DT_STR_LIT("[]")};
        status = dt_store_patch(w->store, j->id, &patch, &w->arena, &job, &w->err);
    }
    workload_answered(a, status, &job);
    if (status == DT_OK)
        workload_tell_index(w, j->id, job.state == DT_SCHEDULED || job.state == DT_DISPATCHED ? job.next_at_ms : 0,
                            job.was_next_at_ms);
}

static void report(struct worker *w, struct op *op)
{
    struct answer *a = workload_ask(ASK_REPORT, op->job);
    struct dt_apply apply = {.result = {.job_id = journal->jobs[op->job].id,
                                        .attempt = op->attempt,
                                        .status = op->result,
                                        .retry_after_ms = op->retry_after_ms}};
    a->result = op->result;
    a->attempt = op->attempt; /* also of one that nobody is left to answer */
    dt_status status = dt_store_apply(w->store, &journal->map, &apply, 1, &w->err);
    a->outcome = apply.outcome;
    workload_answered(a, status, NULL);
    a->attempt = op->attempt;
    a->next_at_ms = apply.next_at_ms;
    if (status == DT_OK && apply.outcome == DT_OUTCOME_APPLIED)
        for (int k = 0; k < DT_WAS_MAX; k++)
            if (k == 0 || apply.was_ms[k])
                workload_tell_index(w, apply.result.job_id, apply.next_at_ms, apply.was_ms[k]);
}

static void pause_or_resume(struct worker *w, struct op *op)
{
    struct answer *a = workload_ask(op->ask, op->job);
    dt_status status = dt_store_topic_pause(w->store, dt_str(topics[op->job]), op->ask == ASK_PAUSE, NULL, &w->err);
    workload_answered(a, status, NULL);
    if (status != DT_OK && op->ask == ASK_RESUME)
        ask_again(op);
    else if (status == DT_OK && w->index)
        (void)!dt_index_wake_all(w->index, &w->err);
    if (op->ask == ASK_PAUSE && it.healed) /* asked by an API that stood still: what was to resume has gone before */
        workload_plan(ASK_RESUME, op->job, now_us);
}

static void serve(struct worker *w, struct op *op)
{
    dt_arena_reset(&w->arena);
    if (op->ask == ASK_TOPIC) {
        workload_put_topic(w, op);
        return;
    }
    if (op->ask == ASK_PAUSE || op->ask == ASK_RESUME)
        pause_or_resume(w, op);
    else if (op->ask == ASK_CREATE)
        create(w, op);
    else if (!journal->jobs[op->job].id)
        return;
    else if (op->ask == ASK_REPORT)
        report(w, op);
    else
        change(w, op);
}

void workload_connect(struct worker *w)
{
    if (dt_store_new(it.config, &it.ref, &w->store) != DT_OK ||
        dt_index_new(it.config, "sim", dt_clock_system(), &w->index, &w->err) != DT_OK)
        broken("an API worker does not start");
}

static void *worker_main(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct worker w = {.maker = (int64_t)(rnd() >> 2)};
    workload_connect(&w);
    for (;;) {
        struct op *op = next_op(false);
        if (!op || op->when_us > now_us) {
            fiber_block(op ? op->when_us : NEVER);
            continue;
        }
        it.workers[number] = fiber_self();
        op->taken = true;
        serve(&w, op);
        op->done = true;
    }
    return NULL;
}

static void api_start(void *)
{
    it.api = proc_new("A", ++it.lives);
    for (unsigned i = 0; i < WORKERS; i++)
        it.workers[i] = fiber_start(it.api, worker_main, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < POPPERS && workload_anything_pops(); i++)
        fiber_start(it.api, workload_consume_by_pop, NULL);
}

void workload_api_died(struct proc *)
{
    for (unsigned i = 0; i < it.n_ops; i++) {
        struct op *op = &it.ops[i];
        if (!op->taken || op->done || op->ask == ASK_EDIT)
            continue;
        op->done = true; /* its client never hears of it */
        if ((op->ask == ASK_CREATE && journal->jobs[op->job].keyed) || op->ask == ASK_RESUME)
            ask_again(op);
    }
    at(now_us + rnd_in(5 * MS, 500 * MS), api_start, NULL);
}

/* ---- people with SQL ---- */

static const char move_sql[] = "UPDATE jobs SET next_at = ?, near = TRUE WHERE id = ? AND state = 'scheduled'";
static const char revive_sql[] = "UPDATE jobs SET state = 'scheduled', next_at = ?, near = TRUE, purge_at = NULL WHERE "
                                 "id = ? AND state IN ('dead', 'cancelled')";
static const char again_sql[] =
    "UPDATE jobs SET state = 'scheduled', next_at = ? WHERE id = ? AND state = 'dispatched'";
static const char end_sql[] =
    "UPDATE jobs SET state = 'succeeded', finished_at = ? WHERE id = ? AND state = 'dispatched'";
static const char bury_sql[] = "UPDATE jobs SET state = 'dead', finished_at = ? WHERE id = ? AND state = 'dispatched'";

static void edit(struct op *op)
{
    static const char *const edits[] = {move_sql, revive_sql, again_sql, end_sql, bury_sql};
    struct journal_job *j = &journal->jobs[op->job];
    struct answer *a = workload_ask(ASK_EDIT, op->job);
    int64_t which = op->attempt;
    a->revives = which == 1 || which == 2;
    if (!j->id)
        return;
    j->edited = true;
    j->revived |= which == 1 || which == 2;
    int64_t when_ms = mysql_now_ms() + op->delay_ms;
    if (op->delay_ms % 4 == 0) /* "now", as some write it */
        when_ms = op->delay_ms % 8 ? 0 : -when_ms;
    workload_answered(a, mysql_by_hand(edits[which], DT_PARAMS(DT_P_INT(when_ms), DT_P_INT(j->id))), NULL);
}

static void *operator_main(void *)
{
    for (;;) {
        struct op *op = next_op(true);
        if (!op) {
            fiber_sleep(100 * MS);
            continue;
        }
        if (op->when_us > now_us) {
            fiber_sleep(op->when_us - now_us < 100 * MS ? op->when_us - now_us : 100 * MS);
            continue;
        }
        op->taken = true;
        edit(op);
        op->done = true;
    }
    return NULL;
}

/* ---- the number of shards ---- */

static void *reshard_main(void *arg)
{
    struct dt_installation inst;
    struct dt_error err = {0};
    dt_store *store;
    dt_index *index;
    if (dt_store_new(it.config, NULL, &store) != DT_OK ||
        dt_index_new(it.config, "sim", dt_clock_system(), &index, &err) != DT_OK)
        broken("nobody can ask for shards");
    dt_status status = dt_store_set_shards(store, (unsigned)(uintptr_t)arg, &inst, &err);
    TRACE("asked for %u shards: %s", (unsigned)(uintptr_t)arg, dt_status_name(status));
    it.reshard_us = now_us;
    it.resharding--;
    if (status == DT_OK && index && dt_index_wake_all(index, &err) != DT_OK)
        TRACE("nobody was told");
    dt_index_free(index);
    dt_store_free(store);
    return NULL;
}

void workload_reshard(unsigned shards)
{
    it.reshard_us = now_us;
    it.resharding++;
    fiber_start(it.outside, reshard_main, (void *)(uintptr_t)shards);
}

bool workload_map_rests(void)
{
    return !it.resharding && (!it.reshard_us || now_us - it.reshard_us > MAP_RESTS_US);
}

/* The API reads the map about once a second. */
static void learn_map(void *)
{
    const struct row *row = table_named("installation")->rows[0];
    if (row->committed)
        dt_shard_map_init(&journal->map, cell_int(row, "generation"), (unsigned)cell_int(row, "shards"));
    at(now_us + rnd_in(300 * MS, 1 * SEC), learn_map, NULL);
}

/* ---- plans ---- */

static void plan_changes(unsigned job, int64_t created_us, int64_t due_us)
{
    bool storm = fault_drawn(F_STORM);
    for (int64_t n = storm ? rnd_in(1, 4) : rnd_in(0, 2); n; n--) {
        int64_t when_us = storm || one_in(2) ? due_us + rnd_in(-3 * MS, 8 * MS) : created_us + rnd_in(0, 8 * SEC);
        static const enum ask asks[] = {ASK_CANCEL,  ASK_CANCEL,  ASK_PATCH,
                                        ASK_RUN_NOW, ASK_REDRIVE, ASK_CANCEL_RETRIES};
        struct op *op = workload_plan(asks[rnd_in(0, 5)], job, when_us);
        op->delay_ms = one_in(3) ? rnd_in(0, 10) : rnd_in(0, 4000);
        op->payload = one_in(2);
        if (storm)
            fault_count(F_STORM);
    }
    if (one_in(6)) {
        struct op *op = workload_plan(ASK_EDIT, job, due_us + (one_in(2) ? rnd_in(0, 40 * MS) : rnd_in(0, 5 * SEC)));
        op->attempt = rnd_in(0, 4);
        op->delay_ms = rnd_in(0, 2000);
        if (one_in(2))
            workload_plan(ASK_CANCEL, job, op->when_us + rnd_in(0, 30 * MS));
    }
}

static void plan_job(unsigned job)
{
    struct journal_job *j = &journal->jobs[job];
    int64_t created_us = start_us() + rnd_in(0, 6 * SEC);
    j->topic = (unsigned)rnd_in(0, TOPICS - 1);
    j->keyed = one_in(2);
    j->poisoned = fault_drawn(F_REFUSED) && one_in(3);
    if (j->poisoned)
        fault_count(F_REFUSED);
    snprintf(j->key, sizeof j->key, "k%u", job);
    struct op *op = workload_plan(ASK_CREATE, job, created_us);
    op->delay_ms = one_in(3) ? 0 : one_in(6) ? rnd_in(4000, HORIZON_MS - 6000) : rnd_in(0, 2500);
    plan_changes(job, created_us, created_us + op->delay_ms * 1000);
}

/* Many at one instant, so that they make a batch. */
static void plan_crowd(unsigned first, unsigned n)
{
    int64_t due_us = start_us() + rnd_in(1 * SEC, 5 * SEC);
    for (unsigned i = first; i < first + n; i++) {
        struct journal_job *j = &journal->jobs[i];
        int64_t created_us = start_us() + rnd_in(0, 600 * MS);
        j->topic = journal->hot && !one_in(8) ? 0 : (unsigned)rnd_in(0, TOPICS - 1);
        j->poisoned = fault_drawn(F_REFUSED) && one_in(journal->hot ? 12 : 3);
        if (j->poisoned)
            fault_count(F_REFUSED);
        workload_plan(ASK_CREATE, i, created_us)->delay_ms = (due_us - created_us) / 1000;
        if (one_in(4))
            plan_changes(i, created_us, due_us);
    }
}

static void plan_pauses(void)
{
    if (!one_in(3))
        return;
    unsigned topic = (unsigned)rnd_in(0, TOPICS - 1);
    int64_t when_us = start_us() + rnd_in(0, 6 * SEC);
    workload_plan(ASK_PAUSE, topic, when_us);
    workload_plan(ASK_RESUME, topic, when_us + rnd_in(100 * MS, 4 * SEC));
}

void workload_begin(const struct dt_config *config, unsigned shards)
{
    memset(&it, 0, sizeof it);
    it.config = config;
    journal = world_alloc(sizeof *journal);
    dt_shard_map_init(&journal->map, 1, shards);
    journal->batch = config->dispatch_batch_jobs;
    dt_refclock_init(&it.ref, dt_clock_system());
    workload_consumers_begin();
    workload_make_topics();
    workload_make_schedules();
    unsigned singles = (unsigned)rnd_in(1, 5), crowd = one_in(3) ? (unsigned)rnd_in(2, 6) : 0;
    journal->n_jobs = singles + crowd;
    for (unsigned i = 0; i < singles; i++)
        plan_job(i);
    if (one_in(12)) { /* a topic with far more due than a batch, and others beside it */
        crowd = (unsigned)rnd_in(12, 50);
        journal->hot = true;
    }
    journal->n_jobs = singles + crowd;
    plan_crowd(singles, crowd);
    plan_pauses();
    it.outside = proc_new("C", 0);
    fiber_start(it.outside, workload_consume_by_kafka, NULL);
    fiber_start(it.outside, operator_main, NULL);
    if (fault_drawn(F_RESHARD) || fault_drawn(F_RESTORE))
        learn_map(NULL);
    api_start(NULL);
    intake_begin(config);
}

void workload_heal(void)
{
    it.healed = true;
    for (unsigned i = 0; i < TOPICS; i++)
        workload_plan(ASK_RESUME, i, now_us);
}

uint64_t workload_messages(void)
{
    uint64_t n = 0;
    while (arrival(n))
        n++;
    return n;
}
