/*
 * Owns: the way to the Redis server of an endpoint. Refuses to know what is asked there.
 *
 * An endpoint `master:NAME` keeps its name, and so its shards, whichever server is the master: the Sentinels are asked
 * at each connect, and a server that they name is believed only if it calls itself master, too.
 */
#include "redis_connect.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/secrets.h"
#include "base/tls.h"

dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                         struct dt_error *err)
{
    bool sentinels = config->redis_sentinels && config->redis_sentinels[0];

    if (dt_tls_of_redis(config).mode != DT_TLS_OFF && !dt_redis_has_tls())
        return dt_fail(err, DT_UNSUPPORTED,
                       "redis.tls: this program was built with hiredis %d.%d, which has no TLS: build it with hiredis "
                       "1.0 or newer, or go through a proxy that speaks TLS (stunnel)",
                       HIREDIS_MAJOR, HIREDIS_MINOR);
    for (unsigned i = 0; i < n; i++)
        if (endpoints[i].master && !sentinels)
            return dt_fail(err, DT_INVALID, "redis.endpoints: \"%s\" needs redis.sentinels", endpoints[i].name);
    return DT_OK;
}

bool dt_redis_is_elaborate(const struct dt_config *config, const struct dt_endpoint *endpoint)
{
    return endpoint->master || dt_tls_of_redis(config).mode != DT_TLS_OFF;
}

bool dt_redis_credentials(const struct dt_config *config, struct dt_strbuf *password, const char **user)
{
    *user = config->redis_user && config->redis_user[0] ? config->redis_user : NULL;
    if (dt_secret_now(config, &config->redis_password, password) != DT_OK)
        return false;
    return *user || password->n;
}

/* ---- connecting ---- */

static redisContext *open_tls(const struct dt_config *config, const char *host, int port)
{
    const int64_t ms = config->redis_timeout;
    const struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    redisContext *c = redisConnectWithTimeout(host, port, tv);

    if (!c || c->err)
        return c;
    if (redisSetTimeout(c, tv) == REDIS_OK)
        dt_redis_secure(c, config, host);
    return c;
}

static void give_up(redisContext *c, const char *why)
{
    c->err = REDIS_ERR_OTHER;
    snprintf(c->errstr, sizeof(c->errstr), "%.*s", (int)sizeof(c->errstr) - 1, why);
}

/* AUTH alone: what follows it is the caller's, who says it once more. False: ->err says why. */
static bool log_in(redisContext *c, const char *user, const char *password)
{
    const char *words[] = {"AUTH", user ? user : password, password};
    redisReply *reply = redisCommandArgv(c, user ? 3 : 2, words, NULL);

    if (reply && reply->type == REDIS_REPLY_ERROR)
        give_up(c, reply->str);
    freeReplyObject(reply);
    return !c->err;
}

/* ---- Sentinels ---- */

static bool ask_sentinel(redisContext *c, const char *master, struct dt_host *out)
{
    redisReply *reply = redisCommand(c, "SENTINEL get-master-addr-by-name %s", master);
    bool found = false;

    if (!reply)
        return false;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str && reply->element[1]->str) {
        long port = strtol(reply->element[1]->str, NULL, 10);

        snprintf(out->name, sizeof(out->name), "%s", reply->element[0]->str);
        out->port = (int)port;
        found = port > 0 && port <= 65535;
    }
    if (!found)
        give_up(c, reply->type == REDIS_REPLY_ERROR ? reply->str : "knows no master of this name");
    freeReplyObject(reply);
    return found;
}

static bool ask_at(const struct dt_config *config, const struct dt_host *sentinel, const char *master,
                   struct dt_host *out, struct dt_strbuf *why)
{
    struct dt_strbuf password = {0};
    redisContext *c = open_tls(config, sentinel->name, sentinel->port);
    bool found = c && !c->err && dt_secret_now(config, &config->redis_sentinel_password, &password) == DT_OK;

    if (found && password.n)
        found = log_in(c, NULL, password.p);
    found = found && ask_sentinel(c, master, out);
    dt_strbuf_reset(why);
    dt_strbuf_addf(why, "sentinel %.60s:%d: %s", sentinel->name, sentinel->port, c && c->err ? c->errstr : "no memory");
    dt_secret_forget(&password);
    if (c)
        redisFree(c);
    return found;
}

bool dt_sentinel_find(const struct dt_config *config, const char *master, struct dt_host *out, char *why, size_t cap)
{
    struct dt_str rest = dt_str(config->redis_sentinels);
    struct dt_strbuf last = {0};
    struct dt_host sentinel;
    bool found = false;

    while (!found && rest.n)
        if (dt_host_parse(dt_str_next_element(&rest), DT_SENTINEL_PORT, &sentinel))
            found = ask_at(config, &sentinel, master, out, &last);
    snprintf(why, cap, "%s", last.p ? last.p : "there are no sentinels");
    dt_strbuf_clear(&last);
    return found;
}

redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint)
{
    struct dt_strbuf password = {0};
    struct dt_host master;
    const char *user;
    char why[128] = "";

    if (!endpoint->master)
        return open_tls(config, endpoint->host, endpoint->port);
    bool found = dt_sentinel_find(config, endpoint->host, &master, why, sizeof(why));
    /* A context that connects nowhere carries the reason. */
    redisContext *c = found ? open_tls(config, master.name, master.port) : redisConnectFd(-1);
    if (c && !found)
        give_up(c, why);
    if (!c || c->err)
        return c;
    if (!dt_redis_credentials(config, &password, &user) || log_in(c, user, password.p)) {
        /* A Sentinel may not know yet that its master was deposed. A server whose user may not ask for its role is
         * believed. */
        redisReply *reply = redisCommand(c, "ROLE");

        if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements && reply->element[0]->str &&
            strcmp(reply->element[0]->str, "master") != 0)
            give_up(c, "the sentinels name a server that is no master");
        freeReplyObject(reply);
    }
    dt_secret_forget(&password);
    return c;
}
