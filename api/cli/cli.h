/* One run of the program: its words, its settings and its connection to the API. main.c fills in struct dt_cli and
 * passes it to the function of the verb. This header also declares messages on standard error, and progress. */
#pragma once

#include "base/clock.h"
#include "base/text/json.h"
#include "rest.h"
#include "words.h"

/* The exit codes; scripts depend on them. */
enum dt_cli_exit {
    DT_CLI_DONE = 0,
    DT_CLI_REFUSED = 1, /* the API refused the request, the request failed, or the doctor has findings */
    DT_CLI_USAGE = 2,
    DT_CLI_NOT_FOUND = 3,
    DT_CLI_UNREACHED = 4,
    DT_CLI_TOO_LATE = 5
};

enum dt_cli_form { DT_CLI_TABLE, DT_CLI_WIDE, DT_CLI_NAMES, DT_CLI_AS_JSON };

struct dt_cli {
    const struct dt_cli_call *call;
    struct dt_cli_settings settings;
    enum dt_cli_form form;
    unsigned width, height; /* size of the terminal on standard output; 0: not a terminal */
    bool colours;
    bool clear; /* each look of a --watch begins with an empty screen */
    const dt_clock *clock;
    int64_t heard_ms; /* the API's clock when it answered last, in whole seconds */
    dt_rest *rest;
    struct dt_strbuf done; /* changes that the API has made; printed if the output cannot be written */
};

/* ---- the functions of the verbs: each returns the exit code ---- */

typedef int dt_cli_run(struct dt_cli *cli);

/* run_request.c. Sends one request, described by the verb's row in the table, and shows the answer. A job may be named
 * by topic and key. */
int dt_cli_run_request(struct dt_cli *cli);
/* Reads a resource, changes the members that the options name, and stores it (PUT). */
int dt_cli_run_set(struct dt_cli *cli);
int dt_cli_run_pop(struct dt_cli *cli);
/* Changes the jobs that a filter chooses, by an operation. */
int dt_cli_run_many(struct dt_cli *cli);
/* Follows an operation until it has ended. */
int dt_cli_run_follow(struct dt_cli *cli);
int dt_cli_run_delete(struct dt_cli *cli);
/* Creates a token. Before the first one, says that every request will need a token, and asks at a terminal. */
int dt_cli_run_token(struct dt_cli *cli);
/* run_apply.c. Makes topics and schedules as a file says. */
int dt_cli_run_apply(struct dt_cli *cli);
/* Shows a job after each of its changes, until the job is finished. */
int dt_cli_run_watch(struct dt_cli *cli);
/* run_list.c. Shows a list, page by page. If the verb is DT_CLI_BY_EXPORT, writes jobs in the form that import
 * reads. */
int dt_cli_run_list(struct dt_cli *cli);
/* Calls fn with the name of each topic (list "topics") or schedule ("schedules"), page by page, until it returns
 * another code than DONE. Returns the last code. */
typedef int dt_cli_name(void *arg, const char *name);
int dt_cli_each_name(struct dt_cli *cli, const char *list, dt_cli_name *fn, void *arg);
/* Carries out the verb every two seconds, or at the --interval, until the user or the reader ends it. At a terminal
 * each look replaces the one before. */
int dt_cli_repeat(struct dt_cli *cli, dt_cli_run *run);
/* run_import.c. Creates many jobs, from a file or standard input. */
int dt_cli_run_import(struct dt_cli *cli);
/* run_status.c */
int dt_cli_run_doctor(struct dt_cli *cli);
int dt_cli_run_overview(struct dt_cli *cli);
int dt_cli_run_forecast(struct dt_cli *cli);

#define DT_CLI_TOPIC_MAX 200
/* run_find.c. If the verb shows a job, and the user gave one argument that is no id, looks for a job with this key in
 * all topics. Sets the arguments in *call to topic and key; `topic` keeps the topic's name. Returns DONE if the call
 * can be carried out. */
int dt_cli_find_topic_of_key(struct dt_cli *cli, struct dt_cli_call *call, char topic[DT_CLI_TOPIC_MAX + 1]);

/* ---- messages on standard error (talk.c) ---- */

/* Prints "duetime: …" on standard error, without control characters. */
void dt_cli_say(const char *fmt, ...) DT_PRINTF(1, 2);
/* Returns whether the program can ask the user: standard input and standard error are a terminal. */
bool dt_cli_may_ask(void);
/* Reads the answer to a question that was printed. Returns true if it is yes. */
bool dt_cli_confirmed(void);
/* Prints that the list is empty, unless the output is JSON. */
void dt_cli_say_nothing(const struct dt_cli *cli);
/* Prints why a request got no answer, or why its answer cannot be read. Returns the exit code. */
int dt_cli_failed(dt_status status, const struct dt_error *err);
/* Returns the exit code for an answer. If the API refused the request, prints title, detail, and each member with a
 * fault. */
int dt_cli_judge(const struct dt_cli *cli, const struct dt_rest_answer *answer);

/* Sends a request and returns the exit code for its answer. If the code is DONE, json is not NULL and the answer is not
 * empty, json holds the parsed answer, and borrows from `answer`. If the request is not a GET, adds the change to
 * cli->done. */
int dt_cli_ask(struct dt_cli *cli, const struct dt_rest_request *request, struct dt_rest_answer *answer, dt_json *json);

/* Progress of work that takes longer than a second: count, rate, time left. On a terminal it is one line that changes;
 * otherwise a new line every ten seconds. */

struct dt_cli_progress {
    const dt_clock *clock;
    const char *what; /* what is counted: the name of the list in the answer, for example "jobs" */
    bool terminal;
    int64_t begun_us, told_us;
};

void dt_cli_progress_begin(struct dt_cli_progress *progress, const dt_clock *clock, const char *what);
/* Shows that `done` items are done. part and whole: amount of work that is done, and of all work; whole 0: unknown. */
void dt_cli_progress_tell(struct dt_cli_progress *progress, int64_t done, int64_t part, int64_t whole);
/* Removes the progress line from the terminal. */
void dt_cli_progress_end(struct dt_cli_progress *progress);
