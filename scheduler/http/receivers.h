/*
 * Remembers which HTTP/1 receivers send bytes beyond their answers. The client would take such bytes, for example a
 * second answer, for the answer to the next request on the connection, which may be another job's.
 *
 *           first answer       250 ms without further bytes
 *   new ─────────────────▶ heard ─────────────────▶ trusted
 *    ▲                        │ bytes beyond an answer │
 *    └──── after an hour ──── closing ◀────────────────┘
 *
 * Only the connections of a trusted receiver are used again. Until it is trusted, and while it is closing, all requests
 * but the first have a connection of their own with "Connection: close". A connection without a request is watched.
 * If surplus bytes arrive after the next request was written, they look like its answer.
 *
 * All functions are called by the client's thread; time is passed in, and monotonic.
 */
#ifndef DT_RECEIVERS_H
#define DT_RECEIVERS_H

#include "base/strbuf.h"

#define DT_RECEIVERS_MAX 10000 /* that are remembered, beside those with requests */

struct dt_client_exchange;
struct dt_receiver;
typedef struct dt_receivers dt_receivers;

DT_MUST_CHECK dt_status dt_receivers_new(dt_receivers **out);
void dt_receivers_free(dt_receivers *receivers); /* accepts NULL; all exchanges have ended */

/* An exchange is about to be handed to libcurl: sets `closes`, and `fresh` if it must use no kept connection. */
void dt_receivers_begin(dt_receivers *receivers, struct dt_client_exchange *exchange, int64_t now_us);
/* An exchange has ended, whether it began or not. whole: an answer was read to its end. */
void dt_receivers_end(struct dt_client_exchange *exchange, bool whole, int64_t now_us);

/* A connection has work for this exchange, or for an unknown one (NULL). True: it was watched. */
bool dt_receivers_use(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* A connection has no more work for this exchange, or is about to be closed. True: it must be watched. */
bool dt_receivers_rest(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* A connection is readable. True: it was watched, has no request, and need not be watched any more. */
bool dt_receivers_hear(dt_receivers *receivers, int fd, int64_t now_us);

#endif
