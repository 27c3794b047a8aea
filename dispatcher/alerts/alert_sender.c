/*
 * due messages ─▶ take (a lease in MySQL) ─▶ webhook, without waiting; or Kafka ─▶ answer ─▶ gone, or later once more
 *
 * At least once: who dies between sending and recording leaves a message whose lease ends, and it goes again with the
 * same id. Nothing here is read while no message waits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "alert_parts.h"
#include "base/connection/secrets.h"
#include "base/hooks/fail_point.h"
#include "base/log.h"
#include "job/callback/callback_url.h"
#include "job/owner.h"

#define IN_FLIGHT_MAX 256
#define TIMEOUT_MS    5000
#define KAFKA_MS      5000 /* after a timeout the retry needs a new connection; other messages wait meanwhile */
#define LEASE_MS      INT64_C(15000)
#define RETRY_MS      INT64_C(1000)  /* after the first failure; twice as long after each further one … */
#define RETRY_MAX_MS  INT64_C(60000) /* … up to this */
#define AGAIN_US      INT64_C(1000000)

enum { ANSWERED = 2 }; /* a signal */

/* A webhook under way, and what became of it. */
struct dt_alert_answer {
    dt_alerts *a;
    int64_t id;
    int tries;
    bool arrived;
    char why[200];
    struct dt_alert_answer *next;
};

static int64_t mono_us(const dt_alerts *a)
{
    return dt_clock_mono_us(a->env.clock);
}

/* ---- what becomes of a message ---- */

static dt_status record_gone(dt_alerts *a, int64_t id, struct dt_error *err)
{
    DT_FAIL_POINT("alerts.sent");
    return dt_store_alert_sent(a->sender_store, id, err);
}

static dt_status record_failure(dt_alerts *a, int64_t id, int tries, const char *why, struct dt_error *err)
{
    int64_t pause_ms = tries < 6 ? RETRY_MS << tries : RETRY_MAX_MS;
    dt_metric_add(a->failed, 1);
    if (tries == 0)
        DT_LOG(WARN, "alerts", "a message about an alert did not arrive: it is sent again", DT_I("message", id),
               DT_S("reason", why));
    return dt_store_alert_failed(a->sender_store, id, pause_ms, dt_str(why), err);
}

/* A message whose outcome cannot be recorded goes once more, when its lease ends. */
static dt_status record(dt_alerts *a, struct dt_error *err)
{
    pthread_mutex_lock(&a->lock);
    struct dt_alert_answer *answer = a->answers;
    a->answers = NULL;
    pthread_mutex_unlock(&a->lock);
    dt_status status = DT_OK;
    while (answer) {
        struct dt_alert_answer *next = answer->next;
        a->in_flight--;
        if (answer->arrived)
            dt_metric_add(a->sent, 1);
        if (status == DT_OK)
            status = answer->arrived ? record_gone(a, answer->id, err)
                                     : record_failure(a, answer->id, answer->tries, answer->why, err);
        free(answer);
        answer = next;
    }
    return status;
}

/* ---- webhooks ---- */

static void on_answer(void *arg, void *tag, const struct dt_http_answer *http)
{
    dt_alerts *a = arg;
    struct dt_alert_answer *answer = tag;
    answer->arrived = http->end == DT_HTTP_ANSWERED && http->status >= 200 && http->status < 300;
    if (http->end == DT_HTTP_ANSWERED)
        snprintf(answer->why, sizeof(answer->why), "answered %d", http->status);
    else
        snprintf(answer->why, sizeof(answer->why), "%s", http->detail);
    pthread_mutex_lock(&a->lock);
    answer->next = a->answers;
    a->answers = answer;
    pthread_mutex_unlock(&a->lock);
    dt_mailbox_signal(a->sender_mailbox, ANSWERED);
}

static dt_status make_client(dt_alerts *a, struct dt_error *err)
{
    const struct dt_config *config = a->env.config;
    struct dt_http_settings settings = {.max_in_flight = IN_FLIGHT_MAX,
                                        .max_bytes = SIZE_MAX,
                                        .ca_file = config->callbacks_ca_file,
                                        .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                        .clock = a->env.clock,
                                        .answered = on_answer,
                                        .arg = a};
    if (a->client)
        return DT_OK;
    dt_status status = dt_networks_parse(dt_str(config->callbacks_allow_networks), &settings.allowed, err);
    return status == DT_OK ? dt_http_client_new(&settings, &a->client, err) : status;
}

/* Where a message goes. url absent: nowhere any more. why: it cannot go there. */
struct way {
    struct dt_str url;
    bool has_secret;
    struct dt_callback_secret secret;
    const char *why;
};

/* As it is now: its file may have changed. */
static dt_status read_own_secret(dt_alerts *a, struct way *way)
{
    struct dt_strbuf secret;
    dt_strbuf_init(&secret);
    dt_status status = dt_secret_now(a->env.config, &a->env.config->alerts_secret, &secret);
    way->has_secret = status == DT_OK && secret.n > 0;
    if (way->has_secret && dt_callback_secret_read(dt_strbuf_str(&secret), &way->secret))
        way->why = "alerts.secret is none";
    dt_secret_forget(&secret);
    return status;
}

static dt_status find_way(dt_alerts *a, const struct dt_alert_message *m, struct way *way)
{
    struct dt_alert_setting setting;
    *way = (struct way){.url = dt_str(a->env.config->alerts_url)};
    if (m->target == DT_ALERT_TO_INSTALLATION)
        return read_own_secret(a, way);
    dt_status status = dt_alert_setting_read(a->json, m->setting, &a->messages, &setting);
    way->url = setting.url;
    way->has_secret = setting.secret.p != NULL;
    if (!a->env.config->callbacks_enabled)
        way->why = "callbacks are not enabled (callbacks.enabled)";
    if (status == DT_OK && setting.url.p && dt_callback_url_check(setting.url, NULL))
        way->why = "alerts.url of the topic is no URL";
    if (status == DT_OK && setting.secret.p && dt_callback_secret_read(setting.secret, &way->secret))
        way->why = "alerts.secret of the topic is none";
    return status;
}

static dt_status post(dt_alerts *a, const struct dt_alert_message *m, const struct way *way, int64_t now_ms,
                      struct dt_error *err)
{
    struct dt_alert_text text;
    const int64_t owner = m->alert.topic.p ? dt_owner_by_name(m->alert.topic) : 0; /* 0: the installation */
    struct dt_http_request request = {.owner = owner, .url = way->url, .timeout_ms = TIMEOUT_MS};
    struct dt_alert_answer *answer = calloc(1, sizeof(*answer));
    if (!answer)
        return dt_fail(err, DT_NOMEM, "out of memory");
    *answer = (struct dt_alert_answer){.a = a, .id = m->id, .tries = m->tries};
    request.tag = answer;
    dt_status status = make_client(a, err);
    if (status == DT_OK)
        status = dt_alert_text_of(m, &a->messages, &text);
    if (status == DT_OK)
        status = dt_alert_request(&text, way->has_secret ? &way->secret : NULL, now_ms, &a->messages, &request);
    if (status == DT_OK)
        status = dt_http_client_send(a->client, &request);
    if (status == DT_OK)
        a->in_flight++;
    else
        free(answer);
    return status;
}

static dt_status send_webhook(dt_alerts *a, const struct dt_alert_message *m, int64_t now_ms, struct dt_error *err)
{
    struct way way;
    dt_status status = find_way(a, m, &way);
    if (status == DT_OK && !(way.url.p && way.url.n))
        status = record_gone(a, m->id, err);
    else if (status == DT_OK && way.why)
        status = record_failure(a, m->id, m->tries, way.why, err);
    else if (status == DT_OK) {
        status = post(a, m, &way, now_ms, err);
        if (status == DT_INVALID || status == DT_SYSTEM)
            status = record_failure(a, m->id, m->tries, dt_status_text(status), err);
    }
    dt_callback_secret_wipe(&way.secret);
    return status;
}

/* ---- Kafka ---- */

static dt_status send_kafka(dt_alerts *a, const struct dt_alert_message *m, struct dt_error *err)
{
    struct dt_kafka_message message;
    struct dt_error why = {0};
    bool sent = false;
    if (!a->env.notices)
        return record_gone(a, m->id, err);
    dt_status status = dt_alert_kafka_message(m, a->env.installation, &a->messages, &message);
    if (status != DT_OK)
        return dt_fail(err, status, "out of memory");
    status = dt_notice_producer_send(a->env.notices, &message, 1, &sent, KAFKA_MS, &why);
    if (status != DT_OK || !sent)
        return record_failure(a, m->id, m->tries, why.text[0] ? why.text : dt_status_text(status), err);
    dt_metric_add(a->sent, 1);
    return record_gone(a, m->id, err);
}

/* ---- messages ---- */

static dt_status give_up(dt_alerts *a, const struct dt_alert_message *m, struct dt_error *err)
{
    dt_metric_add(a->given_up, 1);
    DT_LOG(WARN, "alerts", "a message about an alert is given up", DT_I("message", m->id), DT_I("alert", m->alert.id),
           DT_I("tries", m->tries));
    return record_gone(a, m->id, err);
}

static dt_status send_one(dt_alerts *a, const struct dt_alert_message *m, int64_t now_ms, struct dt_error *err)
{
    dt_status status = dt_store_alert_take(a->sender_store, m, LEASE_MS, err);
    if (status == DT_VERSION)
        return DT_OK;
    if (status != DT_OK)
        return status;
    if (now_ms - m->made_at_ms > DT_ALERT_KEPT_MS)
        return give_up(a, m, err);
    return m->target == DT_ALERT_TO_KAFKA ? send_kafka(a, m, err) : send_webhook(a, m, now_ms, err);
}

/* Sends all webhooks, which does not block, then at most one message to Kafka, which may. The next look follows at once
 * and finds the other messages and new webhooks. */
static dt_status send_round(dt_alerts *a, const struct dt_alert_messages *messages, struct dt_error *err)
{
    dt_status status = DT_OK;
    const struct dt_alert_message *to_kafka = NULL;
    for (size_t i = 0; i < messages->n && status == DT_OK && !dt_thread_stopping(&a->sender); i++) {
        if (messages->v[i].target != DT_ALERT_TO_KAFKA)
            status = send_one(a, &messages->v[i], messages->now_ms, err);
        else if (!to_kafka)
            to_kafka = &messages->v[i];
    }
    return status == DT_OK && to_kafka && !dt_thread_stopping(&a->sender) ? send_one(a, to_kafka, messages->now_ms, err)
                                                                          : status;
}

/* *next_us: when to look again. */
static dt_status send_due(dt_alerts *a, int64_t *next_us, struct dt_error *err)
{
    struct dt_alert_messages messages;
    *next_us = INT64_MAX;
    if (!atomic_load(&a->ours) || a->in_flight >= IN_FLIGHT_MAX)
        return DT_OK;
    dt_arena_reset(&a->messages);
    dt_status status =
        dt_store_alert_messages(a->sender_store, IN_FLIGHT_MAX - a->in_flight, &a->messages, &messages, err);
    if (status != DT_OK)
        return status;
    if (messages.n)
        *next_us = mono_us(a);
    else if (messages.next_ms)
        *next_us = mono_us(a) + dt_later(messages.next_ms - messages.now_ms, 1) * 1000;
    return send_round(a, &messages, err);
}

void dt_alerts_send(void *arg)
{
    dt_alerts *a = arg;
    while (!dt_thread_stopping(&a->sender)) {
        struct dt_error err = {0};
        int64_t next_us = INT64_MAX;
        dt_status status = record(a, &err);
        if (status == DT_OK)
            status = send_due(a, &next_us, &err);
        if (status == DT_OK) {
            dt_outage_over(&a->sender_outage);
        } else {
            dt_outage_failed(&a->sender_outage, DT_OUTAGE_MYSQL, "alerts", "messages about alerts wait", status, &err);
            next_us = mono_us(a) + AGAIN_US;
        }
        if (!dt_thread_stopping(&a->sender) && next_us > mono_us(a))
            dt_mailbox_wait(a->sender_mailbox, next_us);
    }
}

void dt_alerts_end_sending(dt_alerts *a)
{
    dt_http_client_free(a->client);
    for (struct dt_alert_answer *answer = a->answers, *next; answer; answer = next) {
        next = answer->next;
        free(answer);
    }
    a->answers = NULL;
}
