/* Lists and exports: reads page by page, so that the program holds only one page in memory; ends with the list, or
 * after --limit rows. An export shows its progress. A list shows its progress only on a terminal, because some pages
 * may be empty. */

#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "cli.h"
#include "show.h"
#include "words.h"

#define PAGE     500
#define AROUND   3 /* lines of a screen without rows: the head, the message, the prompt */
#define ROWS_MIN 5

struct listing {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_list *list;
    bool paged;              /* at a terminal: one screen, unless the user wants more */
    uint64_t left;           /* number of rows that may still be shown */
    bool exports;            /* write jobs in the form that import reads */
    int64_t overdue_ms;      /* show only jobs that were due before this time; 0: show all jobs */
    unsigned long long held; /* number of due jobs of paused topics that were left out, if overdue_ms is set */
    char *cursor;
    struct dt_cli_progress progress;
    int64_t done, whole; /* done: number of rows shown; whole: number of all rows, 0 if unknown */
};

/* Writes a job as the request that creates an equal job, which is due when this job is due next. */
static void export_job(struct listing *l, const struct dt_json_node *job)
{
    static const char *const members[] = {"topic",          "key",          "run_at",        "payload",
                                          "payload_base64", "content_type", "partition_key", "retry",
                                          "ack_timeout",    "headers",      "callback_url"};
    const struct dt_json_node *next = dt_json_member(l->json, job, "next_at");
    struct dt_strbuf line = {0};
    dt_json_begin_object(&line, NULL);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct dt_json_node *m = dt_json_member(l->json, job, members[i]);
        if (!m)
            continue;
        if (strcmp(members[i], "run_at") == 0 && next && next->type == DT_JSON_STRING)
            m = next;
        dt_json_put_raw(&line, members[i], m->raw);
    }
    dt_json_end_object(&line);
    dt_cli_show_json(l->cli, dt_strbuf_str(&line));
    dt_strbuf_clear(&line);
}

static int show_page(struct listing *l)
{
    const struct dt_json_node *root = dt_json_root(l->json);
    const char *name = l->cli->call->verb->list;
    const struct dt_json_node *items = dt_json_member(l->json, root, name);
    if (!items || items->type != DT_JSON_ARRAY) {
        dt_cli_say("the answer of %s has no list \"%s\"", l->cli->settings.url, name);
        return DT_CLI_REFUSED;
    }
    if (!l->cursor) /* the first page */
        dt_cli_clear_screen(l->cli);
    if (dt_json_first(l->json, items) && l->cli->width) /* otherwise the progress line would mix with the rows */
        dt_cli_progress_end(&l->progress);
    for (const struct dt_json_node *item = dt_json_first(l->json, items); item && l->left > 0;
         item = dt_json_sibling(l->json, items, item)) {
        const bool object = item->type == DT_JSON_OBJECT;
        if (l->overdue_ms && dt_str_is(dt_json_text_of(l->json, item, "waiting_for"), "paused")) {
            l->held++;
            continue;
        }
        if (l->exports && object)
            export_job(l, item);
        else
            dt_cli_list_row(l->list, l->json, item);
        l->left--;
        l->done++;
    }
    dt_cli_list_page(l->list);
    free(l->cursor);
    const struct dt_str next = dt_json_text_of(l->json, root, "next_cursor");
    l->cursor = next.p ? strndup(next.p, next.n) : NULL;
    return DT_CLI_DONE;
}

static int request_page(struct listing *l)
{
    const struct dt_cli_call *call = l->cli->call;
    const bool any_state = !dt_cli_value(call, "state");
    struct dt_cli_request request = {0};
    struct dt_error err = {0};
    char now[25];
    char limit[24];
    dt_status status = dt_cli_request_build(call, call->verb->path, call->args, &request, &err);
    if (any_state && (l->overdue_ms || l->exports))
        dt_cli_request_add_query(&request, "state", "scheduled");
    if (l->overdue_ms && !dt_cli_value(call, "due-to")) {
        dt_time_format(l->overdue_ms, now);
        dt_cli_request_add_query(&request, "due_to", now);
    }
    if (l->exports)
        dt_cli_request_add_query(&request, "include", "payload");
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)(l->left < PAGE ? l->left : PAGE));
    dt_cli_request_add_query(&request, "limit", limit);
    if (l->cursor)
        dt_cli_request_add_query(&request, "cursor", l->cursor);
    const struct dt_rest_request rest = {.method = "GET", .path = request.path.p};
    int code = status == DT_OK ? dt_cli_ask(l->cli, &rest, &l->answer, l->json) : dt_cli_failed(status, &err);
    dt_cli_request_clear(&request);
    return code == DT_CLI_DONE ? show_page(l) : code;
}

/* Returns how many jobs the export will write; 0: unknown. If only a topic and a state choose the jobs, the topic's
 * counters have the number. */
static int64_t count_jobs(struct listing *l)
{
    const struct dt_cli_call *call = l->cli->call;
    const char *topic = dt_cli_value(call, "topic");
    const char *state = dt_cli_value(call, "state");
    bool counted = l->exports && topic;
    struct dt_strbuf path = {0};
    for (unsigned i = 0; i < call->n_given; i++) {
        const struct dt_cli_option *option = call->given[i].option;
        bool counts = strcmp(option->name, "topic") == 0 || strcmp(option->name, "state") == 0;
        counted = counted && (option->place != DT_CLI_QUERY || counts);
    }
    if (!counted)
        return 0;
    dt_strbuf_adds(&path, "/v1/topics/");
    dt_rest_add_encoded(&path, topic);
    const struct dt_rest_request rest = {.method = "GET", .path = path.p};
    struct dt_error err = {0};
    const struct dt_json_node *n = NULL;
    if (dt_rest_ask(l->cli->rest, &rest, &l->answer, &err) == DT_OK &&
        dt_json_parse(l->json, dt_strbuf_str(&l->answer.body), &(struct dt_json_limits){.depth = 64}, NULL) == DT_OK)
        n = dt_json_root(l->json);
    dt_strbuf_clear(&path);
    return dt_json_int_of(l->json, dt_json_member(l->json, n, "counts"), state ? state : "scheduled");
}

static int list_all_pages(struct listing *l)
{
    int code;
    dt_cli_progress_begin(&l->progress, l->cli->clock, l->cli->call->verb->list);
    l->whole = count_jobs(l);
    if (l->whole > 0 && (uint64_t)l->whole > l->left)
        l->whole = (int64_t)l->left;
    do {
        code = request_page(l);
        if (l->exports || l->cli->width)
            dt_cli_progress_tell(&l->progress, l->done, l->done, l->whole);
    } while (code == DT_CLI_DONE && l->cursor && l->left > 0 && !ferror(stdout));
    dt_cli_progress_end(&l->progress);
    if (code == DT_CLI_DONE && l->held)
        dt_cli_say("%s%llu due jobs are held, and not listed: their topics are paused", l->cursor ? "at least " : "",
                   l->held);
    if (code == DT_CLI_DONE && l->paged && l->cursor && !l->cli->clear)
        dt_cli_say("these are the first %lld: --limit COUNT shows more, --all shows all", (long long)l->done);
    return code;
}

int dt_cli_run_list(struct dt_cli *cli)
{
    struct listing l = {.cli = cli, .exports = cli->call->verb->way == DT_CLI_BY_EXPORT, .left = UINT64_MAX};
    const char *limit = dt_cli_value(cli->call, "limit");
    const bool all = dt_cli_value(cli->call, "all");
    size_t digits = limit ? strspn(limit, "0123456789") : 0;
    int code = DT_CLI_DONE;
    if (limit && (digits == 0 || digits > 18 || limit[digits] || limit[0] == '0')) {
        dt_cli_say("--limit: \"%.80s\" is not a number from 1", limit);
        return DT_CLI_USAGE;
    }
    if (limit && all) {
        dt_cli_say("--limit and --all contradict each other");
        return DT_CLI_USAGE;
    }
    l.paged = !limit && !all && !l.exports && cli->width && (cli->form == DT_CLI_TABLE || cli->form == DT_CLI_WIDE);
    if (limit)
        l.left = strtoull(limit, NULL, 10);
    else if (l.paged)
        l.left = cli->height > AROUND + ROWS_MIN ? cli->height - AROUND : ROWS_MIN;
    if (dt_cli_value(cli->call, "overdue"))
        l.overdue_ms = dt_clock_real_ms(cli->clock);
    l.list = dt_cli_list_begin(cli, cli->call->verb->thing);
    if (!l.list || dt_json_new(&l.json) != DT_OK)
        code = DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = list_all_pages(&l);
    dt_cli_list_end(l.list);
    if (code == DT_CLI_DONE && l.done == 0)
        dt_cli_say_nothing(cli);
    dt_json_free(l.json);
    dt_strbuf_clear(&l.answer.body);
    free(l.cursor);
    return code;
}

int dt_cli_each_name(struct dt_cli *cli, const char *list, dt_cli_name *fn, void *arg)
{
    struct dt_cli_request request = {0};
    struct dt_rest_answer answer = {0};
    dt_json *json = NULL;
    struct dt_str next = DT_STR_NONE;
    int code = dt_json_new(&json) == DT_OK ? DT_CLI_DONE : DT_CLI_REFUSED;
    while (code == DT_CLI_DONE) {
        dt_strbuf_reset(&request.path);
        dt_strbuf_addf(&request.path, "/v1/%s?limit=%d", list, PAGE);
        if (next.p)
            dt_cli_request_add_query(&request, "cursor", next.p);
        const struct dt_rest_request rest = {.method = "GET", .path = request.path.p};
        code = dt_cli_ask(cli, &rest, &answer, json);
        const struct dt_json_node *root = code == DT_CLI_DONE ? dt_json_root(json) : NULL;
        const struct dt_json_node *items = dt_json_member(json, root, list);
        for (const struct dt_json_node *item = items ? dt_json_first(json, items) : NULL; item && code == DT_CLI_DONE;
             item = dt_json_sibling(json, items, item)) {
            const struct dt_str name = dt_json_text_of(json, item, "name");
            code = name.p ? fn(arg, name.p) : DT_CLI_DONE;
        }
        next = dt_json_text_of(json, root, "next_cursor");
        if (!next.p)
            break;
    }
    dt_json_free(json);
    dt_strbuf_clear(&answer.body);
    dt_cli_request_clear(&request);
    return code;
}
