/*
 * TLS on one socket, by OpenSSL, as the server: a handshake, bytes in the clear both ways, and a farewell. Nothing here
 * waits. One thread at a time.
 */
#ifndef DT_BASE_HTTP_TLS_SESSION_H
#define DT_BASE_HTTP_TLS_SESSION_H

#include <stddef.h>

#include "tls_files.h"

enum dt_tls_outcome {
    DT_TLS_DONE,  /* as far as was asked for */
    DT_TLS_WAIT,  /* nothing was done: again, with the same bytes, when something has happened on the socket */
    DT_TLS_END,   /* the client sends nothing any more */
    DT_TLS_BROKEN /* for good */
};

struct ssl_st; /* OpenSSL's SSL */
typedef struct ssl_st dt_tls_session;

/* The socket stays the caller's. NULL: no memory. */
dt_tls_session *dt_tls_session_new(dt_tls_files *files, int fd);
/* Accepts NULL. */
void dt_tls_session_free(dt_tls_session *session);
/* BROKEN: *why is static text; the client was sent an alert. */
enum dt_tls_outcome dt_tls_session_greet(dt_tls_session *session, const char **why);
/* DONE: *n of up to `room` bytes have come. */
enum dt_tls_outcome dt_tls_session_read(dt_tls_session *session, char *p, size_t room, size_t *n);
/* DONE: *n of the bytes are on their way. */
enum dt_tls_outcome dt_tls_session_write(dt_tls_session *session, const char *p, size_t room, size_t *n);
/* Tells the client that nothing more comes, if the socket takes that now. */
void dt_tls_session_part(dt_tls_session *session);

#endif
