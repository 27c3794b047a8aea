/*
 * Doctor: shows what GET /v1/doctor finds, under its causes. Before that it checks what only it can see: the way to the
 * API, and an API that cannot answer GET /v1/doctor. features/doctor/finding.h lists all findings.
 *
 *   /readyz ─▶ /v1/info ─▶ /v1/doctor
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/streams.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "features/doctor/finding.h"
#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

#define SKEW_MS 2500 /* what an API says of the time may be a second old */

/* A finding; subject and cause: NULL where there is none. */
struct shown {
    const char *name, *severity, *means, *action, *page, *subject, *detail, *cause;
};

struct doctor {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    unsigned shown, wrong; /* findings; notes are not wrong */
    char line[64];         /* the consequence whose line is not ended */
};

/* ---- showing ---- */

/* Findings with a cause are shown as one line for each kind, below the cause. */
static void add_as_text(struct doctor *d, struct dt_strbuf *out, const struct shown *f)
{
    const char *const parts[] = {"\n  means: ", f->means, "\n  do:    ", f->action, "\n  more:  ", f->page};
    const char *colour = strcmp(f->severity, "error") == 0 ? "\033[1;31m" : "\033[1;33m";
    bool goes_on = f->cause && strcmp(d->line, f->name) == 0;
    if (goes_on)
        dt_strbuf_adds(out, ", ");
    else if (d->line[0])
        dt_strbuf_addc(out, '\n');
    snprintf(d->line, sizeof(d->line), "%s", f->cause ? f->name : "");
    if (f->cause && !goes_on)
        dt_strbuf_adds(out, "  so:    ");
    if (!goes_on) {
        dt_strbuf_adds(out, d->cli->colours ? colour : "");
        dt_cli_add_plain(out, dt_str(f->severity));
        dt_strbuf_addc(out, ' ');
        dt_cli_add_plain(out, dt_str(f->name));
        dt_strbuf_adds(out, d->cli->colours ? "\033[0m: " : ": ");
    }
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

static void show(struct doctor *d, const struct shown *f)
{
    struct dt_strbuf out;
    char detail[1024];
    dt_strbuf_init(&out);
    d->shown++;
    d->wrong += strcmp(f->severity, "note") != 0;
    if (d->cli->form == DT_CLI_AS_JSON) {
        snprintf(detail, sizeof(detail), "%s%s%s", f->subject ? f->subject : "", f->subject ? ": " : "", f->detail);
        dt_json_begin_object(&out, NULL);
        dt_json_put_word(&out, "finding", f->name);
        dt_json_put_word(&out, "severity", f->severity);
        dt_json_put_word(&out, "detail", detail);
        dt_json_put_word(&out, "means", f->means);
        dt_json_put_word(&out, "do", f->action);
        dt_json_put_word(&out, "runbook", f->page);
        dt_json_put_word(&out, "cause", f->cause);
        dt_json_end_object(&out);
        dt_cli_show_json(d->cli, dt_strbuf_str(&out));
    } else {
        add_as_text(d, &out, f);
        fwrite(out.p ? out.p : "", 1, out.n, stdout);
    }
    dt_strbuf_clear(&out);
}

static void show_found(struct doctor *d, enum dt_finding_kind kind, const char *detail)
{
    dt_assert_cmp(kind, <, DT_FINDING_KINDS);
    const struct dt_finding_kind_text *t = &dt_finding_kinds[kind];
    show(d, &(struct shown){t->name, dt_severity_names[t->severity], t->means, t->action, t->page, NULL, detail, NULL});
}

/* ---- asking ---- */

/* True: the document is an object. */
static bool ask(struct doctor *d, const char *path)
{
    struct dt_error err = {0};
    dt_status status =
        dt_rest_ask(d->cli->rest, &(struct dt_rest_request){.method = "GET", .path = path}, &d->answer, &err);
    if (status != DT_OK) {
        show_found(d, DT_FINDING_UNREACHED, err.text);
        return false;
    }
    if (d->answer.status == 401 || d->answer.status == 403) {
        show_found(d, DT_FINDING_TOKEN,
                   d->answer.status == 401 ? "the API knows no such token" : "the token may not read this");
        return false;
    }
    if (dt_json_parse(d->json, dt_strbuf_str(&d->answer.body), &(struct dt_json_limits){.depth = 16}, &err) == DT_OK &&
        dt_json_root(d->json)->type == DT_JSON_OBJECT)
        return true;
    show_found(d, DT_FINDING_NOT_AN_API, d->cli->settings.url);
    return false;
}

/* The member's text; absent if there is none. */
static struct dt_str text_of(const struct doctor *d, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = node->type == DT_JSON_OBJECT ? dt_json_member(d->json, node, name) : NULL;
    return m && m->type == DT_JSON_STRING ? m->str : DT_STR_NONE;
}

/* Looks at the way to the API, and at what it says of itself. False: there is nothing more to ask. */
static bool look_at_readiness(struct doctor *d)
{
    char detail[128];
    const struct dt_cli_settings *settings = &d->cli->settings;
    if (!ask(d, "/readyz"))
        return false;
    if (settings->token && strncmp(settings->url, "http://", 7) == 0) {
        const char *host = settings->url + 7;
        if (strncmp(host, "127.", 4) != 0 && strncmp(host, "localhost", 9) != 0 && strncmp(host, "[::1]", 5) != 0)
            show_found(d, DT_FINDING_CLEAR_TOKEN, settings->url);
    }
    if (d->answer.cert_ends_at_s &&
        dt_finding_certificate("the certificate", d->answer.cert_ends_at_s, dt_clock_real_ms(d->cli->clock) / 1000,
                               detail, sizeof(detail)))
        show_found(d, DT_FINDING_API_CERTIFICATE, detail);
    const struct dt_json_node *root = dt_json_root(d->json);
    if (!dt_json_member(d->json, root, "mysql")) {
        show_found(d, DT_FINDING_NOT_AN_API, settings->url);
        return false;
    }
    const struct dt_json_node *draining = dt_json_member(d->json, root, "draining");
    if (draining && draining->type == DT_JSON_BOOL && draining->b)
        show_found(d, DT_FINDING_DRAINING, "it says so");
    struct dt_str mysql = text_of(d, root, "mysql");
    if (dt_str_is(mysql, "ok"))
        return true;
    snprintf(detail, sizeof(detail), "MySQL is %.*s", (int)(mysql.n < 64 ? mysql.n : 64), mysql.p ? mysql.p : "");
    show_found(d,
               dt_str_is(mysql, "schema")      ? DT_FINDING_SCHEMA
               : dt_str_is(mysql, "read-only") ? DT_FINDING_READ_ONLY
                                               : DT_FINDING_MYSQL_AWAY,
               detail);
    return true;
}

/* Compares the version, and the clock by ours before and after the request. */
static bool look_at_installation(struct doctor *d)
{
    char detail[128];
    int64_t now_ms = 0;
    int64_t before_ms = dt_clock_real_ms(d->cli->clock);
    if (!ask(d, "/v1/info"))
        return false;
    int64_t after_ms = dt_clock_real_ms(d->cli->clock);
    if (d->answer.status != 200)
        return false; /* MySQL is away, which is told already */
    const struct dt_json_node *root = dt_json_root(d->json);
    struct dt_str version = text_of(d, root, "version");
    if (!dt_str_is(version, DUETIME_VERSION)) {
        snprintf(detail, sizeof(detail), "the API is %.*s, this program %s", (int)(version.n < 40 ? version.n : 40),
                 version.p ? version.p : "", DUETIME_VERSION);
        show_found(d, DT_FINDING_VERSIONS_DIFFER, detail);
    }
    if (dt_time_parse(text_of(d, root, "now"), &now_ms) != DT_OK)
        return true;
    int64_t ahead = before_ms - now_ms;
    int64_t behind = now_ms - after_ms;
    if (ahead > SKEW_MS || behind > SKEW_MS) {
        snprintf(detail, sizeof(detail), "this clock is %lld ms %s MySQL's",
                 (long long)(ahead > behind ? ahead : behind), ahead > behind ? "ahead of" : "behind");
        show_found(d, DT_FINDING_CALLER_CLOCK, detail);
    }
    return true;
}

/* ---- what only the API sees ---- */

/* The member's text with a NUL behind it, in the arena; never NULL. */
static const char *copy_of(struct doctor *d, const struct dt_json_node *node, const char *name, struct dt_arena *arena)
{
    struct dt_str text = text_of(d, node, name);
    struct dt_str copy = dt_arena_copy(arena, text.p ? text : DT_STR_LIT(""));
    return copy.p ? copy.p : "";
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
    bool listed = findings && findings->type == DT_JSON_ARRAY;
    dt_arena_init(&arena);
    for (const struct dt_json_node *f = listed ? dt_json_first(d->json, findings) : NULL; f;
         f = dt_json_sibling(d->json, findings, f)) {
        const char *cause = copy_of(d, f, "cause", &arena);
        show(d, &(struct shown){.name = copy_of(d, f, "finding", &arena),
                                .severity = copy_of(d, f, "severity", &arena),
                                .means = copy_of(d, f, "means", &arena),
                                .action = copy_of(d, f, "do", &arena),
                                .page = copy_of(d, f, "runbook", &arena),
                                .subject = copy_of(d, f, "subject", &arena),
                                .detail = copy_of(d, f, "detail", &arena),
                                .cause = cause[0] ? cause : NULL});
    }
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
