/* Invariants: each line has at least one pop; each waiting pop has a place in the line of each of its topics, and is
 * counted once in `n`; a line is in the list `ready` exactly while line->ready is set. */
#include "pop_lines.h"

#include <utlist.h>

#include "base/assert.h"
#include "base/fair.h"

#define ALONE_AT_ONCE 16

struct dt_pop_waiter *dt_pop_waiter_new(const struct dt_pop_wish *wish)
{
    struct dt_pop_waiter *waiter = calloc(1, sizeof(*waiter) + wish->n_topics * sizeof(*waiter->places));
    if (!waiter)
        return NULL;
    waiter->max = (size_t)wish->max;
    waiter->ttr_ms = wish->ttr_ms;
    waiter->form = wish->form;
    return waiter;
}

/* ---- lines ---- */

static struct dt_pop_line *find_topic_line(const struct dt_pop_lines *lines, struct dt_str topic)
{
    struct dt_pop_line *line = NULL;
    HASH_FIND(hh, lines->lines, topic.p, topic.n, line);
    return line;
}

/* Returns the line (queue of waiting pops) of a topic, and creates it if needed. NULL: out of memory. */
static struct dt_pop_line *ensure_topic_line(struct dt_pop_lines *lines, struct dt_str topic)
{
    struct dt_pop_line *line = find_topic_line(lines, topic);
    if (line)
        return line;
    line = calloc(1, sizeof(*line) + topic.n + 1);
    if (!line)
        return NULL;
    memcpy(line + 1, topic.p, topic.n);
    line->topic = (struct dt_str){(const char *)(line + 1), topic.n};
    HASH_ADD_KEYPTR(hh, lines->lines, line->topic.p, line->topic.n, line);
    if (line->hh.tbl)
        return line;
    free(line);
    return NULL;
}

static void remove_from_ready_lines(struct dt_pop_lines *lines, struct dt_pop_line *line)
{
    dt_assert(line->ready);
    DL_DELETE(lines->ready, line);
    line->ready = false;
}

static bool remove_from_all_lines(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter)
{
    bool ready = false;
    while (waiter->n_places) {
        struct dt_pop_place *place = &waiter->places[--waiter->n_places];
        struct dt_pop_line *line = place->line;
        dt_assert(line->first && place->waiter == waiter);
        DL_DELETE(line->first, place);
        if (line->first)
            continue;
        ready |= line->ready;
        if (line->ready)
            remove_from_ready_lines(lines, line);
        HASH_DEL(lines->lines, line);
        free(line);
    }
    return ready;
}

bool dt_pop_lines_await(const struct dt_pop_lines *lines, const struct dt_pop_wish *wish)
{
    for (size_t i = 0; i < wish->n_topics; i++)
        if (!find_topic_line(lines, wish->topics[i]))
            return false;
    return true;
}

bool dt_pop_lines_add(struct dt_pop_lines *lines, const struct dt_pop_wish *wish, const int64_t *owners,
                      struct dt_pop_waiter *waiter)
{
    for (size_t i = 0; i < wish->n_topics; i++) {
        struct dt_pop_line *line = ensure_topic_line(lines, wish->topics[i]);
        if (!line) {
            (void)remove_from_all_lines(lines, waiter);
            return false;
        }
        struct dt_pop_place *place = &waiter->places[waiter->n_places++];
        *place = (struct dt_pop_place){.waiter = waiter, .line = line};
        DL_APPEND(line->first, place);
        line->owner = owners[i];
    }
    dt_assert((lines->n == 0) == !lines->waiters);
    waiter->owner = owners[0];
    DL_APPEND(lines->waiters, waiter);
    lines->n++;
    return true;
}

bool dt_pop_lines_remove(struct dt_pop_lines *lines, struct dt_pop_waiter *waiter)
{
    dt_assert_cmp(lines->n, >, 0);
    DL_DELETE(lines->waiters, waiter);
    lines->n--;
    dt_assert((lines->n == 0) == !lines->waiters);
    return remove_from_all_lines(lines, waiter);
}

/* ---- ready lines ---- */

void dt_pop_lines_ready(struct dt_pop_lines *lines, struct dt_str topic, int64_t from_us)
{
    struct dt_pop_line *line = find_topic_line(lines, topic);
    if (!line)
        return;
    if (!line->ready)
        DL_APPEND(lines->ready, line);
    line->ready_us = line->ready && line->ready_us < from_us ? line->ready_us : from_us;
    line->ready = true;
}

int64_t dt_pop_lines_next_us(const struct dt_pop_lines *lines)
{
    const struct dt_pop_line *line;
    int64_t next_us = INT64_MAX;
    DL_FOREACH(lines->ready, line)
    next_us = dt_earlier(next_us, line->ready_us);
    return next_us;
}

size_t dt_pop_lines_rotate(struct dt_pop_lines *lines, int64_t now_us, struct dt_arena *arena)
{
    struct dt_pop_line *line;
    size_t n = 0;
    size_t owners = 0;
    DL_FOREACH(lines->ready, line)
    n += line->ready_us <= now_us;
    if (n == 0)
        return 0;
    struct dt_turn *turns = dt_arena_alloc(arena, (n + 1) * sizeof(*turns));
    struct dt_pop_line **v = dt_arena_alloc(arena, (n + 1) * sizeof(*v));
    if (!turns || !v)
        return 1;
    const size_t some = n < ALONE_AT_ONCE ? n : ALONE_AT_ONCE;
    n = 0;
    DL_FOREACH(lines->ready, line)
    if (line->ready_us <= now_us) {
        turns[n] = (struct dt_turn){.owner = line->owner, .at = n};
        v[n++] = line;
    }
    dt_turns_sort(NULL, turns, n); /* each call serves every owner once, so the order of owners does not matter */
    while (n-- > 0) {
        line = v[turns[n].at];
        DL_DELETE(lines->ready, line);
        DL_PREPEND(lines->ready, line);
        owners += turns[n].nth == 0;
    }
    return owners > 1 ? owners : some;
}

struct dt_pop_line *dt_pop_lines_next_ready(struct dt_pop_lines *lines, int64_t now_us)
{
    struct dt_pop_line *line;
    DL_FOREACH(lines->ready, line)
    if (line->ready_us <= now_us) {
        dt_assert(line->first);
        remove_from_ready_lines(lines, line);
        return line;
    }
    return NULL;
}

bool dt_pop_lines_claimed(struct dt_pop_lines *lines, struct dt_str topic, dt_status status,
                          const struct dt_popped *popped, int64_t now_us)
{
    struct dt_pop_line *line = find_topic_line(lines, topic);
    int64_t from_us = 0;
    int64_t pause_us = DT_POP_LATER_US;
    if (line && popped->passed && popped->n == 0 && line->pause_us)
        pause_us = dt_earlier(2 * line->pause_us, DT_POP_STUCK_US);
    if (line)
        line->pause_us = popped->passed && popped->n == 0 ? pause_us : 0;
    if (status != DT_OK)
        from_us = now_us + DT_POP_AGAIN_US;
    else if (popped->passed || popped->at_limit || (popped->more && popped->n == 0))
        from_us = now_us + pause_us;
    else if (!popped->refused.p && !popped->more)
        return false;
    dt_pop_lines_ready(lines, topic, from_us);
    return true;
}
