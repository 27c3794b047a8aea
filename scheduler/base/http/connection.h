/*
 * HTTP/1.1 connections of one thread: turns bytes into requests, and responses into bytes. The program that uses this
 * file, the owner, gets requests, one at a time for each connection, and answers them, at once or later.
 *
 *            bytes             whole head        body              whole request
 *  accepted ------> (parsed) -------------> begun ----> body ... ----------------> whole --> dt_conn_answer --> ended
 *                       |                                                            (other requests follow)
 *                       '--> refused: not a request, late, or the server ends: the owner answers with a problem
 *
 * The owner has a request from `whole` or dt_conn_wait until it answers or calls dt_conn_go_on. Meanwhile the
 * connection stays, even if the client has left; no deadline applies, and nothing further is read.
 *
 * Every wait for a client has a deadline, measured by the loop's time (loop.h), and is checked after the socket was
 * read. If a client sends requests without waiting for responses, they are answered in their order, and responses that
 * are ready together are sent in one write. An idle connection uses no memory but its struct.
 *
 * All functions run on the thread of dt_conns_run, which also calls the owner, unless a comment says otherwise. Other
 * threads run work there with dt_evloop_post.
 */
#pragma once

#include <sys/socket.h>

#include "base/addresses.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "loop.h"
#include "parse.h"
#include "tls_files.h"

typedef struct dt_conns dt_conns;
typedef struct dt_conn dt_conn;

/* The limits of one thread's connections, and the deadlines of their clients. */
struct dt_conn_rules {
    size_t most;     /* most connections; a new one replaces the least useful one (enum dt_wait) */
    size_t crowd;    /* most connections that wait for a handshake, a head or a body; one address may have half */
    int64_t head_us; /* time for handshake and first head, or for the rest of a later head; a late client gets 408 */
    int64_t idle_us; /* longest time between two requests; after it, the connection is closed */
    int64_t body_us; /* time for a body, without the time that the owner takes; a late client gets 408 */
    int64_t send_us; /* time in which the client must read a response; after it, the connection is closed */
    const struct dt_networks *proxies;   /* addresses that may exceed half of `crowd`; NULL: none */
    const struct dt_conn_meters *meters; /* counters and gauges of the connections; NULL: nothing is counted */
};

/* Counters and gauges of a server, shared by all of its threads. */
struct dt_conn_meters {
    dt_metric *open, *waiting, *secure;                   /* numbers of connections */
    dt_metric *late, *crowded, *refused;                  /* why connections ended before a request was served */
    dt_metric *flooded;                                   /* HTTP/2 connections ended for too many frames */
    dt_metric *greeted, *no_tls, *not_greeted, *deserted; /* results of TLS handshakes */
};

/* Functions of the owner, which the connections call. */
struct dt_conn_events {
    size_t own; /* bytes of the owner's data in each connection (dt_conn_own), zero at first */
    /* The head was parsed; its slices are valid during the call. The owner may answer, or call dt_conn_wait before the
     * body. */
    void (*begun)(dt_conn *conn, const struct dt_head *head);
    /* A part of the body arrived. Returns how many bytes the owner took. If it took fewer than n, the other bytes wait
     * for dt_conn_go_on, as after dt_conn_wait. NULL: bodies are dropped. */
    size_t (*body)(dt_conn *conn, const char *p, size_t n);
    /* The request is complete, with its body if it has one. The owner has the request, and answers now or later. */
    void (*whole)(dt_conn *conn);
    /* The bytes are not a request, or the request was late (408), or the server ends (503). The owner answers, now or
     * later; the connection is then closed. */
    void (*refused)(dt_conn *conn, int status, const char *detail);
    /* Called four times a second while connections exist; arg is that of dt_conn_arg. May be NULL. */
    void (*tick)(void *arg);
    /* The request has ended. sent: its response was sent; else it was not answered, or was not complete. May be
     * NULL. */
    void (*ended)(dt_conn *conn, bool sent);
};

enum dt_conns_stage {
    DT_CONNS_OPEN,
    DT_CONNS_DRAIN, /* no connection is accepted; idle connections are closed, other connections after their response */
    DT_CONNS_CUT,   /* incomplete requests are refused with 503 */
    DT_CONNS_STOP   /* dt_conns_run returns */
};

/* ---- all connections of a thread ---- */

/* Makes the connections of a thread. rules and events are copied; arg is for the owner. Returns SYSTEM or NOMEM if this
 * fails. */
dt_status dt_conns_new(const struct dt_conn_rules *rules, const struct dt_conn_events *events, void *arg,
                       const dt_clock *clock, dt_conns **out, struct dt_error *err);
/* Closes all connections. Called after dt_conns_run, when the owner has no request. Accepts NULL. */
void dt_conns_free(dt_conns *conns);
/* Accepts connections from this listening, non-blocking socket, which still belongs to the caller and may be shared by
 * several threads. If files is not NULL, the connections use TLS. Called before dt_conns_run. Returns SYSTEM if the
 * socket cannot be watched. */
dt_status dt_conns_listen(dt_conns *conns, int fd, dt_tls_files *files, struct dt_error *err);
/* Makes two threads, and those that each of them shares with, share new connections: a thread that accepts a connection
 * gives it to the thread with the fewest. Called before dt_conns_run. All threads must end before one is freed. */
void dt_conns_share(dt_conns *conns, dt_conns *with);
/* Serves a connected, non-blocking socket, which belongs to conns from now on. If files is not NULL, it uses TLS.
 * later: any thread may call; the thread of conns adopts the socket. Returns false if memory runs out. */
bool dt_conns_adopt(dt_conns *conns, int fd, const struct sockaddr *address, socklen_t n, dt_tls_files *files,
                    bool later);
/* Runs one round: sleeps until an event occurs, and handles it. */
void dt_conns_round(dt_conns *conns);
/* Runs rounds until the stage is DT_CONNS_STOP. conns: a dt_conns; this is the function of a thread. */
void dt_conns_run(void *conns);
/* Enters a later stage of ending the connections (enum dt_conns_stage). Any thread may call it. */
void dt_conns_enter(dt_conns *conns, enum dt_conns_stage stage);
/* Called if the owner has no memory for a request. In this round, closes connections whose clients do not read their
 * responses. */
void dt_conns_press(dt_conns *conns);
/* Returns the number of connections, including those that are about to be closed. Any thread may call it. */
size_t dt_conns_count(const dt_conns *conns);
/* Returns the number of requests that were begun, and whose responses were not sent yet. Any thread may call it. */
size_t dt_conns_requests(const dt_conns *conns);
struct dt_evloop *dt_conns_loop(dt_conns *conns);
/* Registers the metrics of an API. */
void dt_conn_meters_init(struct dt_conn_meters *meters);

/* ---- one connection ---- */

void *dt_conn_own(dt_conn *conn);
void *dt_conn_arg(const dt_conn *conn); /* `arg` of dt_conns_new */
/* Returns the client's address (DT_ADDRESS_BYTES), or NULL if the connection is on a Unix socket. */
const unsigned char *dt_conn_address(const dt_conn *conn);
/* Returns a descriptor that may only be polled, to notice while the owner has the request that the client closes its
 * side. -1: no descriptor is available. */
int dt_conn_fd(dt_conn *conn);
/* Marks the client as known: if connections must be closed to make room, those of unknown clients are closed first. */
void dt_conn_known(dt_conn *conn);
/* From now on, reads what the client sends while the owner has the whole request, to notice that the client leaves.
 * Keeps up to 16 KiB for later; more is dropped, and the connection is closed after the response. After 4 MiB the
 * client counts as gone. */
void dt_conn_listen(dt_conn *conn);

/* Called in begun and body: the owner keeps the request, and no part of its body is passed until dt_conn_go_on. */
void dt_conn_wait(dt_conn *conn);
void dt_conn_go_on(dt_conn *conn);

/* A response to a request. The slices are borrowed for the call that gets the response. */
struct dt_reply {
    int status;             /* HTTP status, at least 200 */
    const char *type;       /* value of Content-Type; NULL: no such header */
    struct dt_str headers;  /* further header lines, each with CRLF */
    struct dt_strbuf *body; /* NULL: no body. If the body is large, its memory is taken, and the buffer becomes empty */
    bool close;             /* close the connection after the response */
};

/* Adds a line to the headers of a response. */
void dt_reply_add_header(struct dt_strbuf *out, struct dt_str name, struct dt_str value);
/* Answers the current request, once. Drops the rest of its body, or closes the connection if the rest is large. */
void dt_conn_answer(dt_conn *conn, struct dt_reply *reply);
