/*
 * Pages that are made from the table: the man page, and the reference among the documents.
 */
#ifndef DT_CLI_PAGES_H
#define DT_CLI_PAGES_H

#include "base/strbuf.h"

void dt_cli_add_man(struct dt_strbuf *out);
void dt_cli_add_reference(struct dt_strbuf *out);
/* Appends the requests that the program can make, for a test that compares it with openapi.yaml: "METHOD PATH
 * body|query NAME" a line. */
void dt_cli_add_requests(struct dt_strbuf *out);

#endif
