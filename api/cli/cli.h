/*
 * One run of the program: what was asked, the settings in force, the connection to the API. Made by main.c, handed to
 * the function that carries out the verb.
 */
#ifndef DT_CLI_CLI_H
#define DT_CLI_CLI_H

#include <stdbool.h>

#include "base/clock.h"
#include "rest.h"
#include "settings.h"
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

#endif
