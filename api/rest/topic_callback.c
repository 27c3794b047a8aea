/* Callback settings: reading, keeping what is secret, and showing that it is there. See topic_callback.h. */
#include "topic_callback.h"

#include "base/http/header.h"
#include "base/http/host_name.h"
#include "base/http/url.h"
#include "base/text/json_write.h"
#include "job/callback_timeout.h"
#include "topic/topics.h"
#include "topic_secret.h"

#define HIDDEN DT_TOPIC_HIDDEN

static const char headers_at[] = "/callback_headers";
static const char secret_at[] = "/callback_secret";

#define HOSTS_MAX 4000 /* bytes of the column */

/* ---- reading ---- */

/* Written as SQL has the list: one text, with commas between. */
void dt_topic_callback_hosts(struct dt_json_reader *r, const struct dt_json_field *field,
                             const struct dt_json_node *node)
{
    struct dt_faults *faults = r->faults;
    struct dt_str *hosts = dt_json_place(r, field);
    struct dt_strbuf text;
    struct dt_callback_url url;
    size_t n = 0;
    if (node->type != DT_JSON_ARRAY) {
        dt_json_fault(r, field, "must be a list of strings, such as \"https://hooks.example.com\"");
        return;
    }
    dt_strbuf_init(&text);
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

void dt_topic_callback_headers(struct dt_json_reader *r, const struct dt_json_field *field,
                               const struct dt_json_node *node)
{
    const size_t most = ((const struct dt_job_rules *)r->context)->headers_max;
    struct dt_topic_setting *setting = r->out;
    struct dt_strbuf text;
    size_t bytes = 0;
    if (node->type != DT_JSON_OBJECT) {
        dt_json_fault(r, field, "must be an object of strings");
        return;
    }
    dt_strbuf_init(&text);
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
        setting->keeps |= !reason && dt_str_is(m->str, HIDDEN);
    }
    dt_strbuf_addc(&text, '}');
    if (bytes > most)
        dt_json_faultf(r, field, "names and values have %zu bytes, %zu are allowed", bytes, most);
    r->faults->failed |= text.failed;
    setting->topic.callback.headers = text.n > 2 ? dt_json_keep(r->faults, dt_strbuf_str(&text)) : DT_STR_NONE;
    dt_strbuf_clear(&text);
}

void dt_topic_callback_compare(const struct dt_job_rules *rules, struct dt_faults *faults,
                               const struct dt_topic_setting *setting)
{
    static const char without_place[] = "needs a callback_url, or callback_hosts: it is sent nowhere else";
    const struct dt_topic *topic = &setting->topic;
    int64_t ack_ms = topic->ack_timeout_ms > 0 ? topic->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS;
    if (topic->delivery == DT_DELIVERY_HTTP && !rules->callbacks)
        dt_faults_add(faults, "/delivery", "\"http\" is not enabled here (callbacks.enabled)");
    const int64_t ms = topic->callback.timeout_ms;
    if (ms >= DT_CALLBACK_TIMEOUT_MIN_MS && ms <= DT_CALLBACK_TIMEOUT_MAX_MS && ms >= ack_ms) /* others have a fault */
        dt_faults_add(faults, "/callback_timeout", "must be shorter than ack_timeout");
    if (faults->n || topic->callback.places.url.p || topic->callback.places.hosts.p)
        return;
    if (topic->callback.headers.p)
        dt_faults_add(faults, headers_at, without_place);
    if (topic->callback.secret.p)
        dt_faults_add(faults, secret_at, without_place);
}

/* ---- keeping ---- */

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

static dt_status parse(dt_json *json, struct dt_str text)
{
    static const struct dt_json_limits limits = {.depth = 2};
    return dt_json_parse(json, text.p ? text : DT_STR_LIT("{}"), &limits, NULL);
}

static dt_status keep_headers(dt_json *json, const struct dt_topic *there, bool widen, struct dt_faults *faults,
                              struct dt_topic *out)
{
    struct dt_strbuf text;
    dt_json *had = NULL;
    if (!out->callback.headers.p)
        return DT_OK;
    dt_strbuf_init(&text);
    dt_strbuf_addc(&text, '{');
    dt_status status = dt_json_new(&had);
    if (status == DT_OK)
        status = parse(json, out->callback.headers);
    if (status == DT_OK)
        status = parse(had, there ? there->callback.headers : DT_STR_NONE);
    const struct dt_json_node *root = status == DT_OK ? dt_json_root(json) : NULL;
    for (const struct dt_json_node *m = root ? dt_json_first(json, root) : NULL; m;
         m = dt_json_sibling(json, root, m)) {
        const bool hidden = dt_str_is(m->str, HIDDEN);
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
    dt_status status = keep_headers(json, there, widen, faults, out);
    if (status != DT_OK)
        return status;
    return dt_faults_status(faults);
}

/* ---- answers ---- */

/* What a manual edit has spoiled is shown as absent. */
static void put_hidden_headers(struct dt_strbuf *out, struct dt_str headers)
{
    dt_json *json = NULL;
    if (!headers.p || dt_json_new(&json) != DT_OK || parse(json, headers) != DT_OK ||
        dt_json_root(json)->type != DT_JSON_OBJECT) {
        dt_json_put_null(out, "callback_headers");
        dt_json_free(json);
        return;
    }
    const struct dt_json_node *root = dt_json_root(json);
    dt_json_begin_object(out, "callback_headers");
    for (const struct dt_json_node *m = dt_json_first(json, root); m; m = dt_json_sibling(json, root, m)) {
        dt_json_put_key(out, m->name);
        dt_json_put_word(out, NULL, HIDDEN);
    }
    dt_json_end_object(out);
    dt_json_free(json);
}

void dt_topic_callback_add(struct dt_strbuf *out, const struct dt_topic *topic)
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
    dt_json_put_word(out, "callback_secret", topic->callback.secret.p ? HIDDEN : NULL);
}
