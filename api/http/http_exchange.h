/*
 * Carries one request from its head to its answer. Connects the connections of base/http/connection.h with the handlers
 * of request/request.h.
 *
 *   http_exchange.c  handles what a connection reports (head, body, end), and sends the answer
 *   http_admit.c     admits or refuses a request by its head
 *
 * An exchange exists while a request is under way; each HTTP thread keeps some spare exchanges for later requests. An
 * exchange belongs to the thread of its connection; while the request is suspended, it belongs to the thread that the
 * request was passed to.
 */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "api.h"
#include "base/addresses.h"
#include "base/http/connection.h"
#include "base/thread.h"
#include "http_server.h"
#include "request/request.h"

struct dt_exchange;

/* One HTTP thread. The members after `conns` are used by this thread only. */
struct dt_http_thread {
    struct dt_http *http;
    dt_conns *conns;
    struct dt_thread thread;
    struct dt_exchange *spare; /* spare exchanges, linked by `next` */
    size_t n_exchanges;        /* number of exchanges, including the spare ones */
};

/* A bound, listening, non-blocking socket. */
struct dt_listener {
    int fd;
    bool tls;
    struct dt_listen on; /* address; if its port was 0, the port that the kernel chose */
    dev_t device;        /* device and inode of a Unix socket's file, so that only this file is removed */
    ino_t inode;
};

struct dt_listeners {
    struct dt_listener v[DT_LISTENERS_MAX];
    size_t n;
};

struct dt_http {
    struct dt_api *api;
    const struct dt_router *router;
    dt_http_expire *expire;
    struct dt_http_thread *threads;
    size_t n_threads;
    struct dt_listeners listeners;
    struct dt_conn_meters meters;
    struct dt_route_stats *stats; /* an element for each route, and a last one for requests without a route */
    struct dt_networks proxies;   /* addresses of trusted proxies */
    bool forwarded;               /* proxies name the client in Forwarded; false: in X-Forwarded-For */
    char id_prefix[17];
    _Atomic uint64_t ids;
};

struct dt_exchange {
    struct dt_request req; /* must be the first member: a dt_request is cast to its exchange */
    struct dt_http_thread *thread;
    dt_conn *conn;
    struct dt_evtask resumed;
    struct dt_exchange *next; /* next spare exchange */
    _Atomic bool suspended;
    /* Members below: about the request under way. */
    size_t route_index;
    bool handled;  /* the handler of the route was called */
    bool streams;  /* the body is passed to the route's stream */
    bool drops;    /* the remaining body is dropped */
    bool detached; /* the answer was detached */
    bool gone;     /* the client has disconnected, so the answer cannot be detached */
    bool has_body, cross_site;
    size_t received, limit;
    /* the exchange has extended its deadline by the loop's lost_us up to this value (base/http/loop.h) */
    int64_t lost_us;
    struct dt_str authorization, encoding;
    struct dt_str host;      /* host of an absolute target; otherwise the header Host */
    struct dt_str origin;    /* header Origin: the page that made the request */
    struct dt_str forwarded; /* last of the request's headers that name the client (Forwarded or X-Forwarded-For) */
    struct dt_str query;     /* query as it was sent, still encoded */
    char id[DT_REQUEST_ID_MAX + 1];
    struct dt_strbuf body;
};

/* Reads the headers into the request, and checks the head. If the request has several faults, the order of the checks
 * decides which problem the caller gets. False: the answer is filled in. */
DT_MUST_CHECK bool dt_exchange_admit(struct dt_exchange *e, const struct dt_head *head);

/* Handlers of events on connections whose dt_conn_arg is a struct dt_http_thread. */
extern const struct dt_conn_events dt_exchange_events;
/* Registers the metrics of routes, and prepares the ids of requests. NOMEM, SYSTEM: the caller must still call
 * dt_exchanges_clear. */
dt_status dt_exchanges_init(struct dt_http *http, struct dt_error *err);
void dt_exchanges_clear(struct dt_http *http);
