/* Converts the member "alerts" of a topic from and to JSON. answer.h says how the secret in it is hidden and kept.
 * Pure. */
#pragma once

#include "job/job_json.h"
#include "topic/topics.h"

/* Reads the member "alerts"; a reader for the field table of a topic's body. If its secret is "***", stores "***" and
 * sets `keeps`. */
void dt_topic_alerts_decode(struct dt_json_reader *r, const struct dt_json_field *field,
                            const struct dt_json_node *node);
/* Replaces the secret "***" by the secret that the topic has. `there`: the topic as stored; NULL if it does not exist.
 * INVALID: the secret cannot be kept; see faults. NOMEM: memory ran out. */
dt_status dt_topic_alerts_keep(dt_json *json, const struct dt_topic *there, struct dt_faults *faults,
                               struct dt_topic *out);
/* Adds the member "alerts" to an answer; null if the topic has no alert settings. */
void dt_topic_alerts_add(struct dt_strbuf *out, const struct dt_topic *topic);
