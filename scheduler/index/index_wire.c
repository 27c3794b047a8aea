/*
 * The arguments of commands and the contents of replies: the names of the Redis keys, the text of markers and numbers,
 * entries in the replies of scripts, and round trips.
 *
 * Invariants: all keys of one shard have the shard's hash tag, so that one server has them. The replies of an endpoint
 * are read if and only if commands were written to it.
 */
#include <math.h>
#include <stdarg.h>

#include "index_internal.h"

#define KEY_CAP 512

DT_PRINTF(2, 3) static void add_key(dt_link *link, const char *format, ...)
{
    char key[KEY_CAP];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(key, sizeof(key), format, args);
    va_end(args);
    dt_assert_cmp(n, <, KEY_CAP);
    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

void dt_arg_set(const dt_index *index, dt_link *link, unsigned shard)
{
    add_key(link, "%s:{%u}:due", index->installation, shard);
}

void dt_arg_registry(const dt_index *index, dt_link *link, unsigned shard)
{
    add_key(link, "%s:{%u}:held", index->installation, shard);
}

void dt_arg_held(const dt_index *index, dt_link *link, unsigned shard, struct dt_str topic)
{
    add_key(link, "%s:{%u}:held:%.*s", index->installation, shard, (int)topic.n, topic.p);
}

void dt_arg_common(const dt_index *index, dt_link *link, const char *what)
{
    add_key(link, "%s:%s", index->installation, what);
}

void dt_arg_marker(dt_link *link, struct dt_marker marker)
{
    add_key(link, "!%lld:%lld:%lld:%lld", (long long)marker.epoch, (long long)marker.token, (long long)marker.count,
            marker.filling ? 0LL : (long long)marker.generation);
}

void dt_arg_entry(dt_link *link, const struct dt_item *item)
{
    dt_link_arg_i64(link, item->due_ms);
    dt_link_arg(link, (struct dt_str){(const char *)item->member.bytes, item->member.n});
}

static bool parse_i64(struct dt_str text, int64_t *out)
{
    int64_t v = 0;
    if (text.n == 0 || text.n > 18)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        v = v * 10 + (text.p[i] - '0');
    }
    *out = v;
    return true;
}

bool dt_reply_any_integer(const dt_reply *reply, int64_t *out)
{
    return dt_reply_integer(reply, out) || parse_i64(dt_reply_text(reply), out);
}

/* Reads a score. Scores are written in whole milliseconds, but Redis returns a large score either in full or in the
 * notation of a double. */
bool dt_reply_number(const dt_reply *reply, double *out)
{
    struct dt_str text = dt_reply_text(reply);
    int64_t v;
    if (!text.p)
        return false;
    if (parse_i64(text, &v))
        *out = (double)v;
    else
        *out = strtod(text.p, NULL);
    return isfinite(*out) && fabs(*out) <= 9e15;
}

/* Reads an entry of a page that begins at start_ms. Returns false if member and score are not a valid entry. */
static bool read_page_entry(double start_ms, const dt_reply *member, const dt_reply *score, struct dt_entry *out)
{
    struct dt_str text = dt_reply_text(member);
    double after_ms;
    if (!text.p || !dt_reply_number(score, &after_ms))
        return false;
    const double due_ms = start_ms + after_ms;
    *out = (struct dt_entry){.due_ms = (int64_t)due_ms};
    return due_ms > 0 && due_ms == floor(due_ms) && dt_member_id(text.p, text.n, out->due_ms, &out->id);
}

void dt_on_integer(void *arg, size_t, const dt_reply *reply)
{
    (void)dt_reply_integer(reply, arg);
}

/* Records junk to be removed. If member is NULL, the page itself is junk. */
static void record_junk(struct dt_reading *reading, const dt_reply *page, const dt_reply *member)
{
    struct dt_junk *junk = &reading->junk[reading->n_junk];
    struct dt_str name = dt_reply_text(page);
    struct dt_str bytes = member ? dt_reply_text(member) : (struct dt_str){0};
    if (reading->n_junk == DT_JUNK_MAX || !name.p || name.n >= sizeof(junk->page) || bytes.n > sizeof(junk->member) ||
        (member && bytes.n == 0))
        return;
    memcpy(junk->page, name.p, name.n + 1);
    if (bytes.n)
        memcpy(junk->member, bytes.p, bytes.n);
    junk->n_member = bytes.n;
    reading->n_junk++;
}

void dt_reading_take(struct dt_reading *reading, const dt_reply *reply, size_t from)
{
    for (size_t i = from; i + 2 < dt_reply_count(reply); i += 3) {
        const dt_reply *page = dt_reply_element(reply, i);
        const dt_reply *entries = dt_reply_element(reply, i + 2);
        size_t n = dt_reply_count(entries);
        double start_ms;
        if (dt_reply_is_nil(entries))
            record_junk(reading, page, NULL);
        if (dt_reply_is_nil(entries) || !dt_reply_number(dt_reply_element(reply, i + 1), &start_ms))
            continue;
        reading->seen += n / 2;
        for (size_t k = 0; k + 1 < n; k += 2) {
            const dt_reply *member = dt_reply_element(entries, k);
            struct dt_entry entry;
            if (!read_page_entry(start_ms, member, dt_reply_element(entries, k + 1), &entry))
                record_junk(reading, page, member);
            else if (entry.due_ms < reading->to_ms && reading->n < reading->cap)
                reading->out[reading->n++] = entry;
        }
    }
}

bool dt_reading_tidy(dt_index *index, unsigned shard, const struct dt_reading *reading)
{
    dt_link *link = dt_index_link(index, shard);
    if (reading->n_junk == 0 || dt_link_ready(link, NULL) != DT_OK)
        return false;
    dt_link_script(link, DT_SCRIPT_TIDY, 1, (unsigned)(1 + 2 * reading->n_junk));
    dt_arg_set(index, link, shard);
    for (size_t i = 0; i < reading->n_junk; i++) {
        const struct dt_junk *junk = &reading->junk[i];
        dt_link_arg(link, dt_str(junk->page));
        dt_link_arg(link, (struct dt_str){junk->member, junk->n_member});
    }
    return dt_index_round_trip(link, NULL, NULL, NULL) == DT_OK;
}

dt_status dt_index_round_trip(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err)
{
    dt_status status = dt_link_flush(link, err);
    return status == DT_OK ? dt_link_read(link, on_reply, arg, err) : status;
}

dt_status dt_index_send_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err)
{
    dt_status first = DT_OK;
    for (unsigned i = 0; i < index->n_links; i++)
        dt_assert(!index->sent[i]);
    for (int connected = 1; connected >= 0; connected--) {
        for (unsigned i = 0; i < index->n_links; i++) {
            dt_link *link = index->links[i];
            if (!index->wanted[i] || dt_link_connected(link) != connected)
                continue;
            dt_status status = dt_link_ready(link, first == DT_OK ? err : NULL);
            index->wanted[i] = false;
            if (status == DT_OK) {
                build(index, i);
                status = dt_link_flush(link, first == DT_OK ? err : NULL);
                index->sent[i] = status == DT_OK;
            }
            dt_keep_first(&first, status);
        }
    }
    return first;
}

dt_status dt_index_receive(dt_index *index, dt_link_reply_fn *on_reply, void *reply_arg, struct dt_error *err)
{
    dt_status first = DT_OK;
    for (unsigned i = 0; i < index->n_links; i++) {
        if (index->sent[i])
            dt_keep_first(&first, dt_link_read(index->links[i], on_reply, reply_arg, first == DT_OK ? err : NULL));
        index->sent[i] = false;
    }
    return first;
}

dt_status dt_index_ask_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err)
{
    dt_status sent = dt_index_send_wanted(index, build, err);
    dt_status received = dt_index_receive(index, NULL, NULL, sent == DT_OK ? err : NULL);
    return sent == DT_OK ? received : sent;
}
