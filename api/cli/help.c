/* The help, the man page (roff), the reference page (Markdown), and completion scripts. All list nouns, verbs and
 * options in the order of the table of verbs (table.c). */
#include "help.h"

#define COLUMN 30

/* Adds the usage of a verb: "duetime jobs get (ID | TOPIC KEY) [OPTION]…" */
static void add_usage(struct dt_strbuf *out, const struct dt_cli_verb *verb)
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

void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb)
{
    if (verb) {
        dt_strbuf_adds(out, "Usage: ");
        add_usage(out, verb);
        dt_strbuf_addf(out, "\n%s\n", verb->help);
        add_options(out, "Options", verb->options, verb->n_options);
        add_options(out, "Options of every command", dt_cli_common, dt_cli_n_common);
        dt_strbuf_adds(out, "\nFor example:\n");
        for (const char *p = verb->examples; *p;) {
            size_t length = strcspn(p, "\n");
            dt_strbuf_addf(out, "  duetime %.*s\n", (int)length, p);
            p += length + (p[length] ? 1 : 0);
        }
        return;
    }
    dt_strbuf_addf(out, "Usage: duetime %s VERB [ARGUMENT]… [OPTION]…\n\n", noun ? noun : "NOUN");
    dt_strbuf_addf(out, "%s\n\n",
                   noun ? dt_cli_noun_help(noun)
                        : "Sends requests to an API of duetime, which delivers jobs when they are due.");
    for (const struct dt_cli_verb *v = dt_cli_verbs; v < dt_cli_verbs + dt_cli_n_verbs; v++) {
        size_t begin = out->n;
        if (noun && strcmp(noun, v->noun) != 0)
            continue;
        dt_strbuf_addf(out, "  %s%s%s", v->noun, v->verb[0] ? " " : "", v->verb);
        dt_strbuf_addf(out, "%*s%s\n", (int)(COLUMN - 8 - (out->n - begin)), "", v->help);
    }
    dt_strbuf_adds(
        out, "\nExit codes: 0 done, 1 refused or failed, 2 not understood, 3 not found, 4 the API cannot be reached, "
             "5 too late.\nTimes: RFC 3339 with an offset, or now, today, yesterday, tomorrow (UTC), -1h, +P1D.\n"
             "`duetime help NOUN VERB` shows the options of a command.\n");
}

/* ---- what both pages have ---- */

static const char *const exit_codes[][2] = {
    {"0", "Done."},
    {"1", "Refused or failed; `doctor` has found something; a watched job did not succeed."},
    {"2", "The command line or the settings are invalid."},
    {"3", "The job, topic or other object does not exist."},
    {"4", "The API cannot be reached."},
    {"5", "It is too late to cancel or to change the job."},
};

static const char *const variables[][2] = {
    {"DUETIME_URL", "Where the API is."},
    {"DUETIME_TOKEN", "The bearer token."},
    {"DUETIME_CA_FILE", "Certificates (PEM) that verify the API's certificate."},
    {"DUETIME_CERT_FILE", "Your certificate."},
    {"DUETIME_KEY_FILE", "Its key."},
    {"DUETIME_CONTEXT", "Section of the configuration file."},
    {"NO_COLOR", "If set, no colours. There are colours only at a terminal."},
};

#define SETTINGS                                                                                                       \
    "Options win over the environment, the environment over the file. The file has sections, called contexts, with "   \
    "url, token_file (or token), ca_file, cert_file, key_file and timeout; context before the first section chooses "  \
    "one. A context's token is sent to that context's URL alone. A token is never an argument, because every user of " \
    "the machine can read arguments."

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- man ---- */

static void add_roff_text(struct dt_strbuf *out, const char *text)
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

static void add_man_item(struct dt_strbuf *out, const char *title, const char *takes, const char *text)
{
    dt_strbuf_adds(out, ".TP\n\\fB");
    add_roff_text(out, title);
    dt_strbuf_adds(out, "\\fR");
    if (takes) {
        dt_strbuf_adds(out, " \\fI");
        add_roff_text(out, takes);
        dt_strbuf_adds(out, "\\fR");
    }
    dt_strbuf_addc(out, '\n');
    add_roff_text(out, text);
    dt_strbuf_addc(out, '\n');
}

static void add_man_options(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    char name[64] = "--";
    for (size_t i = 0; i < n; i++) {
        strncpy(name + 2, options[i].name, sizeof(name) - 3);
        add_man_item(out, name, options[i].takes, options[i].help);
    }
}

static void add_man_verb(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    struct dt_strbuf usage = {0};
    add_usage(&usage, verb);
    dt_strbuf_adds(out, ".SS ");
    add_roff_text(out, usage.p ? usage.p : "\n");
    add_roff_text(out, verb->help);
    dt_strbuf_addc(out, '\n');
    add_man_options(out, verb->options, verb->n_options);
    dt_strbuf_adds(out, ".PP\n.RS\n.nf\n");
    for (const char *p = verb->examples; *p;) {
        char line[256];
        size_t n = strcspn(p, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)n, p);
        dt_strbuf_adds(out, "duetime ");
        add_roff_text(out, line);
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
        add_man_item(out, pairs[i][0], NULL, pairs[i][1]);
}

void dt_cli_add_man(struct dt_strbuf *out)
{
    dt_strbuf_adds(out,
                   ".TH DUETIME 1 \"\" \"duetime " DUETIME_VERSION "\" \"User Commands\"\n"
                   ".SH NAME\nduetime \\- sends requests to an API of duetime, which delivers jobs when they are due\n"
                   ".SH SYNOPSIS\n.B duetime\n.I NOUN VERB\n[\\fIARGUMENT\\fR]... [\\fIOPTION\\fR]...\n"
                   ".SH DESCRIPTION\nA client of the REST API. Data go to standard output, as tables, or as JSON with "
                   "one object per line; everything else goes to standard error.\n.SH COMMANDS\n");
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        add_man_verb(out, &dt_cli_verbs[i]);
    dt_strbuf_adds(out, ".SH OPTIONS\nThose of every command:\n");
    add_man_options(out, dt_cli_common, dt_cli_n_common);
    add_man_pairs(out, "EXIT STATUS", exit_codes, COUNT(exit_codes));
    add_man_pairs(out, "ENVIRONMENT", variables, COUNT(variables));
    dt_strbuf_adds(out, ".SH FILES\n");
    add_man_item(out, "~/.config/duetime/config", NULL, SETTINGS);
}

/* ---- reference ---- */

static void add_markdown_cell(struct dt_strbuf *out, const char *text)
{
    for (; *text; text++)
        dt_strbuf_addf(out, *text == '|' || *text == '*' ? "\\%c" : "%c", *text);
}

static bool is_option_of_every_set(const struct dt_cli_option *option)
{
    return option->place == DT_CLI_FILTER || option->place == DT_CLI_SETS ||
           (option->place == DT_CLI_SET && strcmp(option->name, "rate") == 0);
}

/* Returns the verb whose section of the reference describes this option: the first verb in the table with an equal
 * option. */
static const struct dt_cli_verb *find_describing_verb(const struct dt_cli_option *option)
{
    for (const struct dt_cli_verb *verb = dt_cli_verbs; verb < dt_cli_verbs + dt_cli_n_verbs; verb++)
        for (size_t i = 0; i < verb->n_options; i++) {
            const struct dt_cli_option *here = &verb->options[i];
            if (strcmp(here->name, option->name) == 0 && strcmp(here->help, option->help) == 0 &&
                !here->takes == !option->takes && (!here->takes || strcmp(here->takes, option->takes) == 0))
                return verb;
        }
    return NULL;
}

static void add_option_row(struct dt_strbuf *out, const struct dt_cli_option *option, bool *begun)
{
    if (!*begun)
        dt_strbuf_adds(out, "\n| option | meaning |\n|---|---|\n");
    *begun = true;
    dt_strbuf_addf(out, "| `--%s%s", option->name, option->takes ? " " : "");
    add_markdown_cell(out, option->takes ? option->takes : "");
    dt_strbuf_adds(out, "` | ");
    add_markdown_cell(out, option->help);
    dt_strbuf_adds(out, " |\n");
}

/* Adds the options of a verb. Options that every command for a set of jobs has are left out: they have a section of
 * their own. If an earlier section describes an equal option, only the option's name is added. */
static void add_verb_options(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    const struct dt_cli_verb *as = NULL;
    bool begun = false;
    for (size_t i = 0; i < verb->n_options; i++)
        if (!is_option_of_every_set(&verb->options[i]) && find_describing_verb(&verb->options[i]) == verb)
            add_option_row(out, &verb->options[i], &begun);
    for (size_t i = 0; i < verb->n_options; i++) {
        const struct dt_cli_verb *first = find_describing_verb(&verb->options[i]);
        if (is_option_of_every_set(&verb->options[i]) || first == verb)
            continue;
        if (first == as)
            dt_strbuf_adds(out, ", ");
        else
            dt_strbuf_addf(out, "%sAs in `%s%s%s`: ", as ? ".\n" : "\n", first->noun, first->verb[0] ? " " : "",
                           first->verb);
        dt_strbuf_addf(out, "`--%s`", verb->options[i].name);
        as = first;
    }
    if (as)
        dt_strbuf_adds(out, ".\n");
}

static void add_verb_section(struct dt_strbuf *out, const struct dt_cli_verb *verb)
{
    dt_strbuf_addf(out, "\n### %s%s%s\n\n%s", verb->noun, verb->verb[0] ? " " : "", verb->verb, verb->help);
    if (verb->takes[0])
        dt_strbuf_addf(out, " Takes `%s`%s.", verb->takes, verb->set ? ", or [a set of jobs](#sets-of-jobs)" : "");
    dt_strbuf_adds(out, "\n\n```sh\n");
    for (const char *p = verb->examples; *p;) {
        size_t n = strcspn(p, "\n");
        dt_strbuf_addf(out, "duetime %.*s\n", (int)n, p);
        p += n + (p[n] ? 1 : 0);
    }
    dt_strbuf_adds(out, "```\n");
    add_verb_options(out, verb);
}

void dt_cli_add_reference(struct dt_strbuf *out)
{
    bool begun = false;
    dt_strbuf_adds(
        out, "# duetime, the command line\n\nMade by `duetime --reference`. [How it behaves](../api/cli/README.md).\n"
             "\n## Every command\n");
    for (size_t i = 0; i < dt_cli_n_common; i++)
        add_option_row(out, &dt_cli_common[i], &begun);
    dt_strbuf_adds(out, "\n" SETTINGS "\n");
    dt_strbuf_adds(out, "\n| exit code | meaning |\n|---|---|\n");
    for (size_t i = 0; i < COUNT(exit_codes); i++)
        dt_strbuf_addf(out, "| `%s` | %s |\n", exit_codes[i][0], exit_codes[i][1]);
    dt_strbuf_adds(out, "\n## Sets of jobs\n\nWithout an id, `jobs change`, `run-now`, `cancel` and `redrive` take "
                        "all jobs that these options find.\n");
    const struct dt_cli_verb *of_sets = dt_cli_verbs;
    while (!of_sets->set)
        of_sets++;
    begun = false;
    for (size_t i = 0; i < of_sets->n_options; i++)
        if (is_option_of_every_set(&of_sets->options[i]))
            add_option_row(out, &of_sets->options[i], &begun);
    dt_strbuf_adds(out, "\n## Commands\n");
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        add_verb_section(out, &dt_cli_verbs[i]);
}

/* ---- requests ---- */

void dt_cli_add_requests(struct dt_strbuf *out)
{
    static const char *const places[] = {
        [DT_CLI_BODY] = "body", [DT_CLI_SET] = "body", [DT_CLI_FILTER] = "filter", [DT_CLI_QUERY] = "query"};
    for (const struct dt_cli_verb *verb = dt_cli_verbs; verb < dt_cli_verbs + dt_cli_n_verbs; verb++)
        for (size_t i = 0; i < verb->n_options; i++) {
            const struct dt_cli_option *option = &verb->options[i];
            bool of_set = option->place == DT_CLI_FILTER || option->place == DT_CLI_SET;
            if (option->place == DT_CLI_HERE || option->place == DT_CLI_SETS) /* the API does not get these options */
                continue;
            dt_strbuf_addf(out, "%s %s %s ", of_set ? "POST" : verb->method, of_set ? verb->set : verb->path,
                           places[option->place]);
            for (const char *p = option->name; *p; p++)
                dt_strbuf_addc(out, *p == '-' ? '_' : *p);
            dt_strbuf_addc(out, '\n');
        }
}

/*
 * ---- completion ----
 *
 * The scripts complete noun, verb and options. After an option that takes one of several words, they complete these
 * words; after an option that takes a file, file names. Names of topics, schedules, operations and so on come from the
 * API: `duetime topics list --output name`. No shell evaluates these names.
 */

#define NAMES " list --output name --timeout 2s 2>/dev/null"

/* Returns the noun whose things the argument or option names, for example "topics"; NULL: none. noun: that of the verb;
 * takes: what the argument or option takes. */
static const char *find_named_noun(const char *noun, const char *takes)
{
    if (takes && (strncmp(takes, "TOPIC", 5) == 0 || strcmp(takes, DT_CLI_ID_OR_KEY) == 0))
        return "topics";
    for (size_t i = 0; takes && (strcmp(takes, "NAME") == 0 || strcmp(takes, "ID") == 0) && i < dt_cli_n_verbs; i++)
        if (noun && strcmp(dt_cli_verbs[i].noun, noun) == 0 && strcmp(dt_cli_verbs[i].verb, "list") == 0)
            return strcmp(noun, "jobs") == 0 ? NULL : noun; /* there are too many jobs */
    return NULL;
}

/* Calls fn once for each noun. */
static void for_each_noun(struct dt_strbuf *out, void (*fn)(struct dt_strbuf *, const char *))
{
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (i == 0 || strcmp(dt_cli_verbs[i].noun, dt_cli_verbs[i - 1].noun) != 0)
            fn(out, dt_cli_verbs[i].noun);
}

/* Calls fn for each option of each verb, and once for each common option. */
static void for_each_option(struct dt_strbuf *out,
                            void (*fn)(struct dt_strbuf *, const struct dt_cli_verb *, const struct dt_cli_option *))
{
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        for (size_t j = 0; j < dt_cli_verbs[i].n_options; j++)
            fn(out, &dt_cli_verbs[i], &dt_cli_verbs[i].options[j]);
    for (size_t j = 0; j < dt_cli_n_common; j++)
        fn(out, NULL, &dt_cli_common[j]);
}

static bool has_choices(const struct dt_cli_option *option)
{
    return option->takes && strchr(option->takes, '|');
}

static bool takes_file(const struct dt_cli_option *option)
{
    return option->takes && strcmp(option->takes, "FILE") == 0;
}

/* Adds the words of "a|b|c" as "a b c". */
static void add_choices(struct dt_strbuf *out, const struct dt_cli_option *option)
{
    for (const char *p = option->takes; *p; p++)
        dt_strbuf_addc(out, *p == '|' ? ' ' : *p);
}

/* Adds text for use between single quotes. Characters in `escaped` get a backslash. */
static void add_single_quoted_text(struct dt_strbuf *out, const char *text, const char *escaped)
{
    for (; *text; text++) {
        if (strchr(escaped, *text))
            dt_strbuf_addc(out, '\\');
        else if (*text == '\'')
            dt_strbuf_adds(out, "'\\'");
        dt_strbuf_addc(out, *text);
    }
}

static void add_option_words(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dt_strbuf_addf(out, " --%s", options[i].name);
}

/* Adds a `case` pattern that matches the position after an option. verb NULL: the option belongs to all verbs. */
static void add_case_pattern(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    if (verb)
        dt_strbuf_addf(out, "    '%s%s%s --%s') ", verb->noun, verb->verb[0] ? " " : "", verb->verb, option->name);
    else
        dt_strbuf_addf(out, "    *' --%s') ", option->name);
}

/* ---- bash ---- */

static void add_bash_noun(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, " %s", noun);
}

static void add_bash_verbs(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, "    %s) verbs='", noun);
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (strcmp(dt_cli_verbs[i].noun, noun) == 0 && dt_cli_verbs[i].verb[0])
            dt_strbuf_addf(out, " %s", dt_cli_verbs[i].verb);
    dt_strbuf_adds(out, "' ;;\n");
}

static void add_bash_value(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    const char *named = find_named_noun(NULL, option->takes);
    if (!has_choices(option) && !takes_file(option) && !named)
        return;
    add_case_pattern(out, verb, option);
    if (named)
        dt_strbuf_addf(out, "_duetime_names %s; return ;;\n", named);
    else if (takes_file(option))
        dt_strbuf_adds(out, "compopt -o default; return ;;\n");
    if (named || takes_file(option))
        return;
    dt_strbuf_adds(out, "COMPREPLY=($(compgen -W '");
    add_choices(out, option);
    dt_strbuf_adds(out, "' -- \"$cur\")); return ;;\n");
}

static void add_bash(struct dt_strbuf *out)
{
    dt_strbuf_adds(out, "# Completion of duetime for bash: eval \"$(duetime completion bash)\"\n"
                        "_duetime_names() {\n"
                        "    local name\n"
                        "    while IFS= read -r name; do\n"
                        "        [[ $name == \"$cur\"* ]] && COMPREPLY+=(\"$name\")\n"
                        "    done < <(duetime \"$1\"" NAMES ")\n"
                        "}\n"
                        "_duetime() {\n"
                        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                        "noun=${COMP_WORDS[1]} verb=${COMP_WORDS[2]} verbs= options= names=\n"
                        "    COMPREPLY=()\n"
                        "    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '");
    for_each_noun(out, add_bash_noun);
    dt_strbuf_adds(out, "' -- \"$cur\")); return; fi\n    case $noun in\n");
    for_each_noun(out, add_bash_verbs);
    dt_strbuf_adds(out, "    esac\n"
                        "    [ -n \"$verbs\" ] || verb=\n"
                        "    if ((COMP_CWORD == 2)) && [ -n \"$verbs\" ]; then COMPREPLY=($(compgen -W \"$verbs\" -- "
                        "\"$cur\")); return; fi\n"
                        "    case \"$noun${verb:+ $verb} $prev\" in\n");
    for_each_option(out, add_bash_value);
    dt_strbuf_adds(out, "    esac\n    case \"$noun${verb:+ $verb}\" in\n");
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        dt_strbuf_addf(out, "    '%s%s%s') options='", dt_cli_verbs[i].noun, dt_cli_verbs[i].verb[0] ? " " : "",
                       dt_cli_verbs[i].verb);
        add_option_words(out, dt_cli_verbs[i].options, dt_cli_verbs[i].n_options);
        const char *named = find_named_noun(dt_cli_verbs[i].noun, dt_cli_verbs[i].takes);
        dt_strbuf_addf(out, "' names=%s ;;\n", named ? named : "");
    }
    dt_strbuf_adds(out, "    esac\n"
                        "    if [[ -n $names && $cur != -* ]] && ((COMP_CWORD == 2 + ${verb:+1}+0)); then "
                        "_duetime_names \"$names\"; return; fi\n"
                        "    COMPREPLY=($(compgen -W \"$options");
    add_option_words(out, dt_cli_common, dt_cli_n_common);
    dt_strbuf_adds(out, "\" -- \"$cur\"))\n}\ncomplete -o bashdefault -F _duetime duetime\n");
}

/* ---- zsh ---- */

static void add_zsh_item(struct dt_strbuf *out, const char *word, const char *help)
{
    dt_strbuf_addf(out, " '%s:", word);
    add_single_quoted_text(out, help, ":\\");
    dt_strbuf_addc(out, '\'');
}

static void add_zsh_noun(struct dt_strbuf *out, const char *noun)
{
    add_zsh_item(out, noun, dt_cli_noun_help(noun));
}

static void add_zsh_verbs(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, "    %s) items=(", noun);
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (strcmp(dt_cli_verbs[i].noun, noun) == 0 && dt_cli_verbs[i].verb[0])
            add_zsh_item(out, dt_cli_verbs[i].verb, dt_cli_verbs[i].help);
    dt_strbuf_adds(out, ") ;;\n");
}

static void add_zsh_options(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    char word[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(word, sizeof(word), "--%s", options[i].name);
        add_zsh_item(out, word, options[i].help);
    }
}

static void add_zsh_value(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    const char *named = find_named_noun(NULL, option->takes);
    if (!has_choices(option) && !takes_file(option) && !named)
        return;
    add_case_pattern(out, verb, option);
    if (named)
        dt_strbuf_addf(out, "_duetime_names %s; return ;;\n", named);
    else if (takes_file(option))
        dt_strbuf_adds(out, "_files; return ;;\n");
    if (named || takes_file(option))
        return;
    dt_strbuf_adds(out, "compadd ");
    add_choices(out, option);
    dt_strbuf_adds(out, "; return ;;\n");
}

static void add_zsh(struct dt_strbuf *out)
{
    dt_strbuf_adds(out, "#compdef duetime\n"
                        "# Completion of duetime for zsh: source <(duetime completion zsh)\n"
                        "_duetime_names() { compadd -- ${(f)\"$(duetime $1" NAMES ")\"} }\n"
                        "_duetime() {\n"
                        "  local -a items\n"
                        "  local noun=$words[2] verb=$words[3] names=\n"
                        "  if ((CURRENT == 2)); then items=(");
    for_each_noun(out, add_zsh_noun);
    dt_strbuf_adds(out, "); _describe command items; return; fi\n  case $noun in\n");
    for_each_noun(out, add_zsh_verbs);
    dt_strbuf_adds(out, "  esac\n"
                        "  (($#items)) || verb=\n"
                        "  if ((CURRENT == 3 && $#items)); then _describe command items; return; fi\n"
                        "  case \"$noun${verb:+ $verb} $words[CURRENT-1]\" in\n");
    for_each_option(out, add_zsh_value);
    dt_strbuf_adds(out, "  esac\n  items=()\n  case \"$noun${verb:+ $verb}\" in\n");
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        dt_strbuf_addf(out, "    '%s%s%s') items=(", dt_cli_verbs[i].noun, dt_cli_verbs[i].verb[0] ? " " : "",
                       dt_cli_verbs[i].verb);
        add_zsh_options(out, dt_cli_verbs[i].options, dt_cli_verbs[i].n_options);
        const char *named = find_named_noun(dt_cli_verbs[i].noun, dt_cli_verbs[i].takes);
        dt_strbuf_addf(out, ") names=%s ;;\n", named ? named : "");
    }
    dt_strbuf_adds(out, "  esac\n"
                        "  if [[ -n $names && $words[CURRENT] != -* ]] && ((CURRENT == 3 + ${#${verb:+1}})); then "
                        "_duetime_names $names; return; fi\n"
                        "  items+=(");
    add_zsh_options(out, dt_cli_common, dt_cli_n_common);
    dt_strbuf_adds(out, ")\n  _describe option items\n}\ncompdef _duetime duetime\n");
}

/* ---- fish ---- */

static void add_fish_noun(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, "complete -c duetime -f -n __fish_use_subcommand -a %s -d '", noun);
    add_single_quoted_text(out, dt_cli_noun_help(noun), "\\'");
    dt_strbuf_adds(out, "'\n");
}

static void add_fish_option(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    dt_strbuf_adds(out, "complete -c duetime -f");
    if (verb)
        dt_strbuf_addf(out, " -n '__duetime_at %s %s'", verb->noun, verb->verb);
    dt_strbuf_addf(out, " -l %s%s", option->name, !option->takes ? "" : takes_file(option) ? " -r -F" : " -x");
    const char *named = find_named_noun(NULL, option->takes);
    if (has_choices(option)) {
        dt_strbuf_adds(out, " -a '");
        add_choices(out, option);
        dt_strbuf_addc(out, '\'');
    } else if (named) {
        dt_strbuf_addf(out, " -a '(duetime %s" NAMES ")'", named);
    }
    dt_strbuf_adds(out, " -d '");
    add_single_quoted_text(out, option->help, "\\'");
    dt_strbuf_adds(out, "'\n");
}

static void add_fish(struct dt_strbuf *out)
{
    dt_strbuf_adds(out, "# Completion of duetime for fish: duetime completion fish | source\n"
                        "function __duetime_at\n"
                        "    set -l words (commandline -opc)\n"
                        "    test \"$words[2]\" = \"$argv[1]\"; and begin; test -z \"$argv[2]\"; or test \"$words[3]\" "
                        "= \"$argv[2]\"; end\n"
                        "end\n"
                        "function __duetime_verb\n"
                        "    set -l words (commandline -opc)\n"
                        "    test (count $words) -eq 2; and test \"$words[2]\" = \"$argv[1]\"\n"
                        "end\n");
    for_each_noun(out, add_fish_noun);
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (dt_cli_verbs[i].verb[0]) {
            dt_strbuf_addf(out, "complete -c duetime -f -n '__duetime_verb %s' -a %s -d '", dt_cli_verbs[i].noun,
                           dt_cli_verbs[i].verb);
            add_single_quoted_text(out, dt_cli_verbs[i].help, "\\'");
            dt_strbuf_adds(out, "'\n");
        }
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        const struct dt_cli_verb *verb = &dt_cli_verbs[i];
        const char *named = find_named_noun(verb->noun, verb->takes);
        if (named)
            dt_strbuf_addf(out, "complete -c duetime -f -n '__duetime_at %s %s' -a '(duetime %s" NAMES ")'\n",
                           verb->noun, verb->verb, named);
    }
    for_each_option(out, add_fish_option);
}

bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        add_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        add_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        add_fish(out);
    else
        return false;
    return true;
}
