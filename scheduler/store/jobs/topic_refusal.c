/* The words: see topic_refusal.h. */
#include "store/jobs/topic_refusal.h"

#include <stdio.h>

static const char *say(enum dt_topic_refusal refusal)
{
    switch (refusal) {
    case DT_TOPIC_CLASH:
        return "the name clashes in Kafka with that of another topic (\".\" and \"_\" are the same there)";
    case DT_TOPIC_INTERNAL:
        return "the Kafka topic is internal to this installation or to another one (see kafka_topic)";
    case DT_TOPIC_FOREIGN:
        return "is outside of the token's prefixes, and not among the Kafka topics of kafka.allow_topics";
    case DT_TOPIC_CHANGED:
        return "was changed by somebody else meanwhile";
    case DT_TOPIC_LIMIT:
    case DT_TOPIC_PREFIX_LIMIT:
    case DT_TOPIC_FINE:
    case DT_TOPIC_REFUSALS:
        break;
    }
    return "the topic cannot be stored as it is";
}

void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX])
{
    if (refusal == DT_TOPIC_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "no topic can be made: there are as many as limits.topics allows (%lld)",
                 (long long)config->limits_topics);
    else if (refusal == DT_TOPIC_PREFIX_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX,
                 "no topic can be made: as many as limits.prefix_topics allows (%lld) begin with the token's prefix",
                 (long long)config->limits_prefix_topics);
    else
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "%s", say(refusal));
}
