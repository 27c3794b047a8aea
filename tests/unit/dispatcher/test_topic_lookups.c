/* What is known of Kafka's topics, and when Kafka is asked: against a Kafka that answers as a topic's name says. */
#include <unistd.h>

#include "deliver/kafka/kafka.h"
#include "deliver/kafka/kafka_admin_parts.h"
#include "support/wait.h"

static struct dt_error err;

#define S(text) DT_STR_LIT(text)
#define MANY    (3 * DT_KAFKA_FIND_MAX + 1)

/* ---- Kafka ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the next ones */
static bool silent, slow;
static unsigned requests, asked, at_most; /* requests, topics in all of them, topics in the largest */
static unsigned makes, most_made;         /* requests that make "new." topics, topics in the largest */
static bool blank;                        /* nothing is said of a topic before it is asked for */

__typeof__(dt_kafka_admin_find) __wrap_dt_kafka_admin_find;

static bool is_blank(const struct dt_kafka_finding *f)
{
    static const struct dt_kafka_topic_info none;
    return f->status == DT_UNAVAILABLE && !f->made && memcmp(&f->info, &none, sizeof(none)) == 0 && !f->error.text[0];
}

static void answer(struct dt_kafka_finding *f, bool make)
{
    f->made = true;
    if (!make && strncmp(f->name, "new.", 4) == 0) {
        f->made = false;
        f->status = DT_BUSY;
        return;
    }
    f->info.partitions = 7;
    if (strncmp(f->name, "no.", 3) == 0)
        f->status = dt_fail(&f->error, DT_REFUSED, "%s may not be written", f->name);
    else if (strncmp(f->name, "odd.", 4) == 0)
        f->status = dt_fail(&f->error, DT_UNAVAILABLE, "nobody can say");
    else
        f->status = DT_OK;
}

dt_status __wrap_dt_kafka_admin_find(struct dt_kafka_admin *, struct dt_kafka_finding *v, size_t n, bool make,
                                     struct dt_error *why)
{
    pthread_mutex_lock(&lock);
    requests++;
    makes += make;
    most_made = make && n > most_made ? (unsigned)n : most_made;
    asked += (unsigned)n;
    at_most = n > at_most ? (unsigned)n : at_most;
    for (size_t i = 0; i < n; i++)
        blank = blank && is_blank(&v[i]);
    dt_status status = silent ? dt_fail(why, DT_UNAVAILABLE, "silence") : DT_OK;
    for (size_t i = 0; status == DT_OK && i < n; i++)
        answer(&v[i], make);
    const bool waits = slow;
    pthread_mutex_unlock(&lock);
    if (waits)
        usleep(50000);
    return status;
}

static void turn(bool *knob, bool on)
{
    pthread_mutex_lock(&lock);
    *knob = on;
    pthread_mutex_unlock(&lock);
}

static unsigned requests_so_far(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = requests;
    pthread_mutex_unlock(&lock);
    return n;
}

static void await_requests(unsigned n)
{
    AWAIT(requests_so_far() >= n);
}

/* ---- who asks ---- */

struct rig {
    struct dt_kafka_admin admin;
    dt_kafka_asker *asker;
    pthread_mutex_t lock;
    unsigned told;
};

static void told(void *arg)
{
    struct rig *r = arg;
    pthread_mutex_lock(&r->lock);
    r->told++;
    pthread_mutex_unlock(&r->lock);
}

static unsigned times_told(struct rig *r)
{
    pthread_mutex_lock(&r->lock);
    unsigned n = r->told;
    pthread_mutex_unlock(&r->lock);
    return n;
}

static void make(struct rig *r)
{
    *r = (struct rig){.lock = PTHREAD_MUTEX_INITIALIZER};
    silent = slow = false;
    blank = true;
    requests = asked = at_most = makes = most_made = 0;
    assert_int_equal(dt_kafka_lookups_new(&r->admin, &err), DT_OK);
    assert_int_equal(dt_kafka_asker_new(&r->admin, told, r, &r->asker), DT_OK);
}

static void drop(struct rig *r)
{
    dt_kafka_asker_free(r->asker);
    dt_kafka_lookups_free(r->admin.lookups);
    assert_true(blank);
}

#define RIG_TEST(name) TEST_ON(struct rig, r, name, make, drop)

/* Asks until there is an answer. */
static dt_status ask(struct rig *r, struct dt_str topic, struct dt_kafka_topic_info *info, struct dt_error *why)
{
    dt_status status;
    AWAIT((status = dt_kafka_asker_ask(r->asker, topic, 1, info, why)) != DT_BUSY);
    return status;
}

RIG_TEST(a_caller_that_must_not_wait_gets_busy_once_and_is_called_when_there_is_an_answer)
{
    struct dt_kafka_topic_info info = {.partitions = 3};
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("a"), 1, &info, &err), DT_BUSY);
    assert_int_equal(info.partitions, 0);
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    assert_int_equal(info.partitions, 7);
    assert_int_equal(times_told(r), 1);
    assert_int_equal(ask(r, S("b"), &info, &err), DT_OK);
    assert_int_equal(times_told(r), 2);
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK); /* remembered */
    assert_int_equal(requests_so_far(), 2);
}

RIG_TEST(many_topics_are_looked_up_in_requests_of_bounded_size)
{
    struct dt_kafka_topic_info info;
    char names[MANY][8];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        assert_int_equal(dt_kafka_asker_ask(r->asker, dt_str(names[i]), 1, &info, &err), DT_BUSY);
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(ask(r, dt_str(names[i]), &info, &err), DT_OK);
    assert_int_equal(asked, MANY);
    assert_in_range(requests_so_far(), 4, MANY - 1);
    assert_in_range(at_most, 2, DT_KAFKA_FIND_MAX);
}

RIG_TEST(a_pending_lookup_is_not_repeated)
{
    struct dt_kafka_topic_info info;
    turn(&slow, true);
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    assert_int_equal(ask(r, S("no.b"), &info, &err), DT_REFUSED);
    assert_int_equal(ask(r, S("odd.c"), &info, &err), DT_UNAVAILABLE);
    assert_int_equal(ask(r, S("d"), &info, &err), DT_OK);
    assert_int_equal(requests_so_far(), 4);
    assert_int_equal(asked, 4);
}

RIG_TEST(a_topic_that_is_forgotten_during_its_lookup_is_looked_up_once_more)
{
    struct dt_kafka_topic_info info;
    turn(&slow, true);
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("a"), 1, &info, &err), DT_BUSY);
    await_requests(1);
    dt_kafka_admin_forget(&r->admin, S("a"));
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    await_requests(2);
}

RIG_TEST(a_waiting_caller_gets_all_topics_and_each_is_looked_up_once)
{
    struct dt_str topics[MANY];
    struct dt_kafka_topic_info info;
    char names[MANY][8];
    size_t at_fault = 99;
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i % 20); /* 20 different ones */
        topics[i] = dt_str(names[i]);
    }
    assert_int_equal(dt_kafka_admin_topics(&r->admin, topics, MANY, &at_fault, &err), DT_OK);
    assert_int_equal(at_fault, MANY);
    assert_int_equal(requests_so_far(), 2);
    assert_int_equal(asked, 20);
    assert_int_equal(at_most, DT_KAFKA_FIND_MAX);
    assert_int_equal(dt_kafka_admin_topic(&r->admin, S("t19"), &info, &err), DT_OK);
    assert_int_equal(info.partitions, 7);
    assert_int_equal(requests_so_far(), 2);
}

RIG_TEST(a_refused_topic_is_reported_with_its_index_and_reason)
{
    const struct dt_str topics[] = {S("a"), S("no.b"), S("c")};
    struct dt_kafka_topic_info info;
    size_t at_fault = 99;
    assert_int_equal(dt_kafka_admin_topics(&r->admin, topics, 3, &at_fault, &err), DT_REFUSED);
    assert_int_equal(at_fault, 1);
    assert_string_equal(err.text, "no.b may not be written");
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("no.b"), 1, &info, &err), DT_REFUSED); /* known for a while */
    assert_int_equal(info.partitions, 0);
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("c"), 1, &info, &err), DT_OK); /* found out with it */
    assert_int_equal(requests_so_far(), 1);
    assert_false(dt_kafka_admin_known(&r->admin, S("no.b"), &info));
    assert_int_equal(dt_kafka_admin_topic(&r->admin, S("odd.d"), &info, &err), DT_UNAVAILABLE);
    assert_string_equal(err.text, "nobody can say");
}

RIG_TEST(invalid_kafka_names_are_refused_without_a_request)
{
    struct dt_kafka_topic_info info;
    char name[DT_KAFKA_TOPIC_MAX + 2];
    size_t at_fault;
    memset(name, 'n', sizeof(name));
    const struct dt_str topics[] = {S("a"), {name, DT_KAFKA_TOPIC_MAX + 1}};
    assert_int_equal(dt_kafka_asker_ask(r->asker, S(""), 1, &info, &err), DT_REFUSED);
    assert_int_equal(dt_kafka_asker_ask(r->asker, topics[1], 1, &info, &err), DT_REFUSED);
    assert_int_equal(dt_kafka_admin_topics(&r->admin, topics, 2, &at_fault, &err), DT_REFUSED);
    assert_int_equal(at_fault, 1);
    assert_int_equal(requests_so_far(), 0);
    assert_int_equal(ask(r, (struct dt_str){name, DT_KAFKA_TOPIC_MAX}, &info, &err), DT_OK);
}

RIG_TEST(if_kafka_is_silent_known_topics_stay_and_others_are_not_retried)
{
    struct dt_kafka_topic_info info;
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    turn(&silent, true);
    assert_int_equal(ask(r, S("b"), &info, &err), DT_UNAVAILABLE);
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("c"), 1, &info, &err), DT_UNAVAILABLE);
    assert_string_equal(err.text, "topic c: Kafka did not answer a moment ago");
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    turn(&silent, false);
    AWAIT(ask(r, S("c"), &info, &err) == DT_OK);
}

RIG_TEST(a_forgotten_topic_is_looked_up_again_and_used_meanwhile)
{
    struct dt_kafka_topic_info info;
    assert_int_equal(dt_kafka_admin_topic(&r->admin, S("a"), &info, &err), DT_OK);
    dt_kafka_admin_forget(&r->admin, S("nobody"));
    dt_kafka_admin_forget(&r->admin, S("a"));
    info.partitions = 0;
    assert_true(dt_kafka_admin_known(&r->admin, S("a"), &info));
    assert_int_equal(info.partitions, 7);
    assert_int_equal(dt_kafka_asker_ask(r->asker, S("a"), 1, &info, &err), DT_BUSY);
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    assert_int_equal(requests_so_far(), 2);
}

enum { NEW = 64 };

/* Has topics made that are missing, while another owner sends, or not. */
static void make_new(struct rig *r, bool other_sends)
{
    struct dt_kafka_topic_info info;
    char names[NEW][16];
    size_t made = 0;
    turn(&slow, true);
    for (int i = 0; i < NEW; i++)
        snprintf(names[i], sizeof(names[i]), "new.%d", i);
    while (made < NEW && most_made <= 8) {
        made = 0;
        if (other_sends)
            dt_kafka_asker_sends(r->asker, 2);
        dt_kafka_asker_sends(r->asker, 1); /* its own messages delay no other owner's */
        for (int i = 0; i < NEW; i++)
            made += dt_kafka_asker_ask(r->asker, dt_str(names[i]), 1, &info, &err) == DT_OK;
        if (other_sends && makes >= 3)
            return;
        wait_a_moment();
    }
}

RIG_TEST(topics_of_a_single_owner_are_created_in_full_requests)
{
    make_new(r, false);
    assert_int_equal(most_made, DT_KAFKA_FIND_MAX);
}

RIG_TEST(while_another_owner_sends_few_topics_are_created_at_a_time)
{
    make_new(r, true);
    assert_in_range(most_made, 1, 8);
}

RIG_TEST(another_owners_lookup_waits_for_one_request_that_makes_topics)
{
    struct dt_kafka_topic_info info;
    char name[16];
    turn(&slow, true);
    for (int i = 0; i < NEW * 8; i++) {
        snprintf(name, sizeof(name), "new.%d", i);
        (void)!dt_kafka_asker_ask(r->asker, dt_str(name), 1, &info, &err);
    }
    AWAIT(makes > 0);
    const unsigned before = makes;
    dt_status status;
    AWAIT((status = dt_kafka_asker_ask(r->asker, S("there"), 2, &info, &err)) != DT_BUSY);
    assert_int_equal(status, DT_OK);
    assert_in_range(makes - before, 0, 2);
}

struct heard {
    unsigned n, good, bad;
};

static bool hear(void *arg, const struct dt_kafka_asked_topic *topic)
{
    struct heard *heard = arg;
    heard->n++;
    if (topic->status == DT_OK)
        heard->good += strcmp(topic->name, "a") == 0 && topic->info.partitions == 7;
    else
        heard->bad += strcmp(topic->name, "no.b") == 0 && strcmp(topic->reason, "no.b may not be written") == 0;
    return true;
}

RIG_TEST(every_requested_topic_is_reported_with_its_last_answer)
{
    struct dt_kafka_topic_info info;
    struct heard heard = {0};
    dt_kafka_admin_tell_asked(&r->admin, hear, &heard);
    assert_int_equal(heard.n, 0);
    assert_int_equal(ask(r, S("a"), &info, &err), DT_OK);
    assert_int_equal(ask(r, S("no.b"), &info, &err), DT_REFUSED);
    dt_kafka_admin_tell_asked(&r->admin, hear, &heard);
    assert_members(heard, (n, 2), (good, 1), (bad, 1));
    assert_int_equal(requests_so_far(), 2); /* both are fresh */
    dt_kafka_admin_forget(&r->admin, S("a"));
    dt_kafka_admin_tell_asked(&r->admin, hear, &heard); /* which wants it to be looked up */
    await_requests(3);
}
