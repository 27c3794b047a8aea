/*
 * Topics: GET, PUT, list, pause, resume, DELETE. Workers carry out all requests. After a change, this process reads its
 * snapshot again and notifies the dispatchers. The router has already checked that the token may see the topic.
 *
 * Invariant: nothing is read after a change was committed. The answer shows the topic as the transaction read it, with
 * counts of jobs from before the transaction.
 */
#include "topics_rest.h"
#include "alerts_rest.h"
#include "answer.h"
#include "base/http/callback_rules.h"
#include "features/operations/operations.h"
#include "handlers.h"
#include "job/delivery.h"
#include "job/job.h"
#include "request/topic_cache.h"
#include "topic/limits.h"

#define HOSTS_MAX  4000 /* maximal bytes of the column callback_hosts */
#define KEEP_TRIES 5    /* maximal reads of a topic by one PUT, if other requests change the topic meanwhile */

/* ---- callback settings ---- */

static const char headers_at[] = "/callback_headers";
static const char secret_at[] = "/callback_secret";

/* Converts the list of hosts to the form of the column callback_hosts: one text with commas. */
static void read_callback_hosts(struct dt_json_reader *r, const struct dt_json_field *field,
                                const struct dt_json_node *node)
{
    struct dt_faults *faults = r->faults;
    struct dt_str *hosts = dt_json_place(r, field);
    struct dt_strbuf text = {0};
    struct dt_callback_url url;
    size_t n = 0;
    if (node->type != DT_JSON_ARRAY) {
        dt_json_fault(r, field, "must be a list of strings, such as \"https://hooks.example.com\"");
        return;
    }
    for (const struct dt_json_node *m = dt_json_first(r->json, node); m; m = dt_json_sibling(r->json, node, m)) {
        const char *reason = m->type != DT_JSON_STRING ? "must be a string" : dt_check_callback_url(r, m->str);
        if (!reason)
            reason = dt_callback_origin_check(m->str, &url);
        if (reason)
            dt_faults_add_item(faults, "/callback_hosts", n, reason);
        dt_strbuf_adds(&text, n++ > 0 ? "," : "");
        if (!reason && text.n < HOSTS_MAX)
            dt_strbuf_add(&text, m->str.p, m->str.n);
    }
    if (text.n > HOSTS_MAX)
        dt_json_faultf(r, field, "has more than %d bytes", HOSTS_MAX);
    faults->failed = faults->failed || text.failed;
    *hosts = text.n ? dt_json_keep(faults, dt_strbuf_str(&text)) : DT_STR_NONE;
    dt_strbuf_clear(&text);
}

static void add_header(struct dt_strbuf *text, struct dt_str name, struct dt_str value)
{
    dt_json_put_key(text, name);
    dt_json_put_string(text, NULL, value);
}

static void read_callback_headers(struct dt_json_reader *r, const struct dt_json_field *field,
                                  const struct dt_json_node *node)
{
    const size_t most = ((const struct dt_job_rules *)r->context)->headers_max;
    struct dt_topic_setting *setting = r->out;
    struct dt_strbuf text = {0};
    size_t bytes = 0;
    if (node->type != DT_JSON_OBJECT) {
        dt_json_fault(r, field, "must be an object of strings");
        return;
    }
    dt_strbuf_addc(&text, '{');
    for (const struct dt_json_node *m = dt_json_first(r->json, node); m; m = dt_json_sibling(r->json, node, m)) {
        const char *reason = dt_callback_header_name_check(m->name);
        if (!reason)
            reason = m->type == DT_JSON_STRING ? dt_callback_header_value_check(m->str) : "must be a string";
        bytes += m->name.n + m->str.n;
        if (reason)
            dt_faults_add_member(r->faults, headers_at, m->name, reason);
        else if (bytes <= most)
            add_header(&text, m->name, m->str);
        setting->keeps |= !reason && dt_str_is(m->str, DT_TOPIC_HIDDEN);
    }
    dt_strbuf_addc(&text, '}');
    if (bytes > most)
        dt_json_faultf(r, field, "names and values have %zu bytes, %zu are allowed", bytes, most);
    r->faults->failed |= text.failed;
    setting->topic.callback.headers = text.n > 2 ? dt_json_keep(r->faults, dt_strbuf_str(&text)) : DT_STR_NONE;
    dt_strbuf_clear(&text);
}

static void compare_callback_settings(const struct dt_job_rules *rules, struct dt_faults *faults,
                                      const struct dt_topic_setting *setting)
{
    static const char without_place[] = "requires callback_url or callback_hosts";
    const struct dt_topic *topic = &setting->topic;
    int64_t ack_ms = topic->ack_timeout_ms > 0 ? topic->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS;
    if (topic->delivery == DT_DELIVERY_HTTP && !rules->callbacks)
        dt_faults_add(faults, "/delivery", "\"http\" is not enabled here (callbacks.enabled)");
    const int64_t ms = topic->callback.timeout_ms;
    if (ms >= DT_CALLBACK_TIMEOUT_MIN_MS && ms <= DT_CALLBACK_TIMEOUT_MAX_MS &&
        ms >= ack_ms) /* a timeout out of bounds has a fault already */
        dt_faults_add(faults, "/callback_timeout", "must be shorter than ack_timeout");
    if (faults->n || topic->callback.places.url.p || topic->callback.places.hosts.p)
        return;
    if (topic->callback.headers.p)
        dt_faults_add(faults, headers_at, without_place);
    if (topic->callback.secret.p)
        dt_faults_add(faults, secret_at, without_place);
}

static struct dt_str find_header(const dt_json *json, struct dt_str name)
{
    const struct dt_json_node *root = dt_json_root(json);
    if (root->type != DT_JSON_OBJECT)
        return DT_STR_NONE;
    for (const struct dt_json_node *m = dt_json_first(json, root); m; m = dt_json_sibling(json, root, m))
        if (dt_str_eq(m->name, name))
            return m->str;
    return DT_STR_NONE;
}

static dt_status parse_headers(dt_json *json, struct dt_str text)
{
    static const struct dt_json_limits limits = {.depth = 2};
    return dt_json_parse(json, text.p ? text : DT_STR_LIT("{}"), &limits, NULL);
}

static dt_status restore_hidden_headers(dt_json *json, const struct dt_topic *there, bool widen,
                                        struct dt_faults *faults, struct dt_topic *out)
{
    struct dt_strbuf text = {0};
    dt_json *had = NULL;
    if (!out->callback.headers.p)
        return DT_OK;
    dt_strbuf_addc(&text, '{');
    dt_status status = dt_json_new(&had);
    DT_THEN(status, parse_headers(json, out->callback.headers));
    DT_THEN(status, parse_headers(had, there ? there->callback.headers : DT_STR_NONE));
    const struct dt_json_node *root = status == DT_OK ? dt_json_root(json) : NULL;
    for (const struct dt_json_node *m = root ? dt_json_first(json, root) : NULL; m;
         m = dt_json_sibling(json, root, m)) {
        const bool hidden = dt_str_is(m->str, DT_TOPIC_HIDDEN);
        const struct dt_str value = hidden ? find_header(had, m->name) : m->str;
        if (hidden && value.p && widen)
            dt_faults_add_member(faults, headers_at, m->name, DT_TOPIC_SECRET_WIDENED);
        else if (value.p)
            add_header(&text, m->name, value);
        else
            dt_faults_add_member(faults, headers_at, m->name, "has no value yet that \"***\" could keep");
    }
    dt_strbuf_addc(&text, '}');
    faults->failed = faults->failed || text.failed;
    if (status == DT_OK)
        out->callback.headers = dt_json_keep(faults, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    dt_json_free(had);
    return status;
}

dt_status dt_topic_callback_keep(dt_json *json, const struct dt_topic *there, const struct dt_topic_setting *setting,
                                 struct dt_faults *faults, struct dt_topic *out)
{
    *out = setting->topic;
    const bool widen = there && dt_callback_places_widen(&there->callback.places, &out->callback.places);
    out->callback.secret = dt_topic_secret_keep(out->callback.secret, there ? there->callback.secret : DT_STR_NONE,
                                                widen, secret_at, faults);
    dt_status status = restore_hidden_headers(json, there, widen, faults, out);
    if (status != DT_OK)
        return status;
    return dt_faults_status(faults);
}

/* Adds the names of the headers. If a manual edit of the row made the headers unreadable, adds null. */
static void put_hidden_headers(struct dt_strbuf *out, struct dt_str headers)
{
    dt_json *json = NULL;
    if (!headers.p || dt_json_new(&json) != DT_OK || parse_headers(json, headers) != DT_OK ||
        dt_json_root(json)->type != DT_JSON_OBJECT) {
        dt_json_put_null(out, "callback_headers");
        dt_json_free(json);
        return;
    }
    const struct dt_json_node *root = dt_json_root(json);
    dt_json_begin_object(out, "callback_headers");
    for (const struct dt_json_node *m = dt_json_first(json, root); m; m = dt_json_sibling(json, root, m)) {
        dt_json_put_key(out, m->name);
        dt_json_put_word(out, NULL, DT_TOPIC_HIDDEN);
    }
    dt_json_end_object(out);
    dt_json_free(json);
}

static void add_callback(struct dt_strbuf *out, const struct dt_topic *topic)
{
    struct dt_str hosts = topic->callback.places.hosts;
    dt_json_put_string(out, "callback_url", topic->callback.places.url);
    if (hosts.n) {
        dt_json_begin_array(out, "callback_hosts");
        while (hosts.n)
            dt_json_put_string(out, NULL, dt_str_next_element(&hosts));
        dt_json_end_array(out);
    } else {
        dt_json_put_null(out, "callback_hosts");
    }
    dt_json_put_duration_or_null(out, "callback_timeout", topic->callback.timeout_ms > 0, topic->callback.timeout_ms);
    put_hidden_headers(out, topic->callback.headers);
    dt_json_put_word(out, "callback_secret", topic->callback.secret.p ? DT_TOPIC_HIDDEN : NULL);
}

/*
 * ---- JSON ----
 *
 * An answer shows each setting as it was set (null = the default) and, under "effective", the value that applies. A
 * client may put an answer back, so a body may have members that only the server sets. A setting that this version does
 * not know is refused.
 */

static void check_name_member(struct dt_json_reader *r, const struct dt_json_field *field,
                              const struct dt_json_node *node)
{
    const struct dt_topic_setting *setting = r->out;
    if (node->type != DT_JSON_STRING || !dt_str_eq(node->str, setting->topic.name))
        dt_json_fault(r, field, "differs from the topic in the path");
}

/* Applies Kafka's rule for names, and refuses topics that installations use internally. */
static const char *check_kafka_topic(struct dt_json_reader *r, struct dt_str name)
{
    static const char *const length = "must have 1 to 249 of A-Z a-z 0-9 . _ -";
    if (name.n < 1 || name.n > DT_KAFKA_TOPIC_MAX)
        return length;
    const char *reason = dt_check_topic(r, name.n > DT_TOPIC_MAX ? (struct dt_str){name.p, DT_TOPIC_MAX} : name);
    for (size_t i = 0; !reason && i < name.n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name.p[i]) || !name.p[i])
            reason = length;
    if (!reason && dt_kafka_topic_internal(name))
        reason =
            "must not end in .ledger, .results, .results.rejected, .commands, .commands.rejected, .dead or .alerts: "
            "such topics are internal to installations";
    return reason;
}

#define RATE                                                                                                           \
    "must be a number from 1 to 9999999 a second or a minute, such as \"100/s\" or \"600/m\", or null for no limit"

static const char *check_rate(struct dt_str text)
{
    int64_t interval_ns;
    return dt_rate_parse(text, &interval_ns) ? NULL : RATE;
}

static const char *check_secret(struct dt_json_reader *r, struct dt_str text)
{
    return dt_topic_secret_check(text, &((struct dt_topic_setting *)r->out)->keeps);
}

#define BODY              struct dt_topic_setting
#define NULLABLE          .flags = DT_FIELD_NULLABLE
#define SHOWN(name, kind) DT_FIELD_FOR_SHOW(name, kind, .reason = "is read-only and has a wrong type")

static const struct dt_json_field fields[] = {
    DT_FIELD_BY("name", check_name_member),
    DT_FIELD("delivery", WORD, BODY, topic.delivery, NULLABLE, .words = dt_delivery_names, .min = DT_DELIVERY_UNSET + 1,
             .reason = "must be \"kafka\", \"http\" or \"pull\""),
    DT_FIELD("kafka_topic", TEXT, BODY, topic.kafka_topic, NULLABLE, .judge = check_kafka_topic),
    DT_FIELD("retry", TEXT, BODY, topic.retry, NULLABLE, .read = dt_read_retry),
    DT_FIELD("ack_timeout", DURATION, BODY, topic.ack_timeout_ms, NULLABLE, .min = 1, .reason = DT_REASON_NOT_ZERO),
    DT_FIELD("retention", DURATION, BODY, topic.retention_ms, NULLABLE, .absent = -1),
    DT_FIELD("max_in_flight", COUNT, BODY, topic.max_in_flight, NULLABLE, .min = 1, .max = INT32_MAX,
             .reason = "must be a number from 1 to 2147483647, or null for no limit"),
    DT_FIELD("rate_limit", TEXT, BODY, topic.rate_limit, NULLABLE, .check = check_rate, .reason = RATE),
    DT_FIELD("paused", FLAG, BODY, topic.paused, .has = offsetof(BODY, set_paused)),
    SHOWN("effective", OBJECT),
    SHOWN("counts", OBJECT),
    SHOWN("oldest_overdue_ms", COUNT),
    SHOWN("oldest_held_ms", COUNT),
    SHOWN("created_at", TIME),
    SHOWN("updated_at", TIME),
    SHOWN("version", COUNT),
    SHOWN("deletion", TEXT),
    DT_FIELD("callback_url", TEXT, BODY, topic.callback.places.url, NULLABLE, .judge = dt_check_callback_url),
    DT_FIELD("callback_hosts", TEXT, BODY, topic.callback.places.hosts, NULLABLE, .read = read_callback_hosts),
    DT_FIELD("callback_timeout", DURATION, BODY, topic.callback.timeout_ms, NULLABLE, .min = DT_CALLBACK_TIMEOUT_MIN_MS,
             .max = DT_CALLBACK_TIMEOUT_MAX_MS, .reason = "must be from 100 milliseconds to 10 minutes"),
    DT_FIELD("callback_headers", TEXT, BODY, topic.callback.headers, NULLABLE, .read = read_callback_headers),
    DT_FIELD("callback_secret", TEXT, BODY, topic.callback.secret, NULLABLE, .judge = check_secret),
    DT_FIELD("alerts", TEXT, BODY, topic.alerts, NULLABLE, .read = dt_topic_alerts_decode),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                          struct dt_faults *faults, struct dt_topic_setting *out)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out, .context = rules};
    *out = (struct dt_topic_setting){.topic = {.name = name, .retention_ms = -1}};
    if (!dt_json_read(&r, &table, dt_json_root(json)))
        return DT_INVALID;
    compare_callback_settings(rules, faults, out);
    return dt_faults_status(faults);
}

void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *t, const struct dt_topic_counts *counts)
{
    const struct dt_str goes_to = t->kafka_topic.p ? t->kafka_topic : t->name;
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "name", t->name);
    dt_json_put_word(out, "delivery", dt_delivery_id_name(t->delivery));
    dt_json_put_string(out, "kafka_topic", t->kafka_topic);
    if (t->retry.p)
        dt_retry_put(out, "retry", t->retry);
    else
        dt_json_put_null(out, "retry");
    dt_json_put_duration_or_null(out, "ack_timeout", t->ack_timeout_ms > 0, t->ack_timeout_ms);
    dt_json_put_duration_or_null(out, "retention", t->retention_ms >= 0, t->retention_ms);
    dt_json_put_int_or_null(out, "max_in_flight", t->max_in_flight > 0, t->max_in_flight);
    dt_json_put_string(out, "rate_limit", t->rate_limit);
    dt_json_put_bool(out, "paused", t->paused);
    add_callback(out, t);
    dt_topic_alerts_add(out, t);
    dt_json_begin_object(out, "effective");
    dt_json_put_string(out, "kafka_topic", t->delivery == DT_DELIVERY_KAFKA ? goes_to : DT_STR_NONE);
    dt_retry_put(out, "retry", t->retry.p ? t->retry : DT_STR_LIT(DT_RETRY_DEFAULT));
    dt_json_put_duration(out, "ack_timeout", t->ack_timeout_ms > 0 ? t->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS);
    dt_json_put_duration(out, "callback_timeout", dt_callback_timeout_ms(t->callback.timeout_ms, t->ack_timeout_ms));
    dt_json_put_duration(out, "retention", t->retention_ms >= 0 ? t->retention_ms : DT_RETENTION_DEFAULT_MS);
    dt_json_end_object(out);
    if (counts) {
        dt_json_begin_object(out, "counts");
        for (int s = 0; s < DT_JOB_STATES; s++)
            dt_json_put_int(out, dt_job_state_name((enum dt_job_state)s), counts->by_state[s]);
        dt_json_end_object(out);
        dt_json_put_null(out, t->paused ? "oldest_overdue_ms" : "oldest_held_ms");
        dt_json_put_int_or_null(out, t->paused ? "oldest_held_ms" : "oldest_overdue_ms", counts->oldest_overdue_ms > 0,
                                counts->oldest_overdue_ms);
    }
    dt_json_put_time(out, "created_at", t->created_at_ms);
    dt_json_put_time(out, "updated_at", t->updated_at_ms);
    dt_json_put_int(out, "version", t->version);
    if (t->deletion)
        dt_json_put_id(out, "deletion", t->deletion);
    else
        dt_json_put_null(out, "deletion");
    dt_json_end_object(out);
}

/* ---- on a worker ---- */

static enum dt_next answer_topic(struct dt_request *req, int http_status, const struct dt_topic *topic,
                                 const struct dt_topic_counts *counts)
{
    req->status = http_status;
    dt_strbuf_reset(&req->out);
    dt_topic_add(&req->out, topic, counts);
    return DT_REPLY;
}

enum dt_next dt_handle_topic_get(struct dt_request *req, dt_store *store)
{
    struct dt_topic topic;
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_status status = dt_store_topic_get(store, req->params[0], &req->arena, &topic, &err);
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "topic");
    DT_THEN(status, dt_store_topic_counts(store, req->params[0], &counts, &err));
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    return answer_topic(req, 200, &topic, &counts);
}

/* Stores the setting. If "***" stands for values that the topic has, reads the topic, and stores the setting only if
 * the topic still has the version that was read; otherwise tries again. INVALID: `faults` or terms->refusal has the
 * reason. */
static dt_status store_topic_setting(struct dt_request *req, dt_store *store, struct dt_topic_terms *terms,
                                     struct dt_faults *faults, struct dt_topic_now *now, struct dt_error *err)
{
    const struct dt_topic_setting *setting = req->state;
    struct dt_topic there;
    struct dt_topic topic;
    if (!setting->keeps)
        return dt_store_topic_put(store, &setting->topic, setting->set_paused, terms, now, err);
    for (int i = 0; i < KEEP_TRIES; i++) {
        dt_json *json = dt_scratch_json();
        dt_status status = json ? dt_store_topic_get(store, setting->topic.name, &req->arena, &there, err) : DT_NOMEM;
        const struct dt_topic *found = status == DT_OK ? &there : NULL;
        if (status != DT_OK && status != DT_NOT_FOUND)
            return status;
        terms->refusal = DT_TOPIC_CHANGED;
        terms->of_version = true;
        terms->version = found ? there.version : 0;
        status = dt_topic_callback_keep(json, found, setting, faults, &topic);
        status = status == DT_OK ? dt_topic_alerts_keep(json, found, faults, &topic) : status;
        DT_THEN(status, dt_store_topic_put(store, &topic, setting->set_paused, terms, now, err));
        if (status != DT_INVALID || terms->refusal != DT_TOPIC_CHANGED || faults->n)
            return status;
    }
    return DT_BUSY;
}

static enum dt_next put_topic(struct dt_request *req, dt_store *store)
{
    const struct dt_topic_setting *setting = req->state;
    struct dt_topic_terms terms = dt_topic_terms_of(req->api->config, &req->caller, setting->topic.kafka_topic);
    struct dt_faults faults = {.arena = &req->arena};
    struct dt_topic_now now = {.arena = &req->arena};
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_status status = dt_store_topic_counts(store, setting->topic.name, &counts, &err);
    DT_THEN(status, store_topic_setting(req, store, &terms, &faults, &now, &err));
    if (status == DT_INVALID && !faults.n) {
        bool too_many = terms.refusal == DT_TOPIC_LIMIT || terms.refusal == DT_TOPIC_PREFIX_LIMIT;
        dt_faults_add(&faults, setting->topic.kafka_topic.p && !too_many ? "/kafka_topic" : "/name",
                      dt_topic_cache_refusal(req->api->topics, terms.refusal));
    }
    if (status == DT_INVALID)
        return dt_answer_faults(req, DT_INVALID, &faults);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_topics_announce(req);
    return answer_topic(req, now.created ? 201 : 200, &now.topic, &counts);
}

enum dt_next dt_handle_topic_pause(struct dt_request *req, dt_store *store)
{
    struct dt_topic_now now = {.arena = &req->arena};
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_status status = dt_store_topic_counts(store, req->params[0], &counts, &err);
    DT_THEN(status, dt_store_topic_pause(store, req->params[0], req->route->arg, &now, &err));
    if (status != DT_OK)
        return dt_answer_failed(req, status, "topic", &err);
    dt_topics_announce(req);
    return answer_topic(req, 200, &now.topic, &counts);
}

/* Deletes the topic. The answer shows the topic as it was before. */
static enum dt_next delete_topic(struct dt_request *req, dt_store *store)
{
    struct dt_topic_deletion deletion;
    struct dt_error err = {0};
    dt_handle_topic_get(req, store);
    if (req->status != 200)
        return DT_REPLY;
    dt_status status = dt_store_topic_delete(store, req->params[0], &req->arena, &deletion, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "topic", &err);
    if (deletion.keeper)
        return dt_answer_topic_in_use(req, &deletion);
    dt_topics_announce(req);
    return DT_REPLY;
}

static dt_status write_topics(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_page *page = req->state;
    const struct dt_topic_filter filter = {.bound = dt_wall_bound(req) != NULL,
                                           .prefixes = req->caller.topics.prefixes,
                                           .n_prefixes = req->caller.topics.n,
                                           .after = page->after,
                                           .limit = page->end.rows};
    struct dt_topic_list topics;
    dt_status status = dt_store_topic_list(store, &filter, rows, &topics, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "topics");
    for (size_t i = 0; i < topics.n; i++) {
        if (i > 0 && req->out.n >= DT_PAGE_BYTES) {
            topics.more = true;
            topics.last = topics.v[i - 1].name;
            break;
        }
        dt_topic_add(&req->out, &topics.v[i], NULL);
    }
    dt_answer_next_cursor(req, &page->cursor, topics.more, topics.last);
    return DT_OK;
}

/* row_bytes: the retry schedule twice, three names, URL, hosts, and names of headers. */
const struct dt_list dt_list_of_topics = {
    .letter = 't', .row = "topic", .row_bytes = (size_t)28 << 10, .by_name = true, .write = write_topics};

/* ---- on an HTTP thread ---- */

enum dt_next dt_handle_topic_delete(struct dt_request *req)
{
    bool with_jobs;
    if (!dt_answer_flag(req, "cancel", &with_jobs))
        return DT_REPLY;
    if (with_jobs)
        return dt_handle_topic_delete_with_jobs(req);
    if (dt_request_query(req, "wait").p) /* only a deletion with cancel=true is an operation */
        return dt_answer_fault(req, "?wait", "requires cancel=true");
    return dt_workers_submit(req->api->workers, req, delete_topic);
}

static dt_status decode_topic(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                              struct dt_faults *faults)
{
    struct dt_topic_setting *setting = req->state;
    const char *reason = dt_topic_check(req->params[0], rules->installation);
    if (reason)
        dt_faults_add(faults, "/name", reason);
    dt_status status = dt_topic_decode(json, req->params[0], rules, faults, setting);
    /* Checked only if the body names a delivery. Otherwise a topic that already has delivery "kafka" keeps it. */
    if (setting->topic.delivery == DT_DELIVERY_KAFKA && !dt_config_has_kafka(req->api->config))
        dt_faults_add(faults, "/delivery",
                      "cannot be \"kafka\": this installation has no Kafka (kafka.brokers is empty)");
    return status;
}

enum dt_next dt_handle_topic_put(struct dt_request *req)
{
    if (!dt_answer_state(req, sizeof(struct dt_topic_setting)) || !dt_answer_clock(req) ||
        !dt_answer_decode(req, decode_topic))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, put_topic);
}
