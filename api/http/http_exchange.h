/*
 * The way of one request from its head to its answer, between the connections of base/http/connection.h and the
 * handlers of request/request.h.
 *
 *   http_exchange.c  what a connection reports: head, body, end; and what becomes of the answer
 *   http_admit.c     who is let through, by the head alone
 *
 * An exchange exists while a request is under way; its thread keeps a few for the next ones. It belongs to the thread
 * of its connection or, while the request is suspended, to the thread that it was handed to.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "api.h"
#include "base/addresses.h"
#include "base/http/connection.h"
#include "base/thread.h"
#include "http_listen.h"
#include "http_server.h"
#include "request/request.h"

struct dt_exchange;

/* One HTTP thread. What follows conns belongs to it. */
struct dt_http_thread {
    struct dt_http *http;
    dt_conns *conns;
    struct dt_thread thread;
    struct dt_exchange *spare; /* by next */
    size_t n_exchanges;        /* spare ones included */
};

struct dt_http {
    struct dt_api *api;
    const struct dt_router *router;
    dt_http_expire *expire;
    struct dt_http_thread *threads;
    size_t n_threads;
    dt_conns **conns; /* of the threads */
    struct dt_listeners listeners;
    struct dt_conn_meters meters;
    struct dt_route_stats *stats; /* one a route, and one more for requests without a route */
    struct dt_networks proxies;   /* that are believed … */
    bool forwarded;               /* … in the header Forwarded; otherwise in X-Forwarded-For */
    char id_prefix[17];
    _Atomic uint64_t ids;
    _Atomic bool draining;
    _Atomic size_t under_way; /* requests whose head has come and whose answer is not sent */
    pthread_mutex_t lock;
    pthread_cond_t quiet; /* none is under way */
};

struct dt_exchange {
    struct dt_request req; /* first: a dt_request is its exchange */
    struct dt_http_thread *thread;
    dt_conn *conn;
    struct dt_evtask resumed;
    struct dt_exchange *next; /* spare */
    _Atomic bool suspended;
    /* Of the request under way. */
    size_t route_index;
    bool handled;  /* the route's handle was called */
    bool streams;  /* the body goes to the stream */
    bool drops;    /* the remainder of the body is dropped */
    bool detached; /* the answer was detached */
    bool gone;     /* the client; no answer can be detached */
    bool has_body, cross_site;
    size_t received, limit;
    int64_t lost_us; /* of the loop, as far as the deadline allows for it */
    struct dt_str authorization, encoding;
    struct dt_str host;      /* of an absolute target, or the header */
    struct dt_str origin;    /* of the page that asks */
    struct dt_str forwarded; /* the last line of http.forwarded_header */
    struct dt_str query;     /* as it was sent */
    char id[DT_REQUEST_ID_MAX + 1];
    struct dt_strbuf body;
    struct dt_strbuf headers; /* of the answer */
};

/* Reads the headers into the request, whose path and method are set, and checks all that a head says, in the order in
 * which a caller learns of what is wrong. False: the answer is filled in. */
DT_MUST_CHECK bool dt_exchange_admit(struct dt_exchange *e, const struct dt_head *head);

/* The owner of connections whose dt_conn_arg is a dt_http_thread. */
extern const struct dt_conn_events dt_exchange_events;
/* Registers the metrics of routes, and prepares ids of requests. NOMEM, SYSTEM; dt_exchanges_clear is called all the
 * same. */
DT_MUST_CHECK dt_status dt_exchanges_init(struct dt_http *http);
void dt_exchanges_clear(struct dt_http *http);
