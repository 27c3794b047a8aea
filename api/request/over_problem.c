/* See over_problem.h. */
#include "over_problem.h"

void dt_over_problem(const struct dt_over *over, struct dt_problem *problem)
{
    *problem = (struct dt_problem){.type = DT_PROBLEM_QUOTA_EXCEEDED,
                                   .detail = dt_str(dt_quota_detail(over->quota)),
                                   .quota = dt_quota_name(over->quota),
                                   .limit = over->limit,
                                   .retry_after_ms = over->retry_after_ms};
}
