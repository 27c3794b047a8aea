/*
 * UPDATEs and SELECTs of one table for many ids: prepared statements with "… id IN (?,…,?)", in seven sizes; a list
 * is filled up with its last id, which the server looks at each time, so that the next size is twice as large at most
 * where batches of callbacks are. An UPDATE of a join with a JSON_TABLE, which takes values of its own for each row,
 * makes the server note the rows first and find and write them again afterwards: a quarter more a row, twice as much
 * for few rows. A SELECT of such a join has it make a table of the ids first, and read that. For store/ only.
 *
 * A statement (*.sql) with `IN (?,...)` is such a constant: DT_ID_IN(before, after) is what the build writes for
 * it.
 */
#ifndef DT_MYSQL_ID_IN_H
#define DT_MYSQL_ID_IN_H

#include "base/text/strbuf.h"
#include "db.h"

#define DT_ID_IN_SIZES 7
#define DT_ID_IN_MOST  960 /* ids of one statement; MariaDB makes a table of them from 1,000 on, and joins that */
#define DT_ID_IN_HEAD  15  /* parameters before the list, at most */

struct dt_id_in {
    const char *sql[DT_ID_IN_SIZES];
};

#define DT_ID_IN_8                          "?,?,?,?,?,?,?,?"
#define DT_ID_IN_4_OF(marks)                marks "," marks "," marks "," marks
#define DT_ID_IN_32                         DT_ID_IN_4_OF(DT_ID_IN_8)
#define DT_ID_IN_128                        DT_ID_IN_4_OF(DT_ID_IN_32)
#define DT_ID_IN_512                        DT_ID_IN_4_OF(DT_ID_IN_128)
#define DT_ID_IN_64                         DT_ID_IN_32 "," DT_ID_IN_32
#define DT_ID_IN_256                        DT_ID_IN_128 "," DT_ID_IN_128
#define DT_ID_IN_384                        DT_ID_IN_256 "," DT_ID_IN_128
#define DT_ID_IN_960                        DT_ID_IN_512 "," DT_ID_IN_384 "," DT_ID_IN_64
#define DT_ID_IN_LIST(before, marks, after) before " IN (" marks ")" after
#define DT_ID_IN(before, after)                                                                                        \
    {                                                                                                                  \
        {                                                                                                              \
            DT_ID_IN_LIST(before, DT_ID_IN_8, after), DT_ID_IN_LIST(before, DT_ID_IN_32, after),                       \
                DT_ID_IN_LIST(before, DT_ID_IN_64, after), DT_ID_IN_LIST(before, DT_ID_IN_128, after),                 \
                DT_ID_IN_LIST(before, DT_ID_IN_256, after), DT_ID_IN_LIST(before, DT_ID_IN_512, after),                \
                DT_ID_IN_LIST(before, DT_ID_IN_960, after)                                                             \
        }                                                                                                              \
    }

/* A list of ids; borrowed for the call. */
struct dt_ids {
    const int64_t *v;
    size_t n;
};
#define DT_IDS(v, n) ((struct dt_ids){(v), (n)})

/* Runs the statement for all ids (ascending, so that rows are locked in that order), MOST at a time; `affected` counts
 * changed rows of all. `head`: the parameters before the list. */
DT_MUST_CHECK dt_status dt_id_in_run(dt_db *db, const struct dt_id_in *update, struct dt_params head, struct dt_ids ids,
                                     uint64_t *affected, struct dt_error *err);

/* Reads the rows of a query, MOST ids at a time. `row` takes each from the db, and runs nothing else on it; the status
 * that it fails with is returned, and it tells the reason itself. Rows come in the order of `ids` if they are ascending
 * and the query says ORDER BY. */
DT_MUST_CHECK dt_status dt_id_in_read(dt_db *db, const struct dt_id_in *query, struct dt_params head, struct dt_ids ids,
                                      dt_status (*row)(void *arg), void *arg, struct dt_error *err);

/*
 * A list of ids as the one parameter of statements that join JSON_TABLE(?, '$[*]' …): begins empty, grows by one id at
 * a time, is ended once. A failed allocation shows in list->failed. For store/ only.
 */

static inline void dt_id_list_add(struct dt_strbuf *list, int64_t id)
{
    dt_strbuf_addc(list, list->n ? ',' : '[');
    dt_strbuf_add_i64(list, id);
}

static inline void dt_id_list_end(struct dt_strbuf *list)
{
    dt_strbuf_adds(list, list->n ? "]" : "[]");
}

/*
 * Runs a DELETE of a join with such a list, for any number of ids. A DELETE … WHERE id IN (…) is no way: MariaDB
 * walks the whole table for it, whatever index is named, as long as it believes the table to be small, and waits for
 * every row that somebody has locked.
 */
DT_MUST_CHECK dt_status dt_id_list_delete(dt_db *db, const char *sql, struct dt_ids ids, uint64_t *removed,
                                          struct dt_error *err);

#endif
