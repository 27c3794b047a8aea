/*
 * The adapter to libmicrohttpd: see http_mhd.h. Owns nothing but the library's daemons. Refuses to know what a request
 * is about, and what its owner does with it.
 */
#include "http_mhd.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "request/request.h"

#define CONNECTIONS_NEVER 1000u        /* beyond the connections that a thread ever has */
#define CONNECTION_MEMORY (20u * 1024) /* wiped after each request: no larger than 8 KiB of headers need */

/* ---- the library's calls ---- */

/* A thread that enters and does not leave hangs: dt_mhd_moves. */
static void enter(struct dt_mhd_thread *thread)
{
    atomic_fetch_add_explicit(&thread->entered, 1, memory_order_relaxed);
}

static void leave(struct dt_mhd_thread *thread)
{
    atomic_fetch_add_explicit(&thread->left, 1, memory_order_relaxed);
}

static bool pass_on(const struct dt_mhd_thread *thread, struct MHD_Connection *mhd, const char *path,
                    const char *method, const char *upload, size_t *upload_size, void **context)
{
    struct dt_exchange *exchange = *context;
    if (exchange && *upload_size)
        return thread->events->body(exchange, upload, upload_size);
    if (exchange)
        return thread->events->ready(exchange);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange = info ? info->socket_context : NULL;
    if (!exchange)
        return false; /* memory was out when the connection came */
    *context = exchange;
    return thread->events->begun(exchange, path, method);
}

/* Called for the head, for each piece of the body, once when the body is complete, and again after each resume. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **context)
{
    (void)version;
    enter(cls);
    bool fine = pass_on(cls, mhd, path, method, upload, upload_size, context);
    leave(cls);
    return fine ? MHD_YES : MHD_NO;
}

/* The answer was sent, or the connection broke. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode termination)
{
    (void)mhd;
    struct dt_mhd_thread *thread = cls;
    struct dt_exchange *exchange = *context;
    *context = NULL;
    enter(thread);
    if (exchange)
        thread->events->ended(exchange, termination == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    leave(thread);
}

static struct dt_exchange *open_exchange(const struct dt_mhd_thread *thread, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? thread->events->opened(thread->arg, mhd, info->connect_fd) : NULL;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct dt_mhd_thread *thread = cls;
    struct dt_exchange *exchange = *context;
    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    enter(thread);
    *context = begins ? open_exchange(thread, mhd) : NULL;
    if (!begins)
        thread->events->closed(thread->arg, exchange);
    leave(thread);
}

/* Paths are split before they are decoded. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

static void log_line(void *cls, const char *fmt, va_list args) DT_PRINTF(2, 0);
static void log_line(void *cls, const char *fmt, va_list args)
{
    (void)cls;
    char text[300];
    vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    DT_LOG(DEBUG, "http", text);
}

/* ---- threads ---- */

/* The library has no time limit of its own: it would judge before it reads. */
bool dt_mhd_start(struct dt_mhd_thread *thread, const struct dt_mhd_events *events, void *arg)
{
    thread->events = events;
    thread->arg = arg;
    thread->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                                          MHD_USE_ITC | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET,
                                      0, NULL, NULL, on_request, thread, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL,
                                      MHD_OPTION_NOTIFY_COMPLETED, on_completed, thread, MHD_OPTION_NOTIFY_CONNECTION,
                                      on_connection, thread, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                                      MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_NEVER,
                                      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
    return thread->daemon != NULL;
}

void dt_mhd_stop(struct dt_mhd_thread *thread)
{
    MHD_stop_daemon(thread->daemon);
}

bool dt_mhd_add(struct dt_mhd_thread *thread, int fd, const struct sockaddr *address, socklen_t n)
{
    return MHD_add_connection(thread->daemon, fd, address, n) == MHD_YES;
}

bool dt_mhd_moves(struct dt_mhd_thread *thread)
{
    uint64_t left = atomic_load_explicit(&thread->left, memory_order_relaxed);
    bool inside = atomic_load_explicit(&thread->entered, memory_order_relaxed) != left;
    bool hangs = inside && thread->looked == left + 1;
    thread->looked = inside ? left + 1 : 0;
    return !hangs;
}

/* ---- requests ---- */

struct taker {
    dt_mhd_take *take;
    void *arg;
};

static enum MHD_Result take_value(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_n,
                                  const char *value, size_t value_n)
{
    (void)kind;
    const struct taker *taker = cls;
    bool more = taker->take(taker->arg, (struct dt_str){name ? name : "", name_n},
                            (struct dt_str){value ? value : "", value_n});
    return more ? MHD_YES : MHD_NO;
}

void dt_mhd_headers(struct MHD_Connection *mhd, dt_mhd_take *take, void *arg)
{
    struct taker taker = {take, arg};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, take_value, &taker);
}

void dt_mhd_query(struct MHD_Connection *mhd, dt_mhd_take *take, void *arg)
{
    struct taker taker = {take, arg};
    MHD_get_connection_values_n(mhd, MHD_GET_ARGUMENT_KIND, take_value, &taker);
}

bool dt_mhd_answer(struct MHD_Connection *mhd, const struct dt_request *req, bool close)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(req->out.n, req->out.n ? req->out.p : "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return false;
    if (req->out.n)
        MHD_add_response_header(response, "Content-Type", req->reply_type);
    MHD_add_response_header(response, "X-Request-Id", req->request_id.p);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    bool caches = false;
    for (unsigned i = 0; i < req->n_headers; i++) {
        caches |= dt_str_is(req->headers[i].name, "Cache-Control");
        MHD_add_response_header(response, req->headers[i].name.p, req->headers[i].value.p);
    }
    if (!caches)
        MHD_add_response_header(response, "Cache-Control", "no-store");
    if (close)
        MHD_add_response_header(response, "Connection", "close");
    bool queued = MHD_queue_response(mhd, (unsigned)req->status, response) == MHD_YES;
    MHD_destroy_response(response);
    return queued;
}

const struct sockaddr *dt_mhd_peer(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

void dt_mhd_suspend(struct MHD_Connection *mhd)
{
    MHD_suspend_connection(mhd);
}

void dt_mhd_resume(struct MHD_Connection *mhd)
{
    MHD_resume_connection(mhd);
}

bool dt_mhd_suspended(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

const char *dt_mhd_reason(int status)
{
    return MHD_get_reason_phrase_for((unsigned)status);
}
