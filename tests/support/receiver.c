/* The receiver: accepts, reads whole requests, asks the handler. Of HTTP/2 it knows as much as one answer needs. */
#include "support/receiver.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "support/suite.h"

#define HEAD_MAX      65536
#define STACK_BYTES   (512 * 1024)
#define TLS_HANDSHAKE 0x16 /* the first byte of one */
#define STEP_MS       50

struct receiver_connection {
    receiver *owner;
    int fd;
    SSL *ssl;
    unsigned requests;
    receiver_connection *prev;
    receiver_connection *next;
};

struct receiver {
    struct receiver_options options;
    SSL_CTX *tls;
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_bool stopping;
    atomic_uint accepted, requests;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    receiver_connection *open;
};

/* ---- bytes ---- */

static ssize_t read_some(receiver_connection *c, void *bytes, size_t n)
{
    if (c->ssl)
        return SSL_read(c->ssl, bytes, (int)n);
    return recv(c->fd, bytes, n, 0);
}

static bool read_whole(receiver_connection *c, void *bytes, size_t n)
{
    char *at = bytes;
    while (n > 0) {
        ssize_t got = read_some(c, at, n);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

bool receiver_say(receiver_connection *c, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t put = c->ssl ? SSL_write(c->ssl, at, (int)n) : send(c->fd, at, n, MSG_NOSIGNAL);
        if (put <= 0)
            return false;
        at += put;
        n -= (size_t)put;
    }
    return !c->owner->stopping;
}

bool receiver_say_text(receiver_connection *c, const char *text)
{
    return receiver_say(c, text, strlen(text));
}

bool receiver_wait_ms(receiver_connection *c, unsigned ms)
{
    for (unsigned waited = 0; waited < ms && !c->owner->stopping; waited += STEP_MS)
        nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
    return !c->owner->stopping;
}

void receiver_reset(receiver_connection *c)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void receiver_hold(receiver_connection *c)
{
    char bytes[256];
    while (!c->owner->stopping && read_some(c, bytes, sizeof(bytes)) > 0)
        ;
}

/* ---- HTTP/1.1 ---- */

static bool read_head(receiver_connection *c, char *head)
{
    size_t n = 0;
    while (n + 1 < HEAD_MAX) {
        if (!read_whole(c, head + n, 1))
            return false;
        head[++n] = '\0';
        if (head[0] == TLS_HANDSHAKE) {
            receiver_say_text(c, "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
            return false;
        }
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

/* Says what it thinks of a body before that is there, and reads on, so that no reset takes the answer away. */
static bool answer_early(receiver_connection *c)
{
    receiver_say_text(c, "HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 4\r\n\r\nmuch");
    receiver_hold(c);
    return false;
}

static bool serve_request(receiver_connection *c, char *head)
{
    char path[4096] = "";
    if (!read_head(c, head))
        return false;
    const char *at = strcasestr(head, "\r\ncontent-length:");
    size_t n = at ? strtoul(at + strlen("\r\ncontent-length:"), NULL, 10) : 0;
    if (strstr(head, " /early "))
        return answer_early(c);
    char *body = calloc(1, n + 1);
    bool kept = body && read_whole(c, body, n);
    if (kept) {
        (void)sscanf(head, "%*s %4095s", path);
        c->owner->requests++;
        struct receiver_request request = {head, path, body, n, ++c->requests};
        kept = c->owner->options.handler(c->owner->options.arg, c, &request);
    }
    free(body);
    return kept;
}

/* ---- HTTP/2 ---- */

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
#define END_STREAM     1
#define ACK            1
#define END_HEADERS    4
#define REFUSED_STREAM 7
#define STATUS_204     0x89 /* an entry of HPACK's static table */

struct frame {
    size_t n;
    unsigned type, flags;
    uint32_t stream;
    unsigned char payload[32768];
};

static bool say_frame(receiver_connection *c, const struct frame *f)
{
    unsigned char bytes[9 + 64] = {
        (unsigned char)(f->n >> 16),      (unsigned char)(f->n >> 8),      (unsigned char)f->n,
        (unsigned char)f->type,           (unsigned char)f->flags,         (unsigned char)(f->stream >> 24),
        (unsigned char)(f->stream >> 16), (unsigned char)(f->stream >> 8), (unsigned char)f->stream};
    if (f->n > 64)
        return false;
    memcpy(bytes + 9, f->payload, f->n);
    return receiver_say(c, bytes, 9 + f->n);
}

static bool read_frame(receiver_connection *c, struct frame *f)
{
    unsigned char h[9];
    if (!read_whole(c, h, sizeof(h)))
        return false;
    f->n = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    f->type = h[3];
    f->flags = h[4];
    f->stream = ((uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8]) & 0x7fffffff;
    return f->n <= sizeof(f->payload) && read_whole(c, f->payload, f->n);
}

/* The peer may send n more bytes, on the stream and on the connection. */
static bool open_windows(receiver_connection *c, uint32_t stream, size_t n)
{
    struct frame f = {.n = 4,
                      .type = WINDOW_UPDATE,
                      .payload = {0, (unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n}};
    if (!say_frame(c, &f))
        return false;
    f.stream = stream;
    return say_frame(c, &f);
}

static bool serve_frame(receiver_connection *c, struct frame *f)
{
    if (f->type == GOAWAY)
        return false;
    if (f->type == SETTINGS && !(f->flags & ACK)) {
        struct frame ack = {.type = SETTINGS, .flags = ACK};
        return say_frame(c, &ack);
    }
    if (f->type == PING && !(f->flags & ACK)) {
        f->flags = ACK;
        return say_frame(c, f);
    }
    if ((f->type == HEADERS || f->type == DATA) && f->flags & END_STREAM) {
        uint32_t stream = f->stream;
        c->owner->requests++;
        if (c->owner->options.h2 == RECEIVER_H2_REFUSES && c->requests++ > 0) {
            struct frame refusal = {.n = 4, .type = RST_STREAM, .stream = stream, .payload = {[3] = REFUSED_STREAM}};
            return say_frame(c, &refusal);
        }
        struct frame answer = {
            .n = 1, .type = HEADERS, .flags = END_STREAM | END_HEADERS, .stream = stream, .payload = {STATUS_204}};
        return say_frame(c, &answer);
    }
    return f->type != DATA || f->n == 0 || open_windows(c, f->stream, f->n);
}

static void serve_frames(receiver_connection *c)
{
    char preface[24];
    struct frame *f = calloc(1, sizeof(*f));
    f->type = SETTINGS;
    if (read_whole(c, preface, sizeof(preface)) && say_frame(c, f))
        while (read_frame(c, f) && serve_frame(c, f))
            ;
    free(f);
}

/* ---- connections ---- */

static bool is_h2(const receiver_connection *c)
{
    const unsigned char *protocol = NULL;
    unsigned n = 0;
    if (c->ssl)
        SSL_get0_alpn_selected(c->ssl, &protocol, &n);
    return n == 2 && memcmp(protocol, "h2", 2) == 0;
}

static bool shake_hands(receiver_connection *c)
{
    if (!c->owner->tls)
        return true;
    c->ssl = SSL_new(c->owner->tls);
    return c->ssl && SSL_set_fd(c->ssl, c->fd) == 1 && SSL_accept(c->ssl) == 1;
}

static void *serve(void *arg)
{
    receiver_connection *c = arg;
    receiver *r = c->owner;
    if (shake_hands(c)) {
        if (is_h2(c))
            serve_frames(c);
        else {
            char *head = malloc(HEAD_MAX);
            while (head && serve_request(c, head))
                ;
            free(head);
        }
        if (c->ssl)
            SSL_shutdown(c->ssl);
    }
    ERR_clear_error();
    SSL_free(c->ssl);
    pthread_mutex_lock(&r->lock);
    close(c->fd);
    DL_DELETE(r->open, c);
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
    free(c);
    return NULL;
}

static void begin_serving(receiver *r, int fd)
{
    static const int one = 1;
    pthread_attr_t attr;
    pthread_t id;
    receiver_connection *c = calloc(1, sizeof(*c));
    *c = (receiver_connection){.owner = r, .fd = fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    pthread_mutex_lock(&r->lock);
    DL_APPEND(r->open, c);
    pthread_mutex_unlock(&r->lock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&id, &attr, serve, c) != 0)
        abort();
    pthread_attr_destroy(&attr);
}

static void *accept_all(void *arg)
{
    receiver *r = arg;
    while (!r->stopping) {
        int fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        r->accepted++;
        begin_serving(r, fd);
    }
    return NULL;
}

/* ---- lifetime ---- */

static int choose(SSL *, const unsigned char **out, unsigned char *n, const unsigned char *in, unsigned in_n, void *arg)
{
    static const unsigned char both[] = "\2h2\10http/1.1";
    static const unsigned char old[] = "\10http/1.1";
    const receiver *r = arg;
    bool h2 = r->options.h2 != RECEIVER_H2_NOT_OFFERED;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, n, h2 ? both : old, (unsigned)(h2 ? sizeof(both) : sizeof(old)) - 1, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

receiver *receiver_start(const struct receiver_options *options)
{
    receiver *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->options = *options;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
    if (options->certificate) {
        r->tls = SSL_CTX_new(TLS_server_method());
        assert_non_null(r->tls);
        assert_int_equal(SSL_CTX_use_certificate_chain_file(r->tls, r->options.certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(r->tls, r->options.key, SSL_FILETYPE_PEM), 1);
        SSL_CTX_set_alpn_select_cb(r->tls, choose, r);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(r->fd >= 0);
    assert_int_equal(bind(r->fd, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(r->fd, 4096), 0);
    assert_int_equal(getsockname(r->fd, (struct sockaddr *)&address, &n), 0);
    r->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&r->thread, NULL, accept_all, r), 0);
    return r;
}

uint16_t receiver_port(const receiver *r)
{
    return r->port;
}

unsigned receiver_connections(const receiver *r)
{
    return r->accepted;
}

unsigned receiver_requests(const receiver *r)
{
    return r->requests;
}

void receiver_stop(receiver *r)
{
    receiver_connection *c;
    r->stopping = true;
    shutdown(r->fd, SHUT_RDWR);
    pthread_join(r->thread, NULL);
    close(r->fd);
    pthread_mutex_lock(&r->lock);
    DL_FOREACH(r->open, c)
    shutdown(c->fd, SHUT_RDWR);
    while (r->open)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    SSL_CTX_free(r->tls);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void receiver_make_certificate(const char *certificate, const char *key)
{
    char command[1024];
    snprintf(
        command, sizeof(command),
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=receiver.test "
        "-addext subjectAltName=DNS:receiver.test -keyout '%s' -out '%s' 2>/dev/null",
        key, certificate);
    assert_int_equal(system(command), 0);
}
