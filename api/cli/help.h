/* Texts that are made from the table of verbs (table.h): the help of `duetime`, the man page, the reference page, and
 * completion scripts for shells. All functions append. */
#pragma once

#include "base/text/strbuf.h"
#include "table.h"

/* Adds the help. verb NULL: help of all verbs of noun; noun NULL: of all verbs. */
void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb);
void dt_cli_add_man(struct dt_strbuf *out);
void dt_cli_add_reference(struct dt_strbuf *out);
/* Adds the requests that the program can make, as lines of "METHOD PATH body|query NAME". A test compares them with
 * openapi.yaml. */
void dt_cli_add_requests(struct dt_strbuf *out);

/* Adds the completion script for a shell. False: there is none for this shell. */
bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell);
