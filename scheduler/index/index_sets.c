/* Functions for a shard's leader and the reconciler: the due scan, held sets, the marker, ranges, and records of
 * fillings. index_change.c changes entries. */

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

/* Finds, in a reply of up to limit + 1 entries, the due entries, and the time of the first entry that is not returned.
 * If a job has several entries, the earliest counts; when it has been removed, a later scan finds the job's next
 * entry. */
static void choose_due_entries(dt_index *index, const struct due_reply *due, struct dt_due_scan *scan)
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
        return dt_fail(err, DT_NOMEM, "out of memory");
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
        choose_due_entries(index, due, scan);
        (void)dt_reading_tidy(index, shard, &due->reading);
    }
    free(due);
    return status;
}

/* ---- held sets; dt_index_hold (index_change.c) puts entries into them ---- */

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    dt_status status;
    *next_ms = 0;
    do {
        size_t some = dt_at_most(limit, DT_CHUNK);
        status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        dt_link_script(link, DT_SCRIPT_UNHOLD, 3, 5);
        dt_arg_set(index, link, shard);
        dt_arg_held(index, link, shard, topic);
        dt_arg_registry(index, link, shard);
        dt_link_arg(link, topic);
        dt_link_arg_i64(link, (int64_t)some);
        status = dt_index_round_trip(link, dt_on_integer, next_ms, err);
        limit -= some;
    } while (status == DT_OK && *next_ms > 0 && limit > 0);
    return status;
}

struct held_reply {
    struct dt_arena *arena;
    struct dt_str *topics;
    size_t n;
    bool failed; /* memory ran out */
};

static void on_held(void *arg, size_t, const dt_reply *reply)
{
    struct held_reply *held = arg;
    size_t n = dt_reply_count(reply);
    held->n = 0;
    if (n == 0)
        return;
    held->topics = dt_arena_alloc(held->arena, n * sizeof(*held->topics));
    for (size_t k = 0; held->topics && k < n; k++) {
        const struct dt_str name = dt_reply_text(dt_reply_element(reply, k));
        if (name.n >= DT_HELD_NAME_SIZE) /* skips a name that this program has not written */
            continue;
        held->topics[held->n] = dt_arena_copy(held->arena, name);
        held->failed |= held->topics[held->n].p == NULL;
        held->n++;
    }
    held->failed |= held->topics == NULL;
}

dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    struct held_reply held = {.arena = arena};
    dt_status status = dt_link_ready(link, err);
    *topics = NULL;
    *n = 0;
    if (status != DT_OK)
        return status;
    dt_link_command(link, 2);
    dt_link_arg(link, DT_STR_LIT("SMEMBERS"));
    dt_arg_registry(index, link, shard);
    status = dt_index_round_trip(link, on_held, &held, err);
    if (status == DT_OK && held.failed)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    if (status != DT_OK)
        return status;
    *topics = held.topics;
    *n = held.n;
    return DT_OK;
}

/* ---- the set as a whole ---- */

dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, const struct dt_marker *was,
                        bool *intact, bool *gone, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    int64_t found = 0;
    dt_status status = dt_link_ready(link, err);
    *intact = *gone = false;
    if (status != DT_OK)
        return status;
    dt_link_script(link, DT_SCRIPT_MARK, 1, 7);
    dt_arg_set(index, link, shard);
    dt_arg_marker(link, marker);
    dt_link_arg_i64(link, marker.generation);
    dt_link_arg_i64(link, marker.oldest);
    if (was)
        dt_arg_marker(link, *was);
    else
        dt_link_arg(link, DT_STR_LIT(""));
    if (marker.filling)
        dt_link_arg_i64(link, dt_marker_life(&marker));
    else
        dt_link_arg(link, DT_STR_LIT(""));
    dt_link_arg_i64(link, marker.map);
    status = dt_index_round_trip(link, dt_on_integer, &found, err);
    *intact = status == DT_OK && found > 0;
    *gone = status == DT_OK && found < 0;
    return status;
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    int64_t left = 0;
    dt_status status;
    do {
        status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        dt_link_script(link, DT_SCRIPT_DROP, 2, 3);
        dt_arg_set(index, link, shard);
        dt_arg_registry(index, link, shard);
        dt_arg_held(index, link, shard, DT_STR_LIT(""));
        status = dt_index_round_trip(link, dt_on_integer, &left, err);
    } while (status == DT_OK && left > 0);
    return status;
}

/* ---- ranges of entries ---- */

static void on_range(void *arg, size_t, const dt_reply *reply)
{
    dt_reading_take(arg, reply, 0);
}

/* Reads entries of a range. If a reply contains nothing but junk, asks again after the junk is removed, so that *n is 0
 * only at the end. */
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
        return dt_fail(err, DT_NOMEM, "out of memory");
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
    double from_ms; /* where counting continues; < 0: all entries are counted */
};

static void on_count(void *arg, size_t, const dt_reply *reply)
{
    struct count_reply *count = arg;
    const dt_reply *next;
    int64_t n = 0;
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

/* ---- records of fillings (lua/filled.lua) ---- */

static void on_filling(void *arg, size_t i, const dt_reply *reply)
{
    struct dt_filling *f = ((struct dt_filling **)arg)[i];
    int64_t ours = 0;
    f->wanted = dt_reply_count(reply) == 4 && dt_reply_any_integer(dt_reply_element(reply, 0), &f->life) &&
                dt_reply_any_integer(dt_reply_element(reply, 1), &f->generation) &&
                dt_reply_any_integer(dt_reply_element(reply, 2), &f->done_ms) &&
                dt_reply_any_integer(dt_reply_element(reply, 3), &ours);
    f->ours = f->wanted && ours;
}

/* Takes the fillings at one endpoint. If `tell` is set, instead writes the progress of the fillings that this process
 * has taken. */
static dt_status request_fillings(dt_index *index, dt_link *link, struct dt_filling *fillings, size_t n, bool tell,
                                  struct dt_error *err)
{
    struct dt_filling *asked[DT_SHARDS_MAX];
    size_t n_asked = 0;
    dt_status status = DT_OK;
    for (size_t i = 0; i < n && n_asked < DT_SHARDS_MAX; i++) {
        struct dt_filling *f = &fillings[i];
        bool asks = dt_index_link(index, f->shard) == link && (!tell || f->ours);
        if (!asks)
            continue;
        f->wanted = f->ours = false;
        if (n_asked == 0 && status == DT_OK)
            status = dt_link_ready(link, err);
        if (status != DT_OK)
            continue;
        asked[n_asked++] = f;
        dt_link_script(link, DT_SCRIPT_FILLED, 1, tell ? 6 : 4);
        dt_arg_set(index, link, f->shard);
        dt_link_arg_i64(link, index->self);
        dt_link_arg_i64(link, tell && !f->keep ? 0 : DT_FILLING_MS);
        dt_link_arg_i64(link, f->generation);
        if (tell) {
            dt_link_arg_i64(link, f->life);
            dt_link_arg_i64(link, f->done_ms);
        }
    }
    return n_asked ? dt_index_round_trip(link, on_filling, asked, err) : status;
}

dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *fillings, size_t n,
                            struct dt_error *err)
{
    const bool tell = ask == DT_FILLING_TELL;
    dt_status first = DT_OK;
    for (unsigned i = 0; i < index->n_links; i++)
        dt_keep_first(&first, request_fillings(index, index->links[i], fillings, n, tell, first == DT_OK ? err : NULL));
    return first;
}
