/*
 * An elector by leases in MySQL. The elector's thread, or a test that calls dt_elector_step, runs all of it;
 * lease_link.c carries out its orders to MySQL.
 *
 *   every 0.3 timeouts    one statement renews the member and with it all of its leases; one reads all leases
 *   at once               if a shard was released or can be taken, or a member can be ended
 *   below its share       polls after 10 ms, 20 ms, … up to 0.3 timeouts, while other members must give shards back
 *
 * One order runs at a time. Each answer ends with a view (the leases and members in MySQL), and only a view changes
 * which shards this process holds.
 *
 *   NONE ──the view names us──▶ LED ──above share──▶ RELEASING ──released──▶ DROPPING ──not named by the view──▶ NONE
 *                                │                      └──lease over: lost──────▲
 *                                └──lease over, or not named by the view: lost──▶ NONE
 *
 * Invariants:
 *   - A shard is gained only while the lease runs, and only if a view names this member as its holder, and the member
 *     has not ended. If a view still does so after the lease expired, the shard is gained again as soon as a renewal is
 *     answered.
 *   - A member is ended only when two clocks agree. MySQL's clock says that the member's timeout has passed since its
 *     renewal; the statement that ends it checks that again, under the row's lock. And this process has seen the
 *     member's count of renewals unchanged for two thirds of the member's timeout, by its own monotonic clock. The
 *     member steps down two thirds of the timeout after it sent that renewal, which was before any process could see
 *     it. So no shard is taken over while its leader still relies on its lease, even if MySQL's clock jumps. A count is
 *     seen within 0.3 timeouts of its renewal, so the second condition is seldom met later than the first.
 *   - The elector never waits for an answer, except briefly when it ends.
 *
 * While ZooKeeper elects a live dispatcher, members lead nothing: the two would fence each other in turn. So an
 * installation changes from ZooKeeper to leases and back in a rolling restart, each dispatcher by its own
 * configuration.
 */

#include "base/fail_point.h"
#include "base/log.h"
#include "elector_kind.h"
#include "lease_link.h"

#define BACKOFF_MIN_US INT64_C(50000)
#define BACKOFF_MAX_US INT64_C(1000000)
#define LOOK_MIN_US    INT64_C(10000)
#define NEWS_APART_US  INT64_C(50000) /* shortest time between polls, however many notifications arrive */
#define CLOSE_WAIT_US  INT64_C(300000)
#define OWNER_MAX      100 /* length of election_members.name */

enum hold { HOLD_NONE, HOLD_LED, HOLD_RELEASING, HOLD_DROPPING };

struct lease_watch {
    struct dt_election_member member;
    int64_t seen_us; /* mono: when this process first saw the member's current count of renewals */
    int64_t over_us; /* mono: when the member's timeout ends by MySQL's clock; may be in the past */
};

struct mysql_elector {
    struct dt_elector base;

    /* Members that are set once. */
    dt_lease_link *link;
    char *owner;
    int64_t timeout_us;

    /* State of this membership. */
    int64_t member; /* id of this member; 0: not chosen yet */
    bool joined;
    bool told_leaving; /* the row says that this member is leaving, so the other members know */
    bool known;        /* the members and leases in MySQL were read since this member joined */
    struct dt_election view;
    unsigned n_members, rank; /* number of members, and our rank among them; members that take no shards do not count */
    enum hold holds[DT_SHARDS_MAX];
    struct lease_watch watches[DT_ELECTION_MEMBERS];
    size_t n_watches;

    /* When to send the next order to MySQL. */
    int64_t renewed_us; /* mono: when the latest renewal was ordered */
    int64_t asked_us;   /* mono: when the latest order was submitted */
    int64_t pause_us;   /* pause between polls while this member leads less than its share; 0: it leads its share */
    bool took;          /* the latest order took shards; shards that it did not get are not requested again at once */
    bool drops;         /* at least one shard must be given back */
    /* The latest order gives shards back, or stores that this member is leaving: when it is done, other members are
     * notified. */
    bool tells;
    struct dt_outage_part outage;
};

static struct mysql_elector *elector_of(dt_elector *base)
{
    return (struct mysql_elector *)base; /* base is the first member */
}

static int64_t period_us(const struct mysql_elector *e)
{
    return e->timeout_us * 3 / 10;
}

static bool is_leaving(const struct mysql_elector *e)
{
    return atomic_load(&e->base.leaving);
}

/* ---- the other members ---- */

static void update_watches(struct mysql_elector *e, int64_t read_us)
{
    struct lease_watch now[DT_ELECTION_MEMBERS];
    size_t n = 0;
    for (size_t i = 0; i < e->view.n; i++) {
        const struct dt_election_member *m = &e->view.members[i];
        int64_t seen_us = read_us;
        int64_t left_ms = m->age_ms < 0 || m->age_ms >= m->timeout_ms ? 0 : m->timeout_ms - m->age_ms;
        if (m->id == e->member)
            continue;
        for (size_t k = 0; k < e->n_watches; k++) {
            const struct lease_watch *was = &e->watches[k];
            if (was->member.id == m->id && was->member.renewals == m->renewals)
                seen_us = was->seen_us;
        }
        now[n++] = (struct lease_watch){*m, seen_us, read_us + left_ms * 1000};
    }
    for (size_t i = 0; i < n; i++)
        e->watches[i] = now[i];
    e->n_watches = n;
}

/* Returns when the member may be ended (monotonic), if it does not renew its leases before. */
static int64_t lease_may_end_at_us(const struct lease_watch *w)
{
    return dt_later(w->seen_us + w->member.timeout_ms * 2000 / 3, w->over_us);
}

/* ---- the shards ---- */

static bool is_leading(enum hold hold)
{
    return hold == HOLD_LED || hold == HOLD_RELEASING;
}

/* Only this function changes the state of a shard. */
static void set_hold(struct mysql_elector *e, unsigned shard, enum hold hold)
{
    dt_assert(hold != HOLD_LED || e->holds[shard] == HOLD_NONE);
    dt_assert(hold != HOLD_RELEASING || e->holds[shard] == HOLD_LED);
    e->holds[shard] = hold;
    dt_elector_set_leads(&e->base, shard, is_leading(hold));
}

static void lose_shard_hold(struct mysql_elector *e, unsigned shard, enum hold hold)
{
    set_hold(e, shard, hold);
    e->base.events.want(e->base.events.arg, shard, DT_WANT_NOTHING);
}

static void update_holds(struct mysql_elector *e)
{
    const int64_t now_us = dt_clock_mono_us(e->base.clock);
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        const bool ours = e->view.holder[s] == e->member;
        const enum hold hold = e->holds[s];
        if (!ours && is_leading(hold)) {
            lose_shard_hold(e, s, HOLD_NONE);
        } else if (!ours && hold == HOLD_DROPPING) {
            set_hold(e, s, HOLD_NONE);
        } else if (ours && hold == HOLD_NONE) {
            if (is_leaving(e) || e->view.elsewhere) { /* given back at once: another member must lead it */
                set_hold(e, s, HOLD_DROPPING);
            } else if (dt_lease_runs(&e->base.lease, now_us)) {
                set_hold(e, s, HOLD_LED);
                e->base.events.want(e->base.events.arg, s, DT_WANT_LEAD);
            }
        }
    }
}

/* Loses every shard that this process leads. A release that has begun continues. */
static void lose_all_holds(struct mysql_elector *e, const char *why)
{
    const unsigned n = atomic_load(&e->base.n_leads);
    if (n == 0)
        return;
    DT_LOG(WARN, "elector", "stepping down", DT_S("reason", why), DT_I("shards", n));
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (is_leading(e->holds[s]))
            lose_shard_hold(e, s, e->holds[s] == HOLD_RELEASING ? HOLD_DROPPING : HOLD_NONE);
}

/* ---- answers ---- */

/* The membership has ended: another member ended it, or its row is missing. The next membership has another number. */
static void end_membership(struct mysql_elector *e, const char *why)
{
    lose_all_holds(e, why);
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        set_hold(e, s, HOLD_NONE);
    dt_lease_end(&e->base.lease);
    e->member = 0;
    e->joined = e->known = e->told_leaving = false;
    e->n_watches = 0;
}

static void apply_view(struct mysql_elector *e, const struct dt_lease_answer *answer)
{
    bool found = false;
    e->base.backoff_us = BACKOFF_MIN_US;
    dt_outage_over(&e->outage);
    if (answer->gone) {
        end_membership(e, "another process has removed this member after its timeout");
        return;
    }
    if (!e->joined)
        DT_LOG(INFO, "elector", "joined the election", DT_I("member", e->member));
    e->joined = true;
    e->view = answer->view;
    e->n_members = e->rank = 0;
    for (size_t i = 0; i < e->view.n; i++) {
        const struct dt_election_member *m = &e->view.members[i];
        if (m->id == e->member) {
            found = true;
            e->rank = e->n_members;
        }
        e->n_members += !m->leaving;
    }
    if (found) {
        e->known = true;
        if (e->n_members > 0 && !is_leaving(e))
            dt_elector_set_place(&e->base, e->rank, e->n_members);
        update_watches(e, answer->read_us);
        update_holds(e);
    } else {
        end_membership(e, "MySQL no longer has this process as a member");
    }
    if (e->tells && e->base.events.moved) {
        DT_FAIL_POINT("election.moved");
        e->base.events.moved(e->base.events.arg);
    }
}

static void read_answer(struct mysql_elector *e)
{
    const struct dt_lease_answer *answer = dt_lease_link_take(e->link);
    if (!answer)
        return;
    if (answer->status == DT_OK) {
        apply_view(e, answer);
        return;
    }
    e->renewed_us = 0; /* it is unknown whether MySQL has the renewal, so the next order renews again */
    e->told_leaving = false;
    dt_outage_failed(&e->outage, DT_OUTAGE_MYSQL, "elector", "the election does not continue", answer->status,
                     &answer->err);
    dt_elector_back_off(&e->base, BACKOFF_MAX_US);
}

/* ---- the plan ---- */

static void serve_plan(struct mysql_elector *e)
{
    const bool leaving = is_leaving(e);
    struct dt_share_plan *plan = &e->base.plan;
    bool mine[DT_SHARDS_MAX];
    bool taken[DT_SHARDS_MAX];
    const struct dt_share_view view = {.shards = atomic_load(&e->base.shards),
                                       .members = e->n_members,
                                       .rank = e->rank,
                                       .leaving = leaving || e->view.elsewhere,
                                       .mine = mine,
                                       .taken = taken};
    plan->n_take = 0;
    if (e->known || leaving) {
        for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
            mine[s] = e->holds[s] == HOLD_LED;
            taken[s] = e->view.holder[s] != 0 || e->holds[s] != HOLD_NONE;
        }
        dt_share_plan(&view, plan);
        for (size_t i = 0; i < plan->n_release; i++) {
            if (e->holds[plan->release[i]] != HOLD_LED)
                continue;
            set_hold(e, plan->release[i], HOLD_RELEASING);
            e->base.events.want(e->base.events.arg, plan->release[i], DT_WANT_RELEASE);
        }
    }
    if (!e->known)
        plan->n_take = 0;
    /* While this member leads less than its share, it polls, with growing pauses, because other members may first have
     * to give shards back. */
    if (!e->known || view.leaving || e->n_members == 0 ||
        atomic_load(&e->base.n_leads) >= dt_share_of(view.shards, e->n_members, e->rank))
        e->pause_us = 0;
    else if (e->pause_us == 0)
        e->pause_us = LOOK_MIN_US;
}

/* ---- orders ---- */

static int compare_i64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return DT_ORDER(x, y);
}

static void submit_order(struct mysql_elector *e, int64_t now_us)
{
    struct dt_lease_order *order = dt_lease_link_order(e->link);
    const bool leaving = is_leaving(e);
    if (e->member == 0)
        e->member = (int64_t)((dt_elector_random(&e->base) >> 1) | 1);
    order->member = e->member;
    order->join = !e->joined;
    order->renew = e->joined && (now_us >= e->renewed_us + period_us(e) || (leaving && !e->told_leaving));
    order->leaving = leaving;
    order->leave = false;
    if (order->join || order->renew)
        e->renewed_us = now_us;
    order->n_over = order->n_drop = 0;
    for (size_t i = 0; i < e->n_watches; i++)
        if (now_us >= lease_may_end_at_us(&e->watches[i]))
            order->over[order->n_over++] = e->watches[i].member;
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (e->holds[s] == HOLD_DROPPING)
            order->drop[order->n_drop++] = s;
    order->n_take = e->base.plan.n_take;
    for (size_t i = 0; i < order->n_take; i++)
        order->take[i] = e->base.plan.take[i];
    qsort(order->take, order->n_take, sizeof(*order->take), compare_i64);
    /* If the last order did not get a shard, its holder may have ended: frees the leases of ended members. */
    order->free = order->n_take && e->took;
    e->tells = order->n_drop > 0 || (order->renew && leaving && !e->told_leaving);
    e->told_leaving = e->told_leaving || (order->renew && leaving);
    e->took = order->n_take > 0;
    atomic_store(&e->base.news, false);
    e->asked_us = now_us;
    e->pause_us = dt_earlier(e->pause_us * 2, period_us(e));
    dt_lease_link_ask(e->link);
}

/* Returns when the next order to MySQL is due (monotonic); 0: now. */
static int64_t next_order_at_us(const struct mysql_elector *e)
{
    if (!e->joined)
        return is_leaving(e) ? INT64_MAX : 0;
    if (e->drops || (is_leaving(e) && !e->told_leaving) || (e->base.plan.n_take > 0 && !e->took))
        return 0;
    int64_t at_us = e->renewed_us + period_us(e);
    for (size_t i = 0; i < e->n_watches; i++)
        at_us = dt_earlier(at_us, lease_may_end_at_us(&e->watches[i]));
    if (atomic_load(&e->base.news))
        at_us = dt_earlier(at_us, e->asked_us + NEWS_APART_US);
    return e->pause_us > 0 ? dt_earlier(at_us, e->asked_us + e->pause_us) : at_us;
}

static void step_elector(dt_elector *base, uint32_t)
{
    struct mysql_elector *e = elector_of(base);
    read_answer(e);
    if (!dt_lease_runs(&base->lease, dt_clock_mono_us(base->clock)))
        lose_all_holds(e, "MySQL has not answered for two thirds of the timeout");
    serve_plan(e);
    const int64_t now_us = dt_clock_mono_us(base->clock);
    e->drops = false;
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) { /* a shard is given back when its loop has ended */
        if (e->holds[s] == HOLD_RELEASING && atomic_load(&base->released[s]))
            set_hold(e, s, HOLD_DROPPING);
        e->drops = e->drops || e->holds[s] == HOLD_DROPPING;
    }
    if (!dt_lease_link_busy(e->link) && now_us >= e->base.not_before_us && now_us >= next_order_at_us(e))
        submit_order(e, now_us);
}

static int64_t next_step_at_us(const dt_elector *base)
{
    const struct mysql_elector *e = (const struct mysql_elector *)base;
    const int64_t lease_us = atomic_load(&base->n_leads) ? atomic_load(&base->lease.until_us) : INT64_MAX;
    if (dt_lease_link_busy(e->link))
        return lease_us;
    return dt_earlier(lease_us, dt_later(next_order_at_us(e), e->base.not_before_us));
}

/* Waits for the answer to the running order. Returns false if no answer arrived in time. */
static bool await_answer(struct mysql_elector *e)
{
    const int64_t until_us = dt_clock_mono_us(e->base.clock) + CLOSE_WAIT_US;
    while (dt_lease_link_busy(e->link) && !dt_lease_link_take(e->link) && dt_clock_mono_us(e->base.clock) < until_us)
        dt_mailbox_wait(e->base.box, until_us);
    return !dt_lease_link_busy(e->link);
}

/* Ends our membership, so that the other members do not wait for its timeout. */
static void leave_election(dt_elector *base)
{
    struct mysql_elector *e = elector_of(base);
    lose_all_holds(e, "this process leaves the election");
    if (!await_answer(e) || e->member == 0)
        return;
    struct dt_lease_order *order = dt_lease_link_order(e->link);
    order->member = e->member;
    order->leave = true;
    dt_lease_link_ask(e->link);
    (void)await_answer(e);
}

static void free_mysql_elector(dt_elector *base)
{
    struct mysql_elector *e = elector_of(base);
    dt_lease_link_free(e->link);
    free(e->owner);
    free(e);
}

static dt_status make_mysql_elector(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out,
                                    struct dt_error *err)
{
    struct mysql_elector *e = calloc(1, sizeof(*e));
    if (!e)
        return dt_fail(err, DT_NOMEM, "out of memory");
    e->timeout_us = env->config->zookeeper_session_timeout * 1000;
    e->base.backoff_us = BACKOFF_MIN_US;
    dt_lease_set_timeout(&e->base.lease, (int)env->config->zookeeper_session_timeout);
    e->owner = strndup(env->owner, OWNER_MAX);
    const struct dt_lease_link_env link = {.urgent = env->urgent,
                                           .config = env->config,
                                           .clock = env->clock,
                                           .name = e->owner,
                                           .box = box,
                                           .lease = &e->base.lease};
    const dt_status status = e->owner ? dt_lease_link_new(&link, &e->link) : dt_fail(err, DT_NOMEM, "out of memory");
    if (status == DT_OK)
        *out = &e->base;
    else
        free_mysql_elector(&e->base);
    return status;
}

const struct dt_elector_kind dt_elector_mysql = {.name = "mysql",
                                                 .server = DT_OUTAGE_MYSQL,
                                                 .make = make_mysql_elector,
                                                 .step = step_elector,
                                                 .next_us = next_step_at_us,
                                                 .close = leave_election,
                                                 .free = free_mysql_elector};
