/* See progress.h. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#define SECOND_US INT64_C(1000000)

void dt_cli_progress_begin(struct dt_cli_progress *progress, const dt_clock *clock, const char *what)
{
    int64_t now_us = dt_clock_mono_us(clock);
    *progress = (struct dt_cli_progress){clock, what, isatty(STDERR_FILENO), now_us, now_us};
}

void dt_cli_progress_tell(struct dt_cli_progress *progress, int64_t done, int64_t part, int64_t whole)
{
    int64_t now_us = dt_clock_mono_us(progress->clock);
    int64_t took_us = now_us - progress->begun_us;
    if (now_us - progress->told_us < (progress->terminal ? SECOND_US : 10 * SECOND_US))
        return;
    progress->told_us = now_us;
    fprintf(stderr, "%s%lld %s, %.0f/s", progress->terminal ? "\r" : "", (long long)done, progress->what,
            (double)done * SECOND_US / (double)took_us);
    if (whole > 0 && part > 0)
        fprintf(stderr, ", %.0f %%, %.0f s left", 100.0 * (double)part / (double)whole,
                (double)took_us / SECOND_US * (double)(whole - part) / (double)part);
    fputs(progress->terminal ? "\033[K" : "\n", stderr);
}

void dt_cli_progress_end(struct dt_cli_progress *progress)
{
    if (progress->terminal && progress->told_us != progress->begun_us)
        fputs("\r\033[K", stderr);
}
