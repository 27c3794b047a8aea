/* Converts the member "alerts" of a topic from and to JSON; its secret is as in answer.h. Pure. */
#pragma once

#include "job/job_json.h"
#include "topic/topics.h"

/* Reads the member, for the table of a topic's body. A secret "***" is read as it is, and sets `keeps`. */
void dt_topic_alerts_decode(struct dt_json_reader *r, const struct dt_json_field *field,
                            const struct dt_json_node *node);
/* Replaces "***" by the secret that the topic has. `there`: the topic as stored; NULL: there is none. INVALID: the
 * secret cannot be kept; see faults. NOMEM. */
DT_MUST_CHECK dt_status dt_topic_alerts_keep(dt_json *json, const struct dt_topic *there, struct dt_faults *faults,
                                             struct dt_topic *out);
/* Adds the member to an answer; null if the topic has none. */
void dt_topic_alerts_add(struct dt_strbuf *out, const struct dt_topic *topic);
