/* Writing events inside the transaction of what they tell; for store/ only. */
#ifndef DT_EVENTS_EVENT_TXN_H
#define DT_EVENTS_EVENT_TXN_H

#include "events.h"
#include "mysql/db.h"

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

#endif
