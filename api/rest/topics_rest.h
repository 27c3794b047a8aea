/*
 * Converts topics from and to JSON. Answers show neither secrets nor values of callback headers: they have "***" in
 * their place, and a body with "***" keeps the value that the topic has. Pure.
 */
#pragma once

#include "job/job_json.h"
#include "store/store.h"
#include "topic/topics.h"

struct dt_topic_setting {
    struct dt_topic topic;
    bool set_paused; /* `paused` is given */
    bool keeps;      /* "***" stands for a value that the topic has: dt_topic_callback_keep */
};
/*
 * Decodes a body of PUT /v1/topics/{t}: omitted or null = the default. A body may have the members that only answers
 * show (name, effective, counts, …), so that a client can put an answer back. name: from the path.
 */
DT_MUST_CHECK dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                                        struct dt_faults *faults, struct dt_topic_setting *out);

/* Adds a topic. counts may be NULL (lists). out->failed: out of memory. */
void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *topic, const struct dt_topic_counts *counts);

/*
 * Replaces each "***" in callback settings by the value that the topic has, unless the value could then be sent to a
 * place where it was not sent before. `there`: the topic as stored; NULL: there is none. *out: the topic to store. json
 * is scratch. INVALID: faults has what cannot be kept. NOMEM.
 */
DT_MUST_CHECK dt_status dt_topic_callback_keep(dt_json *json, const struct dt_topic *there,
                                               const struct dt_topic_setting *setting, struct dt_faults *faults,
                                               struct dt_topic *out);
