/*
 * A mailbox: how threads that are not ours (ZooKeeper's, Kafka's, the HTTP server's) and threads of ours
 * talk to a loop. Two kinds of post: a *signal* is a bit that is or-ed in (any number of posts before the
 * loop looks are one), never fails, never blocks, and is what wakes a loop.
 */
#ifndef DT_BASE_MAILBOX_H
#define DT_BASE_MAILBOX_H

#include <stdint.h>

#include "base/status.h"

typedef struct dt_mailbox dt_mailbox;

DT_MUST_CHECK dt_status dt_mailbox_new(dt_mailbox **out);
void dt_mailbox_free(dt_mailbox *box); /* accepts NULL */
/* Any thread. */
void dt_mailbox_signal(dt_mailbox *box, uint32_t bits);
/*
 * The owner's thread. Sleeps until a signal is there or the monotonic clock reads until_us (absolute;
 * INT64_MAX = for ever; in the past = do not sleep). Returns the bits and clears them; 0 = time is up.
 */
uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us);
/* A pause until then: signals do not shorten it, but those of `ends` do (an end that was taken by an earlier wait is
 * for the caller to look at before). Returns all bits that came meanwhile, cleared. */
static inline uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends)
{
    uint32_t came = 0;
    uint32_t bits;
    do {
        bits = dt_mailbox_wait(box, until_us);
        came |= bits;
    } while (bits && !(bits & ends));
    return came;
}

#endif
