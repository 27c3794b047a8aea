/* The CloudEvents attributes of an attempt or of its dead letter (CloudEvents 1.0). Each delivery writes the attributes
 * of this list into its own kind of headers. Pure. */
#pragma once

#include "base/status.h"
#include "base/text/json.h"
#include "base/text/strbuf.h"
#include "dispatch/leader.h"

struct dt_cloud_event {
    int64_t job, attempt;
    const char *id_suffix; /* text after <job>/<attempt> in the event's id */
    const char *installation;
    struct dt_str type;
    struct dt_str key; /* the key that the caller gave to the job; absent: the subject of the event is the job's id */
    int64_t time_ms;
    int64_t scheduled_ms; /* due time of the job; 0: the attribute is omitted */
};

/* Returns the event of an attempt that is sent now. Its texts are borrowed from `from`. */
struct dt_cloud_event dt_cloud_event_of(const struct dt_outgoing *from, const char *installation, int64_t now_ms);

/* An attribute. Its name is that of the Kafka binding, for example "ce_id"; the HTTP binding has a hyphen in place of
 * the underscore. */
struct dt_cloud_event_attribute {
    const char *name; /* static text */
    struct dt_str value;
};
#define DT_CLOUD_EVENT_ATTRIBUTES 10

/* Fills out with the *n attributes of the event, in a fixed order. Values are in the arena, or borrowed from the event.
 * If it returns NOMEM, out is undefined. */
dt_status dt_cloud_event_attributes(const struct dt_cloud_event *event, struct dt_arena *arena,
                                    struct dt_cloud_event_attribute out[DT_CLOUD_EVENT_ATTRIBUTES], size_t *n);

/*
 * Reads the headers that a caller gave to a job or a topic, from the stored JSON, for all deliveries. Pure.
 *
 *   struct dt_caller_headers headers;
 *   dt_caller_headers_open(&headers, text, json)
 *   while (dt_caller_headers_next(&headers, &name, &value))
 *       ...
 */

/* A reader of the headers that a caller gave. There is nothing to free. */
struct dt_caller_headers {
    size_t max; /* maximal number of headers to read */
    const dt_json *json;
    const struct dt_json_node *object;
    const struct dt_json_node *member;
};

/* Begins to read headers from a JSON object of strings. If the text is absent or not an object, there are no headers:
 * the API validated the text when the job was made, but a manual edit may have changed it. json is scratch: it borrows
 * the text, and must not be used otherwise while headers are read. NOMEM: memory ran out. */
dt_status dt_caller_headers_open(struct dt_caller_headers *headers, struct dt_str text, dt_json *json);
/* Reads the next header, in the order of the text. False: there are no more headers. Skips members that are not
 * strings. *name and *value are borrowed from json. */
bool dt_caller_headers_next(struct dt_caller_headers *headers, struct dt_str *name, struct dt_str *value);
