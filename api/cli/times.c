/* Fixes times once a call, so that all pages of a list have the same ones: see times.h. */
#include "times.h"

#include <string.h>

#include "base/text/timetext.h"

#define DAY_MS INT64_C(86400000)

static const struct {
    const char *word;
    int64_t days;
} days[] = {{"yesterday", -1}, {"today", 0}, {"tomorrow", 1}};

/* False: it is none of our words. */
static bool read_time(const char *text, int64_t now_ms, int64_t *ms)
{
    int64_t length_ms;
    *ms = now_ms;
    if (strcmp(text, "now") == 0)
        return true;
    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++)
        if (strcmp(text, days[i].word) == 0) {
            *ms = now_ms - now_ms % DAY_MS + days[i].days * DAY_MS;
            return true;
        }
    if ((text[0] != '-' && text[0] != '+') || dt_duration_parse(dt_str(text + 1), &length_ms) != DT_OK)
        return false;
    *ms += text[0] == '-' ? -length_ms : length_ms;
    return *ms >= 0;
}

void dt_cli_fix_times(struct dt_cli_call *call, int64_t now_ms, struct dt_cli_times *room)
{
    int64_t ms;
    for (unsigned i = 0; i < call->n_given; i++) {
        const char *takes = call->given[i].option->takes;
        if (!takes || strcmp(takes, "TIME") != 0 || !read_time(call->given[i].value, now_ms, &ms))
            continue;
        dt_time_format(ms, room->text[i]);
        call->given[i].value = room->text[i];
    }
}
