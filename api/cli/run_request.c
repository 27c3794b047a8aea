/* Verbs that are one request: the row of the table says which. */
#include <stdio.h>
#include <string.h>

#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

/* One exchange: what it needs and gives. */
struct exchange {
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
};

static dt_status begin(struct exchange *x)
{
    *x = (struct exchange){0};
    dt_cli_request_init(&x->request);
    dt_rest_answer_init(&x->answer);
    return dt_json_new(&x->json);
}

static void end(struct exchange *x)
{
    dt_cli_request_clear(&x->request);
    dt_strbuf_clear(&x->answer.body);
    dt_json_free(x->json);
}

static int send(struct dt_cli *cli, struct exchange *x, const char *method, int64_t timeout_ms)
{
    struct dt_rest_request request = {
        .method = method, .path = x->request.path.p, .body = dt_strbuf_str(&x->request.body), .timeout_ms = timeout_ms};
    return dt_cli_ask(cli, &request, &x->answer, x->json);
}

static int show(struct dt_cli *cli, struct exchange *x)
{
    const struct dt_cli_verb *verb = cli->call->verb;
    const struct dt_json_node *root = dt_json_root(x->json);
    const struct dt_json_node *items = NULL;
    if (x->answer.body.n == 0)
        return DT_CLI_DONE;
    if (verb->list && root->type == DT_JSON_OBJECT)
        items = dt_json_member(x->json, root, verb->list);
    if (!items) {
        dt_cli_show(cli, x->json, root);
        return DT_CLI_DONE;
    }
    struct dt_cli_list *list = dt_cli_list_begin(cli, verb->thing);
    if (!list)
        return DT_CLI_REFUSED;
    for (const struct dt_json_node *item = dt_json_first(x->json, items); item;
         item = dt_json_sibling(x->json, items, item))
        dt_cli_list_row(list, x->json, item);
    dt_cli_list_end(list);
    if (!dt_json_first(x->json, items))
        dt_cli_say_nothing(cli);
    return DT_CLI_DONE;
}

static int send_and_show(struct dt_cli *cli, struct exchange *x, int64_t timeout_ms)
{
    int code = send(cli, x, cli->call->verb->method, timeout_ms);
    return code == DT_CLI_DONE ? show(cli, x) : code;
}

/* The id of the job that the call names by topic and key, in id[32]. */
static int find_id(struct dt_cli *cli, char id[32])
{
    struct exchange x;
    struct dt_cli_call plain = {.verb = cli->call->verb};
    struct dt_error err = {0};
    dt_status status = begin(&x);
    if (status == DT_OK)
        status = dt_cli_request_build(&plain, "/v1/topics/{topic}/jobs/{key}", cli->call->args, &x.request, &err);
    int code = status == DT_OK ? send(cli, &x, "GET", 0) : dt_cli_failed(status, &err);
    if (code == DT_CLI_DONE) {
        const struct dt_str text = dt_json_text_of(x.json, dt_json_root(x.json), "id");
        if (text.p && text.n < 32)
            snprintf(id, 32, "%s", text.p);
        else
            code = DT_CLI_REFUSED;
    }
    end(&x);
    return code;
}

int dt_cli_run_request(struct dt_cli *cli)
{
    const struct dt_cli_call *call = cli->call;
    bool by_key = strcmp(call->verb->takes, DT_CLI_ID_OR_KEY) == 0 && call->n_args == 2;
    char id[32];
    const char *one[] = {id};
    struct exchange x;
    struct dt_error err = {0};
    int code = by_key ? find_id(cli, id) : DT_CLI_DONE;
    if (code != DT_CLI_DONE)
        return code;
    dt_status status = begin(&x);
    if (status == DT_OK)
        status = dt_cli_request_build(call, call->verb->path, by_key ? one : call->args, &x.request, &err);
    code = status == DT_OK ? send_and_show(cli, &x, 0) : dt_cli_failed(status, &err);
    end(&x);
    return code;
}

int dt_cli_run_set(struct dt_cli *cli)
{
    const char *path = cli->call->verb->path;
    const struct dt_cli_call plain = {.verb = cli->call->verb};
    struct exchange there;
    struct exchange x;
    struct dt_error err = {0};
    struct dt_str present = DT_STR_LIT("{}"); /* the thing as it is; nothing if there is none */
    int code = DT_CLI_DONE;
    dt_status status = begin(&there);
    dt_status begun = begin(&x);
    if (status == DT_OK)
        status = begun;
    if (status == DT_OK)
        status = dt_cli_request_build(&plain, path, cli->call->args, &there.request, &err);
    const struct dt_rest_request get = {.method = "GET", .path = there.request.path.p};
    if (status == DT_OK)
        status = dt_rest_ask(cli->rest, &get, &there.answer, &err);
    if (status == DT_OK && there.answer.status != 404) {
        code = dt_cli_judge(cli, &there.answer);
        present = there.answer.body.n ? dt_strbuf_str(&there.answer.body) : present;
    }
    if (status == DT_OK && code == DT_CLI_DONE)
        status = dt_cli_request_build(cli->call, path, cli->call->args, &x.request, &err);
    if (status == DT_OK && code == DT_CLI_DONE)
        status = dt_cli_request_merge(&x.request, present, &err);
    if (status != DT_OK)
        code = dt_cli_failed(status, &err);
    if (code == DT_CLI_DONE)
        code = send_and_show(cli, &x, 0);
    end(&x);
    end(&there);
    return code;
}

int dt_cli_run_pop(struct dt_cli *cli)
{
    struct exchange x;
    struct dt_strbuf topics;
    struct dt_error err = {0};
    int64_t wait_ms = 0;
    const char *wait = dt_cli_value(cli->call, "wait");
    dt_status status = begin(&x);
    if (status == DT_OK && wait && dt_duration_parse(dt_str(wait), &wait_ms) != DT_OK)
        status = dt_fail(&err, DT_INVALID, "--wait: \"%.80s\" is no duration", wait);
    if (status == DT_OK)
        status = dt_cli_request_build(cli->call, cli->call->verb->path, cli->call->args, &x.request, &err);
    dt_strbuf_init(&topics);
    dt_json_begin_array(&topics, NULL);
    for (unsigned i = 0; i < cli->call->n_args; i++)
        dt_json_put_word(&topics, NULL, cli->call->args[i]);
    dt_json_end_array(&topics);
    dt_cli_request_add_member(&x.request, "topics", dt_strbuf_str(&topics));
    dt_strbuf_clear(&topics);
    int code = status == DT_OK ? send_and_show(cli, &x, wait_ms) : dt_cli_failed(status, &err);
    end(&x);
    return code;
}
