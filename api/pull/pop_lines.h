/* Lines of waiting pops. Each topic has a line, and its pops are served in order of arrival, whatever they request
 * (number of jobs, ttr, further topics). A pop for several topics is in the line of each. So an offer costs one claim,
 * however different the pops of its topic are. Pure, except that lines allocate memory. The lock of the waiting room
 * (pop_room.c) protects the lines. */
#pragma once

#include "base/hash.h"
#include "pop_take.h"
#include "request/request.h"

/* Pauses between a claim for a line of waiting pops and the next claim for the same line. */
#define DT_POP_AGAIN_US INT64_C(250000)  /* the claim failed, or memory for it was not available */
#define DT_POP_LATER_US INT64_C(50000)   /* the claim left jobs: their rows were locked, or the topic is at a limit */
#define DT_POP_STUCK_US INT64_C(1000000) /* maximal pause if several claims in a row found only locked rows */

struct dt_pop_line;

/* The place of a waiting pop in the line of one of its topics. */
struct dt_pop_place {
    struct dt_pop_waiter *waiter;
    struct dt_pop_line *line;
    struct dt_pop_place *prev, *next; /* neighbours in the topic's queue of waiting pops */
};

/* A waiting pop. */
struct dt_pop_waiter {
    struct dt_pop_waiter *prev, *next; /* neighbours in the list of all waiting pops */
    struct dt_pop_waiter *next_over;   /* next pop whose wait ends; used by pop_room.c */
    dt_detached *detached;
    int fd; /* socket of the detached answer */
    size_t max;
    int64_t ttr_ms;
    enum dt_pop_form form;
    int64_t until_us; /* monotonic: when the wait ends */
    int64_t owner;    /* owner of the pop's first topic */
    size_t n_places;
    struct dt_pop_place places[];
};

struct dt_pop_line {
    UT_hash_handle hh;
    struct dt_str topic;
    int64_t owner; /* owner of the topic */
    struct dt_pop_place *first;
    bool ready;                      /* the topic may have jobs on offer */
    int64_t ready_us;                /* monotonic: earliest time of the next claim */
    int64_t pause_us;                /* last pause after a claim that found only locked rows; doubles each time */
    struct dt_pop_line *prev, *next; /* neighbours in the list of lines that are ready for a claim */
};

struct dt_pop_lines {
    struct dt_pop_line *lines;     /* hash table of the lines (queues of waiting pops), by topic */
    struct dt_pop_line *ready;     /* lines whose topics may have jobs on offer (utlist) */
    struct dt_pop_waiter *waiters; /* waiting pops (utlist) */
    size_t n;                      /* number of waiting pops */
};

/* Creates a waiting pop that is in no topic's line yet. It has memory for a place in the line of each of its topics.
 * NULL: memory ran out. The caller frees the pop with free(). */
struct dt_pop_waiter *dt_pop_waiter_new(const struct dt_pop_wish *wish);
/* Returns true if pops already wait for each of these topics. */
bool dt_pop_lines_await(const struct dt_pop_lines *lines, const struct dt_pop_wish *wish);
/* Appends a pop to the queue (line) of each of its topics; creates missing lines. owners: the owner of each topic.
 * False: out of memory. */
bool dt_pop_lines_add(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, const int64_t *owners,
                      struct dt_pop_waiter *waiter);
/* Removes a pop from the queues (lines) of its topics, and frees lines that have no pops any more. True: a line that
 * was freed was ready, which means that its topic may have jobs on offer. */
bool dt_pop_lines_remove(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter);
/* Called when a topic may have jobs on offer. If pops wait for the topic, its line (their queue) becomes ready: a claim
 * may be made for it from from_us on; 0: at once. */
void dt_pop_lines_ready(struct dt_pop_lines *lines, struct dt_str topic, int64_t from_us);
/* Returns when a claim may first be made for a ready line (a queue of pops); INT64_MAX: no line is ready. */
int64_t dt_pop_lines_next_us(const struct dt_pop_lines *lines);
/* Moves one line (a topic's queue of waiting pops) of each owner to the front of the ready lines, if a claim may be
 * made for it now. Returns for how many lines the caller should make claims: one of each owner, or several if only
 * one owner has lines. The arena is scratch memory; if memory runs out, the line that has been ready longest stays
 * first. */
size_t dt_pop_lines_rotate(struct dt_pop_lines *lines, int64_t now_us, struct dt_arena *arena);
/* Returns the first line (a topic's queue of waiting pops) for which a claim may be made now, and removes it from the
 * ready lines. NULL: there is none. */
struct dt_pop_line *dt_pop_lines_next_ready(struct dt_pop_lines *lines, int64_t now_us);
/* Must be called after the claim for a line (a topic's queue of waiting pops) that dt_pop_lines_next_ready returned.
 * True: the topic still has jobs on offer, so the line is ready again, if it still exists. (If an offer arrived
 * meanwhile, the line is already ready.) */
bool dt_pop_lines_claimed(struct dt_pop_lines *lines, struct dt_str topic, dt_status status,
                          const struct dt_popped *popped, int64_t now_us);
