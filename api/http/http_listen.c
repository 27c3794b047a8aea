/* Implements http_listen.h: converts the text of addresses to sockets. Does not know what is sent over them. */
#include "http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

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

dt_status dt_http_listen(const struct dt_config *config, struct dt_listeners *out, struct dt_error *err)
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
        dt_listeners_close(out);
    return status;
}

void dt_listeners_close(struct dt_listeners *listeners)
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
