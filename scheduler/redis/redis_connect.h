/* Connects to the Redis server of an endpoint: finds its address (from the Sentinels, if configured), and makes the TCP
 * and TLS connections. For redis/ only. */
#pragma once

#include "base/config.h"
#include "base/text/strbuf.h"
#include "redis_link.h"

struct redisContext;

/* Checks the configuration. Returns UNSUPPORTED if TLS is configured but hiredis was built without it, INVALID if an
 * endpoint is `master:NAME` but no Sentinels are configured. */
dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                         struct dt_error *err);

/* Returns whether connecting needs more than connect(2): Sentinels or TLS. If so, call dt_redis_connect, which
 * blocks. */
bool dt_redis_is_elaborate(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Connects; each step waits for at most redis.timeout. If this fails, ->err is set, and ->errstr has the reason.
 * Returns NULL if memory runs out. Free the context with redisFree. */
struct redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Reads the arguments of AUTH. *user is NULL if only a password is configured. Returns false if no password is
 * configured. The caller clears *password with dt_secret_forget. */
bool dt_redis_credentials(const struct dt_config *config, struct dt_strbuf *password, const char **user);
