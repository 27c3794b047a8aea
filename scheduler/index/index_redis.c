/*
 * Owns the Redis keys and the scripts that change them. Refuses to know MySQL, topics' settings and who leads.
 * Invariants: every command is idempotent, so a turn whose answer was lost may simply be sent again; a change of an
 * entry that was decided elsewhere is conditional on the score that was seen. A flight (at most FLIGHT entries) is
 * written to all endpoints before any reply is read: one round trip for all of them, in bounded memory.
 */
#include "index/index.h"

#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/index_link.h"

#define CHUNK      1000u  /* entries of one command: below Lua's limit of about 8,000 unpacked values */
#define FLIGHT     16384u /* entries on their way at once */
#define KEY_CAP    512
#define MEMBER_CAP 96
#define JUNK_MAX   64

/* ---- scripts ---- */

enum script { SCRIPT_PUT, SCRIPT_FIX, SCRIPT_HOLD, SCRIPT_UNHOLD, SCRIPT_MARK, SCRIPT_AFTER, SCRIPT_DROP, SCRIPTS };

/* KEYS due; ARGV channel, message, number of adds, score, id, …, ids to remove. Announces when the earliest became
 * earlier. */
static const char PUT[] = "local due, n = KEYS[1], 3 + 2 * tonumber(ARGV[3])\n"
                          "local before = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')\n"
                          "if #ARGV > n then redis.call('ZREM', due, unpack(ARGV, n + 1)) end\n"
                          "if n > 3 then redis.call('ZADD', due, unpack(ARGV, 4, n)) end\n"
                          "local after = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')\n"
                          "if after[2] and tonumber(after[2]) < (tonumber(before[2] or 'inf') or math.huge) then\n"
                          "  redis.call('PUBLISH', ARGV[1], ARGV[2])\n"
                          "end\n"
                          "return 1";

/* KEYS due; ARGV n ids, n scores seen, n new scores (0 = remove). */
static const char FIX[] = "local due, n, add, rem = KEYS[1], #ARGV / 3, {}, {}\n"
                          "local is = redis.call('ZMSCORE', due, unpack(ARGV, 1, n))\n"
                          "for i = 1, n do\n"
                          "  if is[i] and math.floor(tonumber(is[i])) == tonumber(ARGV[n + i]) then\n"
                          "    local to = ARGV[2 * n + i]\n"
                          "    if to == '0' then rem[#rem + 1] = ARGV[i]\n"
                          "    else add[#add + 1] = to; add[#add + 1] = ARGV[i] end\n"
                          "  end\n"
                          "end\n"
                          "if #add > 0 then redis.call('ZADD', due, unpack(add)) end\n"
                          "if #rem > 0 then redis.call('ZREM', due, unpack(rem)) end\n"
                          "return #add / 2 + #rem";

/* KEYS due, held, registry; ARGV topic, n ids, n scores. */
static const char HOLD[] = "local due, n, add, rem = KEYS[1], (#ARGV - 1) / 2, {}, {}\n"
                           "local is = redis.call('ZMSCORE', due, unpack(ARGV, 2, n + 1))\n"
                           "for i = 1, n do\n"
                           "  local id, at = ARGV[i + 1], ARGV[n + i + 1]\n"
                           "  if not is[i] or math.floor(tonumber(is[i])) == tonumber(at) then\n"
                           "    add[#add + 1] = at; add[#add + 1] = id\n"
                           "    if is[i] then rem[#rem + 1] = id end\n"
                           "  end\n"
                           "end\n"
                           "if #add > 0 then\n"
                           "  redis.call('SADD', KEYS[3], ARGV[1])\n"
                           "  redis.call('ZADD', KEYS[2], unpack(add))\n"
                           "end\n"
                           "if #rem > 0 then redis.call('ZREM', due, unpack(rem)) end\n"
                           "return #add / 2";

/* KEYS due, held, registry; ARGV topic, limit. Gives the number left. */
static const char UNHOLD[] = "local got = redis.call('ZRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1, 'WITHSCORES')\n"
                             "local add, rem = {}, {}\n"
                             "for i = 1, #got, 2 do\n"
                             "  rem[#rem + 1] = got[i]\n"
                             "  add[#add + 1] = got[i + 1]; add[#add + 1] = got[i]\n"
                             "end\n"
                             "if #rem > 0 then\n"
                             "  redis.call('ZADD', KEYS[1], 'NX', unpack(add))\n"
                             "  redis.call('ZREM', KEYS[2], unpack(rem))\n"
                             "end\n"
                             "local left = redis.call('ZCARD', KEYS[2])\n"
                             "if left == 0 then redis.call('SREM', KEYS[3], ARGV[1]) end\n"
                             "return left";

/* KEYS due; ARGV our marker, its generation, the oldest epoch that is believed. Gives 1 when there was a marker to
 * believe. Adds first: Redis that is full refuses a script's first write only, and that it refuses is what the leader
 * has to learn. */
static const char MARK[] = "local there = redis.call('ZRANGEBYSCORE', KEYS[1], '+inf', '+inf')\n"
                           "redis.call('ZADD', KEYS[1], '+inf', ARGV[1])\n"
                           "local intact = 0\n"
                           "for _, m in ipairs(there) do\n"
                           "  local epoch, generation = string.match(m, '^!(%d+):.*:(%d+)$')\n"
                           "  if generation == ARGV[2] and tonumber(epoch) >= tonumber(ARGV[3]) then intact = 1 end\n"
                           "  if m ~= ARGV[1] then redis.call('ZREM', KEYS[1], m) end\n"
                           "end\n"
                           "return intact";

/*
 * KEYS due; ARGV score, id, limit: the entries after (score, id) by rank, whether or not that one is still there. Among
 * equal scores Redis orders members by their bytes, hence the search by halves.
 */
static const char AFTER[] = "local due, at, id = KEYS[1], ARGV[1], ARGV[2]\n"
                            "local lo = redis.call('ZCOUNT', due, '-inf', '(' .. at)\n"
                            "local hi = lo + redis.call('ZCOUNT', due, at, at)\n"
                            "while lo < hi do\n"
                            "  local mid = math.floor((lo + hi) / 2)\n"
                            "  if redis.call('ZRANGE', due, mid, mid)[1] <= id then lo = mid + 1 else hi = mid end\n"
                            "end\n"
                            "return redis.call('ZRANGE', due, lo, lo + tonumber(ARGV[3]) - 1, 'WITHSCORES')";

/* KEYS due, registry; ARGV prefix of the held sets' names. They stand in the registry, and in the slot of these two. */
static const char DROP[] = "for _, topic in ipairs(redis.call('SMEMBERS', KEYS[2])) do\n"
                           "  redis.call('DEL', ARGV[1] .. topic)\n"
                           "end\n"
                           "return redis.call('DEL', KEYS[1], KEYS[2])";

static const char *const SCRIPT_TEXTS[SCRIPTS] = {
    [SCRIPT_PUT] = PUT,   [SCRIPT_FIX] = FIX,     [SCRIPT_HOLD] = HOLD, [SCRIPT_UNHOLD] = UNHOLD,
    [SCRIPT_MARK] = MARK, [SCRIPT_AFTER] = AFTER, [SCRIPT_DROP] = DROP,
};

/* ---- the handle ---- */

struct dt_index {
    char installation[101];
    struct dt_endpoint *endpoints;
    struct dt_str *names;
    dt_link **links;
    bool *wanted, *sent; /* scratch: the present flight is for this endpoint; its commands were written */
    unsigned n_links;
    uint16_t link_of[DT_SHARDS_MAX];
    uint16_t *shard_of; /* scratch of dt_index_put: FLIGHT */
    uint32_t *order;    /* likewise: entries grouped by shard */
};

static dt_status index_fill(dt_index *index, const struct dt_config *config, const dt_clock *clock)
{
    index->names = calloc(index->n_links, sizeof(*index->names));
    index->links = calloc(index->n_links, sizeof(dt_link *));
    index->wanted = calloc(index->n_links, sizeof(*index->wanted));
    index->sent = calloc(index->n_links, sizeof(*index->sent));
    index->shard_of = malloc(FLIGHT * sizeof(*index->shard_of));
    index->order = malloc(FLIGHT * sizeof(*index->order));
    if (!index->names || !index->links || !index->wanted || !index->sent || !index->shard_of || !index->order)
        return DT_NOMEM;
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

    *out = NULL;
    if (!installation[0] || strlen(installation) >= sizeof(index->installation))
        return dt_fail(err, DT_INVALID, "the installation's name must have 1-100 bytes");
    index = calloc(1, sizeof(*index));
    if (!index)
        return dt_fail(err, DT_NOMEM, "index");
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
    free(index->shard_of);
    free(index->order);
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
                     (long long)marker.count, (long long)marker.generation);

    dt_link_arg(link, (struct dt_str){text, (size_t)n});
}

static void arg_lit(dt_link *link, const char *word)
{
    dt_link_arg(link, dt_str(word));
}

/* A bound of a range that leaves the value itself out. */
static void arg_below(dt_link *link, int64_t ms)
{
    char text[MEMBER_CAP];
    int n = snprintf(text, sizeof(text), "(%lld", (long long)ms);

    dt_link_arg(link, (struct dt_str){text, (size_t)n});
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
static bool parse_score(const char *p, size_t n, int64_t *out)
{
    double v;

    if (parse_i64(p, n, out))
        return true;
    v = strtod(p, NULL);
    if (!isfinite(v) || v != floor(v) || fabs(v) > 9e15)
        return false;
    *out = (int64_t)v;
    return true;
}

static bool parse_entry(const redisReply *member, const redisReply *score, struct dt_entry *out)
{
    return member->type == REDIS_REPLY_STRING && score->type == REDIS_REPLY_STRING &&
           parse_i64(member->str, (size_t)member->len, &out->id) && out->id > 0 &&
           parse_score(score->str, (size_t)score->len, &out->due_ms);
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
 * Writes to all endpoints that are wanted, then reads. Those that have to be connected first come last, so that a
 * silent one keeps nobody else's commands waiting. The first failure is reported, the others go on.
 */
static dt_status fly(dt_index *index, build_fn *build, const void *arg, struct dt_error *err)
{
    dt_status worst = DT_OK;

    memset(index->sent, 0, index->n_links * sizeof(*index->sent));
    for (int connected = 1; connected >= 0; connected--) {
        for (unsigned i = 0; i < index->n_links; i++) {
            if (index->wanted[i] && dt_link_connected(index->links[i]) == connected)
                keep_first(&worst, send_flight(index, i, build, arg, worst == DT_OK ? err : NULL));
        }
    }
    for (unsigned i = 0; i < index->n_links; i++) {
        if (index->sent[i])
            keep_first(&worst, dt_link_read(index->links[i], NULL, NULL, worst == DT_OK ? err : NULL));
    }
    return worst;
}
static dt_status fly_to_all(dt_index *index, build_fn *build, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return fly(index, build, NULL, err);
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

/* ---- put ---- */

/* Entries of one shard in one command or two: a part of a flight, in the order of index->order. */
struct part {
    unsigned shard;
    const struct dt_entry *entries;
    const uint32_t *order;
    size_t n;
    int64_t horizon_end_ms;
};

static bool stays(const struct part *part, const struct dt_entry *entry)
{
    return entry->due_ms > 0 && entry->due_ms <= part->horizon_end_ms;
}

static size_t part_adds(const struct part *part)
{
    size_t adds = 0;

    for (size_t i = 0; i < part->n; i++)
        adds += stays(part, &part->entries[part->order[i]]);
    return adds;
}

static void part_args(dt_link *link, const struct part *part, bool add)
{
    for (size_t i = 0; i < part->n; i++) {
        const struct dt_entry *entry = &part->entries[part->order[i]];

        if (stays(part, entry) != add)
            continue;
        if (add)
            dt_link_arg_i64(link, entry->due_ms);
        dt_link_arg_i64(link, entry->id);
    }
}

static void put_part_waking(dt_index *index, dt_link *link, const struct part *part)
{
    size_t adds = part_adds(part);

    dt_link_script(link, SCRIPT_PUT, 1, (unsigned)(4 + 2 * adds + (part->n - adds)));
    arg_due(index, link, part->shard);
    arg_channel(index, link);
    dt_link_arg_i64(link, part->shard);
    dt_link_arg_i64(link, (int64_t)adds);
    part_args(link, part, true);
    part_args(link, part, false);
}

static void put_part_silent(dt_index *index, dt_link *link, const struct part *part)
{
    size_t adds = part_adds(part);

    if (adds < part->n) {
        dt_link_command(link, (unsigned)(2 + part->n - adds));
        arg_lit(link, "ZREM");
        arg_due(index, link, part->shard);
        part_args(link, part, false);
    }
    if (adds) {
        dt_link_command(link, (unsigned)(2 + 2 * adds));
        arg_lit(link, "ZADD");
        arg_due(index, link, part->shard);
        part_args(link, part, true);
    }
}

static void put_part_missing(dt_index *index, dt_link *link, const struct part *part)
{
    dt_link_command(link, (unsigned)(3 + 2 * part->n));
    arg_lit(link, "ZADD");
    arg_due(index, link, part->shard);
    arg_lit(link, "NX");
    for (size_t i = 0; i < part->n; i++) {
        dt_link_arg_i64(link, part->entries[part->order[i]].due_ms);
        dt_link_arg_i64(link, part->entries[part->order[i]].id);
    }
}

/* Stable counting sort: several entries of one job keep their order, the last one wins. ends[s]: end of shard s in
 * order. */
static void group_by_shard(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                           uint32_t *ends)
{
    memset(ends, 0, map->shards * sizeof(*ends));
    for (size_t i = 0; i < n; i++) {
        index->shard_of[i] = (uint16_t)dt_shard_of(map, entries[i].id);
        ends[index->shard_of[i]]++;
    }
    for (unsigned s = 1; s < map->shards; s++)
        ends[s] += ends[s - 1];
    for (size_t i = n; i-- > 0;)
        index->order[--ends[index->shard_of[i]]] = (uint32_t)i;
    /* ends[s] is the start of s by now: move to the ends */
    for (unsigned s = 0; s + 1 < map->shards; s++)
        ends[s] = ends[s + 1];
    ends[map->shards - 1] = (uint32_t)n;
}

/* A flight of entries, grouped by shard. */
struct flight {
    const struct dt_shard_map *map;
    const struct dt_entry *entries;
    int64_t horizon_end_ms;
    enum { PUT_SILENT, PUT_WAKING, PUT_MISSING } how;
    uint32_t ends[DT_SHARDS_MAX];
};

/* Within a chunk what is removed goes first: an id that is in it twice stays, and a stale hint harms less than a lost
 * entry. */
static void build_shard(dt_index *index, const struct flight *flight, struct part part)
{
    dt_link *link = link_of(index, part.shard);
    size_t left = part.n;

    while (left) {
        part.n = left < CHUNK ? left : CHUNK;
        if (flight->how == PUT_WAKING)
            put_part_waking(index, link, &part);
        else if (flight->how == PUT_SILENT)
            put_part_silent(index, link, &part);
        else
            put_part_missing(index, link, &part);
        part.order += part.n;
        left -= part.n;
    }
}

static void build_put(dt_index *index, unsigned i, const void *arg)
{
    const struct flight *flight = arg;

    for (unsigned s = 0, from = 0; s < flight->map->shards; from = flight->ends[s++]) {
        struct part part = {s, flight->entries, index->order + from, flight->ends[s] - from, flight->horizon_end_ms};

        if (part.n && index->link_of[s] == i)
            build_shard(index, flight, part);
    }
}

static dt_status put_flight(dt_index *index, struct flight *flight, size_t n, struct dt_error *err)
{
    group_by_shard(index, flight->map, flight->entries, n, flight->ends);
    memset(index->wanted, 0, index->n_links * sizeof(*index->wanted));
    for (unsigned s = 0, from = 0; s < flight->map->shards; from = flight->ends[s++])
        index->wanted[index->link_of[s]] |= flight->ends[s] > from;
    return fly(index, build_put, flight, err);
}

static dt_status put_all(dt_index *index, struct flight *flight, size_t n, struct dt_error *err)
{
    dt_status worst = DT_OK;

    while (n > 0) {
        size_t some = n < FLIGHT ? n : FLIGHT;

        keep_first(&worst, put_flight(index, flight, some, worst == DT_OK ? err : NULL));
        flight->entries += some;
        n -= some;
    }
    return worst;
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    struct flight flight = {map, entries, horizon_end_ms, wake ? PUT_WAKING : PUT_SILENT, {0}};

    return put_all(index, &flight, n, err);
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    struct flight flight = {map, entries, INT64_MAX, PUT_MISSING, {0}};

    return put_all(index, &flight, n, err);
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

/* Takes replies of the form member, score, member, score, …; what is nobody's is kept apart for removal. */
struct reading {
    struct dt_entry *out;
    size_t cap, n;
    int64_t to_ms; /* entries from here on are left out; INT64_MAX = none are */
    size_t seen;   /* pairs in the reply */
    char junk[JUNK_MAX][MEMBER_CAP * 4];
    size_t n_junk;
};

static void note_junk(struct reading *reading, const redisReply *member)
{
    size_t n = (size_t)member->len;

    if (reading->n_junk == JUNK_MAX || n == 0 || n >= sizeof(reading->junk[0]) || member->str[0] == '!')
        return;
    memcpy(reading->junk[reading->n_junk], member->str, n);
    reading->junk[reading->n_junk++][n] = '\0';
}

static void take_pairs(struct reading *reading, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    reading->seen = reply->elements / 2;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        struct dt_entry entry;

        if (!parse_entry(reply->element[i], reply->element[i + 1], &entry))
            note_junk(reading, reply->element[i]);
        else if (entry.due_ms < reading->to_ms && reading->n < reading->cap)
            reading->out[reading->n++] = entry;
    }
}

/* True when there was any and it is gone now. */
static bool remove_junk(dt_index *index, unsigned shard, const struct reading *reading)
{
    dt_link *link = link_of(index, shard);

    if (reading->n_junk == 0 || dt_link_ready(link, NULL) != DT_OK)
        return false;
    dt_link_command(link, (unsigned)(2 + reading->n_junk));
    arg_lit(link, "ZREM");
    arg_due(index, link, shard);
    for (size_t i = 0; i < reading->n_junk; i++)
        dt_link_arg(link, dt_str(reading->junk[i]));
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
    struct dt_entry entry;

    if (i == 0)
        take_pairs(&due->reading, reply);
    else if (i == 1 && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
             parse_entry(reply->element[0], reply->element[1], &entry))
        due->next_ms = entry.due_ms;
    else if (i == 2)
        due->marked = reply->type == REDIS_REPLY_STRING;
}

static void ask_due(dt_index *index, dt_link *link, unsigned shard, struct dt_marker marker, int64_t now_ms,
                    size_t limit)
{
    dt_link_command(link, 8);
    arg_lit(link, "ZRANGEBYSCORE");
    arg_due(index, link, shard);
    arg_lit(link, "-inf");
    dt_link_arg_i64(link, now_ms);
    arg_lit(link, "WITHSCORES");
    arg_lit(link, "LIMIT");
    dt_link_arg_i64(link, 0);
    dt_link_arg_i64(link, (int64_t)limit + 1);

    dt_link_command(link, 8);
    arg_lit(link, "ZRANGEBYSCORE");
    arg_due(index, link, shard);
    arg_below(link, now_ms); /* as a lower bound: above now */
    arg_lit(link, "(inf");
    arg_lit(link, "WITHSCORES");
    arg_lit(link, "LIMIT");
    dt_link_arg_i64(link, 0);
    dt_link_arg_i64(link, 1);

    dt_link_command(link, 3);
    arg_lit(link, "ZSCORE");
    arg_due(index, link, shard);
    arg_marker(link, marker);
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
    due = calloc(1, sizeof(*due) + (limit + 1) * sizeof(struct dt_entry));
    if (!due)
        return dt_fail(err, DT_NOMEM, "dt_index_due");
    due->reading.out = (struct dt_entry *)(due + 1);
    due->reading.cap = limit + 1;
    due->reading.to_ms = INT64_MAX;
    ask_due(index, link, shard, marker, now_ms, limit);
    status = turn(link, on_due, due, err);
    if (status == DT_OK) {
        *n = due->reading.n <= limit ? due->reading.n : limit;
        memcpy(entries, due->reading.out, *n * sizeof(*entries));
        *next_ms = due->reading.n > limit ? due->reading.out[limit].due_ms : due->next_ms;
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

dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, bool *intact, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    int64_t was = 0;
    dt_status status = dt_link_ready(link, err);

    *intact = false;
    if (status != DT_OK)
        return status;
    dt_link_script(link, SCRIPT_MARK, 1, 4);
    arg_due(index, link, shard);
    arg_marker(link, marker);
    dt_link_arg_i64(link, marker.generation);
    dt_link_arg_i64(link, marker.oldest);
    status = turn(link, on_integer, &was, err);
    *intact = status == DT_OK && was != 0;
    return status;
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    dt_link_script(link, SCRIPT_DROP, 2, 3);
    arg_due(index, link, shard);
    arg_registry(index, link, shard);
    arg_held(index, link, shard, DT_STR_LIT(""));
    return turn(link, NULL, NULL, err);
}

const char *dt_index_home(const dt_index *index, unsigned shard)
{
    return index->endpoints[index->link_of[shard]].name;
}

/* ---- conditional changes, in chunks ---- */

static void fix_chunk(dt_index *index, dt_link *link, unsigned shard, const struct dt_fix *fixes, size_t n)
{
    dt_link_script(link, SCRIPT_FIX, 1, (unsigned)(1 + 3 * n));
    arg_due(index, link, shard);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, fixes[i].id);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, fixes[i].seen_ms);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, fixes[i].due_ms);
}

static void hold_chunk(dt_index *index, dt_link *link, unsigned shard, struct dt_str topic,
                       const struct dt_entry *entries, size_t n)
{
    dt_link_script(link, SCRIPT_HOLD, 3, (unsigned)(4 + 2 * n));
    arg_due(index, link, shard);
    arg_held(index, link, shard, topic);
    arg_registry(index, link, shard);
    dt_link_arg(link, topic);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, entries[i].id);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, entries[i].due_ms);
}

static void add_missing_chunk(dt_index *index, dt_link *link, unsigned shard, const struct dt_entry *entries, size_t n)
{
    dt_link_command(link, (unsigned)(3 + 2 * n));
    arg_lit(link, "ZADD");
    arg_due(index, link, shard);
    arg_lit(link, "NX");
    for (size_t i = 0; i < n; i++) {
        dt_link_arg_i64(link, entries[i].due_ms);
        dt_link_arg_i64(link, entries[i].id);
    }
}

/* What is to be sent for one shard in chunks: exactly one of the pointers is set. */
struct job {
    const struct dt_fix *fixes;
    const struct dt_entry *hold, *missing;
    const int64_t *ids;
    struct dt_str topic;
};

static void scores_chunk(dt_index *index, dt_link *link, unsigned shard, const int64_t *ids, size_t n)
{
    dt_link_command(link, (unsigned)(2 + n));
    arg_lit(link, "ZMSCORE");
    arg_due(index, link, shard);
    for (size_t i = 0; i < n; i++)
        dt_link_arg_i64(link, ids[i]);
}

static void job_chunk(dt_index *index, dt_link *link, unsigned shard, const struct job *job, size_t from, size_t n)
{
    if (job->fixes)
        fix_chunk(index, link, shard, job->fixes + from, n);
    else if (job->hold)
        hold_chunk(index, link, shard, job->topic, job->hold + from, n);
    else if (job->missing)
        add_missing_chunk(index, link, shard, job->missing + from, n);
    else
        scores_chunk(index, link, shard, job->ids + from, n);
}

/* Replies of ZMSCORE commands, one a chunk. */
struct scores_reply {
    int64_t *scores; /* of the present flight */
    size_t n;
};

static void on_scores(void *arg, size_t i, const redisReply *reply)
{
    struct scores_reply *to = arg;
    size_t base = i * CHUNK;

    for (size_t k = 0; reply->type == REDIS_REPLY_ARRAY && k < reply->elements && base + k < to->n; k++) {
        const redisReply *score = reply->element[k];

        if (score->type != REDIS_REPLY_STRING || !parse_score(score->str, (size_t)score->len, &to->scores[base + k]))
            to->scores[base + k] = 0;
    }
}

static dt_status run_job(dt_index *index, unsigned shard, const struct job *job, size_t n, int64_t *scores,
                         struct dt_error *err)
{
    dt_link *link = link_of(index, shard);

    for (size_t done = 0; done < n;) {
        size_t flight = n - done < FLIGHT / CHUNK * CHUNK ? n - done : FLIGHT / CHUNK * CHUNK;
        struct scores_reply to = {scores ? scores + done : NULL, flight};
        dt_status status = dt_link_ready(link, err);

        if (status != DT_OK)
            return status;
        for (size_t k = 0; k < flight; k += CHUNK)
            job_chunk(index, link, shard, job, done + k, flight - k < CHUNK ? flight - k : CHUNK);
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

dt_status dt_index_scores(dt_index *index, unsigned shard, const int64_t *ids, size_t n, int64_t *scores,
                          struct dt_error *err)
{
    memset(scores, 0, n * sizeof(*scores));
    return run_job(index, shard, &(struct job){.ids = ids}, n, scores, err);
}

/* ---- held sets ---- */

static dt_status unhold_some(dt_index *index, unsigned shard, struct dt_str topic, size_t some, int64_t *left,
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
    return turn(link, on_integer, left, err);
}

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *left,
                          struct dt_error *err)
{
    dt_status status;

    *left = 0;
    do {
        size_t some = limit < CHUNK ? limit : CHUNK;

        status = unhold_some(index, shard, topic, some, left, err);
        limit -= some;
    } while (status == DT_OK && *left > 0 && limit > 0);
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
    take_pairs(arg, reply);
}

static void ask_range(dt_index *index, dt_link *link, unsigned shard, int64_t from_ms, int64_t to_ms, size_t limit)
{
    dt_link_command(link, 8);
    arg_lit(link, "ZRANGEBYSCORE");
    arg_due(index, link, shard);
    dt_link_arg_i64(link, from_ms);
    arg_below(link, to_ms);
    arg_lit(link, "WITHSCORES");
    arg_lit(link, "LIMIT");
    dt_link_arg_i64(link, 0);
    dt_link_arg_i64(link, (int64_t)limit);
}

static void ask_after(dt_index *index, dt_link *link, unsigned shard, const struct dt_entry *after, size_t limit)
{
    dt_link_script(link, SCRIPT_AFTER, 1, 4);
    arg_due(index, link, shard);
    dt_link_arg_i64(link, after->due_ms);
    dt_link_arg_i64(link, after->id);
    dt_link_arg_i64(link, (int64_t)limit);
}

static dt_status range_once(dt_index *index, unsigned shard, int64_t from_ms, const struct dt_entry *after,
                            struct reading *reading, struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    if (after && after->due_ms >= from_ms)
        ask_after(index, link, shard, after, reading->cap);
    else
        ask_range(index, link, shard, from_ms, reading->to_ms, reading->cap);
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

dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                         struct dt_error *err)
{
    dt_link *link = link_of(index, shard);
    dt_status status = dt_link_ready(link, err);

    *n = 0;
    if (status != DT_OK)
        return status;
    dt_link_command(link, 4);
    arg_lit(link, "ZCOUNT");
    arg_due(index, link, shard);
    dt_link_arg_i64(link, from_ms);
    arg_below(link, to_ms);
    return turn(link, on_integer, n, err);
}
