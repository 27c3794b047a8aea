/*
 * The verbs overview, doctor and forecast.
 *
 * The overview is one screen: readiness, rates and lateness, shards with their leaders, and the twenty most important
 * topics, or fewer if the terminal has fewer lines.
 */
#include <time.h>

#include "base/assert.h"
#include "base/service.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "cli.h"
#include "features/doctor/finding.h"
#include "show.h"
#include "words.h"

#define TOPICS 20
#define SHARDS 32
#define TITLE  12 /* width of the title at the start of a line */

struct overview {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
};

/* Requests a document for the screen. Any status of /readyz is accepted: if the API is not ready, the body of the
 * answer says so. */
static int request_document(struct overview *o, const char *path)
{
    struct dt_error err = {0};
    dt_status status =
        dt_rest_ask(o->cli->rest, &(struct dt_rest_request){.method = "GET", .path = path}, &o->answer, &err);
    if (status != DT_OK)
        return dt_cli_failed(status, &err);
    int code = strcmp(path, "/readyz") == 0 ? DT_CLI_DONE : dt_cli_judge(o->cli, &o->answer);
    if (code == DT_CLI_DONE &&
        dt_json_parse(o->json, dt_strbuf_str(&o->answer.body), &(struct dt_json_limits){.depth = 64}, &err) != DT_OK)
        code = dt_cli_failed(DT_MALFORMED, &err);
    return code;
}

/* Returns the member as text: a string without quotes, any other value as JSON; "-" if the member is absent. */
static struct dt_str member_text_or_dash(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = dt_json_member(json, node, name);
    return !m ? DT_STR_LIT("-") : m->type == DT_JSON_STRING ? m->str : m->raw;
}

static void add_name_and_value(struct dt_strbuf *out, const dt_json *json, const struct dt_json_node *node,
                               const char *name)
{
    dt_strbuf_addf(out, "%s ", name);
    dt_cli_add_plain(out, member_text_or_dash(json, node, name));
    dt_strbuf_adds(out, "  ");
}

static int show_readiness(struct overview *o, struct dt_strbuf *out)
{
    static const char *const parts[] = {"mysql", "redis", "leaders", "kafka"};
    int code = request_document(o, "/readyz");
    if (code != DT_CLI_DONE)
        return code;
    const struct dt_json_node *root = dt_json_root(o->json);
    struct dt_str status = member_text_or_dash(o->json, root, "status");
    const char *colour = !o->cli->colours ? "" : dt_str_is(status, "ready") ? "\033[32m" : "\033[31m";
    dt_strbuf_adds(out, colour);
    dt_cli_add_plain(out, status);
    dt_strbuf_addf(out, "%s  ", colour[0] ? "\033[0m" : "");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        add_name_and_value(out, o->json, root, parts[i]);
    if (dt_str_is(member_text_or_dash(o->json, root, "workers"),
                  "busy")) /* shown only if busy, to keep the line short */
        add_name_and_value(out, o->json, root, "workers");
    dt_strbuf_addc(out, '\n');
    return DT_CLI_DONE;
}

/* Appends the title, and "name value" for each member of the object, on as many lines as needed. */
static void add_object_line(const struct overview *o, struct dt_strbuf *out, const char *title, const char *name)
{
    const struct dt_json_node *node = dt_json_member(o->json, dt_json_root(o->json), name);
    bool there = node && node->type == DT_JSON_OBJECT;
    size_t begin = out->n; /* position in `out` at which the current line starts */
    struct dt_strbuf pair = {0};
    dt_strbuf_addf(out, "%-*s", TITLE, title);
    if (!there)
        dt_strbuf_addc(out, '-');
    for (const struct dt_json_node *m = there ? dt_json_first(o->json, node) : NULL; m;
         m = dt_json_sibling(o->json, node, m)) {
        dt_strbuf_reset(&pair);
        dt_cli_add_plain(&pair, m->name);
        dt_strbuf_addc(&pair, ' ');
        dt_cli_add_plain(&pair, m->type == DT_JSON_STRING ? m->str
                                : m->type == DT_JSON_NULL ? DT_STR_LIT("-")
                                                          : m->raw);
        bool first = out->n - begin <= TITLE;
        if (!first && o->cli->width && out->n - begin + 2 + pair.n > o->cli->width) {
            dt_strbuf_addf(out, "\n%*s", TITLE, "");
            begin = out->n - TITLE;
            first = true;
        }
        dt_strbuf_adds(out, first ? "" : "  ");
        dt_strbuf_add(out, pair.p ? pair.p : "", pair.n);
    }
    dt_strbuf_addc(out, '\n');
    dt_strbuf_clear(&pair);
}

/* ---- tables ---- */

/* A table on the screen: its rows, and the number of rows that fit. */
struct part {
    enum dt_cli_thing thing;
    const struct dt_json_node *items;
    const char *rest; /* command that lists all rows */
    unsigned n, room;
};

static struct part make_table_part(const struct overview *o, enum dt_cli_thing thing, const char *name,
                                   const char *rest)
{
    const struct dt_json_node *items = dt_json_member(o->json, dt_json_root(o->json), name);
    struct part part = {.thing = thing, .rest = rest};
    if (!items || items->type != DT_JSON_ARRAY)
        return part;
    part.items = items;
    for (const struct dt_json_node *item = dt_json_first(o->json, items); item;
         item = dt_json_sibling(o->json, items, item))
        part.n++;
    return part;
}

/* Adds at most `most` rows: if `well`, rows whose health is ok; otherwise the other rows. Returns how many rows it
 * added. */
static unsigned add_table_rows(struct overview *o, struct dt_cli_list *list, const struct part *part, bool well,
                               unsigned most)
{
    unsigned n = 0;
    for (const struct dt_json_node *item = dt_json_first(o->json, part->items); item && n < most;
         item = dt_json_sibling(o->json, part->items, item))
        if (dt_str_is(member_text_or_dash(o->json, item, "health"), "ok") == well) {
            dt_cli_list_row(list, o->json, item);
            n++;
        }
    return n;
}

/* Shows a table. If not all rows fit, rows with problems come before other rows. */
static int show_table_part(struct overview *o, const struct part *part)
{
    struct dt_cli_list *list = dt_cli_list_begin(o->cli, part->thing);
    if (!list)
        return DT_CLI_REFUSED;
    const struct dt_json_node *item = part->items && part->room == part->n ? dt_json_first(o->json, part->items) : NULL;
    for (; item; item = dt_json_sibling(o->json, part->items, item))
        dt_cli_list_row(list, o->json, item);
    if (part->room < part->n)
        add_table_rows(o, list, part, true, part->room - add_table_rows(o, list, part, false, part->room));
    dt_cli_list_end(list);
    if (part->room < part->n)
        printf("… and %u more: duetime %s\n", part->n - part->room, part->rest);
    return DT_CLI_DONE;
}

/* Shows the tables of shards and topics. head: number of lines above the tables. */
static int show_tables(struct overview *o, unsigned head)
{
    struct part shards = make_table_part(o, DT_CLI_SHARD, "shards", "shards list");
    struct part topics = make_table_part(o, DT_CLI_TRAFFIC, "topics", "topics list");
    unsigned taken = head + 4; /* 4: two table heads, a line between the tables, and the prompt */
    topics.n += (unsigned)dt_json_int_of(o->json, dt_json_root(o->json), "topics_more");
    shards.room = shards.n < SHARDS ? shards.n : SHARDS;
    topics.room = topics.n < TOPICS ? topics.n : TOPICS;
    if (o->cli->height && taken + shards.room + topics.room > o->cli->height) {
        /* Each table gets half of the lines, plus the lines that the other table does not need. */
        taken += 2; /* two lines with "… and N more" */
        unsigned lines = o->cli->height > taken + 2 ? o->cli->height - taken : 2;
        unsigned wanted = topics.room < lines ? topics.room : lines;
        unsigned most = lines - wanted > lines / 2 ? lines - wanted : lines / 2;
        shards.room = shards.room < most ? shards.room : most;
        topics.room = topics.room < lines - shards.room ? topics.room : lines - shards.room;
        dt_assert_cmp(shards.room + topics.room, <=, lines);
    }
    int code = show_table_part(o, &shards);
    putchar('\n');
    return code == DT_CLI_DONE ? show_table_part(o, &topics) : code;
}

/* ---- the screen ---- */

/* Draws the screen. The old screen stays until the new one is complete, and stays if the new one cannot be read. */
static int draw_screen(struct overview *o)
{
    struct dt_strbuf head = {0};
    unsigned lines = 0;
    int code = show_readiness(o, &head);
    if (code == DT_CLI_DONE)
        code = request_document(o, "/v1/overview");
    bool whole = code == DT_CLI_DONE && dt_json_root(o->json)->type == DT_JSON_OBJECT;
    if (whole) {
        const struct dt_json_node *root = dt_json_root(o->json);
        dt_strbuf_adds(&head, "duetime ");
        dt_cli_add_plain(&head, member_text_or_dash(o->json, root, "version"));
        dt_strbuf_adds(&head, "  ");
        add_name_and_value(&head, o->json, root, "now");
        dt_strbuf_adds(&head, "\n\n");
        add_object_line(o, &head, "a second", "rates");
        add_object_line(o, &head, "lateness ms", "lateness_ms");
        add_object_line(o, &head, "overdue", "overdue");
        add_object_line(o, &head, "jobs", "jobs");
        dt_strbuf_addc(&head, '\n');
    }
    if (whole)
        dt_cli_clear_screen(o->cli);
    fwrite(head.p ? head.p : "", 1, head.n, stdout);
    for (size_t i = 0; i < head.n; i++)
        lines += head.p[i] == '\n';
    if (whole)
        code = show_tables(o, lines);
    dt_strbuf_clear(&head);
    return code;
}

static int draw_json(struct overview *o)
{
    static const char *const parts[][2] = {{"ready", "/readyz"}, {"overview", "/v1/overview"}};
    struct dt_strbuf out = {0};
    int code = DT_CLI_DONE;
    dt_json_begin_object(&out, NULL);
    for (size_t i = 0; code == DT_CLI_DONE && i < 2; i++) {
        code = request_document(o, parts[i][1]);
        dt_json_name(&out, parts[i][0]);
        dt_json_add_compact(&out, dt_strbuf_str(&o->answer.body));
    }
    dt_json_end_object(&out);
    if (code == DT_CLI_DONE)
        dt_cli_show_json(o->cli, dt_strbuf_str(&out));
    dt_strbuf_clear(&out);
    return code;
}

int dt_cli_run_overview(struct dt_cli *cli)
{
    struct overview o = {.cli = cli};
    int code = DT_CLI_REFUSED;
    if (dt_json_new(&o.json) == DT_OK)
        code = cli->form == DT_CLI_AS_JSON ? draw_json(&o) : draw_screen(&o);
    dt_json_free(o.json);
    dt_strbuf_clear(&o.answer.body);
    return code;
}

int dt_cli_repeat(struct dt_cli *cli, dt_cli_run *run)
{
    const char *interval = dt_cli_value(cli->call, "interval");
    int64_t interval_ms = 2000;
    int code = DT_CLI_DONE;
    if (interval && (dt_duration_parse(dt_str(interval), &interval_ms) != DT_OK || interval_ms < 1)) {
        dt_cli_say("--interval: \"%.80s\" is not a duration", interval);
        return DT_CLI_USAGE;
    }
    const struct timespec pause = {interval_ms / 1000, (interval_ms % 1000) * 1000000};
    cli->clear = cli->width && cli->form != DT_CLI_AS_JSON;
    for (bool more = true; more;) {
        code = run(cli);
        more = dt_streams_flush() == 0 && (code == DT_CLI_DONE || code == DT_CLI_UNREACHED); /* it may come back */
        if (more)
            nanosleep(&pause, NULL);
    }
    return code;
}

/*
 * ---- doctor ----
 *
 * Shows the findings of GET /v1/doctor, each below its cause. Before that, checks what only a client can see: the
 * connection to the API, and whether the API can answer GET /v1/doctor. features/doctor/finding.h lists all kinds of
 * findings.
 *
 *   /readyz ─▶ /v1/info ─▶ /v1/doctor
 */

#define SKEW_MS 2500 /* allowed difference of the clocks in ms; the time in an answer may be a second old */

/* A finding as it is shown; subject and cause may be NULL. */
struct shown {
    const char *name, *severity, *means, *action, *page, *subject, *detail, *cause;
};

struct doctor {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
    unsigned shown, wrong; /* number of findings shown; wrong: those of them that are not notes */
    char line[64];         /* kind of the findings in the unfinished line; empty: no line is unfinished */
};

/* Adds a finding as text. If it has a cause, it is added below the cause; all findings of one kind share a line. */
static void add_finding_text(struct doctor *d, struct dt_strbuf *out, const struct shown *f)
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

static void show_finding(struct doctor *d, const struct shown *f)
{
    struct dt_strbuf out = {0};
    char detail[1024];
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
        add_finding_text(d, &out, f);
        fwrite(out.p ? out.p : "", 1, out.n, stdout);
    }
    dt_strbuf_clear(&out);
}

static void show_finding_of_kind(struct doctor *d, enum dt_finding_kind kind, const char *detail)
{
    dt_assert_cmp(kind, <, DT_FINDING_KINDS);
    const struct dt_finding_kind_text *t = &dt_finding_kinds[kind];
    show_finding(
        d, &(struct shown){t->name, dt_severity_names[t->severity], t->means, t->action, t->page, NULL, detail, NULL});
}

/* Requests a document of the API. Returns true if the answer is a JSON object; otherwise shows a finding. */
static bool request_findings(struct doctor *d, const char *path)
{
    struct dt_error err = {0};
    dt_status status =
        dt_rest_ask(d->cli->rest, &(struct dt_rest_request){.method = "GET", .path = path}, &d->answer, &err);
    if (status != DT_OK) {
        show_finding_of_kind(d, DT_FINDING_UNREACHED, err.text);
        return false;
    }
    if (d->answer.status == 401 || d->answer.status == 403) {
        show_finding_of_kind(d, DT_FINDING_TOKEN,
                             d->answer.status == 401 ? "the API does not know this token"
                                                     : "the token may not read this");
        return false;
    }
    if (dt_json_parse(d->json, dt_strbuf_str(&d->answer.body), &(struct dt_json_limits){.depth = 16}, &err) == DT_OK &&
        dt_json_root(d->json)->type == DT_JSON_OBJECT)
        return true;
    show_finding_of_kind(d, DT_FINDING_NOT_AN_API, d->cli->settings.url);
    return false;
}

/* Checks the connection to the API, and the API's readiness. Returns false if further requests make no sense. */
static bool check_readiness(struct doctor *d)
{
    char detail[128];
    const struct dt_cli_settings *settings = &d->cli->settings;
    if (!request_findings(d, "/readyz"))
        return false;
    if (settings->token && strncmp(settings->url, "http://", 7) == 0) {
        const char *host = settings->url + 7;
        if (strncmp(host, "127.", 4) != 0 && strncmp(host, "localhost", 9) != 0 && strncmp(host, "[::1]", 5) != 0)
            show_finding_of_kind(d, DT_FINDING_CLEAR_TOKEN, settings->url);
    }
    if (d->answer.cert_ends_at_s &&
        dt_finding_certificate("the certificate", d->answer.cert_ends_at_s, dt_clock_real_ms(d->cli->clock) / 1000,
                               detail, sizeof(detail)))
        show_finding_of_kind(d, DT_FINDING_API_CERTIFICATE, detail);
    const struct dt_json_node *root = dt_json_root(d->json);
    if (!dt_json_member(d->json, root, "mysql")) {
        show_finding_of_kind(d, DT_FINDING_NOT_AN_API, settings->url);
        return false;
    }
    const struct dt_json_node *draining = dt_json_member(d->json, root, "draining");
    if (draining && draining->type == DT_JSON_BOOL && draining->b)
        show_finding_of_kind(d, DT_FINDING_DRAINING, "its /readyz says so");
    struct dt_str mysql = dt_json_text_of(d->json, root, "mysql");
    if (dt_str_is(mysql, "ok"))
        return true;
    snprintf(detail, sizeof(detail), "MySQL is %.*s", (int)(mysql.n < 64 ? mysql.n : 64), mysql.p ? mysql.p : "");
    show_finding_of_kind(d,
                         dt_str_is(mysql, "schema")      ? DT_FINDING_SCHEMA
                         : dt_str_is(mysql, "read-only") ? DT_FINDING_READ_ONLY
                                                         : DT_FINDING_MYSQL_AWAY,
                         detail);
    return true;
}

/* Compares the API's version with the program's version. Compares the API's clock with the program's clock, read before
 * and after the request. */
static bool check_installation(struct doctor *d)
{
    char detail[128];
    int64_t now_ms = 0;
    int64_t before_ms = dt_clock_real_ms(d->cli->clock);
    if (!request_findings(d, "/v1/info"))
        return false;
    int64_t after_ms = dt_clock_real_ms(d->cli->clock);
    if (d->answer.status != 200)
        return false; /* MySQL is down, which is already shown as a finding */
    const struct dt_json_node *root = dt_json_root(d->json);
    struct dt_str version = dt_json_text_of(d->json, root, "version");
    if (!dt_str_is(version, DUETIME_VERSION)) {
        snprintf(detail, sizeof(detail), "the API has version %.*s, this program %s",
                 (int)(version.n < 40 ? version.n : 40), version.p ? version.p : "", DUETIME_VERSION);
        show_finding_of_kind(d, DT_FINDING_VERSIONS_DIFFER, detail);
    }
    if (dt_time_parse(dt_json_text_of(d->json, root, "now"), &now_ms) != DT_OK)
        return true;
    int64_t ahead = before_ms - now_ms;
    int64_t behind = now_ms - after_ms;
    if (ahead > SKEW_MS || behind > SKEW_MS) {
        snprintf(detail, sizeof(detail), "the clock of this machine is %lld ms %s MySQL's",
                 (long long)(ahead > behind ? ahead : behind), ahead > behind ? "ahead of" : "behind");
        show_finding_of_kind(d, DT_FINDING_CALLER_CLOCK, detail);
    }
    return true;
}

/* Returns the member's text, terminated by a zero byte, in the arena; "" if the member is absent, never NULL. */
static const char *copy_member_text(struct doctor *d, const struct dt_json_node *node, const char *name,
                                    struct dt_arena *arena)
{
    struct dt_str text = dt_json_text_of(d->json, node, name);
    struct dt_str copy = dt_arena_copy(arena, text.p ? text : DT_STR_LIT(""));
    return copy.p ? copy.p : "";
}

static void show_api_findings(struct doctor *d)
{
    struct dt_cli_request request = {0};
    struct dt_arena arena = {0};
    const char *late = dt_cli_value(d->cli->call, "late");
    dt_strbuf_adds(&request.path, "/v1/doctor");
    if (late)
        dt_cli_request_add_query(&request, "late", late);
    bool told = !request.path.failed && request_findings(d, request.path.p) && d->answer.status == 200;
    dt_cli_request_clear(&request);
    const struct dt_json_node *findings = told ? dt_json_member(d->json, dt_json_root(d->json), "findings") : NULL;
    bool listed = findings && findings->type == DT_JSON_ARRAY;
    for (const struct dt_json_node *f = listed ? dt_json_first(d->json, findings) : NULL; f;
         f = dt_json_sibling(d->json, findings, f)) {
        const char *cause = copy_member_text(d, f, "cause", &arena);
        show_finding(d, &(struct shown){.name = copy_member_text(d, f, "finding", &arena),
                                        .severity = copy_member_text(d, f, "severity", &arena),
                                        .means = copy_member_text(d, f, "means", &arena),
                                        .action = copy_member_text(d, f, "do", &arena),
                                        .page = copy_member_text(d, f, "runbook", &arena),
                                        .subject = copy_member_text(d, f, "subject", &arena),
                                        .detail = copy_member_text(d, f, "detail", &arena),
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
        dt_cli_say("--late: \"%.80s\" is not a duration", late);
        return DT_CLI_USAGE;
    }
    if (dt_json_new(&d.json) == DT_OK && check_readiness(&d) && check_installation(&d))
        show_api_findings(&d);
    dt_json_free(d.json);
    dt_strbuf_clear(&d.answer.body);
    if (d.line[0])
        putchar('\n');
    dt_streams_flush();
    if (d.shown == 0)
        fputs("nothing is wrong as far as the API can tell\n", stderr);
    return d.wrong ? DT_CLI_REFUSED : DT_CLI_DONE;
}

/*
 * ---- forecast ----
 *
 * A bar chart of the jobs that become due: each step is a line, with the topic that has most of the step's jobs. With
 * --json, prints each step as it is in the API's answer.
 */

#define BAR_DEFAULT 40 /* length of the longest bar, if standard output is not a terminal */
#define BAR_MAX     60
#define BAR_MIN     4
#define AROUND      50 /* characters of a chart's line, without its bar */
#define BEFORE      32 /* characters of a chart's line before its topic, without its bar: time, number, spaces */

struct chart {
    struct dt_cli *cli;
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
    int64_t most; /* maximal number of jobs due in one step */
    int bar;
    struct dt_strbuf line;
};

static struct dt_str chart_member_text(const struct chart *c, const struct dt_json_node *node, const char *name)
{
    const struct dt_str text = dt_json_text_of(c->json, node, name);
    return text.p ? text : DT_STR_LIT("-");
}

static void show_chart_step(struct chart *c, const struct dt_json_node *step)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const struct dt_json_node *topics = dt_json_member(c->json, step, "topics");
    const struct dt_json_node *largest = topics ? dt_json_first(c->json, topics) : NULL;
    const struct dt_str time = chart_member_text(c, step, "from");
    /* length of the time without fractions of a second, because a step is never shorter than a second */
    const size_t second = time.n > 19 ? 19 : time.n;
    const int64_t due = dt_json_int_of(c->json, step, "due");
    dt_strbuf_reset(&c->line);
    dt_cli_add_plain(&c->line, (struct dt_str){time.p, second});
    dt_strbuf_addf(&c->line, "%s %9lld %s", second == 19 ? "Z" : "", (long long)due, c->cli->colours ? "\033[36m" : "");
    const double length = c->most ? (double)due * c->bar / (double)c->most : 0;
    int n = (int)(length * 8 + 0.5); /* length in eighths of a character */
    n = n == 0 && due > 0 ? 1 : n;
    for (int i = 0; i < n / 8; i++)
        dt_strbuf_adds(&c->line, "█");
    dt_strbuf_addf(&c->line, "%s%*s%s", eighths[n % 8], c->bar - n / 8 - (n % 8 > 0), "",
                   c->cli->colours ? "\033[0m " : " ");
    if (largest) { /* adds as much of the topic's name as fits in the line */
        struct dt_strbuf plain = {0};
        int room = (int)c->cli->width - BEFORE - c->bar;
        dt_cli_add_plain(&plain, chart_member_text(c, largest, "topic"));
        dt_cli_add_cut(&c->line, dt_strbuf_str(&plain), c->cli->width == 0 ? SIZE_MAX : room > 0 ? (size_t)room : 1);
        dt_strbuf_clear(&plain);
    }
    while (c->line.n > 0 && c->line.p[c->line.n - 1] == ' ')
        c->line.n--;
    printf("%.*s\n", (int)c->line.n, c->line.p);
}

static int show_chart(struct chart *c)
{
    const struct dt_json_node *root = dt_json_root(c->json);
    const bool json = c->cli->form == DT_CLI_AS_JSON;
    const struct dt_json_node *steps = dt_json_member(c->json, root, c->cli->call->verb->list);
    if (!steps || steps->type != DT_JSON_ARRAY) {
        dt_cli_say("the answer of %s has no list \"%s\"", c->cli->settings.url, c->cli->call->verb->list);
        return DT_CLI_REFUSED;
    }
    int width = (int)c->cli->width - AROUND;
    c->bar = c->cli->width == 0 ? BAR_DEFAULT : width < BAR_MIN ? BAR_MIN : width > BAR_MAX ? BAR_MAX : width;
    for (const struct dt_json_node *s = dt_json_first(c->json, steps); s; s = dt_json_sibling(c->json, steps, s))
        c->most = dt_later(dt_json_int_of(c->json, s, "due"), c->most);
    for (const struct dt_json_node *s = dt_json_first(c->json, steps); s; s = dt_json_sibling(c->json, steps, s)) {
        if (json)
            dt_cli_show(c->cli, c->json, s);
        else
            show_chart_step(c, s);
    }
    struct dt_str counted = chart_member_text(c, root, "counted_until");
    if (!json && !dt_str_eq(counted, chart_member_text(c, root, "to")))
        dt_cli_say("steps from %.*s on are estimates", (int)counted.n, counted.p);
    const struct dt_json_node *topics = dt_json_member(c->json, root, "topics_counted");
    if (!json && topics && topics->type == DT_JSON_BOOL && !topics->b)
        dt_cli_say("the topic with most jobs of a step is an estimate");
    return DT_CLI_DONE;
}

int dt_cli_run_forecast(struct dt_cli *cli)
{
    struct chart c = {.cli = cli};
    struct dt_error err = {0};
    dt_status status = dt_json_new(&c.json);
    int code = DT_CLI_REFUSED;
    if (status == DT_OK) {
        status = dt_cli_request_build(cli->call, cli->call->verb->path, cli->call->args, &c.request, &err);
        const struct dt_rest_request rest = {.method = "GET", .path = c.request.path.p};
        code = status == DT_OK ? dt_cli_ask(cli, &rest, &c.answer, c.json) : dt_cli_failed(status, &err);
    }
    if (code == DT_CLI_DONE)
        code = show_chart(&c);
    dt_strbuf_clear(&c.line);
    dt_cli_request_clear(&c.request);
    dt_strbuf_clear(&c.answer.body);
    dt_json_free(c.json);
    return code;
}
