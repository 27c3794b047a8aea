/*
 * The port to HTTP receivers: one POST, one response. http_curl*.c implement it with libcurl; only these files know
 * libcurl.
 *
 * A client has a thread of its own, which runs all transfers and reports all results. Any thread may call
 * dt_http_client_send.
 *
 * Invariants:
 *  - A request is written at most once. If its connection breaks, the result says so; the request is never sent again.
 *  - Every accepted request gets exactly one result, also if the client is stopped.
 *  - The result is reported at most `timeout_ms` after the request was accepted, plus the time until the thread wakes
 *    up. If the owner of a request runs as many lookups of names as it may, the request's time begins when the lookup
 *    of its name begins. If that takes longer than DT_HTTP_TURN_MS, the request is withheld.
 *  - Redirects are not followed; no proxy and no setting is taken from the environment; certificates are verified.
 *  - Sockets connect only to addresses that callback_rules.h allows. Addresses are checked after the name is resolved.
 */
#pragma once

#include "base/clock.h"
#include "base/text/strbuf.h"
#include "callback_rules.h"

#define DT_HTTP_HEAD_MAX   (16 * 1024) /* most bytes of a response's head, including the status line */
#define DT_HTTP_BODY_MAX   (64 * 1024) /* most bytes of a response's body that are read */
#define DT_HTTP_VALUE_MAX  256         /* most bytes of content-type and retry-after; a longer value is absent */
#define DT_HTTP_DETAIL_MAX 256
#define DT_HTTP_TURN_MS    30000

struct dt_http_header {
    struct dt_str name, value;
};

/* How an exchange ended. callback.h has error codes with the same words. */
enum dt_http_end {
    DT_HTTP_ANSWERED,  /* the head of the response is complete: its status decides */
    DT_HTTP_TIMEOUT,   /* no complete head arrived within the timeout */
    DT_HTTP_CONNECT,   /* no connection could be opened */
    DT_HTTP_DNS,       /* the name has no address */
    DT_HTTP_TLS,       /* no TLS session could be opened, or the certificate is not trusted */
    DT_HTTP_FORBIDDEN, /* the host's name is refused, or all of its addresses are */
    DT_HTTP_BROKEN,    /* the connection ended before the head was complete, or the head is too large or not HTTP */
    DT_HTTP_UNKNOWN,   /* the client was stopped: whether the receiver got the request is unknown */
    DT_HTTP_WITHHELD,  /* may_send returned false, or the name's lookup did not begin: nothing was written */
    DT_HTTP_NO_URL,    /* set by the sender: the job has no URL, or an invalid one */
    DT_HTTP_NO_SECRET, /* set by the sender: the secret for the signature is invalid */
    DT_HTTP_ENDS
};

/* The result of a request. Borrowed for the call of dt_http_answered_fn. */
struct dt_http_answer {
    enum dt_http_end end;
    int status;                              /* HTTP status from 100 to 999 if ANSWERED, else 0 */
    struct dt_str content_type, retry_after; /* first values of these two headers; absent: no such header */
    struct dt_str body;                      /* first DT_HTTP_BODY_MAX bytes of the body */
    bool body_whole;                         /* `body` is the whole body */
    int64_t duration_ms;                     /* time from the acceptance of the request to its end */
    const char *detail;                      /* reason for operators, if not ANSWERED; never NULL */
};

/* Receives the result of a request, on the client's thread. Must not block, and must not call the client. */
typedef void dt_http_answered_fn(void *arg, void *tag, const struct dt_http_answer *answer);

struct dt_http_settings {
    unsigned max_in_flight;     /* most requests that are accepted and not answered; further ones are refused */
    size_t max_bytes;           /* most bytes of URLs, headers and bodies of the requests in flight */
    const char *ca_file;        /* file of trusted certificates, PEM; NULL or "": the system's */
    struct dt_networks allowed; /* networks that are allowed although they are refused by default */
    struct dt_str allow_hosts;  /* allowed hosts (callback_rules.h); copied */
    const dt_clock *clock;      /* must outlive the client */
    dt_http_answered_fn *answered;
    /* Returns whether a request may be written to its connection. Called on the client's thread. NULL: always true. */
    bool (*may_send)(void *arg, void *tag);
    void *arg;
};

/* A request. dt_http_client_send copies everything. */
struct dt_http_request {
    int64_t owner;     /* owner of the request (topic/owners.h); owners share the client */
    struct dt_str url; /* URL; valid for dt_callback_url_check */
    const struct dt_http_header *headers;
    size_t n_headers;
    struct dt_str body;
    int64_t timeout_ms; /* timeout, at least 1 */
    void *tag;          /* passed to dt_http_answered_fn */
};

typedef struct dt_http_client dt_http_client;

/* Starts the thread. Returns INVALID if ca_file cannot be read, or if libcurl lacks a feature; err has the reason. */
dt_status dt_http_client_new(const struct dt_http_settings *settings, dt_http_client **out, struct dt_error *err);
/* Passes a request to the client's thread. OK: the request is accepted, and its result will be reported. After any
 * other status no result follows: FULL, because of max_in_flight or max_bytes; SHUTDOWN, after dt_http_client_stop;
 * INVALID, because of the URL, or a header's name or value; NOMEM. */
dt_status dt_http_client_send(dt_http_client *client, const struct dt_http_request *request);
/* Sets the end of the lease under which may_send allows requests (dt_clock_boot_us). A further call means that the
 * lease was renewed. If an allowed request is not written completely by this time, its connection is shut
 * (wire_guard.h). Without a call the lease has no end. Any thread may call it. */
void dt_http_client_write_until(dt_http_client *client, int64_t until_us);
/* Reports that the lease has ended permanently: the next dt_http_client_write_until is for another lease. Any thread
 * may call it. */
void dt_http_client_write_over(dt_http_client *client);
/* Ends every request without a result: with its status if the head of the response is complete, else with
 * DT_HTTP_UNKNOWN. Waits until all results are reported and the thread has ended, but not for name servers or
 * receivers. Later requests are refused. The same thread may call it twice. */
void dt_http_client_stop(dt_http_client *client);
/* Stops and frees the client. Accepts NULL. No other thread may use the client meanwhile. */
void dt_http_client_free(dt_http_client *client);
/* Returns the number of requests that are accepted and not answered. Any thread may call it. */
unsigned dt_http_client_in_flight(const dt_http_client *client);
