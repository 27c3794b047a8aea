/* JSON parameters of statements that read many rows by JSON_TABLE: an array of arrays. Refuses to know any column. */
#include "store/results/json_rows.h"

#include "base/json.h"

void dt_json_rows_begin(struct dt_strbuf *text)
{
    dt_strbuf_reset(text);
    dt_strbuf_addc(text, '[');
}

void dt_json_row_begin(struct dt_strbuf *text)
{
    dt_strbuf_adds(text, text->n > 1 ? ",[" : "[");
}

void dt_json_row_add(struct dt_strbuf *text, int64_t value)
{
    dt_strbuf_add_i64(text, value);
    dt_strbuf_addc(text, ',');
}

void dt_json_row_add_or_null(struct dt_strbuf *text, int64_t value)
{
    if (value)
        dt_strbuf_add_i64(text, value);
    else
        dt_strbuf_adds(text, "null");
    dt_strbuf_addc(text, ',');
}

void dt_json_row_add_duration(struct dt_strbuf *text, int64_t duration_ms)
{
    if (duration_ms < 0)
        dt_strbuf_adds(text, "null");
    else
        dt_strbuf_add_i64(text, duration_ms < INT32_MAX ? duration_ms : INT32_MAX);
}

void dt_keyed_add(struct dt_strbuf *text, int64_t id, int64_t value)
{
    dt_strbuf_addc(text, ' ');
    dt_strbuf_add_i64(text, id);
    dt_strbuf_addc(text, ':');
    dt_strbuf_add_i64(text, value);
}

void dt_json_row_add_hex(struct dt_strbuf *text, struct dt_str s)
{
    static const char digits[] = "0123456789ABCDEF";
    dt_strbuf_addc(text, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        dt_strbuf_addc(text, digits[c >> 4]);
        dt_strbuf_addc(text, digits[c & 15]);
    }
    dt_strbuf_addc(text, '"');
}

void dt_json_row_add_text(struct dt_strbuf *text, struct dt_str s, size_t max)
{
    if (!s.p) {
        dt_strbuf_adds(text, "null");
        return;
    }
    if (s.n > max) {
        for (s.n = max; s.n > 0 && ((unsigned char)s.p[s.n] & 0xC0) == 0x80;)
            s.n--;
    }
    dt_json_add_string(text, s);
}
