/*
 * Owns the HTTP server: its threads, the slots for connections, the janitor. Refuses to know what happens on a
 * connection (http_exchange.c) and before it is let in (http/acceptor.c).
 *
 * Every connection that was let in has a slot until its socket is closed. Slots are shared out evenly over the HTTP
 * threads, and some are kept for health and for callers with a token.
 *
 * The janitor is one thread. It sends detached answers and drops the input of refused requests (http_linger.h), ends
 * connections whose time is up (http_connections.h), and has requests answered whose deadline has passed. It may shut
 * down a socket of the library's, and never writes to one.
 */
#include "http_server.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "acceptor.h"
#include "api.h"
#include "base/log.h"
#include "base/thread.h"
#include "http_exchange.h"
#include "http_listen.h"
#include "http_mhd.h"
#include "http_shared.h"
#include "terminator.h"

#define SLOTS_PER_THREAD 112u /* the library forgets connections when it has more: http_mhd.h */
#define SLOTS_KEPT       8u   /* a thread, for health and for callers who show a token */

/* One HTTP thread. */
struct http_thread {
    struct dt_http *http;
    struct dt_mhd_thread mhd;
    _Atomic size_t slots; /* taken */
};

struct dt_http {
    struct dt_http_shared shared;
    dt_http_expire *expire;
    struct http_thread *threads; /* as many as http.threads */
    size_t n_threads;            /* that run */
    dt_terminator *terminator;   /* NULL: nothing listens with TLS */
    dt_acceptor *acceptor;
    _Atomic size_t slots; /* taken, of all threads */
    size_t slots_max;
    struct dt_thread janitor;
};

/* ---- slots ---- */

static void release_slot(struct http_thread *thread)
{
    atomic_fetch_sub(&thread->slots, 1);
    atomic_fetch_sub(&thread->http->slots, 1);
}

static bool has_slot(void *arg, bool first)
{
    struct dt_http *http = arg;
    size_t kept = first ? 0 : (size_t)http->shared.api->config->http_threads * SLOTS_KEPT;
    return atomic_load(&http->slots) < http->slots_max - kept;
}

static struct http_thread *emptiest_thread(const struct dt_http *http)
{
    struct http_thread *found = &http->threads[0];
    for (size_t i = 1; i < http->n_threads; i++)
        if (atomic_load(&http->threads[i].slots) < atomic_load(&found->slots))
            found = &http->threads[i];
    return found;
}

/* ---- what the acceptor asks, on its thread ---- */

static void hand_over(void *arg, int fd, const struct sockaddr *address, socklen_t n)
{
    struct dt_http *http = arg;
    struct http_thread *thread = emptiest_thread(http);
    atomic_fetch_add(&http->slots, 1);
    atomic_fetch_add(&thread->slots, 1);
    if (!dt_mhd_add(&thread->mhd, fd, address, n))
        release_slot(thread);
}

static void evict(void *arg, size_t n, bool pressing)
{
    struct dt_http *http = arg;
    dt_connections_evict(&http->shared.connections, n, pressing);
}

static int secure(void *arg, int fd, const struct sockaddr *address)
{
    struct dt_http *http = arg;
    return dt_terminator_secure(http->terminator, fd, address);
}

/* The terminator's threads call it, too. */
static void refuse_waiting(void *arg, int fd, enum dt_problem_type type, const char *detail)
{
    struct dt_http *http = arg;
    dt_http_refuse(&http->shared, fd, type, detail);
}

/* ---- what the library calls, on its threads ---- */

static struct dt_exchange *opened(void *arg, struct MHD_Connection *mhd, int fd)
{
    struct http_thread *thread = arg;
    return dt_exchange_new(&thread->http->shared, mhd, fd);
}

static void closed(void *arg, struct dt_exchange *exchange)
{
    struct http_thread *thread = arg;
    dt_exchange_free(exchange);
    release_slot(thread);
    dt_acceptor_slot_freed(thread->http->acceptor);
}

static const struct dt_mhd_events events = {
    .opened = opened,
    .closed = closed,
    .begun = dt_exchange_begun,
    .body = dt_exchange_body,
    .ready = dt_exchange_ready,
    .ended = dt_exchange_ended,
};

/* ---- the janitor ---- */

static void run_janitor(void *arg)
{
    struct dt_http *http = arg;
    struct dt_http_shared *shared = &http->shared;
    int64_t swept_us = 0;
    bool any = false;
    while (!dt_thread_stopping(&http->janitor)) {
        dt_linger_wait(shared->linger, dt_http_now_us(shared), any ? DT_SWEEP_US / 1000 : -1);
        if (dt_http_now_us(shared) - swept_us < DT_SWEEP_US) {
            any = true; /* perhaps it was woken for the first connection since the last sweep: look again soon */
            continue;
        }
        swept_us = dt_http_now_us(shared);
        any = dt_connections_sweep(&shared->connections);
        http->expire(shared->api, swept_us);
    }
}

static void stop_janitor(struct dt_http *http)
{
    dt_thread_ask_stop(&http->janitor, NULL);
    if (http->janitor.started)
        dt_linger_wake(http->shared.linger);
    dt_thread_join(&http->janitor);
}

/* ---- beginning and end ---- */

static bool start_thread(struct dt_http *http, struct http_thread *thread)
{
    thread->http = http;
    return dt_mhd_start(&thread->mhd, &events, thread);
}

static dt_status start_threads(struct dt_http *http, struct dt_error *err)
{
    size_t threads = (size_t)http->shared.api->config->http_threads;
    http->slots_max = threads * SLOTS_PER_THREAD;
    http->threads = calloc(threads, sizeof(*http->threads));
    while (http->threads && http->n_threads < threads && start_thread(http, &http->threads[http->n_threads]))
        http->n_threads++;
    return http->n_threads == threads ? DT_OK : dt_fail(err, DT_SYSTEM, "the HTTP server cannot start");
}

/* Every connection needs a descriptor, and most shells give out fewer than connections may come. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        DT_LOG(WARN, "http", "the number of descriptors stays low");
}

static dt_status start_terminator(struct dt_http *http, struct dt_error *err)
{
    struct dt_api *api = http->shared.api;
    if (!api->tls || !dt_http_wants_tls(api->config))
        return DT_OK;
    dt_status status = dt_terminator_start(api->config, api->clock, api->tls, &http->terminator, err);
    if (status == DT_OK)
        dt_terminator_refuse_by(http->terminator, refuse_waiting, http);
    return status;
}

static void log_listeners(const struct dt_listeners *listeners)
{
    for (size_t i = 0; i < listeners->n; i++) {
        const struct dt_listener *listener = &listeners->v[i];
        bool local = listener->on.as == DT_LISTEN_UNIX;
        DT_LOG(INFO, "http", "listening", DT_S("version", DUETIME_VERSION),
               DT_S("as", local           ? "unix"
                          : listener->tls ? "tls"
                                          : "plain"),
               DT_S("address", listener->on.at.name), DT_I("port", listener->on.at.port));
    }
}

static dt_status open_acceptor(struct dt_http *http, struct dt_error *err)
{
    const struct dt_config *config = http->shared.api->config;
    const struct dt_acceptor_server behind = {http, has_slot, hand_over, evict, secure, refuse_waiting};
    struct dt_listeners listeners;
    dt_status status = dt_http_listen(config, &listeners, err);
    raise_descriptors();
    if (status == DT_OK)
        status = dt_acceptor_start(config, http->shared.api->clock, &listeners, &behind, &http->acceptor, err);
    if (status == DT_OK)
        log_listeners(&listeners);
    return status;
}

static void http_free(struct dt_http *http)
{
    dt_acceptor_free(http->acceptor);
    dt_http_shared_clear(&http->shared);
    dt_terminator_stop(http->terminator); /* all ends of its connections but its own are closed by now */
    free(http->threads);
    free(http);
}

dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http_expire *expire, dt_http **out,
                        struct dt_error *err)
{
    *out = NULL;
    struct dt_http *http = calloc(1, sizeof(*http));
    if (!http)
        return dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    http->expire = expire;
    dt_status status = dt_http_shared_init(&http->shared, api, router);
    if (status == DT_OK)
        status = dt_thread_start(&http->janitor, "janitor", run_janitor, http, NULL);
    if (status == DT_OK)
        status = start_threads(http, err);
    else
        (void)dt_fail(err, status, "the HTTP server cannot start");
    if (status == DT_OK)
        status = start_terminator(http, err);
    if (status == DT_OK)
        status = open_acceptor(http, err);
    if (status != DT_OK) {
        dt_http_stop(http);
        return status;
    }
    *out = http;
    return DT_OK;
}

bool dt_http_moves(dt_http *http)
{
    bool moves = true;
    for (size_t i = 0; i < http->n_threads; i++)
        moves &= dt_mhd_moves(&http->threads[i].mhd);
    return moves;
}

void dt_http_drain(dt_http *http, int64_t until_us)
{
    atomic_store(&http->shared.connections.draining, true);
    dt_acceptor_close(http->acceptor);
    dt_http_wait_until_quiet(&http->shared, until_us);
}

void dt_http_cut(dt_http *http, int64_t until_us)
{
    atomic_store(&http->shared.connections.cutting, true);
    dt_http_wait_until_quiet(&http->shared, until_us);
}

/* Gives clients who read their detached answers the time to do so. */
static void await_detached(struct dt_http *http)
{
    struct timespec pause = {0, 10 * 1000000};
    struct dt_http_shared *shared = &http->shared;
    int64_t until_us = dt_http_now_us(shared) + DT_LINGER_US;
    while (http->janitor.started && dt_linger_unsent(shared->linger) > 0 && dt_http_now_us(shared) < until_us)
        nanosleep(&pause, NULL);
}

void dt_http_stop(dt_http *http)
{
    if (!http)
        return;
    dt_acceptor_close(http->acceptor);
    dt_wakeups_close(&http->shared.wakeups);
    for (size_t i = 0; i < http->n_threads; i++)
        dt_mhd_stop(&http->threads[i].mhd);
    await_detached(http);
    stop_janitor(http);
    http_free(http);
}
