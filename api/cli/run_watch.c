/*
 * Watches a job: shows it whenever it has changed, until it is finished. REST has nothing that notifies, so it asks,
 * once a second unless told otherwise; an API that is away is waited for as long as for any answer.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/timetext.h"
#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

struct watch {
    struct dt_cli *cli;
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_list *list;
    int64_t version, heard_us;
    struct dt_str state;
};

/* Shows what is new; true: the job is finished. */
static bool look(struct watch *w)
{
    const struct dt_json_node *root = dt_json_root(w->json);
    const struct dt_json_node *version = dt_json_member(w->json, root, "version");
    if (version && version->type == DT_JSON_INT && version->i != w->version) {
        w->version = version->i;
        dt_cli_list_row(w->list, w->json, root);
        dt_cli_list_page(w->list);
    }
    w->state = dt_json_text_of(w->json, root, "state");
    return dt_str_is(w->state, "succeeded") || dt_str_is(w->state, "dead") || dt_str_is(w->state, "cancelled");
}

/* Asks once. An API that is away, or not ready, is no end before its time is up. */
static int ask(struct watch *w)
{
    struct dt_error err = {0};
    struct dt_rest_request request = {.method = "GET", .path = w->request.path.p};
    int64_t now_us = dt_clock_mono_us(w->cli->clock);
    dt_status status = dt_rest_ask(w->cli->rest, &request, &w->answer, &err);
    bool away = status == DT_UNAVAILABLE || (status == DT_OK && w->answer.status == 503);
    if (away && now_us - w->heard_us < w->cli->settings.timeout_ms * 1000)
        return DT_CLI_DONE;
    if (status != DT_OK)
        return dt_cli_failed(status, &err);
    w->heard_us = dt_clock_mono_us(w->cli->clock);
    int code = dt_cli_judge(w->cli, &w->answer);
    if (code == DT_CLI_DONE &&
        dt_json_parse(w->json, dt_strbuf_str(&w->answer.body), &(struct dt_json_limits){.depth = 64}, &err) != DT_OK)
        code = dt_cli_failed(DT_MALFORMED, &err);
    return code;
}

int dt_cli_run_watch(struct dt_cli *cli)
{
    const struct dt_cli_call *call = cli->call;
    const char *interval = dt_cli_value(call, "interval");
    const char *path = call->n_args == 2 ? "/v1/topics/{topic}/jobs/{key}" : call->verb->path;
    struct watch w = {.cli = cli, .heard_us = dt_clock_mono_us(cli->clock)};
    struct dt_error err = {0};
    int64_t interval_ms = 1000;
    dt_status status = DT_OK;
    dt_cli_request_init(&w.request);
    dt_rest_answer_init(&w.answer);
    w.list = dt_cli_list_begin(cli, DT_CLI_JOB);
    if (interval && (dt_duration_parse(dt_str(interval), &interval_ms) != DT_OK || interval_ms < 1))
        status = dt_fail(&err, DT_INVALID, "--interval: \"%.80s\" is no duration", interval);
    if (status == DT_OK)
        status = dt_cli_request_build(call, path, call->args, &w.request, &err);
    if (status == DT_OK)
        status = dt_json_new(&w.json);
    if (status == DT_OK && !w.list)
        status = dt_fail(&err, DT_NOMEM, "out of memory");
    struct timespec pause = {interval_ms / 1000, (interval_ms % 1000) * 1000000};
    int code = status == DT_OK ? ask(&w) : dt_cli_failed(status, &err);
    while (code == DT_CLI_DONE && !look(&w)) {
        if (ferror(stdout)) {
            code = DT_CLI_REFUSED;
            break;
        }
        nanosleep(&pause, NULL);
        code = ask(&w);
    }
    if (code == DT_CLI_DONE && !dt_str_is(w.state, "succeeded"))
        code = DT_CLI_REFUSED;
    dt_cli_list_end(w.list);
    dt_json_free(w.json);
    dt_strbuf_clear(&w.answer.body);
    dt_cli_request_clear(&w.request);
    return code;
}
