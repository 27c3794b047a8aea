/*
 * Makes the jobs of schedules ahead of their times. One thread a process; those of several processes share the work, and
 * who of them lives makes all of it.
 */
#ifndef DT_DISPATCHER_SCHEDULE_MAKER_H
#define DT_DISPATCHER_SCHEDULE_MAKER_H

#include "intake.h"

typedef struct dt_schedule_maker dt_schedule_maker;

DT_MUST_CHECK dt_status dt_schedule_maker_start(const struct dt_intake_env *env, dt_schedule_maker **out,
                                                struct dt_error *err);
void dt_schedule_maker_stop(dt_schedule_maker *maker); /* joins, frees; NULL is accepted */

#endif
