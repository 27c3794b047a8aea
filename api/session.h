/*
 * A thread's connection to MySQL as the API's threads use it: a server may have ended a connection that lay idle (or
 * was restarted meanwhile), and the first request after that should not be the one that finds out.
 */
#ifndef DT_API_SESSION_H
#define DT_API_SESSION_H

#include "base/clock.h"
#include "base/metrics.h"
#include "store/store.h"

struct dt_session {
    dt_store *store;
    const dt_clock *clock;
    int64_t used_us; /* when it last answered; 0 = never */
};

DT_MUST_CHECK dt_status dt_session_init(struct dt_session *session, const struct dt_config *config,
                                        const dt_clock *clock, dt_refclock *ref);
/* On the thread that used it, at its end. */
void dt_session_clear(struct dt_session *session);
/* Before work that follows a pause: asks a connection that was idle for a second how it is, and makes a new one. */
void dt_session_ready(struct dt_session *session);
/* After work. */
void dt_session_used(struct dt_session *session);

#endif
