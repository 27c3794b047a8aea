/*
 * One exchange with a receiver: the copied request, the libcurl handle that carries it, and what came of the answer.
 * Internal to the client: http_curl.c has the thread and the lists, http_curl_exchange.c what libcurl gets,
 * http_curl_exchange.c what it answers, receivers.c and receivers.c what is known of hosts.
 *
 * An exchange belongs to the client's thread once it was taken. It is in one list at a time.
 */
#ifndef DT_BASE_HTTP_CURL_H
#define DT_BASE_HTTP_CURL_H

#include "host_names.h"
#include "http_client.h"
#include "callback_rules.h"

struct curl_slist;
struct dt_wire_guard;
struct dt_contact;
struct dt_receiver;

/* A value of the answer's head. */
struct dt_head_value {
    bool seen; /* the head has such a header; of several the first counts */
    bool kept;
    size_t n;
    char p[DT_HTTP_VALUE_MAX];
};

struct dt_client_exchange {
    struct dt_client_exchange *prev;
    struct dt_client_exchange *next;

    /* The request. All texts are after the struct, in the same allocation. */
    void *tag;
    struct dt_callback_url url;
    const char *url_text;
    struct dt_str body;
    struct curl_slist *headers;
    size_t bytes; /* that count for max_bytes */
    int64_t owner;
    int64_t timeout_us, taken_us, until_us;
    int64_t limit_ms; /* libcurl's limit, counted from when it got the exchange */
    bool prolonged;   /* until_us has moved since, and libcurl does not look then by itself */
    const struct dt_networks *allowed;
    struct dt_wire_guard *guard;
    bool fresh;                             /* on a connection of its own: those that are kept may have been shut */
    bool closes;                            /* the request says `connection: close` */
    struct dt_receiver *receiver;           /* receivers.c; NULL = none */
    bool (*may_send)(void *arg, void *tag); /* NULL: always */
    void *arg;

    /* On its way. */
    struct dt_host_name *name;  /* of which the lookup is waited for; NULL = none */
    bool no_turn;               /* the lookup has not begun, nor has the time of the request */
    struct dt_contact *contact; /* receivers.c; NULL = none */
    int64_t wait_until_us;
    void *easy; /* NULL = libcurl has not got it */
    struct curl_slist *resolved;
    struct dt_strbuf resolved_text;
    int fd;        /* the connection that last had work for it; 0 = none */
    bool refused;  /* an address was refused */
    bool opened;   /* a socket was opened for an address */
    bool sent;     /* libcurl was let write the request to a connection */
    bool withheld; /* it was not let, for the sender's reasons */
    bool again;    /* libcurl wanted to write it a second time, and was refused */
    char detail[DT_HTTP_DETAIL_MAX];

    /* The answer. */
    bool in_head, head_whole;
    int status;
    size_t head_bytes; /* of all heads, interim ones too */
    bool chunked;
    bool shared;       /* HTTP/2: other exchanges use the connection, and frames name their exchange */
    uint64_t received; /* bytes of a connection with this answer alone; 0: not known */
    struct dt_head_value content_type, retry_after;
    struct dt_strbuf answer_body;
};

/* ---- http_curl_exchange.c ---- */

/* Copies a request. INVALID: its URL, or the name or value of a header. NOMEM. */
DT_MUST_CHECK dt_status dt_client_exchange_new(const struct dt_http_request *request, struct dt_client_exchange **out);
void dt_client_exchange_free(struct dt_client_exchange *exchange); /* accepts NULL; detached */

/* INVALID: libcurl is too old or lacks a protocol, or ca_file is none; err says which. */
DT_MUST_CHECK dt_status dt_easy_check(const char *ca_file, struct dt_error *err);
/* A libcurl handle with the options that every request has; ca_file as in dt_http_settings. NULL: no memory, or libcurl
 * lacks an option. Freed by curl_easy_cleanup. */
void *dt_easy_new(const char *ca_file);
/*
 * Gives the exchange a handle, and the handle the exchange's options. addresses (struct dt_host_name) is copied; NULL:
 * the host is an address itself. NOMEM: the exchange has the handle, and is detached as usual.
 */
DT_MUST_CHECK dt_status dt_client_exchange_attach(struct dt_client_exchange *exchange, void *easy,
                                                  const char *addresses, int64_t now_us);
/* Gives the exchanges of a list so much more time, except for a turn; returns when the first of them ends. */
int64_t dt_client_exchanges_prolong(struct dt_client_exchange *list, int64_t by_us);
/* Takes the handle, which is in no multi handle any more, from the exchange, fit for another one. */
void *dt_client_exchange_detach(struct dt_client_exchange *exchange);

/* ---- http_curl_exchange.c ---- */

/* libcurl's callbacks for the head, line by line, and for the body. arg is the exchange. */
size_t dt_client_exchange_on_head(char *line, size_t size, size_t n, void *arg);
size_t dt_client_exchange_on_body(char *bytes, size_t size, size_t n, void *arg);
/* The answer to an exchange that ended with this CURLcode. Its texts are borrowed from the exchange. */
struct dt_http_answer dt_client_exchange_answer(struct dt_client_exchange *exchange, int curl_code, int64_t now_us);

/* ---- receivers.c ---- */

#define DT_CONTACT_WAIT_US (INT64_C(1) * 1000000) /* the longest wait for another request's connection */

typedef struct dt_contacts dt_contacts;

DT_MUST_CHECK dt_status dt_contacts_new(dt_contacts **out);
void dt_contacts_free(dt_contacts *contacts); /* accepts NULL; all exchanges have ended */
/*
 * Whether an exchange may begin now. False: it waits, until dt_contacts_next_made gives its contact, or for
 * DT_CONTACT_WAIT_US. It may begin when it is asked for a second time.
 */
bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us);
/* The exchange has ended, whether it began or waited. */
void dt_contact_leave(struct dt_client_exchange *exchange, int64_t now_us);
/* A contact (struct dt_client_exchange, contact) whose first connection is open now, or failed; NULL: no
 * further one. */
const struct dt_contact *dt_contacts_next_made(dt_contacts *contacts);

/* ---- receivers.c ---- */

typedef struct dt_receivers dt_receivers;

DT_MUST_CHECK dt_status dt_receivers_new(dt_receivers **out);
void dt_receivers_free(dt_receivers *receivers); /* accepts NULL; all exchanges have ended */
/* An exchange is about to be handed to libcurl: sets `closes`, and `fresh` if it must use no kept connection. */
void dt_receivers_begin(dt_receivers *receivers, struct dt_client_exchange *exchange, int64_t now_us);
/* An exchange has ended, whether it began or not. whole: an answer was read to its end. */
void dt_receivers_end(struct dt_client_exchange *exchange, bool whole, int64_t now_us);
/* A connection has work for this exchange, or for an unknown one (NULL). True: it was watched. */
bool dt_receivers_use(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* A connection has no more work for this exchange, or is about to be closed. True: it must be watched. */
bool dt_receivers_rest(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange);
/* A connection is readable. True: it was watched, has no request, and need not be watched any more. */
bool dt_receivers_hear(dt_receivers *receivers, int fd, int64_t now_us);

#endif
