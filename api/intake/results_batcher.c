/*
 * Owns the queue of results that came by REST and the thread that applies them. Refuses to know HTTP and what a result
 * means for a job (job_state.h decides, store applies).
 *
 * Invariants: each report is answered exactly once, after its transaction; nothing of a report is touched after its
 * done. Two reports on one job are applied in the order in which they came.
 */
#include "results_batcher.h"

#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "work/session.h"

#define QUEUE_MAX 20000u

struct dt_results_batcher {
    const struct dt_session_env *env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    struct dt_thread thread;
    struct dt_session session;
    /* The thread's own; room for results.batch. */
    struct dt_report **reports;
    struct dt_apply *applies;
    struct dt_entry *entries;
    struct dt_outage_part outage;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct dt_report *queue; /* utlist */
    size_t queued;
    bool sleeping;
    dt_metric *seconds, *sizes, *outcomes[DT_OUTCOME_BUSY + 1];
};

static void finish(struct dt_report *report, dt_status status)
{
    report->status = status;
    report->done(report);
}

void dt_results_batcher_submit(dt_results_batcher *r, struct dt_report *report)
{
    dt_status status = dt_session_stalled(&r->session) ? DT_UNAVAILABLE : DT_OK;
    pthread_mutex_lock(&r->lock);
    if (dt_thread_stopping(&r->thread))
        status = DT_SHUTDOWN;
    else if (r->queued == QUEUE_MAX)
        status = DT_FULL;
    if (status == DT_OK) {
        DL_APPEND(r->queue, report);
        r->queued++;
        if (r->sleeping)
            pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    if (status != DT_OK)
        finish(report, status);
}

void dt_results_batcher_expire(dt_results_batcher *r, int64_t now_us)
{
    struct dt_report *late = NULL;
    pthread_mutex_lock(&r->lock);
    for (struct dt_report *report = r->queue, *next; report; report = next) {
        next = report->next;
        if (report->deadline_us == 0 || report->deadline_us > now_us)
            continue;
        DL_DELETE(r->queue, report);
        DL_APPEND(late, report);
        r->queued--;
    }
    pthread_mutex_unlock(&r->lock);
    for (struct dt_report *report = late, *next; report; report = next) {
        next = report->next; /* the report is gone after its done */
        finish(report, DT_UNAVAILABLE);
    }
}

/* All that has gathered; 0 = the end. */
static size_t take_reports(dt_results_batcher *r)
{
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    while (!r->queue && !dt_thread_stopping(&r->thread)) {
        r->sleeping = true;
        pthread_cond_wait(&r->wake, &r->lock);
        r->sleeping = false;
    }
    while (r->queue && n < (size_t)r->env->config->results_batch) {
        struct dt_report *report = r->queue;
        DL_DELETE(r->queue, report);
        r->reports[n++] = report;
    }
    r->queued -= n;
    pthread_mutex_unlock(&r->lock);
    return n;
}

static dt_status apply(dt_results_batcher *r, size_t n, struct dt_error *err)
{
    dt_status status = dt_topic_cache_refresh(r->topics, r->session.store, err);
    if (status != DT_OK)
        return status;
    struct dt_view *view = dt_topic_cache_view(r->topics);
    for (size_t i = 0; i < n; i++)
        r->applies[i] = r->reports[i]->apply;
    int64_t begun_us = dt_clock_mono_us(r->env->clock);
    status = dt_store_apply(r->session.store, &view->map, r->applies, n, err);
    dt_metric_observe(r->seconds, (double)(dt_clock_mono_us(r->env->clock) - begun_us) / 1e6);
    dt_metric_observe(r->sizes, (double)n);
    dt_view_release(view);
    return status;
}

/* Tells the index where jobs are due now, and leaders whose outbox has news. */
static void tell_index(dt_results_batcher *r, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dt_apply *a = &r->applies[i];
        dt_metric_add(r->outcomes[a->outcome], 1);
        if (a->outcome == DT_OUTCOME_APPLIED)
            k += dt_entries_of_move(a->result.job_id, a->next_at_ms, a->was_ms, DT_WAS_MAX, &r->entries[k]);
        if (a->outcome == DT_OUTCOME_APPLIED && a->outbox)
            dt_index_writer_outbox(r->index, a->result.job_id);
    }
    dt_index_writer_post(r->index, r->entries, k);
}

static void commit_reports(dt_results_batcher *r, size_t n)
{
    struct dt_error err = {0};
    dt_status status = dt_session_begin(&r->session, &err);
    if (status == DT_OK)
        status = apply(r, n, &err);
    dt_session_end(&r->session);
    if (status != DT_OK)
        dt_outage_failed(&r->outage, DT_OUTAGE_MYSQL, "results", "results were not applied", status, &err);
    else
        dt_outage_over(&r->outage);
    for (size_t i = 0; i < n; i++) {
        r->reports[i]->apply = r->applies[i];
        finish(r->reports[i], status);
    }
    if (status == DT_OK)
        tell_index(r, n);
}

static void run(void *arg)
{
    dt_results_batcher *r = arg;
    for (size_t n = take_reports(r); n; n = take_reports(r))
        commit_reports(r, n);
    dt_session_clear(&r->session);
}

/* ---- beginning and end ---- */

static void register_metrics(dt_results_batcher *r)
{
    const char *name = "duetime_api_results_total";
    const char *help = "Results that came by REST, by outcome.";
    r->seconds = dt_histogram("duetime_api_mysql_call_seconds", "Time of one call to MySQL.", "call=\"apply\"");
    r->sizes = dt_histogram_count("duetime_api_apply_results", "Results applied in one transaction.", "");
    r->outcomes[DT_OUTCOME_APPLIED] = dt_counter(name, help, "outcome=\"applied\"");
    r->outcomes[DT_OUTCOME_DUPLICATE] = dt_counter(name, help, "outcome=\"duplicate\"");
    r->outcomes[DT_OUTCOME_STALE] = dt_counter(name, help, "outcome=\"stale\"");
    r->outcomes[DT_OUTCOME_UNKNOWN_JOB] = dt_counter(name, help, "outcome=\"unknown\"");
    r->outcomes[DT_OUTCOME_BUSY] = dt_counter(name, help, "outcome=\"busy\"");
}

static dt_status prepare(dt_results_batcher *r)
{
    size_t room = (size_t)r->env->config->results_batch;
    r->reports = calloc(room, sizeof(struct dt_report *));
    r->applies = calloc(room, sizeof(*r->applies));
    r->entries = calloc(DT_WAS_MAX * room, sizeof(*r->entries));
    if (!r->reports || !r->applies || !r->entries)
        return DT_NOMEM;
    dt_status status = dt_session_init(&r->session, r->env);
    if (status != DT_OK)
        return status;
    status = dt_thread_start(&r->thread, "results", run, r, NULL);
    if (status != DT_OK)
        dt_session_clear(&r->session);
    return status;
}

dt_status dt_results_batcher_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer *index,
                                   dt_results_batcher **out, struct dt_error *err)
{
    *out = NULL;
    dt_results_batcher *r = calloc(1, sizeof(*r));
    if (!r)
        return dt_fail(err, DT_NOMEM, "no memory for the results batcher");
    r->env = env;
    r->topics = topics;
    r->index = index;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    register_metrics(r);
    dt_status status = prepare(r);
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
}

void dt_results_batcher_free(dt_results_batcher *r)
{
    if (!r)
        return;
    free(r->reports);
    free(r->applies);
    free(r->entries);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
    free(r);
}
