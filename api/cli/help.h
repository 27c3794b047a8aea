/* Texts that are made from the table of verbs (table.h): the help of `duetime`, the man page, the reference page, and
 * completion scripts for shells. Each function appends to `out`. */
#pragma once

#include "base/text/strbuf.h"
#include "table.h"

/* Adds the help of a verb. verb NULL: the help of all verbs of the noun; noun NULL: the help of all verbs. */
void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb);
void dt_cli_add_man(struct dt_strbuf *out);
void dt_cli_add_reference(struct dt_strbuf *out);
/* Adds what the program can put into requests, one line for each option: "METHOD PATH body|filter|query NAME". A test
 * compares the lines with openapi.yaml. */
void dt_cli_add_requests(struct dt_strbuf *out);

/* Adds the completion script for a shell. False: there is no script for this shell. */
bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell);
