/* The outcome of a row that was to be a new job, in words for whoever asked for it. Pure. */
#ifndef DT_JOB_INSERT_PROBLEM_H
#define DT_JOB_INSERT_PROBLEM_H

#include "job/delivery.h"
#include "job/problem.h"
#include "jobs.h"
#include "store/store.h"

/*
 * Says whether the row is a job now, or was before (CREATED, SAME). Otherwise *problem says what is wrong; its faults
 * are put into *faults, which must live as long. reason: of REFUSED, may be NULL.
 */
bool dt_insert_is_job(const struct dt_insert *row, const char *reason, struct dt_faults *faults,
                      struct dt_problem *problem);
/* The problem of a job that does not fit the delivery of its topic. */
void dt_job_misfits(const struct dt_callback_misfit *misfit, struct dt_faults *faults, struct dt_problem *problem);

/* The problem of whatever would be new in a topic that is being deleted. */
struct dt_problem dt_topic_deleting(void);

#endif
