/* One client's socket, plain or with TLS: a handshake, decrypted bytes in both directions, an end in each direction. No
 * call waits; `may_read` and `may_write` say whether a call could do something. Both are true at first, become false
 * when the kernel has no bytes or accepts none, and become true again by the socket's events, which are edge-triggered.
 * For one thread. */
#pragma once

#include "tls_files.h"

struct ssl_st; /* SSL of OpenSSL */

/* At first, fd, files, may_read and may_write are set, and greeted if the socket is plain. */
struct dt_sock {
    int fd;              /* descriptor of a non-blocking socket; -1: closed */
    dt_tls_files *files; /* settings of TLS, borrowed; NULL: plain */
    struct ssl_st *tls;  /* TLS session, made when the first byte has arrived, because it costs memory */
    bool greeted;        /* the handshake is complete; always true for a plain socket */
    bool may_read, may_write;
    bool hung_up; /* the kernel reported that the client has closed its side or the connection */
    bool ended;   /* everything that the client sent was read */
    bool broken;  /* permanent; nothing can be read or written */
};

enum dt_sock_greeting {
    DT_SOCK_GREETED,
    DT_SOCK_GREETED_H2, /* HTTP/2 was negotiated in the handshake */
    DT_SOCK_GREETING,   /* repeat the call after an event of the socket */
    DT_SOCK_NOT_TLS,    /* the first bytes are not TLS; the socket is plain from now on */
    /* The handshake failed; an alert was sent if possible; the rest is read as plain bytes, and dropped. */
    DT_SOCK_FAILED
};

/* Updates may_read, may_write and hung_up by events of epoll. */
void dt_sock_event(struct dt_sock *sock, uint32_t events);
/* Continues the TLS handshake as far as possible. */
enum dt_sock_greeting dt_sock_greet(struct dt_sock *sock);
/* Reads once, up to `room` bytes. Returns 0 if no bytes are available, the client has closed its side, or the socket is
 * broken. */
size_t dt_sock_read(struct dt_sock *sock, char *p, size_t room);
/* Writes as much as the socket accepts, and returns how much. more: further bytes follow at once. */
size_t dt_sock_write(struct dt_sock *sock, const char *p, size_t n, bool more);
/* Tells the client that nothing more is sent. */
void dt_sock_part(struct dt_sock *sock);
void dt_sock_close(struct dt_sock *sock);
