/* Finds the topic of a job that the user names by its key alone. A key is unique within its topic, so the program asks
 * each topic for the key, over one connection. */
#include "cli.h"
#include "words.h"

struct search {
    struct dt_cli *cli;
    const char *key;
    char *topic; /* topic that has the key, found last */
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    struct dt_cli_progress progress;
    int64_t asked, found;     /* number of topics that were asked, and of those that have the key */
    struct dt_strbuf holders; /* names of those that have it */
};

/* Asks whether there is a job at the request's path. Returns DONE or NOT_FOUND, or prints why the API refused. */
static int ask_for_job(struct search *s)
{
    struct dt_error err = {0};
    const struct dt_rest_request rest = {.method = "GET", .path = s->request.path.p};
    const dt_status status = dt_rest_ask(s->cli->rest, &rest, &s->answer, &err);
    if (status == DT_OK && (s->answer.status == 404 || s->answer.status == 422))
        return DT_CLI_NOT_FOUND;
    return status == DT_OK ? dt_cli_judge(s->cli, &s->answer) : dt_cli_failed(status, &err);
}

static int search_topic(void *arg, const char *topic)
{
    struct search *s = arg;
    dt_strbuf_reset(&s->request.path);
    dt_strbuf_adds(&s->request.path, "/v1/topics/");
    dt_rest_add_encoded(&s->request.path, topic);
    dt_strbuf_adds(&s->request.path, "/jobs/");
    dt_rest_add_encoded(&s->request.path, s->key);
    const int code = ask_for_job(s);
    dt_cli_progress_tell(&s->progress, ++s->asked, 0, 0);
    if (code == DT_CLI_DONE) {
        snprintf(s->topic, DT_CLI_TOPIC_MAX + 1, "%s", topic);
        dt_strbuf_addf(&s->holders, "%s%s", s->found++ ? ", " : "", topic);
    }
    return code == DT_CLI_NOT_FOUND ? DT_CLI_DONE : code;
}

int dt_cli_find_topic_of_key(struct dt_cli *cli, struct dt_cli_call *call, char topic[DT_CLI_TOPIC_MAX + 1])
{
    struct search s = {.cli = cli, .key = call->n_args == 1 ? call->args[0] : "", .topic = topic};
    int code = DT_CLI_NOT_FOUND;
    if (call->n_args != 1 || strcmp(call->verb->takes, DT_CLI_ID_OR_KEY) != 0 || strcmp(call->verb->method, "GET") != 0)
        return DT_CLI_DONE;
    if (s.key[strspn(s.key, "0123456789")] == '\0') {
        dt_strbuf_addf(&s.request.path, "/v1/jobs/%s", s.key); /* digits: an id, or a key if no job has the id */
        code = ask_for_job(&s);
    }
    if (code == DT_CLI_NOT_FOUND) {
        dt_cli_progress_begin(&s.progress, cli->clock, "topics");
        code = dt_cli_each_name(cli, "topics", search_topic, &s);
        dt_cli_progress_end(&s.progress);
        if (code == DT_CLI_DONE && s.found == 0)
            dt_cli_say("no such job: none has the id or the key \"%.255s\"", s.key);
        else if (code == DT_CLI_DONE && s.found > 1)
            dt_cli_say("%lld topics have a job with this key: add the topic: %.700s", (long long)s.found, s.holders.p);
        if (code == DT_CLI_DONE && s.found != 1)
            code = s.found ? DT_CLI_REFUSED : DT_CLI_NOT_FOUND;
        call->args[1] = call->args[0];
        call->args[0] = topic;
        call->n_args = 2;
    }
    dt_cli_request_clear(&s.request);
    dt_strbuf_clear(&s.answer.body);
    dt_strbuf_clear(&s.holders);
    return code;
}
