/*
 * Every request that this API knows, in one table; openapi.yaml is tested equal to it. The busiest come first.
 */
#include "api.h"
#include "handlers.h"
#include "intake/batch_feed.h"
#include "request/router.h"
#include "store/operations/operations.h"
#include "work/workers.h"

/* Of routes for which a worker does everything. */
static enum dt_next submit_work(struct dt_request *req)
{
    return dt_workers_submit(req->api->workers, req, req->route->work);
}

/* clang-format off */
#define LIST_QUERY "topic state id key key_prefix run_from run_to due_from due_to created_from created_to finished_from finished_to failed_from failed_to error_code error_text limit cursor include"

static const struct dt_route routes[] = {
    {"POST",   "/v1/jobs",                    DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_job_create},
    {"GET",    "/v1/jobs",                    DT_SCOPE_READ,   DT_BODY_NONE,   LIST_QUERY, .handle = dt_handle_job_list},
    {"POST",   "/v1/jobs:batch",              DT_SCOPE_WRITE,  DT_BODY_STREAM, NULL,       .handle = dt_batch_feed_handle, .stream = &dt_batch_of_jobs.stream},
    {"GET",    "/v1/jobs/{id}",               DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       .handle = dt_handle_job_by_id, .work = dt_handle_job_get},
    {"PATCH",  "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_job_patch},
    {"DELETE", "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  .handle = dt_handle_job_cancel},
    {"POST",   "/v1/jobs/{id}/cancel",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  .handle = dt_handle_job_cancel},
    {"POST",   "/v1/jobs/{id}/results",       DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       .handle = dt_handle_job_results},
    {"POST",   "/v1/results",                 DT_SCOPE_REPORT, DT_BODY_STREAM, NULL,       .handle = dt_batch_feed_handle, .stream = &dt_batch_of_results.stream},
    {"POST",   "/v1/commands",                DT_SCOPE_WRITE_OR_REPORT, DT_BODY_JSON, NULL, .handle = dt_handle_commands},
    {"POST",   "/v1/jobs/{id}/run-now",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       .handle = dt_handle_job_by_id, .work = dt_handle_job_operate, .arg = DT_OPERATION_RUN_NOW},
    {"POST",   "/v1/jobs/{id}/redrive",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       .handle = dt_handle_job_by_id, .work = dt_handle_job_operate, .arg = DT_OPERATION_REDRIVE},
    {"GET",    "/v1/jobs/{id}/attempts",      DT_SCOPE_READ,   DT_BODY_NONE,   "cursor",   .handle = dt_handle_job_attempts},
    {"GET",    "/v1/jobs/{id}/explain",       DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       .handle = dt_handle_job_explain},
    {"POST",   "/v1/topics/{topic}/pop",      DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       .handle = dt_handle_pop},
    {"POST",   "/v1/pop",                     DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       .handle = dt_handle_pop},
    {"PUT",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_WRITE, DT_BODY_JSON,  "replace",  .handle = dt_handle_job_create},
    {"GET",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_READ, DT_BODY_NONE,   NULL,       .handle = dt_handle_key_get},
    {"GET",    "/v1/topics",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", .handle = dt_handle_topic_list},
    {"GET",    "/v1/topics/{topic}",          DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_topic_get},
    {"PUT",    "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_JSON,   NULL,       .handle = dt_handle_topic_put},
    {"DELETE", "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_NONE,   "cancel wait", .handle = dt_handle_topic_delete},
    {"POST",   "/v1/topics/{topic}/pause",    DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_topic_pause, .arg = true},
    {"POST",   "/v1/topics/{topic}/resume",   DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_topic_pause, .arg = false},
    {"POST",   "/v1/jobs:cancel",             DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_CANCEL},
    {"POST",   "/v1/jobs:reschedule",         DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_RESCHEDULE},
    {"POST",   "/v1/jobs:redrive",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_REDRIVE},
    {"POST",   "/v1/jobs:run-now",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_RUN_NOW},
    {"GET",    "/v1/operations",              DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", .handle = dt_handle_operation_list},
    {"GET",    "/v1/operations/{id}",         DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_operation_get},
    {"POST",   "/v1/operations/{id}/stop",    DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_operation_stop},
    {"GET",    "/v1/alerts",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", .handle = dt_handle_alert_list},
    {"POST",   "/v1/alerts/{id}/silence",     DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_alert_silence},
    {"GET",    "/v1/schedules",               DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", .handle = dt_handle_schedule_list},
    {"POST",   "/v1/schedules:preview",       DT_SCOPE_READ,   DT_BODY_JSON,   "count from", .handle = dt_handle_schedule_put},
    {"GET",    "/v1/schedules/{name}",        DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_get},
    {"PUT",    "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       .handle = dt_handle_schedule_put},
    {"DELETE", "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "cancel",   .handle = dt_handle_schedule_delete},
    {"GET",    "/v1/schedules/{name}/next",   DT_SCOPE_READ,   DT_BODY_NONE,   "count from", .handle = dt_handle_schedule_next},
    {"POST",   "/v1/schedules/{name}/pause",  DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_pause, .arg = true},
    {"POST",   "/v1/schedules/{name}/resume", DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_pause, .arg = false},
    {"POST",   "/v1/schedules/{name}/run-now", DT_SCOPE_WRITE, DT_BODY_NONE,   NULL,       .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_run_now},
    {"GET",    "/v1/jobs/{id}/events",        DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", .handle = dt_handle_event_list},
    {"GET",    "/v1/events",                  DT_SCOPE_READ,   DT_BODY_NONE,   "topic actor from to limit cursor", .handle = dt_handle_event_list},
    {"GET",    "/v1/forecast",                DT_SCOPE_READ,   DT_BODY_NONE,   "topic from to step", .handle = dt_handle_forecast, .arg = false},
    {"GET",    "/v1/forecast/spikes",         DT_SCOPE_READ_ALL, DT_BODY_NONE,   "from to step", .handle = dt_handle_forecast, .arg = true},
    {"GET",    "/v1/usage",                   DT_SCOPE_ANY,    DT_BODY_NONE,   "days",     .handle = dt_handle_usage},
    {"GET",    "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     .handle = submit_work, .work = dt_handle_token_list},
    {"POST",   "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     .handle = dt_handle_token_new},
    {"PATCH",  "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     .handle = dt_handle_token_set},
    {"DELETE", "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     .handle = submit_work, .work = dt_handle_token_revoke},
    {"POST",   "/v1/admin/shards",            DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       .handle = dt_handle_shards},
    {"GET",    "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_NONE,   NULL,       .handle = dt_handle_clock},
    {"POST",   "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       .handle = dt_handle_clock_set},
    {"GET",    "/v1/caller",                  DT_SCOPE_ANY,    DT_BODY_NONE,   NULL,       .handle = dt_handle_caller},
    {"GET",    "/v1/overview",                DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_overview},
    {"GET",    "/v1/series",                  DT_SCOPE_READ,   DT_BODY_NONE,   "metric from to step topic", .handle = dt_handle_series},
    {"GET",    "/v1/dead-letters",            DT_SCOPE_READ,   DT_BODY_NONE,   "topic failed_from failed_to", .handle = dt_handle_dead_letters},
    {"GET",    "/v1/doctor",                  DT_SCOPE_READ_ALL, DT_BODY_NONE,   "late",     .handle = dt_handle_doctor},
    {"GET",    "/v1/info",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       .handle = submit_work, .work = dt_handle_info},
    {"GET",    "/healthz",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_healthz},
    {"GET",    "/readyz",                     DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_readyz},
    {"GET",    "/metrics",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       .handle = dt_handle_metrics},
    {"GET",    "/console",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_console_moved},
    {"GET",    "/console/",                   DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_console},
    {"GET",    "/console/{file}",             DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_console},
    {"GET",    "/openapi.yaml",               DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       .handle = dt_handle_openapi},
};
/* clang-format on */

const struct dt_route *dt_routes(size_t *n)
{
    *n = sizeof(routes) / sizeof(routes[0]);
    return routes;
}
