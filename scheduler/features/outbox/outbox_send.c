/* Sends the chosen messages: all messages for Kafka at once, and each webhook by the HTTP client of callbacks. */

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "features/intents/commands.h"
#include "outbox_parts.h"

#define WEBHOOK_MS 5000

/* Ends the sending of a message (a flight) with an outcome, and adds it to the list from which outcomes are recorded.
 * Callable from any thread. */
static void end_flight(struct dt_flight *f, enum dt_outbox_outcome outcome, const char *why)
{
    dt_outbox *o = f->outbox;
    f->outcome = outcome;
    snprintf(f->why, sizeof(f->why), "%.*s", (int)sizeof(f->why) - 1, why);
    pthread_mutex_lock(&o->lock);
    f->next = o->ended;
    o->ended = f;
    pthread_mutex_unlock(&o->lock);
}

/* The flights (messages under way) for Kafka, and the Kafka messages of each. All in the arena o->texts. */
struct post {
    dt_outbox *o;
    struct dt_flight **flights; /* the messages under way (flights) that are sent to Kafka, sorted by id */
    size_t n_flights;
    struct dt_kafka_message *v;
    struct dt_flight **of; /* of[i]: the flight (row of the outbox) that v[i] comes from */
    size_t n, room;
    struct dt_error *err;
};

static dt_status add_kafka_message(struct post *p, struct dt_flight *f, const struct dt_kafka_message *m)
{
    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : p->n_flights;
        struct dt_kafka_message *v = dt_arena_alloc(&p->o->texts, p->room * sizeof(*v));
        struct dt_flight **of = dt_arena_alloc(&p->o->texts, p->room * sizeof(*of));
        if (!v || !of)
            return dt_fail(p->err, DT_NOMEM, "out of memory");
        if (p->n) {
            memcpy(v, p->v, p->n * sizeof(*v));
            memcpy(of, p->of, p->n * sizeof(*of));
        }
        p->v = v;
        p->of = of;
    }
    p->v[p->n] = *m;
    p->of[p->n++] = f;
    return DT_OK;
}

/* Returns the flight of an outbox row. Must be called for rows in the order of the flights. *i: index of the flight
 * that the previous call returned; at first 0. */
static struct dt_flight *find_flight(const struct post *p, size_t *i, int64_t row)
{
    while (p->flights[*i]->row.id != row)
        dt_assert_cmp(++*i, <, p->n_flights);
    return p->flights[*i];
}

static dt_status add_dead_letters(struct post *p, const int64_t *ids)
{
    const struct dt_outbox_env *env = &p->o->env;
    struct dt_notices notices;
    struct dt_kafka_message m;
    size_t at = 0;
    dt_status status = dt_store_notices(p->o->store, ids, p->n_flights, &p->o->texts, &notices, p->err);
    for (size_t i = 0; i < notices.n && status == DT_OK; i++) {
        status = env->kafka->letter(&notices.v[i], env->installation, &p->o->texts, &m);
        status = status == DT_OK ? add_kafka_message(p, find_flight(p, &at, notices.v[i].id), &m)
                                 : dt_fail(p->err, status, "out of memory");
    }
    return status;
}

static dt_status add_answers(struct post *p, const int64_t *ids)
{
    struct dt_command_answers answers;
    size_t at = 0;
    dt_status status =
        dt_store_read_command_answers(p->o->store, p->o->json, ids, p->n_flights, &p->o->texts, &answers, p->err);
    DT_FAIL_POINT_STATUS("commands.answer", status, p->err);
    for (size_t i = 0; i < answers.n && status == DT_OK; i++) {
        const struct dt_command_answer *a = &answers.v[i];
        struct dt_kafka_header *headers = dt_arena_alloc(&p->o->texts, (a->n_headers + 1) * sizeof(*headers));
        if (!headers)
            return dt_fail(p->err, DT_NOMEM, "out of memory");
        for (size_t k = 0; k < a->n_headers; k++)
            headers[k] = (struct dt_kafka_header){a->headers[k].name, a->headers[k].value};
        const struct dt_kafka_message m = {a->topic, a->key, a->value, headers, a->n_headers};
        status = add_kafka_message(p, find_flight(p, &at, a->row), &m);
    }
    return status;
}

static dt_status add_alert_messages(struct post *p)
{
    const struct dt_str topic = dt_arena_printf(&p->o->texts, "%s.%s", p->o->env.installation, p->o->kind->topic);
    for (size_t i = 0; i < p->n_flights; i++) {
        struct dt_kafka_header *headers = dt_arena_alloc(&p->o->texts, 2 * sizeof(*headers));
        struct dt_outbox_text text;
        dt_status status = topic.p && headers ? p->o->kind->text(&p->flights[i]->row, &p->o->texts, &text) : DT_NOMEM;
        if (status != DT_OK)
            return dt_fail(p->err, status, "out of memory");
        headers[0] = (struct dt_kafka_header){DT_STR_LIT("content-type"), DT_STR_LIT("application/json")};
        headers[1] = (struct dt_kafka_header){DT_STR_LIT("webhook-id"), text.id};
        const struct dt_kafka_message m = {topic, text.key, text.body, headers, 2};
        status = add_kafka_message(p, p->flights[i], &m);
        if (status != DT_OK)
            return status;
    }
    return DT_OK;
}

/* Selects the flights (messages under way) for Kafka, and makes the Kafka messages of each. */
static dt_status make_kafka_messages(struct post *p, struct dt_flight **flights, size_t n)
{
    int64_t *ids = dt_arena_alloc(&p->o->texts, (n + 1) * sizeof(*ids));
    p->flights = dt_arena_alloc(&p->o->texts, (n + 1) * sizeof(struct dt_flight *));
    if (!p->flights || !ids)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (!dt_outbox_is_webhook(&flights[i]->row)) {
            ids[p->n_flights] = flights[i]->row.id;
            p->flights[p->n_flights++] = flights[i];
        }
    return p->n_flights == 0                        ? DT_OK
           : p->o->kind->kind == DT_MESSAGE_DEAD    ? add_dead_letters(p, ids)
           : p->o->kind->kind == DT_MESSAGE_ANSWERS ? add_answers(p, ids)
                                                    : add_alert_messages(p);
}

/* Sends the messages to Kafka, and ends the flights. If a flight has no messages (its job was removed, or a manual edit
 * broke its row), its row is deleted. Whether a failure of Kafka is returned depends on the kind:
 *
 *   dead letters       if a letter did not arrive
 *   answers            if none arrived and Kafka did not refuse them; Kafka may refuse single topics
 *   sent to webhooks   never: each message has its own outcome
 */
static dt_status send_kafka_messages(struct post *p, bool *sent, struct dt_error *why)
{
    const dt_outbox *o = p->o;
    const enum dt_message_kind kind = o->kind->kind;
    int64_t arrived = 0;
    const dt_status status =
        p->n ? o->env.kafka->send(o->env.kafka->arg, p->v, p->n, sent, o->kind->timeout_ms, why) : DT_OK;
    for (size_t i = 0; i < p->n; i++) {
        struct dt_flight *f = p->of[i];
        const bool arrives = DT_GUARD(LETTER_SENT, sent[i]);
        const bool refused = !arrives && status == DT_REFUSED && kind == DT_MESSAGE_ANSWERS;
        f->arrived += arrives;
        f->refused += refused;
        f->outcome = arrives || refused ? f->outcome : DT_OUTBOX_FAILED;
        arrived += arrives;
    }
    for (size_t i = 0; i < p->n_flights; i++)
        end_flight(p->flights[i], p->flights[i]->outcome, why->text);
    if (o->kind->text || (kind == DT_MESSAGE_ANSWERS && (arrived || status == DT_REFUSED)))
        return DT_OK;
    return status;
}

/* Makes a request, except its URL. secret: NULL = the request is not signed. */
static dt_status make_webhook_request(const struct dt_outbox_text *text, const struct dt_callback_secret *secret,
                                      int64_t now_ms, struct dt_arena *arena, struct dt_http_request *out)
{
    const struct dt_webhook webhook = {.id = text->id, .timestamp_s = now_ms / 1000, .body = text->body};
    struct dt_http_header headers[] = {
        {DT_STR_LIT("content-type"), DT_STR_LIT("application/json")},
        {DT_STR_LIT("webhook-id"), text->id},
        {DT_STR_LIT("webhook-timestamp"), dt_arena_printf(arena, "%lld", (long long)webhook.timestamp_s)},
        {DT_STR_LIT("user-agent"), DT_STR_LIT("duetime/" DUETIME_VERSION)},
        {DT_STR_LIT("webhook-signature"), DT_STR_NONE},
    };
    const size_t n = sizeof(headers) / sizeof(*headers);
    struct dt_strbuf signature = {0};
    dt_status status = secret ? dt_webhook_sign(&webhook, secret, &signature) : DT_OK;
    if (status == DT_OK && secret && !signature.failed)
        headers[n - 1].value = dt_arena_copy(arena, dt_strbuf_str(&signature));
    dt_strbuf_clear(&signature);
    struct dt_http_header *copy = dt_arena_alloc(arena, sizeof(headers));
    if (status != DT_OK)
        return status;
    if (!copy || !headers[2].value.p || (secret && !headers[n - 1].value.p))
        return DT_NOMEM;
    memcpy(copy, headers, sizeof(headers));
    out->headers = copy;
    out->n_headers = secret ? n : n - 1;
    out->body = text->body;
    return DT_OK;
}

static void on_answer(void *arg, void *tag, const struct dt_http_answer *http)
{
    dt_outbox *o = arg;
    struct dt_flight *f = tag;
    const bool answered = http->end == DT_HTTP_ANSWERED;
    const bool arrived = answered && http->status >= 200 && http->status < 300;
    char why[32];
    snprintf(why, sizeof(why), "answered %d", http->status);
    f->arrived = arrived;
    end_flight(f, arrived ? DT_OUTBOX_GONE : DT_OUTBOX_FAILED, answered ? why : http->detail);
    dt_chore_wake(&o->chore);
}

static dt_status send_request(dt_outbox *o, struct dt_flight *f, const struct dt_outbox_way *way, int64_t now_ms,
                              struct dt_error *err)
{
    const struct dt_config *config = o->env.config;
    struct dt_http_settings settings = {.max_in_flight = 2 * DT_OUTBOX_PLACES,
                                        .max_bytes = SIZE_MAX,
                                        .ca_file = config->callbacks_ca_file,
                                        .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                        .clock = o->env.clock,
                                        .answered = on_answer,
                                        .arg = o};
    struct dt_outbox_text text;
    struct dt_http_request request = {.owner = f->row.owner, .url = way->url, .timeout_ms = WEBHOOK_MS, .tag = f};
    dt_status status = DT_OK;
    if (!o->client) { /* the client is made for the first webhook */
        status = dt_networks_parse(dt_str(config->callbacks_allow_networks), &settings.allowed, err);
        DT_THEN(status, dt_http_client_new(&settings, &o->client, err));
    }
    DT_THEN(status, o->kind->text(&f->row, &o->texts, &text));
    DT_THEN(status, make_webhook_request(&text, way->has_secret ? &way->secret : NULL, now_ms, &o->texts, &request));
    return status == DT_OK ? dt_http_client_send(o->client, &request) : status;
}

static void send_webhook(dt_outbox *o, struct dt_flight *f, int64_t now_ms)
{
    struct dt_error err = {0};
    struct dt_outbox_way way = {.url = DT_STR_NONE};
    dt_status status = o->kind->way(o->env.config, o->json, &f->row, &o->texts, &way);
    if (status == DT_OK && !(way.url.p && way.url.n))
        end_flight(f, DT_OUTBOX_GONE, "");
    else if (status == DT_OK && way.why)
        end_flight(f, DT_OUTBOX_FAILED, way.why);
    else {
        DT_THEN(status, send_request(o, f, &way, now_ms, &err));
        if (status != DT_OK)
            end_flight(f, DT_OUTBOX_FAILED, err.text[0] ? err.text : dt_status_text(status));
    }
    dt_callback_secret_wipe(&way.secret);
}

dt_status dt_outbox_send(dt_outbox *o, struct dt_flight **flights, size_t n, int64_t now_ms, dt_status *kafka,
                         struct dt_error *why, struct dt_error *err)
{
    struct post post = {.o = o, .err = err};
    dt_status status = make_kafka_messages(&post, flights, n);
    bool *sent = dt_arena_alloc(&o->texts, post.n + 1);
    if (status != DT_OK || !sent)
        return status != DT_OK ? status : dt_fail(err, DT_NOMEM, "out of memory");
    memset(sent, 0, post.n + 1);
    for (size_t i = 0; i < n; i++) /* webhooks first, because Kafka may block */
        if (dt_outbox_is_webhook(&flights[i]->row))
            send_webhook(o, flights[i], now_ms);
    status = send_kafka_messages(&post, sent, why);
    *kafka = status == DT_OK ? *kafka : status;
    return DT_OK;
}
