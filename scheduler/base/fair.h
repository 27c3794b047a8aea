/*
 * How owners share what is scarce. Pure; the caller locks. An owner is a number (topic/owners.h).
 *
 *   a batch       dt_fair_share   each owner gets an equal part, and each of its queues an equal part of that
 *   turns         dt_turns        the owner that waited longest is first, with its thing that waited longest
 *   places        dt_shares       an owner leaves room for others, even if it keeps its places for long
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a batch ---- */

/* The due jobs of a topic, or its attempts whose acknowledgement is late (timeouts). */
struct dt_fair_queue {
    int64_t owner;
    size_t waiting;
    bool timeouts; /* if due jobs wait, all timeouts together get a quarter, so that claims are not delayed long */
    size_t quota;  /* out: at most `waiting`; the quotas add up to room, or to all that wait */
    size_t place, first; /* internal to dt_fair_share */
};
/* The queues are sorted by their first due time. If there are more owners, or queues of one owner, than room, the
 * first ones get one each. What a queue does not need, the others get. */
void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room);

/* ---- turns ---- */

/* When owners and their things last had a turn. All zero at first. The tables have a fixed size: if the entry of an
 * owner or thing was overwritten, it counts as never having had a turn. */
#define DT_TURNS_REMEMBERED 512
struct dt_turns {
    int64_t n;     /* number of turns so far */
    int64_t round; /* counted by the caller */
    struct dt_turns_last {
        int64_t key, turn;
    } owners[DT_TURNS_REMEMBERED], things[DT_TURNS_REMEMBERED];
};
struct dt_turn {
    int64_t owner, thing;           /* thing: its number, always the same */
    size_t at;                      /* set by the caller; the smallest is first among things that waited equally long */
    size_t nth;                     /* out: the number of things of its owner before it */
    int64_t owner_last, thing_last; /* internal to dt_turns_sort, like `first` */
    size_t first;
};
/* Sorts so that each owner's first thing comes before any owner's second thing. Owners, and the things of an owner,
 * are sorted by their last turns, the oldest first. turns may be NULL: there was no turn yet. */
void dt_turns_sort(const struct dt_turns *turns, struct dt_turn *v, size_t n);
void dt_turns_note(struct dt_turns *turns, int64_t owner, int64_t thing);

/* ---- places ---- */

/*
 * If other owners hold places, or asked within about DT_SHARES_ASKED_US, an owner gets at most 1/part of what they
 * leave free, so that each further owner finds some. If an owner is alone, it leaves an eighth free, unless
 * spares_none. An owner that holds none may take any amount that is free; if all is free, any amount at all.
 */
#define DT_SHARES_ASKED_US INT64_C(10000000)
struct dt_shares {
    size_t total; /* set by the caller, as part and spares_none; the rest is zero at first */
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
/* Puts into *most how much an owner may hold, including what it holds. This counts as asking. now_us: monotonic.
 * Returns false if memory runs out. */
bool dt_shares_most(struct dt_shares *shares, int64_t owner, int64_t now_us, size_t *most);
/* Takes an amount for an owner, until dt_shares_give_back. Returns false if the owner has its share, or memory is
 * out. */
bool dt_shares_take(struct dt_shares *shares, int64_t owner, size_t amount, int64_t now_us);
void dt_shares_give_back(struct dt_shares *shares, int64_t owner, size_t amount);
void dt_shares_clear(struct dt_shares *shares);
