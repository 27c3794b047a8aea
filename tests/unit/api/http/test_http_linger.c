/*
 * Sockets that outlive their requests: what is sent on them to the end, what is dropped, and that socket, memory and its
 * hold are given back once, however the peer behaves.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/suite.h"

#include "base/clock.h"
#include "http/http_linger.h"

#define LINGER_MAX   64
#define SOCKETS_MAX  320
#define ANSWERS      (SOCKETS_MAX - LINGER_MAX)
#define LARGE        ((size_t)64 * 1024) /* more than a socket takes here */
#define SOCKET_TAKES 4096
#define LATER        INT64_C(1000000) /* us; `now` is 1 */

static dt_linger *linger;
static struct dt_budget budget;
static int descriptors, theirs[2 * SOCKETS_MAX], n_theirs;

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void make(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    descriptors = open_descriptors();
    n_theirs = 0;
    dt_budget_init(&budget, 1000 * LARGE);
    assert_int_equal(dt_linger_new(&linger), DT_OK);
}

static void hang_up(int i)
{
    close(theirs[i]);
    theirs[i] = -1;
}

static void drop(void)
{
    dt_linger_free(linger);
    assert_int_equal(dt_budget_held(&budget), 0);
    for (int i = 0; i < n_theirs; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    assert_int_equal(open_descriptors(), descriptors);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

/* Our end of a new connection; the peer's is the last of theirs. */
static int connection(void)
{
    const int takes = SOCKET_TAKES;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &takes, sizeof(takes)), 0);
    theirs[n_theirs++] = ends[1];
    return ends[0];
}

static char pattern(size_t i)
{
    return (char)('a' + i % 23);
}

/* Hands over an answer of n bytes on a new connection. */
static void answer_of(int64_t owner, size_t n)
{
    struct dt_strbuf text = {0};
    struct dt_hold hold;
    dt_hold_init(&hold, &budget);
    assert_true(dt_hold_more(&hold, n));
    for (size_t i = 0; i < n; i++)
        dt_strbuf_addc(&text, pattern(i));
    dt_linger_send(linger, connection(), &text, &hold, owner, 1, LATER);
    assert_null(text.p);
    assert_int_equal(hold.n, 0);
}

static void answer(size_t n)
{
    answer_of(1, n);
}

static void look(void)
{
    dt_linger_wait(linger, 1, 0);
}

/* What the peer finds, up to `most` bytes of it. -1: nothing now; 0: the end. */
static ssize_t read_peer(int i, char *p, size_t most)
{
    return recv(theirs[i], p, most, MSG_DONTWAIT);
}

static void assert_end(int i)
{
    char byte;
    assert_int_equal(read_peer(i, &byte, 1), 0);
}

static void assert_silence(int i)
{
    char byte;
    assert_int_equal(read_peer(i, &byte, 1), -1);
}

/* ---- answers ---- */

FRESH_TEST(an_answer_is_sent_with_its_end_and_its_socket_stays_until_the_peer_leaves)
{
    char text[20];
    answer(10);
    assert_int_equal(dt_linger_unsent(linger), 0);
    assert_int_equal(dt_budget_held(&budget), 0);
    assert_int_equal(read_peer(0, text, sizeof(text)), 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(text[i], pattern(i));
    assert_end(0);
    int before = open_descriptors();
    look();
    look();
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(send(theirs[0], "more", 4, MSG_NOSIGNAL), 4); /* nobody minds */
    look();
    assert_int_equal(open_descriptors(), before);
    hang_up(0);
    look();
    assert_int_equal(open_descriptors(), before - 2);
}

FRESH_TEST(a_large_answer_goes_as_its_peer_reads_it_and_is_paid_for_until_then)
{
    static char text[LARGE];
    size_t got = 0;
    answer(LARGE);
    assert_int_equal(dt_linger_unsent(linger), 1);
    assert_int_equal(dt_budget_held(&budget), LARGE);
    for (int rounds = 0; got < LARGE && rounds < 100000; rounds++) {
        ssize_t n = read_peer(0, text + got, 50000);
        got += n > 0 ? (size_t)n : 0;
        look();
    }
    assert_int_equal(got, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        if (text[i] != pattern(i))
            fail_msg("byte %zu", i);
    look();
    assert_end(0);
    assert_int_equal(dt_linger_unsent(linger), 0);
    assert_int_equal(dt_budget_held(&budget), 0);
}

FRESH_TEST(an_answer_whose_peer_has_left_is_given_up)
{
    int before = open_descriptors();
    answer(LARGE);
    hang_up(0);
    look();
    assert_int_equal(dt_linger_unsent(linger), 0);
    assert_int_equal(dt_budget_held(&budget), 0);
    assert_int_equal(open_descriptors(), before);
}

FRESH_TEST(a_peer_that_says_no_more_still_gets_its_answer)
{
    static char text[LARGE];
    size_t got = 0;
    answer(LARGE);
    shutdown(theirs[0], SHUT_WR);
    for (int rounds = 0; got < LARGE && rounds < 100000; rounds++) {
        ssize_t n = read_peer(0, text, sizeof(text));
        got += n > 0 ? (size_t)n : 0;
        look();
    }
    assert_int_equal(got, LARGE);
    look();
    assert_int_equal(dt_linger_unsent(linger), 0);
}

FRESH_TEST(a_socket_that_lingers_too_long_is_closed)
{
    int before = open_descriptors();
    answer(LARGE);
    answer(10);
    for (int64_t now_us = 1; now_us < LATER - 1; now_us += LATER / 4)
        dt_linger_wait(linger, now_us, 0);
    dt_linger_wait(linger, LATER - 1, 0);
    assert_int_equal(dt_linger_unsent(linger), 1);
    assert_int_equal(open_descriptors(), before + 4);
    dt_linger_wait(linger, LATER, 0);
    assert_int_equal(dt_linger_unsent(linger), 0);
    assert_int_equal(dt_budget_held(&budget), 0);
    assert_int_equal(open_descriptors(), before + 2);
}

FRESH_TEST(a_client_is_not_late_when_the_process_was_stopped)
{
    answer(LARGE);
    look();
    dt_linger_wait(linger, 3 * LATER, 0);
    assert_int_equal(dt_linger_unsent(linger), 1);
    for (int64_t now_us = 3 * LATER; now_us < 4 * LATER - 1; now_us += LATER / 4)
        dt_linger_wait(linger, now_us, 0);
    assert_int_equal(dt_linger_unsent(linger), 1);
    dt_linger_wait(linger, 4 * LATER, 0);
    assert_int_equal(dt_linger_unsent(linger), 0);
}

FRESH_TEST(every_place_can_be_taken_and_one_more_is_closed_at_once)
{
    int before = open_descriptors();
    for (int i = 0; i < ANSWERS; i++)
        answer_of(i + 1, LARGE);
    assert_int_equal(dt_linger_unsent(linger), ANSWERS);
    answer_of(ANSWERS + 1, LARGE);
    assert_int_equal(dt_linger_unsent(linger), ANSWERS);
    assert_int_equal(dt_budget_held(&budget), ANSWERS * LARGE);
    assert_int_equal(open_descriptors(), before + 2 * ANSWERS + 1);
    look();
    look();
    hang_up(ANSWERS - 1); /* the last of them is looked at, too */
    look();
    assert_int_equal(dt_linger_unsent(linger), ANSWERS - 1);
    answer_of(ANSWERS + 2, LARGE);
    assert_int_equal(dt_linger_unsent(linger), ANSWERS);
}

FRESH_TEST(test_an_owner_whose_clients_read_nothing_leaves_places_to_the_answers_of_others)
{
    for (int i = 0; i < ANSWERS; i++)
        answer_of(1, LARGE);
    assert_int_equal(dt_linger_unsent(linger), ANSWERS - ANSWERS / 8);
    answer_of(2, LARGE);
    assert_int_equal(dt_linger_unsent(linger), ANSWERS - ANSWERS / 8 + 1);
    for (int i = 0; i < ANSWERS; i++)
        hang_up(i);
    look();
    assert_int_equal(dt_linger_unsent(linger), 1);
}

/* ---- input that is dropped ---- */

FRESH_TEST(bytes_that_arrive_while_a_socket_lingers_are_dropped)
{
    static char waste[100000];
    int fd = connection();
    int before = open_descriptors();
    dt_linger_add(linger, fd, LATER);
    assert_int_equal(open_descriptors(), before + 1);
    close(fd);
    for (int i = 0; i < 50; i++) {
        assert_true(send(theirs[0], waste, sizeof(waste), MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
        look();
    }
    assert_silence(0);
    hang_up(0);
    look();
    assert_int_equal(open_descriptors(), before - 2);
}

FRESH_TEST(so_many_linger_and_no_more)
{
    int before = open_descriptors();
    for (int i = 0; i < LINGER_MAX + 1; i++) {
        int fd = connection();
        dt_linger_add(linger, fd, LATER);
        close(fd);
    }
    assert_int_equal(open_descriptors(), before + 2 * LINGER_MAX + 1);
    assert_end(LINGER_MAX);
    assert_silence(LINGER_MAX - 1);
    answer(10); /* has a place of its own */
    assert_int_equal(open_descriptors(), before + 2 * LINGER_MAX + 3);
    dt_linger_add(linger, -1, LATER); /* no socket */
    assert_int_equal(open_descriptors(), before + 2 * LINGER_MAX + 3);
}

/* ---- waiting ---- */

FRESH_TEST(a_thread_that_waits_for_the_sockets_is_woken)
{
    int64_t begin_us = dt_clock_mono_us(dt_clock_system());
    for (int i = 0; i < 3; i++) {
        dt_linger_wake(linger);
        dt_linger_wake(linger);
        dt_linger_wait(linger, 1, 60000);
    }
    int fd = connection();
    dt_linger_add(linger, fd, LATER);
    close(fd);
    dt_linger_wait(linger, 1, 60000); /* who is added wakes, too */
    assert_true(dt_clock_mono_us(dt_clock_system()) - begin_us < 20 * INT64_C(1000000));
    begin_us = dt_clock_mono_us(dt_clock_system());
    dt_linger_wait(linger, 1, 60000); /* while a socket has an end, it is looked at four times a second */
    assert_in_range(dt_clock_mono_us(dt_clock_system()) - begin_us, 240000, 20000000);
}

SUITE(NULL, NULL)
