/* Owns the HTTP server: its listeners and its threads, each of which has its own connections. Does not know what
 * happens on a connection (base/http) or to a request (http_exchange.c). */
#include "http_server.h"

#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "http_exchange.h"

#define DESCRIPTORS_KEPT 256u /* descriptors that are left for MySQL, Redis, Kafka, files and threads */
#define CONNECTIONS_MIN  64u  /* minimal number of connections of a thread */

/* Raises the limit of descriptors to its maximum, because each connection needs a descriptor, and the limit that most
 * shells set is too low. Returns how many connections the limit allows. */
static size_t raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        DT_LOG(WARN, "http", "the limit of open descriptors could not be raised");
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < DESCRIPTORS_KEPT)
        return 0;
    return (size_t)limit.rlim_cur - DESCRIPTORS_KEPT;
}

static void run_http_thread(void *arg)
{
    const struct dt_http_thread *thread = arg;
    dt_conns_run(thread->conns);
}

static dt_status prepare_thread(struct dt_http *http, const struct dt_conn_rules *rules, struct dt_error *err)
{
    struct dt_http_thread *thread = &http->threads[http->n_threads];
    thread->http = http;
    dt_status status = dt_conns_new(rules, &dt_exchange_events, thread, http->api->clock, &thread->conns, err);
    if (status != DT_OK)
        return status;
    dt_conns_share(thread->conns, http->threads[0].conns);
    http->n_threads++;
    for (size_t i = 0; status == DT_OK && i < http->listeners.n; i++)
        status = dt_conns_listen(thread->conns, http->listeners.v[i].fd,
                                 http->listeners.v[i].tls ? http->api->tls : NULL, err);
    return status;
}

static dt_status start_threads(struct dt_http *http, struct dt_error *err)
{
    const struct dt_config *config = http->api->config;
    const size_t threads = (size_t)config->http_threads;
    const size_t most = raise_descriptor_limit() / threads;
    const struct dt_conn_rules rules = {
        .most = most > CONNECTIONS_MIN ? most : CONNECTIONS_MIN,
        .crowd = (size_t)config->http_waiting / threads > 1 ? (size_t)config->http_waiting / threads : 1,
        .head_us = config->http_head_timeout * 1000,
        .idle_us = config->http_idle_timeout * 1000,
        .body_us = config->http_request_timeout * 1000,
        .send_us = config->http_request_timeout * 1000,
        .proxies = &http->proxies,
        .meters = &http->meters,
    };
    dt_conn_meters_init(&http->meters);
    http->threads = calloc(threads, sizeof(*http->threads));
    dt_status status = http->threads ? DT_OK : dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    while (status == DT_OK && http->n_threads < threads)
        status = prepare_thread(http, &rules, err);
    for (size_t i = 0; status == DT_OK && i < threads; i++)
        status = dt_thread_start(&http->threads[i].thread, "http", run_http_thread, &http->threads[i], err);
    return status;
}

dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http_expire *expire, dt_http **out,
                        struct dt_error *err)
{
    *out = NULL;
    struct dt_http *http = calloc(1, sizeof(*http));
    if (!http)
        return dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    http->api = api;
    http->router = router;
    http->expire = expire;
    http->forwarded = strcmp(api->config->http_forwarded_header, "forwarded") == 0;
    dt_status status = dt_exchanges_init(http);
    if (status == DT_OK)
        status = dt_networks_parse(dt_str(api->config->http_trusted_proxies), &http->proxies, err);
    else
        (void)dt_fail(err, status, "the HTTP server cannot start");
    DT_THEN(status, dt_http_listen(api->config, &http->listeners, err));
    DT_THEN(status, start_threads(http, err));
    if (status != DT_OK) {
        dt_http_stop(http);
        return status;
    }
    for (const struct dt_listener *l = http->listeners.v; l < http->listeners.v + http->listeners.n; l++)
        DT_LOG(INFO, "http", "listening", DT_S("version", DUETIME_VERSION),
               DT_S("as", l->on.as == DT_LISTEN_UNIX ? "unix"
                          : l->tls                   ? "tls"
                                                     : "plain"),
               DT_S("address", l->on.at.name), DT_I("port", l->on.at.port));
    *out = http;
    return DT_OK;
}

bool dt_http_moves(dt_http *http)
{
    bool moves = true;
    for (size_t i = 0; i < http->n_threads; i++)
        moves &= dt_evloop_moves(dt_conns_loop(http->threads[i].conns));
    return moves;
}

void dt_http_drain(dt_http *http, bool cut, int64_t until_us)
{
    const struct timespec moment = {0, 2 * 1000000};
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_enter(http->threads[i].conns, cut ? DT_CONNS_CUT : DT_CONNS_DRAIN);
    for (size_t requests = 1; requests && dt_clock_mono_us(http->api->clock) < until_us;) {
        requests = 0;
        for (size_t i = 0; i < http->n_threads; i++)
            requests += dt_conns_requests(http->threads[i].conns);
        if (requests)
            nanosleep(&moment, NULL);
    }
}

void dt_http_stop(dt_http *http)
{
    if (!http)
        return;
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_enter(http->threads[i].conns, DT_CONNS_STOP);
    for (size_t i = 0; i < http->n_threads; i++)
        dt_thread_join(&http->threads[i].thread);
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_free(http->threads[i].conns);
    dt_listeners_close(&http->listeners);
    dt_exchanges_clear(http);
    free(http->threads);
    free(http);
}
