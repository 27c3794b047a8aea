/* Finds the topic of a job that the user names by its key alone. A key is unique within its topic, so the program asks
 * each topic for the key, over one connection. */
#include <ctype.h>

#include "cli.h"
#include "words.h"

#define PAGE "500"

struct search {
    struct dt_cli *cli;
    const char *key;
    struct dt_cli_request request;
    struct dt_rest_answer topics, job; /* a page of topics; the answer of one topic */
    dt_json *json;                     /* the page, parsed */
    struct dt_cli_progress progress;
    int64_t asked, found;     /* number of topics that were asked, and of those that have the key */
    struct dt_strbuf holders; /* names of those that have it */
};

/* Asks whether there is a job at the request's path. Returns DONE or NOT_FOUND, or prints why the API refused. */
static int ask_for_job(struct search *s)
{
    struct dt_error err = {0};
    const struct dt_rest_request rest = {.method = "GET", .path = s->request.path.p};
    const dt_status status = dt_rest_ask(s->cli->rest, &rest, &s->job, &err);
    if (status == DT_OK && (s->job.status == 404 || s->job.status == 422))
        return DT_CLI_NOT_FOUND;
    return status == DT_OK ? dt_cli_judge(s->cli, &s->job) : dt_cli_failed(status, &err);
}

static int search_page(struct search *s, char topic[DT_CLI_TOPIC_MAX + 1])
{
    const struct dt_json_node *items = dt_json_member(s->json, dt_json_root(s->json), "topics");
    for (const struct dt_json_node *item = items ? dt_json_first(s->json, items) : NULL; item;
         item = dt_json_sibling(s->json, items, item)) {
        const struct dt_str name = dt_json_text_of(s->json, item, "name");
        if (!name.p || name.n > DT_CLI_TOPIC_MAX)
            continue;
        dt_strbuf_reset(&s->request.path);
        dt_strbuf_adds(&s->request.path, "/v1/topics/");
        dt_rest_add_encoded(&s->request.path, name.p);
        dt_strbuf_adds(&s->request.path, "/jobs/");
        dt_rest_add_encoded(&s->request.path, s->key);
        const int code = ask_for_job(s);
        dt_cli_progress_tell(&s->progress, ++s->asked, 0, 0);
        if (code == DT_CLI_NOT_FOUND)
            continue;
        if (code != DT_CLI_DONE)
            return code;
        snprintf(topic, DT_CLI_TOPIC_MAX + 1, "%s", name.p);
        dt_strbuf_addf(&s->holders, "%s%s", s->found++ ? ", " : "", name.p);
    }
    return DT_CLI_DONE;
}

static int search_all_topics(struct search *s, char topic[DT_CLI_TOPIC_MAX + 1])
{
    char cursor[512] = "";
    int code;
    dt_cli_progress_begin(&s->progress, s->cli->clock, "topics");
    do {
        dt_strbuf_reset(&s->request.path);
        dt_strbuf_adds(&s->request.path, "/v1/topics?limit=" PAGE);
        if (cursor[0])
            dt_cli_request_add_query(&s->request, "cursor", cursor);
        const struct dt_rest_request rest = {.method = "GET", .path = s->request.path.p};
        code = dt_cli_ask(s->cli, &rest, &s->topics, s->json);
        if (code == DT_CLI_DONE)
            code = search_page(s, topic);
        const struct dt_str next =
            code == DT_CLI_DONE ? dt_json_text_of(s->json, dt_json_root(s->json), "next_cursor") : DT_STR_NONE;
        snprintf(cursor, sizeof(cursor), "%s", next.p ? next.p : "");
    } while (cursor[0]);
    dt_cli_progress_end(&s->progress);
    return code;
}

int dt_cli_find_topic_of_key(struct dt_cli *cli, struct dt_cli_call *call, char topic[DT_CLI_TOPIC_MAX + 1])
{
    struct search s = {.cli = cli, .key = call->n_args == 1 ? call->args[0] : ""};
    if (call->n_args != 1 || strcmp(call->verb->takes, DT_CLI_ID_OR_KEY) != 0 || strcmp(call->verb->method, "GET") != 0)
        return DT_CLI_DONE;
    int code = dt_json_new(&s.json) == DT_OK ? DT_CLI_NOT_FOUND : DT_CLI_REFUSED;
    if (code == DT_CLI_NOT_FOUND && s.key[strspn(s.key, "0123456789")] == '\0') {
        dt_strbuf_addf(&s.request.path, "/v1/jobs/%s", s.key); /* digits: an id, or a key if no job has the id */
        code = ask_for_job(&s);
    }
    if (code == DT_CLI_NOT_FOUND) {
        code = search_all_topics(&s, topic);
        if (code == DT_CLI_DONE && s.found == 0)
            dt_cli_say("no such job: none has the id or the key \"%.255s\"", s.key);
        else if (s.found > 1)
            dt_cli_say("%lld topics have a job with this key: add the topic: %.700s", (long long)s.found, s.holders.p);
        if (code == DT_CLI_DONE && s.found != 1)
            code = s.found ? DT_CLI_REFUSED : DT_CLI_NOT_FOUND;
        if (code == DT_CLI_DONE) {
            call->args[1] = call->args[0];
            call->args[0] = topic;
            call->n_args = 2;
        }
    }
    dt_json_free(s.json);
    dt_cli_request_clear(&s.request);
    dt_strbuf_clear(&s.topics.body);
    dt_strbuf_clear(&s.job.body);
    dt_strbuf_clear(&s.holders);
    return code;
}
