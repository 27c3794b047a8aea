/*
 * Overview: one screen of how the installation is. Ready or not, what is late, shards with their leaders, and topics
 * with what happens in them: the twenty most important ones, and at a terminal as many as it has lines for. With
 * --watch it is drawn anew every two seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/streams.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

#define TOPICS 20
#define SHARDS 32
#define TITLE  12 /* characters before the words of a line */

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
    const struct dt_json_node *m = dt_json_member(json, node, name);
    return !m ? DT_STR_LIT("-") : m->type == DT_JSON_STRING ? m->str : m->raw;
}

static void add_word(struct dt_strbuf *out, const dt_json *json, const struct dt_json_node *node, const char *name)
{
    dt_strbuf_addf(out, "%s ", name);
    dt_cli_add_plain(out, text(json, node, name));
    dt_strbuf_adds(out, "  ");
}

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
    if (dt_str_is(text(o->json, root, "workers"), "busy")) /* which is rare, and the line is short */
        add_word(out, o->json, root, "workers");
    dt_strbuf_addc(out, '\n');
    return DT_CLI_DONE;
}

/* Appends a title and "name value" of each member, in as many lines as the terminal needs for them. */
static void add_line(const struct overview *o, struct dt_strbuf *out, const char *title, const char *name)
{
    const struct dt_json_node *node = dt_json_member(o->json, dt_json_root(o->json), name);
    bool there = node && node->type == DT_JSON_OBJECT;
    size_t begin = out->n; /* of the line */
    struct dt_strbuf pair;
    dt_strbuf_init(&pair);
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

/* A table of the screen: its rows, and how many of them there is room for. */
struct part {
    enum dt_cli_thing thing;
    const struct dt_json_node *items;
    const char *rest; /* the command that lists them all */
    unsigned n, room;
};

static struct part part_of(const struct overview *o, enum dt_cli_thing thing, const char *name, const char *rest)
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

/* Adds the rows that are well, or the others, `most` at most; gives how many. */
static unsigned add_rows(struct overview *o, struct dt_cli_list *list, const struct part *part, bool well,
                         unsigned most)
{
    unsigned n = 0;
    for (const struct dt_json_node *item = dt_json_first(o->json, part->items); item && n < most;
         item = dt_json_sibling(o->json, part->items, item))
        if (dt_str_is(text(o->json, item, "health"), "ok") == well) {
            dt_cli_list_row(list, o->json, item);
            n++;
        }
    return n;
}

/* Where not all have room, those that are not well come first. */
static int show_part(struct overview *o, const struct part *part)
{
    struct dt_cli_list *list = dt_cli_list_begin(o->cli, part->thing);
    if (!list)
        return DT_CLI_REFUSED;
    const struct dt_json_node *item = part->items && part->room == part->n ? dt_json_first(o->json, part->items) : NULL;
    for (; item; item = dt_json_sibling(o->json, part->items, item))
        dt_cli_list_row(list, o->json, item);
    if (part->room < part->n)
        add_rows(o, list, part, true, part->room - add_rows(o, list, part, false, part->room));
    dt_cli_list_end(list);
    if (part->room < part->n)
        printf("… and %u more: duetime %s\n", part->n - part->room, part->rest);
    return DT_CLI_DONE;
}

/* head: how many lines are above the tables. */
static int show_tables(struct overview *o, unsigned head)
{
    struct part shards = part_of(o, DT_CLI_SHARD, "shards", "shards list");
    struct part topics = part_of(o, DT_CLI_TRAFFIC, "topics", "topics list");
    unsigned taken = head + 4; /* two heads of tables, a line between them, and the prompt's */
    topics.n += (unsigned)dt_json_int_of(o->json, dt_json_root(o->json), "topics_more");
    shards.room = shards.n < SHARDS ? shards.n : SHARDS;
    topics.room = topics.n < TOPICS ? topics.n : TOPICS;
    if (o->cli->height && taken + shards.room + topics.room > o->cli->height) {
        /* Each table has half of the lines, and the lines that the other one does not need. */
        taken += 2; /* what says that there are more */
        unsigned lines = o->cli->height > taken + 2 ? o->cli->height - taken : 2;
        unsigned wanted = topics.room < lines ? topics.room : lines;
        unsigned most = lines - wanted > lines / 2 ? lines - wanted : lines / 2;
        shards.room = shards.room < most ? shards.room : most;
        topics.room = topics.room < lines - shards.room ? topics.room : lines - shards.room;
        dt_assert_cmp(shards.room + topics.room, <=, lines);
    }
    int code = show_part(o, &shards);
    putchar('\n');
    return code == DT_CLI_DONE ? show_part(o, &topics) : code;
}

/* ---- the screen ---- */

/* The screen before it is kept until this one is known, and where it cannot be known. */
static int draw(struct overview *o, bool clear)
{
    struct dt_strbuf head;
    unsigned lines = 0;
    dt_strbuf_init(&head);
    int code = show_readiness(o, &head);
    if (code == DT_CLI_DONE)
        code = ask(o, "/v1/overview");
    bool whole = code == DT_CLI_DONE && dt_json_root(o->json)->type == DT_JSON_OBJECT;
    if (whole) {
        const struct dt_json_node *root = dt_json_root(o->json);
        dt_strbuf_adds(&head, "duetime ");
        dt_cli_add_plain(&head, text(o->json, root, "version"));
        dt_strbuf_adds(&head, "  ");
        add_word(&head, o->json, root, "now");
        dt_strbuf_adds(&head, "\n\n");
        add_line(o, &head, "a second", "rates");
        add_line(o, &head, "lateness ms", "lateness_ms");
        add_line(o, &head, "overdue", "overdue");
        add_line(o, &head, "jobs", "jobs");
        dt_strbuf_addc(&head, '\n');
    }
    if (whole && clear)
        fputs("\033[H\033[2J", stdout);
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
    struct dt_strbuf out;
    int code = DT_CLI_DONE;
    dt_strbuf_init(&out);
    dt_json_begin_object(&out, NULL);
    for (size_t i = 0; code == DT_CLI_DONE && i < 2; i++) {
        code = ask(o, parts[i][1]);
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
    const char *interval = dt_cli_value(cli->call, "interval");
    const bool watch = dt_cli_value(cli->call, "watch");
    int64_t interval_ms = 2000;
    int code = DT_CLI_REFUSED;
    if (interval && (dt_duration_parse(dt_str(interval), &interval_ms) != DT_OK || interval_ms < 1)) {
        dt_cli_say("--interval: \"%.80s\" is no duration", interval);
        return DT_CLI_USAGE;
    }
    struct timespec pause = {interval_ms / 1000, (interval_ms % 1000) * 1000000};
    dt_rest_answer_init(&o.answer);
    /* Once, or until the output's reader or the user ends it; an API that is away is reported, and asked again. */
    for (bool more = dt_json_new(&o.json) == DT_OK; more;) {
        code = cli->form == DT_CLI_AS_JSON ? draw_json(&o) : draw(&o, watch && cli->width);
        more = dt_streams_flush() == 0 && watch && (code == DT_CLI_DONE || code == DT_CLI_UNREACHED);
        if (more)
            nanosleep(&pause, NULL);
    }
    dt_json_free(o.json);
    dt_strbuf_clear(&o.answer.body);
    return code;
}
