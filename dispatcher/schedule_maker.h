/*
 * The chore of a dispatcher that makes the jobs of schedules ahead of their times (features/schedules/schedules.h). The
 * chores of all dispatchers share the work; as long as one of them lives, all of it is done.
 */
#ifndef DT_DISPATCHER_SCHEDULE_MAKER_H
#define DT_DISPATCHER_SCHEDULE_MAKER_H

#include "intake.h"

typedef struct dt_schedule_maker dt_schedule_maker;

DT_MUST_CHECK dt_status dt_schedule_maker_start(const struct dt_intake_env *env, dt_schedule_maker **out,
                                                struct dt_error *err);
/* Says whether all is done until the next look that it knows of. Any thread. */
bool dt_schedule_maker_rests(dt_schedule_maker *maker);
/* It looks at schedules at once. Any thread. */
void dt_schedule_maker_wake(dt_schedule_maker *maker);
void dt_schedule_maker_leave(dt_schedule_maker *maker); /* no tick begins any more; does not wait */
void dt_schedule_maker_stop(dt_schedule_maker *maker);  /* accepts NULL */

#endif
