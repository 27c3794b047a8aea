/*
 * Connections before their first request: who goes in, in which order, who is sent away and with what, and that every
 * socket is closed or handed over once. The server behind is a fake with as many slots as the test says; clients are
 * sockets on the loopback, which has an address for each caller.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/suite.h"

#include <pthread.h>

#include "base/metrics.h"
#include "http/acceptor.h"
#include "support/wait.h"

#define SECOND  INT64_C(1000000)
#define CLIENTS 16
#define ROOM    4 /* connections that may wait */

#define HOST  " HTTP/1.1\r\nHost: x\r\n"
#define TOKEN "Authorization: Bearer t\r\n"
#define BODY  "Content-Length: 5\r\n"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    char log[4000]; /* a line for each connection that left the acceptor */
    int slots, kept;
    size_t evicted_for;
    bool pressing;
    in_port_t port; /* of the last one that went in */
    /* The test's. */
    _Atomic int64_t ahead_us; /* of the clock */
    int clients[CLIENTS], n_clients, descriptors;
    struct sockaddr_in listening;
    struct dt_config config;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static dt_acceptor *acceptor;
static char proxies[] = "127.0.0.9/32";

static int64_t host_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

static int64_t mono_us(const dt_clock *clock)
{
    (void)clock;
    return host_us() + fake.ahead_us;
}

static const dt_clock shifted = {.mono_us = mono_us};

/* ---- the server ---- */

/* What the client has sent names it: the path of its request, or of as much of it as there is. Holds the lock. */
static void write_down(const char *what, int fd, const char *why)
{
    char text[2000] = "";
    char path[100] = "?";
    ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    if (n > 0)
        (void)sscanf(text, "%*s %99s", path);
    size_t at = strlen(fake.log);
    snprintf(fake.log + at, sizeof(fake.log) - at, "%s %s%s\n", what, path, why);
    pthread_cond_broadcast(&fake.changed);
}

static bool has_slot(void *arg, bool first)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    bool has = fake.slots > 0 || (first && fake.kept > 0);
    pthread_mutex_unlock(&fake.lock);
    return has;
}

static void hand_over(void *arg, int fd, const struct sockaddr *address, socklen_t n)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    if (fake.slots > 0)
        fake.slots--;
    else
        fake.kept--;
    assert_int_equal(n, sizeof(struct sockaddr_in));
    fake.port = ((const struct sockaddr_in *)(const void *)address)->sin_port;
    write_down("in", fd, "");
    pthread_mutex_unlock(&fake.lock);
    close(fd);
}

static void evict(void *arg, size_t n, bool pressing)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    fake.evicted_for = n;
    fake.pressing = pressing;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void refuse(void *arg, int fd, enum dt_problem_type type, const char *detail)
{
    char why[200];
    assert_ptr_equal(arg, &fake);
    snprintf(why, sizeof(why), " %s: %s", dt_problem_slug(type), detail);
    pthread_mutex_lock(&fake.lock);
    write_down("refused", fd, why);
    pthread_mutex_unlock(&fake.lock);
    close(fd);
}

static const struct dt_acceptor_server server = {&fake, has_slot, hand_over, evict, NULL, refuse};

/* ---- clients ---- */

static int connect_from(const char *address)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, address, &own.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&fake.listening, sizeof(fake.listening)), 0);
    fake.clients[fake.n_clients++] = fd;
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* A client of its own that has said this. */
static int client_from(const char *address, const char *text)
{
    int fd = connect_from(address);
    say(fd, text);
    return fd;
}

static int client(const char *text)
{
    return client_from("127.0.0.1", text);
}

static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void await_closed(int fd)
{
    AWAIT(!is_open(fd));
}

/* ---- what happened ---- */

static void await_log(const char *wanted)
{
    AWAIT_CHANGED_OR(strcmp(fake.log, wanted) == 0, &fake.changed, &fake.lock,
                     print_error("\"%s\" instead of \"%s\"\n", fake.log, wanted));
}

static void await_log_that_begins(const char *wanted)
{
    AWAIT_CHANGED(strncmp(fake.log, wanted, strlen(wanted)) == 0, &fake.changed, &fake.lock);
}

/* So many are ready and wait for a slot: the server is asked for some again and again. */
static void await_ready(size_t n, bool pressing)
{
    pthread_mutex_lock(&fake.lock);
    fake.evicted_for = 0;
    pthread_mutex_unlock(&fake.lock);
    AWAIT_CHANGED_OR(fake.evicted_for == n && fake.pressing == pressing, &fake.changed, &fake.lock,
                     print_error("%zu connections are ready\n", fake.evicted_for));
}

/* So many are with the acceptor. */
static void await_waiting(int n)
{
    dt_metric *waiting = dt_gauge("duetime_http_waiting", "", "");
    AWAIT_OR(dt_metric_value(waiting) == n, print_error("%g wait instead of %d\n", dt_metric_value(waiting), n));
}

static int sent_away(const char *reason)
{
    char labels[40];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return (int)dt_metric_value(dt_counter("duetime_http_sent_away_total", "", labels));
}

/* They are counted a moment after they have left. */
static void await_sent_away(const char *reason, int n)
{
    AWAIT_OR(sent_away(reason) == n, print_error("%s: %d instead of %d\n", reason, sent_away(reason), n));
}

static void give_slots(int slots, int kept)
{
    pthread_mutex_lock(&fake.lock);
    fake.slots += slots;
    fake.kept += kept;
    pthread_mutex_unlock(&fake.lock);
    dt_acceptor_slot_freed(acceptor);
}

/* ---- the rig ---- */

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void make_with(int64_t head_timeout_ms)
{
    struct dt_error err = {0};
    socklen_t n = sizeof(fake.listening);
    fake.descriptors = open_descriptors();
    fake.log[0] = '\0';
    fake.slots = fake.kept = fake.n_clients = 0;
    fake.evicted_for = 0;
    fake.pressing = false;
    fake.ahead_us = 0;
    fake.config.http_waiting = ROOM;
    fake.config.http_trusted_proxies = proxies;
    fake.config.http_head_timeout = head_timeout_ms;
    fake.config.http_request_timeout = 60000;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    fake.listening = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(listening, (const struct sockaddr *)&fake.listening, sizeof(fake.listening)), 0);
    assert_int_equal(listen(listening, 64), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&fake.listening, &n), 0);
    const struct dt_listeners listeners = {.v = {{.fd = listening}}, .n = 1};
    assert_int_equal(dt_acceptor_start(&fake.config, &shifted, &listeners, &server, &acceptor, &err), DT_OK);
}

static void make(void)
{
    make_with(10000);
}

static void make_brief(void)
{
    make_with(1500);
}

static void drop(void)
{
    dt_acceptor_free(acceptor);
    acceptor = NULL;
    for (int i = 0; i < fake.n_clients; i++)
        close(fake.clients[i]);
    assert_int_equal(open_descriptors(), fake.descriptors);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

/* ---- the tests ---- */

FRESH_TEST(a_connection_goes_in_when_its_head_is_whole)
{
    struct sockaddr_in own;
    socklen_t n = sizeof(own);
    give_slots(2, 0);
    int slow = client("GET /slow" HOST);
    client("GET /other" HOST "\r\n");
    await_log("in /other\n"); /* the slow one came before it, and takes no slot */
    await_waiting(1);
    say(slow, "\r\n");
    await_log("in /other\nin /slow\n");
    await_waiting(0);
    assert_int_equal(getsockname(slow, (struct sockaddr *)&own, &n), 0);
    assert_int_equal(fake.port, own.sin_port);
}

FRESH_TEST(whole_requests_go_first_and_of_these_health_and_tokens)
{
    client("POST /part" HOST BODY "\r\n1234");
    client("POST /whole" HOST BODY "\r\n12345");
    client("POST /part-token" HOST BODY TOKEN "\r\n");
    client("POST /whole-token" HOST TOKEN "\r\n");
    await_ready(4, false);
    give_slots(1, 0);
    await_log("in /whole-token\n");
    client("GET /healthz" HOST "\r\n");
    await_ready(4, false);
    give_slots(1, 0);
    await_log("in /whole-token\nin /healthz\n");
    give_slots(1, 0);
    await_log("in /whole-token\nin /healthz\nin /whole\n");
    give_slots(1, 0);
    await_log("in /whole-token\nin /healthz\nin /whole\nin /part-token\n");
    give_slots(1, 0);
    await_log("in /whole-token\nin /healthz\nin /whole\nin /part-token\nin /part\n");
    await_waiting(0);
}

FRESH_TEST(slots_that_are_kept_are_for_health_and_tokens)
{
    client("GET /plain" HOST "\r\n");
    client("GET /token" HOST TOKEN "\r\n");
    await_ready(2, false);
    give_slots(0, 3);
    await_log("in /token\n");
    client("GET /readyz" HOST "\r\n");
    await_log("in /token\nin /readyz\n");
    await_waiting(1); /* a slot is kept, and not for this one */
    give_slots(1, 0);
    await_log("in /token\nin /readyz\nin /plain\n");
}

FRESH_TEST(connections_of_one_rank_are_admitted_in_the_order_in_which_they_became_ready)
{
    for (size_t i = 0; i < 3; i++) {
        char text[100];
        snprintf(text, sizeof(text), "GET /%zu" HOST "\r\n", i);
        client(text);
        await_ready(i + 1, false);
    }
    give_slots(3, 0);
    await_log("in /0\nin /1\nin /2\n");
}

FRESH_TEST(a_body_that_arrives_while_its_request_waits_lifts_its_rank)
{
    int late = client("POST /late" HOST BODY "\r\n");
    client("POST /token" HOST BODY TOKEN "\r\n");
    client("POST /chunks" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"); /* its end is not known */
    await_ready(3, false);
    atomic_fetch_add(&fake.ahead_us, 2 * SECOND); /* so that a whole one presses */
    say(late, "12345");
    await_ready(3, true);
    give_slots(1, 0);
    await_log("in /late\n");
    give_slots(2, 0);
    await_log("in /late\nin /token\nin /chunks\n");
}

FRESH_TEST(only_a_whole_request_that_has_waited_for_long_presses)
{
    client("POST /part" HOST BODY "\r\n");
    await_ready(1, false);
    atomic_fetch_add(&fake.ahead_us, 2 * SECOND);
    client("GET /whole" HOST "\r\n");
    await_ready(2, false);
    atomic_fetch_add(&fake.ahead_us, 2 * SECOND);
    await_ready(2, true);
}

TEST_WITH(a_head_that_does_not_come_is_refused_in_time, make_brief, drop)
{
    int late = sent_away("no_request");
    int refused = sent_away("refused");
    int64_t began_us = host_us();
    client("GET /slow");
    connect_from("127.0.0.2");
    client_from("127.0.0.3", "GET /ready" HOST "\r\n");
    await_waiting(3);
    await_ready(1, true);
    await_log("refused /slow timeout: no whole request in time\nrefused ? timeout: no whole request in time\n");
    assert_true(host_us() - began_us >= 3 * SECOND / 2);
    await_waiting(1);
    await_sent_away("no_request", late + 2);
    atomic_fetch_add(&fake.ahead_us, 60 * SECOND);
    await_log("refused /slow timeout: no whole request in time\nrefused ? timeout: no whole request in time\n"
              "refused /ready unavailable: too many connections\n");
    await_waiting(0);
    await_sent_away("no_request", late + 2);
    await_sent_away("refused", refused + 3);
}

/* Its clock goes on while it does not look, as when the process is stopped. */
FRESH_TEST(a_head_is_not_late_when_the_process_was_stopped)
{
    give_slots(1, 0);
    int slow = client("GET /slow" HOST);
    await_waiting(1);
    client_from("127.0.0.2", "GET /ready" HOST "\r\n");
    await_log("in /ready\n");
    atomic_fetch_add(&fake.ahead_us, 11 * SECOND);
    client_from("127.0.0.2", "GET /next" HOST "\r\n");
    await_ready(1, false); /* it has looked since */
    give_slots(2, 0);
    say(slow, "\r\n");
    await_log("in /ready\nin /next\nin /slow\n");
}

FRESH_TEST(bytes_that_are_no_request_are_refused_at_once)
{
    give_slots(1, 0);
    client("GET /old HTTP/9.7\r\n\r\n");
    await_log_that_begins("refused /old version-not-supported: ");
    await_waiting(0);
}

FRESH_TEST(a_client_that_leaves_before_its_head_is_complete_leaves_nothing)
{
    const struct linger at_once = {.l_onoff = 1};
    int silent = connect_from("127.0.0.1");
    int slow = client_from("127.0.0.2", "GET /slow");
    int ready = client_from("127.0.0.3", "GET /ready" HOST "\r\n");
    await_waiting(3);
    await_ready(1, false);
    shutdown(silent, SHUT_WR);
    await_waiting(2);
    shutdown(slow, SHUT_WR);
    await_waiting(1);
    assert_int_equal(setsockopt(ready, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    fake.n_clients--;
    close(ready); /* a reset */
    await_waiting(0);
    await_log("");
}

FRESH_TEST(a_client_that_sent_a_whole_request_and_shut_its_side_is_admitted)
{
    int fd = client("GET /last" HOST "\r\n");
    shutdown(fd, SHUT_WR);
    await_ready(1, false);
    give_slots(1, 0);
    await_log("in /last\n");
}

FRESH_TEST(an_address_has_half_of_the_room_at_most)
{
    int crowded = sent_away("crowded");
    int first = connect_from("127.0.0.2");
    await_waiting(1);
    int second = connect_from("127.0.0.2");
    await_waiting(2);
    int third = connect_from("127.0.0.2");
    await_closed(first);
    assert_true(is_open(second));
    int fourth = connect_from("127.0.0.2");
    await_closed(second);
    await_waiting(2);
    assert_true(is_open(third));
    assert_true(is_open(fourth));
    await_sent_away("crowded", crowded + 2);
}

FRESH_TEST(a_trusted_proxy_stands_for_many_and_may_have_all_of_the_room)
{
    int clients[ROOM];
    for (int i = 0; i < ROOM; i++)
        clients[i] = connect_from("127.0.0.9");
    await_waiting(ROOM);
    for (int i = 0; i < ROOM; i++)
        assert_true(is_open(clients[i]));
}

FRESH_TEST(a_full_room_loses_who_has_waited_longest)
{
    static const char *const addresses[ROOM] = {"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"};
    int fds[ROOM];
    for (int i = 0; i < ROOM; i++) {
        fds[i] = connect_from(addresses[i]);
        await_waiting(i + 1);
    }
    int newcomer = connect_from("127.0.0.4");
    await_closed(fds[0]);
    await_waiting(ROOM);
    for (int i = 1; i < ROOM; i++)
        assert_true(is_open(fds[i]));
    assert_true(is_open(newcomer));
    await_log(""); /* nothing is said to who says nothing */
}

FRESH_TEST(in_a_room_full_of_requests_the_last_gives_way)
{
    client("GET /a" HOST "\r\n");
    await_ready(1, false);
    client("POST /b" HOST BODY "\r\n");
    await_ready(2, false);
    client("POST /c" HOST BODY "\r\n");
    await_ready(3, false);
    client("GET /d" HOST "\r\n");
    await_ready(4, false);
    client("GET /healthz" HOST "\r\n");
    await_log("refused /c unavailable: too many connections\n");
    await_ready(4, false);
    give_slots(4, 0);
    await_log("refused /c unavailable: too many connections\nin /healthz\nin /a\nin /d\nin /b\n");
}

FRESH_TEST(the_end_refuses_requests_and_closes_what_is_none)
{
    int silent = client("GET /silent");
    client("GET /ready" HOST "\r\n");
    await_waiting(2);
    await_ready(1, false);
    dt_acceptor_close(acceptor);
    await_log("refused /ready unavailable: the server is shutting down\n");
    await_closed(silent);
    dt_acceptor_close(acceptor);
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&fake.listening, sizeof(fake.listening)), -1);
    close(late);
    dt_acceptor_close(NULL);
    dt_acceptor_free(NULL);
}

SUITE(NULL, NULL)
