/* See json_write.h. */
#include "json_write.h"

#include "encoding.h"
#include "timetext.h"

static bool follows_value(const struct dt_strbuf *out)
{
    const char last = out->n ? out->p[out->n - 1] : '{';
    return last != '{' && last != '[' && last != ':';
}

void dt_json_comma(struct dt_strbuf *out)
{
    if (follows_value(out))
        dt_strbuf_addc(out, ',');
}

void dt_json_add_name(struct dt_strbuf *out, const char *name, size_t n)
{
    dt_strbuf_reserve(out, n + 4);
    if (out->failed)
        return;
    char *p = out->p + out->n;
    if (follows_value(out))
        *p++ = ',';
    *p++ = '"';
    memcpy(p, name, n);
    p += n;
    *p++ = '"';
    *p++ = ':';
    *p = '\0';
    out->n = (size_t)(p - out->p);
}

void dt_json_put_key(struct dt_strbuf *out, struct dt_str name)
{
    dt_json_comma(out);
    dt_json_add_string(out, name);
    dt_strbuf_addc(out, ':');
}

void dt_json_put_double(struct dt_strbuf *out, const char *name, int digits, double v)
{
    dt_json_name(out, name);
    dt_strbuf_addf(out, "%.*g", digits, v);
}

void dt_json_put_id(struct dt_strbuf *out, const char *name, int64_t id)
{
    dt_json_name(out, name);
    dt_strbuf_addc(out, '"');
    dt_strbuf_add_i64(out, id);
    dt_strbuf_addc(out, '"');
}

void dt_json_put_ints(struct dt_strbuf *out, const char *name, const int64_t *v, size_t n)
{
    dt_json_begin_array(out, name);
    for (size_t i = 0; i < n; i++) {
        if (i)
            dt_strbuf_addc(out, ',');
        dt_strbuf_add_i64(out, v[i]);
    }
    dt_json_end_array(out);
}

void dt_json_put_cut(struct dt_strbuf *out, const char *name, struct dt_str s, size_t most)
{
    if (s.n > most)
        for (s.n = most; s.n > 0 && dt_utf8_continues((unsigned char)s.p[s.n]);)
            s.n--;
    dt_json_put_string(out, name, s);
}

void dt_json_put_hex(struct dt_strbuf *out, const char *name, struct dt_str bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    dt_json_name(out, name);
    dt_strbuf_addc(out, '"');
    for (size_t i = 0; i < bytes.n; i++) {
        const unsigned char c = (unsigned char)bytes.p[i];
        dt_strbuf_addc(out, digits[c >> 4]);
        dt_strbuf_addc(out, digits[c & 15]);
    }
    dt_strbuf_addc(out, '"');
}

void dt_json_put_base64(struct dt_strbuf *out, const char *name, struct dt_str bytes)
{
    dt_json_name(out, name);
    dt_strbuf_addc(out, '"');
    dt_base64_add(out, bytes);
    dt_strbuf_addc(out, '"');
}

void dt_json_add_time(struct dt_strbuf *out, int64_t ms)
{
    char text[26] = "\"";
    if (ms == 0) {
        dt_strbuf_add(out, "null", 4);
        return;
    }
    dt_time_format(ms, text + 1);
    text[25] = '"'; /* replaces the NUL that ends the time */
    dt_strbuf_add(out, text, sizeof(text));
}

void dt_json_add_duration(struct dt_strbuf *out, int64_t ms)
{
    dt_strbuf_addc(out, '"');
    dt_duration_add_iso(out, ms);
    dt_strbuf_addc(out, '"');
}

void dt_json_add_string(struct dt_strbuf *out, struct dt_str s)
{
    static const char short_names[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;
    dt_strbuf_reserve(out, s.n + 2);
    dt_strbuf_addc(out, '"');
    while (i < s.n) {
        const size_t from = i;
        size_t step = 1;
        while (i < s.n && p[i] >= ' ' && p[i] != '"' && p[i] != '\\' && (step = dt_utf8_character(p + i, s.n - i)))
            i += step;
        dt_strbuf_add(out, p + from, i - from); /* copies bytes that need no escapes */
        if (i == s.n)
            break;
        if (!step) {
            dt_strbuf_adds(out, "\xef\xbf\xbd");
        } else if (p[i] >= ' ') {
            dt_strbuf_addc(out, '\\');
            dt_strbuf_addc(out, (char)p[i]);
        } else if (p[i] < sizeof(short_names) && short_names[p[i]]) {
            dt_strbuf_addc(out, '\\');
            dt_strbuf_addc(out, short_names[p[i]]);
        } else {
            dt_strbuf_addf(out, "\\u%04x", p[i]);
        }
        i++;
    }
    dt_strbuf_addc(out, '"');
}

void dt_json_add_compact(struct dt_strbuf *out, struct dt_str json)
{
    bool inside = false; /* whether p is inside a string */
    for (size_t i = 0; i < json.n; i++) {
        char c = json.p[i];
        if (inside && c == '\\' && i + 1 < json.n) {
            dt_strbuf_add(out, json.p + i++, 2);
            continue;
        }
        inside = c == '"' ? !inside : inside;
        if (inside || !strchr(" \t\r\n", c))
            dt_strbuf_addc(out, c);
    }
}
