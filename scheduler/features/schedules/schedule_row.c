/* Reads and writes the columns of schedules and of their progress, in the order of schedules.sql. No other file depends
 * on that order. */
#include "schedule_row.h"

#include "base/text/timetext.h"
#include "mysql/statements.h"

#define PROGRESS_COLUMNS 10

const char *const dt_overlap_names[] = {"allow", "skip", "cancel", NULL};

const char *dt_overlap_name(enum dt_overlap overlap)
{
    return dt_overlap_names[overlap];
}

static int64_t clamp_i64(int64_t value, int64_t least, int64_t most)
{
    return dt_earlier(dt_later(value, least), most);
}

/* Reads a number; a number below 1 becomes 1, NULL becomes 0. */
static int64_t read_positive_column(const dt_db *db, unsigned column, int64_t most)
{
    return dt_db_is_null(db, column) ? 0 : clamp_i64(dt_db_i64(db, column), 1, most);
}

/* Reads a time. It is limited to the times that duetime can write, so that adding a duration cannot overflow. */
static int64_t read_time_column(const dt_db *db, unsigned column)
{
    return clamp_i64(dt_db_i64(db, column), -DT_TIME_MAX_MS, DT_TIME_MAX_MS + 1);
}

static int64_t read_duration_column(const dt_db *db, unsigned column)
{
    return clamp_i64(dt_db_i64(db, column), 0, DT_DURATION_MAX_MS);
}

dt_status dt_schedule_take(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_schedule *s = row;
    struct dt_new_job *job = &s->job;
    const struct dt_str digest = dt_db_bytes(db, 16);
    const int64_t overlap = dt_db_i64(db, 8) - 1;
    bool ok = true;
    *s = (struct dt_schedule){
        .name = dt_store_text(db, 0, arena, &ok),
        .cron = dt_store_text(db, 2, arena, &ok),
        .every_ms = read_duration_column(db, 3),
        .anchor_ms = read_time_column(db, 4),
        .time_zone = dt_store_text(db, 5, arena, &ok),
        .has_start = !dt_db_is_null(db, 6),
        .has_end = !dt_db_is_null(db, 7),
        .starts_at_ms = read_time_column(db, 6),
        .ends_at_ms = read_time_column(db, 7),
        .overlap = overlap > 0 && overlap < DT_OVERLAPS ? (enum dt_overlap)overlap : DT_OVERLAP_ALLOW,
        .catch_up_ms = read_duration_column(db, 9),
        .catch_up_max = clamp_i64(dt_db_i64(db, 10), 0, DT_CATCH_UP_MAX),
        .jitter_ms = read_duration_column(db, 11),
        .paused = dt_db_i64(db, 12) != 0,
        .created_at_ms = dt_db_i64(db, 13),
        .updated_at_ms = dt_db_i64(db, 14),
        .version = clamp_i64(dt_db_i64(db, 15), 0, INT64_MAX - 1),
    };
    if (digest.n == sizeof(job->digest))
        memcpy(job->digest, digest.p, digest.n);
    job->topic = dt_store_text(db, 1, arena, &ok);
    job->retry = dt_store_text(db, 17, arena, &ok);
    job->ack_timeout_ms = dt_db_i64(db, 18);
    job->partition_key = dt_store_text(db, 19, arena, &ok);
    job->headers = dt_store_text(db, 20, arena, &ok);
    job->callback_url = dt_store_text(db, 21, arena, &ok);
    job->content_type = dt_store_text(db, 22, arena, &ok);
    job->payload_binary = dt_db_i64(db, 23) != 0;
    job->payload = dt_store_text(db, 24, arena, &ok);
    s->next_fire_ms = read_positive_column(db, 25, DT_TIME_MAX_MS);
    s->last_fire_ms = clamp_i64(dt_db_i64(db, 26), 0, DT_TIME_MAX_MS);
    s->last_job_id = dt_db_i64(db, 27);
    s->zone_stamp = dt_db_i64(db, 28);
    s->error = dt_store_text(db, 29, arena, &ok);
    s->error_at_ms = dt_db_i64(db, 30);
    s->look_ms = dt_db_i64(db, 31);
    s->owner = dt_db_i64(db, 32);
    s->waits_since_ms = read_positive_column(db, 33, DT_TIME_MAX_MS);
    return ok ? DT_OK : DT_NOMEM;
}

dt_status dt_schedule_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_schedule *out,
                           struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_schedule, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    status = dt_db_next(db) ? dt_schedule_take(db, arena, out, NULL) : DT_NOT_FOUND;
    dt_status ended = dt_db_end(db, err);
    if (ended != DT_OK || status == DT_OK)
        return ended;
    return dt_fail(err, status, status == DT_NOT_FOUND ? "no such schedule" : "out of memory");
}

dt_status dt_schedule_write(dt_db *db, const struct dt_schedule *s, struct dt_error *err)
{
    const struct dt_new_job *job = &s->job;
    return dt_db_run(
        db, dt_sql_put_schedule,
        DT_PARAMS(DT_P_STR(s->name), DT_P_STR(job->topic), DT_P_STR_OR_NULL(s->cron), DT_P_INT_OR_NULL(s->every_ms),
                  DT_P_INT(s->anchor_ms), DT_P_STR(s->time_zone), s->has_start ? DT_P_INT(s->starts_at_ms) : DT_P_NULL,
                  s->has_end ? DT_P_INT(s->ends_at_ms) : DT_P_NULL, DT_P_INT(s->overlap + 1), DT_P_INT(s->catch_up_ms),
                  DT_P_INT_OR_NULL(s->catch_up_max), DT_P_INT(s->jitter_ms), DT_P_INT(s->paused),
                  DT_P_INT(s->created_at_ms), DT_P_INT(s->updated_at_ms), DT_P_INT(s->version),
                  DT_P_STR(((struct dt_str){(const char *)job->digest, sizeof(job->digest)})),
                  DT_P_STR_OR_NULL(job->retry), DT_P_INT_OR_NULL(job->ack_timeout_ms),
                  DT_P_STR_OR_NULL(job->partition_key), DT_P_STR_OR_NULL(job->headers),
                  DT_P_STR_OR_NULL(job->callback_url), DT_P_STR_OR_NULL(job->content_type),
                  DT_P_INT(job->payload_binary), DT_P_STR(job->payload)),
        NULL, err);
}

dt_status dt_schedule_write_progress(dt_db *db, struct dt_arena *arena, const struct dt_schedule_progress *v, size_t n,
                                     struct dt_error *err)
{
    if (n == 0)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(arena, n * PROGRESS_COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!p)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct dt_schedule *s = v[i].schedule;
        p = dt_params_add(p, DT_PARAMS(DT_P_STR(s->name), DT_P_INT_OR_NULL(s->next_fire_ms),
                                       DT_P_INT_OR_NULL(v[i].look_ms), DT_P_INT_OR_NULL(s->last_fire_ms),
                                       DT_P_INT_OR_NULL(s->last_job_id), DT_P_INT(s->zone_stamp),
                                       DT_P_STR_OR_NULL(s->error), DT_P_INT_OR_NULL(s->error_at_ms), DT_P_INT(s->owner),
                                       DT_P_INT_OR_NULL(s->waits_since_ms)));
    }
    return dt_db_run_many(db, dt_sql_put_schedule_fires, (struct dt_param_rows){params, PROGRESS_COLUMNS, n}, NULL,
                          err);
}
