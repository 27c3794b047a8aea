/*
 * Owns the due scan of a shard's leader: which entries are due, when the next one is, and whether the leader's marker
 * is there. Refuses to know what becomes of the entries.
 */
#include <stdlib.h>
#include <string.h>

#include "index_internal.h"

/* The replies to the two commands of a due scan. */
struct due_reply {
    struct dt_reading reading;
    int64_t next_ms;
    bool marked;
};

static void on_due(void *arg, size_t i, const dt_reply *reply)
{
    struct due_reply *due = arg;
    const dt_reply *next;
    double next_ms;

    if (i == 1)
        due->marked = dt_reply_text(reply).p;
    if (i != 0 || dt_reply_count(reply) == 0)
        return;
    next = dt_reply_element(reply, 0);
    if (dt_reply_text(next).n > 0 && dt_reply_number(next, &next_ms))
        due->next_ms = (int64_t)next_ms;
    dt_reading_take(&due->reading, reply, 1);
}

/* Finds, in a reply of up to limit + 1 entries, which ones are due, and when the next due scan has something to find.
 * Of each job the earliest entry counts: a later one is met by a due scan after the earlier one is gone. */
static void take_due(dt_index *index, const struct due_reply *due, struct dt_due_scan *scan)
{
    const struct dt_reading *reading = &due->reading;
    size_t n = dt_at_most(reading->n, DT_KNOWN_MAX);
    size_t once = 0;

    dt_known_clear(index, n);
    for (size_t i = 0; i < n; i++) {
        struct dt_known_id *known = dt_known_find(index, reading->out[i].id);

        if (known->id)
            continue;
        known->id = reading->out[i].id;
        reading->out[once++] = reading->out[i];
    }
    scan->n = dt_at_most(once, scan->limit);
    memcpy(scan->entries, reading->out, scan->n * sizeof(*scan->entries));
    scan->next_ms = due->next_ms;
    if (once > scan->limit)
        scan->next_ms = reading->out[scan->limit].due_ms;
    else if (reading->seen > scan->limit)
        scan->next_ms = once ? reading->out[once - 1].due_ms : scan->now_ms;
    scan->marked = due->marked;
}

dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_due_scan *scan, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    struct due_reply *due;
    dt_status status;

    scan->n = 0;
    scan->next_ms = 0;
    scan->marked = false;
    status = dt_link_ready(link, err);
    if (status != DT_OK)
        return status;
    due = malloc(sizeof(*due) + (scan->limit + 1) * sizeof(struct dt_entry));
    if (!due)
        return dt_fail(err, DT_NOMEM, "dt_index_due");
    *due = (struct due_reply){0};
    due->reading.out = (struct dt_entry *)(due + 1);
    due->reading.cap = scan->limit + 1;
    due->reading.to_ms = INT64_MAX;
    dt_link_script(link, DT_SCRIPT_DUE, 1, 3);
    dt_arg_set(index, link, shard);
    dt_link_arg_i64(link, scan->now_ms);
    dt_link_arg_i64(link, (int64_t)scan->limit + 1);
    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("ZSCORE"));
    dt_arg_set(index, link, shard);
    dt_arg_marker(link, scan->marker);
    status = dt_index_round_trip(link, on_due, due, err);
    if (status == DT_OK) {
        take_due(index, due, scan);
        (void)dt_reading_tidy(index, shard, &due->reading);
    }
    free(due);
    return status;
}
