/*
 * Owns:            the elector's connection to MySQL, and the one order that is under way.
 * Refuses to know: why something is ordered.
 * Invariant:       the order is the elector's while nothing is under way, and the link's thread's otherwise; so is the
 *                  answer.
 */
#include "lease_link.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/thread.h"

#define ORDER       UINT32_C(1)   /* a signal to the link's thread */
#define IO_FLOOR_MS INT64_C(1000) /* the client library counts in seconds */

struct dt_lease_link {
    struct dt_lease_link_env env;
    struct dt_config config; /* with time limits that fit the election's timeout */
    dt_store *store;
    dt_mailbox *box; /* of the link's thread */
    struct dt_thread thread;
    bool apart;            /* the link's thread's: renewal and look are two statements */
    bool busy;             /* the elector's */
    _Atomic bool answered; /* handed over by it */
    struct dt_lease_order order;
    struct dt_lease_answer answer;
};

/* ---- the link's thread ---- */

static int64_t mono_us(const dt_lease_link *link)
{
    return dt_clock_mono_us(link->env.clock);
}

static dt_status leave(dt_lease_link *link, struct dt_error *err)
{
    dt_status status = dt_store_election_leave(link->store, link->order.member, err);
    return status == DT_OK ? dt_store_election_free(link->store, err) : status;
}

/* Draws no new number when the answer to a join was lost: a row that is there already is this process's. */
static dt_status join(dt_lease_link *link, struct dt_error *err)
{
    dt_status status = dt_store_election_join(link->store, link->order.member, link->env.name,
                                              link->config.zookeeper_session_timeout, err);
    return status == DT_EXISTS ? DT_OK : status;
}

/* The lease runs from before the statement was sent, so the row lasts longer than the lease whatever the way took. */
static dt_status announce(dt_lease_link *link, bool *there, struct dt_error *err)
{
    const struct dt_lease_order *order = &link->order;
    int64_t sent_us = mono_us(link);
    dt_status status = DT_OK;
    *there = true;
    if (order->join)
        status = join(link, err);
    if (status == DT_OK && order->renew)
        status = dt_store_election_renew(link->store, order->member, order->leaving, there, err);
    if (status == DT_OK && *there && (order->join || order->renew))
        dt_lease_extend(link->env.lease, sent_us);
    return status;
}

static dt_status end_silent(dt_lease_link *link, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (size_t i = 0; i < link->order.n_over && status == DT_OK; i++)
        status = dt_store_election_end(link->store, link->order.over[i].id, link->order.over[i].renewals, err);
    return status;
}

/* Somebody who was faster shows in the view. */
static dt_status take(dt_lease_link *link, struct dt_error *err)
{
    const struct dt_lease_order *order = &link->order;
    dt_status status = dt_store_election_take(link->store, order->member, order->take, order->n_take, err);
    return status == DT_EXISTS ? DT_OK : status;
}

static dt_status change(dt_lease_link *link, struct dt_error *err)
{
    const struct dt_lease_order *order = &link->order;
    dt_status status = end_silent(link, err);
    if (status == DT_OK && (order->n_over || order->free))
        status = dt_store_election_free(link->store, err);
    if (status == DT_OK && order->n_drop)
        status = dt_store_election_release(link->store, order->member, order->drop, order->n_drop, err);
    if (status == DT_OK && order->n_take)
        status = take(link, err);
    return status;
}

/* Nothing but to renew, as nearly always. */
static bool only_renews(const struct dt_lease_order *order)
{
    return order->renew && !order->join && !order->n_over && !order->n_drop && !order->n_take && !order->free;
}

static dt_status renew(dt_lease_link *link, struct dt_lease_answer *answer)
{
    const struct dt_lease_order *order = &link->order;
    int64_t sent_us = mono_us(link);
    bool there = true;
    dt_status status = dt_store_election_renew_and_look(link->store, order->member, order->leaving, &there,
                                                        &answer->view, &answer->err);
    answer->gone = status == DT_OK && !there;
    if (status == DT_OK && there)
        dt_lease_extend(link->env.lease, sent_us);
    return status;
}

/* A server that takes no such statement is asked in the ordinary way for good: a right is missing, or a proxy is
 * between. */
static bool renewed_at_once(dt_lease_link *link, struct dt_lease_answer *answer, dt_status *status)
{
    if (link->apart || !only_renews(&link->order))
        return false;
    *status = renew(link, answer);
    link->apart = *status != DT_OK && *status != DT_UNAVAILABLE && *status != DT_BUSY;
    if (link->apart)
        DT_LOG(INFO, "elector", "leases are renewed and looked at by two statements", DT_S("reason", answer->err.text));
    return !link->apart;
}

static dt_status carry_out(dt_lease_link *link, struct dt_lease_answer *answer)
{
    struct dt_error *err = &answer->err;
    dt_status done;
    bool there;
    if (link->order.leave)
        return leave(link, err);
    if (renewed_at_once(link, answer, &done))
        return done;
    dt_status status = announce(link, &there, err);
    answer->gone = status == DT_OK && !there;
    if (status != DT_OK || !there)
        return status;
    status = change(link, err);
    if (status == DT_BUSY) /* two members at once: the view tells what is still to be done */
        status = DT_OK;
    return status == DT_OK ? dt_store_election_look(link->store, &answer->view, err) : status;
}

static void serve(dt_lease_link *link)
{
    link->answer.err = (struct dt_error){0};
    link->answer.gone = false;
    link->answer.status = carry_out(link, &link->answer);
    link->answer.read_us = mono_us(link);
    atomic_store(&link->answered, true);
    dt_mailbox_signal(link->env.box, DT_LEASE_ANSWERED);
}

static void run(void *arg)
{
    dt_lease_link *link = arg;
    while (!dt_thread_stopping(&link->thread)) {
        if (dt_mailbox_wait(link->box, INT64_MAX) & ORDER)
            serve(link);
    }
}

/* ---- the elector's thread ---- */

struct dt_lease_order *dt_lease_link_order(dt_lease_link *link)
{
    return &link->order;
}

void dt_lease_link_ask(dt_lease_link *link)
{
    link->busy = true;
    dt_mailbox_signal(link->box, ORDER);
}

bool dt_lease_link_busy(const dt_lease_link *link)
{
    return link->busy;
}

const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link)
{
    if (!atomic_exchange(&link->answered, false))
        return NULL;
    link->busy = false;
    return &link->answer;
}

/* ---- life ---- */

/* A server that does not answer is given up, and another connection tried, within the time of a lease where it can
 * be. */
static void limit(struct dt_config *config)
{
    int64_t most_ms = config->zookeeper_session_timeout * 2 / 3;
    if (most_ms < IO_FLOOR_MS)
        most_ms = IO_FLOOR_MS;
    config->mysql_io_timeout = dt_earlier(config->mysql_io_timeout, most_ms);
    config->mysql_connect_timeout = dt_earlier(config->mysql_connect_timeout, most_ms);
    config->mysql_lock_timeout = dt_earlier(config->mysql_lock_timeout, most_ms);
}

void dt_lease_link_free(dt_lease_link *link)
{
    if (!link)
        return;
    dt_thread_stop(&link->thread, link->box);
    dt_store_free(link->store);
    dt_mailbox_free(link->box);
    free(link);
}

dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out, struct dt_error *err)
{
    dt_lease_link *link = calloc(1, sizeof(*link));
    *out = NULL;
    if (!link)
        return dt_fail(err, DT_NOMEM, "elector");
    link->env = *env;
    link->config = *env->config;
    limit(&link->config);
    dt_status status = dt_mailbox_new(&link->box);
    if (status == DT_OK)
        status = dt_store_new(&link->config, NULL, &link->store);
    if (status == DT_OK)
        status = dt_thread_start(&link->thread, "leases", run, link, err);
    if (status != DT_OK) {
        dt_lease_link_free(link);
        return status;
    }
    *out = link;
    return DT_OK;
}
