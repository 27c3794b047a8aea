/* Lists and exports: a page at a time, so that memory is that of a page, to the end or to --limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/timetext.h"
#include "cli/request.h"
#include "cli/run/run.h"
#include "cli/show.h"
#include "cli/talk.h"

#define PAGE 500

struct listing {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_list *list;
    uint64_t left;      /* rows to show */
    bool exports;       /* jobs are written as import takes them */
    int64_t overdue_ms; /* jobs alone that were due before; 0: all */
    char *cursor;
};

/* Writes a job as a request that makes one like it, due when this one next is. */
static void export_job(struct listing *l, const struct dt_json_node *job)
{
    static const char *const members[] = {"topic",          "key",          "run_at",        "payload",
                                          "payload_base64", "content_type", "partition_key", "retry",
                                          "ack_timeout",    "headers",      "callback_url"};
    const struct dt_json_node *next = dt_json_member(l->json, job, "next_at");
    bool first = true;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct dt_json_node *m = dt_json_member(l->json, job, members[i]);
        if (!m)
            continue;
        if (strcmp(members[i], "run_at") == 0 && next && next->type == DT_JSON_STRING)
            m = next;
        printf("%s\"%s\":", first ? "{" : ",", members[i]);
        for (size_t at = 0; at < m->raw.n; at++)
            putchar_unlocked(m->raw.p[at] == '\n' || m->raw.p[at] == '\r' ? ' ' : m->raw.p[at]);
        first = false;
    }
    puts(first ? "{}" : "}");
}

static void show_item(struct listing *l, const struct dt_json_node *item)
{
    if (l->exports && item->type == DT_JSON_OBJECT)
        export_job(l, item);
    else
        dt_cli_list_row(l->list, l->json, item);
    l->left--;
}

static int show_page(struct listing *l)
{
    const struct dt_json_node *root = dt_json_root(l->json);
    const char *name = l->cli->call->verb->list;
    const struct dt_json_node *items =
        root && root->type == DT_JSON_OBJECT ? dt_json_member(l->json, root, name) : NULL;
    const struct dt_json_node *next = items ? dt_json_member(l->json, root, "next_cursor") : NULL;
    if (!items || items->type != DT_JSON_ARRAY) {
        dt_cli_say("%s answers without %s", l->cli->settings.url, name);
        return DT_CLI_REFUSED;
    }
    for (const struct dt_json_node *item = dt_json_first(l->json, items); item && l->left > 0;
         item = dt_json_sibling(l->json, items, item))
        show_item(l, item);
    dt_cli_list_page(l->list);
    free(l->cursor);
    l->cursor = next && next->type == DT_JSON_STRING ? strndup(next->str.p, next->str.n) : NULL;
    return DT_CLI_DONE;
}

static void add_overdue(struct listing *l, struct dt_cli_request *request)
{
    char now[25];
    dt_time_format(l->overdue_ms, now);
    if (!dt_cli_value(l->cli->call, "state"))
        dt_cli_request_add_query(request, "state", "scheduled");
    if (!dt_cli_value(l->cli->call, "due-to"))
        dt_cli_request_add_query(request, "due_to", now);
}

static int ask_page(struct listing *l)
{
    struct dt_cli_request request;
    struct dt_error err = {0};
    char limit[24];
    dt_cli_request_init(&request);
    dt_status status = dt_cli_request_build(l->cli->call, l->cli->call->verb->path, l->cli->call->args, &request, &err);
    if (l->overdue_ms)
        add_overdue(l, &request);
    if (l->exports)
        dt_cli_request_add_query(&request, "include", "payload");
    if (l->exports && !dt_cli_value(l->cli->call, "state"))
        dt_cli_request_add_query(&request, "state", "scheduled");
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)(l->left < PAGE ? l->left : PAGE));
    dt_cli_request_add_query(&request, "limit", limit);
    if (l->cursor)
        dt_cli_request_add_query(&request, "cursor", l->cursor);
    int code = status == DT_OK ? dt_cli_ask(l->cli, &(struct dt_rest_request){.method = "GET", .path = request.path.p},
                                            &l->answer, l->json)
                               : dt_cli_failed(status, &err);
    dt_cli_request_clear(&request);
    return code == DT_CLI_DONE ? show_page(l) : code;
}

static int read_limit(struct listing *l)
{
    const char *limit = dt_cli_value(l->cli->call, "limit");
    size_t n = limit ? strspn(limit, "0123456789") : 0;
    l->left = UINT64_MAX;
    if (!limit)
        return DT_CLI_DONE;
    if (n == 0 || n > 18 || limit[n] || limit[0] == '0') {
        dt_cli_say("--limit: \"%.80s\" is no number from 1", limit);
        return DT_CLI_USAGE;
    }
    l->left = strtoull(limit, NULL, 10);
    return DT_CLI_DONE;
}

static int run(struct dt_cli *cli, bool exports)
{
    struct listing l = {.cli = cli, .exports = exports};
    int code = read_limit(&l);
    if (dt_cli_value(cli->call, "overdue"))
        l.overdue_ms = dt_clock_real_ms(cli->clock);
    dt_rest_answer_init(&l.answer);
    l.list = dt_cli_list_begin(cli, cli->call->verb->thing);
    if (code == DT_CLI_DONE && (!l.list || dt_json_new(&l.json) != DT_OK))
        code = DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        do {
            code = ask_page(&l);
        } while (code == DT_CLI_DONE && l.cursor && l.left > 0 && !ferror(stdout));
    dt_cli_list_end(l.list);
    dt_json_free(l.json);
    dt_rest_answer_clear(&l.answer);
    free(l.cursor);
    return code;
}

int dt_cli_run_list(struct dt_cli *cli)
{
    return run(cli, false);
}

int dt_cli_run_export(struct dt_cli *cli)
{
    return run(cli, true);
}
