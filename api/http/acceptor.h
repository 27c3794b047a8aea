/*
 * The acceptor: it owns the listening sockets, and every connection until the head of its first request has arrived
 * whole. Only then the HTTP server gets the connection, so a client that says nothing, or says it a byte at a time,
 * takes no slot from others. What is no request is refused with a problem. Heads are looked at (MSG_PEEK), not read;
 * later heads of a connection are judged by http_receiver.h.
 *
 *   accepted -> waits for its head -> handed over
 *                    |                  '--- no slot: waits for one. Requests that are there whole go first, and of
 *                    |                       these /healthz, /readyz, and callers who show a token
 *                    '--- too slow: 408; refused: 4xx; the acceptor is full: the longest waiting is closed
 *
 * It has one thread, on which it calls the server. dt_acceptor_slot_freed: any thread; the others: one thread.
 */
#ifndef DT_API_ACCEPTOR_H
#define DT_API_ACCEPTOR_H

#include <sys/socket.h>

#include "base/clock.h"
#include "base/config.h"
#include "http_listen.h"
#include "job/problem.h"

typedef struct dt_acceptor dt_acceptor;

/* The HTTP server behind it. All functions are called on the acceptor's thread. */
struct dt_acceptor_server {
    void *arg;
    /* first: the connection may have one of the slots that are kept for health and for callers with a token. */
    bool (*has_slot)(void *arg, bool first);
    /* Takes the socket over; has_slot has just said true. */
    void (*hand_over)(void *arg, int fd, const struct sockaddr *address, socklen_t n);
    /* n connections have waited for a slot in vain: ends up to n that are silent or slow. pressing: whole requests have
     * waited for long. */
    void (*evict)(void *arg, size_t n, bool pressing);
    /*
     * A connection of a listener with TLS: takes its socket over, and gives one on which what it says is read and
     * answered in the clear. -1: it cannot. NULL where no listener has TLS.
     */
    int (*secure)(void *arg, int fd, const struct sockaddr *address);
    /* The socket is taken over; the problem is sent on it. */
    void (*refuse)(void *arg, int fd, enum dt_problem_type type, const char *detail);
};

/* listeners are taken over, whatever happens. */
DT_MUST_CHECK dt_status dt_acceptor_start(const struct dt_config *config, const dt_clock *clock,
                                          const struct dt_listeners *listeners, const struct dt_acceptor_server *server,
                                          dt_acceptor **out, struct dt_error *err);
/* A slot may have become free. */
void dt_acceptor_slot_freed(dt_acceptor *acceptor);
/* Accepts nobody any more, and refuses who waits. Returns when the thread has ended. Accepts NULL, and twice. */
void dt_acceptor_close(dt_acceptor *acceptor);
void dt_acceptor_free(dt_acceptor *acceptor);

#endif
