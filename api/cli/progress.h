/*
 * Progress of what takes longer than a second, on standard error: how much, how fast, how long it still takes. At a
 * terminal one line that changes; elsewhere a line every ten seconds.
 */
#ifndef DT_CLI_PROGRESS_H
#define DT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

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
