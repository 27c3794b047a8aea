/*
 * Jobs and topics between JSON and the domain: how a job reads in an answer, what a caller may write into the body of a
 * topic. How a body that makes or changes a job is read stands in scheduler/job/job_decode.h. Pure: no I/O, no
 * clock, no HTTP.
 */
#ifndef DT_API_JOB_JSON_H
#define DT_API_JOB_JSON_H

#include "job/change/jobs.h"
#include "job/job_decode.h"
#include "job/job_encode.h"
#include "store/store.h"
#include "topic/topics.h"

struct dt_topic_setting {
    struct dt_topic topic;
    bool set_paused; /* `paused` is given */
    bool keeps;      /* some "***" stands for what the topic has: dt_topic_callback_keep */
};
/*
 * Decodes a body of PUT /v1/topics/{t}: omitted or null = the default. What an answer shows and nobody can set (name,
 * effective, counts, …) may stand in it, so that an answer can be put back. name: from the path.
 */
DT_MUST_CHECK dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                                        struct dt_faults *faults, struct dt_topic_setting *out);

/* ---- answers ---- */

/* Adds an element of GET /v1/jobs/{id}/attempts. out->failed: memory is out, here and below. */
void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt);
/* Adds a topic. counts may be NULL (lists). */
void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *topic, const struct dt_topic_counts *counts);

#endif
