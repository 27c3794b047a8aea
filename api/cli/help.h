/*
 * Texts that are made from the table of verbs (cli/table.h): the help that `duetime` prints (help.c), the man page and
 * the reference among the documents (help.c), completion scripts for shells (help.c). All append.
 */
#ifndef DT_CLI_HELP_H
#define DT_CLI_HELP_H

#include "base/text/strbuf.h"
#include "table.h"

/* verb NULL: the verbs of noun; noun NULL: all. */
void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb);
/* "duetime jobs get (ID | TOPIC KEY) [OPTION]…" */
void dt_cli_add_usage(struct dt_strbuf *out, const struct dt_cli_verb *verb);

void dt_cli_add_man(struct dt_strbuf *out);
void dt_cli_add_reference(struct dt_strbuf *out);
/* The requests that the program can make, for a test that compares it with openapi.yaml: "METHOD PATH body|query NAME"
 * a line. */
void dt_cli_add_requests(struct dt_strbuf *out);

/* The script of a shell; false: there is none for it. */
bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell);

#endif
