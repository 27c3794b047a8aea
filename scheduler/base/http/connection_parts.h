/* Shared by the files of connections, each of which calls only those after it: conns.c (all connections), connection.c
 * (turns of one connection), h2.c (streams), connection_requests.c (requests of connections and streams). */
#pragma once

#include "connection.h"
#include "sock.h"

#define DT_CONN_IN        ((size_t)64 * 1024) /* bytes of the buffer that turns read into */
#define DT_CONN_OUT       ((size_t)64 * 1024) /* if more response bytes wait, they are sent before requests are read */
#define DT_CONN_DROPPED   ((size_t)64 * 1024) /* most bytes of a body that are dropped after a response */
#define DT_CONN_GREETINGS 4                   /* most handshakes in a round: each takes a millisecond */
#define DT_CONN_LISTENERS 16
#define DT_CONN_DATE      30 /* bytes of a date as text, including the terminating zero */

/* What a connection waits for. If connections must be closed to make room, they are chosen in this order. */
enum dt_wait {
    DT_WAIT_LINGER, /* the client must read the last response */
    DT_WAIT_FIRST,  /* the client must finish its handshake and send its first head */
    DT_WAIT_HEAD,   /* the client must send the rest of a head that is not its first */
    DT_WAIT_IDLE,   /* the client must begin its next request */
    DT_WAIT_BODY,
    DT_WAIT_SEND, /* the client must read a response */
    DT_WAIT_OWNER,
    DT_WAIT_STREAMS, /* an HTTP/2 connection with streams, each of which has a queue of its own */
    DT_WAITS
};

struct dt_conn_queue {
    struct dt_conn *first; /* list of connections (utlist), in the order of since_us */
    size_t n;
    int64_t length_us; /* time after which the wait ends; 0: no limit */
};

struct dt_conn_listener {
    struct dt_evsource source;
    struct dt_conns *conns;
    dt_tls_files *files;
    int fd;
};

struct dt_conns {
    struct dt_evloop loop;
    struct dt_conn_rules rules;
    struct dt_conn_events events;
    void *arg;
    struct dt_conn_queue queues[DT_WAITS];
    _Atomic int stage;
    size_t n;                /* number of connections and streams in the queues */
    _Atomic size_t count;    /* number of connections, including those that another thread is handing over */
    _Atomic size_t requests; /* number of requests; only the loop's thread changes it */
    dt_conns *peer;          /* a ring of the threads that share connections */
    int64_t ticked_us;
    struct dt_conn *current; /* the connection whose turn it is; NULL: none */
    struct dt_conn *dead;    /* connections that were closed in this round */
    unsigned greetings;      /* number of handshakes in this round */
    bool pressed;            /* memory is short: connections whose clients do not read are closed in this round */
    size_t n_listeners;
    struct dt_conn_listener listeners[DT_CONN_LISTENERS];
    char *in;             /* buffer of DT_CONN_IN bytes */
    struct dt_strbuf out; /* responses of the turn */
    time_t date_s;
    char date[DT_CONN_DATE];
};

struct dt_conn {
    struct dt_conns *conns;
    struct dt_evsource source;
    struct dt_conn *prev, *next; /* neighbours in the queue of its wait; next also links closed connections */
    struct dt_evtask adoption;
    struct dt_sock sock;     /* in a stream, fd is the connection's (-1: closed); broken: nothing can be sent */
    struct dt_h2 *h2;        /* HTTP/2 state of the connection; NULL: HTTP/1 */
    struct dt_conn *streams; /* the connection's streams (utlist, by older and newer) */
    struct dt_conn *parent;  /* the stream's connection; NULL: this is a connection */
    struct dt_conn *older, *newer;
    int32_t id;  /* id of the stream; 0: libnghttp2 no longer knows the stream */
    int poll_fd; /* in a stream: the descriptor of dt_conn_fd; -1: not requested */
    enum dt_wait wait;
    int64_t since_us;  /* when the wait began; while waiting for a body: begun_us */
    int64_t begun_us;  /* when the request began; moved forward by the time that its body waited for the owner */
    int64_t quick_us;  /* until when the body counts as fast enough, by the bytes received so far */
    size_t dropped;    /* bytes that were dropped because the owner had the request (dt_conn_listen) */
    bool known, local; /* local: the connection is on a Unix socket */
    unsigned char address[DT_ADDRESS_BYTES];
    bool http1;   /* the first bytes were not the preface of HTTP/2 */
    bool served;  /* at least one request was answered */
    bool moved;   /* a request began or ended in this turn */
    bool heading; /* a header block of HTTP/2 has begun */
    bool closing; /* the connection closes after the current response */
    bool parted;  /* the end of the response was sent; in a stream: was put into `out` of its connection */
    struct dt_frames frames;
    /* State of the current request, whose head is in `frames`. */
    bool request;  /* a request is under way */
    bool whole;    /* the whole request was read, or the rest of its body will not be read */
    bool answered; /* the whole response is in `out` or was sent */
    bool waiting;  /* no part of the body is passed to the owner until it calls dt_conn_go_on */
    bool listens;  /* dt_conn_listen was called */
    bool bare;     /* the method is HEAD, so the response has no body */
    bool expects;  /* the client still waits for 100 Continue */
    /* State between turns. */
    struct dt_strbuf held; /* bytes that were read and not parsed */
    struct dt_strbuf out;  /* responses; bytes from out_at on were not sent yet */
    size_t out_at;
    _Alignas(max_align_t) char own[];
};

static inline struct dt_conn *dt_conn_base(struct dt_conn *conn)
{
    return conn->parent ? conn->parent : conn;
}
/* Returns whether the owner has the request. */
static inline bool dt_conn_is_owners(const struct dt_conn *conn)
{
    return conn->request && !conn->answered && (conn->whole || conn->waiting);
}
/* Returns the number of bytes of responses that were not sent yet. */
static inline size_t dt_conn_unsent(const struct dt_conn *conn)
{
    return conn->out.n - conn->out_at;
}
/* Returns whether responses of this status have neither a body nor a length. */
static inline bool dt_reply_is_bare(int status)
{
    return status == 204 || status == 304;
}
/* Returns whether the rest of the request's body is known to be short. */
static inline bool dt_conn_may_drop(const struct dt_conn *conn)
{
    return conn->whole || (!conn->expects && !conn->frames.head.chunked && conn->frames.left <= DT_CONN_DROPPED);
}

/* ---- connection_requests.c: what connections and streams have in common; called in turns ---- */

/* Adds a new connection or stream to the queue of `wait`. */
void dt_conn_join(struct dt_conn *conn, enum dt_wait wait);
/* Moves the connection to the queue of what it waits for now, unless it already waits there for the same request. */
void dt_conn_requeue(struct dt_conn *conn);
/* Closes a connection without a request. Its memory stays until the round ends. */
void dt_conn_close(struct dt_conn *conn);

/* Begins the request whose head is in `frames`. */
void dt_conn_begin_request(struct dt_conn *conn);
/* Offers a part of the body to the owner. Returns how many bytes were taken. */
size_t dt_conn_offer(struct dt_conn *conn, struct dt_str text);
/* Passes the end of the body to the owner. */
void dt_conn_complete_request(struct dt_conn *conn);
/* Returns whether the client must be told now to send the body, and assumes that it is told. */
bool dt_conn_owes_continue(struct dt_conn *conn);
/* Refuses the current request, or bytes that are not a request. If no response was sent yet, the owner sends one. */
void dt_conn_refuse(struct dt_conn *conn, int status, const char *detail);
void dt_conn_end_request(struct dt_conn *conn, bool sent);
/* Adds the head of a response, including its empty line. connection: value of the header Connection, or NULL. */
void dt_conn_add_head(struct dt_conn *conn, struct dt_strbuf *out, const struct dt_reply *reply,
                      const char *connection);

/* ---- connection.c: turns ---- */

/* Runs a turn of the connection `owner`. The loop calls it with the socket's events, or with 0. */
void dt_conn_serve(void *owner, uint32_t events);
/* Ends a connection whose deadline has passed, or that must make room: answers an incomplete request with `status` (0:
 * closes without an answer), and closes the connection of a client that does not read. Reads from the socket before.
 * Returns false if the connection no longer waits as before, or has received further bytes of a body in time. */
bool dt_conn_give_up(struct dt_conn *conn, int status, const char *detail);

/*
 * ---- h2.c: HTTP/2 on a connection (RFC 9113), by libnghttp2 ----
 *
 * Each stream is a struct dt_conn with a `parent`. A stream waits in the queues of its thread like an HTTP/1
 * connection, by the same rules, and its owner cannot tell the difference. The connection itself waits only while it
 * has no streams.
 */

/* Makes the connection use HTTP/2. The preface must not have been parsed yet. */
void dt_h2_begin(struct dt_conn *conn);
/* Decides by the first bytes of a connection which version it uses. Returns false if these bytes do not suffice. */
bool dt_h2_decide(struct dt_conn *conn, struct dt_str text);
/* Accepts NULL. */
void dt_h2_free(struct dt_h2 *h2);
/* In a turn of the connection: passes the bytes that were read to libnghttp2. If all earlier responses were sent, adds
 * frames to the turn's responses. Returns true if more frames may follow once these responses were sent. */
bool dt_h2_pass(struct dt_conn *conn, struct dt_str *text);
/* Tells the client that no further stream is served. The connection ends after its present streams. */
void dt_h2_leave(struct dt_conn *conn);
/* Ends all streams, each in a turn of its own, because the client cannot be reached any more. */
void dt_h2_break(struct dt_conn *conn);
/* Runs the turn of a stream: continues with its body, or closes the stream if it is broken and its owner has
 * answered. */
void dt_h2_serve(struct dt_conn *stream);
/* Sends a response, whose head is given in the form of HTTP/1, and is changed. Takes over the body. NULL: no body. */
void dt_h2_answer(struct dt_conn *stream, struct dt_strbuf *head, struct dt_strbuf *body);
/* Returns a descriptor that hangs up when the stream breaks; -1: no descriptor is available. */
int dt_h2_poll_fd(struct dt_conn *stream);
