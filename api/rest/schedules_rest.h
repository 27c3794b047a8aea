/* The names of schedules. */
#pragma once

#include "features/schedules/schedules.h"

/* Checks the name of a schedule: 1 to 200 characters of [A-Za-z0-9._-]. Returns NULL if it is valid; otherwise the
 * reason, static text. */
const char *dt_schedule_name_check(struct dt_str name);
