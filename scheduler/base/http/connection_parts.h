/*
 * What conns.c, which has all connections, connection.c, which has the turns of single ones, h2.c, which has their
 * streams, and connection_requests.c, which has the requests of both, know together.
 */
#pragma once

#include "connection.h"
#include "frames.h"
#include "sock.h"

#define DT_CONN_IN        ((size_t)64 * 1024) /* bytes of the buffer that turns read into */
#define DT_CONN_OUT       ((size_t)64 * 1024) /* answers beyond this leave before further requests are looked at */
#define DT_CONN_DROPPED   ((size_t)64 * 1024) /* bytes of a body that are dropped after an answer */
#define DT_CONN_GREETINGS 4                   /* handshakes a round, each of which is a millisecond of computing */
#define DT_CONN_LISTENERS 16

/* What a connection waits for; the order in which they give way to newcomers, first to last. */
enum dt_wait {
    DT_WAIT_LINGER, /* for the client to read the last answer */
    DT_WAIT_FIRST,  /* for a handshake and the first head */
    DT_WAIT_HEAD,   /* for the rest of a later head */
    DT_WAIT_IDLE,   /* for a later request to begin */
    DT_WAIT_BODY,
    DT_WAIT_SEND, /* for the client to take an answer */
    DT_WAIT_OWNER,
    DT_WAIT_STREAMS, /* of HTTP/2, each of which waits for something by itself */
    DT_WAITS
};

struct dt_conn_queue {
    struct dt_conn *first; /* utlist; in the order of since_us */
    size_t n;
    int64_t length_us; /* of the wait; 0: for ever */
};

struct dt_conn_listener {
    struct dt_evsource source;
    struct dt_conns *conns;
    dt_tls_files *files;
    int fd;
    bool ready;
};

struct dt_conns {
    struct dt_evloop loop;
    struct dt_conn_rules rules;
    struct dt_conn_events events;
    void *arg;
    struct dt_conn_queue queues[DT_WAITS];
    size_t n;             /* in the queues */
    _Atomic size_t count; /* those included that are on their way from another thread */
    _Atomic int stage;
    dt_conns *const *peers; /* this one among them; NULL: there are none */
    size_t n_peers;
    int64_t ticked_us;
    struct dt_conn *current; /* the connection that has its turn; NULL: none has */
    struct dt_conn *dead;    /* closed in this round */
    unsigned greetings;      /* handshakes of this round */
    bool pressed;            /* dt_conns_press */
    size_t n_listeners;
    struct dt_conn_listener listeners[DT_CONN_LISTENERS];
    char *in;             /* DT_CONN_IN bytes */
    struct dt_strbuf out; /* answers of the turn */
    int64_t date_s;
    char date[DT_REPLY_DATE];
};

struct dt_conn {
    struct dt_conns *conns;
    struct dt_evsource source;
    struct dt_conn *prev, *next; /* in its queue, or (next) among the dead */
    struct dt_evtask adoption;
    struct dt_sock sock;     /* of a stream: fd is its connection's until it is closed; broken: nothing can be sent */
    struct dt_h2 *h2;        /* the connection speaks HTTP/2 */
    struct dt_conn *streams; /* of that; utlist, by older and newer */
    struct dt_conn *parent;  /* of a stream, its connection; NULL: it is a connection */
    struct dt_conn *older, *newer;
    int32_t id;  /* of a stream; 0: the library has forgotten it */
    int poll_fd; /* of a stream: dt_conn_fd; -1: not asked for */
    enum dt_wait wait;
    int64_t since_us; /* it waits; for a body: begun_us */
    int64_t begun_us; /* of the request; later by the time that the owner took */
    int64_t quick_us; /* until when the body that has come is enough */
    size_t dropped;   /* while its owner listens */
    bool known, secure;
    bool local; /* a Unix socket's */
    unsigned char address[DT_ADDRESS_BYTES];
    bool http1;   /* its first bytes were not those of HTTP/2 */
    bool served;  /* a request was answered */
    bool moved;   /* a request began or ended in this turn */
    bool heading; /* a header block of HTTP/2 has begun */
    bool closing; /* it ends after the answer under way */
    bool parted;  /* it has told its client that it ends; of a stream: all of its answer is in its connection's `out` */
    struct dt_frames frames;
    /* Of the request under way. */
    bool request;  /* there is one */
    bool whole;    /* all of it was read, or will not be */
    bool answered; /* all of the answer is in `out` or on its way */
    bool waiting;  /* its body waits for the owner */
    bool left;     /* the owner knows that the client has left */
    bool listens;  /* dt_conn_listen */
    bool bare, old, keep, ends, expects;
    /* Between turns. */
    struct dt_strbuf held; /* bytes that were read and not judged */
    struct dt_strbuf out;  /* bytes that the client has not taken, from out_at on */
    size_t out_at;
    _Alignas(max_align_t) char own[];
};

/* Adds to a gauge of the server, if it has meters. */
#define DT_CONN_GAUGE(conns, what, by)                                                                                 \
    do {                                                                                                               \
        struct dt_conn_meters *m = (conns)->rules.meters;                                                              \
        if (m)                                                                                                         \
            dt_metric_set(m->what##_gauge, (double)(atomic_fetch_add(&m->what, (by)) + (by)));                         \
    } while (0)
#define DT_CONN_COUNT(conns, what)                                                                                     \
    do {                                                                                                               \
        if ((conns)->rules.meters)                                                                                     \
            dt_metric_add((conns)->rules.meters->what, 1);                                                             \
    } while (0)

static inline struct dt_conn *dt_conn_base(struct dt_conn *conn)
{
    return conn->parent ? conn->parent : conn;
}
/* The owner has the request. */
static inline bool dt_conn_is_owners(const struct dt_conn *conn)
{
    return conn->request && !conn->answered && (conn->whole || conn->waiting);
}
/* Bytes of answers that wait for the client. */
static inline size_t dt_conn_unsent(const struct dt_conn *conn)
{
    return conn->out.n - conn->out_at;
}
/* What has not come of the request's body is known to be little. */
static inline bool dt_conn_may_drop(const struct dt_conn *conn)
{
    return conn->whole || (!conn->expects && !conn->frames.chunked && conn->frames.left <= DT_CONN_DROPPED);
}

/* ---- connection_requests.c: what connections and streams have in common; in a turn ---- */

/* Joins the queue of what it waits for; it is in none. */
void dt_conn_join(struct dt_conn *conn, enum dt_wait wait);
void dt_conn_leave_queue(struct dt_conn *conn);
/* Moves to the queue of what it waits for now, if that is another, or another request's. */
void dt_conn_requeue(struct dt_conn *conn, enum dt_wait wait);
/* No request is under way. The memory stays until the round is over. */
void dt_conn_close(struct dt_conn *conn);
void dt_conn_begin_request(struct dt_conn *conn, const struct dt_head *head);
/* Offers the owner a part of a body that has come; returns how much of it was taken. */
size_t dt_conn_offer(struct dt_conn *conn, struct dt_str text);
/* What came is no request, or what was to come has not. The owner says so to the client, if an answer is still due. */
void dt_conn_refuse(struct dt_conn *conn, int status, const char *detail);
void dt_conn_end_request(struct dt_conn *conn, bool sent);
/* The date as answers name it. */
const char *dt_conn_date(struct dt_conns *conns);

/* ---- connection.c ---- */

/* The call of the loop, whose source the connection (owner) is: a turn, because of events of its socket, or 0. */
void dt_conn_serve(void *owner, uint32_t events);
/* Reads before a deadline is judged, or a place taken away. False: it does not wait as it did before any more, or more
 * has come than was read. */
bool dt_conn_look_again(struct dt_conn *conn);
/* Ends a connection whose deadline has passed: answers an incomplete request with `status` (0: closes without an
 * answer), and closes the connection of a client that does not read. */
void dt_conn_give_up(struct dt_conn *conn, int status, const char *detail);
