/* The decisions of an elector by leases, step by step, on a link in memory and a clock that is moved by hand: this file
 * stands in for lease_link.c. Orders are answered when a test says so, with the view that the test has prepared. */

#include "election/lease_link.h"
#include "support/rigs/elector_rig.h"

enum { SHARDS = 2, TIMEOUT_MS = 3000, SOMEBODY = 8 };
#define TIMEOUT_US (TIMEOUT_MS * INT64_C(1000))
#define PERIOD_US  (TIMEOUT_US * 3 / 10)

/* ---- the link ---- */

struct dt_lease_link {
    struct dt_lease *lease;
    struct dt_lease_order order;
    struct dt_lease_answer answer;
    bool busy, answered;
    int64_t sent_us;
    unsigned asked; /* orders so far */
};

static struct dt_lease_link fake;

dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out)
{
    fake = (struct dt_lease_link){.lease = env->lease};
    *out = &fake;
    return DT_OK;
}

STUB(void, dt_lease_link_free, (dt_lease_link * link), )

struct dt_lease_order *dt_lease_link_order(dt_lease_link *link)
{
    assert_false(link->busy);
    return &link->order;
}

void dt_lease_link_ask(dt_lease_link *link)
{
    link->busy = true;
    link->sent_us = now_us;
    link->asked++;
    if (link->order.leave)
        link->answered = true;
}

bool dt_lease_link_busy(const dt_lease_link *link)
{
    return link->busy;
}

const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link)
{
    if (!link->answered)
        return NULL;
    link->answered = link->busy = false;
    return &link->answer;
}

/* ---- what the answers say ---- */

static struct dt_election world;

static void add_member(int64_t id, int64_t renewals, int64_t age_ms)
{
    world.members[world.n++] =
        (struct dt_election_member){.id = id, .renewals = renewals, .age_ms = age_ms, .timeout_ms = TIMEOUT_MS};
}

static void answer_with(dt_status status)
{
    assert_true(fake.busy);
    fake.answer.status = status;
    fake.answer.gone = false;
    fake.answer.read_us = now_us;
    fake.answer.view = world;
    if (status == DT_OK && (fake.order.join || fake.order.renew))
        dt_lease_extend(fake.lease, fake.sent_us);
    fake.answered = true;
}

static void answer(void)
{
    /* Carries the order out in `world`. */
    const struct dt_lease_order *o = &fake.order;
    if (o->join)
        add_member(o->member, 0, 0);
    for (size_t i = 0; i < o->n_drop; i++)
        world.holder[o->drop[i]] = 0;
    for (size_t i = 0; i < o->n_take; i++)
        if (!world.holder[o->take[i]])
            world.holder[o->take[i]] = o->member;
    answer_with(DT_OK);
}

static void answer_and_step(dt_elector *e)
{
    answer();
    step(e);
}

/* ---- the elector ---- */

static int start(void **state)
{
    static char nothing[] = "";
    world = (struct dt_election){0};
    *state = elector_rig_start(nothing, SHARDS, TIMEOUT_MS);
    return 0;
}

static int stop(void **state)
{
    dt_elector *e = *state;
    fake.answered = fake.busy;
    e->kind->close(e);
    dt_elector_stop(e);
    return 0;
}

#define STARTED_TEST(name) TEST_OF(dt_elector *e, name, start, stop)

/* As often as there is something to do now. */
static void settle(dt_elector *e)
{
    step(e);
    for (int i = 0; i < 20 && fake.busy; i++) {
        answer();
        step(e);
    }
    assert_false(fake.busy);
}

static void lead_both(dt_elector *e)
{
    settle(e);
    assert_int_equal(gained[0] + gained[1], 2);
}

/* ---- tests ---- */

STARTED_TEST(a_shard_held_by_another_member_is_not_led)
{
    world.holder[1] = SOMEBODY;
    add_member(SOMEBODY, 5, 0);
    step(e);
    answer_and_step(e);
    assert_true(fake.busy);
    assert_int_equal(fake.order.n_take, 1);
    assert_int_equal(fake.order.take[0], 0);
    answer_and_step(e);
    assert_int_equal(gained[0], 1);
    assert_int_equal(gained[1], 0);
}

STARTED_TEST(an_order_without_an_answer_does_not_make_a_leader)
{
    step(e);
    answer_and_step(e);
    assert_int_equal(fake.order.n_take, SHARDS);
    add_member(SOMEBODY, 1, 0);
    world.holder[0] = SOMEBODY; /* it was faster */
    answer_and_step(e);
    assert_int_equal(gained[0], 0);
    assert_int_equal(gained[1], 1);
}

STARTED_TEST(without_answers_shards_are_lost_exactly_at_the_end_of_the_lease)
{
    int64_t begun_us = now_us;
    lead_both(e);
    now_us = begun_us + TIMEOUT_US * 2 / 3 - 1;
    step(e);
    assert_int_equal(lost[0] + lost[1], 0);
    assert_true(dt_elector_leads(e, 0));
    assert_int_equal(dt_elector_next_us(e), now_us + 1);
    now_us++;
    assert_false(dt_elector_leads(e, 0)); /* also before the next step */
    step(e);
    assert_int_equal(lost[0] + lost[1], 2);
    assert_true(dt_elector_idle(e));
}

STARTED_TEST(a_renewal_extends_the_lease_from_its_sending)
{
    lead_both(e);
    assert_int_equal(dt_elector_next_us(e), now_us + PERIOD_US);
    int64_t sent_us = now_us += PERIOD_US;
    step(e);
    assert_true(fake.busy && fake.order.renew);
    assert_int_equal(fake.order.n_take + fake.order.n_drop + fake.order.n_over, 0);
    now_us += 500000;
    answer_and_step(e);
    assert_int_equal(atomic_load(&e->lease.until_us), sent_us + TIMEOUT_US * 2 / 3);
    assert_int_equal(dt_elector_next_us(e), sent_us + PERIOD_US);
}

STARTED_TEST(an_answer_that_arrives_after_the_lease_gains_no_shard_before_the_next_renewal)
{
    step(e);
    answer_and_step(e); /* takes */
    now_us += TIMEOUT_US;
    answer_and_step(e);
    assert_int_equal(gained[0] + gained[1], 0);
    assert_true(fake.busy && fake.order.renew);
    answer_and_step(e);
    assert_int_equal(gained[0] + gained[1], 2);
}

STARTED_TEST(a_lease_that_ran_out_is_led_again_once_it_was_renewed_in_time)
{
    lead_both(e);
    now_us += TIMEOUT_US;
    step(e);
    assert_int_equal(lost[0] + lost[1], 2);
    assert_true(fake.busy && fake.order.renew);
    answer_and_step(e);
    assert_int_equal(gained[0] + gained[1], 4);
}

STARTED_TEST(a_shard_is_kept_until_its_loop_has_stopped)
{
    lead_both(e);
    dt_elector_leave(e);
    step(e);
    assert_int_equal(released[0] + released[1], 2);
    assert_true(fake.busy && fake.order.renew && fake.order.leaving);
    assert_int_equal(fake.order.n_drop, 0);
    answer_and_step(e);
    assert_false(fake.busy);
    dt_elector_released(e, 1);
    step(e);
    assert_true(fake.busy);
    assert_int_equal(fake.order.n_drop, 1);
    assert_int_equal(fake.order.drop[0], 1);
    answer_and_step(e);
    assert_true(dt_elector_leads(e, 0));
    assert_false(dt_elector_leads(e, 1));
    assert_int_equal(world.holder[1], 0);
}

STARTED_TEST(a_member_that_joins_later_gets_its_share)
{
    lead_both(e);
    add_member(SOMEBODY, 0, 0);
    now_us += PERIOD_US;
    settle(e);
    assert_int_equal(released[1], 1); /* the highest number first */
    assert_int_equal(released[0], 0);
}

STARTED_TEST(a_member_that_was_ended_joins_under_another_number)
{
    lead_both(e);
    int64_t was = fake.order.member;
    now_us += PERIOD_US;
    step(e);
    answer_with(DT_OK);
    fake.answer.gone = true;
    world = (struct dt_election){0};
    step(e);
    assert_int_equal(lost[0] + lost[1], 2);
    assert_false(dt_elector_leads(e, 0));
    assert_true(fake.busy && fake.order.join);
    assert_int_not_equal(fake.order.member, was);
    settle(e);
    assert_int_equal(gained[0] + gained[1], 4);
}

STARTED_TEST(a_join_whose_answer_was_lost_is_tried_under_the_same_number)
{
    step(e);
    int64_t was = fake.order.member;
    answer_with(DT_UNAVAILABLE);
    step(e);
    assert_false(fake.busy); /* not at once */
    now_us = dt_elector_next_us(e);
    step(e);
    assert_true(fake.busy && fake.order.join);
    assert_int_equal(fake.order.member, was);
}

STARTED_TEST(a_renewal_that_failed_is_tried_again_within_the_lease)
{
    lead_both(e);
    now_us += PERIOD_US;
    step(e);
    answer_with(DT_UNAVAILABLE);
    step(e);
    assert_true(dt_elector_next_us(e) < now_us + 100000);
    now_us = dt_elector_next_us(e);
    step(e);
    assert_true(fake.busy && fake.order.renew);
    answer_and_step(e);
    assert_int_equal(lost[0] + lost[1], 0);
}

/* The other member and its leases, as this one has seen them twice. */
static void see_somebody_with_both(dt_elector *e)
{
    add_member(SOMEBODY, 5, 0);
    world.holder[0] = world.holder[1] = SOMEBODY;
    settle(e);
}

/* Answers until nothing is to be done now, or somebody is to be ended. */
static void settle_but_ends(dt_elector *e)
{
    step(e);
    while (fake.busy && fake.order.n_over == 0) {
        answer_and_step(e);
    }
}

/* The answers say how old somebody's renewal is by now. Ends early when it is to be ended. */
static void pass_until(dt_elector *e, int64_t until_us, int64_t since_us)
{
    while (now_us < until_us && !fake.busy) {
        now_us = dt_earlier(dt_elector_next_us(e), until_us);
        world.members[0].age_ms = (now_us - since_us) / 1000;
        settle_but_ends(e);
    }
}

STARTED_TEST(a_member_that_is_silent_is_ended_after_its_timeout_and_not_before)
{
    int64_t begun_us = now_us;
    see_somebody_with_both(e);
    pass_until(e, begun_us + TIMEOUT_US - 1000, begun_us);
    assert_false(fake.busy && fake.order.n_over > 0);
    pass_until(e, begun_us + TIMEOUT_US + 400000, begun_us);
    assert_true(fake.busy);
    assert_int_equal(fake.order.n_over, 1);
    assert_members(fake.order.over[0], (id, SOMEBODY), (renewals, 5));
    assert_true(now_us <= begun_us + TIMEOUT_US + 1000);
}

STARTED_TEST(a_jump_of_the_servers_clock_ends_no_member_seen_to_renew)
{
    int64_t begun_us = now_us;
    see_somebody_with_both(e);
    for (int i = 0; i < 40; i++) {
        now_us = dt_elector_next_us(e);
        world.members[0].renewals += (now_us - begun_us) / PERIOD_US > world.members[0].renewals - 5;
        world.members[0].age_ms = i % 2 ? -3600000 : 3600000;
        settle_but_ends(e);
        assert_false(fake.busy);
    }
    assert_int_equal(gained[0] + gained[1], 0);
}

STARTED_TEST(while_zookeeper_elects_other_dispatchers_all_shards_are_released)
{
    lead_both(e);
    world.elsewhere = true;
    now_us += PERIOD_US;
    settle(e);
    assert_int_equal(released[0] + released[1], 2);
    dt_elector_released(e, 0);
    dt_elector_released(e, 1);
    settle(e);
    assert_int_equal(world.holder[0] + world.holder[1], 0);
    now_us += PERIOD_US;
    settle(e);
    assert_true(dt_elector_idle(e));
    world.elsewhere = false;
    now_us += PERIOD_US;
    settle(e);
    assert_int_equal(gained[0] + gained[1], 4);
}

static int moved;

static void on_moved(void *)
{
    moved++;
}

STARTED_TEST(a_released_shard_is_announced_and_other_members_poll_at_once)
{
    lead_both(e);
    e->events.moved = on_moved;
    moved = 0;
    unsigned asked = fake.asked;
    now_us += 100000;
    dt_elector_news(e);
    settle(e);
    assert_int_equal(fake.asked, asked + 1);
    assert_false(fake.order.renew);
    assert_int_equal(moved, 0);
    dt_elector_news(e);
    settle(e);
    assert_int_equal(fake.asked, asked + 1); /* not so soon after the other */
    assert_true(dt_elector_next_us(e) <= now_us + 50000);
    dt_elector_leave(e);
    settle(e);
    assert_int_equal(moved, 1);
    dt_elector_released(e, 0);
    settle(e);
    assert_int_equal(moved, 2);
}

/* Two statements a period: a renewal and a look. */
STARTED_TEST(an_idle_elector_sends_one_order_per_period)
{
    lead_both(e);
    add_member(SOMEBODY, 0, 0);
    world.holder[1] = SOMEBODY;
    now_us += PERIOD_US;
    settle(e);
    unsigned asked = fake.asked;
    for (int i = 0; i < 10; i++) {
        world.members[1].renewals++;
        now_us = dt_elector_next_us(e);
        settle(e);
    }
    assert_int_equal(fake.asked - asked, 10);
    assert_true(now_us >= 1000000000 + 10 * PERIOD_US);
}
