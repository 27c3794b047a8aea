/* Owns nothing but the memory of when a connection was last used. See session.h. */
#include "session.h"

#include "store/db.h"

#define IDLE_US INT64_C(1000000)

dt_status dt_session_init(struct dt_session *session, const struct dt_config *config, const dt_clock *clock,
                          dt_refclock *ref)
{
    session->clock = clock;
    session->used_us = 0;
    return dt_store_new(config, ref, &session->store);
}

void dt_session_clear(struct dt_session *session)
{
    dt_store_free(session->store);
    session->store = NULL;
    dt_db_thread_end();
}

void dt_session_ready(struct dt_session *session)
{
    if (dt_clock_mono_us(session->clock) - session->used_us < IDLE_US)
        return;
    /* The first ping may find the connection dead, the second one then makes a new one. What fails now fails again,
     * with its reason, in the work itself. */
    if (dt_store_ping(session->store, NULL) == DT_UNAVAILABLE && session->used_us != 0)
        (void)!dt_store_ping(session->store, NULL);
}

void dt_session_used(struct dt_session *session)
{
    session->used_us = dt_clock_mono_us(session->clock);
}
