/*
 * The callback settings of a topic between JSON and the domain. Answers show neither secrets nor values of headers:
 * they have "***" in their place, and a body with "***" keeps what is there (topic_secret.h). Pure.
 */
#ifndef DT_API_TOPIC_CALLBACK_H
#define DT_API_TOPIC_CALLBACK_H

#include "job_json.h"

/* Reads the members callback_url, callback_hosts, callback_timeout, callback_headers and callback_secret of a body.
 * "***" stays as it is, and sets setting->keeps. Faults are added; texts are copied into their arena. */
void dt_topic_callback_url(const struct dt_json_node *node, const struct dt_job_rules *rules, struct dt_faults *faults,
                           struct dt_topic_setting *setting);
void dt_topic_callback_hosts(const dt_json *json, const struct dt_json_node *node, const struct dt_job_rules *rules,
                             struct dt_faults *faults, struct dt_topic_setting *setting);
void dt_topic_callback_timeout(const struct dt_json_node *node, struct dt_faults *faults,
                               struct dt_topic_setting *setting);
void dt_topic_callback_headers(const dt_json *json, const struct dt_json_node *node, const struct dt_job_rules *rules,
                               struct dt_faults *faults, struct dt_topic_setting *setting);
void dt_topic_callback_secret(const struct dt_json_node *node, struct dt_faults *faults,
                              struct dt_topic_setting *setting);
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
