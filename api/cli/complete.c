/*
 * One generator a shell. Words: noun, verb, then options; behind an option that takes one of some words, those words;
 * behind one that takes a file, files.
 */
#include <stdio.h>
#include <string.h>

#include "help.h"

/* Calls fn for each noun once. */
static void each_noun(struct dt_strbuf *out, void (*fn)(struct dt_strbuf *, const char *))
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(verbs[i].noun, verbs[i - 1].noun) != 0)
            fn(out, verbs[i].noun);
}

/* Calls fn for each option of all verbs, of the common ones once. */
static void each_option(struct dt_strbuf *out,
                        void (*fn)(struct dt_strbuf *, const struct dt_cli_verb *, const struct dt_cli_option *))
{
    size_t n;
    size_t n_common;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    const struct dt_cli_option *common = dt_cli_common(&n_common);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < verbs[i].n_options; j++)
            fn(out, &verbs[i], &verbs[i].options[j]);
    for (size_t j = 0; j < n_common; j++)
        fn(out, NULL, &common[j]);
}

static bool chooses(const struct dt_cli_option *option)
{
    return option->takes && strchr(option->takes, '|');
}

static bool is_file(const struct dt_cli_option *option)
{
    return option->takes && strcmp(option->takes, "FILE") == 0;
}

/* "a b c" of "a|b|c". */
static void add_choices(struct dt_strbuf *out, const struct dt_cli_option *option)
{
    for (const char *p = option->takes; *p; p++)
        dt_strbuf_addc(out, *p == '|' ? ' ' : *p);
}

/* The inside of a text in single quotes; characters that are `escaped` get a backslash. */
static void add_sentence(struct dt_strbuf *out, const char *text, const char *escaped)
{
    for (; *text; text++) {
        if (strchr(escaped, *text))
            dt_strbuf_addc(out, '\\');
        else if (*text == '\'')
            dt_strbuf_adds(out, "'\\'");
        dt_strbuf_addc(out, *text);
    }
}

static void add_options(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dt_strbuf_addf(out, " --%s", options[i].name);
}

/* The pattern of a case for the word behind an option: of one verb, or of any. */
static void add_place(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    if (verb)
        dt_strbuf_addf(out, "    '%s%s%s --%s') ", verb->noun, verb->verb[0] ? " " : "", verb->verb, option->name);
    else
        dt_strbuf_addf(out, "    *' --%s') ", option->name);
}

/* ---- bash ---- */

static void bash_noun(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, " %s", noun);
}

static void bash_verbs(struct dt_strbuf *out, const char *noun)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    dt_strbuf_addf(out, "    %s) verbs='", noun);
    for (size_t i = 0; i < n; i++)
        if (strcmp(verbs[i].noun, noun) == 0 && verbs[i].verb[0])
            dt_strbuf_addf(out, " %s", verbs[i].verb);
    dt_strbuf_adds(out, "' ;;\n");
}

static void bash_value(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    if (!chooses(option) && !is_file(option))
        return;
    add_place(out, verb, option);
    if (is_file(option)) {
        dt_strbuf_adds(out, "compopt -o default; return ;;\n");
        return;
    }
    dt_strbuf_adds(out, "COMPREPLY=($(compgen -W '");
    add_choices(out, option);
    dt_strbuf_adds(out, "' -- \"$cur\")); return ;;\n");
}

static void add_bash(struct dt_strbuf *out)
{
    size_t n;
    size_t n_common;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    const struct dt_cli_option *common = dt_cli_common(&n_common);
    dt_strbuf_adds(out, "# Completion of duetime for bash: eval \"$(duetime completion bash)\"\n"
                        "_duetime() {\n"
                        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                        "noun=${COMP_WORDS[1]} verb=${COMP_WORDS[2]} verbs= options=\n"
                        "    COMPREPLY=()\n"
                        "    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '");
    each_noun(out, bash_noun);
    dt_strbuf_adds(out, "' -- \"$cur\")); return; fi\n    case $noun in\n");
    each_noun(out, bash_verbs);
    dt_strbuf_adds(out, "    esac\n"
                        "    [ -n \"$verbs\" ] || verb=\n"
                        "    if ((COMP_CWORD == 2)) && [ -n \"$verbs\" ]; then COMPREPLY=($(compgen -W \"$verbs\" -- "
                        "\"$cur\")); return; fi\n"
                        "    case \"$noun${verb:+ $verb} $prev\" in\n");
    each_option(out, bash_value);
    dt_strbuf_adds(out, "    esac\n    case \"$noun${verb:+ $verb}\" in\n");
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_addf(out, "    '%s%s%s') options='", verbs[i].noun, verbs[i].verb[0] ? " " : "", verbs[i].verb);
        add_options(out, verbs[i].options, verbs[i].n_options);
        dt_strbuf_adds(out, "' ;;\n");
    }
    dt_strbuf_adds(out, "    esac\n    COMPREPLY=($(compgen -W \"$options");
    add_options(out, common, n_common);
    dt_strbuf_adds(out, "\" -- \"$cur\"))\n}\ncomplete -o bashdefault -F _duetime duetime\n");
}

/* ---- zsh ---- */

static void zsh_item(struct dt_strbuf *out, const char *word, const char *help)
{
    dt_strbuf_addf(out, " '%s:", word);
    add_sentence(out, help, ":\\");
    dt_strbuf_addc(out, '\'');
}

static void zsh_noun(struct dt_strbuf *out, const char *noun)
{
    zsh_item(out, noun, dt_cli_noun_help(noun));
}

static void zsh_verbs(struct dt_strbuf *out, const char *noun)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    dt_strbuf_addf(out, "    %s) items=(", noun);
    for (size_t i = 0; i < n; i++)
        if (strcmp(verbs[i].noun, noun) == 0 && verbs[i].verb[0])
            zsh_item(out, verbs[i].verb, verbs[i].help);
    dt_strbuf_adds(out, ") ;;\n");
}

static void zsh_options(struct dt_strbuf *out, const struct dt_cli_option *options, size_t n)
{
    char word[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(word, sizeof(word), "--%s", options[i].name);
        zsh_item(out, word, options[i].help);
    }
}

static void zsh_value(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    if (!chooses(option) && !is_file(option))
        return;
    add_place(out, verb, option);
    if (is_file(option)) {
        dt_strbuf_adds(out, "_files; return ;;\n");
        return;
    }
    dt_strbuf_adds(out, "compadd ");
    add_choices(out, option);
    dt_strbuf_adds(out, "; return ;;\n");
}

static void add_zsh(struct dt_strbuf *out)
{
    size_t n;
    size_t n_common;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    const struct dt_cli_option *common = dt_cli_common(&n_common);
    dt_strbuf_adds(out, "#compdef duetime\n"
                        "# Completion of duetime for zsh: source <(duetime completion zsh)\n"
                        "_duetime() {\n"
                        "  local -a items\n"
                        "  local noun=$words[2] verb=$words[3]\n"
                        "  if ((CURRENT == 2)); then items=(");
    each_noun(out, zsh_noun);
    dt_strbuf_adds(out, "); _describe command items; return; fi\n  case $noun in\n");
    each_noun(out, zsh_verbs);
    dt_strbuf_adds(out, "  esac\n"
                        "  (($#items)) || verb=\n"
                        "  if ((CURRENT == 3 && $#items)); then _describe command items; return; fi\n"
                        "  case \"$noun${verb:+ $verb} $words[CURRENT-1]\" in\n");
    each_option(out, zsh_value);
    dt_strbuf_adds(out, "  esac\n  items=()\n  case \"$noun${verb:+ $verb}\" in\n");
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_addf(out, "    '%s%s%s') items=(", verbs[i].noun, verbs[i].verb[0] ? " " : "", verbs[i].verb);
        zsh_options(out, verbs[i].options, verbs[i].n_options);
        dt_strbuf_adds(out, ") ;;\n");
    }
    dt_strbuf_adds(out, "  esac\n  items+=(");
    zsh_options(out, common, n_common);
    dt_strbuf_adds(out, ")\n  _describe option items\n}\ncompdef _duetime duetime\n");
}

/* ---- fish ---- */

static void fish_noun(struct dt_strbuf *out, const char *noun)
{
    dt_strbuf_addf(out, "complete -c duetime -f -n __fish_use_subcommand -a %s -d '", noun);
    add_sentence(out, dt_cli_noun_help(noun), "\\'");
    dt_strbuf_adds(out, "'\n");
}

static void fish_option(struct dt_strbuf *out, const struct dt_cli_verb *verb, const struct dt_cli_option *option)
{
    dt_strbuf_adds(out, "complete -c duetime -f");
    if (verb)
        dt_strbuf_addf(out, " -n '__duetime_at %s %s'", verb->noun, verb->verb);
    dt_strbuf_addf(out, " -l %s%s", option->name, !option->takes ? "" : is_file(option) ? " -r -F" : " -x");
    if (chooses(option)) {
        dt_strbuf_adds(out, " -a '");
        add_choices(out, option);
        dt_strbuf_addc(out, '\'');
    }
    dt_strbuf_adds(out, " -d '");
    add_sentence(out, option->help, "\\'");
    dt_strbuf_adds(out, "'\n");
}

static void add_fish(struct dt_strbuf *out)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
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
    each_noun(out, fish_noun);
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb[0]) {
            dt_strbuf_addf(out, "complete -c duetime -f -n '__duetime_verb %s' -a %s -d '", verbs[i].noun,
                           verbs[i].verb);
            add_sentence(out, verbs[i].help, "\\'");
            dt_strbuf_adds(out, "'\n");
        }
    each_option(out, fish_option);
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
