/*
 * A job as JSON, the same in answers of the API and in dead letters. Pure: appends to a buffer, member by member in a
 * fixed order. Stored text that people may have edited by SQL never breaks the JSON around it.
 */
#ifndef DT_JOB_JOB_ENCODE_H
#define DT_JOB_JOB_ENCODE_H

#include "base/text/json.h"
#include "base/text/json_write.h"
#include "job.h"

struct dt_job_view {
    bool payload;            /* show it */
    const char *waiting_for; /* NULL = null */
    const char *outcome;     /* of a result; NULL = no such member */
    int64_t deadline_ms;     /* of a pop: until then a report is waited for; 0 = no such member */
    /* A parser to check stored payload and headers with: a payload that is no JSON is shown as base64, such headers are
     * left out; when the parser finds no memory, the buffer fails. NULL: they come from a request that was checked. */
    dt_json *check;
};
void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view);
/* Adds a job that was read from the store, with a parser of its own: for callers in no hurry. */
void dt_job_add_json(struct dt_strbuf *out, const struct dt_job *job, bool with_payload, const char *waiting_for);

/* Adds a canonical (or manually edited) retry schedule as a JSON list; name: NULL, or that of a member. */
void dt_retry_put(struct dt_strbuf *out, const char *name, struct dt_str retry);

#endif
