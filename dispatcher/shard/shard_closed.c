/*
 * Owns the question why a topic's jobs may not go, and how many may: its row says that it is paused, it has found no
 * room within its limits, the delivery says that it cannot be written, or the hands of this process that they are full.
 * Answers from memory. Refuses to know what follows from that (dt_closed_rule).
 */
#include "shard_parts.h"
#include "topic/topics.h"

enum dt_writable dt_shard_writable(void *loop, struct dt_str topic, int64_t owner, int64_t bytes)
{
    dt_shard_loop *l = loop;
    return dt_shard_sender_stalled(l) ? DT_WRITABLE_NO : dt_delivery_writable(l->delivery, topic, owner, bytes);
}

/* host: of dt_held_topic. */
static size_t places_for(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    const struct dt_topic_callback *callback = dt_topic_snapshot_callback(l->snapshot, topic);
    const int64_t owner = dt_topic_snapshot_owner(l->snapshot, topic);
    if (!callback)
        return 0;
    return dt_hands_claims_room(l->claims, owner, topic, callback, host);
}

/* Notes where there are none. */
static size_t ask_for_places(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    size_t places = places_for(l, topic, host);
    if (places == 0)
        l->full_us = dt_shard_mono_us(l);
    return places;
}

static enum dt_dealing dealing_of(const dt_shard_loop *l, struct dt_str topic)
{
    return dt_delivery_dealing(dt_topic_snapshot_delivery(l->snapshot, topic));
}

static size_t allowed(const dt_shard_loop *l, struct dt_str topic)
{
    bool limited = dt_topic_snapshot_limited(l->snapshot, topic) && dealing_of(l, topic) != DT_DEALING_OFFERS;
    return limited ? dt_limit_memory_allowed(&l->limits, topic, dt_shard_mono_us(l)) : SIZE_MAX;
}

size_t dt_shard_room_at(dt_shard_loop *l, struct dt_str topic, uint32_t host)
{
    return dealing_of(l, topic) == DT_DEALING_HANDS ? ask_for_places(l, topic, host) : SIZE_MAX;
}

enum dt_closed dt_shard_why_held(dt_shard_loop *l, struct dt_str name)
{
    uint32_t host;
    struct dt_str topic = dt_held_topic(name, &host);
    struct dt_str destination = dt_topic_snapshot_kafka_topic(l->snapshot, topic);
    if (!destination.p)
        return DT_CLOSED_NO_ROW;
    if (dt_topic_snapshot_paused(l->snapshot, topic))
        return DT_CLOSED_PAUSED;
    if (allowed(l, topic) == 0)
        return DT_CLOSED_LIMIT;
    switch (dealing_of(l, topic)) {
    case DT_DEALING_HANDS:
        return ask_for_places(l, topic, host) ? DT_CLOSED_NOT : DT_CLOSED_FULL;
    case DT_DEALING_OFFERS:
        return DT_CLOSED_NOT; /* what is offered is nobody's to send */
    default:
        break;
    }
    switch (dt_shard_writable(l, destination, dt_topic_snapshot_owner(l->snapshot, topic), 0)) {
    case DT_WRITABLE_NO:
        return DT_CLOSED_UNWRITABLE;
    case DT_WRITABLE_UNKNOWN:
        return DT_CLOSED_FINDING_OUT;
    default:
        return DT_CLOSED_NOT;
    }
}

enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic)
{
    enum dt_closed why = dt_shard_why_held(l, topic);
    return why == DT_CLOSED_NO_ROW ? DT_CLOSED_NOT : why;
}

enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic)
{
    if (dt_topic_snapshot_paused(l->snapshot, topic))
        return DT_CLOSED_PAUSED;
    return dealing_of(l, topic) == DT_DEALING_HANDS ? DT_CLOSED_FULL : DT_CLOSED_UNWRITABLE;
}

size_t dt_shard_room(dt_shard_loop *l, struct dt_str name)
{
    uint32_t host;
    struct dt_str topic = dt_held_topic(name, &host);
    size_t most = allowed(l, topic);
    if (!dt_topic_snapshot_callback(l->snapshot, topic) || dealing_of(l, topic) != DT_DEALING_HANDS)
        return most;
    size_t places = places_for(l, topic, host);
    return places < most ? places : most;
}
