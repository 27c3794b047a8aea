/* Which topic a job has, remembered while there is a backlog. */

#include "support/suite.h"

#include "shard/shard_parts.h"

TEST(a_topic_is_remembered_until_it_is_forgotten)
{
    struct dt_topic_memory memory = {0};
    struct dt_str topic;
    bool names_host;
    assert_false(dt_topic_memory_find(&memory, 7, &topic, &names_host));
    dt_topic_memory_forget(&memory, 7);
    dt_topic_memory_note(&memory, 7, dt_str("mail"), false);
    dt_topic_memory_note(&memory, 8, dt_str("post"), false);
    assert_true(dt_topic_memory_find(&memory, 7, &topic, &names_host) && dt_str_is(topic, "mail"));
    assert_true(dt_topic_memory_find(&memory, 8, &topic, &names_host) && dt_str_is(topic, "post"));
    assert_false(dt_topic_memory_find(&memory, 9, &topic, &names_host));
    dt_topic_memory_forget(&memory, 7);
    assert_false(dt_topic_memory_find(&memory, 7, &topic, &names_host));
    assert_true(dt_topic_memory_find(&memory, 8, &topic, &names_host));
    dt_topic_memory_clear(&memory);
    assert_false(dt_topic_memory_find(&memory, 8, &topic, &names_host));
}

/* Ids as they are given out: a day's, one after the other. */
TEST(surplus_jobs_are_forgotten_and_never_confused)
{
    struct dt_topic_memory memory = {0};
    struct dt_str topic;
    bool names_host;
    const int64_t day = INT64_C(690) << 40;
    size_t known = 0, halves = 0;
    for (int64_t i = 0; i < 2 * DT_TOPIC_MEMORY_JOBS; i++)
        dt_topic_memory_note(&memory, day + i, dt_str(i % 2 ? "odd" : "even"), false);
    for (int64_t i = 0; i < 2 * DT_TOPIC_MEMORY_JOBS; i++) {
        if (!dt_topic_memory_find(&memory, day + i, &topic, &names_host))
            continue;
        assert_true(dt_str_is(topic, i % 2 ? "odd" : "even"));
        known++;
        halves += i >= DT_TOPIC_MEMORY_JOBS;
    }
    assert_in_range(known, DT_TOPIC_MEMORY_JOBS / 2, DT_TOPIC_MEMORY_JOBS);
    assert_true(halves > known / 2); /* the later ones rather */
    dt_topic_memory_clear(&memory);
}

TEST(nearly_all_topics_of_a_large_backlog_are_cached)
{
    struct dt_topic_memory memory = {0};
    struct dt_str topic;
    bool names_host;
    size_t known = 0;
    for (int64_t i = 0; i < 25000; i++)
        dt_topic_memory_note(&memory, 4 * i, dt_str("spike"), false);
    for (int64_t i = 0; i < 25000; i++)
        known += dt_topic_memory_find(&memory, 4 * i, &topic, &names_host);
    assert_in_range(known, 24900, 25000);
    dt_topic_memory_clear(&memory);
}

TEST(topics_beyond_the_capacity_are_not_cached)
{
    struct dt_topic_memory memory = {0};
    struct dt_str topic;
    bool names_host;
    char name[20];
    for (int64_t i = 1; i <= DT_TOPIC_MEMORY_TOPICS + 1; i++) {
        snprintf(name, sizeof name, "topic-%d", (int)i);
        dt_topic_memory_note(&memory, i, dt_str(name), false);
    }
    assert_true(dt_topic_memory_find(&memory, DT_TOPIC_MEMORY_TOPICS, &topic, &names_host) &&
                dt_str_is(topic, "topic-64"));
    assert_false(dt_topic_memory_find(&memory, DT_TOPIC_MEMORY_TOPICS + 1, &topic, &names_host));
    dt_topic_memory_clear(&memory);
}
