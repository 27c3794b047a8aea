/* A client of a suite's own, receivers of every kind, and names of the tests' own: those that end in .test are
 * resolved here, so libcurl, which is not linked here, cannot look them up by itself. A suite is linked with
 * --wrap=getaddrinfo. */
#ifndef DT_SUPPORT_HTTP_CURL_RIG_H
#define DT_SUPPORT_HTTP_CURL_RIG_H

#include <glob.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/http_client.h"
#include "deliver/http/callback.h"
#include "support/receiver.h"
#include "support/wait.h"

#define SOON_MS   WAIT_MS /* far longer than anything here takes */
#define SHORT_MS  400
#define MANY      1000
#define MAX_BYTES (64u * 1024 * 1024)
#define ADDRESS   "127.0.0.1"
#if defined(__SANITIZE_THREAD__)
#define MEMORY_MAX_KB (4096 * 1024)
#elif defined(__SANITIZE_ADDRESS__)
#define MEMORY_MAX_KB (512 * 1024) /* what is freed is kept for a while, too */
#else
#define MEMORY_MAX_KB (96 * 1024)
#endif

static inline int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* ---- names ---- */

__typeof__(getaddrinfo) __real_getaddrinfo;
__typeof__(getaddrinfo) __wrap_getaddrinfo;

static atomic_uint lookups, looked_up;
static atomic_bool slow_over, hang_over; /* end of lookups of names that are slow or hang */

static inline void hold(const atomic_bool *over)
{
    for (int64_t until_us = wait_deadline_us(); !*over && !wait_is_over(until_us);)
        wait_a_moment();
    looked_up++;
}

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    size_t n = strlen(name);
    if (n < 5 || strcmp(name + n - 5, ".test") != 0)
        return __real_getaddrinfo(name, service, hints, out);
    lookups++;
    if (strstr(name, "slow"))
        hold(&slow_over);
    if (strstr(name, "hang"))
        hold(&hang_over);
    if (strstr(name, "nowhere"))
        return EAI_NONAME;
    return __real_getaddrinfo(ADDRESS, service, hints, out);
}

/* ---- what receivers say ---- */

static const struct said {
    const char *path;
    const char *text;
    bool kept;
} said[] = {
    {"/200", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 4\r\n\r\nfine", true},
    {"/204", "HTTP/1.1 204\r\n\r\n", true},
    {"/old", "HTTP/1.0 200 OK\r\n\r\nfine", false},
    {"/302", "HTTP/1.1 302 Found\r\nlocation: /204\r\ncontent-length: 5\r\n\r\nthere", true},
    {"/307", "HTTP/1.1 307 Temporary Redirect\r\nlocation: /204\r\ncontent-length: 0\r\n\r\n", true},
    {"/401", "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n", true},
    {"/404", "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone", true},
    {"/410", "HTTP/1.1 410 Gone\r\ncontent-length: 4\r\n\r\ngone", true},
    {"/417", "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n", true},
    {"/429", "HTTP/1.1 429 Too Many Requests\r\nRetry-After:  7 \r\nretry-after: 8\r\ncontent-length: 0\r\n\r\n", true},
    {"/500", "HTTP/1.1 500 Oh\r\ncontent-length: 5\r\n\r\n\xc3\xa4\xff!!", true},
    {"/503", "HTTP/1.1 503 Busy\r\nretry-after: soon\r\ncontent-length: 0\r\n\r\n", true},
    {"/999", "HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", true},
    {"/nothing", "", false},
    {"/half-a-head", "HTTP/1.1 200 OK\r\ncontent-le", false},
    {"/no-end-of-head", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", false},
    {"/not-http", "SSH-2.0-OpenSSH_9.2\r\n", false},
    {"/no-status", "HTTP/1.1 fine\r\n\r\n", false},
    {"/half-a-body", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", false},
    {"/half-a-chunk", "HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe", false},
    {"/interim", "HTTP/1.1 103 Early Hints\r\nretry-after: 9\r\n\r\nHTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n",
     true},
    {"/trailer",
     "HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\ntrailer: retry-after\r\n\r\n2\r\nhe\r\n0\r\nretry-after: "
     "9\r\n\r\n",
     true},
};

/* A head of exactly n bytes. */
static inline bool say_head_of(receiver_connection *c, size_t n)
{
    static const char first[] = "HTTP/1.1 204 Fine\r\n";
    static const char name[] = "x-fill: ";
    char *head = malloc(n + 1);
    size_t at = strlen(first);
    memcpy(head, first, at);
    while (n - at > 2) { /* lines of at most 1000 bytes, so that the whole has a bound and no line of it has */
        size_t line = n - at - 2 > 1100 ? 1000 : n - at - 2;
        memcpy(head + at, name, strlen(name));
        memset(head + at + strlen(name), 'x', line - strlen(name) - 2);
        memcpy(head + at + line - 2, "\r\n", 2);
        at += line;
    }
    memcpy(head + at, "\r\n", 2);
    bool kept = receiver_say(c, head, n);
    free(head);
    return kept;
}

/* A head of one line of n bytes. */
static inline bool say_line_of(receiver_connection *c, size_t n)
{
    char *line = malloc(n);
    memset(line, 'x', n);
    bool kept = receiver_say_text(c, "HTTP/1.1 200 OK\r\nx-line: ") && receiver_say(c, line, n) &&
                receiver_say_text(c, "\r\n\r\n");
    free(line);
    return kept;
}

static inline bool say_body_of(receiver_connection *c, const char *head, size_t n)
{
    char block[4096];
    memset(block, 'x', sizeof(block));
    if (!receiver_say_text(c, head))
        return false;
    for (; n > 0; n -= n < sizeof(block) ? n : sizeof(block))
        if (!receiver_say(c, block, n < sizeof(block) ? n : sizeof(block)))
            return false;
    return false;
}

/* One byte of the text each 50 ms, and once more from its beginning when it is over. */
static inline bool drip(receiver_connection *c, const char *text)
{
    for (size_t i = 0; receiver_wait_ms(c, 50); i++)
        if (!receiver_say(c, text + i % strlen(text), 1))
            break;
    return false;
}

static atomic_uint gathered, wanted, dripping, shut;

/* Answers once so many are there. */
static inline bool gather(receiver_connection *c)
{
    gathered++;
    while (gathered < wanted)
        if (!receiver_wait_ms(c, 100))
            return false;
    return receiver_say_text(c, "HTTP/1.1 204\r\n\r\n");
}

static struct {
    pthread_mutex_t lock;
    char head[65536];
    char *body;
    size_t n;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void note_last(const struct receiver_request *request)
{
    pthread_mutex_lock(&last.lock);
    snprintf(last.head, sizeof(last.head), "%s", request->head);
    free(last.body);
    last.body = malloc(request->n + 1);
    memcpy(last.body, request->body, request->n);
    last.n = request->n;
    pthread_mutex_unlock(&last.lock);
}

static atomic_uint raced[1000];

/* An answer, and after so many ms another one that no request asked for; 0: in one piece. */
static inline bool say_too_much(receiver_connection *c, const char *answer, unsigned ms)
{
    static const char stray[] = "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n";
    char both[512];
    if (ms == 0) {
        snprintf(both, sizeof(both), "%s%s", answer, stray);
        return receiver_say_text(c, both);
    }
    if (!receiver_say_text(c, answer))
        return false;
    usleep(ms * 1000);
    return receiver_say_text(c, stray);
}

static inline bool handle_special(receiver_connection *c, const struct receiver_request *request)
{
    unsigned n = 0;
    if (sscanf(request->path, "/head/%u", &n) == 1)
        return say_head_of(c, n);
    if (sscanf(request->path, "/line/%u", &n) == 1)
        return say_line_of(c, n);
    if (sscanf(request->path, "/body/%u", &n) == 1)
        return say_body_of(c, "HTTP/1.1 200 OK\r\n\r\n", n);
    if (strcmp(request->path, "/drip-head") == 0)
        return drip(c, "HTTP/1.1 200 OK\r\nx-a: b\r\nx-c: dddddddddddddddddddddddddddddddd\r\n");
    if (strcmp(request->path, "/drip-body") == 0)
        return receiver_say_text(c, "HTTP/1.1 200 OK\r\n\r\n") && ++dripping && drip(c, "never");
    if (strcmp(request->path, "/endless") == 0)
        return say_body_of(c, "HTTP/1.1 500 Oh\r\n\r\n", SIZE_MAX);
    if (strcmp(request->path, "/interim-for-ever") == 0)
        while (receiver_say_text(c, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"))
            ;
    if (strncmp(request->path, "/a/", 3) == 0)
        return receiver_say_text(c, "HTTP/1.1 204\r\n\r\n");
    if (strcmp(request->path, "/later") == 0) {
        usleep(500000);
        return receiver_say_text(c, "HTTP/1.1 204\r\n\r\n");
    }
    if (sscanf(request->path, "/more/204/%u", &n) == 1)
        return say_too_much(c, "HTTP/1.1 204\r\n\r\n", n);
    if (sscanf(request->path, "/more/200/%u", &n) == 1)
        return say_too_much(c, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine", n);
    if (sscanf(request->path, "/more/chunked/%u", &n) == 1)
        return say_too_much(c, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n", n);
    if (strcmp(request->path, "/more/until-shut") == 0) {
        say_too_much(c, "HTTP/1.1 204\r\n\r\n", 20);
        receiver_hold(c);
        shut++;
        return false;
    }
    if (strcmp(request->path, "/gather") == 0)
        return gather(c);
    if (sscanf(request->path, "/race/%u", &n) == 1) {
        raced[n]++;
        receiver_say_text(c, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine");
        return false;
    }
    if (strcmp(request->path, "/dies") == 0 || strcmp(request->path, "/resets") == 0) {
        if (request->number == 1)
            return receiver_say_text(c, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine");
        if (strcmp(request->path, "/resets") == 0)
            receiver_reset(c);
        return false;
    }
    receiver_hold(c); /* "/silent" */
    return false;
}

static inline bool handle(void *, receiver_connection *c, const struct receiver_request *request)
{
    note_last(request);
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
        if (strcmp(request->path, said[i].path) == 0)
            return receiver_say_text(c, said[i].text) && said[i].kept;
    return handle_special(c, request);
}

/* ---- the client ---- */

struct got {
    bool there;
    struct dt_http_answer answer; /* its texts are the three below */
    char content_type[DT_HTTP_VALUE_MAX];
    char retry_after[DT_HTTP_VALUE_MAX];
    char *body;
    char detail[DT_HTTP_DETAIL_MAX];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n;
} answers = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static char folder[] = "/tmp/test_http_curl_XXXXXX";
static char certificate[128], key[128], stranger[128];
static receiver *server;
static dt_http_client *client;

static inline struct dt_str keep(struct dt_str text, char *at)
{
    if (text.p)
        memcpy(at, text.p, text.n);
    return text.p ? (struct dt_str){at, text.n} : DT_STR_NONE;
}

static inline void on_answer(void *arg, void *tag, const struct dt_http_answer *answer)
{
    struct got *got = tag;
    assert_ptr_equal(arg, &answers);
    assert_false(got->there);
    got->answer = *answer;
    got->answer.content_type = keep(answer->content_type, got->content_type);
    got->answer.retry_after = keep(answer->retry_after, got->retry_after);
    got->body = malloc(answer->body.n + 1);
    got->answer.body = keep(answer->body, got->body);
    snprintf(got->detail, sizeof(got->detail), "%s", answer->detail);
    got->answer.detail = got->detail;
    pthread_mutex_lock(&answers.lock);
    got->there = true;
    answers.n++;
    pthread_cond_broadcast(&answers.changed);
    pthread_mutex_unlock(&answers.lock);
}

static inline struct dt_http_settings settings_of(const char *networks, const char *ca_file)
{
    struct dt_http_settings settings = {.max_in_flight = MANY,
                                        .max_bytes = MAX_BYTES,
                                        .ca_file = ca_file,
                                        .clock = dt_clock_system(),
                                        .answered = on_answer,
                                        .arg = &answers};
    assert_int_equal(dt_networks_parse(dt_str(networks), &settings.allowed, NULL), DT_OK);
    return settings;
}

static inline void open_client(const struct dt_http_settings *settings)
{
    struct dt_error err = {0};
    if (dt_http_client_new(settings, &client, &err) != DT_OK)
        fail_msg("%s", err.text);
}

static inline void setup(void)
{
    struct receiver_options options = {.handler = handle};
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    lookups = looked_up = gathered = wanted = dripping = shut = answers.n = 0;
    slow_over = hang_over = false;
    server = receiver_start(&options);
    open_client(&settings);
}

static inline void teardown(void)
{
    slow_over = hang_over = true;
    dt_http_client_free(client);
    client = NULL;
    receiver_stop(server);
}

/* Of the server, in one of a few buffers. */
static inline const char *url_of(const char *scheme, const char *host, const char *path)
{
    static char urls[8][256];
    static unsigned next;
    char *url = urls[next++ % 8];
    snprintf(url, sizeof(urls[0]), "%s://%s:%u%s", scheme, host, (unsigned)receiver_port(server), path);
    return url;
}

static inline const char *at(const char *path)
{
    return url_of("http", ADDRESS, path);
}

static inline dt_status send_for(int64_t owner, const char *url, int64_t timeout_ms, struct got *got)
{
    const struct dt_http_header headers[] = {{dt_str("content-type"), dt_str("text/plain")}};
    const struct dt_http_request request = {.owner = owner,
                                            .url = dt_str(url),
                                            .headers = headers,
                                            .n_headers = 1,
                                            .body = dt_str("hello"),
                                            .timeout_ms = timeout_ms,
                                            .tag = got};
    return dt_http_client_send(client, &request);
}

static inline dt_status send_to(const char *url, int64_t timeout_ms, struct got *got)
{
    return send_for(0, url, timeout_ms, got);
}

static inline void wait_for(const struct got *got, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        AWAIT_CHANGED(got[i].there, &answers.changed, &answers.lock);
}

static inline void forget(struct got *got, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(got[i].body);
}

/* The answer to one request. Valid until the next call. */
static inline const struct got *ask(const char *url, int64_t timeout_ms)
{
    static struct got got;
    free(got.body);
    memset(&got, 0, sizeof(got));
    assert_int_equal(send_to(url, timeout_ms, &got), DT_OK);
    wait_for(&got, 1);
    return &got;
}

/* Asks until the receiver is trusted: a connection of it is kept, and used again. */
static inline void come_to_trust(const char *url)
{
    unsigned before;
    do {
        before = receiver_connections(server);
        ask(url, SOON_MS);
        wait_a_moment();
    } while (receiver_connections(server) != before);
}

static inline void assert_end(const struct got *got, enum dt_http_end end)
{
    if (got->answer.end != end)
        fail_msg("end %d, status %d: %s", (int)got->answer.end, got->answer.status, got->detail);
    if (end != DT_HTTP_ANSWERED) {
        assert_int_equal(got->answer.status, 0);
        assert_true(got->detail[0]);
    }
}

static inline void assert_status(const struct got *got, int status)
{
    assert_end(got, DT_HTTP_ANSWERED);
    assert_int_equal(got->answer.status, status);
}

/* For longer than it takes to trust a receiver, each request has a connection of its own. */
static inline void assert_not_kept(const char *url)
{
    for (int64_t until_us = now_us() + 500000; now_us() < until_us; wait_a_moment()) {
        const unsigned connections = receiver_connections(server);
        assert_status(ask(url, SOON_MS), 204);
        assert_int_equal(receiver_connections(server), connections + 1);
    }
}

static struct dt_arena arena;
static dt_json *json;

static inline struct dt_callback_outcome judged(const struct got *got)
{
    struct dt_callback_attempt attempt = {.job_id = 42, .attempt = 3, .now_ms = 0, .max_delay_ms = 86400000};
    struct dt_callback_outcome outcome;
    assert_int_equal(dt_callback_outcome(&got->answer, &attempt, json, &arena, &outcome), DT_OK);
    return outcome;
}

static inline void assert_failed(const char *url, const char *code)
{
    int64_t timeout_ms = strcmp(code, "http_timeout") == 0 ? SHORT_MS : SOON_MS;
    struct dt_callback_outcome outcome = judged(ask(url, timeout_ms));
    assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
    if (outcome.result.status == DT_RESULT_SUCCEEDED)
        fail_msg("%s succeeded", url);
    assert_int_equal(outcome.result.status, strcmp(code, "http_410") == 0 ? DT_RESULT_GAVE_UP : DT_RESULT_FAILED);
    if (!dt_str_is(outcome.result.error_code, code))
        fail_msg("%s: %.*s, not %s: %.*s", url, (int)outcome.result.error_code.n, outcome.result.error_code.p, code,
                 (int)outcome.result.error_message.n, outcome.result.error_message.p);
}

/* Sends as many bytes as a payload may have. */
static inline void ask_with_large_body(const char *url, struct got *got)
{
    static char body[900000];
    const struct dt_http_request request = {
        .url = dt_str(url), .body = {body, sizeof(body)}, .timeout_ms = SOON_MS, .tag = got};
    memset(got, 0, sizeof(*got));
    assert_int_equal(dt_http_client_send(client, &request), DT_OK);
    wait_for(got, 1);
}

static inline void make_files(void)
{
    assert_non_null(mkdtemp(folder));
    snprintf(certificate, sizeof(certificate), "%s/receiver.pem", folder);
    snprintf(key, sizeof(key), "%s/receiver.key", folder);
    snprintf(stranger, sizeof(stranger), "%s/stranger.pem", folder);
    receiver_make_certificate(stranger, key);
    receiver_make_certificate(certificate, key);
    assert_int_equal(dt_json_new(&json), DT_OK);
}

static inline void remove_files(void)
{
    unlink(certificate);
    unlink(key);
    unlink(stranger);
    rmdir(folder);
    free(last.body);
    dt_json_free(json);
    dt_arena_clear(&arena);
}

/* Nobody listens there: what goes by a proxy of the environment fails. */
static inline void name_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        setenv(names[i], "http://127.0.0.1:1", 1);
    unsetenv("no_proxy");
    unsetenv("NO_PROXY");
}

static inline void allow_many_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

#define RIG_TEST(name) TEST_WITH(name, setup, teardown)

#endif
