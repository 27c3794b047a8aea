/*
 * The bounded walk over an index: where a *window* of a known number of rows ends. Lists, operations, and what looks at
 * dead jobs find windows here, and read with statements of their own what a window has. Nothing is locked.
 *
 *     after ──window──▶ end ──window──▶ end … ▶ fewer rows than a window has: the index (or the range) ends
 *
 * Statements that find windows take the place that a window begins after and, last, an offset. For store/ only.
 */
#ifndef DT_MYSQL_WALK_H
#define DT_MYSQL_WALK_H

#include "db.h"

/* A row of an index in order of time. */
struct dt_walk_place {
    int64_t at_ms, id;
};
/* A range of the keys of a topic, from a first one on. Texts are borrowed. */
struct dt_walk_keys {
    struct dt_str topic;
    struct dt_str first; /* a key, or what keys begin with; unless the walk has passed `after` */
    struct dt_str after; /* the last key of the window before; absent: the walk begins */
    struct dt_str end;   /* dt_key_range_add_end */
};

/* Brings *end_id nearer if that many rows end before it; *cut: they do not end with the table. */
DT_MUST_CHECK dt_status dt_walk_ids(dt_db *db, const char *sql, int64_t after_id, int64_t rows, int64_t *end_id,
                                    bool *cut, struct dt_error *err);
/* Finds where that many rows end. *cut is false if there are fewer; *end then stays as it is. */
DT_MUST_CHECK dt_status dt_walk_times(dt_db *db, const char *sql, struct dt_walk_place after, int64_t rows,
                                      struct dt_walk_place *end, bool *cut, struct dt_error *err);
/* Likewise; *end_key, in the arena, is absent if there are fewer. */
DT_MUST_CHECK dt_status dt_walk_by_key(dt_db *db, const struct dt_walk_keys *keys, int64_t rows, struct dt_arena *arena,
                                       struct dt_str *end_key, struct dt_error *err);

/* Add the parameters that say where a window begins, and return the next place. */
struct dt_param *dt_walk_time_params(struct dt_walk_place at, struct dt_param *p);
#define DT_WALK_KEY_PARAMS 5
struct dt_param *dt_walk_key_params(const struct dt_walk_keys *keys, struct dt_param *p);

#endif
