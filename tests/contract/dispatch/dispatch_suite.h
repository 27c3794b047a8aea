/* The set-up of the suites of store/dispatch/: a database, jobs of its shards, leader transactions. Everything is static: a suite
 * includes this once. */
#pragma once

#include "support/suite.h"

#include "dispatch/fence.h"
#include "dispatch/leader.h"
#include "dispatch/scan.h"
#include "dispatch/shards.h"
#include "dispatch/topic_snapshot.h"
#include "job/archive/archive.h"
#include "job/inflight.h"
#include "support/job_rows.h"
#include "support/mysql_wire.h"

#define SHARDS 4
#define HOUR   INT64_C(3600000)

struct rig {
    dt_store *store, *other;
    struct dt_shard_map map;
    dt_topic_snapshot *snapshot;
    struct dt_arena arena;
    struct dt_inflight flight;
    struct dt_fence fence;
    struct dt_settled done;
    enum dt_writable writable;
    int64_t most_bytes;                           /* of a message of its topic, as far as is known; 0 = any */
    size_t batch_jobs, batch_topics, batch_bytes; /* 0 = as usual */
    struct dt_turns turns;
    struct dt_leader_txn txn; /* the last one, for suites that keep it */
    int64_t next_id;
};

static inline void open_rig(struct rig *rig, unsigned shards)
{
    mysql_fixture_open("dispatch", shards, &rig->store);
    rig->other = mysql_fixture_store();
    rig->writable = DT_WRITABLE_YES;
    rig->next_id = INT64_C(690) << 40;
    dt_shard_map_init(&rig->map, 1, shards);
    assert_int_equal(dt_topic_snapshot_new(&rig->snapshot), DT_OK);
}

static inline void setup(struct rig *rig)
{
    open_rig(rig, SHARDS);
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('t', 0, 0), ('u', 0, 0)");
}

static inline void teardown(struct rig *rig)
{
    wire_heal();
    dt_topic_snapshot_free(rig->snapshot);
    dt_arena_clear(&rig->arena);
    dt_inflight_clear(&rig->flight);
    dt_store_free(rig->store);
    dt_store_free(rig->other);
    mysql_fixture_drop();
}

static inline int64_t now_ms(void)
{
    return sql_number("SELECT " DT_SQL_NOW_MS);
}

/* A scheduled job of shard 0, due at the time given. */
static inline int64_t job_of(struct rig *rig, const char *topic, int64_t due_ms)
{
    do
        rig->next_id++;
    while (dt_shard_of(&rig->map, rig->next_id) != 0);
    run_sql("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, "
            "maker, digest, payload) VALUES (%lld, '%s', 'scheduled', %lld, %lld, %d, '15s', 60000, 0, 0, 1, "
            "REPEAT('d', 16), '{}')",
            (long long)rig->next_id, topic, (long long)due_ms, (long long)due_ms, due_ms < dt_near_end_ms(now_ms()));
    return rig->next_id;
}

static inline int64_t job(struct rig *rig, int64_t due_ms)
{
    return job_of(rig, "t", due_ms);
}

static inline int64_t field(const char *column, int64_t id)
{
    return sql_number("SELECT %s FROM jobs WHERE id = %lld", column, (long long)id);
}

static inline void take_over(struct rig *rig, int64_t token)
{
    struct dt_error err = {0};
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){0, token, "host:1", "redis:1"}, &rig->fence, &rig->flight,
                         &err));
}

/* Step 5 when the ledger has the batch (`sent`), or nothing of it. */
static inline dt_status settle(struct rig *rig, struct dt_fence *fence, bool sent, int64_t next_offset,
                               struct dt_error *err)
{
    const struct dt_findings findings = {
        .inflight = &rig->flight, .sent = sent, .next_offset = next_offset, .map = &rig->map};
    return dt_store_takeover_settle(rig->store, fence, &findings, &rig->done, err);
}

static inline enum dt_writable writable(void *arg, struct dt_str topic, int64_t, int64_t bytes)
{
    struct rig *rig = arg;
    assert_true(topic.n > 0 && bytes > 0);
    return rig->most_bytes && bytes > rig->most_bytes ? DT_WRITABLE_ALONE : rig->writable;
}

static struct dt_read_up_to read_up_to = {INT64_MAX, INT64_MAX};

static inline struct dt_leader_txn leader_txn_of(struct rig *rig, const struct dt_hint *hints, size_t n)
{
    static const struct dt_inflight none;
    return (struct dt_leader_txn){.sent = {.list = &none},
                                  .due = {.hints = hints,
                                          .n_hints = n,
                                          .max_jobs = rig->batch_jobs ? rig->batch_jobs : 1000,
                                          .max_topics = rig->batch_topics ? rig->batch_topics : 1000,
                                          .max_bytes = rig->batch_bytes ? rig->batch_bytes : 8 << 20,
                                          .turns = &rig->turns,
                                          .map = &rig->map,
                                          .topics = rig->snapshot,
                                          .read_up_to = read_up_to},
                                  .gate = {.writable = writable, .arg = rig},
                                  .arena = &rig->arena};
}

/* A leader transaction over the hints, settling what is in flight. */
static inline struct dt_leader_txn leader_txn(struct rig *rig, const int64_t *ids, size_t n)
{
    struct dt_error err = {0};
    static struct dt_hint hints[64];
    for (size_t i = 0; i < n; i++)
        hints[i] = (struct dt_hint){ids[i], 1};
    struct dt_leader_txn t = leader_txn_of(rig, hints, n);
    t.sent.list = &rig->flight;
    t.sent.offset = rig->fence.ledger_offset + 2;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    dt_inflight_drop(&rig->flight, t.settled.n);
    for (size_t i = 0; i < t.batch.n; i++) {
        if (rig->flight.n == rig->flight.cap)
            rig->flight.v = realloc(rig->flight.v, (rig->flight.cap = rig->flight.cap * 2 + 8) * sizeof *rig->flight.v);
        rig->flight.v[rig->flight.n++] = t.batch.jobs[i].claim;
    }
    return t;
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)
