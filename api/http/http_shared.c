/* Owns what http_shared.h describes. Refuses to know libmicrohttpd, and who holds connections. */
#include "http_shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/metrics.h"
#include "http_detached.h"

#define STATUS_CLASSES 6

struct dt_route_stats {
    dt_metric *seconds;
    dt_metric *codes[STATUS_CLASSES];
};

/* ---- beginning and end ---- */

static void register_route(struct dt_route_stats *stats, const char *method, const char *path)
{
    static const char *const classes[STATUS_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    char labels[160];
    snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\"", method, path);
    stats->seconds =
        dt_histogram("duetime_http_request_seconds", "From a request's headers to the end of its answer.", labels);
    for (int i = 0; i < STATUS_CLASSES; i++) {
        snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",code=\"%s\"", method, path, classes[i]);
        stats->codes[i] = i == 1 || i == 3
                              ? NULL
                              : dt_counter("duetime_http_requests_total", "Requests by route and answer.", labels);
    }
}

static dt_status prepare_routes(struct dt_http_shared *http)
{
    size_t n = dt_router_count(http->router);
    http->stats = calloc(n + 1, sizeof(*http->stats));
    if (!http->stats)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_route *route = dt_router_route(http->router, i);
        register_route(&http->stats[i], route->method, route->path);
    }
    register_route(&http->stats[n], "", "none");
    return DT_OK;
}

static dt_status prepare_ids(struct dt_http_shared *http)
{
    uint32_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return DT_SYSTEM;
    snprintf(http->id_prefix, sizeof(http->id_prefix), "%08x", random);
    return DT_OK;
}

dt_status dt_http_shared_init(struct dt_http_shared *http, struct dt_api *api, const struct dt_router *router)
{
    http->api = api;
    http->router = router;
    dt_connections_init(&http->connections, api->config, api->clock);
    http->forwarded = strcmp(api->config->http_forwarded_header, "forwarded") == 0;
    dt_wakeups_init(&http->wakeups);
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->quiet, NULL);
    dt_status status = dt_linger_new(&http->linger);
    if (status == DT_OK)
        status = dt_networks_parse(dt_str(api->config->http_trusted_proxies), &http->proxies, NULL);
    if (status == DT_OK)
        status = prepare_ids(http);
    return status == DT_OK ? prepare_routes(http) : status;
}

void dt_http_shared_clear(struct dt_http_shared *http)
{
    dt_wakeups_clear(&http->wakeups);
    dt_linger_free(http->linger);
    dt_connections_clear(&http->connections);
    pthread_mutex_destroy(&http->lock);
    pthread_cond_destroy(&http->quiet);
    free(http->stats);
}

/* ---- requests ---- */

struct dt_str dt_http_make_id(struct dt_http_shared *http, char id[DT_REQUEST_ID_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = atomic_fetch_add_explicit(&http->ids, 1, memory_order_relaxed);
    char *p = id + strlen(http->id_prefix);
    memcpy(id, http->id_prefix, strlen(http->id_prefix));
    *p++ = '-';
    for (int shift = 36; shift >= 0; shift -= 4)
        *p++ = digits[n >> shift & 15];
    *p = '\0';
    return (struct dt_str){id, (size_t)(p - id)};
}

void dt_http_count(const struct dt_http_shared *http, size_t route_index, int status, double seconds)
{
    const struct dt_route_stats *stats = &http->stats[route_index];
    int class = status / 100;
    dt_metric_add(stats->codes[class > 0 && class < STATUS_CLASSES ? class : 0], 1);
    if (seconds >= 0)
        dt_metric_observe(stats->seconds, seconds);
}

void dt_http_begin(struct dt_http_shared *http)
{
    atomic_fetch_add(&http->under_way, 1);
}

void dt_http_end(struct dt_http_shared *http)
{
    if (atomic_fetch_sub(&http->under_way, 1) != 1 || !atomic_load(&http->connections.draining))
        return;
    pthread_mutex_lock(&http->lock);
    pthread_cond_broadcast(&http->quiet);
    pthread_mutex_unlock(&http->lock);
}

void dt_http_wait_until_quiet(struct dt_http_shared *http, int64_t until_us)
{
    pthread_mutex_lock(&http->lock);
    while (atomic_load(&http->under_way) > 0)
        if (!dt_clock_wait(&http->quiet, &http->lock, until_us))
            break;
    pthread_mutex_unlock(&http->lock);
}

void dt_http_refuse(struct dt_http_shared *http, int fd, enum dt_problem_type type, const char *detail)
{
    char id[DT_REQUEST_ID_MAX + 1];
    dt_http_make_id(http, id);
    dt_http_count(http, dt_router_count(http->router), dt_problem_http_status(type), -1);
    dt_detached_problem(dt_detached_new(http->linger, http->api->clock, fd, id, DT_LINGER_US), type, detail);
}
