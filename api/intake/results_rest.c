/* POST /v1/jobs/{id}/results, and POST /v1/results for batches. The HTTP thread decodes results, and the batcher
 * applies them. For a single result, a worker then reads the job for the answer; if the read fails, the answer has only
 * the outcome. */
#include "results_rest.h"

#include <pthread.h>
#include <utlist.h>

#include "answer.h"
#include "base/assert.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "batch.h"
#include "handlers.h"
#include "job/change/jobs.h"
#include "rest/jobs_rest.h"

struct reporting {
    struct dt_apply apply;
    struct dt_reports reports; /* the reports, which have only this result */
    struct dt_request *req;
};

static enum dt_next answer_result(struct dt_request *req, dt_store *store)
{
    const struct reporting *r = req->state;
    struct dt_job job;
    int64_t id = r->apply.result.job_id;
    const char *outcome = dt_report_outcome(r->apply.outcome);
    if (dt_store_get(store, id, &req->arena, &job, NULL) == DT_OK)
        return dt_answer_stored(req, store, &job, outcome);
    /* The result was applied, but the job cannot be read: it was deleted (its retention is zero), or the read
     * failed. */
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_id(&req->out, "id", id);
    dt_json_put_word(&req->out, "outcome", outcome);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

/* Called on the batcher's thread, or inside dt_results_batcher_submit. */
static void on_result_applied(struct dt_reports *reports)
{
    struct reporting *r = reports->arg;
    struct dt_request *req = r->req;
    const bool applied = reports->status == DT_OK;
    if (applied && r->apply.outcome < DT_OUTCOME_UNKNOWN_JOB) {
        req->changed = r->apply.outcome == DT_OUTCOME_APPLIED;
        dt_workers_submit(req->api->workers, req, answer_result);
        return;
    }
    if (applied && r->apply.outcome == DT_OUTCOME_UNKNOWN_JOB)
        dt_answer_not_found(req, "job");
    else
        dt_answer_status(req, applied ? DT_BUSY : reports->status, NULL, NULL);
    dt_request_resume(req);
}

enum dt_next dt_handle_job_results(struct dt_request *req)
{
    int64_t id;
    if (!dt_answer_id(req, &id))
        return DT_REPLY;
    struct reporting *r = dt_answer_state(req, sizeof(*r));
    if (!r)
        return DT_REPLY;
    *r = (struct reporting){.req = req,
                            .reports = {.v = &r->apply,
                                        .n = 1,
                                        .bound = dt_wall_bound(req),
                                        .deadline_us = req->deadline_us,
                                        .done = on_result_applied,
                                        .arg = r}};
    struct dt_faults faults;
    const dt_json *json = dt_answer_parse(req, &faults);
    if (!json)
        return DT_REPLY;
    r->apply.result.job_id = id;
    dt_status status = dt_result_decode(json, dt_json_root(json), NULL, &faults, &r->apply.result);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    dt_request_suspend(req);
    dt_results_batcher_submit(req->api->results, &r->reports);
    return DT_PENDING;
}

/* ---- results as elements of a batch ---- */

static struct dt_gate *result_admission_gate(const struct dt_api *api)
{
    return api->result_gate;
}

static dt_status decode_element(const struct dt_batch_terms *, const dt_json *json, bool keep, struct dt_chunk *chunk,
                                struct dt_faults *faults, struct dt_error *)
{
    struct dt_apply *row = dt_chunk_row(chunk, chunk->n_rows);
    (void)keep; /* the decoder copies all texts in any case */
    *row = (struct dt_apply){.outcome = DT_OUTCOME_UNKNOWN_JOB, .result.job_id = -1};
    return dt_result_decode(json, dt_json_root(json), NULL, faults, &row->result);
}

static void on_chunk_applied(struct dt_reports *reports)
{
    dt_batch_came_back(reports->arg);
}

static void submit_chunk(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us)
{
    chunk->unit.results = (struct dt_reports){.v = dt_chunk_row(chunk, 0),
                                              .n = chunk->n_rows,
                                              .bound = terms->bound,
                                              .of_batch = true,
                                              .deadline_us = deadline_us,
                                              .done = on_chunk_applied,
                                              .arg = chunk};
    dt_results_batcher_submit(terms->api->results, &chunk->unit.results);
}

static int add_element_answer(struct dt_chunk *chunk, size_t i, struct dt_strbuf *out)
{
    const struct dt_apply *row = dt_chunk_row(chunk, i);
    dt_status status = chunk->unit.results.status;
    if (status == DT_OK && row->outcome == DT_OUTCOME_BUSY)
        status = DT_BUSY;
    const bool unknown = status == DT_OK && row->outcome == DT_OUTCOME_UNKNOWN_JOB;
    if (status != DT_OK || unknown) {
        const struct dt_problem problem = {.type = dt_problem_of_status(unknown ? DT_NOT_FOUND : status),
                                           .detail = dt_str(unknown ? "no such job" : dt_status_text(status))};
        dt_problem_add(out, &problem, DT_STR_NONE);
        return dt_problem_http_status(problem.type);
    }
    dt_strbuf_addc(out, '{'); /* dt_json_begin_object would add a comma after the previous line */
    dt_json_put_int(out, "status", 200);
    dt_json_put_word(out, "outcome", dt_report_outcome(row->outcome));
    dt_json_end_object(out);
    return 200;
}

const struct dt_batch_kind dt_batch_of_results = {.stream = {dt_batch_feed_begin, dt_batch_feed, dt_batch_feed_cut},
                                                  .nothing = "no result was applied",
                                                  .elements = "results",
                                                  .row_bytes = sizeof(struct dt_apply),
                                                  .gate = result_admission_gate,
                                                  .decode = decode_element,
                                                  .submit = submit_chunk,
                                                  .answer = add_element_answer};

/*
 * ---- the batcher ----
 *
 * Owns the queue of results and the thread that applies them. What a result means for a job is decided in job_state.h.
 *
 * Invariants: the reports of a request are answered exactly once, after their transaction, and are not touched after
 * their done was called. Single reports on one job are applied in their order of arrival; so are reports of batches on
 * one job. Single reports are applied before reports of batches, but while batches wait, half of each transaction is
 * reserved for them.
 */

struct dt_results_batcher {
    const struct dt_session_env *env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    struct dt_thread thread;
    struct dt_session session;
    /* Used by the batcher's thread only; arrays for one transaction. */
    struct dt_apply *applies;
    struct dt_entry *entries;
    struct dt_outage_part outage;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Members below: protected by the lock. */
    struct dt_reports *alone, *batches; /* the queues (utlist) */
    size_t queued;                      /* number of reports in both queues */
    bool sleeping;
    dt_metric *seconds, *sizes, *outcomes[DT_OUTCOME_BUSY + 1];
};

size_t dt_results_batcher_unit(const dt_results_batcher *r)
{
    return (size_t)r->env->config->results_batch / 2;
}

static void finish_reports(struct dt_reports *reports, dt_status status)
{
    reports->status = status;
    reports->done(reports);
}

static void finish_report_list(struct dt_reports *list, dt_status status)
{
    for (struct dt_reports *reports = list, *next; reports; reports = next) {
        next = reports->next; /* `done` may free the reports */
        finish_reports(reports, status);
    }
}

void dt_results_batcher_submit(dt_results_batcher *r, struct dt_reports *reports)
{
    dt_status status = dt_session_stalled(&r->session) ? DT_UNAVAILABLE : DT_OK;
    pthread_mutex_lock(&r->lock);
    if (dt_thread_stopping(&r->thread))
        status = DT_SHUTDOWN;
    else if (r->queued + reports->n > DT_RESULTS_QUEUE)
        status = DT_FULL;
    if (status == DT_OK) {
        if (reports->of_batch)
            DL_APPEND(r->batches, reports);
        else
            DL_APPEND(r->alone, reports);
        r->queued += reports->n;
        if (r->sleeping)
            pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    if (status != DT_OK)
        finish_reports(reports, status);
}

static void move_late_reports_locked(dt_results_batcher *r, struct dt_reports **queue, int64_t now_us,
                                     struct dt_reports **late)
{
    for (struct dt_reports *reports = *queue, *next; reports; reports = next) {
        next = reports->next;
        if (reports->deadline_us == 0 || reports->deadline_us > now_us)
            continue;
        dt_assert_cmp(r->queued, >=, reports->n);
        DL_DELETE(*queue, reports);
        DL_APPEND(*late, reports);
        r->queued -= reports->n;
    }
}

void dt_results_batcher_expire(dt_results_batcher *r, int64_t now_us)
{
    struct dt_reports *late = NULL;
    pthread_mutex_lock(&r->lock);
    move_late_reports_locked(r, &r->alone, now_us, &late);
    move_late_reports_locked(r, &r->batches, now_us, &late);
    pthread_mutex_unlock(&r->lock);
    finish_report_list(late, DT_UNAVAILABLE);
}

/* Moves reports from the queue to `taken`, as long as the transaction has at most `room` results. n: the results that
 * it has already. Returns the new number of results. */
static size_t move_reports_locked(dt_results_batcher *r, struct dt_reports **queue, size_t room, size_t n,
                                  struct dt_reports **taken)
{
    while (*queue && n + (*queue)->n <= room) {
        struct dt_reports *reports = *queue;
        dt_assert_cmp(r->queued, >=, reports->n);
        DL_DELETE(*queue, reports);
        DL_APPEND(*taken, reports);
        r->queued -= reports->n;
        n += reports->n;
    }
    return n;
}

/* Takes the reports for one transaction. NULL: the thread must end. */
static struct dt_reports *take_reports(dt_results_batcher *r)
{
    const size_t room = (size_t)r->env->config->results_batch;
    struct dt_reports *taken = NULL;
    pthread_mutex_lock(&r->lock);
    while (!r->alone && !r->batches && !dt_thread_stopping(&r->thread)) {
        r->sleeping = true;
        pthread_cond_wait(&r->wake, &r->lock);
        r->sleeping = false;
    }
    size_t n = move_reports_locked(r, &r->alone, r->batches ? room - dt_results_batcher_unit(r) : room, 0, &taken);
    n = move_reports_locked(r, &r->batches, room, n, &taken);
    dt_assert_cmp(n, <=, room);
    dt_assert(taken || dt_thread_stopping(&r->thread));
    pthread_mutex_unlock(&r->lock);
    return taken;
}

static void commit_reports(dt_results_batcher *r, struct dt_reports *taken)
{
    struct dt_error err = {0};
    size_t n = 0;
    for (const struct dt_reports *reports = taken; reports; reports = reports->next)
        for (size_t i = 0; i < reports->n; i++) {
            r->applies[n] = reports->v[i];
            r->applies[n++].bound = reports->bound;
        }
    dt_status status = dt_session_begin(&r->session, &err);
    DT_THEN(status, dt_topic_cache_refresh(r->topics, DT_SNAPSHOT_TOPICS, r->session.store, &err));
    if (status == DT_OK) {
        struct dt_view *view = dt_topic_cache_view(r->topics);
        int64_t begun_us = dt_clock_mono_us(r->env->clock);
        status = dt_store_apply(r->session.store, &view->map, r->applies, n, &err);
        dt_metric_observe(r->seconds, (double)(dt_clock_mono_us(r->env->clock) - begun_us) / 1e6);
        dt_metric_observe(r->sizes, (double)n);
        dt_view_release(view);
    }
    dt_session_end(&r->session);
    if (status != DT_OK)
        dt_outage_failed(&r->outage, DT_OUTAGE_MYSQL, "results", "results were not applied", status, &err);
    else
        dt_outage_over(&r->outage);
    const struct dt_apply *a = r->applies;
    for (struct dt_reports *reports = taken; reports; reports = reports->next)
        for (size_t i = 0; i < reports->n; i++)
            reports->v[i].outcome = (a++)->outcome;
    finish_report_list(taken, status);
    if (status != DT_OK)
        return;
    /* Posts the new due times to the index, and wakes leaders of shards whose outbox has a new row. */
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        a = &r->applies[i];
        dt_metric_add(r->outcomes[a->outcome], 1);
        if (a->outcome == DT_OUTCOME_APPLIED)
            k += dt_entries_of_move(a->result.job_id, a->next_at_ms, a->was_ms, DT_WAS_MAX, &r->entries[k]);
        if (a->outcome == DT_OUTCOME_APPLIED && a->outbox)
            dt_index_writer_outbox(r->index, a->result.job_id);
    }
    dt_assert_cmp(k, <=, DT_WAS_MAX * n);
    dt_index_writer_post(r->index, r->entries, k);
}

static void run_batcher(void *arg)
{
    dt_results_batcher *r = arg;
    for (struct dt_reports *taken = take_reports(r); taken; taken = take_reports(r))
        commit_reports(r, taken);
    dt_session_clear(&r->session);
}

/* ---- start and end ---- */

dt_status dt_results_batcher_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer *index,
                                   dt_results_batcher **out, struct dt_error *err)
{
    const size_t room = (size_t)env->config->results_batch;
    const char *name = "duetime_api_results_total";
    const char *help = "Results reported by REST, by outcome.";
    *out = NULL;
    dt_results_batcher *r = calloc(1, sizeof(*r));
    if (!r)
        return dt_fail(err, DT_NOMEM, "no memory for the results batcher");
    r->env = env;
    r->topics = topics;
    r->index = index;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    r->seconds = dt_histogram("duetime_api_mysql_call_seconds", "Duration of one call to MySQL.", "call=\"apply\"");
    r->sizes = dt_histogram_count("duetime_api_apply_results", "Results applied in one transaction.", "");
    r->outcomes[DT_OUTCOME_APPLIED] = dt_counter(name, help, "outcome=\"applied\"");
    r->outcomes[DT_OUTCOME_DUPLICATE] = dt_counter(name, help, "outcome=\"duplicate\"");
    r->outcomes[DT_OUTCOME_STALE] = dt_counter(name, help, "outcome=\"stale\"");
    r->outcomes[DT_OUTCOME_UNKNOWN_JOB] = dt_counter(name, help, "outcome=\"unknown\"");
    r->outcomes[DT_OUTCOME_BUSY] = dt_counter(name, help, "outcome=\"busy\"");
    r->applies = calloc(room, sizeof(*r->applies));
    r->entries = calloc(DT_WAS_MAX * room, sizeof(*r->entries));
    dt_status status = r->applies && r->entries ? dt_session_init(&r->session, env) : DT_NOMEM;
    if (status == DT_OK) {
        status = dt_thread_start(&r->thread, "results", run_batcher, r, NULL);
        if (status != DT_OK)
            dt_session_clear(&r->session);
    }
    if (status != DT_OK) {
        dt_results_batcher_free(r);
        return dt_fail(err, status, "the results batcher cannot start");
    }
    *out = r;
    return DT_OK;
}

void dt_results_batcher_stop(dt_results_batcher *r)
{
    pthread_mutex_lock(&r->lock);
    dt_thread_ask_stop(&r->thread, NULL);
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    dt_thread_join(&r->thread);
    dt_assert(!r->alone && !r->batches);
    dt_assert_cmp(r->queued, ==, 0);
}

void dt_results_batcher_free(dt_results_batcher *r)
{
    if (!r)
        return;
    free(r->applies);
    free(r->entries);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
    free(r);
}
