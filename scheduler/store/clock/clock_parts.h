/* What the files of the test clock share: the lock under which it is changed, and the change of its row. */
#ifndef DT_STORE_CLOCK_PARTS_H
#define DT_STORE_CLOCK_PARTS_H

#include "store/clock/test_clock.h"
#include "store/db/db.h"

/* Reads a number; 0 for NULL, and where there is no row. */
DT_MUST_CHECK dt_status dt_clock_number(dt_db *db, const char *sql, struct dt_params params, int64_t *out,
                                        struct dt_error *err);
/* Locks the clock, and reads it. *db is the session that has the lock, NULL: none has. UNSUPPORTED, BUSY. */
DT_MUST_CHECK dt_status dt_clock_lock(dt_store *store, dt_db **db, struct dt_test_clock *clock, struct dt_error *err);
/* Gives the lock back that db has, if there is one, and reads the clock again where `status` is OK. Returns the
 * status, or that of reading. */
DT_MUST_CHECK dt_status dt_clock_unlock(dt_store *store, dt_db *db, dt_status status, struct dt_test_clock *clock,
                                        struct dt_error *err);
/* Changes the row, if it is of the clock's version, which rises. BUSY: it is not. */
DT_MUST_CHECK dt_status dt_clock_change(dt_db *db, const char *sql, struct dt_params params,
                                        struct dt_test_clock *clock, struct dt_error *err);
/* Lets the clock go on from an instant. */
DT_MUST_CHECK dt_status dt_clock_go_on(dt_db *db, int64_t from_ms, struct dt_test_clock *clock, struct dt_error *err);

#endif
