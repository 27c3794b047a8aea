/*
 * Overview: one screen of how the installation is. Ready or not, what is late, shards with their leaders, and topics
 * with what happens in them: the twenty most important ones. With --watch it is drawn anew every two seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/timetext.h"
#include "cli/request.h"
#include "cli/run/run.h"
#include "cli/show.h"
#include "cli/talk.h"

#define TOPICS 20
#define SHARDS 32

struct overview {
    struct dt_cli *cli;
    struct dt_rest_answer answer;
    dt_json *json;
};

/* Asks for what is shown whatever its status is: an API that is not ready says so in its body. */
static int ask(struct overview *o, const char *path)
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

/* The member as text: a string's own, otherwise its JSON. */
static struct dt_str text(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = node && node->type == DT_JSON_OBJECT ? dt_json_member(json, node, name) : NULL;
    return !m ? DT_STR_LIT("-") : m->type == DT_JSON_STRING ? m->str : m->raw;
}

static void add_word(struct dt_strbuf *out, const dt_json *json, const struct dt_json_node *node, const char *name)
{
    dt_strbuf_addf(out, "%s ", name);
    dt_cli_add_plain(out, text(json, node, name));
    dt_strbuf_adds(out, "  ");
}

/* ---- readiness and figures ---- */

static int show_readiness(struct overview *o, struct dt_strbuf *out)
{
    static const char *const parts[] = {"mysql", "redis", "leaders", "kafka"};
    int code = ask(o, "/readyz");
    if (code != DT_CLI_DONE)
        return code;
    const struct dt_json_node *root = dt_json_root(o->json);
    struct dt_str status = text(o->json, root, "status");
    const char *colour = !o->cli->colours ? "" : dt_str_is(status, "ready") ? "\033[32m" : "\033[31m";
    dt_strbuf_adds(out, colour);
    dt_cli_add_plain(out, status);
    dt_strbuf_addf(out, "%s  ", colour[0] ? "\033[0m" : "");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        add_word(out, o->json, root, parts[i]);
    dt_strbuf_addc(out, '\n');
    return DT_CLI_DONE;
}

/* The first `most` of them. */
static int show_list(struct overview *o, const struct dt_json_node *items, enum dt_cli_thing thing, unsigned most)
{
    struct dt_cli_list *list = dt_cli_list_begin(o->cli, thing);
    if (!list)
        return DT_CLI_REFUSED;
    for (const struct dt_json_node *item = items ? dt_json_first(o->json, items) : NULL; item && most--;
         item = dt_json_sibling(o->json, items, item))
        dt_cli_list_row(list, o->json, item);
    dt_cli_list_end(list);
    return DT_CLI_DONE;
}

/* Members of an object, as words. */
static void add_words(struct dt_strbuf *out, const dt_json *json, const struct dt_json_node *node)
{
    if (!node || node->type != DT_JSON_OBJECT)
        dt_strbuf_adds(out, "-");
    for (const struct dt_json_node *m = node && node->type == DT_JSON_OBJECT ? dt_json_first(json, node) : NULL; m;
         m = dt_json_sibling(json, node, m)) {
        dt_cli_add_plain(out, m->name);
        dt_strbuf_addc(out, ' ');
        dt_cli_add_plain(out, m->type == DT_JSON_STRING ? m->str : m->type == DT_JSON_NULL ? DT_STR_LIT("-") : m->raw);
        dt_strbuf_adds(out, "  ");
    }
}

static void add_line(struct overview *o, struct dt_strbuf *out, const char *title, const char *member)
{
    dt_strbuf_addf(out, "%-12s", title);
    add_words(out, o->json, dt_json_member(o->json, dt_json_root(o->json), member));
    dt_strbuf_addc(out, '\n');
}

static void add_figures(struct overview *o, struct dt_strbuf *out)
{
    const struct dt_json_node *root = dt_json_root(o->json);
    dt_strbuf_adds(out, "duetime ");
    dt_cli_add_plain(out, text(o->json, root, "version"));
    dt_strbuf_adds(out, "  ");
    add_word(out, o->json, root, "now");
    dt_strbuf_adds(out, "\n\n");
    add_line(o, out, "a second", "rates");
    add_line(o, out, "lateness ms", "lateness_ms");
    add_line(o, out, "overdue", "overdue");
    add_line(o, out, "jobs", "jobs");
    dt_strbuf_addc(out, '\n');
}

static int show_figures(struct overview *o, struct dt_strbuf *out)
{
    int code = ask(o, "/v1/overview");
    if (code == DT_CLI_DONE && dt_json_root(o->json)->type == DT_JSON_OBJECT)
        add_figures(o, out);
    fwrite(out->p ? out->p : "", 1, out->n, stdout);
    if (code != DT_CLI_DONE || dt_json_root(o->json)->type != DT_JSON_OBJECT)
        return code;
    code = show_list(o, dt_json_member(o->json, dt_json_root(o->json), "shards"), DT_CLI_SHARD, SHARDS);
    putchar('\n');
    return code == DT_CLI_DONE
               ? show_list(o, dt_json_member(o->json, dt_json_root(o->json), "topics"), DT_CLI_TRAFFIC, TOPICS)
               : code;
}

/* ---- the screen ---- */

static int draw(struct overview *o)
{
    struct dt_strbuf head;
    dt_strbuf_init(&head);
    int code = show_readiness(o, &head);
    if (code == DT_CLI_DONE)
        code = show_figures(o, &head);
    dt_strbuf_clear(&head);
    return code;
}

static int add_part(struct overview *o, struct dt_strbuf *out, const char *name, const char *path)
{
    int code = ask(o, path);
    dt_strbuf_addf(out, "%s\"%s\":", out->n ? "," : "{", name);
    dt_json_add_compact(out, dt_strbuf_str(&o->answer.body));
    return code;
}

static int draw_json(struct overview *o)
{
    struct dt_strbuf out;
    dt_strbuf_init(&out);
    int code = add_part(o, &out, "ready", "/readyz");
    if (code == DT_CLI_DONE)
        code = add_part(o, &out, "overview", "/v1/overview");
    if (code == DT_CLI_DONE) {
        dt_strbuf_addc(&out, '}');
        puts(out.p ? out.p : "");
    }
    dt_strbuf_clear(&out);
    return code;
}

/* Once, or until the output's reader or the user ends it; an API that is away is told, and asked again. */
static int draw_all(struct overview *o, bool watch, int64_t interval_ms)
{
    struct timespec pause = {interval_ms / 1000, (interval_ms % 1000) * 1000000};
    for (;;) {
        if (watch && o->cli->width)
            fputs("\033[H\033[2J", stdout);
        int code = o->cli->form == DT_CLI_AS_JSON ? draw_json(o) : draw(o);
        if (fflush(stdout) != 0 || !watch || (code != DT_CLI_DONE && code != DT_CLI_UNREACHED))
            return code;
        nanosleep(&pause, NULL);
    }
}

int dt_cli_run_overview(struct dt_cli *cli)
{
    struct overview o = {.cli = cli};
    const char *interval = dt_cli_value(cli->call, "interval");
    int64_t interval_ms = 2000;
    int code = DT_CLI_REFUSED;
    if (interval && (dt_duration_parse(dt_str(interval), &interval_ms) != DT_OK || interval_ms < 1)) {
        dt_cli_say("--interval: \"%.80s\" is no duration", interval);
        return DT_CLI_USAGE;
    }
    dt_rest_answer_init(&o.answer);
    if (dt_json_new(&o.json) == DT_OK)
        code = draw_all(&o, dt_cli_value(cli->call, "watch"), interval_ms);
    dt_json_free(o.json);
    dt_rest_answer_clear(&o.answer);
    return code;
}
