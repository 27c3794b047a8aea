/* The chore that checks MySQL and refreshes the process's snapshots, on its own connection. /readyz, /v1/info and
 * /v1/overview show the state that it found last. */
#pragma once

#include "base/chores.h"
#include "intake/index_writer.h"
#include "request/auth.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_health dt_health;

struct dt_health_state {
    dt_status mysql;        /* result of the last check: OK, UNAVAILABLE, SCHEMA, … */
    char mysql_text[320];   /* the reason, if mysql is not OK */
    const char *mysql_word; /* static text: ok, unavailable, read-only, refused, schema, failing */
    int64_t mysql_us;       /* mono: when the last check ended */
    bool redis;             /* true if Redis accepts changes of the index, or if there is no Redis */
    char redis_text[320];   /* the reason, if redis is false */
    int64_t redis_us;       /* mono: when the index was last written; 0: never */
    bool draining;
};

/* Checks once on the calling thread, then adds the chore to `urgent`, which must run no other chore that may block. All
 * arguments are borrowed, and must outlive the chore. Returns OK even if MySQL is down. Unless OK, *out is NULL. */
dt_status dt_health_start(const struct dt_session_env *env, dt_chores *urgent, dt_topic_cache *topics, dt_auth *auth,
                          dt_index_writer *index, dt_health **out, struct dt_error *err);
/* Makes the process report that it is not ready, from now on. Any thread. */
void dt_health_drain(dt_health *health);
/* Ends the chore. */
void dt_health_stop(dt_health *health);
/* Returns the column processes.id of this process. */
int64_t dt_health_process(const dt_health *health);
/* Frees the chore, after dt_health_stop. Accepts NULL. */
void dt_health_free(dt_health *health);
/* Copies the latest state. Any thread. */
void dt_health_get(dt_health *health, struct dt_health_state *out);
