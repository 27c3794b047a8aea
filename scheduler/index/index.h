/*
 * The port to Redis: one set a shard of entries (next_at in ms, id), ascending. Entries are hints: every write is
 * idempotent, a lost one is repaired by the reconciler, and nothing here is ever an error of a caller's request. A job
 * has one entry; whoever moves it says where it was. Where that was not known, or two who moved it came in the wrong
 * order, an old entry stays behind, which the claim refuses and takes out; the right one is there all the same.
 *
 * A set is kept in pages, small enough for Redis to pack them (14 to 17 bytes an entry instead of 110 to 144). So an
 * entry is found by its id and its time together only. Only this folder knows Redis keys:
 *
 * - `<installation>:{<shard>}:due`: the pages; score = where one begins, in ms, member = its name (the same in
 *   decimal). A member "!<epoch>:<token>:<count>:<generation>" with score +inf is the set's
 *   marker
 * - `<installation>:{<shard>}:due:<name>`: a page; score = ms after its beginning, member: see index_pack.h. It ends
 *   where the next one begins
 * - `<installation>:{<shard>}:held:<topic>`: due entries of a topic that cannot go now, or is one of many: score = ms,
 *   members likewise; with DT_HELD_TIMEOUTS behind the topic: its acknowledgements that did not come in time; with
 *   DT_HELD_HOST and a number behind it: its jobs that name a host of that number
 * - `<installation>:{<shard>}:held`: set of the topics that have a held set
 * - `<installation>:probe`: written and emptied again, to see whether the server takes changes
 * - `<installation>:wake`: pub/sub channel; messages "<shard>" or "<shard> outbox" or "topic"
 * - `<installation>:pops`: pub/sub channel; messages "<topic> <topic> …": jobs of theirs wait for a pop; "": any may
 *
 * All keys of a shard have its hash tag, the scripts name those of pages themselves. Entries of one ms come in the
 * order of their members' bytes: ids of the same home day as they were given, if that is the day of the ms. Anything
 * else in these keys is nobody's: it is removed where it is met.
 *
 * An installation may do without: where redis.endpoints is empty there is no dt_index, and no dt_wake. The makers
 * answer OK and NULL then; only what says so accepts NULL.
 *
 * A dt_index is a set of connections, one an endpoint. It belongs to one thread at a time. For every function that
 * takes an err: inputs are borrowed for the call, outputs hold nothing unless OK, and UNAVAILABLE means that an
 * endpoint does not answer or does not take changes; some of what was asked may have been done. NOMEM. A connection
 * that failed is dropped and made anew after a capped exponential back-off with jitter; until then its shards answer
 * UNAVAILABLE at once. A connection that the server ended while nobody used it has not failed: it is replaced at once,
 * and what met its end is sent again.
 */
#ifndef DT_INDEX_INDEX_H
#define DT_INDEX_INDEX_H

#include <stdio.h>

#include "base/clock.h"
#include "base/config.h"
#include "job/job.h"
#include "job/shard.h"

typedef struct dt_index dt_index;

/* Says what of the configuration cannot be done, before anything connects: endpoints that are none, masters without
 * Sentinels (INVALID), TLS with a client library that has none (UNSUPPORTED). */
DT_MUST_CHECK dt_status dt_index_check(const struct dt_config *config, struct dt_error *err);
/* Makes an index, which is not connected yet. All inputs but the installation's name (copied) are borrowed and outlive
 * it. INVALID: the name or the endpoints cannot be used. *out is NULL unless OK, and where there are no endpoints. */
DT_MUST_CHECK dt_status dt_index_new(const struct dt_config *config, const char *installation, const dt_clock *clock,
                                     dt_index **out, struct dt_error *err);
/* Says whether the configuration names endpoints. */
static inline bool dt_index_configured(const struct dt_config *config)
{
    return config->redis_endpoints && config->redis_endpoints[0];
}
/* Ends the connections. Accepts NULL. */
void dt_index_free(dt_index *index);
/* Asks every endpoint for an answer. UNAVAILABLE: one gives none; err says which. */
DT_MUST_CHECK dt_status dt_index_ping(dt_index *index, struct dt_error *err);

/* Writes something to every endpoint that nobody reads, in the way that changes of entries are written. UNAVAILABLE:
 * those would fail (no memory, read-only, no right to scripts); err says where and why. */
DT_MUST_CHECK dt_status dt_index_probe(dt_index *index, struct dt_error *err);

/* A server that holds a part of the index. */
struct dt_index_memory {
    const char *endpoint; /* lives as long as the index */
    char policy[40];      /* what it drops when its memory is full: maxmemory-policy; empty: it did not say */
};
/* Asks endpoint number i (from 0). NOT_FOUND: there are fewer. UNAVAILABLE: it does not answer; endpoint is filled
 * in. */
DT_MUST_CHECK dt_status dt_index_memory(dt_index *index, unsigned i, struct dt_index_memory *out, struct dt_error *err);

/* Lists the endpoints whose last round trip failed: "host:port,host:port"; "*" for all of them (another process may
 * call a single one otherwise), or where the names do not fit; empty for none. NULL: "*", for it can be told
 * nothing. */
void dt_index_failing(const dt_index *index, char *out, size_t cap);

struct dt_entry {
    int64_t id;
    int64_t due_ms; /* 0 = remove */
    int64_t was_ms; /* dt_index_put: where the job's entry may be now; 0 = nowhere, or not known */
};

/* Makes the entries that dt_index_put is to be given when a job goes to due_ms (0 = nowhere) whose entry may be at any
 * of was_ms[n_was] (0 = not another one). Returns how many; out has room for n_was. */
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
 * Adds, moves or removes entries of any shards, in one pipeline an endpoint: what stands at was_ms goes, what is due
 * comes. Entries due after horizon_end_ms are removed instead of added, and a minute and more after it
 * nothing is looked for: a change or a cancel of a job that is far ahead costs nothing here. With wake, a shard is
 * announced on the channel (decided in Redis, in the same step) whose earliest entry became earlier, or which gets one
 * that is due within a second while an overdue one stays in front. UNAVAILABLE: some may have been lost. Of several
 * entries of one job in a call the last due_ms counts, and all their was_ms go.
 */
DT_MUST_CHECK dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries,
                                     size_t n, int64_t horizon_end_ms, bool wake, struct dt_error *err);
/* Publishes a wake-up for the leader of `shard` (outbox: it reads its outbox too). */
DT_MUST_CHECK dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err);
/* Publishes on every endpoint a wake-up for all leaders (a topic was paused, resumed or changed): on_wake(-1) there;
 * and for all who wait for pops. */
DT_MUST_CHECK dt_status dt_index_wake_all(dt_index *index, struct dt_error *err);
/* Publishes, on the shard's endpoint, that jobs of these topics wait for a pop: on_offers there. */
DT_MUST_CHECK dt_status dt_index_tell_offers(dt_index *index, unsigned shard, const struct dt_str *topics, size_t n,
                                             struct dt_error *err);

/* ---- for the leader of a shard ---- */

/*
 * The marker that a leader puts into its set.
 *
 * count rises while a leadership lasts, so that an older copy of the same leadership's set does not carry its marker.
 * generation is that of the slot map which the set was filled under: a set of another one lacks the slots that the
 * shard has got since. oldest is no part of it: markers of earlier epochs are not believed, because the shard's entries
 * were on another endpoint meanwhile. filling: the set is being rebuilt; no later leader believes in a set that was
 * left so.
 */
struct dt_marker {
    int64_t epoch, token, count, generation, oldest;
    bool filling;
    int64_t map; /* no part of it: generation of the slot map that it is being filled for */
};
/* Names a filling that begins with this marker: no other one has the name, for all practical purposes. */
static inline int64_t dt_marker_life(const struct dt_marker *m)
{
    return (int64_t)(((uint64_t)m->token + (uint64_t)m->count * UINT64_C(0x9e3779b97f4a7c15)) >> 5);
}
/* A leader's question to its set, and the answer; without OK nothing is due, and the marker is not there. */
struct dt_due_scan {
    /* in */
    struct dt_marker marker; /* ours */
    int64_t now_ms;
    size_t limit;
    struct dt_entry *entries; /* room for `limit`; out: due ones (score <= now_ms), ascending, each id once */
    /* out */
    size_t n;
    int64_t next_ms; /* score of the first entry after them; 0 = none within the set */
    bool marked;     /* our marker is there */
};
/* Asks what is due, in one round trip. */
DT_MUST_CHECK dt_status dt_index_due(dt_index *index, unsigned shard, struct dt_due_scan *scan, struct dt_error *err);
/* Puts our marker in place of any other. was: our last one, if the set was seen to have it (else NULL); a filling goes
 * on then, otherwise it begins anew. *intact: a marker (ours or an earlier leader's) of the same generation was there,
 * not older than marker.oldest, and not of a set that was being filled, so the set is whole. *gone: `was` is not there
 * any more; nothing was put, and what is there is not the set that was seen. */
DT_MUST_CHECK dt_status dt_index_mark(dt_index *index, unsigned shard, struct dt_marker marker,
                                      const struct dt_marker *was, bool *intact, bool *gone, struct dt_error *err);
/* A change of an entry that is still at `seen_ms`. */
struct dt_fix {
    int64_t id, seen_ms;
    int64_t due_ms; /* 0 = remove */
};
/* Moves or removes entries that are still where they were seen; where there is none any more nothing comes. */
DT_MUST_CHECK dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n,
                                     struct dt_error *err);
#define DT_HELD_TIMEOUTS  "~" /* no topic has it in its name, nor the next one */
#define DT_HELD_HOST      "@"
#define DT_HELD_NAME_SIZE (DT_TOPIC_MAX + sizeof(DT_HELD_HOST "ffffffff"))
/* Writes the name of a topic's held set, or of that of its timeouts, into `name`; returns it. */
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
/* The topic of a held set that is not of timeouts; *host: the number of its host, 0 = all of the topic. */
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
/* Moves entries that are still at due_ms, or not in the due set (any more), to the held set of a topic. */
DT_MUST_CHECK dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic,
                                      const struct dt_entry *entries, size_t n, struct dt_error *err);
/* Gives up to `limit` entries of a topic's held set back to the due set, earliest first. *next_ms: when the first of
 * those that remain is due; 0 = none remains. */
DT_MUST_CHECK dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit,
                                        int64_t *next_ms, struct dt_error *err);
/* Removes the set of a shard that nobody leads any more, with marker and held sets. */
DT_MUST_CHECK dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err);
/* The endpoint that holds the shard's set: "host:port", valid as long as the index. NULL: no endpoint, "". */
const char *dt_index_home(const dt_index *index, unsigned shard);
/* Lists the names of a shard's held sets, in the arena. */
DT_MUST_CHECK dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics,
                                      size_t *n, struct dt_error *err);

/* ---- for the reconciler ---- */

struct dt_range {
    int64_t from_ms, to_ms;       /* from_ms <= score < to_ms */
    const struct dt_entry *after; /* behind its (score, id), whether or not it is still there; NULL: from the start */
    size_t limit;
};
/* Reads the entries of a range in ascending order. entries: room for the limit. *n = 0: there are no more; fewer than
 * the limit may come before that. */
DT_MUST_CHECK dt_status dt_index_range(dt_index *index, unsigned shard, const struct dt_range *range,
                                       struct dt_entry *entries, size_t *n, struct dt_error *err);
/* Counts the entries with from_ms <= score < to_ms. */
DT_MUST_CHECK dt_status dt_index_count(dt_index *index, unsigned shard, int64_t from_ms, int64_t to_ms, int64_t *n,
                                       struct dt_error *err);
/* Finds where ids have their entries, at due_ms and in the remainder of its page: scores[n], 0 = not there. */
DT_MUST_CHECK dt_status dt_index_scores(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                                        int64_t *scores, struct dt_error *err);
/* Finds where ids have their entries in a held set: scores[n], 0 = not there. */
DT_MUST_CHECK dt_status dt_index_held_scores(dt_index *index, unsigned shard, struct dt_str topic,
                                             const struct dt_entry *entries, size_t n, int64_t *scores,
                                             struct dt_error *err);
/* Adds entries that are missing. An entry of the same job that is met in the same page stays where it is instead. */
DT_MUST_CHECK dt_status dt_index_add_missing(dt_index *index, unsigned shard, const struct dt_entry *entries, size_t n,
                                             struct dt_error *err);

/* Adds missing entries of any shards, on all endpoints at once. Empty sets get whole pages, as fast as they can be
 * sent. */
DT_MUST_CHECK dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries,
                                      size_t n, struct dt_error *err);
/* Does dt_index_fill in two parts: the first sends the entries, the second reads the answers, whatever the first part
 * returned. The servers work in between; the index may be asked nothing else meanwhile. */
DT_MUST_CHECK dt_status dt_index_begin_fill(dt_index *index, const struct dt_shard_map *map,
                                            const struct dt_entry *entries, size_t n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_index_end_fill(dt_index *index, struct dt_error *err);

/*
 * A process that reads MySQL once can fill the sets of all shards. Notes beside a set whose marker says that it is
 * being filled tell who is at it, and how far he has come; they go with the set, and begin anew with a leader's first
 * marker.
 */
struct dt_filling {
    unsigned shard;
    bool wanted;        /* its leader has asked for it */
    bool ours;          /* nobody else is at it: for DT_FILLING_MS it is ours */
    int64_t life;       /* which filling it is: told along with what is done */
    int64_t generation; /* of the slot map it is filled for */
    int64_t done_ms;    /* everything due before it is there */
    bool keep;          /* in, when told: it goes on */
};
#define DT_FILLING_MS 2000
enum dt_filling_ask {
    /* Takes those of their generation that nobody else is at. Of an endpoint that fails none is wanted. */
    DT_FILLING_TAKE,
    /* Notes done_ms of what is ours, and keeps it, or lets it go. ours is false afterwards where it was not any more:
     * then nothing was noted; wanted and life say why. */
    DT_FILLING_TELL
};
/* One round trip an endpoint. */
DT_MUST_CHECK dt_status dt_index_fillings(dt_index *index, enum dt_filling_ask ask, struct dt_filling *fillings,
                                          size_t n, struct dt_error *err);

#endif
