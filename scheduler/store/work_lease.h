/*
 * Leases for what one process at a time does, in seconds or minutes: partitions, an advance of the test clock. A lease
 * is a row of work_leases. The holder renews it while it works; if the holder dies, the lease expires. It protects
 * nothing: a holder that was stopped for long may go on beside the next one, so what is written is guarded by versions,
 * or may be written twice without harm. Which dispatcher leads a shard: store_leases.h.
 */
#ifndef DT_STORE_WORK_LEASE_H
#define DT_STORE_WORK_LEASE_H

#include "store.h"

struct dt_work_lease {
    const char *work;   /* in: its name; borrowed */
    int64_t ms;         /* in: how long the lease lasts after it was taken or renewed */
    int64_t holder;     /* a random number */
    int64_t renewed_us; /* mono: when it was taken or renewed; 0 = it is not held */
};
/* Takes the lease. BUSY: somebody else has it. */
DT_MUST_CHECK dt_status dt_work_lease_take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Renews it if a third of its time has passed. BUSY: it had ended, and somebody else has it. */
DT_MUST_CHECK dt_status dt_work_lease_keep(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Ends it if it is held. A lease that cannot be released ends by itself. */
void dt_work_lease_release(dt_store *store, struct dt_work_lease *lease);

#endif
