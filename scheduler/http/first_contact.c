/*
 * A table of hosts. An entry is in one of three conditions:
 *
 *   cold      nobody uses it, and nobody did for a while: the next exchange goes first
 *   making    `first` is under way, and not written to its connection yet
 *   made      all others; there may be a connection
 */
#include "first_contact.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/hash.h"
#include "http_curl.h"

#define WARM_US INT64_C(1000000) /* connections that idled as long are closed, or will be (http_curl_request.c) */

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
    HASH_DEL(contacts->by_key, contact);
    free(contact);
}

static void prune(dt_contacts *contacts, int64_t now_us)
{
    struct dt_contact *contact;
    struct dt_contact *next;
    if (now_us - contacts->pruned_us < WARM_US)
        return;
    contacts->pruned_us = now_us;
    HASH_ITER(hh, contacts->by_key, contact, next)
    if (cold(contact, now_us) && !contact->listed)
        drop(contacts, contact);
}

static struct dt_contact *add(dt_contacts *contacts, const char *key, int64_t now_us)
{
    size_t n = strlen(key);
    struct dt_contact *contact = calloc(1, sizeof(*contact) + n + 1);
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

static struct dt_contact *contact_of(dt_contacts *contacts, const char *key, int64_t now_us)
{
    struct dt_contact *contact;
    HASH_FIND_STR(contacts->by_key, key, contact);
    if (contact)
        return contact;
    prune(contacts, now_us);
    return add(contacts, key, now_us);
}

static void go_first(dt_contacts *contacts, struct dt_contact *contact, const struct dt_client_exchange *exchange)
{
    contact->first = exchange;
    if (!contact->listed)
        DL_APPEND(contacts->making, contact);
    contact->listed = true;
}

bool dt_contact_may_begin(dt_contacts *contacts, struct dt_client_exchange *exchange, int64_t now_us)
{
    if (!exchange->url.tls || exchange->contact)
        return true;
    struct dt_contact *contact = contact_of(contacts, exchange->url.key, now_us);
    if (!contact)
        return true; /* out of memory: without order, but it goes */
    if (cold(contact, now_us))
        go_first(contacts, contact, exchange);
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
