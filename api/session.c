/* Owns nothing but the memory of when a connection was last used. See session.h. */
#include "session.h"

#include "store/db.h"

#define IDLE_US    INT64_C(1000000)
#define STALLED_US INT64_C(2000000)

dt_status dt_session_init(struct dt_session *session, const struct dt_config *config, const dt_clock *clock,
                          dt_refclock *ref)
{
    session->clock = clock;
    session->used_us = 0;
    atomic_store(&session->busy_us, 0);
    return dt_store_new(config, ref, &session->store);
}

void dt_session_clear(struct dt_session *session)
{
    dt_store_free(session->store);
    session->store = NULL;
    dt_db_thread_end();
}

void dt_session_begin(struct dt_session *session)
{
    int64_t now_us = dt_clock_mono_us(session->clock);
    atomic_store_explicit(&session->busy_us, now_us, memory_order_relaxed);
    if (now_us - session->used_us < IDLE_US)
        return;
    /* The first ping may find the connection dead, the second one then makes a new one. What fails now fails again,
     * with its reason, in the work itself. */
    if (dt_store_ping(session->store, NULL) == DT_UNAVAILABLE && session->used_us != 0)
        (void)!dt_store_ping(session->store, NULL);
}

void dt_session_end(struct dt_session *session, bool answered)
{
    if (answered)
        session->used_us = dt_clock_mono_us(session->clock);
    atomic_store_explicit(&session->busy_us, 0, memory_order_relaxed);
}

bool dt_session_stalled(const struct dt_session *session)
{
    int64_t busy_us = atomic_load_explicit(&session->busy_us, memory_order_relaxed);
    return busy_us != 0 && dt_clock_mono_us(session->clock) - busy_us > STALLED_US;
}
