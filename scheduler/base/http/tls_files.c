/*
 * OpenSSL's settings for new connections, and when their files are read again: see tls_files.h. Knows no connections.
 *
 * Invariants: `ctx` is complete and usable at any time; a file's `seen` is its state when the latest attempt to read it
 * began, so that a change during the attempt leads to another attempt.
 */
#include "tls_files.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"

#define LOOK_US         INT64_C(1000000) /* time between two checks of the files */
#define CHAIN_MAX       (32 * 1024)      /* most bytes of a client's certificates */
#define ENDS_SOON_MS    (INT64_C(14) * 24 * 3600 * 1000)
#define CIPHERS_OF_TLS2 "ECDHE+AESGCM:ECDHE+CHACHA20"

enum { CERT, KEY, CLIENT_CA, FILES };

static const char *const options[FILES] = {"tls_cert", "tls_key", "tls_client_ca"};

/* The state of a file. If a file is replaced in any way, its state differs in at least one member. */
struct look {
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct dt_tls_files {
    const dt_clock *clock;
    dt_metric *left_gauge, *good, *bad;
    pthread_mutex_t lock;
    /* The following members are protected by the lock. */
    char paths[FILES][PATH_MAX]; /* path of each file; empty: none */
    bool required;               /* a client must have a certificate */
    struct look seen[FILES];
    int64_t looked_us;
    SSL_CTX *ctx;
    int64_t end_at_ms;
};

/* ---- reading ---- */

/* Looks at the files. Returns whether one of them has changed since the previous look. */
static bool look_at_files(dt_tls_files *files)
{
    bool changed = false;
    files->looked_us = dt_clock_mono_us(files->clock);
    for (int i = 0; i < FILES; i++) {
        struct look now = {0};
        struct stat there;
        if (files->paths[i][0] && stat(files->paths[i], &there) == 0)
            now = (struct look){there.st_ino, there.st_size, there.st_mtim};
        changed |= memcmp(&now, &files->seen[i], sizeof(now)) != 0;
        files->seen[i] = now;
    }
    return changed;
}

/* Reports that a file cannot be used. The first error in OpenSSL's queue has the place, the last one only the general
 * cause. */
static dt_status fail_file(const struct dt_tls_files *files, int which, struct dt_error *err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    dt_status status = dt_fail(err, DT_INVALID, "[http] %s: %s cannot be used: %s", options[which], files->paths[which],
                               reason ? reason : "it is not a valid PEM file");
    ERR_clear_error();
    return status;
}

static dt_status require_client_certificate(const struct dt_tls_files *files, SSL_CTX *ctx, struct dt_error *err)
{
    const char *file = files->paths[CLIENT_CA];
    if (!file[0])
        return DT_OK;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);
    if (!names || SSL_CTX_load_verify_locations(ctx, file, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail_file(files, CLIENT_CA, err);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (files->required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
    return DT_OK;
}

static dt_status read_certificate_and_key(const struct dt_tls_files *files, SSL_CTX *ctx, struct dt_error *err)
{
    int key = files->paths[KEY][0] ? KEY : CERT;
    if (SSL_CTX_use_certificate_chain_file(ctx, files->paths[CERT]) != 1)
        return fail_file(files, CERT, err);
    if (SSL_CTX_use_PrivateKey_file(ctx, files->paths[key], SSL_FILETYPE_PEM) != 1)
        return fail_file(files, key, err);
    return SSL_CTX_check_private_key(ctx) == 1 ? DT_OK : fail_file(files, key, err);
}

/* Chooses HTTP/2 if the client offers it, else HTTP/1.1. If the client offers neither, no protocol is confirmed. */
static int choose_protocol(SSL *, const unsigned char **out, unsigned char *out_n, const unsigned char *in,
                           unsigned in_n, void *)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof(ours) - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_tls_options(SSL_CTX *ctx)
{
    static const unsigned char name[] = "duetime";
    /* the password of a key: none, because no operator is present to enter it */
    SSL_CTX_set_default_passwd_cb_userdata(ctx, (void *)(uintptr_t) "");
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* sessions are in tickets, which clients store */
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, CIPHERS_OF_TLS2) == 1 &&
           SSL_CTX_set_session_id_context(ctx, name, sizeof(name) - 1) == 1;
}

/* Reads the files and replaces the settings; if this fails, keeps the previous settings. Called under the lock. */
static dt_status read_files(dt_tls_files *files, struct dt_error *err)
{
    struct tm end = {0};
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    dt_status status = ctx && set_tls_options(ctx) ? DT_OK : dt_fail(err, DT_NOMEM, "OpenSSL could not be initialized");
    (void)look_at_files(files);
    for (int i = 0; i < FILES && status == DT_OK; i++) /* OpenSSL's text for a missing file says less */
        if (files->paths[i][0] && access(files->paths[i], R_OK) != 0)
            status =
                dt_fail(err, DT_INVALID, "[http] %s: cannot read %s: %s", options[i], files->paths[i], strerror(errno));
    DT_THEN(status, read_certificate_and_key(files, ctx, err));
    DT_THEN(status, require_client_certificate(files, ctx, err));
    dt_metric_add(status == DT_OK ? files->good : files->bad, 1);
    if (status != DT_OK) {
        SSL_CTX_free(ctx);
        return status;
    }
    SSL_CTX_free(files->ctx);
    files->ctx = ctx;
    files->end_at_ms = ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(ctx)), &end) == 1
                           ? (int64_t)timegm(&end) * 1000
                           : 0;
    return DT_OK;
}

/* ---- reading again ---- */

static void warn_before_expiry(const dt_tls_files *files)
{
    int64_t left_ms = files->end_at_ms - dt_clock_real_ms(files->clock);
    if (left_ms < ENDS_SOON_MS)
        DT_LOG(WARN, "tls", left_ms < 0 ? "the certificate has expired" : "the certificate expires soon",
               DT_S("file", files->paths[CERT]), DT_I("days", left_ms / (24 * 3600 * 1000)));
}

/* Reads the files again, and logs failures. Called under the lock. */
static void reload_files(dt_tls_files *files)
{
    struct dt_error err = {0};
    if (read_files(files, &err) != DT_OK) {
        DT_LOG(WARN, "tls", "the certificate could not be read: the previous one is kept", DT_S("error", err.text));
        return;
    }
    DT_LOG(INFO, "tls", "new connections get the new certificate", DT_S("file", files->paths[CERT]));
    warn_before_expiry(files);
}

/* Reads the files again if one of them has changed. Called under the lock. */
static void reload_files_if_changed(dt_tls_files *files)
{
    if (dt_clock_mono_us(files->clock) - files->looked_us > LOOK_US && look_at_files(files))
        reload_files(files);
}

SSL_CTX *dt_tls_files_take(dt_tls_files *files)
{
    pthread_mutex_lock(&files->lock);
    reload_files_if_changed(files);
    SSL_CTX *ctx = files->ctx;
    SSL_CTX_up_ref(ctx);
    pthread_mutex_unlock(&files->lock);
    return ctx;
}

static void copy_paths(dt_tls_files *files, const struct dt_config *config)
{
    const char *texts[FILES] = {config->http_tls_cert, config->http_tls_key, config->http_tls_client_ca};
    for (int i = 0; i < FILES; i++)
        snprintf(files->paths[i], sizeof(files->paths[i]), "%s", texts[i] ? texts[i] : "");
    files->required = !config->http_tls_client_cert || strcmp(config->http_tls_client_cert, "optional") != 0;
}

void dt_tls_files_renew(dt_tls_files *files, const struct dt_config *config)
{
    if (!files || !config->http_tls_cert[0])
        return;
    pthread_mutex_lock(&files->lock);
    copy_paths(files, config);
    reload_files(files);
    pthread_mutex_unlock(&files->lock);
}

/* ---- reports ---- */

int64_t dt_tls_files_end_at_ms(dt_tls_files *files)
{
    pthread_mutex_lock(&files->lock);
    reload_files_if_changed(files);
    int64_t end_at_ms = files->end_at_ms;
    pthread_mutex_unlock(&files->lock);
    return end_at_ms;
}

void dt_tls_files_report(dt_tls_files *files)
{
    if (files)
        dt_metric_set(files->left_gauge,
                      (double)(dt_tls_files_end_at_ms(files) - dt_clock_real_ms(files->clock)) / 1000);
}

/* ---- beginning and end ---- */

dt_status dt_tls_files_new(const struct dt_config *config, const dt_clock *clock, dt_tls_files **out,
                           struct dt_error *err)
{
    const char *read = "Reads of http.tls_cert and the files beside it.";
    *out = NULL;
    if (!config->http_tls_cert || !config->http_tls_cert[0])
        return !config->http_tls_client_ca || !config->http_tls_client_ca[0]
                   ? DT_OK
                   : dt_fail(err, DT_INVALID,
                             "[http] tls_client_ca is set without tls_cert: certificates of clients are requested over "
                             "TLS only");
    dt_tls_files *files = calloc(1, sizeof(*files));
    if (!files)
        return dt_fail(err, DT_NOMEM, "no memory for TLS");
    files->clock = clock;
    pthread_mutex_init(&files->lock, NULL);
    files->left_gauge = dt_gauge("duetime_tls_certificate_expires_seconds",
                                 "Seconds until the HTTP certificate expires; negative afterwards.", "");
    files->good = dt_counter("duetime_tls_certificate_reads_total", read, "outcome=\"ok\"");
    files->bad = dt_counter("duetime_tls_certificate_reads_total", read, "outcome=\"refused\"");
    copy_paths(files, config);
    dt_status status = read_files(files, err);
    if (status != DT_OK) {
        dt_tls_files_free(files);
        return status;
    }
    warn_before_expiry(files);
    dt_tls_files_report(files);
    *out = files;
    return DT_OK;
}

void dt_tls_files_free(dt_tls_files *files)
{
    if (!files)
        return;
    SSL_CTX_free(files->ctx);
    pthread_mutex_destroy(&files->lock);
    free(files);
}
