/*
 * Lingering close: a request that is refused before its body was read is answered at once, and what the client still
 * sends is read and dropped for a short while; otherwise the kernel would answer the rest with a reset, which takes the
 * answer away from clients that send first and read later. An answer that the HTTP server cannot send, because the body
 * of its request broke off, is sent from here, too. Also the alarm clock of the thread that does it.
 * dt_linger_wait: one thread; the others: any thread.
 */
#ifndef DT_API_HTTP_LINGER_H
#define DT_API_HTTP_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "work/budget.h"

typedef struct dt_linger dt_linger;

DT_MUST_CHECK dt_status dt_linger_new(dt_linger **out);
void dt_linger_free(dt_linger *linger);
/*
 * Writes text to this socket, which is taken over, as its peer reads it, then shuts it down for writing and lingers;
 * all until until_us. text and hold are taken over, whatever happens.
 */
void dt_linger_send(dt_linger *linger, int fd, struct dt_strbuf *text, struct dt_hold *hold, int64_t until_us);
/* Answers that are not sent yet. */
size_t dt_linger_unsent(dt_linger *linger);
/* Keeps a duplicate of this socket open until its peer closes, or until_us. Too many at a time: no lingering. */
void dt_linger_add(dt_linger *linger, int fd, int64_t until_us);
void dt_linger_wake(dt_linger *linger);
/* Reads and drops for at most timeout_ms (-1 = for ever), less when woken or when a socket is at its end. */
void dt_linger_wait(dt_linger *linger, int64_t now_us, int timeout_ms);

#endif
