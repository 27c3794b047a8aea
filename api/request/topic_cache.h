/*
 * Snapshots of MySQL that are about a second old at most: the settings of topics, the installation with its shard map,
 * and what leaders report about shards. A snapshot never changes. The health chore refreshes them every second;
 * committers and workers do if they find them older, or after dt_topic_cache_invalidate. Reading a snapshot never
 * blocks and needs no store, so HTTP threads may read it.
 */
#pragma once

#include "auth.h"
#include "base/clock.h"
#include "base/config.h"
#include "dispatch/shards.h"
#include "job/delivery.h"
#include "job/shard.h"
#include "store/processes.h"
#include "store/store.h"
#include "topic/topics.h"

typedef struct dt_topic_cache dt_topic_cache;

struct dt_topic_settings {
    struct dt_str name, kafka_topic; /* never absent */
    struct dt_str retry;             /* never absent: the default if the topic has none */
    int64_t ack_timeout_ms, retention_ms;
    int64_t owner; /* topic/owners.h */
    enum dt_delivery_id delivery;
    bool paused, limited, deleting; /* limited: it has max_in_flight or rate_limit */
    struct dt_callback_terms callback;
};

/* A snapshot of topics and installation. Its slices live as long as it does. */
struct dt_view {
    _Atomic unsigned refs; /* freed with the last one */
    struct dt_installation installation;
    struct dt_shard_map map;
    unsigned char cursor_key[DT_CURSOR_KEY]; /* see cursor.h */
    struct dt_topic_table *topics;
};
/* A snapshot of what leaders report. */
struct dt_shards_view {
    _Atomic unsigned refs;
    struct dt_shard_info *shards; /* by number; n of them */
    size_t n;
    int64_t read_us; /* mono */
    struct dt_dispatchers dispatchers;
    struct dt_arena arena;
};

/* Creates a cache without snapshots. Both arguments are borrowed and outlive it. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_topic_cache_new(const struct dt_config *config, const dt_clock *clock, dt_topic_cache **out);
/* Accepts NULL. Snapshots live until their last reference is released. */
void dt_topic_cache_free(dt_topic_cache *cache);

/* Returns a reference to the latest snapshot, which the caller releases; NULL before MySQL was first reached. Any
 * thread. */
struct dt_view *dt_topic_cache_view(dt_topic_cache *cache);
/* Returns true if a snapshot was read since the last call. One thread. */
bool dt_topic_cache_was_asked(dt_topic_cache *cache);
/* Releases the reference. Accepts NULL. Any thread. */
void dt_view_release(struct dt_view *view);
/* Finds a topic's settings, which live as long as the snapshot. NULL: the snapshot has no such topic. */
const struct dt_topic_settings *dt_view_topic(const struct dt_view *view, struct dt_str name);
/* Returns the owner of a topic (topic/owners.h); by its name, if the snapshot lacks the topic or is NULL. */
int64_t dt_view_owner(const struct dt_view *view, struct dt_str name);

/* Returns a reference to the latest snapshot of the shards, as dt_topic_cache_view does for topics. */
struct dt_shards_view *dt_topic_cache_shards(dt_topic_cache *cache);
/* Releases the reference. Accepts NULL. Any thread. */
void dt_shards_release(struct dt_shards_view *shards);
/* Finds the last report of a shard's leader. NULL: the shard has no row. */
const struct dt_shard_info *dt_shards_find(const struct dt_shards_view *shards, unsigned shard);

enum dt_snapshots { DT_SNAPSHOT_TOPICS, DT_SNAPSHOT_TOPICS_AND_SHARDS };
/* Reads the snapshots through the caller's store, unless they are less than a second old. Any thread that has a store.
 * Statuses as of store/store.h; if it is not OK the last snapshots stay. */
DT_MUST_CHECK dt_status dt_topic_cache_refresh(dt_topic_cache *cache, enum dt_snapshots what, dt_store *store,
                                               struct dt_error *err);
/* Called after this process has changed a topic: the next refresh reads again. Any thread. */
void dt_topic_cache_invalidate(dt_topic_cache *cache);
/* A topic that a job names and the snapshot lacks. */
struct dt_topic_wish {
    struct dt_str name;
    const struct dt_caller *caller; /* the owner of the job */
    enum dt_delivery_id delivery;   /* UNSET = the default */
    int64_t since_us;               /* monotonic: when the caller's work began */
    /* Out. OK: it exists. NOT_FOUND: topics are not created. INVALID: the reason, for the caller. */
    dt_status status;
    const char *reason; /* lives as long as the cache */
};
/*
 * Creates the topics that do not exist, with defaults, if topics.auto_create allows it; the next refresh has them. A
 * snapshot that is younger than since_us decides whether there are too many topics, so that a flood of new names takes
 * no lock in MySQL and costs one statement. If the status is not OK, some may have been created.
 */
DT_MUST_CHECK dt_status dt_topic_cache_ensure(dt_topic_cache *cache, dt_store *store, struct dt_topic_wish *wishes,
                                              size_t n, struct dt_error *err);
/* Returns the text of a refusal for the caller, with limits and their settings. It lives as long as the cache. */
const char *dt_topic_cache_refusal(const dt_topic_cache *cache, enum dt_topic_refusal refusal);
/* Returns what this caller may create. kafka_topic: the Kafka topic that it names; absent = none. */
struct dt_topic_terms dt_topic_terms_of(const struct dt_config *config, const struct dt_caller *caller,
                                        struct dt_str kafka_topic);
