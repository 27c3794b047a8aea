/* Converts topics from and to JSON. Answers show "***" instead of secrets and of values of callback headers; a body
 * with "***" keeps the value that the topic has. Pure. */
#pragma once

#include "job/job_json.h"
#include "store/store.h"
#include "topic/topics.h"

struct dt_topic_setting {
    struct dt_topic topic;
    bool set_paused; /* the body has `paused` */
    bool keeps;      /* a value is "***", so dt_topic_callback_keep must replace it by the topic's value */
};
/* Decodes a body of PUT /v1/topics/{t}. A member that is omitted or null means the default. A body may have the members
 * that only answers show (name, effective, counts, …), so that a client can put an answer back. name: the name in the
 * path. */
dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                          struct dt_faults *faults, struct dt_topic_setting *out);

/* Adds a topic as JSON. counts: NULL in lists. out->failed: out of memory. */
void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *topic, const struct dt_topic_counts *counts);

/* Replaces each "***" in callback settings by the value that the topic has, unless the value could then be sent to a
 * place where it was not sent before. `there`: the topic as stored; NULL if it does not exist. *out: the topic to
 * store. json is scratch memory. INVALID: faults names the values that cannot be kept. NOMEM: memory ran out. */
dt_status dt_topic_callback_keep(dt_json *json, const struct dt_topic *there, const struct dt_topic_setting *setting,
                                 struct dt_faults *faults, struct dt_topic *out);
