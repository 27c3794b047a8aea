/*
 * One exchange with a receiver: the copied request, the libcurl handle that carries it, and the answer so far.
 * Internal to the client: http_curl.c has the thread and the lists, http_curl_exchange.c what is said to libcurl and
 * what it answers, receivers.c what is known about hosts.
 *
 * An accepted exchange belongs to the client's thread, and is in one list at a time.
 */
#pragma once

#include "callback_rules.h"
#include "host_names.h"
#include "http_client.h"

struct curl_slist;
struct dt_wire_guard;
struct dt_contact;
struct dt_receiver;

/* The value of a header of the answer. */
struct dt_head_value {
    bool seen; /* the head has this header; the first of several counts */
    bool kept;
    size_t n;
    char p[DT_HTTP_VALUE_MAX];
};

struct dt_client_exchange {
    struct dt_client_exchange *prev;
    struct dt_client_exchange *next;

    /* The request. Its texts follow the struct in the same allocation. */
    void *tag;
    struct dt_callback_url url;
    const char *url_text;
    struct dt_str body;
    struct curl_slist *headers;
    size_t bytes; /* counted for max_bytes */
    int64_t owner;
    int64_t timeout_us, taken_us, until_us;
    int64_t limit_ms; /* libcurl's limit, from when it got the exchange */
    bool prolonged;   /* until_us has moved since, so libcurl does not check it at the right time by itself */
    const struct dt_networks *allowed;
    struct dt_wire_guard *guard;
    bool fresh;                             /* on a connection of its own, because kept ones may have been shut */
    bool closes;                            /* the request has `connection: close` */
    struct dt_receiver *receiver;           /* receivers.c; NULL: none */
    bool (*may_send)(void *arg, void *tag); /* NULL: always true */
    void *arg;

    /* Under way. */
    struct dt_host_name *name;  /* whose lookup the exchange waits for; NULL: none */
    bool no_turn;               /* neither the lookup nor the time of the request has begun */
    struct dt_contact *contact; /* receivers.c; NULL: none */
    int64_t wait_until_us;
    void *easy; /* NULL: libcurl does not have it yet */
    struct curl_slist *resolved;
    struct dt_strbuf resolved_text;
    int fd;        /* the socket on which this request last made progress; 0: none */
    bool refused;  /* an address was refused */
    bool opened;   /* a socket was opened for an address */
    bool sent;     /* libcurl was allowed to write the request */
    bool withheld; /* may_send did not allow it */
    bool again;    /* libcurl was refused a second write */
    char detail[DT_HTTP_DETAIL_MAX];

    /* The answer. */
    bool in_head, head_whole;
    int status;
    size_t head_bytes; /* of all heads, also interim ones */
    bool chunked;
    bool shared;       /* HTTP/2: other exchanges use the connection, and frames name their exchange */
    uint64_t received; /* bytes of a connection that had only this answer; 0: not known */
    struct dt_head_value content_type, retry_after;
    struct dt_strbuf answer_body;
};

/* ---- http_curl_exchange.c ---- */

/* Copies a request. INVALID: its URL, or the name or value of a header. NOMEM. */
DT_MUST_CHECK dt_status dt_client_exchange_new(const struct dt_http_request *request, struct dt_client_exchange **out);
void dt_client_exchange_free(struct dt_client_exchange *exchange); /* accepts NULL; detached */

/* INVALID: libcurl is too old or lacks a protocol, or ca_file is invalid; err says which. */
DT_MUST_CHECK dt_status dt_easy_check(const char *ca_file, struct dt_error *err);
/* Returns a libcurl handle with the options that every request has. NULL: no memory, or libcurl lacks an option. Freed
 * by curl_easy_cleanup. */
void *dt_easy_new(const char *ca_file);
/* Gives the exchange a handle, and sets the options of the exchange. `addresses` (struct dt_host_name) is copied;
 * NULL: the host is an address itself. NOMEM: the exchange has the handle, and must be detached. */
DT_MUST_CHECK dt_status dt_client_exchange_attach(struct dt_client_exchange *exchange, void *easy,
                                                  const char *addresses, int64_t now_us);
/* Extends the limits of the exchanges in a list, except of those that wait for a turn. Returns the earliest limit. */
int64_t dt_client_exchanges_prolong(struct dt_client_exchange *list, int64_t by_us);
/* Takes the handle, which is in no multi handle any more, from the exchange, and resets it for another one. */
void *dt_client_exchange_detach(struct dt_client_exchange *exchange);

/* The answer of an exchange that ended with this CURLcode. Texts are borrowed from the exchange. */
struct dt_http_answer dt_client_exchange_answer(struct dt_client_exchange *exchange, int curl_code, int64_t now_us);

/* ---- receivers.c: the first connection to a host ---- */

#define DT_CONTACT_WAIT_US (INT64_C(1) * 1000000) /* the longest wait for another request's connection */

typedef struct dt_contacts dt_contacts;

DT_MUST_CHECK dt_status dt_contacts_new(dt_contacts **out);
void dt_contacts_free(dt_contacts *contacts); /* accepts NULL; all exchanges have ended */
/* Whether an exchange may begin now. False: it waits until dt_contacts_next_made returns its contact, or for
 * DT_CONTACT_WAIT_US; a second call then returns true. */
bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us);
/* The exchange has ended, whether it began or waited. */
void dt_contact_leave(struct dt_client_exchange *exchange, int64_t now_us);
/* Returns a contact whose first connection was opened or has failed; NULL: no further one. */
const struct dt_contact *dt_contacts_next_made(dt_contacts *contacts);

/* ---- receivers.c: bytes after an answer ---- */

typedef struct dt_receivers dt_receivers;

DT_MUST_CHECK dt_status dt_receivers_new(dt_receivers **out);
void dt_receivers_free(dt_receivers *receivers); /* accepts NULL; all exchanges have ended */
/* Called before libcurl gets an exchange. Sets `closes`, and `fresh` if the exchange must not use a kept
 * connection. */
void dt_receivers_begin(dt_receivers *receivers, struct dt_client_exchange *exchange, int64_t now_us);
/* Called when an exchange has ended, whether it began or not. whole: an answer was read to its end. */
void dt_receivers_end(struct dt_client_exchange *exchange, bool whole, int64_t now_us);
/* Called when a connection has work for this exchange, or for an unknown one (NULL). Returns whether it was
 * watched. */
bool dt_receivers_use(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* Called when a connection has no more work for this exchange, or before it is closed. Returns whether to watch it. */
bool dt_receivers_rest(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* Called when a connection is readable. Returns whether it was watched without a request and need not be any more. */
bool dt_receivers_hear(dt_receivers *receivers, int fd, int64_t now_us);
