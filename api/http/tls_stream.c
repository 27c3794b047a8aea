/*
 * Owns how bytes go between a client with TLS and the server: see tls_stream.h. Refuses to know threads and time.
 *
 * Sockets are watched edge-triggered: each "may" is true until its call would block, and is made true again by any
 * event of its socket. A session may want to write in order to read and the other way round, so that an event of the
 * client's socket makes both true.
 */
#include "tls_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE 0x16 /* the first byte of every TLS connection */

void dt_tls_stream_init(struct dt_tls_stream *s, int client, int server)
{
    *s = (struct dt_tls_stream){.client = client, .server = server};
    s->may_read_client = s->may_write_client = s->may_read_server = s->may_write_server = true;
}

void dt_tls_stream_clear(struct dt_tls_stream *s)
{
    dt_tls_session_free(s->session);
    free(s->in.p);
    free(s->out.p);
    if (s->client >= 0)
        close(s->client);
    if (s->server >= 0)
        close(s->server);
}

/* ---- what is held ---- */

/* False: memory is out. */
static bool hold(struct dt_tls_held *held, const char *p, size_t n)
{
    held->p = malloc(n);
    if (!held->p)
        return false;
    memcpy(held->p, p, n);
    held->at = 0;
    held->n = n;
    return true;
}

static void let_go(struct dt_tls_held *held, size_t n)
{
    held->at += n;
    held->n -= n;
    if (held->n)
        return;
    free(held->p);
    *held = (struct dt_tls_held){NULL, 0, 0};
}

static bool end(struct dt_tls_stream *s)
{
    s->phase = DT_TLS_OVER;
    return false;
}

/* ---- from the client to the server ---- */

/* Gives the server what it takes; how much that is. What it will never take is dropped. */
static size_t give_server(struct dt_tls_stream *s, const char *p, size_t n)
{
    if (s->server_deaf)
        return n;
    ssize_t sent = send(s->server, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
        s->may_write_server = (size_t)sent == n;
        return (size_t)sent;
    }
    if (errno == EAGAIN || errno == EINTR) {
        s->may_write_server = errno == EINTR;
        return 0;
    }
    s->server_deaf = true;
    return n;
}

static bool end_of_client(struct dt_tls_stream *s)
{
    s->client_ended = true;
    shutdown(s->server, SHUT_WR);
    return true;
}

static bool read_client(struct dt_tls_stream *s, char *scratch)
{
    size_t n = 0;
    switch (dt_tls_session_read(s->session, scratch, DT_TLS_PIECE, &n)) {
    case DT_TLS_WAIT:
        s->may_read_client = false;
        return false;
    case DT_TLS_END:
        return end_of_client(s);
    case DT_TLS_BROKEN:
        return end(s);
    case DT_TLS_DONE:
        break;
    }
    size_t given = give_server(s, scratch, n);
    return given == n || hold(&s->in, scratch + given, n - given) || end(s);
}

static bool move_in(struct dt_tls_stream *s, char *scratch)
{
    if (s->in.n) {
        if (!s->may_write_server && !s->server_deaf)
            return false;
        size_t given = give_server(s, s->in.p + s->in.at, s->in.n);
        let_go(&s->in, given);
        return given > 0;
    }
    return !s->client_ended && s->may_read_client && read_client(s, scratch);
}

/* ---- from the server to the client ---- */

/* The server has said all: the client is told, and what it still sends is dropped. */
static bool part(struct dt_tls_stream *s)
{
    dt_tls_session_part(s->session);
    shutdown(s->client, SHUT_WR);
    s->phase = DT_TLS_PARTING;
    return true;
}

/* SIZE_MAX: the client is lost. */
static size_t give_client(struct dt_tls_stream *s, const char *p, size_t n)
{
    size_t sent = 0;
    switch (dt_tls_session_write(s->session, p, n, &sent)) {
    case DT_TLS_DONE:
        return sent;
    case DT_TLS_WAIT:
        s->may_write_client = false;
        return 0;
    default:
        return SIZE_MAX;
    }
}

static bool read_server(struct dt_tls_stream *s, char *scratch)
{
    ssize_t got = recv(s->server, scratch, DT_TLS_PIECE, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        s->may_read_server = errno == EINTR;
        return false;
    }
    if (got <= 0)
        return part(s);
    size_t given = give_client(s, scratch, (size_t)got);
    if (given == SIZE_MAX)
        return end(s);
    return given == (size_t)got || hold(&s->out, scratch + given, (size_t)got - given) || end(s);
}

static bool move_out(struct dt_tls_stream *s, char *scratch)
{
    if (!s->out.n)
        return s->may_read_server && read_server(s, scratch);
    size_t given = s->may_write_client ? give_client(s, s->out.p + s->out.at, s->out.n) : 0;
    if (given == SIZE_MAX)
        return end(s);
    let_go(&s->out, given);
    return given > 0;
}

/* ---- before and after ---- */

static bool fail(struct dt_tls_stream *s, enum dt_tls_failure failure, const char *why)
{
    s->failure = failure;
    s->why = why;
    return end(s);
}

/* The server has said something, or left, before there was a session to say it by: the client's time is up. */
static bool server_is_impatient(struct dt_tls_stream *s)
{
    char byte;
    if (!s->may_read_server)
        return false;
    s->may_read_server = false;
    return recv(s->server, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* A session costs memory: it is made for who has said something, and that TLS. */
static bool begin_greeting(struct dt_tls_stream *s, dt_tls_files *files)
{
    char first;
    ssize_t n = recv(s->client, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        s->may_read_client = errno == EINTR;
        return false;
    }
    if (n <= 0)
        return fail(s, DT_TLS_LEFT, "the client has left");
    if (first != HANDSHAKE)
        return fail(s, DT_TLS_NOT_TLS, "it is not TLS");
    s->session = dt_tls_session_new(files, s->client);
    s->phase = DT_TLS_GREETING;
    return s->session || fail(s, DT_TLS_REFUSED, "no memory");
}

/* What the client is told of its failure must not be taken from it by a reset. */
static bool fail_greeting(struct dt_tls_stream *s, const char *why)
{
    s->failure = DT_TLS_REFUSED;
    s->why = why;
    shutdown(s->client, SHUT_WR);
    s->phase = DT_TLS_PARTING;
    close(s->server);
    s->server = -1;
    return true;
}

static bool greet(struct dt_tls_stream *s)
{
    const char *why = NULL;
    switch (dt_tls_session_greet(s->session, &why)) {
    case DT_TLS_DONE:
        s->phase = DT_TLS_OPEN;
        s->may_read_server = true;
        return true;
    case DT_TLS_WAIT:
        s->may_read_client = s->may_write_client = false;
        return false;
    default:
        return fail_greeting(s, why);
    }
}

static bool drop_client(struct dt_tls_stream *s, char *scratch)
{
    ssize_t n = recv(s->client, scratch, DT_TLS_PIECE, MSG_DONTWAIT);
    if (n > 0)
        return true;
    s->may_read_client = false;
    return n < 0 && errno == EAGAIN ? false : end(s);
}

bool dt_tls_stream_move(struct dt_tls_stream *s, dt_tls_files *files, char *scratch)
{
    bool early = s->phase == DT_TLS_SILENT || s->phase == DT_TLS_GREETING;
    if (early && server_is_impatient(s))
        return fail(s, DT_TLS_LEFT, "its time is up");
    switch (s->phase) {
    case DT_TLS_SILENT:
        return s->may_read_client && begin_greeting(s, files);
    case DT_TLS_GREETING:
        return s->may_read_client && greet(s);
    case DT_TLS_OPEN: {
        bool in = move_in(s, scratch);
        return (s->phase == DT_TLS_OPEN && move_out(s, scratch)) || in;
    }
    case DT_TLS_PARTING:
        return s->may_read_client && drop_client(s, scratch);
    default:
        return false;
    }
}
