/*
 * duetime: the command line, a client of the REST API. Reads the words, the settings and the terminal, and calls the
 * function that carries out the verb.
 *
 *   words.c -> table.c -> settings.c -> run_*.c -> rest_curl.c -> show.c, talk.c
 */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/service.h"
#include "base/text/timetext.h"
#include "cli.h"
#include "help.h"
#include "words.h"

#define NARROWEST 40

/* Returns the width or height of the terminal: the environment variable if it is set, else `own`, the size that the
 * terminal reports, else `usual`. */
static unsigned choose_terminal_length(const char *variable, unsigned own, unsigned usual)
{
    const char *text = getenv(variable);
    int given = text ? atoi(text) : 0; // NOLINT(cert-err34-c): 0 if it is not a number
    return given > 0 ? (unsigned)given : own > 0 ? own : usual;
}

/* Reads the size of the terminal on standard output, and whether colours may be used. */
static void read_terminal(struct dt_cli *cli)
{
    struct winsize size = {0};
    const char *plain = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO))
        return;
    cli->colours = (!plain || !*plain) && term && strcmp(term, "dumb") != 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    cli->width = choose_terminal_length("COLUMNS", size.ws_col, 80);
    cli->width = cli->width < NARROWEST ? NARROWEST : cli->width;
    cli->height = choose_terminal_length("LINES", size.ws_row, 24);
}

/* ---- verbs that need no API ---- */

static int print_text(struct dt_strbuf *text)
{
    bool good = !text->failed;
    fwrite(text->p ? text->p : "", 1, text->n, stdout);
    dt_strbuf_clear(text);
    return good ? DT_CLI_DONE : DT_CLI_REFUSED;
}

static int run_help(struct dt_cli *cli)
{
    const struct dt_cli_call *call = cli->call;
    struct dt_cli_call about = *call;
    struct dt_strbuf text = {0};
    struct dt_error err = {0};
    char *words[3] = {NULL, NULL, "--help"};
    unsigned n = call->verb && strcmp(call->noun, "help") == 0 ? call->n_args : 0;
    for (unsigned i = 0; i < n; i++)
        words[i] = (char *)(uintptr_t)call->args[i];
    words[n] = "--help";
    if (!call->help || n > 0) {
        dt_status status = dt_cli_read_words((int)n + 1, words, &about, &err);
        if (status != DT_OK)
            return dt_cli_failed(status, &err);
    }
    dt_cli_add_help(&text, about.noun, about.verb);
    return print_text(&text);
}

static int run_version(struct dt_cli *)
{
    puts("duetime " DUETIME_VERSION);
    return DT_CLI_DONE;
}

/* Prints the settings as a context of the configuration file. */
static void print_settings(const struct dt_cli_settings *settings)
{
    const char *const keys[][2] = {{"url", settings->url},
                                   {"ca_file", settings->ca_file},
                                   {"cert_file", settings->cert_file},
                                   {"key_file", settings->key_file}};
    struct dt_strbuf timeout = {0};
    puts("[default]");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i][1])
            printf("%s = %s\n", keys[i][0], keys[i][1]);
    if (settings->token)
        puts("# token = ***");
    dt_duration_add_short(&timeout, settings->timeout_ms);
    printf("timeout = %s\n", timeout.p ? timeout.p : "");
    dt_strbuf_clear(&timeout);
}

/* Checks the settings, and prints them if the user wants it. */
static int run_settings(struct dt_cli *cli)
{
    struct dt_error err = {0};
    const dt_status status = dt_cli_settings_read(cli->call, &cli->settings, &err);
    if (status != DT_OK)
        return dt_cli_failed(status, &err);
    if (dt_cli_value(cli->call, "print-config"))
        print_settings(&cli->settings);
    else
        fputs("the configuration is fine\n", stderr);
    dt_cli_settings_clear(&cli->settings);
    return DT_CLI_DONE;
}

static int run_completion(struct dt_cli *cli)
{
    struct dt_strbuf text = {0};
    if (dt_cli_add_completion(&text, cli->call->args[0]))
        return print_text(&text);
    dt_cli_say("there is no completion for \"%.80s\", only for bash, zsh and fish", cli->call->args[0]);
    return DT_CLI_USAGE;
}

/* ---- the program ---- */

/* Returns the function that carries out a call. */
static dt_cli_run *find_runner(const struct dt_cli_call *call)
{
    static dt_cli_run *const runs[] = {
        [DT_CLI_BY_REQUEST] = dt_cli_run_request,   [DT_CLI_BY_SET] = dt_cli_run_set,
        [DT_CLI_BY_LIST] = dt_cli_run_list,         [DT_CLI_BY_FOLLOW] = dt_cli_run_follow,
        [DT_CLI_BY_DELETE] = dt_cli_run_delete,     [DT_CLI_BY_POP] = dt_cli_run_pop,
        [DT_CLI_BY_WATCH] = dt_cli_run_watch,       [DT_CLI_BY_EXPORT] = dt_cli_run_list,
        [DT_CLI_BY_IMPORT] = dt_cli_run_import,     [DT_CLI_BY_OVERVIEW] = dt_cli_run_overview,
        [DT_CLI_BY_FORECAST] = dt_cli_run_forecast, [DT_CLI_BY_DOCTOR] = dt_cli_run_doctor,
        [DT_CLI_BY_TOKEN] = dt_cli_run_token,       [DT_CLI_BY_APPLY] = dt_cli_run_apply,
        [DT_CLI_BY_COMPLETION] = run_completion,    [DT_CLI_BY_HELP] = run_help,
        [DT_CLI_BY_VERSION] = run_version};
    return call->verb->set && call->n_args == 0 ? dt_cli_run_many : runs[call->verb->way];
}

/* Carries out a call, with --watch again and again. */
static int run_verb(struct dt_cli *cli)
{
    const struct dt_cli_call *given = cli->call;
    struct dt_cli_call named = *given; /* with topic and key, if the user gave the key alone */
    char topic[DT_CLI_TOPIC_MAX + 1];
    int code = dt_cli_find_topic_of_key(cli, &named, topic);
    if (code != DT_CLI_DONE)
        return code;
    cli->call = &named;
    code = dt_cli_value(given, "watch") ? dt_cli_repeat(cli, find_runner(&named)) : find_runner(&named)(cli);
    cli->call = given;
    return code;
}

/* Carries out a call that needs the API. */
static int run_with_api(struct dt_cli *cli)
{
    static const struct {
        const char *name;
        enum dt_cli_form form;
    } forms[] = {{"table", DT_CLI_TABLE}, {"wide", DT_CLI_WIDE}, {"name", DT_CLI_NAMES}, {"json", DT_CLI_AS_JSON}};
    struct dt_error err = {0};
    size_t form = 0;
    const char *output = dt_cli_value(cli->call, "output");
    bool json = dt_cli_value(cli->call, "json");
    dt_status status = DT_OK;
    while (output && form < 4 && strcmp(output, forms[form].name) != 0)
        form++;
    if (form == 4)
        status = dt_fail(&err, DT_INVALID, "--output: \"%.80s\" is not table, wide, name or json", output);
    else
        cli->form = json ? DT_CLI_AS_JSON : forms[form].form;
    if (status == DT_OK && json && output && forms[form].form != DT_CLI_AS_JSON)
        status = dt_fail(&err, DT_INVALID, "--json and --output %.80s contradict each other", output);
    DT_THEN(status, dt_cli_settings_read(cli->call, &cli->settings, &err));
    DT_THEN(status, dt_rest_new(&cli->settings, &cli->rest, &err));
    int code = status == DT_OK ? run_verb(cli) : dt_cli_failed(status, &err);
    dt_rest_free(cli->rest);
    dt_cli_settings_clear(&cli->settings);
    return code;
}

/* Ends the program by the signal that it caught, so that the shell sees the exit status of that signal. */
static void end_by_signal(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* Flushes the output. If this fails, prints the error, and the changes that the API made. If nothing was changed and
 * the reader has closed the pipe, the program ends without a message, like other programs. */
static int close_output(struct dt_cli *cli, int code)
{
    int error = dt_streams_flush();
    if (error == EPIPE && cli->done.n == 0)
        end_by_signal(SIGPIPE);
    if (error) {
        dt_cli_say("standard output cannot be written: %s", strerror(error));
        code = code == DT_CLI_DONE ? DT_CLI_REFUSED : code;
    }
    if (error && cli->done.n > 0)
        fprintf(stderr, "duetime: the API has carried out %.*s\n", (int)cli->done.n, cli->done.p);
    dt_strbuf_clear(&cli->done);
    if (dt_rest_signal())
        end_by_signal(dt_rest_signal());
    return code;
}

/* If the argument is one of the words below, prints the page that is made from the table of verbs. Only packaging and
 * tests use these words. */
static bool try_print_page(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*add)(struct dt_strbuf *);
    } pages[] = {{"--man", dt_cli_add_man}, {"--reference", dt_cli_add_reference}, {"--requests", dt_cli_add_requests}};
    struct dt_strbuf text = {0};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]) && argc == 2; i++)
        if (strcmp(argv[1], pages[i].word) == 0) {
            pages[i].add(&text);
            fwrite(text.p ? text.p : "", 1, text.n, stdout);
            dt_strbuf_clear(&text);
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    struct dt_cli_call call;
    struct dt_cli_times times;
    struct dt_error err = {0};
    struct dt_cli cli = {.call = &call, .clock = dt_clock_system()};
    dt_streams_occupy();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe becomes a write error, which close_output reports */
    read_terminal(&cli);
    if (try_print_page(argc, argv))
        return close_output(&cli, DT_CLI_DONE);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return close_output(&cli, run_version(&cli));
    if (dt_cli_read_words(argc - 1, argv + 1, &call, &err) != DT_OK) {
        dt_cli_say("%s", err.text);
        fprintf(stderr, "`duetime help%s%s` lists the commands.\n", call.noun ? " " : "", call.noun ? call.noun : "");
        return DT_CLI_USAGE;
    }
    dt_cli_fix_times(&call, dt_clock_real_ms(cli.clock), &times);
    if (call.help)
        return close_output(&cli, run_help(&cli));
    if (!call.verb || dt_cli_value(&call, "check-config") || dt_cli_value(&call, "print-config"))
        return close_output(&cli, run_settings(&cli));
    return close_output(&cli, call.verb->method ? run_with_api(&cli) : find_runner(&call)(&cli));
}
