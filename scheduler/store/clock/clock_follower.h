/*
 * The thread by which a process follows the test clock: it waits in the server for a change (one statement in a few
 * seconds), feeds the reference clock, and tells. Where the configuration has no test clock there is no thread.
 */
#ifndef DT_STORE_CLOCK_FOLLOWER_H
#define DT_STORE_CLOCK_FOLLOWER_H

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"

typedef struct dt_clock_follower dt_clock_follower;
struct dt_clock_follower_env {
    const struct dt_config *config;
    dt_refclock *ref;
    void *arg;
    void (*changed)(void *arg); /* on the thread, after ref was fed: what is due may be another; NULL: nobody is told */
};
/* Starts it; *out is NULL without a test clock, and unless OK. env's members are borrowed. */
DT_MUST_CHECK dt_status dt_clock_follower_start(const struct dt_clock_follower_env *env, dt_clock_follower **out,
                                                struct dt_error *err);
/* Joins, frees; what waits in MySQL ends. Accepts NULL. */
void dt_clock_follower_stop(dt_clock_follower *follower);

#endif
