/*
 * The body of a result, the same on the results topic and over REST. Pure: decodes an object that was parsed already.
 *
 *   {"job_id":"…","attempt":1,"status":"succeeded",
 *    "error":{"code":"…","message":"…"},"retry_after":"PT5M","finished_at":"…"}
 */
#ifndef DT_JOB_RESULT_JSON_H
#define DT_JOB_RESULT_JSON_H

#include "base/text/json_table.h"
#include "job/job_state.h"

/* Says which members of an object do not belong to its report; they are skipped. */
struct dt_result_beside {
    bool (*is)(struct dt_str name);
};

/*
 * Decodes a report. The caller sets out->job_id (< 0: the body must have it) and out->attempt (0: likewise); otherwise
 * the body may have it, and must agree. Texts are copied into the arena of the faults; those of the error are cut to
 * their limits at a character. beside: NULL = there is nothing. INVALID: faults were added. NOMEM.
 */
DT_MUST_CHECK dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body,
                                         const struct dt_result_beside *beside, struct dt_faults *faults,
                                         struct dt_result *out);

/* The word for an outcome that is a judgement: "applied", "duplicate", "stale". */
const char *dt_report_outcome(enum dt_outcome outcome);

/* A decimal id as in paths and bodies: digits only, no leading zero, > 0. */
bool dt_job_id_parse(struct dt_str text, int64_t *out);

#endif
