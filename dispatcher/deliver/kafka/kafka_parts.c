/* Starts and stops the parts of a process that use Kafka, in order. */
#include "kafka_parts.h"

#include "base/assert.h"
#include "base/log.h"
#include "message.h"

struct dt_kafka_parts {
    bool has_kafka;
    dt_notice_producer *notices, *features;
    struct dt_outbox_kafka letters_port, features_port; /* ports of the outbox; `arg` of each is a producer */
    /* NULL without Kafka; so are `notices`, `features`, `reads` and `commands`, but not `results`. */
    dt_outbox *outbox;
    dt_results_watermark *reads;
    dt_command_reader *commands;
    dt_results *results;
};

static dt_status send_to_kafka(void *notices, const struct dt_kafka_message *messages, size_t n, bool *sent,
                               int timeout_ms, struct dt_error *err)
{
    return dt_notice_producer_send(notices, messages, n, sent, timeout_ms, err);
}

dt_status dt_kafka_parts_reach(struct dt_kafka_env *kafka, struct dt_error *err)
{
    if (!dt_config_has_kafka(kafka->config))
        return DT_OK;
    dt_status status = kafka->admin ? DT_OK : dt_kafka_admin_new(kafka, &kafka->admin, err);
    if (status != DT_OK)
        return status;
    kafka->topics_ready = dt_kafka_admin_prepare(kafka->admin, err) == DT_OK;
    if (!kafka->topics_ready)
        DT_LOG(WARN, "kafka", "starts without Kafka, and retries", DT_S("reason", err->text));
    return DT_OK;
}

dt_status dt_kafka_parts_start(const struct dt_process_env *env, dt_kafka_parts **out, struct dt_error *err)
{
    dt_kafka_parts *p = *out = calloc(1, sizeof(*p));
    dt_status status = DT_OK;
    if (!p)
        return DT_NOMEM;
    p->has_kafka = dt_config_has_kafka(env->config);
    dt_assert(!p->has_kafka || env->kafka->admin); /* dt_kafka_parts_reach must return OK before */
    if (p->has_kafka) {
        status = dt_notice_producer_new(env->kafka, &p->notices, err);
        DT_THEN(status, dt_notice_producer_new(env->kafka, &p->features, err));
        p->letters_port =
            (struct dt_outbox_kafka){.arg = p->notices, .send = send_to_kafka, .letter = dt_message_of_notice};
        p->features_port = (struct dt_outbox_kafka){.arg = p->features, .send = send_to_kafka};
        const struct dt_outbox_env letters = {
            .kind = &dt_outbox_letters,
            .chores = env->chores,
            .config = env->config,
            .clock = env->clock,
            .installation = env->installation,
            .kafka = &p->letters_port,
            .sent = dt_counter("duetime_notices_sent_total", "Dead letters sent to Kafka.", ""),
            .arg = env->arg,
            .ours = env->sends_outbox};
        DT_THEN(status, dt_outbox_start(&letters, &p->outbox));
        DT_THEN(status, dt_results_watermark_start(env, &p->reads, err));
        DT_THEN(status, dt_command_reader_start(env, &p->commands, err));
    }
    return DT_THEN(status, dt_results_start(env, p->notices, &p->results, err));
}

void dt_kafka_parts_outbox(dt_kafka_parts *p)
{
    dt_outbox_wake(p->outbox);
}

const struct dt_outbox_kafka *dt_kafka_parts_producer(const dt_kafka_parts *p)
{
    return p->has_kafka ? &p->features_port : NULL;
}

struct dt_read_up_to dt_kafka_parts_read_up_to(const dt_kafka_parts *p)
{
    return p->has_kafka ? dt_results_watermark_up_to(p->reads) : (struct dt_read_up_to){INT64_MAX, INT64_MAX};
}

void dt_kafka_parts_want_read(dt_kafka_parts *p, unsigned shard, int64_t deadline_ms)
{
    if (p->has_kafka)
        dt_results_watermark_want(p->reads, shard, deadline_ms);
}

void dt_kafka_parts_stop(dt_kafka_parts *p)
{
    if (!p)
        return;
    dt_command_reader_stop(p->commands);
    dt_results_stop(p->results);
    dt_results_watermark_stop(p->reads);
    dt_outbox_stop(p->outbox);
    dt_notice_producer_free(p->notices);
    dt_notice_producer_free(p->features);
    free(p);
}
