/*
 * Owns the socket and the thread that answer GET /metrics and GET /healthz. The thread sleeps until a client sends a
 * request.
 *
 * Every client may connect. If CONNECTIONS connections are open, the one that has waited longest for its client is
 * closed, so that silent or slow clients do not keep other clients out.
 */
#include "metrics_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/connection.h"
#include "base/metrics.h"
#include "base/thread.h"

#define CONNECTIONS 32
#define BACKLOG     128
/* Longest wait for a client: for head or body of a request, for taking the answer, or for the next request. */
#define PATIENCE_US INT64_C(30000000)

struct dt_metrics_server {
    int listener;
    dt_conns *conns;
    struct dt_thread thread;
};

/* What the request of a connection asked for. */
struct asked {
    enum { NOT_GET, METRICS, HEALTH, NOTHING_HERE } what;
};

static void send_answer(dt_conn *conn, int status, struct dt_strbuf *text, bool close)
{
    if (text->failed) {
        status = 500;
        dt_strbuf_clear(text);
    }
    dt_conn_answer(
        conn, &(struct dt_reply){
                  .status = status, .type = "text/plain; version=0.0.4; charset=utf-8", .body = text, .close = close});
    dt_strbuf_clear(text);
}

static void on_head(dt_conn *conn, const struct dt_head *head)
{
    struct asked *asked = dt_conn_own(conn);
    struct dt_str path = dt_target_path(head->target);
    const char *query = memchr(path.p, '?', path.n);
    path.n = query ? (size_t)(query - path.p) : path.n;
    asked->what = !dt_str_is(head->method, "GET") ? NOT_GET
                  : dt_str_is(path, "/metrics")   ? METRICS
                  : dt_str_is(path, "/healthz")   ? HEALTH
                                                  : NOTHING_HERE;
}

static void on_request_complete(dt_conn *conn)
{
    static const struct {
        int status;
        const char *text; /* NULL: the metrics */
    } answers[] = {[METRICS] = {200, NULL},
                   [HEALTH] = {200, "ok\n"},
                   [NOT_GET] = {405, "method not allowed\n"},
                   [NOTHING_HERE] = {404, "not found\n"}};
    const struct asked *asked = dt_conn_own(conn);
    struct dt_strbuf text = {0};
    if (answers[asked->what].text)
        dt_strbuf_adds(&text, answers[asked->what].text);
    else
        dt_metrics_write(&text);
    send_answer(conn, answers[asked->what].status, &text, false);
}

static void on_refused(dt_conn *conn, int status, const char *detail)
{
    struct dt_strbuf text = {0};
    dt_strbuf_adds(&text, detail);
    dt_strbuf_addc(&text, '\n');
    send_answer(conn, status, &text, true);
}

/* Opens a listening socket. Returns -1 if that fails. */
static int open_listener(const struct sockaddr_storage *address)
{
    const int one = 1;
    const bool six = address->ss_family == AF_INET6;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        (!six || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) == 0) &&
        bind(fd, (const struct sockaddr *)address, six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) ==
            0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Reads an address in digits. False: the text is no such address. */
static bool read_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

dt_status dt_metrics_server_start(const char *listen, uint16_t port, uint16_t *bound, dt_metrics_server **out,
                                  struct dt_error *err)
{
    static const struct dt_conn_rules rules = {.most = CONNECTIONS,
                                               .crowd = CONNECTIONS,
                                               .head_us = PATIENCE_US,
                                               .idle_us = PATIENCE_US,
                                               .body_us = PATIENCE_US,
                                               .send_us = PATIENCE_US};
    static const struct dt_conn_events events = {
        .own = sizeof(struct asked), .begun = on_head, .whole = on_request_complete, .refused = on_refused};
    struct sockaddr_storage address;
    socklen_t n = sizeof(address);
    *out = NULL;
    if (!read_address(listen, port, &address))
        return dt_fail(err, DT_INVALID, "[dispatch] metrics_listen: \"%.60s\" is not an address", listen);
    dt_metrics_server *server = calloc(1, sizeof(*server));
    if (!server)
        return dt_fail(err, DT_NOMEM, "no memory for the metrics' server");
    server->listener = open_listener(&address);
    dt_status status = server->listener >= 0 && getsockname(server->listener, (struct sockaddr *)&address, &n) == 0
                           ? DT_OK
                           : dt_fail(err, DT_SYSTEM, "cannot listen for /metrics on %.60s, port %u: %s", listen,
                                     (unsigned)port, strerror(errno));
    DT_THEN(status, dt_conns_new(&rules, &events, NULL, dt_clock_system(), &server->conns, err));
    DT_THEN(status, dt_conns_listen(server->conns, server->listener, NULL, err));
    DT_THEN(status, dt_thread_start(&server->thread, "metrics", dt_conns_run, server->conns, err));
    if (status != DT_OK) {
        dt_metrics_server_stop(server);
        return status;
    }
    *bound = ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                                 : ((const struct sockaddr_in *)&address)->sin_port);
    *out = server;
    return DT_OK;
}

void dt_metrics_server_stop(dt_metrics_server *server)
{
    if (!server)
        return;
    if (server->thread.started)
        dt_conns_enter(server->conns, DT_CONNS_STOP);
    dt_thread_join(&server->thread);
    dt_conns_free(server->conns);
    if (server->listener >= 0)
        close(server->listener);
    free(server);
}
