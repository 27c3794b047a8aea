/* The outcome of a row in words: see create.h. */
#include "create.h"

static int say_invalid(struct dt_faults *faults, struct dt_problem *problem, const char *pointer, const char *reason)
{
    dt_faults_add(faults, pointer, reason);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID, .detail = dt_str(reason), .faults = faults};
    return 0;
}

static int say_misfit(struct dt_faults *faults, struct dt_problem *problem, const struct dt_callback_misfit *misfit)
{
    dt_faults_add_misfit(faults, misfit);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID,
                                   .detail = DT_STR_LIT("the job does not fit the delivery of its topic"),
                                   .faults = faults};
    return 0;
}

static int unit_failed(const struct dt_unit *unit, const struct dt_create *row, struct dt_problem *problem)
{
    *problem =
        (struct dt_problem){.type = dt_problem_of_status(unit->status), .detail = dt_str(dt_status_text(unit->status))};
    if (unit->status == DT_UNKNOWN)
        problem->id = row->row.job.id;
    return 0;
}

int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem)
{
    if (unit->status != DT_OK)
        return unit_failed(unit, row, problem);
    switch (row->row.outcome) {
    case DT_INSERT_CREATED:
        return 201;
    case DT_INSERT_SAME:
        return 200;
    case DT_INSERT_CONFLICT:
        *problem = (struct dt_problem){.type = DT_PROBLEM_KEY_CONFLICT,
                                       .detail = DT_STR_LIT("the key names a job that an unequal request made"),
                                       .id = row->row.existing_id};
        return 0;
    case DT_INSERT_NO_TOPIC:
        return say_invalid(faults, problem, "/topic",
                           "there is no such topic, and topics are not made by their first job");
    case DT_INSERT_REFUSED:
        if (row->misfit.reason)
            return say_misfit(faults, problem, &row->misfit);
        return say_invalid(faults, problem, "/topic", row->reason ? row->reason : "the job cannot be stored");
    case DT_INSERT_RESERVED:
        return say_invalid(faults, problem, "/key", "is that of a fire: a schedule makes the jobs with such keys");
    case DT_INSERT_ID_TAKEN:
        break;
    }
    *problem = (struct dt_problem){.type = DT_PROBLEM_INTERNAL};
    return 0;
}
