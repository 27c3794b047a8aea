/* The topic snapshot's inside, for store/ only; see store_dispatch.h. */
#ifndef DT_STORE_TOPIC_SNAPSHOT_H
#define DT_STORE_TOPIC_SNAPSHOT_H

#include "store/db/db.h"
#include "store/dispatch/store_dispatch.h"

struct dt_topic_entry {
    struct dt_str name, kafka_name;
    bool paused;
};
/* Rereads inside the caller's transaction when version differs from what is held. */
DT_MUST_CHECK dt_status dt_topic_snapshot_refresh(dt_topic_snapshot *snapshot, dt_db *db, int64_t version,
                                                  struct dt_error *err);
/* NULL when not known, as of a topic that is absent. */
const struct dt_topic_entry *dt_topic_snapshot_find(const dt_topic_snapshot *snapshot, struct dt_str topic);

#endif
