/*
 * Reads words from left to right: noun, verb, then arguments and options in any order. A word behind `--` is an
 * argument whatever it looks like. A noun may be singular ("job get").
 */
#include "words.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define NEAR     3  /* a word this far from a known one is taken for a slip */
#define WORD_MAX 40 /* no longer word is compared */

unsigned dt_cli_distance(const char *a, const char *b, unsigned most)
{
    unsigned row[3][WORD_MAX + 1];
    size_t la = strlen(a);
    size_t lb = strlen(b);
    if (la > WORD_MAX || lb > WORD_MAX)
        return most + 1;
    for (size_t j = 0; j <= lb; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        unsigned *now = row[i % 3];
        const unsigned *last = row[(i - 1) % 3];
        const unsigned *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

/* ---- what is nearest ---- */

struct nearest {
    const char *word;
    unsigned distance;
};

static void consider(struct nearest *best, const char *given, const char *known)
{
    unsigned distance = dt_cli_distance(given, known, NEAR);
    if (distance < best->distance && distance < strlen(known))
        *best = (struct nearest){known, distance};
}

static dt_status unknown(struct dt_error *err, const char *what, const char *given, const struct nearest *best)
{
    if (best->word)
        return dt_fail(err, DT_INVALID, "there is no %s \"%.80s\"; did you mean %s?", what, given, best->word);
    return dt_fail(err, DT_INVALID, "there is no %s \"%.80s\"", what, given);
}

static const struct nearest nothing = {NULL, NEAR + 1};

/* ---- noun and verb ---- */

/* The verb of the noun; a noun without verbs is one. NULL: not this. */
static const struct dt_cli_verb *verb_of(const char *noun, const char *verb)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(verbs[i].noun, noun) == 0 && strcmp(verbs[i].verb, verb) == 0)
            return &verbs[i];
    return NULL;
}

/* A noun as it is, "jobs", or shorter by its s, "job". */
static dt_status find_noun(const char *given, struct dt_cli_call *out, struct dt_error *err)
{
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    struct nearest best = nothing;
    for (size_t i = 0; i < n; i++) {
        const char *noun = verbs[i].noun;
        size_t length = strlen(noun);
        bool singular = length > 1 && noun[length - 1] == 's' && strlen(given) == length - 1;
        if (strcmp(given, noun) == 0 || (singular && strncmp(given, noun, length - 1) == 0)) {
            out->noun = noun;
            out->verb = verb_of(noun, "");
            return DT_OK;
        }
        consider(&best, given, noun);
    }
    return unknown(err, "command", given, &best);
}

/* ---- options ---- */

static const struct dt_cli_option *among(const struct dt_cli_option *options, size_t n, const char *name, size_t length,
                                         struct nearest *best)
{
    char word[WORD_MAX + 1];
    snprintf(word, sizeof(word), "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), name);
    for (size_t i = 0; i < n; i++) {
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
        consider(best, word, options[i].name);
    }
    return NULL;
}

const char *dt_cli_value(const struct dt_cli_call *call, const char *option)
{
    for (unsigned i = 0; i < call->n_given; i++)
        if (strcmp(call->given[i].option->name, option) == 0)
            return call->given[i].value;
    return NULL;
}

static dt_status keep_option(struct dt_cli_call *out, const struct dt_cli_option *option, const char *value,
                             struct dt_error *err)
{
    if (dt_cli_value(out, option->name))
        return dt_fail(err, DT_INVALID, "--%s is given twice", option->name);
    if (out->n_given == DT_CLI_OPTIONS_MAX)
        return dt_fail(err, DT_INVALID, "these are too many options");
    dt_assert_cmp(out->n_given, <, DT_CLI_OPTIONS_MAX);
    if (strcmp(option->name, "help") == 0)
        out->help = true;
    out->given[out->n_given++] = (struct dt_cli_given){option, value};
    return DT_OK;
}

/* One option at words[*at], whose value may be the word behind it. */
static dt_status read_option(int n, char *const *words, int *at, struct dt_cli_call *out, struct dt_error *err)
{
    const char *name = words[*at] + 2;
    const char *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    size_t n_common;
    const struct dt_cli_option *common = dt_cli_common(&n_common);
    const struct dt_cli_option *option = NULL;
    struct nearest best = nothing;
    if (out->verb)
        option = among(out->verb->options, out->verb->n_options, name, length, &best);
    if (!option)
        option = among(common, n_common, name, length, &best);
    if (!option) {
        char given[96];
        char near[96];
        snprintf(given, sizeof(given), "--%.*s", (int)(length < 80 ? length : 80), name);
        snprintf(near, sizeof(near), "--%.80s", best.word ? best.word : "");
        best.word = best.word ? near : NULL;
        return unknown(err, "option", given, &best);
    }
    if (!option->takes)
        return value ? dt_fail(err, DT_INVALID, "--%s takes no value", option->name)
                     : keep_option(out, option, "", err);
    if (!value && *at + 1 >= n)
        return dt_fail(err, DT_INVALID, "--%s takes a value: %s", option->name, option->takes);
    return keep_option(out, option, value ? value + 1 : words[++*at], err);
}

/* ---- all words ---- */

/* A noun, then a verb of it unless the noun has none, then arguments. */
static dt_status read_plain(const char *word, struct dt_cli_call *out, struct dt_error *err)
{
    if (!out->noun)
        return find_noun(word, out, err);
    if (out->verb) {
        if (out->n_args == DT_CLI_ARGS_MAX)
            return dt_fail(err, DT_INVALID, "these are too many arguments: %d at most", DT_CLI_ARGS_MAX);
        dt_assert_cmp(out->n_args, <, DT_CLI_ARGS_MAX);
        out->args[out->n_args++] = word;
        return DT_OK;
    }
    out->verb = verb_of(out->noun, word);
    if (out->verb)
        return DT_OK;
    size_t n;
    const struct dt_cli_verb *verbs = dt_cli_verbs(&n);
    struct nearest best = nothing;
    char what[64];
    for (size_t i = 0; i < n; i++)
        if (strcmp(verbs[i].noun, out->noun) == 0)
            consider(&best, word, verbs[i].verb);
    snprintf(what, sizeof(what), "%.40s command", out->noun);
    return unknown(err, what, word, &best);
}

/* Whether the words make a call. A set of jobs is chosen by a filter, a job by its name; not both, and one of them. */
static dt_status check(const struct dt_cli_call *call, struct dt_error *err)
{
    const struct dt_cli_verb *verb = call->verb;
    bool filtered = false;
    if (call->help)
        return DT_OK;
    if (!call->noun)
        return dt_fail(err, DT_INVALID, "a command is missing");
    if (!verb)
        return dt_fail(err, DT_INVALID, "what is to be done with %s is missing", call->noun);
    if (call->n_args < dt_cli_args_min(verb))
        return dt_fail(err, DT_INVALID, "%s %s takes %s", verb->noun, verb->verb, verb->takes);
    if (call->n_args > dt_cli_args_max(verb))
        return dt_fail(err, DT_INVALID, "%s%s%s takes %s: \"%.80s\" is too much", verb->noun, verb->verb[0] ? " " : "",
                       verb->verb, verb->takes[0] ? verb->takes : "no arguments", call->args[dt_cli_args_max(verb)]);
    for (unsigned i = 0; verb->set && i < call->n_given; i++) {
        enum dt_cli_place place = call->given[i].option->place;
        bool of_set = place == DT_CLI_FILTER || place == DT_CLI_SET || place == DT_CLI_SETS;
        filtered = filtered || place == DT_CLI_FILTER;
        if (of_set && call->n_args > 0)
            return dt_fail(err, DT_INVALID, "--%s is for sets of jobs: %s %s names one", call->given[i].option->name,
                           verb->noun, call->args[0]);
        if (place == DT_CLI_QUERY && call->n_args == 0)
            return dt_fail(err, DT_INVALID, "--%s is for one job", call->given[i].option->name);
    }
    if (verb->set && call->n_args == 0 && !filtered)
        return dt_fail(err, DT_INVALID, "%s %s takes %s, or a filter (--topic, --ids)", verb->noun, verb->verb,
                       verb->takes);
    return DT_OK;
}

dt_status dt_cli_read_words(int n, char *const *words, struct dt_cli_call *out, struct dt_error *err)
{
    bool options = true;
    dt_status status = DT_OK;
    *out = (struct dt_cli_call){0};
    for (int i = 0; i < n && status == DT_OK; i++) {
        if (options && strcmp(words[i], "--") == 0)
            options = false;
        else if (options && strcmp(words[i], "-h") == 0)
            out->help = true;
        else if (options && strncmp(words[i], "--", 2) == 0)
            status = read_option(n, words, &i, out, err);
        else
            status = read_plain(words[i], out, err);
    }
    return status == DT_OK ? check(out, err) : status;
}
