/*
 * Owns:            what this process has seen of the other members' renewals.
 * Refuses to know: shards.
 *
 * A member may be ended when two clocks agree. MySQL's clock says that the member's timeout has passed since its
 * renewal; that is looked at again, under the row's lock, by the statement that ends it. And this process has seen the
 * member's count stand still for two thirds of the member's timeout by its own monotonic clock. The member steps down
 * two thirds after it sent that renewal, which was before anybody could see it: so nobody takes a shard over while its
 * leader believes in it, whichever way MySQL's clock jumps. A count is seen within 0.3 timeouts of its renewal, so the
 * second rule seldom waits for longer than the first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "lease_link.h"
#include "lease_parts.h"

void dt_watches_update(dt_mysql_elector *e, int64_t read_us)
{
    struct dt_lease_watch now[DT_ELECTION_MEMBERS];
    size_t n = 0;

    for (size_t i = 0; i < e->view.n; i++) {
        const struct dt_election_member *m = &e->view.members[i];
        int64_t seen_us = read_us;
        int64_t left_ms = m->age_ms < 0 || m->age_ms >= m->timeout_ms ? 0 : m->timeout_ms - m->age_ms;

        if (m->id == e->member)
            continue;
        for (size_t k = 0; k < e->n_watches; k++) {
            const struct dt_lease_watch *was = &e->watches[k];

            if (was->member.id == m->id && was->member.renewals == m->renewals)
                seen_us = was->seen_us;
        }
        now[n++] = (struct dt_lease_watch){*m, seen_us, read_us + left_ms * 1000};
    }
    for (size_t i = 0; i < n; i++)
        e->watches[i] = now[i];
    e->n_watches = n;
}

static int64_t end_us(const struct dt_lease_watch *w)
{
    const int64_t seen_us = w->seen_us + w->member.timeout_ms * 2000 / 3;

    return dt_later(seen_us, w->over_us);
}

size_t dt_watches_over(const dt_mysql_elector *e, int64_t now_us, struct dt_election_member *over)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_watches; i++)
        if (now_us >= end_us(&e->watches[i]))
            over[n++] = e->watches[i].member;
    return n;
}

int64_t dt_watches_next_us(const dt_mysql_elector *e)
{
    int64_t at_us = INT64_MAX;

    for (size_t i = 0; i < e->n_watches; i++)
        at_us = dt_earlier(at_us, end_us(&e->watches[i]));
    return at_us;
}

/*
 * Owns:            what this process may believe of each shard.
 * Refuses to know: who should lead what (elector_share.c), and what leading a shard means.
 *
 *   NONE ──the view names us──▶ LED ──above share──▶ RELEASING ──released──▶ DROPPING ──not named by the view──▶ NONE
 *                                │                      └──lease over: lost──────▲
 *                                └──lease over, or not named by the view: lost──▶ NONE
 *
 * Invariants:
 *   - A shard is gained only while the lease runs, and only because a view named this member, which has not ended:
 *     nothing is believed because it was ordered.
 *   - After the lease a view that names us still gains the shard once more, as soon as a renewal was answered.
 */

static bool leads_in(enum dt_hold hold)
{
    return hold == DT_HOLD_LED || hold == DT_HOLD_RELEASING;
}

/* The one place where it changes. */
static void hold_to(dt_mysql_elector *e, unsigned shard, enum dt_hold hold)
{
    dt_assert(hold != DT_HOLD_LED || e->holds[shard] == DT_HOLD_NONE);
    dt_assert(hold != DT_HOLD_RELEASING || e->holds[shard] == DT_HOLD_LED);
    e->holds[shard] = hold;
    if (hold == DT_HOLD_LED)
        atomic_store(&e->base.released[shard], false);
    dt_elector_set_leads(&e->base, shard, leads_in(hold));
}

static void lose(dt_mysql_elector *e, unsigned shard, enum dt_hold hold)
{
    hold_to(e, shard, hold);
    e->base.events.lost(e->base.events.arg, shard);
}

void dt_holds_update(dt_mysql_elector *e, int64_t now_us)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        const bool ours = e->view.holder[s] == e->member;
        const enum dt_hold hold = e->holds[s];

        if (!ours && leads_in(hold)) {
            lose(e, s, DT_HOLD_NONE);
        } else if (!ours && hold == DT_HOLD_DROPPING) {
            hold_to(e, s, DT_HOLD_NONE);
        } else if (ours && hold == DT_HOLD_NONE) {
            if (atomic_load(&e->base.leaving) || e->view.elsewhere) { /* given back at once: others are to lead */
                hold_to(e, s, DT_HOLD_DROPPING);
            } else if (dt_lease_runs(&e->base.lease, now_us)) {
                hold_to(e, s, DT_HOLD_LED);
                e->base.events.gained(e->base.events.arg, s);
            }
        }
    }
}

void dt_holds_release(dt_mysql_elector *e, unsigned shard)
{
    if (e->holds[shard] != DT_HOLD_LED)
        return;
    hold_to(e, shard, DT_HOLD_RELEASING);
    e->base.events.release(e->base.events.arg, shard);
}

void dt_holds_lose_all(dt_mysql_elector *e, const char *why)
{
    const unsigned n = atomic_load(&e->base.n_leads);

    if (n == 0)
        return;
    DT_LOG(WARN, "elector", "stepping down", DT_S("reason", why), DT_I("shards", n));
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (leads_in(e->holds[s]))
            lose(e, s, e->holds[s] == DT_HOLD_RELEASING ? DT_HOLD_DROPPING : DT_HOLD_NONE);
}

void dt_holds_forget(dt_mysql_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        hold_to(e, s, DT_HOLD_NONE);
}

bool dt_holds_serve(dt_mysql_elector *e)
{
    bool drops = false;

    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->holds[s] == DT_HOLD_RELEASING && atomic_load(&e->base.released[s]))
            hold_to(e, s, DT_HOLD_DROPPING);
        drops = drops || e->holds[s] == DT_HOLD_DROPPING;
    }
    return drops;
}

size_t dt_holds_dropping(const dt_mysql_elector *e, int64_t *shards)
{
    size_t n = 0;

    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (e->holds[s] == DT_HOLD_DROPPING)
            shards[n++] = s;
    return n;
}

void dt_holds_view(const dt_mysql_elector *e, bool *mine, bool *taken)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        mine[s] = e->holds[s] == DT_HOLD_LED;
        taken[s] = e->view.holder[s] != 0 || e->holds[s] != DT_HOLD_NONE;
    }
}

/*
 * Owns:            what an elector by leases does at each step: it reads the answer, plans, and gives the next order.
 * Refuses to know: SQL, and what leading a shard means.
 *
 *   every 0.3 timeouts    one statement renews the member and with it all of its leases; one reads who holds what
 *   when something is to  a shard was released, or can be taken; a member is over: at once
 *   below its share       looks after 10 ms, 20 ms, … up to 0.3 timeouts, as long as others have to give shards back
 *
 * One order is under way at a time, and nothing is believed because it was ordered: the view that ends each answer says
 * what is ours.
 *
 * While ZooKeeper elects a dispatcher that lives, members lead nothing: they would fence each other in turn. So an
 * installation goes from ZooKeeper to leases and back in a rolling restart, each dispatcher by its own configuration.
 *
 * Invariant: no answer is waited for, but for a moment when the elector ends.
 */

#define BACKOFF_MIN_US INT64_C(50000)
#define BACKOFF_MAX_US INT64_C(1000000)
#define LOOK_MIN_US    INT64_C(10000)
#define NEWS_APART_US  INT64_C(50000) /* looks, however much is announced */
#define CLOSE_WAIT_US  INT64_C(300000)
#define OWNER_MAX      100 /* election_members.name */

static dt_mysql_elector *of(dt_elector *base)
{
    return (dt_mysql_elector *)base; /* its first member */
}

static int64_t period_us(const dt_mysql_elector *e)
{
    return e->timeout_us * 3 / 10;
}

static bool is_leaving(const dt_mysql_elector *e)
{
    return atomic_load(&e->base.leaving);
}

/* ---- answers ---- */

/* The membership is over: another one ended it, or its row is gone. The next one has another number. */
static void forget(dt_mysql_elector *e, const char *why)
{
    dt_holds_lose_all(e, why);
    dt_holds_forget(e);
    dt_lease_end(&e->base.lease);
    e->member = 0;
    e->joined = e->known = e->told_leaving = false;
    e->n_watches = 0;
}

static void take_good_answer(dt_mysql_elector *e, const struct dt_lease_answer *answer)
{
    bool found = false;

    e->backoff_us = BACKOFF_MIN_US;
    dt_outage_over(&e->outage);
    if (answer->gone) {
        forget(e, "another process has ended the member after its timeout");
        return;
    }
    if (!e->joined)
        DT_LOG(INFO, "elector", "joined", DT_I("member", e->member));
    e->joined = true;
    e->view = answer->view;
    e->n_members = e->rank = 0; /* of those who take shards */
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
        dt_watches_update(e, answer->read_us);
        dt_holds_update(e, dt_clock_mono_us(e->base.clock));
    } else {
        forget(e, "the member is not there any more");
    }
    if (e->tells && e->base.events.moved) {
        DT_FAIL_POINT("election.moved");
        e->base.events.moved(e->base.events.arg);
    }
}

static void read_answer(dt_mysql_elector *e)
{
    const struct dt_lease_answer *answer = dt_lease_link_take(e->link);
    const int64_t step_us = e->backoff_us;

    if (!answer)
        return;
    if (answer->status == DT_OK) {
        take_good_answer(e, answer);
        return;
    }
    e->renewed_us = 0; /* perhaps it did not get there: once more with the next order */
    e->told_leaving = false;
    dt_outage_failed(&e->outage, DT_OUTAGE_MYSQL, "elector", "the election waits", answer->status, &answer->err);
    e->not_before_us = dt_clock_mono_us(e->base.clock) + step_us / 2 +
                       (int64_t)(dt_elector_random(&e->base) % (uint64_t)(step_us / 2));
    e->backoff_us = dt_earlier(step_us * 2, BACKOFF_MAX_US);
}

/* ---- the plan ---- */

static void serve_plan(dt_mysql_elector *e)
{
    const bool leaving = is_leaving(e);
    bool mine[DT_SHARDS_MAX];
    bool taken[DT_SHARDS_MAX];
    const struct dt_share_view view = {.shards = atomic_load(&e->base.shards),
                                       .members = e->n_members,
                                       .rank = e->rank,
                                       .leaving = leaving || e->view.elsewhere,
                                       .mine = mine,
                                       .taken = taken};

    e->base.plan.n_take = 0;
    if (e->known || leaving) {
        dt_holds_view(e, mine, taken);
        dt_share_plan(&view, &e->base.plan);
        for (size_t i = 0; i < e->base.plan.n_release; i++)
            dt_holds_release(e, e->base.plan.release[i]);
    }
    if (!e->known)
        e->base.plan.n_take = 0;
    /* While this member should lead more than it does, and others may have to give something back first, the view is
     * looked at again, less and less often. */
    if (!e->known || view.leaving || e->n_members == 0 ||
        atomic_load(&e->base.n_leads) >= dt_share_of(view.shards, e->n_members, e->rank))
        e->pause_us = 0;
    else if (e->pause_us == 0)
        e->pause_us = LOOK_MIN_US;
}

/* ---- orders ---- */

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void give_order(dt_mysql_elector *e, int64_t now_us)
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
    order->n_over = dt_watches_over(e, now_us, order->over);
    order->n_drop = dt_holds_dropping(e, order->drop);
    order->n_take = e->base.plan.n_take;
    for (size_t i = 0; i < order->n_take; i++)
        order->take[i] = e->base.plan.take[i];
    qsort(order->take, order->n_take, sizeof(*order->take), by_number);
    order->free = order->n_take && e->took; /* what could not be taken may be left of a member that has ended */
    e->tells = order->n_drop > 0 || (order->renew && leaving && !e->told_leaving); /* others wait for it */
    e->told_leaving = e->told_leaving || (order->renew && leaving);
    e->took = order->n_take > 0;
    atomic_store(&e->base.news, false);
    e->asked_us = now_us;
    e->pause_us = dt_earlier(e->pause_us * 2, period_us(e));
    dt_lease_link_ask(e->link);
}

/* Mono: when the next order is due; 0: now. */
static int64_t order_due_us(const dt_mysql_elector *e)
{
    int64_t at_us;

    if (!e->joined)
        return is_leaving(e) ? INT64_MAX : 0;
    if (e->drops || (is_leaving(e) && !e->told_leaving) || (e->base.plan.n_take > 0 && !e->took))
        return 0;
    at_us = dt_earlier(e->renewed_us + period_us(e), dt_watches_next_us(e));
    if (atomic_load(&e->base.news))
        at_us = dt_earlier(at_us, e->asked_us + NEWS_APART_US);
    return e->pause_us > 0 ? dt_earlier(at_us, e->asked_us + e->pause_us) : at_us;
}

/* ---- the step ---- */

static void step(dt_elector *base, uint32_t signals)
{
    dt_mysql_elector *e = of(base);

    (void)signals;
    read_answer(e);
    if (!dt_lease_runs(&base->lease, dt_clock_mono_us(base->clock)))
        dt_holds_lose_all(e, "MySQL has not answered for two thirds of the timeout");
    serve_plan(e);
    const int64_t now_us = dt_clock_mono_us(base->clock);
    e->drops = dt_holds_serve(e);
    if (!dt_lease_link_busy(e->link) && now_us >= e->not_before_us && now_us >= order_due_us(e))
        give_order(e, now_us);
}

static int64_t next_us(const dt_elector *base)
{
    const dt_mysql_elector *e = (const dt_mysql_elector *)base;
    const int64_t lease_us = atomic_load(&base->n_leads) ? atomic_load(&base->lease.until_us) : INT64_MAX;
    int64_t order_us;

    if (dt_lease_link_busy(e->link))
        return lease_us;
    order_us = order_due_us(e);
    return dt_earlier(lease_us, dt_later(order_us, e->not_before_us));
}

/* ---- the end ---- */

/* An answer that is under way; false: it did not come in time. */
static bool await_answer(dt_mysql_elector *e)
{
    const int64_t until_us = dt_clock_mono_us(e->base.clock) + CLOSE_WAIT_US;

    while (dt_lease_link_busy(e->link) && !dt_lease_link_take(e->link) && dt_clock_mono_us(e->base.clock) < until_us)
        dt_mailbox_wait(e->base.box, until_us);
    return !dt_lease_link_busy(e->link);
}

/* Ends the member, so that nobody waits for its timeout. */
static void leave_election(dt_elector *base)
{
    dt_mysql_elector *e = of(base);
    struct dt_lease_order *order;

    dt_holds_lose_all(e, "the elector ends");
    if (!await_answer(e) || e->member == 0)
        return;
    order = dt_lease_link_order(e->link);
    order->member = e->member;
    order->leave = true;
    dt_lease_link_ask(e->link);
    (void)await_answer(e);
}

static void free_mysql(dt_elector *base)
{
    dt_mysql_elector *e = of(base);

    dt_lease_link_free(e->link);
    free(e->owner);
    free(e);
}

/* ---- the beginning ---- */

static dt_status make(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out, struct dt_error *err)
{
    dt_mysql_elector *e = calloc(1, sizeof(*e));

    if (!e)
        return dt_fail(err, DT_NOMEM, "elector");
    e->timeout_us = env->config->zookeeper_session_timeout * 1000;
    e->backoff_us = BACKOFF_MIN_US;
    dt_lease_set_timeout(&e->base.lease, (int)env->config->zookeeper_session_timeout);
    e->owner = strndup(env->owner, OWNER_MAX);
    const struct dt_lease_link_env link = {.urgent = env->urgent,
                                           .config = env->config,
                                           .clock = env->clock,
                                           .name = e->owner,
                                           .box = box,
                                           .lease = &e->base.lease};
    const dt_status status = e->owner ? dt_lease_link_new(&link, &e->link) : dt_fail(err, DT_NOMEM, "elector");
    if (status == DT_OK)
        *out = &e->base;
    else
        free_mysql(&e->base);
    return status;
}

const struct dt_elector_kind dt_elector_mysql = {.name = "mysql",
                                                 .server = DT_OUTAGE_MYSQL,
                                                 .make = make,
                                                 .step = step,
                                                 .next_us = next_us,
                                                 .close = leave_election,
                                                 .free = free_mysql};
