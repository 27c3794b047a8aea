/*
 * GET /v1/doctor: examines what the API can see of the installation, and answers what is wrong with it. Each asks anew,
 * since whoever asks has mended something as a rule: a handful of statements, all of them bounded.
 */
#include <string.h>

#include "answer.h"
#include "base/assert.h"
#include "features/intents/inbox.h"
#include "findings.h"
#include "handlers.h"
#include "job/job_encode.h"
#include "request/topic_cache.h"
#include "request/workers.h"
#include "store/processes.h"

#define DUE_ROWS     10000
#define LATE_MS      60000
#define REDIS_MAX    16
#define ANSWER_BYTES ((size_t)512 << 10)

struct examination {
    struct dt_api *api;
    dt_store *store;
    struct dt_arena arena;
    struct dt_examined found;
    struct dt_waiting waiting;
    struct dt_index_memory redis[REDIS_MAX];
    struct dt_error redis_err;
    dt_index *index;
    struct dt_strbuf *out;
};

/* ---- reading ---- */

static dt_status read_tables(struct examination *x, struct dt_error *err)
{
    struct dt_live_process *processes = NULL;
    struct dt_topic_overdue *overdue = NULL;
    struct dt_process_finding *told = NULL;
    struct dt_ending_numbers *ending = NULL;
    dt_status status = dt_store_processes(x->store, &x->arena, &processes, &x->found.n_processes, err);
    if (status == DT_OK)
        status =
            dt_store_topics_overdue(x->store, x->found.now_ms, DUE_ROWS, &x->arena, &overdue, &x->found.n_overdue, err);
    if (status == DT_OK)
        status = dt_store_count_inbox_errors(x->store, &x->found.inbox_errors, err);
    if (status == DT_OK)
        status = dt_store_findings(x->store, &x->arena, &told, &x->found.n_told, err);
    if (status == DT_OK)
        status = dt_store_ending_numbers(x->store, &x->arena, &ending, &x->found.n_ending, err);
    x->found.ending = ending;
    x->found.told = told;
    x->found.config = x->api->config;
    x->found.shown_ends_ms = x->api->tls ? dt_tls_files_end_at_ms(x->api->tls) : 0;
    x->found.processes = processes;
    x->found.overdue = overdue;
    return status;
}

static dt_status examine(struct examination *x, struct dt_error *err)
{
    struct dt_api *api = x->api;
    struct dt_examined *found = &x->found;
    dt_status status = dt_topic_cache_refresh(api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, x->store, err);
    if (status != DT_OK)
        return status;
    int64_t begun_us = dt_clock_mono_us(api->clock);
    status = dt_store_server_settings(x->store, &found->mysql, err);
    found->host_ms = dt_clock_real_ms(api->clock);
    found->took_ms = (dt_clock_mono_us(api->clock) - begun_us) / 1000 + 1;
    found->now_ms = found->mysql.now_ms;
    found->payload_max = dt_store_payload_max(api->config);
    found->replicas = strchr(api->config->mysql_hosts ? api->config->mysql_hosts : "", ',') != NULL;
    if (status == DT_OK && found->replicas)
        status = dt_store_semi_sync(x->store, &found->semi_sync, err);
    if (status == DT_OK)
        status = read_tables(x, err);
    if (status != DT_OK)
        return status;
    dt_waiting_init(&x->waiting, api->topics, api->ref, x->store);
    found->waiting = &x->waiting;
    found->redis = x->redis;
    /* A Redis that is away is a finding, and no failure. */
    status = dt_index_new(api->config, x->waiting.view->installation.name, api->clock, &x->index, &x->redis_err);
    while (status == DT_OK && x->index && found->n_redis < REDIS_MAX) {
        status = dt_index_memory(x->index, (unsigned)found->n_redis, &x->redis[found->n_redis], &x->redis_err);
        if (status == DT_NOT_FOUND)
            break;
        found->n_redis++;
        if (status != DT_OK && !found->redis_trouble)
            found->redis_trouble = x->redis_err.text[0] ? x->redis_err.text : dt_status_text(status);
        status = DT_OK;
    }
    dt_assert_cmp(found->n_redis, <=, REDIS_MAX);
    return DT_OK;
}

/* ---- answering ---- */

static void add_finding(void *arg, const struct dt_finding *finding)
{
    struct examination *x = arg;
    dt_assert(finding->kind < DT_FINDING_KINDS && finding->cause <= DT_FINDING_KINDS);
    const struct dt_finding_kind_text *text = &dt_finding_kinds[finding->kind];
    dt_json_begin_object(x->out, NULL);
    dt_json_put_word(x->out, "finding", text->name);
    dt_json_put_word(x->out, "severity", dt_severity_names[text->severity]);
    dt_json_put_word(x->out, "subject", finding->subject);
    dt_json_put_word(x->out, "detail", finding->detail);
    dt_json_put_word(x->out, "means", text->means);
    dt_json_put_word(x->out, "do", finding->action);
    dt_json_put_word(x->out, "runbook", text->page);
    dt_json_put_word(x->out, "cause",
                     finding->cause == DT_FINDING_KINDS ? NULL : dt_finding_kinds[finding->cause].name);
    dt_json_put_time(x->out, "at", finding->at_ms);
    dt_json_end_object(x->out);
}

static void put_looked_at(struct dt_strbuf *out, const struct dt_config *config)
{
    const char *const always[] = {"mysql", "processes", "shards", "jobs"};
    dt_json_begin_array(out, "looked_at");
    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        dt_json_put_word(out, NULL, always[i]);
    if (dt_index_configured(config))
        dt_json_put_word(out, NULL, "redis");
    if (dt_config_has_kafka(config))
        dt_json_put_word(out, NULL, "kafka");
    if (config->zookeeper_servers[0])
        dt_json_put_word(out, NULL, "zookeeper");
    dt_json_put_word(out, NULL, "certificates");
    dt_json_end_array(out);
}

static enum dt_next diagnose(struct dt_request *req, dt_store *store)
{
    struct dt_strbuf *out = &req->out;
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, ANSWER_BYTES))
        return dt_request_no_room(req);
    const int64_t *late_ms = req->state;
    struct examination x = {.api = req->api, .store = store, .out = out, .found = {.late_ms = *late_ms}};
    dt_arena_init(&x.arena);
    dt_strbuf_reset(out);
    dt_status status = examine(&x, &err);
    if (status == DT_OK) {
        req->status = 200;
        dt_json_begin_object(out, NULL);
        dt_json_put_time(out, "now", x.found.now_ms);
        dt_json_begin_array(out, "findings");
        dt_findings_judge(&x.found, add_finding, &x);
        dt_json_end_array(out);
        put_looked_at(out, req->api->config);
        dt_json_end_object(out);
    }
    dt_waiting_clear(&x.waiting);
    dt_index_free(x.index);
    dt_arena_clear(&x.arena);
    return status == DT_OK ? DT_REPLY : dt_answer_status(req, status, NULL, &err);
}

enum dt_next dt_handle_doctor(struct dt_request *req)
{
    int64_t *late_ms = dt_answer_state(req, sizeof(*late_ms));
    if (!late_ms)
        return DT_REPLY;
    *late_ms = LATE_MS;
    if (!dt_answer_duration(req, "late", INT64_MAX, late_ms))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, diagnose);
}
