/*
 * The rate of a topic: how it is written ("100/s", "600/m"), and how many attempts it lets begin now. Pure.
 *
 * A generic cell rate algorithm. What it remembers is one number, next_ns: when the next attempt would begin if they
 * came at the rate exactly. Attempts may be ahead of that by a burst of nine tenths of what a second allows, and one
 * may always come when it is its time. So with a rate of r a second, whatever the order in which times are told, at
 * most 10 r + max(0.9 r, 1) attempts begin within any ten seconds: of those the first leaves next_ns at its own time +
 * 1/r at least, each further one adds 1/r, and the last found next_ns no later than its own time + the burst.
 */
#ifndef DT_TOPIC_RATE_H
#define DT_TOPIC_RATE_H

#include "base/text/strbuf.h"

#define DT_RATE_MAX 9999999 /* a second, or a minute */

/* Reads a rate as nanoseconds from one attempt to the next, rounded up. False: it is none. */
bool dt_rate_parse(struct dt_str text, int64_t *interval_ns);

/* A rate, and how far it is used. */
struct dt_rate {
    int64_t interval_ns; /* > 0 */
    int64_t next_ns;     /* 0 = nothing has begun yet */
};
/* Takes up what was counted at another rate (was_interval_ns, 0 = none), or by a clock that has gone back since. A
 * burst that was used up stays so, but for one attempt; that one waits until an interval of this rate has passed since
 * the last attempt, so that a rate which changes all the time lets begin no more than the fastest of them. */
void dt_rate_adopt(struct dt_rate *rate, int64_t was_interval_ns, int64_t now_ms);
/* The number of attempts that may begin at now_ms. */
size_t dt_rate_room(const struct dt_rate *rate, int64_t now_ms);
/* Counts n attempts that begin at now_ms; n is not above the room. */
void dt_rate_take(struct dt_rate *rate, int64_t now_ms, size_t n);
/* The first millisecond with room for an attempt, if nothing begins before. */
int64_t dt_rate_opens_ms(const struct dt_rate *rate);

#endif
