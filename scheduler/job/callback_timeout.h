/* The time that a callback may take, from its request to the end of its answer: default, bounds, and a topic's own
 * setting. Pure. */
#ifndef DT_JOB_CALLBACK_TIMEOUT_H
#define DT_JOB_CALLBACK_TIMEOUT_H

#include "base/clock.h"
#include "job.h"

#define DT_CALLBACK_TIMEOUT_DEFAULT_MS INT64_C(10000)
#define DT_CALLBACK_TIMEOUT_MIN_MS     INT64_C(100)
#define DT_CALLBACK_TIMEOUT_MAX_MS     INT64_C(600000)

/* The timeout of a topic's callbacks; 0 stands for a setting that the topic does not have. The default is 10 seconds,
 * or half of a shorter acknowledgement timeout. */
static inline int64_t dt_callback_timeout_ms(int64_t timeout_ms, int64_t ack_timeout_ms)
{
    int64_t ack_ms = ack_timeout_ms > 0 ? ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS;
    if (timeout_ms > 0)
        return timeout_ms;
    return dt_later(dt_earlier(DT_CALLBACK_TIMEOUT_DEFAULT_MS, ack_ms / 2), 1);
}

#endif
