/*
 * A connection as a whole, from bytes to answers: however the bytes arrive, the answers are the same; each request has
 * one; and when the client has ended its side, the connection ends.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/connection.h"
#include "fuzz.h"

static dt_conns *conns;
static unsigned begun, ended, refused;

struct own {
    size_t n;
    char first;
};

static int64_t zero(const dt_clock *clock)
{
    (void)clock;
    return 0;
}

static void answer(dt_conn *conn, int status, size_t n)
{
    struct dt_strbuf body = {0};
    dt_strbuf_addf(&body, "%zu", n);
    dt_conn_answer(conn, &(struct dt_reply){.status = status, .body = &body});
    dt_strbuf_clear(&body);
}

static void on_begun(dt_conn *conn, const struct dt_head *head)
{
    struct own *own = dt_conn_own(conn);
    *own = (struct own){.first = head->target.p[head->target.n - 1]};
    begun++;
    MUST(head->method.n && head->target.n);
    if (own->first == 'n')
        answer(conn, 403, 0);
}

static size_t on_body(dt_conn *conn, const char *p, size_t n)
{
    struct own *own = dt_conn_own(conn);
    MUST(n > 0);
    MUST(p[0] == p[0] && p[n - 1] == p[n - 1]); /* all of it can be read */
    own->n += n;
    return n;
}

static void on_whole(dt_conn *conn)
{
    struct own *own = dt_conn_own(conn);
    answer(conn, 200, own->n);
}

static void on_refused(dt_conn *conn, int status, const char *detail)
{
    MUST(status >= 400 && detail[0]);
    refused++;
    answer(conn, status, strlen(detail));
}

static void on_ended(dt_conn *conn, bool sent)
{
    (void)conn, (void)sent;
    ended++;
}

/* Reads the answers that are there, without the lines that only ask for a body. */
static void hear(int fd, struct dt_strbuf *out)
{
    char some[4096];
    for (ssize_t n; (n = recv(fd, some, sizeof(some), MSG_DONTWAIT)) > 0;)
        dt_strbuf_add(out, some, (size_t)n);
    for (char *p; out->n && (p = memmem(out->p, out->n, "HTTP/1.1 100 Continue\r\n\r\n", 25)) != NULL; out->n -= 25)
        memmove(p, p + 25, out->n - 25 - (size_t)(p - out->p));
}

static void run(struct dt_str text, size_t step, struct dt_strbuf *out)
{
    int pair[2];
    begun = ended = refused = 0;
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    MUST(dt_conns_adopt(conns, pair[0], NULL, 0, NULL));
    for (size_t at = 0; at < text.n; at += step) {
        (void)send(pair[1], text.p + at, text.n - at < step ? text.n - at : step, MSG_NOSIGNAL);
        dt_evloop_wake(dt_conns_loop(conns));
        dt_conns_round(conns);
        hear(pair[1], out);
    }
    shutdown(pair[1], SHUT_WR);
    for (int i = 0; i < 1000 && dt_conns_count(conns); i++) {
        dt_evloop_wake(dt_conns_loop(conns));
        dt_conns_round(conns);
        hear(pair[1], out);
    }
    MUST(dt_conns_count(conns) == 0);
    MUST(ended >= begun && ended <= begun + refused && refused <= 1);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const dt_clock still = {zero, zero, NULL};
    static const struct dt_conn_rules rules = {9, 9, 1000000, 1000000, 1000000, 1000000, NULL, NULL};
    static const struct dt_conn_events events = {
        sizeof(struct own), on_begun, on_body, on_whole, on_refused, NULL, NULL, on_ended, NULL};
    struct dt_str text = {(const char *)data, size};
    struct dt_strbuf at_once = {0}, in_pieces = {0};
    if (!conns)
        MUST(dt_conns_new(&rules, &events, NULL, &still, &conns, NULL) == DT_OK);
    run(text, size ? size : 1, &at_once);
    run(text, size ? 1 + data[size - 1] % 7 + size / 40 : 1, &in_pieces);
    MUST(dt_str_eq(dt_strbuf_str(&at_once), dt_strbuf_str(&in_pieces)));
    dt_strbuf_clear(&at_once);
    dt_strbuf_clear(&in_pieces);
    return 0;
}
