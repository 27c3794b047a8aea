/*
 * Calls of the system, and of OpenSSL, for one client's socket: see sock.h. Does not know what the bytes mean.
 *
 * If a read returns less than the buffer's size, the socket is empty: more bytes cause another edge. But an end that
 * arrived together with the last bytes causes no further edge, so a socket that hung up is read until it returns the
 * end.
 */
#include "sock.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

#define HANDSHAKE 0x16 /* first byte of every TLS connection */

/* ---- calls of OpenSSL; each leaves its queue of errors empty ---- */

/* Makes a TLS session. Returns NULL if memory runs out. */
static SSL *new_session(dt_tls_files *files, int fd)
{
    SSL_CTX *ctx = dt_tls_files_take(files);
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (ssl && SSL_set_fd(ssl, fd) == 1) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

/* Handles the result of reading or writing. Returns whether bytes were passed. *may becomes false if the call must be
 * repeated, with the same bytes, after an event of the socket; *ended becomes true if the client sends nothing more. */
static bool note_result(struct dt_sock *sock, int result, bool *may, bool *ended)
{
    const int error = SSL_get_error(sock->tls, result);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        *may = false;
    else if (error == SSL_ERROR_ZERO_RETURN)
        *ended = true;
    else if (error != SSL_ERROR_NONE)
        sock->broken = true;
    return error == SSL_ERROR_NONE;
}

/* ---- a socket ---- */

/* TLS may have to write in order to read, and to read in order to write: an event allows both to be tried. */
void dt_sock_event(struct dt_sock *sock, uint32_t events)
{
    const bool all = sock->tls || (events & (EPOLLHUP | EPOLLERR)) != 0;
    sock->may_read |= all || (events & (EPOLLIN | EPOLLRDHUP)) != 0;
    sock->may_write |= all || (events & EPOLLOUT) != 0;
    sock->hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
}

/* Handles a call that failed with errno. *may: whether the call is worth repeating now. */
static void handle_errno(struct dt_sock *sock, bool *may)
{
    if (errno == EAGAIN || errno == EINTR)
        *may = errno == EINTR;
    else
        sock->broken = true;
}

enum dt_sock_greeting dt_sock_greet(struct dt_sock *sock)
{
    const unsigned char *protocol = NULL;
    unsigned length = 0;
    char first;
    int error = SSL_ERROR_SSL;
    const char *why = "no memory";
    dt_assert(sock->files && !sock->greeted);
    if (!sock->tls) {
        ssize_t n = recv(sock->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0)
            handle_errno(sock, &sock->may_read);
        sock->ended = n == 0;
        if (n <= 0)
            return DT_SOCK_GREETING;
        sock->greeted = first != HANDSHAKE;
        if (sock->greeted)
            return DT_SOCK_NOT_TLS;
        sock->tls = new_session(sock->files, sock->fd);
        sock->broken = !sock->tls;
    }
    if (sock->tls) {
        ERR_clear_error();
        error = SSL_get_error(sock->tls, SSL_do_handshake(sock->tls));
        why = ERR_reason_error_string(ERR_peek_error());
        ERR_clear_error();
    }
    sock->greeted = error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
    if (!sock->greeted) {
        sock->may_read = sock->may_write = false;
        return DT_SOCK_GREETING;
    }
    if (error == SSL_ERROR_NONE) {
        SSL_get0_alpn_selected(sock->tls, &protocol, &length);
        return length == 2 && memcmp(protocol, "h2", 2) == 0 ? DT_SOCK_GREETED_H2 : DT_SOCK_GREETED;
    }
    DT_LOG(DEBUG, "tls", "TLS handshake failed", DT_S("why", why ? why : "the client has closed the connection"));
    SSL_free(sock->tls);
    sock->tls = NULL;
    return DT_SOCK_FAILED;
}

size_t dt_sock_read(struct dt_sock *sock, char *p, size_t room)
{
    size_t n = 0;
    dt_assert(sock->greeted && sock->fd >= 0 && room > 0);
    if (sock->tls) {
        ERR_clear_error();
        return note_result(sock, SSL_read_ex(sock->tls, p, room, &n), &sock->may_read, &sock->ended) ? n : 0;
    }
    ssize_t got = recvfrom(sock->fd, p, room, MSG_DONTWAIT, NULL, NULL);
    if (got < 0) {
        handle_errno(sock, &sock->may_read);
        return 0;
    }
    n = (size_t)got;
    sock->ended = n == 0;
    sock->may_read = n == room || (sock->hung_up && n > 0);
    return n;
}

size_t dt_sock_write(struct dt_sock *sock, const char *p, size_t n, bool more)
{
    size_t sent = 0;
    dt_assert(sock->fd >= 0);
    while (sent < n && sock->may_write && !sock->broken) {
        size_t some = 0;
        if (!sock->tls) {
            ssize_t put = send(sock->fd, p + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
            if (put < 0)
                handle_errno(sock, &sock->may_write);
            some = put > 0 ? (size_t)put : 0;
        } else {
            ERR_clear_error();
            if (!note_result(sock, SSL_write_ex(sock->tls, p + sent, n - sent, &some), &sock->may_write, &sock->broken))
                some = 0;
        }
        sent += some;
    }
    return sent;
}

void dt_sock_part(struct dt_sock *sock)
{
    if (sock->tls) {
        ERR_clear_error();
        (void)SSL_shutdown(sock->tls);
        ERR_clear_error();
    }
    shutdown(sock->fd, SHUT_WR);
}

void dt_sock_close(struct dt_sock *sock)
{
    dt_assert(sock->fd >= 0);
    SSL_free(sock->tls);
    close(sock->fd);
    sock->tls = NULL;
    sock->fd = -1;
}
