/*
 * Events of each kind of change, for store/ only: what differs between before and after. at_ms, actor and action of the
 * event are the caller's. Where nothing differs nothing is written.
 */
#ifndef DT_EVENTS_EVENT_OF_H
#define DT_EVENTS_EVENT_OF_H

#include "event_txn.h"
#include "job/job.h"
#include "topic/topics.h"

/* A job was changed. */
DT_MUST_CHECK dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                                        const struct dt_job *after, struct dt_error *err);
/* A topic was made (before NULL), changed, or deleted (after NULL). */
DT_MUST_CHECK dt_status dt_event_of_topic(dt_db *db, const struct dt_job_event *event, const struct dt_topic *before,
                                          const struct dt_topic *after, struct dt_error *err);

#endif
