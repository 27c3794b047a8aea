/* See id_list.h. */
#include "id_list.h"

dt_status dt_id_list_delete(dt_db *db, const char *sql, struct dt_ids ids, uint64_t *removed, struct dt_error *err)
{
    struct dt_strbuf list;
    *removed = 0;
    if (ids.n == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    for (size_t i = 0; i < ids.n; i++)
        dt_id_list_add(&list, ids.v[i]);
    dt_id_list_end(&list);
    dt_status status = list.failed ? dt_fail(err, DT_NOMEM, "out of memory")
                                   : dt_db_run(db, sql, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), removed, err);
    dt_strbuf_clear(&list);
    return status;
}
