/*
 * The functions that carry out verbs, named in the table. Each gives the exit code.
 */
#ifndef DT_CLI_RUN_H
#define DT_CLI_RUN_H

#include "cli.h"

typedef int dt_cli_run(struct dt_cli *cli);

/* run.c: the function that carries out a call. */
dt_cli_run *dt_cli_run_of(const struct dt_cli_call *call);

/* run_request.c: one request and its answer, by the verb's row; a job may be named by topic and key. */
int dt_cli_run_request(struct dt_cli *cli);
/* Reads a resource, changes the members that the options name, and puts it. */
int dt_cli_run_set(struct dt_cli *cli);
int dt_cli_run_pop(struct dt_cli *cli);

/* run_many.c: a set of jobs by filter; an operation, until it has ended. */
int dt_cli_run_many(struct dt_cli *cli);
int dt_cli_run_follow(struct dt_cli *cli);
int dt_cli_run_delete(struct dt_cli *cli);

/* run_list.c: a list, page by page to its end; by DT_CLI_BY_EXPORT jobs as import takes them. */
int dt_cli_run_list(struct dt_cli *cli);

/* run_watch.c: a job, until it is finished. */
int dt_cli_run_watch(struct dt_cli *cli);

/* run_import.c: many jobs, from a file or standard input. */
int dt_cli_run_import(struct dt_cli *cli);

/* run_doctor.c: what is wrong, as far as the API can tell. */
int dt_cli_run_doctor(struct dt_cli *cli);

/* run_overview.c: one screen. */
int dt_cli_run_overview(struct dt_cli *cli);

/* run_forecast.c: what comes due, as a bar chart. */
int dt_cli_run_forecast(struct dt_cli *cli);

/* run_help.c: what needs no API. */
int dt_cli_run_help(struct dt_cli *cli);
int dt_cli_run_version(struct dt_cli *cli);
int dt_cli_run_completion(struct dt_cli *cli);

#endif
