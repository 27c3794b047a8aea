/*
 * Whole sets of jobs by filter: previewed, asked for, begun as an operation and followed until it has ended; and
 * operations that somebody began.
 *
 *   dry run ─▶ "cancel 1234 jobs?" ─▶ operation ─▶ progress ─▶ what it did
 *       └ without a terminal and without --yes it ends here
 *
 * So is a topic deleted with its jobs; its counts are the preview.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

#define LOOK_NS 300000000L /* between two looks at an operation */
#define WAIT    "PT1S"     /* of an answer: what takes longer is followed, with its progress */

struct many {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json; /* the operation */
};

static struct dt_str text(const struct many *m, const char *name)
{
    return dt_json_text_of(m->json, dt_json_root(m->json), name);
}

static int64_t number(const struct many *m, const char *name)
{
    return dt_json_int_of(m->json, dt_json_root(m->json), name);
}

/* ---- an operation that runs ---- */

static int look(struct many *m, const char *id)
{
    struct dt_cli_request request;
    dt_cli_request_init(&request);
    dt_strbuf_adds(&request.path, "/v1/operations/");
    dt_rest_add_encoded(&request.path, id);
    int code =
        dt_cli_ask(m->cli, &(struct dt_rest_request){.method = "GET", .path = request.path.p}, &m->answer, m->json);
    dt_cli_request_clear(&request);
    return code;
}

/* Adds a command to copy: as this one, it says where the API is. */
static void add_command(struct dt_strbuf *out, const struct dt_cli_call *call, const char *verb, const char *id)
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

/* Waits until the operation has ended, and shows it; DONE: it did what it was to do. */
static int follow(struct many *m)
{
    char id[64];
    struct dt_cli_progress progress;
    struct dt_str given = text(m, "id");
    int code = DT_CLI_DONE;
    snprintf(id, sizeof(id), "%.*s", (int)(given.n < 60 ? given.n : 60), given.p ? given.p : "");
    dt_cli_progress_begin(&progress, m->cli->clock, "jobs");
    while (code == DT_CLI_DONE && dt_str_is(text(m, "state"), "running") && !dt_rest_signal()) {
        int64_t done = number(m, "changed") + number(m, "refused");
        dt_cli_progress_tell(&progress, done, done, number(m, "matched"));
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        code = look(m, id);
    }
    dt_cli_progress_end(&progress);
    if (code != DT_CLI_DONE || dt_str_is(text(m, "state"), "running")) {
        struct dt_strbuf out;
        dt_strbuf_init(&out);
        dt_strbuf_addf(&out, "duetime: operation %s goes on at the API. To follow it, or to stop it:", id);
        add_command(&out, m->cli->call, "watch", id);
        add_command(&out, m->cli->call, "stop", id);
        fprintf(stderr, "%s\n", out.p ? out.p : "");
        dt_strbuf_clear(&out);
        return code;
    }
    dt_cli_show(m->cli, m->json, dt_json_root(m->json));
    return dt_str_is(text(m, "state"), "done") ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_follow(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    dt_rest_answer_init(&m.answer);
    dt_rest_catch_signals();
    int code = dt_json_new(&m.json) == DT_OK ? look(&m, cli->call->args[0]) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = follow(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}

/* ---- beginning one ---- */

static int post(struct many *m, bool dry)
{
    struct dt_cli_request request;
    struct dt_error err = {0};
    dt_cli_request_init(&request);
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

/* Previews, unless --yes says that it is known what is done, and asks the person at a terminal; DONE: go on. */
static int preview(struct many *m, bool *go_on)
{
    bool dry = dt_cli_value(m->cli->call, "dry-run");
    char line[16];
    *go_on = !dry && dt_cli_value(m->cli->call, "yes");
    if (*go_on)
        return DT_CLI_DONE;
    int code = post(m, true);
    if (code != DT_CLI_DONE)
        return code;
    if (!dry && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
        struct dt_str kind = text(m, "kind");
        struct dt_strbuf plain;
        dt_strbuf_init(&plain);
        dt_cli_add_plain(&plain, kind.p ? kind : DT_STR_LIT("change"));
        fprintf(stderr, "%s %lld jobs? [y/N] ", plain.p ? plain.p : "", (long long)number(m, "matched"));
        dt_strbuf_clear(&plain);
        *go_on = fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
        return *go_on ? DT_CLI_DONE : DT_CLI_REFUSED;
    }
    dt_cli_show(m->cli, m->json, dt_json_root(m->json));
    if (!dry)
        dt_cli_say("nothing is done: this is what --yes would do");
    return dry ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_many(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    bool go_on = false;
    dt_rest_answer_init(&m.answer);
    int code = dt_json_new(&m.json) == DT_OK ? preview(&m, &go_on) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE && go_on)
        code = post(&m, false);
    if (code == DT_CLI_DONE && go_on)
        code = follow(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}

/* ---- a topic with its jobs ---- */

static int ask_topic(struct many *m, const struct dt_cli_call *call, const char *method)
{
    struct dt_cli_request request;
    struct dt_error err = {0};
    dt_cli_request_init(&request);
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

static int64_t live_jobs(const struct many *m)
{
    const struct dt_json_node *counts = dt_json_member(m->json, dt_json_root(m->json), "counts");
    return dt_json_int_of(m->json, counts, "scheduled") + dt_json_int_of(m->json, counts, "dispatched");
}

/* Shows what would go, unless --yes says that it is known; DONE: go on. */
static int preview_topic(struct many *m)
{
    const struct dt_cli_call plain = {.verb = m->cli->call->verb};
    char line[16];
    if (dt_cli_value(m->cli->call, "yes"))
        return DT_CLI_DONE;
    int code = ask_topic(m, &plain, "GET");
    if (code != DT_CLI_DONE)
        return code;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        dt_cli_show(m->cli, m->json, dt_json_root(m->json));
        dt_cli_say("nothing is done: --yes would delete the topic and end its %lld jobs", (long long)live_jobs(m));
        return DT_CLI_REFUSED;
    }
    fprintf(stderr, "delete the topic %s and end its %lld jobs? [y/N] ", m->cli->call->args[0],
            (long long)live_jobs(m));
    bool wanted = fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
    return wanted ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_delete(struct dt_cli *cli)
{
    struct many m = {.cli = cli};
    if (!dt_cli_value(cli->call, "cancel"))
        return dt_cli_run_request(cli);
    dt_rest_answer_init(&m.answer);
    int code = dt_json_new(&m.json) == DT_OK ? preview_topic(&m) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = ask_topic(&m, cli->call, "DELETE");
    if (code == DT_CLI_DONE)
        code = follow(&m);
    dt_json_free(m.json);
    dt_strbuf_clear(&m.answer.body);
    return code;
}
