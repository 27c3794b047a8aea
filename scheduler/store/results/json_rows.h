/*
 * A JSON array of arrays, written row by row into a buffer of the caller: the parameter of a statement that reads many
 * rows by JSON_TABLE. The caller closes a row and the array with ']' and looks at the buffer's `failed` when all is
 * written. For store/ only.
 */
#ifndef DT_STORE_JSON_ROWS_H
#define DT_STORE_JSON_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Empties the buffer and opens the array. */
void dt_json_rows_begin(struct dt_strbuf *text);

/* Opens the next row of the array. */
void dt_json_row_begin(struct dt_strbuf *text);

/* Adds a number and the comma behind it: the row's last cell is added otherwise. */
void dt_json_row_add(struct dt_strbuf *text, int64_t value);

/* Adds a number and the comma behind it; 0 is written as null. */
void dt_json_row_add_or_null(struct dt_strbuf *text, int64_t value);

/* Adds milliseconds, at most INT32_MAX, without a comma; null if there are none (below 0). */
void dt_json_row_add_duration(struct dt_strbuf *text, int64_t duration_ms);

/* Adds bytes as a string of hex digits, without a comma. */
void dt_json_row_add_hex(struct dt_strbuf *text, struct dt_str s);

/* Adds a string without a comma, cut at a character of UTF-8 to `max` bytes; null if s.p is NULL. */
void dt_json_row_add_text(struct dt_strbuf *text, struct dt_str s, size_t max);

/* Adds " id:value", which is no JSON: what a statement looks up by SUBSTRING_INDEX, of numbers that only the ids tell
 * apart. */
void dt_keyed_add(struct dt_strbuf *text, int64_t id, int64_t value);

#endif
