/* The problem (429) of what is over a quota. Pure. */
#ifndef DT_API_OVER_PROBLEM_H
#define DT_API_OVER_PROBLEM_H

#include "job/problem.h"
#include "meter.h"

/* Fills in the problem. */
void dt_over_problem(const struct dt_over *over, struct dt_problem *problem);

#endif
