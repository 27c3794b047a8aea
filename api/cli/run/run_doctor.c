/*
 * Doctor: shows what GET /v1/doctor finds, under its causes, and before that what is wrong with the way to the API and
 * with an API that cannot answer it.
 *
 *   /readyz ─▶ /v1/info ─▶ /v1/doctor
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/service/streams.h"
#include "base/text/timetext.h"
#include "cli/request.h"
#include "cli/run/findings.h"
#include "cli/run/run.h"
#include "cli/show.h"
#include "cli/talk.h"

#define DAYS_BEFORE 30

struct doctor {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    unsigned shown, wrong; /* findings; notes are not wrong */
    char line[64];         /* the consequence whose line is not ended */
};

/* ---- showing ---- */

static void add_member(struct dt_strbuf *out, const char *name, const char *value)
{
    dt_strbuf_addf(out, "%s\"%s\":", out->n ? "," : "{", name);
    dt_json_add_string(out, dt_str(value));
}

/* A finding; subject and cause: NULL where there is none. */
struct shown {
    struct dt_finding_text text;
    const char *subject, *detail, *cause;
};

static void add_as_json(struct dt_strbuf *out, const struct shown *f)
{
    char detail[1024];
    snprintf(detail, sizeof(detail), "%s%s%s", f->subject ? f->subject : "", f->subject ? ": " : "", f->detail);
    add_member(out, "finding", f->text.name);
    add_member(out, "severity", f->text.severity);
    add_member(out, "detail", detail);
    add_member(out, "means", f->text.means);
    add_member(out, "do", f->text.advice);
    add_member(out, "runbook", f->text.page);
    if (f->cause)
        add_member(out, "cause", f->cause);
    else
        dt_strbuf_adds(out, ",\"cause\":null");
    dt_strbuf_addc(out, '}');
}

static void add_name(struct dt_strbuf *out, const struct dt_finding_text *text, bool colours)
{
    const char *colour = strcmp(text->severity, "error") == 0 ? "\033[1;31m" : "\033[1;33m";
    dt_strbuf_adds(out, colours ? colour : "");
    dt_cli_add_plain(out, dt_str(text->severity));
    dt_strbuf_addc(out, ' ');
    dt_cli_add_plain(out, dt_str(text->name));
    dt_strbuf_adds(out, colours ? "\033[0m: " : ": ");
}

/* Findings with a cause are shown as one line for each kind, below the cause. */
static void add_as_text(struct doctor *d, struct dt_strbuf *out, const struct shown *f)
{
    const struct dt_finding_text *text = &f->text;
    const char *const parts[] = {"\n  means: ", text->means, "\n  do:    ", text->advice, "\n  more:  ", text->page};
    bool goes_on = f->cause && strcmp(d->line, text->name) == 0;
    if (goes_on)
        dt_strbuf_adds(out, ", ");
    else if (d->line[0])
        dt_strbuf_addc(out, '\n');
    snprintf(d->line, sizeof(d->line), "%s", f->cause ? text->name : "");
    if (f->cause && !goes_on)
        dt_strbuf_adds(out, "  so:    ");
    if (!goes_on)
        add_name(out, text, d->cli->colours);
    if (f->subject)
        dt_cli_add_plain(out, dt_str(f->subject));
    if (f->cause)
        return;
    dt_strbuf_adds(out, f->subject ? ": " : "");
    dt_cli_add_plain(out, dt_str(f->detail));
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i += 2) {
        dt_strbuf_adds(out, parts[i]);
        dt_cli_add_plain(out, dt_str(parts[i + 1]));
    }
    dt_strbuf_addc(out, '\n');
}

static void show(struct doctor *d, const struct shown *finding)
{
    struct dt_strbuf out;
    dt_strbuf_init(&out);
    d->shown++;
    d->wrong += strcmp(finding->text.severity, "note") != 0;
    if (d->cli->form == DT_CLI_AS_JSON) {
        add_as_json(&out, finding);
        dt_cli_show_json(d->cli, dt_strbuf_str(&out));
    } else {
        add_as_text(d, &out, finding);
        fwrite(out.p ? out.p : "", 1, out.n, stdout);
    }
    dt_strbuf_clear(&out);
}

static void show_found(void *arg, enum dt_finding finding, const char *detail)
{
    show(arg, &(struct shown){.text = dt_finding_texts[finding], .detail = detail});
}

/* ---- asking ---- */

static bool ask(struct doctor *d, const char *path)
{
    struct dt_error err = {0};
    dt_status status =
        dt_rest_ask(d->cli->rest, &(struct dt_rest_request){.method = "GET", .path = path}, &d->answer, &err);
    if (status != DT_OK) {
        show_found(d, DT_FOUND_UNREACHED, err.text);
        return false;
    }
    if (d->answer.status == 401 || d->answer.status == 403) {
        show_found(d, DT_FOUND_TOKEN,
                   d->answer.status == 401 ? "the API knows no such token" : "the token may not read this");
        return false;
    }
    if (dt_json_parse(d->json, dt_strbuf_str(&d->answer.body), &(struct dt_json_limits){.depth = 16}, &err) == DT_OK &&
        dt_json_root(d->json)->type == DT_JSON_OBJECT)
        return true;
    show_found(d, DT_FOUND_NOT_DUETIME, d->cli->settings.url);
    return false;
}

static bool is_loopback(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost", 9) == 0 || strncmp(host, "[::1]", 5) == 0;
}

static void look_at_the_way(struct doctor *d)
{
    char detail[96];
    const struct dt_cli_settings *settings = &d->cli->settings;
    int64_t now_s = dt_clock_real_ms(d->cli->clock) / 1000;
    int64_t days = (d->answer.cert_ends_at_s - now_s) / 86400;
    if (settings->token && strncmp(settings->url, "http://", 7) == 0 && !is_loopback(settings->url))
        show_found(d, DT_FOUND_CLEAR_TOKEN, settings->url);
    if (d->answer.cert_ends_at_s && days < DAYS_BEFORE) {
        snprintf(detail, sizeof(detail), "in %lld days", (long long)days);
        show_found(d, DT_FOUND_CERTIFICATE, detail);
    }
}

static bool look_at_readiness(struct doctor *d)
{
    if (!ask(d, "/readyz"))
        return false;
    look_at_the_way(d);
    if (!dt_json_member(d->json, dt_json_root(d->json), "mysql")) {
        show_found(d, DT_FOUND_NOT_DUETIME, d->cli->settings.url);
        return false;
    }
    dt_judge_readiness(d->json, dt_json_root(d->json), show_found, d);
    return true;
}

static bool look_at_installation(struct doctor *d)
{
    int64_t before_ms = dt_clock_real_ms(d->cli->clock);
    if (!ask(d, "/v1/info"))
        return false;
    int64_t after_ms = dt_clock_real_ms(d->cli->clock);
    if (d->answer.status != 200)
        return false; /* MySQL is away, which is told already */
    dt_judge_info(d->json, dt_json_root(d->json), before_ms, after_ms, show_found, d);
    return true;
}

/* ---- what only the API sees ---- */

/* The member's text with a NUL behind it, in the arena; never NULL. */
static const char *text_of(struct doctor *d, const struct dt_json_node *node, const char *name, struct dt_arena *arena)
{
    const struct dt_json_node *m = node->type == DT_JSON_OBJECT ? dt_json_member(d->json, node, name) : NULL;
    struct dt_str copy = dt_arena_copy(arena, m && m->type == DT_JSON_STRING ? m->str : DT_STR_LIT(""));
    return copy.p ? copy.p : "";
}

static void show_told(struct doctor *d, const struct dt_json_node *finding, struct dt_arena *arena)
{
    const char *cause = text_of(d, finding, "cause", arena);
    show(d, &(struct shown){.text = {.name = text_of(d, finding, "finding", arena),
                                     .severity = text_of(d, finding, "severity", arena),
                                     .means = text_of(d, finding, "means", arena),
                                     .advice = text_of(d, finding, "do", arena),
                                     .page = text_of(d, finding, "runbook", arena)},
                            .subject = text_of(d, finding, "subject", arena),
                            .detail = text_of(d, finding, "detail", arena),
                            .cause = cause[0] ? cause : NULL});
}

static void look_at_servers(struct doctor *d)
{
    struct dt_cli_request request;
    struct dt_arena arena;
    const char *late = dt_cli_value(d->cli->call, "late");
    dt_cli_request_init(&request);
    dt_strbuf_adds(&request.path, "/v1/doctor");
    if (late)
        dt_cli_request_add_query(&request, "late", late);
    bool told = !request.path.failed && ask(d, request.path.p) && d->answer.status == 200;
    dt_cli_request_clear(&request);
    const struct dt_json_node *findings = told ? dt_json_member(d->json, dt_json_root(d->json), "findings") : NULL;
    dt_arena_init(&arena);
    for (const struct dt_json_node *f = findings && findings->type == DT_JSON_ARRAY ? dt_json_first(d->json, findings)
                                                                                    : NULL;
         f; f = dt_json_sibling(d->json, findings, f))
        show_told(d, f, &arena);
    dt_arena_clear(&arena);
}

int dt_cli_run_doctor(struct dt_cli *cli)
{
    struct doctor d = {.cli = cli};
    int64_t late_ms = 0;
    const char *late = dt_cli_value(cli->call, "late");
    if (late && dt_duration_parse(dt_str(late), &late_ms) != DT_OK) {
        dt_cli_say("--late: \"%.80s\" is no duration", late);
        return DT_CLI_USAGE;
    }
    dt_rest_answer_init(&d.answer);
    if (dt_json_new(&d.json) == DT_OK && look_at_readiness(&d) && look_at_installation(&d))
        look_at_servers(&d);
    dt_json_free(d.json);
    dt_strbuf_clear(&d.answer.body);
    if (d.line[0])
        putchar('\n');
    dt_streams_flush();
    if (d.shown == 0)
        fputs("nothing is wrong as far as the API can tell\n", stderr);
    return d.wrong ? DT_CLI_REFUSED : DT_CLI_DONE;
}
