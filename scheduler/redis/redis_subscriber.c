/*
 * One thread that sleeps in poll(2) on the wake channels of all endpoints.
 *
 *            connect(2) under way      CLIENT ID answered    SUBSCRIBE confirmed
 *   DOWN ───▶ CONNECTING ───▶ GREETING ───▶ SUBSCRIBING ───▶ UP
 *    ▲ back-off   │ late or refused │ late       │ late        │ lost, or silent for too long after a PING
 *    └────────────┴─────────────────┴────────────┴─────────────┘
 *
 * The connection tracks keys, but reads none. So the only invalidation that the server sends is that all keys were
 * flushed. If the server refuses tracking, the subscriber works without it.
 *
 * Invariants: only poll(2) blocks here (and the resolver, Sentinels and the TLS handshake). Each state except UP has a
 * deadline. In UP, a PING is sent PING_US after the last message, so that a server that hangs is noticed; the kernel
 * checks more often whether the peer exists (dt_link_keep_alive). Entering and leaving UP both call on_wake(-1):
 * messages between two connections are lost, so the leaders must check by themselves.
 */
#include "redis_subscriber.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/secrets.h"
#include "base/thread.h"
#include "job/shard.h"
#include "redis_connect.h"
#include "redis_link.h"

#define PING_US INT64_C(5000000)
#define FLUSHED "__redis__:invalidate"

enum subscriber_state { SUB_DOWN, SUB_CONNECTING, SUB_GREETING, SUB_SUBSCRIBING, SUB_UP };

struct subscriber {
    const struct dt_endpoint *endpoint;
    enum subscriber_state state;
    redisContext *c;
    bool unsent;   /* commands are buffered until the socket is writable */
    unsigned owed; /* in GREETING and SUBSCRIBING: number of replies that precede the expected one */
    bool tracks;   /* SUBSCRIBE FLUSHED was sent; an error reply is then not a failure */
    bool pinged;   /* in UP: PING was sent, and no reply was received yet */
    /* DOWN: time of the next try; UP: time of the next PING, or limit for its reply; else: limit for the state. */
    int64_t deadline_us;
    struct dt_backoff backoff;
    struct dt_outage_part outage;
    dt_metric *up;
};

struct dt_wake {
    const struct dt_config *config;
    const dt_clock *clock;
    void (*on_wake)(void *arg, int shard, bool outbox);
    void (*on_offers)(void *arg, struct dt_str topic); /* set for API processes; NULL: on_wake is called */
    void *arg;
    char channel[128];
    struct dt_endpoint *endpoints;
    struct subscriber *subscribers;
    struct pollfd *fds; /* fds[0] is the stop event, fds[i + 1] belongs to subscribers[i] */
    unsigned n;
    _Atomic unsigned n_up; /* subscribers in UP; read by any thread */
    int stop_fd;
    struct dt_thread thread;
};

static void announce_all_changed(struct dt_wake *wake)
{
    if (wake->on_offers)
        wake->on_offers(wake->arg, DT_STR_NONE);
    else
        wake->on_wake(wake->arg, -1, false);
}

/* ---- the states of a subscriber ---- */

static void fail_subscriber(struct dt_wake *wake, struct subscriber *sub, const char *why)
{
    int64_t now_us = dt_clock_mono_us(wake->clock);
    bool was_up = sub->state == SUB_UP;
    struct dt_error err = {0};
    dt_assert_cmp(wake->n_up, >=, was_up);
    (void)dt_fail(&err, DT_UNAVAILABLE, "redis %s: %s", sub->endpoint->name, why);
    dt_outage_failed(&sub->outage, DT_OUTAGE_REDIS, "index", "the connection for the wake channel was lost",
                     DT_UNAVAILABLE, &err);
    redisFree(sub->c);
    sub->c = NULL;
    sub->unsent = sub->pinged = false;
    sub->owed = 0;
    sub->tracks = false;
    sub->state = SUB_DOWN;
    wake->n_up -= was_up;
    sub->deadline_us = now_us + dt_backoff_us(&sub->backoff, (uint64_t)now_us ^ (uint64_t)(uintptr_t)sub);
    dt_metric_set(sub->up, 0);
    if (was_up)
        announce_all_changed(wake);
}

static void connect_subscriber(struct dt_wake *wake, struct subscriber *sub)
{
    dt_assert(sub->state == SUB_DOWN && !sub->c);
    /* Sentinels and TLS block for some round trips. Other endpoints use a non-blocking connect(2). */
    if (dt_redis_is_elaborate(wake->config, sub->endpoint)) {
        sub->c = dt_redis_connect(wake->config, sub->endpoint);
        if (sub->c && !sub->c->err) {
            sub->c->flags &= ~REDIS_BLOCK;
            (void)fcntl(sub->c->fd, F_SETFL, fcntl(sub->c->fd, F_GETFL) | O_NONBLOCK);
        }
    } else {
        sub->c = redisConnectNonBlock(sub->endpoint->host, sub->endpoint->port);
    }
    if (!sub->c || sub->c->err) {
        fail_subscriber(wake, sub, sub->c ? sub->c->errstr : "no memory");
        return;
    }
    sub->state = SUB_CONNECTING;
    sub->deadline_us = dt_clock_mono_us(wake->clock) + wake->config->redis_timeout * 1000;
}

/* Writes as much as the socket accepts. If data remains, poll(2) waits for POLLOUT. */
static void send_subscription(struct dt_wake *wake, struct subscriber *sub)
{
    int done = 0;
    if (redisBufferWrite(sub->c, &done) != REDIS_OK)
        fail_subscriber(wake, sub, sub->c->errstr);
    else
        sub->unsent = !done;
}

static void greet_server(struct dt_wake *wake, struct subscriber *sub)
{
    struct dt_strbuf password = {0};
    const char *user;
    bool said = true;
    int problem = 0;
    socklen_t size = sizeof(problem);
    if (getsockopt(sub->c->fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
        problem = errno;
    if (problem) {
        fail_subscriber(wake, sub, strerror(problem));
        return;
    }
    sub->state = SUB_GREETING;
    dt_link_keep_alive(sub->c->fd);
    sub->owed = dt_redis_credentials(wake->config, &password, &user);
    if (sub->owed && user)
        said = redisAppendCommand(sub->c, "AUTH %s %s", user, password.p) == REDIS_OK;
    else if (sub->owed)
        said = redisAppendCommand(sub->c, "AUTH %s", password.p) == REDIS_OK;
    dt_secret_forget(&password);
    if (!said || redisAppendCommand(sub->c, "CLIENT ID") != REDIS_OK) {
        fail_subscriber(wake, sub, "no memory");
        return;
    }
    send_subscription(wake, sub);
}

/* ---- messages ---- */

static void announce_message(struct dt_wake *wake, const char *text)
{
    if (!wake->on_offers) {
        /* The message is "<shard>" or "<shard> outbox". Any other text means that everything may have changed. */
        char *end = NULL;
        long shard = strtol(text, &end, 10);
        bool outbox = strcmp(end, " outbox") == 0;
        if (end == text || shard < 0 || shard >= DT_SHARDS_MAX || (*end && !outbox))
            wake->on_wake(wake->arg, -1, false);
        else
            wake->on_wake(wake->arg, (int)shard, outbox);
        return;
    }
    /* The message is a list of topics, separated by spaces. If it is empty, any topic may have jobs. */
    if (!*text)
        announce_all_changed(wake);
    while (*text) {
        size_t n = strcspn(text, " ");
        wake->on_offers(wake->arg, (struct dt_str){text, n});
        text += n + (text[n] == ' ');
    }
}

static const char *reply_element_text(const redisReply *reply, size_t i)
{
    return i < reply->elements && reply->element[i]->str ? reply->element[i]->str : "";
}

static void handle_reply(struct dt_wake *wake, struct subscriber *sub, const redisReply *reply)
{
    if (sub->state == SUB_GREETING && !sub->owed) { /* the reply to CLIENT ID */
        sub->state = SUB_SUBSCRIBING;
        sub->tracks = reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
        sub->owed = sub->tracks;
        if ((sub->tracks &&
             redisAppendCommand(sub->c, "CLIENT TRACKING ON REDIRECT %lld", reply->integer) != REDIS_OK) ||
            redisAppendCommand(sub->c, "SUBSCRIBE %s", wake->channel) != REDIS_OK ||
            (sub->tracks && redisAppendCommand(sub->c, "SUBSCRIBE " FLUSHED) != REDIS_OK))
            fail_subscriber(wake, sub, "no memory");
        else
            send_subscription(wake, sub);
    } else if (sub->state == SUB_GREETING && reply->type == REDIS_REPLY_ERROR)
        fail_subscriber(wake, sub, reply->str);
    else if (sub->owed)
        sub->owed--; /* reply to AUTH, or to CLIENT TRACKING; the latter may be an error */
    else if (reply->type == REDIS_REPLY_ERROR && sub->state == SUB_UP && sub->tracks)
        sub->tracks = false;
    else if (reply->type == REDIS_REPLY_ERROR)
        fail_subscriber(wake, sub, reply->str);
    else if (reply->type != REDIS_REPLY_ARRAY)
        return;
    else if (strcmp(reply_element_text(reply, 0), "message") == 0)
        announce_message(wake, reply_element_text(reply, 2)); /* a message of FLUSHED has an empty text */
    else if (strcmp(reply_element_text(reply, 0), "subscribe") == 0 && sub->state == SUB_SUBSCRIBING) {
        sub->state = SUB_UP;
        wake->n_up++;
        dt_assert_cmp(wake->n_up, <=, wake->n);
        sub->backoff.failures = 0;
        dt_outage_over(&sub->outage);
        dt_metric_set(sub->up, 1);
        announce_all_changed(wake);
    }
}

static void read_replies(struct dt_wake *wake, struct subscriber *sub)
{
    if (redisBufferRead(sub->c) != REDIS_OK) {
        fail_subscriber(wake, sub, sub->c->errstr);
        return;
    }
    while (sub->c) {
        void *raw = NULL;
        if (redisGetReplyFromReader(sub->c, &raw) != REDIS_OK) {
            fail_subscriber(wake, sub, sub->c->errstr);
            return;
        }
        if (!raw)
            break;
        handle_reply(wake, sub, raw);
        freeReplyObject(raw);
    }
    if (sub->state == SUB_UP) { /* any message proves that the server answers */
        sub->pinged = false;
        sub->deadline_us = dt_clock_mono_us(wake->clock) + PING_US;
    }
}

/* ---- the thread ---- */

static void serve_subscriber(struct dt_wake *wake, struct subscriber *sub, short events)
{
    if (events && sub->state == SUB_CONNECTING) {
        greet_server(wake, sub);
        return;
    }
    if (events & POLLOUT)
        send_subscription(wake, sub);
    if (sub->c && (events & (POLLIN | POLLERR | POLLHUP)))
        read_replies(wake, sub);
    if (dt_clock_mono_us(wake->clock) < sub->deadline_us)
        return;
    if (sub->state == SUB_DOWN) {
        connect_subscriber(wake, sub);
    } else if (sub->state != SUB_UP) {
        fail_subscriber(wake, sub, "timed out");
    } else if (sub->pinged) {
        fail_subscriber(wake, sub, "no answer");
    } else if (redisAppendCommand(sub->c, "PING") != REDIS_OK) {
        fail_subscriber(wake, sub, "no memory");
    } else {
        sub->pinged = true;
        sub->deadline_us = dt_clock_mono_us(wake->clock) + wake->config->redis_timeout * 1000;
        send_subscription(wake, sub);
    }
}

static void run_subscriber(void *arg)
{
    struct dt_wake *wake = arg;
    for (;;) {
        int64_t first_us = INT64_MAX;
        for (unsigned i = 0; i < wake->n; i++) {
            const struct subscriber *sub = &wake->subscribers[i];
            short events = (short)(POLLIN | (sub->unsent ? POLLOUT : 0));
            wake->fds[i + 1] = (struct pollfd){.fd = sub->c ? sub->c->fd : -1,
                                               .events = sub->state == SUB_CONNECTING ? POLLOUT : events};
            first_us = dt_earlier(first_us, sub->deadline_us);
        }
        /* Milliseconds, rounded up, so that poll does not return before the deadline. */
        int64_t wait_us = first_us - dt_clock_mono_us(wake->clock);
        if (poll(wake->fds, wake->n + 1, wait_us <= 0 ? 0 : (int)(wait_us / 1000 + 1)) < 0) {
            if (errno == EINTR)
                continue;
            break; /* the kernel is out of memory: the thread ends, and leaders check by themselves */
        }
        if (wake->fds[0].revents)
            break;
        for (unsigned i = 0; i < wake->n; i++)
            serve_subscriber(wake, &wake->subscribers[i], wake->fds[i + 1].revents);
    }
}

/* ---- the handle ---- */

static dt_status open_subscribers(struct dt_wake *wake, struct dt_error *err)
{
    dt_status status = dt_endpoints_parse(wake->config->redis_endpoints, &wake->endpoints, &wake->n, err);
    DT_THEN(status, dt_redis_check(wake->config, wake->endpoints, wake->n, err));
    if (status != DT_OK)
        return status;
    wake->subscribers = calloc(wake->n, sizeof(*wake->subscribers));
    wake->fds = calloc(wake->n + 1, sizeof(*wake->fds));
    if (!wake->subscribers || !wake->fds)
        return dt_fail(err, DT_NOMEM, "wake channel: out of memory");
    for (unsigned i = 0; i < wake->n; i++) {
        char labels[160];
        snprintf(labels, sizeof(labels), "endpoint=\"%.120s\"", wake->endpoints[i].name);
        wake->subscribers[i] = (struct subscriber){.endpoint = &wake->endpoints[i], .state = SUB_DOWN};
        wake->subscribers[i].up = dt_gauge("duetime_redis_wake_up",
                                           "1 while this process is subscribed to the wake channel in Redis.", labels);
    }
    wake->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake->stop_fd < 0)
        return dt_fail(err, DT_SYSTEM, "eventfd: %s", strerror(errno));
    wake->fds[0] = (struct pollfd){.fd = wake->stop_fd, .events = POLLIN};
    return DT_OK;
}

static dt_status start_subscriber(const struct dt_wake *made, const char *installation, const char *channel,
                                  dt_wake **out, struct dt_error *err)
{
    sigset_t all;
    sigset_t before;
    *out = NULL;
    if (!made->config->redis_endpoints || !made->config->redis_endpoints[0])
        return DT_OK;
    struct dt_wake *wake = calloc(1, sizeof(*wake));
    if (!wake)
        return dt_fail(err, DT_NOMEM, "wake channel: out of memory");
    *wake = *made;
    wake->clock = dt_clock_system();
    wake->stop_fd = -1;
    snprintf(wake->channel, sizeof(wake->channel), "%s:%s", installation, channel);
    dt_status status = open_subscribers(wake, err);
    if (status == DT_OK) { /* the thread blocks signals, because the main thread handles them */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        status = dt_thread_start(&wake->thread, "wake", run_subscriber, wake, err);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (status == DT_OK)
        *out = wake;
    else
        dt_wake_stop(wake);
    return status;
}

dt_status dt_wake_start(const struct dt_config *config, const char *installation,
                        void (*on_wake)(void *arg, int shard, bool outbox), void *arg, dt_wake **out,
                        struct dt_error *err)
{
    const struct dt_wake made = {.config = config, .on_wake = on_wake, .arg = arg};
    return start_subscriber(&made, installation, "wake", out, err);
}

dt_status dt_wake_start_for_pops(const struct dt_config *config, const char *installation,
                                 void (*on_offers)(void *arg, struct dt_str topic), void *arg, dt_wake **out,
                                 struct dt_error *err)
{
    const struct dt_wake made = {.config = config, .on_offers = on_offers, .arg = arg};
    return start_subscriber(&made, installation, "pops", out, err);
}

bool dt_wake_hears(const dt_wake *wake)
{
    return wake->n_up == wake->n;
}

void dt_wake_stop(dt_wake *wake)
{
    if (!wake)
        return;
    if (wake->thread.started) {
        uint64_t one = 1;
        if (write(wake->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
            dt_thread_join(&wake->thread);
    }
    for (unsigned i = 0; wake->subscribers && i < wake->n; i++) {
        redisFree(wake->subscribers[i].c);
    }
    if (wake->stop_fd >= 0)
        close(wake->stop_fd);
    dt_endpoints_free(wake->endpoints, wake->n);
    free(wake->subscribers);
    free(wake->fds);
    free(wake);
}
