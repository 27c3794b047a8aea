/*
 * How owners share scarce capacity. Pure functions; the caller locks. An owner is a number (topic/owners.h).
 *
 *   a batch       dt_fair_share   each owner gets an equal part, and each of its queues an equal part of that part
 *   turns         dt_turns        the owner that waited longest is first, with the item of it that waited longest
 *   places        dt_shares       an owner leaves room for others, even if it keeps its places for long
 */
#pragma once

#include "base/status.h"

/* ---- a batch ---- */

/* A queue: the due jobs of a topic, or its attempts whose acknowledgement is late (timeouts). */
struct dt_fair_queue {
    int64_t owner;
    size_t waiting;
    bool timeouts;       /* timed-out attempts; all such queues together get a quarter if due jobs wait */
    size_t quota;        /* out: places for this queue, at most `waiting`; the sum is `room`, or less if less waits */
    size_t place, first; /* internal to dt_fair_share */
};
/* Sets the quotas. The queues must be sorted by their first due time. If there are more owners than places, or more
 * queues of an owner than the owner has places, the first of them get one place each. Places that a queue does not need
 * are divided among the other queues. */
void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room);

/* ---- turns ---- */

/* Remembers when owners, and their things (numbered items), last had a turn. Initialize with zeros. The tables have a
 * fixed size: if the entry of an owner or thing was overwritten, it counts as never having had a turn. */
#define DT_TURNS_REMEMBERED 512
struct dt_turns {
    int64_t n;     /* number of turns so far */
    int64_t round; /* number of rounds of the caller, which alone uses this member */
    struct dt_turns_last {
        int64_t key, turn;
    } owners[DT_TURNS_REMEMBERED], things[DT_TURNS_REMEMBERED];
};
struct dt_turn {
    int64_t owner, thing;           /* numbers of the owner and of the thing, which must not change */
    size_t at;                      /* set by the caller: order of the things that have waited equally long */
    size_t nth;                     /* out: number of things of the same owner that precede this thing */
    int64_t owner_last, thing_last; /* internal to dt_turns_sort, as is `first` */
    size_t first;
};
/* Sorts so that each owner's first thing precedes any owner's second thing. Owners, and the things of an owner, are
 * sorted by their last turns, the oldest first. turns may be NULL: no owner had a turn yet. */
void dt_turns_sort(const struct dt_turns *turns, struct dt_turn *v, size_t n);
void dt_turns_note(struct dt_turns *turns, int64_t owner, int64_t thing);

/* ---- places ---- */

/* Limits how many places each owner holds. If another owner holds places, or asked within about DT_SHARES_ASKED_US, an
 * owner gets at most 1/part of the places that the other owners leave free, so that each further owner finds some. If
 * no other owner holds places or asked, an owner leaves an eighth free, unless spares_none is set. An owner that holds
 * nothing may take any amount that is free; if all places are free, it may even take more than `total`. */
#define DT_SHARES_ASKED_US INT64_C(10000000)
struct dt_shares {
    /* Number of places; the caller sets `total`, `part` and `spares_none`, and zeroes all other members. */
    size_t total;
    unsigned part;
    bool spares_none;
    size_t used;
    struct dt_share {
        int64_t owner, asked_us;
        size_t used;
    } * v;
    size_t n, cap;
    int64_t pruned_us;
};
/* Sets *most to what an owner may hold, including what it already holds. From now on, the owner counts as one that asks
 * for places. now_us: monotonic. Returns false if memory runs out. */
bool dt_shares_most(struct dt_shares *shares, int64_t owner, int64_t now_us, size_t *most);
/* Takes `amount` places for an owner; dt_shares_give_back returns them. Returns false if the owner would hold more than
 * it may, or if memory runs out. */
bool dt_shares_take(struct dt_shares *shares, int64_t owner, size_t amount, int64_t now_us);
void dt_shares_give_back(struct dt_shares *shares, int64_t owner, size_t amount);
void dt_shares_clear(struct dt_shares *shares);
