/*
 * Lines of waiting pops: each topic has one, and its pops are served in the order in which they came, whatever else
 * they ask for (how many jobs, a time to report, further topics). A pop for several topics is in the line of each.
 * So an offer costs one claim, however differently the pops of its topic are worded. Pure, but for memory; the room
 * (pop_room.c) locks it.
 */
#ifndef DT_API_POP_LINES_H
#define DT_API_POP_LINES_H

#include "base/hash.h"
#include "pop_take.h"
#include "request/request.h"

#define DT_POP_AGAIN_US INT64_C(250000) /* after a claim that failed, or for which there was no memory … */
#define DT_POP_LATER_US                                                                                                \
    INT64_C(50000) /* … and after one that left something: rows were locked, or a limit reached; … */
#define DT_POP_STUCK_US                                                                                                \
    INT64_C(1000000) /* … twice as long after each further one that found locked rows alone, at most */

struct dt_pop_line;

/* A pop is in the line of each of its topics. */
struct dt_pop_place {
    struct dt_pop_waiter *waiter;
    struct dt_pop_line *line;
    struct dt_pop_place *prev, *next; /* in the line */
};

/* A pop that waits. */
struct dt_pop_waiter {
    struct dt_pop_waiter *prev, *next; /* of all */
    struct dt_pop_waiter *next_over;   /* the room's, while it ends waits */
    dt_detached *detached;
    int fd;         /* the detached answer's */
    size_t dropped; /* bytes that the client sent after its pop */
    size_t max;
    int64_t ttr_ms;
    enum dt_pop_form form;
    int64_t until_us; /* monotonic */
    int64_t owner;    /* of its first topic */
    size_t n_places;
    struct dt_pop_place places[];
};

struct dt_pop_line {
    UT_hash_handle hh;
    struct dt_str topic;
    int64_t owner; /* of the topic */
    struct dt_pop_place *first;
    bool ready;                      /* something may be offered, … */
    int64_t ready_us;                /* … and may be claimed from then on */
    int64_t pause_us;                /* after a claim that found locked rows alone; the next one is twice as long */
    struct dt_pop_line *prev, *next; /* of the ready ones */
};

struct dt_pop_lines {
    struct dt_pop_line *lines;     /* a table, by topic */
    struct dt_pop_line *ready;     /* utlist */
    struct dt_pop_waiter *waiters; /* utlist */
    size_t n;                      /* of waiters */
};

/* Makes a pop that is in no line, with room for its places. NULL: no memory. Freed with free. */
struct dt_pop_waiter *dt_pop_waiter_new(const struct dt_pop_wish *wish);
/* Says whether pops wait for each of these topics already. */
bool dt_pop_lines_await(const struct dt_pop_lines *lines, const struct dt_pop_wish *wish);
/* Puts a pop at the ends of the lines of its topics, which are made if needed. owners: of the topics. False: no memory.
 */
bool dt_pop_lines_add(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, const int64_t *owners,
                      struct dt_pop_waiter *waiter);
/* Takes a pop out of its lines; lines that are empty then are removed. True: one of these was ready. */
bool dt_pop_lines_remove(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter);
/* Something may be offered of a topic: its line, if it has one, may be served from then on. 0: at once. */
void dt_pop_lines_ready(struct dt_pop_lines *lines, struct dt_str topic, int64_t from_us);
/* When the first of the ready lines may be served; INT64_MAX: none is ready. */
int64_t dt_pop_lines_next_us(const struct dt_pop_lines *lines);
/* Brings one line of each owner to the front, of those that may be served; returns how many lines to serve: one of each
 * owner, or several of an owner that is alone. The arena is for this call; if it is out of memory, the line that has
 * been ready for longest comes first. */
size_t dt_pop_lines_rotate(struct dt_pop_lines *lines, int64_t now_us, struct dt_arena *arena);
/* Takes the first line that may be served off the ready ones; NULL: there is none. */
struct dt_pop_line *dt_pop_lines_next_ready(struct dt_pop_lines *lines, int64_t now_us);
/* Takes note of a claim for a line that was taken off the ready ones. True: the claim left something, so the line, if
 * it is still there, is ready again. An offer that was heard of meanwhile has made it ready already. */
bool dt_pop_lines_claimed(struct dt_pop_lines *lines, struct dt_str topic, dt_status status,
                          const struct dt_popped *popped, int64_t now_us);

#endif
