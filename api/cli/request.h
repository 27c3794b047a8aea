/*
 * A call as a request: its path with the query, and its body, by the verb's row of the table.
 */
#ifndef DT_CLI_REQUEST_H
#define DT_CLI_REQUEST_H

#include "base/text/json.h"
#include "words.h"

struct dt_cli_request {
    struct dt_strbuf path;
    struct dt_strbuf body; /* an object; empty: no option of the body was given */
};

void dt_cli_request_init(struct dt_cli_request *request);
void dt_cli_request_clear(struct dt_cli_request *request);

/* Builds path and body; args fill the {places} of `path` in their order. INVALID: err names the option. */
DT_MUST_CHECK dt_status dt_cli_request_build(const struct dt_cli_call *call, const char *path, const char *const *args,
                                             struct dt_cli_request *out, struct dt_error *err);
/* Appends name=value to the path's query. */
void dt_cli_request_add_query(struct dt_cli_request *request, const char *name, const char *value);
/* Appends a member to the body; json is its text. */
void dt_cli_request_add_member(struct dt_cli_request *request, const char *name, struct dt_str json);
/* Puts the members that `present` has before those of the body, but for those that the body has itself, or
 * contradicts. */
DT_MUST_CHECK dt_status dt_cli_request_merge(struct dt_cli_request *request, struct dt_str present,
                                             struct dt_error *err);

/* Appends the elements of a text, which commas separate, as a list of strings. */
void dt_cli_add_list(struct dt_strbuf *out, struct dt_str text);
/* "ack_timeout" of "ack-timeout", in out[64]. */
void dt_cli_member_of(const char *option, char out[64]);

#endif
