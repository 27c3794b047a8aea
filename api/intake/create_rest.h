/* The outcome of a row that the committer has returned. Pure. */
#pragma once

#include "committer.h"
#include "job/problem.h"

/*
 * Returns the HTTP status. 201: the job was created. 200: a job with this key and an equal request exists
 * (row->row.existing_id). 0: *problem has the reason; its faults are in *faults, which must live as long.
 */
int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem);
