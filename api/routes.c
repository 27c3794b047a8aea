/*
 * Every request that this API knows, in one table; openapi.yaml is tested equal to it. The busiest come first.
 */
#include "handlers.h"
#include "intake/batch_feed.h"
#include "request/router.h"

/* clang-format off */
#define LIST_QUERY "topic state id key key_prefix run_from run_to due_from due_to created_from created_to finished_from finished_to failed_from failed_to error_code error_text limit cursor include"

static const struct dt_route routes[] = {
    {"POST",   "/v1/jobs",                    DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_job_create,   NULL},
    {"GET",    "/v1/jobs",                    DT_SCOPE_READ,   DT_BODY_NONE,   LIST_QUERY, dt_handle_job_list,     NULL},
    {"POST",   "/v1/jobs:batch",              DT_SCOPE_WRITE,  DT_BODY_STREAM, NULL,       dt_batch_feed_handle,   &dt_batch_of_jobs.stream},
    {"GET",    "/v1/jobs/{id}",               DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_job_get,      NULL},
    {"PATCH",  "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_job_patch,    NULL},
    {"DELETE", "/v1/jobs/{id}",               DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  dt_handle_job_cancel,   NULL},
    {"POST",   "/v1/jobs/{id}/cancel",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "retries",  dt_handle_job_cancel,   NULL},
    {"POST",   "/v1/jobs/{id}/results",       DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_job_results,  NULL},
    {"POST",   "/v1/results",                 DT_SCOPE_REPORT, DT_BODY_STREAM, NULL,       dt_batch_feed_handle,   &dt_batch_of_results.stream},
    {"POST",   "/v1/commands",                DT_SCOPE_WRITE_OR_REPORT, DT_BODY_JSON, NULL, dt_handle_commands,     NULL},
    {"POST",   "/v1/jobs/{id}/run-now",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_job_run_now,  NULL},
    {"POST",   "/v1/jobs/{id}/redrive",       DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_job_redrive,  NULL},
    {"GET",    "/v1/jobs/{id}/attempts",      DT_SCOPE_READ,   DT_BODY_NONE,   "cursor",   dt_handle_job_attempts, NULL},
    {"GET",    "/v1/jobs/{id}/explain",       DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_job_explain,  NULL},
    {"POST",   "/v1/topics/{topic}/pop",      DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_pop,          NULL},
    {"POST",   "/v1/pop",                     DT_SCOPE_REPORT, DT_BODY_JSON,   NULL,       dt_handle_pop,          NULL},
    {"PUT",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_WRITE, DT_BODY_JSON,  "replace",  dt_handle_job_create,   NULL},
    {"GET",    "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_READ, DT_BODY_NONE,   NULL,       dt_handle_key_get,      NULL},
    {"GET",    "/v1/topics",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_topic_list, NULL},
    {"GET",    "/v1/topics/{topic}",          DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_topic_get,    NULL},
    {"PUT",    "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_JSON,   NULL,       dt_handle_topic_put,    NULL},
    {"DELETE", "/v1/topics/{topic}",          DT_SCOPE_ADMIN,  DT_BODY_NONE,   "cancel wait", dt_handle_topic_delete, NULL},
    {"POST",   "/v1/topics/{topic}/pause",    DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       dt_handle_topic_pause,  NULL},
    {"POST",   "/v1/topics/{topic}/resume",   DT_SCOPE_ADMIN,  DT_BODY_NONE,   NULL,       dt_handle_topic_resume, NULL},
    {"POST",   "/v1/jobs:cancel",             DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_cancel,  NULL},
    {"POST",   "/v1/jobs:reschedule",         DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_reschedule, NULL},
    {"POST",   "/v1/jobs:redrive",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_redrive, NULL},
    {"POST",   "/v1/jobs:run-now",            DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_jobs_run_now, NULL},
    {"GET",    "/v1/operations",              DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_operation_list, NULL},
    {"GET",    "/v1/operations/{id}",         DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_operation_get, NULL},
    {"POST",   "/v1/operations/{id}/stop",    DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_operation_stop, NULL},
    {"GET",    "/v1/alerts",                  DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_alert_list, NULL},
    {"POST",   "/v1/alerts/{id}/silence",     DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_alert_silence, NULL},
    {"GET",    "/v1/schedules",               DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_schedule_list, NULL},
    {"POST",   "/v1/schedules:preview",       DT_SCOPE_READ,   DT_BODY_JSON,   "count from", dt_handle_schedule_preview, NULL},
    {"GET",    "/v1/schedules/{name}",        DT_SCOPE_READ,   DT_BODY_NONE,   NULL,       dt_handle_schedule_get, NULL},
    {"PUT",    "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_JSON,   NULL,       dt_handle_schedule_put, NULL},
    {"DELETE", "/v1/schedules/{name}",        DT_SCOPE_WRITE,  DT_BODY_NONE,   "cancel",   dt_handle_schedule_delete, NULL},
    {"GET",    "/v1/schedules/{name}/next",   DT_SCOPE_READ,   DT_BODY_NONE,   "count from", dt_handle_schedule_next, NULL},
    {"POST",   "/v1/schedules/{name}/pause",  DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_schedule_pause, NULL},
    {"POST",   "/v1/schedules/{name}/resume", DT_SCOPE_WRITE,  DT_BODY_NONE,   NULL,       dt_handle_schedule_resume, NULL},
    {"POST",   "/v1/schedules/{name}/run-now", DT_SCOPE_WRITE, DT_BODY_NONE,   NULL,       dt_handle_schedule_run_now, NULL},
    {"GET",    "/v1/jobs/{id}/events",        DT_SCOPE_READ,   DT_BODY_NONE,   "limit cursor", dt_handle_job_events, NULL},
    {"GET",    "/v1/events",                  DT_SCOPE_READ,   DT_BODY_NONE,   "topic actor from to limit cursor", dt_handle_event_list, NULL},
    {"GET",    "/v1/forecast",                DT_SCOPE_READ,   DT_BODY_NONE,   "topic from to step", dt_handle_forecast, NULL},
    {"GET",    "/v1/forecast/spikes",         DT_SCOPE_READ_ALL, DT_BODY_NONE,   "from to step", dt_handle_spikes, NULL},
    {"GET",    "/v1/usage",                   DT_SCOPE_ANY,    DT_BODY_NONE,   "days",     dt_handle_usage,        NULL},
    {"GET",    "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     dt_handle_token_list,   NULL},
    {"POST",   "/v1/tokens",                  DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     dt_handle_token_new,    NULL},
    {"PATCH",  "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_JSON, NULL,     dt_handle_token_set,    NULL},
    {"DELETE", "/v1/tokens/{name}",           DT_SCOPE_ADMIN_ALL, DT_BODY_NONE, NULL,     dt_handle_token_revoke, NULL},
    {"POST",   "/v1/admin/shards",            DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       dt_handle_shards,       NULL},
    {"GET",    "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_NONE,   NULL,       dt_handle_clock,        NULL},
    {"POST",   "/v1/admin/clock",             DT_SCOPE_ADMIN_ALL, DT_BODY_JSON,   NULL,       dt_handle_clock_set,    NULL},
    {"GET",    "/v1/caller",                  DT_SCOPE_ANY,    DT_BODY_NONE,   NULL,       dt_handle_caller,       NULL},
    {"GET",    "/v1/overview",                DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_overview,     NULL},
    {"GET",    "/v1/series",                  DT_SCOPE_READ,   DT_BODY_NONE,   "metric from to step topic", dt_handle_series, NULL},
    {"GET",    "/v1/dead-letters",            DT_SCOPE_READ,   DT_BODY_NONE,   "topic failed_from failed_to", dt_handle_dead_letters, NULL},
    {"GET",    "/v1/doctor",                  DT_SCOPE_READ_ALL, DT_BODY_NONE,   "late",     dt_handle_doctor,       NULL},
    {"GET",    "/v1/info",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_info,         NULL},
    {"GET",    "/healthz",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_healthz,      NULL},
    {"GET",    "/readyz",                     DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_readyz,       NULL},
    {"GET",    "/metrics",                    DT_SCOPE_READ_ALL, DT_BODY_NONE,   NULL,       dt_handle_metrics,      NULL},
    {"GET",    "/console",                    DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console_moved, NULL},
    {"GET",    "/console/",                   DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console,      NULL},
    {"GET",    "/console/{file}",             DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_console_file, NULL},
    {"GET",    "/openapi.yaml",               DT_SCOPE_NONE,   DT_BODY_NONE,   NULL,       dt_handle_openapi,      NULL},
};
/* clang-format on */

const struct dt_route *dt_routes(size_t *n)
{
    *n = sizeof(routes) / sizeof(routes[0]);
    return routes;
}
