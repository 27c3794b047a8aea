/* Reads byte by byte, from the C library's buffer. */
#include "lines.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"

void dt_cli_lines_init(struct dt_cli_lines *lines, FILE *in, bool csv)
{
    *lines = (struct dt_cli_lines){.in = in, .csv = csv, .at = 1};
    dt_strbuf_init(&lines->names);
    dt_strbuf_init(&lines->cell);
}

void dt_cli_lines_clear(struct dt_cli_lines *lines)
{
    dt_strbuf_clear(&lines->names);
    dt_strbuf_clear(&lines->cell);
}

static int next_byte(struct dt_cli_lines *lines)
{
    int c = getc_unlocked(lines->in);
    lines->bytes += c != EOF;
    lines->at += c == '\n';
    return c;
}

static dt_status too_long(const struct dt_cli_lines *lines, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID, "line %lld is longer than %zu MiB", (long long)lines->line, DT_CLI_LINE_MAX >> 20);
}

/* ---- NDJSON ---- */

static dt_status next_json(struct dt_cli_lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    size_t begin = out->n;
    bool blank = true;
    int c;
    lines->line = lines->at;
    while ((c = next_byte(lines)) != EOF) {
        if (c == '\n' && !blank)
            break;
        if (c == '\n') {
            out->n = begin;
            lines->line = lines->at;
            continue;
        }
        blank = blank && strchr(" \t\r", c);
        dt_strbuf_addc(out, (char)c);
        if (lines->bytes == 3 && out->n - begin == 3 && !out->failed &&
            dt_str_without_bom((struct dt_str){out->p + begin, 3}).n == 0) {
            out->n = begin;
            blank = true;
        }
        if (out->n - begin > DT_CLI_LINE_MAX)
            return too_long(lines, err);
    }
    if (blank) {
        out->n = begin;
        return DT_NOT_FOUND;
    }
    dt_strbuf_addc(out, '\n');
    return DT_OK;
}

/* ---- CSV ---- */

/* The text of a cell in double quotes, whose first one is read; gives the byte behind it. */
static int quoted_cell(struct dt_cli_lines *lines)
{
    int c;
    while ((c = next_byte(lines)) != EOF && lines->cell.n <= DT_CLI_LINE_MAX) {
        if (c == '"' && (c = next_byte(lines)) != '"')
            return c;
        dt_strbuf_addc(&lines->cell, (char)c);
    }
    return -2; /* its end is missing */
}

/* Reads a cell; gives the byte that ends it: a comma, a line feed or EOF; -2: it is no cell. */
static int next_cell(struct dt_cli_lines *lines)
{
    dt_strbuf_reset(&lines->cell);
    int c = next_byte(lines);
    if (c == '"') {
        c = quoted_cell(lines);
    } else {
        for (; c != ',' && c != '\n' && c != EOF && c != '"' && lines->cell.n <= DT_CLI_LINE_MAX; c = next_byte(lines))
            dt_strbuf_addc(&lines->cell, (char)c);
        if (c == '\n' && lines->cell.n > 0 && lines->cell.p[lines->cell.n - 1] == '\r')
            lines->cell.n--;
    }
    c = c == '\r' ? next_byte(lines) : c;
    return c == ',' || c == '\n' || c == EOF ? c : -2;
}

static dt_status bad_cell(const struct dt_cli_lines *lines, struct dt_error *err)
{
    return lines->cell.n > DT_CLI_LINE_MAX
               ? too_long(lines, err)
               : dt_fail(err, DT_INVALID, "line %lld is no CSV: a quote stands where none may, or is missing",
                         (long long)lines->line);
}

/* Passes over a byte order mark; false: the file begins as one does, and has none. */
static bool pass_mark(struct dt_cli_lines *lines)
{
    static const unsigned char mark[] = {0xef, 0xbb, 0xbf};
    int c = next_byte(lines);
    if (c != mark[0]) {
        lines->bytes -= c != EOF;
        lines->at -= c == '\n';
        ungetc(c, lines->in);
        return true;
    }
    for (size_t i = 1; i < sizeof(mark); i++)
        if (next_byte(lines) != mark[i])
            return false;
    return true;
}

static dt_status read_names(struct dt_cli_lines *lines, struct dt_error *err)
{
    int c = ',';
    lines->line = lines->at;
    if (!pass_mark(lines))
        return dt_fail(err, DT_INVALID, "the first line names the columns: this one is no UTF-8");
    while (c == ',') {
        c = next_cell(lines);
        if (c == -2)
            return bad_cell(lines, err);
        struct dt_str name = dt_str_trimmed(dt_strbuf_str(&lines->cell));
        if (name.n == 0)
            return dt_fail(err, DT_INVALID, "the first line names the columns: one has no name");
        dt_strbuf_add(&lines->names, name.p, name.n);
        dt_strbuf_addc(&lines->names, '\0');
    }
    lines->named = true;
    return DT_OK;
}

static void add_delays(struct dt_strbuf *out, struct dt_str text)
{
    dt_strbuf_addc(out, '[');
    for (size_t i = 0; i < text.n;) {
        size_t n = 0;
        while (i + n < text.n && text.p[i + n] != ',')
            n++;
        dt_json_add_string(out, dt_str_trimmed((struct dt_str){text.p + i, n}));
        i += n + 1;
        if (i < text.n)
            dt_strbuf_addc(out, ',');
    }
    dt_strbuf_addc(out, ']');
}

/* A line break in JSON can be a space as well, and has to be: the job stands in one line. */
static void add_json_cell(struct dt_strbuf *out, struct dt_str text)
{
    for (size_t i = 0; i < text.n; i++)
        dt_strbuf_addc(out, text.p[i] == '\n' || text.p[i] == '\r' ? ' ' : text.p[i]);
}

static void add_cell(struct dt_strbuf *out, const char *name, struct dt_str text, bool first)
{
    if (!first)
        dt_strbuf_addc(out, ',');
    dt_json_add_string(out, dt_str(name));
    dt_strbuf_addc(out, ':');
    if (strcmp(name, "payload") == 0 || strcmp(name, "headers") == 0)
        add_json_cell(out, text);
    else if (strcmp(name, "retry") == 0)
        add_delays(out, text);
    else
        dt_json_add_string(out, text);
}

static dt_status next_row(struct dt_cli_lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    const char *name = lines->names.p;
    bool first = true;
    int c = ',';
    dt_strbuf_addc(out, '{');
    while (c == ',') {
        c = next_cell(lines);
        if (c == -2)
            return bad_cell(lines, err);
        if (name == lines->names.p + lines->names.n)
            return dt_fail(err, DT_INVALID, "line %lld has more cells than the first line has names",
                           (long long)lines->line);
        if (lines->cell.n > 0) {
            add_cell(out, name, dt_strbuf_str(&lines->cell), first);
            first = false;
        }
        name += strlen(name) + 1;
    }
    dt_strbuf_adds(out, "}\n");
    return DT_OK;
}

static dt_status next_csv(struct dt_cli_lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    int c = 0;
    dt_status status = lines->named ? DT_OK : read_names(lines, err);
    if (status != DT_OK)
        return status;
    while ((c = next_byte(lines)) == '\n' || c == '\r')
        ; /* an empty line */
    if (c == EOF)
        return DT_NOT_FOUND;
    ungetc(c, lines->in);
    lines->bytes--;
    lines->line = lines->at;
    return next_row(lines, out, err);
}

dt_status dt_cli_lines_next(struct dt_cli_lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    size_t begin = out->n;
    dt_status status = lines->csv ? next_csv(lines, out, err) : next_json(lines, out, err);
    if (ferror(lines->in)) /* what was read last may be half a job */
        status = dt_fail(err, DT_INVALID, "line %lld cannot be read: %s", (long long)lines->at, strerror(errno));
    if (status == DT_OK && out->failed)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    if (status != DT_OK && !out->failed)
        out->n = begin;
    return status;
}
