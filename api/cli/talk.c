/* If the API refuses a member, the message names the option that set the member, instead of a JSON pointer. */
#include <unistd.h>

#include "base/service.h"
#include "base/text/json_write.h"
#include "cli.h"
#include "show.h"
#include "words.h"

void dt_cli_say(const char *fmt, ...)
{
    char text[1024];
    struct dt_strbuf plain = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    dt_cli_add_plain(&plain, dt_str(text));
    dt_streams_flush();
    fprintf(stderr, "duetime: %s\n", plain.p ? plain.p : "");
    dt_strbuf_clear(&plain);
}

void dt_cli_say_nothing(const struct dt_cli *cli)
{
    if (cli->form != DT_CLI_AS_JSON)
        dt_cli_say("there is nothing to show");
}

int dt_cli_failed(dt_status status, const struct dt_error *err)
{
    const char *text = err->text[0] ? err->text : dt_status_text(status);
    if (status == DT_UNAVAILABLE) {
        dt_cli_say("cannot reach the API: %s", text);
        return DT_CLI_UNREACHED;
    }
    dt_cli_say("%s", text);
    return status == DT_INVALID ? DT_CLI_USAGE : DT_CLI_REFUSED;
}

bool dt_cli_may_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool dt_cli_confirmed(void)
{
    char line[16];
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* ---- problems ---- */

/* Adds "--run-at" for "/run_at" if the verb has this option; otherwise adds the pointer itself. */
static void add_option_or_pointer(struct dt_strbuf *out, const struct dt_cli *cli, struct dt_str pointer)
{
    const struct dt_cli_verb *verb = cli->call->verb;
    char member[64];
    for (size_t i = 0; i < verb->n_options && pointer.n > 1; i++) {
        dt_cli_member_of(verb->options[i].name, member);
        size_t n = strlen(member);
        if (pointer.n > n && memcmp(pointer.p + 1, member, n) == 0 && (pointer.n == n + 1 || pointer.p[n + 1] == '/')) {
            dt_strbuf_addf(out, "--%s", verb->options[i].name);
            dt_cli_add_plain(out, (struct dt_str){pointer.p + n + 1, pointer.n - n - 1});
            return;
        }
    }
    dt_cli_add_plain(out, pointer.n ? pointer : DT_STR_LIT("the whole"));
}

static struct dt_str member_text(const dt_json *json, const struct dt_json_node *object, const char *name)
{
    const struct dt_json_node *node = dt_json_member(json, object, name);
    return node && node->type == DT_JSON_STRING ? node->str
           : node && node->type == DT_JSON_INT  ? node->raw
                                                : DT_STR_NONE;
}

/* Prints title and detail of a refusal, the job and the request that it names, and each member with a fault. */
static void print_problem(const struct dt_cli *cli, const dt_json *json, const struct dt_json_node *root)
{
    static const char *const names[] = {"id", "state", "attempt", "version", "request_id"};
    struct dt_strbuf out = {0};
    struct dt_str title = member_text(json, root, "title");
    struct dt_str detail = member_text(json, root, "detail");
    const char *before = " (";
    dt_cli_add_plain(&out, title.p ? title : DT_STR_LIT("refused"));
    if (detail.p) {
        dt_strbuf_adds(&out, ": ");
        dt_cli_add_plain(&out, detail);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dt_str text = member_text(json, root, names[i]);
        if (!text.p)
            continue;
        dt_strbuf_addf(&out, "%s%s ", before, strcmp(names[i], "request_id") == 0 ? "request" : names[i]);
        dt_cli_add_plain(&out, text);
        before = ", ";
    }
    dt_strbuf_adds(&out, before[0] == ',' ? ")\n" : "\n");
    const struct dt_json_node *errors = dt_json_member(json, root, "errors");
    bool listed = errors && errors->type == DT_JSON_ARRAY;
    for (const struct dt_json_node *e = listed ? dt_json_first(json, errors) : NULL; e;
         e = dt_json_sibling(json, errors, e)) {
        if (e->type != DT_JSON_OBJECT)
            continue;
        dt_strbuf_adds(&out, "  ");
        add_option_or_pointer(&out, cli, member_text(json, e, "pointer"));
        dt_strbuf_adds(&out, ": ");
        dt_cli_add_plain(&out, member_text(json, e, "reason"));
        dt_strbuf_addc(&out, '\n');
    }
    dt_streams_flush();
    fprintf(stderr, "duetime: %s", out.p ? out.p : "refused\n");
    dt_strbuf_clear(&out);
}

static void print_json(const struct dt_json_node *root)
{
    struct dt_strbuf compact = {0};
    struct dt_strbuf out = {0};
    dt_json_add_compact(&compact, root->raw);
    dt_cli_add_plain(&out, dt_strbuf_str(&compact));
    dt_streams_flush();
    fprintf(stderr, "%s\n", out.p ? out.p : "");
    dt_strbuf_clear(&compact);
    dt_strbuf_clear(&out);
}

int dt_cli_judge(const struct dt_cli *cli, const struct dt_rest_answer *answer)
{
    dt_json *json = NULL;
    const struct dt_json_node *root = NULL;
    if (answer->status < 400)
        return DT_CLI_DONE;
    if (dt_json_new(&json) == DT_OK &&
        dt_json_parse(json, dt_strbuf_str(&answer->body), &(struct dt_json_limits){.depth = 16}, NULL) == DT_OK)
        root = dt_json_root(json);
    if (root && root->type != DT_JSON_OBJECT)
        root = NULL;
    bool late = root && dt_str_ends(member_text(json, root, "type"), DT_STR_LIT("/too-late"));
    if (!root)
        dt_cli_say("%s answered with status %d, but not as an API of duetime", cli->settings.url, answer->status);
    else if (cli->form == DT_CLI_AS_JSON)
        print_json(root);
    else
        print_problem(cli, json, root);
    dt_json_free(json);
    return answer->status == 404 ? DT_CLI_NOT_FOUND : late ? DT_CLI_TOO_LATE : DT_CLI_REFUSED;
}

/* Adds the command to cli->done, with the ids or the name in the answer: "jobs create: id 7". */
static void record_command_done(struct dt_cli *cli, const dt_json *json)
{
    static const char *const names[] = {"id", "name", "attempt"}; /* "attempt" is for jobs that were popped */
    const struct dt_cli_verb *verb = cli->call->verb;
    const struct dt_json_node *root = json ? dt_json_root(json) : NULL;
    const struct dt_json_node *list = verb->list ? dt_json_member(json, root, verb->list) : NULL;
    dt_strbuf_addf(&cli->done, "%s%s%s%s", cli->done.n > 0 ? "; " : "", verb->noun, verb->verb[0] ? " " : "",
                   verb->verb);
    for (unsigned i = 0; i < cli->call->n_args; i++) {
        dt_strbuf_addc(&cli->done, ' ');
        dt_cli_add_plain(&cli->done, dt_str(cli->call->args[i]));
    }
    const char *before = ": ";
    for (const struct dt_json_node *thing = list ? dt_json_first(json, list) : root; thing;
         thing = list ? dt_json_sibling(json, list, thing) : NULL)
        for (size_t i = 0; i < (list ? 3 : 2) && thing->type == DT_JSON_OBJECT; i++) {
            struct dt_str value = member_text(json, thing, names[i]);
            if (!value.p)
                continue;
            dt_strbuf_addf(&cli->done, "%s%s ", before, names[i]);
            dt_cli_add_plain(&cli->done, value);
            before = ", ";
        }
    if (root && dt_json_member(json, root, "token")) { /* the secret of a new token, which no other answer has */
        dt_strbuf_adds(&cli->done, "; its secret is lost: duetime tokens revoke ");
        dt_cli_add_plain(&cli->done, member_text(json, root, "name"));
        dt_strbuf_adds(&cli->done, " removes it");
    }
}

int dt_cli_ask(struct dt_cli *cli, const struct dt_rest_request *request, struct dt_rest_answer *answer, dt_json *json)
{
    struct dt_error err = {0};
    dt_status status = dt_rest_ask(cli->rest, request, answer, &err);
    bool changes = strcmp(request->method, "GET") != 0;
    cli->heard_ms = answer->date_s ? answer->date_s * 1000 : dt_clock_real_ms(cli->clock);
    if (status != DT_OK) {
        int failed = dt_cli_failed(status, &err);
        if (changes && answer->reached)
            dt_cli_say("the API may have carried out the request nevertheless");
        return failed;
    }
    int code = dt_cli_judge(cli, answer);
    if (code != DT_CLI_DONE)
        return code;
    bool read = json && answer->body.n > 0;
    if (read)
        status = dt_json_parse(json, dt_strbuf_str(&answer->body), &(struct dt_json_limits){.depth = 64}, &err);
    if (changes)
        record_command_done(cli, read && status == DT_OK ? json : NULL);
    if (status == DT_OK)
        return DT_CLI_DONE;
    dt_cli_say("%s answered with text that is not JSON: %.200s", cli->settings.url, err.text);
    return DT_CLI_REFUSED;
}

/* ---- progress ---- */

#define SECOND_US INT64_C(1000000)

void dt_cli_progress_begin(struct dt_cli_progress *progress, const dt_clock *clock, const char *what)
{
    int64_t now_us = dt_clock_mono_us(clock);
    *progress = (struct dt_cli_progress){clock, what, isatty(STDERR_FILENO), now_us, now_us};
}

void dt_cli_progress_tell(struct dt_cli_progress *progress, int64_t done, int64_t part, int64_t whole)
{
    int64_t now_us = dt_clock_mono_us(progress->clock);
    int64_t took_us = now_us - progress->begun_us;
    if (now_us - progress->told_us < (progress->terminal ? SECOND_US : 10 * SECOND_US))
        return;
    progress->told_us = now_us;
    fprintf(stderr, "%s%lld %s, %.0f/s", progress->terminal ? "\r" : "", (long long)done, progress->what,
            (double)done * SECOND_US / (double)took_us);
    if (whole > 0 && part > 0)
        fprintf(stderr, ", %.0f %%, %.0f s left", 100.0 * (double)part / (double)whole,
                (double)took_us / SECOND_US * (double)(whole - part) / (double)part);
    fputs(progress->terminal ? "\033[K" : "\n", stderr);
}

void dt_cli_progress_end(struct dt_cli_progress *progress)
{
    if (progress->terminal && progress->told_us != progress->begun_us)
        fputs("\r\033[K", stderr);
}
