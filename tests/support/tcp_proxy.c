#include "support/tcp_proxy.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/suite.h"

enum { LOOK_MS = 5, PIECE = 65536 };

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void begin_listening(struct tcp_proxy *p)
{
    struct sockaddr_in at = loopback(p->port);
    socklen_t size = sizeof(at);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, TCP_PROXY_PAIRS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    p->port = ntohs(at.sin_port);
    p->listener = fd;
}

/* Shut down as well: a forked child may have the descriptor, too. */
static void close_both(struct tcp_proxy *p, int i)
{
    int fds[2] = {p->pairs[i].client, p->pairs[i].server};
    for (int k = 0; k < 2; k++) {
        if (fds[k] < 0)
            continue;
        shutdown(fds[k], SHUT_RDWR);
        close(fds[k]);
    }
    p->pairs[i].client = p->pairs[i].server = -1;
}

static int connect_server(const struct tcp_proxy *p)
{
    struct sockaddr_in in = loopback(p->server_port);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool local = p->socket[0] != '\0';
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(un.sun_path, p->socket, sizeof(un.sun_path));
    if (fd >= 0 &&
        connect(fd, local ? (struct sockaddr *)&un : (struct sockaddr *)&in, local ? sizeof(un) : sizeof(in)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- the proxy's thread, under the lock ---- */

static bool is_readable(int fd)
{
    struct pollfd at = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&at, 1, 0) == 1;
}

static void take_connection(struct tcp_proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; client >= 0 && i < TCP_PROXY_PAIRS; i++) {
        if (p->pairs[i].client >= 0)
            continue;
        p->pairs[i].client = client;
        p->pairs[i].server = connect_server(p);
        if (p->pairs[i].server < 0)
            close_both(p, i);
        return;
    }
    if (client >= 0)
        close(client);
}

/* False: one of them has ended. */
static bool pass_on(int from, int to)
{
    char piece[PIECE];
    if (!is_readable(from))
        return true;
    ssize_t n = recv(from, piece, sizeof(piece), MSG_DONTWAIT);
    for (ssize_t sent = 0; sent < n;) {
        ssize_t k = send(to, piece + sent, (size_t)(n - sent), MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        sent += k;
    }
    return n > 0;
}

/* Sleeps until something comes, or for a moment: sockets come and go. */
static void await(struct tcp_proxy *p)
{
    struct pollfd at[TCP_PROXY_PAIRS * 2 + 1];
    nfds_t n = 0;
    pthread_mutex_lock(&p->lock);
    if (!p->held) {
        at[n++] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (int i = 0; i < TCP_PROXY_PAIRS; i++) {
            at[n++] = (struct pollfd){.fd = p->pairs[i].client, .events = POLLIN};
            at[n++] = (struct pollfd){.fd = p->pairs[i].server, .events = POLLIN};
        }
    }
    pthread_mutex_unlock(&p->lock);
    (void)poll(at, n, LOOK_MS);
}

static void *run(void *arg)
{
    struct tcp_proxy *p = arg;
    while (!p->ending) {
        await(p);
        pthread_mutex_lock(&p->lock);
        if (!p->held) {
            if (is_readable(p->listener))
                take_connection(p);
            for (int i = 0; i < TCP_PROXY_PAIRS; i++) {
                if (p->pairs[i].client >= 0 && (!pass_on(p->pairs[i].client, p->pairs[i].server) ||
                                                !pass_on(p->pairs[i].server, p->pairs[i].client)))
                    close_both(p, i);
            }
        }
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* ---- the test's thread ---- */

void tcp_proxy_open(struct tcp_proxy *p, const char *path, int server_port)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->socket, sizeof(p->socket), "%s", path);
    p->server_port = server_port;
    for (int i = 0; i < TCP_PROXY_PAIRS; i++)
        p->pairs[i].client = p->pairs[i].server = -1;
    pthread_mutex_init(&p->lock, NULL);
    begin_listening(p);
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
}

void tcp_proxy_shut(struct tcp_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->listener >= 0) {
        shutdown(p->listener, SHUT_RDWR);
        close(p->listener);
    }
    p->listener = -1;
    for (int i = 0; i < TCP_PROXY_PAIRS; i++)
        close_both(p, i);
    pthread_mutex_unlock(&p->lock);
}

void tcp_proxy_reopen(struct tcp_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->listener < 0)
        begin_listening(p);
    pthread_mutex_unlock(&p->lock);
}

/* The kernel drops what arrives before it looks at it, so that it is not even acknowledged. */
void tcp_proxy_vanish(struct tcp_proxy *p)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &nothing};
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < TCP_PROXY_PAIRS; i++)
        if (p->pairs[i].client >= 0)
            assert_int_equal(setsockopt(p->pairs[i].client, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
    pthread_mutex_unlock(&p->lock);
}

void tcp_proxy_hold(struct tcp_proxy *p, bool held)
{
    pthread_mutex_lock(&p->lock);
    p->held = held;
    pthread_mutex_unlock(&p->lock);
}

void tcp_proxy_end(struct tcp_proxy *p)
{
    tcp_proxy_shut(p);
    p->ending = true;
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
}
