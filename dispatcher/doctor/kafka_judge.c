/*
 * See kafka_judge.h.
 *
 *   missing                                    reports, dead letters or commands go nowhere; of the ledger, shards halt
 *   fewer replicas than there may be           the end of a broker is the end of what only it had
 *   min.insync.replicas above the replicas     nothing can be written
 *   min.insync.replicas 1 of several           what one broker alone has taken counts as written
 *   unclean.leader.election.enable             a replica that lacks messages may become the leader: they are gone
 */
#include "doctor/kafka_judge.h"

#include <stdio.h>

#define ENOUGH 3 /* replicas: one may be away, and another be lost */

struct judging {
    int64_t wanted; /* replicas */
    dt_found_here_fn *found;
    void *arg;
};

static void judge_replicas(const struct judging *j, const struct dt_kafka_topic_state *topic)
{
    char detail[160];
    if (!topic->replicas || topic->replicas >= j->wanted)
        return;
    snprintf(detail, sizeof(detail), "it has partitions with %d replicas, and should have %lld", topic->replicas,
             (long long)j->wanted);
    j->found(j->arg, "kafka-replication", topic->name, detail);
}

static void judge_in_sync(const struct judging *j, const struct dt_kafka_topic_state *topic)
{
    char detail[160];
    bool many = topic->replicas && topic->min_in_sync > topic->replicas;
    bool few = topic->replicas > 1 && topic->min_in_sync == 1;
    if (!many && !few)
        return;
    snprintf(detail, sizeof(detail), "min.insync.replicas is %lld, of %d replicas%s", (long long)topic->min_in_sync,
             topic->replicas, many ? ": nothing can be written" : "");
    j->found(j->arg, "kafka-min-isr", topic->name, detail);
}

static void judge_topic(const struct judging *j, const struct dt_kafka_topic_state *topic)
{
    if (!topic->there) {
        j->found(j->arg, "kafka-topic-missing", topic->name, "Kafka knows no topic of this name");
        return;
    }
    judge_replicas(j, topic);
    judge_in_sync(j, topic);
    if (topic->elects_unclean)
        j->found(j->arg, "kafka-unclean-election", topic->name, "unclean.leader.election.enable is true");
}

void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg)
{
    int64_t possible = state->brokers < ENOUGH ? state->brokers : ENOUGH;
    const struct judging j = {replicas > possible ? replicas : possible, found, arg};
    for (size_t i = 0; i < DT_KAFKA_OWN_TOPICS; i++)
        judge_topic(&j, &state->topics[i]);
}
