/* Implements dead.h: counts dead jobs by topic and error. Reads the largest groups of each range, and merges them. */
#include "dead.h"

#include "base/assert.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

#define KEPT 1000 /* most groups of a range that are kept; further groups are only counted */

/* The ranges of indexes, in the order in which they are read. */
enum { LATE, ARCHIVED, OTHERS, LEAVING, RANGES };

/* A range of values of an index, and the statements that count and group its rows. */
struct range {
    const char *count, *group;
    int64_t from, to, most;
    bool archived;
};

struct reading {
    dt_db *db;
    const struct dt_dead_ask *ask;
    struct dt_arena *arena;
    struct dt_dead_groups *out;
    struct dt_error *err;
    int64_t left; /* number of rows that may still be read */
};

static dt_status read_groups(struct reading *r)
{
    struct dt_dead_groups *out = r->out;
    const size_t end = out->n + KEPT;
    bool ok = true;
    dt_assert_cmp(end, <=, RANGES * KEPT);
    while (ok && dt_db_next(r->db)) {
        if (!dt_topic_within(r->ask->bound, dt_db_bytes(r->db, 0)))
            continue;
        out->jobs += dt_db_i64(r->db, 2);
        if (out->n == end) {
            out->more++;
            continue;
        }
        out->v[out->n++] = (struct dt_dead_group){.topic = dt_store_text(r->db, 0, r->arena, &ok),
                                                  .error_code = dt_store_text(r->db, 1, r->arena, &ok),
                                                  .jobs = dt_db_i64(r->db, 2),
                                                  .last_ms = dt_db_i64(r->db, 3),
                                                  .job_id = dt_db_i64(r->db, 4),
                                                  .message = dt_store_text(r->db, 5, r->arena, &ok)};
    }
    dt_status ended = dt_db_end(r->db, ok ? r->err : NULL);
    return ok ? ended : dt_fail(r->err, DT_NOMEM, "out of memory");
}

/* Adds the groups of a range to r->out. *cut: the range has more rows than were read. */
static dt_status read_dead_range(struct reading *r, struct range range, bool *cut)
{
    const struct dt_dead_ask *ask = r->ask;
    const struct dt_param from = DT_P_INT(range.from);
    const struct dt_param to = DT_P_INT(range.to);
    int64_t n = 0;
    range.most = dt_earlier(range.most, r->left);
    if (range.from >= range.to)
        return DT_OK;
    dt_status status =
        dt_db_read_number(r->db, range.count, DT_PARAMS(from, to, DT_P_INT(range.most + 1)), NULL, &n, r->err);
    *cut = n > range.most;
    n = *cut ? range.most : n;
    r->left -= n;
    dt_assert_cmp(r->left, >=, 0);
    if (status != DT_OK || n <= 0)
        return status;
    const struct dt_param params[] = {from,
                                      to,
                                      DT_P_INT(range.most),
                                      DT_P_STR_OR_NULL(ask->topic),
                                      DT_P_STR_OR_NULL(ask->topic),
                                      DT_P_INT(ask->failed.given),
                                      DT_P_INT(ask->failed.from_ms),
                                      DT_P_INT(ask->failed.to_ms),
                                      DT_P_INT(ask->now_ms)};
    status = dt_db_query_stream(r->db, range.group,
                                (struct dt_params){params, sizeof(params) / sizeof(*params) - !range.archived}, r->err);
    return status == DT_OK ? read_groups(r) : status;
}

static int64_t add_capped(int64_t ms, int64_t duration_ms)
{
    return ms < INT64_MAX - duration_ms ? ms + duration_ms : INT64_MAX;
}

/* Sets the ranges, the most useful first. A dead job leaves `jobs` at its death or later, usually history.dead_after
 * later. So the first ranges are the ones that usually have the jobs of the requested time. Jobs that leave at another
 * time (after a manual edit, or a change of history.dead_after) are in the last ranges. */
static void set_ranges(const struct dt_dead_ask *ask, const struct dt_config *config, struct range ranges[RANGES])
{
    const struct dt_list_times *failed = &ask->failed;
    const int64_t from_ms = failed->given ? dt_later(failed->from_ms, 0) : 0;
    const int64_t to_ms = failed->given ? add_capped(failed->to_ms, config->history_dead_after) : INT64_MAX;
    const int64_t soon_ms = add_capped(ask->now_ms, config->history_after);
    const int64_t late_ms = dt_later(from_ms, soon_ms);
    const struct range of_jobs = {
        dt_sql_count_finished, dt_sql_group_dead_jobs, late_ms, to_ms, DT_DEAD_LOOKED_AT, false};
    for (size_t i = 0; i < RANGES; i++)
        ranges[i] = of_jobs;
    ranges[ARCHIVED] = (struct range){dt_sql_count_archived_dead,
                                      dt_sql_group_archived_dead,
                                      failed->given ? failed->from_ms : INT64_MIN,
                                      failed->given ? failed->to_ms : INT64_MAX,
                                      DT_DEAD_LOOKED_AT,
                                      true};
    ranges[OTHERS].from = dt_later(late_ms, to_ms);
    ranges[OTHERS].to = INT64_MAX;
    ranges[LEAVING].from = from_ms;
    ranges[LEAVING].to = soon_ms;
    ranges[LEAVING].most = DT_DEAD_LEAVING;
}

static int compare_groups_by_name(const void *a, const void *b)
{
    const struct dt_dead_group *x = a;
    const struct dt_dead_group *y = b;
    int order = dt_str_order(x->topic, y->topic);
    return order ? order : dt_str_order(x->error_code, y->error_code);
}

static int compare_by_size(const void *a, const void *b)
{
    const struct dt_dead_group *x = a;
    const struct dt_dead_group *y = b;
    return x->jobs != y->jobs ? DT_ORDER(y->jobs, x->jobs) : compare_groups_by_name(a, b);
}

/* Merges the groups with the same topic and error. If there are more than DT_DEAD_GROUPS, drops the smallest. */
static void merge_groups(struct dt_dead_groups *out)
{
    size_t n = 0;
    qsort(out->v, out->n, sizeof(*out->v), compare_groups_by_name);
    for (size_t i = 0; i < out->n; i++) {
        const struct dt_dead_group *group = &out->v[i];
        struct dt_dead_group *sum = n ? &out->v[n - 1] : NULL;
        if (!sum || compare_groups_by_name(sum, group) != 0) {
            out->v[n++] = *group;
            continue;
        }
        sum->jobs += group->jobs;
        if (group->last_ms > sum->last_ms) {
            sum->last_ms = group->last_ms;
            sum->job_id = group->job_id;
            sum->message = group->message;
        }
    }
    qsort(out->v, n, sizeof(*out->v), compare_by_size);
    out->more += n > DT_DEAD_GROUPS ? n - DT_DEAD_GROUPS : 0;
    out->n = n < DT_DEAD_GROUPS ? n : DT_DEAD_GROUPS;
}

dt_status dt_store_dead_groups(dt_store *store, const struct dt_dead_ask *ask, struct dt_arena *arena,
                               struct dt_dead_groups *out, struct dt_error *err)
{
    struct reading r = {.ask = ask, .arena = arena, .out = out, .err = err, .left = DT_DEAD_LOOKED_AT};
    struct range ranges[RANGES];
    bool cut[RANGES] = {false};
    *out = (struct dt_dead_groups){.v = dt_arena_alloc(arena, RANGES * KEPT * sizeof(*out->v))};
    if (!out->v)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_store_db(store, &r.db, err);
    set_ranges(ask, dt_store_config(store), ranges);
    for (size_t i = 0; i < RANGES && status == DT_OK; i++)
        status = read_dead_range(&r, ranges[i], &cut[i]);
    out->newest = cut[LATE] || cut[ARCHIVED];
    if (status == DT_OK)
        merge_groups(out);
    return status;
}
