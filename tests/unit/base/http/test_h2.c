/*
 * Connections of HTTP/2, frame by frame. What a client says is text, and so is what it hears, one word a frame:
 *
 *   said    T.F.S:HEX       a frame of this type, these flags, this stream, each in hexadecimal digits; xN repeats the last word
 *   heard   H1=200 D1=5 .   HEADERS of stream 1 with its status; DATA with its length; a point is the end of a stream
 *           R1=8 G1=0       RST_STREAM with its code; GOAWAY with the last stream and its code
 *           S SA PA W1=9    SETTINGS, their ACK, the ACK of a PING, WINDOW_UPDATE (only if it is asked for)
 */
#include "unit/base/http/conns_suite.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>

#define PREFACE  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS " 4.0.0:"
/* Blocks of headers: method, http, authority x, path */
#define GET_ROOT "828684410178"
#define GET_LATER                                                                                                      \
    "8286410178"                                                                                                       \
    "04062f6c61746572"
#define GET_LARGE                                                                                                      \
    "8286410178"                                                                                                       \
    "04062f6c61726765"
#define POST_ROOT "838684410178"
#define POST_LATER                                                                                                     \
    "8386410178"                                                                                                       \
    "04062f6c61746572"
#define POST_PLACE                                                                                                     \
    "8386410178"                                                                                                       \
    "04062f706c616365"
#define POST_SLOWLY                                                                                                    \
    "8386410178"                                                                                                       \
    "04072f736c6f776c79"
#define POST_NO                                                                                                        \
    "8386410178"                                                                                                       \
    "04032f6e6f"
#define OPENED "S SA "

struct peer {
    int fd;
    nghttp2_hd_inflater *inflater;
    struct dt_strbuf in;    /* not understood yet */
    struct dt_strbuf heard; /* since the last question */
    bool windows;           /* WINDOW_UPDATE is listed, too */
    bool ended;
};

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Adds the frames that a text says. */
static void add_frames(struct dt_strbuf *out, const char *said)
{
    char *words = strdup(said);
    size_t last = 0;
    for (char *at = NULL, *word = strtok_r(words, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        char hex[40000] = "";
        unsigned type, flags, id, n;
        if (sscanf(word, "x%u", &n) == 1) {
            struct dt_strbuf again = {0};
            dt_strbuf_add(&again, out->p + last, out->n - last);
            while (--n)
                dt_strbuf_add(out, again.p, again.n);
            dt_strbuf_clear(&again);
            continue;
        }
        last = out->n;
        assert_true(sscanf(word, "%x.%x.%x:%39999s", &type, &flags, &id, hex) >= 3);
        n = (unsigned)strlen(hex) / 2;
        const unsigned char head[9] = {(unsigned char)(n >> 16),  (unsigned char)(n >> 8),  (unsigned char)n,
                                       (unsigned char)type,       (unsigned char)flags,     (unsigned char)(id >> 24),
                                       (unsigned char)(id >> 16), (unsigned char)(id >> 8), (unsigned char)id};
        dt_strbuf_add(out, (const char *)head, sizeof(head));
        for (unsigned i = 0; i < n; i++)
            dt_strbuf_addc(out, (char)(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1])));
    }
    free(words);
}

static uint32_t number(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void note_headers(struct peer *peer, const char *p, size_t n, unsigned id)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(peer->inflater, &nv, &flags, (const uint8_t *)p, n, 1);
        assert_true(used >= 0);
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && nv.namelen == 7 && memcmp(nv.name, ":status", 7) == 0)
            dt_strbuf_addf(&peer->heard, "H%u=%.*s", id, (int)nv.valuelen, (const char *)nv.value);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(peer->inflater);
}

static void note_frame(struct peer *peer, const char *frame, size_t n)
{
    const int type = frame[3], flags = frame[4];
    const unsigned id = number(frame + 5);
    const char *body = frame + 9;
    if (type == NGHTTP2_WINDOW_UPDATE && !peer->windows)
        return;
    switch (type) {
    case NGHTTP2_HEADERS:
        note_headers(peer, body, n, id);
        break;
    case NGHTTP2_DATA:
        dt_strbuf_addf(&peer->heard, "D%u=%zu", id, n);
        break;
    case NGHTTP2_SETTINGS:
        dt_strbuf_adds(&peer->heard, flags & 1 ? "SA" : "S");
        break;
    case NGHTTP2_PING:
        dt_strbuf_adds(&peer->heard, flags & 1 ? "PA" : "P");
        break;
    case NGHTTP2_RST_STREAM:
        dt_strbuf_addf(&peer->heard, "R%u=%u", id, number(body));
        break;
    case NGHTTP2_GOAWAY:
        dt_strbuf_addf(&peer->heard, "G%u=%u", number(body), number(body + 4));
        break;
    case NGHTTP2_WINDOW_UPDATE:
        dt_strbuf_addf(&peer->heard, "W%u=%u", id, number(body));
        break;
    default:
        dt_strbuf_addf(&peer->heard, "?%d", type);
    }
    if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && flags & 1)
        dt_strbuf_adds(&peer->heard, ".");
    dt_strbuf_addc(&peer->heard, ' ');
}

static void listen_once(struct peer *peer)
{
    char some[65536];
    ssize_t n = recv(peer->fd, some, sizeof(some), 0);
    peer->ended |= n == 0;
    if (n > 0)
        dt_strbuf_add(&peer->in, some, (size_t)n);
    size_t at = 0;
    while (peer->in.n - at >= 9) {
        const size_t length = number(peer->in.p + at) >> 8;
        if (peer->in.n - at < 9 + length)
            break;
        note_frame(peer, peer->in.p + at, length);
        at += 9 + length;
    }
    if (at)
        memmove(peer->in.p, peer->in.p + at, peer->in.n - at);
    peer->in.n -= at;
}

static void listen_for(struct peer *peer, int times)
{
    while (times--) {
        rounds(1);
        listen_once(peer);
    }
}

static void say_bytes(struct peer *peer, struct dt_str bytes, size_t piece)
{
    for (size_t at = 0; at < bytes.n;) {
        size_t some = bytes.n - at < piece ? bytes.n - at : piece;
        ssize_t n = send(peer->fd, bytes.p + at, some, MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        if (n < 0 && errno != EAGAIN)
            break; /* the server has ended it */
        listen_for(peer, 1);
    }
    listen_for(peer, 3);
}

static void say(struct peer *peer, const char *said)
{
    struct dt_strbuf bytes = {0};
    add_frames(&bytes, said);
    say_bytes(peer, dt_strbuf_str(&bytes), 99999);
    dt_strbuf_clear(&bytes);
}

/* What was heard since the last question. */
static void assert_heard(struct peer *peer, const char *wanted)
{
    listen_for(peer, 3);
    dt_strbuf_addc(&peer->heard, '\0');
    assert_string_equal(peer->heard.p, wanted);
    dt_strbuf_reset(&peer->heard);
}

static void open_peer(struct peer *peer, const char *said, size_t piece)
{
    struct dt_strbuf bytes = {0};
    *peer = (struct peer){.fd = connected(SOCK_STREAM)};
    assert_int_equal(nghttp2_hd_inflate_new(&peer->inflater), 0);
    dt_strbuf_adds(&bytes, PREFACE);
    add_frames(&bytes, said);
    say_bytes(peer, dt_strbuf_str(&bytes), piece);
    dt_strbuf_clear(&bytes);
}

static void close_peer(struct peer *peer)
{
    close(peer->fd);
    rounds(4);
    nghttp2_hd_inflate_del(peer->inflater);
    dt_strbuf_clear(&peer->in);
    dt_strbuf_clear(&peer->heard);
}

/* ---- tests ---- */

static void requests_are_answered_however_they_are_cut(void **state)
{
    static const struct {
        const char *said, *heard;
    } cases[] = {
        {SETTINGS " 1.5.1:" GET_ROOT, OPENED "H1=200 D1=1. "},
        {SETTINGS " 1.4.1:" POST_ROOT " 0.0.1:6869 0.1.1:21", OPENED "H1=200 D1=3. "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 200; piece = piece * 3 + 1) {
            struct peer peer;
            open_peer(&peer, cases[i].said, piece);
            assert_heard(&peer, cases[i].heard);
            close_peer(&peer);
            assert_int_equal(dt_conns_count(conns), 0);
        }
}

static void requests_of_one_connection_are_answered_side_by_side(void **state)
{
    struct peer peer;
    (void)state;
    limits.most = 99;
    begin_again();
    open_peer(&peer, SETTINGS " 1.5.1:" GET_LATER, 999);
    dt_conn *first = kept;
    say(&peer, "1.5.3:" GET_LATER " 1.5.5:" GET_ROOT);
    assert_heard(&peer, OPENED "H5=200 D5=1. ");
    pass_ms(60000); /* the time is the owner's */
    answer(kept, 200, "late", false);
    assert_heard(&peer, "H3=200 D3=4. ");
    close_peer(&peer);
    assert_int_equal(left, 1);
    assert_int_equal(dt_conns_count(conns), 2);
    answer(first, 200, "late", false);
    rounds(3);
    assert_int_equal(dt_conns_count(conns), 0);
    assert_int_equal(ended_sent, 2);
    assert_int_equal(ended_unsent, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(requests_are_answered_however_they_are_cut),
        TEST(requests_of_one_connection_are_answered_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
