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

#include <string.h>

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "index.h"
#include "index_pack.h"
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
    struct dt_known_id *known;    /* scratch of index_internal.h */
    size_t known_mask;            /* scratch of index_internal.h */
    struct dt_index_batch *batch; /* scratch of index_internal.h */
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

/*
 * A scratch table of job ids, to find the second entry of one job in a batch or a due scan. It belongs to the call of
 * the index that is under way. Internal to index/.
 *
 * Calling sequence: dt_known_clear(index, n), then dt_known_find at most n times with different ids. Who finds a slot
 * whose id is 0 fills it in.
 */

#define DT_KNOWN_SLOTS 65536u /* a power of two */
#define DT_KNOWN_MAX   (DT_KNOWN_SLOTS / 2)

struct dt_known_id {
    int64_t id;     /* 0 = a free slot */
    int64_t due_ms; /* what the caller likes */
};

/* Empties the table and makes room for n ids, at most DT_KNOWN_MAX. */
static inline void dt_known_clear(dt_index *index, size_t n)
{
    size_t slots = 16;

    dt_assert_cmp(n, <=, DT_KNOWN_MAX);
    while (slots < 2 * n)
        slots *= 2;
    index->known_mask = slots - 1;
    memset(index->known, 0, slots * sizeof(*index->known));
}

/* The slot of the id, or the free slot that is to be filled in for it. */
static inline struct dt_known_id *dt_known_find(const dt_index *index, int64_t id)
{
    size_t i = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 48) & index->known_mask;

    while (index->known[i].id && index->known[i].id != id)
        i = (i + 1) & index->known_mask;
    return &index->known[i];
}

/*
 * How keys, markers and entries are written as arguments of a command, and how entries are read from a reply. Internal
 * to index/.
 *
 * A dt_arg_* adds one argument to the command that is being built in `link` (dt_arg_entry adds two); the text is
 * copied.
 */

/* <installation>:{<shard>}:due */
void dt_arg_set(const dt_index *index, dt_link *link, unsigned shard);
/* <installation>:{<shard>}:held */
void dt_arg_registry(const dt_index *index, dt_link *link, unsigned shard);
/* <installation>:{<shard>}:held:<topic> */
void dt_arg_held(const dt_index *index, dt_link *link, unsigned shard, struct dt_str topic);
/* <installation>:<what>: the channels "wake" and "pops", and the key "probe" */
void dt_arg_common(const dt_index *index, dt_link *link, const char *what);
void dt_arg_marker(dt_link *link, struct dt_marker marker);
/* Two arguments: the time and the member. */
void dt_arg_entry(dt_link *link, const struct dt_item *item);

/* The number in a reply that is an integer, or a string of at most 18 decimal digits. False: it is neither; *out may
 * have been written. */
bool dt_reply_any_integer(const dt_reply *reply, int64_t *out);
/* The number in a reply that is a string: an integer, or Redis's notation of a double. False: it is no finite number up
 * to 9e15; *out may have been written. */
bool dt_reply_number(const dt_reply *reply, double *out);
/* The entry that a page which begins at start_ms has as (member, score). False: the pair is no entry of an index; *out
 * may have been written. */
bool dt_reply_entry(double start_ms, const dt_reply *member, const dt_reply *score, struct dt_entry *out);

/* A dt_link_reply_fn that writes an integer reply to *(int64_t *)arg; any other reply leaves it as it is. */
void dt_on_integer(void *arg, size_t i, const dt_reply *reply);

/*
 * Entries that are read from pages, and members of pages that are no entries (junk), which the reader removes. Internal
 * to index/.
 *
 * Calling sequence: fill in out, cap and to_ms, the rest zero; dt_reading_take for the reply; then dt_reading_tidy.
 */

#define DT_JUNK_MAX    64  /* pieces of junk that one reading removes */
#define DT_PAGE_NAME   64  /* bytes of a page's name, its NUL included */
#define DT_JUNK_MEMBER 256 /* bytes of a member */

/* Junk that is to be removed from the page of this name: a member, or with n_member = 0 the page itself if it is empty.
 * */
struct dt_junk {
    char page[DT_PAGE_NAME], member[DT_JUNK_MEMBER];
    size_t n_member;
};

struct dt_reading {
    struct dt_entry *out; /* room for cap */
    size_t cap, n;
    int64_t to_ms; /* entries due at this time or later are left out; INT64_MAX = none are */
    size_t seen;   /* entries and junk in the reply */
    struct dt_junk junk[DT_JUNK_MAX];
    size_t n_junk;
};

/* Takes the elements of a reply from `from` on: for each page its name, its beginning, and [member, score, …], which is
 * nil where the set has the page's name and the page is gone. */
void dt_reading_take(struct dt_reading *reading, const dt_reply *reply, size_t from);

/* Removes the junk that the reading met, with one more round trip if there was any. True: there was, and it is gone. */
bool dt_reading_tidy(dt_index *index, unsigned shard, const struct dt_reading *reading);

/*
 * The scripts of lua/, which alone change and read the sets. What a script takes and gives is at the top of its file.
 * The texts are generated at build time (embed.cmake). Internal to index/.
 */

extern const char dt_lua_change[], dt_lua_hold[], dt_lua_unhold[], dt_lua_mark[];
extern const char dt_lua_due[], dt_lua_range[], dt_lua_count[], dt_lua_scores[];
extern const char dt_lua_fill[], dt_lua_filled[], dt_lua_tidy[], dt_lua_drop[], dt_lua_probe[];

/* The number of a script for dt_link_script: its place among the texts that dt_index_new gives to dt_link_new. */
enum dt_script {
    DT_SCRIPT_CHANGE,
    DT_SCRIPT_HOLD,
    DT_SCRIPT_UNHOLD,
    DT_SCRIPT_MARK,
    DT_SCRIPT_DUE,
    DT_SCRIPT_RANGE,
    DT_SCRIPT_COUNT,
    DT_SCRIPT_SCORES,
    DT_SCRIPT_FILL,
    DT_SCRIPT_FILLED,
    DT_SCRIPT_TIDY,
    DT_SCRIPT_DROP,
    DT_SCRIPT_PROBE,
    DT_SCRIPTS
};

/*
 * A batch: entries of many shards that are sent to all their endpoints in one round trip. It is scratch memory of the
 * handle and belongs to the call that is under way. Internal to index/.
 *
 * Calling sequence: dt_index_batch_load, then dt_index_batch_ask; or dt_index_batch_send, and later dt_index_receive. A
 * batch may be sent again: every command is idempotent.
 */

#define DT_INDEX_BATCH_MAX 16384u /* entries of one batch, so that memory is bounded */

/* A change of one shard's set: an entry that goes, or one that comes. */
struct dt_shard_item {
    uint32_t shard;
    bool gone;
    struct dt_item item;
};

/* Adds the commands for one shard, whose items are batch->gone[n_gone] and batch->new[n_new], to the shard's link. */
typedef void dt_index_batch_build_fn(dt_index *index, unsigned shard, size_t n_gone, size_t n_new);

struct dt_index_batch {
    struct dt_shard_item *items, *dealt; /* halves of `space`: the items, and room to deal them out to their shards */
    struct dt_shard_item space[4 * DT_INDEX_BATCH_MAX];
    struct dt_item gone[DT_INDEX_BATCH_MAX], new[DT_INDEX_BATCH_MAX]; /* of the shard whose commands are being built */
    size_t n;
    dt_index_batch_build_fn *build; /* of the round trip that is under way */
    bool wake;                      /* what build asks for: see dt_index_put */
};

DT_MUST_CHECK dt_status dt_index_batch_new(struct dt_index_batch **out);

/*
 * Makes the batch of entries[n], n at most DT_INDEX_BATCH_MAX; see dt_index_put for what an entry asks. The items of a
 * shard stand together in the order of a set. Of several entries of one job the last due_ms counts, and all their
 * was_ms go. An entry that is due after horizon_end_ms does not come; what stood far beyond it is not looked for.
 */
void dt_index_batch_load(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                         int64_t horizon_end_ms);

/* Writes the batch to the endpoints that it has something for. The first failure is the status; the others go on. */
DT_MUST_CHECK dt_status dt_index_batch_send(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err);
/* Sends the batch and receives: one round trip. The first failure is the status. */
DT_MUST_CHECK dt_status dt_index_batch_ask(dt_index *index, dt_index_batch_build_fn *build, struct dt_error *err);

/*
 * The command that removes and adds entries of one shard's set (lua/change.lua). Internal to index/.
 */

enum dt_change_how {
    DT_CHANGE_PUT,     /* what is added replaces an entry of the same job in the page */
    DT_CHANGE_MISSING, /* what is added leaves an entry of the same job in the page where it is */
    DT_CHANGE_FIX      /* what is added depends on a removal: its ref is the removal's number, from 1 */
};

/* Items that are removed first, and items that are added then; both are borrowed, in the order of dt_items_sort, each
 * at most DT_CHUNK. */
struct dt_change {
    enum dt_change_how how;
    bool wake; /* publish a wake-up when the shard's leader may have to act sooner (the rule is in lua/change.lua) */
    const struct dt_item *gone;
    size_t n_gone;
    const struct dt_item *new;
    size_t n_new;
};

/* Adds one command to the link of the shard. */
void dt_change_command(dt_index *index, unsigned shard, const struct dt_change *change);

#endif
