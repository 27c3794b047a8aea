/*
 * How a process follows the test clock: a listener of the watcher (dispatch/watcher.h), which waits in the server
 * for a change. The follower then reads the clock, feeds the reference clock and calls `changed`. If the configuration
 * has no test clock there is no follower.
 */
#ifndef DT_CLOCK_CLOCK_FOLLOWER_H
#define DT_CLOCK_CLOCK_FOLLOWER_H

#include "base/clock.h"
#include "base/config.h"
#include "dispatch/watcher.h"

typedef struct dt_clock_follower dt_clock_follower;
struct dt_clock_follower_env {
    const struct dt_config *config;
    dt_refclock *ref;
    dt_watcher *watcher;
    void *arg;
    void (*changed)(void *arg); /* on the thread, after ref was fed: what is due may be another; NULL: nobody is told */
};
/* Adds it to the watcher, which is stopped before dt_clock_follower_free; *out is NULL without a test clock, and unless
 * OK. env's members are borrowed. */
DT_MUST_CHECK dt_status dt_clock_follower_new(const struct dt_clock_follower_env *env, dt_clock_follower **out,
                                              struct dt_error *err);
/* Accepts NULL. */
void dt_clock_follower_free(dt_clock_follower *follower);

#endif
