/*
 * Names of hosts and the addresses that they resolve to. A name is looked up once at a time, however many requests wait
 * for it, on a thread of its own. Owns the lookups and what they found; knows neither HTTP nor libcurl, and judges no
 * address.
 *
 * The C library's lookup cannot be interrupted, and a silent name server keeps it for ten seconds and more. A lookup
 * therefore belongs to its name, not to a request: it goes on when no request waits for it any more, and does not hold
 * up dt_host_names_free. Lookups are shared by owner (topic/owner.h, dt_shares): an owner runs at most a quarter of
 * what others leave, and an eighth stays free if it is alone. Nothing queues here.
 *
 *   dt_host_names_new(wake_fd, &names)
 *   dt_host_names_find(names, "example.com", owner, now, &name)
 *       KNOWN     its addresses; a name that was asked for more than a minute ago is looked up again meanwhile
 *       ASKED     wake_fd becomes readable when the lookup has ended
 *       NO_TURN   the owner runs as many lookups as it may: the caller asks again when one has ended
 *   while ((name = dt_host_names_ended(names, now))) ...    after a wake-up
 *
 * All functions are called by one thread, the table's.
 */
#ifndef DT_BASE_HOST_NAMES_H
#define DT_BASE_HOST_NAMES_H

#include "base/hash.h"
#include "base/text/strbuf.h"

#define DT_LOOKUPS_MAX        256   /* threads that look names up */
#define DT_LOOKUPS_PART       4     /* of what others leave an owner runs one part at most */
#define DT_HOST_ADDRESSES     16    /* of a name that are kept */
#define DT_HOST_NAMES_MAX     10000 /* names that are remembered without a request */
#define DT_HOST_NAME_KEPT_US  (INT64_C(60) * 1000000)
#define DT_HOST_NAME_AGAIN_US (INT64_C(5) * 1000000) /* after name servers failed for a name that is known */
#define DT_HOST_NAME_USED_US                                                                                           \
    (INT64_C(600) * 1000000) /* so long after its lookup a name is used while it is asked for */

enum dt_host_name_state { DT_HOST_NAME_NO_TURN, DT_HOST_NAME_ASKED, DT_HOST_NAME_KNOWN, DT_HOST_NAME_FAILED };

/* An entry of the table. It stays where it is while its lookup has not ended or `waiting` is not 0. */
struct dt_host_name {
    enum dt_host_name_state state;
    char *addresses;    /* KNOWN: "192.0.2.1,[2001:db8::1]", in the order of preference */
    const char *reason; /* FAILED: static text for people */
    unsigned waiting;   /* the caller's count of requests that have a pointer to the entry */
    bool asked;         /* its lookup has not ended */
    int64_t asks_us; /* when it is looked up again; its addresses are used until DT_HOST_NAME_USED_US after found_us */
    int64_t found_us;
    UT_hash_handle hh;
    char host[];
};

typedef struct dt_host_names dt_host_names;

/* wake_fd is an eventfd; the table keeps a descriptor of its own for it. NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_host_names_new(int wake_fd, dt_host_names **out);
/* Accepts NULL. Waits for no lookup. */
void dt_host_names_free(dt_host_names *names);
/*
 * Finds the entry of a host. Begins a lookup for this owner, if it may have one, unless the name was found within the
 * last minute or its lookup has not ended. The state is then KNOWN, ASKED or NO_TURN. now_us is monotonic. NOMEM: *out
 * is undefined.
 */
DT_MUST_CHECK dt_status dt_host_names_find(dt_host_names *names, const char *host, int64_t owner, int64_t now_us,
                                           struct dt_host_name **out);
/* Takes the result of a lookup that has ended; returns its entry, KNOWN or FAILED; NULL: no further lookup has
 * ended. If name servers fail, addresses that were found before are kept. */
struct dt_host_name *dt_host_names_ended(dt_host_names *names, int64_t now_us);
/* A request of this owner reached the host at none of the addresses that are known: looks its name up again, now if the
 * owner may have a lookup. */
void dt_host_names_doubt(dt_host_names *names, const char *host, int64_t owner, int64_t now_us);

#endif
