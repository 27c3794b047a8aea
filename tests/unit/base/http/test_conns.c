/* Connections of HTTP/1. */
#include "unit/base/http/conns_suite.h"

#include <pthread.h>

#define GET(path)   "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path)  "POST " path " HTTP/1.1\r\nHost: x\r\n"
#define DATE        "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
#define TYPE        "Content-Type: text/plain\r\n\r\n"
#define OK(n, text) "HTTP/1.1 200 OK\r\n" DATE "Content-Length: " #n "\r\n" TYPE text
#define CLOSES(status, n, text)                                                                                        \
    "HTTP/1.1 " status "\r\n" DATE "Connection: close\r\nContent-Length: " #n "\r\n" TYPE text

/* Begins again, with a smaller crowd. */
static void begin_with_crowd(size_t crowd)
{
    limits.most = 99;
    limits.crowd = crowd;
    begin_again();
}

/* Sends the text in pieces of so many bytes. */
static void say(int fd, const char *text, size_t piece)
{
    for (size_t n = strlen(text), at = 0; at < n; at += piece) {
        size_t some = n - at < piece ? n - at : piece;
        assert_int_equal(send(fd, text + at, some, MSG_NOSIGNAL), some);
        rounds(1);
    }
    rounds(2);
}

/* Reads what has come, up to the room; says whether it ends. */
static bool hear(int fd, char *out, size_t room, size_t *n)
{
    ssize_t got = 1;
    for (*n = 0; *n + 1 < room && got > 0;) {
        got = recv(fd, out + *n, room - 1 - *n, 0);
        *n += got > 0 ? (size_t)got : 0;
        rounds(1);
    }
    out[*n] = '\0';
    return got == 0;
}

static void assert_hears(int fd, const char *wanted, bool ends)
{
    char text[8192];
    size_t n;
    bool ended = hear(fd, text, sizeof(text), &n);
    assert_string_equal(text, wanted);
    assert_int_equal(ended, ends);
}

/* ---- tests ---- */

static void requests_are_answered_however_they_are_cut(void **state)
{
    static const struct {
        const char *said, *heard;
        bool ends;
    } cases[] = {
        {GET("/a"), OK(2, "/a"), false},
        {"\r\n" GET("http://host:80/a"), OK(2, "/a"), false},
        {"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" GET("/b"), OK(2, "") OK(2, "/b"), false},
        {POST("/") "Content-Length: 5\r\n\r\nhello", OK(5, "hello"), false},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nSum: 1\r\n\r\n", OK(5, "hello"),
         false},
        {GET("/a") GET("/b") POST("/") "Content-Length: 1\r\n\r\nx" GET("/c"),
         OK(2, "/a") OK(2, "/b") OK(1, "x") OK(2, "/c"), false},
        {"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET("/b"), CLOSES("200 OK", 2, "/a"), true},
        {"GET /a HTTP/1.0\r\n\r\n" GET("/b"), CLOSES("200 OK", 2, "/a"), true},
        {"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         "HTTP/1.1 200 OK\r\n" DATE "Connection: keep-alive\r\nContent-Length: 2\r\n" TYPE "/a", false},
        {POST("/no") "Content-Length: 3\r\n\r\nabc" GET("/a"),
         "HTTP/1.1 403 Forbidden\r\n" DATE "Content-Length: 3\r\n" TYPE "no\n" OK(2, "/a"), false},
        {POST("/no") "Content-Length: 70000\r\n\r\nabc", CLOSES("403 Forbidden", 3, "no\n"), true},
        {POST("/no") "Transfer-Encoding: chunked\r\n\r\n", CLOSES("403 Forbidden", 3, "no\n"), true},
        {POST("/") "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", false},
        {POST("/no") "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", CLOSES("403 Forbidden", 3, "no\n"), true},
        {GET("/a") "hello\r\n\r\n" GET("/b"), OK(2, "/a") CLOSES("400 Bad Request", 2, "!\n"), true},
        {POST("/") "Transfer-Encoding: chunked\r\n\r\n3\r\nhelx", CLOSES("400 Bad Request", 2, "!\n"), true},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", CLOSES("505 HTTP Version Not Supported", 2, "!\n"), true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 200; piece = piece * 3 + 1) {
            int fd = connected(SOCK_STREAM);
            say(fd, cases[i].said, piece);
            assert_hears(fd, cases[i].heard, cases[i].ends);
            close(fd);
            rounds(2);
            assert_int_equal(dt_conns_count(conns), 0);
        }
}

static void requests_that_came_together_are_answered_in_one_write(void **state)
{
    int fd = connected(SOCK_SEQPACKET);
    char text[1024] = {0};
    (void)state;
    assert_true(send(fd, GET("/a") GET("/b") GET("/c"), sizeof(GET("/a") GET("/b") GET("/c")) - 1, 0) > 0);
    rounds(1);
    assert_true(recv(fd, text, sizeof(text), 0) > 0);
    assert_string_equal(text, OK(2, "/a") OK(2, "/b") OK(2, "/c"));
    close(fd);
}

static void run_later(struct dt_evtask *task)
{
    (void)task;
    answer(kept, 200, "late", false);
}

static void *post(void *task)
{
    dt_evloop_post(dt_conns_loop(conns), task);
    return NULL;
}

static void a_request_is_answered_from_another_thread_and_the_next_one_follows(void **state)
{
    struct dt_evtask task = {.run = run_later};
    pthread_t thread;
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, GET("/later") GET("/a"), 999);
    assert_hears(fd, "", false);
    pass_ms(60000); /* the time is the owner's */
    assert_int_equal(pthread_create(&thread, NULL, post, &task), 0);
    dt_conns_round(conns);
    assert_hears(fd, OK(4, "late") OK(2, "/a"), false);
    pthread_join(thread, NULL);
    close(fd);
}

static void a_body_waits_until_its_owner_goes_on(void **state)
{
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, POST("/place") "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", 999);
    assert_hears(fd, "", false);
    dt_conn_go_on(kept);
    assert_hears(fd, "HTTP/1.1 100 Continue\r\n\r\n", false);
    say(fd, "hello" POST("/slowly") "Content-Length: 5\r\n\r\nhello", 999);
    assert_hears(fd, OK(5, "hello"), false);
    for (int i = 0; i < 2; i++) {
        pass_ms(10000);
        assert_hears(fd, "", false);
        dt_conn_go_on(kept);
    }
    assert_hears(fd, OK(5, "hello"), false);
    say(fd, GET("/place"), 999);
    dt_conn_go_on(kept);
    assert_hears(fd, OK(6, "/place"), false);
    close(fd);
}

static void an_owner_learns_that_its_client_has_left_and_keeps_the_connection_until_it_answers(void **state)
{
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, GET("/later"), 999);
    close(fd);
    rounds(2);
    assert_true(has_left(kept));
    assert_int_equal(dt_conns_count(conns), 1);
    answer(kept, 200, "late", false);
    assert_int_equal(ended_unsent, 1);
    assert_int_equal(dt_conns_count(conns), 0);
    fd = connected(SOCK_STREAM);
    say(fd, POST("/later") "Content-Length: 5\r\n\r\nhel", 999);
    close(fd);
    rounds(2);
    assert_int_equal(ended_unsent, 2); /* it never was whole */
}

static void a_client_that_ends_its_side_gets_all_its_answers(void **state)
{
    int fd = connected(SOCK_STREAM);
    (void)state;
    assert_true(send(fd, GET("/a") GET("/later") GET("/b"), strlen(GET("/a") GET("/later") GET("/b")), 0) > 0);
    shutdown(fd, SHUT_WR);
    rounds(3);
    assert_true(has_left(kept));
    answer(kept, 200, "late", false);
    assert_hears(fd, OK(2, "/a") OK(4, "late") OK(2, "/b"), true);
    assert_int_equal(dt_conns_count(conns), 0);
    close(fd);
}

static void a_large_answer_comes_whole(void **state)
{
    char *all = malloc(2000000);
    size_t n;
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, GET("/large") GET("/a"), 999);
    assert_int_equal(ended_sent, 0);
    hear(fd, all, 2000000, &n);
    assert_int_equal(ended_sent, 2);
    assert_non_null(strstr(all, "Content-Length: 1100000\r\n\r\nline     0\n"));
    assert_non_null(strstr(all, "\nline 99999\n" OK(2, "/a")));
    free(all);
    close(fd);
}

static void every_wait_for_a_client_ends(void **state)
{
    static const struct {
        const char *said;
        int ms;
        const char *heard;
    } cases[] = {
        {"", 2000, CLOSES("408 Request Timeout", 2, "!\n")},
        {"GET / HT", 2000, CLOSES("408 Request Timeout", 2, "!\n")},
        {GET("/a"), 9000, OK(2, "/a")},
        {GET("/a") "GET ", 2000, OK(2, "/a") CLOSES("408 Request Timeout", 2, "!\n")},
        {POST("/") "Content-Length: 9\r\n\r\nhello", 4000, CLOSES("408 Request Timeout", 2, "!\n")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = connected(SOCK_STREAM);
        say(fd, cases[i].said, 999);
        pass_ms(cases[i].ms - 100);
        assert_int_equal(dt_conns_count(conns), 1);
        pass_ms(200);
        assert_hears(fd, cases[i].heard, true);
        pass_ms(2100); /* it gives its client the time to read that */
        assert_int_equal(dt_conns_count(conns), 0);
        close(fd);
    }
    int fd = connected(SOCK_STREAM);
    for (int i = 0; i < 4; i++) { /* each request begins a wait of its own */
        say(fd, GET("/a"), 999);
        assert_hears(fd, OK(2, "/a"), false);
        pass_ms(5000);
    }
    say(fd, GET("/large"), 999);
    pass_ms(3100);
    assert_int_equal(ended_unsent, 1);
    assert_int_equal(dt_conns_count(conns), 0);
    close(fd);
}

static void a_stop_of_the_process_makes_no_client_late(void **state)
{
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, "GET /a HT", 999);
    pass_ms(1900);
    mono_us += 3600000000;
    rounds(1);
    pass_ms(50);
    say(fd, "TP/1.1\r\nHost: x\r\n\r\n", 999);
    assert_hears(fd, OK(2, "/a"), false);
    pass_ms(8900);
    mono_us += 200000; /* its deadline is over, and what came before is not read yet */
    assert_true(send(fd, GET("/b"), strlen(GET("/b")), 0) > 0);
    rounds(2);
    assert_hears(fd, OK(2, "/b"), false);
    close(fd);
}

static void a_full_server_ends_the_connection_that_has_been_silent_longest(void **state)
{
    int pair[2];
    int fd[4];
    (void)state;
    fd[0] = connected(SOCK_STREAM);
    say(fd[0], GET("/later"), 999);
    for (int i = 1; i < 3; i++)
        fd[i] = connected(SOCK_STREAM);
    say(fd[1], GET("/a"), 999);
    assert_hears(fd[1], OK(2, "/a"), false);
    pass_ms(600);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[0]), close(pair[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr address = {.sa_family = AF_UNIX}; /* the kernel chooses a name */
    char name[128];
    socklen_t n = sizeof(name);
    assert_int_equal(bind(listener, &address, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(listener, 5), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)name, &n), 0);
    assert_int_equal(dt_conns_listen(conns, listener, NULL, NULL), DT_OK);
    fd[3] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd[3], (struct sockaddr *)name, n), 0);
    say(fd[3], GET("/b"), 999);
    assert_hears(fd[3], OK(2, "/b"), false);
    assert_hears(fd[2], "", true); /* it had said nothing */
    answer(kept, 200, "late", false);
    assert_hears(fd[0], OK(4, "late"), false);
    say(fd[1], GET("/c"), 999);
    assert_hears(fd[1], OK(2, "/c"), false);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    rounds(2);
    close(listener);
}

static void requests_under_way_when_the_server_ends_are_answered(void **state)
{
    int idle = connected(SOCK_STREAM);
    int later = connected(SOCK_STREAM);
    int half = connected(SOCK_STREAM);
    (void)state;
    say(idle, GET("/a"), 999);
    say(later, GET("/later") GET("/a"), 999);
    say(half, POST("/") "Content-Length: 9\r\n\r\nhello", 999);
    dt_conns_enter(conns, DT_CONNS_DRAIN);
    rounds(2);
    assert_hears(idle, OK(2, "/a"), true);
    assert_hears(half, "", false);
    answer(kept, 200, "late", false);
    assert_hears(later, CLOSES("200 OK", 4, "late"), true);
    dt_conns_enter(conns, DT_CONNS_CUT);
    rounds(2);
    assert_hears(half, CLOSES("503 Service Unavailable", 2, "!\n"), true);
    close(idle), close(later), close(half);
    rounds(2);
    assert_int_equal(dt_conns_count(conns), 0);
}

static void an_answer_that_is_not_taken_gives_way_if_there_is_no_room(void **state)
{
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, GET("/large"), 999);
    pass_ms(400);
    dt_conns_press(conns);
    rounds(2);
    assert_int_equal(ended_unsent, 0);
    pass_ms(200);
    assert_int_equal(ended_unsent, 0);
    dt_conns_press(conns);
    rounds(1);
    assert_int_equal(ended_unsent, 1);
    close(fd);
}

static void an_address_has_half_of_a_crowd(void **state)
{
    int fd[4];
    (void)state;
    begin_with_crowd(6);
    for (int i = 0; i < 4; i++)
        fd[i] = connected(SOCK_STREAM);
    assert_int_equal(dt_conns_count(conns), 3);
    assert_hears(fd[0], "", true); /* the one that has waited longest */
    say(fd[1], GET("/a"), 999);
    assert_hears(fd[1], OK(2, "/a"), false);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    rounds(2);
}

static void a_slow_body_loses_its_place_in_a_crowd_and_a_quick_one_keeps_it(void **state)
{
    static char part[8192];
    int quick, slow, known, newcomer;
    (void)state;
    begin_with_crowd(3);
    memset(part, 'x', sizeof(part) - 1);
    quick = connected(SOCK_STREAM);
    say(quick, POST("/") "Content-Length: 99999\r\n\r\n", 999);
    known = connected(SOCK_STREAM);
    say(known, POST("/known") "Content-Length: 9\r\n\r\nx", 999);
    slow = connected(SOCK_STREAM);
    say(slow, POST("/") "Content-Length: 9\r\n\r\nx", 999);
    pass_ms(400);
    newcomer = connected(SOCK_STREAM);
    assert_hears(slow, "", false); /* it is not slow for long enough */
    say(quick, part, sizeof(part));
    pass_ms(200);
    assert_hears(slow, CLOSES("408 Request Timeout", 2, "!\n"), true);
    assert_hears(quick, "", false);
    assert_hears(known, "", false);
    close(quick), close(slow), close(known), close(newcomer);
    rounds(2);
}

static void a_client_is_seen_to_leave_behind_much_that_it_sent(void **state)
{
    static char waste[100000];
    int fd = connected(SOCK_STREAM);
    (void)state;
    say(fd, GET("/listen") GET("/a"), 999);
    answer(kept, 200, "heard", false);
    assert_hears(fd, OK(5, "heard") OK(2, "/a"), false); /* a little is kept for later */
    say(fd, GET("/listen"), 999);
    memset(waste, 'x', sizeof(waste));
    for (size_t sent = 0; sent < sizeof(waste);) {
        ssize_t n = send(fd, waste, sizeof(waste) - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        rounds(1);
    }
    assert_false(has_left(kept));
    close(fd);
    rounds(3);
    assert_true(has_left(kept));
    answer(kept, 200, "late", false);
    assert_int_equal(dt_conns_count(conns), 0);
}

static void a_newcomer_goes_to_the_thread_with_the_fewest_connections(void **state)
{
    struct sockaddr address = {.sa_family = AF_UNIX};
    char name[128];
    socklen_t n = sizeof(name);
    dt_conns *all[2];
    int fd[4];
    (void)state;
    limits.most = limits.crowd = 99;
    dt_conns_free(conns);
    for (int i = 0; i < 2; i++)
        assert_int_equal(dt_conns_new(&limits, &events, NULL, &fake, &all[i], NULL), DT_OK);
    conns = all[0];
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, &address, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(listener, 5), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)name, &n), 0);
    assert_int_equal(dt_conns_listen(all[0], listener, NULL, NULL), DT_OK);
    dt_conns_share(all[0], all[1]);
    for (int i = 0; i < 4; i++) {
        fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)name, n), 0);
    }
    rounds(2);
    dt_conns_round(all[1]);
    assert_int_equal(dt_conns_count(all[0]), 2);
    assert_int_equal(dt_conns_count(all[1]), 2);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    dt_conns_free(all[1]);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(requests_are_answered_however_they_are_cut),
        TEST(requests_that_came_together_are_answered_in_one_write),
        TEST(a_request_is_answered_from_another_thread_and_the_next_one_follows),
        TEST(a_body_waits_until_its_owner_goes_on),
        TEST(an_owner_learns_that_its_client_has_left_and_keeps_the_connection_until_it_answers),
        TEST(a_client_that_ends_its_side_gets_all_its_answers),
        TEST(a_large_answer_comes_whole),
        TEST(every_wait_for_a_client_ends),
        TEST(a_stop_of_the_process_makes_no_client_late),
        TEST(a_full_server_ends_the_connection_that_has_been_silent_longest),
        TEST(an_answer_that_is_not_taken_gives_way_if_there_is_no_room),
        TEST(an_address_has_half_of_a_crowd),
        TEST(a_slow_body_loses_its_place_in_a_crowd_and_a_quick_one_keeps_it),
        TEST(a_client_is_seen_to_leave_behind_much_that_it_sent),
        TEST(a_newcomer_goes_to_the_thread_with_the_fewest_connections),
        TEST(requests_under_way_when_the_server_ends_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
