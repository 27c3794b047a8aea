#include "support/redis_fixture.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[65536];

const char *redis_fixture_endpoints(void)
{
    const char *list = getenv("DUETIME_REDIS");
    if (!list || !*list)
        fail_msg("DUETIME_REDIS is not set");
    return list;
}

void redis_fixture_name(char *buf, size_t cap, const char *prefix)
{
    static unsigned count;
    snprintf(buf, cap, "%s%dn%u", prefix, (int)getpid(), ++count);
}

struct dt_config redis_fixture_config(const char *endpoints, const char *password, int64_t timeout_ms)
{
    struct dt_config config;
    memset(&config, 0, sizeof(config));
    config.redis_endpoints = (char *)(uintptr_t)endpoints;
    config.redis_password = (char *)(uintptr_t)password;
    config.redis_timeout = timeout_ms;
    return config;
}

/* ---- commands by hand ---- */

static redisReply *ask(const char *endpoints, unsigned i, const char *fmt, va_list args)
{
    char word[256];
    const char *p = endpoints;
    for (; i > 0 && p; i--)
        p = (p = strchr(p, ',')) ? p + 1 : NULL;
    if (!p)
        fail_msg("no such endpoint in %s", endpoints);
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(p, ","), p);
    char *colon = strrchr(word, ':');
    assert_non_null(colon);
    *colon = '\0';
    redisContext *c = redisConnect(word, atoi(colon + 1));
    if (!c || c->err)
        fail_msg("redis %s:%s: %s", word, colon + 1, c ? c->errstr : "no memory");
    redisReply *reply = redisvCommand(c, fmt, args);
    if (!reply)
        fail_msg("redis %s: %s", endpoints, c->errstr);
    redisFree(c);
    return reply;
}

int64_t redis_fixture_number(const char *endpoints, unsigned i, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    redisReply *reply = ask(endpoints, i, fmt, args);
    va_end(args);
    int64_t n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->str ? strtoll(reply->str, NULL, 10) : 0;
    freeReplyObject(reply);
    return n;
}

static void append(const redisReply *reply, size_t *used)
{
    const char *word = reply->type == REDIS_REPLY_NIL ? "(nil)" : reply->str;
    char number[32];
    if (reply->type == REDIS_REPLY_INTEGER) {
        snprintf(number, sizeof(number), "%lld", reply->integer);
        word = number;
    }
    if (word)
        *used += (size_t)snprintf(text + *used, sizeof(text) - *used, "%s%s", *used ? " " : "", word);
    for (size_t k = 0; k < reply->elements; k++)
        append(reply->element[k], used);
}

const char *redis_fixture_text(const char *endpoints, unsigned i, const char *fmt, ...)
{
    size_t used = 0;
    va_list args;
    va_start(args, fmt);
    redisReply *reply = ask(endpoints, i, fmt, args);
    va_end(args);
    text[0] = '\0';
    append(reply, &used);
    freeReplyObject(reply);
    return text;
}

static unsigned count_endpoints(const char *endpoints)
{
    unsigned n = 1;
    for (const char *p = endpoints; *p; p++)
        n += *p == ',';
    return n;
}

int64_t redis_fixture_sum(const char *endpoints, const char *fmt, ...)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < count_endpoints(endpoints); i++) {
        va_list args;

        va_start(args, fmt);
        redisReply *reply = ask(endpoints, i, fmt, args);
        va_end(args);
        if (reply->type == REDIS_REPLY_INTEGER)
            sum += reply->integer;
        freeReplyObject(reply);
    }
    return sum;
}

void redis_fixture_forget(const char *endpoints, const char *installation)
{
    for (unsigned i = 0; i < count_endpoints(endpoints); i++) {
        redis_fixture_text(endpoints, i, "EVAL %s 0 %s:*",
                           "for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end", installation);
    }
}

/* ---- private servers ---- */

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static bool answers(void *arg)
{
    const struct redis_server *server = arg;
    redisContext *c = redisConnect("127.0.0.1", server->port);
    bool ok = c && !c->err;
    if (ok) {
        redisReply *reply = redisCommand(c, "PING");

        ok = reply != NULL; /* NOAUTH is an answer too */
        if (reply)
            freeReplyObject(reply);
    }
    if (c)
        redisFree(c);
    return ok;
}

static void child(const struct redis_server *server)
{
    char port[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies takes its server along */
    snprintf(port, sizeof(port), "%d", server->port);
    if (!freopen("/dev/null", "w", stdout))
        _exit(126);
    execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
           "--dir", "/tmp", server->password[0] ? "--requirepass" : NULL, server->password, NULL);
    _exit(127);
}

void redis_server_again(struct redis_server *server)
{
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        child(server);
    AWAIT_OR(answers(server), print_error("no redis-server on port %d\n", server->port));
}

void redis_server_start(struct redis_server *server, const char *password)
{
    memset(server, 0, sizeof(*server));
    server->port = free_port();
    snprintf(server->endpoint, sizeof(server->endpoint), "127.0.0.1:%d", server->port);
    snprintf(server->password, sizeof(server->password), "%s", password);
    redis_server_again(server);
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

int64_t redis_fixture_score(dt_index *index, const struct dt_shard_map *map, int64_t id)
{
    struct dt_entry page[1000], after = {0};
    struct dt_error err = {0};
    int64_t found = 0;
    size_t n;
    do {
        const struct dt_range range = {0, INT64_MAX, after.id ? &after : NULL, 1000};
        assert_int_equal(dt_index_range(index, dt_shard_of(map, id), &range, page, &n, &err), DT_OK);
        for (size_t i = 0; i < n; i++) {
            if (page[i].id == id)
                found = found ? -1 : page[i].due_ms;
        }
        if (n)
            after = page[n - 1];
    } while (n);
    return found;
}
