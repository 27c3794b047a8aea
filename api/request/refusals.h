/*
 * What a token has had refused in batches, element by element, kept as a debt of time. An element that is refused costs
 * the API as much as one that is made, and nothing else holds its sender back: not the room of the queue, not the disk.
 * So a batch is answered only when its token's debt is paid, and the next one is begun only then. Batches that are cut
 * off have all their elements refused: their answers hold nobody back.
 *
 * Each refused element adds the time that it may take, by a rate; a burst is free, so that an honest batch with faults
 * in it is answered at once. This is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371,
 * annex A), with a bound on the debt: whoever stops is served as before within seconds.
 *
 * Any thread; a zero struct has no debt.
 */
#ifndef DT_API_REFUSALS_H
#define DT_API_REFUSALS_H

#include <stdint.h>

#define DT_REFUSED_RATE    1000             /* elements a second */
#define DT_REFUSED_BURST   10000            /* elements that are free, at rest */
#define DT_REFUSED_REST_US INT64_C(5000000) /* the longest rest */

struct dt_refusals {
    _Atomic int64_t paid_us; /* monotonic: when all is paid, the burst, too */
};

/* Adds so many refused elements. Returns for how long their batch rests before it is answered, in us. */
int64_t dt_refusals_add(struct dt_refusals *refusals, int64_t elements, int64_t now_us);

#endif
