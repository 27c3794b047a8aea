/*
 * Limits the callbacks in flight: per process, per host, and in bytes. Pure: time is passed in. Not thread-safe: the
 * caller locks. There is no queue here; if a caller is refused, it asks again later.
 *
 * What holds:
 *  - Never more than max_in_flight in all, per_host to one host, max_bytes in all (one request alone may be larger).
 *  - The places of the process, those of a host, and the bytes are shared by owner (dt_shares, base/fair.h): an owner
 *    takes at most half of what others leave. If it is alone, it may have all places of a host, and leaves an eighth of
 *    the others. Answers earn nothing here.
 *  - Within its owner's share, a topic whose receivers do not answer leaves room for others: it holds at most as many
 *    places as stay free. If n topics are silent, 1/(n + 1) of the share stays free. Answers earn further places, so
 *    that a topic that is alone and is answered uses all.
 *  - If a topic found all places taken, and holds fewest, it is next: for a second no other topic goes beyond the free
 *    part.
 *  - If a host answers an owner's requests with 429 or 503, or refuses them, the owner gets half as many places there,
 *    down to one, once for all requests in flight at that time. Each other answer gives one back. Other owners keep
 *    their places at the host.
 */
#pragma once

#include "base/http/callback_rules.h"

#define DT_PLACES_REMEMBERED_US                                                                                        \
    (INT64_C(600) * 1000000)      /* after this time without requests, a slowed host is forgotten */
#define DT_PLACES_HOSTS_MAX 10000 /* maximal number of idle hosts that are remembered */

struct dt_places_limits {
    unsigned max_in_flight, per_host; /* at least 1 */
    size_t max_bytes;
};

enum dt_place_end {
    DT_PLACE_ANSWERED,    /* with any status but 429 and 503 */
    DT_PLACE_PUSHED_BACK, /* 429, 503, or no connection */
    DT_PLACE_SILENT,      /* no answer: a timeout, an unresolved name, no TLS, a broken connection */
    DT_PLACE_UNUSED       /* it was never sent: the claim was not committed */
};

typedef struct dt_places dt_places;

/* Jobs that ask for places. Borrowed. */
struct dt_place_for {
    int64_t owner; /* of the topic (topic/owners.h) */
    struct dt_str topic;
};

/* A taken place. Filled by dt_places_take, given back once by dt_places_give_back; copied by assignment. */
struct dt_place {
    struct dt_place_host *host;
    struct dt_place_topic *at_host, *in_process;
    size_t bytes;
    int64_t taken_us;
};

DT_MUST_CHECK dt_status dt_places_new(const struct dt_places_limits *limits, dt_places **out);
/* Accepts NULL. Taken places become invalid. */
void dt_places_free(dt_places *places);

/*
 * Takes a place for a request of this size to this host (struct dt_callback_url, key). now_us is monotonic. FULL: none
 * is free for it now. NOMEM. *out is undefined unless OK.
 */
DT_MUST_CHECK dt_status dt_places_take(dt_places *places, struct dt_str host, const struct dt_place_for *who,
                                       size_t bytes, int64_t now_us, struct dt_place *out);
/* The topic of a taken place, valid until it is given back, and its owner. */
const char *dt_place_topic(const struct dt_place *place);
int64_t dt_place_owner(const struct dt_place *place);
void dt_places_give_back(dt_places *places, const struct dt_place *place, enum dt_place_end end, int64_t now_us);

/* Caches the URL that was read last. All zeros: none. Most jobs of a topic have the same URL, and each attempt needs
 * its host several times. */
struct dt_last_url {
    bool known;
    size_t n;
    char text[DT_CALLBACK_URL_MAX];
    const char *refusal;        /* refusal by dt_callback_url_check */
    struct dt_callback_url url; /* undefined if it was refused */
};
/* Returns what dt_callback_url_check returns for the text. If that is NULL, last->url is valid until another text is
 * read. */
const char *dt_last_url_read(struct dt_last_url *last, struct dt_str text);

/* How many places could be taken at a host now, one after the other; 0 if dt_places_take would return FULL, unless the
 * request is too large. Counts as a request: a topic that gets 0 is next. */
unsigned dt_places_room(dt_places *places, struct dt_str host, const struct dt_place_for *who, int64_t now_us);
/* Like dt_places_room, for a topic whose jobs name their hosts: how many places it could take if their hosts had
 * some. */
unsigned dt_places_room_anywhere(dt_places *places, const struct dt_place_for *who, int64_t now_us);
/* Like dt_places_room, for jobs that name a host with this number (dt_callback_host_of). */
unsigned dt_places_room_at(dt_places *places, uint32_t host, const struct dt_place_for *who, int64_t now_us);
/* Number of other taken places at the same host. */
unsigned dt_place_beside(const struct dt_place *place);
unsigned dt_places_taken(const dt_places *places);
/* Places that a host has for an owner now, taken ones included: per_host unless it was slowed. */
unsigned dt_places_of_host(const dt_places *places, struct dt_str host, int64_t owner);
