/* Snapshots of data in MySQL, usually at most about a second old: the settings of topics, the installation with its
 * shard map, and what leaders report about shards. A snapshot never changes. The health chore refreshes the snapshots
 * every second. Committers and workers refresh them if they are older, or after dt_topic_cache_invalidate. Reading a
 * snapshot never blocks and needs no store, so HTTP threads may read it. */
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
    int64_t owner; /* owner for fair sharing (topic/owners.h) */
    enum dt_delivery_id delivery;
    bool paused, limited, deleting; /* limited: the topic has max_in_flight or rate_limit */
    struct dt_callback_terms callback;
};

/* A snapshot of topics and installation. Its slices live as long as the snapshot. */
struct dt_view {
    _Atomic unsigned refs; /* number of references; the snapshot is freed with the last one */
    struct dt_installation installation;
    struct dt_shard_map map;
    unsigned char cursor_key[DT_CURSOR_KEY]; /* key of cursors (cursor.h) */
    struct dt_topic_table *topics;
};
/* A snapshot of what leaders reported about their shards. */
struct dt_shards_view {
    _Atomic unsigned refs;
    struct dt_shard_info *shards; /* sorted by number; n elements */
    size_t n;
    int64_t read_us; /* mono: when the snapshot was read */
    struct dt_dispatchers dispatchers;
    struct dt_arena arena;
};

/* Creates a cache without snapshots. Both arguments are borrowed, and must outlive the cache. NOMEM: *out is NULL. */
dt_status dt_topic_cache_new(const struct dt_config *config, const dt_clock *clock, dt_topic_cache **out);
/* Frees the cache. Snapshots live until their last reference is released. Accepts NULL. */
void dt_topic_cache_free(dt_topic_cache *cache);

/* Returns a reference to the latest snapshot, which the caller must release; NULL before MySQL was first reached. Any
 * thread. */
struct dt_view *dt_topic_cache_view(dt_topic_cache *cache);
/* Returns true if a caller used a snapshot since the last call. Called by one thread only. */
bool dt_topic_cache_was_asked(dt_topic_cache *cache);
/* Releases the reference to the snapshot. Accepts NULL. Any thread. */
void dt_view_release(struct dt_view *view);
/* Finds a topic's settings, which live as long as the snapshot. NULL: the snapshot has no such topic. */
const struct dt_topic_settings *dt_view_topic(const struct dt_view *view, struct dt_str name);
/* Returns the owner of a topic (topic/owners.h). If view is NULL or lacks the topic, computes the owner from the
 * name. */
int64_t dt_view_owner(const struct dt_view *view, struct dt_str name);

/* Returns a reference to the latest snapshot of shards, which the caller must release; NULL before MySQL was first
 * reached. Any thread. */
struct dt_shards_view *dt_topic_cache_shards(dt_topic_cache *cache);
/* Releases the reference to the snapshot. Accepts NULL. Any thread. */
void dt_shards_release(struct dt_shards_view *shards);
/* Finds the last report of a shard's leader. NULL: the shard has no row. */
const struct dt_shard_info *dt_shards_find(const struct dt_shards_view *shards, unsigned shard);

enum dt_snapshots { DT_SNAPSHOT_TOPICS, DT_SNAPSHOT_TOPICS_AND_SHARDS };
/* Reads the snapshots through the caller's store, if they are more than a second old. Any thread that has a store.
 * Statuses as in store/store.h; if the status is not OK, the last snapshots stay. */
dt_status dt_topic_cache_refresh(dt_topic_cache *cache, enum dt_snapshots what, dt_store *store, struct dt_error *err);
/* Makes the next refresh read the snapshots again. Called after this process has changed a topic. Any thread. */
void dt_topic_cache_invalidate(dt_topic_cache *cache);
/* A topic that a job names and the snapshot lacks. It is created if that is allowed. */
struct dt_topic_wish {
    struct dt_str name;
    const struct dt_caller *caller; /* caller that creates the job, and perhaps the topic */
    enum dt_delivery_id delivery;   /* delivery of the new topic; UNSET: the default */
    int64_t since_us;               /* monotonic: when the caller's work began */
    /* Output. OK: the topic exists. NOT_FOUND: topics.auto_create is off. INVALID: refused; `reason` is for the
     * caller. */
    dt_status status;
    const char *reason; /* output: why INVALID; lives as long as the cache */
};
/* Creates the topics that do not exist yet, with default settings, if topics.auto_create allows it. The next refresh
 * reads them. Whether there are too many topics is decided by a snapshot that is younger than since_us, so that a flood
 * of new names takes no lock in MySQL and costs one statement. If the status is not OK, some topics may have been
 * created. */
dt_status dt_topic_cache_ensure(dt_topic_cache *cache, dt_store *store, struct dt_topic_wish *wishes, size_t n,
                                struct dt_error *err);
/* Returns the text of a refusal for the caller; it names the limits and their settings. Lives as long as the cache. */
const char *dt_topic_cache_refusal(const dt_topic_cache *cache, enum dt_topic_refusal refusal);
/* Returns the terms on which this caller may create a topic. kafka_topic: Kafka topic that the new topic names; absent:
 * none. */
struct dt_topic_terms dt_topic_terms_of(const struct dt_config *config, const struct dt_caller *caller,
                                        struct dt_str kafka_topic);
