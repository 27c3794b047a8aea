/*
 * Owns the Redis keys and what is asked of the scripts (lua/). Refuses to know MySQL, topics' settings and who leads.
 * Invariants: every command is idempotent, so a turn whose answer was lost may simply be sent again; an entry is taken
 * out by its id and its time together. A flight (at most FLIGHT entries) is written to all endpoints before any reply
 * is read: one round trip for all of them, in bounded memory.
 */
#include "index/index.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "index/index_link.h"
#include "index/index_pack.h"
#include "index/index_scripts.h"

#define CHUNK      1000u          /* entries of one command: below Lua's limit of about 8,000 unpacked values */
#define FLIGHT     16384u         /* entries on their way at once */
#define FEW        64u            /* items are sorted as they are */
#define PACKS      64u            /* packed slices of one command */
#define PACK_MIN   16u            /* fewer entries are not worth a slice of their own */
#define IDS_SLOTS  65536u         /* power of two, above twice what is noted in a flight or a look */
#define FAR_MS     INT64_C(60000) /* beyond the horizon, whoever's clock and haste: there are no entries */
#define KEY_CAP    512
#define NAME_CAP   64
#define MEMBER_CAP 256
#define JUNK_MAX   64

/* ---- scripts ---- */

enum script {
    SCRIPT_CHANGE,
    SCRIPT_HOLD,
    SCRIPT_UNHOLD,
    SCRIPT_MARK,
    SCRIPT_DUE,
    SCRIPT_RANGE,
    SCRIPT_COUNT,
    SCRIPT_SCORES,
    SCRIPT_FILL,
    SCRIPT_FILLED,
    SCRIPT_TIDY,
    SCRIPT_DROP,
    SCRIPT_PROBE,
    SCRIPTS
};

static const char *const SCRIPT_TEXTS[SCRIPTS] = {
    [SCRIPT_CHANGE] = dt_lua_change, [SCRIPT_HOLD] = dt_lua_hold,     [SCRIPT_UNHOLD] = dt_lua_unhold,
    [SCRIPT_MARK] = dt_lua_mark,     [SCRIPT_DUE] = dt_lua_due,       [SCRIPT_RANGE] = dt_lua_range,
    [SCRIPT_COUNT] = dt_lua_count,   [SCRIPT_SCORES] = dt_lua_scores, [SCRIPT_FILL] = dt_lua_fill,
    [SCRIPT_FILLED] = dt_lua_filled, [SCRIPT_TIDY] = dt_lua_tidy,     [SCRIPT_DROP] = dt_lua_drop,
    [SCRIPT_PROBE] = dt_lua_probe,
};

/* ---- the handle ---- */

/* Which ids a flight has, and the last word on each. */
struct known_id {
    int64_t id, due_ms;
};

/* What is sent for one shard. */
struct shard_item {
    uint32_t shard;
    bool gone;
    struct dt_item item;
};

/* Entries on their way: the items of the shards one after the other, of each what goes before what comes. */
struct flight {
    enum { PUT_SILENT, PUT_WAKING, PUT_MISSING, PUT_PACKED } how;
    struct shard_item *items, *dealt; /* halves of `space`: the items, and where they are dealt out to their shards */
    struct shard_item space[4 * FLIGHT];
    struct dt_item gone[FLIGHT], new[FLIGHT]; /* of the shard whose commands are being built */
    size_t n;
};

struct dt_index {
    char installation[101];
    struct dt_endpoint *endpoints;
    struct dt_str *names;
    dt_link **links;
    bool *wanted, *sent; /* scratch: the present flight is for this endpoint; its commands were written */
    unsigned n_links;
    uint16_t link_of[DT_SHARDS_MAX];
    struct known_id *known; /* scratch: IDS_SLOTS, as many in use as the mask says */
    size_t known_mask;
    struct flight *flight; /* scratch */
    struct dt_strbuf pack; /* scratch */
    bool cannot_restore;   /* a server does not take packed slices */
    int64_t self;          /* a number that no other handle has */
};

static dt_status index_fill(dt_index *index, const struct dt_config *config, const dt_clock *clock)
{
    index->names = calloc(index->n_links, sizeof(*index->names));
    index->links = calloc(index->n_links, sizeof(dt_link *));
    index->wanted = calloc(index->n_links, sizeof(*index->wanted));
    index->sent = calloc(index->n_links, sizeof(*index->sent));
    index->known = malloc(IDS_SLOTS * sizeof(*index->known));
    index->flight = malloc(sizeof(*index->flight));
    dt_strbuf_init(&index->pack);
    if (!index->names || !index->links || !index->wanted || !index->sent || !index->known || !index->flight)
        return DT_NOMEM;
    index->flight->items = index->flight->space;
    index->flight->dealt = index->flight->space + 2 * FLIGHT;
    for (unsigned i = 0; i < index->n_links; i++) {
        dt_status status = dt_link_new(config, &index->endpoints[i], clock, SCRIPT_TEXTS, SCRIPTS, &index->links[i]);

        if (status != DT_OK)
            return status;
        index->names[i] = dt_str(index->endpoints[i].name);
    }
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        index->link_of[shard] = (uint16_t)dt_rendezvous(shard, index->names, index->n_links);
    return DT_OK;
}

dt_status dt_index_new(const struct dt_config *config, const char *installation, const dt_clock *clock, dt_index **out,
                       struct dt_error *err)
{
    dt_index *index;
    dt_status status;
    int64_t self;

    *out = NULL;
    if (getrandom(&self, sizeof(self), 0) != (ssize_t)sizeof(self))
        return dt_fail(err, DT_SYSTEM, "getrandom: %s", strerror(errno));
    if (!installation[0] || strlen(installation) >= sizeof(index->installation))
        return dt_fail(err, DT_INVALID, "the installation's name must have 1-100 bytes");
    index = calloc(1, sizeof(*index));
    if (!index)
        return dt_fail(err, DT_NOMEM, "index");
    index->self = self;
    snprintf(index->installation, sizeof(index->installation), "%s", installation);
    status = dt_endpoints_parse(config->redis_endpoints, &index->endpoints, &index->n_links, err);
    if (status == DT_OK) {
        status = index_fill(index, config, clock);
        if (status != DT_OK)
            status = dt_fail(err, status, "index");
    }
    if (status != DT_OK) {
        dt_index_free(index);
        return status;
    }
    *out = index;
    return DT_OK;
}

void dt_index_free(dt_index *index)
{
    if (!index)
        return;
    for (unsigned i = 0; index->links && i < index->n_links; i++)
        dt_link_free(index->links[i]);
    dt_endpoints_free(index->endpoints, index->n_links);
    free(index->names);
    free(index->links);
    free(index->wanted);
    free(index->sent);
    free(index->known);
    free(index->flight);
    dt_strbuf_clear(&index->pack);
    free(index);
}

static dt_link *link_of(const dt_index *index, unsigned shard)
{
    return index->links[index->link_of[shard % DT_SHARDS_MAX]];
}

/* ---- names and numbers ---- */

static void arg_due(dt_index *index, dt_link *link, unsigned shard)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:due", index->installation, shard);

    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

static void arg_registry(dt_index *index, dt_link *link, unsigned shard)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:held", index->installation, shard);

    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

static void arg_held(dt_index *index, dt_link *link, unsigned shard, struct dt_str topic)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:{%u}:held:%.*s", index->installation, shard, (int)topic.n, topic.p);

    dt_link_arg(link, (struct dt_str){key, (size_t)n});
}

static void arg_channel(dt_index *index, dt_link *link)
{
    char name[KEY_CAP];
    int n = snprintf(name, sizeof(name), "%s:wake", index->installation);

    dt_link_arg(link, (struct dt_str){name, (size_t)n});
}

static void arg_marker(dt_link *link, struct dt_marker marker)
{
    char text[MEMBER_CAP];
    int n = snprintf(text, sizeof(text), "!%lld:%lld:%lld:%lld", (long long)marker.epoch, (long long)marker.token,
                     (long long)marker.count, marker.filling ? 0LL : (long long)marker.generation);

    dt_link_arg(link, (struct dt_str){text, (size_t)n});
}

static void arg_lit(dt_link *link, const char *word)
{
    dt_link_arg(link, dt_str(word));
}

static bool parse_i64(const char *p, size_t n, int64_t *out)
{
    int64_t v = 0;

    if (n == 0 || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (p[i] - '0');
    }
    *out = v;
    return true;
}

/* Scores of ours are whole ms; Redis prints large ones as they are, or in the notation of doubles. */
static bool parse_number(const redisReply *reply, double *out)
{
    int64_t v;

    if (reply->type != REDIS_REPLY_STRING)
        return false;
    if (parse_i64(reply->str, (size_t)reply->len, &v))
        *out = (double)v;
    else
        *out = strtod(reply->str, NULL);
    return isfinite(*out) && fabs(*out) <= 9e15;
}

static bool parse_entry(double start_ms, const redisReply *member, const redisReply *score, struct dt_entry *out)
{
    double after_ms;
    double due_ms;

    if (member->type != REDIS_REPLY_STRING || !parse_number(score, &after_ms))
        return false;
    due_ms = start_ms + after_ms;
    *out = (struct dt_entry){.due_ms = (int64_t)due_ms};
    return due_ms > 0 && due_ms == floor(due_ms) &&
           dt_member_id(member->str, (size_t)member->len, out->due_ms, &out->id);
}

/* ---- ids that were met ---- */

static struct known_id *know(const dt_index *index, int64_t id)
{
    size_t i = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 48) & index->known_mask;

    while (index->known[i].id && index->known[i].id != id)
        i = (i + 1) & index->known_mask;
    return &index->known[i];
}

/* Room for n ids, at most IDS_SLOTS / 2. */
static void forget_ids(dt_index *index, size_t n)
{
    size_t slots = 16;

    while (slots < 2 * n)
        slots *= 2;
    index->known_mask = slots - 1;
    memset(index->known, 0, slots * sizeof(*index->known));
}

/* ---- turns ---- */

/* A whole turn with one endpoint whose commands are built. */
static dt_status turn(dt_link *link, dt_link_reply_fn *on_reply, void *arg, struct dt_error *err)
{
    dt_status status = dt_link_flush(link, err);

    return status == DT_OK ? dt_link_read(link, on_reply, arg, err) : status;
}

static void keep_first(dt_status *worst, dt_status status)
{
    if (*worst == DT_OK)
        *worst = status;
}

/* The commands of one flight for endpoint i. */
typedef void build_fn(dt_index *index, unsigned i, const void *arg);

static dt_status send_flight(dt_index *index, unsigned i, build_fn *build, const void *arg, struct dt_error *err)
{
    dt_status status = dt_link_ready(index->links[i], err);

    index->wanted[i] = false;
    if (status != DT_OK)
        return status;
    build(index, i, arg);
    status = dt_link_flush(index->links[i], err);
    index->sent[i] = status == DT_OK;
    return status;
}

/*
 * Writes to all endpoints that are wanted. Those that have to be connected first come last, so that a silent one keeps
 * nobody else's commands waiting. The first failure is reported, the others go on.
 */
static dt_status fly_out(dt_index *index, build_fn *build, const void *arg, struct dt_error *err)
{
    dt_status worst = DT_OK;

    memset(index->sent, 0, index->n_links * sizeof(*index->sent));
    for (int connected = 1; connected >= 0; connected--) {
        for (unsigned i = 0; i < index->n_links; i++) {
            if (index->wanted[i] && dt_link_connected(index->links[i]) == connected)
                keep_first(&worst, send_flight(index, i, build, arg, worst == DT_OK ? err : NULL));
        }
    }
    return worst;
}

/* Reads what they answer. */
static dt_status fly_back(dt_index *index, dt_link_reply_fn *on_reply, void *reply_arg, struct dt_error *err)
{
    dt_status worst = DT_OK;

    for (unsigned i = 0; i < index->n_links; i++) {
        if (index->sent[i])
            keep_first(&worst, dt_link_read(index->links[i], on_reply, reply_arg, worst == DT_OK ? err : NULL));
    }
    return worst;
}

static dt_status fly(dt_index *index, build_fn *build, const void *arg, dt_link_reply_fn *on_reply, void *reply_arg,
                     struct dt_error *err)
{
    dt_status out = fly_out(index, build, arg, err);
    dt_status back = fly_back(index, on_reply, reply_arg, out == DT_OK ? err : NULL);

    return out == DT_OK ? back : out;
}

static dt_status fly_to_all(dt_index *index, build_fn *build, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return fly(index, build, NULL, NULL, NULL, err);
}

static void build_ping(dt_index *index, unsigned i, const void *arg)
{
    (void)arg;
    dt_link_command(index->links[i], 1);
    arg_lit(index->links[i], "PING");
}

dt_status dt_index_ping(dt_index *index, struct dt_error *err)
{
    return fly_to_all(index, build_ping, err);
}

static void build_probe(dt_index *index, unsigned i, const void *arg)
{
    char key[KEY_CAP];
    int n = snprintf(key, sizeof(key), "%s:probe", index->installation);

    (void)arg;
    dt_link_script(index->links[i], SCRIPT_PROBE, 1, 1);
    dt_link_arg(index->links[i], (struct dt_str){key, (size_t)n});
}

void dt_index_failing(const dt_index *index, char *out, size_t cap)
{
    size_t n = 0;
    unsigned failing = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < index->n_links && n < cap; i++) {
        if (!dt_link_failing(index->links[i]))
            continue;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? "," : "", index->endpoints[i].name);
        failing++;
    }
    if (n >= cap || failing == index->n_links)
        snprintf(out, cap, "*");
}

dt_status dt_index_probe(dt_index *index, struct dt_error *err)
{
    return fly_to_all(index, build_probe, err);
}

/* ---- put ---- */

static void arg_item(dt_link *link, const struct dt_item *item)
{
    dt_link_arg_i64(link, item->due_ms);
    dt_link_arg(link, (struct dt_str){(const char *)item->member.bytes, item->member.n});
}

/* lua/change.lua: what goes, what comes. Within a command what goes is looked for first. */
static void change_command(dt_index *index, dt_link *link, unsigned shard, bool wake, const char *how,
                           const struct dt_item *gone, size_t n_gone, const struct dt_item *new, size_t n_new)
{
    bool refs = how[0] == 'f';

    dt_link_script(link, SCRIPT_CHANGE, 1, (unsigned)(5 + 2 * n_gone + (refs ? 3 : 2) * n_new));
    arg_due(index, link, shard);
    if (wake)
        arg_channel(index, link);
    else
        arg_lit(link, "");
    dt_link_arg_i64(link, shard);
    arg_lit(link, how);
    dt_link_arg_i64(link, (int64_t)n_gone);
    for (size_t i = 0; i < n_gone; i++)
        arg_item(link, &gone[i]);
    for (size_t i = 0; i < n_new; i++) {
        arg_item(link, &new[i]);
        if (refs)
            dt_link_arg_i64(link, new[i].ref);
    }
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static void build_changes(dt_index *index, dt_link *link, unsigned shard, const char *how, size_t n_gone, size_t n_new)
{
    const struct flight *flight = index->flight;

    for (size_t g = 0, a = 0; g < n_gone || a < n_new;) {
        size_t goes = at_most(n_gone - g, CHUNK);
        size_t comes = at_most(n_new - a, CHUNK);

        change_command(index, link, shard, flight->how == PUT_WAKING, how, flight->gone + g, goes, flight->new + a,
                       comes);
        g += goes;
        a += comes;
    }
}

/* ---- packed slices ---- */

/* A command of packed slices, cut from items; *done: how many entries it has. False when there is nothing to pack at
 * the head of items: then *done are to be added otherwise. */
static bool pack_command(dt_index *index, dt_link *link, unsigned shard, const struct dt_item *items, size_t n,
                         size_t *done)
{
    size_t cuts[PACKS];
    size_t n_cuts = 0;
    size_t tied = 0;

    *done = 0;
    while (n_cuts < PACKS && *done < n) {
        size_t cut = dt_slice_cut(items + *done, n - *done, &tied);

        if (cut < PACK_MIN)
            break;
        *done += cuts[n_cuts++] = cut;
    }
    if (n_cuts == 0) {
        *done = tied ? at_most(tied, CHUNK) : at_most(n, PACK_MIN);
        return false;
    }
    dt_link_script(link, SCRIPT_FILL, 1, (unsigned)(1 + 3 * n_cuts));
    arg_due(index, link, shard);
    for (size_t i = 0; i < n_cuts; items += cuts[i++]) {
        dt_strbuf_reset(&index->pack);
        dt_slice_pack(&index->pack, items, cuts[i]);
        dt_link_arg_i64(link, items[0].due_ms);
        dt_link_arg_i64(link, items[cuts[i] - 1].due_ms);
        dt_link_arg(link, dt_strbuf_str(&index->pack));
    }
    return true;
}

static void build_packed(dt_index *index, dt_link *link, unsigned shard, size_t n)
{
    for (size_t at = 0, done; at < n; at += done) {
        const struct dt_item *items = index->flight->new + at;

        if (!pack_command(index, link, shard, items, n - at, &done))
            change_command(index, link, shard, false, "missing", NULL, 0, items, done);
    }
}

static void on_filled(void *arg, size_t i, const redisReply *reply)
{
    (void)i;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        *(bool *)arg = true;
}

/* ---- flights ---- */

static int by_shard(const void *a, const void *b)
{
    const struct shard_item *x = a;
    const struct shard_item *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->item.due_ms != y->item.due_ms)
        return x->item.due_ms < y->item.due_ms ? -1 : 1;
    return dt_member_compare(&x->item.member, &y->item.member);
}

static void sort_items(struct shard_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (by_shard(&items[i - 1], &items[i]) > 0) {
            qsort(items, n, sizeof(*items), by_shard);
            return;
        }
    }
}

/* Dealt out to their shards, the last item first: what was loaded in the order of its times (it is loaded from the last
 * entry to the first) need not be compared with all the others. */
static void sort_flight(struct flight *flight)
{
    size_t end[DT_SHARDS_MAX] = {0};
    size_t sum = 0;
    struct shard_item *loaded = flight->items;

    if (flight->n < FEW) {
        sort_items(loaded, flight->n);
        return;
    }
    for (size_t i = 0; i < flight->n; i++)
        end[loaded[i].shard]++;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        size_t n = end[shard];

        end[shard] = sum;
        sum += n;
    }
    flight->items = flight->dealt;
    flight->dealt = loaded;
    for (size_t i = flight->n; i-- > 0;)
        flight->items[end[loaded[i].shard]++] = loaded[i];
    for (size_t from = 0, to; from < flight->n; from = to) {
        to = end[flight->items[from].shard];
        sort_items(flight->items + from, to - from);
    }
}

static void note_item(struct flight *flight, unsigned shard, bool gone, int64_t id, int64_t due_ms)
{
    flight->items[flight->n++] = (struct shard_item){shard, gone, dt_item_of(id, due_ms, 0)};
}

/* From the last entry to the first: the last word on a job counts, and wherever it was before it goes. */
static void load_flight(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        int64_t horizon_end_ms)
{
    struct flight *flight = index->flight;
    const int64_t last_ms = horizon_end_ms < INT64_MAX - FAR_MS ? horizon_end_ms + FAR_MS : INT64_MAX;

    flight->n = 0;
    forget_ids(index, n);
    for (size_t i = n; i-- > 0;) {
        const struct dt_entry *e = &entries[i];
        struct known_id *known = know(index, e->id);
        unsigned shard = dt_shard_of(map, e->id);
        int64_t due_ms = e->due_ms <= horizon_end_ms ? e->due_ms : 0;

        if (!known->id) {
            *known = (struct known_id){e->id, due_ms};
            if (due_ms)
                note_item(flight, shard, false, e->id, due_ms);
        }
        if (e->was_ms && e->was_ms != known->due_ms && e->was_ms <= last_ms)
            note_item(flight, shard, true, e->id, e->was_ms);
    }
    sort_flight(flight);
}

static void build_shard(dt_index *index, unsigned shard, const struct shard_item *items, size_t n)
{
    struct flight *flight = index->flight;
    dt_link *link = link_of(index, shard);
    size_t n_gone = 0;
    size_t n_new = 0;

    for (size_t i = 0; i < n; i++) {
        if (items[i].gone)
            flight->gone[n_gone++] = items[i].item;
        else
            flight->new[n_new++] = items[i].item;
    }
    if (flight->how == PUT_PACKED)
        build_packed(index, link, shard, n_new);
    else
        build_changes(index, link, shard, flight->how == PUT_MISSING ? "missing" : "put", n_gone, n_new);
}

/* The end of the items of one shard that begin at `from`. */
static size_t shard_end(const struct flight *flight, size_t from)
{
    size_t to = from + 1;

    while (to < flight->n && flight->items[to].shard == flight->items[from].shard)
        to++;
    return to;
}

static void build_put(dt_index *index, unsigned i, const void *arg)
{
    const struct flight *flight = index->flight;

    (void)arg;
    for (size_t from = 0, to; from < flight->n; from = to) {
        to = shard_end(flight, from);
        if (link_of(index, flight->items[from].shard) == index->links[i])
            build_shard(index, flight->items[from].shard, flight->items + from, to - from);
    }
}

/* The endpoints that the flight has something for. */
static void want_flight(dt_index *index)
{
    const struct flight *flight = index->flight;

    memset(index->wanted, 0, index->n_links * sizeof(*index->wanted));
    for (size_t from = 0; from < flight->n; from = shard_end(flight, from))
        index->wanted[index->link_of[flight->items[from].shard % DT_SHARDS_MAX]] = true;
}

static dt_status put_flight(dt_index *index, bool *refused, struct dt_error *err)
{
    want_flight(index);
    return fly(index, build_put, NULL, on_filled, refused, err);
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    dt_status worst = DT_OK;

    index->flight->how = wake ? PUT_WAKING : PUT_SILENT;
    for (size_t at = 0, some; at < n; at += some) {
        bool ignored = false;

        some = at_most(n - at, FLIGHT);
        load_flight(index, map, entries + at, some, horizon_end_ms);
        keep_first(&worst, put_flight(index, &ignored, worst == DT_OK ? err : NULL));
    }
    return worst;
}

static dt_status send_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                           struct dt_error *err)
{
    load_flight(index, map, entries, n, INT64_MAX);
    index->flight->how = index->cannot_restore ? PUT_MISSING : PUT_PACKED;
    want_flight(index);
    return fly_out(index, build_put, NULL, err);
}

dt_status dt_index_end_fill(dt_index *index, struct dt_error *err)
{
    bool refused = false;
    dt_status status = fly_back(index, on_filled, &refused, err);

    if (!refused)
        return status;
    index->cannot_restore = true; /* an old server: entry by entry */
    index->flight->how = PUT_MISSING;
    return put_flight(index, &refused, err);
}

dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                              struct dt_error *err)
{
    dt_status worst = DT_OK;

    for (; n > FLIGHT; entries += FLIGHT, n -= FLIGHT) {
        keep_first(&worst, send_fill(index, map, entries, FLIGHT, worst == DT_OK ? err : NULL));
        keep_first(&worst, dt_index_end_fill(index, worst == DT_OK ? err : NULL));
    }
    keep_first(&worst, send_fill(index, map, entries, n, worst == DT_OK ? err : NULL));
    return worst;
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    dt_status begun = dt_index_begin_fill(index, map, entries, n, err);
    dt_status ended = dt_index_end_fill(index, begun == DT_OK ? err : NULL);

    return begun == DT_OK ? ended : begun;
}

/* ---- who fills ---- */

static bool to_i64(const redisReply *reply, int64_t *out)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        *out = reply->integer;
    return reply->type == REDIS_REPLY_INTEGER ||
           (reply->type == REDIS_REPLY_STRING && parse_i64(reply->str, (size_t)reply->len, out));
}

static void on_filling(void *arg, size_t i, const redisReply *reply)
{
    struct dt_filling *f = ((struct dt_filling **)arg)[i];
    int64_t ours = 0;

    f->wanted = reply->type == REDIS_REPLY_ARRAY && reply->elements == 4 && to_i64(reply->element[0], &f->life) &&
                to_i64(reply->element[1], &f->generation) && to_i64(reply->element[2], &f->done_ms) &&
                to_i64(reply->element[3], &ours);
    f->ours = f->wanted && ours;
}

static void ask_filling(dt_index *index, dt_link *link, const struct dt_filling *f, bool tell)
{
    dt_link_script(link, SCRIPT_FILLED, 1, tell ? 6 : 4);
    arg_due(index, link, f->shard);
    dt_link_arg_i64(link, index->self);
    dt_link_arg_i64(link, tell && !f->keep ? 0 : DT_FILLING_MS);
    dt_link_arg_i64(link, f->generation);
    if (tell) {
        dt_link_arg_i64(link, f->life);
        dt_link_arg_i64(link, f->done_ms);
    }
}

/* Those at one endpoint; tell: what is done along with it. */
static dt_status fillings_of(dt_index *index, dt_link *link, struct dt_filling *fillings, size_t n, bool tell,
                             struct dt_error *err)
{
    struct dt_filling *asked[DT_SHARDS_MAX];
    size_t n_asked = 0;
    dt_status status = DT_OK;

    for (size_t i = 0; i < n && n_asked < DT_SHARDS_MAX; i++) {
        struct dt_filling *f = &fillings[i];
        bool asks = link_of(index, f->shard) == link && (!tell || f->ours);

        if (!asks)
            continue;
        f->wanted = f->ours = false;
        if (n_asked == 0 && status == DT_OK)
            status = dt_link_ready(link, err);
        if (status != DT_OK)
            continue;
        asked[n_asked++] = f;
        ask_filling(index, link, f, tell);
    }
    return n_asked ? turn(link, on_filling, asked, err) : status;
}

static dt_status all_fillings(dt_index *index, struct dt_filling *fillings, size_t n, bool tell, struct dt_error *err)
{
    dt_status worst = DT_OK;

    for (unsigned i = 0; i < index->n_links; i++)
        keep_first(&worst, fillings_of(index, index->links[i], fillings, n, tell, worst == DT_OK ? err : NULL));
    return worst;
}

dt_status dt_index_take_fillings(dt_index *index, int64_t generation, struct dt_filling *fillings, size_t n,
                                 struct dt_error *err)
{
    for (size_t i = 0; i < n; i++)
        fillings[i].generation = generation;
    return all_fillings(index, fillings, n, false, err);
}

dt_status dt_index_tell_fillings(dt_index *index, struct dt_filling *fillings, size_t n, struct dt_error *err)
{
    return all_fillings(index, fillings, n, true, err);
}

/* ---- announcements ---- */

dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    char text[MEMBER_CAP];
    int n = snprintf(text, sizeof(text), outbox ? "%u outbox" : "%u", shard);
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    dt_link_command(link, 3);
    arg_lit(link, "PUBLISH");
    arg_channel(index, link);
    dt_link_arg(link, (struct dt_str){text, (size_t)n});
    return turn(link, NULL, NULL, err);
}

static void build_wake_all(dt_index *index, unsigned i, const void *arg)
{
    (void)arg;
    dt_link_command(index->links[i], 3);
    arg_lit(index->links[i], "PUBLISH");
    arg_channel(index, index->links[i]);
    arg_lit(index->links[i], "topic");
}

dt_status dt_index_wake_all(dt_index *index, struct dt_error *err)
{
    return fly_to_all(index, build_wake_all, err);
}

/* ---- reading entries ---- */

/* What is nobody's, for removal: the name of a slice, and its member ("" = the slice, if there is nothing in it). */
struct junk {
    char name[NAME_CAP], member[MEMBER_CAP];
    size_t n_member;
};

/* Takes replies of the form name, beginning, [member, score, …], name, … */
struct reading {
    struct dt_entry *out;
    size_t cap, n;
    int64_t to_ms; /* entries from here on are left out; INT64_MAX = none are */
    size_t seen;   /* entries and others in the reply */
    struct junk junk[JUNK_MAX];
    size_t n_junk;
};

static void note_junk(struct reading *reading, const redisReply *name, const redisReply *member)
{
    struct junk *junk = &reading->junk[reading->n_junk];
    size_t n = member ? (size_t)member->len : 0;

    if (reading->n_junk == JUNK_MAX || name->type != REDIS_REPLY_STRING || (size_t)name->len >= sizeof(junk->name) ||
        n > sizeof(junk->member) || (member && n == 0))
        return;
    memcpy(junk->name, name->str, (size_t)name->len + 1);
    if (n)
        memcpy(junk->member, member->str, n);
    junk->n_member = n;
    reading->n_junk++;
}

static void take_slice(struct reading *reading, redisReply *const slice[3])
{
    const redisReply *entries = slice[2];
    double start_ms;

    if (entries->type == REDIS_REPLY_NIL)
        note_junk(reading, slice[0], NULL);
    if (entries->type != REDIS_REPLY_ARRAY || !parse_number(slice[1], &start_ms))
        return;
    reading->seen += entries->elements / 2;
    for (size_t i = 0; i + 1 < entries->elements; i += 2) {
        struct dt_entry entry;

        if (!parse_entry(start_ms, entries->element[i], entries->element[i + 1], &entry))
            note_junk(reading, slice[0], entries->element[i]);
        else if (entry.due_ms < reading->to_ms && reading->n < reading->cap)
            reading->out[reading->n++] = entry;
    }
}

static void take_slices(struct reading *reading, const redisReply *reply, size_t from)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = from; i + 2 < reply->elements; i += 3)
        take_slice(reading, &reply->element[i]);
}

/* True when there was any and it is gone now. */
static bool remove_junk(dt_index *index, unsigned shard, const struct reading *reading)
{
    dt_link *link = link_of(index, shard);

    if (reading->n_junk == 0 || dt_link_ready(link, NULL) != DT_OK)
        return false;
    dt_link_script(link, SCRIPT_TIDY, 1, (unsigned)(1 + 2 * reading->n_junk));
    arg_due(index, link, shard);
    for (size_t i = 0; i < reading->n_junk; i++) {
        const struct junk *junk = &reading->junk[i];

        arg_lit(link, junk->name);
        dt_link_arg(link, (struct dt_str){junk->member, junk->n_member});
    }
    return turn(link, NULL, NULL, NULL) == DT_OK;
}

/* ---- the leader's look ---- */

struct due_reply {
    struct reading reading;
    int64_t next_ms;
    bool marked;
};

static void on_due(void *arg, size_t i, const redisReply *reply)
{
    struct due_reply *due = arg;
    double next_ms;

    if (i == 1)
        due->marked = reply->type == REDIS_REPLY_STRING;
    if (i != 0 || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return;
    if (reply->element[0]->len > 0 && parse_number(reply->element[0], &next_ms))
        due->next_ms = (int64_t)next_ms;
    take_slices(&due->reading, reply, 1);
}

static void ask_due(dt_index *index, dt_link *link, unsigned shard, struct dt_marker marker, int64_t now_ms,
                    size_t limit)
{
    dt_link_script(link, SCRIPT_DUE, 1, 3);
    arg_due(index, link, shard);
    dt_link_arg_i64(link, now_ms);
    dt_link_arg_i64(link, (int64_t)limit + 1);

    dt_link_command(link, 3);
    arg_lit(link, "ZSCORE");
    arg_due(index, link, shard);
    arg_marker(link, marker);
}

/* Each id once, the earliest of its entries: the later ones are met when that one is gone. */
static size_t take_ids_once(dt_index *index, struct dt_entry *entries, size_t n)
{
    size_t kept = 0;

    if (n > IDS_SLOTS / 2)
        n = IDS_SLOTS / 2;
    forget_ids(index, n);
    for (size_t i = 0; i < n; i++) {
        struct known_id *known = know(index, entries[i].id);

        if (known->id)
            continue;
        known->id = entries[i].id;
        entries[kept++] = entries[i];
    }
    return kept;
}

/* From a reply of up to limit + 1 entries: what is due, and when to look again. */
static void take_due(dt_index *index, struct due_reply *due, int64_t now_ms, size_t limit, struct dt_entry *entries,
                     size_t *n, int64_t *next_ms)
{
    struct reading *reading = &due->reading;
    size_t once = take_ids_once(index, reading->out, reading->n);

    *n = at_most(once, limit);
    memcpy(entries, reading->out, *n * sizeof(*entries));
    *next_ms = due->next_ms;
    if (once > limit)
        *next_ms = reading->out[limit].due_ms;
    else if (reading->seen > limit)
        *next_ms = once ? reading->out[once - 1].due_ms : now_ms;
}

dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_marker marker, int64_t now_ms, size_t limit,
                       struct dt_entry *entries, size_t *n, int64_t *next_ms, bool *marked, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    struct due_reply *due;
    dt_status status;

    *n = 0;
    *next_ms = 0;
    *marked = false;
    status = dt_link_ready(link, err);
    if (status != DT_OK)
        return status;
    due = malloc(sizeof(*due) + (limit + 1) * sizeof(struct dt_entry));
    if (!due)
        return dt_fail(err, DT_NOMEM, "dt_index_due");
    *due = (struct due_reply){0};
    due->reading.out = (struct dt_entry *)(due + 1);
    due->reading.cap = limit + 1;
    due->reading.to_ms = INT64_MAX;
    ask_due(index, link, shard, marker, now_ms, limit);
    status = turn(link, on_due, due, err);
    if (status == DT_OK) {
        take_due(index, due, now_ms, limit, entries, n, next_ms);
        *marked = due->marked;
        (void)remove_junk(index, shard, &due->reading);
    }
    free(due);
    return status;
}

static void on_integer(void *arg, size_t i, const redisReply *reply)
{
    (void)i;
    if (reply->type == REDIS_REPLY_INTEGER)
        *(int64_t *)arg = reply->integer;
}

dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, const struct dt_marker *was,
                        bool *intact, bool *gone, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    int64_t found = 0;
    dt_status status = dt_link_ready(link, err);

    *intact = *gone = false;
    if (status != DT_OK)
        return status;
    dt_link_script(link, SCRIPT_MARK, 1, 7);
    arg_due(index, link, shard);
    arg_marker(link, marker);
    dt_link_arg_i64(link, marker.generation);
    dt_link_arg_i64(link, marker.oldest);
    if (was)
        arg_marker(link, *was);
    else
        arg_lit(link, "");
    if (marker.filling)
        dt_link_arg_i64(link, dt_marker_life(&marker));
    else
        arg_lit(link, "");
    dt_link_arg_i64(link, marker.map);
    status = turn(link, on_integer, &found, err);
    *intact = status == DT_OK && found > 0;
    *gone = status == DT_OK && found < 0;
    return status;
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    int64_t left = 0;
    dt_status status;

    do {
        status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        dt_link_script(link, SCRIPT_DROP, 2, 3);
        arg_due(index, link, shard);
        arg_registry(index, link, shard);
        arg_held(index, link, shard, DT_STR_LIT(""));
        status = turn(link, on_integer, &left, err);
    } while (status == DT_OK && left > 0);
    return status;
}

const char *dt_index_home(const dt_index *index, unsigned shard)
{
    return index->endpoints[index->link_of[shard]].name;
}

/* ---- changes of one shard, in chunks ---- */

/* What is to be sent for one shard in chunks: exactly one of the pointers is set. */
struct job {
    const struct dt_fix *fixes;
    const struct dt_entry *hold, *missing, *scores;
    struct dt_str topic;
};

/* Those that were seen, in order; those that follow, in order, each with the place of its own. */
static void fix_chunk(dt_index *index, dt_link *link, unsigned shard, const struct dt_fix *fixes, size_t n)
{
    struct dt_item *gone = index->flight->gone;
    struct dt_item *new = index->flight->new;
    size_t n_new = 0;

    for (size_t i = 0; i < n; i++)
        gone[i] = dt_item_of(fixes[i].id, fixes[i].seen_ms, (uint32_t)i);
    dt_items_sort(gone, n);
    for (size_t i = 0; i < n; i++) {
        const struct dt_fix *fix = &fixes[gone[i].ref];

        if (fix->due_ms)
            new[n_new++] = dt_item_of(fix->id, fix->due_ms, (uint32_t)i + 1);
    }
    dt_items_sort(new, n_new);
    change_command(index, link, shard, false, "fix", gone, n, new, n_new);
}

static struct dt_item *sorted_items(dt_index *index, const struct dt_entry *entries, size_t n)
{
    struct dt_item *items = index->flight->new;

    for (size_t i = 0; i < n; i++)
        items[i] = dt_item_of(entries[i].id, entries[i].due_ms, 0);
    dt_items_sort(items, n);
    return items;
}

static void hold_chunk(dt_index *index, dt_link *link, unsigned shard, struct dt_str topic,
                       const struct dt_entry *entries, size_t n)
{
    const struct dt_item *items = sorted_items(index, entries, n);

    dt_link_script(link, SCRIPT_HOLD, 3, (unsigned)(4 + 2 * n));
    arg_due(index, link, shard);
    arg_held(index, link, shard, topic);
    arg_registry(index, link, shard);
    dt_link_arg(link, topic);
    for (size_t i = 0; i < n; i++)
        arg_item(link, &items[i]);
}

static void scores_chunk(dt_index *index, dt_link *link, unsigned shard, const struct dt_entry *entries, size_t n)
{
    dt_link_script(link, SCRIPT_SCORES, 1, (unsigned)(1 + 2 * n));
    arg_due(index, link, shard);
    for (size_t i = 0; i < n; i++) {
        struct dt_item item = dt_item_of(entries[i].id, entries[i].due_ms, 0);

        arg_item(link, &item);
    }
}

static void job_chunk(dt_index *index, dt_link *link, unsigned shard, const struct job *job, size_t from, size_t n)
{
    if (job->fixes)
        fix_chunk(index, link, shard, job->fixes + from, n);
    else if (job->hold)
        hold_chunk(index, link, shard, job->topic, job->hold + from, n);
    else if (job->missing)
        change_command(index, link, shard, false, "missing", NULL, 0, sorted_items(index, job->missing + from, n), n);
    else
        scores_chunk(index, link, shard, job->scores + from, n);
}

/* Replies of SCRIPT_SCORES, one a chunk. */
struct scores_reply {
    int64_t *scores; /* of the present flight */
    size_t n;
};

static void on_scores(void *arg, size_t i, const redisReply *reply)
{
    struct scores_reply *to = arg;
    size_t base = i * CHUNK;

    for (size_t k = 0; reply->type == REDIS_REPLY_ARRAY && k < reply->elements && base + k < to->n; k++) {
        double score;
        bool there = reply->element[k]->len > 0 && parse_number(reply->element[k], &score);

        to->scores[base + k] = there ? (int64_t)score : 0;
    }
}

static dt_status run_job(dt_index *index, unsigned shard, const struct job *job, size_t n, int64_t *scores,
                         struct dt_error *err)
{
    dt_link *link = link_of(index, shard);

    for (size_t done = 0; done < n;) {
        size_t flight = at_most(n - done, FLIGHT / CHUNK * CHUNK);
        struct scores_reply to = {scores ? scores + done : NULL, flight};
        dt_status status = dt_link_ready(link, err);

        if (status != DT_OK)
            return status;
        for (size_t k = 0; k < flight; k += CHUNK)
            job_chunk(index, link, shard, job, done + k, at_most(flight - k, CHUNK));
        status = turn(link, scores ? on_scores : NULL, &to, err);
        if (status != DT_OK)
            return status;
        done += flight;
    }
    return DT_OK;
}

dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err)
{
    return run_job(index, shard, &(struct job){.fixes = fixes}, n, NULL, err);
}

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    return run_job(index, shard, &(struct job){.hold = entries, .topic = topic}, n, NULL, err);
}

dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                               struct dt_error *err)
{
    return run_job(index, shard, &(struct job){.missing = entries}, n, NULL, err);
}

dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n, int64_t *scores,
                          struct dt_error *err)
{
    memset(scores, 0, n * sizeof(*scores));
    return run_job(index, shard, &(struct job){.scores = entries}, n, scores, err);
}

/* ---- held sets ---- */

static dt_status unhold_some(dt_index *index, unsigned shard, struct dt_str topic, size_t some, int64_t *next_ms,
                             struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    dt_link_script(link, SCRIPT_UNHOLD, 3, 5);
    arg_due(index, link, shard);
    arg_held(index, link, shard, topic);
    arg_registry(index, link, shard);
    dt_link_arg(link, topic);
    dt_link_arg_i64(link, (int64_t)some);
    return turn(link, on_integer, next_ms, err);
}

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    dt_status status;

    *next_ms = 0;
    do {
        size_t some = limit < CHUNK ? limit : CHUNK;

        status = unhold_some(index, shard, topic, some, next_ms, err);
        limit -= some;
    } while (status == DT_OK && *next_ms > 0 && limit > 0);
    return status;
}

struct held_reply {
    struct dt_arena *arena;
    struct dt_str *topics;
    size_t n;
    bool failed;
};

static void on_held(void *arg, size_t i, const redisReply *reply)
{
    struct held_reply *held = arg;

    (void)i;
    held->n = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return;
    held->topics = dt_arena_alloc(held->arena, reply->elements * sizeof(*held->topics));
    for (size_t k = 0; held->topics && k < reply->elements; k++) {
        struct dt_str topic = {reply->element[k]->str, (size_t)reply->element[k]->len};

        held->topics[k] = dt_arena_copy(held->arena, topic);
        held->failed |= held->topics[k].p == NULL;
        held->n++;
    }
    held->failed |= held->topics == NULL;
}

dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    struct held_reply held = {.arena = arena};
    dt_status status = dt_link_ready(link, err);

    *topics = NULL;
    *n = 0;
    if (status != DT_OK)
        return status;
    dt_link_command(link, 2);
    arg_lit(link, "SMEMBERS");
    arg_registry(index, link, shard);
    status = turn(link, on_held, &held, err);
    if (status == DT_OK && held.failed)
        status = dt_fail(err, DT_NOMEM, "dt_index_held");
    if (status != DT_OK)
        return status;
    *topics = held.topics;
    *n = held.n;
    return DT_OK;
}

/* ---- ranges ---- */

static void on_range(void *arg, size_t i, const redisReply *reply)
{
    (void)i;
    take_slices(arg, reply, 0);
}

static dt_status range_once(dt_index *index, unsigned shard, int64_t from_ms, const struct dt_entry *after,
                            struct reading *reading, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    struct dt_member member = {.n = 0};
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    if (after && after->due_ms >= from_ms) {
        from_ms = after->due_ms;
        member = dt_member_of(after->id, after->due_ms);
    }
    dt_link_script(link, SCRIPT_RANGE, 1, 5);
    arg_due(index, link, shard);
    dt_link_arg_i64(link, from_ms);
    dt_link_arg_i64(link, reading->to_ms);
    dt_link_arg_i64(link, (int64_t)reading->cap);
    dt_link_arg(link, (struct dt_str){(const char *)member.bytes, member.n});
    return turn(link, on_range, reading, err);
}

dt_status dt_index_range(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, const struct dt_entry *after,
                         size_t limit, struct dt_entry *entries, size_t *n, struct dt_error *err)
{
    struct reading *reading = malloc(sizeof(*reading));
    dt_status status;

    *n = 0;
    if (!reading)
        return dt_fail(err, DT_NOMEM, "dt_index_range");
    /* A page of nothing but junk: remove it and look again, so that n = 0 means the end. */
    do {
        *reading = (struct reading){.out = entries, .cap = limit, .to_ms = to_ms};
        status = range_once(index, shard, from_ms, after, reading, err);
    } while (status == DT_OK && remove_junk(index, shard, reading) && reading->n == 0);
    if (status == DT_OK)
        *n = reading->n;
    free(reading);
    return status;
}

struct count_reply {
    int64_t n;
    double from_ms; /* < 0: that was all */
};

static void on_count(void *arg, size_t i, const redisReply *reply)
{
    struct count_reply *count = arg;

    (void)i;
    count->from_ms = -1;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return;
    count->n += reply->element[0]->integer;
    if (reply->element[1]->len == 0 || !parse_number(reply->element[1], &count->from_ms))
        count->from_ms = -1;
}

dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                         struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    struct count_reply count = {0, (double)from_ms};

    *n = 0;
    while (count.from_ms >= 0) {
        dt_status status = dt_link_ready(link, err);

        if (status != DT_OK)
            return status;
        dt_link_script(link, SCRIPT_COUNT, 1, 3);
        arg_due(index, link, shard);
        dt_link_arg_i64(link, (int64_t)count.from_ms);
        dt_link_arg_i64(link, to_ms);
        status = turn(link, on_count, &count, err);
        if (status != DT_OK)
            return status;
    }
    *n = count.n;
    return DT_OK;
}
