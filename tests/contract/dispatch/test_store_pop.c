/* store/pop/ and what leaders offer, on a real server. */

#include "contract/dispatch/dispatch_suite.h"
#include "dispatch/pop.h"
#include "job/change/jobs.h"
#include "job/results/results.h"

static struct dt_error err;

#define MIB    ((size_t)1 << 20)
#define MINUTE INT64_C(60000)

static void make(struct rig *rig)
{
    open_rig(rig, 1);
    take_over(rig, 7);
    run_sql("INSERT INTO topics (name, delivery, created_at, updated_at) VALUES ('p', 'pull', 0, 0), ('q', 'pull', 0, "
            "0), ('k', 'kafka', 0, 0)");
}

#define POP_TEST(name) TEST_ON(struct rig, rig, name, make, teardown)

static int64_t offers(void)
{
    return sql_number("SELECT COUNT(*) FROM pop_queue");
}

/* A leader transaction that is hinted at every job that scans of what is due would meet. */
static void lead(struct rig *rig)
{
    static struct dt_hint hints[64];
    size_t n = 0;
    for (int64_t id = (INT64_C(690) << 40) + 1; id <= rig->next_id; id++)
        if (field("due_band = 1 AND due_key <= " DT_SQL_NOW_MS, id))
            hints[n++] = (struct dt_hint){id, field("next_at", id)};
    rig->txn = leader_txn_of(rig, hints, n);
    rig->txn.sent.list = &rig->flight;
    OK(dt_leader_txn_commit(rig->store, &rig->fence, &rig->txn, &err));
}

static struct dt_pop pop_of(struct rig *rig, const char *topic, size_t max)
{
    return (struct dt_pop){.topic = dt_str(topic), .max = max, .max_bytes = 8 * MIB, .arena = &rig->arena};
}

static struct dt_pop popped(struct rig *rig, const char *topic, size_t max)
{
    struct dt_pop pop = pop_of(rig, topic, max);
    OK(dt_store_pop(rig->store, &pop, &err));
    return pop;
}

/* ---- what leaders offer ---- */

POP_TEST(test_a_leader_offers_due_jobs_and_removes_their_index_entries)
{
    int64_t now = now_ms();
    int64_t id = job_of(rig, "p", now - 5);
    int64_t kafka = job_of(rig, "k", now - 5);
    lead(rig);
    assert_members(rig->txn.offered, (n, 1), (n_topics, 1));
    assert_true(dt_str_is(rig->txn.offered.topics[0], "p"));
    assert_int_equal(rig->txn.batch.n, 1);
    assert_int_equal(rig->txn.batch.jobs[0].claim.id, kafka);
    assert_int_equal(rig->txn.seen.n, 2);
    for (size_t i = 0; i < rig->txn.seen.n; i++)
        if (rig->txn.seen.v[i].id == id)
            assert_int_equal(rig->txn.seen.v[i].next_ms, 0);
    assert_int_equal(field("state = 'scheduled' AND attempt = 0 AND due_band = -1 AND version = 1", id), 1);
    assert_sql_number(now - 5, "SELECT due_at FROM pop_queue WHERE topic = 'p'");
}

POP_TEST(test_jobs_are_offered_once_not_early_and_not_while_paused)
{
    int64_t now = now_ms();
    int64_t id = job_of(rig, "p", now - 5);
    job_of(rig, "p", now + 10 * MINUTE);
    lead(rig);
    run_sql("UPDATE jobs SET near = 1 WHERE id = %lld", (long long)id);
    lead(rig);
    assert_int_equal(offers(), 1);
    assert_int_equal(field("due_band", id), -1);
    run_sql("UPDATE topics SET paused = TRUE WHERE name = 'q'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    job_of(rig, "q", now - 5);
    lead(rig);
    assert_int_equal(rig->txn.offered.n, 0);
    assert_true(dt_str_is(rig->txn.seen.v[0].hold, "q"));
}

/* ---- the claim ---- */

POP_TEST(test_a_pop_claims_in_order_and_returns_the_rows)
{
    int64_t now = now_ms();
    int64_t late = job_of(rig, "p", now - 10), early = job_of(rig, "p", now - 30), third = job_of(rig, "p", now - 5);
    mysql_fixture_audit(); /* these were not counted when they were made */
    lead(rig);
    struct dt_pop pop = popped(rig, "p", 2);
    assert_members(pop, (n, 2), (more, true));
    assert_int_equal(pop.jobs[0].id, early);
    assert_int_equal(pop.jobs[1].id, late);
    const struct dt_job *job = &pop.jobs[0];
    assert_members(*job, (state, DT_DISPATCHED), (attempt, 1), (due_at_ms, now - 30), (claim_shard, -1),
                   (next_at_ms, job->dispatched_at_ms + MINUTE));
    assert_true(dt_str_is(job->payload, "{}"));
    assert_int_equal(field("version = 2 AND due_band = 1 AND ttr_ms = 0", early), 1);
    assert_int_equal(offers(), 1);
    pop = popped(rig, "p", 5);
    assert_members(pop, (n, 1), (more, false));
    assert_int_equal(pop.jobs[0].id, third);
    assert_int_equal(popped(rig, "p", 5).n, 0);
    assert_int_equal(mysql_fixture_audit(), 0);
}

POP_TEST(test_a_pop_has_its_own_time_to_report_until_the_next_claim)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    lead(rig);
    struct dt_pop pop = pop_of(rig, "p", 1);
    pop.ttrs_ms = (const int64_t[]){7000};
    OK(dt_store_pop(rig->store, &pop, &err));
    assert_int_equal(pop.jobs[0].next_at_ms, pop.jobs[0].dispatched_at_ms + 7000);
    struct dt_apply extended = {
        .result = {.job_id = id, .attempt = 1, .status = DT_RESULT_EXTENDED, .retry_after_ms = -1}};
    OK(dt_store_apply(rig->store, &rig->map, &extended, 1, &err));
    assert_int_equal(extended.outcome, DT_OUTCOME_APPLIED);
    assert_int_equal(field("next_at - updated_at", id), 7000);
    struct dt_apply snoozed = {
        .result = {.job_id = id, .attempt = 1, .status = DT_RESULT_SNOOZED, .retry_after_ms = 0}};
    OK(dt_store_apply(rig->store, &rig->map, &snoozed, 1, &err));
    lead(rig);
    pop = popped(rig, "p", 1);
    assert_members(pop.jobs[0], (attempt, 2), (next_at_ms, pop.jobs[0].dispatched_at_ms + MINUTE));
    assert_sql_number(1, "SELECT status = 'snoozed' FROM attempts WHERE job_id = %lld AND attempt = 1", (long long)id);
}

POP_TEST(test_one_claim_gives_each_job_the_time_to_report_of_the_pop_that_gets_it)
{
    const int64_t ttrs_ms[] = {9000, 0, 7000, 9000, 5000};
    int64_t ids[5];
    const int64_t now = now_ms();
    for (int i = 4; i >= 0; i--) /* the first one due is not the one with the lowest id */
        ids[i] = job_of(rig, "p", now - 50 + i);
    mysql_fixture_audit();
    lead(rig);
    struct dt_pop pop = pop_of(rig, "p", 5);
    pop.ttrs_ms = ttrs_ms;
    OK(dt_store_pop(rig->store, &pop, &err));
    assert_int_equal(pop.n, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pop.jobs[i].id, ids[i]);
        assert_int_equal(pop.jobs[i].next_at_ms - pop.jobs[i].dispatched_at_ms, ttrs_ms[i] ? ttrs_ms[i] : MINUTE);
        assert_int_equal(field("ttr_ms", ids[i]), ttrs_ms[i]);
        assert_int_equal(field("attempt = 1 AND version = 2", ids[i]), 1);
    }
    assert_int_equal(offers(), 0);
    assert_int_equal(mysql_fixture_audit(), 0);
}

POP_TEST(test_a_leader_times_out_what_was_popped_and_offers_it_again)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    run_sql("UPDATE jobs SET retry = '1ms' WHERE id = %lld", (long long)id);
    lead(rig);
    struct dt_pop pop = pop_of(rig, "p", 1);
    pop.ttrs_ms = (const int64_t[]){1};
    OK(dt_store_pop(rig->store, &pop, &err));
    while (field("state = 'dispatched'", id))
        lead(rig);
    assert_int_equal(field("attempt_status = 'timed_out' AND failures = 1", id), 1);
    while (offers() == 0)
        lead(rig);
    assert_int_equal(popped(rig, "p", 1).jobs[0].attempt, 2);
}

POP_TEST(test_two_uncommitted_pops_claim_different_jobs)
{
    int64_t first = job_of(rig, "p", now_ms() - 5), second = job_of(rig, "p", now_ms() - 4);
    lead(rig);
    run_sql("BEGIN");
    sql_number("SELECT job_id FROM pop_queue WHERE job_id = %lld FOR UPDATE", (long long)first);
    struct dt_pop pop = popped(rig, "p", 5);
    assert_int_equal(pop.n, 1);
    assert_int_equal(pop.jobs[0].id, second);
    run_sql("ROLLBACK");
    run_sql("BEGIN");
    sql_number("SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)first);
    assert_int_equal(popped(rig, "p", 5).n, 0);
    run_sql("ROLLBACK");
    assert_int_equal(popped(rig, "p", 5).jobs[0].id, first);
}

POP_TEST(test_jobs_of_a_paused_topic_or_another_delivery_are_not_popped)
{
    job_of(rig, "p", now_ms() - 5);
    lead(rig);
    run_sql("UPDATE topics SET paused = TRUE WHERE name = 'p'");
    assert_int_equal(popped(rig, "p", 5).n, 0);
    run_sql("UPDATE topics SET paused = FALSE, delivery = 'kafka' WHERE name = 'p'");
    assert_int_equal(popped(rig, "p", 5).n, 0);
    assert_int_equal(offers(), 1);
    run_sql("UPDATE topics SET delivery = 'pull' WHERE name = 'p'");
    assert_int_equal(popped(rig, "p", 5).n, 1);
    assert_int_equal(popped(rig, "nobody", 5).n, 0);
}

POP_TEST(test_an_offer_is_a_hint_and_the_row_decides)
{
    int64_t now = now_ms();
    int64_t later = job_of(rig, "p", now - 9), cancelled = job_of(rig, "p", now - 8), gone = job_of(rig, "p", now - 7);
    int64_t good = job_of(rig, "p", now - 6);
    lead(rig);
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)(now + MINUTE), (long long)later);
    run_sql("UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %lld", (long long)cancelled);
    run_sql("DELETE FROM jobs WHERE id = %lld", (long long)gone);
    struct dt_pop pop = popped(rig, "p", 1);
    assert_int_equal(pop.n, 1);
    assert_int_equal(pop.jobs[0].id, good);
    assert_int_equal(offers(), 0);
    assert_int_equal(field("state = 'scheduled' AND attempt = 0 AND due_band = 1", later), 1);
    assert_int_equal(field("state = 'cancelled' AND attempt = 0", cancelled), 1);
}

POP_TEST(test_a_job_whose_last_attempt_is_still_in_flight_is_not_popped)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    run_sql("UPDATE jobs SET attempt = 1, claim_shard = 0 WHERE id = %lld", (long long)id);
    lead(rig);
    run_sql("UPDATE shards SET inflight = '[[%lld,1,5]]'", (long long)id);
    assert_int_equal(popped(rig, "p", 1).n, 0);
    assert_int_equal(offers(), 1);
    run_sql("UPDATE shards SET inflight = '[]'");
    assert_int_equal(popped(rig, "p", 1).jobs[0].attempt, 2);
}

POP_TEST(test_a_job_whose_last_attempt_is_still_in_hands_is_not_popped)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    run_sql("UPDATE jobs SET attempt = 1, http_status = 500 WHERE id = %lld", (long long)id);
    lead(rig);
    run_sql("INSERT INTO hands (job_id, attempt, shard, owner) VALUES (%lld, 1, 0, 9)", (long long)id);
    assert_int_equal(popped(rig, "p", 1).n, 0);
    run_sql("DELETE FROM hands WHERE owner = 9");
    assert_int_equal(popped(rig, "p", 1).jobs[0].attempt, 2);
    assert_int_equal(field("http_status", id), 0);
}

POP_TEST(test_a_pop_is_bounded_in_bytes_but_has_at_least_one_job)
{
    for (int i = 0; i < 3; i++)
        job_of(rig, "p", now_ms() - 9 + i);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 700)");
    lead(rig);
    struct dt_pop pop = pop_of(rig, "p", 10);
    pop.max_bytes = 1400;
    OK(dt_store_pop(rig->store, &pop, &err));
    assert_members(pop, (n, 2), (more, true));
    pop = pop_of(rig, "p", 10);
    pop.max_bytes = 699;
    pop.must_fit = true;
    OK(dt_store_pop(rig->store, &pop, &err));
    assert_members(pop, (n, 0), (more, true));
    pop = pop_of(rig, "p", 10);
    pop.max_bytes = 10;
    OK(dt_store_pop(rig->store, &pop, &err));
    assert_int_equal(pop.n, 1);
}

POP_TEST(test_a_pop_whose_commit_is_lost_returns_no_job)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    lead(rig);
    struct dt_pop pop = pop_of(rig, "p", 1);
    wire_loss = LOSE_AFTER;
    assert_int_equal(dt_store_pop(rig->store, &pop, &err), DT_UNKNOWN);
    wire_heal();
    assert_int_equal(pop.n, 0);
    assert_int_equal(field("state = 'dispatched' AND attempt = 1", id), 1);
    assert_int_equal(popped(rig, "p", 1).n, 0);
}

POP_TEST(test_a_check_for_offers_is_per_topic)
{
    const struct dt_str topics[] = {dt_str("q"), dt_str("nobody"), dt_str("k"), dt_str("p"), dt_str("a\"b")};
    enum dt_pop_topic seen[5];
    job_of(rig, "p", now_ms() - 5);
    lead(rig);
    OK(dt_store_pop_look(rig->store, topics, 5, seen, &err));
    assert_int_equal(seen[0], DT_POP_TOPIC_EMPTY);
    assert_int_equal(seen[1], DT_POP_TOPIC_UNKNOWN);
    assert_int_equal(seen[2], DT_POP_TOPIC_OTHER);
    assert_int_equal(seen[3], DT_POP_TOPIC_OFFERS);
    assert_int_equal(seen[4], DT_POP_TOPIC_UNKNOWN);
    run_sql("UPDATE topics SET paused = TRUE WHERE name = 'p'");
    OK(dt_store_pop_look(rig->store, topics, 5, seen, &err));
    assert_int_equal(seen[3], DT_POP_TOPIC_EMPTY);
}

/* ---- housekeeping ---- */

static size_t tidy(struct rig *rig, size_t limit)
{
    struct dt_offers_walk walk = {0};
    size_t all = 0;
    for (bool more = true; more;) {
        size_t repaired;
        OK(dt_store_tidy_offers(rig->store, &walk, now_ms(), limit, &repaired, &more, &err));
        all += repaired;
    }
    return all;
}

POP_TEST(test_housekeeping_removes_stale_offers_and_restores_lost_ones)
{
    int64_t now = now_ms();
    int64_t ids[6];
    for (int i = 0; i < 6; i++)
        ids[i] = job_of(rig, i < 3 ? "p" : "q", now - 20 + i);
    lead(rig);
    assert_int_equal(tidy(rig, 2), 0);
    run_sql("UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %lld", (long long)ids[1]);
    run_sql("DELETE FROM pop_queue WHERE job_id = %lld", (long long)ids[4]);
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)(now + MINUTE), (long long)ids[5]);
    assert_int_equal(tidy(rig, 2), 4); /* of the one that moved the offer goes and the row is met again */
    assert_int_equal(offers(), 3);
    assert_int_equal(field("due_band", ids[4]), 1);
    assert_int_equal(field("due_band", ids[5]), 1);
    lead(rig);
    assert_int_equal(offers(), 4);
    assert_int_equal(tidy(rig, 1), 0);
}

POP_TEST(test_offers_follow_a_change_of_delivery_and_back)
{
    int64_t id = job_of(rig, "p", now_ms() - 5);
    lead(rig);
    run_sql("UPDATE topics SET delivery = 'kafka' WHERE name = 'p'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(tidy(rig, 10), 1);
    lead(rig);
    assert_int_equal(rig->txn.batch.n, 1);
    assert_int_equal(field("state = 'dispatched' AND claim_shard = 0", id), 1);
    assert_int_equal(tidy(rig, 10), 1);
    assert_int_equal(offers(), 0);
    run_sql("UPDATE topics SET delivery = 'pull' WHERE name = 'p'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    int64_t next = job_of(rig, "p", now_ms() - 5);
    run_sql("UPDATE shards SET inflight = '[]', send_n = 0");
    rig->fence.inflight = rig->fence.send_n = 0;
    lead(rig);
    assert_int_equal(popped(rig, "p", 5).jobs[0].id, next);
}

static struct dt_insert made(struct rig *rig, const char *topic, int64_t run_at_ms, bool popped)
{
    struct dt_insert row = {.popped = popped,
                            .job = {.id = ++rig->next_id,
                                    .topic = dt_str(topic),
                                    .run_at_ms = run_at_ms,
                                    .retry = dt_str("15s"),
                                    .ack_timeout_ms = MINUTE,
                                    .payload = dt_str("{}")}};
    struct dt_insert *rows[] = {&row};
    int64_t created_ms;
    OK(dt_store_insert(rig->store, rows, 1, 1, &created_ms, &err));
    assert_int_equal(row.outcome, DT_INSERT_CREATED);
    return row;
}

POP_TEST(test_a_job_created_due_can_be_popped_before_a_leader_offers_it)
{
    struct dt_insert first = made(rig, "p", 0, true);
    made(rig, "p", now_ms() + MINUTE, true);
    struct dt_insert other = made(rig, "k", 0, false);
    assert_int_equal(offers(), 1);
    assert_int_equal(field("due_band", first.job.id), 1); /* scans meet it: its topic may be another delivery's now */
    run_sql("UPDATE jobs SET state = 'cancelled', next_at = NULL WHERE id = %lld", (long long)other.job.id);
    struct dt_pop pop = popped(rig, "p", 5);
    assert_int_equal(pop.n, 1);
    assert_int_equal(pop.jobs[0].id, first.job.id);
    assert_int_equal(offers(), 0);
    struct dt_insert second = made(rig, "p", 0, true);
    lead(rig); /* offers it once more */
    assert_int_equal(offers(), 1);
    assert_int_equal(popped(rig, "p", 5).jobs[0].id, second.job.id);
    lead(rig);
    assert_int_equal(offers(), 0);
}
