/* See refusals.h. */
#include "refusals.h"

#include <stdatomic.h>

#define ELEMENT_US (INT64_C(1000000) / DT_REFUSED_RATE)
#define BURST_US   (DT_REFUSED_BURST * ELEMENT_US)

static int64_t within(int64_t v, int64_t least, int64_t most)
{
    return v < least ? least : v > most ? most : v;
}

int64_t dt_refusals_add(struct dt_refusals *refusals, int64_t elements, int64_t now_us)
{
    int64_t paid_us = atomic_load(&refusals->paid_us);
    int64_t next_us;
    do {
        next_us = within(paid_us, now_us, INT64_MAX) + elements * ELEMENT_US;
        next_us = within(next_us, now_us, now_us + BURST_US + DT_REFUSED_REST_US);
    } while (!atomic_compare_exchange_weak(&refusals->paid_us, &paid_us, next_us));
    return within(next_us - now_us - BURST_US, 0, DT_REFUSED_REST_US);
}
