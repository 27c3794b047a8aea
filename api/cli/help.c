/* Help for the terminal. */
#include "help.h"

#include <string.h>

#define COLUMN 30

void dt_cli_add_usage(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    bool choice = strchr(verb->takes, '|');
    dt_strbuf_addf(out, "duetime %s%s%s", verb->noun, verb->verb[0] ? " " : "", verb->verb);
    if (verb->takes[0])
        dt_strbuf_addf(out, choice ? " (%s)" : " %s", verb->takes);
    dt_strbuf_adds(out, " [OPTION]…\n");
}

static void add_options(struct dt_strbuf *out, const char *title, const struct dt_cli_option *options, size_t n)
{
    if (n > 0)
        dt_strbuf_addf(out, "\n%s:\n", title);
    for (const struct dt_cli_option *option = options; option < options + n; option++) {
        size_t begin = out->n;
        dt_strbuf_addf(out, "  --%s%s%s", option->name, option->takes ? " " : "", option->takes ? option->takes : "");
        if (out->n - begin >= COLUMN) {
            dt_strbuf_addc(out, '\n');
            begin = out->n;
        }
        dt_strbuf_addf(out, "%*s%s\n", (int)(COLUMN - (out->n - begin)), "", option->help);
    }
}

static void add_verb_help(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    size_t n;
    const struct dt_cli_option *common = dt_cli_common(&n);
    dt_strbuf_adds(out, "Usage: ");
    dt_cli_add_usage(out, verb);
    dt_strbuf_addf(out, "\n%s\n", verb->help);
    add_options(out, "Options", verb->options, verb->n_options);
    add_options(out, "Options of every command", common, n);
    dt_strbuf_adds(out, "\nFor example:\n");
    for (const char *p = verb->examples; *p;) {
        size_t length = strcspn(p, "\n");
        dt_strbuf_addf(out, "  duetime %.*s\n", (int)length, p);
        p += length + (p[length] ? 1 : 0);
    }
}

void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    if (verb) {
        add_verb_help(out, verb);
        return;
    }
    dt_strbuf_addf(out, "Usage: duetime %s VERB [ARGUMENT]… [OPTION]…\n\n", noun ? noun : "NOUN");
    dt_strbuf_addf(out, "%s\n\n",
                   noun ? dt_cli_noun_help(noun)
                        : "Asks an API of duetime: jobs that are delivered when they are due.");
    for (const struct dt_cli_verb *v = verbs; v < verbs + n; v++) {
        size_t begin = out->n;
        if (noun && strcmp(noun, v->noun) != 0)
            continue;
        dt_strbuf_addf(out, "  %s%s%s", v->noun, v->verb[0] ? " " : "", v->verb);
        dt_strbuf_addf(out, "%*s%s\n", (int)(COLUMN - 8 - (out->n - begin)), "", v->help);
    }
    dt_strbuf_adds(
        out, "\nExit codes: 0 done, 1 refused or failed, 2 not understood, 3 not found, 4 the API cannot be reached, "
             "5 too late.\nTimes: RFC 3339 with an offset, or now, today, yesterday, tomorrow (UTC), -1h, +P1D.\n"
             "`duetime help NOUN VERB` tells the options of a command.\n");
}
