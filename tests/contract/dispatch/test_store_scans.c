/* store/dispatch/ on a real server: scans, housekeeping, lost connections, rows that say no, the snapshot of topics. */
#include "contract/dispatch/dispatch_suite.h"
#include "topic/topics.h"

static struct dt_error err;

/* ---- scans and housekeeping ---- */

RIG_TEST(scans_see_near_rows_in_order_with_a_cursor)
{
    struct dt_due due[10];
    size_t n;
    int64_t now = now_ms(), a = job(rig, now + 10), b = job(rig, now + 10), c = job(rig, now + 20);
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
    assert_members(scan, (n, 2), (after_id, b), (end, true));
}

/* How often MariaDB asked an index for entries whose rows it reads as well; 0 on MySQL, which does not count them. */
static int64_t entries_with_rows(struct rig *rig)
{
    dt_db *db;
    OK(dt_store_db(rig->store, &db, &err));
    OK(dt_db_query_text(db, dt_str("SHOW SESSION STATUS LIKE 'Handler_icp_attempts'"), &err));
    int64_t n = dt_db_next(db) ? strtoll(dt_db_bytes(db, 1).p, NULL, 10) : 0;
    OK(dt_db_end(db, &err));
    return n;
}

static void scan_in_every_way(struct rig *rig, int64_t now)
{
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
RIG_TEST(scans_read_only_the_index_whatever_the_statistics)
{
    int64_t now = now_ms();
    job(rig, now + 10);
    job_rows_multiply(2048, 1);
    int64_t before = entries_with_rows(rig);
    for (int i = 0; i < 3; i++) {
        scan_in_every_way(rig, now);
        assert_sql_number(2048, "SELECT COUNT(payload) FROM jobs");
    }
    assert_int_equal(entries_with_rows(rig) - before, 0);
}

RIG_TEST(the_next_job_of_a_shard_is_found_after_many_of_other_shards)
{
    struct dt_shard_map map;
    bool met[64] = {false};
    int64_t now = now_ms(), next;
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

RIG_TEST(a_far_job_edited_by_hand_to_soon_is_promoted)
{
    size_t done;
    int64_t now = now_ms(), far = job(rig, now + 300 * 24 * HOUR);
    OK(dt_store_promote(rig->store, now, 100, &done, &err));
    assert_int_equal(done, 0);
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)now, (long long)far);
    OK(dt_store_promote(rig->store, now, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(field("near", far), 1);
    assert_int_equal(field("due_key", far), now);
}

RIG_TEST(a_job_leaves_the_due_index_when_a_manual_edit_ends_it)
{
    size_t done;
    int64_t ids[] = {job(rig, now_ms()), job(rig, now_ms()), job(rig, now_ms())};
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL WHERE id = %lld", (long long)ids[1]);
    assert_sql_number(1, "SELECT COUNT(*) FROM jobs WHERE due_band = 1");
    OK(dt_store_promote(rig->store, now_ms(), 1, &done, &err)); /* a step is bounded */
    assert_int_equal(done, 1);
    OK(dt_store_promote(rig->store, now_ms(), 100, &done, &err));
    assert_int_equal(done, 1);
    OK(dt_store_promote(rig->store, now_ms(), 100, &done, &err));
    assert_int_equal(done, 0);
    assert_sql_number(2, "SELECT COUNT(*) FROM jobs WHERE next_at IS NULL AND purge_at > %lld",
                      (long long)(now_ms() + 24 * HOUR));
    assert_true(field("next_at", ids[2]) > 0);
}

RIG_TEST(the_true_next_time_of_a_finished_job_is_0)
{
    struct dt_truths truth;
    int64_t now = now_ms(), ids[] = {job(rig, now), job_of(rig, "u", now + 5), 4};
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    OK(dt_store_topic_pause(rig->other, dt_str("u"), true, NULL, &err));
    OK(dt_store_truth(rig->store, ids, 3, &rig->arena, &truth, &err));
    assert_int_equal(truth.n, 2);
    assert_int_equal(truth.v[0].next_ms, 0);
    assert_members(truth.v[1], (next_ms, now + 5), (topic_paused, true));
}

RIG_TEST(reports_of_leaders_are_stored_per_shard)
{
    struct dt_shard_stats stats[] = {{.shard = 1, .epoch = 2, .waiting = "kafka", .detail = "down"},
                                     {.shard = 2, .epoch = 1}};
    OK(dt_store_put_stats(rig->store, stats, 2, &err));
    stats[0].waiting = stats[0].detail = NULL;
    stats[0].drains = 250;
    OK(dt_store_put_stats(rig->store, stats, 1, &err));
    stats[0].drains = 0; /* nothing new: what was measured stays */
    OK(dt_store_put_stats(rig->store, stats, 1, &err));
    assert_sql_number(250, "SELECT drains FROM shard_stats WHERE shard = 1");
    assert_sql_number(2, "SELECT COUNT(*) FROM shard_stats WHERE waiting IS NULL AND seen_at > 0");
}

RIG_TEST(a_claimed_job_that_was_edited_by_hand_is_still_sent)
{
    struct dt_outgoing *out;
    int64_t ids[] = {job(rig, now_ms() - 5), job(rig, now_ms() - 4)};
    take_over(rig, 95);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id = %lld", (long long)ids[0]);
    run_sql("DELETE FROM jobs WHERE id = %lld", (long long)ids[1]);
    take_over(rig, 96);
    OK(dt_store_read_outgoing(rig->store, &rig->flight, &rig->arena, &out, &err));
    assert_true(dt_str_is(out[0].topic, "t"));
    assert_true(dt_str_is(out[0].payload, "{}"));
    assert_null(out[1].topic.p);
}

RIG_TEST(stepping_down_clears_the_owner_of_this_leadership_only)
{
    take_over(rig, 97);
    struct dt_fence old = rig->fence;
    take_over(rig, 98);
    OK(dt_store_step_down(rig->store, &old, &err));
    assert_sql_number(1, "SELECT owner IS NOT NULL FROM shards WHERE shard = 0");
    OK(dt_store_step_down(rig->store, &rig->fence, &err));
    assert_sql_number(1, "SELECT owner IS NULL FROM shards WHERE shard = 0");
}

/* ---- connections and commits that are lost ---- */

static int64_t version_of_row(void)
{
    return sql_number("SELECT version FROM shards WHERE shard = 0");
}

RIG_TEST(a_takeover_with_a_lost_commit_restarts_with_a_higher_epoch)
{
    static const enum wire_loss losses[] = {LOSE_BEFORE, LOSE_AFTER};
    for (int i = 0; i < 2; i++) {
        int64_t epoch = sql_number("SELECT epoch FROM shards WHERE shard = 0");
        wire_loss = losses[i];
        dt_status status = dt_store_takeover(rig->store, &(struct dt_leadership){0, 101, "host:1", "redis:1"},
                                             &rig->fence, &rig->flight, &err);
        assert_true(status == DT_UNKNOWN || status == DT_UNAVAILABLE);
        assert_int_equal(wire_loss, LOSE_NOTHING);
        take_over(rig, 102);
        assert_int_equal(rig->fence.epoch, epoch + 1 + i);
    }
}

RIG_TEST(a_takeover_uses_a_new_connection)
{
    take_over(rig, 103);
    mysql_fixture_kill_sessions();
    take_over(rig, 104);
    assert_int_equal(version_of_row(), rig->fence.version);
}

RIG_TEST(a_claim_with_a_lost_commit_is_either_complete_or_absent)
{
    static const enum wire_loss losses[] = {LOSE_BEFORE, LOSE_AFTER};
    for (int i = 0; i < 2; i++) {
        int64_t id = job(rig, now_ms() - 1000);
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
        assert_int_equal(field("attempt", id), i);
        if (i == 1)
            assert_int_equal(rig->flight.v[0].id, id);
    }
}

/* The row decides, not the connection: epoch, token and version are compared in each transaction. */
RIG_TEST(a_fence_is_valid_while_its_row_is_even_after_a_reconnect)
{
    int64_t id = job(rig, now_ms() - 1000);
    take_over(rig, 107);
    mysql_fixture_kill_sessions();
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 1);
    mysql_fixture_kill_sessions();
    run_sql("UPDATE shards SET version = version + 1 WHERE shard = 0");
    t = leader_txn_of(rig, NULL, 0);
    t.sent.list = &rig->flight;
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_DEPOSED);
}

RIG_TEST(without_a_server_every_step_is_unavailable)
{
    struct dt_installation inst;
    struct dt_outgoing *out;
    static char nowhere[] = "/nowhere/there.sock";
    take_over(rig, 108);
    dt_store_free(rig->store);
    char *socket = mysql_fixture.config.mysql_socket;
    mysql_fixture.config.mysql_socket = nowhere;
    rig->store = mysql_fixture_store(); /* does not connect yet */
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
    mysql_fixture.config.mysql_socket = socket;
}

/* ---- rows that say no ---- */

RIG_TEST(on_a_halted_row_every_leader_transaction_fails)
{
    struct dt_installation inst;
    int64_t id = job(rig, now_ms() - 1000);
    struct dt_hint hint = {id, 1};
    take_over(rig, 109);
    run_sql("UPDATE shards SET halted = 'by hand' WHERE shard = 0");
    struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
    assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_HALTED);
    assert_int_equal(settle(rig, &rig->fence, false, 5, &err), DT_HALTED);
    assert_int_equal(dt_store_trimmed(rig->store, &rig->fence, &err), DT_HALTED);
    assert_int_equal(dt_store_fence_check(rig->store, &rig->fence, &inst, &err), DT_HALTED);
    assert_int_equal(version_of_row(), rig->fence.version);
    assert_int_equal(field("attempt", id), 0);
    run_sql("UPDATE shards SET halted = NULL");
}

RIG_TEST(a_shard_without_a_row_cannot_be_led)
{
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

RIG_TEST(a_fence_check_returns_the_state_of_the_installation)
{
    struct dt_installation inst = {0};
    take_over(rig, 110);
    run_sql("UPDATE installation SET generation = 7, topics_version = 11");
    OK(dt_store_fence_check(rig->store, &rig->fence, &inst, &err));
    assert_members(inst, (generation, 7), (topics_version, 11), (shards, SHARDS));
}

/* ---- the topic snapshot ---- */

RIG_TEST(the_topic_snapshot_has_the_topics_as_last_read)
{
    const struct dt_topic v = {
        .name = DT_STR_LIT("v"), .kafka_topic = DT_STR_LIT("Elsewhere"), .retention_ms = -1, .paused = true};
    struct dt_topic_now now = {.arena = &rig->arena};
    assert_null(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name).p);
    assert_false(dt_topic_snapshot_paused(rig->snapshot, v.name));
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, DT_STR_LIT("t")), "t"));
    OK(dt_store_topic_put(rig->store, &v, true, NULL, &now, &err));
    assert_null(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name).p);
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, v.name), "Elsewhere"));
    assert_true(dt_topic_snapshot_paused(rig->snapshot, v.name));
}

/* A MySQL that went back may say so much later what it says now of other topics. */
RIG_TEST(an_invalidated_snapshot_is_read_again_at_the_same_version)
{
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    run_sql("UPDATE topics SET paused = TRUE WHERE name = 't'");
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_false(dt_topic_snapshot_paused(rig->snapshot, DT_STR_LIT("t")));
    dt_topic_snapshot_forget(rig->snapshot);
    assert_true(dt_str_is(dt_topic_snapshot_kafka_topic(rig->snapshot, DT_STR_LIT("t")), "t"));
    OK(dt_store_read_topics(rig->store, rig->snapshot, &err));
    assert_true(dt_topic_snapshot_paused(rig->snapshot, DT_STR_LIT("t")));
}
