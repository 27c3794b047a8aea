/*
 * The port to HTTP receivers: one POST, one answer. http_curl*.c implement it with libcurl; only these files know how.
 *
 * A client has one thread of its own, on which every transfer runs and every answer is given. dt_http_client_send may
 * be called by any thread.
 *
 * What holds:
 *  - A request is put on the wire one time at most. A connection that breaks is an answer, never a reason to send
 *  again.
 *  - Every request that was taken gets exactly one answer, also when the client is stopped.
 *  - An answer is given at most `timeout_ms` after its request was taken, plus what the thread needs to wake up. If the
 *    owner of a request runs as many lookups of names as it may, the request's time begins when its name has a turn. It
 *    is withheld if that takes longer than DT_HTTP_TURN_MS.
 *  - No redirect is followed; no proxy and no setting is taken from the environment; certificates are verified.
 *  - Sockets connect only to addresses that callback_rules.h allows; they are judged after the name is resolved.
 */
#ifndef DT_BASE_HTTP_CLIENT_H
#define DT_BASE_HTTP_CLIENT_H

#include "callback_rules.h"
#include "base/clock.h"
#include "base/text/strbuf.h"

#define DT_HTTP_HEAD_MAX   (16 * 1024) /* bytes of an answer's head, status line included */
#define DT_HTTP_BODY_MAX   (64 * 1024) /* bytes of an answer's body that are read */
#define DT_HTTP_VALUE_MAX  256 /* bytes of content-type and retry-after that are kept; a longer value is absent */
#define DT_HTTP_DETAIL_MAX 256
#define DT_HTTP_TURN_MS    30000

struct dt_http_header {
    struct dt_str name, value;
};

/* How an exchange ended. The words after DT_HTTP_ are those of the error codes (callback.h). */
enum dt_http_end {
    DT_HTTP_ANSWERED,  /* a whole head arrived: its status decides */
    DT_HTTP_TIMEOUT,   /* no whole head within the timeout */
    DT_HTTP_CONNECT,   /* no connection */
    DT_HTTP_DNS,       /* the name has no address */
    DT_HTTP_TLS,       /* no TLS session, or a certificate that is not trusted */
    DT_HTTP_FORBIDDEN, /* every address of the host is refused, or its name is */
    DT_HTTP_BROKEN,    /* the connection ended before a whole head, the head is too large, or it is not HTTP */
    DT_HTTP_UNKNOWN,   /* the client was stopped: the receiver may or may not have had the request */
    DT_HTTP_WITHHELD,  /* may_send said no, or its name was not looked up: it was not put on the wire */
    DT_HTTP_NO_URL,    /* by the sender: there is no URL to send it to, or it is none */
    DT_HTTP_NO_SECRET, /* by the sender: the secret that it is to be signed with is none */
    DT_HTTP_ENDS
};

/* Borrowed during the call of dt_http_answered_fn. */
struct dt_http_answer {
    enum dt_http_end end;
    int status;                              /* 100 to 999 when ANSWERED, else 0 */
    struct dt_str content_type, retry_after; /* absent when there is none; the first of several */
    struct dt_str body;                      /* its first DT_HTTP_BODY_MAX bytes */
    bool body_whole;                         /* the body ended, within that length */
    int64_t duration_ms;                     /* from the taking of the request to its end */
    const char *detail;                      /* what happened, for people, when not ANSWERED; never NULL */
};

/* Called once a request, on the client's thread. It must not block and must not call the client. */
typedef void dt_http_answered_fn(void *arg, void *tag, const struct dt_http_answer *answer);

struct dt_http_settings {
    unsigned max_in_flight;     /* requests that are taken and not answered; more are refused */
    size_t max_bytes;           /* bytes of their URLs, headers and bodies */
    const char *ca_file;        /* certificates to trust, PEM; NULL or "" = the system's */
    struct dt_networks allowed; /* exceptions from the refused networks */
    struct dt_str allow_hosts;  /* see base/http/callback_rules.h; copied */
    const dt_clock *clock;      /* outlives the client */
    dt_http_answered_fn *answered;
    /* Asked on the client's thread when a request is about to be written to its connection. NULL: always. */
    bool (*may_send)(void *arg, void *tag);
    void *arg;
};

/* Everything is borrowed during dt_http_client_send and copied. */
struct dt_http_request {
    int64_t owner;     /* topic/owner.h: with whose requests it shares what the client has */
    struct dt_str url; /* dt_callback_url_check takes it */
    const struct dt_http_header *headers;
    size_t n_headers;
    struct dt_str body;
    int64_t timeout_ms; /* from 1 */
    void *tag;          /* handed to dt_http_answered_fn */
};

typedef struct dt_http_client dt_http_client;

/* Starts the thread. INVALID: ca_file cannot be read, or libcurl lacks what is needed; err says which. */
DT_MUST_CHECK dt_status dt_http_client_new(const struct dt_http_settings *settings, dt_http_client **out,
                                           struct dt_error *err);
/*
 * Hands a request to the client's thread. OK: it is taken, its answer comes. Any other status: it is not, no answer
 * comes. FULL: max_in_flight or max_bytes. SHUTDOWN: dt_http_client_stop was called. INVALID: the URL, a header's name
 * or value. NOMEM.
 */
DT_MUST_CHECK dt_status dt_http_client_send(dt_http_client *client, const struct dt_http_request *request);
/*
 * The lease under which may_send lets requests through runs until until_us (dt_clock_boot_us); called again, it was
 * renewed and its end moves forward. What was let through and was not written by then finds its connection shut
 * (wire_guard.h). Never called: there is no such end. Any thread.
 */
void dt_http_client_write_until(dt_http_client *client, int64_t until_us);
/* The lease is over: the end that is told next is another one's. Any thread. */
void dt_http_client_write_over(dt_http_client *client);
/*
 * Ends every request that is not answered: with its status when the head of the answer is whole, else with
 * DT_HTTP_UNKNOWN. Waits until all answers are given and the thread has ended, but for no name server and no receiver.
 * From then on nothing is taken. May be called twice, by one thread.
 */
void dt_http_client_stop(dt_http_client *client);
/* Stops, and frees. Accepts NULL. No other thread may be in a call of the client. */
void dt_http_client_free(dt_http_client *client);
/* Requests that are taken and not answered. Any thread. */
unsigned dt_http_client_in_flight(const dt_http_client *client);

#endif
