/*
 * The state of a topic is valid for FRESH_US, and is used a little longer while the topic is looked up again. If a
 * topic cannot be written, it is looked up again after RETRY_US. If a message may be larger than its topic allows, the
 * message is sent alone, so that a refusal by Kafka is about that message.
 *
 *            ask            found out: resolve          refused as a whole
 *   unknown ─────▶ wanted ─────────────────▶ writable ─────────────────────▶ barred, for a while
 *                     │                       ▲    ▲                               │ the while is over
 *                     └──▶ unwritable ────────┘    └───────────── sent ────── tried, one message
 */
#include "writable_topics.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"

#define FRESH_US     INT64_C(30000000)
#define RETRY_US     INT64_C(5000000)
#define BAR_FIRST_US INT64_C(5000000)
#define BAR_MAX_US   INT64_C(300000000)
#define WAITED_US    INT64_C(15000000) /* a leader counts as waiting for a topic for this time after it asked for it */
#define SENDS_US     INT64_C(200000)   /* an owner's sending is reported to the admin at most this often */

struct topic {
    UT_hash_handle hh;
    struct topic *next_wanted;
    struct topic *next_found;
    int64_t asked_us;  /* mono: when the topic was last looked up; 0: never, or a message was refused since */
    int64_t wanted_us; /* mono: when a leader last asked for the topic because of a due job */
    int64_t sends_us;  /* mono: when it was last reported to the admin that the topic's owner sends messages */
    int64_t owner;     /* owner of the jobs for which the topic was last asked for */
    int64_t max_bytes;
    bool writable, wanted;
    int64_t bar_us, barred_until_us; /* bar_us > 0: Kafka refused the whole topic, and has accepted no message since */
    char why[200];                   /* why the topic cannot be written, or is barred */
    size_t n;
    char name[DT_KAFKA_TOPIC_MAX + 1];
};

struct dt_writable_topics {
    dt_kafka_admin *admin;
    dt_kafka_asker *asker;
    const dt_clock *clock;
    struct topic *topics;
    struct topic *wanted;
    /* List of the topics that the last dt_writable_topics_resolve found writable for the first time. */
    struct topic *found;
    /* n_barred: barred topics; n_closed: topics that are barred, or known not to be writable. */
    size_t n_barred, n_closed;
    char trouble[320]; /* why lookups fail */
};

dt_status dt_writable_topics_new(dt_kafka_admin *admin, const dt_clock *clock, void (*told)(void *arg), void *arg,
                                 dt_writable_topics **out)
{
    dt_writable_topics *known = calloc(1, sizeof(*known));
    if (!known)
        return DT_NOMEM;
    known->admin = admin;
    known->clock = clock;
    if (dt_kafka_asker_new(admin, told, arg, &known->asker) != DT_OK) {
        free(known);
        return DT_NOMEM;
    }
    *out = known;
    return DT_OK;
}

void dt_writable_topics_free(dt_writable_topics *known)
{
    struct topic *topic;
    struct topic *next;
    if (!known)
        return;
    HASH_ITER(hh, known->topics, topic, next)
    {
        HASH_DEL(known->topics, topic);
        free(topic);
    }
    dt_kafka_asker_free(known->asker);
    free(known);
}

static struct topic *find_topic(const dt_writable_topics *known, struct dt_str name)
{
    struct topic *topic = NULL;
    HASH_FIND(hh, known->topics, name.p, name.n, topic);
    return topic;
}

static struct topic *ensure_topic_entry(dt_writable_topics *known, struct dt_str name)
{
    struct topic *topic = find_topic(known, name);
    if (topic || name.n > DT_KAFKA_TOPIC_MAX || !(topic = calloc(1, sizeof(*topic))))
        return topic;
    memcpy(topic->name, name.p, name.n);
    topic->n = name.n;
    HASH_ADD_KEYPTR(hh, known->topics, topic->name, topic->n, topic);
    if (topic->hh.tbl)
        return topic;
    free(topic);
    return NULL;
}

static bool is_topic_closed(const struct topic *topic)
{
    return topic->bar_us || (topic->asked_us && !topic->writable);
}

static void update_closed_count(dt_writable_topics *known, const struct topic *topic, bool was_closed)
{
    known->n_closed += is_topic_closed(topic);
    dt_assert_cmp(known->n_closed, >=, was_closed);
    known->n_closed -= was_closed;
    dt_assert_cmp(known->n_barred, <=, known->n_closed);
}

/* ---- asking ---- */

static enum dt_writable topic_writability(const struct topic *topic, int64_t bytes)
{
    /* The topic is being tried with one message: parked jobs stay parked. */
    if (topic->bar_us && bytes == 0)
        return DT_WRITABLE_NO;
    if (topic->asked_us == 0)
        return DT_WRITABLE_UNKNOWN;
    if (!topic->writable)
        return DT_WRITABLE_NO;
    return topic->bar_us || bytes > topic->max_bytes ? DT_WRITABLE_ALONE : DT_WRITABLE_YES;
}

static void request_topic_lookup(dt_writable_topics *known, struct topic *topic)
{
    if (topic->wanted)
        return;
    topic->wanted = true;
    topic->next_wanted = known->wanted;
    known->wanted = topic;
}

enum dt_writable dt_writable_topics_ask(void *arg, struct dt_str kafka_topic, int64_t owner, int64_t bytes)
{
    dt_writable_topics *known = arg;
    struct topic *topic = ensure_topic_entry(known, kafka_topic);
    if (!topic)
        return DT_WRITABLE_UNKNOWN;
    int64_t now_us = dt_clock_mono_us(known->clock);
    int64_t age_us = now_us - topic->asked_us;
    topic->owner = owner;
    if (bytes)
        topic->wanted_us = now_us;
    if (now_us < topic->barred_until_us)
        return DT_WRITABLE_NO;
    if (topic->asked_us == 0 || age_us > (topic->writable ? FRESH_US : RETRY_US))
        request_topic_lookup(known, topic);
    const enum dt_writable writable = topic_writability(topic, bytes);
    if (bytes && writable == DT_WRITABLE_YES && now_us - topic->sends_us > SENDS_US) {
        topic->sends_us = now_us;
        dt_kafka_asker_sends(known->asker, owner);
    }
    return writable;
}

/* ---- results of lookups ---- */

static void store_reason(struct topic *topic, const char *why)
{
    snprintf(topic->why, sizeof(topic->why), "%.*s", (int)sizeof(topic->why) - 1, why);
}

/* Applies the lookup of a topic. Returns false if the topic is still unknown, and must be looked up. */
static bool resolve_topic(dt_writable_topics *known, struct topic *topic, bool *any_news)
{
    struct dt_error err = {0};
    struct dt_kafka_topic_info info = {0};
    dt_status status =
        dt_kafka_asker_ask(known->asker, (struct dt_str){topic->name, topic->n}, topic->owner, &info, &err);
    if (status == DT_BUSY)
        return false;
    if (status != DT_OK && status != DT_REFUSED) {
        snprintf(known->trouble, sizeof(known->trouble), "%s", err.text);
        return true;
    }
    bool news = topic->asked_us == 0 || topic->writable != (status == DT_OK), was_closed = is_topic_closed(topic);
    known->trouble[0] = '\0';
    topic->asked_us = dt_clock_mono_us(known->clock);
    topic->writable = status == DT_OK;
    topic->max_bytes = info.max_message_bytes;
    update_closed_count(known, topic, was_closed);
    if (status == DT_REFUSED) {
        store_reason(topic, err.text);
        if (news)
            DT_LOG(ERROR, "kafka", "topic cannot be written: its jobs wait", DT_S("topic", topic->name),
                   DT_S("reason", err.text));
    }
    if (news && topic->writable) {
        topic->next_found = known->found;
        known->found = topic;
    }
    *any_news |= news;
    return true;
}

bool dt_writable_topics_resolve(dt_writable_topics *known)
{
    bool news = false;
    struct topic *topic = known->wanted;
    struct topic *next;
    known->wanted = known->found = NULL;
    for (; topic; topic = next) {
        next = topic->next_wanted;
        topic->wanted = false;
        if (!resolve_topic(known, topic, &news))
            request_topic_lookup(known, topic);
    }
    return news;
}

size_t dt_writable_topics_found(const dt_writable_topics *known, struct dt_str *names, size_t room)
{
    size_t n = 0;
    for (const struct topic *topic = known->found; topic && n < room; topic = topic->next_found)
        names[n++] = (struct dt_str){topic->name, topic->n};
    return n;
}

bool dt_writable_topics_waits(const dt_writable_topics *known)
{
    return known->wanted;
}

/* ---- results of sending ---- */

void dt_writable_topics_refused(dt_writable_topics *known, struct dt_str kafka_topic, bool whole_topic, const char *why)
{
    struct topic *topic = ensure_topic_entry(known, kafka_topic);
    dt_kafka_admin_forget(known->admin, kafka_topic);
    if (!topic)
        return;
    bool was_closed = is_topic_closed(topic);
    topic->asked_us = 0;
    if (whole_topic && dt_clock_mono_us(known->clock) >= topic->barred_until_us) {
        known->n_barred += topic->bar_us == 0;
        topic->bar_us = topic->bar_us ? dt_earlier(topic->bar_us * 2, BAR_MAX_US) : BAR_FIRST_US;
        topic->barred_until_us = dt_clock_mono_us(known->clock) + topic->bar_us;
        store_reason(topic, why);
        DT_LOG(ERROR, "kafka", "topic accepts no messages: its jobs wait", DT_S("topic", topic->name),
               DT_I("seconds", topic->bar_us / 1000000), DT_S("reason", why));
    }
    update_closed_count(known, topic, was_closed);
}

bool dt_writable_topics_doubts(const dt_writable_topics *known)
{
    return known->n_barred > 0;
}

bool dt_writable_topics_sent(dt_writable_topics *known, struct dt_str kafka_topic)
{
    struct topic *topic = find_topic(known, kafka_topic);
    if (!topic || topic->bar_us == 0)
        return false;
    topic->bar_us = topic->barred_until_us = 0;
    dt_assert_cmp(known->n_barred, >, 0);
    known->n_barred--;
    update_closed_count(known, topic, true);
    DT_LOG(INFO, "kafka", "topic accepts messages again", DT_S("topic", topic->name));
    return true;
}

static bool is_topic_waited_for(const dt_writable_topics *known, const struct topic *topic)
{
    return is_topic_closed(topic) && topic->wanted_us && dt_clock_mono_us(known->clock) - topic->wanted_us < WAITED_US;
}

const char *dt_writable_topics_trouble(const dt_writable_topics *known)
{
    for (const struct topic *topic = known->n_closed ? known->topics : NULL; topic; topic = topic->hh.next)
        if (is_topic_waited_for(known, topic))
            return topic->why;
    return known->trouble;
}

size_t dt_writable_topics_unwritable(const dt_writable_topics *known)
{
    size_t n = 0;
    for (const struct topic *topic = known->n_closed ? known->topics : NULL; topic; topic = topic->hh.next)
        n += is_topic_waited_for(known, topic);
    return n;
}
