/* store/dispatch/ on a real server: takeover, the leader transaction, scans, housekeeping, outbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "store/archive/housekeeping.h"
#include "store/dispatch/fence.h"
#include "store/dispatch/inflight.h"
#include "store/dispatch/leader_txn.h"
#include "store/dispatch/outgoing.h"
#include "store/dispatch/scan.h"
#include "store/dispatch/takeover.h"
#include "store/dispatch/topic_snapshot.h"
#include "store/results/outbox.h"
#include "store/shard_stats.h"
#include "support/job_rows.h"
#include "support/mysql_fixture.h"
#include "support/mysql_wire.h"

#define OK(status) MYSQL_FIXTURE_OK(status, &err)
#define SHARDS     4
#define HOUR       INT64_C(3600000)

struct rig {
    struct mysql_fixture fx;
    dt_store *store, *other;
    struct dt_shard_map map;
    dt_topic_snapshot *snapshot;
    struct dt_arena arena;
    struct dt_inflight flight;
    struct dt_fence fence;
    struct dt_settled done;
    enum dt_writable writable;
    int64_t most_bytes; /* of a message of its topic, as far as is known; 0 = any */
    int64_t next_id;
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    mysql_fixture_make(&rig->fx, "dispatch");
    rig->fx.config.shards_count = SHARDS;
    mysql_fixture_migrate(&rig->fx);
    rig->store = mysql_fixture_store(&rig->fx);
    rig->other = mysql_fixture_store(&rig->fx);
    rig->writable = DT_WRITABLE_YES;
    rig->next_id = INT64_C(690) << 40;
    dt_shard_map_init(&rig->map, 1, SHARDS);
    dt_arena_init(&rig->arena);
    assert_int_equal(dt_topic_snapshot_new(&rig->snapshot), DT_OK);
    mysql_fixture_run(&rig->fx, "INSERT INTO topics (name, created_at, updated_at) VALUES ('t', 0, 0), ('u', 0, 0)");
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    wire_heal();
    dt_topic_snapshot_free(rig->snapshot);
    dt_arena_clear(&rig->arena);
    dt_inflight_clear(&rig->flight);
    dt_store_free(rig->store);
    dt_store_free(rig->other);
    mysql_fixture_drop(&rig->fx);
    free(rig);
    return 0;
}

static int64_t now_ms(struct rig *rig)
{
    return mysql_fixture_number(&rig->fx, "SELECT " DT_SQL_NOW_MS);
}

/* A scheduled job of shard 0, due at the time given. */
static int64_t job_of(struct rig *rig, const char *topic, int64_t due_ms)
{
    do
        rig->next_id++;
    while (dt_shard_of(&rig->map, rig->next_id) != 0);
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, "
                      "updated_at, maker,"
                      " digest, payload) VALUES (%lld, '%s', 'scheduled', %lld, %lld, %d, '15s', 60000, 0, 0, 1, "
                      "REPEAT('d', 16), '{}')",
                      (long long)rig->next_id, topic, (long long)due_ms, (long long)due_ms,
                      due_ms < dt_near_end_ms(now_ms(rig)));
    return rig->next_id;
}

static int64_t job(struct rig *rig, int64_t due_ms)
{
    return job_of(rig, "t", due_ms);
}

static int64_t field(struct rig *rig, const char *column, int64_t id)
{
    return mysql_fixture_number(&rig->fx, "SELECT %s FROM jobs WHERE id = %lld", column, (long long)id);
}

static void take_over(struct rig *rig, int64_t token)
{
    struct dt_error err = {0};
    OK(dt_store_takeover(rig->store, &(struct dt_leadership){0, token, "host:1", "redis:1"}, &rig->fence, &rig->flight,
                         &err));
}

/* Step 5 when the ledger has the batch (`sent`), or nothing of it. */
static dt_status settle(struct rig *rig, struct dt_fence *fence, bool sent, int64_t next_offset, struct dt_error *err)
{
    const struct dt_findings findings = {
        .inflight = &rig->flight, .in_ledger = sent, .next_offset = next_offset, .map = &rig->map};
    return dt_store_takeover_settle(rig->store, fence, &findings, &rig->done, err);
}

static dt_status halt(struct rig *rig, struct dt_fence *fence, const char *why, struct dt_error *err)
{
    const struct dt_findings findings = {.inflight = &rig->flight, .halt = why};
    return dt_store_takeover_settle(rig->store, fence, &findings, &rig->done, err);
}

/* Step 5 after Kafka refused n entries of the list from `first` on, and the ledger has nothing. */
static void refuse(struct rig *rig, size_t first, size_t n)
{
    struct dt_error err = {0};
    const struct dt_findings findings = {.inflight = &rig->flight,
                                         .next_offset = rig->fence.ledger_offset + 1,
                                         .refused = {.v = rig->flight.v + first, .n = n},
                                         .refusal = "message too large",
                                         .map = &rig->map};
    OK(dt_store_takeover_settle(rig->store, &rig->fence, &findings, &rig->done, &err));
}

static enum dt_writable writable(void *arg, struct dt_str topic, int64_t bytes)
{
    struct rig *rig = arg;
    assert_true(topic.n > 0 && bytes > 0);
    return rig->most_bytes && bytes > rig->most_bytes ? DT_WRITABLE_ALONE : rig->writable;
}

static int64_t read_up_to_ms = INT64_MAX; /* of the results */

static struct dt_leader_txn leader_txn_of(struct rig *rig, const struct dt_hint *hints, size_t n)
{
    static const struct dt_inflight none;
    return (struct dt_leader_txn){.sent = {.list = &none},
                                  .due = {.hints = hints,
                                          .n_hints = n,
                                          .max_jobs = 1000,
                                          .max_bytes = 8 << 20,
                                          .map = &rig->map,
                                          .topics = rig->snapshot,
                                          .read_up_to_ms = read_up_to_ms},
                                  .gate = {.writable = writable, .arg = rig},
                                  .arena = &rig->arena};
}

/* A leader transaction over the hints, settling what is in flight. */
static struct dt_leader_txn leader_txn(struct rig *rig, const int64_t *ids, size_t n)
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

/* ---- the list as text ---- */

static void an_in_flight_list_survives_the_way_through_text(void **state)
{
    (void)state;
    struct dt_claim v[] = {{INT64_C(758663023165448), 1, 1795273967083}, {7, 2147483647, 0}, {8, 1, -5}};
    struct dt_inflight back = {0};
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_inflight_format(v, 3, &text);
    assert_string_equal(text.p, "[[758663023165448,1,1795273967083],[7,2147483647,0],[8,1,-5]]");
    assert_int_equal(dt_inflight_parse(dt_strbuf_str(&text), &back), DT_OK);
    assert_int_equal(back.n, 3);
    assert_memory_equal(back.v, v, sizeof v);
    static const char *const bad[] = {"[", "[[1,2]]",   "[[1,2,3]",    "[[1,2,3],]",
                                      "x", "[[1,2,x]]", "[[1,2,3]] x", "[[1,2,-]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(dt_inflight_parse(dt_str(bad[i]), &back), DT_MALFORMED);
    assert_int_equal(dt_inflight_parse(dt_str("[]"), &back), DT_OK);
    assert_int_equal(back.n, 0);
    dt_strbuf_clear(&text);
    dt_inflight_clear(&back);
}

/* ---- takeover ---- */

static void each_takeover_raises_the_epoch_and_deposes_the_one_before(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_installation inst;
    take_over(rig, 11);
    struct dt_fence old = rig->fence;
    OK(dt_store_fence_check(rig->store, &old, &inst, &err));
    take_over(rig, 12);
    assert_int_equal(rig->fence.epoch, old.epoch + 1);
    assert_int_equal(dt_store_fence_check(rig->store, &old, &inst, &err), DT_DEPOSED);
    OK(dt_store_fence_check(rig->store, &rig->fence, &inst, &err));
}

static void a_deposed_leader_writes_nothing(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id = job(rig, now_ms(rig) - 1000);
    struct dt_hint hint = {id, 1};
    take_over(rig, 21);
    struct dt_fence zombie = rig->fence;
    take_over(rig, 22);
    struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
    assert_int_equal(dt_leader_txn_commit(rig->store, &zombie, &t, &err), DT_DEPOSED);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(field(rig, "state+0", id), 1);
    assert_int_equal(halt(rig, &zombie, "never", &err), DT_DEPOSED);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM shards WHERE halted IS NOT NULL"), 0);
}

static void an_equal_epoch_with_another_token_or_version_is_not_ours(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    static const char *const changes[] = {"token = token + 1", "version = version + 1", "version = version - 1",
                                          "epoch = epoch - 1"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        take_over(rig, 31);
        mysql_fixture_run(&rig->fx, "UPDATE shards SET %s WHERE shard = 0", changes[i]);
        assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_DEPOSED);
    }
}

static void a_halted_shard_is_not_taken_over_until_it_is_cleared(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    take_over(rig, 41);
    struct dt_fence before = rig->fence;
    OK(halt(rig, &rig->fence, "the ledger disagrees", &err));
    assert_int_not_equal(dt_leader_txn_commit(rig->store, &before, &t, &err), DT_OK);
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 42, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    assert_non_null(strstr(err.text, "the ledger disagrees"));
    mysql_fixture_run(&rig->fx, "UPDATE shards SET halted = NULL");
    take_over(rig, 43);
}

static void what_the_ledger_has_is_settled_and_the_rest_stays_in_flight(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t ids[] = {job(rig, now_ms(rig) - 2000), job(rig, now_ms(rig) - 1000)};
    take_over(rig, 51);
    assert_int_equal(leader_txn(rig, ids, 2).batch.n, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[0]);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 52);
    assert_int_equal(rig->flight.n, 2);
    assert_int_equal(rig->fence.send_n, 1);
    OK(settle(rig, &rig->fence, true, 77, &err));
    assert_int_equal(rig->fence.ledger_offset, 77);
    assert_int_equal(rig->fence.inflight, 1);
    assert_true(field(rig, "next_at", ids[0]) > now_ms(rig) + 50000);
    take_over(rig, 53);
    assert_int_equal(rig->flight.n, 1);
    assert_int_equal(rig->flight.v[0].id, ids[1]);
}

static void a_renewed_deadline_is_never_made_earlier(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id = job(rig, now_ms(rig) - 1000), late = now_ms(rig) + 24 * HOUR;
    take_over(rig, 61);
    leader_txn(rig, &id, 1);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)late, (long long)id);
    take_over(rig, 62);
    OK(settle(rig, &rig->fence, true, 3, &err));
    assert_int_equal(field(rig, "next_at", id), late);
}

static void a_deadline_that_somebody_holds_locked_is_left_and_not_waited_for(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t ids[] = {job(rig, now_ms(rig) - 2000), job(rig, now_ms(rig) - 1000)};
    take_over(rig, 63);
    leader_txn(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5");
    take_over(rig, 64);
    mysql_fixture_run(&rig->fx, "START TRANSACTION");
    mysql_fixture_number(&rig->fx, "SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)ids[0]);
    OK(settle(rig, &rig->fence, true, 3, &err));
    mysql_fixture_run(&rig->fx, "ROLLBACK");
    assert_int_equal(field(rig, "next_at", ids[0]), 5);
    assert_true(field(rig, "next_at", ids[1]) > now_ms(rig) + 50000);
    assert_int_equal(rig->fence.inflight, 0);
}

static void an_endless_acknowledgement_timeout_written_by_hand_holds_up_nobody(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 2000), job(rig, now_ms(rig) - 1000)};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET ack_timeout_ms = 9223372036854775807 WHERE id = %lld",
                      (long long)ids[0]);
    take_over(rig, 65);
    assert_int_equal(leader_txn(rig, ids, 2).batch.n, 2);
    assert_true(field(rig, "next_at", ids[0]) > now_ms(rig) + 24 * 365 * 50 * HOUR);
    assert_int_equal(field(rig, "near", ids[0]), 0);
    take_over(rig, 66);
    struct dt_error err = {0};
    OK(settle(rig, &rig->fence, true, 3, &err));
}

/* ---- claims ---- */

static void due_jobs_are_claimed_in_order_and_others_are_told_where_they_belong(void **state)
{
    struct rig *rig = *state;
    int64_t now = now_ms(rig), later = now + HOUR;
    int64_t ids[] = {job(rig, now - 1000), job(rig, now - 3000), job(rig, later), rig->next_id + 1000000, 0};
    ids[4] = job(rig, now - 10);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %lld",
                      (long long)ids[4]);
    take_over(rig, 71);
    struct dt_leader_txn t = leader_txn(rig, ids, 5);
    assert_int_equal(t.batch.n, 2);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_int_equal(t.batch.jobs[1].claim.id, ids[0]);
    assert_int_equal(t.batch.jobs[0].claim.attempt, 1);
    assert_int_equal(t.batch.jobs[0].claim.due_ms, now - 3000);
    assert_true(dt_str_is(t.batch.jobs[0].payload, "{}"));
    assert_true(dt_str_is(t.batch.jobs[0].kafka_topic, "t"));
    assert_int_equal(t.seen.n, 5);
    for (size_t i = 0; i < t.seen.n; i++) {
        const struct dt_seen *s = &t.seen.v[i];
        if (s->id == ids[2])
            assert_int_equal(s->next_ms, later);
        else if (s->id == ids[3] || s->id == ids[4])
            assert_int_equal(s->next_ms, 0);
        else
            assert_int_equal(s->next_ms, field(rig, "next_at", s->id));
    }
    assert_int_equal(field(rig, "state+0", ids[0]), 2);
    assert_int_equal(field(rig, "claim_shard", ids[0]), 0);
    assert_int_equal(field(rig, "due_at", ids[0]), now - 1000);
    assert_int_equal(field(rig, "state+0", ids[2]), 1);
    assert_int_equal(mysql_fixture_number(&rig->fx,
                                          "SELECT INSTR(inflight, '[%lld,1,') > 0 FROM shards WHERE shard = 0",
                                          (long long)ids[0]),
                     1);
}

#define assert_same(a, b)                                                                                              \
    do {                                                                                                               \
        assert_int_equal(!(a).p, !(b).p);                                                                              \
        assert_true(dt_str_eq((a), (b)));                                                                              \
    } while (0)

/* Large ones are read apart; each has what a second reading of its row says. */
struct told {
    struct rig *rig;
    struct dt_fence next;
    struct dt_claim claims[4];
    struct dt_str payloads[4];
    size_t n, times;
};

static void note_claiming(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                          const struct dt_claim *claims, size_t n)
{
    struct told *told = arg;
    assert_true(n <= 4);
    told->times++;
    told->next = *next;
    told->n = n;
    for (size_t i = 0; i < n; i++) {
        told->claims[i] = claims[i];
        told->payloads[i] = batch[i].payload;
        assert_int_equal(field(told->rig, "attempt", claims[i].id), 0); /* as everybody else sees it */
    }
    assert_int_equal(mysql_fixture_number(&told->rig->fx, "SELECT LENGTH(inflight) FROM shards WHERE shard = 0"), 2);
}

static void what_is_about_to_be_claimed_is_told_before_anybody_sees_it(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct told told = {.rig = rig};
    struct dt_hint hints[3];
    int64_t now = now_ms(rig);
    for (int i = 0; i < 3; i++)
        hints[i] = (struct dt_hint){job(rig, now - 1000 - i), 1};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = 'small'");
    take_over(rig, 75);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 3);
    t.listener.claiming = note_claiming;
    t.listener.arg = &told;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(told.times, 1);
    assert_int_equal(told.n, t.batch.n);
    for (size_t i = 0; i < t.batch.n; i++) {
        assert_int_equal(told.claims[i].id, t.batch.jobs[i].claim.id);
        assert_int_equal(told.claims[i].attempt, 1);
        assert_true(dt_str_is(told.payloads[i], "small"));
    }
    assert_int_equal(told.next.epoch, rig->fence.epoch);
    assert_int_equal(told.next.token, rig->fence.token);
    assert_int_equal(told.next.batch_no, rig->fence.batch_no);
    assert_int_equal(told.next.send_n, rig->fence.send_n);
}

static void a_batch_with_a_large_message_is_told_of_when_that_was_read(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct told told = {.rig = rig};
    int64_t now = now_ms(rig);
    const struct dt_hint hints[2] = {{job(rig, now - 1000), 1}, {job(rig, now - 900), 1}};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = REPEAT('x', 5000) WHERE id = %lld", (long long)hints[1].id);
    take_over(rig, 76);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 2);
    t.listener.claiming = note_claiming;
    t.listener.arg = &told;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n, 2);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.n, 2);
    assert_int_equal(told.payloads[1].n, 5000);
}

static void a_batch_has_the_messages_of_its_claims_small_and_large(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_outgoing *again;
    int64_t now = now_ms(rig), ids[6];
    static const char *const rows[] = {"payload = ''",
                                       "payload = REPEAT('x', 2048), job_key = 'k'",
                                       "payload = REPEAT('y', 2049), partition_key = 'p'",
                                       "headers = CONCAT('{\"h\":\"', REPEAT('z', 1100), '\"}')",
                                       "headers = '{\"h\":\"v\"}', content_type = 'text/plain', topic = 'renamed'",
                                       "payload = REPEAT('w', 9000), topic = 'renamed'"};
    mysql_fixture_run(
        &rig->fx, "INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('renamed', 'other', 1, 1);"
                  "UPDATE installation SET topics_version = topics_version + 1");
    for (int i = 0; i < 6; i++) {
        ids[i] = job(rig, now - 1000 + 10 * ((i * 5) % 6));
        mysql_fixture_run(&rig->fx, "UPDATE jobs SET %s WHERE id = %lld", rows[i], (long long)ids[i]);
    }
    take_over(rig, 74);
    struct dt_leader_txn t = leader_txn(rig, ids, 6);
    assert_int_equal(t.batch.n, 6);
    struct dt_inflight list = {.v = calloc(6, sizeof *list.v), .n = 6};
    for (size_t i = 0; i < 6; i++)
        list.v[i] = t.batch.jobs[i].claim;
    OK(dt_store_read_outgoing(rig->store, &list, &rig->arena, &again, &err));
    for (size_t i = 0; i < 6; i++) {
        const struct dt_outgoing *a = &t.batch.jobs[i], *b = &again[i];
        assert_int_equal(a->claim.id, ids[(i * 5) % 6]);
        assert_same(a->topic, b->topic);
        assert_same(a->kafka_topic, b->kafka_topic);
        assert_same(a->key, b->key);
        assert_same(a->partition_key, b->partition_key);
        assert_same(a->content_type, b->content_type);
        assert_same(a->headers, b->headers);
        assert_same(a->payload, b->payload);
        assert_true(dt_str_is(a->kafka_topic, a->claim.id == ids[4] || a->claim.id == ids[5] ? "other" : "t"));
    }
    dt_inflight_clear(&list);
}

static void nothing_is_claimed_before_its_time_by_the_servers_clock(void **state)
{
    struct rig *rig = *state;
    int64_t id = job(rig, now_ms(rig) + 300);
    take_over(rig, 72);
    for (;;) {
        struct dt_leader_txn t = leader_txn(rig, &id, 1);
        if (t.batch.n) {
            assert_true(field(rig, "dispatched_at >= due_at", id));
            return;
        }
        assert_true(t.now_ms < field(rig, "next_at", id));
    }
}

static void a_batch_keeps_to_its_limits_and_to_the_order(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_hint hints[4];
    int64_t now = now_ms(rig);
    for (int i = 0; i < 4; i++)
        hints[i] = (struct dt_hint){job(rig, now - 1000 - 10 * i), 1};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = REPEAT('x', 5000) WHERE id = %lld", (long long)hints[2].id);
    take_over(rig, 73);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 4);
    t.due.max_bytes = 4000;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n, 1); /* the second oldest is too large for this batch: nothing younger passes it */
    assert_int_equal(t.batch.jobs[0].claim.id, hints[3].id);
    assert_true(t.chosen.more);
}

static void a_leader_transaction_refuses_to_forget_what_is_in_flight(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id = job(rig, now_ms(rig) - 1000);
    take_over(rig, 74);
    leader_txn(rig, &id, 1);
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_INTERNAL);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT LENGTH(inflight) > 2 FROM shards WHERE shard = 0"), 1);
}

static void a_turn_without_work_writes_nothing(void **state)
{
    struct rig *rig = *state;
    take_over(rig, 75);
    int64_t version = rig->fence.version, id = job(rig, now_ms(rig) + HOUR);
    leader_txn(rig, &id, 1);
    assert_int_equal(rig->fence.version, version);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT version FROM shards WHERE shard = 0"), version);
}

static void a_paused_or_unwritable_topic_is_held_and_its_timeouts_go_on(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t ids[] = {job(rig, now_ms(rig) - 1000), job_of(rig, "u", now_ms(rig) - 1000)};
    take_over(rig, 81);
    rig->writable = DT_WRITABLE_UNKNOWN;
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 0);
    assert_true(t.seen.locked);
    rig->writable = DT_WRITABLE_YES;
    OK(dt_store_topic_pause(rig->other, dt_str("t"), true, &err));
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_int_equal(t.seen.held, 1);
    assert_true(dt_topic_snapshot_paused(rig->snapshot, dt_str("t")));
    OK(dt_store_topic_pause(rig->other, dt_str("u"), true, &err));
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[1]);
    t = leader_txn(rig, &ids[1], 1);
    assert_int_equal(t.timed_out.n, 1);
    OK(dt_store_topic_pause(rig->other, dt_str("t"), false, &err));
    assert_int_equal(leader_txn(rig, ids, 1).batch.n, 1);
}

static void a_job_of_a_topic_for_pops_is_offered_and_claimed_once_its_topic_is_kafkas(void **state)
{
    struct rig *rig = *state;
    int64_t id = job(rig, now_ms(rig) - 1000);
    take_over(rig, 82);
    mysql_fixture_run(
        &rig->fx, "UPDATE topics SET delivery = 'pull'; UPDATE installation SET topics_version = topics_version + 1");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(t.offered.n, 1);
    mysql_fixture_run(
        &rig->fx, "UPDATE topics SET delivery = 'kafka'; UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
}

static void a_row_locked_by_another_is_left_and_not_waited_for(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 1000), job(rig, now_ms(rig) - 500)};
    take_over(rig, 91);
    mysql_fixture_run(&rig->fx, "START TRANSACTION");
    mysql_fixture_number(&rig->fx, "SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_true(t.seen.locked);
    assert_int_equal(t.seen.n, 1);
    mysql_fixture_run(&rig->fx, "ROLLBACK");
    assert_int_equal(leader_txn(rig, ids, 1).batch.n, 1);
}

static void a_stale_map_claims_nothing_and_says_so(void **state)
{
    struct rig *rig = *state;
    int64_t id = job(rig, now_ms(rig) - 1000);
    take_over(rig, 92);
    mysql_fixture_run(&rig->fx, "UPDATE installation SET generation = 2");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_true(t.stale_map);
    assert_int_equal(t.batch.n, 0);
    dt_shard_map_init(&rig->map, 2, SHARDS);
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
}

static void an_earlier_attempt_in_another_shards_list_keeps_a_job_back(void **state)
{
    struct rig *rig = *state;
    int64_t id = job(rig, now_ms(rig) - 1000);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET attempt = 1, claim_shard = 2 WHERE id = %lld", (long long)id);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[[%lld,1,5]]' WHERE shard = 2", (long long)id);
    take_over(rig, 93);
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 0);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[]' WHERE shard = 2");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.attempt, 2);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM attempts WHERE job_id = %lld AND attempt = 1",
                                          (long long)id),
                     1);
}

static void a_deadline_waits_until_all_that_was_reported_before_it_has_been_read(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 1000), job(rig, now_ms(rig) - 1000)};
    take_over(rig, 194);
    leader_txn(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 500 + id - %lld", (long long)ids[0]);
    int64_t second_ms = field(rig, "next_at", ids[1]);
    read_up_to_ms = 499;
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.timed_out.n, 0);
    assert_int_equal(t.judged.unread, 2);
    assert_int_equal(t.judged.unread_ms, second_ms);
    assert_true(t.seen.locked);
    assert_int_equal(t.seen.n, 0);
    read_up_to_ms = 500; /* the very instant of the first one's deadline */
    t = leader_txn(rig, ids, 2);
    read_up_to_ms = INT64_MAX;
    assert_int_equal(t.timed_out.n, 1);
    assert_int_equal(t.judged.unread, 1);
    assert_int_equal(field(rig, "attempt_status+0", ids[0]), DT_ATTEMPT_TIMED_OUT);
    assert_int_equal(field(rig, "state+0", ids[1]), 2);
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.judged.unread, 0);
    assert_int_equal(field(rig, "attempt_status+0", ids[1]), DT_ATTEMPT_TIMED_OUT);
}

static void a_deadline_waits_for_a_result_that_is_stored_and_not_applied_yet(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 1000), job(rig, now_ms(rig) - 1000)};
    take_over(rig, 195);
    leader_txn(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5");
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES "
                      "(%lld, 1, 'succeeded', -1, 1)",
                      (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.timed_out.n, 1);
    assert_true(t.seen.locked);
    assert_int_equal(field(rig, "state+0", ids[0]), 2);
    assert_int_equal(field(rig, "attempt_status+0", ids[1]), DT_ATTEMPT_TIMED_OUT);
    mysql_fixture_run(&rig->fx, "DELETE FROM deferred_results");
    assert_int_equal(leader_txn(rig, ids, 1).timed_out.n, 1);
}

static void a_deadline_that_passed_is_a_failure_and_a_renewed_one_is_not(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 1000), job(rig, now_ms(rig) - 1000)};
    take_over(rig, 94);
    leader_txn(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2); /* settles first: both are out of flight now */
    assert_int_equal(t.timed_out.n, 1);
    assert_int_equal(field(rig, "state+0", ids[0]), 1);
    assert_int_equal(field(rig, "failures", ids[0]), 1);
    assert_int_equal(field(rig, "attempt_status+0", ids[0]), DT_ATTEMPT_TIMED_OUT);
    assert_int_equal(field(rig, "state+0", ids[1]), 2);
}

/* ---- refused for good ---- */

static size_t claim_some(struct rig *rig, int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = job(rig, now_ms(rig) - 10000 + (int64_t)i);
    return leader_txn(rig, ids, n).batch.n;
}

static int64_t row_send_n(struct rig *rig)
{
    return mysql_fixture_number(&rig->fx, "SELECT send_n FROM shards WHERE shard = 0");
}

static void a_refused_list_is_halved_and_stays_in_flight(void **state)
{
    struct rig *rig = *state;
    int64_t ids[5];
    take_over(rig, 101);
    assert_int_equal(claim_some(rig, ids, 5), 5);
    assert_int_equal(rig->fence.send_n, 5);
    take_over(rig, 102);
    refuse(rig, 0, 5);
    assert_true(rig->done.shrink.halved);
    assert_int_equal(rig->fence.send_n, 2);
    assert_int_equal(rig->fence.inflight, 5);
    assert_int_equal(row_send_n(rig), 2);
    take_over(rig, 103);
    assert_int_equal(rig->fence.send_n, 2);
    assert_int_equal(rig->flight.n, 5);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM jobs WHERE state = 'dispatched'"), 5);
}

static void an_attempt_refused_alone_ends_as_undeliverable_and_follows_the_retry_policy(void **state)
{
    struct rig *rig = *state;
    int64_t ids[2], now;
    take_over(rig, 104);
    claim_some(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 105);
    now = now_ms(rig);
    refuse(rig, 0, 1);
    assert_true(rig->done.shrink.undeliverable);
    assert_false(rig->done.outbox);
    assert_int_equal(rig->fence.inflight, 1);
    assert_int_equal(field(rig, "state+0", ids[0]), 1);
    assert_int_equal(field(rig, "attempt", ids[0]), 1);
    assert_int_equal(field(rig, "failures", ids[0]), 1);
    assert_int_equal(field(rig, "attempt_status+0", ids[0]), DT_ATTEMPT_UNDELIVERABLE);
    assert_int_equal(field(rig, "error_code = 'undeliverable' AND error_message = 'message too large'", ids[0]), 1);
    assert_true(field(rig, "next_at", ids[0]) >= now + 15000);
    assert_true(rig->done.ended);
    assert_int_equal(rig->done.next_ms, field(rig, "next_at", ids[0]));
    assert_int_equal(field(rig, "state+0", ids[1]), 2);
    take_over(rig, 106);
    assert_int_equal(rig->flight.n, 1);
    assert_int_equal(rig->flight.v[0].id, ids[1]);
}

static void the_last_attempt_refused_alone_ends_in_a_dead_letter(void **state)
{
    struct rig *rig = *state;
    int64_t id;
    take_over(rig, 107);
    claim_some(rig, &id, 1);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET failures = 1");
    take_over(rig, 108);
    refuse(rig, 0, 1);
    assert_true(rig->done.outbox);
    assert_int_equal(field(rig, "state = 'dead'", id), 1);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM outbox WHERE job_id = %lld AND attempt = 1",
                                          (long long)id),
                     1);
    assert_int_equal(rig->fence.inflight, 0);
}

static void an_undeliverable_attempt_stands_in_the_history_once_another_follows(void **state)
{
    struct rig *rig = *state;
    int64_t id;
    take_over(rig, 109);
    claim_some(rig, &id, 1);
    take_over(rig, 110);
    refuse(rig, 0, 1);
    rig->flight.n = 0;
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5");
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
    assert_int_equal(
        mysql_fixture_number(&rig->fx,
                             "SELECT COUNT(*) FROM attempts WHERE job_id = %lld AND attempt = 1 AND status "
                             "= 'undeliverable' AND error_code = 'undeliverable'",
                             (long long)id),
        1);
}

static void an_undeliverable_attempt_of_a_row_edited_by_hand_is_recorded_and_nothing_else(void **state)
{
    struct rig *rig = *state;
    int64_t ids[3];
    static const char *const edits[] = {"state = 'cancelled', next_at = NULL", "state = 'scheduled'", "attempt = 7"};
    static const char *const after[] = {
        "state = 'cancelled' AND attempt_status = 'undeliverable' AND error_message IS NOT NULL AND failures = 0",
        "state = 'scheduled' AND attempt_status = 'undeliverable' AND error_message IS NOT NULL AND failures = 0",
        "state = 'dispatched' AND attempt_status = 'dispatched' AND failures = 0"};
    for (size_t i = 0; i < 3; i++) {
        take_over(rig, 111);
        claim_some(rig, ids, 1);
        mysql_fixture_run(&rig->fx, "UPDATE jobs SET %s WHERE id = %lld", edits[i], (long long)ids[0]);
        take_over(rig, 112);
        refuse(rig, 0, 1);
        assert_int_equal(rig->fence.inflight, 0);
        assert_false(rig->done.ended);
        assert_int_equal(field(rig, after[i], ids[0]), 1);
        rig->flight.n = 0;
    }
    take_over(rig, 113);
    claim_some(rig, ids, 1);
    mysql_fixture_run(&rig->fx, "DELETE FROM jobs WHERE id = %lld", (long long)ids[0]);
    take_over(rig, 114);
    refuse(rig, 0, 1);
    assert_int_equal(rig->fence.inflight, 0);
}

static void a_hint_about_anything_but_the_head_of_the_list_changes_nothing(void **state)
{
    struct rig *rig = *state;
    int64_t ids[4];
    take_over(rig, 115);
    claim_some(rig, ids, 4);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 2 WHERE shard = 0");
    take_over(rig, 116);
    refuse(rig, 1, 2);
    assert_int_equal(row_send_n(rig), 2);
    take_over(rig, 117);
    refuse(rig, 0, 3);
    assert_int_equal(row_send_n(rig), 2);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 118);
    refuse(rig, 1, 1);
    assert_int_equal(rig->fence.inflight, 4);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM jobs WHERE attempt_status = 'dispatched'"),
                     4);
}

static void what_the_ledger_has_is_sent_even_if_it_was_refused(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id;
    take_over(rig, 119);
    claim_some(rig, &id, 1);
    take_over(rig, 120);
    const struct dt_findings findings = {.inflight = &rig->flight,
                                         .in_ledger = true,
                                         .next_offset = 9,
                                         .refused = rig->flight,
                                         .refusal = "x",
                                         .map = &rig->map};
    OK(dt_store_takeover_settle(rig->store, &rig->fence, &findings, &rig->done, &err));
    assert_false(rig->done.shrink.undeliverable);
    assert_int_equal(field(rig, "state = 'dispatched' AND attempt_status = 'dispatched'", id), 1);
    assert_int_equal(rig->fence.inflight, 0);
}

static void a_deposed_leader_records_no_refusal(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id;
    take_over(rig, 121);
    claim_some(rig, &id, 1);
    take_over(rig, 122);
    struct dt_fence zombie = rig->fence;
    take_over(rig, 123);
    const struct dt_findings findings = {
        .inflight = &rig->flight, .next_offset = 9, .refused = rig->flight, .refusal = "x", .map = &rig->map};
    assert_int_equal(dt_store_takeover_settle(rig->store, &zombie, &findings, &rig->done, &err), DT_DEPOSED);
    assert_int_equal(field(rig, "attempt_status = 'dispatched'", id), 1);
    assert_int_equal(row_send_n(rig), 1);
}

static void while_a_rest_is_in_flight_nothing_is_claimed_and_nothing_times_out(void **state)
{
    struct rig *rig = *state;
    int64_t ids[5], waiting;
    take_over(rig, 124);
    claim_some(rig, ids, 5);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 125);
    waiting = job(rig, now_ms(rig) - 60000);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5 WHERE state = 'dispatched'");
    int64_t hints[] = {waiting, ids[0], ids[4]};
    struct dt_leader_txn t = leader_txn(rig, hints, 3);
    assert_int_equal(t.settled.n, 1);
    assert_int_equal(t.settled.remainder, 4);
    assert_int_equal(t.batch.n + t.timed_out.n + t.seen.n, 0);
    assert_int_equal(row_send_n(rig), 2);
    t = leader_txn(rig, hints, 3);
    assert_int_equal(t.settled.n, 2);
    assert_int_equal(t.settled.remainder, 2);
    assert_int_equal(row_send_n(rig), 2);
    t = leader_txn(rig, hints, 3); /* the last two: now they may */
    assert_int_equal(t.settled.remainder, 0);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.timed_out.n, 2);
    assert_int_equal(row_send_n(rig), 1);
}

static void only_what_was_sent_gets_a_new_deadline(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t ids[2];
    take_over(rig, 126);
    claim_some(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 127);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = 5");
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    t.sent.list = &rig->flight;
    t.sent.offset = 9;
    t.sent.extend_deadlines = true;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_true(field(rig, "next_at", ids[0]) > now_ms(rig));
    assert_int_equal(field(rig, "next_at", ids[1]), 5);
    assert_int_equal(t.settled.moved.n, 1); /* for the index */
    assert_int_equal(t.settled.moved.v[0].id, ids[0]);
    assert_int_equal(t.settled.moved.v[0].hint_ms, 5);
    assert_int_equal(t.settled.moved.v[0].next_ms, field(rig, "next_at", ids[0]));
}

static void a_send_n_that_makes_no_sense_means_the_whole_list(void **state)
{
    struct rig *rig = *state;
    int64_t ids[3];
    static const int strange[] = {0, -1, 4, 1000000};
    take_over(rig, 128);
    claim_some(rig, ids, 3);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        mysql_fixture_run(&rig->fx, "UPDATE shards SET send_n = %d WHERE shard = 0", strange[i]);
        take_over(rig, 129);
        assert_int_equal(rig->fence.send_n, 3);
    }
}

static void a_message_that_may_be_too_large_is_claimed_alone(void **state)
{
    struct rig *rig = *state;
    int64_t ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = job(rig, now_ms(rig) - 10000 + 1000 * i);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = REPEAT('x', 9000) WHERE id = %lld", (long long)ids[2]);
    take_over(rig, 130);
    rig->most_bytes = 5000;
    struct dt_leader_txn t = leader_txn(rig, ids, 5); /* the two before it, it, the two after it: order is kept */
    assert_int_equal(t.batch.n, 2);
    assert_true(t.chosen.more);
    t = leader_txn(rig, ids, 5);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[2]);
    assert_true(t.chosen.more);
    t = leader_txn(rig, ids, 5);
    assert_int_equal(t.batch.n, 2);
    assert_false(t.chosen.more);
}

static void the_bytes_of_a_batch_are_shared_by_topics(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_hint hints[12];
    int64_t now = now_ms(rig);
    for (int i = 0; i < 10; i++)
        hints[i] = (struct dt_hint){job(rig, now - 10000 + i), 1};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = REPEAT('x', 5000)");
    for (int i = 10; i < 12; i++)
        hints[i] = (struct dt_hint){job_of(rig, "u", now - 1000 + i), 1};
    take_over(rig, 132);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 12);
    t.due.max_bytes = 24000;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    /* both of u, though all of t are longer due; and of t, in order, what the rest has room for */
    assert_int_equal(t.batch.n, 5);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(t.batch.jobs[i].claim.id, hints[i].id);
    assert_int_equal(t.batch.jobs[3].claim.id, hints[10].id);
    assert_int_equal(t.batch.jobs[4].claim.id, hints[11].id);
    assert_true(t.chosen.more);
}

static void those_that_go_alone_take_turns_with_other_topics(void **state)
{
    struct rig *rig = *state;
    int64_t ids[6], now = now_ms(rig), alone = 0, others = 0;
    for (int i = 0; i < 3; i++)
        ids[i] = job(rig, now - 10000 + i);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET payload = REPEAT('x', 9000)");
    for (int i = 3; i < 6; i++)
        ids[i] = job_of(rig, "u", now - 1000 + i);
    take_over(rig, 133);
    rig->most_bytes = 5000;
    for (int i = 0; i < 2; i++) {
        struct dt_leader_txn t = leader_txn(rig, ids, 6);
        alone += t.batch.n == 1 && t.batch.jobs[0].claim.id == ids[0];
        others += t.batch.n == 3 && t.batch.jobs[0].claim.id == ids[3];
        assert_true(t.chosen.more);
    }
    assert_int_equal(alone, 1);
    assert_int_equal(others, 1);
}

static void hints_of_topics_that_nobody_knows_yet_are_counted(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 3000), job(rig, now_ms(rig) - 2000)};
    take_over(rig, 134);
    rig->writable = DT_WRITABLE_UNKNOWN;
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(t.seen.unknown, 2);
    rig->writable = DT_WRITABLE_YES;
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 2);
    assert_int_equal(t.seen.unknown, 0);
}

static void what_queues_up_with_what_is_told_by_id(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t now = now_ms(rig);
    int64_t ids[5] = {job(rig, now), job_of(rig, "u", now), job(rig, now), job(rig, now), job_of(rig, "u", now)};
    struct dt_topic_of of[5];
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'dispatched', attempt = 1 WHERE id = %lld", (long long)ids[2]);
    mysql_fixture_run(&rig->fx, "DELETE FROM jobs WHERE id = %lld", (long long)ids[3]);
    OK(dt_store_topics_of(rig->store, ids, 5, &rig->arena, of, &err));
    assert_true(dt_str_is(of[0].topic, "t") && !of[0].dispatched);
    assert_true(dt_str_is(of[1].topic, "u") && !of[1].dispatched);
    assert_true(dt_str_is(of[2].topic, "t") && of[2].dispatched);
    assert_null(of[3].topic.p);
    assert_true(dt_str_is(of[4].topic, "u") && !of[4].dispatched);
    OK(dt_store_topics_of(rig->store, ids, 0, &rig->arena, of, &err));
}

static void jobs_whose_topic_has_no_row_are_held_and_named(void **state)
{
    struct rig *rig = *state;
    int64_t ids[] = {job(rig, now_ms(rig) - 3000), job_of(rig, "gone", now_ms(rig) - 2000),
                     job_of(rig, "gone", now_ms(rig) - 2000)};
    take_over(rig, 131);
    struct dt_leader_txn t = leader_txn(rig, ids, 3);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.seen.held, 2);
    assert_true(dt_str_is(t.judged.orphan, "gone"));
    assert_false(t.seen.locked);
    assert_int_equal(field(rig, "state+0", ids[1]), 1);
    mysql_fixture_run(&rig->fx, "INSERT INTO topics (name, created_at, updated_at) VALUES ('gone', 0, 0)");
    t = leader_txn(rig, ids + 1, 2); /* made since the snapshot was read: the next leader transaction knows it */
    assert_int_equal(t.batch.n + t.seen.held, 0);
    assert_null(t.judged.orphan.p);
    mysql_fixture_run(&rig->fx, "UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(leader_txn(rig, ids + 1, 2).batch.n, 2);
}

/* ---- trimming, halting ---- */

static void trimming_moves_up_to_what_is_settled_and_counts_as_a_leaders_transaction(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t now = now_ms(rig), version;
    take_over(rig, 141);
    assert_int_equal(rig->fence.trim_offset, -1);
    OK(settle(rig, &rig->fence, false, 77, &err));
    struct dt_fence zombie = rig->fence;
    version = rig->fence.version;
    OK(dt_store_trimmed(rig->store, &rig->fence, &err));
    assert_int_equal(rig->fence.trim_offset, 77);
    assert_int_equal(rig->fence.version, version + 1);
    assert_int_equal(
        mysql_fixture_number(&rig->fx,
                             "SELECT trim_offset = 77 AND trim_at >= %lld AND version = %lld FROM shards WHERE "
                             "shard = 0",
                             (long long)now, (long long)version + 1),
        1);
    assert_int_equal(dt_store_trimmed(rig->store, &zombie, &err), DT_DEPOSED);
    take_over(rig, 142);
    assert_int_equal(rig->fence.trim_offset, 77);
    assert_true(rig->fence.trim_at_ms >= now);
    assert_int_equal(leader_txn(rig, NULL, 0).batch.n, 0); /* the version was kept up with */
}

static void a_list_that_cannot_be_read_halts_its_shard(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    mysql_fixture_run(&rig->fx, "UPDATE shards SET inflight = '[[1,2' WHERE shard = 0");
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 143, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM shards WHERE halted LIKE '%%in-flight%%'"),
                     1);
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 144, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    mysql_fixture_run(&rig->fx, "CALL dt_clear_halt(0, 'drop', NULL)");
    take_over(rig, 145);
    assert_int_equal(rig->fence.inflight, 0);
}

/* ---- scans and housekeeping ---- */

static void scans_see_near_rows_in_order_with_a_cursor(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_due due[10];
    size_t n;
    int64_t now = now_ms(rig), a = job(rig, now + 10), b = job(rig, now + 10), c = job(rig, now + 20);
    job(rig, now + 30 * 24 * HOUR);
    OK(dt_store_scan_due(rig->store, &(struct dt_due_window){now, now + HOUR, 0, 0, 2}, due, &n, &err));
    assert_int_equal(n, 2);
    assert_int_equal(due[0].id, a);
    OK(dt_store_scan_due(rig->store, &(struct dt_due_window){now, now + HOUR, due[0].next_ms, due[0].id, 10}, due, &n,
                         &err));
    assert_int_equal(n, 2);
    assert_int_equal(due[0].id, b);
    assert_int_equal(due[1].id, c);
    int64_t counts[DT_SLOTS], sum = 0, next = 0;
    OK(dt_store_count_due(rig->store, now, now + HOUR, counts, &err));
    for (int i = 0; i < DT_SLOTS; i++)
        sum += counts[i];
    assert_int_equal(sum, 3);
    int64_t third = 0, fourth = 0;
    OK(dt_store_due_nth(rig->store, now, now + HOUR, 2, &third, &err));
    assert_int_equal(third, now + 20);
    OK(dt_store_due_nth(rig->store, now, now + HOUR, 3, &fourth, &err));
    assert_int_equal(fourth, now + HOUR);
    OK(dt_store_next_due(rig->store, &(struct dt_shard_scan){.map = &rig->map, .shard = 0, .now_ms = now, .scan = 100},
                         &next, &err));
    assert_int_equal(next, now + 10);
    struct dt_shard_scan scan = {.map = &rig->map, .now_ms = now + 15, .scan = 100, .out = due, .limit = 10};
    OK(dt_store_scan_shard(rig->store, &scan, &err));
    assert_int_equal(scan.n, 2);
    assert_int_equal(scan.after_id, b);
    assert_true(scan.end);
}

/* How often MariaDB asked an index for entries whose rows it reads as well; 0 on MySQL, which does not count them. */
static int64_t entries_with_rows(struct rig *rig)
{
    struct dt_error err = {0};
    dt_db *db;
    OK(dt_store_db(rig->store, &db, &err));
    OK(dt_db_query_text(db, dt_str("SHOW SESSION STATUS LIKE 'Handler_icp_attempts'"), &err));
    int64_t n = dt_db_next(db) ? strtoll(dt_db_bytes(db, 1).p, NULL, 10) : 0;
    OK(dt_db_end(db, &err));
    return n;
}

static void scan_in_every_way(struct rig *rig, int64_t now)
{
    struct dt_error err = {0};
    struct dt_due due[2048];
    int64_t counts[DT_SLOTS], nth;
    size_t n;
    OK(dt_store_scan_due(rig->store, &(struct dt_due_window){now, now + HOUR, 0, 0, 2048}, due, &n, &err));
    assert_int_equal(n, 2048);
    OK(dt_store_scan_due(rig->store, &(struct dt_due_window){now, now + HOUR, due[7].next_ms, due[7].id, 2048}, due, &n,
                         &err));
    assert_int_equal(n, 2040);
    OK(dt_store_count_due(rig->store, now, now + HOUR, counts, &err));
    OK(dt_store_due_nth(rig->store, now, now + HOUR, 2047, &nth, &err));
}

/* A prepared statement that is run again after others have used the table reads the rows as well. */
static void scans_read_the_index_alone_whatever_others_have_asked(void **state)
{
    struct rig *rig = *state;
    int64_t now = now_ms(rig);
    job(rig, now + 10);
    job_rows_multiply(&rig->fx, 2048, 1);
    int64_t before = entries_with_rows(rig);
    for (int i = 0; i < 3; i++) {
        scan_in_every_way(rig, now);
        assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(payload) FROM jobs"), 2048);
    }
    assert_int_equal(entries_with_rows(rig) - before, 0);
}

static void the_next_job_of_a_shard_is_found_behind_many_of_others(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_shard_map map;
    bool met[64] = {false};
    int64_t now = now_ms(rig), next;
    int behind = 0;
    dt_shard_map_init(&map, 1, 64);
    for (int i = 1; i <= 150; i++) {
        unsigned shard = dt_shard_of(&map, job(rig, now + HOUR + i));
        if (met[shard])
            continue;
        met[shard] = true;
        OK(dt_store_next_due(rig->store,
                             &(struct dt_shard_scan){.map = &map, .shard = shard, .now_ms = now + HOUR, .scan = 1000},
                             &next, &err));
        assert_int_equal(next, now + HOUR + i);
        OK(dt_store_next_due(
            rig->store, &(struct dt_shard_scan){.map = &map, .shard = shard, .now_ms = now + HOUR, .scan = (size_t)i},
            &next, &err));
        assert_int_equal(next, now + HOUR + i);
        if (i == 1)
            continue;
        OK(dt_store_next_due(
            rig->store,
            &(struct dt_shard_scan){.map = &map, .shard = shard, .now_ms = now + HOUR, .scan = (size_t)i - 1}, &next,
            &err));
        assert_int_equal(next, 0); /* more are not looked at */
        behind += i > 40;
    }
    assert_true(behind > 0);
}

static void a_far_job_edited_by_hand_to_soon_is_promoted(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    size_t done;
    int64_t now = now_ms(rig), far = job(rig, now + 300 * 24 * HOUR);
    OK(dt_store_promote(rig->store, now, 100, &done, &err));
    assert_int_equal(done, 0);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)now, (long long)far);
    OK(dt_store_promote(rig->store, now, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(field(rig, "near", far), 1);
    assert_int_equal(field(rig, "due_key", far), now);
}

static void what_was_finished_by_hand_is_tidied(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    size_t done;
    int64_t ids[] = {job(rig, now_ms(rig)), job(rig, now_ms(rig)), job(rig, now_ms(rig))};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'dead', next_at = NULL WHERE id = %lld", (long long)ids[1]);
    OK(dt_store_tidy(rig->store, ids, 3, &done, &err));
    assert_int_equal(done, 2);
    assert_int_equal(mysql_fixture_number(&rig->fx,
                                          "SELECT COUNT(*) FROM jobs WHERE next_at IS NULL AND purge_at > %lld",
                                          (long long)(now_ms(rig) + 24 * HOUR)),
                     2);
    assert_true(field(rig, "next_at", ids[2]) > 0);
}

static void truth_names_the_next_time_and_nothing_for_finished_jobs(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_truths truth;
    int64_t now = now_ms(rig), ids[] = {job(rig, now), job_of(rig, "u", now + 5), 4};
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    OK(dt_store_topic_pause(rig->other, dt_str("u"), true, &err));
    OK(dt_store_truth(rig->store, ids, 3, &rig->arena, &truth, &err));
    assert_int_equal(truth.n, 2);
    assert_int_equal(truth.v[0].next_ms, 0);
    assert_int_equal(truth.v[1].next_ms, now + 5);
    assert_true(truth.v[1].topic_paused);
}

static void notices_are_read_with_their_job_and_deleted_once_sent(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_notices notices;
    const struct dt_outbox_page page = {.limit = 10};
    int64_t id = job(rig, now_ms(rig));
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO outbox (shard, kind, job_id, attempt, made_at) VALUES (0, 'dead', %lld, 3, 9), (1, "
                      "'dead', %lld, 4, 9)",
                      (long long)id, (long long)id);
    OK(dt_store_outbox(rig->store, &page, &rig->arena, &notices, &err));
    assert_int_equal(notices.n, 1);
    assert_int_equal(notices.v[0].attempt, 3);
    assert_true(dt_str_is(notices.v[0].job.payload, "{}"));
    OK(dt_store_outbox_sent(rig->store, &notices.v[0].outbox_id, 1, &err));
    OK(dt_store_outbox(rig->store, &page, &rig->arena, &notices, &err));
    assert_int_equal(notices.n, 0);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM outbox"), 1);
}

static void what_leaders_say_is_kept_per_shard(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_shard_stats stats[] = {{.shard = 1, .epoch = 2, .waiting = "kafka", .detail = "down"},
                                     {.shard = 2, .epoch = 1}};
    OK(dt_store_put_stats(rig->store, stats, 2, &err));
    stats[0].waiting = stats[0].detail = NULL;
    stats[0].drains = 250;
    OK(dt_store_put_stats(rig->store, stats, 1, &err));
    stats[0].drains = 0; /* nothing new: what was measured stays */
    OK(dt_store_put_stats(rig->store, stats, 1, &err));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT drains FROM shard_stats WHERE shard = 1"), 250);
    assert_int_equal(
        mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM shard_stats WHERE waiting IS NULL AND seen_at > 0"), 2);
}

static void a_claimed_job_that_was_edited_by_hand_is_still_sent(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_outgoing *out;
    int64_t ids[] = {job(rig, now_ms(rig) - 5), job(rig, now_ms(rig) - 4)};
    take_over(rig, 95);
    leader_txn(rig, ids, 2);
    mysql_fixture_run(&rig->fx, "UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    mysql_fixture_run(&rig->fx, "DELETE FROM jobs WHERE id = %lld", (long long)ids[1]);
    take_over(rig, 96);
    OK(dt_store_read_outgoing(rig->store, &rig->flight, &rig->arena, &out, &err));
    assert_true(dt_str_is(out[0].topic, "t"));
    assert_true(dt_str_is(out[0].payload, "{}"));
    assert_null(out[1].topic.p);
}

static void stepping_down_clears_the_owner_of_this_leadership_only(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    take_over(rig, 97);
    struct dt_fence old = rig->fence;
    take_over(rig, 98);
    OK(dt_store_step_down(rig->store, &old, &err));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT owner IS NOT NULL FROM shards WHERE shard = 0"), 1);
    OK(dt_store_step_down(rig->store, &rig->fence, &err));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT owner IS NULL FROM shards WHERE shard = 0"), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- connections and commits that are lost ---- */

static int64_t version_of_row(struct rig *rig)
{
    return mysql_fixture_number(&rig->fx, "SELECT version FROM shards WHERE shard = 0");
}

static void a_takeover_whose_commit_is_lost_starts_over_above_what_may_have_been_written(void **state)
{
    struct rig *rig = *state;
    static const enum wire_loss losses[] = {LOSE_BEFORE, LOSE_AFTER};
    for (int i = 0; i < 2; i++) {
        struct dt_error err = {0};
        int64_t epoch = mysql_fixture_number(&rig->fx, "SELECT epoch FROM shards WHERE shard = 0");
        wire_loss = losses[i];
        dt_status status = dt_store_takeover(rig->store, &(struct dt_leadership){0, 101, "host:1", "redis:1"},
                                             &rig->fence, &rig->flight, &err);
        assert_true(status == DT_UNKNOWN || status == DT_UNAVAILABLE);
        assert_int_equal(wire_loss, LOSE_NOTHING);
        take_over(rig, 102);
        assert_int_equal(rig->fence.epoch, epoch + 1 + i);
    }
}

static void a_takeover_needs_no_connection_from_before(void **state)
{
    struct rig *rig = *state;
    take_over(rig, 103);
    mysql_fixture_kill_sessions(&rig->fx);
    take_over(rig, 104);
    assert_int_equal(version_of_row(rig), rig->fence.version);
}

static void a_claim_whose_commit_is_lost_is_in_the_list_or_never_happened(void **state)
{
    struct rig *rig = *state;
    static const enum wire_loss losses[] = {LOSE_BEFORE, LOSE_AFTER};
    for (int i = 0; i < 2; i++) {
        struct dt_error err = {0};
        int64_t id = job(rig, now_ms(rig) - 1000);
        struct dt_hint hint = {id, 1};
        take_over(rig, 105);
        struct dt_fence before = rig->fence;
        struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
        wire_loss = losses[i];
        assert_int_not_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_OK);
        assert_int_equal(t.batch.n, 0);
        assert_memory_equal(&before, &rig->fence, sizeof before);
        take_over(rig, 106);
        assert_int_equal(rig->flight.n, i);
        assert_int_equal(field(rig, "attempt", id), i);
        if (i == 1)
            assert_int_equal(rig->flight.v[0].id, id);
    }
}

/* The row decides, not the connection: epoch, token and version are compared in each transaction. */
static void a_lease_is_good_as_long_as_its_row_whatever_became_of_the_connection(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t id = job(rig, now_ms(rig) - 1000);
    take_over(rig, 107);
    mysql_fixture_kill_sessions(&rig->fx);
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 1);
    mysql_fixture_kill_sessions(&rig->fx);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET version = version + 1 WHERE shard = 0");
    t = leader_txn_of(rig, NULL, 0);
    t.sent.list = &rig->flight;
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_DEPOSED);
}

static void without_a_server_every_step_is_unavailable(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_installation inst;
    struct dt_outgoing *out;
    static char nowhere[] = "/nowhere/there.sock";
    take_over(rig, 108);
    dt_store_free(rig->store);
    char *socket = rig->fx.config.mysql_socket;
    rig->fx.config.mysql_socket = nowhere;
    rig->store = mysql_fixture_store(&rig->fx); /* does not connect yet */
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    struct dt_inflight none = {0};
    struct dt_fence fence;
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_UNAVAILABLE);
    assert_int_equal(
        dt_store_takeover(rig->store, &(struct dt_leadership){0, 1, "host:1", "redis:1"}, &fence, &rig->flight, &err),
        DT_UNAVAILABLE);
    assert_int_equal(settle(rig, &rig->fence, false, 1, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_store_trimmed(rig->store, &rig->fence, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_store_fence_check(rig->store, &rig->fence, &inst, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_store_read_outgoing(rig->store, &none, &rig->arena, &out, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_store_step_down(rig->store, &rig->fence, &err), DT_UNAVAILABLE);
    rig->fx.config.mysql_socket = socket;
}

/* ---- rows that say no ---- */

static void on_a_halted_row_every_transaction_of_its_leader_ends(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_installation inst;
    int64_t id = job(rig, now_ms(rig) - 1000);
    struct dt_hint hint = {id, 1};
    take_over(rig, 109);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET halted = 'by hand' WHERE shard = 0");
    struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_HALTED);
    assert_int_equal(settle(rig, &rig->fence, false, 5, &err), DT_HALTED);
    assert_int_equal(dt_store_trimmed(rig->store, &rig->fence, &err), DT_HALTED);
    assert_int_equal(dt_store_fence_check(rig->store, &rig->fence, &inst, &err), DT_HALTED);
    assert_int_equal(version_of_row(rig), rig->fence.version);
    assert_int_equal(field(rig, "attempt", id), 0);
    mysql_fixture_run(&rig->fx, "UPDATE shards SET halted = NULL");
}

static void a_shard_without_a_row_is_nobodys(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_installation inst;
    struct dt_fence fence;
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){SHARDS, 1, "host:1", "redis:1"}, &fence,
                                       &rig->flight, &err),
                     DT_NOT_FOUND);
    fence = (struct dt_fence){.shard = SHARDS, .epoch = 1, .token = 1, .version = 1};
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    assert_int_equal(dt_leader_txn_commit(rig->store, &fence, &t, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_fence_check(rig->store, &fence, &inst, &err), DT_DEPOSED);
}

static void a_check_of_the_lease_tells_what_the_installation_is_like(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_installation inst = {0};
    take_over(rig, 110);
    mysql_fixture_run(&rig->fx, "UPDATE installation SET generation = 7, topics_version = 11");
    OK(dt_store_fence_check(rig->store, &rig->fence, &inst, &err));
    assert_int_equal(inst.generation, 7);
    assert_int_equal(inst.topics_version, 11);
    assert_int_equal(inst.shards, SHARDS);
}

/* ---- the topic snapshot ---- */

static void the_topic_snapshot_tells_of_topics_as_they_were_last_read(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    const struct dt_topic v = {
        .name = DT_STR_LIT("v"), .kafka_topic = DT_STR_LIT("Elsewhere"), .retention_ms = -1, .paused = true};
    bool created;
    assert_null(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name).p);
    assert_false(dt_topic_snapshot_paused(rig->snapshot, v.name));
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, DT_STR_LIT("t")), "t"));
    OK(dt_store_topic_put(rig->store, &v, true, NULL, &created, &err));
    assert_null(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name).p);
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name), "Elsewhere"));
    assert_true(dt_topic_snapshot_paused(rig->snapshot, v.name));
}

/* A MySQL that went back may say so much later what it says now of other topics. */
static void a_snapshot_that_was_forgotten_is_read_again_at_the_same_version(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    mysql_fixture_run(&rig->fx, "UPDATE topics SET paused = TRUE WHERE name = 't'");
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_false(dt_topic_snapshot_paused(rig->snapshot, DT_STR_LIT("t")));
    dt_topic_snapshot_forget(rig->snapshot);
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, DT_STR_LIT("t")), "t"));
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_topic_snapshot_paused(rig->snapshot, DT_STR_LIT("t")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_in_flight_list_survives_the_way_through_text),
        T(each_takeover_raises_the_epoch_and_deposes_the_one_before),
        T(a_deposed_leader_writes_nothing),
        T(an_equal_epoch_with_another_token_or_version_is_not_ours),
        T(a_halted_shard_is_not_taken_over_until_it_is_cleared),
        T(what_the_ledger_has_is_settled_and_the_rest_stays_in_flight),
        T(a_renewed_deadline_is_never_made_earlier),
        T(a_deadline_that_somebody_holds_locked_is_left_and_not_waited_for),
        T(an_endless_acknowledgement_timeout_written_by_hand_holds_up_nobody),
        T(due_jobs_are_claimed_in_order_and_others_are_told_where_they_belong),
        T(what_is_about_to_be_claimed_is_told_before_anybody_sees_it),
        T(a_batch_with_a_large_message_is_told_of_when_that_was_read),
        T(a_batch_has_the_messages_of_its_claims_small_and_large),
        T(nothing_is_claimed_before_its_time_by_the_servers_clock),
        T(a_batch_keeps_to_its_limits_and_to_the_order),
        T(a_leader_transaction_refuses_to_forget_what_is_in_flight),
        T(a_turn_without_work_writes_nothing),
        T(a_paused_or_unwritable_topic_is_held_and_its_timeouts_go_on),
        T(a_job_of_a_topic_for_pops_is_offered_and_claimed_once_its_topic_is_kafkas),
        T(a_row_locked_by_another_is_left_and_not_waited_for),
        T(a_stale_map_claims_nothing_and_says_so),
        T(an_earlier_attempt_in_another_shards_list_keeps_a_job_back),
        T(a_deadline_waits_until_all_that_was_reported_before_it_has_been_read),
        T(a_deadline_waits_for_a_result_that_is_stored_and_not_applied_yet),
        T(a_deadline_that_passed_is_a_failure_and_a_renewed_one_is_not),
        T(a_refused_list_is_halved_and_stays_in_flight),
        T(an_attempt_refused_alone_ends_as_undeliverable_and_follows_the_retry_policy),
        T(the_last_attempt_refused_alone_ends_in_a_dead_letter),
        T(an_undeliverable_attempt_stands_in_the_history_once_another_follows),
        T(an_undeliverable_attempt_of_a_row_edited_by_hand_is_recorded_and_nothing_else),
        T(a_hint_about_anything_but_the_head_of_the_list_changes_nothing),
        T(what_the_ledger_has_is_sent_even_if_it_was_refused),
        T(a_deposed_leader_records_no_refusal),
        T(while_a_rest_is_in_flight_nothing_is_claimed_and_nothing_times_out),
        T(only_what_was_sent_gets_a_new_deadline),
        T(a_send_n_that_makes_no_sense_means_the_whole_list),
        T(a_message_that_may_be_too_large_is_claimed_alone),
        T(the_bytes_of_a_batch_are_shared_by_topics),
        T(those_that_go_alone_take_turns_with_other_topics),
        T(hints_of_topics_that_nobody_knows_yet_are_counted),
        T(what_queues_up_with_what_is_told_by_id),
        T(jobs_whose_topic_has_no_row_are_held_and_named),
        T(trimming_moves_up_to_what_is_settled_and_counts_as_a_leaders_transaction),
        T(a_list_that_cannot_be_read_halts_its_shard),
        T(scans_see_near_rows_in_order_with_a_cursor),
        T(scans_read_the_index_alone_whatever_others_have_asked),
        T(the_next_job_of_a_shard_is_found_behind_many_of_others),
        T(a_far_job_edited_by_hand_to_soon_is_promoted),
        T(what_was_finished_by_hand_is_tidied),
        T(truth_names_the_next_time_and_nothing_for_finished_jobs),
        T(notices_are_read_with_their_job_and_deleted_once_sent),
        T(what_leaders_say_is_kept_per_shard),
        T(a_claimed_job_that_was_edited_by_hand_is_still_sent),
        T(stepping_down_clears_the_owner_of_this_leadership_only),
        T(a_takeover_whose_commit_is_lost_starts_over_above_what_may_have_been_written),
        T(a_takeover_needs_no_connection_from_before),
        T(a_claim_whose_commit_is_lost_is_in_the_list_or_never_happened),
        T(a_lease_is_good_as_long_as_its_row_whatever_became_of_the_connection),
        T(without_a_server_every_step_is_unavailable),
        T(on_a_halted_row_every_transaction_of_its_leader_ends),
        T(a_shard_without_a_row_is_nobodys),
        T(a_check_of_the_lease_tells_what_the_installation_is_like),
        T(the_topic_snapshot_tells_of_topics_as_they_were_last_read),
        T(a_snapshot_that_was_forgotten_is_read_again_at_the_same_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
