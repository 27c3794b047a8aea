/*
 * Writes JSON into a buffer of the caller. Each function adds one value: dt_json_put_int(out, "attempt", 3) adds the
 * member "attempt":3. If the name is NULL, the value is an element of an array, or the whole text.
 *
 *   dt_json_begin_object(out, NULL);
 *   dt_json_put_string(out, "topic", job->topic);
 *   dt_json_begin_array(out, "attempts");
 *   dt_json_put_int(out, NULL, 1);
 *   dt_json_end_array(out);
 *   dt_json_end_object(out);
 *
 * The buffer is the only state: the writer adds a comma unless the buffer is empty or ends in '{', '[' or ':'. No JSON
 * value ends in one of these, provided that raw text is JSON. If a text follows another one in the buffer, as lines do,
 * it begins with dt_strbuf_addc(out, '{'), because no comma may precede it. If memory runs out, the buffer fails
 * (strbuf.h).
 *
 * Names are literals that need no escapes, except in dt_json_put_key.
 */
#pragma once

#include "strbuf.h"

/* Adds a comma if a value precedes it. */
void dt_json_comma(struct dt_strbuf *out);
/* Adds a comma if a value precedes it, and the name with its colon. */
void dt_json_add_name(struct dt_strbuf *out, const char *name, size_t n);
/* These functions add a value without a comma: after a name, or to a text that is not JSON. A string is quoted and
 * escaped; invalid UTF-8 becomes U+FFFD. */
void dt_json_add_string(struct dt_strbuf *out, struct dt_str s);
void dt_json_add_time(struct dt_strbuf *out, int64_t ms);
void dt_json_add_duration(struct dt_strbuf *out, int64_t ms);
/* Adds JSON in one line, without white space outside of strings. */
void dt_json_add_compact(struct dt_strbuf *out, struct dt_str json);

/* Begins a value: adds its name if it has one. Inline, so that measuring a literal costs nothing. */
static inline void dt_json_name(struct dt_strbuf *out, const char *name)
{
    if (name)
        dt_json_add_name(out, name, strlen(name));
    else
        dt_json_comma(out);
}
/* Begins a member whose name may need escapes. */
void dt_json_put_key(struct dt_strbuf *out, struct dt_str name);

static inline void dt_json_begin_object(struct dt_strbuf *out, const char *name)
{
    dt_json_name(out, name);
    dt_strbuf_addc(out, '{');
}
static inline void dt_json_end_object(struct dt_strbuf *out)
{
    dt_strbuf_addc(out, '}');
}
static inline void dt_json_begin_array(struct dt_strbuf *out, const char *name)
{
    dt_json_name(out, name);
    dt_strbuf_addc(out, '[');
}
static inline void dt_json_end_array(struct dt_strbuf *out)
{
    dt_strbuf_addc(out, ']');
}

/* Adds JSON text without changing it. */
static inline void dt_json_put_raw(struct dt_strbuf *out, const char *name, struct dt_str json)
{
    dt_json_name(out, name);
    dt_strbuf_add(out, json.p, json.n);
}
static inline void dt_json_put_null(struct dt_strbuf *out, const char *name)
{
    dt_json_put_raw(out, name, DT_STR_LIT("null"));
}
static inline void dt_json_put_bool(struct dt_strbuf *out, const char *name, bool v)
{
    dt_json_put_raw(out, name, v ? DT_STR_LIT("true") : DT_STR_LIT("false"));
}

static inline void dt_json_put_int(struct dt_strbuf *out, const char *name, int64_t v)
{
    dt_json_name(out, name);
    dt_strbuf_add_i64(out, v);
}
/* Adds a number, or null if `given` is false. */
static inline void dt_json_put_int_or_null(struct dt_strbuf *out, const char *name, bool given, int64_t v)
{
    if (given)
        dt_json_put_int(out, name, v);
    else
        dt_json_put_null(out, name);
}
/* Adds numbers as an array. */
void dt_json_put_ints(struct dt_strbuf *out, const char *name, const int64_t *v, size_t n);
#define DT_JSON_PUT_ROW(out, ...)                                                                                      \
    dt_json_put_ints(out, NULL, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
/* Adds a number with `digits` significant digits. */
void dt_json_put_double(struct dt_strbuf *out, const char *name, int digits, double v);
/* Adds a number as a string, which is the form of ids: "7316522". */
void dt_json_put_id(struct dt_strbuf *out, const char *name, int64_t id);

/* Adds a string, or null if the text is absent. */
static inline void dt_json_put_string(struct dt_strbuf *out, const char *name, struct dt_str s)
{
    if (s.p) {
        dt_json_name(out, name);
        dt_json_add_string(out, s);
    } else {
        dt_json_put_null(out, name);
    }
}
/* Adds a string, or nothing if the text is absent. */
static inline void dt_json_put_given(struct dt_strbuf *out, const char *name, struct dt_str s)
{
    if (s.p)
        dt_json_put_string(out, name, s);
}
/* Adds a string, or null if the text is absent or empty. */
static inline void dt_json_put_filled(struct dt_strbuf *out, const char *name, struct dt_str s)
{
    dt_json_put_string(out, name, s.n ? s : DT_STR_NONE);
}
/* Adds a string, or null if the word is NULL. */
static inline void dt_json_put_word(struct dt_strbuf *out, const char *name, const char *word)
{
    dt_json_put_string(out, name, dt_str(word));
}
/* Adds a string that is cut to `most` bytes at a character boundary, or null if the text is absent. */
void dt_json_put_cut(struct dt_strbuf *out, const char *name, struct dt_str s, size_t most);
/* Adds bytes as a string of hex digits. */
void dt_json_put_hex(struct dt_strbuf *out, const char *name, struct dt_str bytes);
void dt_json_put_base64(struct dt_strbuf *out, const char *name, struct dt_str bytes);
/* Adds a time like "2026-11-21T10:30:00.000Z", or null if ms is 0. */
static inline void dt_json_put_time(struct dt_strbuf *out, const char *name, int64_t ms)
{
    dt_json_name(out, name);
    dt_json_add_time(out, ms);
}
/* Adds a duration like "PT1M". */
static inline void dt_json_put_duration(struct dt_strbuf *out, const char *name, int64_t ms)
{
    dt_json_name(out, name);
    dt_json_add_duration(out, ms);
}
/* Adds a duration, or null if `given` is false. */
static inline void dt_json_put_duration_or_null(struct dt_strbuf *out, const char *name, bool given, int64_t ms)
{
    if (given)
        dt_json_put_duration(out, name, ms);
    else
        dt_json_put_null(out, name);
}
