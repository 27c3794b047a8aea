/*
 * Owns the frames of HTTP/2 connections: see connection_parts.h. Does not know what requests mean, and how sockets are
 * read and written.
 *
 *   HEADERS --> text of a head, as HTTP/1 has it --> judged by parse.c --> begun --> DATA: body --> END_STREAM: whole
 *   answer  --> HEADERS, DATA as the client opens its windows --> END_STREAM --> ended
 *
 * libnghttp2 keeps the states of streams, windows and tables of headers. A stream's window is opened as its owner
 * takes the body, so that at most 64 KiB of a stream are held; the connection's window is opened at once, so that
 * no stream waits for another.
 *
 * Frames that carry no request and no data count as noise: see `count_noise`. If a client sends too many of them, the
 * connection ends with ENHANCE_YOUR_CALM.
 *
 * Invariants: a stream is in the list of its connection until it is closed. `id` is 0 once libnghttp2 has forgotten
 * the stream, or is about to. Streams are closed in turns and in callbacks of libnghttp2, never in an owner's call.
 */
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/log.h"
#include "connection_parts.h"

#define STREAMS     128               /* most streams at a time; a client with more requests opens another connection */
#define WINDOW      (1 << 20)         /* window of a connection in bytes; a stream has the standard's, 65,535 bytes */
#define BLOCK_MOST  (4 * DT_HEAD_MAX) /* most bytes of a header block as it is sent, plus BLOCK_FRAME a frame */
#define BLOCK_FRAME DT_TARGET_MAX /* bytes that are counted for a frame of a header block, in addition to its length */
/* Most bytes of all headers, repeated ones included; above DT_HEAD_MAX, the client gets 431. */
#define FIELDS_MOST (8 * DT_HEAD_MAX)
#define NOISE_US    INT64_C(10000) /* time after which a frame of noise (count_noise) no longer counts */
#define NOISE_MOST  INT64_C(1000)  /* most frames of noise at a time; if a client sends more, its connection ends */
#define KEPT        1024           /* a buffer with room for more bytes is freed before the next head */
#define FRAME_HEAD  9
#define REPLY_NVS   48

/* Texts of the current header block: values of pseudo-headers, and the whole block in the form of HTTP/1. */
enum text { METHOD, PATH, AUTHORITY, HEAD, TEXTS };
static const char *const pseudo_names[] = {":method", ":path", ":authority"};

struct dt_h2 {
    struct dt_conn *conn;
    nghttp2_session *session;
    bool leaving; /* GOAWAY was sent, or is about to be sent */
    int64_t noisy_until_us;
    /* State of the current header block. */
    size_t block, fields; /* bytes of the block, and of its headers (BLOCK_MOST, FIELDS_MOST) */
    const char *fault;    /* reason why the block is refused, static text; NULL: none */
    struct dt_strbuf texts[TEXTS];
};

/* ---- noise ---- */

static int end_flooding_connection(struct dt_h2 *h2, const char *what)
{
    DT_LOG(DEBUG, "http", "a client floods its connection", DT_S("what", what));
    dt_metric_add(h2->conn->conns->rules.meters->flooded, 1);
    (void)nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Lowers the count of noise by `frames`. Every frame counts as noise, except DATA with bytes and without padding. An
 * answered request lowers the count by four, and each KiB of a response by one, because clients send about as many
 * window updates. So the count rises by resets, pings, settings, and window updates of a few bytes. */
static void subtract_noise(struct dt_h2 *h2, size_t frames)
{
    h2->noisy_until_us -= (int64_t)frames * NOISE_US;
}

static void clear_request_head(struct dt_h2 *h2)
{
    for (int i = 0; i < TEXTS; i++)
        if (h2->texts[i].cap > KEPT)
            dt_strbuf_clear(&h2->texts[i]);
        else
            dt_strbuf_reset(&h2->texts[i]);
    h2->conn->heading = false;
    h2->fields = 0;
    h2->fault = NULL;
}

static int count_noise(nghttp2_session *, const nghttp2_frame_hd *frame, void *arg)
{
    struct dt_h2 *h2 = arg;
    const int64_t now_us = h2->conn->conns->loop.now_us;
    const bool block = frame->type == NGHTTP2_HEADERS || frame->type == NGHTTP2_CONTINUATION;
    h2->block = (frame->type == NGHTTP2_CONTINUATION ? h2->block : 0) + (block ? frame->length + BLOCK_FRAME : 0);
    if (frame->type == NGHTTP2_HEADERS)
        clear_request_head(h2);
    h2->conn->heading = block;
    if (h2->block > BLOCK_MOST)
        return end_flooding_connection(h2, "a header block");
    if (frame->type == NGHTTP2_DATA && frame->length && !(frame->flags & NGHTTP2_FLAG_PADDED))
        return 0;
    h2->noisy_until_us = dt_later(h2->noisy_until_us, now_us) + NOISE_US;
    return h2->noisy_until_us - now_us > NOISE_MOST * NOISE_US ? end_flooding_connection(h2, "frames") : 0;
}

/* ---- the end of a stream ---- */

/* Ends the request and closes the stream. If the client expects more of the stream, resets it. */
static void end_stream(struct dt_conn *stream)
{
    struct dt_conn *conn = stream->parent;
    if (stream->id) {
        (void)nghttp2_session_set_stream_user_data(conn->h2->session, stream->id, NULL);
        (void)nghttp2_submit_rst_stream(conn->h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    }
    DL_DELETE2(conn->streams, stream, older, newer);
    conn->served = conn->moved = true;
    dt_conn_end_request(stream, stream->parted);
    dt_conn_close(stream);
}

/* Marks a stream that the client no longer reads. A turn of the stream tells its owner, or closes it. */
static void mark_stream_broken(struct dt_conn *stream)
{
    if (stream->sock.broken)
        return;
    stream->sock.broken = true;
    if (stream->poll_fd >= 0)
        shutdown(stream->poll_fd, SHUT_RDWR);
    dt_evloop_again(&stream->conns->loop, &stream->source);
}

void dt_h2_break(struct dt_conn *conn)
{
    struct dt_conn *stream;
    DL_FOREACH2(conn->streams, stream, newer)
    mark_stream_broken(stream);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t, void *arg)
{
    struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream)
        stream->id = 0;
    if (stream && stream->parted) {
        subtract_noise(arg, 4);
        end_stream(stream);
    } else if (stream) {
        mark_stream_broken(stream);
    }
    return 0;
}

int dt_h2_poll_fd(struct dt_conn *stream)
{
    if (stream->poll_fd < 0) { /* a socket without a peer is enough: after shutdown, poll reports that it is closed */
        stream->poll_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (stream->poll_fd >= 0 && stream->sock.broken)
            shutdown(stream->poll_fd, SHUT_RDWR);
    }
    return stream->poll_fd;
}

/* ---- bodies ---- */

/* Puts the stream into the queue of its next wait. */
static void queue_stream(struct dt_conn *stream)
{
    static const nghttp2_nv goes_on = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
    if (dt_conn_owes_continue(stream))
        (void)nghttp2_submit_headers(stream->parent->h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, &goes_on, 1,
                                     NULL);
    dt_conn_requeue(stream);
}

/* Offers bytes of the body to the owner, and opens the window by the bytes that were taken. */
static size_t offer_body(struct dt_conn *stream, struct dt_str text)
{
    const size_t taken = stream->whole ? text.n : stream->waiting ? 0 : dt_conn_offer(stream, text);
    stream->frames.left -= taken;
    if (stream->id && taken)
        (void)nghttp2_session_consume_stream(stream->parent->h2->session, stream->id, taken);
    return taken;
}

/* Passes the body bytes that have arrived to the owner. */
static void pass_arrived_body(struct dt_conn *stream)
{
    struct dt_strbuf *held = &stream->held;
    const size_t taken = held->n ? offer_body(stream, dt_strbuf_str(held)) : 0;
    held->n -= taken;
    if (held->n)
        memmove(held->p, held->p + taken, held->n);
    else
        dt_strbuf_clear(held);
    if (!stream->whole && !stream->waiting && !held->n && stream->frames.next == DT_FRAME_HEAD)
        dt_conn_complete_request(stream);
    queue_stream(stream);
}

static int on_data(nghttp2_session *session, uint8_t, int32_t id, const uint8_t *p, size_t n, void *)
{
    struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, id);
    const struct dt_str text = {(const char *)p, n};
    (void)nghttp2_session_consume_connection(session, n);
    if (!stream)
        return 0;
    const size_t taken = stream->held.n ? 0 : offer_body(stream, text);
    if (taken < n)
        dt_strbuf_add(&stream->held, text.p + taken, n - taken);
    queue_stream(stream);
    return stream->held.failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

void dt_h2_serve(struct dt_conn *stream)
{
    if (!stream->sock.broken)
        pass_arrived_body(stream);
    else if (!dt_conn_is_owners(stream))
        end_stream(stream);
}

/* ---- heads ---- */

/* Returns the text of the head. At the first call, when all pseudo-headers have arrived, writes the request line, and
 * Host from :authority. */
static struct dt_strbuf *begin_head(struct dt_h2 *h2)
{
    struct dt_strbuf *head = &h2->texts[HEAD];
    const struct dt_strbuf *path = &h2->texts[h2->texts[PATH].n ? PATH : AUTHORITY]; /* CONNECT has no path */
    if (head->n)
        return head;
    dt_strbuf_add(head, h2->texts[METHOD].p, h2->texts[METHOD].n);
    dt_strbuf_addc(head, ' ');
    dt_strbuf_add(head, path->p, path->n);
    dt_strbuf_adds(head, " HTTP/1.1\r\n");
    if (h2->texts[AUTHORITY].n)
        dt_reply_add_header(head, DT_STR_LIT("host"), dt_strbuf_str(&h2->texts[AUTHORITY]));
    return head;
}

static int on_header(nghttp2_session *, const nghttp2_frame *frame, const uint8_t *name_p, size_t name_n,
                     const uint8_t *value_p, size_t value_n, uint8_t, void *arg)
{
    struct dt_h2 *h2 = arg;
    const struct dt_str name = {(const char *)name_p, name_n};
    const struct dt_str value = {(const char *)value_p, value_n};
    h2->fields += name.n + value.n;
    if (h2->fields > FIELDS_MOST)
        return end_flooding_connection(h2, "headers");
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers are dropped */
    if (memchr(value.p, '\n', value.n) || memchr(value.p, '\r', value.n))
        h2->fault = "a header's value has a control character";
    if (name.n && name.p[0] == ':') { /* :scheme has no effect here */
        for (int i = 0; i < HEAD; i++)
            if (dt_str_is(name, pseudo_names[i]))
                dt_strbuf_add(&h2->texts[i], value.p, value.n);
        return 0;
    }
    struct dt_strbuf *head = begin_head(h2);
    if (!h2->texts[AUTHORITY].n || !dt_str_is(name, "host")) {
        if (head->n <= DT_HEAD_MAX)
            dt_reply_add_header(head, name, value);
    } else if (!dt_str_eq(value, dt_strbuf_str(&h2->texts[AUTHORITY]))) {
        h2->fault = "Host differs from :authority";
    }
    return 0;
}

static int on_invalid_header(nghttp2_session *, const nghttp2_frame *, const uint8_t *, size_t, const uint8_t *, size_t,
                             uint8_t, void *h2)
{
    ((struct dt_h2 *)h2)->fault = "a header's name or value has an invalid byte";
    return 0;
}

/* Called if a frame is invalid. libnghttp2 answers it, so only the collected head is dropped. */
static int on_invalid_frame(nghttp2_session *, const nghttp2_frame *, int, void *h2)
{
    clear_request_head(h2);
    return 0;
}

/* Makes a stream whose head is complete. NULL: memory ran out. */
static struct dt_conn *new_stream(struct dt_conn *conn, int32_t id)
{
    struct dt_conns *conns = conn->conns;
    struct dt_conn *stream = calloc(1, sizeof(*stream) + conns->events.own);
    if (!stream)
        return NULL;
    stream->conns = conns;
    stream->source = (struct dt_evsource){.ready = conn->source.ready, .owner = stream};
    stream->sock = (struct dt_sock){.fd = conn->sock.fd, .greeted = true};
    stream->parent = conn;
    stream->id = id;
    stream->poll_fd = -1;
    stream->known = conn->known;
    stream->local = conn->local;
    memcpy(stream->address, conn->address, DT_ADDRESS_BYTES);
    atomic_fetch_add(&conns->count, 1);
    DL_APPEND2(conn->streams, stream, older, newer);
    dt_conn_join(stream, DT_WAIT_OWNER);
    return stream;
}

/* Handles a complete head: parses it like a head of HTTP/1. */
static int begin_stream(struct dt_h2 *h2, int32_t id, bool ends)
{
    struct dt_strbuf *text = begin_head(h2);
    dt_strbuf_adds(text, "\r\n");
    struct dt_conn *stream = text->failed ? NULL : new_stream(h2->conn, id);
    if (!stream)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    (void)nghttp2_session_set_stream_user_data(h2->session, id, stream);
    struct dt_head *head = &stream->frames.head;
    const bool whole = dt_head_read(dt_strbuf_str(text), head);
    stream->frames.next = ends ? DT_FRAME_HEAD : DT_FRAME_BODY;
    if (!whole || h2->fault) {
        if (!h2->conn->served)
            dt_metric_add(h2->conn->conns->rules.meters->refused, 1);
        dt_conn_refuse(stream, whole ? DT_HEAD_MALFORMED : head->status, whole ? h2->fault : head->detail);
        queue_stream(stream);
        return 0;
    }
    head->chunked = !ends && !head->length;
    stream->frames.left = head->chunked ? UINT64_MAX : head->length;
    dt_conn_begin_request(stream);
    pass_arrived_body(stream);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct dt_h2 *h2 = arg;
    const bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    int result = 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        result = begin_stream(h2, frame->hd.stream_id, ends);
    } else if (stream && ends && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
        stream->frames.next = DT_FRAME_HEAD;
        pass_arrived_body(stream);
    }
    if (frame->hd.type == NGHTTP2_HEADERS)
        clear_request_head(h2);
    return result;
}

/* ---- answers ---- */

static ssize_t read_answer_bytes(nghttp2_session *session, int32_t id, uint8_t *, size_t room, uint32_t *flags,
                                 nghttp2_data_source *, void *)
{
    const struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const size_t unsent = dt_conn_unsent(stream);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY | (unsent <= room ? NGHTTP2_DATA_FLAG_EOF : 0u);
    return (ssize_t)(unsent < room ? unsent : room);
}

static int add_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                    nghttp2_data_source *, void *arg)
{
    struct dt_h2 *h2 = arg;
    struct dt_strbuf *out = &h2->conn->conns->out;
    struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (out->n >= DT_CONN_OUT)
        return NGHTTP2_ERR_WOULDBLOCK;
    dt_strbuf_add(out, (const char *)head, FRAME_HEAD);
    dt_strbuf_add(out, stream->out.p + stream->out_at, n);
    stream->out_at += n;
    subtract_noise(h2, n / 1024);
    return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *)
{
    struct dt_conn *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!stream || !carries || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    stream->parted = true;
    dt_strbuf_clear(&stream->out);
    stream->out_at = 0;
    /* The client need not send the rest of the body: resets the stream. */
    if (stream->closing && stream->frames.next != DT_FRAME_HEAD)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    queue_stream(stream);
    return 0;
}

void dt_h2_answer(struct dt_conn *stream, struct dt_strbuf *head, struct dt_strbuf *body)
{
    struct dt_conn *conn = stream->parent;
    const nghttp2_data_provider provider = {.read_callback = read_answer_bytes};
    nghttp2_nv nvs[REPLY_NVS];
    struct dt_str fields = dt_strbuf_str(head);
    struct dt_str name;
    struct dt_str value;
    size_t n = 0;
    for (bool more = dt_head_next(&fields, &name, &value); more && n < REPLY_NVS;) {
        if (n == 0) /* the first line: "HTTP/1.1 ", the status, its name */
            name = DT_STR_LIT(":status"), value = (struct dt_str){value.p + 9, 3};
        else /* names are in lower case, as HTTP/2 requires */
            for (char *p = (char *)(uintptr_t)name.p; p < name.p + name.n; p++)
                *p = (char)(*p >= 'A' && *p <= 'Z' ? *p | 0x20 : *p);
        nvs[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.p, (uint8_t *)(uintptr_t)value.p, name.n, value.n,
                                NGHTTP2_NV_FLAG_NONE};
        more = dt_head_next(&fields, &name, &value);
    }
    if (body) {
        stream->out = *body;
        *body = (struct dt_strbuf){0};
    }
    if (head->failed || nghttp2_submit_response(conn->h2->session, stream->id, nvs, n, body ? &provider : NULL) != 0)
        mark_stream_broken(stream);
    queue_stream(stream);
    /* Outside of a turn of the connection, the next turn sends the answer, together with other responses. */
    if (stream->conns->current != conn)
        dt_evloop_again(&stream->conns->loop, &conn->source);
}

/* ---- the connection ---- */

static bool new_session(struct dt_h2 *h2, nghttp2_session_callbacks *calls, nghttp2_option *option)
{
    static const nghttp2_settings_entry settings[3] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, DT_HEAD_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_session_callbacks_set_on_begin_frame_callback(calls, count_noise);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(calls, on_invalid_header);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(calls, add_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, 2 * NOISE_MOST); /* a flood is noticed and counted here first */
    nghttp2_option_set_no_closed_streams(option, 1);
    return nghttp2_session_server_new2(&h2->session, calls, h2, option) == 0 &&
           nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3) == 0 &&
           nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
}

void dt_h2_free(struct dt_h2 *h2)
{
    if (!h2)
        return;
    for (int i = 0; i < TEXTS; i++)
        dt_strbuf_clear(&h2->texts[i]);
    nghttp2_session_del(h2->session);
    free(h2);
}

void dt_h2_begin(struct dt_conn *conn)
{
    nghttp2_session_callbacks *calls = NULL;
    nghttp2_option *option = NULL;
    struct dt_h2 *h2 = calloc(1, sizeof(*h2));
    dt_assert(!conn->parent && !conn->request);
    conn->h2 = h2;
    if (h2)
        h2->conn = conn;
    conn->sock.broken |= !h2 || nghttp2_session_callbacks_new(&calls) != 0 || nghttp2_option_new(&option) != 0 ||
                         !new_session(h2, calls, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(calls);
    if (conn->sock.broken) {
        dt_h2_free(h2);
        conn->h2 = NULL;
    }
}

bool dt_h2_decide(struct dt_conn *conn, struct dt_str text)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; /* with which every client of HTTP/2 begins */
    const size_t length = sizeof(preface) - 1;
    conn->http1 = text.n && memcmp(text.p, preface, text.n < length ? text.n : length) != 0;
    if (text.n >= length && !conn->http1)
        dt_h2_begin(conn);
    return conn->http1 || text.n == 0 || text.n >= length;
}

void dt_h2_leave(struct dt_conn *conn)
{
    struct dt_h2 *h2 = conn->h2;
    if (!h2->leaving)
        (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                                    nghttp2_session_get_last_proc_stream_id(h2->session), NGHTTP2_NO_ERROR, NULL, 0);
    h2->leaving = true;
}

bool dt_h2_pass(struct dt_conn *conn, struct dt_str *text)
{
    struct dt_h2 *h2 = conn->h2;
    struct dt_strbuf *out = &conn->conns->out;
    const uint8_t *frame = NULL;
    ssize_t n = 0;
    if (text->n && !conn->closing)
        n = nghttp2_session_mem_recv(h2->session, (const uint8_t *)text->p, text->n);
    if (n < 0) /* reports the failure, unless the connection is ending already */
        (void)nghttp2_session_terminate_session(h2->session, n == NGHTTP2_ERR_CALLBACK_FAILURE || n == NGHTTP2_ERR_NOMEM
                                                                 ? NGHTTP2_INTERNAL_ERROR
                                                                 : NGHTTP2_PROTOCOL_ERROR);
    text->n = 0;
    if (atomic_load_explicit(&conn->conns->stage, memory_order_relaxed) != DT_CONNS_OPEN)
        dt_h2_leave(conn);
    if (dt_conn_unsent(conn))
        return true;
    while (out->n < DT_CONN_OUT && (n = nghttp2_session_mem_send(h2->session, &frame)) > 0)
        dt_strbuf_add(out, (const char *)frame, (size_t)n);
    conn->sock.broken |= n < 0;
    conn->moved |= conn->wait == DT_WAIT_SEND && out->n; /* the client has read the responses that were sent before */
    if (out->n >= DT_CONN_OUT)
        return true;
    if (!nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session)) {
        conn->closing = true;
        dt_h2_break(conn);
    }
    conn->closing |= h2->leaving && !conn->streams;
    return false;
}
