/*
 * How owners share what there is not enough of. Pure; the caller locks. An owner is a number (topic/owner.h).
 *
 *   a batch       dt_fair_share   each owner gets an equal part, and each of its queues an equal part of that
 *   turns         dt_turns        the owner that waited longest goes first, with that of its things that waited longest
 *   places        dt_shares       an owner leaves room for others, however long it keeps what it took
 */
#ifndef DT_BASE_FAIR_H
#define DT_BASE_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a batch ---- */

/* What waits of one topic: due jobs, or acknowledgements that did not come in time. */
struct dt_fair_queue {
    int64_t owner;
    size_t waiting;
    bool timeouts;       /* if others wait, all timeouts together get a quarter, so that claims do not wait long */
    size_t quota;        /* out: at most waiting; the sum is room, or all that wait */
    size_t place, first; /* for dt_fair_share alone */
};
/* Queues in order of their first due time: when there are more owners, or queues of one, than room, the first ones get
 * one each. What one does not need goes to the others. */
void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room);

/* ---- turns ---- */

/* When owners and their things last had a turn. All zero to begin with. The tables are fixed: an entry that another one
 * overwrote counts as one that never had a turn. */
#define DT_TURNS_REMEMBERED 512
struct dt_turns {
    int64_t n;     /* turns so far */
    int64_t round; /* the caller counts */
    struct dt_turns_last {
        int64_t key, turn;
    } owners[DT_TURNS_REMEMBERED], things[DT_TURNS_REMEMBERED];
};
/* A thing of an owner that waits for its turn. */
struct dt_turn {
    int64_t owner, thing;           /* thing: a number of it, always the same */
    size_t at;                      /* the caller's; of those that waited equally long the smallest goes first */
    size_t nth;                     /* out: how many things of its owner come before it */
    int64_t owner_last, thing_last; /* for dt_turns_sort alone, like `first` */
    size_t first;
};
/* Sorts so that each owner's first comes before any owner's second. Owners, and the things of one, are in order of
 * their last turns, the longest ago first; turns may be NULL: none had one. */
void dt_turns_sort(const struct dt_turns *turns, struct dt_turn *v, size_t n);
/* Notes that a thing has its turn. */
void dt_turns_note(struct dt_turns *turns, int64_t owner, int64_t thing);

/* ---- places ---- */

/*
 * While others have some, or asked within about DT_SHARES_ASKED_US, an owner takes at most 1/part of what they leave
 * free, so each further owner finds some. An owner that is alone leaves an eighth, unless spares_none. An owner that
 * holds none may take any amount that is free, or, if all is free, any amount at all.
 */
#define DT_SHARES_ASKED_US INT64_C(10000000)
struct dt_shares {
    size_t total; /* the caller sets it, part and spares_none, and zeroes the rest */
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
/* *most: how much an owner may hold, including what it holds. Counts as asking. now_us: monotonic. False: no memory. */
bool dt_shares_most(struct dt_shares *shares, int64_t owner, int64_t now_us, size_t *most);
/* Takes an amount for an owner, which dt_shares_give_back gives back. False: the owner has its share, or no memory. */
bool dt_shares_take(struct dt_shares *shares, int64_t owner, size_t amount, int64_t now_us);
void dt_shares_give_back(struct dt_shares *shares, int64_t owner, size_t amount);
void dt_shares_clear(struct dt_shares *shares);

#endif
