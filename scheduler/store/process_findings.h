/* Findings of one process that others cannot see (table `process_findings`): each process writes its own when they
 * change, GET /v1/doctor reads them. */
#ifndef DT_STORE_PROCESS_FINDINGS_H
#define DT_STORE_PROCESS_FINDINGS_H

#include "store/store.h"

#define DT_PROCESS_FINDINGS_MAX 100 /* are read, of all processes together */

struct dt_process_finding {
    struct dt_str finding, subject, detail;
    struct dt_str process; /* the name of one that sees it; this and the next are not written */
    int64_t found_at_ms;
};

/* Puts these in place of what the process saw before, in one transaction. Rows of processes that are gone for an hour
 * go, too. */
DT_MUST_CHECK dt_status dt_store_put_findings(dt_store *store, int64_t process, const struct dt_process_finding *v,
                                              size_t n, struct dt_error *err);
/* Reads what processes that live see, each finding and subject once; outputs lie in the arena. */
DT_MUST_CHECK dt_status dt_store_findings(dt_store *store, struct dt_arena *arena, struct dt_process_finding **out,
                                          size_t *n, struct dt_error *err);

#endif
