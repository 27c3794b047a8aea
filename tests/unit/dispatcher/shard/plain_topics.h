/* Stand-ins, in the place of functions of the product: no topic has a limit, and all go by Kafka, but for those that a test
 * names, whose jobs are called back at hosts of their own. A suite includes this once. */
#pragma once

#include "shard/shard_parts.h"
#include "support/stub.h"
#include "topic/topics.h"

static struct {
    char called_back;             /* the first letter of these topics; 0: there are none */
    size_t all_places, places[8]; /* of the process, and of a host by its number */
    char one_owner;               /* the first letter of topics of which one has all; 0: each topic has its own */
    int64_t version;
} plain;

static inline bool is_called_back(struct dt_str topic)
{
    return plain.called_back && topic.p && topic.p[0] == plain.called_back;
}

STUB(int64_t, dt_topic_snapshot_version, (const dt_topic_snapshot *snapshot), plain.version)
STUB(bool, dt_topic_snapshot_limited, (const dt_topic_snapshot *snapshot, struct dt_str topic), false)

int64_t dt_topic_snapshot_owner(const dt_topic_snapshot *, struct dt_str topic)
{
    bool one = plain.one_owner && topic.p && topic.p[0] == plain.one_owner;
    return one ? 1 : 2 + (int64_t)dt_str_hash(topic);
}

enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *, struct dt_str topic)
{
    return is_called_back(topic) ? DT_DELIVERY_HTTP : DT_DELIVERY_KAFKA;
}

const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *, struct dt_str topic)
{
    static const struct dt_topic_callback without_url;
    return is_called_back(topic) ? &without_url : NULL;
}

size_t dt_hands_claims_room(dt_hands_claims *, int64_t, struct dt_str topic, const struct dt_topic_callback *,
                            uint32_t host)
{
    return !is_called_back(topic) ? 0 : host ? plain.places[host] : plain.all_places;
}
