/*
 * One UPDATE of one table for many ids: prepared statements that end with "… id IN (?,…,?)", in four sizes; a list is
 * filled up with its last id. A join with a JSON_TABLE, which takes values of its own for each row, makes the server
 * note the rows first and find and write them again afterwards: a quarter more a row, twice as much for few rows. For
 * store/ only.
 *
 *   static const struct dt_id_in update = DT_ID_IN("UPDATE jobs j FORCE INDEX (PRIMARY) SET … WHERE … AND j.id");
 */
#ifndef DT_STORE_ID_IN_H
#define DT_STORE_ID_IN_H

#include "store/db.h"

#define DT_ID_IN_SIZES 4
#define DT_ID_IN_MOST  512 /* ids of one statement */
#define DT_ID_IN_HEAD  12  /* parameters before the list, at most */

struct dt_id_in {
    const char *sql[DT_ID_IN_SIZES];
};

#define DT_ID_IN_8           "?,?,?,?,?,?,?,?"
#define DT_ID_IN_4_OF(marks) marks "," marks "," marks "," marks
#define DT_ID_IN_32          DT_ID_IN_4_OF(DT_ID_IN_8)
#define DT_ID_IN_128         DT_ID_IN_4_OF(DT_ID_IN_32)
#define DT_ID_IN_512         DT_ID_IN_4_OF(DT_ID_IN_128)
#define DT_ID_IN(before)                                                                                               \
    {                                                                                                                  \
        {                                                                                                              \
            before " IN (" DT_ID_IN_8 ")", before " IN (" DT_ID_IN_32 ")", before " IN (" DT_ID_IN_128 ")",            \
                before " IN (" DT_ID_IN_512 ")"                                                                        \
        }                                                                                                              \
    }

/* Runs it for all ids (ascending, so that rows are locked in that order), MOST at a time; `affected` counts changed
 * rows of all. `head`: the parameters before the list. */
DT_MUST_CHECK dt_status dt_id_in_run(dt_db *db, const struct dt_id_in *update, const struct dt_param *head,
                                     size_t n_head, const int64_t *ids, size_t n, uint64_t *affected,
                                     struct dt_error *err);

#endif
