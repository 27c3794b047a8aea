/*
 * The load on beanstalkd: 64 connections in one process, each waiting for its answer before it asks again.
 *
 *   beanstalk PORT intake CLIENTS SECONDS [RATE] | lateness RATE SECONDS | burst JOBS
 *
 * Delays are whole seconds there, counted from the put: rounded up, so that nothing is early. `lateness` writes all
 * jobs before the first is due; `burst` writes JOBS without a delay while nobody reserves. Prints one JSON line.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../tools/bare.h"

#define CLIENTS 64
#define PAYLOAD 200
#define LEAD_MS 3000.0 /* and a millisecond for two jobs */
#define INPUT   4096

enum doing { IDLE, PUTTING, RESERVING, DELETING };

struct client {
    int fd;
    enum doing doing;
    char in[INPUT];
    size_t n;
};

static struct client clients[CLIENTS];
static int n_clients = CLIENTS;
static long put, executed;
static double *late;

static void connect_all(int port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < n_clients; i++) {
        int one = 1;
        clients[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(clients[i].fd, (struct sockaddr *)&to, sizeof to))
            die("connect", "refused");
        setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
}

static void say(struct client *c, enum doing doing, const char *text, size_t n)
{
    c->doing = doing;
    if (write(c->fd, text, n) != (ssize_t)n)
        die("write", "short");
}

/* The body begins with the due time in ms. */
static void say_put(struct client *c, double due_ms, int delay_s)
{
    char text[PAYLOAD + 100], body[PAYLOAD + 1];
    memset(body, 'x', PAYLOAD);
    snprintf(body, sizeof body, "%.3f", due_ms);
    body[strlen(body)] = ' ';
    int n = snprintf(text, sizeof text, "put 1 %d 120 %d\r\n", delay_s, PAYLOAD);
    memcpy(text + n, body, PAYLOAD);
    memcpy(text + n + PAYLOAD, "\r\n", 2);
    say(c, PUTTING, text, (size_t)n + PAYLOAD + 2);
}

static void say_reserve(struct client *c)
{
    say(c, RESERVING, "reserve\r\n", 9);
}

/* A whole answer is in the buffer: takes it off. */
static int take(struct client *c, char *out, size_t cap)
{
    char *end = memmem(c->in, c->n, "\r\n", 2);
    size_t size, body = 0;
    if (!end)
        return 0;
    size = (size_t)(end - c->in) + 2;
    if (!strncmp(c->in, "RESERVED ", 9))
        body = strtoul(strchr(c->in + 9, ' '), NULL, 10) + 2;
    if (c->n < size + body)
        return 0;
    size_t n = size + body < cap ? size + body : cap - 1;
    memcpy(out, c->in, n);
    out[n] = '\0';
    memmove(c->in, c->in + size + body, c->n - size - body);
    c->n -= size + body;
    return 1;
}

/* A job came: its lateness, and it is deleted. */
static void execute(struct client *c, const char *answer)
{
    char text[60];
    const char *body = strstr(answer, "\r\n") + 2;
    late[executed++] = wall_ms() - atof(body);
    int n = snprintf(text, sizeof text, "delete %ld\r\n", atol(answer + 9));
    say(c, DELETING, text, (size_t)n);
}

/* Waits for answers; each is handed to `then`. */
static void serve(int timeout_ms, void (*then)(struct client *, const char *))
{
    struct pollfd polls[CLIENTS];
    char answer[INPUT];
    for (int i = 0; i < n_clients; i++)
        polls[i] = (struct pollfd){clients[i].fd, POLLIN, 0};
    if (poll(polls, (nfds_t)n_clients, timeout_ms) < 0)
        die("poll", "failed");
    for (int i = 0; i < n_clients; i++) {
        struct client *c = &clients[i];
        if (!(polls[i].revents & POLLIN))
            continue;
        ssize_t n = read(c->fd, c->in + c->n, sizeof c->in - c->n);
        if (n <= 0)
            die("read", "the server is gone");
        c->n += (size_t)n;
        while (take(c, answer, sizeof answer))
            then(c, answer);
    }
}

static long wanted;
static double first_due, step_ms, until_ms, pace; /* puts a second at most, or 0 */

static void next_put(struct client *c)
{
    double due = step_ms > 0 ? first_due + (double)put * step_ms : wall_ms() + (step_ms < 0 ? 0 : 3600000);
    double ahead = due - wall_ms();
    say_put(c, due, step_ms < 0 ? 0 : (int)((ahead + 999) / 1000));
    put++;
}

static void after_put(struct client *c, const char *answer)
{
    if (strncmp(answer, "INSERTED", 8))
        die("put", answer);
    if (pace > 0)
        c->doing = IDLE;
    else if (wanted ? put < wanted : wall_ms() < until_ms)
        next_put(c);
}

static void after_work(struct client *c, const char *answer)
{
    if (c->doing == RESERVING && !strncmp(answer, "RESERVED", 8))
        execute(c, answer);
    else if (c->doing == DELETING && !strncmp(answer, "DELETED", 7))
        say_reserve(c);
    else
        die("answer", answer);
}

static void intake(double seconds)
{
    double began = wall_ms();
    until_ms = began + seconds * 1000;
    for (int i = 0; i < n_clients && pace <= 0; i++)
        next_put(&clients[i]);
    while (wall_ms() < until_ms) {
        serve(pace > 0 ? 1 : 50, after_put);
        /* What is allowed by now, by whoever has nothing to do. */
        for (int i = 0; i < n_clients && put < (long)((wall_ms() - began) * pace / 1000); i++)
            if (clients[i].doing == IDLE)
                next_put(&clients[i]);
    }
    printf("{\"jobs\":%ld,\"rate\":%.1f}\n", put, (double)put / (wall_ms() - began) * 1000);
}

static void write_jobs(long jobs)
{
    wanted = jobs;
    for (int i = 0; i < n_clients && put < jobs; i++)
        next_put(&clients[i]);
    for (double end = wall_ms() + 300; put < jobs || wall_ms() < end;) {
        serve(20, after_put);
        end = put < jobs ? wall_ms() + 300 : end; /* the last answers */
    }
}

static void work(long jobs, double from_ms, double seconds)
{
    double last = wall_ms();
    late = calloc((size_t)jobs + CLIENTS, sizeof *late);
    for (int i = 0; i < n_clients; i++)
        say_reserve(&clients[i]);
    for (double end = from_ms + seconds * 1000; executed < jobs && wall_ms() < end;) {
        serve(50, after_work);
        last = wall_ms();
    }
    long early = 0;
    for (long i = 0; i < executed; i++)
        early += late[i] < 0;
    qsort(late, (size_t)executed, sizeof *late, by_number);
    printf("{\"jobs\":%ld,\"executed\":%ld,\"early\":%ld,\"p50\":%.1f,\"p99\":%.1f,\"rate\":%.1f}\n", jobs, executed,
           early, executed ? late[executed / 2] : 0, executed ? late[executed * 99 / 100] : 0,
           (double)executed / (last - from_ms) * 1000);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage", "beanstalk PORT intake CLIENTS SECONDS [RATE] | lateness RATE SECONDS | burst JOBS");
    if (!strcmp(argv[2], "intake"))
        n_clients = atoi(argv[3]);
    connect_all(atoi(argv[1]));
    if (!strcmp(argv[2], "intake")) {
        pace = argc > 5 ? atof(argv[5]) : 0;
        intake(atof(argv[4]));
    } else if (!strcmp(argv[2], "lateness")) {
        long jobs = atol(argv[3]) * atol(argv[4]);
        step_ms = 1000.0 / atof(argv[3]);
        first_due = wall_ms() + LEAD_MS + (double)jobs / 2;
        write_jobs(jobs);
        if (wall_ms() > first_due)
            die("put", "the jobs were not written before they were due");
        work(jobs, first_due, 3 * atof(argv[4]));
    } else {
        step_ms = -1;
        write_jobs(atol(argv[3]));
        work(atol(argv[3]), wall_ms(), 60);
    }
    return 0;
}
