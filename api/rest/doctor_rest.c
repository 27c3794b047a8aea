/* GET /v1/doctor: reads the state of the installation, and answers with the problems that it finds. Nothing is cached
 * between requests, because the caller has usually just fixed something. A request needs a handful of bounded
 * statements. */
#include "doctor_rest.h"

#include <stdarg.h>

#include "answer.h"
#include "base/assert.h"
#include "base/http/tls_files.h"
#include "base/tls.h"
#include "features/intents/inbox.h"
#include "handlers.h"

#define DUE_ROWS     10000
#define LATE_MS      60000
#define REDIS_MAX    16
#define ANSWER_BYTES ((size_t)512 << 10)
#define SKEW_MS      1000
#define DETAIL       600
#define LONG_MS      INT64_C(86400000) /* if semi-sync waits this long for a replica, commits without one are rare */
#define PACKET_BYTES INT64_C(16777216) /* a packet size that is enough for every batch of the default configuration */

/* ---- findings ---- */

struct found {
    struct dt_finding finding;
    enum dt_finding_kind causes[5]; /* possible causes of the finding, root cause first; ended by DT_FINDING_KINDS */
    struct found *next;
};
struct judging {
    const struct dt_examined *examined;
    struct dt_arena arena; /* memory of the findings */
    struct found *first, **end;
    bool present[DT_FINDING_KINDS];
    enum dt_finding_kind causes[5]; /* possible causes of the next finding */
    const char *action;             /* action of the next finding; NULL: the action of its kind */
    int64_t at_ms;                  /* time of the next finding; 0: now */
};

/* Returns the action with TOPIC, SHARD, KAFKA and ZOOKEEPER replaced by their values; allocated in the arena. */
static const char *format_action(struct judging *j, enum dt_finding_kind kind, const char *subject)
{
    static const char *const names[] = {"TOPIC", "SHARD", "KAFKA", "ZOOKEEPER"};
    const struct dt_config *config = j->examined->config;
    const char *const values[] = {subject, strncmp(subject, "shard ", 6) == 0 ? subject + 6 : NULL,
                                  config ? config->kafka_brokers : NULL, config ? config->zookeeper_servers : NULL};
    struct dt_strbuf action = {0};
    for (const char *p = j->action ? j->action : dt_finding_kinds[kind].action; *p;) {
        size_t i = 0;
        while (i < 4 && (strncmp(p, names[i], strlen(names[i])) != 0 || !values[i] || !values[i][0]))
            i++;
        if (i == 4) {
            dt_strbuf_addc(&action, *p++);
            continue;
        }
        const bool one = i == 3; /* this action calls nc, which takes one server, as host and port */
        for (const char *v = values[i]; *v && !(one && strchr(",/", *v)); v++)
            dt_strbuf_addc(&action, one && *v == ':' ? ' ' : *v);
        p += strlen(names[i]);
    }
    const char *text = dt_arena_copy(&j->arena, dt_strbuf_str(&action)).p;
    dt_strbuf_clear(&action);
    return text ? text : "";
}

static void DT_PRINTF(4, 5)
    add_found(struct judging *j, enum dt_finding_kind kind, const char *subject, const char *fmt, ...)
{
    char detail[DETAIL];
    va_list args;
    dt_assert_cmp(kind, <, DT_FINDING_KINDS);
    va_start(args, fmt);
    vsnprintf(detail, sizeof(detail), fmt, args);
    va_end(args);
    struct found *found = dt_arena_alloc(&j->arena, sizeof(*found));
    const char *about = dt_arena_copy(&j->arena, dt_str(subject)).p;
    const char *seen = dt_arena_copy(&j->arena, dt_str(detail)).p;
    if (found && about && seen) {
        *found = (struct found){.finding = {.kind = kind,
                                            .subject = about,
                                            .detail = seen,
                                            .action = format_action(j, kind, about),
                                            .at_ms = j->at_ms ? j->at_ms : j->examined->now_ms}};
        memcpy(found->causes, j->causes, sizeof(found->causes));
        *j->end = found;
        j->end = &found->next;
        j->present[kind] = true;
    }
    j->causes[0] = DT_FINDING_KINDS;
}

#define BECAUSE(j, ...)                                                                                                \
    memcpy((j)->causes, (const enum dt_finding_kind[5]){__VA_ARGS__, DT_FINDING_KINDS}, sizeof((j)->causes))

/* The shard that waits for the server is the cause until a dispatcher or the API has found that the server is away. */
static void set_causes_by_server(struct judging *j, struct dt_str server)
{
    if (dt_str_is(server, "kafka"))
        BECAUSE(j, DT_FINDING_KAFKA_AWAY, DT_FINDING_KAFKA_JOB_TOPIC, DT_FINDING_WAITS);
    else if (dt_str_is(server, "redis"))
        BECAUSE(j, DT_FINDING_REDIS_AWAY, DT_FINDING_WAITS);
}

/* Sets the possible causes of the next finding, by the reason why a shard does not dispatch. */
static void set_causes_by_shard(struct judging *j, const struct dt_shard_cause *cause)
{
    if (cause->why == DT_SHARD_HALTED)
        BECAUSE(j, DT_FINDING_HALTED);
    else if (cause->why == DT_SHARD_WAITS)
        set_causes_by_server(j, cause->waits);
    else if (cause->why != DT_SHARD_OK)
        BECAUSE(j, DT_FINDING_NO_DISPATCHER, DT_FINDING_ZOOKEEPER_AWAY, DT_FINDING_ASSERTION, DT_FINDING_NO_LEADER);
}

static int shown_length(struct dt_str s)
{
    return (int)(s.n < 400 ? s.n : 400);
}

static void check_servers(struct judging *j)
{
    const struct dt_examined *e = j->examined;
    const struct dt_semi_sync *s = &e->semi_sync;
    if (e->mysql.flush != 1)
        add_found(j, DT_FINDING_MYSQL_FLUSH, "mysql", "innodb_flush_log_at_trx_commit is %lld",
                  (long long)e->mysql.flush);
    if (e->mysql.has_binlog && e->mysql.sync_binlog != 1)
        add_found(j, DT_FINDING_MYSQL_BINLOG, "mysql", "sync_binlog is %lld", (long long)e->mysql.sync_binlog);
    if (e->mysql.packet < PACKET_BYTES)
        add_found(j, DT_FINDING_PACKET, "mysql", "max_allowed_packet is %lld, and payloads may have %zu bytes",
                  (long long)e->mysql.packet, e->payload_max);
    for (size_t i = 0; i < e->n_ending; i++)
        add_found(j, DT_FINDING_NUMBERS, e->ending[i].table.p,
                  "its next AUTO_INCREMENT is %.*s, the last is 9223372036854775807", shown_length(e->ending[i].next),
                  e->ending[i].next.p);
    int64_t apart_ms = e->host_ms - e->mysql.now_ms;
    if ((apart_ms > SKEW_MS + e->took_ms || apart_ms < -SKEW_MS - e->took_ms))
        add_found(j, DT_FINDING_CLOCK, "mysql", "the API's clock is %lld ms %s MySQL's",
                  (long long)(apart_ms < 0 ? -apart_ms : apart_ms), apart_ms > 0 ? "ahead of" : "behind");
    if (e->redis_trouble)
        add_found(j, DT_FINDING_REDIS_AWAY, "redis", "%s", e->redis_trouble);
    for (size_t i = 0; i < e->n_redis; i++)
        if (e->redis[i].policy[0] && strcmp(e->redis[i].policy, "noeviction") != 0)
            add_found(j, DT_FINDING_REDIS_POLICY, e->redis[i].endpoint, "maxmemory-policy is %s", e->redis[i].policy);
    if (e->replicas && !s->waits)
        add_found(j, DT_FINDING_SEMI_SYNC, "mysql", "commits wait for no replica");
    else if (e->replicas && !s->before_seen)
        add_found(j, DT_FINDING_SEMI_SYNC, "mysql",
                  "commits wait for a replica after others have seen them: the wait point is not AFTER_SYNC");
    else if (e->replicas && s->alone_ms < LONG_MS)
        add_found(j, DT_FINDING_SEMI_SYNC, "mysql", "if no replica answers, commits continue without one after %lld ms",
                  (long long)s->alone_ms);
}

static void check_processes(struct judging *j)
{
    const struct dt_examined *e = j->examined;
    const struct dt_shards_view *shards = e->waiting->shards;
    bool led = false;
    for (size_t i = 0; i < e->n_processes; i++) {
        const struct dt_live_process *p = &e->processes[i];
        struct dt_str down = dt_str_is(p->index_down, "*") ? DT_STR_LIT("any Redis") : p->index_down;
        if (down.n) {
            set_causes_by_server(j, DT_STR_LIT("redis"));
            add_found(j, DT_FINDING_INDEX, p->name.p, "it cannot write to %.*s", shown_length(down), down.p);
        }
        if (!dt_str_is(p->version, DUETIME_VERSION))
            add_found(j, DT_FINDING_VERSIONS, p->name.p,
                      "it has version %.*s, the API that answers has " DUETIME_VERSION, shown_length(p->version),
                      p->version.p ? p->version.p : "");
    }
    if (shards->dispatchers.n == 0)
        add_found(j, DT_FINDING_NO_DISPATCHER, "dispatchers", "no dispatcher was seen for four seconds");
    for (size_t i = 0; i < shards->n; i++)
        led |= shards->shards[i].owner.p != NULL;
    /* A dispatcher that is starting has no shard, so it only reports that it waits for Kafka. */
    if (!led && shards->dispatchers.n && shards->dispatchers.waits_kafka)
        add_found(j, DT_FINDING_KAFKA_AWAY, "kafka", "dispatchers wait for it before they elect leaders");
}

static void check_shard(struct judging *j, const struct dt_shard_info *shard)
{
    char subject[32];
    const struct dt_waiting *w = j->examined->waiting;
    const struct dt_shard_cause cause = dt_shard_judge(shard, &w->shards->dispatchers, j->examined->now_ms);
    bool named = shard->shard < w->view->map.shards;
    bool leaderless = cause.why == DT_SHARD_NO_LEADER || cause.why == DT_SHARD_NO_DISPATCHER;
    snprintf(subject, sizeof(subject), "shard %u", shard->shard);
    if (cause.why == DT_SHARD_HALTED)
        add_found(j, DT_FINDING_HALTED, subject, "%.*s", shown_length(cause.detail), cause.detail.p);
    if (named && (leaderless || cause.why == DT_SHARD_SILENT)) {
        set_causes_by_shard(j, &cause);
        add_found(j, DT_FINDING_NO_LEADER, subject,
                  leaderless ? "no running process leads it" : "its leader has not reported for 15 s");
    }
    if (named && shard->owner.p && !dt_shard_has_index(shard)) {
        set_causes_by_server(j, DT_STR_LIT("redis"));
        add_found(j, DT_FINDING_INDEX, subject, "its set in Redis is being filled, or its leader cannot reach Redis");
    }
    if (cause.why == DT_SHARD_WAITS) {
        set_causes_by_server(j, cause.waits);
        add_found(j, DT_FINDING_WAITS, subject, "it waits for %.*s%s%.*s", shown_length(cause.waits), cause.waits.p,
                  cause.detail.n ? ": " : "", shown_length(cause.detail), cause.detail.p ? cause.detail.p : "");
    }
    bool moves = shard->generation && shard->generation != w->view->installation.generation;
    if ((moves || !named))
        add_found(j, DT_FINDING_MOVING, subject, "it does not match the new number of shards yet");
}

/* Reports a topic with overdue jobs. The finding's kind, cause and action depend on what the oldest due job waits
 * for. */
static void check_topic(struct judging *j, const struct dt_topic_overdue *topic)
{
    const struct dt_examined *e = j->examined;
    const struct dt_job job = {.id = topic->job,
                               .topic = topic->topic,
                               .state = DT_SCHEDULED,
                               .next_at_ms = topic->since_ms,
                               .claim_shard = -1};
    int64_t late_ms = topic->since_ms ? e->now_ms - topic->since_ms : 0;
    const char *word = topic->paused ? "paused" : dt_waiting_for(e->waiting, &job);
    if (!word)
        return;
    const enum dt_finding_kind kind = strcmp(word, "paused") == 0 ? DT_FINDING_PAUSED
                                      : strcmp(word, "pop") == 0  ? DT_FINDING_NOT_POPPED
                                                                  : DT_FINDING_OVERDUE;
    if (late_ms <= e->late_ms && kind != DT_FINDING_PAUSED)
        return;
    const struct dt_explained explained = dt_explained_of(e->waiting, &job, word);
    struct dt_strbuf text = {0};
    dt_explain_action(&explained, &text);
    if (text.n && strcmp(dt_strbuf_str(&text).p, "duetime doctor") == 0)
        dt_strbuf_reset(&text);
    if (kind == DT_FINDING_OVERDUE)
        dt_strbuf_addf(&text, "%sduetime jobs explain %lld", text.n ? "; " : "", (long long)topic->job);
    dt_strbuf_addc(&text, '\0');
    j->action = text.failed ? NULL : text.p;
    if (strcmp(word, "leader") == 0)
        set_causes_by_shard(j, &explained.cause);
    else
        set_causes_by_server(j, dt_str(word));
    add_found(j, kind, topic->topic.p, "jobs due: %lld, the oldest for %lld s; waiting_for: %s", (long long)topic->jobs,
              (long long)(late_ms / 1000), word);
    j->action = NULL;
    dt_strbuf_clear(&text);
}

static void check_certificate(void *arg, const char *key, const char *file, int64_t ends_s)
{
    struct judging *j = arg;
    char what[160];
    char detail[200];
    snprintf(what, sizeof(what), "%s of the API", key);
    if (dt_finding_certificate(what, ends_s, j->examined->host_ms / 1000, detail, sizeof(detail)))
        add_found(j, DT_FINDING_CERTIFICATE, file, "%s", detail);
}

static void check_facts(struct judging *j)
{
    const struct dt_examined *e = j->examined;
    check_servers(j);
    check_processes(j);
    for (size_t i = 0; i < e->waiting->shards->n; i++)
        check_shard(j, &e->waiting->shards->shards[i]);
    for (size_t i = 0; i < e->n_overdue; i++)
        check_topic(j, &e->overdue[i]);
    for (size_t i = 0; i < e->n_told; i++) { /* findings that dispatchers reported */
        const struct dt_process_finding *told = &e->told[i];
        j->at_ms = told->found_at_ms;
        const enum dt_finding_kind kind = dt_finding_named(told->finding);
        if (kind < DT_FINDING_KINDS)
            add_found(j, kind, told->subject.p, "%.*s (seen by %.*s)", shown_length(told->detail), told->detail.p,
                      shown_length(told->process), told->process.p);
    }
    j->at_ms = 0;
    if (e->config)
        dt_certificates_look(e->config, check_certificate, j);
    if (e->shown_ends_ms)
        check_certificate(j, "the served certificate", "http.tls_cert", e->shown_ends_ms / 1000);
    if (e->inbox_errors)
        add_found(j, DT_FINDING_INBOX, "job_inbox", "%lld rows have an error", (long long)e->inbox_errors);
}

static void report_findings_of_kind(const struct judging *j, int kind, int cause, dt_heard_fn *heard, void *arg)
{
    for (const struct found *found = j->present[kind] ? j->first : NULL; found; found = found->next)
        if (found->finding.kind == (enum dt_finding_kind)kind && found->finding.cause == (enum dt_finding_kind)cause)
            heard(arg, &found->finding);
}

void dt_findings_judge(const struct dt_examined *examined, dt_heard_fn *heard, void *arg)
{
    struct judging j = {.examined = examined, .end = &j.first, .causes = {DT_FINDING_KINDS}};
    check_facts(&j);
    for (struct found *found = j.first; found; found = found->next) {
        /* The cause is the first of the possible causes that was found; DT_FINDING_KINDS if none was found. */
        const enum dt_finding_kind *cause = found->causes;
        while (*cause != DT_FINDING_KINDS && (!j.present[*cause] || *cause == found->finding.kind))
            cause++;
        dt_assert_cmp(cause - found->causes, <, 5);
        found->finding.cause = *cause;
    }
    for (int severity = 0; severity <= DT_SEVERITY_NOTE; severity++)
        for (int kind = 0; kind < DT_FINDING_KINDS; kind++) {
            if (dt_finding_kinds[kind].severity != (enum dt_severity)severity || !j.present[kind])
                continue;
            report_findings_of_kind(&j, kind, DT_FINDING_KINDS, heard, arg);
            for (int what = 0; what < DT_FINDING_KINDS; what++)
                report_findings_of_kind(&j, what, kind, heard, arg);
        }
    dt_arena_clear(&j.arena);
}

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
    DT_THEN(status, dt_store_topics_overdue(x->store, x->found.now_ms, DUE_ROWS, &x->arena, &overdue,
                                            &x->found.n_overdue, err));
    DT_THEN(status, dt_store_count_inbox_errors(x->store, &x->found.inbox_errors, err));
    DT_THEN(status, dt_store_findings(x->store, &x->arena, &told, &x->found.n_told, err));
    DT_THEN(status, dt_store_ending_numbers(x->store, &x->arena, &ending, &x->found.n_ending, err));
    x->found.ending = ending;
    x->found.told = told;
    x->found.config = x->api->config;
    x->found.shown_ends_ms = x->api->tls ? dt_tls_files_end_at_ms(x->api->tls) : 0;
    x->found.processes = processes;
    x->found.overdue = overdue;
    return status;
}

static dt_status read_installation(struct examination *x, struct dt_error *err)
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
    DT_THEN(status, read_tables(x, err));
    if (status != DT_OK)
        return status;
    dt_waiting_init(&x->waiting, api->topics, api->ref, x->store);
    found->waiting = &x->waiting;
    found->redis = x->redis;
    /* If Redis is down, that is a finding and not an error. */
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

static enum dt_next find_problems(struct dt_request *req, dt_store *store)
{
    static const char *const always[] = {"mysql", "processes", "shards", "jobs"};
    struct dt_strbuf *out = &req->out;
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, ANSWER_BYTES))
        return dt_request_no_room(req);
    const int64_t *late_ms = req->state;
    struct examination x = {.api = req->api, .store = store, .out = out, .found = {.late_ms = *late_ms}};
    dt_strbuf_reset(out);
    dt_status status = read_installation(&x, &err);
    if (status == DT_OK) {
        req->status = 200;
        dt_json_begin_object(out, NULL);
        dt_json_put_time(out, "now", x.found.now_ms);
        dt_json_begin_array(out, "findings");
        dt_findings_judge(&x.found, add_finding, &x);
        dt_json_end_array(out);
        dt_json_begin_array(out, "looked_at");
        for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
            dt_json_put_word(out, NULL, always[i]);
        if (dt_index_configured(x.api->config))
            dt_json_put_word(out, NULL, "redis");
        if (dt_config_has_kafka(x.api->config))
            dt_json_put_word(out, NULL, "kafka");
        if (x.api->config->zookeeper_servers[0])
            dt_json_put_word(out, NULL, "zookeeper");
        dt_json_put_word(out, NULL, "certificates");
        dt_json_end_array(out);
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
    return dt_workers_submit(req->api->workers, req, find_problems);
}
