/*
 * Owns:            the one running order to MySQL, which an urgent chore carries out.
 *
 * Refuses to know: why an order is given.
 *
 * Invariant:       while an order runs, the tick of the chore owns order and answer; otherwise the elector owns both.
 */
#include "lease_link.h"

#include "base/log.h"

struct dt_lease_link {
    struct dt_lease_link_env env;
    struct dt_chore chore;
    dt_store *store;       /* the store of the running tick */
    bool apart;            /* used by the tick: renewing the lease and reading the view need two statements */
    bool busy;             /* used by the elector: an order runs, or its answer was not taken yet */
    _Atomic bool ordered;  /* the elector has submitted `order`; the tick may carry it out */
    _Atomic bool answered; /* the tick has carried out the order and filled in `answer`; the elector may read it */
    struct dt_lease_order order;
    struct dt_lease_answer answer;
};

/* ---- the tick ---- */

/* Carries out an order that only renews the lease (nearly every order) with one statement. If the server refuses that
 * statement (a right is missing, or a proxy does not allow it), uses two statements from then on. */
static bool try_renew_in_one_statement(dt_lease_link *link, struct dt_lease_answer *answer, dt_status *status)
{
    const struct dt_lease_order *order = &link->order;
    int64_t sent_us = dt_clock_mono_us(link->env.clock);
    bool there = true;
    if (link->apart || !order->renew || order->join || order->n_over || order->n_drop || order->n_take || order->free)
        return false;
    *status = dt_store_election_renew_and_look(link->store, order->member, order->leaving, &there, &answer->view,
                                               &answer->err);
    answer->gone = *status == DT_OK && !there;
    if (*status == DT_OK && there)
        dt_lease_extend(link->env.lease, sent_us);
    link->apart = *status != DT_OK && *status != DT_UNAVAILABLE && *status != DT_BUSY;
    if (link->apart)
        DT_LOG(INFO, "elector", "dt_renew_member cannot be called: two statements renew and read leases",
               DT_S("reason", answer->err.text));
    return !link->apart;
}

static dt_status carry_out_order(dt_lease_link *link, struct dt_lease_answer *answer)
{
    const struct dt_lease_order *order = &link->order;
    struct dt_error *err = &answer->err;
    bool there = true;
    dt_status status = DT_OK;
    if (order->leave) {
        status = dt_store_election_leave(link->store, order->member, err);
        return status == DT_OK ? dt_store_election_free(link->store, err) : status;
    }
    if (try_renew_in_one_statement(link, answer, &status))
        return status;
    /* The lease counts from before the statement was sent. So it ends before the row expires, however long the
     * statement takes. */
    int64_t sent_us = dt_clock_mono_us(link->env.clock);
    status = order->join ? dt_store_election_join(link->store, order->member, link->env.name,
                                                  link->env.config->zookeeper_session_timeout, err)
                         : DT_OK;
    if (status == DT_EXISTS) /* an earlier join succeeded, but its answer was lost: the row is this process's */
        status = DT_OK;
    if (status == DT_OK && order->renew)
        status = dt_store_election_renew(link->store, order->member, order->leaving, &there, err);
    if (status == DT_OK && there && (order->join || order->renew))
        dt_lease_extend(link->env.lease, sent_us);
    answer->gone = status == DT_OK && !there;
    if (status != DT_OK || !there)
        return status;
    for (size_t i = 0; i < order->n_over && status == DT_OK; i++)
        status = dt_store_election_end(link->store, order->over[i].id, order->over[i].renewals, err);
    if (status == DT_OK && (order->n_over || order->free))
        status = dt_store_election_free(link->store, err);
    if (status == DT_OK && order->n_drop)
        status = dt_store_election_release(link->store, order->member, order->drop, order->n_drop, err);
    if (status == DT_OK && order->n_take) {
        status = dt_store_election_take(link->store, order->member, order->take, order->n_take, err);
        if (status == DT_EXISTS) /* another member took a shard first, as the view that is read below will show */
            status = DT_OK;
    }
    /* Another member's order ran at the same time; the view that is read below shows what remains to do. */
    if (status == DT_BUSY)
        status = DT_OK;
    return status == DT_OK ? dt_store_election_look(link->store, &answer->view, err) : status;
}

static int64_t tick_link(void *arg, void *store)
{
    dt_lease_link *link = arg;
    if (!atomic_exchange(&link->ordered, false))
        return INT64_MAX;
    link->store = store;
    link->answer.err = (struct dt_error){0};
    link->answer.gone = false;
    link->answer.status = carry_out_order(link, &link->answer);
    link->answer.read_us = dt_clock_mono_us(link->env.clock);
    atomic_store(&link->answered, true);
    dt_mailbox_signal(link->env.box, DT_LEASE_ANSWERED);
    return INT64_MAX;
}

/* ---- the elector's thread ---- */

struct dt_lease_order *dt_lease_link_order(dt_lease_link *link)
{
    dt_assert(!link->busy);
    return &link->order;
}

void dt_lease_link_ask(dt_lease_link *link)
{
    dt_assert(!link->busy);
    link->busy = true;
    atomic_store(&link->ordered, true);
    dt_chore_wake(&link->chore);
}

bool dt_lease_link_busy(const dt_lease_link *link)
{
    return link->busy;
}

const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link)
{
    if (!atomic_exchange(&link->answered, false))
        return NULL;
    dt_assert(link->busy);
    link->busy = false;
    return &link->answer;
}

void dt_lease_link_free(dt_lease_link *link)
{
    if (!link)
        return;
    dt_chore_remove(&link->chore);
    free(link);
}

dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out)
{
    dt_lease_link *link = *out = calloc(1, sizeof(*link));
    if (!link)
        return DT_NOMEM;
    link->env = *env;
    link->chore = (struct dt_chore){.name = "leases", .tick = tick_link, .arg = link};
    dt_chores_add(env->urgent, &link->chore);
    return DT_OK;
}
