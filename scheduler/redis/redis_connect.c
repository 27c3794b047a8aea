/*
 * See redis_connect.h. An endpoint `master:NAME` keeps its name, and so its shards, when another server becomes the
 * master. Each connect asks the Sentinels, and checks that the server that they name reports itself as the master.
 *
 * hiredis_ssl does TLS. It verifies who signed the certificate, but not the host's name, so this file sets the name to
 * verify.
 */
#include "redis_connect.h"

#include <hiredis/hiredis.h>

#include "base/addresses.h"
#include "base/secrets.h"
#include "base/tls.h"

#ifdef DT_HIREDIS_SSL
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

dt_status dt_redis_check(const struct dt_config *config, const struct dt_endpoint *endpoints, unsigned n,
                         struct dt_error *err)
{
    bool sentinels = config->redis_sentinels && config->redis_sentinels[0];
#ifndef DT_HIREDIS_SSL
    if (dt_tls_of_redis(config).mode != DT_TLS_OFF)
        return dt_fail(err, DT_UNSUPPORTED,
                       "redis.tls: this program was built with hiredis %d.%d, which has no TLS: build it with hiredis "
                       "1.0 or newer, or go through a proxy that speaks TLS (stunnel)",
                       HIREDIS_MAJOR, HIREDIS_MINOR);
#endif
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

#ifdef DT_HIREDIS_SSL

static void set_tls_error(redisContext *c, const char *what, const SSL *ssl)
{
    char text[80] = "";
    long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    ERR_error_string_n(ERR_peek_last_error(), text, sizeof(text));
    c->err = REDIS_ERR_OTHER;
    snprintf(c->errstr, sizeof(c->errstr), "TLS: %s: %s", what,
             verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : text);
    ERR_clear_error();
}

/* Loads the files that the configuration names. Returns the option that could not be applied, or NULL. */
static const char *load_files(SSL_CTX *ctx, const struct dt_tls *tls)
{
    if (tls->ca_file[0] && SSL_CTX_load_verify_locations(ctx, tls->ca_file, NULL) != 1)
        return "ca_file";
    if (!tls->ca_file[0] && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return "the system's authorities";
    if (tls->cert_file[0] && SSL_CTX_use_certificate_chain_file(ctx, tls->cert_file) != 1)
        return "cert_file";
    if (tls->key_file[0] && SSL_CTX_use_PrivateKey_file(ctx, tls->key_file, SSL_FILETYPE_PEM) != 1)
        return "key_file";
    return NULL;
}

/* Starts TLS on a TCP connection, if TLS is configured. If this fails, c->err and c->errstr have the reason. */
static void start_tls(redisContext *c, const struct dt_config *config, const char *host)
{
    struct dt_tls tls = dt_tls_of_redis(config);
    if (tls.mode == DT_TLS_OFF)
        return;
    SSL *ssl = NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) {
        set_tls_error(c, "no memory", NULL);
        return;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx, tls.mode == DT_TLS_VERIFY ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    const char *bad = load_files(ctx, &tls);
    if (bad) {
        set_tls_error(c, bad, NULL);
        goto out;
    }
    ssl = SSL_new(ctx);
    /* The certificate must name the host, or contain its address. */
    if (!ssl || (tls.mode == DT_TLS_VERIFY && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 &&
                 (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1))) {
        set_tls_error(c, "no memory", NULL);
        goto out;
    }
    if (redisInitiateSSL(c, ssl) == REDIS_OK)
        ssl = NULL; /* now owned by the connection */
    else
        set_tls_error(c, "handshake", ssl);
out:
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

#else

static void start_tls(redisContext *, const struct dt_config *, const char *) {}

#endif

static redisContext *open_connection(const struct dt_config *config, const char *host, int port)
{
    const int64_t ms = config->redis_timeout;
    const struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    redisContext *c = redisConnectWithTimeout(host, port, tv);
    if (!c || c->err)
        return c;
    if (redisSetTimeout(c, tv) == REDIS_OK)
        start_tls(c, config, host);
    return c;
}

static void set_error(redisContext *c, const char *why)
{
    c->err = REDIS_ERR_OTHER;
    snprintf(c->errstr, sizeof(c->errstr), "%.*s", (int)sizeof(c->errstr) - 1, why);
}

/* Sends AUTH. If this fails, returns false and sets c->err. */
static bool log_in(redisContext *c, const char *user, const char *password)
{
    const char *words[] = {"AUTH", user ? user : password, password};
    redisReply *reply = redisCommandArgv(c, user ? 3 : 2, words, NULL);
    if (reply && reply->type == REDIS_REPLY_ERROR)
        set_error(c, reply->str);
    freeReplyObject(reply);
    return !c->err;
}

/* Asks one Sentinel for the address of the master. If this fails, adds the reason to *why. */
static bool ask_sentinel(const struct dt_config *config, const struct dt_host *sentinel, const char *master,
                         struct dt_host *out, struct dt_strbuf *why)
{
    struct dt_strbuf password = {0};
    redisContext *c = open_connection(config, sentinel->name, sentinel->port);
    redisReply *reply = NULL;
    bool found = false;
    if (c && !c->err && dt_secret_now(config, &config->redis_sentinel_password, &password) == DT_OK &&
        (!password.n || log_in(c, NULL, password.p)))
        reply = redisCommand(c, "SENTINEL get-master-addr-by-name %s", master);
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str &&
        reply->element[1]->str) {
        long port = strtol(reply->element[1]->str, NULL, 10);
        snprintf(out->name, sizeof(out->name), "%s", reply->element[0]->str);
        out->port = (int)port;
        found = port > 0 && port <= 65535;
    }
    if (reply && !found)
        set_error(c, reply->type == REDIS_REPLY_ERROR ? reply->str : "knows no master of this name");
    freeReplyObject(reply);
    dt_strbuf_reset(why);
    dt_strbuf_addf(why, "sentinel %.60s:%d: %s", sentinel->name, sentinel->port, c && c->err ? c->errstr : "no memory");
    dt_secret_forget(&password);
    redisFree(c);
    return found;
}

redisContext *dt_redis_connect(const struct dt_config *config, const struct dt_endpoint *endpoint)
{
    struct dt_strbuf password = {0};
    struct dt_strbuf why = {0};
    struct dt_host sentinel;
    struct dt_host master;
    bool found = false;
    const char *user;
    if (!endpoint->master)
        return open_connection(config, endpoint->host, endpoint->port);
    for (struct dt_str rest = dt_str(config->redis_sentinels); !found && rest.n;)
        if (dt_host_parse(dt_str_next_element(&rest), DT_SENTINEL_PORT, &sentinel))
            found = ask_sentinel(config, &sentinel, endpoint->host, &master, &why);
    /* If no master was found, returns an unconnected context that has the reason. */
    redisContext *c = found ? open_connection(config, master.name, master.port) : redisConnectFd(-1);
    if (c && !found)
        set_error(c, why.p ? why.p : "redis.sentinels is empty");
    dt_strbuf_clear(&why);
    if (!c || c->err)
        return c;
    if (!dt_redis_credentials(config, &password, &user) || log_in(c, user, password.p)) {
        /* A Sentinel may still name a server that is no longer the master. If our user may not send ROLE, the server is
         * accepted without this check. */
        redisReply *reply = redisCommand(c, "ROLE");
        if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements && reply->element[0]->str &&
            strcmp(reply->element[0]->str, "master") != 0)
            set_error(c, "the sentinels name a server that is not a master");
        freeReplyObject(reply);
    }
    dt_secret_forget(&password);
    return c;
}
