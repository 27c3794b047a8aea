/*
 * Owns the queues of new jobs and the threads that insert them.
 *
 *   submit -> queue (bounded by jobs and bytes) -> a thread takes all queued units -> topics, ids -> one INSERT, one
 *   COMMIT -> done(unit) for each -> index writer
 *
 * A unit is answered exactly once; OK only after the COMMIT has succeeded; a unit is not used after its done was called
 * (entries for the index are copied before). Rows are queued while a commit runs, so commits grow with the load.
 *
 * Single jobs do not wait for batches: units of a few rows have a queue of their own, which is served first, in commits
 * of its own. After PASSES commits of single jobs, a batch is committed in any case. If there are several threads,
 * batches never use all of them. While single jobs arrive, batches use one thread, commit at most one large unit at a
 * time, and pause after each commit, because large statements slow down all other statements in MySQL.
 */
#include "committer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"

#define FEW_ROWS          16                /* units with at most this many rows are served before batches */
#define PASSES            8                 /* maximal number of commits of small units in a row while a batch waits */
#define CALM_US           INT64_C(500000)   /* time without single jobs after which batches may use several threads */
#define SLOW_US           INT64_C(200000)   /* a batch's commit that takes longer may hang, so another begins */
#define RESTS             3                 /* batches pause after a commit for this many times its duration */
#define REST_US           INT64_C(50000)    /* longest pause of batches after a commit */
#define BYTES_AMID_SINGLE ((size_t)1 << 20) /* maximal size of a commit of batches while single jobs arrive */

struct queue {
    struct dt_unit *units;          /* queued units (utlist) */
    size_t rows;                    /* number of rows in the queued units */
    struct dt_commit_window window; /* decides when the queue's next commit begins */
    size_t most;                    /* maximal number of commits of this queue at the same time */
};

struct worker {
    struct dt_committer *committer;
    struct dt_thread thread;
    struct dt_session session;
    struct dt_id_block ids;
    /* Used by the thread's running commit. The arrays have api.commit_jobs elements. */
    struct dt_insert **rows;
    struct dt_entry *entries;
    struct dt_topic_wish *wishes; /* topics that jobs name and the snapshot lacks */
    struct queue *from;           /* queue that the units of the commit were taken from */
    size_t taken;                 /* number of rows in the units of the commit */
    int64_t begun_us;
    struct dt_outage_part outage;
};

struct dt_committer {
    const struct dt_session_env *env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    size_t unit_rows;
    struct worker *workers;
    _Atomic size_t n_workers; /* number of workers with a thread; rises, under the lock */
    pthread_cond_t wake;
    pthread_mutex_t lock; /* protects all members below */
    struct queue few, many;
    unsigned passes;   /* number of commits of single jobs (the queue `few`) in a row while batches (`many`) waited */
    int64_t single_us; /* when the last commit with a single job began; 0: never */
    int64_t rests_until_us; /* until this time, batches (the queue `many`) are not committed, if single jobs arrive */
    size_t queued_bytes;
    unsigned sleeping;  /* number of threads that wait for units */
    int64_t watched_us; /* when the first timer of a waiting thread expires; DT_COMMIT_WINDOW_NEVER: no timer */
    bool stopping;
    dt_metric *created, *refused_full, *queue, *sizes, *seconds, *failed;
};

static void run_committer(void *arg);

/* ---- the queue ---- */

/* Ends the unit. Its created jobs count against the token's quota; its other admitted jobs no longer do. */
static void finish_unit(struct dt_unit *unit, dt_status status)
{
    dt_tenant *tenant = unit->caller ? unit->caller->tenant : NULL;
    struct dt_jobs_done done = {0};
    dt_assert_cmp(unit->n_over, <=, unit->n);
    unit->status = status;
    for (size_t i = 0; tenant && i < unit->n - unit->n_over; i++) {
        const struct dt_insert *row = &unit->rows[i].row;
        const bool made = status == DT_UNKNOWN || (status == DT_OK && row->outcome == DT_INSERT_CREATED);
        done.passed++;
        done.passed_bytes += (int64_t)row->job.payload.n;
        done.made += made;
        done.made_bytes += made ? (int64_t)row->job.payload.n : 0;
    }
    if (tenant)
        dt_tenant_jobs_done(tenant, &done);
    unit->done(unit);
}

/* Admits rows in order, until a row is over a quota of the caller's token. That row and all later rows are refused. */
static void admit_rows_by_quota(struct dt_unit *unit, int64_t now_us)
{
    dt_tenant *tenant = unit->caller ? unit->caller->tenant : NULL;
    size_t n = 0;
    unit->n_over = 0;
    if (!tenant)
        return;
    while (n < unit->n && dt_tenant_job(tenant, (int64_t)unit->rows[n].row.job.payload.n, now_us, &unit->over))
        n++;
    unit->n_over = unit->n - n;
    if (unit->n_over > 1)
        dt_tenant_refuse(tenant, &unit->over, (int64_t)unit->n_over - 1);
    for (size_t i = n; i < unit->n; i++)
        unit->rows[i].row.outcome = DT_INSERT_REFUSED;
}

static size_t count_rows_locked(const dt_committer *c)
{
    return c->few.rows + c->many.rows;
}

static int64_t next_commit_at_us(const struct queue *q)
{
    return q->window.busy < q->most ? dt_commit_window_begin_at(&q->window, q->rows) : DT_COMMIT_WINDOW_NEVER;
}

/* Returns the time from which no single job has arrived for CALM_US; then batches may use several threads again. */
static int64_t single_jobs_quiet_from_us(const dt_committer *c)
{
    return c->single_us ? c->single_us + CALM_US : 0;
}

static int64_t next_batch_commit_at_us(const dt_committer *c)
{
    int64_t at_us = next_commit_at_us(&c->many);
    int64_t over_us = c->many.window.busy ? c->many.window.begun_us + SLOW_US : c->rests_until_us;
    int64_t yields_until_us = dt_earlier(single_jobs_quiet_from_us(c), over_us);
    bool yields = yields_until_us > at_us && yields_until_us > dt_clock_mono_us(c->env->clock);
    return yields ? yields_until_us : at_us;
}

/* Starts another thread. Threads start when they are first needed, so an idle API has one. */
static dt_status start_worker_locked(dt_committer *c)
{
    struct worker *w = &c->workers[c->n_workers];
    dt_status status = dt_thread_start(&w->thread, "committer", run_committer, w, NULL);
    c->n_workers += status == DT_OK;
    return status;
}

/* Wakes or starts a thread if a commit can begin now. for_clock: also if a commit can begin before the waiting thread's
 * timer expires. */
static void wake_worker_locked(dt_committer *c, bool for_clock)
{
    int64_t at_us = dt_earlier(next_commit_at_us(&c->few), next_batch_commit_at_us(c));
    if (at_us != 0 && !(for_clock && at_us < c->watched_us))
        return;
    if (c->sleeping)
        pthread_cond_signal(&c->wake);
    else if (c->n_workers < (size_t)c->env->config->api_committers && !c->stopping)
        (void)!start_worker_locked(c); /* if it cannot start, the other threads do the work */
}

/* Queues the unit if the queue has room. An empty queue accepts any unit. */
static dt_status enqueue_unit(dt_committer *c, struct dt_unit *unit)
{
    const struct dt_config *config = c->env->config;
    dt_status status = DT_OK;
    pthread_mutex_lock(&c->lock);
    if (c->stopping)
        status = DT_SHUTDOWN;
    else if (count_rows_locked(c) > 0 && (count_rows_locked(c) + unit->n > (size_t)config->api_queue_jobs ||
                                          c->queued_bytes + unit->bytes > (size_t)config->api_queue_bytes))
        status = DT_FULL;
    if (status == DT_OK) {
        struct queue *q = unit->n <= FEW_ROWS ? &c->few : &c->many;
        bool first = !q->units;
        DL_APPEND(q->units, unit);
        q->rows += unit->n;
        c->queued_bytes += unit->bytes;
        wake_worker_locked(c, first);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void finish_units(struct dt_unit *units, dt_status status)
{
    for (struct dt_unit *unit = units, *next; unit; unit = next) {
        next = unit->next; /* `done` may free the unit */
        finish_unit(unit, status);
    }
}

/* Called if MySQL is down: queued units would wait for one timeout after another, so all of them are answered at
 * once. */
static void fail_queued_units(dt_committer *c)
{
    pthread_mutex_lock(&c->lock);
    struct dt_unit *units = c->few.units;
    DL_CONCAT(units, c->many.units);
    c->few.units = c->many.units = NULL;
    c->few.rows = c->many.rows = c->queued_bytes = 0;
    pthread_mutex_unlock(&c->lock);
    finish_units(units, DT_UNAVAILABLE);
}

void dt_committer_submit(dt_committer *c, struct dt_unit *unit)
{
    dt_assert(unit->n > 0 && unit->n <= c->unit_rows);
    unit->view = NULL;
    unit->status = DT_OK;
    unit->bytes = 0;
    for (size_t i = 0; i < unit->n; i++) {
        const struct dt_new_job *job = &unit->rows[i].row.job;
        unit->bytes += sizeof(struct dt_create) + job->payload.n + job->headers.n + job->key.n + job->topic.n;
    }
    admit_rows_by_quota(unit, dt_clock_mono_us(c->env->clock));
    if (unit->n_over == unit->n) {
        finish_unit(unit, DT_OK);
        return;
    }
    bool able = c->n_workers < (size_t)c->env->config->api_committers; /* at least one thread does not hang in MySQL */
    for (size_t i = 0; i < c->n_workers && !able; i++)
        able = !dt_session_stalled(&c->workers[i].session);
    dt_status status;
    if (atomic_load_explicit(&c->env->ref->taken_us, memory_order_relaxed) == 0)
        status = DT_UNAVAILABLE; /* MySQL's clock is not known yet */
    else
        status = able ? enqueue_unit(c, unit) : DT_UNAVAILABLE;
    if (status == DT_OK)
        return;
    if (status == DT_FULL)
        dt_metric_add(c->refused_full, 1);
    if (status == DT_UNAVAILABLE)
        fail_queued_units(c);
    finish_unit(unit, status);
}

static void remove_unit_locked(dt_committer *c, struct queue *q, struct dt_unit *unit)
{
    dt_assert_cmp(q->rows, >=, unit->n);
    dt_assert_cmp(c->queued_bytes, >=, unit->bytes);
    DL_DELETE(q->units, unit);
    q->rows -= unit->n;
    c->queued_bytes -= unit->bytes;
    dt_assert((q->rows == 0) == !q->units);
}

static void move_late_units_locked(dt_committer *c, struct queue *q, int64_t now_us, struct dt_unit **late)
{
    for (struct dt_unit *unit = q->units, *next; unit; unit = next) {
        next = unit->next;
        if (unit->deadline_us == 0 || unit->deadline_us > now_us)
            continue;
        remove_unit_locked(c, q, unit);
        DL_APPEND(*late, unit);
    }
}

void dt_committer_expire(dt_committer *c, int64_t now_us)
{
    struct dt_unit *late = NULL;
    pthread_mutex_lock(&c->lock);
    move_late_units_locked(c, &c->few, now_us, &late);
    move_late_units_locked(c, &c->many, now_us, &late);
    dt_metric_set(c->queue, (double)count_rows_locked(c));
    pthread_mutex_unlock(&c->lock);
    finish_units(late, DT_UNAVAILABLE);
}

/* Waits until a commit may begin, or the committer stops. */
static void wait_for_commit_locked(dt_committer *c)
{
    while (!c->stopping) {
        const int64_t at_us = dt_earlier(next_commit_at_us(&c->few), next_batch_commit_at_us(c));
        if (at_us <= dt_clock_mono_us(c->env->clock))
            return;
        c->sleeping++;
        if (at_us < c->watched_us) { /* otherwise another waiting thread's timer expires early enough */
            c->watched_us = at_us;
            dt_clock_wait(&c->wake, &c->lock, at_us);
            c->watched_us = DT_COMMIT_WINDOW_NEVER;
        } else {
            pthread_cond_wait(&c->wake, &c->lock);
        }
        c->sleeping--;
    }
}

/* Takes all queued units of one queue, up to the limits of a commit. NULL: the thread must end. */
static struct dt_unit *take_units(struct worker *w)
{
    dt_committer *c = w->committer;
    const size_t room = (size_t)c->env->config->api_commit_jobs;
    struct dt_unit *units = NULL;
    size_t bytes = 0;
    w->taken = 0;
    pthread_mutex_lock(&c->lock);
    wait_for_commit_locked(c);
    w->begun_us = dt_clock_mono_us(c->env->clock);
    /* Chooses the queue for the next commit; when stopping, a queue that is not empty. */
    const bool few = c->stopping ? c->few.units != NULL : next_commit_at_us(&c->few) <= w->begun_us;
    const bool many = c->stopping ? c->many.units != NULL : next_batch_commit_at_us(c) <= w->begun_us;
    const bool passes = few && (!many || c->passes < PASSES);
    c->passes = passes && many ? c->passes + 1 : 0;
    struct queue *q = passes ? &c->few : &c->many;
    w->from = q;
    const bool amid_single = q == &c->many && single_jobs_quiet_from_us(c) > w->begun_us;
    const size_t rows_max = amid_single ? c->unit_rows : room;
    const size_t bytes_max = amid_single ? BYTES_AMID_SINGLE : DT_COMMIT_BYTES;
    /* The first unit is taken even if it exceeds a limit. */
    for (struct dt_unit *unit = q->units;
         unit && (!units || (w->taken + unit->n <= rows_max && bytes + unit->bytes <= bytes_max)); unit = q->units) {
        remove_unit_locked(c, q, unit);
        w->taken += unit->n;
        bytes += unit->bytes;
        if (!unit->of_batch)
            c->single_us = w->begun_us;
        DL_APPEND(units, unit);
    }
    dt_assert(units || c->stopping);
    dt_assert_cmp(w->taken, <=, room);
    dt_commit_window_begun(&q->window, w->begun_us);
    dt_assert_cmp(c->few.window.busy + c->many.window.busy, <=, c->env->config->api_committers);
    wake_worker_locked(c, true); /* another thread may commit the remaining units */
    dt_metric_set(c->queue, (double)count_rows_locked(c));
    pthread_mutex_unlock(&c->lock);
    return units;
}

/* ---- topics that the snapshot lacks ---- */

static struct dt_topic_wish *find_topic_wish(struct dt_topic_wish *v, size_t n, struct dt_str name)
{
    for (size_t i = 0; i < n; i++)
        if (dt_str_eq(v[i].name, name))
            return &v[i];
    return NULL;
}

/* Appends topics that the unit names and the snapshot `view` lacks to the worker's list of topics to create, of which
 * `before` belong to earlier units. Returns how many it appended. A topic that was refused to an earlier unit is
 * appended again, because this unit's caller may be allowed to create it. */
static size_t add_topic_wishes(struct worker *w, const struct dt_unit *unit, const struct dt_view *view, size_t before)
{
    struct dt_topic_wish *wishes = w->wishes + before;
    struct dt_str last = DT_STR_NONE; /* topic of the previous row; batches often repeat a topic, so it is skipped */
    size_t n = 0;
    for (size_t i = 0; i < unit->n - unit->n_over; i++) {
        const struct dt_new_job *job = &unit->rows[i].row.job;
        if (last.p && dt_str_eq(job->topic, last))
            continue;
        last = job->topic;
        if (dt_view_topic(view, last))
            continue;
        const struct dt_topic_wish *earlier = find_topic_wish(w->wishes, before, last);
        if ((earlier && earlier->status == DT_OK) || find_topic_wish(wishes, n, last))
            continue;
        dt_assert_cmp(before + n, <, w->taken);
        wishes[n++] = (struct dt_topic_wish){.name = last,
                                             .caller = unit->caller,
                                             .delivery = job->by_command ? DT_DELIVERY_PULL : DT_DELIVERY_UNSET,
                                             .since_us = w->begun_us};
    }
    return n;
}

/* Creates the topics that the snapshot `view` lacks, with one call for each unit. Refuses rows whose topic may not
 * be created. *made: at least one of these topics exists now. If the status is not OK, some topics may have been
 * created. */
static dt_status create_missing_topics(struct worker *w, struct dt_unit *units, const struct dt_view *view, bool *made,
                                       struct dt_error *err)
{
    size_t before = 0;
    for (struct dt_unit *unit = units; unit; unit = unit->next) {
        struct dt_topic_wish *wishes = w->wishes + before;
        const size_t n = add_topic_wishes(w, unit, view, before);
        dt_status status = dt_topic_cache_ensure(w->committer->topics, w->session.store, wishes, n, err);
        if (status != DT_OK)
            return status;
        for (size_t i = 0; n && i < unit->n - unit->n_over; i++) {
            struct dt_create *row = &unit->rows[i];
            const struct dt_topic_wish *wish = find_topic_wish(wishes, n, row->row.job.topic);
            *made |= wish && wish->status == DT_OK;
            if (!wish || wish->status == DT_OK)
                continue;
            row->row.outcome = wish->status == DT_NOT_FOUND ? DT_INSERT_NO_TOPIC : DT_INSERT_REFUSED;
            row->reason = wish->reason;
        }
        before += n;
    }
    return DT_OK;
}

/* ---- one commit ---- */

/* Returns a reference to a snapshot that has the topic of every row of these units, except refused rows. */
static dt_status ensure_topics(struct worker *w, struct dt_unit *units, struct dt_view **out, struct dt_error *err)
{
    dt_committer *c = w->committer;
    bool made = false;
    *out = NULL;
    dt_status status = dt_topic_cache_refresh(c->topics, DT_SNAPSHOT_TOPICS, w->session.store, err);
    if (status != DT_OK)
        return status;
    struct dt_view *view = dt_topic_cache_view(c->topics);
    status = create_missing_topics(w, units, view, &made, err);
    if (status == DT_OK && !made) {
        *out = view;
        return DT_OK;
    }
    dt_view_release(view);
    DT_THEN(status, dt_topic_cache_refresh(c->topics, DT_SNAPSHOT_TOPICS, w->session.store, err));
    if (status == DT_OK)
        *out = dt_topic_cache_view(c->topics);
    return status;
}

/* Collects the rows to insert, and gives them the settings of their topics. Returns the number of rows. Rows borrow
 * from the snapshot, so each unit keeps a reference to it. */
static size_t collect_rows(struct worker *w, struct dt_unit *units, struct dt_view *view)
{
    size_t n = 0;
    const struct dt_topic_settings *topic = NULL;
    for (struct dt_unit *unit = units; unit; unit = unit->next) {
        atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
        unit->view = view;
        for (size_t i = 0; i < unit->n - unit->n_over; i++) {
            struct dt_create *row = &unit->rows[i];
            if (row->row.outcome == DT_INSERT_REFUSED || row->row.outcome == DT_INSERT_NO_TOPIC)
                continue;
            if (!topic || !dt_str_eq(topic->name, row->row.job.topic))
                topic = dt_view_topic(view, row->row.job.topic);
            if (!topic) { /* a manual edit removed the topic between two reads */
                row->row.outcome = DT_INSERT_NO_TOPIC;
                continue;
            }
            if (topic->deleting) {
                row->row.outcome = DT_INSERT_DELETING;
                continue;
            }
            row->row.popped = !topic->paused && dt_delivery_dealing(topic->delivery) == DT_DEALING_OFFERS;
            struct dt_new_job *job = &row->row.job;
            const struct dt_callback_asked asked = dt_callback_asked_of(job);
            if (!dt_callback_fits(&topic->callback, &asked, &row->misfit)) {
                row->row.outcome = DT_INSERT_REFUSED;
                row->reason = NULL;
                continue;
            }
            if (!job->retry.p)
                job->retry = topic->retry;
            if (job->ack_timeout_ms == 0)
                job->ack_timeout_ms = topic->ack_timeout_ms;
            w->rows[n++] = &row->row;
        }
    }
    dt_assert_cmp(n, <=, w->taken);
    return n;
}

/* Assigns ids to the rows and inserts them. If an id is taken (a restored MySQL server may assign old ids again), the
 * row gets another one. */
static dt_status insert_rows(struct worker *w, size_t n, int64_t *created_ms, struct dt_error *err)
{
    dt_committer *c = w->committer;
    while (n > 0) {
        dt_status status = dt_id_block_reserve(&w->ids, w->session.store, n, err);
        if (status != DT_OK)
            return status;
        for (size_t i = 0; i < n; i++)
            w->rows[i]->job.id = dt_job_id(w->rows[i]->job.run_at_ms, dt_id_block_next(&w->ids));
        int64_t begun_us = dt_clock_mono_us(c->env->clock);
        status = dt_store_insert(w->session.store, w->rows, n, w->ids.maker, created_ms, err);
        dt_metric_observe(c->seconds, (double)(dt_clock_mono_us(c->env->clock) - begun_us) / 1e6);
        dt_metric_observe(c->sizes, (double)n);
        if (status != DT_OK)
            return status;
        size_t again = 0;
        for (size_t i = 0; i < n; i++)
            if (w->rows[i]->outcome == DT_INSERT_ID_TAKEN)
                w->rows[again++] = w->rows[i];
        if (again)
            dt_id_block_drop(&w->ids);
        n = again;
    }
    return DT_OK;
}

/* Collects the entries for the index. Called before the units are answered, because units may be freed after that. */
static size_t collect_index_entries(struct worker *w, struct dt_unit *units)
{
    dt_committer *c = w->committer;
    int64_t horizon_end_ms = dt_refclock_latest_ms(c->env->ref) + c->env->config->index_horizon;
    size_t n = 0;
    size_t created = 0;
    for (struct dt_unit *unit = units; unit; unit = unit->next) {
        for (size_t i = 0; i < unit->n - unit->n_over; i++) {
            const struct dt_insert *row = &unit->rows[i].row;
            if (row->outcome == DT_INSERT_REFUSED && !unit->rows[i].reason && !unit->rows[i].misfit.reason)
                unit->rows[i].reason = "the database does not accept this row";
            if (row->outcome != DT_INSERT_CREATED)
                continue;
            created++;
            if (row->job.run_at_ms <= horizon_end_ms)
                w->entries[n++] = (struct dt_entry){row->job.id, row->job.run_at_ms, 0};
        }
    }
    dt_assert_cmp(created, <=, w->taken);
    dt_metric_add(c->created, (int64_t)created);
    return n;
}

static void commit_units(struct worker *w, struct dt_unit *units)
{
    dt_committer *c = w->committer;
    struct dt_error err = {0};
    struct dt_view *view = NULL;
    int64_t created_ms = 0;
    for (struct dt_unit *unit = units; unit; unit = unit->next)
        for (size_t i = 0; i < unit->n - unit->n_over; i++) {
            unit->rows[i].row.outcome = DT_INSERT_CREATED;
            unit->rows[i].row.existing_id = 0;
            unit->rows[i].reason = NULL;
            unit->rows[i].misfit = (struct dt_callback_misfit){0};
        }
    dt_status status = dt_session_begin(&w->session, &err);
    DT_THEN(status, ensure_topics(w, units, &view, &err));
    if (status == DT_OK) {
        size_t n = collect_rows(w, units, view);
        dt_view_release(view);
        status = insert_rows(w, n, &created_ms, &err);
    }
    dt_session_end(&w->session);
    if (status != DT_OK) {
        dt_metric_add(c->failed, 1);
        dt_outage_failed(&w->outage, DT_OUTAGE_MYSQL, "committer", "a commit of jobs failed", status, &err);
        finish_units(units, status);
        if (status == DT_UNAVAILABLE || status == DT_UNKNOWN)
            fail_queued_units(c);
        return;
    }
    dt_outage_over(&w->outage);
    const size_t n = collect_index_entries(w, units);
    for (struct dt_unit *unit = units; unit; unit = unit->next)
        unit->created_ms = created_ms;
    DT_FAIL_POINT("create.answer");
    finish_units(units, DT_OK);
    DT_FAIL_POINT("create.answered");
    dt_index_writer_post(c->index, w->entries, n);
    dt_id_block_refill(&w->ids, w->session.store, (size_t)c->env->config->api_commit_jobs);
}

static void run_committer(void *arg)
{
    struct worker *w = arg;
    dt_committer *c = w->committer;
    for (struct dt_unit *units = take_units(w); units; units = take_units(w)) {
        /* Units whose deadline has passed are answered without a commit. */
        int64_t now_us = dt_clock_mono_us(c->env->clock);
        for (struct dt_unit *unit = units, *next; unit; unit = next) {
            next = unit->next;
            if (unit->deadline_us == 0 || unit->deadline_us > now_us)
                continue;
            DL_DELETE(units, unit);
            finish_unit(unit, DT_UNAVAILABLE);
        }
        if (units)
            commit_units(w, units);
        now_us = dt_clock_mono_us(c->env->clock);
        pthread_mutex_lock(&c->lock);
        dt_commit_window_ended(&w->from->window, w->taken, w->begun_us, w->from->rows, now_us);
        if (w->from == &c->many)
            c->rests_until_us = now_us + dt_earlier(RESTS * (now_us - w->begun_us), REST_US);
        pthread_mutex_unlock(&c->lock);
    }
    dt_session_clear(&w->session);
}

/* ---- start and end ---- */

dt_status dt_committer_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer *index,
                             dt_committer **out, struct dt_error *err)
{
    const struct dt_config *config = env->config;
    *out = NULL;
    dt_committer *c = calloc(1, sizeof(*c));
    if (!c)
        return dt_fail(err, DT_NOMEM, "no memory for the committer");
    c->env = env;
    c->topics = topics;
    c->index = index;
    c->few.most = (size_t)config->api_committers;
    c->many.most = config->api_committers > 1 ? (size_t)config->api_committers - 1 : 1;
    c->watched_us = DT_COMMIT_WINDOW_NEVER;
    c->unit_rows = config->api_commit_jobs < DT_UNIT_ROWS ? (size_t)config->api_commit_jobs : DT_UNIT_ROWS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    c->created = dt_counter("duetime_jobs_created_total", "Jobs created by this process.", "");
    c->refused_full =
        dt_counter("duetime_api_queue_full_total", "Requests refused because the job queue was full.", "");
    c->failed = dt_counter("duetime_api_commits_failed_total", "Commits of new jobs that failed as a whole.", "");
    c->queue = dt_gauge("duetime_api_queue_jobs", "New jobs waiting for a commit.", "");
    c->sizes = dt_histogram_count("duetime_api_commit_jobs", "New jobs in one commit.", "");
    c->seconds = dt_histogram("duetime_api_mysql_call_seconds", "Duration of one call to MySQL.", "call=\"insert\"");
    c->workers = calloc((size_t)config->api_committers, sizeof(*c->workers));
    dt_status status = c->workers ? DT_OK : DT_NOMEM;
    const size_t room = (size_t)config->api_commit_jobs;
    for (int64_t i = 0; status == DT_OK && i < config->api_committers; i++) {
        struct worker *w = &c->workers[i];
        w->committer = c;
        w->rows = calloc(room, sizeof(*w->rows));
        w->entries = calloc(room, sizeof(*w->entries));
        w->wishes = calloc(room, sizeof(*w->wishes));
        status = w->rows && w->entries && w->wishes ? dt_session_init(&w->session, env) : DT_NOMEM;
    }
    if (status == DT_OK)
        status = start_worker_locked(c); /* no lock is needed, because no other thread knows the committer yet */
    if (status != DT_OK) {
        dt_committer_free(c);
        return dt_fail(err, status, "the committers cannot start");
    }
    *out = c;
    return DT_OK;
}

void dt_committer_stop(dt_committer *c)
{
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < c->n_workers; i++)
        dt_thread_join(&c->workers[i].thread);
    pthread_mutex_lock(&c->lock); /* locked, because other threads may still submit units, which are refused */
    dt_assert(!c->few.units && !c->many.units);
    dt_assert_cmp(count_rows_locked(c) + c->queued_bytes, ==, 0);
    pthread_mutex_unlock(&c->lock);
}

void dt_committer_free(dt_committer *c)
{
    if (!c)
        return;
    for (int64_t i = 0; c->workers && i < c->env->config->api_committers; i++) {
        dt_store_free(c->workers[i].session.store); /* a thread that ran has already freed its store */
        free(c->workers[i].rows);
        free(c->workers[i].entries);
        free(c->workers[i].wishes);
    }
    free(c->workers);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->wake);
    free(c);
}

size_t dt_committer_unit_rows(const dt_committer *c)
{
    return c->unit_rows;
}

void dt_unit_clear(struct dt_unit *unit)
{
    dt_view_release(unit->view);
    unit->view = NULL;
}

/* ---- the commit window ---- */

int64_t dt_commit_window_begin_at(const struct dt_commit_window *window, size_t queued)
{
    if (queued == 0)
        return DT_COMMIT_WINDOW_NEVER;
    if (queued >= (window->busy < 2 ? DT_COMMIT_WINDOW_ROWS : DT_COMMIT_WINDOW_MANY))
        return 0;
    if (window->busy)
        return window->begun_us + (window->busy < 2 ? DT_COMMIT_WINDOW_SLOW_US : DT_COMMIT_WINDOW_HUNG_US);
    return queued >= window->expected ? 0 : window->until_us;
}

void dt_commit_window_begun(struct dt_commit_window *window, int64_t now_us)
{
    window->busy++;
    window->begun_us = now_us;
}

void dt_commit_window_ended(struct dt_commit_window *window, size_t rows, int64_t begun_us, size_t queued,
                            int64_t now_us)
{
    int64_t patience_us = (now_us - begun_us) / 2;
    dt_assert_cmp(window->busy, >, 0);
    window->busy--;
    window->expected = rows + queued;
    window->until_us = now_us + (patience_us < DT_COMMIT_WINDOW_SLOW_US ? patience_us : DT_COMMIT_WINDOW_SLOW_US);
}
