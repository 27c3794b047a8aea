/* Starts and stops the parts of a process that use Kafka, in order. */
#include "kafka_parts.h"

#include "base/assert.h"
#include "base/log.h"
#include "message.h"

struct dt_kafka_parts {
    struct dt_kafka_parts_env env;
    bool has_kafka;
    dt_kafka_admin *admin;
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

dt_status dt_kafka_parts_new(const struct dt_kafka_parts_env *env, dt_kafka_parts **out)
{
    dt_kafka_parts *p = calloc(1, sizeof(*p));
    if (!p)
        return DT_NOMEM;
    p->env = *env;
    p->has_kafka = dt_config_has_kafka(env->kafka->config);
    *out = p;
    return DT_OK;
}

dt_status dt_kafka_parts_reach(dt_kafka_parts *p, struct dt_error *err)
{
    if (!p->has_kafka)
        return DT_OK;
    dt_status status = p->admin ? DT_OK : dt_kafka_admin_new(p->env.kafka, &p->admin, err);
    p->env.kafka->admin = p->admin;
    if (status != DT_OK)
        return status;
    p->env.kafka->topics_ready = dt_kafka_admin_prepare(p->admin, err) == DT_OK;
    if (!p->env.kafka->topics_ready)
        DT_LOG(WARN, "kafka", "starts without Kafka, and retries", DT_S("reason", err->text));
    return DT_OK;
}

dt_status dt_kafka_parts_start(dt_kafka_parts *p, struct dt_error *err)
{
    const struct dt_results_env *r = &p->env.results;
    const struct dt_command_reader_env commands = {.intake = {p->env.outbox.chores, r->config, r->kafka->installation,
                                                              r->clock, r->ref, r->arg, r->map, r->index_entries_lost,
                                                              NULL},
                                                   .kafka = r->kafka,
                                                   .place = r->place,
                                                   .outbox = r->outbox,
                                                   .topics_changed = p->env.topics_changed};
    dt_assert(!p->has_kafka || p->admin); /* dt_kafka_parts_reach must return OK before */
    if (p->has_kafka) {
        dt_status status = dt_notice_producer_new(p->env.kafka, &p->notices, err);
        p->env.results.notices = p->notices;
        DT_THEN(status, dt_notice_producer_new(p->env.kafka, &p->features, err));
        p->letters_port =
            (struct dt_outbox_kafka){.arg = p->notices, .send = send_to_kafka, .letter = dt_message_of_notice};
        p->features_port = (struct dt_outbox_kafka){.arg = p->features, .send = send_to_kafka};
        p->env.outbox.kafka = &p->letters_port;
        p->env.outbox.sent = dt_counter("duetime_notices_sent_total", "Dead letters sent to Kafka.", "");
        DT_THEN(status, dt_outbox_start(&p->env.outbox, &p->outbox));
        DT_THEN(status, dt_results_watermark_start(&p->env.reads, &p->reads, err));
        DT_THEN(status, dt_command_reader_start(&commands, &p->commands, err));
        if (status != DT_OK)
            return status;
    }
    return dt_results_start(&p->env.results, &p->results, err);
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
    dt_kafka_admin_free(p->admin);
    free(p);
}
