/*
 * Operations between JSON and the domain: what a caller may ask for all jobs that a filter finds, and how an operation
 * reads in an answer. Pure: no I/O, no clock, no HTTP.
 */
#ifndef DT_API_OPERATIONS_REST_H
#define DT_API_OPERATIONS_REST_H

#include "features/operations/operations.h"
#include "job/job_decode.h"

#define DT_OPERATION_WAIT_MS     5000
#define DT_OPERATION_WAIT_MAX_MS 60000

struct dt_operation_body {
    struct dt_operation_ask ask; /* its texts are in the arena of the faults; bound is not set */
    bool dry_run;
    int64_t wait_ms; /* for the end, at most */
};
/* Decodes a body of POST /v1/jobs:cancel and its like. now_ms: MySQL's clock. INVALID: faults has at least one.
 * NOMEM. */
DT_MUST_CHECK dt_status dt_operation_decode(const dt_json *json, const struct dt_job_rules *rules,
                                            enum dt_operation_kind kind, int64_t now_ms, struct dt_faults *faults,
                                            struct dt_operation_body *out);

/* Says whether the topic of a filter is the beginning of names. */
bool dt_operation_topic_is_prefix(struct dt_str topic);

/* Adds an operation; id 0: a dry run, of which nothing is kept. */
void dt_operation_add(struct dt_strbuf *out, const struct dt_operation *op);

#endif
