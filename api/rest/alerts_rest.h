/*
 * The member "alerts" of a topic between JSON and the domain. Answers never show its secret: they have "***" in its
 * place, and a body with "***" keeps the secret that is there (topics_rest.h). Pure.
 */
#ifndef DT_API_ALERTS_REST_H
#define DT_API_ALERTS_REST_H

#include "job/job_decode.h"
#include "topic/topics.h"

/* Reads the member, for the table of a topic's body. A secret of "***" stays as it is, and sets `keeps`. */
void dt_topic_alerts_decode(struct dt_json_reader *r, const struct dt_json_field *field,
                            const struct dt_json_node *node);
/* Puts the topic's secret in the place of "***". `there`: the topic as it is; NULL: there is none. INVALID: faults has
 * what cannot be kept. NOMEM. */
DT_MUST_CHECK dt_status dt_topic_alerts_keep(dt_json *json, const struct dt_topic *there, struct dt_faults *faults,
                                             struct dt_topic *out);
/* Adds the member to an answer: null where the topic says nothing. */
void dt_topic_alerts_add(struct dt_strbuf *out, const struct dt_topic *topic);

#endif
