/* Times as people write them: now, today, yesterday, tomorrow (UTC), -1h, +P1D. Pure. */
#ifndef DT_CLI_TIMES_H
#define DT_CLI_TIMES_H

#include <stdint.h>

#include "words.h"

/* Room for the texts of a call's times; it lives as long as the call does. */
struct dt_cli_times {
    char text[DT_CLI_OPTIONS_MAX][25];
};

/* Puts RFC 3339 in place of each option's time that is written so, counted from now_ms; leaves every other value
 * alone. */
void dt_cli_fix_times(struct dt_cli_call *call, int64_t now_ms, struct dt_cli_times *room);

#endif
