/*
 * Every request that this API knows, in one table; openapi.yaml is tested equal to it. The busiest come first.
 */
#include "handlers.h"
#include "intake/batch_feed.h"
#include "request/router.h"
#include "store/operations/operations.h"

/* clang-format off */
#define LIST_QUERY "topic state id key key_prefix run_from run_to due_from due_to created_from created_to finished_from finished_to failed_from failed_to error_code error_text limit cursor include"

static const struct dt_route routes[] = {
    {"POST",   "/v1/jobs",                    DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_job_create,   NULL, 0},
    {"GET",    "/v1/jobs",                    DT_SCOPE_READ,   DT_BODY_NONE,   LIST_QUERY, dt_handle_job_list,     NULL, 0},
    {"POST",   "/v1/jobs:batch",              DT_SCOPE_WRITE,  DT_BODY_STREAM, NULL,       dt_handle_batch,        &dt_batch_stream, 0},
    {"GET",    "/v1/jobs/{id}",               DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_job_get,      NULL, 0},
    {"PATCH",  "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_job_patch,    NULL, 0},
    {"DELETE", "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  dt_handle_job_cancel,   NULL, 0},
    {"POST",   "/v1/jobs/{id}/cancel",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  dt_handle_job_cancel,   NULL, 0},
    {"POST",   "/v1/jobs/{id}/results",       DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_job_results,  NULL, 0},
    {"POST",   "/v1/results",                 DT_SCOPE_REPORT, DT_BODY_STREAM, NULL,       dt_handle_results,      &dt_results_stream, 0},
    {"POST",   "/v1/commands",                DT_SCOPE_WRITE_OR_REPORT, DT_BODY_JSON, NULL, dt_handle_commands,     NULL, 0},
    {"POST",   "/v1/jobs/{id}/run-now",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_job_run_now,  NULL, 0},
    {"POST",   "/v1/jobs/{id}/redrive",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_job_redrive,  NULL, 0},
    {"GET",    "/v1/jobs/{id}/attempts",      DT_SCOPE_READ,   DT_BODY_NONE,   "cursor",   dt_handle_job_attempts, NULL, 0},
    {"GET",    "/v1/jobs/{id}/explain",       DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_job_explain,  NULL, 0},
    {"POST",   "/v1/topics/{topic}/pop",      DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_topic_pop,    NULL, 0},
    {"POST",   "/v1/pop",                     DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_pop,          NULL, 0},
    {"PUT",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_WRITE, DT_BODY_JSON,  "replace",  dt_handle_key_put,      NULL, 0},
    {"GET",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_READ, DT_BODY_NONE,   NULL,       dt_handle_key_get,      NULL, 0},
    {"GET",    "/v1/topics",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_topic_list, NULL, 0},
    {"GET",    "/v1/topics/{topic}",          DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_topic_get,    NULL, 0},
    {"PUT",    "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_JSON,   NULL,       dt_handle_topic_put,    NULL, 0},
    {"DELETE", "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_NONE,   "cancel wait", dt_handle_topic_delete, NULL, 0},
    {"POST",   "/v1/topics/{topic}/pause",    DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       dt_handle_topic_pause,  NULL, true},
    {"POST",   "/v1/topics/{topic}/resume",   DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       dt_handle_topic_pause, NULL, false},
    {"POST",   "/v1/jobs:cancel",             DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_operate,  NULL, DT_OPERATION_CANCEL},
    {"POST",   "/v1/jobs:reschedule",         DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_operate, NULL, DT_OPERATION_RESCHEDULE},
    {"POST",   "/v1/jobs:redrive",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_operate, NULL, DT_OPERATION_REDRIVE},
    {"POST",   "/v1/jobs:run-now",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_operate, NULL, DT_OPERATION_RUN_NOW},
    {"GET",    "/v1/operations",              DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_operation_list, NULL, 0},
    {"GET",    "/v1/operations/{id}",         DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_operation_get, NULL, 0},
    {"POST",   "/v1/operations/{id}/stop",    DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_operation_stop, NULL, 0},
    {"GET",    "/v1/alerts",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_alert_list, NULL, 0},
    {"POST",   "/v1/alerts/{id}/silence",     DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_alert_silence, NULL, 0},
    {"GET",    "/v1/schedules",               DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_schedule_list, NULL, 0},
    {"POST",   "/v1/schedules:preview",       DT_SCOPE_READ,   DT_BODY_JSON,   "count from", dt_handle_schedule_put, NULL, 0},
    {"GET",    "/v1/schedules/{name}",        DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_schedule_get, NULL, 0},
    {"PUT",    "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_schedule_put, NULL, 0},
    {"DELETE", "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "cancel",   dt_handle_schedule_delete, NULL, 0},
    {"GET",    "/v1/schedules/{name}/next",   DT_SCOPE_READ,   DT_BODY_NONE,   "count from", dt_handle_schedule_next, NULL, 0},
    {"POST",   "/v1/schedules/{name}/pause",  DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_schedule_pause, NULL, true},
    {"POST",   "/v1/schedules/{name}/resume", DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_schedule_pause, NULL, false},
    {"POST",   "/v1/schedules/{name}/run-now", DT_SCOPE_WRITE, DT_BODY_NONE,   NULL,       dt_handle_schedule_run_now, NULL, 0},
    {"GET",    "/v1/jobs/{id}/events",        DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_event_list, NULL, 0},
    {"GET",    "/v1/events",                  DT_SCOPE_READ,   DT_BODY_NONE,   "topic actor from to limit cursor", dt_handle_event_list, NULL, 0},
    {"GET",    "/v1/forecast",                DT_SCOPE_READ,   DT_BODY_NONE,   "topic from to step", dt_handle_forecast, NULL, false},
    {"GET",    "/v1/forecast/spikes",         DT_SCOPE_READ_ALL, DT_BODY_NONE,   "from to step", dt_handle_forecast, NULL, true},
    {"GET",    "/v1/usage",                   DT_SCOPE_ANY,    DT_BODY_NONE,   "days",     dt_handle_usage,        NULL, 0},
    {"GET",    "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     dt_handle_token_list,   NULL, 0},
    {"POST",   "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     dt_handle_token_new,    NULL, 0},
    {"PATCH",  "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     dt_handle_token_set,    NULL, 0},
    {"DELETE", "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     dt_handle_token_revoke, NULL, 0},
    {"POST",   "/v1/admin/shards",            DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       dt_handle_shards,       NULL, 0},
    {"GET",    "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_NONE,   NULL,       dt_handle_clock,        NULL, 0},
    {"POST",   "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       dt_handle_clock_set,    NULL, 0},
    {"GET",    "/v1/caller",                  DT_SCOPE_ANY,    DT_BODY_NONE,   NULL,       dt_handle_caller,       NULL, 0},
    {"GET",    "/v1/overview",                DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_overview,     NULL, 0},
    {"GET",    "/v1/series",                  DT_SCOPE_READ,   DT_BODY_NONE,   "metric from to step topic", dt_handle_series, NULL, 0},
    {"GET",    "/v1/dead-letters",            DT_SCOPE_READ,   DT_BODY_NONE,   "topic failed_from failed_to", dt_handle_dead_letters, NULL, 0},
    {"GET",    "/v1/doctor",                  DT_SCOPE_READ_ALL, DT_BODY_NONE,   "late",     dt_handle_doctor,       NULL, 0},
    {"GET",    "/v1/info",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_info,         NULL, 0},
    {"GET",    "/healthz",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_healthz,      NULL, 0},
    {"GET",    "/readyz",                     DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_readyz,       NULL, 0},
    {"GET",    "/metrics",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_metrics,      NULL, 0},
    {"GET",    "/console",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console_moved, NULL, 0},
    {"GET",    "/console/",                   DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console,      NULL, 0},
    {"GET",    "/console/{file}",             DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console, NULL, 0},
    {"GET",    "/openapi.yaml",               DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_openapi,      NULL, 0},
};
/* clang-format on */

const struct dt_route *dt_routes(size_t *n)
{
    *n = sizeof(routes) / sizeof(routes[0]);
    return routes;
}
