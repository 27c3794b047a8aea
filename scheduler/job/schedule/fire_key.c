/* Takes keys apart: see fire_key.h. Most keys are no fires', and end without a digit or an @ before the digits. */
#include "job/schedule/fire_key.h"

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
