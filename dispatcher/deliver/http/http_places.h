/*
 * Limits the callbacks in flight: per process, per host, and in bytes. Pure: time is passed in. Not thread-safe: the
 * caller locks. There is no queue: if a caller gets no place, it asks again later.
 *
 * Invariants:
 *   - At most max_in_flight callbacks run in the process, and per_host at one host. Their requests have at most
 *     max_bytes in all (one request alone may be larger).
 *   - Owners share the places of the process, those of each host, and the bytes (dt_shares, base/fair.h): an owner
 *     takes at most half of what other owners leave. If only one owner has callbacks, it may have all places of a host;
 *     of the process's places and bytes it leaves an eighth. Answers do not raise an owner's share.
 *   - Within its owner's share, a topic whose receivers do not answer leaves room for the owner's other topics: it
 *     holds at most as many places as stay free. If n topics get no answers, 1/(n + 1) of the share stays free. Each
 *     answer lets its topic take further places, so that a single topic whose receivers answer uses the whole share.
 *   - If a topic found all places taken, and holds fewer than the other topics that wait, it is next: for a second no
 *     other topic gets the places that it has earned by answers.
 *   - If a host answers an owner's requests with 429 or 503, or refuses connections, the owner gets half as many places
 *     at the host, down to one. All requests in flight at that time halve the places only once. Each other answer gives
 *     one place back. Other owners keep their places at the host.
 */
#pragma once

#include "base/http/callback_rules.h"

#define DT_PLACES_REMEMBERED_US                                                                                        \
    (INT64_C(600) * 1000000)      /* a slowed host is forgotten after this time without requests */
#define DT_PLACES_HOSTS_MAX 10000 /* maximal number of idle hosts that are remembered */

struct dt_places_limits {
    unsigned max_in_flight, per_host; /* at least 1 */
    size_t max_bytes;
};

enum dt_place_end {
    DT_PLACE_ANSWERED,    /* the receiver answered with a status other than 429 and 503 */
    DT_PLACE_PUSHED_BACK, /* the receiver answered 429 or 503, or refused the connection */
    DT_PLACE_SILENT,      /* no answer: a timeout, an unresolved name, no TLS, a broken connection */
    DT_PLACE_UNUSED       /* the request was not sent, because the claim was not committed */
};

typedef struct dt_places dt_places;

/* A topic whose jobs need places, and its owner. Borrowed. */
struct dt_place_for {
    int64_t owner; /* owner of the topic (topic/owners.h) */
    struct dt_str topic;
};

/* A place that a request has taken. dt_places_take fills it, and dt_places_give_back must be called exactly once for
 * it. It may be copied by assignment. */
struct dt_place {
    struct dt_place_host *host;
    struct dt_place_topic *at_host, *in_process;
    size_t bytes;
    int64_t taken_us;
};

dt_status dt_places_new(const struct dt_places_limits *limits, dt_places **out);
/* Frees everything, including taken places, which become invalid. Accepts NULL. */
void dt_places_free(dt_places *places);

/* Takes a place for a request of this size to this host (struct dt_callback_url, key). now_us is monotonic. FULL: no
 * place is free for the topic now. NOMEM: memory ran out. *out is undefined unless OK is returned. */
dt_status dt_places_take(dt_places *places, struct dt_str host, const struct dt_place_for *who, size_t bytes,
                         int64_t now_us, struct dt_place *out);
/* Returns the topic of a taken place; valid until the place is given back. */
const char *dt_place_topic(const struct dt_place *place);
int64_t dt_place_owner(const struct dt_place *place);
void dt_places_give_back(dt_places *places, const struct dt_place *place, enum dt_place_end end, int64_t now_us);

/* Caches the URL that was read last, because most jobs of a topic have the same URL, and each attempt needs its host
 * several times. All zeros: nothing is cached. */
struct dt_last_url {
    bool known;
    size_t n;
    char text[DT_CALLBACK_URL_MAX];
    const char *refusal;        /* what dt_callback_url_check returned; NULL: the URL is allowed */
    struct dt_callback_url url; /* undefined if the URL was refused */
};
/* Returns what dt_callback_url_check returns for the text. If that is NULL, last->url is valid until the next call with
 * another text. */
const char *dt_last_url_read(struct dt_last_url *last, struct dt_str text);

/* Returns how many places the topic could take at a host now, one after another; 0 if dt_places_take would return FULL
 * (except for a request that is too large). If it is 0, the topic counts as waiting, and is next. */
unsigned dt_places_room(dt_places *places, struct dt_str host, const struct dt_place_for *who, int64_t now_us);
/* Returns how many places a topic could take, one after another, if its jobs name their own hosts and all of these have
 * free places. */
unsigned dt_places_room_anywhere(dt_places *places, const struct dt_place_for *who, int64_t now_us);
/* Returns how many places the topic could take, one after another, for jobs that name the host with this number
 * (dt_callback_host_of). */
unsigned dt_places_room_at(dt_places *places, uint32_t host, const struct dt_place_for *who, int64_t now_us);
/* Returns how many other places at the host of this place are taken. */
unsigned dt_place_beside(const struct dt_place *place);
unsigned dt_places_taken(const dt_places *places);
/* Returns how many places a host has for an owner now, including taken places: per_host, unless the host slowed the
 * owner. */
unsigned dt_places_of_host(const dt_places *places, struct dt_str host, int64_t owner);
