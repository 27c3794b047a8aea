/*
 * A thread's connection to MySQL as the API's threads use it: a server may have ended a connection that lay idle (or
 * was restarted meanwhile), and the first request after that should not be the one that finds out.
 */
#ifndef DT_API_SESSION_H
#define DT_API_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "store/store.h"

struct dt_session {
    dt_store *store;
    const dt_clock *clock;
    int64_t used_us;         /* when it last answered; 0 = never */
    _Atomic int64_t busy_us; /* since when the thread is at work with it; 0 = it is not */
};

DT_MUST_CHECK dt_status dt_session_init(struct dt_session *session, const struct dt_config *config,
                                        const dt_clock *clock, dt_refclock *ref);
/* On the thread that used it, at its end. */
void dt_session_clear(struct dt_session *session);
/* Around each piece of work. begin asks a connection that was idle for a second how it is, and makes a new one when it
 * is dead. answered: the server did. */
void dt_session_begin(struct dt_session *session);
void dt_session_end(struct dt_session *session, bool answered);
/*
 * Any thread: one piece of work has taken so long that MySQL must be away, though nobody has said so yet. When this
 * holds for all threads that could serve a request, it is better refused than queued.
 */
bool dt_session_stalled(const struct dt_session *session);

#endif
