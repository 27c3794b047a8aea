/*
 * Workers that pop over many connections in one thread: each waits for jobs and, if told to, reports them by NDJSON before it pops again.
 *
 *   popper PORT TOPIC COUNT CONNECTIONS MAX WAIT_MS SECONDS SINCE_MS [report]
 *
 * Prints a JSON line: how many jobs were popped, how many different attempts they are, and how long after its due time (from SINCE on) the
 * answer with a job was here. It ends when COUNT are popped (and reported), or after SECONDS without a job.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define ROOM   (1 << 20)
#define EVENTS 256

struct worker {
    int fd;
    bool reporting;
    size_t n;
    char in[ROOM + 1];
};

static int epoll, port;
static bool reports;
static long applied;
static char pop[1000];
static struct seen seen;

static void say(struct worker *w, const char *text, size_t n)
{
    for (ssize_t sent; n > 0; text += sent, n -= (size_t)sent)
        if ((sent = write(w->fd, text, n)) < 0)
            die("write", strerror(errno));
}

static void say_pop(struct worker *w)
{
    w->reporting = false;
    say(w, pop, strlen(pop));
}

static void open_one(struct worker *w)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    w->fd = socket(AF_INET, SOCK_STREAM, 0);
    w->n = 0;
    if (connect(w->fd, (struct sockaddr *)&to, sizeof to))
        die("connect", strerror(errno));
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_ctl(epoll, EPOLL_CTL_ADD, w->fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = w});
}

static void open_anew(struct worker *w)
{
    close(w->fd);
    open_one(w);
}

/* The value of a member that follows; NULL: none does. */
static const char *member(const char *at, const char *name)
{
    const char *found = at ? strstr(at, name) : NULL;
    return found ? found + strlen(name) : NULL;
}

static size_t report_of(char *out, uint64_t job, uint64_t attempt)
{
    return (size_t)sprintf(out, "{\"job_id\":\"%llu\",\"attempt\":%llu,\"status\":\"succeeded\"}\n",
                           (unsigned long long)job, (unsigned long long)attempt);
}

/* Notes every job of the answer; the length of the reports on them. */
static size_t take_jobs(const char *body, char *lines)
{
    size_t n = 0;
    for (const char *at = body; (at = member(at, "{\"id\":\""));) {
        uint64_t job = strtoull(at, NULL, 10), attempt = strtoull(member(at, "\"attempt\":"), NULL, 10);
        see(&seen, job, attempt, ms_of(member(at, "\"run_at\":\"")));
        n += report_of(lines + n, job, attempt);
    }
    return n;
}

static void say_reports(struct worker *w, const char *lines, size_t n)
{
    char head[300];
    w->reporting = true;
    int size = snprintf(head, sizeof head,
                        "POST /v1/results HTTP/1.1\r\nhost: localhost\r\ncontent-type: "
                        "application/x-ndjson\r\ncontent-length: %zu\r\n\r\n",
                        n);
    say(w, head, (size_t)size);
    say(w, lines, n);
}

static void answered(struct worker *w, const char *text)
{
    static char lines[ROOM];
    if (strncmp(text + 9, "200", 3))
        die("answer", text);
    const char *body = strstr(text, "\r\n\r\n");
    for (const char *at = w->reporting ? body : NULL; (at = member(at, "\"applied\""));)
        applied++;
    size_t n = w->reporting ? 0 : take_jobs(body, lines);
    if (n && reports)
        say_reports(w, lines, n);
    else
        say_pop(w);
}

/* A pop that waited ends its connection with its answer, so that another one takes its place. */
static void take(struct worker *w, size_t size)
{
    static char text[ROOM + 1];
    memcpy(text, w->in, size);
    text[size] = '\0';
    memmove(w->in, w->in + size, w->n - size + 1);
    w->n -= size;
    const char *close = strcasestr(text, "connection: close");
    if (close && close < strstr(text, "\r\n\r\n"))
        open_anew(w);
    answered(w, text);
}

static void serve(struct worker *w)
{
    ssize_t got = read(w->fd, w->in + w->n, ROOM - w->n);
    if (got <= 0) {
        open_anew(w);
        say_pop(w);
        return;
    }
    w->n += (size_t)got;
    w->in[w->n] = '\0';
    for (size_t size; (size = whole(w->in, w->n));)
        take(w, size);
}

int main(int argc, char **argv)
{
    if (argc < 9)
        die("usage", "popper PORT TOPIC COUNT CONNECTIONS MAX WAIT_MS SECONDS SINCE_MS [report]");
    port = atoi(argv[1]);
    char body[100];
    int size = snprintf(body, sizeof body, "{\"max\":%s,\"wait\":%s}", argv[5], argv[6]);
    snprintf(pop, sizeof pop,
             "POST /v1/topics/%s/pop HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
             "%d\r\n\r\n%s",
             argv[2], size, body);
    seen = seen_of(atol(argv[3]), atof(argv[8]));
    reports = argc > 9;
    epoll = epoll_create1(0);
    for (int i = 0; i < atoi(argv[4]); i++) {
        struct worker *w = calloc(1, sizeof *w);
        open_one(w);
        say_pop(w);
    }
    double silence = atof(argv[7]), until = now() + silence;
    while (now() < until && (seen.n < seen.wanted || (reports && applied < seen.wanted))) {
        struct epoll_event events[EVENTS];
        long before = seen.n + applied;
        int n = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < n; i++)
            serve(events[i].data.ptr);
        if (seen.n + applied > before)
            until = now() + silence;
    }
    tell(&seen, applied);
    return 0;
}
