/*
 * due messages ─▶ choose, by places ─▶ take (a lease in MySQL) ─▶ webhooks, without waiting; Kafka ─▶ outcomes ─▶ gone,
 * or later once more
 *
 * At least once: a process that dies between sending and recording leaves messages whose lease ends, and they go again
 * with the same id. Nothing here is read while no message waits.
 *
 * A receiver that does not answer keeps its places for a timeout. So each way has places of its own, owners leave some
 * to each other, and an owner's places are shared by its hosts in the same way. What finds no place waits in MySQL.
 */
#include <stdio.h>
#include <stdlib.h>

#include "alert_parts.h"
#include "base/assert.h"
#include "base/connection/secrets.h"
#include "base/hooks/fail_point.h"
#include "base/log.h"
#include "job/callback/callback_url.h"

#define TIMEOUT_MS   5000
#define LEASE_MS     INT64_C(15000)
#define RETRY_MS     INT64_C(1000)  /* after the first failure; twice as long after each further one … */
#define RETRY_MAX_MS INT64_C(60000) /* … up to this */
#define AGAIN_US     INT64_C(1000000)
#define GATHER_US    INT64_C(250000) /* while messages wait for places: all that are due are read each time */

enum outcome { ARRIVED, GONE, FAILED };

/* A message that holds places, and its outcome, which a webhook that is under way does not have yet. */
struct dt_alert_answer {
    dt_alerts *a;
    int64_t id;
    int tries;
    enum dt_alert_way way;
    int64_t owner, host; /* whose places it has */
    enum outcome outcome;
    char topic[DT_TOPIC_MAX + 1];
    char why[200];
    struct dt_alert_answer *next;
};

static int64_t mono_us(const dt_alerts *a)
{
    return dt_clock_mono_us(a->env.clock);
}

/* ---- places ---- */

static void leave_places(dt_alerts *a, const struct dt_alert_answer *answer)
{
    dt_shares_give_back(&a->places[answer->way], answer->owner, 1);
    if (answer->way == DT_ALERT_BY_TOPICS_URL)
        dt_shares_give_back(&a->at_host, answer->host, 1);
}

/* Whether the message found places. */
static bool take_places(dt_alerts *a, const struct dt_alert_message *m, struct dt_alert_answer *answer)
{
    struct dt_alert_setting setting = {.url = DT_STR_NONE};
    if (!dt_shares_take(&a->places[answer->way], m->owner, 1, mono_us(a)))
        return false;
    if (answer->way != DT_ALERT_BY_TOPICS_URL)
        return true;
    const bool read = dt_alert_setting_read(a->json, m->setting, &a->messages, &setting) == DT_OK;
    answer->host = m->owner ^ ((int64_t)dt_callback_host_of(read ? setting.url : DT_STR_NONE) << 31);
    if (dt_shares_take(&a->at_host, answer->host, 1, mono_us(a)))
        return true;
    dt_shares_give_back(&a->places[answer->way], m->owner, 1);
    return false;
}

/* ---- what becomes of messages ---- */

/* Any thread. */
static void settle(struct dt_alert_answer *answer, enum outcome outcome, const char *why)
{
    dt_alerts *a = answer->a;
    answer->outcome = outcome;
    snprintf(answer->why, sizeof(answer->why), "%.*s", (int)sizeof(answer->why) - 1, why);
    pthread_mutex_lock(&a->lock);
    answer->next = a->answers;
    a->answers = answer;
    pthread_mutex_unlock(&a->lock);
}

/* Messages whose outcome cannot be recorded go once more, when their lease ends. */
static dt_status record(dt_alerts *a, struct dt_error *err)
{
    struct dt_arena arena;
    size_t n = 0;
    size_t n_gone = 0;
    size_t n_failed = 0;
    pthread_mutex_lock(&a->lock);
    struct dt_alert_answer *answers = a->answers;
    a->answers = NULL;
    pthread_mutex_unlock(&a->lock);
    dt_arena_init(&arena);
    for (const struct dt_alert_answer *i = answers; i; i = i->next)
        n++;
    int64_t *gone = dt_arena_alloc(&arena, (n + 1) * sizeof(*gone));
    struct dt_alert_failure *failed = dt_arena_alloc(&arena, (n + 1) * sizeof(*failed));
    for (struct dt_alert_answer *i = answers; i; i = i->next) {
        const int64_t pause_ms = i->tries < 6 ? RETRY_MS << i->tries : RETRY_MAX_MS;
        leave_places(a, i);
        dt_metric_add(a->sent, i->outcome == ARRIVED);
        dt_metric_add(a->failed, i->outcome == FAILED);
        if (i->outcome == FAILED && i->tries == 0)
            DT_LOG_PER_TOPIC(WARN, "alerts", "a message about an alert did not arrive: it is sent again",
                             dt_str(i->topic), DT_I("message", i->id), DT_S("reason", i->why));
        if (gone && i->outcome != FAILED)
            gone[n_gone++] = i->id;
        if (failed && i->outcome == FAILED)
            failed[n_failed++] = (struct dt_alert_failure){i->id, pause_ms, dt_str(i->why)};
    }
    if (n_gone)
        DT_FAIL_POINT("alerts.sent");
    dt_status status = gone && failed ? dt_store_alert_sent(a->sender_store, gone, n_gone, err) : DT_OK;
    if (status == DT_OK)
        status = dt_store_alert_failed(a->sender_store, failed, n_failed, err);
    for (struct dt_alert_answer *next; answers; answers = next) {
        next = answers->next;
        free(answers);
    }
    dt_arena_clear(&arena);
    return status;
}

/* ---- webhooks ---- */

static void on_answer(void *arg, void *tag, const struct dt_http_answer *http)
{
    dt_alerts *a = arg;
    const bool answered = http->end == DT_HTTP_ANSWERED;
    char why[32];
    snprintf(why, sizeof(why), "answered %d", http->status);
    settle(tag, answered && http->status >= 200 && http->status < 300 ? ARRIVED : FAILED,
           answered ? why : http->detail);
    dt_chore_wake(&a->sender);
}

/* Where a message goes. url absent: nowhere any more. why: it cannot go there. */
struct way {
    struct dt_str url;
    bool has_secret;
    struct dt_callback_secret secret;
    const char *why;
};

static dt_status find_way(dt_alerts *a, const struct dt_alert_message *m, struct way *way)
{
    const struct dt_config *config = a->env.config;
    struct dt_alert_setting setting;
    *way = (struct way){.url = dt_str(config->alerts_url)};
    if (m->target == DT_ALERT_TO_INSTALLATION) { /* its secret as it is now: its file may have changed */
        struct dt_strbuf secret;
        dt_strbuf_init(&secret);
        dt_status known = dt_secret_now(config, &config->alerts_secret, &secret);
        way->has_secret = known == DT_OK && secret.n > 0;
        if (way->has_secret && dt_callback_secret_read(dt_strbuf_str(&secret), &way->secret))
            way->why = "alerts.secret is none";
        dt_secret_forget(&secret);
        return known;
    }
    dt_status status = dt_alert_setting_read(a->json, m->setting, &a->messages, &setting);
    way->url = setting.url;
    way->has_secret = setting.secret.p != NULL;
    if (!config->callbacks_enabled)
        way->why = "callbacks are not enabled (callbacks.enabled)";
    if (status == DT_OK && setting.url.p && dt_callback_url_check(setting.url, NULL))
        way->why = "alerts.url of the topic is no URL";
    if (status == DT_OK && setting.secret.p && dt_callback_secret_read(setting.secret, &way->secret))
        way->why = "alerts.secret of the topic is none";
    return status;
}

static dt_status post(dt_alerts *a, const struct dt_alert_message *m, const struct way *way, int64_t now_ms,
                      struct dt_alert_answer *answer, struct dt_error *err)
{
    const struct dt_config *config = a->env.config;
    struct dt_http_settings settings = {.max_in_flight = 2 * DT_ALERT_PLACES,
                                        .max_bytes = SIZE_MAX,
                                        .ca_file = config->callbacks_ca_file,
                                        .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                        .clock = a->env.clock,
                                        .answered = on_answer,
                                        .arg = a};
    struct dt_alert_text text;
    struct dt_http_request request = {.owner = m->owner, .url = way->url, .timeout_ms = TIMEOUT_MS, .tag = answer};
    dt_status status = DT_OK;
    if (!a->client) { /* the first webhook */
        status = dt_networks_parse(dt_str(config->callbacks_allow_networks), &settings.allowed, err);
        if (status == DT_OK)
            status = dt_http_client_new(&settings, &a->client, err);
    }
    if (status == DT_OK)
        status = dt_alert_text_of(m, &a->messages, &text);
    if (status == DT_OK)
        status = dt_alert_request(&text, way->has_secret ? &way->secret : NULL, now_ms, &a->messages, &request);
    return status == DT_OK ? dt_http_client_send(a->client, &request) : status;
}

static void send_webhook(dt_alerts *a, const struct dt_alert_message *m, int64_t now_ms, struct dt_alert_answer *answer)
{
    struct dt_error err = {0};
    struct way way;
    dt_status status = find_way(a, m, &way);
    if (status == DT_OK && !(way.url.p && way.url.n))
        settle(answer, GONE, "");
    else if (status == DT_OK && way.why)
        settle(answer, FAILED, way.why);
    else {
        if (status == DT_OK)
            status = post(a, m, &way, now_ms, answer, &err);
        if (status != DT_OK)
            settle(answer, FAILED, err.text[0] ? err.text : dt_status_text(status));
    }
    dt_callback_secret_wipe(&way.secret);
}

/* ---- messages ---- */

/* Messages of one look that found places, and the answers to them. */
struct chosen {
    const struct dt_alert_message *v[DT_ALERT_WAYS * DT_ALERT_PLACES];
    struct dt_alert_answer *answers[DT_ALERT_WAYS * DT_ALERT_PLACES];
    size_t n;
    bool passed_over; /* others found none */
};

static dt_status choose(dt_alerts *a, const struct dt_alert_messages *messages, struct chosen *chosen,
                        struct dt_error *err)
{
    for (size_t i = 0; i < messages->n; i++) {
        const struct dt_alert_message *m = &messages->v[i];
        struct dt_alert_answer answer = {.a = a, .id = m->id, .tries = m->tries, .owner = m->owner};
        answer.way = m->target == DT_ALERT_TO_TOPIC          ? DT_ALERT_BY_TOPICS_URL
                     : m->target == DT_ALERT_TO_INSTALLATION ? DT_ALERT_BY_OUR_URL
                                                             : DT_ALERT_BY_KAFKA;
        if (!take_places(a, m, &answer)) {
            chosen->passed_over = true;
            continue;
        }
        struct dt_alert_answer *kept = malloc(sizeof(*kept));
        if (!kept) {
            leave_places(a, &answer);
            return dt_fail(err, DT_NOMEM, "out of memory");
        }
        snprintf(answer.topic, sizeof(answer.topic), "%.*s", (int)m->alert.topic.n,
                 m->alert.topic.n ? m->alert.topic.p : "");
        *kept = answer;
        dt_assert_cmp(chosen->n, <, DT_ALERT_WAYS * DT_ALERT_PLACES); /* each holds a place */
        chosen->v[chosen->n] = m;
        chosen->answers[chosen->n++] = kept;
    }
    return DT_OK;
}

/* Webhooks first: they do not block, and Kafka, whose messages are sent together, may. */
static void send_chosen(dt_alerts *a, const struct chosen *chosen, int64_t now_ms)
{
    struct dt_alert_text texts[DT_ALERT_PLACES];
    struct dt_alert_answer *answers[DT_ALERT_PLACES];
    bool sent[DT_ALERT_PLACES] = {false};
    size_t n = 0;
    for (size_t i = 0; i < chosen->n; i++) {
        const struct dt_alert_message *m = chosen->v[i];
        struct dt_alert_answer *answer = chosen->answers[i];
        if (now_ms - m->made_at_ms > DT_ALERT_KEPT_MS) {
            dt_metric_add(a->given_up, 1);
            DT_LOG_PER_TOPIC(WARN, "alerts", "a message about an alert is given up", m->alert.topic,
                             DT_I("message", m->id), DT_I("alert", m->alert.id), DT_I("tries", m->tries));
            settle(answer, GONE, "");
        } else if (answer->way != DT_ALERT_BY_KAFKA) {
            send_webhook(a, m, now_ms, answer);
        } else if (!a->env.publish) {
            settle(answer, GONE, "");
        } else {
            dt_assert_cmp(n, <, DT_ALERT_PLACES);
            if (dt_alert_text_of(m, &a->messages, &texts[n]) == DT_OK)
                answers[n++] = answer;
            else
                settle(answer, FAILED, "out of memory");
        }
    }
    struct dt_error why = {0};
    dt_status status = n ? a->env.publish(a->env.publish_arg, texts, n, sent, &why) : DT_OK;
    for (size_t i = 0; i < n; i++)
        settle(answers[i], sent[i] ? ARRIVED : FAILED, why.text[0] ? why.text : dt_status_text(status));
}

/* *next_us: when to look again. *crowded: messages wait for places. */
static dt_status send_due(dt_alerts *a, bool *crowded, int64_t *next_us, struct dt_error *err)
{
    struct dt_alert_messages messages;
    struct chosen chosen = {.n = 0};
    *next_us = INT64_MAX;
    *crowded = false;
    if (!atomic_load(&a->ours))
        return DT_OK;
    dt_arena_reset(&a->messages);
    /* Kafka's messages wait for a process that writes to it; if the installation has none any more, they go. */
    const bool kafka = a->env.publish || !dt_config_has_kafka(a->env.config);
    dt_status status = dt_store_alert_messages(a->sender_store, kafka, &a->messages, &messages, err);
    if (status == DT_OK)
        status = choose(a, &messages, &chosen, err);
    if (status == DT_OK)
        status = dt_store_alert_take(a->sender_store, chosen.v, chosen.n, LEASE_MS, err);
    if (status != DT_OK) {
        for (size_t i = 0; i < chosen.n; i++) {
            leave_places(a, chosen.answers[i]);
            free(chosen.answers[i]);
        }
        *next_us = mono_us(a) + AGAIN_US;
        return status == DT_VERSION ? DT_OK : status;
    }
    send_chosen(a, &chosen, messages.now_ms);
    *crowded = chosen.passed_over;
    if (chosen.n) /* what is settled by now is recorded, and may let others go */
        *next_us = mono_us(a);
    else if (chosen.passed_over)
        *next_us = mono_us(a) + AGAIN_US;
    else if (messages.next_ms)
        *next_us = mono_us(a) + dt_later(messages.next_ms - messages.now_ms, 1) * 1000;
    return status;
}

int64_t dt_alerts_send(void *alerts, void *store)
{
    dt_alerts *a = alerts;
    struct dt_error err = {0};
    int64_t next_us = INT64_MAX;
    bool crowded = false;
    a->sender_store = store;
    dt_status status = record(a, &err);
    if (status == DT_OK)
        status = send_due(a, &crowded, &next_us, &err);
    if (status != DT_OK)
        return dt_chore_failed(&a->sender, DT_OUTAGE_MYSQL, "messages about alerts wait", status, &err, AGAIN_US);
    a->sender.not_before_us = crowded ? mono_us(a) + GATHER_US : 0;
    return next_us;
}

void dt_alerts_end_sending(dt_alerts *a)
{
    dt_http_client_free(a->client);
    for (struct dt_alert_answer *answer = a->answers, *next; answer; answer = next) {
        next = answer->next;
        free(answer);
    }
    a->answers = NULL;
    for (size_t i = 0; i < DT_ALERT_WAYS; i++)
        dt_shares_clear(&a->places[i]);
    dt_shares_clear(&a->at_host);
}
