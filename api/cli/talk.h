/*
 * Messages beside the data, on standard error: errors, refusals with their detail, and the exit codes that follow.
 */
#ifndef DT_CLI_TALK_H
#define DT_CLI_TALK_H

#include "base/text/json.h"
#include "cli.h"

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

#endif
