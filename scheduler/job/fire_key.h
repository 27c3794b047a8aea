/*
 * Keys of fires: `<name of the schedule>@<nominal time, ms since 1970>`. Pure.
 */
#ifndef DT_SCHEDULES_FIRE_KEY_H
#define DT_SCHEDULES_FIRE_KEY_H

#include "base/text/strbuf.h"

#define DT_SCHEDULE_NAME_MAX 200

/* Says whether a key may be that of a fire; *name is the schedule's then. */
bool dt_fire_key_split(struct dt_str key, struct dt_str *name);
/* Reads the time of a key that begins with the name of its schedule. -1: no schedule writes it so. */
int64_t dt_fire_key_time_ms(struct dt_str key, struct dt_str name);

#endif
