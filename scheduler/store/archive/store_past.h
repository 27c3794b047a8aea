/*
 * Where one job of history is. A statement that names its partitions has nothing to do with the others, so they are
 * read first (history_days), a few at a time, and given as parameters:
 *
 *     struct dt_past past = dt_past_of(id);
 *     do {
 *         status = dt_past_next(db, &past, err);
 *         if (!status)
 *             status = look(db, "… WHERE id = ? AND part IN " DT_PAST_PARTS_SQL, past.params, DT_PAST_PARAMS, …);
 *     } while (dt_past_more(&past, status));
 *
 * NOT_FOUND: nowhere. For store/ only.
 */
#ifndef DT_STORE_STORE_PAST_H
#define DT_STORE_STORE_PAST_H

#include "store/db/db.h"

#define DT_PAST_PARTS     8
#define DT_PAST_PARTS_SQL "(?,?,?,?,?,?,?,?)"
#define DT_PAST_PARAMS    (1 + DT_PAST_PARTS)

struct dt_past {
    struct dt_param params[DT_PAST_PARAMS]; /* the id and its next partitions */
    size_t n;                               /* so many of them */
    int64_t after;                          /* those up to here were looked into */
    bool rest, again;                       /* `rest` was among them; all are looked into for the second time */
};

struct dt_past dt_past_of(int64_t id);
/* NOT_FOUND: there are no more. */
DT_MUST_CHECK dt_status dt_past_next(dt_db *db, struct dt_past *past, struct dt_error *err);
/* Shall the look that ended so be repeated? */
bool dt_past_more(struct dt_past *past, dt_status status);

#endif
