/*
 * The help that `duetime` prints, made from the table of verbs (cli/table.h): for one verb, for the verbs of a noun, or
 * for all. The man page and the reference page are pages.h's, completions for shells are complete.h's.
 */
#ifndef DT_CLI_HELP_H
#define DT_CLI_HELP_H

#include "base/strbuf.h"
#include "cli/table.h"

/* verb NULL: the verbs of noun; noun NULL: all. */
void dt_cli_add_help(struct dt_strbuf *out, const char *noun, const struct dt_cli_verb *verb);
/* "duetime jobs get (ID | TOPIC KEY) [OPTION]…" */
void dt_cli_add_usage(struct dt_strbuf *out, const struct dt_cli_verb *verb);

#endif
