/* A leader's copy of the topics, sorted for binary search. It is current in the transaction that refreshed it: a pause
 * raises topics_version before the API answers, and each claim compares that version. */
#include "topic_snapshot.h"

#include "job/delivery.h"
#include "mysql/db.h"
#include "mysql/statements.h"
#include "topic/owners.h"

struct dt_topic_snapshot {
    struct dt_arena arena;
    struct dt_topic_entry *v;
    size_t n, cap;
    int64_t version; /* topics_version of the copy; 0: nothing was read yet */
};

dt_status dt_topic_snapshot_new(dt_topic_snapshot **out)
{
    dt_topic_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!snapshot)
        return DT_NOMEM;
    *out = snapshot;
    return DT_OK;
}

void dt_topic_snapshot_free(dt_topic_snapshot *snapshot)
{
    if (!snapshot)
        return;
    dt_arena_clear(&snapshot->arena);
    free(snapshot->v);
    free(snapshot);
}

/* Copies a column; NULL becomes absent. Returns false if memory ran out. */
static bool copy_topic_column(dt_topic_snapshot *snapshot, const dt_db *db, unsigned column, struct dt_str *out)
{
    *out = dt_arena_copy(&snapshot->arena, dt_db_bytes(db, column));
    return out->p || dt_db_is_null(db, column);
}

static dt_status read_topic_entry(dt_topic_snapshot *snapshot, const dt_db *db)
{
    struct dt_topic_entry entry = {.paused = dt_db_i64(db, 2) != 0,
                                   .delivery = (enum dt_delivery_id)dt_db_i64(db, 3),
                                   .limited = dt_db_i64(db, 10) != 0,
                                   .callback.timeout_ms = dt_callback_timeout_ms(dt_db_i64(db, 8), dt_db_i64(db, 9))};
    bool copied = copy_topic_column(snapshot, db, 0, &entry.name) &&
                  copy_topic_column(snapshot, db, 1, &entry.kafka_name) &&
                  copy_topic_column(snapshot, db, 4, &entry.callback.places.url) &&
                  copy_topic_column(snapshot, db, 5, &entry.callback.places.hosts) &&
                  copy_topic_column(snapshot, db, 6, &entry.callback.headers) &&
                  copy_topic_column(snapshot, db, 7, &entry.callback.secret);
    if (!copied)
        return DT_NOMEM;
    entry.owner = dt_db_i64(db, 11) > 0 ? dt_db_i64(db, 11) : dt_owner_by_name(entry.name);
    if (snapshot->n == snapshot->cap) {
        size_t cap = snapshot->cap ? snapshot->cap * 2 : 64;
        struct dt_topic_entry *v = realloc(snapshot->v, cap * sizeof(*v));
        if (!v)
            return DT_NOMEM;
        snapshot->v = v;
        snapshot->cap = cap;
    }
    snapshot->v[snapshot->n++] = entry;
    return DT_OK;
}

void dt_topic_snapshot_forget(dt_topic_snapshot *snapshot)
{
    snapshot->version = 0;
}

dt_status dt_topic_snapshot_refresh(dt_topic_snapshot *snapshot, dt_db *db, int64_t version, struct dt_error *err)
{
    if (snapshot->version == version)
        return DT_OK;
    snapshot->version = 0;
    snapshot->n = 0;
    dt_arena_reset(&snapshot->arena);
    dt_status status = dt_db_query(db, dt_sql_select_topic_snapshot, DT_NO_PARAMS, err);
    while (status == DT_OK && dt_db_next(db))
        status = read_topic_entry(snapshot, db);
    dt_status end = dt_db_end(db, err);
    DT_THEN(status, end);
    if (status == DT_OK)
        snapshot->version = version;
    return status;
}

dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err)
{
    dt_db *db;
    struct dt_installation inst;
    dt_status status = dt_store_installation(store, &inst, err);
    DT_THEN(status, dt_store_db(store, &db, err));
    return status == DT_OK ? dt_topic_snapshot_refresh(snapshot, db, inst.topics_version, err) : status;
}

int64_t dt_topic_snapshot_version(const dt_topic_snapshot *snapshot)
{
    return snapshot->version;
}

const struct dt_topic_entry *dt_topic_snapshot_find(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    size_t low = 0;
    size_t high = topic.p ? snapshot->n : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = dt_str_order(topic, snapshot->v[middle].name);
        if (order == 0)
            return &snapshot->v[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry && entry->paused;
}

bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry && entry->limited;
}

int64_t dt_topic_snapshot_owner(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry ? entry->owner : dt_owner_by_name(topic);
}

enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry ? entry->delivery : DT_DELIVERY_UNSET;
}

const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry ? &entry->callback : NULL;
}

struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    const struct dt_topic_entry *entry = dt_topic_snapshot_find(snapshot, topic);
    return entry ? entry->kafka_name : DT_STR_NONE;
}
