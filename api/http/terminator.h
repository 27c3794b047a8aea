/*
 * The TLS terminator: it stands between the sockets of clients and the HTTP server, so that everything behind it (the
 * acceptor, the HTTP library, answers past the library) reads and writes in the clear, as it does without TLS. Each
 * connection has a pair of sockets of this host: one end is the server's, the other one is pumped by one of a few
 * threads, which encrypt and decrypt.
 *
 *   client <== TLS ==> [ session, at most 16 KiB held each way ] <-- pair of sockets --> acceptor, HTTP server
 *
 * The server's end behaves as the client's socket would: it ends, half or whole, when the client's does, and the other
 * way round; who does not read stops who writes. So every deadline and bound of the server holds for TLS, the
 * handshake included: while that lasts, the connection waits for its first head with the acceptor, in its time and its
 * share.
 *
 * dt_terminator_secure: one thread. dt_terminator_stop: the owner's, when the server has closed its ends.
 */
#ifndef DT_API_TERMINATOR_H
#define DT_API_TERMINATOR_H

#include <sys/socket.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/http/tls_files.h"
#include "job/problem.h"

typedef struct dt_terminator dt_terminator;

/* Takes a socket over, and sends the problem on it, in the clear. Any thread. */
typedef void dt_terminator_refuse(void *arg, int fd, enum dt_problem_type type, const char *detail);

/* files is borrowed. SYSTEM, NOMEM. */
DT_MUST_CHECK dt_status dt_terminator_start(const struct dt_config *config, const dt_clock *clock, dt_tls_files *files,
                                            dt_terminator **out, struct dt_error *err);
/* Who is told of clients that do not speak TLS. Before the first connection. */
void dt_terminator_refuse_by(dt_terminator *terminator, dt_terminator_refuse *refuse, void *arg);
/* Takes ownership of a client's socket. Returns the server's end of a new non-blocking socket pair; -1 if memory or
 * descriptors run out: the socket is closed. */
int dt_terminator_secure(dt_terminator *terminator, int fd, const struct sockaddr *address);
/* Gives what is written its time to go out, ends the threads and frees. Accepts NULL. */
void dt_terminator_stop(dt_terminator *terminator);

#endif
