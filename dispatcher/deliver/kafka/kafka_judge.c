/*
 * See kafka_judge.h.
 *
 *   missing                                    reports, dead letters or commands go nowhere; of the ledger, shards halt
 *   fewer replicas than there may be           the end of a broker is the end of what only it had
 *   min.insync.replicas above the replicas     nothing can be written
 *   min.insync.replicas 1 of several           what one broker alone has taken counts as written
 *   a topic of jobs that cannot be written     its jobs wait
 *   unclean.leader.election.enable             a replica that lacks messages may become the leader: they are gone
 */
#include "kafka_judge.h"

#include <stdio.h>

#define ENOUGH 3 /* replicas: one may be away, and another be lost */

struct judging {
    int64_t wanted; /* replicas */
    dt_found_here_fn *found;
    void *arg;
    bool found_some; /* out */
};

static void tell(struct judging *j, enum dt_finding_kind finding, const char *subject, const char *detail)
{
    j->found_some = true;
    j->found(j->arg, finding, subject, detail);
}

/* As many as the configuration says, or as are enough where there are brokers for them. */
static int64_t wanted(int64_t replicas, int brokers)
{
    int64_t possible = brokers < ENOUGH ? brokers : ENOUGH;
    return replicas > possible ? replicas : possible;
}

static void judge_topic(struct judging *j, const struct dt_kafka_topic_state *topic)
{
    const bool many = topic->replicas && topic->min_in_sync > topic->replicas;
    const bool few = topic->replicas > 1 && topic->min_in_sync == 1;
    char detail[160];
    if (!topic->there) {
        tell(j, DT_FINDING_KAFKA_TOPIC, topic->name, "Kafka knows no topic of this name");
        return;
    }
    if (topic->replicas && topic->replicas < j->wanted) {
        snprintf(detail, sizeof(detail), "it has partitions with %d replicas, and should have %lld", topic->replicas,
                 (long long)j->wanted);
        tell(j, DT_FINDING_KAFKA_REPLICATION, topic->name, detail);
    }
    if (many || few) {
        snprintf(detail, sizeof(detail), "min.insync.replicas is %lld, of %d replicas%s", (long long)topic->min_in_sync,
                 topic->replicas, many ? ": nothing can be written" : "");
        tell(j, DT_FINDING_KAFKA_MIN_ISR, topic->name, detail);
    }
    if (topic->elects_unclean)
        tell(j, DT_FINDING_KAFKA_UNCLEAN, topic->name, "unclean.leader.election.enable is true");
}

void dt_kafka_judge(const struct dt_kafka_state *state, int64_t replicas, dt_found_here_fn *found, void *arg)
{
    struct judging j = {.wanted = wanted(replicas, state->brokers), .found = found, .arg = arg};
    for (size_t i = 0; i < DT_KAFKA_OWN_TOPICS; i++)
        judge_topic(&j, &state->topics[i]);
}

/* A topic that is made on demand is missing only where it cannot be made; then whoever asked for it was refused. */
bool dt_kafka_judge_asked(const struct dt_kafka_asked_topic *topic, int64_t replicas, dt_found_here_fn *found,
                          void *arg)
{
    struct judging j = {.wanted = wanted(replicas, topic->info.brokers), .found = found, .arg = arg};
    struct dt_kafka_topic_state state = {.there = true,
                                         .replicas = topic->info.replicas,
                                         .min_in_sync = topic->info.min_in_sync,
                                         .elects_unclean = topic->info.elects_unclean};
    snprintf(state.name, sizeof(state.name), "%s", topic->name);
    if (topic->status == DT_REFUSED)
        tell(&j, DT_FINDING_KAFKA_JOB_TOPIC, topic->name, topic->reason);
    else if (topic->status == DT_OK)
        judge_topic(&j, &state);
    return j.found_some;
}
