/*
 * A session: one thread's connection to MySQL, as the API's threads use it. A server may have ended a connection that
 * lay idle (or was restarted meanwhile), and the first request after that should not be the one that finds out.
 * Somebody waits for each answer, so a server that hangs is given up after api.database_timeout, and the wait for a new
 * connection is short, too.
 */
#ifndef DT_API_SESSION_H
#define DT_API_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "store/store.h"

/* The configuration and the clocks that all threads of a process work with; outlives them. */
struct dt_session_env {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref; /* MySQL's clock: each session feeds it */
    /* Mono: when MySQL last answered one of the process's sessions; NULL: each is alone. */
    _Atomic int64_t *answered_us;
};

struct dt_session {
    struct dt_config config; /* the process's, with the short waits of api.database_timeout */
    dt_store *store;
    const dt_clock *clock;
    _Atomic int64_t *answered_us;
    int64_t stalled_us;      /* if work takes longer, MySQL counts as unavailable (two thirds of a wait) */
    int64_t used_us;         /* when it last answered; 0 = never */
    int64_t down_us;         /* when no connection was to be had; 0 = it was, since */
    _Atomic int64_t busy_us; /* since when the thread is at work with it; 0 = it is not */
};

/* The configuration with the short waits of api.database_timeout; borrows its texts. */
void dt_session_shorten(struct dt_config *brief, const struct dt_config *config);
/* Makes the session's store, which is not connected yet. env is borrowed and outlives it. NOMEM. */
DT_MUST_CHECK dt_status dt_session_init(struct dt_session *session, const struct dt_session_env *env);
/* Ends the connection; on the thread that used it, at the thread's end. */
void dt_session_clear(struct dt_session *session);
/* Begins a piece of work: asks a connection that was idle for a second how it is, and makes a new one when it is dead.
 * Unless it is OK, the work must not be done; dt_session_end is called all the same. UNAVAILABLE comes at once for a
 * while after no connection was to be had, so that those who queued behind the one who waited need not wait, too; but
 * not once MySQL has answered another session of the process. */
DT_MUST_CHECK dt_status dt_session_begin(struct dt_session *session, struct dt_error *err);
/* Ends the piece of work. */
void dt_session_end(struct dt_session *session);
/*
 * Says whether one piece of work has taken so long that MySQL must be away, though nobody has said so yet. Any thread.
 * When this holds for all threads that could serve a request, the request is better refused than queued.
 */
bool dt_session_stalled(const struct dt_session *session);

#endif
