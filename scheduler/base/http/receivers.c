/*
 * What the client knows about receivers: which of them send bytes after their responses, and how the first connection
 * to a TLS host is made. Knows no lists of exchanges. Callers pass the time, which is monotonic.
 *
 * Bytes after a response of an HTTP/1 receiver, such as a second response, would look like the response to the next
 * request on the connection, which may belong to another job.
 *
 *          first response       250 ms without further bytes
 *  new ─────────────────▶ heard ─────────────────▶ trusted
 *   ▲                        │ bytes after a response │
 *   └──── after an hour ──── closing ◀────────────────┘
 *
 * Only connections of a trusted receiver are used again. While a receiver is not trusted, all requests but the first
 * have a connection of their own with "Connection: close". A connection without a request is watched. If bytes arrive
 * after the next request was written, they cannot be distinguished from its response.
 *
 * The file has a table of receivers by scheme, host and port, and a table that gives the receiver of each watched
 * descriptor. A closed descriptor keeps its entry until its number is used again, because no event arrives for it.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "http_curl.h"

#define REMEMBERED  10000 /* most receivers that are kept without requests */
#define QUIET_US    INT64_C(250000)
#define CLOSING_US  (INT64_C(3600) * 1000000)
#define FIRST_US    INT64_C(1000000) /* after this time, a receiver's next request replaces an unanswered first one */
#define DRAIN_BYTES 4096
#define ESTABLISHED 1 /* TCP_ESTABLISHED of netinet/tcp.h, which conflicts with linux/tcp.h */

/* TLS_RECORD_HEAD: bytes of a record's head. TLS 1.3 sends alerts as data of TLS_ALERT_BYTES (RFC 8446, 5.2 and 6). */
#define TLS_RECORD_HEAD 5
#define TLS_DATA        0x17
#define TLS_ALERT_BYTES 19

struct dt_receiver {
    const struct dt_client_exchange *first; /* first exchange of a new receiver, while it is under way */
    int64_t quiet_us;                       /* time from which the receiver is trusted; 0: it is new */
    int64_t closing_until_us;
    unsigned users; /* number of exchanges and watched connections that use the entry */
    UT_hash_handle hh;
    char key[];
};

struct dt_receivers {
    struct dt_receiver *by_key;
    struct dt_receiver **watched; /* receivers by descriptor; NULL: the descriptor is not watched */
    size_t n_watched;
};

/* Finds or makes a receiver. Returns NULL if memory runs out. */
static struct dt_receiver *find_or_make_receiver(dt_receivers *receivers, const char *key)
{
    const size_t n = strlen(key);
    struct dt_receiver *receiver;
    HASH_FIND(hh, receivers->by_key, key, n, receiver);
    if (receiver)
        return receiver;
    /* Frees the oldest entry, or moves it to the end; moving needs no memory. */
    if (HASH_COUNT(receivers->by_key) >= REMEMBERED) {
        struct dt_receiver *oldest = receivers->by_key;
        HASH_DEL(receivers->by_key, oldest);
        if (oldest->users)
            HASH_ADD_KEYPTR(hh, receivers->by_key, oldest->key, strlen(oldest->key), oldest);
        else
            free(oldest);
    }
    receiver = calloc(1, sizeof(*receiver) + n + 1);
    if (!receiver)
        return NULL;
    memcpy(receiver->key, key, n);
    HASH_ADD_KEYPTR(hh, receivers->by_key, receiver->key, n, receiver);
    if (receiver->hh.tbl)
        return receiver;
    free(receiver);
    return NULL;
}

static void start_closing(struct dt_receiver *receiver, int64_t now_us)
{
    static struct dt_log_limit limit;
    int64_t suppressed;
    if (now_us >= receiver->closing_until_us && dt_log_allows(&limit, dt_str(receiver->key), &suppressed))
        DT_LOG(WARN, "callbacks",
               "a receiver sent bytes after its answer: for one hour each request to it uses a new connection",
               DT_S("receiver", receiver->key), DT_I("suppressed", suppressed));
    receiver->closing_until_us = now_us + CLOSING_US;
    receiver->quiet_us = 0;
}

/* ---- exchanges ---- */

void dt_receivers_begin(dt_receivers *receivers, struct dt_client_exchange *exchange, int64_t now_us)
{
    struct dt_receiver *receiver = find_or_make_receiver(receivers, exchange->url.key);
    exchange->receiver = receiver;
    exchange->closes = true;
    if (receiver)
        receiver->users++;
    if (!receiver || now_us < receiver->closing_until_us || now_us < receiver->quiet_us)
        exchange->fresh = true;
    else if (receiver->quiet_us || !receiver->first || now_us - receiver->first->taken_us > FIRST_US)
        exchange->closes = false;
    if (receiver && !exchange->closes && !receiver->quiet_us)
        receiver->first = exchange;
}

static bool has_surplus_bytes(const struct dt_client_exchange *exchange)
{
    return exchange->received > exchange->head_bytes + exchange->answer_body.n;
}

void dt_receivers_end(struct dt_client_exchange *exchange, bool whole, int64_t now_us)
{
    struct dt_receiver *receiver = exchange->receiver;
    if (!receiver)
        return;
    dt_assert_cmp(receiver->users, >, 0);
    receiver->users--;
    exchange->receiver = NULL;
    if (receiver->first == exchange) {
        receiver->first = NULL;
        if (exchange->head_whole)
            receiver->quiet_us = exchange->shared ? now_us : now_us + QUIET_US;
    }
    if (whole && has_surplus_bytes(exchange))
        start_closing(receiver, now_us);
}

/* ---- connections ---- */

bool dt_receivers_use(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange)
{
    if (exchange)
        exchange->fd = fd;
    if ((size_t)fd >= receivers->n_watched || !receivers->watched[fd])
        return false;
    dt_assert_cmp(receivers->watched[fd]->users, >, 0);
    receivers->watched[fd]->users--;
    receivers->watched[fd] = NULL;
    return true;
}

static bool grow_watched_table(dt_receivers *receivers, int fd)
{
    size_t n = receivers->n_watched ? receivers->n_watched : 64;
    if ((size_t)fd < receivers->n_watched)
        return true;
    while (n <= (size_t)fd)
        n *= 2;
    struct dt_receiver **watched = realloc(receivers->watched, n * sizeof(struct dt_receiver *));
    if (!watched)
        return false;
    for (size_t i = receivers->n_watched; i < n; i++)
        watched[i] = NULL;
    receivers->watched = watched;
    receivers->n_watched = n;
    return true;
}

bool dt_receivers_rest(dt_receivers *receivers, int fd, struct dt_client_exchange *exchange)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);
    dt_receivers_use(receivers, fd, NULL);
    if (!exchange || exchange->fd != fd || !exchange->receiver || !exchange->head_whole || exchange->shared)
        return false;
    /* libcurl discards bytes after a response without a body. So the length of a connection's first response is
     * compared with the number of bytes that the kernel has received, unless TLS or chunks hide the length. */
    if (exchange->opened && !exchange->url.tls && !exchange->chunked &&
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0)
        exchange->received = info.tcpi_bytes_received - (info.tcpi_state != ESTABLISHED); /* the kernel counts a FIN as
                                                                                           * a byte */
    if (has_surplus_bytes(exchange))
        shutdown(fd, SHUT_RDWR); /* even if the response is incomplete: the connection is not used again anyway */
    if (!grow_watched_table(receivers, fd))
        return false;
    receivers->watched[fd] = exchange->receiver;
    receivers->watched[fd]->users++;
    return true;
}

bool dt_receivers_hear(dt_receivers *receivers, int fd, int64_t now_us)
{
    unsigned char bytes[DRAIN_BYTES];
    struct dt_receiver *receiver = (size_t)fd < receivers->n_watched ? receivers->watched[fd] : NULL;
    if (!receiver)
        return false;
    dt_receivers_use(receivers, fd, NULL);
    ssize_t n = recv(fd, bytes, TLS_RECORD_HEAD, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        return true;
    /* A TLS server that closes an idle connection sends an alert before the end. An alert is no reason to distrust the
     * receiver. */
    const bool says_end = strncmp(receiver->key, "https", 5) == 0 && (n < TLS_RECORD_HEAD || bytes[0] != TLS_DATA ||
                                                                      (bytes[3] << 8 | bytes[4]) == TLS_ALERT_BYTES);
    if (!says_end)
        start_closing(receiver, now_us);
    shutdown(fd, SHUT_RDWR);
    while (n > 0) /* libcurl notices a closed connection only if no bytes precede the end: reads the bytes here */
        n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    return true;
}

/* ---- lifetime ---- */

dt_status dt_receivers_new(dt_receivers **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? DT_OK : DT_NOMEM;
}

void dt_receivers_free(dt_receivers *receivers)
{
    struct dt_receiver *receiver;
    struct dt_receiver *next;
    if (!receivers)
        return;
    HASH_ITER(hh, receivers->by_key, receiver, next)
    {
        HASH_DEL(receivers->by_key, receiver);
        free(receiver);
    }
    free(receivers->watched);
    free(receivers);
}

/*
 * The first connection to a TLS host: one request goes first, and the others wait until its connection is open. Then
 * they share it if HTTP/2 was negotiated, or open their own. Otherwise a burst would open a connection for each
 * request. An entry of the table of hosts is in one of three states:
 *
 *   cold      no exchange has used it for a while: the next exchange goes first
 *   making    `first` is under way, and not written to its connection yet
 *   made      every other entry; a connection may be open
 */

#define WARM_US INT64_C(1000000) /* time after which an idle connection is not used again (http_curl_exchange.c) */

struct dt_contact {
    /* The exchange that opens the first connection to the host; NULL: there is none, or it has ended. */
    const struct dt_client_exchange *first;
    unsigned users;  /* number of exchanges that point to the contact */
    int64_t used_us; /* time when the last exchange stopped using the contact */
    bool listed;     /* the contact is in the list `making` */
    struct dt_contact *prev;
    struct dt_contact *next;
    UT_hash_handle hh;
    char key[];
};

struct dt_contacts {
    struct dt_contact *by_key;
    struct dt_contact *making;
    int64_t pruned_us;
};

static bool is_contact_unused(const struct dt_contact *contact, int64_t now_us)
{
    return contact->users == 0 && now_us - contact->used_us >= WARM_US;
}

static void free_contact(dt_contacts *contacts, struct dt_contact *contact)
{
    dt_assert_cmp(contact->users, ==, 0);
    HASH_DEL(contacts->by_key, contact);
    free(contact);
}

/* Finds or makes the entry of a host, after freeing entries that were not used lately. Returns NULL if memory runs
 * out. */
static struct dt_contact *find_or_make_contact(dt_contacts *contacts, const char *key, int64_t now_us)
{
    const size_t n = strlen(key);
    struct dt_contact *contact;
    struct dt_contact *next;
    HASH_FIND(hh, contacts->by_key, key, n, contact);
    if (contact)
        return contact;
    if (now_us - contacts->pruned_us >= WARM_US) {
        contacts->pruned_us = now_us;
        HASH_ITER(hh, contacts->by_key, contact, next)
        if (is_contact_unused(contact, now_us) && !contact->listed)
            free_contact(contacts, contact);
    }
    contact = calloc(1, sizeof(*contact) + n + 1);
    if (!contact)
        return NULL;
    memcpy(contact->key, key, n);
    contact->used_us = now_us - WARM_US;
    HASH_ADD_KEYPTR(hh, contacts->by_key, contact->key, n, contact);
    if (contact->hh.tbl)
        return contact;
    free(contact);
    return NULL;
}

bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us)
{
    if (!exchange->url.tls || exchange->contact)
        return true;
    struct dt_contact *contact = find_or_make_contact(contacts, exchange->url.key, now_us);
    if (!contact)
        return true; /* memory ran out: the exchange begins without waiting for others */
    if (is_contact_unused(contact, now_us)) {
        contact->first = exchange;
        if (!contact->listed)
            DL_APPEND(contacts->making, contact);
        contact->listed = true;
    }
    contact->users++;
    exchange->contact = contact;
    return !contact->first || contact->first == exchange;
}

void dt_contact_leave(struct dt_client_exchange *exchange, int64_t now_us)
{
    struct dt_contact *contact = exchange->contact;
    if (!contact)
        return;
    exchange->contact = NULL;
    dt_assert_cmp(contact->users, >, 0);
    contact->users--;
    contact->used_us = now_us;
    if (contact->first == exchange)
        contact->first = NULL;
}

const struct dt_contact *dt_contacts_next_made(dt_contacts *contacts)
{
    struct dt_contact *contact;
    DL_FOREACH(contacts->making, contact)
    {
        if (contact->first && !contact->first->sent)
            continue;
        DL_DELETE(contacts->making, contact);
        contact->listed = false;
        contact->first = NULL;
        return contact;
    }
    return NULL;
}

dt_status dt_contacts_new(dt_contacts **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? DT_OK : DT_NOMEM;
}

void dt_contacts_free(dt_contacts *contacts)
{
    struct dt_contact *contact;
    struct dt_contact *next;
    if (!contacts)
        return;
    HASH_ITER(hh, contacts->by_key, contact, next)
    free_contact(contacts, contact);
    free(contacts);
}
