/* See unit_quota.h. */
#include "intake/unit_quota.h"

#include "auth/auth.h"
#include "base/assert.h"

static struct dt_tenant *tenant_of(const struct dt_unit *unit)
{
    return unit->caller ? unit->caller->tenant : NULL;
}

void dt_unit_ask_quota(struct dt_unit *unit, int64_t now_us)
{
    struct dt_tenant *tenant = tenant_of(unit);
    size_t n = 0;
    unit->n_over = 0;
    if (!tenant || !dt_tenant_limits_jobs(tenant))
        return;
    while (n < unit->n && dt_tenant_job(tenant, (int64_t)unit->rows[n].row.job.payload.n, now_us, &unit->over))
        n++;
    unit->n_over = unit->n - n;
    if (unit->n_over > 1)
        dt_tenant_refuse(tenant, &unit->over, (int64_t)unit->n_over - 1);
    for (size_t i = n; i < unit->n; i++)
        unit->rows[i].row.outcome = DT_INSERT_REFUSED;
}

void dt_unit_tell_quota(const struct dt_unit *unit)
{
    struct dt_tenant *tenant = tenant_of(unit);
    struct dt_jobs_done done = {0};
    dt_assert_cmp(unit->n_over, <=, unit->n);
    if (!tenant)
        return;
    for (size_t i = 0; i < unit->n - unit->n_over; i++) {
        const struct dt_insert *row = &unit->rows[i].row;
        const bool made = unit->status == DT_UNKNOWN || (unit->status == DT_OK && row->outcome == DT_INSERT_CREATED);
        done.passed++;
        done.passed_bytes += (int64_t)row->job.payload.n;
        done.made += made;
        done.made_bytes += made ? (int64_t)row->job.payload.n : 0;
    }
    dt_tenant_jobs_done(tenant, &done);
}
