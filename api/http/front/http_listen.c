/* Owns the way from the text of an address to a socket: see http_listen.h. */
#include "http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static dt_status resolve(const char *listen, int port, struct addrinfo **out, struct dt_error *err)
{
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    snprintf(service, sizeof(service), "%d", port);
    const char *name = strcmp(listen, "localhost") == 0 ? "127.0.0.1" : listen;
    int result = getaddrinfo(*name ? name : NULL, service, &hints, out);
    if (result != 0)
        return dt_fail(err, DT_INVALID, "[http] listen: \"%s\" is not an address: %s", listen, gai_strerror(result));
    return DT_OK;
}

static bool loopback_address(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

dt_status dt_http_is_loopback(const char *listen, bool *loopback, struct dt_error *err)
{
    struct addrinfo *info = NULL;
    dt_status status = resolve(listen, 0, &info, err);
    if (status != DT_OK)
        return status;
    *loopback = loopback_address(info->ai_addr);
    freeaddrinfo(info);
    return DT_OK;
}

dt_status dt_http_listen(const struct dt_config *config, int *out, int *port, struct dt_error *err)
{
    struct addrinfo *info = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    int one = 1;
    dt_status status = resolve(config->http_listen, (int)config->http_port, &info, err);
    if (status != DT_OK)
        return status;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool open = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 1024) == 0 &&
                getsockname(fd, (struct sockaddr *)&bound, &size) == 0;
    int error = errno;
    freeaddrinfo(info);
    if (!open) {
        if (fd >= 0)
            close(fd);
        return dt_fail(err, DT_SYSTEM, "cannot listen on %s port %d: %s", config->http_listen, (int)config->http_port,
                       strerror(error));
    }
    *port = bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&bound)->sin6_port)
                                        : ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
    *out = fd;
    return DT_OK;
}
