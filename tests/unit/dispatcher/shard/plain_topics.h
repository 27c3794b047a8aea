/*
 * Stand-ins, in the place of functions of the product: every topic goes by Kafka and has no limit, so no callback is made and
 * no place for one taken. A suite includes this once.
 */
#ifndef DT_UNIT_PLAIN_TOPICS_H
#define DT_UNIT_PLAIN_TOPICS_H

#include "shard/shard_parts.h"

bool dt_topic_snapshot_limited(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return false;
}

enum dt_delivery_id dt_topic_snapshot_delivery(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return DT_DELIVERY_KAFKA;
}

const struct dt_topic_callback *dt_topic_snapshot_callback(const dt_topic_snapshot *snapshot, struct dt_str topic)
{
    (void)snapshot;
    (void)topic;
    return NULL;
}

size_t dt_hands_claims_room(dt_hands_claims *claims, struct dt_str topic, const struct dt_topic_callback *callback)
{
    (void)claims;
    (void)topic;
    (void)callback;
    return 0;
}

size_t dt_hands_claims_room_at(dt_hands_claims *claims, struct dt_str topic, uint32_t host)
{
    (void)claims;
    (void)topic;
    (void)host;
    return 0;
}

#endif
