/* See id_in.h. Owns the sizes of lists; refuses to know what is updated. */
#include "store/id_in.h"

#include <string.h>

static const size_t sizes[DT_ID_IN_SIZES] = {8, 32, 128, DT_ID_IN_MOST};

static unsigned size_for(size_t n)
{
    unsigned i = 0;
    while (i + 1 < DT_ID_IN_SIZES && sizes[i] < n)
        i++;
    return i;
}

dt_status dt_id_in_run(dt_db *db, const struct dt_id_in *update, const struct dt_param *head, size_t n_head,
                       const int64_t *ids, size_t n, uint64_t *affected, struct dt_error *err)
{
    struct dt_param params[DT_ID_IN_HEAD + DT_ID_IN_MOST];
    *affected = 0;
    if (n_head > DT_ID_IN_HEAD)
        return dt_fail(err, DT_INTERNAL, "%zu parameters before a list of ids", n_head);
    memcpy(params, head, n_head * sizeof *params);
    for (size_t first = 0; first < n; first += DT_ID_IN_MOST) {
        size_t rest = n - first, now = rest < DT_ID_IN_MOST ? rest : DT_ID_IN_MOST;
        unsigned size = size_for(now);
        uint64_t changed = 0;
        for (size_t i = 0; i < sizes[size]; i++)
            params[n_head + i] = DT_P_INT(ids[first + (i < now ? i : now - 1)]);
        dt_status status = dt_db_run(db, update->sql[size], params, n_head + sizes[size], &changed, err);
        if (status)
            return status;
        *affected += changed;
    }
    return DT_OK;
}
