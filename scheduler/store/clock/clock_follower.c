/* See clock_follower.h. A wait says when the clock changed; a look after it, which is quick, says exactly how it
 * stands. */
#include "store/clock/clock_follower.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "store/clock/test_clock.h"

#define WAIT_MS  INT64_C(2500)
#define RETRY_US INT64_C(500000)

struct dt_clock_follower {
    struct dt_clock_follower_env env;
    struct dt_thread thread;
    dt_mailbox *mailbox; /* only to sleep on, interruptibly */
    dt_store *store;
    int64_t version; /* that the process knows of; 0: none */
    bool failed;     /* and it was told */
};

static dt_status follow(dt_clock_follower *f, struct dt_error *err)
{
    struct dt_test_clock clock;
    int64_t wait_ms = dt_earlier(WAIT_MS, f->env.config->mysql_io_timeout / 2);
    dt_status status = f->version ? dt_store_test_clock(f->store, f->version, wait_ms, &clock, err) : DT_OK;
    if (status == DT_OK)
        status = dt_store_test_clock(f->store, 0, 0, &clock, err);
    if (status != DT_OK)
        return status;
    if (clock.version == 0)
        return dt_fail(err, DT_NOT_FOUND, "the installation has no test clock");
    const bool changed = clock.version != f->version;
    dt_refclock_follow(f->env.ref, clock.time, clock.real_ms, clock.asked_us, clock.heard_us);
    f->version = clock.version;
    if (changed && f->env.changed)
        f->env.changed(f->env.arg);
    return DT_OK;
}

static void run(void *arg)
{
    dt_clock_follower *f = arg;
    while (!dt_thread_stopping(&f->thread)) {
        struct dt_error err = {0};
        dt_status status = follow(f, &err);
        if (status != DT_OK && !f->failed && !dt_thread_stopping(&f->thread))
            DT_LOG(WARN, "clock", "the test clock is not followed", DT_S("status", dt_status_name(status)),
                   DT_S("reason", err.text));
        f->failed = status != DT_OK;
        if (f->failed && !dt_thread_stopping(&f->thread))
            dt_mailbox_pause(f->mailbox, dt_clock_mono_us(dt_clock_system()) + RETRY_US, DT_THREAD_STOP);
    }
}

static void free_parts(dt_clock_follower *f)
{
    dt_store_free(f->store);
    dt_mailbox_free(f->mailbox);
    free(f);
}

dt_status dt_clock_follower_start(const struct dt_clock_follower_env *env, dt_clock_follower **out,
                                  struct dt_error *err)
{
    *out = NULL;
    if (!env->config->installation_test_clock)
        return DT_OK;
    dt_clock_follower *f = calloc(1, sizeof(*f));
    if (!f)
        return dt_fail(err, DT_NOMEM, "out of memory");
    f->env = *env;
    dt_status status = dt_mailbox_new(&f->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, NULL, &f->store);
    if (status == DT_OK)
        status = dt_thread_start(&f->thread, "clock", run, f, err);
    if (status != DT_OK) {
        free_parts(f);
        return status;
    }
    *out = f;
    return DT_OK;
}

void dt_clock_follower_stop(dt_clock_follower *f)
{
    if (!f)
        return;
    dt_thread_ask_stop(&f->thread, f->mailbox);
    dt_store_cut(f->store);
    dt_thread_join(&f->thread);
    free_parts(f);
}
