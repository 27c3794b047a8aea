/*
 * Completion scripts for shells, made from the table.
 */
#ifndef DT_CLI_COMPLETE_H
#define DT_CLI_COMPLETE_H

#include <stdbool.h>

#include "base/strbuf.h"

/* Appends the script; false: there is none for this shell. */
bool dt_cli_add_completion(struct dt_strbuf *out, const char *shell);

#endif
