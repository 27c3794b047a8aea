/*
 * Between the handlers that make jobs (handlers_create.c, handlers_batch.c): what an answer says about a row that the
 * committer gave back.
 */
#ifndef DT_API_CREATE_H
#define DT_API_CREATE_H

#include "committer.h"
#include "request/problem.h"

/*
 * 201: made. 200: a job with this key and an equal request exists (row->row.existing_id). 0: *problem says what is
 * wrong; its faults are put into *faults, which must live as long.
 */
int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem);

#endif
