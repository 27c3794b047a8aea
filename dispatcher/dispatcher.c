/* Owns the parts of a process, and what they report to each other. The supervisor is the thread of dt_dispatcher_run:
 * it starts and stops loops. Other threads (the elector's, the wake thread) only give orders to the table of loops, and
 * the supervisor carries these out. */
#include "dispatcher.h"

#include <unistd.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "base/outage.h"
#include "base/service.h"
#include "base/thread.h"
#include "deliver/hands.h"
#include "deliver/kafka/kafka_parts.h"
#include "dispatch/shards.h"
#include "election/elector.h"
#include "election/elector_kind.h"
#include "election/shard_map.h"
#include "features/clock/clock.h"
#include "features/doctor/process_findings.h"
#include "features/features.h"
#include "heartbeat.h"
#include "housekeeper.h"
#include "intake.h"
#include "redis/redis_subscriber.h"
#include "shard/shard_loop.h"
#include "store/store.h"

enum { NEWS = 1, STOP = 2 }; /* signals to the supervisor */

#define DRAIN_MS       3000
#define AGAIN_US       INT64_C(2000000)
#define PAUSE_FIRST_US INT64_C(100000) /* first pause between attempts to reach a server at the start */
#define PAUSE_MAX_US   INT64_C(3000000)
/* Threads for chores that must not be delayed, such as the renewal of a lease. More threads than these chores that wait
 * for Redis or a lock at the same time. */
#define URGENT_THREADS 4
#define CHORE_THREADS  6 /* at most four of these threads wait for Kafka at once (base/chores.h) */

struct dt_dispatcher {
    const struct dt_config *config;
    struct dt_config brief; /* configuration of the parts (struct dt_process_env) */
    struct dt_config hasty; /* configuration of the session that renews leases */
    struct dt_store_source stores, urgent_stores;
    struct dt_process_env env; /* what the parts share; also has the parts that other parts use */
    dt_refclock ref;
    char owner[100];
    struct dt_installation inst;
    struct dt_kafka_env kafka;
    dt_store *store;
    dt_elector *elector;
    dt_kafka_parts *kafka_parts;
    dt_housekeeper *housekeeper;
    struct dt_resting *schedules, *operations, *inbox;
    dt_examiner *examiner;
    _Atomic bool kafka_away; /* whether Kafka left the examiner's last request unanswered */
    dt_heartbeat *heartbeat; /* set before the loops and threads that use it start */
    dt_wake *wake;           /* used by loops and threads; NULL without an index */
    dt_due_watch *due_watch; /* NULL with an index */
    dt_announcer *announcer;
    dt_clock_follower *follower;
    dt_features *features;
    struct dt_error wrong_clock; /* why the configuration does not fit the installation's clock; status OK: it fits */
    dt_shard_map_source *watch;
    struct dt_shard_range range; /* as read at the start; later the source of the shard map has the current range */
    _Atomic bool stop;
    dt_mailbox *mailbox;
    struct dt_service *service, nobody;
    int64_t life_us; /* mono: when the service manager must next be notified that the process is alive */
};

/* ---- orders, from any thread ---- */

static void signal_news(void *arg)
{
    dt_mailbox_signal(((dt_dispatcher *)arg)->mailbox, NEWS);
}

static void want_shard(void *arg, unsigned shard, enum dt_loop_want want)
{
    dt_loop_table_want(((dt_dispatcher *)arg)->env.loops, shard, want);
}

static void on_loop_stopped(void *arg, unsigned shard)
{
    dt_loop_table_ended(((dt_dispatcher *)arg)->env.loops, shard);
}

static dt_heartbeat *heartbeat_of(dt_dispatcher *d)
{
    return __atomic_load_n(&d->heartbeat, __ATOMIC_ACQUIRE);
}

static void on_shard_released(void *arg, unsigned shard)
{
    dt_elector_released(((dt_dispatcher *)arg)->elector, shard);
    dt_heartbeat_news(heartbeat_of(arg));
}

/* ---- what loops and threads ask ---- */

static bool leads_shard(void *arg, unsigned shard)
{
    return dt_elector_leads(((dt_dispatcher *)arg)->elector, shard) || DT_FAIL_FORCED("lead.forced");
}

/* Returns this process's rank in the election. The thread of the results may call it before the election has
 * started. */
static bool get_election_rank(void *arg, unsigned *rank, unsigned *members)
{
    dt_dispatcher *d = arg;
    const dt_elector *elector = __atomic_load_n(&d->elector, __ATOMIC_ACQUIRE);
    return elector && dt_elector_rank(elector, rank, members);
}

/* Returns how many shards the election gives to this process; at least 1. If the shards do not divide evenly, the
 * members that joined first have one shard more. */
static unsigned fair_number_of_shards(void *arg)
{
    dt_dispatcher *d = arg;
    struct dt_shard_map map;
    unsigned rank = 0;
    unsigned members = 1;
    dt_shard_map_source_get(d->watch, &map);
    if (!get_election_rank(d, &rank, &members) || !members)
        members = 1;
    return map.shards > members ? (map.shards + members - 1) / members : 1;
}

static void get_shard_map(void *arg, struct dt_shard_map *out)
{
    dt_shard_map_source_get(((dt_dispatcher *)arg)->watch, out);
}

static void mark_shard_map_stale(void *arg)
{
    dt_shard_map_source_stale(((dt_dispatcher *)arg)->watch);
}

static void on_shard_count_changed(void *arg, unsigned shards)
{
    dt_elector_set_shards(((dt_dispatcher *)arg)->elector, shards);
}

static unsigned count_shard_rows(void *arg)
{
    const dt_dispatcher *d = arg;
    return d->watch ? dt_shard_map_source_rows(d->watch) : 0; /* before the process has started, it leads nothing */
}

/* Returns whether this process sends the notices of a shard. A process with an old map may write notices for a shard
 * that the map no longer names; the leader of another shard sends these. */
static bool sends_notices_of_shard(void *arg, int64_t shard)
{
    dt_dispatcher *d = arg;
    return leads_shard(d, (unsigned)shard % dt_shard_map_source_named(d->watch));
}

static void on_index_lost(void *arg, unsigned shard)
{
    dt_housekeeper_rebuild(((dt_dispatcher *)arg)->housekeeper, shard);
}

static void on_index_doubted(void *arg)
{
    dt_housekeeper_doubt(((dt_dispatcher *)arg)->housekeeper);
}

/* Called when entries could not be written to the index. The heartbeat reports this to all processes, and leaders doubt
 * the sets at the endpoints that failed. */
static void on_index_entries_lost(void *arg, const dt_index *index)
{
    char down[256];
    dt_index_failing(index, down, sizeof(down));
    dt_heartbeat_lost(heartbeat_of(arg), down);
}

static bool index_is_written(void *arg, const char *endpoint)
{
    return !dt_heartbeat_owed(heartbeat_of(arg), endpoint);
}

static bool receives_wake_ups(void *arg)
{
    dt_dispatcher *d = arg;
    const dt_wake *wake = __atomic_load_n(&d->wake, __ATOMIC_ACQUIRE);
    return wake ? dt_wake_hears(wake) : dt_due_watch_hears(__atomic_load_n(&d->due_watch, __ATOMIC_ACQUIRE));
}

static bool is_no_job_due(void *arg)
{
    return dt_due_watch_none_due(__atomic_load_n(&((dt_dispatcher *)arg)->due_watch, __ATOMIC_ACQUIRE));
}

static bool get_watched_row(void *arg, unsigned shard, struct dt_watched_row *out)
{
    return dt_due_watch_row(__atomic_load_n(&((dt_dispatcher *)arg)->due_watch, __ATOMIC_ACQUIRE), shard, out);
}

static void on_leads_changed(void *arg)
{
    dt_heartbeat_news(heartbeat_of(arg));
}

static void on_leadership_moved(void *arg)
{
    dt_heartbeat_announce(heartbeat_of(arg));
}

/* Called when messages were added to a shard's outbox. If another process leads the shard, announces this on the wake
 * channel. */
static void wake_outbox_of_shard(void *arg, unsigned shard)
{
    dt_dispatcher *d = arg;
    if (sends_notices_of_shard(d, shard))
        dt_kafka_parts_outbox(d->kafka_parts);
    else
        dt_announcer_tell(d->announcer, (int)shard);
}

static void tell_shard(void *arg, unsigned shard, enum dt_loop_news news)
{
    dt_loop_table_tell(((dt_dispatcher *)arg)->env.loops, shard, news);
}

static struct dt_read_up_to read_up_to(void *arg)
{
    return dt_kafka_parts_read_up_to(((dt_dispatcher *)arg)->kafka_parts);
}

static void request_read(void *arg, unsigned shard, int64_t deadline_ms)
{
    dt_kafka_parts_want_read(((dt_dispatcher *)arg)->kafka_parts, shard, deadline_ms);
}

/* Notifies the leaders of this process that attempts were lost. Leaders in other processes find lost attempts by
 * polling. */
static void on_attempts_lost(void *arg, const int64_t *ids, size_t n)
{
    dt_dispatcher *d = arg;
    struct dt_shard_map map;
    dt_shard_map_source_get(d->watch, &map);
    dt_loop_table_tell_lost(d->env.loops, &map, ids, n);
}

static void on_wake_message(void *arg, int shard, bool outbox)
{
    dt_dispatcher *d = arg;
    if (shard >= DT_SHARDS_MAX)
        return;
    if (shard >= 0) {
        dt_loop_table_tell(d->env.loops, (unsigned)shard, DT_LOOP_DUE);
    } else {
        dt_loop_table_tell_all(d->env.loops, DT_LOOP_AGAIN);
        dt_shard_map_source_stale(d->watch);
        dt_heartbeat_news(heartbeat_of(d));
        dt_elector_news(d->elector);
    }
    if (shard >= 0 && outbox && sends_notices_of_shard(d, shard))
        dt_kafka_parts_outbox(d->kafka_parts);
}

static bool get_loop_state(void *arg, unsigned shard, struct dt_loop_state *out)
{
    return dt_loop_table_state(((dt_dispatcher *)arg)->env.loops, shard, out);
}

/* Makes the leaders of this process doubt their sets, because entries of any shard may be missing. */
static void doubt_all_indexes(void *arg)
{
    dt_dispatcher *d = arg;
    dt_loop_table_doubt_all(d->env.loops);
    dt_housekeeper_doubt(d->housekeeper);
}

/* Called when the installation's clock has changed: jobs that are due by the new time may be missing in the index, or
 * due earlier than sleeping threads expect. */
static void on_clock_changed(void *arg)
{
    dt_dispatcher *d = arg;
    if (dt_index_configured(d->config))
        doubt_all_indexes(d);
    dt_loop_table_tell_all(d->env.loops, DT_LOOP_DUE);
    dt_resting_wake(d->schedules); /* fires and operations are due by this clock */
    dt_resting_wake(d->operations);
}

static void announce_all(void *arg)
{
    dt_announcer_tell(((dt_dispatcher *)arg)->announcer, -1);
}

/* ---- carrying orders out ---- */

static void carry_out_orders(dt_dispatcher *d)
{
    bool leaving = false;
    while (!leaving || !dt_elector_idle(d->elector)) {
        if (d->stop && !leaving) {
            leaving = true;
            DT_LOG(INFO, "dispatcher", "stopping: releasing shards");
            dt_elector_leave(d->elector);
            dt_watcher_leave(d->env.watcher);
            dt_resting_leave(d->inbox);
            dt_resting_leave(d->operations);
            dt_resting_leave(d->schedules);
            dt_features_leave(d->features);
        }
        /* If a test makes this process lead shards that the election gave to another process, no event announces such
         * shards, so this loop polls. */
        const bool forced = DT_FAIL_FORCED("lead.forced");
        bool again = dt_loop_table_carry_out(d->env.loops, forced && !d->stop ? d->range.led : 0) || forced;
        int64_t now_us = dt_clock_mono_us(d->env.clock);
        int64_t until_us = leaving ? now_us + 50000 : again ? now_us + AGAIN_US : INT64_MAX;
        const int64_t alive_us = dt_service_pause_us(d->service);
        if (alive_us != INT64_MAX && now_us >= d->life_us) {
            dt_service_tell(d->service, DT_SERVICE_ALIVE);
            d->life_us = now_us + alive_us;
        }
        dt_mailbox_wait(d->mailbox, alive_us != INT64_MAX ? dt_earlier(until_us, d->life_us) : until_us);
    }
}

/* ---- starting ---- */

/* Tries to reach a server, with growing pauses, until it succeeds. Failures are reported as an outage of `what`.
 * SHUTDOWN: the process stops. */
static dt_status retry_until_ready(dt_dispatcher *d, enum dt_outage_of what,
                                   dt_status (*attempt)(dt_dispatcher *d, struct dt_error *err))
{
    struct dt_outage_part outage = {0};
    for (int64_t pause_us = PAUSE_FIRST_US; !d->stop; pause_us = dt_earlier(pause_us * 2, PAUSE_MAX_US)) {
        struct dt_error err = {0};
        dt_status status = attempt(d, &err);
        if (status == DT_OK) {
            dt_outage_over(&outage);
            return DT_OK;
        }
        dt_outage_failed(&outage, what, "dispatcher", "this dispatcher waits before it starts", status, &err);
        int64_t jitter_us = (int64_t)(d->env.random() % (uint64_t)(pause_us / 2));
        dt_mailbox_pause(d->mailbox, dt_clock_mono_us(d->env.clock) + pause_us / 2 + jitter_us, STOP);
    }
    return DT_SHUTDOWN;
}

static dt_status reach_mysql(dt_dispatcher *d, struct dt_error *err)
{
    dt_service_waits(d->service, "waits for MySQL and its schema");
    dt_status status = dt_store_ping(d->store, err);
    DT_THEN(status, dt_store_check_schema(d->store, err));
    DT_THEN(status, dt_store_check_test_clock(d->store, err));
    if (status == DT_INVALID) { /* permanent, so it is not retried: dt_dispatcher_run returns it */
        d->wrong_clock = *err;
        return DT_OK;
    }
    DT_THEN(status, dt_store_installation(d->store, &d->inst, err));
    DT_THEN(status, dt_store_shard_range(d->store, &d->inst, &d->range, err));
    d->kafka = (struct dt_kafka_env){
        .config = d->config, .installation = d->inst.name, .uuid = d->inst.uuid, .shards = d->inst.shards};
    d->env.installation = d->inst.name;
    return status;
}

static dt_status reach_kafka(dt_dispatcher *d, struct dt_error *err)
{
    dt_service_waits(d->service, "waits for Kafka");
    return dt_kafka_parts_reach(&d->kafka, err);
}

/* Starts the parts that receive events. Other threads use their pointers while the remaining parts are started. */
static dt_status start_listening(dt_dispatcher *d, struct dt_error *err)
{
    dt_heartbeat *heartbeat = NULL;
    dt_due_watch *due_watch = NULL;
    dt_wake *wake = NULL;
    dt_status status = dt_heartbeat_start(&d->env, &heartbeat);
    __atomic_store_n(&d->heartbeat, heartbeat, __ATOMIC_RELEASE);
    DT_THEN(status, dt_wake_start(d->config, d->inst.name, on_wake_message, d, &wake, err));
    __atomic_store_n(&d->wake, wake, __ATOMIC_RELEASE);
    DT_THEN(status, dt_due_watch_new(&d->env, &due_watch, err));
    __atomic_store_n(&d->due_watch, due_watch, __ATOMIC_RELEASE);
    return status;
}

static dt_status start_helpers(dt_dispatcher *d, struct dt_error *err)
{
    struct dt_process_env *env = &d->env;
    const struct dt_watcher_env watcher = {d->config, env->clock, env->ref, env->process};
    dt_status status = dt_shard_map_source_start(env, &d->inst, &d->range, &d->watch);
    DT_THEN(status, dt_announcer_new(env, &d->announcer, err));
    DT_THEN(status, dt_kafka_parts_start(env, &d->kafka_parts, err));
    DT_THEN(status, dt_hands_start(env, &env->hands, err));
    DT_THEN(status, dt_housekeeper_start(env, &d->housekeeper, err));
    DT_THEN(status, dt_watcher_new(&watcher, &env->watcher, err));
    const struct dt_features_env features = {.chores = env->chores,
                                             .config = d->config,
                                             .clock = env->clock,
                                             .ref = env->ref,
                                             .installation = env->installation,
                                             .kafka = dt_kafka_parts_producer(d->kafka_parts),
                                             .process = env->process};
    const struct dt_clock_follower_env follower = {d->config, env->ref, env->watcher, d, on_clock_changed};
    DT_THEN(status, dt_schedule_maker_start(env, &d->schedules, err));
    DT_THEN(status, dt_operation_runner_start(env, &d->operations, err));
    DT_THEN(status, dt_inbox_chore_start(env, d->operations, d->schedules, &d->inbox, err));
    DT_THEN(status, dt_features_start(&features, &d->features, err));
    DT_THEN(status, dt_examiner_start(env, &d->examiner));
    DT_THEN(status, start_listening(d, err));
    DT_THEN(status, dt_clock_follower_new(&follower, &d->follower, err));
    return DT_THEN(status, dt_watcher_start(env->watcher, err));
}

static dt_status start_electing(dt_dispatcher *d, struct dt_error *err)
{
    struct dt_elector_env elector = {.urgent = d->env.urgent,
                                     .config = d->config,
                                     .installation = d->inst.name,
                                     .shards = d->range.led,
                                     .owner = d->owner,
                                     .clock = d->env.clock,
                                     .events = {d, want_shard, on_leadership_moved}};
    dt_status status = dt_room_start(&d->env, &d->env.room);
    return DT_THEN(status, dt_elector_start(&elector, &d->elector, err));
}

/* Ends the parts. A part that calls other parts ends before them. Three parts call each other in a ring: the source of
 * the shard map calls the elector, the elector calls the heartbeat, and the heartbeat calls the source. So the source
 * is stopped before the elector, and freed last. */
static void end_dispatcher_parts(dt_dispatcher *d)
{
    dt_watcher_stop(d->env.watcher);
    dt_clock_follower_free(d->follower);
    dt_hands_stop(d->env.hands);
    dt_chores_cut(d->env.chores); /* ends statements that ticks are waiting for */
    dt_features_stop(d->features);
    dt_wake_stop(d->wake);
    dt_examiner_stop(d->examiner);
    dt_kafka_parts_stop(d->kafka_parts);
    dt_kafka_admin_free(d->kafka.admin);
    dt_inbox_chore_stop(d->inbox); /* before the parts that it wakes */
    dt_operation_runner_stop(d->operations);
    dt_schedule_maker_stop(d->schedules);
    dt_shard_map_source_stop(d->watch);
    if (d->elector)
        dt_elector_stop(d->elector);
    dt_heartbeat_stop(d->heartbeat);
    dt_housekeeper_stop(d->housekeeper);
    dt_room_stop(d->env.room);
    dt_shard_map_source_free(d->watch);
    dt_announcer_free(d->announcer);
    dt_due_watch_free(d->due_watch);
    dt_watcher_free(d->env.watcher);
    dt_kafka_drain(DRAIN_MS); /* the handles that are being destroyed commit the offsets of the last results */
}

dt_status dt_dispatcher_run(dt_dispatcher *d, struct dt_error *err)
{
    dt_heartbeat *heartbeat = NULL;
    dt_status status = retry_until_ready(d, DT_OUTAGE_MYSQL, reach_mysql);
    if (status == DT_OK && d->wrong_clock.status == DT_INVALID) {
        *err = d->wrong_clock;
        status = DT_INVALID;
    }
    dt_store_free(d->store); /* no part needs this store any more */
    d->store = NULL;
    /* Before the process has reached Kafka, it leads nothing. But its row already says that it is alive, and what it
     * waits for. */
    d->kafka_away = status == DT_OK && dt_config_has_kafka(d->config);
    if (d->kafka_away)
        status = dt_heartbeat_start(&d->env, &heartbeat);
    DT_THEN(status, retry_until_ready(d, DT_OUTAGE_KAFKA, reach_kafka));
    d->kafka_away = false;
    dt_heartbeat_stop(heartbeat);
    DT_THEN(status, start_electing(d, err));
    DT_THEN(status, start_helpers(d, err));
    if (status == DT_OK) {
        DT_LOG(INFO, "dispatcher", "ready", DT_S("installation", d->inst.name), DT_I("shards", d->inst.shards),
               DT_S("owner", d->owner));
        dt_service_ready(d->service);
        carry_out_orders(d);
    }
    dt_loop_table_end(d->env.loops);
    end_dispatcher_parts(d);
    return status == DT_SHUTDOWN ? DT_OK : status;
}

dt_status dt_dispatcher_new(const struct dt_config *config, const dt_clock *clock, uint64_t (*random)(void),
                            dt_dispatcher **out, struct dt_error *err)
{
    char host[64] = "localhost";
    dt_dispatcher *d = calloc(1, sizeof(*d));
    if (!d)
        return dt_fail(err, DT_NOMEM, "out of memory");
    d->config = config;
    d->nobody = (struct dt_service)DT_SERVICE_NONE;
    d->service = &d->nobody;
    d->brief = *config;
    d->brief.mysql_idle_transaction_timeout =
        dt_earlier(config->mysql_idle_transaction_timeout, dt_lease_patience_ms(config->zookeeper_session_timeout));
    d->hasty = dt_lease_config(&d->brief);
    d->stores = (struct dt_store_source){&d->brief, &d->ref};
    d->urgent_stores = (struct dt_store_source){&d->hasty, NULL};
    d->env.random = random;
    dt_refclock_init(&d->ref, clock);
    gethostname(host, sizeof(host) - 1);
    snprintf(d->owner, sizeof(d->owner), "%s:%ld", host, (long)getpid());
    d->kafka.config = config;
    d->env = (struct dt_process_env){.config = &d->brief,
                                     .owner = d->owner,
                                     .process = (int64_t)(d->env.random() >> 1),
                                     .clock = clock,
                                     .ref = &d->ref,
                                     .kafka = &d->kafka,
                                     .kafka_away = &d->kafka_away,
                                     .arg = d,
                                     .random = random,
                                     .leads = leads_shard,
                                     .place = get_election_rank,
                                     .share = fair_number_of_shards,
                                     .map = get_shard_map,
                                     .stale_map = mark_shard_map_stale,
                                     .shards = count_shard_rows,
                                     .led_changed = on_shard_count_changed,
                                     .tell = tell_shard,
                                     .lost = on_attempts_lost,
                                     .state = get_loop_state,
                                     .led = on_leads_changed,
                                     .stopped = on_loop_stopped,
                                     .ordered = signal_news,
                                     .released = on_shard_released,
                                     .hears = receives_wake_ups,
                                     .watched_row = get_watched_row,
                                     .none_due = is_no_job_due,
                                     .index_lost = on_index_lost,
                                     .index_doubted = on_index_doubted,
                                     .index_entries_lost = on_index_entries_lost,
                                     .index_told = index_is_written,
                                     .doubt = doubt_all_indexes,
                                     .announce = announce_all,
                                     .read_up_to = read_up_to,
                                     .want_read = request_read,
                                     .outbox = wake_outbox_of_shard,
                                     .sends_outbox = sends_notices_of_shard};
    dt_status status = dt_store_chores_start(&d->urgent_stores, clock, "urgent", URGENT_THREADS, &d->env.urgent, err);
    DT_THEN(status, dt_store_chores_start(&d->stores, clock, "chores", CHORE_THREADS, &d->env.chores, err));
    DT_THEN(status, dt_mailbox_new(&d->mailbox));
    DT_THEN(status, dt_loop_table_new(&d->env, &d->env.loops));
    DT_THEN(status, dt_store_new(config, &d->ref, &d->store));
    if (status != DT_OK) {
        dt_dispatcher_free(d);
        return dt_fail(err, status, "cannot start");
    }
    *out = d;
    return DT_OK;
}

void dt_dispatcher_tells(dt_dispatcher *d, struct dt_service *service)
{
    d->service = service;
}

void dt_dispatcher_stop(dt_dispatcher *d)
{
    d->stop = true;
    dt_mailbox_signal(d->mailbox, STOP);
}

void dt_dispatcher_died(void *dispatcher, const char *where, const char *what, int shard)
{
    const dt_dispatcher *d = dispatcher;
    dt_store_put_death(d->config, d->env.process, where, what, shard);
}

void dt_dispatcher_free(dt_dispatcher *d)
{
    if (!d)
        return;
    dt_chores_stop(d->env.chores);
    dt_chores_stop(d->env.urgent);
    dt_store_free(d->store);
    dt_loop_table_free(d->env.loops);
    dt_mailbox_free(d->mailbox);
    free(d);
}
