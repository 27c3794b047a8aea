/*
 * Jobs and topics between JSON and the domain: how a job reads in an answer, what a caller may write into the body of a
 * topic. How a body that makes or changes a job is read stands in scheduler/job/job_decode.h. Pure: no I/O, no
 * clock, no HTTP.
 */
#ifndef DT_API_TOPICS_REST_H
#define DT_API_TOPICS_REST_H

#include "features/operations/topic_deletion.h"
#include "job/change/jobs.h"
#include "job/job_decode.h"
#include "job/job_encode.h"
#include "request/request.h"
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

/* Adds a topic. counts may be NULL (lists). */
void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *topic, const struct dt_topic_counts *counts);

/*
 * The callback settings of a topic between JSON and the domain. Answers show neither secrets nor values of headers:
 * they have "***" in their place, and a body with "***" keeps what is there (topic_secret.h). Pure.
 */

/* Read the members callback_hosts and callback_headers, for the table of a topic's body. A value "***" stays as it is,
 * and sets `keeps`. */
void dt_topic_callback_hosts(struct dt_json_reader *r, const struct dt_json_field *field,
                             const struct dt_json_node *node);
void dt_topic_callback_headers(struct dt_json_reader *r, const struct dt_json_field *field,
                               const struct dt_json_node *node);
/* Compares what belongs together, when all members were read. */
void dt_topic_callback_compare(const struct dt_job_rules *rules, struct dt_faults *faults,
                               const struct dt_topic_setting *setting);

/*
 * Puts what the topic has in the place of each "***", unless it could then go to a place where it could not go before.
 * `there`: the topic as it is; NULL: there is none. *out: the topic as it is to be put. json is scratch. INVALID:
 * faults has what cannot be kept. NOMEM.
 */
DT_MUST_CHECK dt_status dt_topic_callback_keep(dt_json *json, const struct dt_topic *there,
                                               const struct dt_topic_setting *setting, struct dt_faults *faults,
                                               struct dt_topic *out);

/* Adds the members to an answer, without what is secret; out->failed: memory is out. */
void dt_topic_callback_add(struct dt_strbuf *out, const struct dt_topic *topic);

/* What the handlers of topics share with the operation that deletes one with its jobs. */

/* Refuses the request: jobs of the topic are not finished, or a schedule makes some. */
enum dt_next dt_topic_refuse_deletion(struct dt_request *req, const struct dt_topic_deletion *deletion);
/* After a change of topics or shards: this process reads them again, and the dispatchers are notified. */
void dt_topics_announce(struct dt_request *req);

#endif
