/* store/dispatch/ on a real server: entries that were refused for good, ledgers that are trimmed, shards that halt. */
#include "base/http/callback_rules.h"
#include "contract/dispatch/dispatch_suite.h"

static struct dt_error err;

/* Step 5 after Kafka refused n entries of the list from `first` on, and the ledger has nothing. */
static void refuse(struct rig *rig, size_t first, size_t n)
{
    const struct dt_findings findings = {.inflight = &rig->flight,
                                         .next_offset = rig->fence.ledger_offset + 1,
                                         .refused = {.v = rig->flight.v + first, .n = n},
                                         .refusal = "message too large",
                                         .map = &rig->map};
    OK(dt_store_takeover_settle(rig->store, &rig->fence, &findings, &rig->done, &err));
}

/* ---- refused for good ---- */

static size_t claim_some(struct rig *rig, int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = job(rig, now_ms() - 10000 + (int64_t)i);
    return leader_txn(rig, ids, n).batch.n;
}

static int64_t row_send_n(void)
{
    return sql_number("SELECT send_n FROM shards WHERE shard = 0");
}

RIG_TEST(a_refused_list_is_halved_and_stays_in_flight)
{
    int64_t ids[5];
    take_over(rig, 101);
    assert_int_equal(claim_some(rig, ids, 5), 5);
    assert_int_equal(rig->fence.send_n, 5);
    take_over(rig, 102);
    refuse(rig, 0, 5);
    assert_true(rig->done.shrink.halved);
    assert_members(rig->fence, (send_n, 2), (inflight, 5));
    assert_int_equal(row_send_n(), 2);
    take_over(rig, 103);
    assert_int_equal(rig->fence.send_n, 2);
    assert_int_equal(rig->flight.n, 5);
    assert_sql_number(5, "SELECT COUNT(*) FROM jobs WHERE state = 'dispatched'");
}

RIG_TEST(a_single_refused_attempt_is_undeliverable_and_retried)
{
    int64_t ids[2], now;
    take_over(rig, 104);
    claim_some(rig, ids, 2);
    run_sql("UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 105);
    now = now_ms();
    refuse(rig, 0, 1);
    assert_true(rig->done.shrink.undeliverable);
    assert_false(rig->done.outbox);
    assert_int_equal(rig->fence.inflight, 1);
    assert_int_equal(field("state+0", ids[0]), 1);
    assert_int_equal(field("attempt", ids[0]), 1);
    assert_int_equal(field("failures", ids[0]), 1);
    assert_int_equal(field("attempt_status+0", ids[0]), DT_ATTEMPT_UNDELIVERABLE);
    assert_int_equal(field("error_code = 'undeliverable' AND error_message = 'message too large'", ids[0]), 1);
    assert_true(field("next_at", ids[0]) >= now + 15000);
    assert_members(rig->done, (ended, true), (next_ms, field("next_at", ids[0])));
    assert_int_equal(field("state+0", ids[1]), 2);
    take_over(rig, 106);
    assert_int_equal(rig->flight.n, 1);
    assert_int_equal(rig->flight.v[0].id, ids[1]);
}

RIG_TEST(if_the_last_attempt_is_refused_the_job_gets_a_dead_letter)
{
    int64_t id;
    take_over(rig, 107);
    claim_some(rig, &id, 1);
    run_sql("UPDATE jobs SET failures = 1");
    take_over(rig, 108);
    refuse(rig, 0, 1);
    assert_true(rig->done.outbox);
    assert_int_equal(field("state = 'dead'", id), 1);
    assert_sql_number(1, "SELECT COUNT(*) FROM messages WHERE job_id = %lld AND attempt = 1", (long long)id);
    assert_int_equal(rig->fence.inflight, 0);
}

RIG_TEST(an_undeliverable_attempt_is_archived_when_another_follows)
{
    int64_t id;
    take_over(rig, 109);
    claim_some(rig, &id, 1);
    take_over(rig, 110);
    refuse(rig, 0, 1);
    rig->flight.n = 0;
    run_sql("UPDATE jobs SET next_at = 5");
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
    assert_sql_number(1,
                      "SELECT COUNT(*) FROM attempts WHERE job_id = %lld AND attempt = 1 AND status = 'undeliverable' "
                      "AND error_code = 'undeliverable'",
                      (long long)id);
}

RIG_TEST(an_undeliverable_attempt_of_a_row_edited_by_hand_is_recorded_and_nothing_else)
{
    int64_t ids[3];
    static const char *const edits[] = {"state = 'cancelled', next_at = NULL", "state = 'scheduled'", "attempt = 7"};
    static const char *const after[] = {
        "state = 'cancelled' AND attempt_status = 'undeliverable' AND error_message IS NOT NULL AND failures = 0",
        "state = 'scheduled' AND attempt_status = 'undeliverable' AND error_message IS NOT NULL AND failures = 0",
        "state = 'dispatched' AND attempt_status = 'dispatched' AND failures = 0"};
    for (size_t i = 0; i < 3; i++) {
        take_over(rig, 111);
        claim_some(rig, ids, 1);
        run_sql("UPDATE jobs SET %s WHERE id = %lld", edits[i], (long long)ids[0]);
        take_over(rig, 112);
        refuse(rig, 0, 1);
        assert_int_equal(rig->fence.inflight, 0);
        assert_false(rig->done.ended);
        assert_int_equal(field(after[i], ids[0]), 1);
        rig->flight.n = 0;
    }
    take_over(rig, 113);
    claim_some(rig, ids, 1);
    run_sql("DELETE FROM jobs WHERE id = %lld", (long long)ids[0]);
    take_over(rig, 114);
    refuse(rig, 0, 1);
    assert_int_equal(rig->fence.inflight, 0);
}

RIG_TEST(a_hint_about_anything_but_the_head_of_the_list_changes_nothing)
{
    int64_t ids[4];
    take_over(rig, 115);
    claim_some(rig, ids, 4);
    run_sql("UPDATE shards SET send_n = 2 WHERE shard = 0");
    take_over(rig, 116);
    refuse(rig, 1, 2);
    assert_int_equal(row_send_n(), 2);
    take_over(rig, 117);
    refuse(rig, 0, 3);
    assert_int_equal(row_send_n(), 2);
    run_sql("UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 118);
    refuse(rig, 1, 1);
    assert_int_equal(rig->fence.inflight, 4);
    assert_sql_number(4, "SELECT COUNT(*) FROM jobs WHERE attempt_status = 'dispatched'");
}

RIG_TEST(an_attempt_in_the_ledger_counts_as_sent_even_if_it_was_refused)
{
    int64_t id;
    take_over(rig, 119);
    claim_some(rig, &id, 1);
    take_over(rig, 120);
    const struct dt_findings findings = {.inflight = &rig->flight,
                                         .sent = true,
                                         .next_offset = 9,
                                         .refused = rig->flight,
                                         .refusal = "x",
                                         .map = &rig->map};
    OK(dt_store_takeover_settle(rig->store, &rig->fence, &findings, &rig->done, &err));
    assert_false(rig->done.shrink.undeliverable);
    assert_int_equal(field("state = 'dispatched' AND attempt_status = 'dispatched'", id), 1);
    assert_int_equal(rig->fence.inflight, 0);
}

RIG_TEST(a_deposed_leader_records_no_refusal)
{
    int64_t id;
    take_over(rig, 121);
    claim_some(rig, &id, 1);
    take_over(rig, 122);
    struct dt_fence zombie = rig->fence;
    take_over(rig, 123);
    const struct dt_findings findings = {
        .inflight = &rig->flight, .next_offset = 9, .refused = rig->flight, .refusal = "x", .map = &rig->map};
    assert_int_equal(dt_store_takeover_settle(rig->store, &zombie, &findings, &rig->done, &err), DT_DEPOSED);
    assert_int_equal(field("attempt_status = 'dispatched'", id), 1);
    assert_int_equal(row_send_n(), 1);
}

RIG_TEST(while_part_of_a_list_is_unsent_no_job_is_claimed_or_times_out)
{
    int64_t ids[5], waiting;
    take_over(rig, 124);
    claim_some(rig, ids, 5);
    run_sql("UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 125);
    waiting = job(rig, now_ms() - 60000);
    run_sql("UPDATE jobs SET next_at = 5 WHERE state = 'dispatched'");
    int64_t hints[] = {waiting, ids[0], ids[4]};
    struct dt_leader_txn t = leader_txn(rig, hints, 3);
    assert_members(t.settled, (n, 1), (remainder, 4));
    assert_int_equal(t.batch.n + t.timed_out.n + t.seen.n, 0);
    assert_int_equal(row_send_n(), 2);
    t = leader_txn(rig, hints, 3);
    assert_members(t.settled, (n, 2), (remainder, 2));
    assert_int_equal(row_send_n(), 2);
    t = leader_txn(rig, hints, 3); /* the last two: now they may */
    assert_int_equal(t.settled.remainder, 0);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.timed_out.n, 2);
    assert_int_equal(row_send_n(), 1);
}

RIG_TEST(only_what_was_sent_gets_a_new_deadline)
{
    int64_t ids[2];
    take_over(rig, 126);
    claim_some(rig, ids, 2);
    run_sql("UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 127);
    run_sql("UPDATE jobs SET next_at = 5");
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    t.sent.list = &rig->flight;
    t.sent.offset = 9;
    t.sent.extend_deadlines = true;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_true(field("next_at", ids[0]) > now_ms());
    assert_int_equal(field("next_at", ids[1]), 5);
    assert_int_equal(t.settled.moved.n, 1); /* for the index */
    assert_members(t.settled.moved.v[0], (id, ids[0]), (hint_ms, 5), (next_ms, field("next_at", ids[0])));
}

RIG_TEST(an_invalid_send_n_means_the_whole_list)
{
    int64_t ids[3];
    static const int strange[] = {0, -1, 4, 1000000};
    take_over(rig, 128);
    claim_some(rig, ids, 3);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        run_sql("UPDATE shards SET send_n = %d WHERE shard = 0", strange[i]);
        take_over(rig, 129);
        assert_int_equal(rig->fence.send_n, 3);
    }
}

RIG_TEST(a_message_that_may_be_too_large_is_claimed_alone)
{
    int64_t ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = job(rig, now_ms() - 10000 + 1000 * i);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 9000) WHERE id = %lld", (long long)ids[2]);
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

RIG_TEST(the_bytes_of_a_batch_are_shared_by_topics)
{
    struct dt_hint hints[12];
    int64_t now = now_ms();
    for (int i = 0; i < 10; i++)
        hints[i] = (struct dt_hint){job(rig, now - 10000 + i), 1};
    run_sql("UPDATE jobs SET payload = REPEAT('x', 5000)");
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

RIG_TEST(an_owner_with_three_topics_gets_as_many_bytes_as_an_owner_with_one)
{
    static const char *const topics[] = {"a.1", "a.2", "a.3", "u"};
    int64_t ids[16], now = now_ms(), others = 0;
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('a.1', 0, 0), ('a.2', 0, 0), ('a.3', 0, 0)");
    for (int i = 0; i < 16; i++)
        ids[i] = job_of(rig, topics[i / 4], now - 10000 + i);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 5000)");
    take_over(rig, 135);
    rig->batch_bytes = 48800; /* of eight */
    struct dt_leader_txn t = leader_txn(rig, ids, 16);
    for (size_t i = 0; i < t.batch.n; i++)
        others += t.batch.jobs[i].claim.id >= ids[12];
    assert_int_equal(t.batch.n, 8);
    assert_int_equal(others, 4);
}

RIG_TEST(jobs_that_are_sent_alone_take_turns_with_other_topics)
{
    int64_t ids[6], now = now_ms(), alone = 0, others = 0;
    for (int i = 0; i < 3; i++)
        ids[i] = job(rig, now - 10000 + i);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 9000)");
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

/* ---- a backlog that is due before all others ---- */

#define HOT 10

/* Ten jobs of t are due, then one of u. Returns in which batch that one goes; from 1 on. */
static int batches_until_the_other_goes(struct rig *rig, int64_t ids[HOT + 1])
{
    for (int batch = 1; batch <= HOT; batch++) {
        struct dt_leader_txn t = leader_txn(rig, ids, HOT + 1);
        for (size_t i = 0; i < t.batch.n; i++)
            if (t.batch.jobs[i].claim.id == ids[HOT])
                return batch;
        assert_true(t.batch.n > 0);
    }
    return HOT + 1;
}

static void make_backlog(struct rig *rig, int64_t ids[HOT + 1])
{
    int64_t now = now_ms();
    for (int i = 0; i < HOT; i++)
        ids[i] = job(rig, now - 10000 + i);
    ids[HOT] = job_of(rig, "u", now - 1000);
    take_over(rig, 134);
}

RIG_TEST(another_owner_gets_its_turn_when_a_batch_has_one_topic)
{
    int64_t ids[HOT + 1];
    make_backlog(rig, ids);
    rig->batch_topics = rig->batch_jobs = 1;
    assert_in_range(batches_until_the_other_goes(rig, ids), 1, 4);
}

RIG_TEST(another_topic_gets_its_turn_when_a_batch_has_the_bytes_of_one_job)
{
    int64_t ids[HOT + 1];
    make_backlog(rig, ids);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 3000)");
    rig->batch_bytes = 5000;
    assert_in_range(batches_until_the_other_goes(rig, ids), 1, 4);
}

/* Two large ones, and a small one behind the second: whatever the turn, something goes. */
RIG_TEST(a_batch_is_not_empty_if_a_small_job_follows_one_that_is_sent_alone)
{
    int64_t ids[3], now = now_ms();
    ids[0] = job(rig, now - 1000);
    ids[1] = job_of(rig, "u", now - 900);
    ids[2] = job_of(rig, "u", now - 800);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 9000) WHERE id <> %lld", (long long)ids[2]);
    take_over(rig, 136);
    rig->most_bytes = 5000;
    rig->turns.round = 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(leader_txn(rig, ids, 3).batch.n, 1);
}

/* Three owners, one of which has three topics, and room for two: no topic misses its turn for ever. */
RIG_TEST(all_topics_of_an_owner_get_their_turn_among_as_many_owners)
{
    static const char *const topics[] = {"a.1", "a.2", "a.3", "b", "c"};
    int64_t ids[50], now = now_ms();
    bool gone[5] = {false};
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('a.1', 0, 0), ('a.2', 0, 0), ('a.3', 0, 0), "
            "('b', 0, 0), ('c', 0, 0)");
    for (int i = 0; i < 50; i++)
        ids[i] = job_of(rig, topics[i % 5], now - 10000 + i);
    take_over(rig, 137);
    rig->batch_topics = rig->batch_jobs = 2;
    for (int batch = 0; batch < 18; batch++) {
        struct dt_leader_txn t = leader_txn(rig, ids, 50);
        for (size_t i = 0; i < t.batch.n; i++)
            for (int k = 0; k < 50; k++)
                gone[k % 5] |= ids[k] == t.batch.jobs[i].claim.id;
    }
    for (int i = 0; i < 5; i++)
        assert_true(gone[i]);
}

#define OWNERS 6

/* Six owners, whose jobs have 3,000 bytes each; twelve batches of one job: each owner has two. */
static void assert_each_owner_has_two_of_twelve(struct rig *rig, int64_t token)
{
    char topic[4] = "o0";
    int64_t ids[4 * OWNERS], now = now_ms();
    int gone[OWNERS] = {0};
    for (int i = 0; i < 4 * OWNERS; i++) {
        topic[1] = (char)('0' + i % OWNERS);
        if (i < OWNERS)
            run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('%s', 0, 0)", topic);
        ids[i] = job_of(rig, topic, now - 10000 + i);
    }
    run_sql("UPDATE jobs SET payload = REPEAT('x', 3000)");
    take_over(rig, token);
    rig->batch_topics = 3;
    for (int batch = 0; batch < 2 * OWNERS; batch++) {
        struct dt_leader_txn t = leader_txn(rig, ids, 4 * OWNERS);
        assert_int_equal(t.batch.n, 1);
        for (int k = 0; k < 4 * OWNERS; k++)
            gone[k % OWNERS] += ids[k] == t.batch.jobs[0].claim.id;
    }
    for (int i = 0; i < OWNERS; i++)
        assert_int_equal(gone[i], 2);
}

RIG_TEST(owners_take_turns_when_fewer_messages_fit_than_a_batch_has_topics)
{
    rig->batch_bytes = 5000;
    assert_each_owner_has_two_of_twelve(rig, 138);
}

RIG_TEST(owners_take_turns_when_all_messages_go_alone)
{
    rig->most_bytes = 2000;
    assert_each_owner_has_two_of_twelve(rig, 139);
}

RIG_TEST(a_kafka_topic_that_several_owners_use_counts_once)
{
    char topic[4] = "o0";
    int64_t ids[OWNERS], now = now_ms();
    for (int i = 0; i < OWNERS; i++) {
        topic[1] = (char)('0' + i);
        run_sql("INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('%s', %s, 0, 0)", topic,
                i ? "'shared'" : "NULL");
        ids[i] = job_of(rig, topic, now - 1000 + i);
    }
    take_over(rig, 140);
    rig->batch_topics = 2;
    assert_int_equal(leader_txn(rig, ids, OWNERS).batch.n, OWNERS);
}

RIG_TEST(a_job_that_must_be_sent_alone_is_not_starved)
{
    int64_t ids[HOT + 1];
    make_backlog(rig, ids);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 9000) WHERE topic = 'u'");
    rig->most_bytes = 5000;
    rig->batch_jobs = 1;
    assert_in_range(batches_until_the_other_goes(rig, ids), 1, 4);
}

RIG_TEST(hints_of_unknown_topics_are_counted)
{
    int64_t ids[] = {job(rig, now_ms() - 3000), job(rig, now_ms() - 2000)};
    take_over(rig, 134);
    rig->writable = DT_WRITABLE_UNKNOWN;
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(t.seen.n_unknown, 2);
    rig->writable = DT_WRITABLE_YES;
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 2);
    assert_int_equal(t.seen.n_unknown, 0);
}

RIG_TEST(the_topics_and_hosts_of_jobs_are_read_by_id)
{
    int64_t now = now_ms();
    int64_t ids[5] = {job(rig, now), job_of(rig, "u", now), job(rig, now), job(rig, now), job_of(rig, "u", now)};
    struct dt_topic_of of[5];
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1 WHERE id = %lld", (long long)ids[2]);
    run_sql("DELETE FROM jobs WHERE id = %lld", (long long)ids[3]);
    run_sql("UPDATE jobs SET callback_url = 'http://a.test/x' WHERE id = %lld", (long long)ids[4]);
    OK(dt_store_topics_of(rig->store, ids, 5, &rig->arena, of, &err));
    assert_true(dt_str_is(of[0].topic, "t") && !of[0].dispatched);
    assert_true(dt_str_is(of[1].topic, "u") && !of[1].dispatched);
    assert_true(dt_str_is(of[2].topic, "t") && of[2].dispatched);
    assert_null(of[3].topic.p);
    assert_true(dt_str_is(of[4].topic, "u") && !of[4].dispatched);
    assert_int_equal(of[0].host, 0);
    assert_int_equal(of[4].host, dt_callback_host_of(DT_STR_LIT("http://a.test:80/")));
    OK(dt_store_topics_of(rig->store, ids, 0, &rig->arena, of, &err));
}

RIG_TEST(jobs_whose_topic_has_no_row_are_held_and_named)
{
    int64_t ids[] = {job(rig, now_ms() - 3000), job_of(rig, "gone", now_ms() - 2000),
                     job_of(rig, "gone", now_ms() - 2000)};
    take_over(rig, 131);
    struct dt_leader_txn t = leader_txn(rig, ids, 3);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.seen.held, 2);
    assert_true(dt_str_is(t.judged.orphan, "gone"));
    assert_false(t.seen.locked);
    assert_int_equal(field("state+0", ids[1]), 1);
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('gone', 0, 0)");
    t = leader_txn(rig, ids + 1, 2); /* made since the snapshot was read: the next leader transaction knows it */
    assert_int_equal(t.batch.n + t.seen.held, 0);
    assert_null(t.judged.orphan.p);
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(leader_txn(rig, ids + 1, 2).batch.n, 2);
}

/* ---- trimming, halting ---- */

RIG_TEST(trimming_advances_to_the_settled_offset_under_the_fence)
{
    int64_t now = now_ms(), version;
    take_over(rig, 141);
    assert_int_equal(rig->fence.trim_offset, -1);
    OK(settle(rig, &rig->fence, false, 77, &err));
    struct dt_fence zombie = rig->fence;
    version = rig->fence.version;
    OK(dt_store_trimmed(rig->store, &rig->fence, &err));
    assert_members(rig->fence, (trim_offset, 77), (version, version + 1));
    assert_sql_number(1, "SELECT trim_offset = 77 AND trim_at >= %lld AND version = %lld FROM shards WHERE shard = 0",
                      (long long)now, (long long)version + 1);
    assert_int_equal(dt_store_trimmed(rig->store, &zombie, &err), DT_DEPOSED);
    take_over(rig, 142);
    assert_int_equal(rig->fence.trim_offset, 77);
    assert_true(rig->fence.trim_at_ms >= now);
    assert_int_equal(leader_txn(rig, NULL, 0).batch.n, 0); /* the version was kept up with */
}

RIG_TEST(an_unreadable_list_halts_its_shard)
{
    run_sql("UPDATE shards SET inflight = '[[1,2' WHERE shard = 0");
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 143, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    assert_sql_number(1, "SELECT COUNT(*) FROM shards WHERE halted LIKE '%%in-flight%%'");
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 144, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    run_sql("CALL dt_clear_halt(0, 'drop', NULL)");
    take_over(rig, 145);
    assert_int_equal(rig->fence.inflight, 0);
}
