/*
 * A report on an attempt, between JSON and words, for the handlers that take one or many. Pure.
 */
#ifndef DT_API_REPORT_JSON_H
#define DT_API_REPORT_JSON_H

#include "base/json.h"
#include "job/job_state.h"
#include "job/request/problem.h"

/*
 * Decodes the root of json; its texts are copied into the arena of the faults. job_id: of the path; -1 = the body must
 * have it. INVALID: faults has at least one. NOMEM.
 */
DT_MUST_CHECK dt_status dt_report_decode(const dt_json *json, int64_t job_id, struct dt_faults *faults,
                                         struct dt_result *out);
/* The word for an outcome that is a judgement: "applied", "duplicate", "stale". */
const char *dt_report_outcome(enum dt_outcome outcome);

#endif
