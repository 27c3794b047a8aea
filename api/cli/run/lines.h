/*
 * Jobs from a file or standard input, one after the other, as JSON objects in one line each: NDJSON as it is, CSV by
 * the names in its first line; a byte order mark before them is passed over. Memory is that of one line.
 *
 * CSV is that of RFC 4180: cells between commas, in double quotes where they hold commas, quotes or line breaks. The
 * names are those of the members of a new job; `payload` and `headers` are JSON, `retry` has delays between commas, the
 * others are texts; an empty cell is a member that is absent.
 */
#ifndef DT_CLI_LINES_H
#define DT_CLI_LINES_H

#include <stdio.h>

#include "base/strbuf.h"

#define DT_CLI_LINE_MAX ((size_t)8 << 20)

struct dt_cli_lines {
    FILE *in; /* borrowed */
    bool csv;
    bool named;             /* the first line of a CSV was read */
    struct dt_strbuf names; /* of its columns, each with a NUL behind it */
    struct dt_strbuf cell;
    int64_t line; /* of the file, from 1, at which the last job began */
    int64_t at;   /* the line that is read now */
    int64_t bytes;
};

void dt_cli_lines_init(struct dt_cli_lines *lines, FILE *in, bool csv);
void dt_cli_lines_clear(struct dt_cli_lines *lines);
/* Appends the next job and a line feed to out; empty lines are passed over. NOT_FOUND: there is none; INVALID: err says
 * which line cannot be read. */
DT_MUST_CHECK dt_status dt_cli_lines_next(struct dt_cli_lines *lines, struct dt_strbuf *out, struct dt_error *err);

#endif
