/*
 * Where connections wait until they have said what they want. Owns the listening socket and every connection until the
 * head of its first request has arrived whole; only then the HTTP server gets it, so that whoever says nothing, or says
 * it a byte at a time, keeps nobody else out. What is no request is refused with a problem before it takes a place.
 * Heads are looked at (MSG_PEEK), not read; later ones of a connection are looked at by http_receiver.h.
 *
 *   accepted -> waits for its head -> let in
 *                    |                  '--- no place: waits for one; whose request is there whole goes first, and of
 *                    |                       these /healthz, /readyz, and who shows a token
 *                    '--- too slow: 408, refused: 4xx, the longest waiting when the acceptor is full: closed
 *
 * One thread of its own. dt_acceptor_slot_freed: any thread; the others: one thread.
 */
#ifndef DT_API_ACCEPTOR_H
#define DT_API_ACCEPTOR_H

#include <sys/socket.h>

#include "base/clock.h"
#include "base/config.h"
#include "request/problem.h"

typedef struct dt_acceptor dt_acceptor;

struct dt_acceptor_server {
    void *arg;
    /* first: it may have one of those that are kept for health and for callers with a token, if their requests are
     * there whole. */
    bool (*has_slot)(void *arg, bool first);
    /* The socket is taken over; there was a place. */
    void (*hand_over)(void *arg, int fd, const struct sockaddr *address, socklen_t n);
    /* So many have waited for a place in vain: ends up to n connections that are silent or slow. pressing: whole
     * requests have waited for long. */
    void (*evict)(void *arg, size_t n, bool pressing);
    /* The socket is taken over; the problem is sent on it. */
    void (*refuse)(void *arg, int fd, enum dt_problem_type type, const char *detail);
};

/* listening: a bound, listening, non-blocking socket, taken over whatever happens. */
DT_MUST_CHECK dt_status dt_acceptor_start(const struct dt_config *config, const dt_clock *clock, int listening,
                                          const struct dt_acceptor_server *server, dt_acceptor **out,
                                          struct dt_error *err);
/* A place may have become free. */
void dt_acceptor_slot_freed(dt_acceptor *acceptor);
/* Nobody is accepted any more, and who waits is sent away. Returns when the thread has ended. Accepts NULL, and twice.
 */
void dt_acceptor_close(dt_acceptor *acceptor);
void dt_acceptor_free(dt_acceptor *acceptor);

#endif
