/*
 * Housekeeping in bounded steps: what comes near is indexed exactly, what manual edits ended is counted. Each step can
 * be repeated or cut off at any point. What leaves `jobs` is archiver.c's.
 *
 * If a manual edit ends an attempt or a job, its row still has the attempt_status `dispatched` or leave_at 0: only we
 * write those. The due index has such rows in one place (band 2, key 0). Until they are counted here they count as
 * before the edit, for the audit as well: so an edit is counted once.
 */
#include "housekeeping.h"

#include "job/change/jobs_row.h"
#include "mysql/id_list.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids, struct dt_counts *counts,
                        struct dt_arena *arena, struct dt_error *err)
{
    struct dt_strbuf locked;
    dt_strbuf_init(&locked);
    /* Locks the edited rows that no other transaction holds, and counts each in the state that it was given. */
    dt_status status = dt_db_query(db, dt_sql_lock_edited, DT_PARAMS(DT_P_STR(ids)), err);
    while (status == DT_OK && dt_db_next(db)) {
        int64_t id = dt_db_i64(db, 0);
        bool attempted = dt_row_attempt_status(db, 3) == DT_ATTEMPT_DISPATCHED;
        bool lived = dt_db_i64(db, 4) == 0;
        enum dt_job_state is = DT_SCHEDULED;
        struct dt_str topic = dt_arena_copy(arena, dt_db_bytes(db, 1));
        status = topic.p ? dt_row_state(db, 2, &is) : dt_fail(err, DT_NOMEM, "out of memory");
        if (status != DT_OK)
            break;
        /* Not a move: figures have what callers and consumers did. */
        const enum dt_job_state was = attempted ? DT_DISPATCHED : lived ? DT_SCHEDULED : is;
        dt_counts_add(counts, topic, dt_count_piece(id), (int)was, -1);
        dt_counts_add(counts, topic, dt_count_piece(id), (int)is, 1);
        dt_id_list_add(&locked, id);
    }
    dt_id_list_end(&locked);
    dt_status ended = dt_db_end(db, status == DT_OK ? err : NULL);
    if (status == DT_OK)
        status = ended == DT_OK && locked.failed ? DT_NOMEM : ended;
    if (status == DT_OK && locked.n > 2)
        status = dt_db_run(db, dt_sql_end_edited,
                           DT_PARAMS(DT_P_STR(dt_strbuf_str(&locked)), DT_P_INT(config->history_dead_after),
                                     DT_P_INT(config->history_after)),
                           NULL, err);
    dt_strbuf_clear(&locked);
    return status;
}

/* Lists the ids that a query finds; *n of them. */
static dt_status select_ids(dt_db *db, const char *sql, struct dt_params params, struct dt_strbuf *list, size_t *n,
                            struct dt_error *err)
{
    dt_strbuf_reset(list);
    dt_status status = dt_db_query(db, sql, params, err);
    if (status != DT_OK)
        return status;
    for (*n = 0; dt_db_next(db); ++*n)
        dt_id_list_add(list, dt_db_i64(db, 0));
    dt_id_list_end(list);
    status = dt_db_end(db, err);
    return status == DT_OK && list->failed ? DT_NOMEM : status;
}

dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf ids;
    struct dt_counts counts;
    struct dt_arena arena;
    dt_status ended = DT_OK;
    size_t edited = 0;
    size_t coming = 0;
    const struct dt_param end = DT_P_INT(dt_near_end_ms(now_ms));
    dt_strbuf_init(&ids);
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = select_ids(db, dt_sql_select_edited, DT_PARAMS(DT_P_INT(limit)), &ids, &edited, err);
    if (status == DT_OK && edited) {
        dt_counts_init(&counts);
        dt_arena_init(&arena);
        ended = dt_db_begin(db, err);
        if (ended == DT_OK)
            ended = dt_edited_end(db, dt_store_config(store), dt_strbuf_str(&ids), &counts, &arena, err);
        ended = dt_counts_commit(db, &counts, ended, err);
        dt_arena_clear(&arena);
    }
    if (ended != DT_OK)
        edited = 0;
    if (status == DT_OK)
        status = select_ids(db, dt_sql_select_coming_near, DT_PARAMS(end, DT_P_INT(limit)), &ids, &coming, err);
    if (status == DT_OK && coming)
        status = dt_db_run(db, dt_sql_promote_jobs, DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids)), end), NULL, err);
    *done = edited > coming ? edited : coming;
    dt_strbuf_clear(&ids);
    return status == DT_OK && ended != DT_BUSY ? ended : status; /* busy rows are found again */
}

dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf ids;
    *done = 0;
    dt_strbuf_init(&ids);
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status =
            select_ids(db, dt_sql_select_old_notices, DT_PARAMS(DT_P_INT(before_ms), DT_P_INT(limit)), &ids, done, err);
    if (status == DT_OK && *done)
        status = dt_db_run(db, dt_sql_delete_messages, DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids))), NULL, err);
    dt_strbuf_clear(&ids);
    return status;
}
