/*
 * Texts that are made from the table of verbs (table.h): the help of `duetime`, the man page, the reference page, and
 * completion scripts for shells. All functions append.
 */
#pragma once

#include "base/text/strbuf.h"
#include "table.h"

/* verb NULL: all verbs of noun; noun NULL: all verbs. */
void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb);
void dt_cli_add_man(struct dt_strbuf *out);
void dt_cli_add_reference(struct dt_strbuf *out);
/* The requests that the program can make, for a test that compares them with openapi.yaml: lines of
 * "METHOD PATH body|query NAME". */
void dt_cli_add_requests(struct dt_strbuf *out);

/* The script for a shell. False: there is none. */
bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell);
