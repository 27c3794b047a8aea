/*
 * The port to Redis: for each shard one set of entries (next_at in ms, id), ascending, the due set. Entries are hints:
 * every write is idempotent, the reconciler repairs a lost entry, and a failure here never fails a caller's request. A
 * job has one entry; to move the entry, the caller passes its old time. If the old time is not known, or if two moves
 * arrive in the wrong order, an old entry remains beside the right one; the claim refuses the old entry and removes it.
 *
 * A due set is stored in pages, small enough for Redis to pack them (14 to 17 bytes an entry instead of 110 to 144). So
 * an entry can only be found by its id and its time together. Only this folder knows Redis keys:
 *
 * - `<installation>:{<shard>}:due`: the pages; score = the beginning of the page in ms, member = its name (the same in
 *   decimal). A member "!<epoch>:<token>:<count>:<generation>" with score +inf is the set's marker
 * - `<installation>:{<shard>}:due:<name>`: a page; score = ms after its beginning, member: see index_pack.h. A page
 *   ends where the next page begins
 * - `<installation>:{<shard>}:held:<topic>`: due entries of a topic that cannot be claimed now, or that has too many
 *   due jobs: score = ms, members as in pages. With DT_HELD_TIMEOUTS after the topic: attempts that timed out. With
 *   DT_HELD_HOST and a number after the topic: jobs that name the host with that number
 * - `<installation>:{<shard>}:held`: set of the topics that have a held set
 * - `<installation>:probe`: written and deleted again, to test whether the server accepts changes
 * - `<installation>:wake`: pub/sub channel; messages "<shard>" or "<shard> outbox" or "topic"
 * - `<installation>:pops`: pub/sub channel; messages "<topic> <topic> …": jobs of these topics wait for a pop; "": jobs
 *   of any topic may wait
 *
 * All keys of a shard have its hash tag; the scripts make the names of pages. Entries of one ms are sorted by the bytes
 * of their members: if the ms is on the home day of the ids, this is the order in which the ids were made. If a script
 * finds a member of another form in one of these keys, the member is removed.
 *
 * An installation can run without Redis: if redis.endpoints is empty, there is no dt_index and no dt_wake. The
 * constructors then return OK and NULL; only functions that say so accept NULL.
 *
 * A dt_index has one connection for each endpoint. One thread at a time uses it. For every function that takes an err:
 * inputs are borrowed for the call, outputs are valid only after OK. UNAVAILABLE: an endpoint does not answer or does
 * not accept changes; a part of the request may be done. NOMEM: memory ran out. A connection that failed is closed and
 * opened again after a capped exponential back-off with jitter; until then requests for its shards return UNAVAILABLE
 * at once. If the server closed an idle connection, that is no failure: the connection is replaced at once and the
 * request is sent again.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "job/job.h"
#include "job/shard.h"

typedef struct dt_index dt_index;

/* Checks the configuration before anything connects. Returns INVALID if an endpoint is malformed, or is `master:NAME`
 * although no Sentinels are configured; UNSUPPORTED if TLS is configured but the client library was built without
 * it. */
dt_status dt_index_check(const struct dt_config *config, struct dt_error *err);
/* Makes an index without connecting it. The inputs must outlive the index, except the installation's name, which is
 * copied. INVALID: the name or the endpoints cannot be used. *out is NULL after a failure, and if no endpoints are
 * configured. */
dt_status dt_index_new(const struct dt_config *config, const char *installation, const dt_clock *clock, dt_index **out,
                       struct dt_error *err);
static inline bool dt_index_configured(const struct dt_config *config)
{
    return config->redis_endpoints && config->redis_endpoints[0];
}
/* Closes the connections and frees the index. Accepts NULL. */
void dt_index_free(dt_index *index);
/* Pings every endpoint. UNAVAILABLE: an endpoint does not answer; err names it. */
dt_status dt_index_ping(dt_index *index, struct dt_error *err);

/* Writes a key that nothing reads to every endpoint, with the same commands as changes of entries. UNAVAILABLE: changes
 * of entries would fail (no memory, read-only, scripts not permitted); err says where and why. */
dt_status dt_index_probe(dt_index *index, struct dt_error *err);

/* The memory settings of a server that holds a part of the index. */
struct dt_index_memory {
    const char *endpoint; /* "host:port"; valid as long as the index */
    char policy[40];      /* maxmemory-policy: what the server evicts when its memory is full; empty: unknown */
};
/* Reads the settings of endpoint number i (from 0). NOT_FOUND: the index has fewer endpoints. UNAVAILABLE: the endpoint
 * does not answer; out->endpoint is set. */
dt_status dt_index_memory(dt_index *index, unsigned i, struct dt_index_memory *out, struct dt_error *err);

/* Lists the endpoints whose last round trip failed: "host:port,host:port"; empty: none. The list is "*" if all
 * endpoints failed, if the names do not fit, or if index is NULL. (If the only endpoint failed, the list is "*" too,
 * because other processes may use another name for this endpoint.) */
void dt_index_failing(const dt_index *index, char *out, size_t cap);

struct dt_entry {
    int64_t id;
    int64_t due_ms; /* time of the entry; 0: remove the entry */
    int64_t was_ms; /* for dt_index_put: time of the job's present entry; 0: no entry, or unknown */
};

/* Makes the entries for dt_index_put when a job moves to due_ms (0: the job's entry is removed) and its present entry
 * may be at any of the times was_ms[n_was]. Zeros after the first time are skipped. Returns the number of entries;
 * `out` has room for n_was. */
static inline size_t dt_entries_of_move(int64_t id, int64_t due_ms, const int64_t *was_ms, size_t n_was,
                                        struct dt_entry *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_was; i++)
        if (i == 0 || was_ms[i])
            out[n++] = (struct dt_entry){id, due_ms, was_ms[i]};
    return n;
}

/*
 * Adds, moves or removes entries of any shards, in one pipeline for each endpoint: removes the entry at was_ms, and
 * adds one at due_ms. An entry that is due after horizon_end_ms is not added. If was_ms is more than a minute after
 * horizon_end_ms, nothing is removed, so changing a job that is due in the far future costs nothing here. If a call has
 * several entries of one job, the last due_ms counts, and the entries at all their was_ms are removed. UNAVAILABLE:
 * some changes may be lost.
 *
 * If `wake` is set, Redis publishes a wake-up for a shard, in the same step, if the shard's earliest entry became
 * earlier, or if an entry that is due within a second was added while an overdue entry remains the first.
 */
dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err);
/* Publishes a wake-up for the leader of `shard`. If `outbox` is set, the leader also reads its outbox. */
dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err);
/* Publishes two wake-ups on every endpoint: one for all leaders, whose on_wake is called with -1 (a topic was paused,
 * resumed or changed), and one for all clients that wait for pops. */
dt_status dt_index_wake_all(dt_index *index, struct dt_error *err);
/* Publishes, on the shard's endpoint, that jobs of these topics wait for a pop. Subscribers' on_offers is called. */
dt_status dt_index_tell_offers(dt_index *index, unsigned shard, const struct dt_str *topics, size_t n,
                               struct dt_error *err);

/* ---- for the leader of a shard ---- */

/*
 * The marker that a leader writes into the due set of its shard.
 *
 * `count` rises during a leadership, so that a set which Redis restored from an older copy has another marker.
 * `generation` is that of the slot map that the set was filled for: a set of another generation lacks the slots that
 * the shard got later. `filling`: the set is being rebuilt; if a leader leaves the set in this state, a later leader
 * does not trust it. `oldest` is not stored in the marker: markers of earlier epochs do not count, because during these
 * epochs the shard's entries were on another endpoint.
 */
struct dt_marker {
    int64_t epoch, token, count, generation, oldest;
    bool filling;
    int64_t map; /* generation of the slot map that the set is being filled for; not stored in the marker */
};
/* Returns a number that identifies the filling that begins with this marker. Two fillings practically never have the
 * same number. */
static inline int64_t dt_marker_life(const struct dt_marker *m)
{
    return (int64_t)(((uint64_t)m->token + (uint64_t)m->count * UINT64_C(0x9e3779b97f4a7c15)) >> 5);
}
/* A leader's request for the due entries of its shard, and the answer. If the request fails, n is 0 and `marked` is
 * false. */
struct dt_due_scan {
    /* in */
    struct dt_marker marker; /* the leader's marker */
    int64_t now_ms;
    size_t limit;
    struct dt_entry *entries; /* out: due entries (score <= now_ms), ascending, each id once; in: room for `limit` */
    /* out */
    size_t n;
    int64_t next_ms; /* score of the first entry that is not returned; 0: no further entry */
    bool marked;     /* the due set has the leader's marker */
};
/* Reads the due entries of a shard in one round trip. */
dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_due_scan *scan, struct dt_error *err);
/* Replaces the marker of a shard's due set by `marker`. was: the marker that this leader has last seen in the set: a
 * filling continues; NULL: a filling starts again. *intact: the set is complete, because it had a marker (ours or an
 * earlier leader's) of the same generation, not older than marker.oldest, and was not being filled. *gone: `was` is no
 * longer in the set, so Redis has lost the set since; nothing was written. */
dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker, const struct dt_marker *was,
                        bool *intact, bool *gone, struct dt_error *err);
/* A change of an entry, made only if the entry is still at `seen_ms`. */
struct dt_fix {
    int64_t id, seen_ms;
    int64_t due_ms; /* new time; 0: remove the entry */
};
/* Moves or removes the entries that are still at their seen_ms. */
dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err);
#define DT_HELD_TIMEOUTS  "~" /* suffixes in names of held sets; names of topics contain neither character */
#define DT_HELD_HOST      "@"
#define DT_HELD_NAME_SIZE (DT_TOPIC_MAX + sizeof(DT_HELD_HOST "ffffffff"))
/* Writes the name of a topic's held set into `name`, or of the held set of its timeouts. Returns the name. */
static inline struct dt_str dt_held_name(struct dt_str topic, bool timeouts, char name[DT_HELD_NAME_SIZE])
{
    int n = snprintf(name, DT_HELD_NAME_SIZE, "%.*s%s", (int)topic.n, topic.p ? topic.p : "",
                     timeouts ? DT_HELD_TIMEOUTS : "");
    return (struct dt_str){name, (size_t)n};
}
/* Writes the name of the held set for a topic's jobs that name a host with this number (dt_callback_host_of). Returns
 * the name. */
static inline struct dt_str dt_held_name_at(struct dt_str topic, uint32_t host, char name[DT_HELD_NAME_SIZE])
{
    int n = snprintf(name, DT_HELD_NAME_SIZE, "%.*s" DT_HELD_HOST "%08x", (int)topic.n, topic.p ? topic.p : "",
                     (unsigned)host);
    return (struct dt_str){name, (size_t)n};
}
/* Returns the topic of a held set that is not for timeouts. *host: the number of the held set's host; 0: the set is for
 * the whole topic. */
static inline struct dt_str dt_held_topic(struct dt_str name, uint32_t *host)
{
    const char *at = name.n ? memchr(name.p, DT_HELD_HOST[0], name.n) : NULL;
    *host = 0;
    if (!at)
        return name;
    for (const char *p = at + 1; p < name.p + name.n; p++)
        *host = *host * 16 + (uint32_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
    return (struct dt_str){name.p, (size_t)(at - name.p)};
}
/* Moves entries to the held set of a topic. An entry that the due set has at another time than due_ms is not moved. */
dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err);
/* Moves up to `limit` entries of a topic's held set back to the due set, earliest first. *next_ms: due time of the
 * first entry that remains; 0: none remains. */
dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err);
/* Removes the due set, its marker and the held sets of a shard that no longer has a leader. */
dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err);
/* Returns the endpoint of the shard's set, as "host:port"; valid as long as the index. If index is NULL, returns "". */
const char *dt_index_home(const dt_index *index, unsigned shard);
/* Lists the names of a shard's held sets. The names and the array are in the arena. */
dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err);

/* ---- for the reconciler ---- */

struct dt_range {
    int64_t from_ms, to_ms; /* the range: from_ms <= score < to_ms */
    const struct dt_entry
        *after; /* returns only entries after this (score, id), which need not exist any more; NULL: from the start */
    size_t limit;
};
/* Reads entries of a range in ascending order; `entries` has room for the limit. *n is 0 only after the last entry. A
 * call may return fewer entries than the limit before the end. */
dt_status dt_index_range(dt_index *index, unsigned shard, const struct dt_range *range, struct dt_entry *entries,
                         size_t *n, struct dt_error *err);
/* Counts the entries with from_ms <= score < to_ms. */
dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                         struct dt_error *err);
/* Finds the score that the job of each entry has in the set, which may differ from the entry's due_ms. Only the page
 * that contains due_ms is searched. scores[i] is 0 if that page has no entry of the job. */
dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n, int64_t *scores,
                          struct dt_error *err);
/* Finds the scores of ids in a held set. scores[i] is 0 if entry i was not found. */
dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries,
                               size_t n, int64_t *scores, struct dt_error *err);
/* Adds entries. If the page of a new entry already has an entry of the same job, that entry stays and nothing is
 * added. */
dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                               struct dt_error *err);

/* Adds entries of any shards, on all endpoints at once, as dt_index_add_missing adds those of one shard. If a set has
 * no entries in a range, it gets whole pages for this range, which costs Redis less. */
dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err);
/* Does the work of dt_index_fill in two calls, so that the caller can work while the servers do: the first call sends
 * the entries; the second, which must always follow, reads the replies. Between the two calls the index must not be
 * used otherwise. */
dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                              struct dt_error *err);
dt_status dt_index_end_fill(dt_index *index, struct dt_error *err);

/* The filling of one shard's due set. A process that reads MySQL once can fill the due sets of all shards. While a
 * set's marker says `filling`, a record beside the set names the process that fills it and its progress. The record is
 * deleted with the set, and a leader's first marker resets it. */
struct dt_filling {
    unsigned shard;
    bool wanted;        /* out: the shard's leader has requested the filling */
    bool ours;          /* out: this process may fill the set for DT_FILLING_MS, and no other process may */
    int64_t life;       /* out: number that identifies the filling, and is passed back with done_ms */
    int64_t generation; /* generation of the slot map that the set is filled for */
    int64_t done_ms;    /* progress: all entries that are due before done_ms were added */
    bool keep;          /* in, for DT_FILLING_TELL: this process continues to fill the set */
};
#define DT_FILLING_MS 2000
enum dt_filling_ask {
    /* Takes the fillings of the caller's generation that no other process has taken. If an endpoint fails, `wanted` of
     * its fillings is false. */
    DT_FILLING_TAKE,
    /* Writes done_ms of the fillings that this process has taken, and keeps or releases them. If another process has
     * taken one of them, nothing is written for it, and `ours` is false; `wanted` and `life` say why. */
    DT_FILLING_TELL
};
/* Takes fillings, or reports their progress, in one round trip for each endpoint. */
dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *fillings, size_t n,
                            struct dt_error *err);
