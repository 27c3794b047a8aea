/* What the files of the test clock share: the lease under which it is changed, and the change of its row. */
#ifndef DT_CLOCK_CLOCK_PARTS_H
#define DT_CLOCK_CLOCK_PARTS_H

#include "mysql/db.h"
#include "store/work_lease.h"
#include "clock.h"

/* Longer than a statement takes (api.database_timeout). A request that continues later than this finds its version of
 * the row gone. */
#define DT_CLOCK_LEASE ((struct dt_work_lease){.work = "clock", .ms = 20000})

/* Takes the lease of the clock, and reads it; the caller releases the lease, whatever is returned. UNSUPPORTED; BUSY:
 * another one has it. */
DT_MUST_CHECK dt_status dt_clock_lock(dt_store *store, struct dt_work_lease *lease, dt_db **db,
                                      struct dt_test_clock *clock, struct dt_error *err);
/* Changes the row, if it is of the clock's version, and reads it, in one transaction. BUSY: it is not. The clock stays
 * as it was unless OK. */
DT_MUST_CHECK dt_status dt_clock_change(dt_db *db, const char *sql, struct dt_params params,
                                        struct dt_test_clock *clock, struct dt_error *err);

#endif
