/*
 * The HTTP client against receivers of the test's own: every row of the table of answers, what must never happen (a request
 * twice on the wire, an address that is not allowed, a proxy, a redirect), and what many, slow and hostile receivers cost.
 *
 * Names that end in .test are resolved here, so libcurl, which is not linked here, cannot look them up by itself.
 */
#include <arpa/inet.h>
#include <glob.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "delivery/http/http_client.h"
#include "delivery/http/http_outcome.h"
#include "support/receiver.h"

#define SOON_MS   10000 /* far longer than anything here takes */
#define SHORT_MS  400
#define MANY      1000
#define MAX_BYTES (64u * 1024 * 1024)
#define REPORT    "content-type: application/vnd.duetime.result+json\r\n"
#define ADDRESS   "127.0.0.1"
#if defined(__SANITIZE_THREAD__)
#define MEMORY_MAX_KB (4096 * 1024)
#elif defined(__SANITIZE_ADDRESS__)
#define MEMORY_MAX_KB (512 * 1024) /* what is freed is kept for a while, too */
#else
#define MEMORY_MAX_KB (96 * 1024)
#endif

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- names ---- */

int __real_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out);

static atomic_uint lookups;

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    size_t n = strlen(name);
    if (n < 5 || strcmp(name + n - 5, ".test") != 0)
        return __real_getaddrinfo(name, service, hints, out);
    lookups++;
    if (strstr(name, "slow"))
        sleep_ms(300);
    if (strstr(name, "hang"))
        sleep_ms(2500);
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
    {"/202", "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", true},
    {"/204", "HTTP/1.1 204\r\n\r\n", true},
    {"/old", "HTTP/1.0 200 OK\r\n\r\nfine", false},
    {"/snoozed", "HTTP/1.1 200 OK\r\n" REPORT "\r\n{\"status\":\"snoozed\",\"retry_after\":\"PT5M\"}", false},
    {"/snoozed-202", "HTTP/1.1 202 OK\r\n" REPORT "\r\n{\"status\":\"snoozed\",\"retry_after\":\"PT5M\"}", false},
    {"/report-cut", "HTTP/1.1 200 OK\r\n" REPORT "content-length: 99\r\n\r\n{\"status\":\"succeeded\"}", false},
    {"/report-malformed", "HTTP/1.1 200 OK\r\n" REPORT "\r\n{\"status\":", false},
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
static bool say_head_of(receiver_connection *c, size_t n)
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
static bool say_line_of(receiver_connection *c, size_t n)
{
    char *line = malloc(n);
    memset(line, 'x', n);
    bool kept = receiver_say_text(c, "HTTP/1.1 200 OK\r\nx-line: ") && receiver_say(c, line, n) &&
                receiver_say_text(c, "\r\n\r\n");
    free(line);
    return kept;
}

static bool say_body_of(receiver_connection *c, const char *head, size_t n)
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
static bool drip(receiver_connection *c, const char *text)
{
    for (size_t i = 0; receiver_wait_ms(c, 50); i++)
        if (!receiver_say(c, text + i % strlen(text), 1))
            break;
    return false;
}

static atomic_uint gathered, wanted;

/* Answers once so many are there. */
static bool gather(receiver_connection *c)
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

static void note_last(const struct receiver_request *request)
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

static bool handle_special(receiver_connection *c, const struct receiver_request *request)
{
    unsigned n = 0;
    if (sscanf(request->path, "/head/%u", &n) == 1)
        return say_head_of(c, n);
    if (sscanf(request->path, "/line/%u", &n) == 1)
        return say_line_of(c, n);
    if (sscanf(request->path, "/body/%u", &n) == 1)
        return say_body_of(c, "HTTP/1.1 200 OK\r\n\r\n", n);
    if (sscanf(request->path, "/report/%u", &n) == 1)
        return say_body_of(c, "HTTP/1.1 200 OK\r\n" REPORT "\r\n", n);
    if (strcmp(request->path, "/drip-head") == 0)
        return drip(c, "HTTP/1.1 200 OK\r\nx-a: b\r\nx-c: dddddddddddddddddddddddddddddddd\r\n");
    if (strcmp(request->path, "/drip-body") == 0)
        return receiver_say_text(c, "HTTP/1.1 200 OK\r\n\r\n") && drip(c, "never");
    if (strcmp(request->path, "/endless") == 0)
        return say_body_of(c, "HTTP/1.1 500 Oh\r\n\r\n", SIZE_MAX);
    if (strcmp(request->path, "/interim-for-ever") == 0)
        while (receiver_say_text(c, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"))
            ;
    if (strncmp(request->path, "/a/", 3) == 0)
        return receiver_say_text(c, "HTTP/1.1 204\r\n\r\n");
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

static bool handle(void *arg, receiver_connection *c, const struct receiver_request *request)
{
    (void)arg;
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

static struct dt_str keep(struct dt_str text, char *at)
{
    if (text.p)
        memcpy(at, text.p, text.n);
    return text.p ? (struct dt_str){at, text.n} : DT_STR_NONE;
}

static void on_answer(void *arg, void *tag, const struct dt_http_answer *answer)
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

static struct dt_http_settings settings_of(const char *networks, const char *ca_file)
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

static void open_client(const struct dt_http_settings *settings)
{
    struct dt_error err = {0};
    if (dt_http_client_new(settings, &client, &err) != DT_OK)
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    struct receiver_options options = {.handler = handle};
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    (void)state;
    lookups = gathered = wanted = answers.n = 0;
    server = receiver_start(&options);
    open_client(&settings);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dt_http_client_free(client);
    client = NULL;
    receiver_stop(server);
    return 0;
}

/* The client of a test that has settings of its own. */
static void reopen(const struct dt_http_settings *settings)
{
    dt_http_client_free(client);
    client = NULL;
    open_client(settings);
}

static void restart(const struct receiver_options *options)
{
    receiver_stop(server);
    server = receiver_start(options);
}

/* Of the server, in one of a few buffers. */
static const char *url_of(const char *scheme, const char *host, const char *path)
{
    static char urls[8][256];
    static unsigned next;
    char *url = urls[next++ % 8];
    snprintf(url, sizeof(urls[0]), "%s://%s:%u%s", scheme, host, (unsigned)receiver_port(server), path);
    return url;
}

static const char *at(const char *path)
{
    return url_of("http", ADDRESS, path);
}

static dt_status send_to(const char *url, int64_t timeout_ms, struct got *got)
{
    const struct dt_http_header headers[] = {{dt_str("content-type"), dt_str("text/plain")}};
    const struct dt_http_request request = {.url = dt_str(url),
                                            .headers = headers,
                                            .n_headers = 1,
                                            .body = dt_str("hello"),
                                            .timeout_ms = timeout_ms,
                                            .tag = got};
    return dt_http_client_send(client, &request);
}

static void wait_for(const struct got *got, unsigned n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    bool in_time = true;
    pthread_mutex_lock(&answers.lock);
    for (unsigned i = 0; i < n; i++)
        while (!got[i].there && in_time)
            in_time = pthread_cond_timedwait(&answers.changed, &answers.lock, &until) == 0;
    pthread_mutex_unlock(&answers.lock);
    if (!in_time)
        fail_msg("of %u answers %u came", n, answers.n);
}

static void forget(struct got *got, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(got[i].body);
}

/* The answer to one request. Valid until the next call. */
static const struct got *ask(const char *url, int64_t timeout_ms)
{
    static struct got got;
    free(got.body);
    memset(&got, 0, sizeof(got));
    assert_int_equal(send_to(url, timeout_ms, &got), DT_OK);
    wait_for(&got, 1);
    return &got;
}

static void assert_end(const struct got *got, enum dt_http_end end)
{
    if (got->answer.end != end)
        fail_msg("end %d, status %d: %s", (int)got->answer.end, got->answer.status, got->detail);
    if (end != DT_HTTP_ANSWERED) {
        assert_int_equal(got->answer.status, 0);
        assert_true(got->detail[0]);
    }
}

static void assert_status(const struct got *got, int status)
{
    assert_end(got, DT_HTTP_ANSWERED);
    assert_int_equal(got->answer.status, status);
}

/* ---- the table of answers ---- */

static struct dt_arena arena;
static dt_json *json;

static struct dt_callback_outcome judged(const struct got *got)
{
    struct dt_callback_attempt attempt = {.job_id = 42, .attempt = 3, .now_ms = 0, .max_delay_ms = 86400000};
    struct dt_callback_outcome outcome;
    assert_int_equal(dt_callback_outcome(&got->answer, &attempt, json, &arena, &outcome), DT_OK);
    return outcome;
}

static void assert_failed(const char *url, const char *code)
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

static void a_2xx_succeeds(void **state)
{
    static const char *const paths[] = {"/200", "/204", "/old", "/half-a-body"};
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        struct dt_callback_outcome outcome = judged(ask(at(paths[i]), SOON_MS));
        assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
        assert_int_equal(outcome.result.status, DT_RESULT_SUCCEEDED);
    }
    const struct got *got = ask(at("/200"), SOON_MS);
    assert_status(got, 200);
    assert_true(dt_str_is(got->answer.content_type, "text/plain"));
    assert_true(dt_str_is(got->answer.body, "fine"));
    assert_true(got->answer.body_whole);
    assert_null(got->answer.retry_after.p);
    assert_true(got->answer.duration_ms < SOON_MS);
}

static void a_202_is_taken(void **state)
{
    (void)state;
    assert_int_equal(judged(ask(at("/202"), SOON_MS)).kind, DT_CALLBACK_TAKEN);
}

static void a_report_in_the_body_is_the_outcome(void **state)
{
    (void)state;
    struct dt_callback_outcome outcome = judged(ask(at("/snoozed"), SOON_MS));
    assert_int_equal(outcome.result.status, DT_RESULT_SNOOZED);
    assert_int_equal(outcome.result.retry_after_ms, 300000);
    outcome = judged(ask(at("/snoozed-202"), SOON_MS));
    assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
    assert_int_equal(outcome.result.status, DT_RESULT_SNOOZED);
}

static void a_report_that_cannot_be_read_is_a_failure(void **state)
{
    (void)state;
    assert_failed(at("/report-cut"), "http_report");
    assert_failed(at("/report-malformed"), "http_report");
    assert_failed(at("/report/65537"), "http_report");
}

static void other_statuses_fail(void **state)
{
    (void)state;
    assert_failed(at("/410"), "http_410");
    assert_failed(at("/404"), "http_404");
    assert_failed(at("/401"), "http_401");
    assert_failed(at("/417"), "http_417");
    assert_failed(at("/429"), "http_429");
    assert_failed(at("/500"), "http_500");
    assert_failed(at("/503"), "http_503");
    assert_failed(at("/999"), "http_999");
    assert_failed(at("/half-a-chunk"), "http_500");
    assert_int_equal(receiver_requests(server), 9);
}

static void retry_after_and_the_body_come_with_a_failure(void **state)
{
    (void)state;
    struct dt_callback_outcome outcome = judged(ask(at("/429"), SOON_MS));
    assert_int_equal(outcome.result.retry_after_ms, 7000);
    outcome = judged(ask(at("/503"), SOON_MS));
    assert_int_equal(outcome.result.retry_after_ms, -1);
    outcome = judged(ask(at("/500"), SOON_MS));
    assert_true(dt_str_is(outcome.result.error_message, "\xc3\xa4?!!"));
}

static void only_the_final_head_counts(void **state)
{
    (void)state;
    const struct got *got = ask(at("/interim"), SOON_MS);
    assert_status(got, 429);
    assert_null(got->answer.retry_after.p);
    got = ask(at("/trailer"), SOON_MS);
    assert_status(got, 500);
    assert_null(got->answer.retry_after.p);
    assert_true(dt_str_is(got->answer.body, "he"));
}

static void redirects_are_not_followed(void **state)
{
    (void)state;
    assert_failed(at("/302"), "http_302");
    assert_failed(at("/307"), "http_307");
    assert_int_equal(receiver_requests(server), 2);
}

static void without_a_head_in_time_it_is_a_timeout(void **state)
{
    (void)state;
    assert_failed(at("/silent"), "http_timeout");
    assert_failed(at("/drip-head"), "http_timeout");
    int64_t began = now_us();
    assert_end(ask(at("/silent"), 100), DT_HTTP_TIMEOUT);
    assert_true(now_us() - began >= 99000);
    assert_true(now_us() - began < 2000000);
}

static void without_a_connection_or_a_name_it_says_so(void **state)
{
    char url[64];
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0); /* and nobody listens */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    assert_failed(url, "http_connect");
    close(fd);
    assert_failed(url_of("http", "nowhere.test", "/204"), "http_dns");
}

static void what_is_no_whole_head_is_broken(void **state)
{
    (void)state;
    assert_failed(at("/nothing"), "http_broken");
    assert_failed(at("/half-a-head"), "http_broken");
    assert_failed(at("/no-end-of-head"), "http_broken");
    assert_failed(at("/not-http"), "http_broken");
    assert_failed(at("/no-status"), "http_broken");
    assert_failed(at("/interim-for-ever"), "http_broken");
    assert_int_equal(receiver_requests(server), 6);
}

static void a_head_has_at_most_16_kib(void **state)
{
    (void)state;
    assert_status(ask(at("/head/16384"), SOON_MS), 204);
    assert_failed(at("/head/16385"), "http_broken");
    assert_failed(at("/head/60000"), "http_broken");
    assert_failed(at("/line/20000"), "http_broken");
    assert_failed(at("/line/1000000"), "http_broken");
}

static void a_body_is_read_to_64_kib(void **state)
{
    (void)state;
    const struct got *got = ask(at("/body/65536"), SOON_MS);
    assert_status(got, 200);
    assert_int_equal(got->answer.body.n, DT_HTTP_BODY_MAX);
    assert_true(got->answer.body_whole);
    static const char *const longer[] = {"/body/65537", "/body/1000000", "/endless"};
    for (size_t i = 0; i < sizeof(longer) / sizeof(*longer); i++) {
        got = ask(at(longer[i]), SOON_MS);
        assert_status(got, i < 2 ? 200 : 500);
        assert_int_equal(got->answer.body.n, DT_HTTP_BODY_MAX);
        assert_false(got->answer.body_whole);
    }
}

static void a_status_decides_though_its_body_does_not_end_in_time(void **state)
{
    (void)state;
    const struct got *got = ask(at("/drip-body"), SHORT_MS);
    assert_status(got, 200);
    assert_false(got->answer.body_whole);
    assert_true(got->answer.duration_ms >= SHORT_MS - 1);
    assert_true(got->answer.body.n > 0);
    assert_int_equal(judged(got).result.status, DT_RESULT_SUCCEEDED);
}

/* ---- the request ---- */

static const char *head_of_last(void)
{
    static char head[sizeof(last.head)];
    pthread_mutex_lock(&last.lock);
    memcpy(head, last.head, sizeof(head));
    pthread_mutex_unlock(&last.lock);
    return head;
}

static void assert_in_last_head(const char *line)
{
    if (!strstr(head_of_last(), line))
        fail_msg("%s", head_of_last());
}

static void a_request_is_sent_as_it_stands(void **state)
{
    static struct got got;
    static char body[300000];
    (void)state;
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)i;
    const struct dt_http_header headers[] = {{dt_str("content-type"), dt_str("application/json")},
                                             {dt_str("x-empty"), dt_str("")},
                                             {dt_str("x-blank"), dt_str("  ")},
                                             {dt_str("x-text"), dt_str("a: b;c")},
                                             {dt_str("Cookie"), dt_str("d=e")},
                                             {dt_str("user-agent"), dt_str("duetime/1")}};
    const struct dt_http_request request = {.url = dt_str(at("/a/../b?x=%2F&y=//")),
                                            .headers = headers,
                                            .n_headers = sizeof(headers) / sizeof(*headers),
                                            .body = {body, sizeof(body)},
                                            .timeout_ms = SOON_MS,
                                            .tag = &got};
    memset(&got, 0, sizeof(got));
    assert_int_equal(dt_http_client_send(client, &request), DT_OK);
    wait_for(&got, 1);
    assert_status(&got, 204);
    assert_in_last_head("POST /a/../b?x=%2F&y=// HTTP/1.1\r\n");
    assert_in_last_head("\r\ncontent-type: application/json\r\n");
    assert_in_last_head("\r\nx-empty:\r\n");
    assert_in_last_head("\r\nx-blank:\r\n");
    assert_in_last_head("\r\nx-text: a: b;c\r\n");
    assert_in_last_head("\r\nCookie: d=e\r\n");
    assert_in_last_head("\r\nuser-agent: duetime/1\r\n");
    assert_in_last_head("\r\nContent-Length: 300000\r\n");
    assert_null(strcasestr(head_of_last(), "\r\nexpect:"));
    assert_null(strcasestr(head_of_last(), "\r\ntransfer-encoding:"));
    assert_null(strstr(head_of_last(), "form-urlencoded"));
    assert_int_equal(last.n, sizeof(body));
    assert_memory_equal(last.body, body, sizeof(body));
    forget(&got, 1);
}

/* Sends as many bytes as a payload may have. */
static void ask_with_large_body(const char *url, struct got *got)
{
    static char body[900000];
    const struct dt_http_request request = {
        .url = dt_str(url), .body = {body, sizeof(body)}, .timeout_ms = SOON_MS, .tag = got};
    memset(got, 0, sizeof(*got));
    assert_int_equal(dt_http_client_send(client, &request), DT_OK);
    wait_for(got, 1);
}

static void an_answer_before_the_end_of_the_request_counts(void **state)
{
    static struct got got;
    (void)state;
    ask_with_large_body(at("/early"), &got);
    assert_status(&got, 413);
    assert_true(dt_str_is(got.answer.body, "much"));
    forget(&got, 1);
}

static void what_no_request_may_have_is_refused(void **state)
{
    static const struct dt_http_header unsound[] = {
        {{"x-a", 3}, {"b\r\nc: d", 7}}, {{"x a", 3}, {"b", 1}}, {{"", 0}, {"b", 1}}, {{"x:a", 3}, {"b", 1}}};
    (void)state;
    for (size_t i = 0; i < sizeof(unsound) / sizeof(*unsound); i++) {
        const struct dt_http_request request = {
            .url = dt_str(at("/204")), .headers = &unsound[i], .n_headers = 1, .timeout_ms = SOON_MS};
        assert_int_equal(dt_http_client_send(client, &request), DT_INVALID);
    }
    assert_int_equal(send_to("file:///etc/passwd", SOON_MS, NULL), DT_INVALID);
    assert_int_equal(send_to("ftp://127.0.0.1/", SOON_MS, NULL), DT_INVALID);
    assert_int_equal(dt_http_client_in_flight(client), 0);
}

/* ---- at most once ---- */

static void connections_are_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_status(ask(at(i % 2 ? "/200" : "/204"), SOON_MS), i % 2 ? 200 : 204);
    assert_int_equal(receiver_connections(server), 1);
}

static void a_kept_connection_that_ends_with_the_next_request_does_not_send_it_again(void **state)
{
    static const char *const paths[] = {"/dies", "/resets"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_status(ask(at(paths[i]), SOON_MS), 200);
        assert_end(ask(at(paths[i]), SOON_MS), DT_HTTP_BROKEN);
        assert_int_equal(receiver_requests(server), (i + 1) * 2);
        assert_int_equal(receiver_connections(server), i + 1);
    }
}

static void a_request_that_meets_the_end_of_its_connection_arrives_at_most_once(void **state)
{
    char path[32];
    unsigned answered = 0;
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        raced[i] = 0;
    for (unsigned i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "/race/%u", i);
        const struct got *got = ask(at(path), SOON_MS);
        answered += got->answer.end == DT_HTTP_ANSWERED;
        if (got->answer.end != DT_HTTP_ANSWERED)
            assert_end(got, DT_HTTP_BROKEN);
        assert_true(raced[i] <= 1);
        if (i % 3 == 0)
            sleep_ms(1);
    }
    assert_true(answered > 0);
}

/* ---- where requests may go ---- */

static void addresses_that_are_not_allowed_are_refused_by_address_and_by_name(void **state)
{
    struct dt_http_settings settings = settings_of("", NULL);
    (void)state;
    reopen(&settings);
    assert_failed(at("/204"), "http_forbidden");
    assert_failed(url_of("http", "localhost", "/204"), "http_forbidden");
    assert_failed(url_of("http", "receiver.test", "/204"), "http_forbidden");
    assert_failed(url_of("https", "receiver.test", "/204"), "http_forbidden");
    assert_failed(url_of("http", "[::1]", "/204"), "http_forbidden");
    assert_failed(url_of("http", "[::ffff:127.0.0.1]", "/204"), "http_forbidden");
    assert_failed(url_of("http", "0.0.0.0", "/204"), "http_forbidden");
    assert_failed("http://169.254.169.254/latest/meta-data/", "http_forbidden");
    assert_int_equal(receiver_connections(server), 0);
}

static void addresses_that_are_allowed_are_reached_by_name(void **state)
{
    (void)state;
    assert_status(ask(url_of("http", "localhost", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "Receiver.TEST.", "/204"), SOON_MS), 204);
}

static void names_may_be_restricted(void **state)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    (void)state;
    settings.allow_hosts = dt_str("receiver.test, *.good.test");
    reopen(&settings);
    assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "a.good.test", "/204"), SOON_MS), 204);
    assert_failed(url_of("http", "bad.test", "/204"), "http_forbidden");
    assert_failed(at("/204"), "http_forbidden");
}

/* ---- names ---- */

static void a_name_is_looked_up_once_for_all_who_wait(void **state)
{
    static struct got got[100];
    (void)state;
    memset(got, 0, sizeof(got));
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(send_to(url_of("http", "slow.test", "/204"), SOON_MS, &got[i]), DT_OK);
    wait_for(got, 100);
    for (unsigned i = 0; i < 100; i++)
        assert_status(&got[i], 204);
    assert_status(ask(url_of("http", "slow.test", "/204"), SOON_MS), 204);
    assert_int_equal(lookups, 1);
    forget(got, 100);
}

static void a_lookup_that_fails_fails_for_all_who_wait(void **state)
{
    static struct got got[20];
    (void)state;
    memset(got, 0, sizeof(got));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(send_to(url_of("http", "slow.nowhere.test", "/204"), SOON_MS, &got[i]), DT_OK);
    wait_for(got, 20);
    for (unsigned i = 0; i < 20; i++)
        assert_end(&got[i], DT_HTTP_DNS);
    assert_int_equal(lookups, 1);
    forget(got, 20);
}

static void a_lookup_that_hangs_costs_its_own_requests_only(void **state)
{
    static struct got hanging;
    (void)state;
    memset(&hanging, 0, sizeof(hanging));
    assert_int_equal(send_to(url_of("http", "hang.test", "/204"), SHORT_MS, &hanging), DT_OK);
    int64_t began = now_us();
    for (unsigned i = 0; i < 20; i++)
        assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    assert_true(now_us() - began < 2000000);
    wait_for(&hanging, 1);
    assert_end(&hanging, DT_HTTP_TIMEOUT);
    assert_true(hanging.answer.duration_ms < 2000);
    forget(&hanging, 1);
    began = now_us();
    dt_http_client_stop(client);
    assert_true(now_us() - began < 1000000);
}

/* ---- TLS ---- */

static void open_tls(enum receiver_h2 h2, const char *ca_file)
{
    struct receiver_options options = {.handler = handle, .certificate = certificate, .key = key, .h2 = h2};
    struct dt_http_settings settings = settings_of("127.0.0.0/8", ca_file);
    restart(&options);
    reopen(&settings);
}

static void a_certificate_of_the_right_authority_is_trusted(void **state)
{
    (void)state;
    open_tls(RECEIVER_H2_NOT_OFFERED, certificate);
    /* Before the next: libcurl 8 sends http over a kept connection of https to the same host and port. */
    assert_failed(url_of("http", "receiver.test", "/204"), "http_broken");
    assert_status(ask(url_of("https", "receiver.test", "/200"), SOON_MS), 200);
    assert_status(ask(url_of("https", "receiver.test", "/204"), SOON_MS), 204);
    assert_int_equal(receiver_connections(server), 2);
    assert_failed(url_of("https", "other.test", "/204"), "http_tls"); /* its certificate is for another name */
    assert_failed(url_of("https", ADDRESS, "/204"), "http_tls");
    assert_int_equal(receiver_requests(server), 2);
}

static void other_certificates_are_not_trusted(void **state)
{
    (void)state;
    open_tls(RECEIVER_H2_NOT_OFFERED, stranger);
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
    open_tls(RECEIVER_H2_NOT_OFFERED, NULL);
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
    assert_int_equal(receiver_requests(server), 0);
}

static void a_server_without_tls_has_none(void **state)
{
    (void)state;
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
}

static void a_file_of_authorities_that_is_none_is_an_error(void **state)
{
    struct dt_http_settings settings = settings_of("", "/nowhere/ca.pem");
    dt_http_client *other = NULL;
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_http_client_new(&settings, &other, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "/nowhere/ca.pem"));
    settings.ca_file = "/proc/self/status";
    assert_int_equal(dt_http_client_new(&settings, &other, &err), DT_INVALID);
}

static void http_2_is_spoken_where_it_is_offered_and_its_connection_shared(void **state)
{
    static struct got got[50];
    (void)state;
    memset(got, 0, sizeof(got));
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    assert_status(ask(url_of("https", "receiver.test", "/"), SOON_MS), 204);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(send_to(url_of("https", "receiver.test", "/"), SOON_MS, &got[i]), DT_OK);
    wait_for(got, 50);
    for (unsigned i = 0; i < 50; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_requests(server), 51);
    assert_int_equal(receiver_connections(server), 1);
    forget(got, 50);
}

static void http_2_takes_large_payloads(void **state)
{
    static struct got got;
    (void)state;
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    for (unsigned i = 0; i < 2; i++) {
        ask_with_large_body(url_of("https", "receiver.test", "/"), &got);
        assert_status(&got, 204);
        forget(&got, 1);
    }
    assert_int_equal(receiver_connections(server), 1);
}

/* All at once to a host without a connection. */
static void burst(struct got *got, unsigned n, const char *path)
{
    memset(got, 0, n * sizeof(*got));
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(send_to(url_of("https", "receiver.test", path), SOON_MS, &got[i]), DT_OK);
    wait_for(got, n);
}

static void the_first_burst_to_a_host_shares_its_connection_too(void **state)
{
    static struct got got[50];
    (void)state;
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    burst(got, 50, "/");
    for (unsigned i = 0; i < 50; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_requests(server), 50);
    assert_int_equal(receiver_connections(server), 1);
    forget(got, 50);
}

static void a_burst_to_a_host_without_http_2_has_as_many_connections_as_it_needs(void **state)
{
    static struct got got[20];
    (void)state;
    open_tls(RECEIVER_H2_NOT_OFFERED, certificate);
    wanted = 20; /* nobody is answered before all are there */
    burst(got, 20, "/gather");
    for (unsigned i = 0; i < 20; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_connections(server), 20);
    forget(got, 20);
}

static void a_burst_to_a_host_that_is_not_trusted_fails_at_once(void **state)
{
    static struct got got[20];
    (void)state;
    open_tls(RECEIVER_H2_ANSWERS, stranger);
    burst(got, 20, "/");
    for (unsigned i = 0; i < 20; i++)
        assert_end(&got[i], DT_HTTP_TLS);
    assert_int_equal(receiver_requests(server), 0);
    forget(got, 20);
}

static void a_first_connection_that_does_not_stand_holds_up_the_others_for_a_second(void **state)
{
    static struct got got[3];
    char url[64];
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); /* listens, and never shakes hands */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(url, sizeof(url), "https://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    memset(got, 0, sizeof(got));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send_to(url, i == 1 ? SHORT_MS : 1500, &got[i]), DT_OK);
    wait_for(got, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_end(&got[i], DT_HTTP_TIMEOUT);
        assert_true(got[i].answer.duration_ms < (i == 1 ? 1300 : 3000));
    }
    for (unsigned i = 0; i < 3; i++) { /* the first, and the third after its second; not the one between */
        int accepted = accept(fd, NULL, NULL);
        assert_int_equal(accepted >= 0, i < 2);
        if (accepted >= 0)
            close(accepted);
    }
    close(fd);
    forget(got, 3);
}

static void a_stream_that_is_refused_is_not_sent_again(void **state)
{
    (void)state;
    open_tls(RECEIVER_H2_REFUSES, certificate);
    assert_status(ask(url_of("https", "receiver.test", "/"), SOON_MS), 204);
    assert_end(ask(url_of("https", "receiver.test", "/"), SOON_MS), DT_HTTP_BROKEN);
    assert_int_equal(receiver_requests(server), 2);
}

/* ---- many ---- */

static long memory_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), file))
        (void)sscanf(line, "VmRSS: %ld", &kb);
    fclose(file);
    return kb;
}

static unsigned threads_named(const char *name)
{
    char comm[32];
    glob_t tasks;
    unsigned n = 0;
    assert_int_equal(glob("/proc/self/task/*/comm", 0, NULL, &tasks), 0);
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        FILE *file = fopen(tasks.gl_pathv[i], "r");
        if (!file)
            continue;
        if (fgets(comm, sizeof(comm), file) && strncmp(comm, name, strlen(name)) == 0)
            n++;
        fclose(file);
    }
    globfree(&tasks);
    return n;
}

static void a_thousand_are_in_flight_on_one_thread(void **state)
{
    static struct got got[MANY];
    static struct got one_more;
    (void)state;
    memset(got, 0, sizeof(got));
    memset(&one_more, 0, sizeof(one_more));
    wanted = MANY + 1; /* nobody is answered before all are there and one more was refused */
    long before_kb = memory_kb();
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send_to(url_of("http", "receiver.test", "/gather"), 30000, &got[i]), DT_OK);
    assert_int_equal(send_to(at("/204"), SOON_MS, &one_more), DT_FULL);
    assert_int_equal(dt_http_client_in_flight(client), MANY);
    wanted = MANY;
    wait_for(got, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_status(&got[i], 204);
    assert_int_equal(gathered, MANY);
    assert_int_equal(threads_named("callbacks"), 1);
    assert_int_equal(dt_http_client_in_flight(client), 0);
    long more_kb = memory_kb() - before_kb;
    print_message("memory: %ld KiB more, with the receiver's 1,000 threads\n", more_kb);
    assert_true(more_kb < MEMORY_MAX_KB);
    assert_status(ask(at("/204"), SOON_MS), 204);
    forget(got, MANY);
}

static void bytes_in_flight_are_bounded(void **state)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    static struct got got[3];
    (void)state;
    memset(got, 0, sizeof(got));
    settings.max_bytes = 150; /* two requests, of 60 bytes or so */
    reopen(&settings);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[0]), DT_OK);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[1]), DT_OK);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[2]), DT_FULL);
    wait_for(got, 2);
    assert_status(ask(at("/204"), SOON_MS), 204);
    forget(got, 2);
}

static void receivers_that_do_not_answer_hold_up_nobody_else(void **state)
{
    static const char *const slow[] = {"/silent", "/drip-head", "/drip-body"};
    static struct got dead[300];
    (void)state;
    memset(dead, 0, sizeof(dead));
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(send_to(url_of("http", "dead.test", slow[i % 3]), 3000, &dead[i]), DT_OK);
    int64_t began = now_us();
    for (unsigned i = 0; i < 100; i++)
        assert_status(ask(at("/204"), SOON_MS), 204);
    assert_true(now_us() - began < 2500000);
    wait_for(dead, 300);
    for (unsigned i = 0; i < 300; i++)
        assert_end(&dead[i], i % 3 == 2 ? DT_HTTP_ANSWERED : DT_HTTP_TIMEOUT);
    forget(dead, 300);
}

/* ---- the end ---- */

static void what_is_in_flight_at_the_stop_is_unknown(void **state)
{
    static struct got got[42];
    static struct got answered;
    (void)state;
    memset(got, 0, sizeof(got));
    memset(&answered, 0, sizeof(answered));
    assert_int_equal(send_to(at("/drip-body"), SOON_MS, &answered), DT_OK);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(send_to(at("/silent"), SOON_MS, &got[i]), DT_OK);
    assert_int_equal(send_to(url_of("http", "hang.test", "/204"), SOON_MS, &got[40]), DT_OK);
    sleep_ms(500);
    assert_int_equal(send_to(at("/silent"), SOON_MS, &got[41]), DT_OK);
    int64_t began = now_us();
    dt_http_client_stop(client);
    assert_true(now_us() - began < 1000000);
    wait_for(got, 42);
    for (unsigned i = 0; i < 42; i++) {
        assert_end(&got[i], DT_HTTP_UNKNOWN);
        assert_int_equal(judged(&got[i]).kind, DT_CALLBACK_UNKNOWN);
    }
    assert_true(answered.there);
    assert_status(&answered, 200); /* its head had come */
    assert_int_equal(answers.n, 43);
    assert_int_equal(dt_http_client_in_flight(client), 0);
    forget(&answered, 1);
    assert_int_equal(send_to(at("/204"), SOON_MS, &got[0]), DT_SHUTDOWN);
    dt_http_client_stop(client);
    forget(got, 42);
}

static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(certificate, sizeof(certificate), "%s/receiver.pem", folder);
    snprintf(key, sizeof(key), "%s/receiver.key", folder);
    snprintf(stranger, sizeof(stranger), "%s/stranger.pem", folder);
    receiver_make_certificate(stranger, key);
    receiver_make_certificate(certificate, key);
    dt_arena_init(&arena);
    return dt_json_new(&json) == DT_OK ? 0 : -1;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(certificate);
    unlink(key);
    unlink(stranger);
    rmdir(folder);
    free(last.body);
    dt_json_free(json);
    dt_arena_clear(&arena);
    return 0;
}

/* Nobody listens there: what goes by a proxy of the environment fails. */
static void name_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        setenv(names[i], "http://127.0.0.1:1", 1);
    unsetenv("no_proxy");
    unsetenv("NO_PROXY");
}

static void allow_many_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_2xx_succeeds),
        TEST(a_202_is_taken),
        TEST(a_report_in_the_body_is_the_outcome),
        TEST(a_report_that_cannot_be_read_is_a_failure),
        TEST(other_statuses_fail),
        TEST(retry_after_and_the_body_come_with_a_failure),
        TEST(only_the_final_head_counts),
        TEST(redirects_are_not_followed),
        TEST(without_a_head_in_time_it_is_a_timeout),
        TEST(without_a_connection_or_a_name_it_says_so),
        TEST(what_is_no_whole_head_is_broken),
        TEST(a_head_has_at_most_16_kib),
        TEST(a_body_is_read_to_64_kib),
        TEST(a_status_decides_though_its_body_does_not_end_in_time),
        TEST(a_request_is_sent_as_it_stands),
        TEST(an_answer_before_the_end_of_the_request_counts),
        TEST(what_no_request_may_have_is_refused),
        TEST(connections_are_kept),
        TEST(a_kept_connection_that_ends_with_the_next_request_does_not_send_it_again),
        TEST(a_request_that_meets_the_end_of_its_connection_arrives_at_most_once),
        TEST(addresses_that_are_not_allowed_are_refused_by_address_and_by_name),
        TEST(addresses_that_are_allowed_are_reached_by_name),
        TEST(names_may_be_restricted),
        TEST(a_name_is_looked_up_once_for_all_who_wait),
        TEST(a_lookup_that_fails_fails_for_all_who_wait),
        TEST(a_lookup_that_hangs_costs_its_own_requests_only),
        TEST(a_certificate_of_the_right_authority_is_trusted),
        TEST(other_certificates_are_not_trusted),
        TEST(a_server_without_tls_has_none),
        TEST(a_file_of_authorities_that_is_none_is_an_error),
        TEST(http_2_is_spoken_where_it_is_offered_and_its_connection_shared),
        TEST(http_2_takes_large_payloads),
        TEST(the_first_burst_to_a_host_shares_its_connection_too),
        TEST(a_burst_to_a_host_without_http_2_has_as_many_connections_as_it_needs),
        TEST(a_burst_to_a_host_that_is_not_trusted_fails_at_once),
        TEST(a_first_connection_that_does_not_stand_holds_up_the_others_for_a_second),
        TEST(a_stream_that_is_refused_is_not_sent_again),
        TEST(a_thousand_are_in_flight_on_one_thread),
        TEST(bytes_in_flight_are_bounded),
        TEST(receivers_that_do_not_answer_hold_up_nobody_else),
        TEST(what_is_in_flight_at_the_stop_is_unknown),
    };
    signal(SIGPIPE, SIG_IGN);
    name_proxies();
    allow_many_descriptors();
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
