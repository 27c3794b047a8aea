/* The watcher: see watch.h. */

#include "base/assert.h"
#include "base/log.h"
#include "base/thread.h"
#include "mysql/db.h"
#include "watch.h"

#define APART_US INT64_C(30000) /* shortest time between two statements */
#define RETRY_US INT64_C(1000000)
#define CLOCK_US INT64_C(10000000) /* time between two samples of MySQL's clock */

struct dt_watcher {
    struct dt_watcher_env env;
    dt_store *store;
    dt_mailbox *mailbox; /* the thread sleeps in it between two statements */
    struct dt_thread thread;
    struct dt_watch_listener *first;
    int64_t clock_us; /* mono: when MySQL's clock is next sampled */
    int64_t intake_at_ms;
    bool failed; /* the last statement failed, and the failure was logged */
    struct dt_watched seen;
};

static void notify_listeners(dt_watcher *w, dt_status status)
{
    for (struct dt_watch_listener *each = w->first; each; each = each->next)
        each->told(each->arg, status, &w->seen, w->store);
}

static dt_status wait_in_mysql(dt_watcher *w, struct dt_error *err)
{
    /* At most half of mysql.io_timeout, because a busy server answers seconds after the wait ends. */
    struct dt_watch watch = {.wait_ms = dt_earlier(DT_WATCH_MS, w->env.config->mysql_io_timeout / 2),
                             .process = w->env.process,
                             .intake_at_ms = w->intake_at_ms};
    for (struct dt_watch_listener *each = w->first; each; each = each->next)
        each->ask(each->arg, &watch);
    dt_status status = DT_OK;
    if (dt_clock_mono_us(w->env.clock) >= w->clock_us) {
        status = dt_store_ping(w->store, err);
        w->clock_us = status == DT_OK ? dt_clock_mono_us(w->env.clock) + CLOCK_US : 0;
    }
    DT_THEN(status, dt_store_watch(w->store, &watch, &w->seen, err));
    if (status == DT_OK)
        w->intake_at_ms = w->seen.intake_at_ms;
    return status;
}

static void run_watcher(void *arg)
{
    dt_watcher *w = arg;
    while (!dt_thread_stopping(&w->thread)) {
        struct dt_error err = {0};
        dt_status status = wait_in_mysql(w, &err);
        if (dt_thread_stopping(&w->thread)) /* dt_store_cut ended the wait */
            break;
        if (status != DT_OK && !w->failed)
            DT_LOG(WARN, "watch", "cannot wait in MySQL: this process polls for due jobs",
                   DT_S("status", dt_status_name(status)), DT_S("reason", err.text));
        if (status != DT_OK)
            w->clock_us = 0;
        w->failed = status != DT_OK;
        notify_listeners(w, status);
        dt_mailbox_pause(w->mailbox, dt_clock_mono_us(w->env.clock) + (status == DT_OK ? APART_US : RETRY_US),
                         DT_THREAD_STOP);
    }
    notify_listeners(w, DT_SHUTDOWN);
    dt_db_thread_end();
}

dt_status dt_watcher_new(const struct dt_watcher_env *env, dt_watcher **out, struct dt_error *err)
{
    dt_watcher *w = calloc(1, sizeof(*w));
    if (!w)
        return dt_fail(err, DT_NOMEM, "watcher of MySQL: out of memory");
    w->env = *env;
    dt_status status = dt_mailbox_new(&w->mailbox);
    DT_THEN(status, dt_store_new(env->config, env->ref, &w->store));
    if (status != DT_OK) {
        dt_watcher_free(w);
        return dt_fail(err, status, "watcher of MySQL: it could not be created");
    }
    *out = w;
    return DT_OK;
}

void dt_watcher_add(dt_watcher *w, struct dt_watch_listener *listener)
{
    if (!w)
        return;
    dt_assert(!w->thread.started);
    listener->next = w->first;
    w->first = listener;
}

dt_status dt_watcher_start(dt_watcher *w, struct dt_error *err)
{
    return w->first ? dt_thread_start(&w->thread, "watch", run_watcher, w, err) : DT_OK;
}

void dt_watcher_leave(dt_watcher *w)
{
    if (!w || !w->thread.started)
        return;
    dt_thread_ask_stop(&w->thread, w->mailbox);
    dt_store_cut(w->store);
}

void dt_watcher_stop(dt_watcher *w)
{
    dt_watcher_leave(w);
    if (w)
        dt_thread_join(&w->thread);
}

void dt_watcher_free(dt_watcher *w)
{
    if (!w)
        return;
    dt_watcher_stop(w);
    dt_store_free(w->store);
    dt_mailbox_free(w->mailbox);
    free(w);
}
