/*
 * Owns one thread that sleeps in poll(2) on the wake channels of all endpoints. Refuses to know what a wake-up is for.
 *
 *            connect(2) under way      CLIENT ID answered    SUBSCRIBE confirmed
 *   DOWN ───▶ CONNECTING ───▶ GREETING ───▶ SUBSCRIBING ───▶ UP
 *    ▲ back-off   │ late or refused │ late       │ late        │ lost, or silent for too long after a PING
 *    └────────────┴─────────────────┴────────────┴─────────────┘
 *
 * The connection tracks keys and has read none: what its server then says is that all keys were flushed. A server that
 * refuses that is done without.
 *
 * Invariants: nothing here blocks but poll(2) (and the resolver); each state but UP has a deadline, UP has a PING every
 * PING_US while nothing else was heard, so that a server that stands still is noticed; the kernel asks more often
 * whether the peer is there at all (dt_link_keep_alive), which wakes nobody. Reaching UP and leaving
 * it both say on_wake(-1): what was published in between is lost, and the leaders look by themselves.
 */
#include "index/index.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "index/index_link.h"

#define PING_US INT64_C(5000000)
#define FLUSHED "__redis__:invalidate"

enum ear_state { EAR_DOWN, EAR_CONNECTING, EAR_GREETING, EAR_SUBSCRIBING, EAR_UP };

struct ear {
    const struct dt_endpoint *endpoint;
    enum ear_state state;
    redisContext *c;
    bool unsent;         /* commands wait for the socket to take them */
    unsigned owed;       /* GREETING, SUBSCRIBING: answers to come before the one that is waited for */
    bool tracks;         /* the answer to SUBSCRIBE FLUSHED is owed: it may be a refusal */
    bool pinged;         /* UP: an answer to PING is owed */
    int64_t deadline_us; /* DOWN: next try; UP: next PING, or its answer's deadline; else the state's end */
    struct dt_backoff backoff;
    struct dt_outage_part outage;
    dt_metric *up;
};

struct dt_wake {
    const struct dt_config *config;
    const dt_clock *clock;
    void (*on_wake)(void *arg, int shard, bool outbox);
    void *arg;
    char channel[128];
    struct dt_endpoint *endpoints;
    struct ear *ears;
    struct pollfd *fds; /* fds[0] is the stop event, fds[i + 1] belongs to ears[i] */
    unsigned n;
    _Atomic unsigned n_up; /* any thread reads */
    int stop_fd;
    pthread_t thread;
    bool started;
};

/* ---- the life of an ear ---- */

static void ear_fail(struct dt_wake *wake, struct ear *ear, const char *why)
{
    int64_t now_us = dt_clock_mono_us(wake->clock);
    bool was_up = ear->state == EAR_UP;
    struct dt_error err = {0};

    (void)dt_fail(&err, DT_UNAVAILABLE, "redis %s: %s", ear->endpoint->name, why);
    dt_outage_failed(&ear->outage, DT_OUTAGE_REDIS, "index", "wake channel lost", DT_UNAVAILABLE, &err);
    if (ear->c)
        redisFree(ear->c);
    ear->c = NULL;
    ear->unsent = ear->pinged = false;
    ear->owed = 0;
    ear->tracks = false;
    ear->state = EAR_DOWN;
    wake->n_up -= was_up;
    ear->deadline_us = now_us + dt_backoff_us(&ear->backoff, (uint64_t)now_us ^ (uint64_t)(uintptr_t)ear);
    dt_metric_set(ear->up, 0);
    if (was_up)
        wake->on_wake(wake->arg, -1, false);
}

static void ear_connect(struct dt_wake *wake, struct ear *ear)
{
    ear->c = redisConnectNonBlock(ear->endpoint->host, ear->endpoint->port);
    if (!ear->c || ear->c->err) {
        ear_fail(wake, ear, ear->c ? ear->c->errstr : "no memory");
        return;
    }
    ear->state = EAR_CONNECTING;
    ear->deadline_us = dt_clock_mono_us(wake->clock) + wake->config->redis_timeout * 1000;
}

/* Writes what the socket takes; the rest waits for POLLOUT. */
static void ear_send(struct dt_wake *wake, struct ear *ear)
{
    int done = 0;

    if (redisBufferWrite(ear->c, &done) != REDIS_OK)
        ear_fail(wake, ear, ear->c->errstr);
    else
        ear->unsent = !done;
}

static void ear_greet(struct dt_wake *wake, struct ear *ear)
{
    const char *password = wake->config->redis_password;
    int problem = 0;
    socklen_t size = sizeof(problem);

    if (getsockopt(ear->c->fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
        problem = errno;
    if (problem) {
        ear_fail(wake, ear, strerror(problem));
        return;
    }
    ear->state = EAR_GREETING;
    ear->owed = password && password[0];
    dt_link_keep_alive(ear->c->fd);
    if ((ear->owed && redisAppendCommand(ear->c, "AUTH %s", password) != REDIS_OK) ||
        redisAppendCommand(ear->c, "CLIENT ID") != REDIS_OK) {
        ear_fail(wake, ear, "no memory");
        return;
    }
    ear_send(wake, ear);
}

/* What tracking has to say goes to this very connection. */
static void ear_subscribe(struct dt_wake *wake, struct ear *ear, long long id)
{
    ear->state = EAR_SUBSCRIBING;
    ear->owed = id > 0;
    ear->tracks = id > 0;
    if ((ear->tracks && redisAppendCommand(ear->c, "CLIENT TRACKING ON REDIRECT %lld", id) != REDIS_OK) ||
        redisAppendCommand(ear->c, "SUBSCRIBE %s", wake->channel) != REDIS_OK ||
        (ear->tracks && redisAppendCommand(ear->c, "SUBSCRIBE " FLUSHED) != REDIS_OK)) {
        ear_fail(wake, ear, "no memory");
        return;
    }
    ear_send(wake, ear);
}

static void ear_up(struct dt_wake *wake, struct ear *ear)
{
    ear->state = EAR_UP;
    wake->n_up++;
    ear->backoff.failures = 0;
    dt_outage_over(&ear->outage);
    dt_metric_set(ear->up, 1);
    wake->on_wake(wake->arg, -1, false);
}

static void ear_ping(struct dt_wake *wake, struct ear *ear)
{
    if (ear->pinged) {
        ear_fail(wake, ear, "no answer");
        return;
    }
    if (redisAppendCommand(ear->c, "PING") != REDIS_OK) {
        ear_fail(wake, ear, "no memory");
        return;
    }
    ear->pinged = true;
    ear->deadline_us = dt_clock_mono_us(wake->clock) + wake->config->redis_timeout * 1000;
    ear_send(wake, ear);
}

static void ear_late(struct dt_wake *wake, struct ear *ear)
{
    if (ear->state == EAR_DOWN)
        ear_connect(wake, ear);
    else if (ear->state == EAR_UP)
        ear_ping(wake, ear);
    else
        ear_fail(wake, ear, "timed out");
}

/* ---- messages ---- */

/* "<shard>", "<shard> outbox", "topic"; anything else is taken for "everything may have changed". */
static void announce(struct dt_wake *wake, const char *text)
{
    char *end = NULL;
    long shard = strtol(text, &end, 10);
    bool outbox = strcmp(end, " outbox") == 0;

    if (end == text || shard < 0 || shard >= DT_SHARDS_MAX || (*end && !outbox))
        wake->on_wake(wake->arg, -1, false);
    else
        wake->on_wake(wake->arg, (int)shard, outbox);
}

static const char *word(const redisReply *reply, size_t i)
{
    return i < reply->elements && reply->element[i]->str ? reply->element[i]->str : "";
}

/* The answers of a greeting: to AUTH, where there is a password, and to CLIENT ID. */
static void ear_greeted(struct dt_wake *wake, struct ear *ear, const redisReply *reply)
{
    if (!ear->owed)
        ear_subscribe(wake, ear, reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0);
    else if (reply->type == REDIS_REPLY_ERROR)
        ear_fail(wake, ear, reply->str);
    else
        ear->owed--;
}

/* "message" of either channel: of FLUSHED it has no text. */
static void ear_take(struct dt_wake *wake, struct ear *ear, const redisReply *reply)
{
    if (ear->state == EAR_GREETING)
        ear_greeted(wake, ear, reply);
    else if (ear->owed)
        ear->owed--; /* whether it tracks or not */
    else if (reply->type == REDIS_REPLY_ERROR && ear->state == EAR_UP && ear->tracks)
        ear->tracks = false;
    else if (reply->type == REDIS_REPLY_ERROR)
        ear_fail(wake, ear, reply->str);
    else if (reply->type != REDIS_REPLY_ARRAY)
        return;
    else if (strcmp(word(reply, 0), "message") == 0)
        announce(wake, word(reply, 2));
    else if (strcmp(word(reply, 0), "subscribe") == 0 && ear->state == EAR_SUBSCRIBING)
        ear_up(wake, ear);
}

static void ear_hear(struct dt_wake *wake, struct ear *ear)
{
    if (redisBufferRead(ear->c) != REDIS_OK) {
        ear_fail(wake, ear, ear->c->errstr);
        return;
    }
    while (ear->c) {
        void *raw = NULL;

        if (redisGetReplyFromReader(ear->c, &raw) != REDIS_OK) {
            ear_fail(wake, ear, ear->c->errstr);
            return;
        }
        if (!raw)
            break;
        ear_take(wake, ear, raw);
        freeReplyObject(raw);
    }
    if (ear->state == EAR_UP) { /* whatever was heard is a sign of life */
        ear->pinged = false;
        ear->deadline_us = dt_clock_mono_us(wake->clock) + PING_US;
    }
}

/* ---- the thread ---- */

static short interests(const struct ear *ear)
{
    if (ear->state == EAR_CONNECTING)
        return POLLOUT;
    return (short)(POLLIN | (ear->unsent ? POLLOUT : 0));
}

/* Fills the poll set; the answer is the timeout in ms, rounded up so that a deadline is over when it is looked at. */
static int prepare_poll(struct dt_wake *wake)
{
    int64_t first_us = INT64_MAX;
    int64_t wait_us;

    for (unsigned i = 0; i < wake->n; i++) {
        const struct ear *ear = &wake->ears[i];

        wake->fds[i + 1] = (struct pollfd){.fd = ear->c ? ear->c->fd : -1, .events = interests(ear)};
        if (ear->deadline_us < first_us)
            first_us = ear->deadline_us;
    }
    wait_us = first_us - dt_clock_mono_us(wake->clock);
    return wait_us <= 0 ? 0 : (int)(wait_us / 1000 + 1);
}

static void serve(struct dt_wake *wake, struct ear *ear, short events)
{
    if (events && ear->state == EAR_CONNECTING) {
        ear_greet(wake, ear);
        return;
    }
    if (events & POLLOUT)
        ear_send(wake, ear);
    if (ear->c && (events & (POLLIN | POLLERR | POLLHUP)))
        ear_hear(wake, ear);
    if (dt_clock_mono_us(wake->clock) >= ear->deadline_us)
        ear_late(wake, ear);
}

static void *listen_for_ever(void *arg)
{
    struct dt_wake *wake = arg;

    for (;;) {
        int timeout_ms = prepare_poll(wake);

        if (poll(wake->fds, wake->n + 1, timeout_ms) < 0) {
            if (errno == EINTR)
                continue;
            break; /* out of memory in the kernel: the leaders' own looks remain */
        }
        if (wake->fds[0].revents)
            break;
        for (unsigned i = 0; i < wake->n; i++)
            serve(wake, &wake->ears[i], wake->fds[i + 1].revents);
    }
    return NULL;
}

/* ---- the handle ---- */

static dt_status fill(struct dt_wake *wake, struct dt_error *err)
{
    dt_status status = dt_endpoints_parse(wake->config->redis_endpoints, &wake->endpoints, &wake->n, err);

    if (status != DT_OK)
        return status;
    wake->ears = calloc(wake->n, sizeof(*wake->ears));
    wake->fds = calloc(wake->n + 1, sizeof(*wake->fds));
    if (!wake->ears || !wake->fds)
        return dt_fail(err, DT_NOMEM, "wake channel");
    for (unsigned i = 0; i < wake->n; i++) {
        char labels[160];

        snprintf(labels, sizeof(labels), "endpoint=\"%.120s\"", wake->endpoints[i].name);
        wake->ears[i] = (struct ear){.endpoint = &wake->endpoints[i], .state = EAR_DOWN};
        wake->ears[i].up = dt_gauge("duetime_redis_wake_up", "1 while the wake channel is subscribed.", labels);
    }
    wake->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake->stop_fd < 0)
        return dt_fail(err, DT_SYSTEM, "eventfd: %s", strerror(errno));
    wake->fds[0] = (struct pollfd){.fd = wake->stop_fd, .events = POLLIN};
    return DT_OK;
}

/* Signals are for the main thread. */
static int start_thread(struct dt_wake *wake)
{
    sigset_t all;
    sigset_t before;
    int problem;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    problem = pthread_create(&wake->thread, NULL, listen_for_ever, wake);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    wake->started = problem == 0;
    return problem;
}

dt_status dt_wake_start(const struct dt_config *config, const char *installation,
                        void (*on_wake)(void *arg, int shard, bool outbox), void *arg, dt_wake **out,
                        struct dt_error *err)
{
    struct dt_wake *wake = calloc(1, sizeof(*wake));
    dt_status status;
    int problem;

    *out = NULL;
    if (!wake)
        return dt_fail(err, DT_NOMEM, "wake channel");
    wake->config = config;
    wake->clock = dt_clock_system();
    wake->on_wake = on_wake;
    wake->arg = arg;
    wake->stop_fd = -1;
    snprintf(wake->channel, sizeof(wake->channel), "%s:wake", installation);
    status = fill(wake, err);
    if (status == DT_OK && (problem = start_thread(wake)) != 0)
        status = dt_fail(err, DT_SYSTEM, "thread: %s", strerror(problem));
    if (status != DT_OK) {
        dt_wake_stop(wake);
        return status;
    }
    *out = wake;
    return DT_OK;
}

bool dt_wake_hears(const dt_wake *wake)
{
    return wake->n_up == wake->n;
}

void dt_wake_stop(dt_wake *wake)
{
    if (!wake)
        return;
    if (wake->started) {
        uint64_t one = 1;

        if (write(wake->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
            pthread_join(wake->thread, NULL);
    }
    for (unsigned i = 0; wake->ears && i < wake->n; i++) {
        if (wake->ears[i].c)
            redisFree(wake->ears[i].c);
    }
    if (wake->stop_fd >= 0)
        close(wake->stop_fd);
    dt_endpoints_free(wake->endpoints, wake->n);
    free(wake->ears);
    free(wake->fds);
    free(wake);
}
