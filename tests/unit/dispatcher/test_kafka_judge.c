/* What is wrong with topics of ours, by what Kafka says of them: clusters of several brokers, which tests on a real one do not have. */

#include "support/suite.h"

#include "deliver/kafka/kafka_parts.h"

static char told[2000];

static void hear(void *, enum dt_finding_kind finding, const char *subject, const char *detail)
{
    size_t n = strlen(told);
    snprintf(told + n, sizeof(told) - n, "%s %s: %s\n", dt_finding_kinds[finding].name, subject, detail);
}

/* All of them as in a sound cluster; then one is changed. */
static struct dt_kafka_state sound(int brokers, int replicas, int64_t min_in_sync)
{
    struct dt_kafka_state state = {0};
    for (int i = 0; i < DT_KAFKA_OWN_TOPICS; i++) {
        snprintf(state.topics[i].name, sizeof(state.topics[i].name), "t%d", i);
        state.topics[i].there = true;
        state.topics[i].info =
            (struct dt_kafka_topic_info){.brokers = brokers, .replicas = replicas, .min_in_sync = min_in_sync};
    }
    return state;
}

static void judge(const struct dt_kafka_state *state, int64_t replicas)
{
    told[0] = '\0';
    dt_kafka_judge(state, replicas, hear, NULL);
}

TEST(a_sound_cluster_has_no_findings)
{
    struct dt_kafka_state three = sound(5, 3, 2), one = sound(1, 1, 1), two = sound(2, 2, 2);
    judge(&three, 3);
    assert_string_equal(told, "");
    judge(&one, 1);
    assert_string_equal(told, "");
    judge(&two, 1);
    assert_string_equal(told, "");
}

TEST(too_few_replicas_are_reported)
{
    struct dt_kafka_state cluster = sound(3, 3, 2);
    cluster.topics[1].info.replicas = 2;
    judge(&cluster, 1);
    assert_string_equal(told, "kafka-replication t1: it has partitions with 2 replicas, and should have 3\n");
    struct dt_kafka_state single = sound(1, 1, 1);
    judge(&single, 2);
    assert_non_null(strstr(told, "kafka-replication t0: it has partitions with 1 replicas, and should have 2\n"));
}

TEST(min_insync_replicas_too_low_or_too_high_are_reported)
{
    struct dt_kafka_state cluster = sound(3, 3, 2);
    cluster.topics[0].info.min_in_sync = 1;
    cluster.topics[2].info.min_in_sync = 4;
    judge(&cluster, 3);
    assert_string_equal(told, "kafka-min-isr t0: min.insync.replicas is 1, of 3 replicas\n"
                              "kafka-min-isr t2: min.insync.replicas is 4, of 3 replicas: nothing can be written\n");
}

TEST(settings_that_kafka_does_not_report_are_not_checked)
{
    struct dt_kafka_state cluster = sound(3, 0, 0);
    judge(&cluster, 3);
    assert_string_equal(told, "");
    cluster.topics[0].there = false;
    cluster.topics[1].info.elects_unclean = true;
    judge(&cluster, 3);
    assert_string_equal(told, "kafka-topic-missing t0: Kafka knows no topic of this name\n"
                              "kafka-unclean-election t1: unclean.leader.election.enable is true\n");
}

static bool judge_asked(struct dt_kafka_asked_topic topic, int64_t replicas)
{
    told[0] = '\0';
    return dt_kafka_judge_asked(&topic, replicas, hear, NULL);
}

TEST(topics_of_jobs_are_checked_too_and_reported_missing_only_if_not_creatable)
{
    struct dt_kafka_asked_topic sound = {"t", DT_OK, "", {.replicas = 3, .brokers = 3, .min_in_sync = 2}};
    assert_false(judge_asked(sound, 1));
    assert_string_equal(told, "");
    sound.info.replicas = 2;
    sound.info.min_in_sync = 1;
    assert_true(judge_asked(sound, 1));
    assert_string_equal(told, "kafka-replication t: it has partitions with 2 replicas, and should have 3\n"
                              "kafka-min-isr t: min.insync.replicas is 1, of 2 replicas\n");
    struct dt_kafka_asked_topic refused = {"t", DT_REFUSED, "topic t does not exist", {0}};
    assert_true(judge_asked(refused, 3));
    assert_string_equal(told, "kafka-job-topic-missing t: topic t does not exist\n");
    refused.status = DT_UNAVAILABLE;
    assert_false(judge_asked(refused, 3));
}
