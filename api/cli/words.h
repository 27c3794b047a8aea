/* Reads the words of a command line (verb, arguments, options) with the help of the table, and makes the request from
 * them. Pure, except that options may name files to read. */
#pragma once

#include "base/status.h"
#include "base/text/json.h"
#include "table.h"

#define DT_CLI_ARGS_MAX    64
#define DT_CLI_OPTIONS_MAX 48

struct dt_cli_given {
    const struct dt_cli_option *option;
    const char *value; /* "" if the option is a switch */
};

struct dt_cli_call {
    const struct dt_cli_verb *verb; /* NULL: the user wants help about the noun, or about all nouns */
    const char *noun;               /* NULL: no noun was given */
    bool help;
    unsigned n_args, n_given;
    const char *args[DT_CLI_ARGS_MAX];
    struct dt_cli_given given[DT_CLI_OPTIONS_MAX];
};

/* Reads the words after the program's name; the call borrows from the words. INVALID: err has the reason; for an
 * unknown word it suggests the nearest known word. */
dt_status dt_cli_read_words(int n, char *const *words, struct dt_cli_call *out, struct dt_error *err);

/* Returns the value of an option; NULL if it was not given. */
const char *dt_cli_value(const struct dt_cli_call *call, const char *option);

/* Returns how many letters must be inserted, deleted, changed or swapped with a neighbour to turn a into b. If the
 * number is above `most`, it is not exact. */
unsigned dt_cli_distance(const char *a, const char *b, unsigned most);

/* Buffers for the times of a call, in the form of RFC 3339; must live as long as the call. */
struct dt_cli_times {
    char text[DT_CLI_OPTIONS_MAX][25];
};

/* Replaces each time that is written as now, today, yesterday, tomorrow (UTC), -1h or +P1D by the time in RFC 3339,
 * relative to now_ms. */
void dt_cli_fix_times(struct dt_cli_call *call, int64_t now_ms, struct dt_cli_times *room);

/* A request that is made from a call and the verb's row in the table. */
struct dt_cli_request {
    struct dt_strbuf path;
    struct dt_strbuf body; /* a JSON object; empty: no option sets a member */
};

void dt_cli_request_clear(struct dt_cli_request *request);

/* Builds path and body. The args replace the {places} of `path` in their order. INVALID: err names the option with the
 * fault. */
dt_status dt_cli_request_build(const struct dt_cli_call *call, const char *path, const char *const *args,
                               struct dt_cli_request *out, struct dt_error *err);
/* Appends name=value to the path's query. */
void dt_cli_request_add_query(struct dt_cli_request *request, const char *name, const char *value);
/* Appends a member to the body. json: JSON text of its value. */
void dt_cli_request_add_member(struct dt_cli_request *request, const char *name, struct dt_str json);
/* Adds the members of `present` to the beginning of the body, except members that the body sets or contradicts. */
dt_status dt_cli_request_merge(struct dt_cli_request *request, struct dt_str present, struct dt_error *err);

/* Appends the text of a file, of 8 MiB at most; path "-": standard input. */
dt_status dt_cli_read_file(const char *path, struct dt_strbuf *out, struct dt_error *err);
/* Appends the elements of a comma-separated text as a list of strings. */
void dt_cli_add_list(struct dt_strbuf *out, struct dt_str text);
/* Converts the name of an option into a member's name: "ack-timeout" into "ack_timeout". */
void dt_cli_member_of(const char *option, char out[64]);
