/*
 * A session: the MySQL connection of one thread of the API. If the server ended an idle connection, or was restarted,
 * the session finds out and reconnects before the work begins. A client waits for each answer, so a server that hangs
 * counts as down after api.database_timeout, and connecting times out soon, too.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "store/store.h"

/* The configuration and the clocks of the process; outlives its threads. */
struct dt_session_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref; /* MySQL's clock, which each session samples */
    /* Mono: when MySQL last answered a session of the process; NULL: sessions do not share this time. */
    _Atomic int64_t *answered_us;
};

struct dt_session {
    struct dt_config config; /* the process's, with the timeouts of dt_session_shorten */
    dt_store *store;
    const dt_clock *clock;
    _Atomic int64_t *answered_us;
    int64_t stalled_us;      /* if work takes longer, MySQL counts as down (two thirds of a timeout) */
    int64_t used_us;         /* when MySQL last answered; 0 = never */
    int64_t down_us;         /* when connecting failed last; 0 = it has succeeded since */
    _Atomic int64_t busy_us; /* since when the thread uses the session; 0 = it does not */
};

/* Copies the configuration, with timeouts of at most api.database_timeout; borrows its texts. */
void dt_session_shorten(struct dt_config *brief, const struct dt_config *config);
/* Does not connect yet. env is borrowed and outlives the session. NOMEM. */
DT_MUST_CHECK dt_status dt_session_init(struct dt_session *session, const struct dt_session_env *env);
/* Closes the connection. Called by the thread that used it, when it ends. */
void dt_session_clear(struct dt_session *session);
/*
 * Begins a piece of work. Pings a connection that was idle for a second, and reconnects if it is dead. Unless the
 * status is OK the work must not be done; dt_session_end is called in any case. For a while after connecting failed the
 * status is UNAVAILABLE at once, so that queued requests do not each wait for a timeout; except if MySQL has answered
 * another session of the process since.
 */
DT_MUST_CHECK dt_status dt_session_begin(struct dt_session *session, struct dt_error *err);
/* Ends the piece of work. */
void dt_session_end(struct dt_session *session);
/* Returns true if the piece of work has taken so long that MySQL must be down. If that is true of all threads that
 * could serve a request, the request is refused instead of queued. Any thread. */
bool dt_session_stalled(const struct dt_session *session);
