/*
 * Moves rows of job_inbox into jobs:
 *
 * woken ─▶ read ─▶ move (MySQL, one transaction: inserts jobs, deletes rows) ─▶ update the index ─▶ read … ─▶ rest
 *
 * While the mover rests, the process's watcher waits for rows, operations and schedules (dispatch/watch.h), and this
 * file's listener wakes the part that has work. If the watcher gets no answer, the mover polls every LOOK_US. If
 * another session has locked a row, the mover retries the row when the watcher finds it again.
 *
 * If the process is killed, rows that were not moved are still in the inbox, and the reconciler finds committed jobs
 * that are missing in the index.
 */
#include "intake.h"

#include <stdatomic.h>

#include "base/metrics.h"
#include "base/text/json.h"
#include "features/intents/inbox.h"

#define LOOK_US   INT64_C(500000)    /* time between two polls if the watcher gets no answer */
#define REST_US   INT64_C(60000000)  /* time between two polls if the watcher gets answers */
#define RETRY_US  INT64_C(500000)    /* pause after a failure */
#define SOON_US   INT64_C(10000)     /* pause if all rows that were read wait for other rows */
#define CHORES_US INT64_C(300000000) /* time between two counts of rows with errors; each deletes old errors */

struct dt_inbox_chore {
    struct dt_resting resting;
    const struct dt_process_env *env;
    dt_index *index;
    struct dt_resting *operations, *schedules;
    struct dt_watch_listener listener;
    struct dt_inbox_mover mover; /* its store is that of the running tick */
    bool waiting;                /* the last poll skipped rows, because they wait for other rows */
    _Atomic bool hears;          /* the watcher's last wait was answered */
    int64_t chores_us;
    dt_metric *done, *refused, *errors;
};

/* ---- a tick ---- */

static dt_status maintain_errors(struct dt_inbox_chore *c, struct dt_error *err)
{
    int64_t now_us = dt_clock_mono_us(c->env->clock);
    int64_t before_ms = dt_refclock_earliest_ms(c->env->ref) - c->env->config->inbox_keep_errors;
    uint64_t purged;
    int64_t n = 0;
    dt_status status;
    if (now_us < c->chores_us)
        return DT_OK;
    c->chores_us = now_us + CHORES_US;
    do
        status = dt_store_purge_inbox(c->mover.store, before_ms, &purged, err);
    while (status == DT_OK && purged > 0 && !dt_chore_stopping(&c->resting.chore));
    DT_THEN(status, dt_store_count_inbox_errors(c->mover.store, &n, err));
    if (status == DT_OK)
        dt_metric_set(c->errors, (double)n);
    return status;
}

/* Moves rows of the inbox. *pause_us: how long to pause before the next call. */
static dt_status move_rows(struct dt_inbox_chore *c, int64_t *pause_us, struct dt_error *err)
{
    struct dt_inbox_moved moved;
    c->mover.rules = dt_store_job_rules(c->env->config, c->env->installation);
    dt_status status = dt_store_move_inbox(&c->mover, &moved, err);
    if (status == DT_UNKNOWN && c->index) /* MySQL may have committed jobs that are not in the index */
        c->env->index_entries_lost(c->env->arg, c->index);
    dt_metric_add(c->done, (int64_t)moved.done);
    dt_metric_add(c->refused, (int64_t)moved.refused);
    if (moved.refused)
        c->chores_us = dt_earlier(c->chores_us, dt_clock_mono_us(c->env->clock) + 1000000);
    dt_intake_tell_index(c->env, c->index, &c->mover.arena, moved.moves, moved.n_moves);
    c->waiting |= moved.waiting > 0;
    *pause_us = moved.done + moved.refused == 0 && !moved.again ? SOON_US : 0;
    return status;
}

static int64_t tick_inbox(void *arg, void *store)
{
    struct dt_inbox_chore *c = arg;
    struct dt_error err = {0};
    int64_t pause_us = 0;
    bool some = false;
    bool rests = false;
    c->resting.rests = false;
    c->mover.store = store;
    dt_store_act_as(store, DT_STR_LIT("inbox"));
    dt_status status = maintain_errors(c, &err);
    DT_THEN(status, dt_store_look_at_inbox(&c->mover, &some, &err));
    if (status == DT_OK && some) {
        status = move_rows(c, &pause_us, &err);
    } else {
        pause_us = c->waiting ? SOON_US : c->hears ? REST_US : LOOK_US;
        rests = status == DT_OK && !c->waiting;
        c->waiting = false;
    }
    dt_store_act_as(store, DT_STR_NONE);
    if (status != DT_OK)
        return dt_chore_failed(&c->resting.chore, DT_OUTAGE_MYSQL, "rows of job_inbox are not carried out", status,
                               &err, RETRY_US);
    c->resting.rests = rests;
    return dt_earlier(dt_clock_mono_us(c->env->clock) + pause_us, c->chores_us);
}

/* ---- the watcher's thread ---- */

static void fill_watch_request(void *arg, struct dt_watch *watch)
{
    struct dt_inbox_chore *c = arg;
    watch->intake = (c->resting.rests ? DT_WATCH_INBOX : 0U) | (c->operations->rests ? DT_WATCH_OPERATIONS : 0U) |
                    (c->schedules->rests ? DT_WATCH_SCHEDULES : 0U);
    if (watch->intake != DT_WATCH_INTAKE)
        watch->wait_ms = dt_earlier(watch->wait_ms, DT_WATCH_BUSY_MS);
}

static void on_watch_answered(void *arg, dt_status status, const struct dt_watched *seen, dt_store *)
{
    struct dt_inbox_chore *c = arg;
    const unsigned found = status == DT_OK ? seen->intake : 0;
    const bool heard = atomic_exchange(&c->hears, status == DT_OK);
    if (found & DT_WATCH_OPERATIONS)
        dt_resting_wake(c->operations);
    if (found & DT_WATCH_SCHEDULES)
        dt_resting_wake(c->schedules);
    if ((found & DT_WATCH_INBOX) || (heard && status != DT_OK))
        dt_resting_wake(&c->resting);
}

dt_status dt_inbox_chore_start(const struct dt_process_env *env, struct dt_resting *operations,
                               struct dt_resting *schedules, struct dt_resting **out, struct dt_error *err)
{
    const char *name = "duetime_inbox_rows_total";
    const char *help = "Rows of job_inbox, by outcome.";
    struct dt_inbox_chore *c = calloc(1, sizeof(*c));
    if (!c)
        return DT_NOMEM;
    c->env = env;
    c->operations = operations;
    c->schedules = schedules;
    c->done = dt_counter(name, help, "outcome=\"done\"");
    c->refused = dt_counter(name, help, "outcome=\"refused\"");
    c->errors = dt_gauge("duetime_inbox_errors", "Rows of job_inbox with an error, up to 100,000.", "");
    c->mover.clock = env->clock;
    c->resting.chore = (struct dt_chore){.name = "inbox", .tick = tick_inbox, .arg = c};
    dt_status status = dt_json_new(&c->mover.json);
    DT_THEN(status, dt_index_new(env->config, env->installation, env->clock, &c->index, err));
    if (status != DT_OK) {
        dt_inbox_chore_stop(&c->resting);
        return status;
    }
    c->listener = (struct dt_watch_listener){.ask = fill_watch_request, .told = on_watch_answered, .arg = c};
    dt_watcher_add(env->watcher, &c->listener);
    dt_chores_add(env->chores, &c->resting.chore);
    *out = &c->resting;
    return DT_OK;
}

void dt_inbox_chore_stop(struct dt_resting *resting)
{
    struct dt_inbox_chore *c = (struct dt_inbox_chore *)resting; /* resting is its first member */
    if (!c)
        return;
    dt_chore_remove(&c->resting.chore);
    dt_arena_clear(&c->mover.arena);
    dt_json_free(c->mover.json);
    dt_index_free(c->index);
    free(c);
}
