/* store/dispatch/ on a real server: the list, takeover and claims. */
#include "contract/dispatch/dispatch_suite.h"
#include "topic/topics.h"

static struct dt_error err;

static dt_status halt(struct rig *rig, struct dt_fence *fence, const char *reason, struct dt_error *why)
{
    const struct dt_findings findings = {.inflight = &rig->flight, .halt = reason};
    return dt_store_takeover_settle(rig->store, fence, &findings, &rig->done, why);
}

/* ---- the list as text ---- */

TEST(an_in_flight_list_written_as_text_is_read_back_unchanged)
{
    struct dt_claim v[] = {{INT64_C(758663023165448), 1, 1795273967083}, {7, 2147483647, 0}, {8, 1, -5}};
    struct dt_inflight back = {0};
    struct dt_strbuf text = {0};
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

RIG_TEST(each_takeover_raises_the_epoch_and_deposes_the_last_leader)
{
    struct dt_installation inst;
    take_over(rig, 11);
    struct dt_fence old = rig->fence;
    OK(dt_store_fence_check(rig->store, &old, &inst, &err));
    take_over(rig, 12);
    assert_int_equal(rig->fence.epoch, old.epoch + 1);
    assert_int_equal(dt_store_fence_check(rig->store, &old, &inst, &err), DT_DEPOSED);
    OK(dt_store_fence_check(rig->store, &rig->fence, &inst, &err));
}

RIG_TEST(a_deposed_leader_writes_nothing)
{
    int64_t id = job(rig, now_ms() - 1000);
    struct dt_hint hint = {id, 1};
    take_over(rig, 21);
    struct dt_fence zombie = rig->fence;
    take_over(rig, 22);
    struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
    assert_int_equal(dt_leader_txn_commit(rig->store, &zombie, &t, &err), DT_DEPOSED);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(field("state+0", id), 1);
    assert_int_equal(halt(rig, &zombie, "never", &err), DT_DEPOSED);
    assert_sql_number(0, "SELECT COUNT(*) FROM shards WHERE halted IS NOT NULL");
}

RIG_TEST(an_equal_epoch_with_another_token_or_version_is_not_ours)
{
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    static const char *const changes[] = {"token = token + 1", "version = version + 1", "version = version - 1",
                                          "epoch = epoch - 1"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        take_over(rig, 31);
        run_sql("UPDATE shards SET %s WHERE shard = 0", changes[i]);
        assert_int_equal(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err), DT_DEPOSED);
    }
}

RIG_TEST(a_halted_shard_is_not_taken_over_until_it_is_cleared)
{
    struct dt_leader_txn t = leader_txn_of(rig, NULL, 0);
    take_over(rig, 41);
    struct dt_fence before = rig->fence;
    OK(halt(rig, &rig->fence, "the ledger disagrees", &err));
    assert_int_not_equal(dt_leader_txn_commit(rig->store, &before, &t, &err), DT_OK);
    assert_int_equal(dt_store_takeover(rig->store, &(struct dt_leadership){0, 42, "host:1", "redis:1"}, &rig->fence,
                                       &rig->flight, &err),
                     DT_HALTED);
    assert_non_null(strstr(err.text, "the ledger disagrees"));
    run_sql("UPDATE shards SET halted = NULL");
    take_over(rig, 43);
}

RIG_TEST(attempts_in_the_ledger_are_settled_and_the_others_stay_in_flight)
{
    int64_t ids[] = {job(rig, now_ms() - 2000), job(rig, now_ms() - 1000)};
    take_over(rig, 51);
    assert_int_equal(leader_txn(rig, ids, 2).batch.n, 2);
    run_sql("UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[0]);
    run_sql("UPDATE shards SET send_n = 1 WHERE shard = 0");
    take_over(rig, 52);
    assert_int_equal(rig->flight.n, 2);
    assert_int_equal(rig->fence.send_n, 1);
    OK(settle(rig, &rig->fence, true, 77, &err));
    assert_members(rig->fence, (ledger_offset, 77), (inflight, 1));
    assert_true(field("next_at", ids[0]) > now_ms() + 50000);
    take_over(rig, 53);
    assert_int_equal(rig->flight.n, 1);
    assert_int_equal(rig->flight.v[0].id, ids[1]);
}

RIG_TEST(a_renewed_deadline_is_never_made_earlier)
{
    int64_t id = job(rig, now_ms() - 1000), late = now_ms() + 24 * HOUR;
    take_over(rig, 61);
    leader_txn(rig, &id, 1);
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)late, (long long)id);
    take_over(rig, 62);
    OK(settle(rig, &rig->fence, true, 3, &err));
    assert_int_equal(field("next_at", id), late);
}

RIG_TEST(a_deadline_in_a_locked_row_is_skipped)
{
    int64_t ids[] = {job(rig, now_ms() - 2000), job(rig, now_ms() - 1000)};
    take_over(rig, 63);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET next_at = 5");
    take_over(rig, 64);
    run_sql("START TRANSACTION");
    sql_number("SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)ids[0]);
    OK(settle(rig, &rig->fence, true, 3, &err));
    run_sql("ROLLBACK");
    assert_int_equal(field("next_at", ids[0]), 5);
    assert_true(field("next_at", ids[1]) > now_ms() + 50000);
    assert_int_equal(rig->fence.inflight, 0);
}

RIG_TEST(an_endless_ack_timeout_written_by_hand_delays_no_other_job)
{
    int64_t ids[] = {job(rig, now_ms() - 2000), job(rig, now_ms() - 1000)};
    run_sql("UPDATE jobs SET ack_timeout_ms = 9223372036854775807 WHERE id = %lld", (long long)ids[0]);
    take_over(rig, 65);
    assert_int_equal(leader_txn(rig, ids, 2).batch.n, 2);
    assert_true(field("next_at", ids[0]) > now_ms() + 24 * 365 * 50 * HOUR);
    assert_int_equal(field("near", ids[0]), 0);
    take_over(rig, 66);
    OK(settle(rig, &rig->fence, true, 3, &err));
}

/* ---- claims ---- */

RIG_TEST(due_jobs_are_claimed_in_order_and_jobs_of_other_shards_are_reported)
{
    int64_t now = now_ms(), later = now + HOUR;
    int64_t ids[] = {job(rig, now - 1000), job(rig, now - 3000), job(rig, later), rig->next_id + 1000000, 0};
    ids[4] = job(rig, now - 10);
    run_sql("UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %lld", (long long)ids[4]);
    take_over(rig, 71);
    struct dt_leader_txn t = leader_txn(rig, ids, 5);
    assert_int_equal(t.batch.n, 2);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_int_equal(t.batch.jobs[1].claim.id, ids[0]);
    assert_members(t.batch.jobs[0].claim, (attempt, 1), (due_ms, now - 3000));
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
            assert_int_equal(s->next_ms, field("next_at", s->id));
    }
    assert_int_equal(field("state+0", ids[0]), 2);
    assert_int_equal(field("claim_shard", ids[0]), 0);
    assert_int_equal(field("due_at", ids[0]), now - 1000);
    assert_int_equal(field("state+0", ids[2]), 1);
    assert_sql_number(1, "SELECT INSTR(inflight, '[%lld,1,') > 0 FROM shards WHERE shard = 0", (long long)ids[0]);
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
        assert_int_equal(field("attempt", claims[i].id), 0); /* as everybody else sees it */
    }
    assert_int_equal(sql_number("SELECT LENGTH(inflight) FROM shards WHERE shard = 0"), 2);
}

RIG_TEST(the_leader_is_called_with_a_claim_before_others_can_see_it)
{
    struct told told = {.rig = rig};
    struct dt_hint hints[3];
    int64_t now = now_ms();
    for (int i = 0; i < 3; i++)
        hints[i] = (struct dt_hint){job(rig, now - 1000 - i), 1};
    run_sql("UPDATE jobs SET payload = 'small'");
    take_over(rig, 75);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 3);
    t.listener.claiming = note_claiming;
    t.listener.arg = &told;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_members(told, (times, 1), (n, t.batch.n));
    for (size_t i = 0; i < t.batch.n; i++) {
        assert_members(told.claims[i], (id, t.batch.jobs[i].claim.id), (attempt, 1));
        assert_true(dt_str_is(told.payloads[i], "small"));
    }
    assert_members(told.next, (epoch, rig->fence.epoch), (token, rig->fence.token), (batch_no, rig->fence.batch_no),
                   (send_n, rig->fence.send_n));
}

RIG_TEST(the_leader_is_called_after_large_messages_of_a_batch_were_read)
{
    struct told told = {.rig = rig};
    int64_t now = now_ms();
    const struct dt_hint hints[2] = {{job(rig, now - 1000), 1}, {job(rig, now - 900), 1}};
    run_sql("UPDATE jobs SET payload = REPEAT('x', 5000) WHERE id = %lld", (long long)hints[1].id);
    take_over(rig, 76);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 2);
    t.listener.claiming = note_claiming;
    t.listener.arg = &told;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n, 2);
    assert_members(told, (times, 1), (n, 2));
    assert_int_equal(told.payloads[1].n, 5000);
}

RIG_TEST(a_batch_has_the_small_and_large_messages_of_its_claims)
{
    struct dt_outgoing *again;
    int64_t now = now_ms(), ids[6];
    static const char *const rows[] = {"payload = ''",
                                       "payload = REPEAT('x', 2048), job_key = 'k'",
                                       "payload = REPEAT('y', 2049), partition_key = 'p'",
                                       "headers = CONCAT('{\"h\":\"', REPEAT('z', 1100), '\"}')",
                                       "headers = '{\"h\":\"v\"}', content_type = 'text/plain', topic = 'renamed'",
                                       "payload = REPEAT('w', 9000), topic = 'renamed'"};
    run_sql("INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('renamed', 'other', 1, 1);UPDATE "
            "installation SET topics_version = topics_version + 1");
    for (int i = 0; i < 6; i++) {
        ids[i] = job(rig, now - 1000 + 10 * ((i * 5) % 6));
        run_sql("UPDATE jobs SET %s WHERE id = %lld", rows[i], (long long)ids[i]);
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

RIG_TEST(nothing_is_claimed_before_its_time_by_the_servers_clock)
{
    int64_t id = job(rig, now_ms() + 300);
    take_over(rig, 72);
    for (;;) {
        struct dt_leader_txn t = leader_txn(rig, &id, 1);
        if (t.batch.n) {
            assert_true(field("dispatched_at >= due_at", id));
            return;
        }
        assert_true(t.now_ms < field("next_at", id));
    }
}

RIG_TEST(a_batch_respects_its_limits_and_the_order)
{
    struct dt_hint hints[4];
    int64_t now = now_ms();
    for (int i = 0; i < 4; i++)
        hints[i] = (struct dt_hint){job(rig, now - 1000 - 10 * i), 1};
    run_sql("UPDATE jobs SET payload = REPEAT('x', 5000) WHERE id = %lld", (long long)hints[2].id);
    take_over(rig, 73);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 4);
    t.due.max_bytes = 4000;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n, 1); /* the second oldest is too large for this batch: nothing younger passes it */
    assert_int_equal(t.batch.jobs[0].claim.id, hints[3].id);
    assert_true(t.chosen.more);
}

static void assert_batch(const struct dt_leader_txn *t, const struct dt_hint *hints, size_t n, const int *of)
{
    assert_int_equal(t->batch.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(t->batch.jobs[i].claim.id, hints[of[i]].id);
}

/* A due job of each topic, in this order. */
static void hint_at_jobs_of(struct rig *rig, const char *const *topics, int n, struct dt_hint *hints)
{
    int64_t now = now_ms();
    for (int i = 0; i < n; i++)
        hints[i] = (struct dt_hint){job_of(rig, topics[i], now - 1000 + 10 * i), 1};
}

RIG_TEST(a_batch_has_few_topics_and_their_owners_take_turns)
{
    static const char *const topics[] = {"a.1", "a.2", "a.3", "a.1", "b.1", "a.2", "c", "a.4"}; /* as they are due */
    struct dt_hint hints[8];
    run_sql("INSERT INTO topics (name, kafka_topic, created_at, updated_at) VALUES ('a.1', NULL, 0, 0), ('a.2', NULL, "
            "0, 0), ('a.3', 'shared', 0, 0), ('a.4', 'shared', 0, 0), ('b.1', NULL, 0, 0), ('c', NULL, 0, 0)");
    hint_at_jobs_of(rig, topics, 8, hints);
    take_over(rig, 74);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 8);
    t.due.max_topics = 3;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_batch(&t, hints, 4, (int[]){0, 3, 4, 6}); /* the first of each owner, with all its jobs */
    assert_true(t.chosen.more);
    take_over(rig, 75);
    OK(settle(rig, &rig->fence, true, 2, &err));
    t = leader_txn_of(rig, hints, 8);
    t.due.max_topics = 2; /* a.3 and a.4 are one of Kafka's */
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_batch(&t, hints, 4, (int[]){1, 2, 5, 7});
    assert_false(t.chosen.more);
}

RIG_TEST(one_topic_more_than_a_batch_may_have_waits_for_the_next)
{
    static const char *const topics[] = {"a", "b", "c"};
    struct dt_hint hints[3];
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('a', 0, 0), ('b', 0, 0), ('c', 0, 0)");
    hint_at_jobs_of(rig, topics, 3, hints);
    take_over(rig, 74);
    struct dt_leader_txn t = leader_txn_of(rig, hints, 3);
    t.due.max_topics = 2;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n, 2);
    assert_members(t.chosen, (n_left, 1), (more, true));
}

RIG_TEST(a_turn_without_work_writes_nothing)
{
    take_over(rig, 75);
    int64_t version = rig->fence.version, id = job(rig, now_ms() + HOUR);
    leader_txn(rig, &id, 1);
    assert_int_equal(rig->fence.version, version);
    assert_sql_number(version, "SELECT version FROM shards WHERE shard = 0");
}

RIG_TEST(jobs_of_a_paused_or_unwritable_topic_are_held_and_still_time_out)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job_of(rig, "u", now_ms() - 1000)};
    take_over(rig, 81);
    rig->writable = DT_WRITABLE_UNKNOWN;
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 0);
    assert_true(t.seen.locked);
    rig->writable = DT_WRITABLE_YES;
    OK(dt_store_topic_pause(rig->other, dt_str("t"), true, NULL, &err));
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_int_equal(t.seen.held, 1);
    assert_true(dt_topic_snapshot_paused(rig->snapshot, dt_str("t")));
    OK(dt_store_topic_pause(rig->other, dt_str("u"), true, NULL, &err));
    run_sql("UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[1]);
    t = leader_txn(rig, &ids[1], 1);
    assert_int_equal(t.timed_out.n, 1);
    OK(dt_store_topic_pause(rig->other, dt_str("t"), false, NULL, &err));
    assert_int_equal(leader_txn(rig, ids, 1).batch.n, 1);
}

RIG_TEST(an_offered_job_is_claimed_after_its_topic_changes_to_kafka)
{
    int64_t id = job(rig, now_ms() - 1000);
    take_over(rig, 82);
    run_sql("UPDATE topics SET delivery = 'pull'; UPDATE installation SET topics_version = topics_version + 1");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(t.offered.n, 1);
    run_sql("UPDATE topics SET delivery = 'kafka'; UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
}

/* Takes the shard over with two attempts in the list, and nothing known of them. */
static void take_over_unsettled(struct rig *rig, int64_t *ids)
{
    take_over(rig, 197);
    leader_txn(rig, ids, 2);
    take_over(rig, 197);
    assert_int_equal(rig->flight.n, 2);
}

RIG_TEST(a_frozen_list_and_its_jobs_are_not_changed)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over_unsettled(rig, ids);
    /* The first one's time is up; the second one is due again, by hand, and its topic is for pops now. */
    run_sql("UPDATE jobs SET next_at = 5 WHERE id = %lld; UPDATE jobs SET state = 'scheduled', next_at = 5 WHERE id = "
            "%lld; UPDATE topics SET delivery = 'pull'; UPDATE installation SET topics_version = topics_version + 1",
            (long long)ids[0], (long long)ids[1]);
    const struct dt_hint hints[] = {{ids[0], 1}, {ids[1], 1}, {ids[2], 1}};
    const struct dt_fence before = rig->fence;
    struct dt_leader_txn t = leader_txn_of(rig, hints, 3);
    t.sent = (struct dt_leader_sent){.list = &rig->flight, .frozen = true};
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.offered.n, 1); /* the third one */
    assert_int_equal(t.batch.n + t.timed_out.n + t.settled.n + t.settled.remainder, 0);
    assert_int_equal(field("attempt", ids[1]), 1);
    assert_members(rig->fence, (version, before.version + 1), (inflight, 2), (send_n, before.send_n),
                   (batch_no, before.batch_no), (ledger_offset, before.ledger_offset));
    take_over(rig, 197);
    assert_int_equal(rig->flight.n, 2);
    assert_int_equal(rig->flight.v[0].id, ids[0]);
    assert_int_equal(rig->flight.v[1].id, ids[1]);
}

RIG_TEST(no_job_is_claimed_into_a_frozen_list)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over_unsettled(rig, ids);
    const struct dt_hint hint = {ids[2], 1};
    struct dt_leader_txn t = leader_txn_of(rig, &hint, 1);
    t.sent = (struct dt_leader_sent){.list = &rig->flight, .frozen = true};
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.batch.n + t.seen.n + t.seen.n_unknown, 0);
    assert_false(t.seen.locked);
    assert_int_equal(field("attempt", ids[2]), 0);
    rig->writable = DT_WRITABLE_NO; /* its topic is closed besides: it is parked */
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &t, &err));
    assert_int_equal(t.seen.held, 1);
}

RIG_TEST(a_row_locked_by_another_session_is_skipped)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 500)};
    take_over(rig, 91);
    run_sql("START TRANSACTION");
    sql_number("SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_members(t.seen, (locked, true), (n, 1));
    run_sql("ROLLBACK");
    assert_int_equal(leader_txn(rig, ids, 1).batch.n, 1);
}

RIG_TEST(with_a_stale_map_no_job_is_claimed_and_that_is_reported)
{
    int64_t id = job(rig, now_ms() - 1000);
    take_over(rig, 92);
    run_sql("UPDATE installation SET generation = 2");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_true(t.stale_map);
    assert_int_equal(t.batch.n, 0);
    dt_shard_map_init(&rig->map, 2, SHARDS);
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 1);
}

RIG_TEST(a_job_is_not_claimed_while_an_attempt_is_in_another_shards_list)
{
    int64_t id = job(rig, now_ms() - 1000);
    run_sql("UPDATE jobs SET attempt = 1, claim_shard = 2 WHERE id = %lld", (long long)id);
    run_sql("UPDATE shards SET inflight = '[[%lld,1,5]]' WHERE shard = 2", (long long)id);
    take_over(rig, 93);
    assert_int_equal(leader_txn(rig, &id, 1).batch.n, 0);
    run_sql("UPDATE shards SET inflight = '[]' WHERE shard = 2");
    struct dt_leader_txn t = leader_txn(rig, &id, 1);
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.attempt, 2);
    assert_sql_number(1, "SELECT COUNT(*) FROM attempts WHERE job_id = %lld AND attempt = 1", (long long)id);
}

RIG_TEST(an_attempt_times_out_only_after_earlier_reports_were_read)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over(rig, 194);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET next_at = 500 + id - %lld", (long long)ids[0]);
    int64_t second_ms = field("next_at", ids[1]);
    read_up_to = (struct dt_read_up_to){499, 499};
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.timed_out.n, 0);
    assert_members(t.judged, (unread, 2), (unread_ms, second_ms));
    assert_members(t.seen, (locked, true), (n, 0));
    read_up_to = (struct dt_read_up_to){500, 500}; /* exactly the first deadline */
    t = leader_txn(rig, ids, 2);
    read_up_to = (struct dt_read_up_to){INT64_MAX, INT64_MAX};
    assert_int_equal(t.timed_out.n, 1);
    assert_int_equal(t.judged.unread, 1);
    assert_int_equal(field("attempt_status+0", ids[0]), DT_ATTEMPT_TIMED_OUT);
    assert_int_equal(field("state+0", ids[1]), 2);
    t = leader_txn(rig, ids, 2);
    assert_int_equal(t.judged.unread, 0);
    assert_int_equal(field("attempt_status+0", ids[1]), DT_ATTEMPT_TIMED_OUT);
}

RIG_TEST(an_attempt_of_another_delivery_times_out_when_its_own_watermark_has_passed)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over(rig, 196);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET next_at = 500, claim_shard = IF(id = %lld, -1, claim_shard)", (long long)ids[0]);
    read_up_to = (struct dt_read_up_to){.kafka_ms = 499, .other_ms = 500};
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    read_up_to = (struct dt_read_up_to){INT64_MAX, INT64_MAX};
    assert_int_equal(t.timed_out.n, 1);
    assert_int_equal(t.judged.unread, 1);
    assert_int_equal(field("attempt_status+0", ids[0]), DT_ATTEMPT_TIMED_OUT);
    assert_int_equal(t.seen.held, 1); /* parked: while Kafka does not answer, it must not block other jobs */
    assert_false(t.seen.locked);
}

RIG_TEST(an_attempt_with_a_stored_result_does_not_time_out)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over(rig, 195);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET next_at = 5");
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (%lld, 1, "
            "'succeeded', -1, 1)",
            (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2);
    assert_int_equal(t.timed_out.n, 1);
    assert_true(t.seen.locked);
    assert_int_equal(field("state+0", ids[0]), 2);
    assert_int_equal(field("attempt_status+0", ids[1]), DT_ATTEMPT_TIMED_OUT);
    run_sql("DELETE FROM deferred_results");
    assert_int_equal(leader_txn(rig, ids, 1).timed_out.n, 1);
}

RIG_TEST(a_deadline_that_passed_is_a_failure_and_a_renewed_one_is_not)
{
    int64_t ids[] = {job(rig, now_ms() - 1000), job(rig, now_ms() - 1000)};
    take_over(rig, 94);
    leader_txn(rig, ids, 2);
    run_sql("UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)ids[0]);
    struct dt_leader_txn t = leader_txn(rig, ids, 2); /* settles first: both are out of flight now */
    assert_int_equal(t.timed_out.n, 1);
    assert_int_equal(field("state+0", ids[0]), 1);
    assert_int_equal(field("failures", ids[0]), 1);
    assert_int_equal(field("attempt_status+0", ids[0]), DT_ATTEMPT_TIMED_OUT);
    assert_int_equal(field("state+0", ids[1]), 2);
}
