/*
 * The CloudEvents attributes of an attempt or of its dead letter (CloudEvents 1.0): one list for every delivery, which
 * puts them into its own kind of headers. Pure.
 */
#ifndef DT_DISPATCHER_CLOUD_EVENT_H
#define DT_DISPATCHER_CLOUD_EVENT_H

#include "base/status.h"
#include "base/text/strbuf.h"

struct dt_cloud_event {
    int64_t job, attempt;
    const char *id_suffix; /* behind <job>/<attempt> in the event's id */
    const char *installation;
    struct dt_str type;
    struct dt_str key; /* the caller's; absent: the job's id is the subject */
    int64_t time_ms;
    int64_t scheduled_ms; /* 0: none is told */
};

/* Named as in the binding for Kafka, "ce_id"; the binding for HTTP has a hyphen in place of the underscore. */
struct dt_cloud_event_attribute {
    const char *name; /* static */
    struct dt_str value;
};
#define DT_CLOUD_EVENT_ATTRIBUTES 10

/*
 * Fills out with the *n attributes that the event has, in a fixed order. Values live in the arena, or are borrowed from
 * the event. NOMEM: nothing of out counts.
 */
DT_MUST_CHECK dt_status dt_cloud_event_attributes(const struct dt_cloud_event *event, struct dt_arena *arena,
                                                  struct dt_cloud_event_attribute out[DT_CLOUD_EVENT_ATTRIBUTES],
                                                  size_t *n);

#endif
