/*
 * A list of ids as the one parameter of statements that join JSON_TABLE(?, '$[*]' …): begins empty, grows by one id at
 * a time, is ended once. A failed allocation shows in list->failed. For store/ only.
 */
#ifndef DT_MYSQL_ID_LIST_H
#define DT_MYSQL_ID_LIST_H

#include "base/text/strbuf.h"
#include "id_in.h"

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
