/*
 * watch (the server waits) ─▶ move (MySQL, one transaction: jobs, and the rows are gone) ─▶ tell the index ─▶ watch
 *
 * It sees operations and schedules that are due, too, and wakes their threads: one wait in the server is enough for
 * all.
 *
 * Killed anywhere, what was not committed stands in the inbox still; what was committed and not told to the index is
 * found by the reconciler.
 */
#include "inbox_mover.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "store/intents/inbox.h"
#include "tell_index.h"

#define WAIT_MS   INT64_C(8000)
#define BUSY_MS   INT64_C(1000)      /* while fires are being made, and a schedule that is due does not end the wait */
#define LOOK_US   INT64_C(500000)    /* between two looks without the procedure */
#define RETRY_US  INT64_C(500000)    /* after a failure */
#define SOON_US   INT64_C(10000)     /* when all that there is waits */
#define CHORES_US INT64_C(300000000) /* errors are counted, and old ones removed, so often */

struct dt_inbox_chore {
    struct dt_intake_env env;
    struct dt_thread thread;
    dt_mailbox *mailbox; /* only to sleep on, interruptibly */
    dt_index *index;
    dt_store *store;
    dt_operation_runner *operations;
    dt_schedule_maker *schedules;
    struct dt_inbox_mover mover;
    _Atomic bool waits; /* in the server, where nothing but a cut ends it early */
    bool looks;         /* the account may not call the procedure */
    int64_t chores_us;
    struct dt_outage_part outage;
    dt_metric *done, *refused, *errors;
};

/* ---- chores ---- */

/* Removes errors that are kept no longer, and counts the others. */
static dt_status tend_errors(dt_inbox_chore *c, struct dt_error *err)
{
    int64_t now_us = dt_clock_mono_us(c->env.clock);
    int64_t before_ms = dt_refclock_earliest_ms(c->env.ref) - c->env.config->inbox_keep_errors;
    uint64_t purged;
    int64_t n = 0;
    dt_status status;
    if (now_us < c->chores_us)
        return DT_OK;
    c->chores_us = now_us + CHORES_US;
    do
        status = dt_store_purge_inbox(c->store, before_ms, &purged, err);
    while (status == DT_OK && purged > 0 && !dt_thread_stopping(&c->thread));
    if (status == DT_OK)
        status = dt_store_count_inbox_errors(c->store, &n, err);
    if (status == DT_OK)
        dt_metric_set(c->errors, (double)n);
    return status;
}

/* ---- the loop ---- */

/* Waits, or looks; *pause_us is set where it did not wait. */
static dt_status watch(dt_inbox_chore *c, bool *some, int64_t *pause_us, struct dt_error *err)
{
    c->mover.operations = dt_operation_runner_rests(c->operations);
    c->mover.schedules = dt_schedule_maker_rests(c->schedules);
    c->mover.operation_due = c->mover.schedule_due = false;
    /* At most half of mysql.io_timeout, like other waits inside MySQL: a busy server answers seconds after the wait
     * ends. In whole seconds, the unit of the wait for the lock. */
    int64_t seconds = dt_later(c->env.config->mysql_io_timeout / 2 / 1000, 1);
    int64_t wait_ms = dt_earlier(c->mover.schedules ? WAIT_MS : BUSY_MS, seconds * 1000);
    atomic_store(&c->waits, true);
    dt_status status = c->looks                         ? DT_FORBIDDEN
                       : dt_thread_stopping(&c->thread) ? DT_OK
                                                        : dt_store_watch_inbox(&c->mover, wait_ms, some, err);
    atomic_store(&c->waits, false);
    if (c->mover.operation_due)
        dt_operation_runner_wake(c->operations);
    if (c->mover.schedule_due)
        dt_schedule_maker_wake(c->schedules);
    if (status != DT_FORBIDDEN)
        return status;
    if (!c->looks)
        DT_LOG(WARN, "inbox", "looks at the inbox by itself: the account may not call dt_watch_inbox",
               DT_S("reason", err->text));
    c->looks = true;
    status = dt_store_look_at_inbox(&c->mover, some, err);
    *pause_us = *some ? 0 : LOOK_US;
    return status;
}

static dt_status move(dt_inbox_chore *c, int64_t *pause_us, struct dt_error *err)
{
    struct dt_inbox_moved moved;
    c->mover.rules.payload_max = dt_store_payload_max(c->env.config);
    dt_status status = dt_store_move_inbox(&c->mover, &moved, err);
    if (status == DT_UNKNOWN && c->index) /* jobs may be there that the index was not told of */
        c->env.index_untold(c->env.arg, c->index);
    dt_metric_add(c->done, (int64_t)moved.done);
    dt_metric_add(c->refused, (int64_t)moved.refused);
    if (moved.refused)
        c->chores_us = dt_earlier(c->chores_us, dt_clock_mono_us(c->env.clock) + 1000000);
    dt_intake_tell_index(&c->env, c->index, &c->mover.arena, moved.moves, moved.n_moves);
    if (moved.done + moved.refused == 0 && !moved.again)
        *pause_us = SOON_US;
    return status;
}

static void run(void *arg)
{
    dt_inbox_chore *c = arg;
    while (!dt_thread_stopping(&c->thread)) {
        struct dt_error err = {0};
        int64_t pause_us = 0;
        bool some = false;
        dt_status status = tend_errors(c, &err);
        if (status == DT_OK)
            status = watch(c, &some, &pause_us, &err);
        if (status == DT_OK && some)
            status = move(c, &pause_us, &err);
        if (status == DT_OK) {
            dt_outage_over(&c->outage);
        } else if (dt_thread_stopping(&c->thread)) { /* the wait was cut */
            break;
        } else {
            dt_outage_failed(&c->outage, DT_OUTAGE_MYSQL, "inbox", "rows of job_inbox wait", status, &err);
            pause_us = RETRY_US;
        }
        if (pause_us > 0)
            dt_mailbox_pause(c->mailbox, dt_clock_mono_us(c->env.clock) + pause_us, DT_THREAD_STOP);
    }
}

/* ---- life ---- */

static dt_status make_mover(dt_inbox_chore *c)
{
    const struct dt_config *config = c->env.config;
    dt_store_act_as(c->store, DT_STR_LIT("inbox"));
    c->mover = (struct dt_inbox_mover){.store = c->store, .clock = c->env.clock};
    c->mover.rules = (struct dt_job_rules){.max_delay_ms = config->limits_max_delay,
                                           .headers_max = (size_t)config->limits_headers,
                                           .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                           .json_depth = (unsigned)config->limits_json_depth,
                                           .callbacks = config->callbacks_enabled,
                                           .installation = dt_str(c->env.installation)};
    dt_arena_init(&c->mover.arena);
    return dt_json_new(&c->mover.json);
}

dt_status dt_inbox_chore_start(const struct dt_intake_env *env, dt_operation_runner *operations,
                               dt_schedule_maker *schedules, dt_inbox_chore **out, struct dt_error *err)
{
    const char *name = "duetime_inbox_rows_total";
    const char *help = "Rows of job_inbox by what became of them.";
    dt_inbox_chore *c = calloc(1, sizeof(*c));
    if (!c)
        return DT_NOMEM;
    c->env = *env;
    c->operations = operations;
    c->schedules = schedules;
    c->done = dt_counter(name, help, "outcome=\"done\"");
    c->refused = dt_counter(name, help, "outcome=\"refused\"");
    c->errors = dt_gauge("duetime_inbox_errors", "Rows of job_inbox that are kept with an error, up to 100,000.", "");
    dt_status status = dt_mailbox_new(&c->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, env->ref, &c->store);
    if (status == DT_OK)
        status = make_mover(c);
    if (status == DT_OK)
        status = dt_index_new(env->config, env->installation, env->clock, &c->index, err);
    if (status == DT_OK)
        status = dt_thread_start(&c->thread, "inbox", run, c, err);
    if (status != DT_OK) {
        dt_inbox_chore_stop(c);
        return status;
    }
    *out = c;
    return DT_OK;
}

void dt_inbox_chore_leave(dt_inbox_chore *c)
{
    if (!c)
        return;
    dt_thread_ask_stop(&c->thread, c->mailbox);
    if (atomic_load(&c->waits))
        dt_store_cut(c->store);
}

void dt_inbox_chore_stop(dt_inbox_chore *c)
{
    if (!c)
        return;
    dt_thread_stop(&c->thread, c->mailbox);
    dt_arena_clear(&c->mover.arena);
    dt_json_free(c->mover.json);
    dt_index_free(c->index);
    dt_store_free(c->store);
    dt_mailbox_free(c->mailbox);
    free(c);
}
