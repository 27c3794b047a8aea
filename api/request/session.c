/* Implements session.h: the MySQL connection of one thread of the API. */
#include "session.h"

#include "mysql/db.h"

#define IDLE_US    INT64_C(1000000)
#define DOWN_US    INT64_C(500000)  /* after a failed connect, the session does not try again for this long */
#define AT_ONCE_US INT64_C(1000000) /* a ping that fails sooner was no timeout: MySQL had closed the connection */
#define CONNECT_MS INT64_C(2000)

void dt_session_shorten(struct dt_config *brief, const struct dt_config *config)
{
    *brief = *config;
    brief->mysql_io_timeout = dt_earlier(brief->mysql_io_timeout, config->api_database_timeout);
    brief->mysql_connect_timeout = dt_earlier(brief->mysql_connect_timeout, CONNECT_MS);
    /* MySQL's lock timeout must expire before the client's I/O timeout. */
    brief->mysql_lock_timeout =
        dt_earlier(brief->mysql_lock_timeout, dt_earlier(config->api_database_timeout - 1000, 1000));
}

dt_status dt_session_init(struct dt_session *session, const struct dt_session_env *env)
{
    const struct dt_config *config = env->config;
    session->clock = env->clock;
    session->answered_us = env->answered_us;
    session->used_us = session->down_us = 0;
    session->stalled_us = dt_earlier(config->mysql_io_timeout, config->api_database_timeout) * 1000 * 2 / 3;
    atomic_store(&session->busy_us, 0);
    dt_session_shorten(&session->config, config);
    return dt_store_new(&session->config, env->ref, &session->store);
}

void dt_session_clear(struct dt_session *session)
{
    dt_store_free(session->store);
    session->store = NULL;
    dt_db_thread_end();
}

dt_status dt_session_begin(struct dt_session *session, struct dt_error *err)
{
    int64_t now_us = dt_clock_mono_us(session->clock);
    atomic_store_explicit(&session->busy_us, now_us, memory_order_relaxed);
    if (session->down_us && now_us - session->down_us < DOWN_US) {
        const int64_t answered_us =
            session->answered_us ? atomic_load_explicit(session->answered_us, memory_order_relaxed) : 0;
        if (answered_us <= session->down_us) /* no other session got an answer since the failed connect */
            return dt_fail(err, DT_UNAVAILABLE, "MySQL could not be reached a moment ago");
    }
    session->down_us = 0;
    if (now_us - session->used_us < IDLE_US)
        return DT_OK;
    dt_status status = dt_store_ping(session->store, err);
    /* If MySQL has closed the idle connection, the first ping fails and the second one reconnects. */
    if (status == DT_UNAVAILABLE && dt_clock_mono_us(session->clock) - now_us < AT_ONCE_US)
        status = dt_store_ping(session->store, err);
    now_us = dt_clock_mono_us(session->clock);
    if (status == DT_UNAVAILABLE)
        session->down_us = now_us;
    else if (session->answered_us)
        atomic_store_explicit(session->answered_us, now_us, memory_order_relaxed);
    return status;
}

void dt_session_end(struct dt_session *session)
{
    int64_t now_us = dt_clock_mono_us(session->clock);
    if (!dt_store_lost(session->store))
        session->used_us = now_us;
    else if (!session->down_us &&
             dt_session_stalled(session)) /* so that the next request does not wait for a MySQL that hangs */
        session->down_us = now_us;
    atomic_store_explicit(&session->busy_us, 0, memory_order_relaxed);
}

bool dt_session_stalled(const struct dt_session *session)
{
    int64_t busy_us = atomic_load_explicit(&session->busy_us, memory_order_relaxed);
    return busy_us != 0 && dt_clock_mono_us(session->clock) - busy_us > session->stalled_us;
}
