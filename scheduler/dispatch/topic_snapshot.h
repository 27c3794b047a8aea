/* The topic snapshot: a leader's copy of all rows of `topics`, so that claims do not have to read them. It is read
 * again if installation.topics_version has changed. Only the leader's thread uses it. */
#pragma once

#include "store/store.h"
#include "topic/topics.h"

/* A snapshot is empty until the first read. */
typedef struct dt_topic_snapshot dt_topic_snapshot;
/* Makes an empty snapshot, which the caller frees. Returns NOMEM if memory runs out. */
DT_MUST_CHECK dt_status dt_topic_snapshot_new(dt_topic_snapshot **out);
void dt_topic_snapshot_free(dt_topic_snapshot *snapshot);

/* Reads the topics again if their version has risen. A leader transaction also does this. After a failure the snapshot
 * may lack topics; the next call reads them again. */
DT_MUST_CHECK dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err);

/* These functions answer from the last read. A topic that the snapshot lacks is not paused, has no limit, no delivery
 * (UNSET), no callback settings (NULL) and no Kafka topic (absent), and its owner is that of a topic that no token
 * covers. */
bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic);
bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic);
int64_t dt_topic_snapshot_owner(const dt_topic_snapshot *snapshot, struct dt_str topic);
enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The timeout in the settings is the one that applies to the topic. Settings and Kafka topic are valid until the next
 * read. */
const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic);
struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic);

/* ---- inside a transaction; for store/ only ---- */

struct dt_topic_entry {
    struct dt_str name, kafka_name;
    enum dt_delivery_id delivery;
    bool paused, limited; /* limited: the topic has max_in_flight or rate_limit */
    int64_t owner;        /* see topic/owners.h */
    struct dt_topic_callback callback;
};
/* Makes the next refresh read the topics even if the version is the same: a MySQL that was restored to an earlier state
 * may reach this version with other topics. Until that refresh the snapshot does not change. */
void dt_topic_snapshot_forget(dt_topic_snapshot *snapshot);
/* Reads the topics again, inside the caller's transaction, if `version` differs from the snapshot's. */
DT_MUST_CHECK dt_status dt_topic_snapshot_refresh(dt_topic_snapshot *snapshot, struct dt_db *db, int64_t version,
                                                  struct dt_error *err);
/* Returns the entry of a topic, valid until the next refresh. NULL: the snapshot lacks the topic, or `topic` is
 * absent. */
const struct dt_topic_entry *dt_topic_snapshot_find(const dt_topic_snapshot *snapshot, struct dt_str topic);
