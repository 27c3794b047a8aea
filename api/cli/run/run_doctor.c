/*
 * Doctor: asks an API what it knows of itself and of its installation, looks at the way to it, and shows what is wrong.
 *
 *   /readyz ─▶ /v1/info ─▶ /v1/doctor ─▶ paused topics that have jobs due
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

#define SKEW_MS     2500 /* what an API says of the time may be a second old */
#define LATE_MS     60000
#define DAYS_BEFORE 30
#define TOPICS_MAX  100 /* paused topics that are asked for their jobs */

struct doctor {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    int64_t late_ms;
    unsigned found;
};

/* ---- showing ---- */

static void add_member(struct dt_strbuf *out, const char *name, const char *value)
{
    dt_strbuf_addf(out, "%s\"%s\":", out->n ? "," : "{", name);
    dt_json_add_string(out, dt_str(value));
}

static void add_as_json(struct dt_strbuf *out, const struct dt_finding_text *text, const char *detail)
{
    add_member(out, "finding", text->name);
    add_member(out, "detail", detail);
    add_member(out, "means", text->means);
    add_member(out, "do", text->advice);
    add_member(out, "runbook", text->page);
    dt_strbuf_addc(out, '}');
}

static void add_as_text(struct dt_strbuf *out, const struct dt_finding_text *text, const char *detail, bool colours)
{
    const char *const parts[] = {"\n  means: ", text->means, "\n  do:    ", text->advice, "\n  more:  ", text->page};
    dt_strbuf_adds(out, colours ? "\033[1;31m" : "");
    dt_cli_add_plain(out, dt_str(text->name));
    dt_strbuf_adds(out, colours ? "\033[0m: " : ": ");
    dt_cli_add_plain(out, dt_str(detail));
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i += 2) {
        dt_strbuf_adds(out, parts[i]);
        dt_cli_add_plain(out, dt_str(parts[i + 1]));
    }
}

static void show(struct doctor *d, const struct dt_finding_text *text, const char *detail)
{
    struct dt_strbuf out;
    dt_strbuf_init(&out);
    d->found++;
    if (d->cli->form == DT_CLI_AS_JSON)
        add_as_json(&out, text, detail);
    else
        add_as_text(&out, text, detail, d->cli->colours);
    puts(out.p ? out.p : text->name);
    dt_strbuf_clear(&out);
}

static void show_found(void *arg, enum dt_finding finding, const char *detail)
{
    show(arg, &dt_finding_texts[finding], detail);
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
    struct dt_info_limits limits = {.skew_ms = SKEW_MS, .late_ms = d->late_ms};
    limits.before_ms = dt_clock_real_ms(d->cli->clock);
    if (!ask(d, "/v1/info"))
        return false;
    limits.after_ms = dt_clock_real_ms(d->cli->clock);
    if (d->answer.status != 200)
        return false; /* MySQL is away, which is told already */
    dt_judge_info(d->json, dt_json_root(d->json), &limits, show_found, d);
    return true;
}

/* ---- what only the API sees ---- */

static bool is_ours(struct dt_str name)
{
    for (int i = 0; i < DT_FINDINGS; i++)
        if (dt_str_is(name, dt_finding_texts[i].name))
            return true;
    return false;
}

/* The member's text with a NUL behind it, in the arena; never NULL. */
static const char *text_of(struct doctor *d, const struct dt_json_node *node, const char *name, struct dt_arena *arena)
{
    const struct dt_json_node *m = node->type == DT_JSON_OBJECT ? dt_json_member(d->json, node, name) : NULL;
    struct dt_str copy = dt_arena_copy(arena, m && m->type == DT_JSON_STRING ? m->str : DT_STR_LIT(""));
    return copy.p ? copy.p : "";
}

static void show_told(struct doctor *d, const struct dt_json_node *finding, struct dt_arena *arena)
{
    char detail[1024];
    const struct dt_finding_text text = {.name = text_of(d, finding, "finding", arena),
                                         .means = text_of(d, finding, "means", arena),
                                         .advice = text_of(d, finding, "do", arena),
                                         .page = text_of(d, finding, "runbook", arena)};
    snprintf(detail, sizeof(detail), "%s: %s", text_of(d, finding, "subject", arena),
             text_of(d, finding, "detail", arena));
    if (!is_ours(dt_str(text.name)))
        show(d, &text, detail);
}

/* What this program judges by itself, by limits that were given to it, is left to it. */
static void look_at_servers(struct doctor *d)
{
    struct dt_arena arena;
    if (!ask(d, "/v1/doctor") || d->answer.status != 200)
        return;
    const struct dt_json_node *findings = dt_json_member(d->json, dt_json_root(d->json), "findings");
    dt_arena_init(&arena);
    for (const struct dt_json_node *f = findings && findings->type == DT_JSON_ARRAY ? dt_json_first(d->json, findings)
                                                                                    : NULL;
         f; f = dt_json_sibling(d->json, findings, f))
        show_told(d, f, &arena);
    dt_arena_clear(&arena);
}

/* ---- paused topics ---- */

/* Names of paused topics of the page in d->json, each with a NUL behind it; gives how many. */
static unsigned paused_of(struct doctor *d, struct dt_strbuf *names)
{
    const struct dt_json_node *topics = dt_json_member(d->json, dt_json_root(d->json), "topics");
    unsigned n = 0;
    if (!topics || topics->type != DT_JSON_ARRAY)
        return 0;
    for (const struct dt_json_node *t = dt_json_first(d->json, topics); t; t = dt_json_sibling(d->json, topics, t)) {
        const struct dt_json_node *paused = t->type == DT_JSON_OBJECT ? dt_json_member(d->json, t, "paused") : NULL;
        const struct dt_json_node *name = paused ? dt_json_member(d->json, t, "name") : NULL;
        if (!paused || !paused->b || !name || name->type != DT_JSON_STRING)
            continue;
        dt_strbuf_add(names, name->str.p, name->str.n);
        dt_strbuf_addc(names, '\0');
        n++;
    }
    return n;
}

static void look_at_topic(struct doctor *d, const char *name)
{
    struct dt_cli_request request;
    char detail[320];
    dt_cli_request_init(&request);
    dt_strbuf_adds(&request.path, "/v1/topics/");
    dt_rest_add_encoded(&request.path, name);
    if (!request.path.failed && ask(d, request.path.p) && d->answer.status == 200) {
        const struct dt_json_node *late = dt_json_member(d->json, dt_json_root(d->json), "oldest_overdue_ms");
        if (late && late->type == DT_JSON_INT) {
            snprintf(detail, sizeof(detail), "%.200s, the oldest of its jobs for %lld s", name,
                     (long long)(late->i / 1000));
            show_found(d, DT_FOUND_PAUSED, detail);
        }
    }
    dt_cli_request_clear(&request);
}

/* Takes over the cursor of the page; NULL: it was the last. */
static char *cursor_of(const struct doctor *d)
{
    const struct dt_json_node *next = dt_json_member(d->json, dt_json_root(d->json), "next_cursor");
    return next && next->type == DT_JSON_STRING ? strndup(next->str.p, next->str.n) : NULL;
}

static void look_at_topics(struct doctor *d)
{
    struct dt_strbuf names;
    char *cursor = NULL;
    unsigned paused = 0;
    dt_strbuf_init(&names);
    do {
        struct dt_cli_request request;
        dt_cli_request_init(&request);
        dt_strbuf_adds(&request.path, "/v1/topics?limit=1000");
        if (cursor)
            dt_cli_request_add_query(&request, "cursor", cursor);
        free(cursor);
        cursor = NULL;
        if (!request.path.failed && ask(d, request.path.p) && d->answer.status == 200) {
            paused += paused_of(d, &names);
            cursor = cursor_of(d);
        }
        dt_cli_request_clear(&request);
    } while (cursor && paused < TOPICS_MAX);
    free(cursor);
    for (const char *name = names.p; name && name < names.p + names.n; name += strlen(name) + 1)
        look_at_topic(d, name);
    dt_strbuf_clear(&names);
}

int dt_cli_run_doctor(struct dt_cli *cli)
{
    struct doctor d = {.cli = cli, .late_ms = LATE_MS};
    const char *late = dt_cli_value(cli->call, "late");
    if (late && dt_duration_parse(dt_str(late), &d.late_ms) != DT_OK) {
        dt_cli_say("--late: \"%.80s\" is no duration", late);
        return DT_CLI_USAGE;
    }
    dt_rest_answer_init(&d.answer);
    if (dt_json_new(&d.json) == DT_OK && look_at_readiness(&d) && look_at_installation(&d)) {
        look_at_servers(&d);
        look_at_topics(&d);
    }
    dt_json_free(d.json);
    dt_rest_answer_clear(&d.answer);
    dt_streams_flush();
    if (d.found == 0)
        fputs("nothing is wrong as far as the API can tell\n", stderr);
    return d.found ? DT_CLI_REFUSED : DT_CLI_DONE;
}
