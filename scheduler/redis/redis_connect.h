/*
 * Connects to the Redis server of an endpoint: finds its address, asking Sentinels if configured; TCP; TLS. For redis/
 * only.
 */
#pragma once

#include "base/config.h"
#include "base/text/strbuf.h"
#include "redis_link.h"

struct redisContext;

/* Checks the configuration. UNSUPPORTED: TLS is configured, but hiredis was built without it. INVALID: a master
 * without Sentinels. */
DT_MUST_CHECK dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                                       struct dt_error *err);

/* Returns whether connecting takes more than one connect(2), so that dt_redis_connect must do it. */
bool dt_redis_is_elaborate(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Connects; each step waits for at most redis.timeout. NULL: out of memory. If it fails, ->err is set, and ->errstr
 * has the reason. Freed by redisFree. */
struct redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Reads the arguments of AUTH (*user NULL: only the password). False: there are none. The caller clears *password
 * with dt_secret_forget. */
bool dt_redis_credentials(const struct dt_config *config, struct dt_strbuf *password, const char **user);
