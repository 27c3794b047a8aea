/*
 * Who did what: a row of `job_events` for each change that somebody asked for, written in the transaction of the
 * change.
 *
 * A store that acts for somebody (dt_store_act_as) writes events; one that acts for nobody, as a leader's, writes none.
 * So neither making jobs nor dispatching them has any part in it. The inbox and messages act for themselves. An
 * operation is an event when it is asked for and when it is stopped, and each job that it changes has one as well.
 */
#ifndef DT_EVENTS_EVENTS_H
#define DT_EVENTS_EVENTS_H

#include "job/job.h"
#include "store/store.h"

struct dt_job_event {
    int64_t id, at_ms;
    struct dt_str actor, action;
    struct dt_str topic, subject; /* absent: it is about none */
    int64_t job_id, operation_id; /* 0: likewise */
    struct dt_str before, after;  /* JSON of the members that changed; absent: there was nothing, or is nothing */
};

/* The events of a page, the latest first. Absent and 0 match any. */
struct dt_event_filter {
    struct dt_str topic, actor;
    int64_t job_id;
    int64_t from_ms, to_ms; /* from inclusive, to exclusive */
    const struct dt_topic_bound *bound;
    int64_t below_id; /* 0: from the latest on */
    struct dt_page_end end;
};
struct dt_event_list {
    struct dt_job_event *v; /* in the arena */
    size_t n;
    bool more;       /* there may be more … */
    int64_t last_id; /* … below it */
};
/* Lists events. Looks at so many rows of the narrowest index, so a page may be short or empty with more to come. */
DT_MUST_CHECK dt_status dt_store_events(dt_store *store, const struct dt_event_filter *filter, struct dt_arena *arena,
                                        struct dt_event_list *out, struct dt_error *err);

/* Makes partitions of job_events for the days ahead, and drops those whose last event is older than keep_ms. */
DT_MUST_CHECK dt_status dt_store_events_tend(dt_store *store, int64_t now_ms, int64_t keep_ms, struct dt_error *err);

#endif
