/*
 * Decides who goes next when more is due than fits: each topic gets an equal part, and what one does not need goes to
 * the others. Pure. A fair queue holds the due jobs of one topic, or its acknowledgements that did not come in time.
 */
#ifndef DT_BASE_FAIR_H
#define DT_BASE_FAIR_H

#include <stdbool.h>
#include <stddef.h>

struct dt_fair_queue {
    size_t waiting; /* in */
    bool timeouts;  /* in: beside others all timeouts together get a quarter, so that they keep no claim waiting long */
    size_t quota;   /* out: at most waiting; the sum is room, or all that wait */
};
/* Queues in order of their first due time: when there are more queues than room, the first ones get one each. */
void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room);

#endif
