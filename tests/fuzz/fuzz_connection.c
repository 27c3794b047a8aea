/* A connection as a whole, from bytes to answers: however the bytes arrive, the answers are the same; each request has
 * one; and when the client has ended its side, the connection ends. An input that begins with a 2 is frames of HTTP/2,
 * four bytes of each before its payload: type, flags, stream, length. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/connection.h"
#include "fuzz.h"

static dt_conns *conns;
static unsigned begun, ended, refused;
static dt_conn *held[512]; /* requests that go on, or are answered, in a later round */
static size_t n_held;

struct own {
    size_t n;
    char first;
    bool waits;
};

static int64_t zero(const dt_clock *)
{
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
    if (own->first == 'w' && n_held < sizeof(held) / sizeof(held[0])) {
        own->waits = true;
        held[n_held++] = conn;
        dt_conn_wait(conn);
    }
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
    if (own->first == 'l' && n_held < sizeof(held) / sizeof(held[0]))
        held[n_held++] = conn;
    else
        answer(conn, 200, own->n);
}

static void on_refused(dt_conn *conn, int status, const char *detail)
{
    MUST(status >= 400 && detail[0]);
    refused++;
    answer(conn, status, strlen(detail));
}

static void on_ended(dt_conn *conn, bool)
{
    for (size_t i = 0; i < n_held; i++)
        MUST(held[i] != conn); /* it was its owner's */
    ended++;
}

static void turn(void)
{
    dt_evloop_wake(dt_conns_loop(conns));
    dt_conns_round(conns);
    for (size_t n = n_held; n--;) {
        dt_conn *conn = held[0];
        struct own *own = dt_conn_own(conn);
        memmove(held, held + 1, --n_held * sizeof(held[0]));
        if (own->waits) {
            own->waits = false;
            dt_conn_go_on(conn);
        } else {
            answer(conn, 200, own->n);
        }
    }
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

/* The frames of an input. */
static void add_frames(struct dt_strbuf *out, struct dt_str text)
{
    dt_strbuf_adds(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    while (text.n >= 4) {
        const unsigned char *p = (const unsigned char *)text.p;
        const size_t n = p[3] < text.n - 4 ? p[3] : text.n - 4;
        const char head[9] = {0, 0, (char)n, text.p[0], text.p[1], 0, 0, 0, text.p[2]};
        dt_strbuf_add(out, head, sizeof(head));
        dt_strbuf_add(out, text.p + 4, n);
        text = (struct dt_str){text.p + 4 + n, text.n - 4 - n};
    }
}

static void run(struct dt_str text, size_t step, struct dt_strbuf *out)
{
    int pair[2];
    begun = ended = refused = 0;
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    MUST(dt_conns_adopt(conns, pair[0], NULL, 0, NULL, false));
    for (size_t at = 0; at < text.n; at += step) {
        (void)send(pair[1], text.p + at, text.n - at < step ? text.n - at : step, MSG_NOSIGNAL);
        turn();
        hear(pair[1], out);
    }
    shutdown(pair[1], SHUT_WR);
    for (int i = 0; i < 1000 && dt_conns_count(conns); i++) {
        turn();
        hear(pair[1], out);
    }
    MUST(dt_conns_count(conns) == 0);
    MUST(ended >= begun && ended <= begun + refused);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const dt_clock still = {zero, zero, NULL};
    static const struct dt_conn_rules rules = {9, 9, 1000000, 1000000, 1000000, 1000000, NULL, NULL};
    static const struct dt_conn_events events = {sizeof(struct own), on_begun, on_body, on_whole,
                                                 on_refused,         NULL,     on_ended};
    struct dt_str text = {(const char *)data, size};
    struct dt_strbuf at_once = {0}, in_pieces = {0}, frames = {0};
    const bool frames_alone = size && data[0] == 2;
    const bool h2 = frames_alone || (size > 3 && memcmp(data, "PRI", 3) == 0);
    if (!conns)
        MUST(dt_conns_new(&rules, &events, NULL, &still, &conns, NULL) == DT_OK);
    if (frames_alone) {
        add_frames(&frames, (struct dt_str){text.p + 1, text.n - 1});
        text = dt_strbuf_str(&frames);
    }
    run(text, text.n ? text.n : 1, &at_once);
    MUST(h2 || refused <= 1);
    run(text, size ? 1 + data[size - 1] % 7 + size / 40 : 1, &in_pieces);
    MUST(h2 || dt_str_eq(dt_strbuf_str(&at_once), dt_strbuf_str(&in_pieces)));
    dt_strbuf_clear(&at_once);
    dt_strbuf_clear(&in_pieces);
    dt_strbuf_clear(&frames);
    return 0;
}
