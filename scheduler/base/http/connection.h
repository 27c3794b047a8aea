/*
 * HTTP/1.1 connections of one thread: from bytes to requests, and from answers to bytes. The program behind it, the
 * owner, has requests, one at a time a connection, and answers them, at once or later.
 *
 *             bytes             whole head        body              whole request
 *   accepted ------> (judged) ------------> begun ----> body ... ----------------> whole --> dt_conn_answer --> ended
 *                        |                                                            (other requests follow)
 *                        '--> refused: no request, late, or the server ends: the owner answers with a problem
 *
 * The owner has a request in its hands from `whole`, or dt_conn_wait, until it answers, or dt_conn_go_on. While it has,
 * the connection stays, even if the client is gone; no deadline runs, and nothing further is read.
 *
 * Every wait for a client has a deadline, in the loop's patient time (loop.h), and is judged after the socket was read.
 * Requests that are sent ahead of answers are answered in their order, and answers that are there together leave in one
 * write. An idle connection has its struct and nothing else of ours.
 *
 * Everything runs on the thread of dt_conns_run, the owner's calls too, except where something else is said. Another
 * thread has its work run there by dt_evloop_post.
 */
#pragma once

#include <sys/socket.h>

#include "base/addresses.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "head.h"
#include "loop.h"
#include "reply.h"
#include "tls_files.h"

typedef struct dt_conns dt_conns;
typedef struct dt_conn dt_conn;

/* The limits of a thread, and the time that a client may take. */
struct dt_conn_rules {
    size_t most;     /* connections; a further one takes the place of the least useful, if one waits for its client */
    size_t crowd;    /* connections that wait for a handshake, a head or a body: as above; one address: half of them */
    int64_t head_us; /* for a handshake and the first head; for a later head, from its first byte: refused with 408 */
    int64_t idle_us; /* between two requests: the connection ends */
    int64_t body_us; /* for a body, from its head on, without the owner's time: refused with 408 */
    int64_t send_us; /* to take an answer: the connection ends */
    const struct dt_networks *proxies; /* addresses that may have more than half of a crowd; NULL: none */
    struct dt_conn_meters *meters;     /* NULL: nothing is counted */
};

/* What all threads of a server count together. */
struct dt_conn_meters {
    _Atomic int64_t open, waiting, secure;
    dt_metric *open_gauge, *waiting_gauge, *secure_gauge;
    dt_metric *late, *crowded, *refused;                  /* first requests that were not served */
    dt_metric *flooded;                                   /* connections of HTTP/2 */
    dt_metric *greeted, *no_tls, *not_greeted, *deserted; /* handshakes */
};

/* The owner's side. */
struct dt_conn_events {
    size_t own; /* bytes that the owner has with each connection, all zero at first: dt_conn_own */
    /* A whole head has come; its slices end with the call. The owner may answer, or dt_conn_wait before the body. */
    void (*begun)(dt_conn *conn, const struct dt_head *head);
    /* A part of the body. Returns how much was taken; if not all, it waits as after dt_conn_wait. NULL: dropped */
    size_t (*body)(dt_conn *conn, const char *p, size_t n);
    /* The body has come, if there is one. The owner has the request, and answers now or later. */
    void (*whole)(dt_conn *conn);
    /* What came is no request, or not in time (408), or the server ends (503). The owner answers, now or later; the
     * connection then ends. */
    void (*refused)(dt_conn *conn, int status, const char *detail);
    /* The client has ended its side, and may be gone, while the owner has its request. May be NULL. */
    void (*left)(dt_conn *conn);
    /* Four times a second while there are connections, with dt_conn_arg. May be NULL. */
    void (*tick)(void *arg);
    /* The request is over: its answer has left, or (not sent) it was not answered, or not whole. May be NULL. */
    void (*ended)(dt_conn *conn, bool sent);
    /* Last. May be NULL. */
    void (*closed)(dt_conn *conn);
};

enum dt_conns_stage {
    DT_CONNS_OPEN,
    DT_CONNS_DRAIN, /* nothing is accepted; idle connections end, the others after their answer */
    DT_CONNS_CUT,   /* requests that are not whole yet are refused with 503 */
    DT_CONNS_STOP   /* dt_conns_run returns */
};

/* ---- all connections of a thread ---- */

/* rules and events are copied; what arg is, is the owner's. SYSTEM, NOMEM. */
DT_MUST_CHECK dt_status dt_conns_new(const struct dt_conn_rules *rules, const struct dt_conn_events *events, void *arg,
                                     const dt_clock *clock, dt_conns **out, struct dt_error *err);
/* Ends all connections. After dt_conns_run; no request is in the owner's hands. Accepts NULL. */
void dt_conns_free(dt_conns *conns);
/*
 * Accepts from this listening, non-blocking socket, which stays its owner's and may be shared by several threads.
 * files: it speaks TLS. Before dt_conns_run. SYSTEM.
 */
DT_MUST_CHECK dt_status dt_conns_listen(dt_conns *conns, int fd, dt_tls_files *files, struct dt_error *err);
/* Has n threads share newcomers: whoever accepts one gives it to the thread with the fewest. Before dt_conns_run; all
 * end before one is freed, and `all` lives until then. */
void dt_conns_share(dt_conns *const *all, size_t n);
/* Serves a connected, non-blocking socket, and owns it from here on. files: as above. False: memory is out. */
bool dt_conns_adopt(dt_conns *conns, int fd, const struct sockaddr *address, socklen_t n, dt_tls_files *files);
/* One round: sleeps until something is to be done, and does it. */
void dt_conns_round(dt_conns *conns);
/* Rounds until DT_CONNS_STOP. */
void dt_conns_run(dt_conns *conns);
/* Any thread. A later stage only. */
void dt_conns_enter(dt_conns *conns, enum dt_conns_stage stage);
/* The owner has no room for a request: answers that their clients do not take give way in this round. */
void dt_conns_press(dt_conns *conns);
/* How many connections there are, those included that are about to end. Any thread. */
size_t dt_conns_count(const dt_conns *conns);
struct dt_evloop *dt_conns_loop(dt_conns *conns);
/* Registers the metrics of an API. */
void dt_conn_meters_init(struct dt_conn_meters *meters);

/* ---- one connection ---- */

void *dt_conn_own(dt_conn *conn);
void *dt_conn_arg(const dt_conn *conn); /* what dt_conns_new was given */
dt_conns *dt_conn_conns(const dt_conn *conn);
/* False: it is a Unix socket's. */
bool dt_conn_address(const dt_conn *conn, unsigned char out[DT_ADDRESS_BYTES]);
/* To be polled only, for the client's end, while the owner has the request. -1: there is no descriptor left. */
int dt_conn_fd(dt_conn *conn);
/* The caller is known: strangers lose their places before it does. */
void dt_conn_known(dt_conn *conn);
/*
 * While the owner has the whole request, what the client sends is read, so that its leaving is noticed. 16 KiB are kept
 * for later; if more comes it is dropped, and the connection ends after the answer. After 4 MiB the client has left.
 */
void dt_conn_listen(dt_conn *conn);

/* In begun and body: the owner has the request, and nothing of its body comes until it goes on. */
void dt_conn_wait(dt_conn *conn);
void dt_conn_go_on(dt_conn *conn);

/* Answers the request that began, once. What has not come of its body is dropped, or, if it is large, the connection
 * ends. */
void dt_conn_answer(dt_conn *conn, struct dt_reply *reply);
