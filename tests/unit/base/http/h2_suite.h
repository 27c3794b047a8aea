/*
 * The client of suites of HTTP/2, frame by frame. What a client says is text, and so is what it hears, one word a frame:
 *
 *   said    GET.5.1:/a,name=value   HEADERS with these flags, of this stream; !authority and such leave a pseudo-header out
 *           6.0.0:0000              a frame of this type, these flags, this stream, with this payload: all in hexadecimal; z9: nine zeros
 *           x9                      the last word, nine times in all; each further stream has the next number
 *   heard   H1=200 D1=5 .           HEADERS of stream 1 with its status; DATA with its length; a point ends the stream
 *           R1=8 G1=0               RST_STREAM with its code; GOAWAY with the last stream and its code
 *           S SA PA W1=9            SETTINGS, their ACK, the ACK of a PING; WINDOW_UPDATE, if it is asked for
 * Everything is static: a suite includes this once.
 */
#pragma once

#include "unit/base/http/conns_suite.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct peer {
    int fd;
    nghttp2_hd_inflater *inflater;
    struct dt_strbuf in;    /* not understood yet */
    struct dt_strbuf heard; /* since the last question */
    bool windows;           /* WINDOW_UPDATE is listed, too */
    bool ended;
};

/* ---- what is said ---- */

static void add_string(struct dt_strbuf *out, const char *p, size_t n)
{
    if (n < 127) {
        dt_strbuf_addc(out, (char)n);
    } else {
        dt_strbuf_addc(out, 127);
        for (size_t rest = n - 127;; rest >>= 7) {
            dt_strbuf_addc(out, (char)(rest >= 128 ? (rest & 127) | 128 : rest));
            if (rest < 128)
                break;
        }
    }
    dt_strbuf_add(out, p, n);
}

/* A header that the table does not keep. */
static void add_literal(struct dt_strbuf *out, const char *name, const char *value)
{
    dt_strbuf_addc(out, 0);
    add_string(out, name, strlen(name));
    add_string(out, value, strlen(value));
}

/* path,name=value,!pseudo */
static void add_block(struct dt_strbuf *out, const char *method, char *text)
{
    const char *pseudo[][2] = {{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", text}};
    char *more = strchr(text, ',');
    if (more)
        *more++ = '\0';
    for (size_t i = 0; i < 4; i++) {
        char without[16];
        snprintf(without, sizeof(without), "!%s", pseudo[i][0] + 1);
        if (!more || !strstr(more, without))
            add_literal(out, pseudo[i][0], pseudo[i][1]);
    }
    for (char *at = NULL, *field = more ? strtok_r(more, ",", &at) : NULL; field; field = strtok_r(NULL, ",", &at)) {
        char *value = strchr(field, '=');
        if (!value)
            continue;
        *value++ = '\0';
        add_literal(out, field, value);
    }
}

static void add_hex(struct dt_strbuf *out, const char *hex)
{
    if (hex[0] == 'z')
        for (int n = atoi(hex + 1); n > 0; n--)
            dt_strbuf_addc(out, 0);
    for (unsigned byte; hex[0] != 'z' && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        dt_strbuf_addc(out, (char)byte);
}

static void add_frame(struct dt_strbuf *out, unsigned type, unsigned flags, unsigned id, struct dt_str payload)
{
    const unsigned bytes[] = {(unsigned)payload.n >> 16,
                              (unsigned)payload.n >> 8,
                              (unsigned)payload.n,
                              type,
                              flags,
                              id >> 24,
                              id >> 16,
                              id >> 8,
                              id};
    for (size_t i = 0; i < 9; i++)
        dt_strbuf_addc(out, (char)(bytes[i] & 255));
    dt_strbuf_add(out, payload.p, payload.n);
}

static void add_word(struct dt_strbuf *out, const char *word, unsigned later)
{
    char method[16] = "";
    unsigned type = NGHTTP2_HEADERS;
    unsigned flags;
    unsigned id;
    struct dt_strbuf payload = {0};
    char *text = strdup(strchr(word, ':') + 1);
    if (word[0] >= 'A' && word[0] <= 'Z' && sscanf(word, "%15[A-Z].%x.%x:", method, &flags, &id) == 3) {
        add_block(&payload, method, text);
    } else {
        assert_int_equal(sscanf(word, "%x.%x.%x:", &type, &flags, &id), 3);
        add_hex(&payload, text);
    }
    add_frame(out, type, flags, id ? id + 2 * later : 0, dt_strbuf_str(&payload));
    dt_strbuf_clear(&payload);
    free(text);
}

static void add_frames(struct dt_strbuf *out, const char *said)
{
    char *words = strdup(said);
    const char *last = NULL;
    for (char *at = NULL, *word = strtok_r(words, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        const unsigned times = word[0] == 'x' ? (unsigned)atoi(word + 1) : 1;
        for (unsigned i = word[0] == 'x'; i < times; i++)
            add_word(out, word[0] == 'x' ? last : word, i);
        last = word[0] == 'x' ? last : word;
    }
    free(words);
}

/* ---- what is heard ---- */

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
    add_frames(&bytes, "4.0.0: 4.1.0:");
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
