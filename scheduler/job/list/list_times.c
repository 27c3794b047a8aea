/*
 * Windows of a list by time, which walks the due index: see list_page.h.
 *
 *     due       near and offered to who pops (exact times) ──▶ far (by day, and by id within it)
 *     finished  those that leave late ──▶ those that leave soon ──▶ history, by id
 *     dead      those that leave late ──▶ history, by when they died ──▶ those that leave soon
 *
 * Each part of `jobs` is a range of one band of the index, in its order, or of two, whose orders are merged: a window
 * ends where the nearer of theirs does, so that it has at most a window's rows of each. A value of the index may be
 * one job's or a million's (a day of the far band), so a part is walked in two kinds of windows that take turns:
 * what is left *behind* a place within one value, by id, and what lies *between* that value and one some rows on,
 * which is the next place. Dead jobs stay in the table for longer than others, so they are mostly alone among those
 * that leave late.
 *
 * place.due_ms: the value that was reached, or when the last job died; place.id: how far within it, -1 when it is
 * done.
 */
#include "base/clock.h"
#include "list.h"
#include "list_page.h"
#include "mysql/statements.h"
#include "mysql/walk.h"

#define DAY_MS        86400000
#define DONE          (-1)
#define FIRST_MS      (INT64_MIN + 1)
#define BAND_OFFERED  (-1)
#define BAND_FAR      0
#define BAND_NEAR     1
#define BAND_FINISHED 2

enum part { BEGINS, NEAR, FAR, LEAVE_LATE, LEAVE_SOON, ARCHIVED, OVER, ARCHIVED_DEAD };

static const enum part next_part[] = {
    [NEAR] = FAR, [FAR] = OVER, [LEAVE_LATE] = LEAVE_SOON, [LEAVE_SOON] = ARCHIVED, [ARCHIVED] = OVER};

/* A part of one band names it twice. */
static const int64_t bands_of[][2] = {[NEAR] = {BAND_NEAR, BAND_OFFERED},
                                      [FAR] = {BAND_FAR, BAND_FAR},
                                      [LEAVE_LATE] = {BAND_FINISHED, BAND_FINISHED},
                                      [LEAVE_SOON] = {BAND_FINISHED, BAND_FINISHED}};

/* The first value of the index that a part can have. */
static int64_t first_of(const struct page *p, enum part part)
{
    const struct dt_list_filter *f = p->filter;
    switch (part) {
    case NEAR:
        return dt_later(f->due.from_ms, 0);
    case FAR:
        return dt_later(f->due.from_ms, 0) - dt_later(f->due.from_ms, 0) % DAY_MS;
    case LEAVE_LATE:
        return p->place.split_ms;
    case ARCHIVED_DEAD:
        return f->failed.given ? dt_later(f->failed.from_ms, FIRST_MS) : FIRST_MS;
    default:
        return 0;
    }
}

/* The first value that it has no more. What is due at the epoch, or before, has the value 1. */
static int64_t end_of(const struct page *p, enum part part)
{
    const struct dt_list_filter *f = p->filter;
    switch (part) {
    case NEAR:
    case FAR:
        return dt_later(f->due.to_ms, 2);
    case LEAVE_SOON:
        return p->place.split_ms;
    default:
        return INT64_MAX;
    }
}

static void begin_part(struct page *p, enum part part)
{
    p->place.part = (int)part;
    p->place.due_ms = first_of(p, part) - 1;
    p->place.id = part == ARCHIVED ? 0 : part == ARCHIVED_DEAD ? INT64_MAX : DONE;
}

/* Ends the window where that many rows of the first band end, or of the other one, if that is nearer; w->cut: one of
 * them has so many. */
static dt_status find_due(struct page *p, struct window *w)
{
    const int64_t *bands = bands_of[p->place.part];
    const bool between = p->place.id == DONE;
    const struct dt_param after = DT_P_INT(p->place.due_ms);
    const struct dt_param rows = DT_P_INT(w->rows - 1);
    dt_status status = DT_OK;
    w->cut = false;
    w->range = between ? RANGE_BETWEEN_DUE : RANGE_BEHIND_DUE;
    w->end_due_ms = between ? end_of(p, (enum part)p->place.part) : 0;
    for (int i = 0; status == DT_OK && i < (bands[1] != bands[0] ? 2 : 1); i++) {
        const struct dt_param band = DT_P_INT(bands[i]);
        int64_t end_id = w->end_id;
        bool cut = false;
        if (between) /* the band is looked at up to the window's end alone, so what is found is nearer */
            status = dt_db_read_numbers(p->db, dt_sql_find_window_between_due,
                                        DT_PARAMS(band, after, DT_P_INT(w->end_due_ms), rows), &cut, &w->end_due_ms, 1,
                                        p->err);
        else
            status = dt_db_read_numbers(p->db, dt_sql_find_window_behind_due,
                                        DT_PARAMS(band, after, DT_P_INT(p->place.id), rows), &cut, &end_id, 1, p->err);
        w->end_id = end_id < w->end_id ? end_id : w->end_id;
        w->cut |= cut;
    }
    return status;
}

/* Jobs that died later than is asked for are not looked at. */
static dt_status find_dead(struct page *p, struct window *w)
{
    const struct dt_list_times *failed = &p->filter->failed;
    const int64_t end_ms = failed->given ? failed->to_ms : INT64_MAX;
    const struct dt_walk_place after = {p->place.due_ms, p->place.id};
    struct dt_walk_place end = {end_ms, w->end_id};
    w->range = RANGE_DEAD;
    dt_status status = dt_walk_times(p->db, dt_sql_find_dead_window, after, w->rows, &end, &w->cut, p->err);
    w->cut = w->cut && end.at_ms < end_ms;
    w->end_due_ms = w->cut ? end.at_ms : end_ms;
    w->end_id = w->cut ? end.id : w->end_id;
    return status;
}

dt_status dt_list_find_times(struct page *p, struct window *w)
{
    if (p->place.part == BEGINS)
        begin_part(p, p->filter->due.given ? NEAR : LEAVE_LATE);
    w->end_id = INT64_MAX;
    if (p->place.part == ARCHIVED_DEAD)
        return find_dead(p, w);
    if (p->place.part != ARCHIVED)
        return find_due(p, w);
    w->range = RANGE_ARCHIVED;
    return dt_walk_ids(p->db, dt_sql_find_archived_window_by_id, p->place.id, w->rows, &w->end_id, &w->cut, p->err);
}

size_t dt_list_times_params(const struct page *p, const struct window *w, struct dt_param *params)
{
    size_t n = 0;
    if (w->range == RANGE_DEAD) {
        const struct dt_walk_place after = {p->place.due_ms, p->place.id};
        const struct dt_walk_place end = {w->end_due_ms, w->end_id};
        return (size_t)(dt_walk_time_params(end, dt_walk_time_params(after, params)) - params);
    }
    for (size_t i = 0; i < 2 && w->range != RANGE_ARCHIVED; i++)
        params[n++] = DT_P_INT(bands_of[p->place.part][i]);
    if (w->range != RANGE_ARCHIVED)
        params[n++] = DT_P_INT(p->place.due_ms);
    if (w->range != RANGE_BETWEEN_DUE)
        params[n++] = DT_P_INT(p->place.id);
    params[n++] = DT_P_INT(w->range == RANGE_BETWEEN_DUE ? w->end_due_ms : w->end_id);
    return n;
}

bool dt_list_pass_times(struct page *p, const struct window *w)
{
    /* Dead jobs of history come before those few that are about to go there, among all that finished lately. */
    static const enum part of_dead[] = {
        [LEAVE_LATE] = ARCHIVED_DEAD, [ARCHIVED_DEAD] = LEAVE_SOON, [LEAVE_SOON] = OVER};
    const bool dead = p->filter->state == DT_DEAD && !p->filter->due.given;
    if (w->range == RANGE_DEAD && w->cut)
        p->place = (struct dt_list_place){p->place.part, p->place.split_ms, w->end_due_ms, w->end_id};
    else if (w->range == RANGE_BETWEEN_DUE && w->cut)
        p->place = (struct dt_list_place){p->place.part, p->place.split_ms, w->end_due_ms, 0};
    else if (w->range != RANGE_BETWEEN_DUE && w->cut)
        p->place.id = w->end_id;
    else if (w->range == RANGE_BEHIND_DUE)
        p->place.id = DONE;
    else
        begin_part(p, dead ? of_dead[p->place.part] : next_part[p->place.part]);
    return p->place.part != OVER;
}
