/*
 * The filter of a list as parameters of its statements: see list_page.h. Each condition has an off position, so that
 * the statements are the same whatever is asked for.
 */
#include "base/assert.h"
#include "key_range.h"
#include "list.h"
#include "list_page.h"

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

/* "^(a|b\.c)"; a prefix that no topic can start with matches nothing and is left out. */
static void format_topics(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    bool first = true;
    for (size_t i = 0; i < f->n_prefixes; i++) {
        const struct dt_str prefix = f->prefixes[i];
        if (!is_topic_text(prefix))
            continue;
        dt_strbuf_adds(&p->topics, first ? "^(" : "|");
        for (size_t k = 0; k < prefix.n; k++) {
            if (prefix.p[k] == '.')
                dt_strbuf_addc(&p->topics, '\\');
            dt_strbuf_addc(&p->topics, prefix.p[k]);
        }
        first = false;
    }
    dt_strbuf_adds(&p->topics, first ? "^$" : ")");
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

dt_status dt_list_set_filter(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    if (f->bound)
        format_topics(p);
    /* The end of the range of keys: after all that have the prefix; or after the one key, at the lowest text above
     * it. */
    for (size_t i = 0; i < f->key.n; i++)
        dt_strbuf_addf(&p->key_end, "%02X", (unsigned char)f->key.p[i]);
    if (f->key.p)
        dt_strbuf_adds(&p->key_end, "00");
    else
        dt_key_range_add_end(&p->key_end, f->key_prefix);
    if (p->topics.failed || p->key_end.failed)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
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
    dt_assert_cmp(at - p->where, ==, LIST_ARCHIVED_PARAMS);
    at = add_times(at, f->due);
    dt_assert_cmp(at - p->where, ==, LIST_FILTER_PARAMS);
    return DT_OK;
}
