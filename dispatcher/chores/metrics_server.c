/*
 * Two paths, read only. One thread of libmicrohttpd's, which sleeps until somebody asks.
 *
 * Whoever connects is let in: beyond so many connections the oldest is ended, so that those which say nothing, or
 * speak slowly, keep nobody out. The library takes one connection at a time and then sees to those that it has, so a
 * request that comes with its connection is answered before others can push it out.
 */
#include "metrics_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/metrics.h"

enum {
    CONNECTIONS = 32,
    LIBRARYS_LIMIT = 2 * CONNECTIONS, /* never met: some that were ended are still being closed */
    IDLE_S = 30,
};

/* Read and written by the library's thread alone; once that has ended, by who stops it. */
struct connection {
    int fd;
    bool open; /* it is in the list: nobody has ended it */
    struct connection *prev, *next;
};

struct dt_metrics_server {
    struct MHD_Daemon *daemon;
    struct connection *open; /* the oldest first */
    unsigned n_open;
};

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_size, void **state)
{
    (void)arg, (void)version, (void)body, (void)body_size, (void)state;
    struct dt_strbuf text;
    unsigned code = MHD_HTTP_OK;
    dt_strbuf_init(&text);
    if (strcmp(method, "GET") != 0) {
        code = MHD_HTTP_METHOD_NOT_ALLOWED;
        dt_strbuf_adds(&text, "method not allowed\n");
    } else if (strcmp(url, "/metrics") == 0)
        dt_metrics_write(&text);
    else if (strcmp(url, "/healthz") == 0)
        dt_strbuf_adds(&text, "ok\n");
    else {
        code = MHD_HTTP_NOT_FOUND;
        dt_strbuf_adds(&text, "not found\n");
    }
    struct MHD_Response *response =
        text.failed ? NULL : MHD_create_response_from_buffer(text.n, text.p, MHD_RESPMEM_MUST_COPY);
    if (response)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    enum MHD_Result queued = response ? MHD_queue_response(connection, code, response) : MHD_NO;
    if (response)
        MHD_destroy_response(response);
    dt_strbuf_clear(&text);
    return queued;
}

/* The flag of the library that goes with the address; -1: it is no address in digits. */
static int read_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return 0;
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
        return -1;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return MHD_USE_IPv6;
}

static void take_out(dt_metrics_server *server, struct connection *c)
{
    dt_assert(c->open && server->n_open > 0);
    DL_DELETE(server->open, c);
    server->n_open--;
    c->open = false;
}

static void comes_or_goes(void *arg, struct MHD_Connection *connection, void **ours,
                          enum MHD_ConnectionNotificationCode what)
{
    dt_metrics_server *server = arg;
    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        struct connection *gone = *ours;
        if (gone && gone->open)
            take_out(server, gone);
        free(gone);
        return;
    }
    const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct connection *c = *ours = calloc(1, sizeof(*c));
    if (!c) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    c->fd = fd;
    if (server->n_open == CONNECTIONS) {
        struct connection *oldest = server->open;
        shutdown(oldest->fd, SHUT_RDWR); /* the library sees its end, and closes it */
        take_out(server, oldest);
    }
    DL_APPEND(server->open, c);
    server->n_open++;
    c->open = true;
    dt_assert_cmp(server->n_open, <=, CONNECTIONS);
}

dt_status dt_metrics_server_start(const char *listen, uint16_t port, uint16_t *bound, dt_metrics_server **out,
                                  struct dt_error *err)
{
    struct sockaddr_storage address;
    int family = read_address(listen, port, &address);
    if (family < 0)
        return dt_fail(err, DT_INVALID, "[dispatch] metrics_listen: \"%.60s\" is no address", listen);
    dt_metrics_server *server = calloc(1, sizeof(*server));
    if (!server)
        return dt_fail(err, DT_SYSTEM, "out of memory");
    server->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | (unsigned)family, port, NULL,
                                      NULL, answer, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
                                      (unsigned)LIBRARYS_LIMIT, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                                      MHD_OPTION_NOTIFY_CONNECTION, comes_or_goes, server, MHD_OPTION_END);
    if (!server->daemon) {
        free(server);
        return dt_fail(err, DT_SYSTEM, "cannot listen for /metrics on %.60s, port %u", listen, (unsigned)port);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    *bound = info && info->port ? info->port : port;
    *out = server;
    return DT_OK;
}

void dt_metrics_server_stop(dt_metrics_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
