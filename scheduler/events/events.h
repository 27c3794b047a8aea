/*
 * The audit log: a row of `job_events` for each change that a caller requested, written in the transaction of the
 * change.
 *
 * A store writes events if it has an actor (dt_store_act_as). A leader's store has no actor, so neither making nor
 * dispatching jobs writes events. Changes by the inbox and by messages have the inbox or the message as actor. An
 * operation has an event when it is requested and another when it is stopped; each job that it changes also has an
 * event.
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"
#include "topic/topics.h"

struct dt_job_event {
    int64_t id, at_ms;
    struct dt_str actor, action;
    struct dt_str topic, subject; /* topic and subject of the event; absent: none */
    int64_t job_id, operation_id; /* job and operation of the event; 0: none */
    struct dt_str before, after;  /* the changed members as JSON objects; absent: nothing existed at that time */
};

/* Selects the events of a page, newest first. Absent and 0 match any value. */
struct dt_event_filter {
    struct dt_str topic, actor;
    int64_t job_id;
    int64_t from_ms, to_ms; /* from inclusive, to exclusive */
    const struct dt_topic_bound *bound;
    int64_t below_id; /* only events below this id; 0: from the newest on */
    struct dt_page_end end;
};
struct dt_event_list {
    struct dt_job_event *v; /* events of the page; in the arena */
    size_t n;
    bool more;       /* there may be more events */
    int64_t last_id; /* if `more`: further events have ids below this one */
};
/* Lists events. Reads a bounded number of rows of the narrowest index. So a page may be short or empty although further
 * events match. */
dt_status dt_store_events(dt_store *store, const struct dt_event_filter *filter, struct dt_arena *arena,
                          struct dt_event_list *out, struct dt_error *err);

/* Makes partitions of job_events for the days ahead, and drops those whose last event is older than keep_ms. */
dt_status dt_store_events_tend(dt_store *store, int64_t now_ms, int64_t keep_ms, struct dt_error *err);

/* ---- inside the transaction of the change; for the store only ---- */

/* Writes events, in one statement. */
dt_status dt_events_write(dt_db *db, const struct dt_job_event *v, size_t n, struct dt_error *err);

/*
 * Collects the members of an object that a change altered, as JSON. Call begin, then an add function for each member
 * that may differ, then write. If no member differs, nothing is written.
 *
 *     struct dt_event_diff d;
 *     dt_event_diff_begin(&d);
 *     dt_event_diff_text(&d, "state", was, is);
 *     status = dt_event_diff_write(&d, db, &event, err);      // frees d, whatever the status
 */
struct dt_event_diff {
    struct dt_strbuf before, after;
};
void dt_event_diff_begin(struct dt_event_diff *d);
/* Adds a text; an absent text becomes null. */
void dt_event_diff_text(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is);
/* Adds a time; 0 becomes null. */
void dt_event_diff_time(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms);
/* Add a duration, a number or a bool; a duration of 0 or less becomes null. */
void dt_event_diff_duration(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms);
void dt_event_diff_number(struct dt_event_diff *d, const char *name, int64_t was, int64_t is);
void dt_event_diff_bool(struct dt_event_diff *d, const char *name, bool was, bool is);
/* Adds a value that is secret, or too large for an event. If it changed, the event has "***" in its place. */
void dt_event_diff_hidden(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is);
dt_status dt_event_diff_write(struct dt_event_diff *d, dt_db *db, struct dt_job_event *event, struct dt_error *err);

/* Write the event of a change, with the members that differ. The caller sets at_ms, actor and action of the event. If
 * no member differs, nothing is written. */

/* Writes the event of a changed job. */
dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                          const struct dt_job *after, struct dt_error *err);
/* Writes the event of a topic that was made (before is NULL), changed, or deleted (after is NULL). */
dt_status dt_event_of_topic(dt_db *db, const struct dt_job_event *event, const struct dt_topic *before,
                            const struct dt_topic *after, struct dt_error *err);
