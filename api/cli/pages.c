/* The man page is roff with the man macros; the reference is Markdown. Both go through the rows of the table in their
 * order. */
#include <stdio.h>
#include <string.h>

#include "help.h"

static const char *const exit_codes[][2] = {
    {"0", "Done."},
    {"1", "Refused or failed; `doctor` has found something; a watched job did not succeed."},
    {"2", "The command line or the settings are not understood."},
    {"3", "There is no such thing."},
    {"4", "The API cannot be reached."},
    {"5", "It is too late to cancel or to change the job."},
};

static const char *const variables[][2] = {
    {"DUETIME_URL", "Where the API is."},
    {"DUETIME_TOKEN", "The bearer token."},
    {"DUETIME_CA_FILE", "Certificates that the API's is checked with."},
    {"DUETIME_CERT_FILE", "A certificate of one's own."},
    {"DUETIME_KEY_FILE", "Its key."},
    {"DUETIME_CONTEXT", "The section of the configuration file that holds."},
    {"NO_COLOR", "Where it is set, there are no colours; there are none but at a terminal in any case."},
};

#define SETTINGS                                                                                                       \
    "Options win over the environment, the environment over the file. The file has sections, called contexts, with "   \
    "url, "                                                                                                            \
    "token_file (or token), ca_file, cert_file, key_file and timeout; context before the first section chooses one. "  \
    "A context's token is "                                                                                            \
    "sent "                                                                                                            \
    "to that context's URL alone. A token is never an argument: arguments can be seen by everybody on the machine."

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- man ---- */

static void add_roff(struct dt_strbuf *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        dt_strbuf_adds(out, "\\&");
    for (; *text; text++) {
        if (*text == '\\')
            dt_strbuf_adds(out, "\\e");
        else if (*text == '-')
            dt_strbuf_adds(out, "\\-");
        else
            dt_strbuf_addc(out, *text);
    }
}

static void add_item(struct dt_strbuf *out, const char *title, const char *takes, const char *text)
{
    dt_strbuf_adds(out, ".TP\n\\fB");
    add_roff(out, title);
    dt_strbuf_adds(out, "\\fR");
    if (takes) {
        dt_strbuf_adds(out, " \\fI");
        add_roff(out, takes);
        dt_strbuf_adds(out, "\\fR");
    }
    dt_strbuf_addc(out, '\n');
    add_roff(out, text);
    dt_strbuf_addc(out, '\n');
}

static void add_man_options(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    char name[64] = "--";
    for (size_t i = 0; i < n; i++) {
        strncpy(name + 2, options[i].name, sizeof(name) - 3);
        add_item(out, name, options[i].takes, options[i].help);
    }
}

static void add_man_verb(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    struct dt_strbuf usage;
    dt_strbuf_init(&usage);
    dt_cli_add_usage(&usage, verb);
    dt_strbuf_adds(out, ".SS ");
    add_roff(out, usage.p ? usage.p : "\n");
    add_roff(out, verb->help);
    dt_strbuf_addc(out, '\n');
    add_man_options(out, verb->options, verb->n_options);
    dt_strbuf_adds(out, ".PP\n.RS\n.nf\n");
    for (const char *p = verb->examples; *p;) {
        char line[256];
        size_t n = strcspn(p, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)n, p);
        dt_strbuf_adds(out, "duetime ");
        add_roff(out, line);
        dt_strbuf_addc(out, '\n');
        p += n + (p[n] ? 1 : 0);
    }
    dt_strbuf_adds(out, ".fi\n.RE\n");
    dt_strbuf_clear(&usage);
}

static void add_man_pairs(struct dt_strbuf *out, const char *title, const char *const pairs[][2], size_t n)
{
    dt_strbuf_addf(out, ".SH %s\n", title);
    for (size_t i = 0; i < n; i++)
        add_item(out, pairs[i][0], NULL, pairs[i][1]);
}

void dt_cli_add_man(struct dt_strbuf *out)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    dt_strbuf_adds(
        out,
        ".TH DUETIME 1 \"\" \"duetime " DUETIME_VERSION "\" \"User Commands\"\n"
        ".SH NAME\nduetime \\- asks an API of duetime: jobs that are delivered when they are due\n"
        ".SH SYNOPSIS\n.B duetime\n.I NOUN VERB\n[\\fIARGUMENT\\fR]... [\\fIOPTION\\fR]...\n"
        ".SH DESCRIPTION\nA client of the REST API. Data go to standard output, as tables, or as JSON with a thing a "
        "line; everything else goes to standard error.\n.SH COMMANDS\n");
    for (size_t i = 0; i < n; i++)
        add_man_verb(out, &verbs[i]);
    dt_strbuf_adds(out, ".SH OPTIONS\nThose of every command:\n");
    const struct dt_cli_option *common = dt_cli_common(&n);
    add_man_options(out, common, n);
    add_man_pairs(out, "EXIT STATUS", exit_codes, COUNT(exit_codes));
    add_man_pairs(out, "ENVIRONMENT", variables, COUNT(variables));
    dt_strbuf_adds(out, ".SH FILES\n");
    add_item(out, "~/.config/duetime/config", NULL, SETTINGS);
}

/* ---- reference ---- */

static void add_cell(struct dt_strbuf *out, const char *text)
{
    for (; *text; text++)
        dt_strbuf_addf(out, *text == '|' || *text == '*' ? "\\%c" : "%c", *text);
}

/* Options that every command for a set of jobs has, or the others: the page lists the former once. */
static void add_rows(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n, bool of_each_set)
{
    bool begun = false;
    for (size_t i = 0; i < n; i++) {
        bool is_of_each_set = options[i].place == DT_CLI_FILTER || options[i].place == DT_CLI_SETS ||
                              (options[i].place == DT_CLI_SET && strcmp(options[i].name, "rate") == 0);
        if (is_of_each_set != of_each_set)
            continue;
        if (!begun)
            dt_strbuf_adds(out, "\n| option | meaning |\n|---|---|\n");
        begun = true;
        dt_strbuf_addf(out, "| `--%s%s", options[i].name, options[i].takes ? " " : "");
        add_cell(out, options[i].takes ? options[i].takes : "");
        dt_strbuf_adds(out, "` | ");
        add_cell(out, options[i].help);
        dt_strbuf_adds(out, " |\n");
    }
}

static void add_section(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    dt_strbuf_addf(out, "\n### %s%s%s\n\n%s\n\n```sh\n", verb->noun, verb->verb[0] ? " " : "", verb->verb, verb->help);
    for (const char *p = verb->examples; *p;) {
        size_t n = strcspn(p, "\n");
        dt_strbuf_addf(out, "duetime %.*s\n", (int)n, p);
        p += n + (p[n] ? 1 : 0);
    }
    dt_strbuf_adds(out, "```\n");
    if (verb->takes[0])
        dt_strbuf_addf(out, "\nTakes `%s`%s.\n", verb->takes, verb->set ? ", or [a set of jobs](#sets-of-jobs)" : "");
    add_rows(out, verb->options, verb->n_options, false);
}

static void add_table(struct dt_strbuf *out, const char *head, const char *const pairs[][2], size_t n)
{
    dt_strbuf_addf(out, "\n| %s | meaning |\n|---|---|\n", head);
    for (size_t i = 0; i < n; i++)
        dt_strbuf_addf(out, "| `%s` | %s |\n", pairs[i][0], pairs[i][1]);
}

void dt_cli_add_reference(struct dt_strbuf *out)
{
    size_t n;
    size_t n_common;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    const struct dt_cli_option *common = dt_cli_common(&n_common);
    dt_strbuf_adds(
        out, "# duetime, the command line\n\nThis page is made from the program's own table: `duetime --reference`. "
             "[What it is](../api/cli/README.md).\n\n## Every command\n");
    add_rows(out, common, n_common, false);
    dt_strbuf_adds(out, "\n" SETTINGS "\n");
    add_table(out, "variable", variables, COUNT(variables));
    add_table(out, "exit code", exit_codes, COUNT(exit_codes));
    dt_strbuf_adds(out,
                   "\n## Sets of jobs\n\nWithout an id, `jobs change`, `run-now`, `cancel` and `redrive` are for all "
                   "jobs that these options find.\n");
    const struct dt_cli_verb *of_sets = verbs;
    while (!of_sets->set)
        of_sets++;
    add_rows(out, of_sets->options, of_sets->n_options, true);
    dt_strbuf_adds(out, "\n## Commands\n");
    for (size_t i = 0; i < n; i++)
        add_section(out, &verbs[i]);
}

/* ---- requests ---- */

void dt_cli_add_requests(struct dt_strbuf *out)
{
    static const char *const places[] = {
        [DT_CLI_BODY] = "body", [DT_CLI_SET] = "body", [DT_CLI_FILTER] = "filter", [DT_CLI_QUERY] = "query"};
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    for (const struct dt_cli_verb *verb = verbs; verb < verbs + n; verb++)
        for (size_t i = 0; i < verb->n_options; i++) {
            const struct dt_cli_option *option = &verb->options[i];
            bool of_set = option->place == DT_CLI_FILTER || option->place == DT_CLI_SET;
            if (option->place == DT_CLI_HERE || option->place == DT_CLI_SETS) /* which the program itself reads */
                continue;
            dt_strbuf_addf(out, "%s %s %s ", of_set ? "POST" : verb->method, of_set ? verb->set : verb->path,
                           places[option->place]);
            for (const char *p = option->name; *p; p++)
                dt_strbuf_addc(out, *p == '-' ? '_' : *p);
            dt_strbuf_addc(out, '\n');
        }
}
