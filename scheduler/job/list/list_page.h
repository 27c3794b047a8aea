/*
 * A page of a list of jobs while it is being filled: the parts that are the same for every kind of window. For
 * store/list/ only.
 *
 * A window is a range of an index that holds a known number of rows. store_list.c finds windows by id and by key, and
 * reads them all; list_times.c finds those of the due index, and of the dead in history. Functions fill in p->err when
 * they fail.
 */
#ifndef DT_JOB_LIST_PAGE_H
#define DT_JOB_LIST_PAGE_H

#include "list.h"
#include "store/store_internal.h"

/* The index that a window is a range of. */
enum range { RANGE_IDS, RANGE_KEYS, RANGE_BEHIND_DUE, RANGE_BETWEEN_DUE, RANGE_ARCHIVED, RANGE_DEAD };
#define RANGES (RANGE_DEAD + 1)

/* No end (absent, INT64_MAX): to the end of the range. */
struct window {
    enum range range;
    int64_t rows, end_id, end_due_ms;
    struct dt_str end_key;
    bool cut; /* the range goes on behind the window */
};

enum { LIST_FILTER_PARAMS = 24, LIST_ARCHIVED_PARAMS = 21 }; /* finished jobs have no due time */

struct page {
    dt_db *db;
    const struct dt_list_filter *filter;
    struct dt_param where[LIST_FILTER_PARAMS];
    struct dt_strbuf topics;  /* regular expression of the prefixes */
    struct dt_strbuf key_end; /* hexadecimal: upper bound of the keys */
    struct dt_arena *arena;
    struct dt_job *jobs;
    struct dt_list_place *places; /* of each job of a list by time */
    size_t n, part;               /* rows to ask for */
    size_t bytes, largest;        /* of the rows */
    int64_t after_id;             /* the cursor: everything up to it was looked at */
    struct dt_str after_key;
    struct dt_list_place place;
    int64_t looked_at;
    bool more;
    struct dt_error *err;
};

/* Sets p->where, and the texts that it points to (list_filter.c). */
DT_MUST_CHECK dt_status dt_list_set_filter(struct page *p);

/* The next window of a list by time (list_times.c). */
DT_MUST_CHECK dt_status dt_list_find_times(struct page *p, struct window *w);
/* Adds the parameters that say which range the window of a list by time is; returns how many. */
size_t dt_list_times_params(const struct page *p, const struct window *w, struct dt_param *params);
/* Goes on behind a window that was read whole. False: nothing lies behind it. */
bool dt_list_pass_times(struct page *p, const struct window *w);

#endif
