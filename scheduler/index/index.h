/*
 * The port to Redis: for each shard one set of entries (next_at in ms, id), ascending. Entries are hints: every write
 * is idempotent, the reconciler repairs a lost one, and a failure here never fails a caller's request. A job has one
 * entry; to move it, the caller says where it was. If that is not known, or two moves arrive in the wrong order, an old
 * entry remains beside the right one; the claim refuses the old entry and removes it.
 *
 * A set is stored in pages, small enough for Redis to pack them (14 to 17 bytes an entry instead of 110 to 144). So an
 * entry can only be found by its id and its time together. Only this folder knows Redis keys:
 *
 * - `<installation>:{<shard>}:due`: the pages; score = where one begins, in ms, member = its name (the same in
 *   decimal). A member "!<epoch>:<token>:<count>:<generation>" with score +inf is the set's
 *   marker
 * - `<installation>:{<shard>}:due:<name>`: a page; score = ms after its beginning, member: see index_pack.h. It ends
 *   where the next one begins
 * - `<installation>:{<shard>}:held:<topic>`: due entries of a topic that cannot be claimed now, or is one of many:
 *   score = ms, the same members. With DT_HELD_TIMEOUTS after the topic: attempts that timed out; with DT_HELD_HOST and
 *   a number after it: jobs that name a host of that number
 * - `<installation>:{<shard>}:held`: set of the topics that have a held set
 * - `<installation>:probe`: written and emptied again, to see whether the server takes changes
 * - `<installation>:wake`: pub/sub channel; messages "<shard>" or "<shard> outbox" or "topic"
 * - `<installation>:pops`: pub/sub channel; messages "<topic> <topic> …": jobs of these topics wait for a pop; "": jobs
 *   of any topic may
 *
 * All keys of a shard have its hash tag; the scripts make the names of pages. Entries of one ms are in the order of
 * their members' bytes: if the ms lies on the home day of the ids, in the order in which the ids were made. Anything
 * else in these keys is removed when it is found.
 *
 * An installation can run without Redis: if redis.endpoints is empty, there is no dt_index and no dt_wake. The
 * constructors return OK and NULL then; only functions that say so accept NULL.
 *
 * A dt_index has one connection for each endpoint. One thread at a time uses it. For every function that takes an err:
 * inputs are borrowed for the call, outputs are valid only after OK. UNAVAILABLE: an endpoint does not answer or does
 * not take changes; a part of the request may be done. NOMEM. A connection that failed is closed and opened again after
 * a capped exponential back-off with jitter; until then requests for its shards return UNAVAILABLE at once. If the
 * server closed an idle connection, that is no failure: it is replaced at once and the request is sent again.
 */
#ifndef DT_INDEX_INDEX_H
#define DT_INDEX_INDEX_H

#include <stdio.h>

#include "base/clock.h"
#include "base/config.h"
#include "job/job.h"
#include "job/shard.h"

typedef struct dt_index dt_index;

/* Checks the configuration before anything connects. INVALID: an endpoint is malformed, or a master has no Sentinels.
 * UNSUPPORTED: TLS with a client library that has none. */
DT_MUST_CHECK dt_status dt_index_check(const struct dt_config *config, struct dt_error *err);
/* Makes an index, which is not connected yet. The inputs outlive it, except the installation's name, which is copied.
 * INVALID: the name or the endpoints cannot be used. *out is NULL unless OK, and if there are no endpoints. */
DT_MUST_CHECK dt_status dt_index_new(const struct dt_config *config, const char *installation, const dt_clock *clock,
                                     dt_index **out, struct dt_error *err);
/* Says whether the configuration names endpoints. */
static inline bool dt_index_configured(const struct dt_config *config)
{
    return config->redis_endpoints && config->redis_endpoints[0];
}
/* Ends the connections. Accepts NULL. */
void dt_index_free(dt_index *index);
/* Pings every endpoint. UNAVAILABLE: one does not answer; err says which. */
DT_MUST_CHECK dt_status dt_index_ping(dt_index *index, struct dt_error *err);

/* Writes a key that nothing reads to every endpoint, as changes of entries are written. UNAVAILABLE: such changes would
 * fail (no memory, read-only, no right to scripts); err says where and why. */
DT_MUST_CHECK dt_status dt_index_probe(dt_index *index, struct dt_error *err);

/* A server that holds a part of the index. */
struct dt_index_memory {
    const char *endpoint; /* lives as long as the index */
    char policy[40];      /* maxmemory-policy: what it drops when its memory is full; empty = not known */
};
/* Asks endpoint number i (from 0). NOT_FOUND: there are fewer. UNAVAILABLE: it does not answer; out->endpoint is
 * set. */
DT_MUST_CHECK dt_status dt_index_memory(dt_index *index, unsigned i, struct dt_index_memory *out, struct dt_error *err);

/* Lists the endpoints whose last round trip failed: "host:port,host:port"; empty = none. "*" = all of them (another
 * process may have another name for a single one), the names do not fit, or index is NULL. */
void dt_index_failing(const dt_index *index, char *out, size_t cap);

struct dt_entry {
    int64_t id;
    int64_t due_ms; /* 0 = remove */
    int64_t was_ms; /* for dt_index_put: where the job's entry may be now; 0 = nowhere, or not known */
};

/* Makes the entries for dt_index_put when a job moves to due_ms (0 = it is removed) and its entry may be at any of
 * was_ms[n_was] (0 after the first = no further place). Returns how many; out has room for n_was. */
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
 * Adds, moves or removes entries of any shards, in one pipeline for each endpoint: removes the entry at was_ms, adds
 * one at due_ms. An entry that is due after horizon_end_ms is not added. A was_ms more than a minute after it is not
 * looked for, so changing a job that is far ahead costs nothing here. wake: Redis publishes a wake-up for a shard, in
 * the same step, if the shard's earliest entry became earlier, or if it gets an entry that is due within a second while
 * an overdue one remains in front. If a call has several entries of one job, the last due_ms counts, and all their
 * was_ms are removed. UNAVAILABLE: some changes may be lost.
 */
DT_MUST_CHECK dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries,
                                     size_t n, int64_t horizon_end_ms, bool wake, struct dt_error *err);
/* Publishes a wake-up for the leader of `shard` (outbox: it reads its outbox too). */
DT_MUST_CHECK dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err);
/* Publishes on every endpoint a wake-up for all leaders (a topic was paused, resumed or changed), who get on_wake(-1),
 * and for all clients that wait for pops. */
DT_MUST_CHECK dt_status dt_index_wake_all(dt_index *index, struct dt_error *err);
/* Publishes, on the shard's endpoint, that jobs of these topics wait for a pop: subscribers get on_offers. */
DT_MUST_CHECK dt_status dt_index_tell_offers(dt_index *index, unsigned shard, const struct dt_str *topics, size_t n,
                                             struct dt_error *err);

/* ---- for the leader of a shard ---- */

/*
 * The marker that a leader puts into its set.
 *
 * count rises while a leadership lasts, so that an older copy of the set has another marker. generation: of the slot
 * map that the set was filled for; a set of another generation lacks the slots that the shard has got since. oldest is
 * no part of the marker: markers of earlier epochs do not count, because the shard's entries were on another endpoint
 * meanwhile. filling: the set is being rebuilt; a later leader does not trust a set that was left in this state.
 */
struct dt_marker {
    int64_t epoch, token, count, generation, oldest;
    bool filling;
    int64_t map; /* no part of the marker: generation of the slot map that the set is being filled for */
};
/* Names the filling that begins with this marker. For all practical purposes the name is unique. */
static inline int64_t dt_marker_life(const struct dt_marker *m)
{
    return (int64_t)(((uint64_t)m->token + (uint64_t)m->count * UINT64_C(0x9e3779b97f4a7c15)) >> 5);
}
/* A leader's question about its set, and the answer. After a failure n is 0 and marked false. */
struct dt_due_scan {
    /* in */
    struct dt_marker marker; /* ours */
    int64_t now_ms;
    size_t limit;
    struct dt_entry *entries; /* room for `limit`; out: due entries (score <= now_ms), ascending, each id once */
    /* out */
    size_t n;
    int64_t next_ms; /* score of the first entry after them; 0 = there is none */
    bool marked;     /* our marker is there */
};
/* Asks which entries are due: one round trip. */
DT_MUST_CHECK dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_due_scan *scan, struct dt_error *err);
/* Replaces the set's marker by ours. was: our last marker, if the set was seen with it (a filling continues then), else
 * NULL (a filling begins again). *intact: the set is complete, since it had a marker (ours or an earlier leader's) of
 * the same generation, not older than marker.oldest, and was not being filled. *gone: `was` is no longer there; nothing
 * was written, and the set is not the one that was seen. */
DT_MUST_CHECK dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker,
                                      const struct dt_marker *was, bool *intact, bool *gone, struct dt_error *err);
/* A change of an entry, if it is still at `seen_ms`. */
struct dt_fix {
    int64_t id, seen_ms;
    int64_t due_ms; /* 0 = remove */
};
/* Moves or removes those entries that are still where they were seen. */
DT_MUST_CHECK dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n,
                                     struct dt_error *err);
#define DT_HELD_TIMEOUTS  "~" /* names of topics have neither character */
#define DT_HELD_HOST      "@"
#define DT_HELD_NAME_SIZE (DT_TOPIC_MAX + sizeof(DT_HELD_HOST "ffffffff"))
/* Writes the name of a topic's held set, or of the held set of its timeouts, into `name`; returns it. */
static inline struct dt_str dt_held_name(struct dt_str topic, bool timeouts, char name[DT_HELD_NAME_SIZE])
{
    int n = snprintf(name, DT_HELD_NAME_SIZE, "%.*s%s", (int)topic.n, topic.p ? topic.p : "",
                     timeouts ? DT_HELD_TIMEOUTS : "");
    return (struct dt_str){name, (size_t)n};
}
/* Writes the name of the held set of those jobs of a topic that name a host of this number
 * (dt_callback_host_of). */
static inline struct dt_str dt_held_name_at(struct dt_str topic, uint32_t host, char name[DT_HELD_NAME_SIZE])
{
    int n = snprintf(name, DT_HELD_NAME_SIZE, "%.*s" DT_HELD_HOST "%08x", (int)topic.n, topic.p ? topic.p : "",
                     (unsigned)host);
    return (struct dt_str){name, (size_t)n};
}
/* Returns the topic of a held set that is not for timeouts; *host: the number of its host, 0 = the whole topic. */
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
/* Moves entries to the held set of a topic if they are at due_ms in the due set, or not in it. */
DT_MUST_CHECK dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic,
                                      const struct dt_entry *entries, size_t n, struct dt_error *err);
/* Moves up to `limit` entries of a topic's held set back to the due set, earliest first. *next_ms: when the first one
 * that remains is due; 0 = none remains. */
DT_MUST_CHECK dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit,
                                        int64_t *next_ms, struct dt_error *err);
/* Removes the set of a shard that has no leader any more, with its marker and held sets. */
DT_MUST_CHECK dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err);
/* Returns the endpoint of the shard's set, "host:port", valid as long as the index. index NULL: "". */
const char *dt_index_home(const dt_index *index, unsigned shard);
/* Lists the names of a shard's held sets, in the arena. */
DT_MUST_CHECK dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics,
                                      size_t *n, struct dt_error *err);

/* ---- for the reconciler ---- */

struct dt_range {
    int64_t from_ms, to_ms; /* from_ms <= score < to_ms */
    const struct dt_entry
        *after; /* only entries after its (score, id), whether or not it still exists; NULL: from the start */
    size_t limit;
};
/* Reads the entries of a range in ascending order; entries has room for the limit. *n = 0: there are no more. A call
 * may return fewer than the limit before the end. */
DT_MUST_CHECK dt_status dt_index_range(dt_index *index, unsigned shard, const struct dt_range *range,
                                       struct dt_entry *entries, size_t *n, struct dt_error *err);
/* Counts the entries with from_ms <= score < to_ms. */
DT_MUST_CHECK dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                                       struct dt_error *err);
/* Finds the scores of ids, at due_ms and in the rest of its page: scores[n], 0 = not there. */
DT_MUST_CHECK dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                                        int64_t *scores, struct dt_error *err);
/* Finds the scores of ids in a held set: scores[n], 0 = not there. */
DT_MUST_CHECK dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic,
                                             const struct dt_entry *entries, size_t n, int64_t *scores,
                                             struct dt_error *err);
/* Adds entries. If the page already has an entry of the job, that one stays and nothing is added. */
DT_MUST_CHECK dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                                             struct dt_error *err);

/* Does the same for entries of any shards, on all endpoints at once. Empty sets get whole pages, as fast as they can be
 * sent. */
DT_MUST_CHECK dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries,
                                      size_t n, struct dt_error *err);
/* Does dt_index_fill in two parts, so that the caller works while the servers do: the first part sends the entries, the
 * second, which is always called, reads the replies. The index is not used in between. */
DT_MUST_CHECK dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map,
                                            const struct dt_entry *entries, size_t n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_index_end_fill(dt_index *index, struct dt_error *err);

/*
 * A process that reads MySQL once can fill the sets of all shards. While a set's marker says `filling`, notes beside
 * the set say which process fills it and how far it is. They are removed with the set, and reset by a leader's first
 * marker.
 */
struct dt_filling {
    unsigned shard;
    bool wanted;        /* its leader wants it filled */
    bool ours;          /* no other process fills it: it is ours for DT_FILLING_MS */
    int64_t life;       /* which filling it is; sent with done_ms */
    int64_t generation; /* of the slot map it is filled for */
    int64_t done_ms;    /* all entries that are due before it were added */
    bool keep;          /* in, for DT_FILLING_TELL: we continue */
};
#define DT_FILLING_MS 2000
enum dt_filling_ask {
    /* Takes the fillings of their generation that no other process has. If an endpoint fails, its fillings are not
     * wanted. */
    DT_FILLING_TAKE,
    /* Writes done_ms of those that are ours, and keeps or releases them. If one was no longer ours, nothing is written
     * and ours is false afterwards; wanted and life say why. */
    DT_FILLING_TELL
};
/* One round trip for each endpoint. */
DT_MUST_CHECK dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *fillings,
                                          size_t n, struct dt_error *err);

#endif
