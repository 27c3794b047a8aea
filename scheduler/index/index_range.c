/*
 * Owns the reconciler's view of a set: its entries in a range of time, and how many there are. Refuses to know what
 * they are compared with.
 */
#include <stdlib.h>

#include "index_internal.h"
#include "index_pack.h"

static void on_range(void *arg, size_t i, const dt_reply *reply)
{
    (void)i;
    dt_reading_take(arg, reply, 0);
}

/* An answer of nothing but junk is followed by another question once the junk is removed: n = 0 means the end. */
dt_status dt_index_range(dt_index *index, unsigned shard, const struct dt_range *range, struct dt_entry *entries,
                         size_t *n, struct dt_error *err)
{
    const struct dt_entry *after = range->after;
    struct dt_reading *reading = malloc(sizeof(*reading));
    struct dt_member member = {.n = 0};
    int64_t from_ms = range->from_ms;
    dt_link *link = dt_index_link(index, shard);
    dt_status status;

    *n = 0;
    if (!reading)
        return dt_fail(err, DT_NOMEM, "dt_index_range");
    if (after && after->due_ms >= from_ms) {
        from_ms = after->due_ms;
        member = dt_member_of(after->id, after->due_ms);
    }
    do {
        *reading = (struct dt_reading){.out = entries, .cap = range->limit, .to_ms = range->to_ms};
        status = dt_link_ready(link, err);
        if (status != DT_OK)
            break;
        dt_link_script(link, DT_SCRIPT_RANGE, 1, 5);
        dt_arg_set(index, link, shard);
        dt_link_arg_i64(link, from_ms);
        dt_link_arg_i64(link, range->to_ms);
        dt_link_arg_i64(link, (int64_t)range->limit);
        dt_link_arg(link, (struct dt_str){(const char *)member.bytes, member.n});
        status = dt_index_round_trip(link, on_range, reading, err);
    } while (status == DT_OK && dt_reading_tidy(index, shard, reading) && reading->n == 0);
    if (status == DT_OK)
        *n = reading->n;
    free(reading);
    return status;
}

struct count_reply {
    int64_t n;
    double from_ms; /* where to go on; < 0: everything is counted */
};

static void on_count(void *arg, size_t i, const dt_reply *reply)
{
    struct count_reply *count = arg;
    const dt_reply *next;
    int64_t n = 0;

    (void)i;
    count->from_ms = -1;
    if (dt_reply_count(reply) != 2)
        return;
    (void)dt_reply_integer(dt_reply_element(reply, 0), &n);
    count->n += n;
    next = dt_reply_element(reply, 1);
    if (dt_reply_text(next).n == 0 || !dt_reply_number(next, &count->from_ms))
        count->from_ms = -1;
}

dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                         struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    struct count_reply count = {0, (double)from_ms};

    *n = 0;
    while (count.from_ms >= 0) {
        dt_status status = dt_link_ready(link, err);

        if (status != DT_OK)
            return status;
        dt_link_script(link, DT_SCRIPT_COUNT, 1, 3);
        dt_arg_set(index, link, shard);
        dt_link_arg_i64(link, (int64_t)count.from_ms);
        dt_link_arg_i64(link, to_ms);
        status = dt_index_round_trip(link, on_count, &count, err);
        if (status != DT_OK)
            return status;
    }
    *n = count.n;
    return DT_OK;
}
