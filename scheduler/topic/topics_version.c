/* The step is random, and processes compare versions only for equality. If each step were one, a MySQL that was
 * restored from an older copy would reach the same versions again, with other settings. A process that read such a
 * version before the restore would then keep outdated settings. */
#include "topics.h"

#include <sys/random.h>

#include "mysql/statements.h"

dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    const int64_t step = (int64_t)random + 1;
    return dt_db_run(db, dt_sql_raise_topics_version, DT_PARAMS(DT_P_INT(step)), NULL, err);
}
