/* The topic snapshot: a leader's copy of all rows of `topics`, so that claims do not have to read them. It is read
 * again if installation.topics_version has changed. Only the leader's thread uses it. */
#pragma once

#include "store/store.h"
#include "topic/topics.h"

/* The snapshot is empty until it is first read. */
typedef struct dt_topic_snapshot dt_topic_snapshot;
/* Makes an empty snapshot, which the caller frees. NOMEM: memory ran out. */
dt_status dt_topic_snapshot_new(dt_topic_snapshot **out);
void dt_topic_snapshot_free(dt_topic_snapshot *snapshot);

/* Reads the topics again if their version has changed. A leader transaction does so by itself. After a failure the
 * snapshot may lack topics, and the next call reads them again. */
dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err);
/* Returns installation.topics_version as of the last read; 0: the topics must be read again. */
int64_t dt_topic_snapshot_version(const dt_topic_snapshot *snapshot);

/* These functions answer from the last read. If the snapshot lacks a topic, the topic is not paused, has no limit, no
 * delivery (UNSET), no callback settings (NULL) and no Kafka topic (absent), and its owner is computed as for a topic
 * that no token covers. */
bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic);
bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic);
int64_t dt_topic_snapshot_owner(const dt_topic_snapshot *snapshot, struct dt_str topic);
enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* Return the callback settings of a topic, with the timeout that applies to it, and its topic in Kafka. Both are valid
 * until the snapshot is read again. */
const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic);
struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic);

/* ---- inside a transaction; for store/ only ---- */

struct dt_topic_entry {
    struct dt_str name, kafka_name;
    enum dt_delivery_id delivery;
    bool paused, limited; /* limited: the topic has max_in_flight or rate_limit */
    int64_t owner;        /* owner of the topic (topic/owners.h) */
    struct dt_topic_callback callback;
};
/* Makes the next refresh read the topics even if the version has not changed: if MySQL was restored to an earlier
 * state, it may reach the same version with other topics. Until that refresh the snapshot does not change. */
void dt_topic_snapshot_forget(dt_topic_snapshot *snapshot);
/* Reads the topics again, inside the caller's transaction, if the snapshot does not have this version. */
dt_status dt_topic_snapshot_refresh(dt_topic_snapshot *snapshot, struct dt_db *db, int64_t version,
                                    struct dt_error *err);
/* Returns the snapshot's entry of a topic, valid until the next refresh. NULL: the snapshot lacks the topic, or `topic`
 * is absent. */
const struct dt_topic_entry *dt_topic_snapshot_find(const dt_topic_snapshot *snapshot, struct dt_str topic);
