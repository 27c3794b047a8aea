/*
 * Host names and the addresses that they resolve to. Each name is looked up once at a time, on a thread of its own, for
 * all requests that wait for it. Knows neither HTTP nor libcurl, and checks no address.
 *
 * The C library's lookup cannot be interrupted, and takes ten seconds and more if a name server does not answer. So a
 * lookup belongs to its name, not to a request: it continues when no request waits for it any more, and does not delay
 * dt_host_names_free. Owners share the lookups (topic/owners.h, dt_shares): an owner runs at most a quarter of the
 * lookups that others leave free; if it is the only owner, an eighth stays free. Nothing queues here.
 *
 *   dt_host_names_new(wake_fd, &names)
 *   dt_host_names_find(names, "example.com", owner, now, &name)
 *       KNOWN     its addresses; if they were found more than a minute ago, the name is looked up again meanwhile
 *       ASKED     wake_fd becomes readable when the lookup has ended
 *       NO_TURN   the owner runs as many lookups as it may: the caller asks again when a lookup has ended
 *   while ((name = dt_host_names_ended(names, now))) ...    after a wake-up
 *
 * One thread calls all functions.
 */
#pragma once

#include "base/hash.h"
#include "base/text/strbuf.h"

#define DT_LOOKUPS_MAX        256   /* most lookups at a time */
#define DT_LOOKUPS_PART       4     /* an owner runs at most 1/DT_LOOKUPS_PART of the lookups that other owners leave */
#define DT_HOST_ADDRESSES     16    /* most addresses that are kept for a name */
#define DT_HOST_NAMES_MAX     10000 /* most names that are kept while no request needs them */
#define DT_HOST_NAME_KEPT_US  (INT64_C(60) * 1000000)
#define DT_HOST_NAME_AGAIN_US (INT64_C(5) * 1000000)   /* time until a known name is looked up again after a failure */
#define DT_HOST_NAME_USED_US  (INT64_C(600) * 1000000) /* how long after a lookup its addresses may be used */

enum dt_host_name_state { DT_HOST_NAME_NO_TURN, DT_HOST_NAME_ASKED, DT_HOST_NAME_KNOWN, DT_HOST_NAME_FAILED };

/* An entry of the table. It does not move while its lookup runs or `waiting` is not 0. */
struct dt_host_name {
    enum dt_host_name_state state;
    char *addresses;    /* if KNOWN: addresses in the order of preference, "192.0.2.1,[2001:db8::1]" */
    const char *reason; /* if FAILED: the reason, static text for operators */
    unsigned waiting;   /* number of requests that point to the entry, counted by the caller */
    bool asked;         /* a lookup of the name is running */
    int64_t asks_us;    /* time of the next lookup; the addresses are used until found_us + DT_HOST_NAME_USED_US */
    int64_t found_us;
    UT_hash_handle hh;
    char host[];
};

typedef struct dt_host_names dt_host_names;

/* Makes an empty table. wake_fd is an eventfd, which the table duplicates. Returns NOMEM or SYSTEM if this fails. */
dt_status dt_host_names_new(int wake_fd, dt_host_names **out);
/* Accepts NULL. Does not wait for lookups. */
void dt_host_names_free(dt_host_names *names);
/* Returns the entry of a host, which is KNOWN, ASKED or NO_TURN. Begins a lookup for this owner, if the owner may have
 * one, unless the name was found within the last minute or its lookup is running. now_us is monotonic. If it returns
 * NOMEM, *out is undefined. */
dt_status dt_host_names_find(dt_host_names *names, const char *host, int64_t owner, int64_t now_us,
                             struct dt_host_name **out);
/* Returns the entry, KNOWN or FAILED, of the next lookup that has ended, or NULL. If name servers failed, the addresses
 * that were found before are kept. */
struct dt_host_name *dt_host_names_ended(dt_host_names *names, int64_t now_us);
/* Looks a name up again, at once if the owner may have a lookup. Called if a request reached the host at none of its
 * known addresses. */
void dt_host_names_doubt(dt_host_names *names, const char *host, int64_t owner, int64_t now_us);
