/*
 * One client's socket, plain or with TLS: a greeting, bytes in the clear both ways, an end in each direction. Nothing
 * here waits; `may_read` and `may_write` say whether a call could do something. They begin true, become false when the
 * kernel has or takes no more, and are made true by the socket's events, which come edge-triggered. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tls_files.h"

struct ssl_st; /* OpenSSL's SSL */

struct dt_sock {
    int fd;              /* -1: closed */
    dt_tls_files *files; /* borrowed; NULL: plain */
    struct ssl_st *tls;  /* made when the first byte is there, because it costs memory */
    bool greeted;        /* always of a plain one */
    bool may_read, may_write;
    bool hung_up; /* the kernel said that the client has ended its side, or all */
    bool ended;   /* all that the client sent was read */
    bool broken;  /* for good; nothing can be read or written */
};

enum dt_sock_greeting {
    DT_SOCK_GREETED,
    DT_SOCK_GREETING, /* again, when something has happened on the socket */
    DT_SOCK_NOT_TLS,  /* the client does not begin as TLS begins. The socket is plain from now on */
    DT_SOCK_FAILED /* the client was sent an alert, if it could be. The socket is plain, so that input can be dropped */
};

/* Takes the socket over, which must be non-blocking. */
void dt_sock_init(struct dt_sock *sock, int fd, dt_tls_files *files);
/* Notes events of epoll. */
void dt_sock_event(struct dt_sock *sock, uint32_t events);
/* The handshake, as far as it goes now. */
enum dt_sock_greeting dt_sock_greet(struct dt_sock *sock);
/* The client and we chose HTTP/2 in the handshake. */
bool dt_sock_chose_h2(const struct dt_sock *sock);
/* Reads up to `room` bytes, once. 0: none are there, or the client's side has ended, or the socket is broken. */
size_t dt_sock_read(struct dt_sock *sock, char *p, size_t room);
/* Writes what the socket takes, and returns how much that is. more: further bytes follow at once. */
size_t dt_sock_write(struct dt_sock *sock, const char *p, size_t n, bool more);
/* Tells the client that nothing more comes. */
void dt_sock_part(struct dt_sock *sock);
void dt_sock_close(struct dt_sock *sock);
