/* Starts and stops the parts of the intake, in order. */
#include "intake.h"

struct dt_intake {
    struct dt_resting *schedules, *operations;
    dt_inbox_chore *inbox;
};

dt_status dt_intake_start(const struct dt_process_env *env, dt_intake **out, struct dt_error *err)
{
    dt_intake *intake = calloc(1, sizeof(*intake));
    if (!intake)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_schedule_maker_start(env, &intake->schedules, err);
    DT_THEN(status, dt_operation_runner_start(env, &intake->operations, err));
    DT_THEN(status, dt_inbox_chore_start(env, intake->operations, intake->schedules, &intake->inbox, err));
    if (status == DT_OK)
        *out = intake;
    else
        dt_intake_stop(intake);
    return status;
}

void dt_intake_clock_changed(dt_intake *intake)
{
    if (!intake)
        return;
    dt_resting_wake(intake->schedules);
    dt_resting_wake(intake->operations);
}

void dt_intake_leave(dt_intake *intake)
{
    if (!intake)
        return;
    dt_inbox_chore_leave(intake->inbox);
    if (intake->operations)
        dt_chore_stop(&intake->operations->chore);
    if (intake->schedules)
        dt_chore_stop(&intake->schedules->chore);
}

void dt_intake_stop(dt_intake *intake)
{
    if (!intake)
        return;
    dt_intake_leave(intake);
    /* The mover is stopped first, because it wakes the operation runner and the schedule maker. */
    dt_inbox_chore_stop(intake->inbox);
    dt_operation_runner_stop(intake->operations);
    dt_schedule_maker_stop(intake->schedules);
    free(intake);
}
