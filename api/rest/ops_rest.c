/*
 * Answers to operators and probes: alive, ready, metrics, the description of the API, and how the installation is.
 * Answers from what the chore of health found out at most about two seconds ago, so that a probe never waits for a
 * server that is away.
 */
#include <stdio.h>

#include "api.h"
#include "base/assert.h"
#include "base/metrics.h"
#include "base/text/json_write.h"
#include "dispatch/shards.h"
#include "handlers.h"
#include "health.h"
#include "job/job.h"
#include "topics_rest.h"
#include "openapi.h"
#include "request/request.h"
#include "request/topic_cache.h"
#include "request/workers.h"
#include "explain_rest.h"
#include "store/processes.h"

#define SHARD_BYTES ((size_t)4 << 10) /* of /v1/info: two reasons of 500 bytes, each perhaps escaped */

enum dt_next dt_handle_healthz(struct dt_request *req)
{
    req->status = 200;
    dt_strbuf_adds(&req->out, "{\"status\":\"ok\"}");
    return DT_REPLY;
}

/* ---- readiness ---- */

/* A server that is there works or not. One that is not there is no outage, unless something waits for it. */
static const char *word_of(bool there, bool works)
{
    return !works ? "degraded" : there ? "ok" : "none";
}

/* The dispatchers' own words on what works, and how long ago they said so; -1: never heard. */
struct work {
    bool leaders, kafka, redis;
    int64_t age_ms;
};

static struct work look_at_work(struct dt_api *api)
{
    struct dt_view *view = dt_topic_cache_view(api->topics);
    struct dt_shards_view *shards = dt_topic_cache_shards(api->topics);
    struct work work = {.age_ms = -1};
    unsigned led = 0;
    for (size_t i = 0; shards && i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        led += view && info->shard < view->map.shards && info->owner.p && info->owner.n > 0;
    }
    if (shards)
        work.age_ms = (dt_clock_mono_us(api->clock) - shards->read_us) / 1000 + shards->dispatchers.seen_ms_ago;
    /* Two times fresh: what was read long ago says nothing of now. */
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
    struct work work = look_at_work(api);
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
    dt_json_put_word(out, "redis", word_of(dt_index_configured(api->config), redis));
    dt_json_put_word(out, "leaders", work.leaders ? "ok" : "degraded");
    dt_json_put_word(out, "kafka", word_of(dt_config_has_kafka(api->config), work.kafka));
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

/*
 * Adds the map, and which shards are not yet as it wants them: the leader works with an older one, or is still filling
 * the index, or there is none; or the shard is to go, and is led until nothing of it is in flight and its leader has
 * stepped down.
 */
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

/* Adds how the servers are, for callers that may read with their own words, and until when the certificate of the API
 * that answers holds; null if it has none. */
static void put_health(struct dt_api *api, struct dt_strbuf *out)
{
    struct dt_health_state state;
    dt_health_get(api->health, &state);
    dt_json_begin_object(out, "health");
    put_server(out, "mysql", state.mysql_word, state.mysql_text, age_ms_of(api, state.mysql_us));
    put_server(out, "redis", word_of(dt_index_configured(api->config), state.redis), state.redis_text,
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

static void put_info(struct dt_api *api, struct dt_strbuf *out, const struct dt_view *view,
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
    /* By this API's own configuration: the dispatchers' is the same, except for a while in a rolling restart. */
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
        dt_request_refuse(req, dt_problem_of_status(status), "the database cannot be asked just now");
        return DT_REPLY;
    }
    struct dt_view *view = dt_topic_cache_view(api->topics);
    struct dt_shards_view *shards = dt_topic_cache_shards(api->topics);
    dt_assert(view && shards); /* they were refreshed */
    bool room = dt_hold_more(&req->hold, shards->n * SHARD_BYTES);
    req->status = 200;
    if (room)
        put_info(api, &req->out, view, shards);
    dt_shards_release(shards);
    dt_view_release(view);
    return room ? DT_REPLY : dt_request_no_room(req);
}
