/*
 * Home days on which a topic may have jobs. A walk over `jobs` for those of one topic looks at these days alone: so it
 * costs what they hold, and not what the table does. So does a walk for topics that begin alike, unless they are so
 * many that reading what is counted of them would cost as much as a window.
 *
 * The counters say which days they are, by pieces (home day modulo DT_COUNT_PIECES): all states of a topic together,
 * since an edit by hand may change a state uncounted, and never makes a row.
 */
#include "mysql/statements.h"
#include "mysql/walk.h"
#include "operation_parts.h"
#include "topic/counts.h"

/* A topic has 32 pieces with 32 writers each at most: the rows of ten topics, at least. */
#define ROWS_MOST 10240

/* The sum of the rows of one topic and piece. */
struct sum {
    char topic[DT_TOPIC_MAX + 1];
    int64_t piece, jobs;
};

static void end_sum(const struct sum *sum, struct dt_operation_days *out)
{
    if (sum->jobs != 0)
        out->pieces |= UINT32_C(1) << (sum->piece % DT_COUNT_PIECES);
}

dt_status dt_operation_days_read(dt_db *db, const struct dt_operation_row *row, struct dt_operation_days *out,
                                 struct dt_error *err)
{
    const struct dt_operation *op = &row->shown;
    struct sum sum = {.jobs = 0};
    size_t n = 0;
    *out = (struct dt_operation_days){.all = !op->topic_from.n};
    if (out->all)
        return DT_OK;
    dt_status status =
        dt_db_query(db, dt_sql_select_topic_pieces,
                    DT_PARAMS(DT_P_STR(op->topic_from), DT_P_STR(op->topic_to), DT_P_INT(ROWS_MOST)), err);
    if (status != DT_OK)
        return status;
    for (; dt_db_next(db); n++) {
        const struct dt_str topic = dt_db_bytes(db, 0);
        if (!dt_str_is(topic, sum.topic) || sum.piece != dt_db_i64(db, 1)) {
            end_sum(&sum, out);
            sum = (struct sum){.piece = dt_db_i64(db, 1)};
            memcpy(sum.topic, topic.p, topic.n < DT_TOPIC_MAX ? topic.n : DT_TOPIC_MAX);
        }
        sum.jobs += dt_db_i64(db, 2);
    }
    end_sum(&sum, out);
    out->all = n == ROWS_MOST;
    return dt_db_end(db, err);
}

/* The first of the days from this one on; -1: there is none. */
static int64_t first_from(const struct dt_operation_days *days, int64_t day)
{
    if (!days->pieces)
        return -1;
    while (!(days->pieces >> (day % DT_COUNT_PIECES) & 1))
        day++;
    return day;
}

dt_status dt_operation_days_next(dt_db *db, const struct dt_operation_days *days, int64_t *after_id, int64_t *end_id,
                                 struct dt_error *err)
{
    *end_id = INT64_MAX;
    for (bool there = days->all; !there;) {
        int64_t id = INT64_MAX;
        bool found;
        dt_status status = dt_walk_ids(db, dt_sql_find_window_by_id, *after_id, 1, &id, &found, err);
        if (status != DT_OK)
            return status;
        const int64_t day = found ? first_from(days, dt_job_home_day(id)) : -1;
        int64_t end = day + 1; /* the first day after a gap */
        *end_id = -1;
        if (day < 0)
            return DT_OK;
        while (end < day + DT_COUNT_PIECES && first_from(days, end) == end)
            end++;
        *end_id = (end << DT_SEQUENCE_BITS) - 1;
        there = day == dt_job_home_day(id);
        *after_id = there ? id - 1 : (day << DT_SEQUENCE_BITS) - 1;
    }
    return DT_OK;
}
