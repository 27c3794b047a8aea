/* Converts operations from and to JSON. Pure. */
#pragma once

#include "features/operations/operations.h"
#include "job/job_json.h"

#define DT_OPERATION_WAIT_MS     5000
#define DT_OPERATION_WAIT_MAX_MS 60000

struct dt_operation_body {
    struct dt_operation_ask ask; /* the request; the arena of the faults has its texts, and `bound` is not set */
    bool dry_run;
    int64_t wait_ms; /* how long the answer waits, at most, until the operation ends */
};
/* Decodes a body of POST /v1/jobs:cancel, :reschedule, :redrive or :run-now. now_ms: MySQL's clock. INVALID: faults has
 * at least one fault. NOMEM: memory ran out. */
dt_status dt_operation_decode(const dt_json *json, const struct dt_job_rules *rules, enum dt_operation_kind kind,
                              int64_t now_ms, struct dt_faults *faults, struct dt_operation_body *out);

/* Adds an operation as JSON. id 0: a dry run, which is not stored. */
void dt_operation_add(struct dt_strbuf *out, const struct dt_operation *op);
