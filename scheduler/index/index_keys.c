/*
 * Owns the names of the Redis keys, and the text of markers and numbers. Refuses to know which command they stand in.
 * Invariant: all keys of one shard have the shard's hash tag, so that one server holds them.
 */
#include "index_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#define KEY_CAP    512
#define MARKER_CAP 256

void dt_arg_set(const dt_index *index, dt_link *link, unsigned shard)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:due", index->installation, shard);

    dt_assert_cmp(n, <, KEY_CAP);
    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

void dt_arg_registry(const dt_index *index, dt_link *link, unsigned shard)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:held", index->installation, shard);

    dt_assert_cmp(n, <, KEY_CAP);
    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

void dt_arg_held(const dt_index *index, dt_link *link, unsigned shard, struct dt_str topic)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:held:%.*s", index->installation, shard, (int)topic.n, topic.p);

    dt_assert_cmp(n, <, KEY_CAP);
    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

void dt_arg_common(const dt_index *index, dt_link *link, const char *what)
{
    char name[KEY_CAP];
    int n = snprintf(name, sizeof(name), "%s:%s", index->installation, what);

    dt_assert_cmp(n, <, KEY_CAP);
    dt_link_arg(link, (struct dt_str){name, (size_t)n});
}

void dt_arg_marker(dt_link *link, struct dt_marker marker)
{
    char text[MARKER_CAP];
    int n = snprintf(text, sizeof(text), "!%lld:%lld:%lld:%lld", (long long)marker.epoch, (long long)marker.token,
                     (long long)marker.count, marker.filling ? 0LL : (long long)marker.generation);

    dt_link_arg(link, (struct dt_str){text, (size_t)n});
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

/* The scores that this program writes are whole ms. Redis prints a large one either in full or as a double. */
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

bool dt_reply_entry(double start_ms, const dt_reply *member, const dt_reply *score, struct dt_entry *out)
{
    struct dt_str text = dt_reply_text(member);
    double after_ms;
    double due_ms;

    if (!text.p || !dt_reply_number(score, &after_ms))
        return false;
    due_ms = start_ms + after_ms;
    *out = (struct dt_entry){.due_ms = (int64_t)due_ms};
    return due_ms > 0 && due_ms == floor(due_ms) && dt_member_id(text.p, text.n, out->due_ms, &out->id);
}

void dt_on_integer(void *arg, size_t i, const dt_reply *reply)
{
    (void)i;
    (void)dt_reply_integer(reply, arg);
}
