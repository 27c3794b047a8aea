/*
 * Lines of waiting pops: who waits for the same topics with the same time to report stands in one line, and is served
 * in the order in which he came. Pure, but for memory; the room (pop_room.c) locks it.
 */
#ifndef DT_API_POP_LINES_H
#define DT_API_POP_LINES_H

/* An element that could not be added has no table (hh.tbl is NULL), and belongs to whoever tried. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "pop_wish.h"
#include "request/request.h"

/* One who waits. */
struct dt_pop_waiter {
    struct dt_pop_line *line;
    struct dt_pop_waiter *prev, *next; /* in its line */
    dt_detached *detached;
    int fd; /* the detached answer's */
    size_t max;
    enum dt_pop_form form;
    int64_t until_us; /* monotonic */
};

struct dt_pop_topic_entry;

/* A line stands in the list of each of its topics. */
struct dt_pop_place {
    struct dt_pop_line *line;
    struct dt_pop_place *prev, *next;
    struct dt_pop_topic_entry *topic;
};

struct dt_pop_line {
    UT_hash_handle hh;
    struct dt_str key;       /* of the table: its topics and ttr */
    struct dt_pop_wish wish; /* max, wait_ms and form mean nothing */
    struct dt_pop_waiter *first;
    size_t n;
    struct dt_pop_place *places; /* one a topic */
    bool ready;                  /* something may be there: it is on the list of these */
    struct dt_pop_line *next_ready;
};

/* A topic that somebody waits for. */
struct dt_pop_topic_entry {
    UT_hash_handle hh;
    struct dt_str name;
    struct dt_pop_place *first;
};

struct dt_pop_lines {
    struct dt_pop_line *lines;         /* a table */
    struct dt_pop_topic_entry *topics; /* a table */
    struct dt_pop_line *ready, **ready_end;
    size_t n; /* who wait */
};

void dt_pop_lines_init(struct dt_pop_lines *lines);
/* Finds the line for a wish; NULL: nobody waits for it. */
struct dt_pop_line *dt_pop_lines_find(const struct dt_pop_lines *lines, const struct dt_pop_wish *wish);
/* Puts one who waits at the end of his line, which is made when needed. False: memory is out. */
bool dt_pop_lines_add(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, struct dt_pop_waiter *waiter);
/* Takes one out; a line that is empty then goes. */
void dt_pop_lines_remove(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter);
/* Something may be there for a line; for all lines of a topic, or (absent) for all. */
void dt_pop_lines_ready(struct dt_pop_lines *lines, struct dt_pop_line *line);
void dt_pop_lines_offer(struct dt_pop_lines *lines, struct dt_str topic);
/* Takes the line that has been ready for longest off the list; NULL: none is. */
struct dt_pop_line *dt_pop_lines_next_ready(struct dt_pop_lines *lines);

#endif
