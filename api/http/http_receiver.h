/*
 * The receiver between a socket and the HTTP library: every request on a connection, the first and the hundredth, has
 * its framing looked at before the library gets it (frames.h). A head is given to it whole or not at all, what is
 * malformed never; so it makes no answers of its own, which would be pages of HTML, and never waits in the middle of a
 * head.
 *
 * The library has no place for this, so http_receiver.c defines recv(2) for the whole program. A socket without a
 * receiver is received from as ever. Who only looks (MSG_PEEK) sees the socket itself.
 *
 * new, free: on the connection's HTTP thread, while its socket is open. late, head_since_us, heard: any thread, as
 * long as it is known that the receiver is there.
 */
#ifndef DT_API_HTTP_RECEIVER_H
#define DT_API_HTTP_RECEIVER_H

#include <stdint.h>

#include "base/clock.h"
#include "job/problem.h"

typedef struct dt_receiver dt_receiver;

/*
 * The connection is at its end: what came was no request, or (DT_PROBLEM_TIMEOUT) its head did not come in time. On
 * the HTTP thread, inside the library's call: the answers to all requests before are sent. The library then learns
 * that the client has sent all it will.
 */
typedef void dt_receiver_refuse(void *arg, enum dt_problem_type type, const char *detail);

/* Returns NULL if memory is out, or if fd is too large for the table of receivers. */
dt_receiver *dt_receiver_new(int fd, const dt_clock *clock, dt_receiver_refuse *refuse, void *arg);
/* Accepts NULL. */
void dt_receiver_free(dt_receiver *receiver);

/* How many heads the library has got; HTTP thread only. */
uint64_t dt_receiver_heads(const dt_receiver *receiver);
/* When the first byte of a head came that is not whole yet; 0: there is none. */
int64_t dt_receiver_head_since_us(const dt_receiver *receiver);
/* Bytes that have come. */
uint64_t dt_receiver_heard(const dt_receiver *receiver);
/* The head has had its time: when the socket is shut down for reading, the client is told so. */
void dt_receiver_late(dt_receiver *receiver);

#endif
