/*
 * Import: jobs from NDJSON or CSV to POST /v1/jobs:batch, batch by batch. If the answer to a batch is lost, its jobs
 * with a key are sent again, because a key makes a repeat harmless. Whether its jobs without a key were created is then
 * unknown.
 *
 *   read lines into the batch ─▶ send ─▶ judge each result ─▶ lines that may succeed later stay in the batch
 *
 * CSV is that of RFC 4180: cells between commas, in double quotes if they have commas, quotes or line breaks. The first
 * line names the members of a new job. `payload` and `headers` are JSON, `retry` is a comma-separated list of delays,
 * the other members are texts; an empty cell means that the member is absent. A byte order mark before the first line
 * is skipped.
 *
 * Invariants: the text of the batch is its lines in order, each with its line feed. The program's memory is bounded by
 * the size of a batch.
 */
#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "base/assert.h"
#include "base/text/json_write.h"
#include "cli.h"
#include "show.h"
#include "words.h"

#define LINE_BYTES  ((size_t)8 << 20)
#define BATCH_LINES 5000
#define BATCH_BYTES ((size_t)4 << 20)
#define TELL_MAX    20 /* maximal number of refused lines that are reported */
#define PAUSE_NS    500000000L
#define PATIENCE    120 /* pauses in a row without progress after which the import gives up */

/* The file that is imported. */
struct lines {
    FILE *in; /* the file; borrowed */
    bool csv;
    bool named;             /* the first line of a CSV file, which names the columns, was read */
    struct dt_strbuf names; /* names of the columns, each followed by a zero byte */
    struct dt_strbuf cell;
    int64_t line; /* number of the line at which the last job began; the first line is 1 */
    int64_t at;   /* number of the line that is read now */
    int64_t bytes;
};

struct line {
    size_t begin, n; /* position in the text of the batch, and length without the line feed */
    int64_t number;  /* number of the line in the file */
};

struct import {
    struct dt_cli *cli;
    struct lines lines;
    struct dt_strbuf text; /* text of the batch, which is sent next */
    struct line *batch;
    unsigned n, most; /* n: number of lines in the batch; most: number that the API accepts at once */
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_progress progress;
    int64_t size; /* bytes of the file; 0: unknown */
    int64_t made, existing, refused, unknown;
    unsigned idle; /* pauses in a row without progress */
    int code;
};

/* ---- the file ---- */

static int read_byte(struct lines *lines)
{
    int c = getc_unlocked(lines->in);
    lines->bytes += c != EOF;
    lines->at += c == '\n';
    return c;
}

static dt_status fail_line_too_long(const struct lines *lines, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID, "line %lld is longer than %zu MiB", (long long)lines->line, LINE_BYTES >> 20);
}

static dt_status read_json_line(struct lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    size_t begin = out->n;
    bool blank = true;
    int c;
    lines->line = lines->at;
    while ((c = read_byte(lines)) != EOF) {
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
        if (out->n - begin > LINE_BYTES)
            return fail_line_too_long(lines, err);
    }
    if (blank) {
        out->n = begin;
        return DT_NOT_FOUND;
    }
    dt_strbuf_addc(out, '\n');
    return DT_OK;
}

/* Reads a cell in double quotes, after the opening quote. Returns the byte after the closing quote. */
static int read_quoted_cell(struct lines *lines)
{
    int c;
    while ((c = read_byte(lines)) != EOF && lines->cell.n <= LINE_BYTES) {
        if (c == '"' && (c = read_byte(lines)) != '"')
            return c;
        dt_strbuf_addc(&lines->cell, (char)c);
    }
    return -2; /* the closing quote is missing */
}

/* Reads a cell. Returns the byte that follows the cell: a comma, a line feed or EOF; -2: the cell is malformed. */
static int read_cell(struct lines *lines)
{
    dt_strbuf_reset(&lines->cell);
    int c = read_byte(lines);
    if (c == '"') {
        c = read_quoted_cell(lines);
    } else {
        for (; c != ',' && c != '\n' && c != EOF && c != '"' && lines->cell.n <= LINE_BYTES; c = read_byte(lines))
            dt_strbuf_addc(&lines->cell, (char)c);
        if (c == '\n' && lines->cell.n > 0 && lines->cell.p[lines->cell.n - 1] == '\r')
            lines->cell.n--;
    }
    c = c == '\r' ? read_byte(lines) : c;
    return c == ',' || c == '\n' || c == EOF ? c : -2;
}

static dt_status fail_invalid_cell(const struct lines *lines, struct dt_error *err)
{
    return lines->cell.n > LINE_BYTES
               ? fail_line_too_long(lines, err)
               : dt_fail(err, DT_INVALID, "line %lld is not valid CSV: a quote is misplaced or missing",
                         (long long)lines->line);
}

/* Reads the first line of a CSV file, after skipping a byte order mark. */
static dt_status read_column_names(struct lines *lines, struct dt_error *err)
{
    static const unsigned char mark[] = {0xef, 0xbb, 0xbf};
    lines->line = lines->at;
    int c = read_byte(lines);
    for (size_t i = 1; c == mark[0] && i < sizeof(mark); i++)
        if (read_byte(lines) != mark[i])
            return dt_fail(err, DT_INVALID, "the first line must have the names of the columns, but is not UTF-8");
    if (c != mark[0]) {
        lines->bytes -= c != EOF;
        lines->at -= c == '\n';
        ungetc(c, lines->in);
    }
    for (c = ','; c == ',';) {
        c = read_cell(lines);
        if (c == -2)
            return fail_invalid_cell(lines, err);
        struct dt_str name = dt_str_trimmed(dt_strbuf_str(&lines->cell));
        if (name.n == 0)
            return dt_fail(err, DT_INVALID, "the first line must have the names of the columns: a column has no name");
        dt_strbuf_add(&lines->names, name.p, name.n);
        dt_strbuf_addc(&lines->names, '\0');
    }
    lines->named = true;
    return DT_OK;
}

static dt_status read_csv_line(struct lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    bool first = true;
    int c = 0;
    dt_status status = lines->named ? DT_OK : read_column_names(lines, err);
    if (status != DT_OK)
        return status;
    while ((c = read_byte(lines)) == '\n' || c == '\r')
        ; /* skips an empty line */
    if (c == EOF)
        return DT_NOT_FOUND;
    ungetc(c, lines->in);
    lines->bytes--;
    lines->line = lines->at;
    dt_strbuf_addc(out, '{');
    const char *name = lines->names.p;
    for (c = ','; c == ','; name += strlen(name) + 1) {
        c = read_cell(lines);
        if (c == -2)
            return fail_invalid_cell(lines, err);
        if (name == lines->names.p + lines->names.n)
            return dt_fail(err, DT_INVALID, "line %lld has more cells than the first line has names",
                           (long long)lines->line);
        if (lines->cell.n > 0) {
            const struct dt_str text = dt_strbuf_str(&lines->cell);
            if (!first)
                dt_strbuf_addc(out, ',');
            dt_json_add_string(out, dt_str(name));
            dt_strbuf_addc(out, ':');
            if (strcmp(name, "payload") == 0 || strcmp(name, "headers") == 0) {
                /* A job must be on one line, so line breaks inside its JSON become spaces. */
                for (size_t i = 0; i < text.n; i++)
                    dt_strbuf_addc(out, text.p[i] == '\n' || text.p[i] == '\r' ? ' ' : text.p[i]);
            } else if (strcmp(name, "retry") == 0) {
                dt_cli_add_list(out, text);
            } else {
                dt_json_add_string(out, text);
            }
            first = false;
        }
    }
    dt_strbuf_adds(out, "}\n");
    return DT_OK;
}

/* Appends the next job as a JSON object on one line; skips empty lines. NOT_FOUND: no job is left. INVALID: the line
 * that err names cannot be read. */
static dt_status read_next_job(struct lines *lines, struct dt_strbuf *out, struct dt_error *err)
{
    size_t begin = out->n;
    dt_status status = lines->csv ? read_csv_line(lines, out, err) : read_json_line(lines, out, err);
    if (ferror(lines->in)) /* the last job that was read may be incomplete */
        status = dt_fail(err, DT_INVALID, "line %lld cannot be read: %s", (long long)lines->at, strerror(errno));
    if (status == DT_OK && out->failed)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    if (status != DT_OK && !out->failed)
        out->n = begin;
    return status;
}

/* ---- the batch ---- */

/* Removes all lines from the batch except the chosen ones; keeps their order. */
static void keep_chosen_lines(struct import *im, const bool *chosen)
{
    size_t at = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < im->n; i++) {
        struct line line = im->batch[i];
        if (!chosen[i])
            continue;
        dt_assert_cmp(line.begin + line.n, <, im->text.n);
        memmove(im->text.p + at, im->text.p + line.begin, line.n + 1);
        im->batch[n++] = (struct line){at, line.n, line.number};
        at += line.n + 1;
    }
    im->n = n;
    im->text.n = at;
}

/* ---- results ---- */

static void report_line(struct import *im, int64_t number, struct dt_str why)
{
    dt_cli_progress_end(&im->progress);
    if (im->refused + im->unknown <= TELL_MAX)
        dt_cli_say("line %lld: %.*s", (long long)number, (int)(why.n < 400 ? why.n : 400), why.p ? why.p : "");
    if (im->refused + im->unknown == TELL_MAX)
        dt_cli_say("further lines that fail are counted, but not shown");
}

/* Reports why a line was refused: the first member with a fault; if there is none, the detail of the problem. */
static void report_refusal(struct import *im, int64_t number, const struct dt_json_node *root)
{
    struct dt_strbuf why = {0};
    const struct dt_json_node *errors = dt_json_member(im->json, root, "errors");
    const struct dt_json_node *first = errors && errors->type == DT_JSON_ARRAY ? dt_json_first(im->json, errors) : NULL;
    struct dt_str detail = dt_json_text_of(im->json, root, first ? "" : "detail");
    if (first) {
        struct dt_str pointer = dt_json_text_of(im->json, first, "pointer");
        struct dt_str reason = dt_json_text_of(im->json, first, "reason");
        dt_strbuf_addf(&why, "%.*s: %.*s", (int)pointer.n, pointer.p ? pointer.p : "", (int)reason.n,
                       reason.p ? reason.p : "");
    } else {
        dt_strbuf_add(&why, detail.p ? detail.p : "refused", detail.p ? detail.n : 7);
    }
    im->refused++;
    report_line(im, number, dt_strbuf_str(&why));
    dt_strbuf_clear(&why);
}

/* Called if it is unknown whether a line's job was created. True: the line stays in the batch, because its key makes a
 * repeat harmless. */
static bool may_resend_unknown_line(struct import *im, unsigned i)
{
    struct dt_str text = {im->text.p + im->batch[i].begin, im->batch[i].n};
    struct dt_json_limits limits = {.depth = 64, .opaque = "payload"};
    if (dt_json_parse(im->json, text, &limits, NULL) == DT_OK &&
        dt_json_member(im->json, dt_json_root(im->json), "key"))
        return true;
    im->unknown++;
    report_line(im, im->batch[i].number,
                DT_STR_LIT("it has no key, and no answer arrived: the job may have been created"));
    return false;
}

/* Counts the result of a line. True: the line must be sent again. rest: the result is about all remaining lines of the
 * batch; no job of these lines was created. */
static bool count_result(struct import *im, unsigned i, struct dt_str result, bool rest)
{
    static const char limit[] = "limits.batch_";
    const struct dt_json_node *root = NULL;
    if (dt_json_parse(im->json, result, &(struct dt_json_limits){.depth = 16}, NULL) == DT_OK)
        root = dt_json_root(im->json);
    const int64_t status = dt_json_int_of(im->json, root, "status");
    struct dt_str type = dt_json_text_of(im->json, root, "type");
    struct dt_str detail = dt_json_text_of(im->json, root, "detail");
    im->made += status == 201;
    im->existing += status == 200;
    if (status == 200 || status == 201)
        return false;
    /* If earlier lines of the batch used up a limit and so this line was refused, later batches are shorter. */
    bool named = detail.p && memmem(detail.p, detail.n, limit, sizeof(limit) - 1);
    bool beyond = i > 0 && (rest || named) && dt_str_is(type, "/problems/too-large");
    if (beyond && i < im->most)
        im->most = i;
    if (beyond || rest)
        return true;
    if (dt_str_is(type, "/problems/outcome-unknown"))
        return may_resend_unknown_line(im, i);
    if (status == 503 || status == 408)
        return true;
    report_refusal(im, im->batch[i].number, root);
    return false;
}

static void pause_import(struct import *im)
{
    im->idle++;
    nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

/* Reads the answer, and removes finished lines from the batch. Results are in the order of the lines. If there are
 * fewer results than lines, the last result is about all remaining lines; no job of these lines was created. */
static int read_answer(struct import *im, unsigned sent, bool *again)
{
    const char *p = im->answer.body.p;
    const char *end = p + im->answer.body.n;
    unsigned most = im->most;
    unsigned results = 0;
    unsigned left = 0; /* number of lines that must be sent again */
    for (const char *q = p; q < end; q++)
        results += *q == '\n' || q + 1 == end;
    for (unsigned i = 0; i < im->n; i++)
        again[i] = i >= sent || (results < sent && i + 1 >= results);
    for (unsigned i = 0; i < sent && p < end; i++) {
        const char *feed = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((feed ? feed : end) - p);
        again[i] = count_result(im, i, (struct dt_str){p, length}, again[i]);
        p += length + 1;
    }
    for (unsigned i = 0; i < sent; i++)
        left += again[i];
    keep_chosen_lines(im, again);
    if (left < sent)
        im->idle = 0;
    if (left > 0 && im->most == most)
        pause_import(im);
    return im->idle < PATIENCE ? DT_CLI_DONE : DT_CLI_UNREACHED;
}

static int send_batch(struct import *im, bool *again)
{
    struct dt_error err = {0};
    unsigned sent = im->n < im->most ? im->n : im->most;
    dt_assert(sent > 0 && sent <= BATCH_LINES);
    struct line last = im->batch[sent - 1];
    struct dt_rest_request request = {.method = "POST",
                                      .path = "/v1/jobs:batch",
                                      .body = {im->text.p, last.begin + last.n + 1},
                                      .type = "application/x-ndjson"};
    dt_status status = dt_rest_ask(im->cli->rest, &request, &im->answer, &err);
    if (status == DT_OK && im->answer.status == 200)
        return read_answer(im, sent, again);
    if (status == DT_OK && im->answer.status == 503 && im->idle < PATIENCE) {
        pause_import(im);
        return DT_CLI_DONE;
    }
    if (status == DT_OK)
        return dt_cli_judge(im->cli, &im->answer);
    if (status != DT_UNAVAILABLE || im->idle >= PATIENCE) {
        dt_cli_progress_end(&im->progress);
        return dt_cli_failed(status, &err);
    }
    /* The batch got no answer. Lines that may be sent again stay in it. */
    for (unsigned i = 0; i < im->n; i++)
        again[i] = i >= sent || !im->answer.reached || may_resend_unknown_line(im, i);
    keep_chosen_lines(im, again);
    pause_import(im);
    return DT_CLI_DONE;
}

static int import_all_jobs(struct import *im)
{
    bool again[BATCH_LINES];
    struct dt_error err = {0};
    dt_status status = DT_OK;
    int code = DT_CLI_DONE;
    dt_rest_catch_signals();
    while (code == DT_CLI_DONE && !dt_rest_signal() && (status == DT_OK || im->n > 0)) {
        while (status == DT_OK && im->n < im->most && im->text.n < BATCH_BYTES) {
            size_t begin = im->text.n;
            status = read_next_job(&im->lines, &im->text, &err);
            if (status == DT_OK) {
                dt_assert_cmp(im->n, <, BATCH_LINES);
                im->batch[im->n++] = (struct line){begin, im->text.n - begin - 1, im->lines.line};
            }
        }
        if (im->n > 0 && !dt_rest_signal())
            code = send_batch(im, again);
        dt_cli_progress_tell(&im->progress, im->made + im->existing, im->lines.bytes, im->size);
    }
    dt_cli_progress_end(&im->progress);
    if (code == DT_CLI_DONE && status != DT_NOT_FOUND && !dt_rest_signal())
        code = dt_cli_failed(status, &err);
    if (code == DT_CLI_UNREACHED || dt_rest_signal())
        dt_cli_say(
            "%lld jobs were created; to continue, run the same command again: it creates no job with a key twice",
            (long long)im->made);
    return code;
}

int dt_cli_run_import(struct dt_cli *cli)
{
    const char *path = cli->call->n_args > 0 ? cli->call->args[0] : "-";
    const char *format = dt_cli_value(cli->call, "format");
    struct import im = {.cli = cli, .lines = {.at = 1}, .most = BATCH_LINES};
    struct stat file;
    char sums[256];
    int code = DT_CLI_REFUSED;
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!in) {
        dt_cli_say("%s: %s", path, strerror(errno));
        return DT_CLI_USAGE;
    }
    im.lines.in = in;
    im.lines.csv = format ? strcmp(format, "csv") == 0 : dt_str_ends(dt_str(path), DT_STR_LIT(".csv"));
    dt_cli_progress_begin(&im.progress, cli->clock, "jobs");
    im.size = fstat(fileno(in), &file) == 0 && S_ISREG(file.st_mode) ? file.st_size : 0;
    im.batch = calloc(BATCH_LINES, sizeof(*im.batch));
    if (im.batch && dt_json_new(&im.json) == DT_OK) {
        code = import_all_jobs(&im);
        snprintf(sums, sizeof(sums), "{\"made\":%lld,\"existing\":%lld,\"refused\":%lld,\"unknown\":%lld}",
                 (long long)im.made, (long long)im.existing, (long long)im.refused, (long long)im.unknown);
        dt_strbuf_addf(&cli->done, "jobs import: %s", sums);
        if (dt_json_parse(im.json, dt_str(sums), &(struct dt_json_limits){.depth = 2}, NULL) == DT_OK)
            dt_cli_show(cli, im.json, dt_json_root(im.json));
    }
    if (code == DT_CLI_DONE && im.refused + im.unknown > 0)
        code = DT_CLI_REFUSED;
    dt_json_free(im.json);
    free(im.batch);
    dt_strbuf_clear(&im.answer.body);
    dt_strbuf_clear(&im.text);
    dt_strbuf_clear(&im.lines.names);
    dt_strbuf_clear(&im.lines.cell);
    if (in != stdin)
        fclose(in);
    return code;
}
