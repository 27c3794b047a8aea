/* Fixes times once a call, so that all pages of a list have the same ones: see times.h. */
#include "times.h"

#include <string.h>

#include "base/assert.h"
#include "base/text/timetext.h"

#define DAY_MS INT64_C(86400000)

static const struct {
    const char *word;
    int64_t days;
} days[] = {{"yesterday", -1}, {"today", 0}, {"tomorrow", 1}};

void dt_cli_fix_times(struct dt_cli_call *call, int64_t now_ms, struct dt_cli_times *room)
{
    for (unsigned i = 0; i < call->n_given; i++) {
        const char *takes = call->given[i].option->takes;
        const char *text = call->given[i].value;
        int64_t length_ms;
        int64_t ms = -1; /* none of our words */
        if (!takes || strcmp(takes, "TIME") != 0)
            continue;
        if (strcmp(text, "now") == 0)
            ms = now_ms;
        else if ((text[0] == '-' || text[0] == '+') && dt_duration_parse(dt_str(text + 1), &length_ms) == DT_OK)
            ms = now_ms + (text[0] == '-' ? -length_ms : length_ms);
        for (size_t day = 0; day < sizeof(days) / sizeof(days[0]); day++)
            if (strcmp(text, days[day].word) == 0)
                ms = now_ms - now_ms % DAY_MS + days[day].days * DAY_MS;
        if (ms < 0)
            continue;
        dt_assert_cmp(i, <, DT_CLI_OPTIONS_MAX);
        dt_time_format(ms, room->text[i]);
        call->given[i].value = room->text[i];
    }
}
