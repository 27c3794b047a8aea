/* The table of all routes; a test compares it with openapi.yaml. The most frequent routes are first. The columns
 * are method, path, scope, wall (request/request.h), body and query. A row without one of these columns does not
 * compile. */
#include "answer.h"
#include "features/operations/operations.h"
#include "handlers.h"
#include "intake/batch.h"
#include "request/router.h"
#include "request/workers.h"

/* The handler of routes that only submit their work to a worker. */
static enum dt_next submit_work(struct dt_request *req)
{
    return dt_workers_submit(req->api->workers, req, req->route->work);
}

/* clang-format off */
#define LIST_QUERY "topic state id key key_prefix run_from run_to due_from due_to created_from created_to finished_from finished_to failed_from failed_to error_code error_text limit cursor include"

#define ROUTE(method, path, scope, wall, body, query, ...) {method, path, DT_SCOPE_##scope, DT_WALL_##wall, DT_BODY_##body, query, __VA_ARGS__}

static const struct dt_route routes[] = {
    ROUTE("POST",   "/v1/jobs",                       WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_job_create),
    ROUTE("GET",    "/v1/jobs",                       READ,            FILTER,         NONE,   LIST_QUERY, .handle = dt_handle_job_list),
    ROUTE("POST",   "/v1/jobs:batch",                 WRITE,           IN_BODY,        STREAM, NULL, .handle = dt_batch_feed_handle, .stream = &dt_batch_of_jobs.stream),
    ROUTE("GET",    "/v1/jobs/{id}",                  READ,            ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_job_by_id, .work = dt_handle_job_get),
    ROUTE("PATCH",  "/v1/jobs/{id}",                  WRITE,           ROW_IN_PATH,    JSON,   NULL, .handle = dt_handle_job_patch),
    ROUTE("DELETE", "/v1/jobs/{id}",                  WRITE,           ROW_IN_PATH,    NONE,   "retries", .handle = dt_handle_job_cancel),
    ROUTE("POST",   "/v1/jobs/{id}/cancel",           WRITE,           ROW_IN_PATH,    NONE,   "retries", .handle = dt_handle_job_cancel),
    ROUTE("POST",   "/v1/jobs/{id}/results",          REPORT,          ROW_IN_PATH,    JSON,   NULL, .handle = dt_handle_job_results),
    ROUTE("POST",   "/v1/results",                    REPORT,          IN_BODY,        STREAM, NULL, .handle = dt_batch_feed_handle, .stream = &dt_batch_of_results.stream),
    ROUTE("POST",   "/v1/commands",                   WRITE_OR_REPORT, IN_BODY,        JSON,   NULL, .handle = dt_handle_commands),
    ROUTE("POST",   "/v1/jobs/{id}/run-now",          WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_job_operate, .arg = DT_OPERATION_RUN_NOW),
    ROUTE("POST",   "/v1/jobs/{id}/redrive",          WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_job_operate, .arg = DT_OPERATION_REDRIVE),
    ROUTE("GET",    "/v1/jobs/{id}/attempts",         READ,            ROW_IN_PATH,    NONE,   "cursor", .handle = dt_handle_job_attempts),
    ROUTE("GET",    "/v1/jobs/{id}/explain",          READ,            ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_job_by_id, .work = dt_handle_job_explain),
    ROUTE("POST",   "/v1/topics/{topic}/pop",         REPORT,          TOPIC_IN_PATH,  JSON,   NULL, .handle = dt_handle_pop),
    ROUTE("POST",   "/v1/pop",                        REPORT,          IN_BODY,        JSON,   NULL, .handle = dt_handle_pop),
    ROUTE("PUT",    "/v1/topics/{topic}/jobs/{key}",  WRITE,           TOPIC_IN_PATH,  JSON,   "replace", .handle = dt_handle_job_put),
    ROUTE("GET",    "/v1/topics/{topic}/jobs/{key}",  READ,            TOPIC_IN_PATH,  NONE,   NULL, .handle = dt_handle_key_get),
    ROUTE("GET",    "/v1/topics",                     READ,            FILTER,         NONE,   "limit cursor", .handle = dt_handle_list, .list = &dt_list_of_topics),
    ROUTE("GET",    "/v1/topics/{topic}",             READ,            TOPIC_IN_PATH,  NONE,   NULL, .handle = submit_work, .work = dt_handle_topic_get),
    ROUTE("PUT",    "/v1/topics/{topic}",             ADMIN,           TOPIC_IN_PATH,  JSON,   NULL, .handle = dt_handle_topic_put),
    ROUTE("DELETE", "/v1/topics/{topic}",             ADMIN,           TOPIC_IN_PATH,  NONE,   "cancel wait", .handle = dt_handle_topic_delete),
    ROUTE("POST",   "/v1/topics/{topic}/pause",       ADMIN,           TOPIC_IN_PATH,  NONE,   NULL, .handle = submit_work, .work = dt_handle_topic_pause, .arg = true),
    ROUTE("POST",   "/v1/topics/{topic}/resume",      ADMIN,           TOPIC_IN_PATH,  NONE,   NULL, .handle = submit_work, .work = dt_handle_topic_pause, .arg = false),
    ROUTE("POST",   "/v1/jobs:cancel",                WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_CANCEL),
    ROUTE("POST",   "/v1/jobs:reschedule",            WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_RESCHEDULE),
    ROUTE("POST",   "/v1/jobs:redrive",               WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_REDRIVE),
    ROUTE("POST",   "/v1/jobs:run-now",               WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_jobs_operate, .arg = DT_OPERATION_RUN_NOW),
    ROUTE("GET",    "/v1/operations",                 READ,            FILTER,         NONE,   "limit cursor", .handle = dt_handle_list, .list = &dt_list_of_operations),
    ROUTE("GET",    "/v1/operations/{id}",            READ,            ROW_IN_PATH,    NONE,   NULL, .handle = submit_work, .work = dt_handle_operation_get),
    ROUTE("POST",   "/v1/operations/{id}/stop",       WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = submit_work, .work = dt_handle_operation_stop),
    ROUTE("GET",    "/v1/alerts",                     READ,            FILTER,         NONE,   "limit cursor", .handle = dt_handle_list, .list = &dt_list_of_alerts),
    ROUTE("POST",   "/v1/alerts/{id}/silence",        WRITE,           ROW_IN_PATH,    JSON,   NULL, .handle = dt_handle_alert_silence),
    ROUTE("GET",    "/v1/schedules",                  READ,            FILTER,         NONE,   "limit cursor", .handle = dt_handle_list, .list = &dt_list_of_schedules),
    ROUTE("POST",   "/v1/schedules:preview",          READ,            IN_BODY,        JSON,   "count from", .handle = dt_handle_schedule_put),
    ROUTE("GET",    "/v1/schedules/{name}",           READ,            ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_get),
    ROUTE("PUT",    "/v1/schedules/{name}",           WRITE,           IN_BODY,        JSON,   NULL, .handle = dt_handle_schedule_put),
    ROUTE("DELETE", "/v1/schedules/{name}",           WRITE,           ROW_IN_PATH,    NONE,   "cancel", .handle = dt_handle_schedule_delete),
    ROUTE("GET",    "/v1/schedules/{name}/next",      READ,            ROW_IN_PATH,    NONE,   "count from", .handle = dt_handle_schedule_next),
    ROUTE("POST",   "/v1/schedules/{name}/pause",     WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_pause, .arg = true),
    ROUTE("POST",   "/v1/schedules/{name}/resume",    WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_pause, .arg = false),
    ROUTE("POST",   "/v1/schedules/{name}/run-now",   WRITE,           ROW_IN_PATH,    NONE,   NULL, .handle = dt_handle_schedule_by_name, .work = dt_handle_schedule_run_now),
    ROUTE("GET",    "/v1/jobs/{id}/events",           READ,            ROW_IN_PATH,    NONE,   "limit cursor", .handle = dt_handle_event_list),
    ROUTE("GET",    "/v1/events",                     READ,            FILTER,         NONE,   "topic actor from to limit cursor", .handle = dt_handle_event_list),
    ROUTE("GET",    "/v1/forecast",                   READ,            FILTER,         NONE,   "topic from to step", .handle = dt_handle_forecast, .arg = false),
    ROUTE("GET",    "/v1/forecast/spikes",            READ,            ALL_TOPICS,     NONE,   "from to step", .handle = dt_handle_forecast, .arg = true),
    ROUTE("GET",    "/v1/usage",                      ANY,             OWN_TOKEN,      NONE,   "days", .handle = dt_handle_usage),
    ROUTE("GET",    "/v1/tokens",                     ADMIN,           ALL_TOPICS,     NONE,   NULL, .handle = submit_work, .work = dt_handle_token_list),
    ROUTE("POST",   "/v1/tokens",                     ADMIN,           ALL_TOPICS,     JSON,   NULL, .handle = dt_handle_token_new),
    ROUTE("PATCH",  "/v1/tokens/{name}",              ADMIN,           ALL_TOPICS,     JSON,   NULL, .handle = dt_handle_token_set),
    ROUTE("DELETE", "/v1/tokens/{name}",              ADMIN,           ALL_TOPICS,     NONE,   NULL, .handle = submit_work, .work = dt_handle_token_revoke),
    ROUTE("POST",   "/v1/admin/shards",               ADMIN,           ALL_TOPICS,     JSON,   NULL, .handle = dt_handle_shards),
    ROUTE("GET",    "/v1/admin/clock",                ADMIN,           ALL_TOPICS,     NONE,   NULL, .handle = dt_handle_clock),
    ROUTE("POST",   "/v1/admin/clock",                ADMIN,           ALL_TOPICS,     JSON,   NULL, .handle = dt_handle_clock),
    ROUTE("GET",    "/v1/caller",                     ANY,             NOTHING,        NONE,   NULL, .handle = dt_handle_caller),
    ROUTE("GET",    "/v1/overview",                   READ,            ALL_TOPICS,     NONE,   NULL, .handle = submit_work, .work = dt_handle_overview),
    ROUTE("GET",    "/v1/series",                     READ,            TOPIC_IN_QUERY, NONE,   "metric from to step topic", .handle = dt_handle_series),
    ROUTE("GET",    "/v1/dead-letters",               READ,            FILTER,         NONE,   "topic failed_from failed_to", .handle = dt_handle_dead_letters),
    ROUTE("GET",    "/v1/doctor",                     READ,            ALL_TOPICS,     NONE,   "late", .handle = dt_handle_doctor),
    ROUTE("GET",    "/v1/info",                       READ,            ALL_TOPICS,     NONE,   NULL, .handle = submit_work, .work = dt_handle_info),
    ROUTE("GET",    "/healthz",                       NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_healthz),
    ROUTE("GET",    "/readyz",                        NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_readyz),
    ROUTE("GET",    "/metrics",                       READ,            ALL_TOPICS,     NONE,   NULL, .handle = dt_handle_metrics),
    ROUTE("GET",    "/console",                       NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_console_moved),
    ROUTE("GET",    "/console/",                      NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_console),
    ROUTE("GET",    "/console/{file}",                NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_console),
    ROUTE("GET",    "/openapi.yaml",                  NONE,            NOTHING,        NONE,   NULL, .handle = dt_handle_openapi),
};
/* clang-format on */

const struct dt_route *dt_routes(size_t *n)
{
    *n = sizeof(routes) / sizeof(routes[0]);
    return routes;
}
