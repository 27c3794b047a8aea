/*
 * The inside of a dt_index, shared by the files of index/: the connections, the scratch memory of the current call, how
 * keys and entries are written as arguments, and how they are read from replies. One thread at a time uses a handle.
 *
 * A function of index.h asks one endpoint (dt_link_ready, commands, dt_index_round_trip) or several at once. To ask
 * several, it marks the endpoints in `wanted`; dt_index_send_wanted writes all commands before dt_index_receive reads
 * the first reply, so several endpoints cost one round trip. Every command is idempotent: if the reply of a round trip
 * is lost, the command is sent again.
 */
#pragma once

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "index.h"
#include "index_pack.h"
#include "redis/redis_link.h"

#define DT_CHUNK 1000u /* most entries of one command: below Lua's limit of about 8,000 unpacked values */

struct dt_index_batch;
struct dt_known_id;

struct dt_index {
    char installation[101];
    struct dt_endpoint *endpoints;
    struct dt_str *names; /* names of the endpoints; dt_rendezvous chooses one for each shard */
    dt_link **links;      /* one connection for each endpoint */
    unsigned n_links;
    uint16_t link_of[DT_SHARDS_MAX];
    bool *wanted;                 /* scratch, for each endpoint: the round trip has commands for it */
    bool *sent;                   /* for each endpoint: commands were written, and their replies were not read yet */
    struct dt_known_id *known;    /* scratch: the table of job ids (dt_known_find) */
    size_t known_mask;            /* number of slots of `known`, minus 1 */
    struct dt_index_batch *batch; /* scratch of index_change.c: the batch */
    struct dt_strbuf page;        /* scratch of index_change.c: the text of a packed page */
    bool refuses_packed;          /* a server has refused packed pages */
    int64_t self;                 /* random number that identifies this handle in records of fillings */
};

/* Returns the connection to the endpoint that has the shard's keys. */
static inline dt_link *dt_index_link(const dt_index *index, unsigned shard)
{
    return index->links[index->link_of[shard % DT_SHARDS_MAX]];
}

static inline size_t dt_at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Sets *first to status, if *first is DT_OK. */
static inline void dt_keep_first(dt_status *first, dt_status status)
{
    if (*first == DT_OK)
        *first = status;
}

/* ---- round trips (index_wire.c) ---- */

/* Sends the commands in `link` and reads the replies. */
dt_status dt_index_round_trip(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err);

/* Adds the commands for endpoint i to index->links[i]. */
typedef void dt_index_build_fn(dt_index *index, unsigned i);

/* Builds and writes the commands of all endpoints in `wanted`, and empties `wanted`. Endpoints without a connection are
 * written last, so that a server that does not answer does not delay the others. If an endpoint fails, the others still
 * get their commands; the first failure is returned, and err has its text. */
dt_status dt_index_send_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err);
/* Reads the replies of all endpoints that dt_index_send_wanted wrote to. Returns the first failure. */
dt_status dt_index_receive(dt_index *index, dt_link_reply_fn *on_reply, void *reply_arg, struct dt_error *err);
/* Sends commands to the wanted endpoints and reads their replies: one round trip. Ignores the replies' values. Returns
 * the first failure. */
dt_status dt_index_ask_wanted(dt_index *index, dt_index_build_fn *build, struct dt_error *err);

/* Allocates the scratch of index_change.c; free it with free(). Returns NULL if memory runs out. */
struct dt_index_batch *dt_index_batch_new(void);

/* ---- a scratch table of job ids that finds a second entry of a job: call dt_known_clear(n), then up to n times
 * dt_known_find ---- */

#define DT_KNOWN_SLOTS 65536u /* number of slots; a power of two */
#define DT_KNOWN_MAX   (DT_KNOWN_SLOTS / 2)

struct dt_known_id {
    int64_t id;     /* id of the job; 0: the slot is free */
    int64_t due_ms; /* for the caller's use */
};

/* Empties the table and provides slots for n ids, at most DT_KNOWN_MAX. */
static inline void dt_known_clear(dt_index *index, size_t n)
{
    size_t slots = 16;
    dt_assert_cmp(n, <=, DT_KNOWN_MAX);
    while (slots < 2 * n)
        slots *= 2;
    index->known_mask = slots - 1;
    memset(index->known, 0, slots * sizeof(*index->known));
}

/* Returns the slot of the id. If the id is new, the slot is free, and the caller stores the id in it. */
static inline struct dt_known_id *dt_known_find(const dt_index *index, int64_t id)
{
    size_t i = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 48) & index->known_mask;
    while (index->known[i].id && index->known[i].id != id)
        i = (i + 1) & index->known_mask;
    return &index->known[i];
}

/*
 * ---- arguments and replies (index_wire.c) ----
 *
 * Each dt_arg_* function adds one argument to the command that is being built in `link`; the text is copied.
 */

/* Adds the key "<installation>:{<shard>}:due". */
void dt_arg_set(const dt_index *index, dt_link *link, unsigned shard);
/* Adds the key "<installation>:{<shard>}:held". */
void dt_arg_registry(const dt_index *index, dt_link *link, unsigned shard);
/* Adds the key "<installation>:{<shard>}:held:<topic>". */
void dt_arg_held(const dt_index *index, dt_link *link, unsigned shard, struct dt_str topic);
/* Adds "<installation>:<what>": the channels "wake" and "pops", and the key "probe". */
void dt_arg_common(const dt_index *index, dt_link *link, const char *what);
void dt_arg_marker(dt_link *link, struct dt_marker marker);
/* Adds two arguments: the time and the member of the entry. */
void dt_arg_entry(dt_link *link, const struct dt_item *item);

/* Reads an integer, or a string of at most 18 decimal digits. Returns false if the reply is neither; *out may have
 * changed. */
bool dt_reply_any_integer(const dt_reply *reply, int64_t *out);
/* Reads a string that is an integer or Redis's notation of a double. Returns false if it is not a finite number up to
 * 9e15; *out may have changed. */
bool dt_reply_number(const dt_reply *reply, double *out);

/* A dt_link_reply_fn that writes an integer reply to *(int64_t *)arg, and ignores any other reply. */
void dt_on_integer(void *arg, size_t i, const dt_reply *reply);

#define DT_JUNK_MAX    64  /* most junk entries that are removed after one reading */
#define DT_PAGE_NAME   64  /* bytes of a page's name, including the NUL */
#define DT_JUNK_MEMBER 256 /* most bytes of a member that is junk */

/* A member of a page that is not an entry. If n_member is 0, the junk is the name of a page that does not exist. */
struct dt_junk {
    char page[DT_PAGE_NAME], member[DT_JUNK_MEMBER];
    size_t n_member;
};

/* Reads entries from replies with pages. The caller sets out, cap and to_ms, and all other members to zero, calls
 * dt_reading_take for each reply, and then dt_reading_tidy. */
struct dt_reading {
    struct dt_entry *out; /* entries that were read; has room for cap */
    size_t cap, n;
    int64_t to_ms; /* entries that are due at to_ms or later are skipped; INT64_MAX: none is skipped */
    size_t seen;   /* number of entries and junk members in the reply */
    struct dt_junk junk[DT_JUNK_MAX];
    size_t n_junk;
};

/* Reads a reply from element number `from` on. For each page it has the name, the beginning, and [member, score, …], or
 * nil instead of this list if the page does not exist although the set has its name. */
void dt_reading_take(struct dt_reading *reading, const dt_reply *reply, size_t from);

/* Removes the junk that the reading found, in one more round trip. Returns true if the reading found junk and it was
 * removed. */
bool dt_reading_tidy(dt_index *index, unsigned shard, const struct dt_reading *reading);

/* ---- the scripts of lua/. Only these scripts change and read the sets; the head of each describes its arguments and
 * result. ---- */

/* The texts of the scripts, generated at build time (embed.cmake). */
extern const char dt_lua_change[], dt_lua_hold[], dt_lua_unhold[], dt_lua_mark[];
extern const char dt_lua_due[], dt_lua_range[], dt_lua_count[], dt_lua_scores[];
extern const char dt_lua_fill[], dt_lua_filled[], dt_lua_tidy[], dt_lua_drop[], dt_lua_probe[];

/* The number of a script for dt_link_script: its index among the texts that dt_index_new passes to dt_link_new. */
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
