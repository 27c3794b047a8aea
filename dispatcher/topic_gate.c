/*
 * What is known of a topic holds for FRESH_US and is used a little longer while it is asked for again; a topic that
 * cannot be written is asked for again after RETRY_US. A message that is larger than its topic takes makes that topic
 * unwritable for that message only.
 */
#include "topic_gate.h"

#include <stdlib.h>
#include <uthash.h>

#include "base/log.h"

#define FRESH_US INT64_C(30000000)
#define RETRY_US INT64_C(5000000)

struct topic {
    UT_hash_handle hh;
    int64_t asked_us; /* mono; 0 = never */
    int64_t max_bytes;
    bool writable, wanted;
    size_t n;
    char name[DT_KAFKA_TOPIC_MAX + 1];
};

struct dt_topic_gate {
    dt_kafka_admin *admin;
    const dt_clock *clock;
    struct topic *topics;
    bool wanted;
    char trouble[320];
};

dt_status dt_topic_gate_new(dt_kafka_admin *admin, const dt_clock *clock, dt_topic_gate **out)
{
    dt_topic_gate *gate = calloc(1, sizeof *gate);
    if (!gate)
        return DT_NOMEM;
    gate->admin = admin;
    gate->clock = clock;
    *out = gate;
    return DT_OK;
}

void dt_topic_gate_free(dt_topic_gate *gate)
{
    struct topic *topic, *next;
    if (!gate)
        return;
    HASH_ITER(hh, gate->topics, topic, next)
    {
        HASH_DEL(gate->topics, topic);
        free(topic);
    }
    free(gate);
}

static struct topic *lookup(dt_topic_gate *gate, struct dt_str name)
{
    struct topic *topic = NULL;
    HASH_FIND(hh, gate->topics, name.p, name.n, topic);
    if (topic || name.n > DT_KAFKA_TOPIC_MAX || !(topic = calloc(1, sizeof *topic)))
        return topic;
    memcpy(topic->name, name.p, name.n);
    topic->n = name.n;
    HASH_ADD_KEYPTR(hh, gate->topics, topic->name, topic->n, topic);
    return topic;
}

enum dt_writable dt_topic_gate_ask(void *arg, struct dt_str kafka_topic, int64_t bytes)
{
    dt_topic_gate *gate = arg;
    struct topic *topic = lookup(gate, kafka_topic);
    if (!topic)
        return DT_WRITABLE_UNKNOWN;
    int64_t age_us = dt_clock_mono_us(gate->clock) - topic->asked_us;
    if (topic->asked_us == 0 || age_us > (topic->writable ? FRESH_US : RETRY_US))
        topic->wanted = gate->wanted = true;
    if (topic->asked_us == 0)
        return DT_WRITABLE_UNKNOWN;
    return topic->writable && bytes <= topic->max_bytes ? DT_WRITABLE_YES : DT_WRITABLE_NO;
}

static bool resolve(dt_topic_gate *gate, struct topic *topic)
{
    struct dt_error err = {0};
    struct dt_kafka_topic_info info = {0};
    dt_status status = dt_kafka_admin_topic(gate->admin, (struct dt_str){topic->name, topic->n}, &info, &err);
    if (status == DT_OK || status == DT_REFUSED) {
        bool news = topic->asked_us == 0 || topic->writable != (status == DT_OK);
        topic->asked_us = dt_clock_mono_us(gate->clock);
        topic->writable = status == DT_OK;
        topic->max_bytes = info.max_message_bytes;
        if (status == DT_REFUSED && news)
            DT_LOG(ERROR, "kafka", "topic cannot be written: its jobs wait", DT_S("topic", topic->name),
                   DT_S("reason", err.text));
        if (status == DT_REFUSED)
            snprintf(gate->trouble, sizeof gate->trouble, "%s", err.text);
        return news;
    }
    snprintf(gate->trouble, sizeof gate->trouble, "%s", err.text);
    return false;
}

bool dt_topic_gate_resolve(dt_topic_gate *gate)
{
    bool news = false;
    struct topic *topic, *next;
    if (!gate->wanted)
        return false;
    gate->wanted = false;
    gate->trouble[0] = '\0';
    HASH_ITER(hh, gate->topics, topic, next)
    {
        if (topic->wanted) {
            topic->wanted = false;
            news |= resolve(gate, topic);
        }
    }
    return news;
}

const char *dt_topic_gate_trouble(const dt_topic_gate *gate)
{
    return gate->trouble;
}
