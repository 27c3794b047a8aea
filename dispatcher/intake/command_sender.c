/* See command_sender.h. */
#include "command_sender.h"

#include "base/hooks/fail_point.h"
#include "base/log.h"
#include "job/owner.h"

#define ANSWERS   1 /* a signal */
#define SEND_MS   10000
#define ASKING_US INT64_C(10000000) /* so long a topic may be looked up, or made */
#define ASK_US    INT64_C(200000)

static void told(void *arg)
{
    dt_mailbox_signal(arg, ANSWERS);
}

/* Waits until it is known whether the topic can be written to. REFUSED: it cannot. */
static dt_status await_topic(struct dt_command_sender *s, struct dt_str topic, struct dt_error *err)
{
    const dt_clock *clock = dt_clock_system();
    int64_t until_us = dt_clock_mono_us(clock) + ASKING_US;
    struct dt_kafka_topic_info info;
    dt_status status = DT_BUSY;
    while (!*s->stop && dt_clock_mono_us(clock) < until_us) {
        status = dt_kafka_asker_ask(s->asker, topic, dt_owner_by_name(topic), &info, err);
        if (status != DT_BUSY)
            return status;
        dt_mailbox_wait(s->mailbox, dt_clock_mono_us(clock) + ASK_US);
    }
    return status == DT_BUSY
               ? dt_fail(err, DT_UNAVAILABLE, "topic %.*s: Kafka has not told of it", (int)topic.n, topic.p)
               : status;
}

static void drop(struct dt_command_sender *s, const struct dt_command_answer *a, const struct dt_error *err)
{
    DT_LOG_PER_TOPIC(WARN, "commands", "Kafka refuses to have an answer", a->topic, DT_S("reason", err->text));
    dt_metric_add(s->dropped, 1);
}

static dt_status fill(struct dt_command_sender *s, const struct dt_command_answer *a, struct dt_kafka_message *out)
{
    struct dt_kafka_header *headers = dt_arena_alloc(&s->arena, (a->n_headers + 1) * sizeof(*headers));
    if (!headers)
        return DT_NOMEM;
    for (size_t i = 0; i < a->n_headers; i++)
        headers[i] = (struct dt_kafka_header){a->headers[i].name, a->headers[i].value};
    *out = (struct dt_kafka_message){
        .topic = a->topic, .key = a->key, .value = a->value, .headers = headers, .n_headers = a->n_headers};
    return DT_OK;
}

/* Lists those whose topic can be written to. */
static dt_status list(struct dt_command_sender *s, const struct dt_command_answers *answers,
                      struct dt_kafka_message *messages, size_t *n, struct dt_error *err)
{
    struct dt_str topic = DT_STR_NONE;
    dt_status asked = DT_OK;
    *n = 0;
    for (size_t i = 0; i < answers->n; i++) {
        const struct dt_command_answer *a = &answers->v[i];
        if (!topic.p || !dt_str_eq(a->topic, topic))
            asked = await_topic(s, a->topic, err);
        topic = a->topic;
        if (asked == DT_REFUSED)
            drop(s, a, err);
        else if (asked != DT_OK)
            return asked;
        else if (fill(s, a, &messages[(*n)++]) != DT_OK)
            return dt_fail(err, DT_NOMEM, "out of memory");
    }
    return DT_OK;
}

static dt_status send(struct dt_command_sender *s, const struct dt_kafka_message *messages, size_t n,
                      struct dt_error *err)
{
    bool *sent = dt_arena_alloc(&s->arena, (n + 1) * sizeof(*sent));
    if (!sent)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_notice_producer_send(s->notices, messages, n, sent, SEND_MS, err);
    for (size_t i = 0; i < n && status == DT_REFUSED; i++)
        if (!sent[i])
            drop(s, &(struct dt_command_answer){.topic = messages[i].topic}, err);
    if (status == DT_OK || status == DT_REFUSED)
        dt_metric_add(s->sent, (int64_t)n);
    return status == DT_REFUSED ? DT_OK : status;
}

dt_status dt_command_sender_send(struct dt_command_sender *s, const struct dt_command_answers *answers,
                                 struct dt_error *err)
{
    size_t n = 0;
    if (!answers->n_ids)
        return DT_OK;
    dt_arena_reset(&s->arena);
    struct dt_kafka_message *messages = dt_arena_alloc(&s->arena, (answers->n + 1) * sizeof(*messages));
    dt_status status = messages ? list(s, answers, messages, &n, err) : dt_fail(err, DT_NOMEM, "out of memory");
    DT_FAIL_POINT_STATUS("commands.answer", status, err);
    if (status == DT_OK)
        status = send(s, messages, n, err);
    DT_FAIL_POINT_STATUS("commands.answered", status, err);
    return status == DT_OK ? dt_store_command_answered(s->store, answers, err) : status;
}

dt_status dt_command_sender_init(struct dt_command_sender *s)
{
    const char *name = "duetime_command_answers_total";
    const char *help = "Answers to commands, and commands that were refused, by whether Kafka took them.";
    s->sent = dt_counter(name, help, "outcome=\"sent\"");
    s->dropped = dt_counter(name, help, "outcome=\"dropped\"");
    dt_arena_init(&s->arena);
    return dt_kafka_asker_new(s->kafka->admin, told, s->mailbox, &s->asker);
}

void dt_command_sender_clear(struct dt_command_sender *s)
{
    dt_kafka_asker_free(s->asker);
    dt_arena_clear(&s->arena);
}
