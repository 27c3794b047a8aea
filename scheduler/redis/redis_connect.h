/*
 * A connection to the Redis server of an endpoint: its address (which Sentinels may have to be asked for), TCP, TLS.
 * For the files of redis/ alone.
 */
#ifndef DT_REDIS_REDIS_CONNECT_H
#define DT_REDIS_REDIS_CONNECT_H

#include "base/config.h"
#include "base/addresses.h"
#include "base/text/strbuf.h"
#include "redis_link.h"

struct redisContext;

/* Says what cannot be done as configured: TLS with a hiredis that has none (UNSUPPORTED), a master without Sentinels
 * (INVALID). */
DT_MUST_CHECK dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                                       struct dt_error *err);

/* Whether connecting needs more than one connect(2): only dt_redis_connect does that. */
bool dt_redis_is_elaborate(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Connects, and waits for redis.timeout at each step. Never NULL but for want of memory; ->err says that it failed, and
 * ->errstr why. redisFree it. */
struct redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint);

/* Puts the words of AUTH into *password and *user (NULL: AUTH takes the password alone). False: there is nothing to
 * say. dt_secret_forget(password). */
bool dt_redis_credentials(const struct dt_config *config, struct dt_strbuf *password, const char **user);

/* Asks the Sentinels, one after the other, who the master is; *why (cap bytes) is the last one's failure. */
bool dt_sentinel_find(const struct dt_config *config, const char *master, struct dt_host *out, char *why, size_t cap);

/* A TCP connection that is there already goes on with TLS, if that is configured; ->err as above. */
void dt_redis_secure(struct redisContext *c, const struct dt_config *config, const char *host);
/* Whether this build's hiredis has TLS. */
bool dt_redis_has_tls(void);

#endif
