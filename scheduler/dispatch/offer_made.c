/* Offers jobs to pops as they are made. See jobs_txn.h. */
#include "job/change/jobs_txn.h"
#include "job/change/jobs.h"
#include "mysql/statements.h"

#define AHEAD_MS 50 /* clocks differ by less */

dt_status dt_offer_made(dt_db *db, const struct dt_insert_rows *rows, int64_t now_ms, struct dt_param *room,
                        struct dt_error *err)
{
    struct dt_param *p = room;
    for (size_t i = 0; i < rows->n; i++) {
        const struct dt_insert *row = rows->v[i];
        if (row->outcome != DT_INSERT_CREATED || !row->popped || row->job.run_at_ms > now_ms + AHEAD_MS)
            continue;
        *p++ = DT_P_STR(row->job.topic);
        *p++ = DT_P_INT(row->job.run_at_ms);
        *p++ = DT_P_INT(row->job.id);
    }
    const size_t n = (size_t)(p - room) / DT_OFFER_COLUMNS;
    return n ? dt_db_run_many(db, dt_sql_insert_offers, (struct dt_param_rows){room, DT_OFFER_COLUMNS, n}, NULL, err)
             : DT_OK;
}
