/*
 * The words of a command line, judged by the table: which verb, which arguments, which options. Pure.
 */
#ifndef DT_CLI_WORDS_H
#define DT_CLI_WORDS_H

#include "base/status.h"
#include "table.h"

#define DT_CLI_ARGS_MAX    64
#define DT_CLI_OPTIONS_MAX 48

struct dt_cli_given {
    const struct dt_cli_option *option;
    const char *value; /* "" for a switch */
};

struct dt_cli_call {
    const struct dt_cli_verb *verb; /* NULL: help is wanted, of the noun or of all */
    const char *noun;               /* NULL: none was given */
    bool help;
    unsigned n_args, n_given;
    const char *args[DT_CLI_ARGS_MAX];
    struct dt_cli_given given[DT_CLI_OPTIONS_MAX];
};

/* Reads the words behind the program's name, which the call borrows. INVALID: err says what is wrong, and names what is
 * nearest to a word that is not known. */
DT_MUST_CHECK dt_status dt_cli_read_words(int n, char *const *words, struct dt_cli_call *out, struct dt_error *err);

/* The value of an option that was given; NULL: it was not. */
const char *dt_cli_value(const struct dt_cli_call *call, const char *option);

/* Letters to insert, delete, change or swap with a neighbour until a is b; a number above `most` says only that they
 * are more. */
unsigned dt_cli_distance(const char *a, const char *b, unsigned most);

#endif
