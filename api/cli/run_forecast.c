/*
 * Forecast: what comes due, a step a line, as a bar chart; with the topic that has most of it. With --json each step as
 * the API gives it.
 */
#include <stdio.h>
#include <string.h>

#include "request.h"
#include "run.h"
#include "show.h"
#include "talk.h"

#define BAR_DEFAULT 40 /* characters of the longest bar, where standard output is no terminal */
#define BAR_MAX     60
#define BAR_MIN     4
#define AROUND      50 /* of a line, beside its bar */
#define BEFORE      32 /* of these: time and number, and the spaces around the bar */

struct chart {
    struct dt_cli *cli;
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    dt_json *json;
    int64_t most; /* due in one step */
    int bar;
    struct dt_strbuf line;
};

static struct dt_str text_of(const struct chart *c, const struct dt_json_node *node, const char *name)
{
    const struct dt_str text = dt_json_text_of(c->json, node, name);
    return text.p ? text : DT_STR_LIT("-");
}

static void show_step(struct chart *c, const struct dt_json_node *step)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const struct dt_json_node *topics = dt_json_member(c->json, step, "topics");
    const struct dt_json_node *largest = topics ? dt_json_first(c->json, topics) : NULL;
    const struct dt_str time = text_of(c, step, "from");
    const size_t second = time.n > 19 ? 19 : time.n; /* a step is never shorter than a second */
    const int64_t due = dt_json_int_of(c->json, step, "due");
    dt_strbuf_reset(&c->line);
    dt_cli_add_plain(&c->line, (struct dt_str){time.p, second});
    dt_strbuf_addf(&c->line, "%s %9lld %s", second == 19 ? "Z" : "", (long long)due, c->cli->colours ? "\033[36m" : "");
    const double length = c->most ? (double)due * c->bar / (double)c->most : 0;
    int n = (int)(length * 8 + 0.5); /* eighths of a character */
    n = n == 0 && due > 0 ? 1 : n;
    for (int i = 0; i < n / 8; i++)
        dt_strbuf_adds(&c->line, "█");
    dt_strbuf_addf(&c->line, "%s%*s%s", eighths[n % 8], c->bar - n / 8 - (n % 8 > 0), "",
                   c->cli->colours ? "\033[0m " : " ");
    if (largest) { /* as much of its name as the line has room for */
        struct dt_strbuf plain;
        int room = (int)c->cli->width - BEFORE - c->bar;
        dt_strbuf_init(&plain);
        dt_cli_add_plain(&plain, text_of(c, largest, "topic"));
        dt_cli_add_cut(&c->line, dt_strbuf_str(&plain), c->cli->width == 0 ? SIZE_MAX : room > 0 ? (size_t)room : 1);
        dt_strbuf_clear(&plain);
    }
    while (c->line.n > 0 && c->line.p[c->line.n - 1] == ' ')
        c->line.n--;
    printf("%.*s\n", (int)c->line.n, c->line.p);
}

static int show(struct chart *c)
{
    const struct dt_json_node *root = dt_json_root(c->json);
    const bool json = c->cli->form == DT_CLI_AS_JSON;
    const struct dt_json_node *steps = dt_json_member(c->json, root, c->cli->call->verb->list);
    if (!steps || steps->type != DT_JSON_ARRAY) {
        dt_cli_say("%s answers without %s", c->cli->settings.url, c->cli->call->verb->list);
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
            show_step(c, s);
    }
    struct dt_str counted = text_of(c, root, "counted_until");
    if (!json && !dt_str_eq(counted, text_of(c, root, "to")))
        dt_cli_say("from %.*s on these are estimates", (int)counted.n, counted.p);
    const struct dt_json_node *topics = dt_json_member(c->json, root, "topics_counted");
    if (!json && topics && topics->type == DT_JSON_BOOL && !topics->b)
        dt_cli_say("which topic has most of a step is an estimate");
    return DT_CLI_DONE;
}

int dt_cli_run_forecast(struct dt_cli *cli)
{
    struct chart c = {.cli = cli};
    struct dt_error err = {0};
    dt_cli_request_init(&c.request);
    dt_rest_answer_init(&c.answer);
    dt_strbuf_init(&c.line);
    dt_status status = dt_json_new(&c.json);
    int code = DT_CLI_REFUSED;
    if (status == DT_OK) {
        status = dt_cli_request_build(cli->call, cli->call->verb->path, cli->call->args, &c.request, &err);
        const struct dt_rest_request rest = {.method = "GET", .path = c.request.path.p};
        code = status == DT_OK ? dt_cli_ask(cli, &rest, &c.answer, c.json) : dt_cli_failed(status, &err);
    }
    if (code == DT_CLI_DONE)
        code = show(&c);
    dt_strbuf_clear(&c.line);
    dt_cli_request_clear(&c.request);
    dt_strbuf_clear(&c.answer.body);
    dt_json_free(c.json);
    return code;
}
