/*
 * Connecting to the Redis server of an endpoint: its address (for which Sentinels may be asked), TCP, TLS. For redis/
 * only.
 */
#ifndef DT_REDIS_REDIS_CONNECT_H
#define DT_REDIS_REDIS_CONNECT_H

#include "base/config.h"
#include "base/text/strbuf.h"
#include "redis_link.h"

struct redisContext;

/* Checks the configuration. UNSUPPORTED: TLS, and hiredis has none. INVALID: a master without Sentinels. */
DT_MUST_CHECK dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                                       struct dt_error *err);

/* Whether connecting takes more than one connect(2), so that dt_redis_connect must do it. */
bool dt_redis_is_elaborate(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Connects; each step waits for at most redis.timeout. NULL: out of memory. If it fails, ->err is set, and ->errstr
 * says why. Freed by redisFree. */
struct redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Returns the arguments of AUTH (*user NULL: only the password). False: there are none. Clear *password with
 * dt_secret_forget. */
bool dt_redis_credentials(const struct dt_config *config, struct dt_strbuf *password, const char **user);

#endif
