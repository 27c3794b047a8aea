/*
 * The functions that carry out verbs, named in the table. Each gives the exit code.
 */
#ifndef DT_CLI_RUN_H
#define DT_CLI_RUN_H

#include "cli/cli.h"

typedef int dt_cli_run(struct dt_cli *cli);

/* run.c: the function that carries out a verb. */
dt_cli_run *dt_cli_run_of(const struct dt_cli_verb *verb);

/* run_request.c: one request and its answer, by the verb's row; a job may be named by topic and key. */
int dt_cli_run_request(struct dt_cli *cli);
/* What is there, with what the options change, put back. */
int dt_cli_run_set(struct dt_cli *cli);
int dt_cli_run_pop(struct dt_cli *cli);

/* run_list.c: a list, page by page to its end. */
int dt_cli_run_list(struct dt_cli *cli);

/* run_help.c: what needs no API. */
int dt_cli_run_help(struct dt_cli *cli);
int dt_cli_run_version(struct dt_cli *cli);

#endif
