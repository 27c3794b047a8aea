/*
 * The quotas of new jobs, for the committer alone. It asks when a unit is submitted: rows over a quota of the caller's
 * token are refused before anything is done with them. It tells when the unit is done: jobs that were made are counted,
 * and what was let pass and not made is given back to the quota. Without a token both do nothing; for a token without
 * quotas the jobs that were made are counted, and nothing is refused.
 */
#ifndef DT_API_UNIT_QUOTA_H
#define DT_API_UNIT_QUOTA_H

#include "committer.h"

/* Lets rows pass, in their order, until one is over a quota: that one and all behind it are refused (unit->n_over). */
void dt_unit_ask_quota(struct dt_unit *unit, int64_t now_us);
/* Counts the jobs that were made, and gives back what was let pass and not made. unit->status is set by then. */
void dt_unit_tell_quota(const struct dt_unit *unit);
/* Says whether the row is over a quota; unit->over is why. */
static inline bool dt_unit_is_over(const struct dt_unit *unit, const struct dt_create *row)
{
    return unit->n_over > 0 && row >= unit->rows + (unit->n - unit->n_over);
}

#endif
