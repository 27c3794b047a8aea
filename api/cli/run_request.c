/* Verbs that are one request, described by the verb's row in the table; changes of sets of jobs; operations; watching a
 * job. */
#include <time.h>

#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "cli.h"
#include "show.h"
#include "words.h"

/* A request, its answer, and the answer as parsed JSON. */
struct exchange {
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
};

static dt_status begin_exchange(struct exchange *x)
{
    *x = (struct exchange){0};
    return dt_json_new(&x->json);
}

static void end_exchange(struct exchange *x)
{
    dt_cli_request_clear(&x->request);
    dt_strbuf_clear(&x->answer.body);
    dt_json_free(x->json);
}

static int send_request(struct dt_cli *cli, struct exchange *x, const char *method, int64_t timeout_ms)
{
    struct dt_rest_request request = {
        .method = method, .path = x->request.path.p, .body = dt_strbuf_str(&x->request.body), .timeout_ms = timeout_ms};
    return dt_cli_ask(cli, &request, &x->answer, x->json);
}

static int send_and_show(struct dt_cli *cli, struct exchange *x, int64_t timeout_ms)
{
    int code = send_request(cli, x, cli->call->verb->method, timeout_ms);
    if (code != DT_CLI_DONE)
        return code;
    const struct dt_cli_verb *verb = cli->call->verb;
    const struct dt_json_node *root = dt_json_root(x->json);
    const struct dt_json_node *items = NULL;
    if (x->answer.body.n == 0)
        return DT_CLI_DONE;
    dt_cli_clear_screen(cli);
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

/* Finds the id of the job that the call names by topic and key. */
static int find_job_id(struct dt_cli *cli, char id[32])
{
    struct exchange x;
    struct dt_cli_call plain = {.verb = cli->call->verb};
    struct dt_error err = {0};
    dt_status status = begin_exchange(&x);
    DT_THEN(status, dt_cli_request_build(&plain, "/v1/topics/{topic}/jobs/{key}", cli->call->args, &x.request, &err));
    int code = status == DT_OK ? send_request(cli, &x, "GET", 0) : dt_cli_failed(status, &err);
    if (code == DT_CLI_DONE) {
        const struct dt_str text = dt_json_text_of(x.json, dt_json_root(x.json), "id");
        if (text.p && text.n < 32)
            snprintf(id, 32, "%s", text.p);
        else
            code = DT_CLI_REFUSED;
    }
    end_exchange(&x);
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
    int code = by_key ? find_job_id(cli, id) : DT_CLI_DONE;
    if (code != DT_CLI_DONE)
        return code;
    dt_status status = begin_exchange(&x);
    DT_THEN(status, dt_cli_request_build(call, call->verb->path, by_key ? one : call->args, &x.request, &err));
    code = status == DT_OK ? send_and_show(cli, &x, 0) : dt_cli_failed(status, &err);
    end_exchange(&x);
    return code;
}

int dt_cli_run_token(struct dt_cli *cli)
{
    struct exchange x;
    int code = begin_exchange(&x) == DT_OK ? DT_CLI_DONE : DT_CLI_REFUSED;
    dt_strbuf_adds(&x.request.path, "/v1/tokens");
    if (code == DT_CLI_DONE)
        code = send_request(cli, &x, "GET", 0);
    /* An API that requires tokens lists at least the token of this request. */
    const struct dt_json_node *tokens =
        code == DT_CLI_DONE ? dt_json_member(x.json, dt_json_root(x.json), "tokens") : NULL;
    if (tokens && tokens->type == DT_JSON_ARRAY && tokens->n == 0) {
        dt_cli_say("this is the first token: from now on every request needs one, also of consoles, workers and other "
                   "commands; `duetime-api --waive-tokens` undoes that after the last token was revoked");
        if (!dt_cli_value(cli->call, "yes") && dt_cli_may_ask()) {
            fputs("create it? [y/N] ", stderr);
            code = dt_cli_confirmed() ? DT_CLI_DONE : DT_CLI_REFUSED;
        }
    }
    end_exchange(&x);
    return code == DT_CLI_DONE ? dt_cli_run_request(cli) : code;
}

int dt_cli_run_set(struct dt_cli *cli)
{
    const char *path = cli->call->verb->path;
    const struct dt_cli_call plain = {.verb = cli->call->verb};
    struct exchange there;
    struct exchange x;
    struct dt_error err = {0};
    struct dt_str present = DT_STR_LIT("{}"); /* the resource as it is stored; {} if it does not exist */
    int code = DT_CLI_DONE;
    dt_status status = begin_exchange(&there);
    dt_status begun = begin_exchange(&x);
    DT_THEN(status, begun);
    DT_THEN(status, dt_cli_request_build(&plain, path, cli->call->args, &there.request, &err));
    const struct dt_rest_request get = {.method = "GET", .path = there.request.path.p};
    DT_THEN(status, dt_rest_ask(cli->rest, &get, &there.answer, &err));
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
    end_exchange(&x);
    end_exchange(&there);
    return code;
}

int dt_cli_run_pop(struct dt_cli *cli)
{
    struct exchange x;
    struct dt_strbuf topics = {0};
    struct dt_error err = {0};
    int64_t wait_ms = 0;
    const char *wait = dt_cli_value(cli->call, "wait");
    dt_status status = begin_exchange(&x);
    if (status == DT_OK && wait && dt_duration_parse(dt_str(wait), &wait_ms) != DT_OK)
        status = dt_fail(&err, DT_INVALID, "--wait: \"%.80s\" is not a duration", wait);
    DT_THEN(status, dt_cli_request_build(cli->call, cli->call->verb->path, cli->call->args, &x.request, &err));
    dt_json_begin_array(&topics, NULL);
    for (unsigned i = 0; i < cli->call->n_args; i++)
        dt_json_put_word(&topics, NULL, cli->call->args[i]);
    dt_json_end_array(&topics);
    dt_cli_request_add_member(&x.request, "topics", dt_strbuf_str(&topics));
    dt_strbuf_clear(&topics);
    int code = status == DT_OK ? send_and_show(cli, &x, wait_ms) : dt_cli_failed(status, &err);
    end_exchange(&x);
    return code;
}

/*
 * ---- sets of jobs ----
 *
 * A set of jobs is previewed, confirmed, and then changed by an operation, which the program follows until it has
 * ended:
 *
 *   dry run ─▶ "cancel 1234 jobs?" ─▶ operation ─▶ progress ─▶ what it did
 *       └ without a terminal and without --yes the program ends here
 *
 * A topic is deleted with its jobs in the same way; the preview shows the numbers of its jobs.
 */

#define LOOK_NS 300000000L /* time between two reads of an operation */
#define WAIT    "PT1S"     /* how long the request that begins the operation waits for its end */

struct many {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json; /* the last answer, which is an operation */
};

static struct dt_str answer_member_text(const struct many *m, const char *name)
{
    return dt_json_text_of(m->json, dt_json_root(m->json), name);
}

static int64_t answer_member_number(const struct many *m, const char *name)
{
    return dt_json_int_of(m->json, dt_json_root(m->json), name);
}

static int read_operation(struct many *m, const char *id)
{
    struct dt_cli_request request = {0};
    dt_strbuf_adds(&request.path, "/v1/operations/");
    dt_rest_add_encoded(&request.path, id);
    int code =
        dt_cli_ask(m->cli, &(struct dt_rest_request){.method = "GET", .path = request.path.p}, &m->answer, m->json);
    dt_cli_request_clear(&request);
    return code;
}

/* Adds a command line that the user can copy. It has those options of this call that choose the API. */
static void add_operation_command(struct dt_strbuf *out, const struct dt_cli_call *call, const char *verb,
                                  const char *id)
{
    static const char *const where[] = {"url", "context", "config", "token-file", "ca-file", "cert-file", "key-file"};
    dt_strbuf_addf(out, "\n  duetime operations %s %s", verb, id);
    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
        const char *value = dt_cli_value(call, where[i]);
        if (!value)
            continue;
        dt_strbuf_addf(out, " --%s '", where[i]);
        for (; *value; value++)
            if (*value == '\'')
                dt_strbuf_adds(out, "'\\''");
            else
                dt_strbuf_addc(out, *value);
        dt_strbuf_addc(out, '\'');
    }
}

/* Waits until the operation has ended, and shows it. Returns DONE if the operation has succeeded. */
static int follow_operation(struct many *m)
{
    char id[64];
    struct dt_cli_progress progress;
    struct dt_str given = answer_member_text(m, "id");
    int code = DT_CLI_DONE;
    snprintf(id, sizeof(id), "%.*s", (int)(given.n < 60 ? given.n : 60), given.p ? given.p : "");
    dt_cli_progress_begin(&progress, m->cli->clock, "jobs");
    while (code == DT_CLI_DONE && dt_str_is(answer_member_text(m, "state"), "running") && !dt_rest_signal()) {
        int64_t done = answer_member_number(m, "changed") + answer_member_number(m, "refused");
        dt_cli_progress_tell(&progress, done, done, answer_member_number(m, "matched"));
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        code = read_operation(m, id);
    }
    dt_cli_progress_end(&progress);
    if (code != DT_CLI_DONE || dt_str_is(answer_member_text(m, "state"), "running")) {
        struct dt_strbuf out = {0};
        dt_strbuf_addf(&out, "duetime: operation %s continues without this program. To follow it, or to stop it:", id);
        add_operation_command(&out, m->cli->call, "watch", id);
        add_operation_command(&out, m->cli->call, "stop", id);
        fprintf(stderr, "%s\n", out.p ? out.p : "");
        dt_strbuf_clear(&out);
        return code;
    }
    dt_cli_show(m->cli, m->json, dt_json_root(m->json));
    return dt_str_is(answer_member_text(m, "state"), "done") ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_follow(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    dt_rest_catch_signals();
    int code = dt_json_new(&m.json) == DT_OK ? read_operation(&m, cli->call->args[0]) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = follow_operation(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}

static int post_operation(struct many *m, bool dry)
{
    struct dt_cli_request request = {0};
    struct dt_error err = {0};
    dt_status status = dt_cli_request_build(m->cli->call, m->cli->call->verb->set, m->cli->call->args, &request, &err);
    if (!dry)
        dt_rest_catch_signals();
    if (dry)
        dt_cli_request_add_member(&request, "dry_run", DT_STR_LIT("true"));
    else
        dt_cli_request_add_member(&request, "wait", DT_STR_LIT("\"" WAIT "\""));
    int code = status == DT_OK ? dt_cli_ask(m->cli,
                                            &(struct dt_rest_request){.method = "POST",
                                                                      .path = request.path.p,
                                                                      .body = dt_strbuf_str(&request.body),
                                                                      .timeout_ms = 60000},
                                            &m->answer, m->json)
                               : dt_cli_failed(status, &err);
    dt_cli_request_clear(&request);
    if (dry)
        dt_strbuf_reset(&m->cli->done);
    else if (code == DT_CLI_UNREACHED && m->answer.reached)
        dt_cli_say("`duetime operations list` shows whether the operation began");
    return code;
}

/* Unless --yes is given, shows what the operation would change, and asks for confirmation on a terminal. Sets *go_on if
 * the operation may begin. */
static int preview_operation(struct many *m, bool *go_on)
{
    bool dry = dt_cli_value(m->cli->call, "dry-run");
    *go_on = !dry && dt_cli_value(m->cli->call, "yes");
    if (*go_on)
        return DT_CLI_DONE;
    int code = post_operation(m, true);
    if (code != DT_CLI_DONE)
        return code;
    if (!dry && dt_cli_may_ask()) {
        struct dt_str kind = answer_member_text(m, "kind");
        struct dt_strbuf plain = {0};
        dt_cli_add_plain(&plain, kind.p ? kind : DT_STR_LIT("change"));
        fprintf(stderr, "%s %lld jobs? [y/N] ", plain.p ? plain.p : "", (long long)answer_member_number(m, "matched"));
        dt_strbuf_clear(&plain);
        *go_on = dt_cli_confirmed();
        return *go_on ? DT_CLI_DONE : DT_CLI_REFUSED;
    }
    dt_cli_show(m->cli, m->json, dt_json_root(m->json));
    if (!dry)
        dt_cli_say("nothing was changed: this is what --yes would do");
    return dry ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_many(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    bool go_on = false;
    int code = dt_json_new(&m.json) == DT_OK ? preview_operation(&m, &go_on) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE && go_on)
        code = post_operation(&m, false);
    if (code == DT_CLI_DONE && go_on)
        code = follow_operation(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}

static int send_topic_request(struct many *m, const struct dt_cli_call *call, const char *method)
{
    struct dt_cli_request request = {0};
    struct dt_error err = {0};
    dt_status status = dt_cli_request_build(call, call->verb->path, m->cli->call->args, &request, &err);
    if (strcmp(method, "DELETE") == 0) {
        dt_rest_catch_signals();
        dt_cli_request_add_query(&request, "wait", WAIT);
    }
    const struct dt_rest_request rest = {.method = method, .path = request.path.p, .timeout_ms = 60000};
    int code = status == DT_OK ? dt_cli_ask(m->cli, &rest, &m->answer, m->json) : dt_cli_failed(status, &err);
    dt_cli_request_clear(&request);
    return code;
}

static int64_t count_live_jobs(const struct many *m)
{
    const struct dt_json_node *counts = dt_json_member(m->json, dt_json_root(m->json), "counts");
    return dt_json_int_of(m->json, counts, "scheduled") + dt_json_int_of(m->json, counts, "dispatched");
}

/* Unless --yes is given, shows what would be deleted, and asks for confirmation. Returns DONE if the topic may be
 * deleted. */
static int preview_topic(struct many *m)
{
    const struct dt_cli_call plain = {.verb = m->cli->call->verb};
    if (dt_cli_value(m->cli->call, "yes"))
        return DT_CLI_DONE;
    int code = send_topic_request(m, &plain, "GET");
    if (code != DT_CLI_DONE)
        return code;
    if (!dt_cli_may_ask()) {
        dt_cli_show(m->cli, m->json, dt_json_root(m->json));
        dt_cli_say("nothing was changed: --yes would delete the topic and end its %lld jobs",
                   (long long)count_live_jobs(m));
        return DT_CLI_REFUSED;
    }
    fprintf(stderr, "delete the topic %s and end its %lld jobs? [y/N] ", m->cli->call->args[0],
            (long long)count_live_jobs(m));
    return dt_cli_confirmed() ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_delete(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    if (!dt_cli_value(cli->call, "cancel"))
        return dt_cli_run_request(cli);
    int code = dt_json_new(&m.json) == DT_OK ? preview_topic(&m) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = send_topic_request(&m, cli->call, "DELETE");
    if (code == DT_CLI_DONE)
        code = follow_operation(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}

/*
 * ---- watching a job ----
 *
 * Shows a job after each change, until the job is finished. REST has no notifications, so the program polls once a
 * second, or at the --interval. If the API is down, the program polls until the timeout of the settings.
 */

struct watch {
    struct dt_cli *cli;
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
    struct dt_cli_list *list;
    int64_t version, heard_us;
    struct dt_str state;
};

/* Shows the job if it has changed since the last poll. Returns true if the job is finished. */
static bool show_job_if_changed(struct watch *w)
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

/* Polls the job once. If the API is down or not ready, returns DONE until the timeout of the settings, so that the
 * watch continues. */
static int poll_job(struct watch *w)
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
    w->cli->heard_ms = w->answer.date_s * 1000;
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
    w.list = dt_cli_list_begin(cli, DT_CLI_JOB);
    if (interval && (dt_duration_parse(dt_str(interval), &interval_ms) != DT_OK || interval_ms < 1))
        status = dt_fail(&err, DT_INVALID, "--interval: \"%.80s\" is not a duration", interval);
    DT_THEN(status, dt_cli_request_build(call, path, call->args, &w.request, &err));
    DT_THEN(status, dt_json_new(&w.json));
    if (status == DT_OK && !w.list)
        status = dt_fail(&err, DT_NOMEM, "out of memory");
    struct timespec pause = {interval_ms / 1000, (interval_ms % 1000) * 1000000};
    int code = status == DT_OK ? poll_job(&w) : dt_cli_failed(status, &err);
    while (code == DT_CLI_DONE && !show_job_if_changed(&w)) {
        if (ferror(stdout)) {
            code = DT_CLI_REFUSED;
            break;
        }
        nanosleep(&pause, NULL);
        code = poll_job(&w);
    }
    if (code == DT_CLI_DONE && !dt_str_is(w.state, "succeeded"))
        code = DT_CLI_REFUSED;
    dt_cli_list_end(w.list);
    dt_json_free(w.json);
    dt_strbuf_clear(&w.answer.body);
    dt_cli_request_clear(&w.request);
    return code;
}
