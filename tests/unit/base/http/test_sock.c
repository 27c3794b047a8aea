/* TLS on connections: certificates made here, clients by OpenSSL on the other end of a pair of sockets. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/http/connection.h"
#include "base/http/sock.h"

static int64_t mono_us;
static char folder[] = "/tmp/duetime-sock-XXXXXX";
static char cert[64], key[64];
static struct dt_config config;
static dt_tls_files *files;
static dt_conns *conns;
static int refused;

static int64_t read_mono(const dt_clock *clock)
{
    (void)clock;
    return mono_us;
}

static int64_t read_real(const dt_clock *clock)
{
    return clock ? 1700000000000 : 0;
}

static const dt_clock fake = {read_mono, read_real, NULL};

/* ---- the owner answers each request with 300,000 bytes ---- */

static void on_begun(dt_conn *conn, const struct dt_head *head)
{
    (void)conn, (void)head;
}

static void on_whole(dt_conn *conn)
{
    struct dt_strbuf body = {0};
    for (int i = 0; i < 30000; i++)
        dt_strbuf_adds(&body, "0123456789");
    dt_conn_answer(conn, &(struct dt_reply){.status = 200, .body = &body});
    dt_strbuf_clear(&body);
}

static void on_refused(dt_conn *conn, int status, const char *detail)
{
    (void)detail;
    refused = status;
    dt_conn_answer(conn, &(struct dt_reply){.status = status});
}

/* ---- certificates ---- */

/* Writes a certificate that names itself, and its key. */
static void write_pair(const char *name)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    FILE *out = fopen(cert, "we");
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_set_pubkey(x, pair);
    assert_true(X509_sign(x, pair, EVP_sha256()) > 0 && PEM_write_X509(out, x) == 1);
    fclose(out);
    out = fopen(key, "we");
    assert_int_equal(PEM_write_PrivateKey(out, pair, NULL, NULL, 0, NULL, NULL), 1);
    fclose(out);
    X509_free(x);
    EVP_PKEY_free(pair);
}

static int begin(void **state)
{
    static const struct dt_conn_rules rules = {
        .most = 9, .crowd = 9, .head_us = 2000000, .idle_us = 9000000, .body_us = 4000000, .send_us = 3000000};
    static const struct dt_conn_events events = {.begun = on_begun, .whole = on_whole, .refused = on_refused};
    (void)state;
    mono_us = 1000000;
    refused = 0;
    write_pair("first");
    config = (struct dt_config){.http_tls_cert = cert, .http_tls_key = key};
    return dt_tls_files_new(&config, &fake, &files, NULL) == DT_OK &&
                   dt_conns_new(&rules, &events, NULL, &fake, &conns, NULL) == DT_OK
               ? 0
               : -1;
}

static int end(void **state)
{
    (void)state;
    dt_conns_free(conns);
    dt_tls_files_free(files);
    return 0;
}

/* ---- clients ---- */

struct client {
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
};

static void rounds(int n)
{
    while (n--) {
        mono_us += 10000;
        dt_evloop_wake(dt_conns_loop(conns));
        dt_conns_round(conns);
    }
}

static int connected(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(dt_conns_adopt(conns, pair[0], NULL, 0, files, false));
    return pair[1];
}

/* Goes on with a call until it no longer wants anything; returns what it says at last. */
static int step(struct client *c, int (*call)(SSL *ssl))
{
    int said = -1;
    for (int i = 0; i < 100; i++) {
        ERR_clear_error();
        said = call(c->ssl);
        int error = SSL_get_error(c->ssl, said);
        rounds(2);
        if (said > 0 || (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE))
            break;
    }
    return said;
}

/* True: the handshake was done, and the server goes on after it. */
static bool greets(struct client *c, bool shows_certificate)
{
    c->fd = connected();
    c->ctx = SSL_CTX_new(TLS_client_method());
    if (shows_certificate)
        assert_true(SSL_CTX_use_certificate_chain_file(c->ctx, cert) == 1 &&
                    SSL_CTX_use_PrivateKey_file(c->ctx, key, SSL_FILETYPE_PEM) == 1);
    c->ssl = SSL_new(c->ctx);
    SSL_set_fd(c->ssl, c->fd);
    return step(c, SSL_connect) == 1;
}

static void leave(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    close(c->fd);
    rounds(2);
    assert_int_equal(dt_conns_count(conns), 0);
}

static int read_some(SSL *ssl)
{
    static char some[5000];
    return SSL_read(ssl, some, sizeof(some));
}

static void assert_served(struct client *c)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int all = 0;
    assert_true(SSL_write(c->ssl, request, sizeof(request) - 1) > 0);
    for (int n = 1; n > 0 && all <= 300000; all += n)
        n = step(c, read_some);
    assert_true(all > 300000 && all < 300200);
}

static bool is_shown(const struct client *c, const char *name)
{
    char text[100] = "";
    X509 *x = SSL_get1_peer_certificate(c->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, text, sizeof(text));
    X509_free(x);
    return strcmp(text, name) == 0;
}

/* ---- tests ---- */

static void requests_are_answered_through_tls_and_its_end_is_announced(void **state)
{
    struct client c;
    (void)state;
    assert_true(greets(&c, false));
    assert_served(&c);
    assert_served(&c);
    dt_conns_enter(conns, DT_CONNS_DRAIN);
    rounds(2);
    assert_int_equal(SSL_get_error(c.ssl, step(&c, read_some)), SSL_ERROR_ZERO_RETURN);
    leave(&c);
}

static void a_plain_request_where_tls_is_spoken_is_refused_in_the_clear(void **state)
{
    char text[200] = {0};
    int fd = connected();
    (void)state;
    assert_true(send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0) == 27);
    rounds(3);
    assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
    assert_int_equal(memcmp(text, "HTTP/1.1 400 ", 13), 0);
    assert_int_equal(refused, 400);
    close(fd);
    rounds(2);
    assert_int_equal(dt_conns_count(conns), 0);
}

static void a_handshake_that_fails_or_stalls_ends_its_connection(void **state)
{
    char text[20];
    int fd = connected();
    (void)state;
    assert_true(send(fd, "\x16\x03\x01\x00\x05hello", 10, 0) == 10); /* no greeting */
    rounds(3);
    assert_true(recv(fd, text, sizeof(text), 0) > 0 && text[0] == 0x15); /* an alert */
    assert_true(recv(fd, text, sizeof(text), 0) == 0);
    rounds(205);
    assert_int_equal(dt_conns_count(conns), 0);
    close(fd);
    fd = connected();
    assert_true(send(fd, "\x16\x03\x01\x01", 4, 0) == 4);
    rounds(150);
    assert_int_equal(dt_conns_count(conns), 1);
    rounds(60);
    assert_int_equal(dt_conns_count(conns), 0);
    assert_int_equal(refused, 0);
    close(fd);
}

static void a_replaced_certificate_is_shown_to_new_connections_and_old_ones_continue(void **state)
{
    struct client before, after;
    (void)state;
    assert_true(greets(&before, false) && is_shown(&before, "first"));
    assert_served(&before);
    write_pair("second");
    rounds(150);
    assert_true(greets(&after, false) && is_shown(&after, "second"));
    assert_served(&before);
    assert_served(&after);
    SSL_free(before.ssl);
    SSL_CTX_free(before.ctx);
    close(before.fd);
    leave(&after);
}

static void a_client_without_a_demanded_certificate_is_not_served(void **state)
{
    struct client c;
    (void)state;
    config.http_tls_client_ca = cert;
    dt_tls_files_renew(files, &config);
    assert_true(greets(&c, true));
    assert_served(&c);
    leave(&c);
    assert_true(greets(&c, false)); /* by TLS 1.3 the client believes that all is well, and then learns better */
    assert_true(step(&c, read_some) <= 0);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED);
    leave(&c);
    assert_int_equal(refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(requests_are_answered_through_tls_and_its_end_is_announced),
        TEST(a_plain_request_where_tls_is_spoken_is_refused_in_the_clear),
        TEST(a_handshake_that_fails_or_stalls_ends_its_connection),
        TEST(a_replaced_certificate_is_shown_to_new_connections_and_old_ones_continue),
        TEST(a_client_without_a_demanded_certificate_is_not_served),
    };
    signal(SIGPIPE, SIG_IGN); /* as in every program of ours */
    if (!mkdtemp(folder))
        return 1;
    snprintf(cert, sizeof(cert), "%s/cert.pem", folder);
    snprintf(key, sizeof(key), "%s/key.pem", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(cert);
    unlink(key);
    rmdir(folder);
    return failed;
}
