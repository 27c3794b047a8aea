/* Attempts at growing distances: see until_ready.h. */
#include "until_ready.h"

#define PAUSE_FIRST_US INT64_C(100000)
#define PAUSE_MAX_US   INT64_C(3000000)

dt_status dt_until_ready(const struct dt_attempts *a, enum dt_outage_of what, dt_attempt_fn *attempt, void *arg)
{
    struct dt_outage_part outage = {0};
    int64_t pause_us = PAUSE_FIRST_US;
    while (!*a->stop) {
        struct dt_error err = {0};
        dt_status status = attempt(arg, &err);
        if (status == DT_OK) {
            dt_outage_over(&outage);
            return DT_OK;
        }
        dt_outage_failed(&outage, what, "dispatcher", "waits before it starts", status, &err);
        int64_t until_us =
            dt_clock_mono_us(a->clock) + pause_us / 2 + (int64_t)(a->random() % (uint64_t)(pause_us / 2));
        dt_mailbox_pause(a->mailbox, until_us, a->stop_bit);
        pause_us = pause_us * 2 < PAUSE_MAX_US ? pause_us * 2 : PAUSE_MAX_US;
    }
    return DT_SHUTDOWN;
}
