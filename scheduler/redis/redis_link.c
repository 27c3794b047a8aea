/*
 * See redis_link.h. Invariants: link->c is NULL or has never failed. Until the replies are read, `out` is exactly the
 * text of the `pending` commands, so that the commands can be sent again after NOSCRIPT or on a new connection.
 *
 * A connection may end while it is idle (the server's `timeout`, CLIENT KILL, a restart). That is no outage:
 * dt_link_ready checks for it before a round trip. If the connection ends between that check and the first reply, the
 * commands are sent again. Neither case waits for the back-off, which is for servers that cannot be reached. If a
 * server does not reply in time, the round trip fails without another attempt.
 */
#include "redis_link.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/secrets.h"
#include "redis_connect.h"

#define BACKOFF_FIRST_US INT64_C(20000)
#define SILENCE_FACTOR   4
#define BACKOFF_CAP_US   INT64_C(2000000)
#define SHA_LEN          40

struct dt_link {
    const struct dt_config *config;
    const struct dt_endpoint *endpoint;
    const dt_clock *clock;
    const char *const *scripts;
    unsigned n_scripts;
    char sha[DT_LINK_SCRIPTS][SHA_LEN + 1];
    redisContext *c;
    bool whole;  /* each call of a script sends its text, because SCRIPT LOAD is refused */
    bool served; /* all commands of a round trip were answered on this connection */
    bool failing;
    struct dt_strbuf out;
    size_t pending;
    size_t args_owed; /* arguments that the caller must still add to the last command in `out` */
    struct dt_backoff backoff;
    struct dt_outage_part outage;
    int64_t retry_at_us;
    int64_t began_us; /* monotonic time at which this round trip began */
    dt_metric *seconds, *errors, *up;
};

/* ---- endpoints ---- */

static dt_status endpoint_parse(struct dt_str text, struct dt_endpoint *out, struct dt_error *err)
{
    static const char master[] = "master:";
    const size_t n_master = sizeof(master) - 1;
    char *colon;
    char *end = NULL;
    long port;
    out->name = strndup(text.p, text.n);
    out->host = out->name ? strdup(out->name) : NULL;
    if (!out->host)
        return dt_fail(err, DT_NOMEM, "redis.endpoints: out of memory");
    /* An endpoint "master:NAME". If NAME is a number, the endpoint is host "master" with this port. */
    if (strncmp(out->name, master, n_master) == 0 && out->name[n_master + strspn(out->name + n_master, "0123456789")]) {
        out->master = true;
        memmove(out->host, out->host + n_master, strlen(out->host + n_master) + 1);
        return DT_OK;
    }
    colon = strrchr(out->host, ':');
    if (!colon || colon == out->host)
        return dt_fail(err, DT_INVALID, "redis.endpoints: \"%s\" is not host:port or master:NAME", out->name);
    port = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || port < 1 || port > 65535)
        return dt_fail(err, DT_INVALID, "redis.endpoints: the port of \"%s\" is not 1-65535", out->name);
    *colon = '\0';
    if (out->host[0] == '[' && colon[-1] == ']') { /* an IPv6 address in brackets: [::1]:6379 */
        colon[-1] = '\0';
        memmove(out->host, out->host + 1, strlen(out->host));
    }
    out->port = (int)port;
    return DT_OK;
}

dt_status dt_endpoints_parse(const char *list, struct dt_endpoint **out, unsigned *n, struct dt_error *err)
{
    struct dt_endpoint *v = NULL;
    unsigned count = 0;
    dt_status status = DT_OK;
    *out = NULL;
    *n = 0;
    for (struct dt_str rest = dt_str(list); rest.n && status == DT_OK;) {
        struct dt_str word = dt_str_next_element(&rest);
        if (word.n == 0)
            continue;
        struct dt_endpoint *grown = realloc(v, (count + 1) * sizeof(*v));
        if (!grown) {
            status = dt_fail(err, DT_NOMEM, "redis.endpoints: out of memory");
            break;
        }
        v = grown;
        v[count] = (struct dt_endpoint){0};
        status = endpoint_parse(word, &v[count++], err);
    }
    if (status == DT_OK && count == 0)
        status = dt_fail(err, DT_INVALID, "redis.endpoints is empty");
    if (status != DT_OK) {
        dt_endpoints_free(v, count);
        return status;
    }
    *out = v;
    *n = count;
    return DT_OK;
}

void dt_endpoints_free(struct dt_endpoint *endpoints, unsigned n)
{
    for (unsigned i = 0; endpoints && i < n; i++) {
        free(endpoints[i].name);
        free(endpoints[i].host);
    }
    free(endpoints);
}

/* ---- back-off ---- */

int64_t dt_backoff_us(struct dt_backoff *backoff, uint64_t salt)
{
    int64_t wait = BACKOFF_CAP_US;
    if (backoff->failures < 8)
        wait = BACKOFF_FIRST_US << backoff->failures;
    if (wait > BACKOFF_CAP_US)
        wait = BACKOFF_CAP_US;
    backoff->failures++;
    /* The step of splitmix64, which is random enough for jitter. */
    uint64_t z = (backoff->chance += salt | UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return wait / 2 + (int64_t)(z % (uint64_t)(wait / 2 + 1));
}

void dt_link_keep_alive(int fd)
{
    const int on = 1;
    const int idle_s = 2;
    const int between_s = 1;
    const int probes = 2;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* ---- connecting a link ---- */

dt_status dt_link_new(const struct dt_config *config, const struct dt_endpoint *endpoint, const dt_clock *clock,
                      const char *const *scripts, unsigned n_scripts, dt_link **out)
{
    dt_link *link = calloc(1, sizeof(*link));
    char labels[160];
    *out = NULL;
    if (!link)
        return DT_NOMEM;
    link->config = config;
    link->endpoint = endpoint;
    link->clock = clock;
    link->scripts = scripts;
    dt_assert_cmp(n_scripts, <=, DT_LINK_SCRIPTS);
    link->n_scripts = n_scripts;
    snprintf(labels, sizeof(labels), "endpoint=\"%.120s\"", endpoint->name);
    link->seconds = dt_histogram("duetime_redis_call_seconds", "Duration of a pipelined round trip to Redis.", labels);
    link->errors = dt_counter("duetime_redis_errors_total", "Pipelined round trips to Redis that failed.", labels);
    link->up = dt_gauge("duetime_redis_up", "1 if the last round trip to this Redis server succeeded.", labels);
    *out = link;
    return DT_OK;
}

static void close_link(dt_link *link)
{
    redisFree(link->c);
    link->c = NULL;
    link->served = false;
}

void dt_link_free(dt_link *link)
{
    if (!link)
        return;
    close_link(link);
    dt_strbuf_clear(&link->out);
    free(link);
}

static void forget_commands(dt_link *link)
{
    dt_strbuf_reset(&link->out);
    link->pending = link->args_owed = 0;
}

static dt_status fail_link(dt_link *link, struct dt_error *err, const char *what)
{
    char reason[160];
    struct dt_error why = {0};
    int64_t now_us = dt_clock_mono_us(link->clock);
    int64_t wait_us = dt_backoff_us(&link->backoff, (uint64_t)now_us ^ (uint64_t)(uintptr_t)link);
    snprintf(reason, sizeof(reason), "%s", link->c && link->c->errstr[0] ? link->c->errstr : "no memory");
    close_link(link);
    forget_commands(link);
    link->failing = true;
    /* If the server did not reply in time, the next attempt waits four times as long as the failed attempt took. So
     * callers spend at most a fifth of their time waiting for replies. */
    link->retry_at_us = now_us + dt_later(wait_us, (now_us - link->began_us) * SILENCE_FACTOR);
    dt_metric_add(link->errors, 1);
    dt_metric_set(link->up, 0);
    (void)dt_fail(&why, DT_UNAVAILABLE, "redis %s: %s: %s", link->endpoint->name, what, reason);
    dt_outage_failed(&link->outage, DT_OUTAGE_REDIS, "index", "lost a Redis server", DT_UNAVAILABLE, &why);
    return dt_fail(err, DT_UNAVAILABLE, "%s", why.text);
}

/* Sends one command and reads its reply, which may be an error reply. The caller frees the reply. */
static dt_status run_redis_command(dt_link *link, const char *what, redisReply **reply, struct dt_error *err, int argc,
                                   const char **argv)
{
    *reply = redisCommandArgv(link->c, argc, argv, NULL);
    return *reply ? DT_OK : fail_link(link, err, what);
}

/* Loads all scripts, unless scripts are sent as texts. If the server returns an error (it is still loading its data, or
 * requires a password), connecting fails. */
static dt_status load_scripts(dt_link *link, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (unsigned i = 0; i < link->n_scripts && status == DT_OK && !link->whole; i++) {
        redisReply *reply;
        status = run_redis_command(link, "SCRIPT LOAD", &reply, err, 3,
                                   (const char *[]){"SCRIPT", "LOAD", link->scripts[i]});
        if (status != DT_OK)
            return status;
        if (reply->type == REDIS_REPLY_STRING && reply->len == SHA_LEN) {
            memcpy(link->sha[i], reply->str, SHA_LEN + 1);
        } else if (reply->type == REDIS_REPLY_ERROR &&
                   (strncmp(reply->str, "NOPERM", 6) == 0 || strncmp(reply->str, "ERR unknown command", 19) == 0 ||
                    strncmp(reply->str, "ERR unknown subcommand", 22) == 0)) {
            /* The user may not run SCRIPT, or the server does not know the command. From now on each call of a script
             * sends its text: some kilobytes per round trip. */
            DT_LOG(WARN, "index", "scripts are sent as text each time: SCRIPT LOAD is not permitted",
                   DT_S("endpoint", link->endpoint->name), DT_S("reason", reply->str));
            link->whole = true;
        } else {
            snprintf(link->c->errstr, sizeof(link->c->errstr), "%.100s", reply->str ? reply->str : "unexpected reply");
            status = fail_link(link, err, "SCRIPT LOAD");
        }
        freeReplyObject(reply);
    }
    return status;
}

static dt_status connect_link(dt_link *link, struct dt_error *err)
{
    struct dt_strbuf password = {0};
    redisReply *reply = NULL;
    const char *user;
    dt_status status = DT_OK;
    link->c = dt_redis_connect(link->config, link->endpoint);
    if (!link->c || link->c->err)
        return fail_link(link, err, "connect");
    dt_link_keep_alive(link->c->fd);
    if (dt_redis_credentials(link->config, &password, &user)) {
        const char *words[] = {"AUTH", user ? user : password.p, password.p};
        status = run_redis_command(link, "AUTH", &reply, err, user ? 3 : 2, words);
    }
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        snprintf(link->c->errstr, sizeof(link->c->errstr), "%.*s", (int)sizeof(link->c->errstr) - 1, reply->str);
        status = fail_link(link, err, "AUTH");
    }
    freeReplyObject(reply);
    dt_secret_forget(&password);
    return status == DT_OK ? load_scripts(link, err) : status;
}

bool dt_link_connected(const dt_link *link)
{
    return link->c != NULL;
}

bool dt_link_failing(const dt_link *link)
{
    return link->failing;
}

dt_status dt_link_ready(dt_link *link, struct dt_error *err)
{
    forget_commands(link);
    link->began_us = dt_clock_mono_us(link->clock);
    if (link->c) {
        char byte;
        dt_assert_cmp(link->c->err, ==, 0);
        /* Between round trips the server sends nothing. So if data or the end of the stream can be read, the connection
         * has ended, or the server sent something that this program did not request. */
        ssize_t n = recv(link->c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return DT_OK;
        DT_LOG(DEBUG, "index", "a Redis server had ended an idle connection", DT_S("endpoint", link->endpoint->name));
        close_link(link);
    }
    if (link->began_us < link->retry_at_us)
        return dt_fail(err, DT_UNAVAILABLE, "redis %s: waiting before the next try to connect", link->endpoint->name);
    dt_status status = connect_link(link, err);
    if (status != DT_OK)
        return status;
    link->backoff.failures = 0;
    dt_outage_over(&link->outage);
    return DT_OK;
}

/* ---- replies ---- */

bool dt_reply_integer(const dt_reply *reply, int64_t *out)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        *out = reply->integer;
    return reply->type == REDIS_REPLY_INTEGER;
}

struct dt_str dt_reply_text(const dt_reply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return (struct dt_str){0};
    return (struct dt_str){reply->str, (size_t)reply->len};
}

bool dt_reply_is_nil(const dt_reply *reply)
{
    return reply->type == REDIS_REPLY_NIL;
}

size_t dt_reply_count(const dt_reply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
}

const dt_reply *dt_reply_element(const dt_reply *reply, size_t i)
{
    return reply->element[i];
}

/* ---- commands ---- */

static void add_resp_header(dt_link *link, char kind, size_t n)
{
    dt_strbuf_addc(&link->out, kind);
    dt_strbuf_add_i64(&link->out, (int64_t)n);
    dt_strbuf_add(&link->out, "\r\n", 2);
}

void dt_link_command(dt_link *link, unsigned n_args)
{
    dt_assert_cmp(link->args_owed, ==, 0);
    add_resp_header(link, '*', n_args);
    link->pending++;
    link->args_owed = n_args;
}

void dt_link_arg(dt_link *link, struct dt_str arg)
{
    dt_assert_cmp(link->args_owed, >, 0);
    link->args_owed--;
    add_resp_header(link, '$', arg.n);
    dt_strbuf_add(&link->out, arg.n ? arg.p : "", arg.n);
    dt_strbuf_add(&link->out, "\r\n", 2);
}

void dt_link_arg_i64(dt_link *link, int64_t arg)
{
    char text[24];
    char *p = text + sizeof(text);
    uint64_t v = arg < 0 ? -(uint64_t)arg : (uint64_t)arg;
    do {
        *--p = (char)('0' + v % 10);
    } while (v /= 10);
    if (arg < 0)
        *--p = '-';
    dt_link_arg(link, (struct dt_str){p, (size_t)(text + sizeof(text) - p)});
}

void dt_link_script(dt_link *link, unsigned script, unsigned n_keys, unsigned n_args)
{
    dt_link_command(link, 3 + n_args);
    dt_link_arg(link, link->whole ? DT_STR_LIT("EVAL") : DT_STR_LIT("EVALSHA"));
    dt_link_arg(link, link->whole ? dt_str(link->scripts[script]) : (struct dt_str){link->sha[script], SHA_LEN});
    dt_link_arg_i64(link, n_keys);
}

/* ---- a round trip ---- */

static dt_status write_commands(dt_link *link)
{
    int done = 0;
    if (redisAppendFormattedCommand(link->c, link->out.p, link->out.n) != REDIS_OK)
        return DT_UNAVAILABLE;
    while (!done) {
        if (redisBufferWrite(link->c, &done) != REDIS_OK)
            return DT_UNAVAILABLE;
    }
    return DT_OK;
}

/* Returns whether the server closed a connection that had answered before. Call it right after a failure. A connection
 * that ends before its first reply is not stale: a client that the server refuses again and again must wait for the
 * back-off. */
static bool was_connection_stale(const dt_link *link)
{
    bool ended = link->c->err == REDIS_ERR_EOF ||
                 (link->c->err == REDIS_ERR_IO && (errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT));
    return ended && link->served;
}

/* Sends the commands again on a new connection. The commands are idempotent, so it does not matter which of them the
 * server had already run. */
static dt_status resend_commands(dt_link *link, struct dt_error *err)
{
    dt_status status;
    close_link(link);
    status = connect_link(link, err);
    if (status == DT_OK && write_commands(link) != DT_OK)
        status = fail_link(link, err, "write");
    return status;
}

dt_status dt_link_flush(dt_link *link, struct dt_error *err)
{
    if (link->out.failed) {
        forget_commands(link);
        return dt_fail(err, DT_NOMEM, "redis %s: no memory for commands", link->endpoint->name);
    }
    dt_assert_cmp(link->args_owed, ==, 0);
    dt_assert((link->pending == 0) == (link->out.n == 0));
    if (link->pending == 0 || write_commands(link) == DT_OK)
        return DT_OK;
    return was_connection_stale(link) ? resend_commands(link, err) : fail_link(link, err, "write");
}

struct outcome {
    char error[160]; /* text of the first error reply other than NOSCRIPT; empty: none */
    bool no_script;
};

static void note_error_reply(struct outcome *outcome, const char *text)
{
    if (strncmp(text, "NOSCRIPT", 8) == 0)
        outcome->no_script = true;
    else if (!outcome->error[0])
        snprintf(outcome->error, sizeof(outcome->error), "%s", text);
}

static dt_status read_all_replies(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct outcome *outcome,
                                  struct dt_error *err)
{
    memset(outcome, 0, sizeof(*outcome));
    for (size_t i = 0, n = link->pending; i < n; i++) {
        void *raw = NULL;
        if (redisGetReply(link->c, &raw) != REDIS_OK) {
            /* If the connection turns out to be stale at the first reply, connects again and repeats the commands. */
            if (i > 0 || !was_connection_stale(link))
                return fail_link(link, err, "read");
            dt_status status = resend_commands(link, err);
            if (status != DT_OK)
                return status;
            if (redisGetReply(link->c, &raw) != REDIS_OK)
                return fail_link(link, err, "read");
        }
        redisReply *reply = raw;
        if (reply->type == REDIS_REPLY_ERROR)
            note_error_reply(outcome, reply->str);
        else if (on_reply)
            on_reply(arg, i, reply);
        freeReplyObject(reply);
    }
    return DT_OK;
}

dt_status dt_link_read(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err)
{
    struct outcome outcome;
    dt_status status;
    if (link->pending == 0)
        return DT_OK;
    status = read_all_replies(link, on_reply, arg, &outcome, err);
    if (status == DT_OK && outcome.no_script) {
        status = load_scripts(link, err);
        DT_THEN(status, dt_link_flush(link, err));
        DT_THEN(status, read_all_replies(link, on_reply, arg, &outcome, err));
        if (status == DT_OK && outcome.no_script)
            note_error_reply(&outcome, "the server does not keep scripts that were just loaded");
    }
    forget_commands(link);
    if (status != DT_OK)
        return status;
    link->served = true;
    dt_metric_observe(link->seconds, (double)(dt_clock_mono_us(link->clock) - link->began_us) / 1e6);
    dt_metric_set(link->up, outcome.error[0] ? 0 : 1);
    link->failing = outcome.error[0];
    if (!outcome.error[0])
        return DT_OK;
    if (link->endpoint->master && strncmp(outcome.error, "READONLY", 8) == 0)
        close_link(link); /* the server is a replica now; the next connect asks the Sentinels again */
    dt_metric_add(link->errors, 1);
    return dt_fail(err, DT_UNAVAILABLE, "redis %s: %s", link->endpoint->name, outcome.error);
}
