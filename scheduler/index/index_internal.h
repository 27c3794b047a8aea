/*
 * The handle of the index and its round trips, for the files of index/. Internal.
 *
 * A dt_index has one connection (dt_link) an endpoint and scratch memory that belongs to the call that is under way.
 * One thread uses a handle at a time.
 *
 * A function of the port asks one endpoint (dt_link_ready, commands, dt_index_round_trip) or several at once: it marks
 * the endpoints in `wanted`, then dt_index_send_wanted writes all commands before dt_index_receive reads the first
 * reply. Several endpoints therefore cost one round trip. Every command is idempotent, so a round trip whose answer was
 * lost is simply sent again.
 */
#ifndef DT_INDEX_INDEX_INTERNAL_H
#define DT_INDEX_INDEX_INTERNAL_H

#include "base/text/strbuf.h"
#include "index.h"
#include "redis/redis_link.h"

#define DT_CHUNK 1000u /* entries of one command: below Lua's limit of about 8,000 unpacked values */

struct dt_index_batch;
struct dt_known_id;

struct dt_index {
    char installation[101];
    struct dt_endpoint *endpoints;
    struct dt_str *names; /* of the endpoints: what dt_rendezvous chooses from */
    dt_link **links;      /* one an endpoint */
    unsigned n_links;
    uint16_t link_of[DT_SHARDS_MAX];
    bool *wanted;                 /* scratch: the round trip has commands for this endpoint */
    bool *sent;                   /* its commands were written, and their replies are to be read */
    struct dt_known_id *known;    /* scratch of index_known.h */
    size_t known_mask;            /* scratch of index_known.h */
    struct dt_index_batch *batch; /* scratch of index_batch.h */
    struct dt_strbuf page;        /* scratch of index_fill.c */
    bool refuses_packed;          /* a server does not take packed pages */
    int64_t self;                 /* a number that no other handle has */
};

/* The connection to the endpoint that holds the shard's keys. */
static inline dt_link *dt_index_link(const dt_index *index, unsigned shard)
{
    return index->links[index->link_of[shard % DT_SHARDS_MAX]];
}

static inline size_t dt_at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* *first stays the first status that is not DT_OK. */
static inline void dt_keep_first(dt_status *first, dt_status status)
{
    if (*first == DT_OK)
        *first = status;
}

/* Sends the commands that stand in `link` and reads the replies. */
DT_MUST_CHECK dt_status dt_index_round_trip(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

/* Adds the commands for endpoint i to index->links[i]. */
typedef void dt_index_build_fn(dt_index *index, unsigned i);

/*
 * Builds and writes the commands of all endpoints in `wanted`, and empties `wanted`. An endpoint that has to be
 * connected first comes after the connected ones, so that a silent server keeps no other endpoint's commands waiting. A
 * failure does not keep the other endpoints from theirs; the first one is the status, and err has its text.
 */
DT_MUST_CHECK dt_status dt_index_send_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err);
/* Reads the replies of all endpoints that dt_index_send_wanted wrote to. The status is the first failure. */
DT_MUST_CHECK dt_status dt_index_receive(dt_index *index, dt_link_reply_fn *on_reply, void *reply_arg,
                                         struct dt_error *err);
/* Sends to the wanted endpoints and receives: one round trip. The replies count only as failures, of which the first is
 * the status. */
DT_MUST_CHECK dt_status dt_index_ask_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err);

#endif
