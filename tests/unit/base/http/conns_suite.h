/* The set-up of the suites of connections: pairs of sockets, round by round, a clock that the tests move, and an owner
 * whose doings the path of a request says. Everything is static: a suite includes this once. */
#pragma once

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/http/connection.h"
#include "base/http/loop.h"

static int64_t mono_us;

static int64_t read_mono(const dt_clock *)
{
    return mono_us;
}

static int64_t read_real(const dt_clock *)
{
    return 500;
}

static const dt_clock fake = {read_mono, read_real, NULL};

/* ---- the owner: what it does with a request, its path says ---- */

struct own {
    char path[32];
    char body[64];
    size_t n;
};

static dt_conns *conns;
static dt_conn *kept; /* of /later, /place and /slowly */
static int ended_sent, ended_unsent;

static void answer(dt_conn *conn, int status, const char *text, bool close)
{
    struct dt_strbuf body = {0};
    dt_strbuf_adds(&body, text);
    dt_conn_answer(conn, &(struct dt_reply){.status = status, .type = "text/plain", .body = &body, .close = close});
    dt_strbuf_clear(&body);
}

static void on_begun(dt_conn *conn, const struct dt_head *head)
{
    struct own *own = dt_conn_own(conn);
    const struct dt_str path = dt_target_path(head->target);
    snprintf(own->path, sizeof(own->path), "%.*s", (int)path.n, path.p);
    own->n = 0;
    if (strcmp(own->path, "/no") == 0)
        answer(conn, 403, "no\n", false);
    if (strcmp(own->path, "/known") == 0)
        dt_conn_known(conn);
    if (strcmp(own->path, "/place") == 0) {
        kept = conn;
        dt_conn_wait(conn);
    }
}

static size_t on_body(dt_conn *conn, const char *p, size_t n)
{
    struct own *own = dt_conn_own(conn);
    if (strcmp(own->path, "/slowly") == 0 && n > 2) {
        kept = conn;
        n = 2;
    }
    for (size_t i = 0; i < n; i++)
        own->body[own->n++ % (sizeof(own->body) - 1)] = p[i];
    return n;
}

static void on_whole(dt_conn *conn)
{
    struct own *own = dt_conn_own(conn);
    own->body[own->n < sizeof(own->body) - 1 ? own->n : sizeof(own->body) - 1] = '\0';
    if (strcmp(own->path, "/later") == 0 || strcmp(own->path, "/listen") == 0) {
        kept = conn;
        if (own->path[2] == 'i')
            dt_conn_listen(conn);
    } else if (strcmp(own->path, "/large") == 0) {
        struct dt_strbuf body = {0};
        for (int i = 0; i < 100000; i++)
            dt_strbuf_addf(&body, "line %5d\n", i);
        dt_conn_answer(conn, &(struct dt_reply){.status = 200, .body = &body});
        dt_strbuf_clear(&body);
    } else {
        answer(conn, 200, own->n ? own->body : own->path, false);
    }
}

static void on_refused(dt_conn *conn, int status, const char *)
{
    answer(conn, status, "!\n", false);
}

static void on_ended(dt_conn *conn, bool sent)
{
    kept = kept == conn ? NULL : kept;
    *(sent ? &ended_sent : &ended_unsent) += 1;
}

/* What a program that has a request sees of its client. */
static bool has_left(dt_conn *conn)
{
    struct pollfd polled = {.fd = dt_conn_fd(conn), .events = POLLRDHUP};
    return poll(&polled, 1, 0) == 1 && polled.revents & POLLRDHUP;
}

/* ---- clients ---- */

static struct dt_conn_rules limits;
static const struct dt_conn_rules rules = {
    .most = 3, .crowd = 9, .head_us = 2000000, .idle_us = 9000000, .body_us = 4000000, .send_us = 3000000};
static const struct dt_conn_events events = {sizeof(struct own), on_begun, on_body, on_whole,
                                             on_refused,         NULL,     on_ended};

static int begin(void **)
{
    limits = rules;
    mono_us = 1000000;
    kept = NULL;
    ended_sent = ended_unsent = 0;
    return dt_conns_new(&limits, &events, NULL, &fake, &conns, NULL) == DT_OK ? 0 : -1;
}

/* Begins again, with other limits. */
static void begin_again(void)
{
    dt_conns_free(conns);
    assert_int_equal(dt_conns_new(&limits, &events, NULL, &fake, &conns, NULL), DT_OK);
}

static int end(void **)
{
    dt_conns_free(conns);
    return 0;
}

static int connected(int type)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(dt_conns_adopt(conns, pair[0], NULL, 0, NULL, false));
    return pair[1];
}

static void rounds(int n)
{
    while (n--) {
        dt_evloop_wake(dt_conns_loop(conns));
        dt_conns_round(conns);
    }
}

static void pass_ms(int ms)
{
    for (int i = 0; i < ms; i += 50) {
        mono_us += 50000;
        rounds(1);
    }
}
