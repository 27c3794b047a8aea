/* Each part that has threads is started, or it is not and leaves nothing behind, whichever of its calls for memory or for
 * a thread fails. There is no server: what a part has started waits for one until it is stopped. */
#include <errno.h>
#include <pthread.h>

#include "unit/base/out_of_memory_suite.h"

#include "api.h"
#include "deliver/hands.h"
#include "deliver/kafka/kafka_parts.h"
#include "dispatch/shards.h"
#include "dispatcher.h"
#include "election/shard_map.h"
#include "features/clock/clock.h"
#include "features/features.h"
#include "heartbeat.h"
#include "housekeeper.h"
#include "intake.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "intake/index_writer.h"
#include "intake/results_rest.h"
#include "pull/pop_room.h"
#include "request/auth.h"
#include "request/quotas.h"
#include "request/topic_cache.h"
#include "request/workers.h"
#include "rest/health.h"
#include "rest/overview_rest.h"
#include "shard/shard_loop.h"

/* ---- threads ---- */

static _Thread_local long threads_left; /* threads until one cannot be had; 0: all can */
static _Thread_local bool thread_failed;

__typeof__(pthread_create) __real_pthread_create;
__typeof__(pthread_create) __wrap_pthread_create;

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    if (threads_left == 0 || --threads_left > 0)
        return __real_pthread_create(id, attr, run, arg);
    thread_failed = true;
    return EAGAIN;
}

/* Starts the part until it has got all its threads. */
static void at_each_thread(dt_status (*start)(void))
{
    long n = 0;
    do {
        thread_failed = false;
        threads_left = ++n;
        dt_status status = start();
        threads_left = 0;
        if (thread_failed == (status == DT_OK))
            fail_msg("thread %ld: %s", n, dt_status_name(status));
    } while (thread_failed);
    assert_true(n >= 2);
}

static void at_each(dt_status (*start)(void))
{
    at_each_call(start);
    at_each_thread(start);
}

/* A function that starts the part `out`, stops it if that succeeded, and frees it. */
#define PART(name, type, stop, discard, ...)                                                                           \
    static dt_status name(void)                                                                                        \
    {                                                                                                                  \
        type *out = NULL;                                                                                              \
        dt_status status = __VA_ARGS__;                                                                                \
        if (status == DT_OK)                                                                                           \
            stop(out);                                                                                                 \
        discard(out);                                                                                                  \
        return status;                                                                                                 \
    }

/* ---- a process ---- */

static struct dt_config config;
static struct dt_config without_redis; /* the same texts */
static dt_refclock ref;
static struct dt_session_env env;
static dt_topic_cache *topics;
static dt_loop_table *loops;
static struct dt_store_source stores;
static dt_chores *chores;
static struct dt_process_env process;
static void provide(void);
static struct dt_error err;

static void begin(void)
{
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_OK);
    config.mysql_port = 1; /* nobody listens there */
    config.installation_test_clock = true;
    config.api_commit_jobs = 10;
    config.api_queue_jobs = 100;
    without_redis = config;
    without_redis.redis_endpoints = NULL;
    dt_refclock_init(&ref, dt_clock_system());
    env = (struct dt_session_env){.config = &config, .clock = dt_clock_system(), .ref = &ref};
    stores = (struct dt_store_source){&config, &ref};
    assert_int_equal(dt_store_chores_start(&stores, dt_clock_system(), "chores", 2, &chores, &err), DT_OK);
    assert_int_equal(dt_topic_cache_new(&config, dt_clock_system(), &topics), DT_OK);
    assert_int_equal(dt_loop_table_new(&process, &loops), DT_OK);
    provide();
}

static void end(void)
{
    dt_topic_cache_free(topics);
    dt_loop_table_free(loops);
    dt_chores_stop(chores);
    dt_config_clear(&config);
}

/* ---- the API ---- */

PART(start_topic_cache, dt_topic_cache, (void), dt_topic_cache_free,
     dt_topic_cache_new(&config, dt_clock_system(), &out))
PART(start_overview, dt_overview, (void), dt_overview_free,
     dt_overview_new(&(struct dt_api){.config = &config, .clock = dt_clock_system(), .ref = &ref, .topics = topics},
                     &out))
PART(start_gate, dt_gate, dt_gate_close, dt_gate_free,
     dt_gate_new("jobs", &(struct dt_gate_bounds){.chunk_rows = 10, .rows = 100}, &out))

TEST(parts_of_the_api_without_threads_are_made_or_leave_nothing)
{
    at_each_call(start_topic_cache);
    at_each_call(start_overview);
    at_each_call(start_gate);
}

PART(start_quotas, dt_quotas, dt_quotas_stop, dt_quotas_free, dt_quotas_start(&env, chores, &out, &err))
PART(start_index_writer, dt_index_writer, dt_index_writer_stop, dt_index_writer_free,
     dt_index_writer_start(&env, topics, &out, &err))
PART(start_committer, dt_committer, dt_committer_stop, dt_committer_free,
     dt_committer_start(&env, topics, NULL, &out, &err))
PART(start_results_batcher, dt_results_batcher, dt_results_batcher_stop, dt_results_batcher_free,
     dt_results_batcher_start(&env, topics, NULL, &out, &err))

static dt_status start_workers(void)
{
    static struct dt_activity activity;
    dt_workers *workers = NULL;
    dt_status status = dt_workers_start(&env, &activity, &workers, &err);
    if (status == DT_OK)
        dt_workers_stop(workers);
    dt_workers_free(workers);
    return status;
}

PART(start_pop_room, dt_pop_room, dt_pop_room_stop, dt_pop_room_free,
     dt_pop_room_start(&env,
                       &(struct dt_api){.config = &config, .clock = dt_clock_system(), .ref = &ref, .topics = topics},
                       &out, &err))

TEST(parts_that_take_requests_are_started_or_leave_nothing)
{
    at_each_call(start_quotas);
    at_each(start_index_writer);
    at_each(start_committer);
    at_each(start_results_batcher);
    at_each(start_workers);
    at_each(start_pop_room);
}

static dt_status start_health(void)
{
    dt_auth *auth = NULL;
    dt_health *health = NULL;
    dt_status status = dt_auth_new(false, NULL, &auth);
    if (status == DT_OK)
        status = dt_health_start(&env, chores, topics, auth, NULL, &health, &err);
    if (status == DT_OK)
        dt_health_stop(health);
    dt_health_free(health);
    dt_auth_free(auth);
    return status;
}

TEST(the_health_check_is_started_or_leaves_nothing)
{
    at_each_call(start_health);
}

/* ---- both programs ---- */

PART(start_chores, dt_chores, (void), dt_chores_stop,
     dt_store_chores_start(&stores, dt_clock_system(), "chores", 3, &out, &err))

static dt_status start_features(void)
{
    const struct dt_features_env parts = {.chores = chores, .config = &config, .clock = dt_clock_system(), .ref = &ref};
    dt_features *out = NULL;
    dt_status status = dt_features_start(&parts, &out, &err);
    if (status == DT_OK) {
        dt_features_leave(out);
        dt_features_stop(out);
    }
    return status;
}

static dt_status start_clock_follower(void)
{
    const struct dt_watcher_env listens = {.config = &config, .clock = dt_clock_system(), .ref = &ref};
    dt_watcher *watcher = NULL;
    dt_clock_follower *out = NULL;
    dt_status status = dt_watcher_new(&listens, &watcher, &err);
    const struct dt_clock_follower_env follower = {.config = &config, .ref = &ref, .watcher = watcher};
    if (status == DT_OK)
        status = dt_clock_follower_new(&follower, &out, &err);
    if (status == DT_OK)
        status = dt_watcher_start(watcher, &err);
    dt_watcher_free(watcher);
    dt_clock_follower_free(out);
    return status;
}

TEST(parts_of_both_programs_are_started_or_leave_nothing)
{
    at_each_call(start_chores);
    at_each_call(start_features);
    at_each(start_clock_follower);
}

/* ---- dispatchers ---- */

STUB(static unsigned, no_shards, (void *arg), 0)
STUB(static bool, no_loop, (void *arg, unsigned shard, struct dt_loop_state *out), false)
STUB(static bool, not_known, (void *arg), false)
STUB(static void, nobody, (void *arg), )
STUB(static void, no_shard, (void *arg, unsigned shard), )
STUB(static void, no_news, (void *arg, unsigned shard, enum dt_loop_news news), )

static void one_shard(void *, struct dt_shard_map *out)
{
    dt_shard_map_init(out, 1, 1);
}

STUB(static uint64_t, zero, (void), 0)
STUB(static void, untold, (void *arg, const dt_index *index), )
STUB(static void, no_jobs, (void *arg, const int64_t *ids, size_t n), )

static void provide(void)
{
    static _Atomic bool kafka_away;
    static struct dt_kafka_env no_kafka;
    process = (struct dt_process_env){.config = &config,
                                      .installation = "duetime",
                                      .owner = "test:1",
                                      .process = 1,
                                      .clock = dt_clock_system(),
                                      .ref = &ref,
                                      .chores = chores,
                                      .urgent = chores,
                                      .kafka = &no_kafka,
                                      .kafka_away = &kafka_away,
                                      .loops = loops,
                                      .random = zero,
                                      .map = one_shard,
                                      .stale_map = nobody,
                                      .shards = no_shards,
                                      .led_changed = no_shard,
                                      .tell = no_news,
                                      .lost = no_jobs,
                                      .state = no_loop,
                                      .none_due = not_known,
                                      .index_entries_lost = untold,
                                      .doubt = nobody,
                                      .announce = nobody,
                                      .outbox = no_shard};
}

static dt_status start_due_watch(void)
{
    const struct dt_watcher_env listens = {.config = &without_redis, .clock = dt_clock_system(), .ref = &ref};
    struct dt_process_env due = process;
    dt_due_watch *out = NULL;
    due.config = &without_redis;
    dt_status status = dt_watcher_new(&listens, &due.watcher, &err);
    if (status == DT_OK)
        status = dt_due_watch_new(&due, &out, &err);
    if (status == DT_OK)
        status = dt_watcher_start(due.watcher, &err);
    dt_watcher_free(due.watcher);
    dt_due_watch_free(out);
    return status;
}

PART(start_heartbeat, dt_heartbeat, dt_heartbeat_stop, (void), dt_heartbeat_start(&process, &out))
PART(start_room, dt_room, dt_room_stop, (void), dt_room_start(&process, &out))
PART(start_housekeeper, dt_housekeeper, dt_housekeeper_stop, (void), dt_housekeeper_start(&process, &out, &err))

static dt_status start_shard_map(void)
{
    const struct dt_installation inst = {.shards = 1, .generation = 1};
    const struct dt_shard_range range = {.led = 1, .rows = 1};
    dt_shard_map_source *out = NULL;
    dt_status status = dt_shard_map_source_start(&process, &inst, &range, &out);
    dt_shard_map_source_stop(out);
    dt_shard_map_source_free(out);
    return status;
}

PART(start_announcer, dt_announcer, dt_announcer_free, (void), dt_announcer_new(&process, &out, &err))
PART(start_schedules, struct dt_resting, dt_resting_leave, dt_schedule_maker_stop,
     dt_schedule_maker_start(&process, &out, &err))
PART(start_operations, struct dt_resting, dt_resting_leave, dt_operation_runner_stop,
     dt_operation_runner_start(&process, &out, &err))
PART(start_inbox, struct dt_resting, dt_resting_leave, dt_inbox_chore_stop,
     dt_inbox_chore_start(&process, NULL, NULL, &out, &err))
PART(start_examiner, dt_examiner, dt_examiner_stop, (void), dt_examiner_start(&process, &out))
PART(make_dispatcher, dt_dispatcher, dt_dispatcher_free, (void),
     dt_dispatcher_new(&config, dt_clock_system(), zero, &out, &err))

static dt_status start_hands(void)
{
    dt_hands *out = NULL;
    dt_status status = dt_hands_start(&process, &out, &err);
    if (status == DT_OK)
        dt_hands_stop(out);
    /* What the lookups of names share cannot be made for want of memory, among other reasons. */
    return status == DT_SYSTEM && failed ? DT_NOMEM : status;
}

TEST(the_sender_of_callbacks_is_started_or_leaves_nothing)
{
    at_each(start_hands);
    config.callbacks_enabled = !config.callbacks_enabled;
    at_each(start_hands);
    config.callbacks_enabled = !config.callbacks_enabled;
}

TEST(the_dispatcher_intake_and_examiner_are_started_or_leave_nothing)
{
    at_each_call(make_dispatcher);
    at_each_call(start_schedules);
    at_each_call(start_operations);
    at_each_call(start_inbox);
    at_each_call(start_examiner);
}

TEST(chores_of_a_dispatcher_are_started_or_leave_nothing)
{
    at_each_call(start_heartbeat);
    at_each(start_due_watch);
    at_each_call(start_room);
    at_each_call(start_housekeeper);
    at_each_call(start_shard_map);
    at_each_call(start_announcer);
}

SUITE(begin, end)
