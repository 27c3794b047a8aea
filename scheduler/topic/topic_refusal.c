/* The words: see topic_refusal.h. */
#include "topic_refusal.h"

#include <stdio.h>

#include "base/assert.h"
#include "topics.h"

void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX])
{
    static const char *const texts[DT_TOPIC_REFUSALS] = {
        [DT_TOPIC_CLASH] = "the name clashes in Kafka with that of another topic (\".\" and \"_\" are the same there)",
        [DT_TOPIC_INTERNAL] = "the Kafka topic is internal to this installation or to another one (see kafka_topic)",
        [DT_TOPIC_FOREIGN] = "is outside of the token's prefixes, and not among the Kafka topics of kafka.allow_topics",
        [DT_TOPIC_CHANGED] = "was changed by somebody else meanwhile"};
    dt_assert_cmp(refusal, <, DT_TOPIC_REFUSALS);
    if (refusal == DT_TOPIC_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "no topic can be made: there are as many as limits.topics allows (%lld)",
                 (long long)config->limits_topics);
    else if (refusal == DT_TOPIC_PREFIX_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX,
                 "no topic can be made: as many as limits.prefix_topics allows (%lld) begin with the token's prefix",
                 (long long)config->limits_prefix_topics);
    else
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "%s",
                 texts[refusal] ? texts[refusal] : "the topic cannot be stored as it is");
}
