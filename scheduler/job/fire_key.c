/* Takes keys apart: see fire_key.h. Most keys are no fires', and end without a digit or an @ before the digits. */
#include "fire_key.h"

#include "base/text/timetext.h"

bool dt_fire_key_split(struct dt_str key, struct dt_str *name)
{
    size_t at = key.n;
    while (at > 0 && key.p[at - 1] >= '0' && key.p[at - 1] <= '9')
        at--;
    if (at < 2 || at == key.n || key.p[at - 1] != '@' || at - 1 > DT_SCHEDULE_NAME_MAX)
        return false;
    *name = (struct dt_str){key.p, at - 1};
    return true;
}

int64_t dt_fire_key_time_ms(struct dt_str key, struct dt_str name)
{
    const size_t first = name.n + 1;
    int64_t ms = 0;
    if (key.n <= first || key.p[name.n] != '@' || (key.p[first] == '0' && key.n > first + 1))
        return -1;
    for (size_t i = first; i < key.n; i++) {
        if (key.p[i] < '0' || key.p[i] > '9' || ms > DT_TIME_MAX_MS)
            return -1;
        ms = ms * 10 + (key.p[i] - '0');
    }
    return ms > DT_TIME_MAX_MS ? -1 : ms;
}
