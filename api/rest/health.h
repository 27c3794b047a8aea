/*
 * The health chore, which has a MySQL connection of its own. Once a second it writes the process's row (processes),
 * samples MySQL's clock, and refreshes topics and shards (topic_cache); every two seconds it reads the tokens (auth).
 * The row is also written at once when the index writer has lost something. /readyz and /v1/info read what it found.
 */
#ifndef DT_API_HEALTH_H
#define DT_API_HEALTH_H

#include "base/chores.h"
#include "intake/index_writer.h"
#include "request/auth.h"
#include "request/session.h"
#include "request/topic_cache.h"

typedef struct dt_health dt_health;

struct dt_health_state {
    dt_status mysql;        /* OK, UNAVAILABLE, SCHEMA, … */
    char mysql_text[320];   /* the reason when it is not OK */
    const char *mysql_word; /* ours, static: ok, unavailable, read-only, refused, schema, failing */
    int64_t mysql_us;       /* mono: when it was last looked at, to the end */
    bool redis;             /* takes changes of the index; true where there is none */
    char redis_text[320];   /* the reason when it does not */
    int64_t redis_us;       /* mono: when it was last asked to; 0 = never */
    bool draining;
};

/* Looks once, on the calling thread, then adds the chore to `urgent`, which has a thread that nothing else blocks. All
 * arguments are borrowed and outlive it. *out is NULL unless OK; a MySQL that is away is no failure. */
DT_MUST_CHECK dt_status dt_health_start(const struct dt_session_env *env, dt_chores *urgent, dt_topic_cache *topics,
                                        dt_auth *auth, dt_index_writer *index, dt_health **out, struct dt_error *err);
/* Makes readiness fail from here on. Any thread. */
void dt_health_drain(dt_health *health);
/* Ends the chore. */
void dt_health_stop(dt_health *health);
/* processes.id of this process. */
int64_t dt_health_process(const dt_health *health);
/* After dt_health_stop. Accepts NULL. */
void dt_health_free(dt_health *health);
/* Copies what was found out last. Any thread. */
void dt_health_get(dt_health *health, struct dt_health_state *out);

#endif
