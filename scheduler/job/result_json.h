/*
 * The body of a result, the same on the results topic and over REST. Pure: decodes an object that was parsed already.
 *
 *   {"job_id":"…","attempt":1,"status":"succeeded",
 *    "error":{"code":"…","message":"…"},"retry_after":"PT5M","finished_at":"…"}
 */
#ifndef DT_JOB_RESULT_JSON_H
#define DT_JOB_RESULT_JSON_H

#include "base/json.h"
#include "job/job_state.h"

/* Called for each member that is missing, unknown or wrong; pointer is a JSON pointer, reason a sentence. */
typedef void dt_bad_member_fn(void *arg, const char *pointer, const char *reason);

/*
 * Fills *out (slices borrow the document). job_id < 0 in the call: the body must carry it (Kafka); otherwise it may,
 * and must agree. INVALID when `bad` was called at least once. error texts are cut to their limits at a character.
 */
DT_MUST_CHECK dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body, int64_t job_id,
                                         struct dt_result *out, dt_bad_member_fn *bad, void *arg);

/*
 * Decodes the report in an answer to one attempt. The caller sets out->job_id and out->attempt; the body may carry them
 * and must agree. Everything else is as of dt_result_decode.
 */
DT_MUST_CHECK dt_status dt_result_decode_answer(const dt_json *json, const struct dt_json_node *body,
                                                struct dt_result *out, dt_bad_member_fn *bad, void *arg);

/* Decodes a report whose object has members beside it, of which beside() says so; they are passed by. The caller sets
 * out->job_id, as job_id of dt_result_decode, and everything else is as of that. */
DT_MUST_CHECK dt_status dt_result_decode_beside(const dt_json *json, const struct dt_json_node *body,
                                                bool (*beside)(struct dt_str name), struct dt_result *out,
                                                dt_bad_member_fn *bad, void *arg);

/* A decimal id as in paths and bodies: digits only, no leading zero, > 0. */
bool dt_job_id_parse(struct dt_str text, int64_t *out);

#endif
