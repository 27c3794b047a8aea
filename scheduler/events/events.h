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
#include "mysql/db.h"
#include "store/store.h"
#include "topic/topics.h"

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

/* Writing events inside the transaction of what they tell; for store/ only. */

/* Writes events, in one statement. */
DT_MUST_CHECK dt_status dt_events_write(dt_db *db, const struct dt_job_event *v, size_t n, struct dt_error *err);

/*
 * The members that differ, as JSON: begin, add members that may differ, write. Where nothing differs, nothing is
 * written.
 *
 *     struct dt_event_diff d;
 *     dt_event_diff_begin(&d);
 *     dt_event_diff_text(&d, "state", was, is);
 *     status = dt_event_diff_write(&d, db, &event, err);      // ends d, whatever the status
 */
struct dt_event_diff {
    struct dt_strbuf before, after;
};
void dt_event_diff_begin(struct dt_event_diff *d);
/* Absent: null. */
void dt_event_diff_text(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is);
/* 0: null. */
void dt_event_diff_time(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms);
/* 0 or less: null. */
void dt_event_diff_duration(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms);
void dt_event_diff_number(struct dt_event_diff *d, const char *name, int64_t was, int64_t is);
void dt_event_diff_bool(struct dt_event_diff *d, const char *name, bool was, bool is);
/* Tells that something changed whose value is shown to nobody, or is too large: "***". */
void dt_event_diff_hidden(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is);
DT_MUST_CHECK dt_status dt_event_diff_write(struct dt_event_diff *d, dt_db *db, struct dt_job_event *event,
                                            struct dt_error *err);

/*
 * Events of each kind of change, for store/ only: what differs between before and after. at_ms, actor and action of the
 * event are the caller's. Where nothing differs nothing is written.
 */

/* A job was changed. */
DT_MUST_CHECK dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                                        const struct dt_job *after, struct dt_error *err);
/* A topic was made (before NULL), changed, or deleted (after NULL). */
DT_MUST_CHECK dt_status dt_event_of_topic(dt_db *db, const struct dt_job_event *event, const struct dt_topic *before,
                                          const struct dt_topic *after, struct dt_error *err);

#endif
