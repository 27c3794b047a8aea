/* Verbs that need no API. */
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "run.h"
#include "talk.h"

static int print(struct dt_strbuf *text)
{
    bool good = !text->failed;
    fwrite(text->p ? text->p : "", 1, text->n, stdout);
    dt_strbuf_clear(text);
    return good ? DT_CLI_DONE : DT_CLI_REFUSED;
}

int dt_cli_run_help(struct dt_cli *cli)
{
    const struct dt_cli_call *call = cli->call;
    struct dt_cli_call about = *call;
    struct dt_strbuf text;
    struct dt_error err = {0};
    char *words[3] = {NULL, NULL, "--help"};
    unsigned n = call->verb && strcmp(call->noun, "help") == 0 ? call->n_args : 0;
    dt_strbuf_init(&text);
    for (unsigned i = 0; i < n; i++)
        words[i] = (char *)(uintptr_t)call->args[i];
    words[n] = "--help";
    if (!call->help || n > 0) {
        dt_status status = dt_cli_read_words((int)n + 1, words, &about, &err);
        if (status != DT_OK)
            return dt_cli_failed(status, &err);
    }
    dt_cli_add_help(&text, about.noun, about.verb);
    return print(&text);
}

int dt_cli_run_version(struct dt_cli *cli)
{
    (void)cli;
    puts("duetime " DUETIME_VERSION);
    return DT_CLI_DONE;
}

int dt_cli_run_completion(struct dt_cli *cli)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    if (dt_cli_add_completion(&text, cli->call->args[0]))
        return print(&text);
    dt_cli_say("there is no completion for \"%.80s\": bash, zsh, fish", cli->call->args[0]);
    return DT_CLI_USAGE;
}
