/*
 * Owns: TLS on a connection to Redis, by hiredis_ssl where the library has it. Refuses to know what is said on it.
 *
 * hiredis alone verifies who signed a certificate, but not for whom it is: the name is set here. Files are read anew
 * for each connection.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>

#include "base/tls.h"
#include "redis_connect.h"

#ifdef DT_HIREDIS_SSL
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

bool dt_redis_has_tls(void)
{
    return true;
}

static void explain(redisContext *c, const char *what, const SSL *ssl)
{
    char text[80] = "";
    long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

    ERR_error_string_n(ERR_peek_last_error(), text, sizeof(text));
    c->err = REDIS_ERR_OTHER;
    snprintf(c->errstr, sizeof(c->errstr), "TLS: %s: %s", what,
             verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : text);
    ERR_clear_error();
}

/* NULL: no error. */
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

void dt_redis_secure(redisContext *c, const struct dt_config *config, const char *host)
{
    struct dt_tls tls = dt_tls_of_redis(config);

    if (tls.mode == DT_TLS_OFF)
        return;
    SSL *ssl = NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) {
        explain(c, "no memory", NULL);
        return;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx, tls.mode == DT_TLS_VERIFY ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    const char *bad = load_files(ctx, &tls);
    if (bad) {
        explain(c, bad, NULL);
        goto out;
    }
    ssl = SSL_new(ctx);
    /* The certificate must be for the host's name, or for its address. */
    if (!ssl || (tls.mode == DT_TLS_VERIFY && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 &&
                 (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1))) {
        explain(c, "no memory", NULL);
        goto out;
    }
    if (redisInitiateSSL(c, ssl) == REDIS_OK)
        ssl = NULL; /* it is the connection's */
    else
        explain(c, "handshake", ssl);
out:
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

#else

bool dt_redis_has_tls(void)
{
    return false;
}

void dt_redis_secure(redisContext *c, const struct dt_config *config, const char *host)
{
    (void)c;
    (void)config;
    (void)host;
}

#endif
