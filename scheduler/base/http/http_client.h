/*
 * The port to HTTP receivers: one POST, one answer. http_curl*.c implement it with libcurl; only these files know how.
 *
 * A client has a thread of its own, which runs all transfers and gives all answers. Any thread may call
 * dt_http_client_send.
 *
 * Invariants:
 *  - A request is written at most once. If its connection breaks, that is the answer; it is never sent again.
 *  - Every accepted request gets exactly one answer, also if the client is stopped.
 *  - The answer comes at most `timeout_ms` after the request was accepted, plus the time in which the thread wakes up.
 *    If the owner of a request runs as many lookups of names as it may, the request's time begins when its name has a
 *    turn. The request is withheld if that takes longer than DT_HTTP_TURN_MS.
 *  - Redirects are not followed; no proxy and no setting is taken from the environment; certificates are verified.
 *  - Sockets connect only to addresses that callback_rules.h allows. They are judged after the name is resolved.
 */
#pragma once

#include "base/clock.h"
#include "base/text/strbuf.h"
#include "callback_rules.h"

#define DT_HTTP_HEAD_MAX   (16 * 1024) /* bytes of an answer's head, status line included */
#define DT_HTTP_BODY_MAX   (64 * 1024) /* bytes of an answer's body that are read */
#define DT_HTTP_VALUE_MAX  256 /* bytes of content-type and retry-after that are kept; a longer value is absent */
#define DT_HTTP_DETAIL_MAX 256
#define DT_HTTP_TURN_MS    30000

struct dt_http_header {
    struct dt_str name, value;
};

/* How an exchange ended. callback.h has error codes with the same words. */
enum dt_http_end {
    DT_HTTP_ANSWERED,  /* the head of the answer is complete: its status decides */
    DT_HTTP_TIMEOUT,   /* no complete head within the timeout */
    DT_HTTP_CONNECT,   /* no connection */
    DT_HTTP_DNS,       /* the name has no address */
    DT_HTTP_TLS,       /* no TLS session, or the certificate is not trusted */
    DT_HTTP_FORBIDDEN, /* the host's name or all of its addresses are refused */
    DT_HTTP_BROKEN,    /* the connection ended before the head was complete, or the head is too large or not HTTP */
    DT_HTTP_UNKNOWN,   /* the client was stopped: the receiver may or may not have had the request */
    DT_HTTP_WITHHELD,  /* may_send returned false, or the name had no turn: nothing was written */
    DT_HTTP_NO_URL,    /* set by the sender: no URL, or an invalid one */
    DT_HTTP_NO_SECRET, /* set by the sender: the secret for the signature is invalid */
    DT_HTTP_ENDS
};

/* Borrowed for the call of dt_http_answered_fn. */
struct dt_http_answer {
    enum dt_http_end end;
    int status;                              /* 100 to 999 if ANSWERED, else 0 */
    struct dt_str content_type, retry_after; /* the first of several; absent if there is none */
    struct dt_str body;                      /* its first DT_HTTP_BODY_MAX bytes */
    bool body_whole;                         /* the body ended within that length */
    int64_t duration_ms;                     /* from acceptance to end */
    const char *detail;                      /* what happened, for people, if not ANSWERED; never NULL */
};

/* Called once per request, on the client's thread. Must not block, and must not call the client. */
typedef void dt_http_answered_fn(void *arg, void *tag, const struct dt_http_answer *answer);

struct dt_http_settings {
    unsigned max_in_flight;     /* requests accepted and not answered; more are refused */
    size_t max_bytes;           /* bytes of their URLs, headers and bodies */
    const char *ca_file;        /* certificates to trust, PEM; NULL or "": the system's */
    struct dt_networks allowed; /* exceptions from the refused networks */
    struct dt_str allow_hosts;  /* callback_rules.h; copied */
    const dt_clock *clock;      /* outlives the client */
    dt_http_answered_fn *answered;
    /* Called on the client's thread before a request is written to its connection. NULL: always true. */
    bool (*may_send)(void *arg, void *tag);
    void *arg;
};

/* dt_http_client_send copies everything. */
struct dt_http_request {
    int64_t owner;     /* topic/owners.h: owners share the client */
    struct dt_str url; /* valid for dt_callback_url_check */
    const struct dt_http_header *headers;
    size_t n_headers;
    struct dt_str body;
    int64_t timeout_ms; /* at least 1 */
    void *tag;          /* passed to dt_http_answered_fn */
};

typedef struct dt_http_client dt_http_client;

/* Starts the thread. INVALID: ca_file cannot be read, or libcurl lacks a feature; err says which. */
DT_MUST_CHECK dt_status dt_http_client_new(const struct dt_http_settings *settings, dt_http_client **out,
                                           struct dt_error *err);
/* Gives a request to the client's thread. OK: it is accepted, and its answer will come. Otherwise no answer comes:
 * FULL, by max_in_flight or max_bytes; SHUTDOWN, after dt_http_client_stop; INVALID, the URL, or a header's name or
 * value; NOMEM. */
DT_MUST_CHECK dt_status dt_http_client_send(dt_http_client *client, const struct dt_http_request *request);
/* Sets the end of the lease under which may_send allows requests (dt_clock_boot_us). A further call means that the
 * lease was renewed. If an allowed request is not written by then, its connection is shut (wire_guard.h). Without a
 * call there is no end. Any thread. */
void dt_http_client_write_until(dt_http_client *client, int64_t until_us);
/* The lease has ended for good: the next dt_http_client_write_until is for another lease. Any thread. */
void dt_http_client_write_over(dt_http_client *client);
/* Ends every request that is not answered: with its status if the head of the answer is complete, else with
 * DT_HTTP_UNKNOWN. Waits until all answers are given and the thread has ended, but not for name servers or receivers.
 * Later requests are refused. One thread may call it twice. */
void dt_http_client_stop(dt_http_client *client);
/* Stops and frees the client. Accepts NULL. No other thread may use the client meanwhile. */
void dt_http_client_free(dt_http_client *client);
/* Requests that are accepted and not answered. Any thread. */
unsigned dt_http_client_in_flight(const dt_http_client *client);
