/* The in-flight list: its text, and how it shrinks. shards.inflight and ledger records have the same text. In SQL,
 * INSTR(inflight, CONCAT('[', id, ',')) finds a job in it. */
#include "inflight.h"

#include "base/assert.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "job.h"

void dt_inflight_clear(struct dt_inflight *list)
{
    free(list->v);
    *list = (struct dt_inflight){0};
}

void dt_inflight_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out)
{
    dt_strbuf_reserve(out, 2 + n * DT_CLAIM_BYTES);
    dt_json_begin_array(out, NULL);
    for (size_t i = 0; i < n; i++)
        DT_JSON_PUT_ROW(out, v[i].id, v[i].attempt, v[i].due_ms);
    dt_json_end_array(out);
}

struct cursor {
    const char *p, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n'))
        c->p++;
}

static bool read_char(struct cursor *c, char expected)
{
    skip_space(c);
    if (c->p == c->end || *c->p != expected)
        return false;
    c->p++;
    return true;
}

static bool read_list_number(struct cursor *c, int64_t *out)
{
    int64_t v = 0;
    unsigned digits = 0;
    skip_space(c);
    bool negative = c->p < c->end && *c->p == '-'; /* a manual edit may have set a negative due time */
    c->p += negative;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && digits < 18; digits++)
        v = v * 10 + (*c->p++ - '0');
    *out = negative ? -v : v;
    return digits > 0;
}

dt_status dt_inflight_parse(struct dt_str text, struct dt_inflight *out)
{
    struct cursor c = {text.p, text.p + text.n};
    out->n = 0;
    if (text.n == 0)
        return DT_OK;
    if (!read_char(&c, '['))
        return DT_MALFORMED;
    for (bool more = !read_char(&c, ']'); more;) {
        struct dt_claim claim;
        if (!read_char(&c, '[') || !read_list_number(&c, &claim.id) || !read_char(&c, ',') ||
            !read_list_number(&c, &claim.attempt) || !read_char(&c, ',') || !read_list_number(&c, &claim.due_ms) ||
            !read_char(&c, ']'))
            return DT_MALFORMED;
        if (out->n == out->cap && dt_inflight_reserve(out, out->cap ? out->cap * 2 : 64) != DT_OK)
            return DT_NOMEM;
        out->v[out->n++] = claim;
        more = read_char(&c, ',');
        if (!more && !read_char(&c, ']'))
            return DT_MALFORMED;
    }
    skip_space(&c);
    return c.p == c.end ? DT_OK : DT_MALFORMED;
}

void dt_inflight_sort_by_id(struct dt_inflight *list)
{
    if (list->n)
        qsort(list->v, list->n, sizeof(*list->v), dt_by_job_id);
}

bool dt_inflight_has(const struct dt_inflight *list, int64_t id)
{
    struct dt_claim key = {.id = id};
    return list->n && bsearch(&key, list->v, list->n, sizeof(*list->v), dt_by_job_id);
}

dt_status dt_inflight_format_by_id(const struct dt_claim *v, size_t n, struct dt_strbuf *out)
{
    struct dt_inflight sorted = {.v = malloc((n ? n : 1) * sizeof(*sorted.v)), .n = n};
    if (!sorted.v)
        return DT_NOMEM;
    if (n)
        memcpy(sorted.v, v, n * sizeof(*sorted.v));
    dt_inflight_sort_by_id(&sorted);
    dt_inflight_format(sorted.v, n, out);
    free(sorted.v);
    return out->failed ? DT_NOMEM : DT_OK;
}

dt_status dt_inflight_reserve(struct dt_inflight *list, size_t n)
{
    if (n <= list->cap)
        return DT_OK;
    struct dt_claim *v = realloc(list->v, n * sizeof(*v));
    if (!v)
        return DT_NOMEM;
    list->v = v;
    list->cap = n;
    return DT_OK;
}

dt_status dt_inflight_append(struct dt_inflight *to, const struct dt_inflight *from)
{
    if (from->n == 0)
        return DT_OK;
    dt_status status = dt_inflight_reserve(to, to->n + from->n);
    if (status != DT_OK)
        return status;
    memcpy(to->v + to->n, from->v, from->n * sizeof(*to->v));
    to->n += from->n;
    return DT_OK;
}

void dt_inflight_drop(struct dt_inflight *list, size_t n)
{
    dt_assert_cmp(n, <=, list->n);
    if (n == 0)
        return;
    list->n -= n;
    memmove(list->v, list->v + n, list->n * sizeof(*list->v));
}

bool dt_inflight_equal(const struct dt_claim *a, size_t n_a, const struct dt_claim *b, size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (a[i].id != b[i].id || a[i].attempt != b[i].attempt || a[i].due_ms != b[i].due_ms)
            return false;
    return true;
}

struct dt_shrink dt_inflight_sent(size_t n, size_t send_n)
{
    dt_assert_cmp(send_n, <=, n);
    size_t left = n - send_n;
    return (struct dt_shrink){.leave = send_n, .send_n = send_n > left / 2 ? left : send_n * 2};
}

/* A refusal is stored with the exact entries that were sent, and is ignored if other entries are to be sent now. If
 * several attempts were refused together, the next batch has half of them, because the cause may be any one of them. If
 * a single attempt was refused, it ends as undeliverable. The next batch then has one entry, and each later batch twice
 * as many as the one before (dt_inflight_sent). So while a topic accepts nothing, each message is refused in a batch of
 * one, without further halving. */
struct dt_shrink dt_inflight_taken_over(const struct dt_inflight *list, size_t send_n, bool sent,
                                        const struct dt_inflight *refused)
{
    dt_assert_cmp(send_n, <=, list->n);
    bool was_refused = refused->n && DT_GUARD(REFUSAL, dt_inflight_equal(list->v, send_n, refused->v, refused->n));
    if (sent && !(DT_UNGUARDED(REFUSAL_LAST) && was_refused))
        return dt_inflight_sent(list->n, send_n);
    if (send_n == 0 || !was_refused)
        return (struct dt_shrink){.send_n = send_n};
    if (send_n > 1)
        return (struct dt_shrink){.halved = true, .send_n = send_n / 2};
    return (struct dt_shrink){.leave = 1, .undeliverable = true, .send_n = list->n > 1};
}
