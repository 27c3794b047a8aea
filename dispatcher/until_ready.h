/* Waits, at the start of a process, for a server that it cannot begin without: an attempt is repeated until it
 * succeeds. */
#ifndef DT_DISPATCHER_UNTIL_READY_H
#define DT_DISPATCHER_UNTIL_READY_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/outage.h"

struct dt_attempts {
    const dt_clock *clock;
    dt_mailbox *mailbox; /* of the calling thread: slept on between attempts */
    uint32_t stop_bit;   /* the signal that ends a sleep */
    const _Atomic bool *stop;
    uint64_t (*random)(void);
};
typedef dt_status dt_attempt_fn(void *arg, struct dt_error *err);

/* Repeats `attempt` until it succeeds, at growing distances, or until *stop: SHUTDOWN. Failures are an outage of
 * `what`. */
DT_MUST_CHECK dt_status dt_until_ready(const struct dt_attempts *attempts, enum dt_outage_of what,
                                       dt_attempt_fn *attempt, void *arg);

#endif
