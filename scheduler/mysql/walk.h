/*
 * The bounded walk over an index: finds where a *window* of a given number of rows ends. Lists, operations and the
 * search for dead jobs find windows here, and read the rows of a window with statements of their own. Nothing is
 * locked.
 *
 *     after ──window──▶ end ──window──▶ end … ▶ fewer rows than a window has: the index (or the range) ends
 *
 * Statements that find windows take the place after which the window begins, and an offset as their last parameter. For
 * store/ only.
 */
#pragma once

#include "db.h"

/* A position in an index that is ordered by time. */
struct dt_walk_place {
    int64_t at_ms, id;
};
/* A range of the keys of a topic. Texts are borrowed. */
struct dt_walk_keys {
    struct dt_str topic;
    struct dt_str first; /* a key, or a prefix of keys, where the walk begins */
    struct dt_str after; /* the last key of the previous window; absent: the first window */
    struct dt_str end;   /* exclusive end of the range (dt_key_range_add_end) */
};

/* Finds the end of a window of `rows` rows after after_id. If the range has at least `rows` rows, sets *cut and
 * *end_id; else *end_id is unchanged. */
dt_status dt_walk_ids(dt_db *db, const char *sql, int64_t after_id, int64_t rows, int64_t *end_id, bool *cut,
                      struct dt_error *err);
/* Finds the end of a window of `rows` rows. If the range has fewer rows, *cut is false and *end is unchanged. */
dt_status dt_walk_times(dt_db *db, const char *sql, struct dt_walk_place after, int64_t rows, struct dt_walk_place *end,
                        bool *cut, struct dt_error *err);
/* Finds the key at the end of a window of `rows` rows. *end_key is in the arena; absent if the range has fewer rows. */
dt_status dt_walk_by_key(dt_db *db, const struct dt_walk_keys *keys, int64_t rows, struct dt_arena *arena,
                         struct dt_str *end_key, struct dt_error *err);

/* The three parameters for a bound of a window. */
#define DT_P_PLACE(at)     DT_P_INT((at).at_ms), DT_P_INT((at).at_ms), DT_P_INT((at).id)
#define DT_WALK_KEY_PARAMS 5
/* Writes the parameters for the beginning of a window to p. Returns the address after the last parameter. */
struct dt_param *dt_walk_key_params(const struct dt_walk_keys *keys, struct dt_param *p);
