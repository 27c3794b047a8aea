/* Rows of command_offsets outside of the transaction that raises them: see commands.h. */
#include "commands.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* Reading rows into places that are ascending, as the rows are. */
struct reading {
    dt_db *db;
    struct dt_command_place *v;
    size_t n, at;
};

void dt_command_digest(struct dt_str key, struct dt_str value, int64_t timestamp_ms, unsigned char digest[16])
{
    const struct dt_str time = {(const char *)&timestamp_ms, sizeof(timestamp_ms)};
    memset(digest, 0, 16);
    dt_job_digest_add(digest, time);
    dt_job_digest_add(digest, key);
    dt_job_digest_add(digest, value);
}

static dt_status take_place(void *arg)
{
    struct reading *r = arg;
    while (r->at < r->n && r->v[r->at].partition != dt_db_i64(r->db, 0))
        r->at++;
    if (r->at == r->n)
        return DT_OK;
    struct dt_command_place *place = &r->v[r->at];
    struct dt_str digest = dt_db_bytes(r->db, 3);
    bool known = !dt_db_is_null(r->db, 2) && digest.n == sizeof(place->digest);
    place->next = dt_db_i64(r->db, 1);
    place->halted = !dt_db_is_null(r->db, 4);
    place->last = known ? dt_db_i64(r->db, 2) : -1;
    if (known)
        memcpy(place->digest, digest.p, digest.n);
    return DT_OK;
}

dt_status dt_store_command_places(dt_store *store, struct dt_command_place *v, size_t n, struct dt_error *err)
{
    dt_db *db;
    unsigned tries = 0;
    dt_status status;
    do {
        for (size_t i = 0; i < n; i++)
            v[i].next = v[i].last = -1;
        status = dt_store_db(store, &db, err);
        if (status != DT_OK)
            return status;
        struct reading reading = {.db = db, .v = v, .n = n};
        int64_t ids[DT_ID_IN_MOST];
        for (size_t from = 0; from < n && status == DT_OK; from += DT_ID_IN_MOST) {
            size_t some = n - from < DT_ID_IN_MOST ? n - from : DT_ID_IN_MOST;
            for (size_t i = 0; i < some; i++)
                ids[i] = v[from + i].partition;
            status = dt_id_in_read(db, &dt_sql_select_command_offsets, DT_NO_PARAMS, DT_IDS(ids, some), take_place,
                                   &reading, err);
        }
        for (size_t i = 0; i < n && status == DT_OK; i++) /* partitions that have no row get one */
            if (v[i].next < 0)
                status = dt_db_run(db, dt_sql_insert_command_offset,
                                   DT_PARAMS(DT_P_INT(v[i].partition), DT_P_INT(0), DT_P_INT(0)), NULL, err);
    } while (dt_store_read_again(&tries, status));
    for (size_t i = 0; i < n; i++)
        v[i].next = v[i].next < 0 ? 0 : v[i].next;
    return status;
}

dt_status dt_store_halt_commands(dt_store *store, const struct dt_command_place *place, const char *reason,
                                 struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms = 0;
    dt_status status = dt_store_begin(store, &db, &now_ms, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_halt_commands,
                           DT_PARAMS(DT_P_STR_OR_NULL(dt_str(reason)), DT_P_INT(now_ms), DT_P_INT(place->partition),
                                     DT_P_INT(place->next)),
                           NULL, err);
    return dt_store_commit(db, status, err);
}
