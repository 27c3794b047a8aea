/*
 * The wake channel, against a server of the test's own that says what Redis says, or not, and when. What real servers
 * make of it is test_index.c's.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "index/index.h"
#include "support/redis_fixture.h"

#define SECOND  INT64_C(1000000)
#define PING_MS 5000 /* of quiet, then it asks */
#define LATE_MS 700  /* redis.timeout here */

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

static void on_wake(void *arg, int shard, bool outbox)
{
    (void)arg;
    pthread_mutex_lock(&heard.lock);
    heard.all += shard < 0;
    heard.shards += shard >= 0;
    heard.outboxes += outbox;
    heard.last = shard;
    pthread_mutex_unlock(&heard.lock);
}

static unsigned heard_all(void)
{
    pthread_mutex_lock(&heard.lock);
    unsigned n = heard.all;
    pthread_mutex_unlock(&heard.lock);
    return n;
}

/* Waits until so many were heard, and no more. */
static void await_heard(unsigned all, unsigned shards)
{
    int64_t until = now_us() + 10 * SECOND;
    unsigned a, s;
    do {
        pthread_mutex_lock(&heard.lock);
        a = heard.all;
        s = heard.shards;
        pthread_mutex_unlock(&heard.lock);
    } while ((a < all || s < shards) && now_us() < until && usleep(1000) == 0);
    assert_int_equal(a, all);
    assert_int_equal(s, shards);
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

static int server_accept(struct server *server, int ms)
{
    if (!readable(server->fd, ms))
        fail_msg("nobody connects within %d ms", ms);
    int fd = accept(server->fd, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static char read_byte(int fd, int ms)
{
    char c;
    if (!readable(fd, ms))
        fail_msg("nothing is asked within %d ms", ms);
    assert_int_equal(read(fd, &c, 1), 1);
    return c;
}

static long read_number(int fd, char kind, int ms)
{
    char line[16];
    size_t n = 0;
    assert_int_equal(read_byte(fd, ms), kind);
    while (n < sizeof line - 1 && (line[n] = read_byte(fd, 1000)) != '\r')
        n++;
    line[n] = '\0';
    assert_int_equal(read_byte(fd, 1000), '\n');
    return strtol(line, NULL, 10);
}

/* The next command is this one, and comes within ms. */
static void expect_in(int fd, const char *command, int ms)
{
    char got[256] = "";
    size_t n = 0;
    for (long words = read_number(fd, '*', ms), w = 0; w < words; w++) {
        if (w)
            got[n++] = ' ';
        for (long bytes = read_number(fd, '$', 1000); bytes > 0 && n < sizeof got - 1; bytes--)
            got[n++] = read_byte(fd, 1000);
        assert_int_equal(read_byte(fd, 1000), '\r');
        assert_int_equal(read_byte(fd, 1000), '\n');
    }
    got[n] = '\0';
    assert_string_equal(got, command);
}

static void expect(int fd, const char *command)
{
    expect_in(fd, command, 3000);
}

static void expect_end(int fd, int ms)
{
    char c;
    if (!readable(fd, ms))
        fail_msg("the connection is not given up within %d ms", ms);
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
    int fd = server_accept(server, 5000);
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

static void start(struct rig *rig, const char *password, bool two)
{
    struct dt_error err = {0};
    snprintf(rig->endpoints, sizeof rig->endpoints, "%s%s%s", rig->servers[0].endpoint, two ? "," : "",
             two ? rig->servers[1].endpoint : "");
    rig->config = redis_fixture_config(rig->endpoints, password, LATE_MS);
    assert_int_equal(dt_wake_start(&rig->config, "x", on_wake, NULL, &rig->wake, &err), DT_OK);
}

static int make(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    heard.all = heard.shards = heard.outboxes = 0;
    for (int i = 0; i < 2; i++)
        server_open(&rig->servers[i]);
    *state = rig;
    return 0;
}

static int clear(void **state)
{
    struct rig *rig = *state;
    int64_t begin = now_us();
    dt_wake_stop(rig->wake);
    assert_true(now_us() - begin < SECOND / 2); /* whatever it was at */
    for (int i = 0; i < 2; i++)
        close(rig->servers[i].fd);
    free(rig);
    return 0;
}

/* ---- quiet ---- */

/* Its thread begins with all signals blocked; the mask of whoever starts it is as before. */
static void starting_the_channel_leaves_its_makers_signals_alone(void **state)
{
    struct rig *rig = *state;
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

static void a_quiet_channel_stays_up_as_long_as_it_is_answered(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    for (int i = 0; i < 2; i++) {
        int64_t begin = now_us();
        expect_in(fd, "PING", PING_MS + 1500);
        assert_in_range(now_us() - begin, (PING_MS - 300) * 1000, (PING_MS + 1500) * 1000);
        say(fd, PONG);
    }
    assert_false(readable(fd, LATE_MS * 3)); /* neither cut nor asked again */
    assert_false(readable(rig->servers[0].fd, 0));
    assert_int_equal(heard_all(), 1);
    assert_true(dt_wake_hears(rig->wake));
    close(fd);
}

static void whatever_is_heard_puts_the_question_off(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    for (int i = 0; i < 3; i++) {
        assert_false(readable(fd, PING_MS - 2000));
        say(fd, MESSAGE(1, "3"));
    }
    await_heard(1, 3);
    int64_t begin = now_us();
    expect_in(fd, "PING", PING_MS + 1500);
    assert_true(now_us() - begin > (PING_MS - 500) * 1000);
    say(fd, MESSAGE(1, "3")); /* as good an answer as any */
    assert_false(readable(fd, LATE_MS * 2));
    await_heard(1, 4);
    close(fd);
}

static void a_server_that_does_not_answer_is_given_up_and_connected_to_anew(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    expect_in(fd, "PING", PING_MS + 1500);
    assert_true(dt_wake_hears(rig->wake));
    int64_t begin = now_us();
    expect_end(fd, LATE_MS + 1500);
    assert_true(now_us() - begin > (LATE_MS - 300) * 1000);
    await_heard(2, 0); /* what was published meanwhile is lost */
    assert_false(dt_wake_hears(rig->wake));
    fd = greet(&rig->servers[0]);
    await_heard(3, 0);
    assert_true(dt_wake_hears(rig->wake));
    assert_false(readable(fd, LATE_MS * 2)); /* the old question is forgotten */
    close(fd);
}

/* ---- coming up ---- */

static void each_step_on_the_way_up_has_its_time(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "CLIENT ID"); /* no answer */
    expect_end(fd, LATE_MS + 1500);
    fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED); /* and no more */
    expect_end(fd, LATE_MS + 1500);
    assert_int_equal(heard_all(), 0); /* it never was up */
    assert_false(dt_wake_hears(rig->wake));
    fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    close(fd);
}

static void a_server_that_knows_no_tracking_is_done_without(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, "-ERR unknown subcommand\r\n" SUBSCRIBED(1) "-NOPERM no such channel\r\n");
    await_heard(1, 0);
    say(fd, MESSAGE(1, "4"));
    await_heard(1, 1);
    say(fd, "-ERR something else\r\n"); /* but only once */
    expect_end(fd, 2000);
    await_heard(2, 1);
}

static void a_server_without_client_id_is_subscribed_to_all_the_same(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "CLIENT ID");
    say(fd, "-ERR unknown command\r\n");
    expect(fd, "SUBSCRIBE x:wake");
    say(fd, SUBSCRIBED(1));
    await_heard(1, 0);
    assert_true(dt_wake_hears(rig->wake));
    close(fd);
}

static void a_password_goes_first_and_a_wrong_one_ends_it(void **state)
{
    struct rig *rig = *state;
    start(rig, "secret", false);
    int fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "AUTH secret");
    expect(fd, "CLIENT ID");
    say(fd, "-WRONGPASS\r\n");
    expect_end(fd, 2000);
    fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "AUTH secret");
    expect(fd, "CLIENT ID");
    say(fd, "+OK\r\n:7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED SUBSCRIBED(1) SUBSCRIBED_TOO);
    await_heard(1, 0);
    close(fd);
}

static void a_channel_that_may_not_be_heard_is_tried_again(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = server_accept(&rig->servers[0], 3000);
    expect(fd, "CLIENT ID");
    say(fd, ":7\r\n");
    expect_subscribing(fd);
    say(fd, TRACKED "-NOPERM\r\n");
    expect_end(fd, 2000);
    fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    close(fd);
}

static void a_server_that_hangs_up_is_tried_less_and_less_often_and_at_once_again_after_it_was_up(void **state)
{
    struct rig *rig = *state;
    int64_t until = now_us() + 2 * SECOND;
    unsigned tries = 0;
    start(rig, NULL, false);
    for (int ms; (ms = (int)((until - now_us()) / 1000)) > 0;)
        if (readable(rig->servers[0].fd, ms)) {
            close(server_accept(&rig->servers[0], 0));
            tries++;
        }
    assert_in_range(tries, 4, 12);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    close(fd);
    int64_t begin = now_us();
    fd = server_accept(&rig->servers[0], 3000);
    assert_true(now_us() - begin < SECOND / 2);
    await_heard(2, 0);
    close(fd);
}

/* ---- messages ---- */

static void a_message_names_a_shard_or_everything(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    say(fd, MESSAGE(1, "3") MESSAGE(8, "3 outbox") MESSAGE(1, "0"));
    await_heard(1, 3);
    assert_int_equal(heard.outboxes, 1);
    assert_int_equal(heard.last, 0);
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

static void a_message_may_come_in_pieces(void **state)
{
    struct rig *rig = *state;
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

static void what_is_no_redis_is_given_up(void **state)
{
    struct rig *rig = *state;
    start(rig, NULL, false);
    int fd = greet(&rig->servers[0]);
    await_heard(1, 0);
    say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    expect_end(fd, 2000);
    await_heard(2, 0);
}

/* ---- several servers ---- */

static void one_server_that_is_away_keeps_no_other_from_being_heard(void **state)
{
    struct rig *rig = *state;
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

#define T(name) cmocka_unit_test_setup_teardown(name, make, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(starting_the_channel_leaves_its_makers_signals_alone),
        T(a_quiet_channel_stays_up_as_long_as_it_is_answered),
        T(whatever_is_heard_puts_the_question_off),
        T(a_server_that_does_not_answer_is_given_up_and_connected_to_anew),
        T(each_step_on_the_way_up_has_its_time),
        T(a_server_that_knows_no_tracking_is_done_without),
        T(a_server_without_client_id_is_subscribed_to_all_the_same),
        T(a_password_goes_first_and_a_wrong_one_ends_it),
        T(a_channel_that_may_not_be_heard_is_tried_again),
        T(a_server_that_hangs_up_is_tried_less_and_less_often_and_at_once_again_after_it_was_up),
        T(a_message_names_a_shard_or_everything),
        T(a_message_may_come_in_pieces),
        T(what_is_no_redis_is_given_up),
        T(one_server_that_is_away_keeps_no_other_from_being_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
