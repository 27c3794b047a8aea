/*
 * The test clock: the time in which jobs are due, where an installation was made with installation.test_clock. It
 * is one row in MySQL (test_clock), and nobody else's: each session takes its NOW() from it before each statement
 * (db/db.h), and each process its reference clock (clock_follower.h), so that due times, scores in the index and
 * "never early" agree.
 *
 *             freeze                            advance walks from instant to instant, each as if frozen at it
 *   goes on ─────────▶ stands still ──▶ …
 *           ◀─────────
 *            release, from where it stood
 *
 * It is never set back. What is about servers and processes (leases, heartbeats, hands, time-outs) runs by the
 * server's own clock: statements about them say SYSDATE(), which SET timestamp does not move.
 */
#ifndef DT_CLOCK_CLOCK_H
#define DT_CLOCK_CLOCK_H

#include "base/clock.h"
#include "base/config.h"
#include "dispatch/watcher.h"
#include "store/store.h"

#define DT_TEST_CLOCK_END_MS                                                                                           \
    INT64_C(2147383647000) /* a day before the end of what servers take as a timestamp: in 2038 */

struct dt_test_clock {
    struct dt_test_time time;
    int64_t version;            /* another one after every change; 0: the installation has no test clock */
    int64_t real_ms;            /* the server's clock when it was read … */
    int64_t asked_us, heard_us; /* … at some moment between these (mono) */
};
/* The time that it tells. */
static inline int64_t dt_test_clock_now_ms(const struct dt_test_clock *clock)
{
    return clock->time.frozen_ms ? clock->time.frozen_ms : clock->real_ms + clock->time.ahead_ms;
}

/* Reads it. */
DT_MUST_CHECK dt_status dt_store_test_clock(dt_store *store, struct dt_test_clock *out, struct dt_error *err);
/* Compares the configuration with what the installation was made with. INVALID: they differ. */
DT_MUST_CHECK dt_status dt_store_check_test_clock(dt_store *store, struct dt_error *err);

/* Stops the clock where it stands. UNSUPPORTED: there is none. BUSY, of this and the next: it is being changed. */
DT_MUST_CHECK dt_status dt_store_test_clock_freeze(dt_store *store, struct dt_test_clock *out, struct dt_error *err);
/* Lets it go on from where it stands; UNSUPPORTED. */
DT_MUST_CHECK dt_status dt_store_test_clock_release(dt_store *store, struct dt_test_clock *out, struct dt_error *err);

struct dt_clock_walk {
    int64_t by_ms;   /* from where it stands */
    int64_t wait_ms; /* so long, in real time, each instant waits for reports on what was dispatched at it */
    unsigned steps;  /* out: instants that it came to */
    bool whole;      /* out: all that fell due on the way had been dispatched by the end */
    int64_t left_ms; /* out: what is left of by_ms */
};
/*
 * Advances the clock. Every instant on the way at which something falls due is come to, in order, and left when the
 * leaders have dealt with it, and its attempts were reported on (or wait_ms is over): retries, deadlines and fires
 * that these bring about on the way fall due on the way, too. A walk ends after some fifteen seconds, wherever it
 * has come to by then: left_ms says how much is left, for another call. The clock goes on afterwards if it went on
 * before. A process that is killed on the way leaves it frozen where it came to. UNKNOWN: the walk broke off on the
 * way; the clock may stand anywhere on it. INVALID: beyond DT_TEST_CLOCK_END_MS; UNSUPPORTED.
 */
DT_MUST_CHECK dt_status dt_store_test_clock_advance(dt_store *store, struct dt_clock_walk *walk,
                                                    struct dt_test_clock *out, struct dt_error *err);

/*
 * How a process follows the test clock: a listener of the watcher (dispatch/watcher.h), which waits in the server
 * for a change. The follower then reads the clock, feeds the reference clock and calls `changed`. If the configuration
 * has no test clock there is no follower.
 */

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
