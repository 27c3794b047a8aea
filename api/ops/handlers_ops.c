/*
 * Answers to operators and probes: alive, ready, metrics, the description of the API, and how the installation is.
 * Answers from what the health thread found out at most about two seconds ago, so that a probe never waits for a server
 * that is away.
 */
#include <stdio.h>

#include "api.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/metrics.h"
#include "handlers.h"
#include "health.h"
#include "http/tls/tls_files.h"
#include "job/job.h"
#include "jobs/job_json.h"
#include "jobs/shard_json.h"
#include "openapi.h"
#include "request/budget.h"
#include "topics/topic_cache.h"
#include "work/workers.h"

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

static void add_age(struct dt_strbuf *out, const char *name, int64_t age_ms, bool first)
{
    dt_strbuf_addf(out, "%s\"%s\":", first ? "" : ",", name);
    if (age_ms < 0)
        dt_strbuf_adds(out, "null");
    else
        dt_strbuf_add_i64(out, age_ms);
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
    dt_strbuf_addf(out,
                   "{\"status\":\"%s\",\"mysql\":\"%s\",\"workers\":\"%s\",\"redis\":\"%s\",\"leaders\":\"%s\","
                   "\"kafka\":\"%s\",\"age_ms\":{",
                   !ready     ? "unready"
                   : degraded ? "degraded"
                              : "ready",
                   state.mysql_word, busy ? "busy" : "ok", word_of(dt_index_configured(api->config), redis),
                   work.leaders ? "ok" : "degraded", word_of(dt_config_has_kafka(api->config), work.kafka));
    add_age(out, "mysql", age_ms_of(api, state.mysql_us), true);
    add_age(out, "redis", age_ms_of(api, state.redis_us), false);
    add_age(out, "leaders", work.age_ms, false);
    add_age(out, "kafka", work.age_ms, false);
    dt_strbuf_adds(out, state.draining ? "},\"draining\":true}" : "}}");
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

static void add_text_or_null(struct dt_strbuf *out, const char *name, struct dt_str value)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    dt_json_add_string_or_null(out, value.n ? value : DT_STR_NONE);
}

/*
 * Adds the map, and which shards are not yet as it wants them: the leader works with an older one, or is still filling
 * the index, or there is none; or the shard is to go, and is led until nothing of it is in flight and its leader has
 * stepped down.
 */
static void add_shard_map(struct dt_strbuf *out, const struct dt_installation *installation,
                          const struct dt_shards_view *shards)
{
    unsigned moving = 0;
    dt_strbuf_addf(out, "\"shard_map\":{\"count\":%u,\"generation\":%lld,\"moving\":[", installation->shards,
                   (long long)installation->generation);
    for (size_t i = 0; i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        if (info->shard >= installation->shards || info->generation != installation->generation)
            dt_strbuf_addf(out, "%s%u", moving++ ? "," : "", info->shard);
    }
    dt_strbuf_adds(out, "]}");
}

static void add_shard(struct dt_strbuf *out, const struct dt_shard_info *info, int64_t now_ms)
{
    dt_strbuf_addf(out, "{\"shard\":%u,\"epoch\":%lld,\"generation\":%lld", info->shard, (long long)info->epoch,
                   (long long)info->generation);
    add_text_or_null(out, "leader", info->owner);
    add_text_or_null(out, "halted", info->halted);
    add_text_or_null(out, "waiting_for", info->waiting);
    add_text_or_null(out, "detail", info->detail);
    add_text_or_null(out, "callbacks", info->callbacks);
    dt_strbuf_addf(out,
                   ",\"in_flight\":%lld,\"backlog\":%lld,\"overdue\":%lld,\"held\":%lld,\"oldest_overdue_ms\":%lld",
                   (long long)info->inflight, (long long)info->overdue + info->held, (long long)info->overdue,
                   (long long)info->held, (long long)dt_shard_oldest_ms(info, now_ms));
    dt_strbuf_addf(out, ",\"index_whole\":%s", dt_shard_has_index(info) ? "true" : "false");
    dt_strbuf_addf(out, ",\"drift\":{\"missing\":%lld,\"extra\":%lld,\"wrong\":%lld},\"seen_at\":",
                   (long long)info->drift_missing, (long long)info->drift_extra, (long long)info->drift_wrong);
    dt_json_add_time(out, info->seen_at_ms);
    dt_strbuf_addc(out, '}');
}

/* Adds how the servers are, for callers that may read with their own words, and until when the certificate of the API
 * that answers holds; null if it has none. */
static void add_health(struct dt_api *api, struct dt_strbuf *out)
{
    struct dt_health_state state;
    dt_health_get(api->health, &state);
    dt_strbuf_addf(out, ",\"health\":{\"mysql\":{\"state\":\"%s\"", state.mysql_word);
    add_text_or_null(out, "detail", dt_str(state.mysql_text));
    add_age(out, "age_ms", age_ms_of(api, state.mysql_us), false);
    dt_strbuf_addf(out, "},\"redis\":{\"state\":\"%s\"", word_of(dt_index_configured(api->config), state.redis));
    add_text_or_null(out, "detail", dt_str(state.redis_text));
    add_age(out, "age_ms", age_ms_of(api, state.redis_us), false);
    dt_strbuf_adds(out, api->tls ? "}},\"tls\":{\"certificate_ends_at\":" : "}},\"tls\":null");
    if (api->tls) {
        dt_json_add_time(out, dt_tls_files_end_at_ms(api->tls));
        dt_strbuf_addc(out, '}');
    }
}

static void add_info(struct dt_api *api, struct dt_strbuf *out, const struct dt_view *view,
                     const struct dt_shards_view *shards)
{
    const struct dt_installation *installation = &view->installation;
    const int64_t now_ms = shards->dispatchers.now_ms;
    int64_t overdue = 0;
    int64_t held = 0;
    int64_t oldest_ms = 0;
    dt_strbuf_adds(out, "{\"version\":\"" DUETIME_VERSION "\",\"installation\":{\"name\":");
    dt_json_add_string(out, dt_str(installation->name));
    /* By this API's own configuration: the dispatchers' is the same, except for a while in a rolling restart. */
    dt_strbuf_addf(out, ",\"uuid\":\"%s\"},\"configured\":{\"election\":\"%s\",\"due\":\"%s\",\"kafka\":%s},",
                   installation->uuid, api->config->zookeeper_servers[0] ? "zookeeper" : "mysql",
                   dt_index_configured(api->config) ? "redis" : "mysql",
                   dt_config_has_kafka(api->config) ? "true" : "false");
    add_shard_map(out, installation, shards);
    dt_strbuf_adds(out, ",\"shards\":[");
    for (size_t i = 0; i < shards->n; i++) {
        const struct dt_shard_info *info = &shards->shards[i];
        if (i)
            dt_strbuf_addc(out, ',');
        add_shard(out, info, now_ms);
        overdue += info->overdue;
        held += info->held;
        oldest_ms = dt_later(oldest_ms, dt_shard_oldest_ms(info, now_ms));
    }
    dt_strbuf_addf(out, "],\"overdue\":%lld,\"oldest_overdue_ms\":%lld,\"held\":%lld,\"now\":", (long long)overdue,
                   (long long)oldest_ms, (long long)held);
    dt_json_add_time(out, now_ms);
    add_health(api, out);
    dt_strbuf_addc(out, '}');
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
        add_info(api, &req->out, view, shards);
    dt_shards_release(shards);
    dt_view_release(view);
    return room ? DT_REPLY : dt_request_no_room(req);
}
