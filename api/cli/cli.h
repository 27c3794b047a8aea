/*
 * One run of the program: what was asked, the settings in force, the connection to the API. Made by main.c, handed to
 * the function that carries out the verb.
 */
#ifndef DT_API_CLI_H
#define DT_API_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "rest.h"
#include "words.h"

/* The exit codes, which scripts rely on. */
enum dt_cli_exit {
    DT_CLI_DONE = 0,
    DT_CLI_REFUSED = 1, /* refused, failed, or something was found */
    DT_CLI_USAGE = 2,
    DT_CLI_NOT_FOUND = 3,
    DT_CLI_UNREACHED = 4,
    DT_CLI_TOO_LATE = 5
};

enum dt_cli_form { DT_CLI_TABLE, DT_CLI_WIDE, DT_CLI_AS_JSON };

struct dt_cli {
    const struct dt_cli_call *call;
    struct dt_cli_settings settings;
    enum dt_cli_form form;
    unsigned width, height; /* of the terminal that standard output is; 0: it is none */
    bool colours;
    const dt_clock *clock;
    dt_rest *rest;
    struct dt_strbuf done; /* what the API has changed, for a person who cannot be shown its answer */
};

/*
 * The functions that carry out verbs, named in the table. Each gives the exit code.
 */

typedef int dt_cli_run(struct dt_cli *cli);

/* main.c: the function that carries out a call. */
dt_cli_run *dt_cli_run_of(const struct dt_cli_call *call);

/* run_request.c: one request and its answer, by the verb's row; a job may be named by topic and key. */
int dt_cli_run_request(struct dt_cli *cli);
/* Reads a resource, changes the members that the options name, and puts it. */
int dt_cli_run_set(struct dt_cli *cli);
int dt_cli_run_pop(struct dt_cli *cli);

/* run_request.c: a set of jobs by filter; an operation, until it has ended. */
int dt_cli_run_many(struct dt_cli *cli);
int dt_cli_run_follow(struct dt_cli *cli);
int dt_cli_run_delete(struct dt_cli *cli);

/* run_list.c: a list, page by page to its end; by DT_CLI_BY_EXPORT jobs as import takes them. */
int dt_cli_run_list(struct dt_cli *cli);

/* run_request.c: a job, until it is finished. */
int dt_cli_run_watch(struct dt_cli *cli);

/* run_import.c: many jobs, from a file or standard input. */
int dt_cli_run_import(struct dt_cli *cli);

/* run_status.c: what is wrong, as far as the API can tell. */
int dt_cli_run_doctor(struct dt_cli *cli);

/* run_status.c: one screen. */
int dt_cli_run_overview(struct dt_cli *cli);

/* run_status.c: what comes due, as a bar chart. */
int dt_cli_run_forecast(struct dt_cli *cli);

/* main.c: what needs no API. */
int dt_cli_run_help(struct dt_cli *cli);
int dt_cli_run_version(struct dt_cli *cli);
int dt_cli_run_completion(struct dt_cli *cli);

/*
 * Messages beside the data, on standard error: errors, refusals with their detail, and the exit codes that follow.
 */

/* "duetime: …" on standard error, without control characters. */
void dt_cli_say(const char *fmt, ...) DT_PRINTF(1, 2);

/* Says that a list is empty, to people; of JSON no line says that. */
void dt_cli_say_nothing(const struct dt_cli *cli);
/* Says why a request failed that has no answer, or whose answer cannot be read; the exit code. */
int dt_cli_failed(dt_status status, const struct dt_error *err);
/* The exit code for an answer, which is said when it is a refusal: title, detail, and each member that is wrong. */
int dt_cli_judge(const struct dt_cli *cli, const struct dt_rest_answer *answer);

/*
 * Asks and judges: the exit code. DONE: the answer is good, and json (borrowing answer) has its document, unless it is
 * NULL or the answer is empty; what a request other than GET has changed is added to cli->done.
 */
int dt_cli_ask(struct dt_cli *cli, const struct dt_rest_request *request, struct dt_rest_answer *answer, dt_json *json);

/*
 * Progress of what takes longer than a second, on standard error: how much, how fast, how long it still takes. At a
 * terminal one line that changes; elsewhere a line every ten seconds.
 */

struct dt_cli_progress {
    const dt_clock *clock;
    const char *what; /* "jobs" */
    bool terminal;
    int64_t begun_us, told_us;
};

void dt_cli_progress_begin(struct dt_cli_progress *progress, const dt_clock *clock, const char *what);
/* Tells how many are done, which are part/whole of all; whole 0: nobody knows how many there are. */
void dt_cli_progress_tell(struct dt_cli_progress *progress, int64_t done, int64_t part, int64_t whole);
/* Takes the line at the terminal away. */
void dt_cli_progress_end(struct dt_cli_progress *progress);

#endif
