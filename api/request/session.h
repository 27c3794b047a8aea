/* A session: the MySQL connection of one thread of the API. If MySQL has closed an idle connection or was restarted,
 * the session notices and reconnects before the work begins. Because clients wait for answers, a MySQL server that
 * hangs counts as down after api.database_timeout, and connecting has a short timeout, too. */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "store/store.h"

/* The process's configuration and clocks, which all sessions share. Outlives the sessions. */
struct dt_session_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref; /* MySQL's clock, which each session samples */
    /* Mono: when MySQL last answered any session of the process. NULL: sessions do not share this time. */
    _Atomic int64_t *answered_us;
};

struct dt_session {
    struct dt_config config; /* configuration of the process, with the timeouts of dt_session_shorten */
    dt_store *store;
    const dt_clock *clock;
    _Atomic int64_t *answered_us;
    int64_t stalled_us;      /* if a piece of work takes longer than this, MySQL counts as down */
    int64_t used_us;         /* mono: when MySQL last answered; 0: never */
    int64_t down_us;         /* mono: when connecting last failed; 0: connecting has succeeded since */
    _Atomic int64_t busy_us; /* mono: when the running piece of work began; 0: none is running */
};

/* Copies the configuration, with timeouts of at most api.database_timeout. The copy borrows the texts. */
void dt_session_shorten(struct dt_config *brief, const struct dt_config *config);
/* Initializes a session, without connecting. env is borrowed, and must outlive the session. NOMEM: memory ran out. */
dt_status dt_session_init(struct dt_session *session, const struct dt_session_env *env);
/* Closes the connection. Called by the thread that used the session, when the thread ends. */
void dt_session_clear(struct dt_session *session);
/* Begins a piece of work. Pings a connection that was idle for a second, and reconnects if it is dead. If the status is
 * not OK, the work must not be done; dt_session_end must be called in any case. For a while after a failed connect,
 * returns UNAVAILABLE at once, so that queued requests do not each wait for a timeout. Connects sooner if MySQL has
 * answered another session of the process since. */
dt_status dt_session_begin(struct dt_session *session, struct dt_error *err);
/* Ends the piece of work. */
void dt_session_end(struct dt_session *session);
/* Returns true if the current piece of work has taken so long that MySQL must be down. If this is true for all threads
 * that could serve a request, the request is refused instead of queued. Any thread. */
bool dt_session_stalled(const struct dt_session *session);
