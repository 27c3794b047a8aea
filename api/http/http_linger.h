/*
 * Sockets that outlive their requests. A request that is refused before its body was read is answered at once; what its
 * client still sends is then read and dropped for a short while, because the kernel would answer it with a reset, which
 * takes the answer away from clients that send first and read later. Detached answers are sent from here, too.
 *
 * dt_linger_wait is called by one thread, for which it is also the alarm clock; all other functions by any thread.
 */
#ifndef DT_API_HTTP_LINGER_H
#define DT_API_HTTP_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text/strbuf.h"
#include "request/request.h"

typedef struct dt_linger dt_linger;

DT_MUST_CHECK dt_status dt_linger_new(dt_linger **out);
void dt_linger_free(dt_linger *linger);
/*
 * Writes text to this socket, which is taken over, as its peer reads it, then shuts it down for writing and lingers;
 * at until_us (monotonic) the socket is closed. text and hold are taken over, whatever happens. owner: for whom the
 * answer is (topic/owners.h, 0 = unknown). If it has its share of the places, only what the socket takes at once is
 * sent.
 */
void dt_linger_send(dt_linger *linger, int fd, struct dt_strbuf *text, struct dt_hold *hold, int64_t owner,
                    int64_t now_us, int64_t until_us);
/* The number of answers that are not sent yet. */
size_t dt_linger_unsent(dt_linger *linger);
/* Keeps a duplicate of this socket open until its peer closes, or until_us. Too many at a time: no lingering. */
void dt_linger_add(dt_linger *linger, int fd, int64_t until_us);
void dt_linger_wake(dt_linger *linger);
/* Reads and drops for at most timeout_ms (-1 = for ever), less when woken or when a socket is at its end. */
void dt_linger_wait(dt_linger *linger, int64_t now_us, int timeout_ms);

#endif
