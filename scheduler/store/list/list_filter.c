/*
 * The filter of a list as parameters of its statements: see list_page.h. Each condition has an off position, so that
 * the statements are the same whatever is asked for.
 */
#include "store/jobs/key_range.h"
#include "store/list/list_page.h"

static bool is_topic_text(struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && !memchr("._-", c, 3))
            return false;
    }
    return s.n > 0;
}

static void add_literal(struct dt_strbuf *out, struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.')
            dt_strbuf_addc(out, '\\');
        dt_strbuf_addc(out, s.p[i]);
    }
}

/* "^(a|b\.c)"; a prefix that no topic can start with matches nothing and is left out. */
static void format_topics(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    bool first = true;
    for (size_t i = 0; i < f->n_prefixes; i++) {
        if (!is_topic_text(f->prefixes[i]))
            continue;
        dt_strbuf_adds(&p->topics, first ? "^(" : "|");
        add_literal(&p->topics, f->prefixes[i]);
        first = false;
    }
    dt_strbuf_adds(&p->topics, first ? "^$" : ")");
}

/* The end of the range of keys: behind all that have the prefix; or behind the one key, at the lowest text above it. */
static void format_key_end(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    if (!f->key.p) {
        dt_key_range_add_end(&p->key_end, f->key_prefix);
        return;
    }
    for (size_t i = 0; i < f->key.n; i++)
        dt_strbuf_addf(&p->key_end, "%02X", (unsigned char)f->key.p[i]);
    dt_strbuf_adds(&p->key_end, "00");
}

static struct dt_param *add_times(struct dt_param *at, struct dt_list_times times)
{
    *at++ = DT_P_INT(times.given);
    *at++ = DT_P_INT(times.from_ms);
    *at++ = DT_P_INT(times.to_ms);
    return at;
}

static struct dt_param *add_text(struct dt_param *at, struct dt_str text, unsigned times)
{
    while (times-- > 0)
        *at++ = DT_P_STR_OR_NULL(text);
    return at;
}

static void set_where(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    struct dt_param *at = add_text(p->where, f->topic, 2);
    *at++ = DT_P_INT(f->state + 1);
    *at++ = DT_P_INT(f->state + 1);
    *at++ = DT_P_INT(f->has_run_from ? f->run_from_ms : INT64_MIN);
    *at++ = DT_P_INT(f->has_run_to ? f->run_to_ms : INT64_MAX);
    at = add_text(at, dt_strbuf_str(&p->topics), 2);
    *at++ = DT_P_INT(f->created.given ? f->created.from_ms : INT64_MIN);
    *at++ = DT_P_INT(f->created.given ? f->created.to_ms : INT64_MAX);
    at = add_text(at, f->error_code, 2);
    at = add_text(at, f->error_text, 3);
    at = add_times(at, f->failed);
    at = add_times(at, f->finished);
    add_times(at, f->due);
}

dt_status dt_list_set_filter(struct page *p)
{
    if (p->filter->bound)
        format_topics(p);
    format_key_end(p);
    if (p->topics.failed || p->key_end.failed)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    set_where(p);
    return DT_OK;
}
