/*
 * The in-flight list as text. The same bytes stand in shards.inflight and in ledger records, so that "is this job in
 * flight" can also be asked in SQL: INSTR(inflight, CONCAT('[', id, ',')).
 */
#include <stdlib.h>

#include "store/store_dispatch.h"

void dt_claims_clear(struct dt_claims *claims)
{
    free(claims->v);
    *claims = (struct dt_claims){0};
}

void dt_claims_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out)
{
    dt_strbuf_reserve(out, 2 + n * 56);
    dt_strbuf_addc(out, '[');
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_adds(out, i ? ",[" : "[");
        dt_strbuf_add_i64(out, v[i].id);
        dt_strbuf_addc(out, ',');
        dt_strbuf_add_i64(out, v[i].attempt);
        dt_strbuf_addc(out, ',');
        dt_strbuf_add_i64(out, v[i].due_ms);
        dt_strbuf_addc(out, ']');
    }
    dt_strbuf_addc(out, ']');
}

struct cursor {
    const char *p, *end;
};

static bool take(struct cursor *c, char expected)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n'))
        c->p++;
    if (c->p == c->end || *c->p != expected)
        return false;
    c->p++;
    return true;
}

static bool take_number(struct cursor *c, int64_t *out)
{
    int64_t v = 0;
    unsigned digits = 0;
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n'))
        c->p++;
    bool negative = c->p < c->end && *c->p == '-'; /* a due time that somebody wrote by hand */
    c->p += negative;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && digits < 18; digits++)
        v = v * 10 + (*c->p++ - '0');
    *out = negative ? -v : v;
    return digits > 0;
}

static dt_status append(struct dt_claims *claims, struct dt_claim claim)
{
    if (claims->n == claims->cap) {
        size_t cap = claims->cap ? claims->cap * 2 : 64;
        struct dt_claim *v = realloc(claims->v, cap * sizeof *v);
        if (!v)
            return DT_NOMEM;
        claims->v = v;
        claims->cap = cap;
    }
    claims->v[claims->n++] = claim;
    return DT_OK;
}

static dt_status parse_entries(struct cursor *c, struct dt_claims *out)
{
    do {
        struct dt_claim claim;
        if (!take(c, '[') || !take_number(c, &claim.id) || !take(c, ',') || !take_number(c, &claim.attempt) ||
            !take(c, ',') || !take_number(c, &claim.due_ms) || !take(c, ']'))
            return DT_MALFORMED;
        dt_status status = append(out, claim);
        if (status != DT_OK)
            return status;
    } while (take(c, ','));
    return take(c, ']') ? DT_OK : DT_MALFORMED;
}

dt_status dt_claims_parse(struct dt_str text, struct dt_claims *out)
{
    struct cursor c = {text.p, text.p + text.n};
    out->n = 0;
    if (text.n == 0)
        return DT_OK;
    if (!take(&c, '['))
        return DT_MALFORMED;
    if (!take(&c, ']')) {
        dt_status status = parse_entries(&c, out);
        if (status != DT_OK)
            return status;
    }
    while (c.p < c.end && (*c.p == ' ' || *c.p == '\n'))
        c.p++;
    return c.p == c.end ? DT_OK : DT_MALFORMED;
}
