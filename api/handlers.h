/* The handlers of routes.c, by file. A handler decodes the request, calls the part that carries it out, and encodes the
 * answer; request.h says on which thread it runs. A function that takes a store runs on a worker; it is the `work` of
 * its route. */
#pragma once

#include "request/request.h"
#include "store/store.h"

extern const struct dt_list dt_list_of_topics, dt_list_of_schedules, dt_list_of_operations, dt_list_of_alerts;

/* handlers in intake/create_rest.c */
enum dt_next dt_handle_job_create(struct dt_request *req); /* topic and key are in the path or in the body */

/* handlers in intake/results_rest.c */
enum dt_next dt_handle_job_results(struct dt_request *req);

/* handlers in pull/commands_rest.c */
enum dt_next dt_handle_commands(struct dt_request *req);

/* handlers in rest/jobs_rest.c */
enum dt_next dt_handle_job_by_id(struct dt_request *req); /* submits route->work, if the path holds an id */
enum dt_next dt_handle_job_get(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_job_patch(struct dt_request *req);
enum dt_next dt_handle_job_cancel(struct dt_request *req);
/* route->arg: DT_OPERATION_RUN_NOW or DT_OPERATION_REDRIVE */
enum dt_next dt_handle_job_operate(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_job_attempts(struct dt_request *req);
enum dt_next dt_handle_key_get(struct dt_request *req);

/* handlers in rest/explain_rest.c */
enum dt_next dt_handle_job_explain(struct dt_request *req);

/* handlers in rest/list_rest.c */
enum dt_next dt_handle_job_list(struct dt_request *req);

/* handlers in pull/pop_room.c */
enum dt_next dt_handle_pop(struct dt_request *req); /* the topic is in the path, or topics are in the body */

/* handlers in rest/topics_rest.c */
enum dt_next dt_handle_topic_get(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_topic_put(struct dt_request *req);
/* route->arg: true: pause; false: resume */
enum dt_next dt_handle_topic_pause(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_topic_delete(struct dt_request *req);

/* handlers in rest/schedules_rest.c */
enum dt_next dt_handle_schedule_by_name(struct dt_request *req); /* submits route->work, if the name is well-formed */
enum dt_next dt_handle_schedule_get(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_schedule_put(struct dt_request *req); /* if the path has no name: a preview */
enum dt_next dt_handle_schedule_delete(struct dt_request *req);
/* route->arg: true: pause; false: resume */
enum dt_next dt_handle_schedule_pause(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_schedule_run_now(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_schedule_next(struct dt_request *req);

/* handlers in rest/operations_rest.c */
enum dt_next dt_handle_jobs_operate(struct dt_request *req); /* route->arg: enum dt_operation_kind */
/* for DELETE /v1/topics/{t}?cancel=true */
enum dt_next dt_handle_topic_delete_with_jobs(struct dt_request *req);
enum dt_next dt_handle_operation_get(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_operation_stop(struct dt_request *req, dt_store *store);

/* handlers in rest/tokens_rest.c */
enum dt_next dt_handle_token_list(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_token_new(struct dt_request *req);
enum dt_next dt_handle_usage(struct dt_request *req);
enum dt_next dt_handle_token_set(struct dt_request *req);
enum dt_next dt_handle_token_revoke(struct dt_request *req, dt_store *store);

/* handlers in rest/events_rest.c */
enum dt_next dt_handle_event_list(struct dt_request *req); /* if the path has a job's id: events of this job */

/* handlers in rest/forecast_rest.c */
enum dt_next dt_handle_forecast(struct dt_request *req); /* route->arg: true: only spikes */

/* handlers in console/handlers_console.c */
enum dt_next dt_handle_console(struct dt_request *req); /* if the path has no file: index.html */
enum dt_next dt_handle_console_moved(struct dt_request *req);

/* handlers in rest/overview_rest.c, rest/series_rest.c */
enum dt_next dt_handle_overview(struct dt_request *req, dt_store *store);
enum dt_next dt_handle_series(struct dt_request *req);
enum dt_next dt_handle_dead_letters(struct dt_request *req);

/* handlers in rest/alerts_rest.c */
enum dt_next dt_handle_alert_silence(struct dt_request *req);

/* handlers in rest/doctor_rest.c */
enum dt_next dt_handle_doctor(struct dt_request *req);

/* handlers in rest/ops_rest.c */
enum dt_next dt_handle_shards(struct dt_request *req);

/* handlers in rest/ops_rest.c */
enum dt_next dt_handle_clock(struct dt_request *req);
enum dt_next dt_handle_clock_set(struct dt_request *req);

/* handlers in rest/ops_rest.c */
enum dt_next dt_handle_caller(struct dt_request *req);

/* handlers in rest/ops_rest.c */
enum dt_next dt_handle_healthz(struct dt_request *req);
enum dt_next dt_handle_readyz(struct dt_request *req);
enum dt_next dt_handle_metrics(struct dt_request *req);
enum dt_next dt_handle_openapi(struct dt_request *req);
enum dt_next dt_handle_info(struct dt_request *req, dt_store *store);
