/*
 * The server as all its connections share it: its configuration, the table of connections, request ids, the metrics of
 * routes, and the count of requests that are under way. Nothing here knows how a request is read or answered.
 *
 * Everything but what is said to be atomic or under the lock is constant while the server runs.
 */
#ifndef DT_API_HTTP_SHARED_H
#define DT_API_HTTP_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "base/addresses.h"
#include "http_connections.h"
#include "http_linger.h"
#include "http_wakeup.h"
#include "request/request.h"
#include "request/router.h"

#define DT_LINGER_US INT64_C(2000000) /* for the client to read an answer before its connection is closed */

struct dt_route_stats;

struct dt_http_shared {
    struct dt_api *api;
    const struct dt_router *router;
    struct dt_route_stats *stats; /* one a route, and one more for requests without a route */
    struct dt_networks proxies;   /* that are believed … */
    bool forwarded;               /* … in the header Forwarded; otherwise in X-Forwarded-For */
    char id_prefix[17];
    _Atomic uint64_t ids;
    dt_linger *linger;
    struct dt_connections connections;
    struct dt_wakeups wakeups;
    pthread_mutex_t lock;     /* for quiet */
    pthread_cond_t quiet;     /* nothing is under way */
    _Atomic size_t under_way; /* requests whose head has come and whose answer is not sent, detached answers included */
};

/* On failure dt_http_shared_clear is called all the same. */
DT_MUST_CHECK dt_status dt_http_shared_init(struct dt_http_shared *http, struct dt_api *api,
                                            const struct dt_router *router);
void dt_http_shared_clear(struct dt_http_shared *http);

static inline int64_t dt_http_now_us(const struct dt_http_shared *http)
{
    return dt_clock_mono_us(http->api->clock);
}

/* Writes a request id that this process has not used before. */
struct dt_str dt_http_make_id(struct dt_http_shared *http, char id[DT_REQUEST_ID_MAX + 1]);
/* Counts a request of this route (dt_router_count: none) that was answered so; seconds < 0: its time is not known. */
void dt_http_count(const struct dt_http_shared *http, size_t route_index, int status, double seconds);

void dt_http_begin(struct dt_http_shared *http);
/* Wakes dt_http_wait_until_quiet when nothing is under way any more. */
void dt_http_end(struct dt_http_shared *http);
/* Returns when no request is under way, or at until_us. */
void dt_http_wait_until_quiet(struct dt_http_shared *http, int64_t until_us);

/*
 * Refuses what came on a socket on which no request is under way, with a problem past the HTTP library. Takes the
 * socket over. detail is static text.
 */
void dt_http_refuse(struct dt_http_shared *http, int fd, enum dt_problem_type type, const char *detail);

#endif
