/* Converts a row that the committer has returned to an answer. Pure. */
#pragma once

#include "committer.h"
#include "job/problem.h"

/* Returns the HTTP status of a row. 201: the job was created. 200: an earlier equal request has created the job with
 * this key (row->row.existing_id). 0: refused; *problem has the reason, and borrows *faults. */
int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem);
