/*
 * Why the jobs of a queue may not go, as one word, and what follows from it. Pure. Only shard_closed.c finds the reason
 * out; fair queues ask what follows. A further reason (a receiver that is full) is a word and a line of the table.
 */
#ifndef DT_DISPATCHER_CLOSED_H
#define DT_DISPATCHER_CLOSED_H

#include <stdbool.h>

enum dt_closed {
    DT_CLOSED_NOT,         /* open */
    DT_CLOSED_FINDING_OUT, /* whether the topic can be written is being found out */
    DT_CLOSED_NO_ROW,      /* jobs have the topic, and `topics` has not */
    DT_CLOSED_PAUSED,
    DT_CLOSED_LIMIT, /* it has no room within its limits */
    DT_CLOSED_FULL,  /* there is no place for its attempts in hands: memory says when there is one, so none is tried */
    DT_CLOSED_UNWRITABLE,
    DT_CLOSED_UNREAD /* timeouts: reports of the attempts may be unread */
};

struct dt_closed_rule {
    bool parks; /* what is due is parked, but for one job, which finds out whether the queue is open again */
    bool few;   /* what is due stays where it is; of a few such queues at a time one job each is tried */
    bool holds; /* what is parked stays parked */
    bool tries; /* of what is parked the first job comes back now and then, so that the topic is asked for again */
};

static inline struct dt_closed_rule dt_closed_rule(enum dt_closed closed)
{
    static const struct dt_closed_rule rules[] = {
        [DT_CLOSED_NOT] = {.parks = false},
        [DT_CLOSED_FINDING_OUT] = {.few = true},
        [DT_CLOSED_NO_ROW] = {.holds = true, .tries = true},
        [DT_CLOSED_PAUSED] = {.parks = true, .holds = true},
        [DT_CLOSED_LIMIT] = {.parks = true, .holds = true, .tries = true},
        [DT_CLOSED_FULL] = {.parks = true, .holds = true},
        [DT_CLOSED_UNWRITABLE] = {.parks = true, .holds = true, .tries = true},
        [DT_CLOSED_UNREAD] = {.holds = true},
    };
    return rules[closed];
}

#endif
