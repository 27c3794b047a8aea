/* The handlers of routes.c, by file. A handler decodes the request, calls the part that carries it out, and encodes the
 * answer; request.h says on which thread it runs. The `work` of a route runs on a worker. */
#pragma once

#include "request/request.h"
#include "store/store.h"

typedef enum dt_next dt_handler(struct dt_request *req);
typedef enum dt_next dt_work(struct dt_request *req, dt_store *store);

/* intake/create_rest.c */
dt_handler dt_handle_job_create; /* topic and key are in the body */
dt_handler dt_handle_job_put;    /* topic and key are in the path */

/* intake/results_rest.c, pull/commands_rest.c */
dt_handler dt_handle_job_results, dt_handle_commands;

/* pull/pop_room.c */
dt_handler dt_handle_pop; /* the topic is in the path, or topics are in the body */

/* rest/jobs_rest.c, rest/explain_rest.c, rest/list_rest.c */
dt_handler dt_handle_job_by_id; /* submits route->work, if the path holds an id; the id is the request's state */
dt_work dt_handle_job_get, dt_handle_job_explain;
dt_handler dt_handle_job_patch, dt_handle_job_cancel, dt_handle_job_attempts, dt_handle_key_get, dt_handle_job_list;
dt_handler dt_handle_job_operate; /* route->arg: DT_OPERATION_RUN_NOW or DT_OPERATION_REDRIVE */

/* rest/topics_rest.c */
extern const struct dt_list dt_list_of_topics;
dt_handler dt_handle_topic_put, dt_handle_topic_delete;
dt_work dt_handle_topic_get;
dt_work dt_handle_topic_pause; /* route->arg: true: pause; false: resume */

/* rest/schedules_rest.c */
extern const struct dt_list dt_list_of_schedules;
dt_handler dt_handle_schedule_by_name; /* submits route->work, if the name is well-formed */
dt_work dt_handle_schedule_get, dt_handle_schedule_run_now;
dt_work dt_handle_schedule_pause;  /* route->arg: true: pause; false: resume */
dt_handler dt_handle_schedule_put; /* if the path has no name: a preview */
dt_handler dt_handle_schedule_delete, dt_handle_schedule_next;

/* rest/operations_rest.c */
extern const struct dt_list dt_list_of_operations;
dt_handler dt_handle_jobs_operate;           /* route->arg: enum dt_operation_kind */
dt_handler dt_handle_topic_delete_with_jobs; /* for DELETE /v1/topics/{t}?cancel=true */
dt_work dt_handle_operation_get, dt_handle_operation_stop;

/* rest/tokens_rest.c */
dt_handler dt_handle_token_new, dt_handle_token_set, dt_handle_usage;
dt_work dt_handle_token_list, dt_handle_token_revoke;

/* rest/events_rest.c, rest/forecast_rest.c */
dt_handler dt_handle_event_list; /* if the path has a job's id: events of this job */
dt_handler dt_handle_forecast;   /* route->arg: true: only spikes */

/* console/handlers_console.c */
dt_handler dt_handle_console; /* if the path has no file: index.html */
dt_handler dt_handle_console_moved;

/* rest/alerts_rest.c */
extern const struct dt_list dt_list_of_alerts;
dt_handler dt_handle_alert_silence;

/* rest/overview_rest.c, rest/series_rest.c */
dt_work dt_handle_overview;
dt_handler dt_handle_series, dt_handle_dead_letters;

/* rest/doctor_rest.c */
dt_handler dt_handle_doctor;

/* rest/ops_rest.c */
dt_handler dt_handle_clock; /* without a body: shows the clock; with one: changes it */
dt_handler dt_handle_shards, dt_handle_caller;
dt_handler dt_handle_healthz, dt_handle_readyz, dt_handle_metrics, dt_handle_openapi;
dt_work dt_handle_info;
