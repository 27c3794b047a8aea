/* The wake channel, against a server of the test's own that says what Redis says, or not, and when. What real servers
 * make of it is test_index.c's. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis/redis_subscriber.h"
#include "support/redis_fixture.h"
#include "support/wait.h"

#define SECOND  INT64_C(1000000)
#define PING_MS 5000 /* of quiet, then it asks */
#define LATE_MS 2000 /* redis.timeout in tests where Redis is late; elsewhere it is longer */

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* ---- what was announced ---- */

static struct {
    pthread_mutex_t lock;
    unsigned all, shards, outboxes;
    int last;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_wake(void *, int shard, bool outbox)
{
    pthread_mutex_lock(&heard.lock);
    heard.all += shard < 0;
    heard.shards += shard >= 0;
    heard.outboxes += outbox;
    heard.last = shard;
    pthread_mutex_unlock(&heard.lock);
}

static unsigned heard_of(const unsigned *what)
{
    pthread_mutex_lock(&heard.lock);
    unsigned n = *what;
    pthread_mutex_unlock(&heard.lock);
    return n;
}

/* Waits until so many were heard, and no more. */
static void await_heard(unsigned all, unsigned shards)
{
    AWAIT(heard_of(&heard.all) >= all && heard_of(&heard.shards) >= shards);
    assert_int_equal(heard_of(&heard.all), all);
    assert_int_equal(heard_of(&heard.shards), shards);
}

/* ---- a server ---- */

struct server {
    int fd;
    char endpoint[32];
};

static void server_open(struct server *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(server->fd, 16), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&at, &size), 0);
    snprintf(server->endpoint, sizeof server->endpoint, "127.0.0.1:%d", ntohs(at.sin_port));
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static int server_accept(struct server *server)
{
    if (!readable(server->fd, WAIT_MS))
        fail_msg("nobody connects");
    int fd = accept(server->fd, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static int64_t said_us; /* just before the last message was sent; later waits began after it */

static void say(int fd, const char *text)
{
    said_us = now_us();
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static char read_byte(int fd)
{
    char c;
    if (!readable(fd, WAIT_MS))
        fail_msg("no command arrives");
    assert_int_equal(read(fd, &c, 1), 1);
    return c;
}

static long read_number(int fd, char kind)
{
    char line[16];
    size_t n = 0;
    assert_int_equal(read_byte(fd), kind);
    while (n < sizeof line - 1 && (line[n] = read_byte(fd)) != '\r')
        n++;
    line[n] = '\0';
    assert_int_equal(read_byte(fd), '\n');
    return strtol(line, NULL, 10);
}

/* Asserts that the next command is this one. */
static void expect(int fd, const char *command)
{
    char got[256] = "";
    size_t n = 0;
    for (long words = read_number(fd, '*'), w = 0; w < words; w++) {
        if (w)
            got[n++] = ' ';
        for (long bytes = read_number(fd, '$'); bytes > 0 && n < sizeof got - 1; bytes--)
            got[n++] = read_byte(fd);
        assert_int_equal(read_byte(fd), '\r');
        assert_int_equal(read_byte(fd), '\n');
    }
    got[n] = '\0';
    assert_string_equal(got, command);
}

static void expect_end(int fd)
{
    char c;
    if (!readable(fd, WAIT_MS))
        fail_msg("the connection is not closed");
    assert_true(read(fd, &c, 1) <= 0);
    close(fd);
}

#define TRACKED         "+OK\r\n"
#define SUBSCRIBED(n)   "*3\r\n$9\r\nsubscribe\r\n$6\r\nx:wake\r\n:" #n "\r\n"
#define SUBSCRIBED_TOO  "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:2\r\n"
#define PONG            "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
#define MESSAGE(n, txt) "*3\r\n$7\r\nmessage\r\n$6\r\nx:wake\r\n$" #n "\r\n" txt "\r\n"

static void expect_subscribing(int fd)
{
    expect(fd, "CLIENT TRACKING ON REDIRECT 7");
    expect(fd, "SUBSCRIBE x:wake");
    expect(fd, "SUBSCRIBE __redis__:invalidate");
}

/* From connecting to UP. */
static int greet(struct server *server)
{
    int fd = server_accept(server);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED SUBSCRIBED(1) SUBSCRIBED_TOO);
    return fd;
}

/* ---- the channel ---- */

struct rig {
    struct server servers[2];
    char endpoints[80];
    struct dt_config config;
    dt_wake *wake;
};

static void start_with(struct rig *rig, const char *password, bool two, int64_t late_ms)
{
    struct dt_error err = {0};
    snprintf(rig->endpoints, sizeof rig->endpoints, "%s%s%s", rig->servers[0].endpoint, two ? "," : "",
             two ? rig->servers[1].endpoint : "");
    rig->config = redis_fixture_config(rig->endpoints, password, late_ms);
    assert_int_equal(dt_wake_start(&rig->config, "x", on_wake, NULL, &rig->wake, &err), DT_OK);
}

static void start(struct rig *rig, const char *password, bool two)
{
    start_with(rig, password, two, WAIT_MS);
}

static void make(struct rig *rig)
{
    heard.all = heard.shards = heard.outboxes = 0;
    for (int i = 0; i < 2; i++)
        server_open(&rig->servers[i]);
}

static void clear(struct rig *rig)
{
    dt_wake_stop(rig->wake);
    for (int i = 0; i < 2; i++)
        close(rig->servers[i].fd);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, make, clear)

/* ---- quiet ---- */

/* Its thread begins with all signals blocked; the mask of whoever starts it is as before. */
RIG_TEST(starting_the_channel_does_not_change_the_callers_signals)
{
    struct dt_error err = {0};
    sigset_t before, after;
    dt_wake *wake;
    rig->config = redis_fixture_config("127.0.0.1:1", NULL, LATE_MS); /* nobody is there */
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(dt_wake_start(&rig->config, "x", on_wake, NULL, &wake, &err), DT_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    dt_wake_stop(wake);
    for (int number = 1; number < NSIG; number++)
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
}

RIG_TEST(a_quiet_channel_stays_up_as_long_as_it_is_answered)
{
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    for (int i = 0; i < 2; i++) {
        expect(fd, "PING"); /* the connection was not closed, and there was no earlier PING */
        assert_true(now_us() - said_us >= PING_MS * 1000);
        say(fd, PONG);
    }
    assert_false(readable(rig->servers[0].fd, 0));
    assert_int_equal(heard_of(&heard.all), 1);
    assert_true(dt_wake_hears(rig->wake));
    close(fd);
}

RIG_TEST(any_message_from_redis_postpones_the_ping)
{
    start_with(rig, NULL, false, LATE_MS);
    int fd = greet(&rig->servers[0]);
    assert_false(readable(fd, PING_MS / 2)); /* the PING must be this old when the message arrives */
    say(fd, MESSAGE(1, "3"));
    await_heard(1, 1);
    expect(fd, "PING");
    assert_true(now_us() - said_us >= PING_MS * 1000);
    say(fd, MESSAGE(1, "3"));                    /* any message counts as an answer */
    assert_false(readable(fd, LATE_MS * 3 / 2)); /* otherwise the connection would be closed */
    await_heard(1, 2);
    close(fd);
}

RIG_TEST(a_silent_server_is_given_up_and_reconnected)
{
    start_with(rig, NULL, false, LATE_MS);
    int fd = greet(&rig->servers[0]);
    expect(fd, "PING");
    expect_end(fd);
    assert_true(now_us() - said_us >= (PING_MS + LATE_MS) * 1000);
    await_heard(2, 0); /* what was published meanwhile is lost */
    assert_false(dt_wake_hears(rig->wake));
    fd = greet(&rig->servers[0]);
    await_heard(3, 0);
    assert_true(dt_wake_hears(rig->wake));
    assert_false(readable(fd, LATE_MS * 3 / 2)); /* the old PING is forgotten; else it would be closed */
    close(fd);
}

/* ---- coming up ---- */

RIG_TEST(each_step_of_a_connection_has_a_timeout)
{
    start_with(rig, NULL, false, LATE_MS);
    int fd = server_accept(&rig->servers[0]);
    expect(fd, "CLIENT ID"); /* no answer */
    expect_end(fd);
    fd = server_accept(&rig->servers[0]);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED); /* and no more */
    expect_end(fd);
    assert_int_equal(heard_of(&heard.all), 0); /* it was never up */
    assert_false(dt_wake_hears(rig->wake));
    fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    close(fd);
}

RIG_TEST(a_server_without_tracking_is_supported)
{
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0]);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, "-ERR unknown subcommand\r\n" SUBSCRIBED(1) "-NOPERM no such channel\r\n");
    await_heard(1, 0);
    say(fd, MESSAGE(1, "4"));
    await_heard(1, 1);
    say(fd, "-ERR something else\r\n"); /* but only once */
    expect_end(fd);
    await_heard(2, 1);
}

RIG_TEST(a_server_without_client_id_is_supported)
{
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0]);
    expect(fd, "CLIENT ID");
    say(fd, "-ERR unknown command\r\n");
    expect(fd, "SUBSCRIBE x:wake");
    say(fd, SUBSCRIBED(1));
    await_heard(1, 0);
    assert_true(dt_wake_hears(rig->wake));
    close(fd);
}

RIG_TEST(a_password_is_sent_first_and_a_wrong_one_ends_the_connection)
{
    start(rig, "secret", false);
    int fd = server_accept(&rig->servers[0]);
    expect(fd, "AUTH secret");
    expect(fd, "CLIENT ID");
    say(fd, "-WRONGPASS\r\n");
    expect_end(fd);
    fd = server_accept(&rig->servers[0]);
    expect(fd, "AUTH secret");
    expect(fd, "CLIENT ID");
    say(fd, "+OK\r\n:7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED SUBSCRIBED(1) SUBSCRIBED_TOO);
    await_heard(1, 0);
    close(fd);
}

RIG_TEST(a_subscription_that_redis_denies_is_tried_again)
{
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0]);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED "-NOPERM\r\n");
    expect_end(fd);
    fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    close(fd);
}

RIG_TEST(reconnects_back_off_and_are_immediate_after_a_working_connection)
{
    int64_t begin = now_us(), until_us = wait_deadline_us(), pause_us;
    start(rig, NULL, false);
    for (int tries = 0; tries < 8; tries++)
        close(server_accept(&rig->servers[0]));
    assert_true(now_us() - begin >= SECOND);
    do { /* the wrong pause is a second or more; on a busy machine a shorter one may seem as long */
        close(greet(&rig->servers[0]));
        begin = now_us();
        close(server_accept(&rig->servers[0]));
        pause_us = now_us() - begin;
        assert_false(wait_is_over(until_us));
    } while (pause_us >= SECOND / 2);
}

/* ---- messages ---- */

RIG_TEST(a_message_names_a_shard_or_everything)
{
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    say(fd, MESSAGE(1, "3") MESSAGE(8, "3 outbox") MESSAGE(1, "0"));
    await_heard(1, 3);
    assert_members(heard, (outboxes, 1), (last, 0));
    say(fd, MESSAGE(5, "topic") MESSAGE(0, "") MESSAGE(2, "-1") MESSAGE(5, "70000") MESSAGE(2, "3x")
                MESSAGE(9, "3 outbox."));
    await_heard(7, 3);
    say(fd, "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*-1\r\n"); /* all keys were flushed */
    await_heard(8, 3);
    say(fd, "*3\r\n$9\r\nsubscribe\r\n$6\r\nx:wake\r\n:1\r\n:5\r\n$3\r\nfoo\r\n"); /* nothing of ours */
    say(fd, MESSAGE(1, "1"));
    await_heard(8, 4);
    close(fd);
}

RIG_TEST(a_message_may_arrive_in_pieces)
{
    static const char text[] = MESSAGE(1, "5") MESSAGE(8, "6 outbox");
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        assert_int_equal(write(fd, text + i, 1), 1);
        usleep(2000);
    }
    await_heard(1, 2);
    assert_int_equal(heard.last, 6);
    close(fd);
}

RIG_TEST(a_server_that_does_not_speak_the_redis_protocol_is_given_up)
{
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    expect_end(fd);
    await_heard(2, 0);
}

/* ---- several servers ---- */

RIG_TEST(a_server_that_is_down_does_not_block_others)
{
    start(rig, NULL, true);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    assert_false(dt_wake_hears(rig->wake)); /* not of all */
    say(fd, MESSAGE(1, "2"));
    await_heard(1, 1);
    int other = greet(&rig->servers[1]);
    await_heard(2, 1);
    assert_true(dt_wake_hears(rig->wake));
    close(other);
    await_heard(3, 1);
    assert_false(dt_wake_hears(rig->wake));
    say(fd, MESSAGE(1, "2"));
    await_heard(3, 2);
    close(fd);
}
