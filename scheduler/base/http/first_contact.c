/*
 * First contact with hosts that speak TLS. Of the requests to a host without a connection one goes first, and the
 * others wait until its connection is open: then they share the connection where HTTP/2 was agreed, and open their own
 * where it was not. Without this, a burst opens as many connections as it has requests. Knows neither libcurl nor lists
 * of waiting exchanges; time is passed in.
 *
 * A table of hosts. An entry is in one of three conditions:
 *
 *   cold      no exchange uses it, and none did for a while: the next one goes first
 *   making    `first` is under way, and not written to its connection yet
 *   made      all others; there may be a connection
 */
#include <stdlib.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/hash.h"
#include "http_curl.h"

#define WARM_US INT64_C(1000000) /* connections that idled as long are closed, or will be (http_curl_exchange.c) */

struct dt_contact {
    const struct dt_client_exchange *first; /* NULL: not making, or its exchange has ended */
    unsigned users;                         /* exchanges that point at the contact */
    int64_t used_us;                        /* when the last of them left */
    bool listed;                            /* in `making` */
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

static bool cold(const struct dt_contact *contact, int64_t now_us)
{
    return contact->users == 0 && now_us - contact->used_us >= WARM_US;
}

static void drop(dt_contacts *contacts, struct dt_contact *contact)
{
    dt_assert_cmp(contact->users, ==, 0);
    HASH_DEL(contacts->by_key, contact);
    free(contact);
}

/* Makes a contact if there is none, after it has dropped the cold ones; NULL: memory is out. */
static struct dt_contact *contact_of(dt_contacts *contacts, const char *key, int64_t now_us)
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
        if (cold(contact, now_us) && !contact->listed)
            drop(contacts, contact);
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
    struct dt_contact *contact = contact_of(contacts, exchange->url.key, now_us);
    if (!contact)
        return true; /* out of memory: without order, but it goes */
    if (cold(contact, now_us)) {
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
    drop(contacts, contact);
    free(contacts);
}
