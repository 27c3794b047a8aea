/* store/hands/ on a real server: claims into hands, outcomes, owners that are gone, and what may not come between. */

#include "base/http/callback_rules.h"
#include "dispatch/fence.h"
#include "dispatch/hands.h"
#include "dispatch/leader.h"
#include "job/archive/archive.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "support/store_suite.h"

#define SHARDS  4
#define OWNER   77
#define TIMEOUT 4000

STORE_SUITE("hands", SHARDS)

static struct dt_shard_map map;
static dt_topic_snapshot *snapshot;
static struct dt_fence fence;
static struct dt_inflight flight;
static int64_t next_id;
static size_t places;
static int64_t owner;
static char asked_url[200];

static void begin(void)
{
    empty_tables();
    dt_shard_map_init(&map, 1, SHARDS);
    run_sql("DELETE FROM hands");
    run_sql("DELETE FROM hand_owners");
    run_sql("DELETE FROM topics");
    run_sql("INSERT INTO topics (name, delivery, callback_url, created_at, updated_at) VALUES ('h', 'http', "
            "'http://127.0.0.1:1/', 0, 0)");
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('k', 0, 0)");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(dt_topic_snapshot_new(&snapshot), DT_OK);
    next_id = INT64_C(690) << 40;
    places = 100;
    owner = OWNER;
    OK(dt_store_hands_own(store, OWNER, "host:1", TIMEOUT, &err));
    OK(dt_store_takeover(store, &(struct dt_leadership){0, 11, "host:1", "redis:1"}, &fence, &flight, &err));
}

static void end(void)
{
    dt_topic_snapshot_free(snapshot);
    dt_inflight_clear(&flight);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

/* ---- jobs and leader transactions ---- */

static int64_t job(const char *topic)
{
    do
        next_id++;
    while (dt_shard_of(&map, next_id) != 0);
    job_row(next_id, "topic = '%s', next_at = 5, near = TRUE, retry = '15s'", topic);
    return next_id;
}

static enum dt_writable writable(void *, struct dt_str topic, int64_t, int64_t bytes)
{
    return topic.n > 0 && bytes > 0 ? DT_WRITABLE_YES : DT_WRITABLE_NO;
}

static enum dt_hand_place take(void *, const struct dt_hand_wanted *wanted, int64_t *number)
{
    assert_true(wanted->bytes > 0 && wanted->attempt > 0);
    snprintf(asked_url, sizeof(asked_url), "%s%.*s", wanted->own_url ? "own " : "", (int)wanted->url.n,
             wanted->url.p ? wanted->url.p : "");
    *number = owner;
    return places > 0 && places-- > 0 ? DT_HAND_TAKEN : wanted->own_url ? DT_HAND_FULL_THERE : DT_HAND_FULL;
}

#define MANY 150 /* answers: more than one statement writes */

static struct dt_leader_txn lead(const int64_t *ids, size_t n)
{
    static struct dt_hint hints[MANY];
    for (size_t i = 0; i < n; i++)
        hints[i] = (struct dt_hint){.id = ids[i]};
    struct dt_leader_txn t = {.sent = {.list = &flight, .offset = fence.ledger_offset + 2},
                              .due = {.hints = hints,
                                      .n_hints = n,
                                      .max_jobs = 1000,
                                      .max_topics = 1000,
                                      .max_bytes = 8 << 20,
                                      .map = &map,
                                      .topics = snapshot,
                                      .read_up_to = {INT64_MAX, INT64_MAX}},
                              .gate = {.writable = writable, .take = take},
                              .arena = &arena};
    OK(dt_leader_txn_commit(store, &fence, &t, &err));
    flight.n = 0;
    return t;
}

static struct dt_leader_txn lead_one(int64_t id)
{
    return lead(&id, 1);
}

static int64_t claimed(const char *topic)
{
    int64_t id = job(topic);
    assert_int_equal(lead_one(id).hands.claimed.n, 1);
    return id;
}

static struct dt_hand_answer answer_of(int64_t id, int64_t attempt, enum dt_result_status status)
{
    return (struct dt_hand_answer){
        .apply.result = {.job_id = id, .attempt = attempt, .status = status, .retry_after_ms = -1},
        .owner = OWNER,
        .answer = {.http_status = status == DT_RESULT_SUCCEEDED ? 204 : 500, .duration_ms = 12}};
}

static struct dt_hand_answer record(struct dt_hand_answer answer)
{
    OK(dt_store_hands_record(store, &map, &answer, 1, &err));
    return answer;
}

static int64_t count(const char *of)
{
    return sql_number("SELECT COUNT(*) FROM %s", of);
}

/* ---- where callbacks go ---- */

FRESH_TEST(a_jobs_own_url_replaces_the_topics_for_small_and_large_jobs)
{
    int64_t small = job("h");
    int64_t large = job("h");
    int64_t plain = job("h");
    run_sql("UPDATE jobs SET callback_url = 'http://own/' WHERE id IN (%lld, %lld)", (long long)small,
            (long long)large);
    run_sql("UPDATE jobs SET payload = REPEAT('x', 5000) WHERE id = %lld", (long long)large);
    const int64_t own[] = {small, large};
    for (size_t i = 0; i < 2; i++) {
        struct dt_leader_txn t = lead_one(own[i]);
        assert_string_equal(asked_url, "own http://own/");
        assert_int_equal(t.hands.claimed.n, 1);
        assert_true(dt_str_is(t.hands.claimed.jobs[0].callback_url, "http://own/"));
    }
    struct dt_leader_txn t = lead_one(plain);
    assert_string_equal(asked_url, "http://127.0.0.1:1/");
    assert_null(t.hands.claimed.jobs[0].callback_url.p);
}

FRESH_TEST(a_callback_without_a_place_at_its_host_names_the_host)
{
    int64_t own = job("h");
    int64_t plain = job("h");
    run_sql("UPDATE jobs SET callback_url = 'http://own:81/path' WHERE id = %lld", (long long)own);
    places = 0;
    struct dt_leader_txn t = lead_one(own);
    assert_true(dt_str_is(t.seen.v[0].hold, "h"));
    assert_int_equal(t.seen.v[0].host, dt_callback_host_of(S("http://own:81")));
    t = lead_one(plain);
    assert_true(dt_str_is(t.seen.v[0].hold, "h"));
    assert_int_equal(t.seen.v[0].host, 0);
    places = 100;
}

FRESH_TEST(a_job_without_a_url_is_claimed_so_that_it_fails_with_a_reason)
{
    int64_t id = job("h");
    run_sql("UPDATE topics SET callback_url = NULL WHERE name = 'h'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(lead_one(id).hands.claimed.n, 1);
    assert_string_equal(asked_url, "");
}

static void let_owner_end(void)
{
    run_sql("UPDATE hand_owners SET renewed_at = renewed_at - timeout_ms");
}

/* ---- claims ---- */

FRESH_TEST(a_callback_is_claimed_into_hands_and_not_into_the_list)
{
    int64_t ids[] = {job("h"), job("k")};
    struct dt_leader_txn t = lead(ids, 2);
    assert_int_equal(t.hands.claimed.n, 1);
    assert_members(t.hands.claimed.jobs[0].claim, (id, ids[0]), (attempt, 1));
    assert_int_equal(t.batch.n, 1);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[1]);
    assert_job(ids[0], "CONCAT_WS(' ', state, attempt, claim_shard)", "dispatched 1 -1");
    assert_int_equal(count("hands WHERE attempt = 1 AND shard = 0 AND owner = 77"), 1);
    assert_sql_number(0, "SELECT COUNT(*) FROM shards WHERE inflight LIKE '%%%lld%%'", (long long)ids[0]);
}

FRESH_TEST(a_large_message_comes_with_its_claim)
{
    int64_t id = job("h");
    run_sql("UPDATE jobs SET payload = REPEAT('x', 9000) WHERE id = %lld", (long long)id);
    struct dt_leader_txn t = lead_one(id);
    assert_int_equal(t.hands.claimed.n, 1);
    assert_int_equal(t.hands.claimed.jobs[0].payload.n, 9000);
}

FRESH_TEST(a_callback_without_a_place_is_held_and_claimed_later)
{
    int64_t ids[] = {job("h"), job("h")};
    places = 1;
    struct dt_leader_txn t = lead(ids, 2);
    assert_int_equal(t.hands.claimed.n, 1);
    assert_int_equal(t.hands.full, 1);
    assert_int_equal(t.seen.held, 1);
    assert_job(ids[1], "state", "scheduled");
    places = 1;
    assert_int_equal(lead_one(ids[1]).hands.claimed.n, 1);
}

/* ---- outcomes ---- */

FRESH_TEST(an_outcome_stores_the_answer_and_ends_the_attempt)
{
    int64_t good = claimed("h"), bad = claimed("h");
    assert_true(record(answer_of(good, 1, DT_RESULT_SUCCEEDED)).held);
    assert_int_equal(record(answer_of(bad, 1, DT_RESULT_FAILED)).apply.outcome, DT_OUTCOME_APPLIED);
    assert_job(good, "CONCAT_WS(' ', state, http_status, duration_ms)", "succeeded 204 12");
    assert_job(bad, "CONCAT_WS(' ', state, attempt_status, failures, http_status)", "scheduled failed 1 500");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(a_callback_answered_202_leaves_the_hands_and_stays_dispatched)
{
    int64_t id = claimed("h");
    struct dt_hand_answer answer = answer_of(id, 1, DT_RESULT_SUCCEEDED);
    answer.taken = true;
    answer.answer.http_status = 202;
    assert_true(record(answer).held);
    assert_job(id, "CONCAT_WS(' ', state, http_status)", "dispatched 202");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(an_outcome_of_an_attempt_that_is_not_in_our_hands_changes_nothing)
{
    int64_t id = claimed("h");
    struct dt_hand_answer other = answer_of(id, 1, DT_RESULT_SUCCEEDED), late = answer_of(id, 1, DT_RESULT_SUCCEEDED);
    other.owner = OWNER + 1;
    assert_false(record(other).held);
    assert_int_equal(count("hands"), 1);
    run_sql("DELETE FROM hands");
    assert_false(record(late).held);
    assert_job(id, "CONCAT_WS(' ', state, COALESCE(http_status, 0))", "dispatched 0");
}

FRESH_TEST(an_outcome_that_is_recorded_twice_is_applied_once)
{
    int64_t id = claimed("h");
    assert_true(record(answer_of(id, 1, DT_RESULT_FAILED)).held);
    assert_false(record(answer_of(id, 1, DT_RESULT_FAILED)).held);
    assert_job(id, "failures", "1");
}

FRESH_TEST(an_answer_after_a_report_frees_the_place_and_keeps_the_report)
{
    int64_t id = claimed("h");
    struct dt_apply report = {
        .result = {.job_id = id, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, &report, 1, &err));
    struct dt_hand_answer late = record(answer_of(id, 1, DT_RESULT_FAILED));
    assert_true(late.held);
    assert_int_equal(late.apply.outcome, DT_OUTCOME_STALE);
    assert_job(id, "CONCAT_WS(' ', state, http_status)", "succeeded 500");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(a_batch_of_answers_is_recorded_together)
{
    int64_t ids[] = {job("h"), job("h"), job("h")};
    assert_int_equal(lead(ids, 3).hands.claimed.n, 3);
    struct dt_hand_answer answers[] = {answer_of(ids[2], 1, DT_RESULT_SUCCEEDED),
                                       answer_of(ids[0], 1, DT_RESULT_FAILED),
                                       answer_of(ids[1], 1, DT_RESULT_SUCCEEDED)};
    OK(dt_store_hands_record(store, &map, answers, 3, &err));
    assert_int_equal(count("jobs WHERE state = 'succeeded'"), 2);
    assert_int_equal(count("jobs WHERE state = 'scheduled'"), 1);
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(each_of_many_answers_is_recorded_for_its_own_job)
{
    static struct dt_hand_answer answers[MANY];
    int64_t ids[MANY];
    places = MANY;
    for (int i = 0; i < MANY; i++)
        ids[i] = job("h");
    assert_int_equal(lead(ids, MANY).hands.claimed.n, MANY);
    for (int i = 0; i < MANY; i++) {
        answers[i] = answer_of(ids[i], 1, DT_RESULT_SUCCEEDED);
        answers[i].answer = (struct dt_answer){.http_status = i % 10 ? 204 : 200, .duration_ms = i * 37};
    }
    OK(dt_store_hands_record(store, &map, answers, MANY, &err));
    for (int i = 0; i < MANY; i++) {
        char expected[64];
        snprintf(expected, sizeof(expected), "succeeded %d %d", i % 10 ? 204 : 200, i * 37);
        assert_job(ids[i], "CONCAT_WS(' ', state, http_status, duration_ms)", expected);
    }
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(only_attempts_still_in_hands_are_recorded_from_a_batch)
{
    int64_t ids[] = {job("h"), job("h"), job("h")};
    assert_int_equal(lead(ids, 3).hands.claimed.n, 3);
    run_sql("UPDATE hands SET owner = %d WHERE job_id = %lld", OWNER + 1, (long long)ids[1]);
    struct dt_hand_answer answers[] = {answer_of(ids[0], 1, DT_RESULT_SUCCEEDED),
                                       answer_of(ids[1], 1, DT_RESULT_SUCCEEDED),
                                       answer_of(ids[2], 1, DT_RESULT_FAILED)};
    OK(dt_store_hands_record(store, &map, answers, 3, &err));
    assert_true(answers[0].held && !answers[1].held && answers[2].held);
    assert_job(ids[0], "state", "succeeded");
    assert_job(ids[1], "CONCAT_WS(' ', state, http_status)", "dispatched 0");
    assert_job(ids[2], "CONCAT_WS(' ', state, failures)", "scheduled 1");
    assert_int_equal(count("hands"), 1);
}

/* ---- what may not come between ---- */

FRESH_TEST(a_callback_in_progress_does_not_time_out)
{
    int64_t id = claimed("h");
    run_sql("UPDATE jobs SET next_at = 5 WHERE id = %lld", (long long)id);
    assert_int_equal(lead_one(id).timed_out.n, 0);
    assert_job(id, "state", "dispatched");
    run_sql("DELETE FROM hands");
    assert_int_equal(lead_one(id).timed_out.n, 1);
}

FRESH_TEST(a_job_is_not_claimed_while_an_earlier_attempt_is_in_hands)
{
    int64_t id = claimed("h");
    size_t done;
    run_sql("UPDATE jobs SET state = 'scheduled', next_at = 5 WHERE id = %lld", (long long)id);
    OK(dt_store_promote(store, 5, 10, &done, &err));
    assert_int_equal(lead_one(id).hands.claimed.n, 0);
    run_sql("UPDATE topics SET delivery = 'kafka'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(lead_one(id).batch.n, 0);
    run_sql("DELETE FROM hands");
    assert_int_equal(lead_one(id).batch.n, 1);
}

FRESH_TEST(a_cancel_is_too_late_while_an_earlier_attempt_is_in_hands)
{
    struct dt_job row;
    int64_t id = claimed("h");
    run_sql("UPDATE jobs SET state = 'scheduled' WHERE id = %lld", (long long)id);
    assert_int_equal(dt_store_cancel(store, id, false, &arena, &row, &err), DT_TOO_LATE);
    assert_true(row.unsettled);
    run_sql("DELETE FROM hands");
    OK(dt_store_cancel(store, id, false, &arena, &row, &err));
}

/* ---- owners that are gone ---- */

FRESH_TEST(if_an_owner_expired_its_attempt_is_lost_and_the_next_is_claimed_at_once)
{
    int64_t id = claimed("h"), found[4];
    struct dt_lost lost = {.v = found, .limit = 4};
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 0);
    assert_int_equal(lead_one(id).hands.lost, 0);
    let_owner_end();
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 1);
    assert_int_equal(found[0], id);
    owner = OWNER + 1;
    struct dt_leader_txn t = lead_one(id);
    assert_int_equal(t.hands.lost, 1);
    assert_int_equal(t.hands.claimed.n, 1);
    assert_int_equal(t.hands.claimed.jobs[0].claim.attempt, 2);
    assert_job(id, "CONCAT_WS(' ', state, attempt, failures)", "dispatched 2 0");
    assert_int_equal(count("attempts WHERE status = 'lost' AND attempt = 1 AND finished_at > 0"), 1);
    assert_int_equal(count("hands WHERE owner = 78 AND attempt = 2"), 1);
    assert_false(record(answer_of(id, 1, DT_RESULT_SUCCEEDED)).held);
}

FRESH_TEST(a_lost_attempt_of_a_topic_that_is_paused_leaves_its_job_due)
{
    int64_t id = claimed("h");
    let_owner_end();
    run_sql("UPDATE topics SET paused = TRUE");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(lead_one(id).hands.lost, 1);
    assert_job(id, "CONCAT_WS(' ', state, attempt, attempt_status, failures)", "scheduled 1 lost 0");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(a_lost_attempt_without_a_place_for_the_next_leaves_its_job_due)
{
    int64_t id = claimed("h");
    let_owner_end();
    places = 0;
    struct dt_leader_txn t = lead_one(id);
    assert_int_equal(t.hands.lost, 1);
    assert_int_equal(t.seen.held, 1);
    assert_job(id, "CONCAT_WS(' ', state, attempt, attempt_status)", "scheduled 1 lost");
}

FRESH_TEST(a_lost_attempt_whose_retries_were_cancelled_ends_its_job)
{
    struct dt_job row;
    int64_t id = claimed("h");
    OK(dt_store_cancel(store, id, true, &arena, &row, &err));
    let_owner_end();
    assert_int_equal(lead_one(id).hands.lost, 1);
    assert_job(id, "CONCAT_WS(' ', state, attempt_status, failures)", "cancelled lost 0");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(after_a_lost_attempt_the_next_uses_the_topics_new_delivery)
{
    int64_t id = claimed("h");
    let_owner_end();
    run_sql("UPDATE topics SET delivery = 'kafka'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    struct dt_leader_txn t = lead_one(id);
    assert_int_equal(t.batch.n, 1);
    assert_job(id, "CONCAT_WS(' ', state, attempt, claim_shard)", "dispatched 2 0");
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(the_callback_row_of_a_finished_job_is_deleted)
{
    int64_t id = claimed("h"), found[4];
    struct dt_lost lost = {.v = found, .limit = 4};
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = %lld", (long long)id);
    let_owner_end();
    assert_int_equal(lead_one(id).hands.lost, 0);
    assert_int_equal(count("hands"), 0);
    claimed("h");
    run_sql("DELETE FROM jobs");
    let_owner_end();
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(count("hands"), 0);
}

FRESH_TEST(a_renewed_lease_continues_and_a_released_one_ends)
{
    struct dt_renewals renewals = {0};
    bool there;
    int64_t found[4];
    struct dt_lost lost = {.v = found, .limit = 4};
    claimed("h");
    let_owner_end();
    OK(dt_store_hands_renew(store, OWNER, &renewals, &there, &err));
    assert_true(there);
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 0);
    OK(dt_store_hands_disown(store, OWNER, &err));
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 1);
    OK(dt_store_hands_renew(store, OWNER, &renewals, &there, &err));
    assert_false(there);
}

FRESH_TEST(a_lease_whose_last_renewal_mysql_lost_is_not_renewed)
{
    bool there;
    struct dt_renewals renewals = {0};
    claimed("h");
    OK(dt_store_hands_renew(store, OWNER, &renewals, &there, &err));
    assert_true(there);
    run_sql("UPDATE hand_owners SET renewals = renewals + 1"); /* one whose answer was lost */
    renewals.asked++;
    OK(dt_store_hands_renew(store, OWNER, &renewals, &there, &err));
    assert_true(there);
    run_sql("UPDATE hand_owners SET renewals = 1");
    OK(dt_store_hands_renew(store, OWNER, &renewals, &there, &err));
    assert_false(there);
}

FRESH_TEST(lost_attempts_are_found_page_by_page)
{
    int64_t ids[] = {claimed("h"), claimed("h"), claimed("h")}, found[2];
    struct dt_lost lost = {.v = found, .limit = 2};
    let_owner_end();
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 2);
    assert_int_equal(found[0], ids[0]);
    assert_int_equal(found[1], ids[1]);
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 1);
    assert_int_equal(found[0], ids[2]);
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 0);
}

FRESH_TEST(only_callbacks_that_a_process_gives_away_are_lost)
{
    int64_t ids[] = {claimed("h"), claimed("h")}, found[4];
    struct dt_hand *of_shard;
    struct dt_lost lost = {.v = found, .limit = 4};
    size_t n = 0;
    OK(dt_store_hands_of_shard(store, OWNER, 0, &arena, &of_shard, &n, &err));
    assert_int_equal(n, 2);
    assert_members(of_shard[1], (job_id, ids[1]), (attempt, 1));
    OK(dt_store_hands_of_shard(store, OWNER, 1, &arena, &of_shard, &n, &err));
    assert_int_equal(n, 0);
    OK(dt_store_hands_give_away(store, OWNER, &ids[1], 1, &err));
    OK(dt_store_hands_lost(store, &lost, &err));
    assert_int_equal(lost.n, 1);
    assert_int_equal(found[0], ids[1]);
}

SUITE(open_store, close_store)
