/*
 * Import: jobs from NDJSON or CSV to POST /v1/jobs:batch, a batch at a time. A job with a key is made once however
 * often it is sent, so that a batch whose answer was lost is sent again; one without a key is not, and its outcome is
 * told as unknown.
 *
 *   read lines into the batch ─▶ send ─▶ judge each result ─▶ those that may succeed later stay in the batch
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/run/lines.h"
#include "cli/run/progress.h"
#include "cli/run/run.h"
#include "cli/show.h"
#include "cli/talk.h"

#define BATCH_LINES 5000
#define BATCH_BYTES ((size_t)4 << 20)
#define TELL_MAX    20 /* refused lines that are told */
#define PAUSE_NS    500000000L
#define PATIENCE    120 /* pauses without progress before it gives up */

struct line {
    size_t begin, n; /* in the batch's text, without the line feed */
    int64_t number;  /* in the file */
};

struct import {
    struct dt_cli *cli;
    struct dt_cli_lines lines;
    struct dt_strbuf text; /* the batch */
    struct line *batch;
    unsigned n, most; /* lines of it; more are refused */
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_progress progress;
    int64_t size; /* of the file; 0: not known */
    int64_t made, existing, refused, unknown;
    unsigned idle; /* pauses since something was done */
    int code;
};

/* ---- the batch ---- */

static dt_status fill(struct import *im, struct dt_error *err)
{
    dt_status status = DT_OK;
    while (im->n < im->most && im->text.n < BATCH_BYTES) {
        size_t begin = im->text.n;
        status = dt_cli_lines_next(&im->lines, &im->text, err);
        if (status != DT_OK)
            break;
        im->batch[im->n++] = (struct line){begin, im->text.n - begin - 1, im->lines.line};
    }
    return status;
}

/* Keeps the chosen lines of the batch, in their order. */
static void keep(struct import *im, const bool *chosen)
{
    size_t at = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < im->n; i++) {
        struct line line = im->batch[i];
        if (!chosen[i])
            continue;
        memmove(im->text.p + at, im->text.p + line.begin, line.n + 1);
        im->batch[n++] = (struct line){at, line.n, line.number};
        at += line.n + 1;
    }
    im->n = n;
    im->text.n = at;
}

/* ---- results ---- */

static void tell(struct import *im, int64_t number, struct dt_str why)
{
    dt_cli_progress_end(&im->progress);
    if (im->refused + im->unknown <= TELL_MAX)
        dt_cli_say("line %lld: %.*s", (long long)number, (int)(why.n < 400 ? why.n : 400), why.p ? why.p : "");
    if (im->refused + im->unknown == TELL_MAX)
        dt_cli_say("further lines are counted alone");
}

static struct dt_str member_text(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = node && node->type == DT_JSON_OBJECT ? dt_json_member(json, node, name) : NULL;
    return m && m->type == DT_JSON_STRING ? m->str : DT_STR_NONE;
}

/* Why a line was refused: the first member that is wrong, or the detail. */
static void refuse(struct import *im, int64_t number, const struct dt_json_node *root)
{
    struct dt_strbuf why;
    const struct dt_json_node *errors = root ? dt_json_member(im->json, root, "errors") : NULL;
    const struct dt_json_node *first = errors && errors->type == DT_JSON_ARRAY ? dt_json_first(im->json, errors) : NULL;
    struct dt_str detail = member_text(im->json, root, first ? "" : "detail");
    dt_strbuf_init(&why);
    if (first) {
        struct dt_str pointer = member_text(im->json, first, "pointer");
        struct dt_str reason = member_text(im->json, first, "reason");
        dt_strbuf_addf(&why, "%.*s: %.*s", (int)pointer.n, pointer.p ? pointer.p : "", (int)reason.n,
                       reason.p ? reason.p : "");
    } else {
        dt_strbuf_add(&why, detail.p ? detail.p : "refused", detail.p ? detail.n : 7);
    }
    im->refused++;
    tell(im, number, dt_strbuf_str(&why));
    dt_strbuf_clear(&why);
}

static bool has_key(struct import *im, unsigned i)
{
    struct dt_str text = {im->text.p + im->batch[i].begin, im->batch[i].n};
    struct dt_json_limits limits = {.depth = 64, .opaque = "payload"};
    if (dt_json_parse(im->json, text, &limits, NULL) != DT_OK)
        return false;
    const struct dt_json_node *root = dt_json_root(im->json);
    return root->type == DT_JSON_OBJECT && dt_json_member(im->json, root, "key");
}

/* Nobody knows what became of a line: it stays when its key makes that harmless. */
static bool stays_unknown(struct import *im, unsigned i)
{
    if (has_key(im, i))
        return true;
    im->unknown++;
    tell(im, im->batch[i].number, DT_STR_LIT("it has no key, and no answer came: it may have been made"));
    return false;
}

/* Whether a line was refused because of those before it; the batches are shorter from here on. */
static bool is_beyond(struct import *im, unsigned i, const struct dt_json_node *root, bool rest)
{
    static const char limit[] = "limits.batch_";
    struct dt_str detail = member_text(im->json, root, "detail");
    bool named = detail.p && memmem(detail.p, detail.n, limit, sizeof(limit) - 1);
    if (i == 0 || !(rest || named) || !dt_str_is(member_text(im->json, root, "type"), "/problems/too-large"))
        return false;
    im->most = i < im->most ? i : im->most;
    return true;
}

/* Judges one result; true: the line is to be sent again. rest: the result is of all that follow, of which nothing was
 * made. */
static bool judge(struct import *im, unsigned i, struct dt_str result, bool rest)
{
    const struct dt_json_node *root = NULL;
    if (dt_json_parse(im->json, result, &(struct dt_json_limits){.depth = 16}, NULL) == DT_OK)
        root = dt_json_root(im->json);
    const struct dt_json_node *node =
        root && root->type == DT_JSON_OBJECT ? dt_json_member(im->json, root, "status") : NULL;
    int64_t status = node && node->type == DT_JSON_INT ? node->i : 0;
    struct dt_str type = member_text(im->json, root, "type");
    im->made += status == 201;
    im->existing += status == 200;
    if (status == 200 || status == 201)
        return false;
    if (is_beyond(im, i, root, rest) || rest)
        return true;
    if (dt_str_is(type, "/problems/outcome-unknown"))
        return stays_unknown(im, i);
    if (status == 503 || status == 408)
        return true;
    refuse(im, im->batch[i].number, root && root->type == DT_JSON_OBJECT ? root : NULL);
    return false;
}

/*
 * Results stand in the order of the lines; where they end early, the last one is of all that follow, of which nothing
 * was made. Gives how many of the lines that were sent are to be sent again.
 */
static unsigned judge_all(struct import *im, unsigned sent, bool *again)
{
    const char *p = im->answer.body.p;
    const char *end = p + im->answer.body.n;
    unsigned results = 0;
    unsigned n = 0;
    for (const char *q = p; q < end; q++)
        results += *q == '\n' || q + 1 == end;
    for (unsigned i = 0; i < im->n; i++)
        again[i] = i >= sent || (results < sent && i + 1 >= results);
    for (unsigned i = 0; i < sent && p < end; i++) {
        const char *feed = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((feed ? feed : end) - p);
        again[i] = judge(im, i, (struct dt_str){p, length}, again[i]);
        p += length + 1;
    }
    for (unsigned i = 0; i < sent; i++)
        n += again[i];
    return n;
}

/* ---- sending ---- */

static void pause_a_while(struct import *im)
{
    im->idle++;
    nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

/* The batch got no answer as a whole: what may be sent again stays in it. */
static int unanswered(struct import *im, unsigned sent, dt_status status, const struct dt_error *err, bool *again)
{
    if (status != DT_UNAVAILABLE || im->idle >= PATIENCE) {
        dt_cli_progress_end(&im->progress);
        return dt_cli_failed(status, err);
    }
    for (unsigned i = 0; i < im->n; i++)
        again[i] = i >= sent || !im->answer.reached || stays_unknown(im, i);
    keep(im, again);
    pause_a_while(im);
    return DT_CLI_DONE;
}

/* The batch was answered: what is done leaves it. */
static int answered(struct import *im, unsigned sent, bool *again)
{
    unsigned most = im->most;
    unsigned left = judge_all(im, sent, again);
    keep(im, again);
    if (left < sent)
        im->idle = 0;
    if (left > 0 && im->most == most)
        pause_a_while(im);
    return im->idle < PATIENCE ? DT_CLI_DONE : DT_CLI_UNREACHED;
}

static int send_batch(struct import *im, bool *again)
{
    struct dt_error err = {0};
    unsigned sent = im->n < im->most ? im->n : im->most;
    struct line last = im->batch[sent - 1];
    struct dt_rest_request request = {.method = "POST",
                                      .path = "/v1/jobs:batch",
                                      .body = {im->text.p, last.begin + last.n + 1},
                                      .type = "application/x-ndjson"};
    dt_status status = dt_rest_ask(im->cli->rest, &request, &im->answer, &err);
    if (status != DT_OK)
        return unanswered(im, sent, status, &err, again);
    if (im->answer.status == 503 && im->idle < PATIENCE) {
        pause_a_while(im);
        return DT_CLI_DONE;
    }
    return im->answer.status == 200 ? answered(im, sent, again) : dt_cli_judge(im->cli, &im->answer);
}

static int import_all(struct import *im)
{
    bool again[BATCH_LINES];
    struct dt_error err = {0};
    dt_status status = DT_OK;
    int code = DT_CLI_DONE;
    dt_rest_catch_signals();
    while (code == DT_CLI_DONE && !dt_rest_signal() && (status == DT_OK || im->n > 0)) {
        if (status == DT_OK)
            status = fill(im, &err);
        if (im->n > 0 && !dt_rest_signal())
            code = send_batch(im, again);
        dt_cli_progress_tell(&im->progress, im->made + im->existing, im->lines.bytes, im->size);
    }
    dt_cli_progress_end(&im->progress);
    if (code == DT_CLI_DONE && status != DT_NOT_FOUND && !dt_rest_signal())
        code = dt_cli_failed(status, &err);
    if (code == DT_CLI_UNREACHED || dt_rest_signal())
        dt_cli_say("%lld jobs are made; the same command goes on: a job with a key is not made twice",
                   (long long)im->made);
    return code;
}

/* ---- beginning and end ---- */

static void show_sums(struct import *im)
{
    char text[256];
    snprintf(text, sizeof(text), "{\"made\":%lld,\"existing\":%lld,\"refused\":%lld,\"unknown\":%lld}",
             (long long)im->made, (long long)im->existing, (long long)im->refused, (long long)im->unknown);
    dt_strbuf_addf(&im->cli->done, "jobs import: %s", text);
    if (dt_json_parse(im->json, dt_str(text), &(struct dt_json_limits){.depth = 2}, NULL) == DT_OK)
        dt_cli_show(im->cli, im->json, dt_json_root(im->json));
}

static int import_from(struct dt_cli *cli, FILE *in, bool csv)
{
    struct stat file;
    struct import im = {.cli = cli, .most = BATCH_LINES};
    int code = DT_CLI_REFUSED;
    dt_cli_lines_init(&im.lines, in, csv);
    dt_strbuf_init(&im.text);
    dt_rest_answer_init(&im.answer);
    dt_cli_progress_begin(&im.progress, cli->clock, "jobs");
    im.size = fstat(fileno(in), &file) == 0 && S_ISREG(file.st_mode) ? file.st_size : 0;
    im.batch = calloc(BATCH_LINES, sizeof(*im.batch));
    if (im.batch && dt_json_new(&im.json) == DT_OK) {
        code = import_all(&im);
        show_sums(&im);
    }
    if (code == DT_CLI_DONE && im.refused + im.unknown > 0)
        code = DT_CLI_REFUSED;
    dt_json_free(im.json);
    free(im.batch);
    dt_strbuf_clear(&im.answer.body);
    dt_strbuf_clear(&im.text);
    dt_cli_lines_clear(&im.lines);
    return code;
}

int dt_cli_run_import(struct dt_cli *cli)
{
    const char *path = cli->call->n_args > 0 ? cli->call->args[0] : "-";
    const char *format = dt_cli_value(cli->call, "format");
    bool csv = format ? strcmp(format, "csv") == 0 : dt_str_ends(dt_str(path), DT_STR_LIT(".csv"));
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!in) {
        dt_cli_say("%s: %s", path, strerror(errno));
        return DT_CLI_USAGE;
    }
    int code = import_from(cli, in, csv);
    if (in != stdin)
        fclose(in);
    return code;
}
