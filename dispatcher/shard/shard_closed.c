/*
 * Owns the question why a topic's jobs may not go: its row says that it is paused or that others ask for its jobs, or the delivery that it cannot be
 * written. Answers from memory. Refuses to know what follows from that (closed.h).
 */
#include "shard_parts.h"

static enum dt_closed closed_by_delivery(dt_shard_loop *l, struct dt_str destination)
{
    switch (dt_delivery_writable(l->delivery, destination, 0)) {
    case DT_WRITABLE_NO:
        return DT_CLOSED_UNWRITABLE;
    case DT_WRITABLE_UNKNOWN:
        return DT_CLOSED_FINDING_OUT;
    default:
        return DT_CLOSED_NOT;
    }
}

static enum dt_dealing dealing_of(const dt_shard_loop *l, struct dt_str topic)
{
    return dt_delivery_dealing(dt_topic_snapshot_delivery(l->snapshot, topic));
}

/* The topic's row alone. Jobs that are offered are nobody's to send. */
static enum dt_closed closed_by_row(const dt_shard_loop *l, struct dt_str topic)
{
    if (dt_topic_snapshot_paused(l->snapshot, topic))
        return DT_CLOSED_PAUSED;
    return dealing_of(l, topic) == DT_DEALING_HANDS ? DT_CLOSED_OTHERS : DT_CLOSED_NOT;
}

enum dt_closed dt_shard_why_held(dt_shard_loop *l, struct dt_str topic)
{
    struct dt_str destination = dt_topic_snapshot_kafka_topic(l->snapshot, topic);
    if (!destination.p)
        return DT_CLOSED_NO_ROW;
    enum dt_closed by_row = closed_by_row(l, topic);
    if (by_row != DT_CLOSED_NOT || dealing_of(l, topic) != DT_DEALING_LISTS)
        return by_row;
    return closed_by_delivery(l, destination);
}

enum dt_closed dt_shard_why_closed(dt_shard_loop *l, struct dt_str topic)
{
    enum dt_closed why = dt_shard_why_held(l, topic);
    return why == DT_CLOSED_NO_ROW ? DT_CLOSED_NOT : why;
}

enum dt_closed dt_shard_why_left(const dt_shard_loop *l, struct dt_str topic)
{
    enum dt_closed by_row = closed_by_row(l, topic);
    return by_row != DT_CLOSED_NOT ? by_row : DT_CLOSED_UNWRITABLE;
}
