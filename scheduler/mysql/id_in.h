/*
 * Statements for many ids. For store/ only.
 *
 * A statement (*.sql) with `IN (?,...)` is a struct dt_id_in: prepared statements with "… id IN (?,…,?)" in seven
 * sizes. The build generates DT_ID_IN(before, after) for such a statement. A list is padded with its last id, so for
 * usual numbers of ids a statement is at most twice as large as needed. The alternative, a join with a JSON_TABLE, is
 * slower. For an UPDATE, the server first collects the rows, then finds and writes them again (a quarter more time per
 * row, twice as much for few rows). For a SELECT, it first makes a table of the ids.
 */
#pragma once

#include "base/text/strbuf.h"
#include "db.h"

#define DT_ID_IN_SIZES 7
#define DT_ID_IN_MOST  960 /* most ids of one statement; from 1,000 on, MariaDB makes a table of the ids and joins it */
#define DT_ID_IN_HEAD  15  /* most parameters before the list of ids */

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

struct dt_ids {
    const int64_t *v;
    size_t n;
};
#define DT_IDS(v, n) ((struct dt_ids){(v), (n)})

/* Runs the statement for all ids, DT_ID_IN_MOST at a time. `ids` must be ascending, because rows are locked in this
 * order. *affected: the number of rows that all statements changed. `head`: the parameters before the list. */
dt_status dt_id_in_run(dt_db *db, const struct dt_id_in *update, struct dt_params head, struct dt_ids ids,
                       uint64_t *affected, struct dt_error *err);

/* Reads the rows of a query, DT_ID_IN_MOST ids at a time. `row` is called for each row, reads its columns from the db,
 * and must run no other statement on this db. If `row` fails, it sets err, and its status is returned. Rows are read in
 * the order of `ids` if the ids are ascending and the query has ORDER BY. */
dt_status dt_id_in_read(dt_db *db, const struct dt_id_in *query, struct dt_params head, struct dt_ids ids,
                        dt_status (*row)(void *arg), void *arg, struct dt_error *err);

/* Builds a list of ids as one JSON parameter, for statements that join JSON_TABLE(?, '$[*]' …). The caller begins with
 * an empty list, adds ids, and ends the list once. If an allocation fails, list->failed is set. */

static inline void dt_id_list_add(struct dt_strbuf *list, int64_t id)
{
    dt_strbuf_addc(list, list->n ? ',' : '[');
    dt_strbuf_add_i64(list, id);
}

static inline void dt_id_list_end(struct dt_strbuf *list)
{
    dt_strbuf_adds(list, list->n ? "]" : "[]");
}

/* Deletes the rows of any number of ids. sql: a DELETE that joins JSON_TABLE(?, '$[*]' …). DELETE … WHERE id IN (…)
 * cannot be used: if MariaDB estimates that the table is small, it scans the whole table, even if the statement names
 * an index, and waits for every locked row. */
dt_status dt_id_list_delete(dt_db *db, const char *sql, struct dt_ids ids, uint64_t *removed, struct dt_error *err);
