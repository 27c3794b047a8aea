/*
 * Quotas of new jobs: which rows of a unit are let pass, and what became of them. Nothing is looked at for a caller
 * without a token, and no row for a token without quotas before it was made.
 */
#ifndef DT_API_UNIT_QUOTA_H
#define DT_API_UNIT_QUOTA_H

#include "committer.h"

/* Lets rows pass, in their order, until one is over a quota: that one and all behind it are refused (unit->n_over). */
void dt_unit_ask_quota(struct dt_unit *unit, int64_t now_us);
/* Counts what was made; what was let pass and not made is given back. unit->status is set. */
void dt_unit_tell_quota(const struct dt_unit *unit);
/* Says whether the row is over a quota; unit->over is why. */
static inline bool dt_unit_is_over(const struct dt_unit *unit, const struct dt_create *row)
{
    return unit->n_over > 0 && row >= unit->rows + (unit->n - unit->n_over);
}

#endif
