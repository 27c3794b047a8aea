/* What fires spend of the quotas of their owner's tokens, and how owners take turns, on a real server. */
#include "support/rigs/schedules_rig.h"

#include "features/quotas/quotas.h"
#include "features/tokens/tokens.h"
#include "job/change/jobs.h"
#include "topic/owners.h"

#define SECOND_MS 1000

/* Makes a token, for topics with prefixes, with quotas of new jobs in a second and of pending jobs; 0 = none. */
static void token(const char *name, const char *topics, int64_t per_second, int64_t pending)
{
    struct dt_token t = {
        .name = dt_str(name), .scopes = S("write"), .topics = dt_str(topics), .quotas = dt_quota_all(0)};
    snprintf((char *)t.hash, sizeof(t.hash), "%s", name);
    t.quotas.v[DT_QUOTA_JOBS] = per_second;
    t.quotas.v[DT_QUOTA_PENDING] = pending;
    OK(dt_store_token_add(store, &t, &err));
    OK(dt_store_topic_owners_update(store, &err));
}

static void with_owners(void)
{
    with_topic();
    run_sql("DELETE FROM api_tokens; DELETE FROM quota_shares");
    OK(dt_store_topic_ensure(store, S("mine.a"), NULL, &err));
    OK(dt_store_topic_ensure(store, S("mine.b"), NULL, &err));
    OK(dt_store_topic_ensure(store, S("other.a"), NULL, &err));
}

#define FRESH_TEST(name) TEST_WITH(name, with_owners, NULL)

static struct dt_schedule schedule(const char *name, const char *topic, int64_t ms)
{
    struct dt_schedule s = every(ms);
    s.name = dt_str(name);
    s.job.topic = dt_str(topic);
    return s;
}

/* Schedules of one owner, in two topics. */
static void many(int n, int64_t ms)
{
    for (int i = 0; i < n; i++) {
        char name[20];
        snprintf(name, sizeof(name), "s%d", i);
        put(schedule(name, i % 2 ? "mine.a" : "mine.b", ms));
    }
}

static void looks_are_due(void)
{
    run_sql("UPDATE schedule_fires SET look_at = 1; UPDATE quota_shares SET count_at = 0");
}

/* A second has passed for the quotas. */
static void a_second_passes(void)
{
    run_sql("UPDATE quota_shares SET left_at = left_at - 1000, until = until - 1000");
    looks_are_due();
}

FRESH_TEST(schedules_make_no_more_pending_jobs_than_their_owners_quota)
{
    token("a", "mine.", 0, 30);
    many(5, SECOND_MS);
    assert_int_equal(count(SCHEDULED), 30);
    looks_are_due();
    make();
    assert_int_equal(count(SCHEDULED), 30);
    assert_true(sql_number("SELECT COUNT(*) FROM schedule_fires WHERE waits_since > 0 AND look_at > waits_since") > 0);
    put(schedule("o", "other.a", SECOND_MS));
    assert_true(count(SCHEDULED " AND topic = 'other.a'") > 60);
}

FRESH_TEST(schedules_make_no_more_jobs_in_a_second_than_their_owners_quota)
{
    token("a", "mine.", 10, 0);
    many(5, SECOND_MS);
    const int64_t n = count(SCHEDULED);
    assert_in_range(n, 10, 19); /* a second may pass meanwhile */
    a_second_passes();
    make();
    assert_in_range(count(SCHEDULED), n + 10, n + 19);
}

FRESH_TEST(fires_and_an_api_share_a_quota)
{
    struct dt_quota_claim claim = {.token = dt_quota_token_id(S("a"))};
    claim.demand[DT_QUOTA_JOBS] = 100;
    claim.most[DT_QUOTA_JOBS] = DT_QUOTA_WHOLE;
    token("a", "mine.", 100, 0);
    OK(dt_store_quota_settle(store, 1, &claim, 1, &err));
    many(1, SECOND_MS);
    assert_int_equal(count(SCHEDULED), 0);
    OK(dt_store_quota_settle(store, 1, &claim, 1, &err));
    assert_true(claim.share[DT_QUOTA_JOBS] < DT_QUOTA_WHOLE);
    a_second_passes();
    make();
    assert_in_range(count(SCHEDULED), 0, 20);
    claim.demand[DT_QUOTA_JOBS] = 0;
    OK(dt_store_quota_settle(store, 1, &claim, 1, &err));
    for (int i = 0; i < 3; i++) {
        a_second_passes();
        make();
    }
    assert_true(count(SCHEDULED) > 90);
}

FRESH_TEST(of_several_tokens_of_an_owner_the_largest_quota_counts)
{
    token("a", "mine.", 0, 10);
    token("b", "mine.", 0, 40);
    many(1, SECOND_MS);
    assert_int_equal(count(SCHEDULED), 40);
    token("c", "mine.", 0, 0);
    looks_are_due();
    make();
    assert_true(count(SCHEDULED) > 90);
}

FRESH_TEST(topics_without_an_owner_use_quotas_of_tokens_for_all_topics)
{
    token("a", DT_TOPICS_ALL, 0, 20);
    token("b", "other.", 0, 0);
    many(1, SECOND_MS);
    assert_int_equal(count(SCHEDULED), 20);
    put(schedule("o", "other.a", SECOND_MS));
    assert_in_range(count(SCHEDULED " AND topic = 'other.a'"), 100, 102);
    run_sql("UPDATE api_tokens SET scopes = 'write,admin' WHERE name = 'a'");
    looks_are_due();
    make();
    assert_in_range(count(SCHEDULED " AND topic = 'mine.b'"), 100, 102);
}

FRESH_TEST(a_fire_that_waits_for_a_quota_is_made_later)
{
    token("a", "mine.", 0, 1);
    put(schedule("first", "mine.b", 24 * HOUR_MS));
    assert_int_equal(count(SCHEDULED), 1);
    put(schedule("s", "mine.a", HOUR_MS));
    assert_int_equal(count("topic = 'mine.a'"), 0);
    run_sql("UPDATE schedules SET anchor_at = anchor_at - 1500000 WHERE name = 's'; UPDATE schedule_fires SET "
            "next_fire_at = next_fire_at - 1500000, waits_since = waits_since - 1500000, look_at = 1 WHERE name = 's'");
    make();
    assert_int_equal(count("topic = 'mine.a'"), 0);
    struct dt_schedule s;
    OK(dt_store_schedule_get(store, S("s"), &arena, &s, &err));
    assert_true(dt_str_is(s.error, "the token's quota of unfinished jobs of the token's topics is exceeded"));
    struct dt_job job;
    OK(dt_store_cancel(store, sql_number("SELECT id FROM jobs"), false, &arena, &job, &err));
    looks_are_due();
    make();
    assert_int_equal(count(SCHEDULED " AND topic = 'mine.a' AND run_at <= created_at"), 1);
    OK(dt_store_schedule_get(store, S("s"), &arena, &s, &err));
    assert_null(s.error.p);
}

FRESH_TEST(schedule_makers_serve_owners_in_turn)
{
    token("a", "mine.", 0, 0);
    many(80, 24 * HOUR_MS);
    put(schedule("o", "other.a", 24 * HOUR_MS));
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; UPDATE schedule_fires SET look_at = IF(name = 'o', 2, 1), "
            "last_fire_at = NULL, next_fire_at = next_fire_at - 86400000");
    assert_true(make().schedules < 81);
    assert_int_equal(count("topic = 'other.a'"), 1);
    assert_true(count("topic LIKE 'mine.%%'") > 0);
}

FRESH_TEST(a_token_with_prefixes_cannot_exceed_the_number_of_schedules)
{
    const struct dt_str prefixes[] = {S("mine."), S("mine.a")};
    const struct dt_topic_bound bound = {prefixes, 2};
    struct dt_fire_maker maker = a_maker();
    struct dt_schedule s = schedule("one", "mine.b", HOUR_MS);
    struct dt_schedule out;
    struct dt_schedule_put ask = {.schedule = &s};
    const int64_t was = mysql_fixture.config.limits_prefix_schedules;
    mysql_fixture.config.limits_prefix_schedules = 2;
    maker.bound = &bound;
    OK(dt_store_schedule_put(&maker, &ask, &out, &err));
    s.name = S("two");
    OK(dt_store_schedule_put(&maker, &ask, &out, &err));
    s.name = S("three");
    assert_int_equal(dt_store_schedule_put(&maker, &ask, &out, &err), DT_INVALID);
    assert_true(ask.too_many);
    s.name = S("two");
    s.job.digest[0] = 2;
    OK(dt_store_schedule_put(&maker, &ask, &out, &err));
    maker.bound = NULL;
    s.name = S("three");
    OK(dt_store_schedule_put(&maker, &ask, &out, &err));
    mysql_fixture.config.limits_prefix_schedules = was;
}

SUITE(begin, end)
