/* Answers for operators and probes: health, readiness, metrics, openapi.yaml; the installation and its number of
 * shards; the caller's rights; the test clock. Readiness shows what the health chore found, at most about two seconds
 * ago, so that a probe never waits for a server that is down. */

#include "answer.h"
#include "base/assert.h"
#include "base/http/tls_files.h"
#include "base/metrics.h"
#include "dispatch/shards.h"
#include "explain_rest.h"
#include "features/clock/clock.h"
#include "handlers.h"
#include "health.h"
#include "job/job.h"
#include "openapi.h"
#include "request/topic_cache.h"
#include "store/processes.h"

#define SHARD_BYTES  ((size_t)4 << 10) /* bytes of a shard in /v1/info: two reasons of 500 bytes, perhaps escaped */
#define WAIT_MS      500
#define WAIT_MOST_MS 10000

enum dt_next dt_handle_healthz(struct dt_request *req)
{
    req->status = 200;
    dt_strbuf_adds(&req->out, "{\"status\":\"ok\"}");
    return DT_REPLY;
}

/* ---- readiness ---- */

/* Returns the word for the state of a server. there: the server is configured. works: no process waits for it. */
static const char *server_state_word(bool there, bool works)
{
    return !works ? "degraded" : there ? "ok" : "none";
}

/* What the dispatchers last reported. age_ms: how long ago that was; -1: there is no report. */
struct reported {
    bool leaders, kafka, redis;
    int64_t age_ms;
};

static struct reported summarize_shard_reports(struct dt_api *api)
{
    struct dt_view *view = dt_topic_cache_view(api->topics);
    struct dt_shards_view *shards = dt_topic_cache_shards(api->topics);
    struct reported work = {.age_ms = -1};
    unsigned led = 0;
    for (size_t i = 0; shards && i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        led += view && info->shard < view->map.shards && info->owner.p && info->owner.n > 0;
    }
    if (shards)
        work.age_ms = (dt_clock_mono_us(api->clock) - shards->read_us) / 1000 + shards->dispatchers.seen_ms_ago;
    /* A report of the dispatchers that is too old is ignored, as if there were none. */
    bool known = shards && work.age_ms <= 2 * DT_PROCESS_FRESH_MS && shards->dispatchers.n > 0;
    work.leaders = known && view && led >= view->map.shards;
    work.kafka = !known || !shards->dispatchers.waits_kafka;
    work.redis = !known || !shards->dispatchers.waits_redis;
    dt_shards_release(shards);
    dt_view_release(view);
    return work;
}

static void put_age(struct dt_strbuf *out, const char *name, int64_t age_ms)
{
    dt_json_put_int_or_null(out, name, age_ms >= 0, age_ms);
}

static int64_t age_ms_of(struct dt_api *api, int64_t at_us)
{
    return at_us ? (dt_clock_mono_us(api->clock) - at_us) / 1000 : -1;
}

enum dt_next dt_handle_readyz(struct dt_request *req)
{
    struct dt_api *api = req->api;
    struct dt_strbuf *out = &req->out;
    struct dt_health_state state;
    struct reported work = summarize_shard_reports(api);
    dt_health_get(api->health, &state);
    bool redis = !dt_index_configured(api->config) || (state.redis && work.redis);
    bool ready = state.mysql == DT_OK && !state.draining;
    bool busy = dt_workers_busy(api->workers);
    bool degraded = busy || !redis || !work.leaders || !work.kafka;
    req->status = ready ? 200 : 503;
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "status", !ready ? "unready" : degraded ? "degraded" : "ready");
    dt_json_put_word(out, "mysql", state.mysql_word);
    dt_json_put_word(out, "workers", busy ? "busy" : "ok");
    dt_json_put_word(out, "redis", server_state_word(dt_index_configured(api->config), redis));
    dt_json_put_word(out, "leaders", work.leaders ? "ok" : "degraded");
    dt_json_put_word(out, "kafka", server_state_word(dt_config_has_kafka(api->config), work.kafka));
    dt_json_begin_object(out, "age_ms");
    put_age(out, "mysql", age_ms_of(api, state.mysql_us));
    put_age(out, "redis", age_ms_of(api, state.redis_us));
    put_age(out, "leaders", work.age_ms);
    put_age(out, "kafka", work.age_ms);
    dt_json_end_object(out);
    if (state.draining)
        dt_json_put_bool(out, "draining", true);
    dt_json_end_object(out);
    if (!ready)
        dt_request_header(req, "Retry-After", DT_STR_LIT("1"));
    return DT_REPLY;
}

/* ---- metrics and the description ---- */

enum dt_next dt_handle_metrics(struct dt_request *req)
{
    req->status = 200;
    req->reply_type = "text/plain; version=0.0.4; charset=utf-8";
    dt_metric_set(req->api->memory->gauge, (double)dt_budget_held(req->api->memory));
    dt_tls_files_report(req->api->tls);
    dt_metrics_write(&req->out);
    return DT_REPLY;
}

enum dt_next dt_handle_openapi(struct dt_request *req)
{
    req->status = 200;
    req->reply_type = "application/yaml";
    dt_strbuf_add(&req->out, dt_openapi_yaml, dt_openapi_yaml_length);
    return DT_REPLY;
}

/* ---- the installation ---- */

/* Adds the map of shards, and the shards that are moving. A shard moves in these cases: its leader has an older map or
 * is filling the index; it has no leader yet; it is to be removed, but its leader still has attempts in flight. */
static void put_shard_map(struct dt_strbuf *out, const struct dt_installation *installation,
                          const struct dt_shards_view *shards)
{
    dt_json_begin_object(out, "shard_map");
    dt_json_put_int(out, "count", installation->shards);
    dt_json_put_int(out, "generation", installation->generation);
    dt_json_begin_array(out, "moving");
    for (size_t i = 0; i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        if (info->shard >= installation->shards || info->generation != installation->generation)
            dt_json_put_int(out, NULL, info->shard);
    }
    dt_json_end_array(out);
    dt_json_end_object(out);
}

static void put_shard(struct dt_strbuf *out, const struct dt_shard_info *info, int64_t now_ms)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_int(out, "shard", info->shard);
    dt_json_put_int(out, "epoch", info->epoch);
    dt_json_put_int(out, "generation", info->generation);
    dt_json_put_filled(out, "leader", info->owner);
    dt_json_put_filled(out, "halted", info->halted);
    dt_json_put_filled(out, "waiting_for", info->waiting);
    dt_json_put_filled(out, "detail", info->detail);
    dt_json_put_filled(out, "callbacks", info->callbacks);
    dt_json_put_int(out, "in_flight", info->inflight);
    dt_json_put_int(out, "backlog", info->overdue + info->held);
    dt_json_put_int(out, "overdue", info->overdue);
    dt_json_put_int(out, "held", info->held);
    dt_json_put_int(out, "oldest_overdue_ms", dt_shard_oldest_ms(info, now_ms));
    dt_shard_put_drift(out, info);
    dt_json_end_object(out);
}

static void put_server(struct dt_strbuf *out, const char *name, const char *state, const char *detail, int64_t age_ms)
{
    dt_json_begin_object(out, name);
    dt_json_put_word(out, "state", state);
    dt_json_put_filled(out, "detail", dt_str(detail));
    put_age(out, "age_ms", age_ms);
    dt_json_end_object(out);
}

/* Adds the health of the servers with their error texts, and when this API's certificate expires; null if it has
 * none. */
static void put_health(struct dt_api *api, struct dt_strbuf *out)
{
    struct dt_health_state state;
    dt_health_get(api->health, &state);
    dt_json_begin_object(out, "health");
    put_server(out, "mysql", state.mysql_word, state.mysql_text, age_ms_of(api, state.mysql_us));
    put_server(out, "redis", server_state_word(dt_index_configured(api->config), state.redis), state.redis_text,
               age_ms_of(api, state.redis_us));
    dt_json_end_object(out);
    if (!api->tls) {
        dt_json_put_null(out, "tls");
        return;
    }
    dt_json_begin_object(out, "tls");
    dt_json_put_time(out, "certificate_ends_at", dt_tls_files_end_at_ms(api->tls));
    dt_json_end_object(out);
}

static void put_installation_info(struct dt_api *api, struct dt_strbuf *out, const struct dt_view *view,
                                  const struct dt_shards_view *shards)
{
    const struct dt_installation *installation = &view->installation;
    const int64_t now_ms = shards->dispatchers.now_ms;
    int64_t overdue = 0;
    int64_t held = 0;
    int64_t oldest_ms = 0;
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "version", DUETIME_VERSION);
    dt_json_begin_object(out, "installation");
    dt_json_put_word(out, "name", installation->name);
    dt_json_put_word(out, "uuid", installation->uuid);
    dt_json_end_object(out);
    /* What this API's configuration says. The dispatchers have the same configuration, except during a rolling
     * restart. */
    dt_json_begin_object(out, "configured");
    dt_json_put_word(out, "election", api->config->zookeeper_servers[0] ? "zookeeper" : "mysql");
    dt_json_put_word(out, "due", dt_index_configured(api->config) ? "redis" : "mysql");
    dt_json_put_bool(out, "kafka", dt_config_has_kafka(api->config));
    dt_json_end_object(out);
    put_shard_map(out, installation, shards);
    dt_json_begin_array(out, "shards");
    for (size_t i = 0; i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        put_shard(out, info, now_ms);
        overdue += info->overdue;
        held += info->held;
        oldest_ms = dt_later(oldest_ms, dt_shard_oldest_ms(info, now_ms));
    }
    dt_json_end_array(out);
    dt_json_put_int(out, "overdue", overdue);
    dt_json_put_int(out, "oldest_overdue_ms", oldest_ms);
    dt_json_put_int(out, "held", held);
    dt_json_put_time(out, "now", now_ms);
    put_health(api, out);
    dt_json_end_object(out);
}

enum dt_next dt_handle_info(struct dt_request *req, dt_store *store)
{
    struct dt_api *api = req->api;
    dt_status status = dt_topic_cache_refresh(api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, NULL);
    if (status != DT_OK) {
        dt_request_refuse(req, dt_problem_of_status(status), "the database does not answer");
        return DT_REPLY;
    }
    struct dt_view *view = dt_topic_cache_view(api->topics);
    struct dt_shards_view *shards = dt_topic_cache_shards(api->topics);
    dt_assert(view && shards); /* the refresh above has published the snapshots */
    bool room = dt_hold_more(&req->hold, shards->n * SHARD_BYTES);
    req->status = 200;
    if (room)
        put_installation_info(api, &req->out, view, shards);
    dt_shards_release(shards);
    dt_view_release(view);
    return room ? DT_REPLY : dt_request_no_room(req);
}

/* ---- the number of shards: one row in MySQL, which the dispatchers follow ---- */

struct shards_ask {
    int64_t count;
};

static enum dt_next set_shards(struct dt_request *req, dt_store *store)
{
    const struct shards_ask *ask = req->state;
    struct dt_installation inst;
    struct dt_error err = {0};
    dt_status status = dt_store_set_shards(store, (unsigned)ask->count, &inst, &err);
    if (status == DT_HALTED) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "%s: its slots cannot move before dt_clear_halt", err.text);
        return DT_REPLY;
    }
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_topics_announce(req);
    req->status = 202;
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_int(&req->out, "count", inst.shards);
    dt_json_put_int(&req->out, "generation", inst.generation);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

static const struct dt_json_field shards_fields[] = {
    DT_FIELD("count", COUNT, struct shards_ask, count, .min = 1, .max = DT_SHARDS_MAX),
};
static const struct dt_json_table shards_table = DT_TABLE(shards_fields, .unknown = DT_REASON_UNKNOWN);

static dt_status decode_shards(struct dt_request *req, const dt_json *json, const struct dt_job_rules *,
                               struct dt_faults *faults)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = req->state};
    if (dt_json_read(&r, &shards_table, dt_json_root(json)) && !dt_json_given(&r, 0))
        dt_faults_add(faults, "/count", "is required");
    return DT_OK;
}

enum dt_next dt_handle_shards(struct dt_request *req)
{
    if (!dt_answer_state(req, sizeof(struct shards_ask)) || !dt_answer_decode(req, decode_shards))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, set_shards);
}

/* ---- the caller's scopes and topics ---- */

enum dt_next dt_handle_caller(struct dt_request *req)
{
    const struct dt_topic_bound *bound = dt_caller_bound(&req->caller);
    struct dt_strbuf *out = &req->out;
    req->status = 200;
    dt_json_begin_object(out, NULL);
    dt_json_begin_array(out, "scopes");
    for (size_t i = 0; i < DT_SCOPE_WORDS; i++)
        if (dt_caller_may(&req->caller, dt_scope_words[i].scope))
            dt_json_put_word(out, NULL, dt_scope_words[i].word);
    dt_json_end_array(out);
    if (bound) {
        dt_json_begin_array(out, "topics");
        for (size_t i = 0; i < bound->n; i++)
            dt_json_put_string(out, NULL, bound->prefixes[i]);
        dt_json_end_array(out);
    } else {
        dt_json_put_null(out, "topics");
    }
    dt_json_end_object(out);
    return DT_REPLY;
}

/*
 * ---- the test clock (scheduler/features/clock/clock.h) ----
 *
 * An installation without a test clock refuses the request. An advance of the clock occupies a worker for some fifteen
 * seconds at most; if it is unfinished after that, the next request continues it.
 */

enum change { NONE, ADVANCE, FREEZE, RELEASE };

struct clock_ask {
    enum change change;
    bool waits; /* the body has `wait` */
    struct dt_clock_walk walk;
};

static enum dt_next refuse_clock_change(struct dt_request *req)
{
    dt_request_refuse(req, DT_PROBLEM_NO_TEST_CLOCK,
                      "this installation was created without installation.test_clock: its jobs use real time");
    return DT_REPLY;
}

static enum dt_next change_clock(struct dt_request *req, dt_store *store)
{
    struct clock_ask *ask = req->state;
    struct dt_strbuf *out = &req->out;
    struct dt_test_clock clock;
    struct dt_error err = {0};
    dt_status status = ask->change == ADVANCE   ? dt_store_test_clock_advance(store, &ask->walk, &clock, &err)
                       : ask->change == FREEZE  ? dt_store_test_clock_freeze(store, &clock, &err)
                       : ask->change == RELEASE ? dt_store_test_clock_release(store, &clock, &err)
                                                : dt_store_test_clock(store, &clock, &err);
    if (status == DT_UNSUPPORTED || (status == DT_OK && clock.version == 0))
        return refuse_clock_change(req);
    if (status == DT_INVALID || status == DT_BUSY) {
        dt_request_refuse(req, status == DT_BUSY ? DT_PROBLEM_UNAVAILABLE : DT_PROBLEM_INVALID, "%s", err.text);
        return DT_REPLY;
    }
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    /* This process uses the new time at once, other processes a moment later. */
    dt_refclock_follow(req->api->ref, clock.time, clock.real_ms, clock.asked_us, clock.heard_us);
    req->status = 200;
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "now", dt_test_clock_now_ms(&clock));
    dt_json_put_time(out, "real", clock.real_ms);
    dt_json_put_bool(out, "frozen", clock.time.frozen_ms);
    if (ask->change == ADVANCE) {
        dt_json_put_int(out, "steps", ask->walk.steps);
        dt_json_put_bool(out, "dispatched", ask->walk.whole);
        dt_json_put_duration(out, "left", ask->walk.left_ms);
    }
    dt_json_end_object(out);
    return DT_REPLY;
}

static void set_clock_change(struct dt_json_reader *r, enum change change)
{
    struct clock_ask *ask = r->out;
    if (ask->change != NONE)
        dt_faults_add(r->faults, "", "must have either advance or freeze");
    ask->change = change;
}

static void read_advance(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    dt_json_read_value(r, field, node);
    set_clock_change(r, ADVANCE);
}

static void read_freeze(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_BOOL)
        dt_json_fault(r, field, "must be true or false");
    set_clock_change(r, node->type == DT_JSON_BOOL && node->b ? FREEZE : RELEASE);
}

static const struct dt_json_field clock_fields[] = {
    DT_FIELD("advance", DURATION, struct clock_ask, walk.by_ms, .read = read_advance, .min = 1,
             .reason = DT_REASON_NOT_ZERO),
    DT_FIELD_BY("freeze", read_freeze),
    DT_FIELD("wait", DURATION, struct clock_ask, walk.wait_ms, .has = offsetof(struct clock_ask, waits),
             .max = WAIT_MOST_MS, .reason = "must be at most ten seconds"),
};
static const struct dt_json_table clock_table = DT_TABLE(clock_fields, .unknown = DT_REASON_UNKNOWN);

static dt_status decode_clock_change(struct dt_request *req, const dt_json *json, const struct dt_job_rules *,
                                     struct dt_faults *faults)
{
    struct clock_ask *ask = req->state;
    struct dt_json_reader r = {.json = json, .faults = faults, .out = ask};
    if (dt_json_read(&r, &clock_table, dt_json_root(json)) && ask->change == NONE)
        dt_faults_add(faults, "", "must have advance or freeze");
    if (ask->waits && ask->change != ADVANCE)
        dt_faults_add(faults, "/wait", "is only valid with advance");
    return DT_OK;
}

enum dt_next dt_handle_clock(struct dt_request *req)
{
    if (!req->api->config->installation_test_clock)
        return refuse_clock_change(req);
    struct clock_ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask)
        return DT_REPLY;
    ask->walk.wait_ms = WAIT_MS;
    if (req->route->body == DT_BODY_JSON && !dt_answer_decode(req, decode_clock_change))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, change_clock);
}
