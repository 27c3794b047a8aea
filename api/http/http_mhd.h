/*
 * The adapter to libmicrohttpd: HTTP threads, and the calls that the library makes for a connection, in our words.
 * http_mhd.c is the only file of the API that includes the library's header.
 *
 * The library has one daemon for each HTTP thread, and gets connections from dt_mhd_add only. For each of them it
 * calls, all on the HTTP thread of the connection:
 *
 *   opened -> begun -> body, for each piece -> ready -> (ready again, after each resume) -> ended -> begun … -> closed
 *
 * What the library demands and the callers of this file keep:
 *
 *   - An answer is given inside begun (the library closes the connection after it) or inside ready.
 *   - A request is suspended inside body or ready.
 *   - In the middle of a body the library need not call us after a resume.
 *   - When it is stopped while a request is suspended, it ends the process.
 *   - With 128 ready connections in one epoll round it forgets some (0.9.75 and later): a thread gets fewer.
 *   - A thread that reaches the library's own limit of connections never gives a lock back (0.9.75): the limit that it
 *     is told is never reached.
 *   - It answers heads and chunks that it does not understand with pages of HTML: it gets none (http/http_receiver.h).
 */
#ifndef DT_API_HTTP_MHD_H
#define DT_API_HTTP_MHD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/text/strbuf.h"

struct MHD_Connection;
struct MHD_Daemon;
struct dt_exchange;
struct dt_request;

/* The calls that the library's callbacks become. Constant; each runs on the HTTP thread of the connection. */
struct dt_mhd_events {
    /* A connection begins. arg: of dt_mhd_start. NULL: memory is out, and the connection ends with its first
     * request. */
    struct dt_exchange *(*opened)(void *arg, struct MHD_Connection *mhd, int fd);
    /* The connection ends; its socket is still open. exchange is NULL when opened returned NULL. */
    void (*closed)(void *arg, struct dt_exchange *exchange);
    /* The head of a request is there. False (here and below): the library shall close the connection at once. */
    bool (*begun)(struct dt_exchange *exchange, const char *path, const char *method);
    /* *n bytes of the body are there; *n becomes how many of them were not taken. */
    bool (*body)(struct dt_exchange *exchange, const char *p, size_t *n);
    /* The body is complete, or the request was resumed after that. */
    bool (*ready)(struct dt_exchange *exchange);
    /* The request is over. sent: its answer was sent whole. */
    void (*ended)(struct dt_exchange *exchange, bool sent);
};

/* An HTTP thread: a daemon of the library. Embedded in what owns it. */
struct dt_mhd_thread {
    const struct dt_mhd_events *events;
    void *arg;
    struct MHD_Daemon *daemon;
    _Atomic uint64_t entered, left; /* calls of ours, by the thread */
    uint64_t looked;                /* as dt_mhd_moves found it */
};

/* Starts the thread. False: it cannot. */
DT_MUST_CHECK bool dt_mhd_start(struct dt_mhd_thread *thread, const struct dt_mhd_events *events, void *arg);
/* Ends all connections of the thread, and the thread. Nothing may be suspended. */
void dt_mhd_stop(struct dt_mhd_thread *thread);
/*
 * False: the thread has been inside one call of ours since the last question, and in it then, too. Asked by one thread,
 * at distances that no call of ours takes.
 */
bool dt_mhd_moves(struct dt_mhd_thread *thread);
/* Hands a connected socket to the thread, which takes it over. Any thread. False: the library has closed it. */
DT_MUST_CHECK bool dt_mhd_add(struct dt_mhd_thread *thread, int fd, const struct sockaddr *address, socklen_t n);

/* One header, or one parameter of the query. The slices live as long as the request. False: no more are wanted. */
typedef bool dt_mhd_take(void *arg, struct dt_str name, struct dt_str value);
void dt_mhd_headers(struct MHD_Connection *mhd, dt_mhd_take *take, void *arg);
/* Gives the query's parameters as they were sent, with their escapes. */
void dt_mhd_query(struct MHD_Connection *mhd, dt_mhd_take *take, void *arg);

/* Queues what is filled in as the answer. req->out is borrowed until the request is over. False: memory is out. */
DT_MUST_CHECK bool dt_mhd_answer(struct MHD_Connection *mhd, const struct dt_request *req, bool close);
/* The client's address; it lives as long as the connection. */
const struct sockaddr *dt_mhd_peer(struct MHD_Connection *mhd);
void dt_mhd_suspend(struct MHD_Connection *mhd);
/* Any thread. From here on the request is the HTTP thread's. */
void dt_mhd_resume(struct MHD_Connection *mhd);
/* Says whether the connection is suspended as far as the library knows: a resume takes effect on the HTTP thread. */
bool dt_mhd_suspended(struct MHD_Connection *mhd);
/* "Not Found". Static text. */
const char *dt_mhd_reason(int status);

#endif
