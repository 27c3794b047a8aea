/* The outcome of a row in words: see create.h. */
#include "create.h"

#include "job/change/insert_problem.h"
#include "job/change/jobs.h"
#include "request/quotas.h"

int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem)
{
    if (unit->status != DT_OK) {
        *problem = (struct dt_problem){.type = dt_problem_of_status(unit->status),
                                       .detail = dt_str(dt_status_text(unit->status))};
        if (unit->status == DT_UNKNOWN)
            problem->id = row->row.job.id;
        return 0;
    }
    if (dt_unit_is_over(unit, row)) {
        dt_over_problem(&unit->over, problem);
        return 0;
    }
    if (row->row.outcome == DT_INSERT_REFUSED && row->misfit.reason) {
        dt_job_misfits(&row->misfit, faults, problem);
        return 0;
    }
    if (!dt_insert_is_job(&row->row, row->reason, faults, problem))
        return 0;
    return row->row.outcome == DT_INSERT_CREATED ? 201 : 200;
}
