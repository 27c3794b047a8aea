/* What a job waits for: every word, from snapshots made by hand (the cache and the store are stood in for here). */

#include "support/suite.h"

#include "dispatch/shards.h"
#include "job/change/jobs.h"
#include "rest/explain_rest.h"
#include "topic/limits.h"

#define NOW INT64_C(1795257000000)

static struct dt_view view;
static struct dt_shards_view shards;
static struct dt_shard_info infos[2];
static struct dt_topic_settings topic;
static bool topic_known, in_flight;
static unsigned asked, looked;
static size_t room;

/* ---- stand-ins ---- */

STUB(struct dt_view *, dt_topic_cache_view, (dt_topic_cache * cache), &view)
void dt_view_release(struct dt_view *v)
{
    assert_true(v == NULL || v == &view);
}
const struct dt_topic_settings *dt_view_topic(const struct dt_view *v, struct dt_str name)
{
    assert_ptr_equal(v, &view);
    return topic_known && dt_str_eq(name, topic.name) ? &topic : NULL;
}
STUB(struct dt_shards_view *, dt_topic_cache_shards, (dt_topic_cache * cache), &shards)
void dt_shards_release(struct dt_shards_view *s)
{
    assert_true(s == NULL || s == &shards);
}
const struct dt_shard_info *dt_shards_find(const struct dt_shards_view *s, unsigned shard)
{
    return shard < s->n ? &s->shards[shard] : NULL;
}
dt_status dt_store_gates_look(dt_store *store, struct dt_gate *gates, size_t n, struct dt_error *)
{
    assert_non_null(store);
    assert_int_equal(n, 1);
    looked++;
    gates[0].room = room;
    gates[0].full = room < 2;
    return DT_OK;
}
dt_status dt_store_in_flight(dt_store *store, int64_t id, int shard, bool *yes, struct dt_error *)
{
    assert_non_null(store);
    assert_int_equal(id, 7);
    assert_int_equal(shard, 1);
    asked++;
    *yes = in_flight;
    return DT_OK;
}

static void healthy(void)
{
    memset(&view, 0, sizeof(view));
    dt_shard_map_init(&view.map, 1, 1); /* every job in shard 0 */
    for (unsigned i = 0; i < 2; i++)
        infos[i] = (struct dt_shard_info){.shard = i, .owner = DT_STR_LIT("host:1"), .seen_at_ms = NOW - 5000};
    shards = (struct dt_shards_view){.shards = infos, .n = 2, .dispatchers.now_ms = NOW};
    topic = (struct dt_topic_settings){.name = DT_STR_LIT("t")};
    topic_known = true;
    in_flight = false;
    asked = looked = 0;
    room = 0;
}

#define FRESH_TEST(name) TEST_WITH(name, healthy, NULL)

static const char *word_of(const struct dt_job *job)
{
    static int store;
    struct dt_waiting w = {.view = &view, .shards = &shards, .now_ms = NOW, .store = (dt_store *)&store};
    return dt_waiting_for(&w, job);
}

static struct dt_job scheduled(int64_t next_at_ms)
{
    return (struct dt_job){.id = 7, .topic = DT_STR_LIT("t"), .state = DT_SCHEDULED, .next_at_ms = next_at_ms};
}

static struct dt_job dispatched(void)
{
    return (struct dt_job){.id = 7,
                           .topic = DT_STR_LIT("t"),
                           .state = DT_DISPATCHED,
                           .next_at_ms = NOW + 1,
                           .attempt = 1,
                           .claim_shard = 1};
}

FRESH_TEST(a_future_job_waits_for_its_time_whatever_else_is_wrong)
{
    struct dt_job job = scheduled(NOW + 1);
    topic.paused = true;
    infos[0].owner = DT_STR_NONE;
    assert_string_equal(word_of(&job), "time");
}

FRESH_TEST(a_due_job_of_a_paused_topic_is_paused)
{
    struct dt_job job = scheduled(NOW);
    topic.paused = true;
    infos[0].owner = DT_STR_NONE;
    assert_string_equal(word_of(&job), "paused");
}

FRESH_TEST(a_due_job_that_is_called_back_waits_for_a_place_and_never_for_kafka)
{
    struct dt_job job = scheduled(NOW);
    infos[0].waiting = DT_STR_LIT("kafka");
    infos[0].callbacks = DT_STR_LIT("full");
    assert_string_equal(word_of(&job), "kafka");
    topic.delivery = DT_DELIVERY_HTTP;
    assert_string_equal(word_of(&job), "limit");
    infos[0].callbacks = DT_STR_NONE;
    assert_string_equal(word_of(&job), "leader");
    infos[0].waiting = DT_STR_LIT("redis");
    assert_string_equal(word_of(&job), "redis");
    infos[0].owner = DT_STR_NONE;
    infos[0].callbacks = DT_STR_LIT("off");
    assert_string_equal(word_of(&job), "leader");
}

FRESH_TEST(a_due_job_of_a_topic_at_its_limit_waits_for_room)
{
    struct dt_job job = scheduled(NOW);
    assert_string_equal(word_of(&job), "leader");
    assert_int_equal(looked, 0); /* it has no limit: nobody is asked */
    topic.limited = true;
    assert_string_equal(word_of(&job), "limit");
    room = 1;
    assert_string_equal(word_of(&job), "limit");
    room = 2;
    assert_string_equal(word_of(&job), "leader");
    room = 0;
    topic.paused = true;
    assert_string_equal(word_of(&job), "paused");
}

FRESH_TEST(the_limit_of_a_topic_is_read_once_for_many_jobs)
{
    static int store;
    struct dt_waiting w = {.view = &view, .shards = &shards, .now_ms = NOW, .store = (dt_store *)&store};
    struct dt_job job = scheduled(NOW);
    topic.limited = true;
    for (int i = 0; i < 20; i++)
        assert_string_equal(dt_waiting_for(&w, &job), "limit");
    assert_int_equal(looked, 1);
    w = (struct dt_waiting){.view = &view, .shards = &shards, .now_ms = NOW};
    assert_string_equal(dt_waiting_for(&w, &job), "leader"); /* nobody can be asked */
}

FRESH_TEST(a_due_job_waits_for_a_missing_leader)
{
    struct dt_job job = scheduled(NOW);
    infos[0].waiting = DT_STR_LIT("kafka");
    infos[0].owner = DT_STR_NONE;
    assert_string_equal(word_of(&job), "leader");
    healthy();
    infos[0].waiting = DT_STR_LIT("kafka");
    infos[0].seen_at_ms = NOW - 15001;
    assert_string_equal(word_of(&job), "leader");
    healthy();
    infos[0].waiting = DT_STR_LIT("kafka");
    infos[0].halted = DT_STR_LIT("ledger");
    assert_string_equal(word_of(&job), "leader");
}

FRESH_TEST(a_due_job_waits_for_kafka_while_dispatchers_wait_for_it_before_they_elect_a_leader)
{
    struct dt_job job = scheduled(NOW);
    infos[0].owner = DT_STR_NONE;
    shards.dispatchers.waits_kafka = true;
    assert_string_equal(word_of(&job), "leader"); /* none lives */
    shards.dispatchers.n = 1;
    assert_string_equal(word_of(&job), "kafka");
    topic.delivery = DT_DELIVERY_PULL;
    assert_string_equal(word_of(&job), "leader");
}

FRESH_TEST(a_due_job_waits_for_what_its_leader_waits_for)
{
    struct dt_job job = scheduled(NOW - 1000);
    assert_string_equal(word_of(&job), "leader");
    infos[0].waiting = DT_STR_LIT("kafka");
    assert_string_equal(word_of(&job), "kafka");
    infos[0].waiting = DT_STR_LIT("redis");
    assert_string_equal(word_of(&job), "redis");
    infos[0].waiting = DT_STR_LIT("something new");
    assert_string_equal(word_of(&job), "leader");
}

FRESH_TEST(a_dispatched_job_waits_for_kafka_only_while_it_is_unsent)
{
    struct dt_job job = dispatched();
    assert_string_equal(word_of(&job), "ack");
    infos[1].waiting = DT_STR_LIT("kafka");
    assert_string_equal(word_of(&job), "ack");
    infos[1].inflight = 3;
    assert_int_equal(asked, 0);
    assert_string_equal(word_of(&job), "ack");
    in_flight = true;
    assert_string_equal(word_of(&job), "kafka");
    assert_int_equal(asked, 2);
}

FRESH_TEST(a_finished_job_waits_for_nothing)
{
    for (int s = DT_SUCCEEDED; s < DT_JOB_STATES; s++) {
        struct dt_job job = {.id = 7, .topic = DT_STR_LIT("t"), .state = (enum dt_job_state)s};
        assert_null(word_of(&job));
    }
}

FRESH_TEST(without_snapshots_a_due_job_waits_for_a_leader)
{
    struct dt_job due = scheduled(NOW), sent = dispatched();
    struct dt_waiting w = {.now_ms = NOW};
    assert_string_equal(dt_waiting_for(&w, &due), "leader");
    assert_string_equal(dt_waiting_for(&w, &sent), "ack");
}
