/*
 * A mailbox wakes a loop. Other threads, ours or a library's (ZooKeeper's, Kafka's, the HTTP server's), post signals to
 * it; one thread, the owner's, waits for them. A signal is a bit. Signals that are posted before the owner waits are
 * or-ed together: a bit says that something happened, not how often.
 */
#ifndef DT_BASE_MAILBOX_H
#define DT_BASE_MAILBOX_H

#include <stdint.h>

#include "status.h"

typedef struct dt_mailbox dt_mailbox;

DT_MUST_CHECK dt_status dt_mailbox_new(dt_mailbox **out);
void dt_mailbox_free(dt_mailbox *box); /* accepts NULL */
/* Any thread; never fails, never blocks. */
void dt_mailbox_signal(dt_mailbox *box, uint32_t bits);
/*
 * The owner's thread. Sleeps until a signal is there or the monotonic clock reads until_us (absolute;
 * INT64_MAX = for ever; in the past = do not sleep). Returns the bits and clears them; 0 = time is up.
 */
uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us);
/* The owner's thread. Sleeps until until_us, or until one of the bits in `ends` is there; other signals neither shorten
 * the pause nor wake the thread. Returns all bits that came meanwhile, and clears them. A bit that an earlier wait has
 * returned ends nothing. */
uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends);

#endif
