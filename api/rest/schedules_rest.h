/* Converts schedules from and to JSON. Pure. */
#pragma once

#include "features/schedules/schedules.h"
#include "job/job_json.h"

struct dt_schedule_body {
    struct dt_schedule schedule;
    bool set_paused; /* the body has `paused` */
};
/* Decodes a body of PUT /v1/schedules/{name} or POST /v1/schedules:preview. In a preview, name is absent, and the topic
 * may be. A body may have the members that only answers show, so that a client can put an answer back. Does not check
 * that the time zone exists. Returns the statuses of dt_job_decode. */
dt_status dt_schedule_decode(const dt_json *json, const struct dt_job_rules *rules, struct dt_str name,
                             struct dt_faults *faults, struct dt_schedule_body *out);

/* Checks the name of a schedule: 1 to 200 characters of [A-Za-z0-9._-]. Returns NULL if it is valid; otherwise the
 * reason, static text. */
const char *dt_schedule_name_check(struct dt_str name);

/* Adds a schedule as JSON. next_ms: time of its next fire; 0: none. payload: include the payload. out->failed: out of
 * memory. */
void dt_schedule_add(struct dt_strbuf *out, const struct dt_schedule *s, int64_t next_ms, bool payload);
