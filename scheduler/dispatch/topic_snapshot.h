/*
 * The topic snapshot: a copy of all rows of `topics`, one for each leader, so that no claim has to read them. It is
 * read again when installation.topics_version has changed. Owned by its leader's thread.
 */
#ifndef DT_DISPATCH_TOPIC_SNAPSHOT_H
#define DT_DISPATCH_TOPIC_SNAPSHOT_H

#include "store/store.h"
#include "topic/topics.h"

/* One thread's. Empty until the first reading. */
typedef struct dt_topic_snapshot dt_topic_snapshot;
/* The caller frees it. NOMEM. */
DT_MUST_CHECK dt_status dt_topic_snapshot_new(dt_topic_snapshot **out);
void dt_topic_snapshot_free(dt_topic_snapshot *snapshot);

/* Reads the topics again if their version rose. A leader transaction does so by itself. After a failure the snapshot
 * may lack topics, and is read again the next time. */
DT_MUST_CHECK dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err);

/* Was the topic paused at the last reading? False for a topic that is not known. */
bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* Had the topic a limit at the last reading? False for a topic that is not known. */
bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The owner of a topic at the last reading; of a topic that is not known, as if no token covered it. */
int64_t dt_topic_snapshot_owner(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The delivery of a topic at the last reading; UNSET for a topic that is not known. */
enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The callback settings of a topic at the last reading, with the timeout that holds, valid until the next one. NULL:
 * the topic is not known. */
const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The Kafka topic of a topic at the last reading, valid until the next one; absent for a topic that is not known. */
struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic);

/* ---- inside a transaction; for store/ only ---- */

struct dt_topic_entry {
    struct dt_str name, kafka_name;
    enum dt_delivery_id delivery;
    bool paused, limited; /* limited: it has max_in_flight or rate_limit */
    int64_t owner;        /* topic/owners.h */
    struct dt_topic_callback callback;
};
/* The next refresh reads the topics whatever their version: a MySQL that went back may reach the same version with
 * other topics. What the snapshot holds stays until then. */
void dt_topic_snapshot_forget(dt_topic_snapshot *snapshot);
/* Reads the topics again, inside the caller's transaction, when `version` differs from what the snapshot holds. */
DT_MUST_CHECK dt_status dt_topic_snapshot_refresh(dt_topic_snapshot *snapshot, struct dt_db *db, int64_t version,
                                                  struct dt_error *err);
/* The entry of a topic, valid until the next refresh. NULL: the topic is not known, or absent. */
const struct dt_topic_entry *dt_topic_snapshot_find(const dt_topic_snapshot *snapshot, struct dt_str topic);

#endif
