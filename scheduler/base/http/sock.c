/*
 * Owns the calls of the system for one client's socket: see sock.h. Refuses to know what is said on it.
 *
 * A read that returns less than it has room for has emptied the socket: more is another edge. But an end that came
 * together with the last bytes is no further edge, so a socket that hung up is read until it says so.
 */
#include "sock.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

#define HANDSHAKE 0x16 /* the first byte of every TLS connection */

void dt_sock_init(struct dt_sock *sock, int fd, dt_tls_files *files)
{
    *sock = (struct dt_sock){.fd = fd, .files = files, .greeted = !files, .may_read = true, .may_write = true};
}

/* A session may want to write in order to read, and the other way round: an event lets both be tried. */
void dt_sock_event(struct dt_sock *sock, uint32_t events)
{
    const bool all = sock->tls || (events & (EPOLLHUP | EPOLLERR)) != 0;
    sock->may_read |= all || (events & (EPOLLIN | EPOLLRDHUP)) != 0;
    sock->may_write |= all || (events & EPOLLOUT) != 0;
    sock->hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
}

/* Notes what a call has said that did nothing: *may says whether it is worth another. */
static void note_error(struct dt_sock *sock, bool *may)
{
    if (errno == EAGAIN || errno == EINTR)
        *may = errno == EINTR;
    else
        sock->broken = true;
}

enum dt_sock_greeting dt_sock_greet(struct dt_sock *sock)
{
    char first;
    const char *why = NULL;
    dt_assert(sock->files && !sock->greeted);
    if (!sock->tls) {
        ssize_t n = recv(sock->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0)
            note_error(sock, &sock->may_read);
        sock->ended = n == 0;
        if (n <= 0)
            return DT_SOCK_GREETING;
        if (first != HANDSHAKE) {
            sock->files = NULL;
            sock->greeted = true;
            return DT_SOCK_NOT_TLS;
        }
        sock->tls = dt_tls_session_new(sock->files, sock->fd);
        sock->broken = !sock->tls;
    }
    switch (sock->tls ? dt_tls_session_greet(sock->tls, &why) : DT_TLS_BROKEN) {
    case DT_TLS_DONE:
        sock->greeted = true;
        return DT_SOCK_GREETED;
    case DT_TLS_WAIT:
        sock->may_read = sock->may_write = false;
        return DT_SOCK_GREETING;
    default:
        DT_LOG(DEBUG, "tls", "no handshake", DT_S("why", why ? why : "no memory"));
        dt_tls_session_free(sock->tls);
        sock->tls = NULL;
        sock->files = NULL;
        sock->greeted = true;
        return DT_SOCK_FAILED;
    }
}

size_t dt_sock_read(struct dt_sock *sock, char *p, size_t room)
{
    size_t n = 0;
    dt_assert(sock->greeted && sock->fd >= 0 && room > 0);
    if (sock->tls) {
        switch (dt_tls_session_read(sock->tls, p, room, &n)) {
        case DT_TLS_DONE:
            return n;
        case DT_TLS_WAIT:
            sock->may_read = false;
            return 0;
        case DT_TLS_END:
            sock->ended = true;
            return 0;
        case DT_TLS_BROKEN:
            sock->broken = true;
            return 0;
        }
    }
    ssize_t got = recvfrom(sock->fd, p, room, MSG_DONTWAIT, NULL, NULL);
    if (got < 0) {
        note_error(sock, &sock->may_read);
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
                note_error(sock, &sock->may_write);
            some = put > 0 ? (size_t)put : 0;
        } else {
            enum dt_tls_outcome outcome = dt_tls_session_write(sock->tls, p + sent, n - sent, &some);
            some = outcome == DT_TLS_DONE ? some : 0;
            sock->may_write = outcome == DT_TLS_DONE;
            sock->broken |= outcome == DT_TLS_BROKEN || outcome == DT_TLS_END;
        }
        sent += some;
    }
    return sent;
}

void dt_sock_part(struct dt_sock *sock)
{
    if (sock->tls)
        dt_tls_session_part(sock->tls);
    shutdown(sock->fd, SHUT_WR);
}

void dt_sock_close(struct dt_sock *sock)
{
    dt_assert(sock->fd >= 0);
    dt_tls_session_free(sock->tls);
    close(sock->fd);
    sock->tls = NULL;
    sock->fd = -1;
}
