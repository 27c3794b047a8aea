/*
 * A receiver of callbacks that costs little: answers 204 to every request, or nothing at all, in one thread.
 *
 *   answerer COUNT SECONDS [SINCE_MS | silent]    prints its port, and in the end a JSON line: how many requests came, how many of
 *                                                 them are different attempts, and how late they were that were due from SINCE on.
 *                                                 Ends after COUNT requests, or after SECONDS without one; silent: after SECONDS
 *   answerer 0 SECONDS bare                       a bare HTTP server: answers 201, counts nothing, ends after SECONDS
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define ROOM   16384
#define EVENTS 256

struct connection {
    int fd;
    size_t n;
    char in[ROOM + 1];
};

static const char NO_CONTENT[] = "HTTP/1.1 204 No Content\r\n\r\n";
static const char CREATED[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
static const char *answer = NO_CONTENT;
static size_t answer_n = sizeof NO_CONTENT - 1;
static int epoll;
static bool silent, bare;
static struct seen seen;

static int listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096))
        die("listen", strerror(errno));
    getsockname(fd, (struct sockaddr *)&at, &size);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int listening)
{
    for (int fd; (fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int one = 1;
        struct connection *c = calloc(1, sizeof *c);
        c->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
    }
}

static void note(const char *head)
{
    const char *id = strcasestr(head, "\nwebhook-id:"), *due = strcasestr(head, "\nce-scheduledtime:");
    char *attempt;
    if (!id) {
        see(&seen, (uint64_t)seen.n, 1, 0);
        return;
    }
    uint64_t job = strtoull(id + 12, &attempt, 10);
    see(&seen, job, strtoull(attempt + 1, NULL, 10), due ? ms_of(due + 18 + (due[18] == ' ')) : 0);
}

/* Each request that is whole is answered. False: the connection is gone. */
static bool serve(struct connection *c)
{
    ssize_t got = read(c->fd, c->in + c->n, ROOM - c->n);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    c->n += (size_t)got;
    c->in[c->n] = '\0';
    for (size_t size; (size = whole(c->in, c->n)); c->n -= size) {
        if (!bare)
            note(c->in);
        if (!silent && write(c->fd, answer, answer_n) < 0)
            return false;
        memmove(c->in, c->in + size, c->n - size + 1);
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage", "answerer COUNT SECONDS [SINCE_MS | silent | bare]");
    silent = argc > 3 && !strcmp(argv[3], "silent");
    bare = argc > 3 && !strcmp(argv[3], "bare");
    if (bare) {
        answer = CREATED;
        answer_n = sizeof CREATED - 1;
    }
    seen = seen_of(atol(argv[1]), argc > 3 && !silent && !bare ? atof(argv[3]) : 0);
    int listening = listen_anywhere();
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &(struct epoll_event){.events = EPOLLIN});
    double silence = atof(argv[2]), until = now() + silence;
    while (now() < until && (silent || bare || seen.n < seen.wanted)) {
        struct epoll_event events[EVENTS];
        long before = seen.n;
        int n = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c)
                accept_all(listening);
            else if (!serve(c)) {
                close(c->fd);
                free(c);
            }
        }
        if (seen.n > before && !silent)
            until = now() + silence;
    }
    tell(&seen, 0);
    usleep(300000); /* the last answers are read before their connections end */
    return 0;
}
