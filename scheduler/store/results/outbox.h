/* The outbox: dead letters that wait to leave for Kafka. They are written with the state that they tell of. */
#ifndef DT_STORE_OUTBOX_H
#define DT_STORE_OUTBOX_H

#include "store/store.h"

struct dt_notice {
    int64_t outbox_id;
    struct dt_job job;
    int64_t attempt, made_at_ms;
};
struct dt_notices {
    struct dt_notice *v; /* in the arena */
    size_t n;
};
/* At most `limit` notices of a shard above after_id. */
struct dt_outbox_page {
    unsigned shard;
    int64_t after_id;
    size_t limit;
};
/* Reads a page, in the order in which the notices were written. */
DT_MUST_CHECK dt_status dt_store_outbox(dt_store *store, const struct dt_outbox_page *page, struct dt_arena *arena,
                                        struct dt_notices *out, struct dt_error *err);
/* Says whether any shard's outbox has something. */
DT_MUST_CHECK dt_status dt_store_outbox_waits(dt_store *store, bool *waits, struct dt_error *err);
/* Deletes notices that were sent. A notice that is sent and not deleted, because of a crash between the two, is sent
 * again. */
DT_MUST_CHECK dt_status dt_store_outbox_sent(dt_store *store, const int64_t *outbox_ids, size_t n,
                                             struct dt_error *err);

#endif
