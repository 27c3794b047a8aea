/* Statements of leaders about their shards: one row a shard, replaced each time. */
#include "shard_stats.h"

#include <stdlib.h>

#include "mysql/db.h"
#include "mysql/statements.h"

dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n, struct dt_error *err)
{
    dt_db *db;
    enum { COLUMNS = 13 };
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK || n == 0)
        return status;
    struct dt_param *params = calloc(n * COLUMNS, sizeof(*params));
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_shard_stats *s = &stats[i];
        struct dt_param *p = &params[i * COLUMNS];
        p[0] = DT_P_INT(s->shard);
        p[1] = DT_P_INT(s->epoch);
        p[2] = DT_P_STR_OR_NULL(dt_str(s->waiting));
        p[3] = DT_P_STR_OR_NULL(dt_str(s->detail));
        p[4] = DT_P_INT(s->overdue);
        p[5] = DT_P_INT_OR_NULL(s->oldest_due_at_ms);
        p[6] = DT_P_INT(s->drift_missing);
        p[7] = DT_P_INT(s->drift_extra);
        p[8] = DT_P_INT(s->drift_wrong);
        p[9] = DT_P_INT(s->generation);
        p[10] = DT_P_STR_OR_NULL(dt_str(s->callbacks));
        p[11] = DT_P_INT(s->drains);
        p[12] = DT_P_INT(s->held);
    }
    status = dt_db_run_many(db, dt_sql_put_shard_stats, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
    free(params);
    return status;
}
