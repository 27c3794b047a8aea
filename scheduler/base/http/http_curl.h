/*
 * One exchange with a receiver: the copied request, the libcurl handle that transfers it, and the response so far.
 * Internal to the client: http_curl.c has the thread and the lists, http_curl_exchange.c the options and callbacks of
 * libcurl, receivers.c what is known about hosts.
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

/* The value of a header of the response. */
struct dt_head_value {
    bool seen; /* the head has this header; if it is repeated, the first value is used */
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
    size_t bytes; /* bytes of the request that are counted for max_bytes */
    int64_t owner;
    int64_t timeout_us, taken_us, until_us;
    int64_t limit_ms; /* timeout that libcurl was given, from when it got the exchange */
    bool prolonged;   /* until_us has moved, but libcurl's timer still has the old limit */
    const struct dt_networks *allowed;
    struct dt_wire_guard *guard;
    bool fresh;                   /* the exchange uses a new connection, because kept connections may have been shut */
    bool closes;                  /* the request has the header `connection: close` */
    struct dt_receiver *receiver; /* entry of receivers.c; NULL: none */
    /* Returns whether the request may be written now (may_send of dt_http_settings); NULL: always true. */
    bool (*may_send)(void *arg, void *tag);
    void *arg;

    /* State of the exchange. */
    struct dt_host_name *name;  /* name whose lookup the exchange waits for; NULL: none */
    bool no_turn;               /* neither the lookup nor the request's time has begun */
    struct dt_contact *contact; /* contact of receivers.c; NULL: none */
    int64_t wait_until_us;
    void *easy; /* libcurl handle; NULL: not passed to libcurl yet */
    struct curl_slist *resolved;
    struct dt_strbuf resolved_text;
    int fd;        /* socket on which this request last made progress; 0: none */
    bool refused;  /* an address of the host is not allowed */
    bool opened;   /* a socket was opened for an address */
    bool sent;     /* libcurl was allowed to write the request */
    bool withheld; /* may_send refused the request */
    bool again;    /* libcurl tried to write a second time, which was refused */
    char detail[DT_HTTP_DETAIL_MAX];

    /* The response so far. */
    bool in_head, head_whole;
    int status;
    size_t head_bytes; /* bytes of all heads, including interim ones */
    bool chunked;
    bool shared;       /* HTTP/2: other exchanges share the connection, and frames name their exchange */
    uint64_t received; /* bytes received on a connection that had only this response; 0: unknown */
    struct dt_head_value content_type, retry_after;
    struct dt_strbuf answer_body;
};

/* ---- http_curl_exchange.c ---- */

/* Copies a request. Returns INVALID if its URL, or the name or value of a header, is invalid; NOMEM if memory runs
 * out. */
dt_status dt_client_exchange_new(const struct dt_http_request *request, struct dt_client_exchange **out);
void dt_client_exchange_free(struct dt_client_exchange *exchange); /* accepts NULL; must be detached */

/* Checks libcurl and ca_file. Returns INVALID if libcurl is too old or lacks a protocol, or if ca_file is invalid; err
 * says which. */
dt_status dt_easy_check(const char *ca_file, struct dt_error *err);
/* Returns a libcurl handle with the options that all requests share; NULL if memory runs out or libcurl lacks an
 * option. Free it with curl_easy_cleanup. */
void *dt_easy_new(const char *ca_file);
/* Attaches a handle to the exchange, and sets the exchange's options. `addresses` (struct dt_host_name) is copied;
 * NULL: the host is an address itself. If it returns NOMEM, the exchange has the handle, and must be detached. */
dt_status dt_client_exchange_attach(struct dt_client_exchange *exchange, void *easy, const char *addresses,
                                    int64_t now_us);
/* Extends the limits of the exchanges in a list by by_us, except those that wait for a lookup to begin. Returns the
 * earliest limit. */
int64_t dt_client_exchanges_prolong(struct dt_client_exchange *list, int64_t by_us);
/* Detaches the handle from the exchange, and resets it for another exchange. The handle must be in no multi handle. */
void *dt_client_exchange_detach(struct dt_client_exchange *exchange);

/* Returns the result of an exchange that ended with this CURLcode. Texts are borrowed from the exchange. */
struct dt_http_answer dt_client_exchange_answer(struct dt_client_exchange *exchange, int curl_code, int64_t now_us);

/* ---- receivers.c: the first connection to a host ---- */

#define DT_CONTACT_WAIT_US (INT64_C(1) * 1000000) /* longest wait for another request's connection */

typedef struct dt_contacts dt_contacts;

dt_status dt_contacts_new(dt_contacts **out);
void dt_contacts_free(dt_contacts *contacts); /* accepts NULL; call it after all exchanges have ended */
/* Returns whether an exchange may begin now. If not, the exchange waits until dt_contacts_next_made returns its contact
 * (the entry of its host), or for DT_CONTACT_WAIT_US; a second call then returns true. */
bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us);
/* Reports that the exchange has ended, whether it began or waited. */
void dt_contact_leave(struct dt_client_exchange *exchange, int64_t now_us);
/* Returns the next host (contact) whose first connection was opened or has failed, or NULL. */
const struct dt_contact *dt_contacts_next_made(dt_contacts *contacts);

/* ---- receivers.c: bytes after an answer ---- */

typedef struct dt_receivers dt_receivers;

dt_status dt_receivers_new(dt_receivers **out);
void dt_receivers_free(dt_receivers *receivers); /* accepts NULL; call it after all exchanges have ended */
/* Called before libcurl gets an exchange. Sets `closes`, and `fresh` if the exchange must not use a kept
 * connection. */
void dt_receivers_begin(dt_receivers *receivers, struct dt_client_exchange *exchange, int64_t now_us);
/* Reports that an exchange has ended, whether it began or not. whole: its response was read completely. */
void dt_receivers_end(struct dt_client_exchange *exchange, bool whole, int64_t now_us);
/* Reports that a connection has work for this exchange, or for an unknown exchange (NULL). Returns whether the
 * connection was watched. */
bool dt_receivers_use(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* Reports that a connection has no more work for this exchange, or is about to be closed. Returns whether to watch the
 * connection. */
bool dt_receivers_rest(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* Reports that a connection is readable. Returns whether it was watched without a request and need no longer be
 * watched. */
bool dt_receivers_hear(dt_receivers *receivers, int fd, int64_t now_us);
