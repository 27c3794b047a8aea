/*
 * The callback settings of a topic between JSON and the domain. Answers show neither secrets nor values of headers:
 * they have "***" in their place, and a body with "***" keeps what is there (topic_secret.h). Pure.
 */
#ifndef DT_API_TOPIC_CALLBACK_H
#define DT_API_TOPIC_CALLBACK_H

#include "job_json.h"
#include "topic/topics.h"

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

#endif
