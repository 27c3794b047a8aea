/* The outcome of a row in words: see insert_problem.h. */
#include "insert_problem.h"
#include "jobs.h"

static bool say_invalid(struct dt_faults *faults, struct dt_problem *problem, const char *pointer, const char *reason)
{
    dt_faults_add(faults, pointer, reason);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID, .detail = dt_str(reason), .faults = faults};
    return false;
}

struct dt_problem dt_topic_deleting(void)
{
    return (struct dt_problem){.type = DT_PROBLEM_TOPIC_DELETING,
                               .detail = DT_STR_LIT("nothing new is taken for a topic that is being deleted")};
}

bool dt_insert_is_job(const struct dt_insert *row, const char *reason, struct dt_faults *faults,
                      struct dt_problem *problem)
{
    switch (row->outcome) {
    case DT_INSERT_CREATED:
    case DT_INSERT_SAME:
        return true;
    case DT_INSERT_CONFLICT:
        *problem = (struct dt_problem){.type = DT_PROBLEM_KEY_CONFLICT,
                                       .detail = DT_STR_LIT("the key names a job that an unequal request made"),
                                       .id = row->existing_id};
        return false;
    case DT_INSERT_NO_TOPIC:
        return say_invalid(faults, problem, "/topic",
                           "there is no such topic, and topics are not made by their first job");
    case DT_INSERT_REFUSED:
        return say_invalid(faults, problem, "/topic", reason ? reason : "the job cannot be stored");
    case DT_INSERT_TOO_LARGE:
        say_invalid(faults, problem, "/payload", "is larger than MySQL takes (max_allowed_packet)");
        problem->type = DT_PROBLEM_TOO_LARGE;
        return false;
    case DT_INSERT_RESERVED:
        say_invalid(faults, problem, "/key", "is that of a fire: a schedule makes the jobs with such keys");
        problem->detail = DT_STR_LIT("the key is that of a schedule's fire");
        return false;
    case DT_INSERT_DELETING:
        *problem = dt_topic_deleting();
        return false;
    case DT_INSERT_ID_TAKEN:
        break;
    }
    *problem = (struct dt_problem){.type = DT_PROBLEM_INTERNAL};
    return false;
}

void dt_job_misfits(const struct dt_callback_misfit *misfit, struct dt_faults *faults, struct dt_problem *problem)
{
    dt_faults_add_misfit(faults, misfit);
    *problem = (struct dt_problem){.type = DT_PROBLEM_INVALID,
                                   .detail = DT_STR_LIT("the job does not fit the delivery of its topic"),
                                   .faults = faults};
}
