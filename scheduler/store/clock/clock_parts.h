/* What the files of the test clock share: the lock under which it is changed, and the change of its row. */
#ifndef DT_STORE_CLOCK_PARTS_H
#define DT_STORE_CLOCK_PARTS_H

#include "store/clock/test_clock.h"
#include "store/db/db.h"

/* Locks the clock, and reads it. *db is the session, which may have the lock whatever is returned. UNSUPPORTED; BUSY:
 * another one has it. */
DT_MUST_CHECK dt_status dt_clock_lock(dt_store *store, dt_db **db, struct dt_test_clock *clock, struct dt_error *err);
/* Gives the lock back, if db has it. A session that cannot do so ends, and the lock with it. Accepts NULL. */
void dt_clock_unlock(dt_db *db);
/* Changes the row, if it is of the clock's version, and reads it, in one transaction. BUSY: it is not. The clock stays
 * as it was unless OK. */
DT_MUST_CHECK dt_status dt_clock_change(dt_db *db, const char *sql, struct dt_params params,
                                        struct dt_test_clock *clock, struct dt_error *err);

#endif
