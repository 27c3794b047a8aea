/* See id_in.h. */
#include "id_in.h"

#include "base/assert.h"

static const size_t sizes[DT_ID_IN_SIZES] = {8, 32, 64, 128, 256, 512, DT_ID_IN_MOST};

struct list {
    struct dt_param params[DT_ID_IN_HEAD + DT_ID_IN_MOST];
    size_t n_head, n;
    const char *sql;
};

static void begin_param_list(struct list *list, struct dt_params head)
{
    dt_assert_cmp(head.n, <=, DT_ID_IN_HEAD);
    if (head.n)
        memcpy(list->params, head.v, head.n * sizeof(*head.v));
    list->n_head = head.n;
}

/* Adds ids to the list, up to a statement's limit. Returns the number of added ids. */
static size_t fill_param_list(struct list *list, const struct dt_id_in *statement, const int64_t *ids, size_t n)
{
    size_t taken = n < DT_ID_IN_MOST ? n : DT_ID_IN_MOST;
    unsigned size = 0;
    dt_assert_cmp(taken, >, 0);
    while (sizes[size] < taken)
        size++;
    for (size_t i = 0; i < sizes[size]; i++)
        list->params[list->n_head + i] = DT_P_INT(ids[i < taken ? i : taken - 1]);
    list->n = list->n_head + sizes[size];
    list->sql = statement->sql[size];
    return taken;
}

dt_status dt_id_in_run(dt_db *db, const struct dt_id_in *update, struct dt_params head, struct dt_ids ids,
                       uint64_t *affected, struct dt_error *err)
{
    struct list list;
    dt_status status = DT_OK;
    *affected = 0;
    begin_param_list(&list, head);
    for (size_t first = 0; status == DT_OK && first < ids.n;) {
        uint64_t changed = 0;
        first += fill_param_list(&list, update, ids.v + first, ids.n - first);
        status = dt_db_run(db, list.sql, (struct dt_params){list.params, list.n}, &changed, err);
        *affected += changed;
    }
    return status;
}

dt_status dt_id_in_read(dt_db *db, const struct dt_id_in *query, struct dt_params head, struct dt_ids ids,
                        dt_status (*row)(void *arg), void *arg, struct dt_error *err)
{
    struct list list;
    dt_status status = DT_OK;
    begin_param_list(&list, head);
    for (size_t first = 0; status == DT_OK && first < ids.n;) {
        first += fill_param_list(&list, query, ids.v + first, ids.n - first);
        status = dt_db_query(db, list.sql, (struct dt_params){list.params, list.n}, err);
        while (status == DT_OK && dt_db_next(db))
            status = row(arg);
        dt_status ended = dt_db_end(db, status != DT_OK ? NULL : err);
        status = status != DT_OK ? status : ended;
    }
    return status;
}

dt_status dt_id_list_delete(dt_db *db, const char *sql, struct dt_ids ids, uint64_t *removed, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    *removed = 0;
    if (ids.n == 0)
        return DT_OK;
    for (size_t i = 0; i < ids.n; i++)
        dt_id_list_add(&list, ids.v[i]);
    dt_id_list_end(&list);
    dt_status status = dt_db_run(db, sql, DT_PARAMS(DT_P_BUF(&list)), removed, err);
    dt_strbuf_clear(&list);
    return status;
}
