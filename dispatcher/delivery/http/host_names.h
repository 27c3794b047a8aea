/*
 * Names of hosts and the addresses that they resolve to. A name is looked up once at a time, however many requests wait
 * for it, on a thread of its own. Owns the lookups and what they found; knows neither HTTP nor libcurl, and judges no
 * address.
 *
 * The C library's lookup cannot be interrupted. A lookup therefore belongs to its name, not to a request: it goes on
 * when nobody waits for it any more, and does not hold up dt_host_names_free.
 *
 *   dt_host_names_new(wake_fd, &names)
 *   dt_host_names_find(names, "example.com", now, &name)   ASKED: wake_fd becomes readable when the lookup has ended
 *   while ((name = dt_host_names_ended(names, now))) ...    after a wake-up
 *
 * All functions are called by one thread, the owner's.
 */
#ifndef DT_DISPATCHER_HOST_NAMES_H
#define DT_DISPATCHER_HOST_NAMES_H

#include "base/strbuf.h"
#include "hash.h"

#define DT_LOOKUPS_MAX       256 /* threads that look names up; further names queue */
#define DT_HOST_ADDRESSES    16  /* of a name that are kept */
#define DT_HOST_NAME_KEPT_US (INT64_C(60) * 1000000)

enum dt_host_name_state { DT_HOST_NAME_ASKED, DT_HOST_NAME_KNOWN, DT_HOST_NAME_FAILED };

/* An entry of the table. It stays where it is while its lookup has not ended or `waiting` is not 0. */
struct dt_host_name {
    enum dt_host_name_state state;
    char *addresses;    /* KNOWN: "192.0.2.1,[2001:db8::1]", in the order of preference */
    const char *reason; /* FAILED: static text for people */
    unsigned waiting;   /* the owner's count of those who hold a pointer to the entry */
    int64_t known_until_us;
    struct dt_host_name *prev; /* in the queue for a thread */
    struct dt_host_name *next;
    UT_hash_handle hh;
    char host[];
};

typedef struct dt_host_names dt_host_names;

/* wake_fd is an eventfd; the table keeps a descriptor of its own for it. NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_host_names_new(int wake_fd, dt_host_names **out);
/* Accepts NULL. Waits for no lookup. */
void dt_host_names_free(dt_host_names *names);
/*
 * Finds the entry of a host, and begins a lookup unless it is KNOWN or its lookup has not ended. The state is then
 * ASKED or KNOWN. now_us is monotonic. NOMEM: *out is undefined.
 */
DT_MUST_CHECK dt_status dt_host_names_find(dt_host_names *names, const char *host, int64_t now_us,
                                           struct dt_host_name **out);
/* Takes the result of a lookup that has ended; returns its entry, KNOWN or FAILED; NULL: no further lookup has
 * ended. */
struct dt_host_name *dt_host_names_ended(dt_host_names *names, int64_t now_us);
/* No request reached the host at the addresses that are known: the next one looks its name up anew. */
void dt_host_names_doubt(dt_host_names *names, const char *host);

#endif
