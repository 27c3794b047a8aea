/* Implements the follower of clock.h. When the watcher reports a change, the follower reads the row, quickly, to know
 * the exact time. While the watcher has no connection, the process uses the last reading of the clock. */
#include "clock.h"

#include "base/log.h"

struct dt_clock_follower {
    struct dt_clock_follower_env env;
    struct dt_watch_listener listener;
    int64_t version; /* version of the clock that was read last; 0: none */
    bool failed;     /* the last read failed, and that was logged */
};

static void fill_watch_request(void *arg, struct dt_watch *watch)
{
    dt_clock_follower *f = arg;
    watch->clock = true;
    watch->clock_version = f->version;
}

/* Reads the clock after each answer of the watcher, even if the clock has not changed, because its offset from the
 * server's time drifts. */
static void on_watch_answered(void *arg, dt_status status, const struct dt_watched *, dt_store *store)
{
    dt_clock_follower *f = arg;
    struct dt_test_clock clock;
    struct dt_error err = {0};
    if (status != DT_OK)
        return;
    status = dt_store_test_clock(store, &clock, &err);
    if (status == DT_OK && clock.version == 0)
        status = dt_fail(&err, DT_NOT_FOUND, "the installation has no test clock");
    if (status != DT_OK && !f->failed)
        DT_LOG(WARN, "clock", "could not read the test clock", DT_S("status", dt_status_name(status)),
               DT_S("reason", err.text));
    f->failed = status != DT_OK;
    if (status != DT_OK)
        return;
    const bool changed = clock.version != f->version;
    dt_refclock_follow(f->env.ref, clock.time, clock.real_ms, clock.asked_us, clock.heard_us);
    f->version = clock.version;
    if (changed && f->env.changed)
        f->env.changed(f->env.arg);
}

dt_status dt_clock_follower_new(const struct dt_clock_follower_env *env, dt_clock_follower **out, struct dt_error *err)
{
    *out = NULL;
    if (!env->config->installation_test_clock)
        return DT_OK;
    dt_clock_follower *f = calloc(1, sizeof(*f));
    if (!f)
        return dt_fail(err, DT_NOMEM, "out of memory");
    f->env = *env;
    f->listener = (struct dt_watch_listener){.ask = fill_watch_request, .told = on_watch_answered, .arg = f};
    dt_watcher_add(env->watcher, &f->listener);
    *out = f;
    return DT_OK;
}

void dt_clock_follower_free(dt_clock_follower *f)
{
    free(f);
}
