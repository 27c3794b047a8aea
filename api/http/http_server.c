/* Owns the HTTP server: its listeners, from the text of http.listen to sockets, and its threads, each of which has its
 * own connections. Does not know what happens on a connection (base/http) or to a request (http_exchange.c).
 *
 * The file of a Unix socket gets the mode http.unix_mode. It replaces the file of a socket on which no process listens
 * any more. It is removed when the listener is closed. */
#include "http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "http_exchange.h"

#define DESCRIPTORS_KEPT 256u /* descriptors that are left for MySQL, Redis, Kafka, files and threads */
#define CONNECTIONS_MIN  64u  /* minimal number of connections of a thread */
#define BACKLOG          1024

/* ---- addresses ---- */

/* Reads the list; no socket is open yet. The configuration was checked before, so only tests pass invalid elements. */
static dt_status parse_list(const char *listen, int port, struct dt_listeners *out, struct dt_error *err)
{
    struct dt_str rest = dt_str(listen);
    *out = (struct dt_listeners){.n = 0};
    do {
        struct dt_str element = dt_str_next_element(&rest);
        struct dt_listener *listener = &out->v[out->n];
        *listener = (struct dt_listener){.fd = -1};
        if (!dt_listen_parse(element, port, &listener->on))
            return dt_fail(err, DT_INVALID, "[http] listen: \"%.*s\" is not an address", (int)element.n, element.p);
        out->n++;
    } while (rest.n && out->n < DT_LISTENERS_MAX);
    return DT_OK;
}

static dt_status resolve_host(const struct dt_host *at, struct addrinfo **out, struct dt_error *err)
{
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    snprintf(service, sizeof(service), "%d", at->port);
    int result = getaddrinfo(strcmp(at->name, "localhost") == 0 ? "127.0.0.1" : at->name, service, &hints, out);
    if (result != 0)
        return dt_fail(err, DT_INVALID, "[http] listen: \"%s\" is not an address: %s", at->name, gai_strerror(result));
    return DT_OK;
}

static bool is_loopback_address(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

dt_status dt_http_is_local(const char *listen, bool *local, struct dt_error *err)
{
    struct dt_listeners list;
    dt_status status = parse_list(listen, 0, &list, err);
    bool all = true;
    for (size_t i = 0; status == DT_OK && i < list.n; i++) {
        struct addrinfo *info = NULL;
        if (list.v[i].on.as == DT_LISTEN_UNIX)
            continue;
        status = resolve_host(&list.v[i].on.at, &info, err);
        if (status == DT_OK) {
            all = all && is_loopback_address(info->ai_addr);
            freeaddrinfo(info);
        }
    }
    if (status == DT_OK)
        *local = all;
    return status;
}

static bool speaks_tls(const struct dt_config *config, const struct dt_listen *on)
{
    return on->as == DT_LISTEN_TLS || (on->as == DT_LISTEN_AS_GIVEN && config->http_tls_cert[0]);
}

bool dt_http_wants_tls(const struct dt_config *config)
{
    struct dt_listeners list;
    bool wants = false;
    if (parse_list(config->http_listen, 0, &list, NULL) != DT_OK)
        return false;
    for (size_t i = 0; i < list.n; i++)
        wants |= speaks_tls(config, &list.v[i].on);
    return wants;
}

/* ---- sockets ---- */

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static dt_status open_address(struct dt_listener *listener, struct dt_error *err)
{
    struct addrinfo *info = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    int one = 1;
    dt_status status = resolve_host(&listener->on.at, &info, err);
    if (status != DT_OK)
        return status;
    int fd = listener->fd = new_socket(info->ai_family);
    bool open = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0 &&
                getsockname(fd, (struct sockaddr *)&bound, &size) == 0;
    int error = errno;
    freeaddrinfo(info);
    if (!open)
        return dt_fail(err, DT_SYSTEM, "cannot listen on %s port %d: %s", listener->on.at.name, listener->on.at.port,
                       strerror(error));
    listener->on.at.port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                             : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    return DT_OK;
}

/* Removes the file of a socket on which no process listens any more. False: a process listens on the socket, or the
 * file is no socket. */
static bool remove_stale_socket(const struct sockaddr_un *address)
{
    struct stat there;
    if (lstat(address->sun_path, &there) != 0 || !S_ISSOCK(there.st_mode))
        return false;
    int fd = new_socket(AF_UNIX);
    bool refused =
        fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused && unlink(address->sun_path) == 0;
}

/* Opens a Unix socket. The mode of its file is set before the socket listens, so that no client can connect under
 * another mode. */
static dt_status open_unix_socket(const struct dt_config *config, struct dt_listener *listener, struct dt_error *err)
{
    const char *path = listener->on.at.name;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat made;
    memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
    int fd = listener->fd = new_socket(AF_UNIX);
    bool open = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0 && !open && errno == EADDRINUSE) {
        if (remove_stale_socket(&address))
            open = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
        else
            errno = EADDRINUSE;
    }
    if (open && lstat(path, &made) == 0) {
        listener->device = made.st_dev;
        listener->inode = made.st_ino;
    }
    if (!open || chmod(path, (mode_t)strtoul(config->http_unix_mode, NULL, 8)) != 0 || listen(fd, BACKLOG) != 0)
        return dt_fail(err, DT_SYSTEM, "cannot listen on unix:%s: %s", path, strerror(errno));
    return DT_OK;
}

static void close_listeners(struct dt_listeners *listeners)
{
    for (const struct dt_listener *l = listeners->v; l < listeners->v + listeners->n; l++) {
        struct stat there;
        /* Removes the file of a Unix socket, unless the file now belongs to another socket. */
        if (l->inode && lstat(l->on.at.name, &there) == 0 && there.st_ino == l->inode && there.st_dev == l->device)
            unlink(l->on.at.name);
        if (l->fd >= 0)
            close(l->fd);
    }
    listeners->n = 0;
}

static dt_status open_listeners(const struct dt_config *config, struct dt_listeners *out, struct dt_error *err)
{
    dt_status status = parse_list(config->http_listen, (int)config->http_port, out, err);
    for (struct dt_listener *l = out->v; status == DT_OK && l < out->v + out->n; l++) {
        l->tls = speaks_tls(config, &l->on);
        status = l->tls && !config->http_tls_cert[0]
                     ? dt_fail(err, DT_INVALID, "[http] listen: tls:%s needs a certificate: tls_cert", l->on.at.name)
                 : l->on.as == DT_LISTEN_UNIX ? open_unix_socket(config, l, err)
                                              : open_address(l, err);
    }
    if (status != DT_OK)
        close_listeners(out);
    return status;
}

/* ---- threads ---- */

/* Raises the limit of descriptors to its maximum, because each connection needs a descriptor, and the limit that most
 * shells set is too low. Returns how many connections the limit allows. */
static size_t raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        DT_LOG(WARN, "http", "the limit of open descriptors could not be raised");
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < DESCRIPTORS_KEPT)
        return 0;
    return (size_t)limit.rlim_cur - DESCRIPTORS_KEPT;
}

static dt_status start_threads(struct dt_http *http, struct dt_error *err)
{
    const struct dt_config *config = http->api->config;
    const size_t threads = (size_t)config->http_threads;
    const size_t most = raise_descriptor_limit() / threads;
    const struct dt_conn_rules rules = {
        .most = most > CONNECTIONS_MIN ? most : CONNECTIONS_MIN,
        .crowd = (size_t)config->http_waiting / threads > 1 ? (size_t)config->http_waiting / threads : 1,
        .head_us = config->http_head_timeout * 1000,
        .idle_us = config->http_idle_timeout * 1000,
        .body_us = config->http_request_timeout * 1000,
        .send_us = config->http_request_timeout * 1000,
        .proxies = &http->proxies,
        .meters = &http->meters,
    };
    dt_conn_meters_init(&http->meters);
    http->threads = calloc(threads, sizeof(*http->threads));
    dt_status status = http->threads ? DT_OK : dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    while (status == DT_OK && http->n_threads < threads) {
        struct dt_http_thread *thread = &http->threads[http->n_threads];
        thread->http = http;
        status = dt_conns_new(&rules, &dt_exchange_events, thread, http->api->clock, &thread->conns, err);
        if (status != DT_OK)
            break;
        dt_conns_share(thread->conns, http->threads[0].conns);
        http->n_threads++;
        for (const struct dt_listener *l = http->listeners.v;
             status == DT_OK && l < http->listeners.v + http->listeners.n; l++)
            status = dt_conns_listen(thread->conns, l->fd, l->tls ? http->api->tls : NULL, err);
    }
    for (size_t i = 0; status == DT_OK && i < threads; i++)
        status = dt_thread_start(&http->threads[i].thread, "http", dt_conns_run, http->threads[i].conns, err);
    return status;
}

dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http_expire *expire, dt_http **out,
                        struct dt_error *err)
{
    *out = NULL;
    struct dt_http *http = calloc(1, sizeof(*http));
    if (!http)
        return dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    http->api = api;
    http->router = router;
    http->expire = expire;
    http->forwarded = strcmp(api->config->http_forwarded_header, "forwarded") == 0;
    dt_status status = dt_exchanges_init(http, err);
    DT_THEN(status, dt_networks_parse(dt_str(api->config->http_trusted_proxies), &http->proxies, err));
    DT_THEN(status, open_listeners(api->config, &http->listeners, err));
    DT_THEN(status, start_threads(http, err));
    if (status != DT_OK) {
        dt_http_stop(http);
        return status;
    }
    for (const struct dt_listener *l = http->listeners.v; l < http->listeners.v + http->listeners.n; l++)
        DT_LOG(INFO, "http", "listening", DT_S("version", DUETIME_VERSION),
               DT_S("as", l->on.as == DT_LISTEN_UNIX ? "unix"
                          : l->tls                   ? "tls"
                                                     : "plain"),
               DT_S("address", l->on.at.name), DT_I("port", l->on.at.port));
    *out = http;
    return DT_OK;
}

bool dt_http_moves(dt_http *http)
{
    bool moves = true;
    for (size_t i = 0; i < http->n_threads; i++)
        moves &= dt_evloop_moves(dt_conns_loop(http->threads[i].conns));
    return moves;
}

void dt_http_drain(dt_http *http, bool cut, int64_t until_us)
{
    const struct timespec moment = {0, 2 * 1000000};
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_enter(http->threads[i].conns, cut ? DT_CONNS_CUT : DT_CONNS_DRAIN);
    for (size_t requests = 1; requests && dt_clock_mono_us(http->api->clock) < until_us;) {
        requests = 0;
        for (size_t i = 0; i < http->n_threads; i++)
            requests += dt_conns_requests(http->threads[i].conns);
        if (requests)
            nanosleep(&moment, NULL);
    }
}

void dt_http_stop(dt_http *http)
{
    if (!http)
        return;
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_enter(http->threads[i].conns, DT_CONNS_STOP);
    for (size_t i = 0; i < http->n_threads; i++)
        dt_thread_join(&http->threads[i].thread);
    for (size_t i = 0; i < http->n_threads; i++)
        dt_conns_free(http->threads[i].conns);
    close_listeners(&http->listeners);
    dt_exchanges_clear(http);
    free(http->threads);
    free(http);
}
