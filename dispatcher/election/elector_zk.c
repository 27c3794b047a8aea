/*
 * Owns:            what an elector by ZooKeeper does at each step, and its plan.
 * Refuses to know: MySQL, Kafka, and what leading a shard means.
 *
 * One thread does everything. ZooKeeper's threads post replies and signal the mailbox (zk.h); calls of other threads
 * set a flag and signal. Requests are asynchronous throughout, so that a server that hangs cannot keep the thread from
 * telling the shards in time that they are lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elector_parts.h"

enum { BACKOFF_MIN_US = 100000, OWNER_MAX = 200 };

static dt_zk_elector *of(dt_elector *base)
{
    return (dt_zk_elector *)base; /* its first member */
}

/* ---- replies ---- */

static void on_reply(dt_zk_elector *e, struct dt_zk_reply *r)
{
    if (r->outcome == DT_ZK_OK) {
        e->backoff_us = BACKOFF_MIN_US;
        dt_outage_over(&e->outage);
    }
    if (r->outcome != DT_ZK_LOST) /* any answer says that the session lived when the request was sent */
        dt_lease_extend(&e->base.lease, r->sent_us);
    switch ((enum dt_zk_request)r->request) {
    case DT_ASK_PATH:
        dt_zk_elector_session_path_made(e, r);
        break;
    case DT_ASK_JOIN:
        dt_member_joined(e, r);
        break;
    case DT_ASK_QUIT:
        dt_member_quit(e, r);
        break;
    case DT_ASK_MEMBERS:
        dt_member_listed(e, r);
        break;
    case DT_ASK_LEADERS:
        dt_nodes_listed(e, r);
        break;
    case DT_ASK_TAKE:
        dt_nodes_taken(e, r);
        break;
    case DT_ASK_DROP:
        dt_nodes_dropped(e, r);
        break;
    case DT_ASK_LOOK:
        dt_nodes_looked(e, r);
        break;
    case DT_ASK_PING:
        e->pinging = false;
        break;
    }
}

/* ---- the plan ---- */

static bool is_fresh(const struct dt_listing *list)
{
    return list->known && !list->stale && !list->asked;
}

static void serve_plan(dt_zk_elector *e)
{
    bool mine[DT_SHARDS_MAX];
    bool taken[DT_SHARDS_MAX];
    const struct dt_share_view view = {.shards = atomic_load(&e->base.shards),
                                       .members = e->n_members,
                                       .rank = e->rank,
                                       .leaving = atomic_load(&e->base.leaving),
                                       .mine = mine,
                                       .taken = taken};

    if (!view.leaving && !(e->connected && e->joined == DT_JOIN_YES && is_fresh(&e->members) && is_fresh(&e->leaders)))
        return;
    dt_nodes_view(e, mine, taken);
    dt_share_plan(&view, &e->base.plan);
    for (size_t i = 0; i < e->base.plan.n_release; i++)
        dt_nodes_release(e, e->base.plan.release[i]);
    for (size_t i = 0; i < e->base.plan.n_take && e->connected; i++)
        dt_nodes_take(e, e->base.plan.take[i]);
}

/* ---- the step ---- */

static void step(dt_elector *base, uint32_t signals)
{
    dt_zk_elector *e = of(base);

    e->members.stale = e->members.stale || (signals & DT_ELECTOR_MEMBERS) != 0;
    e->leaders.stale = e->leaders.stale || (signals & DT_ELECTOR_LEADERS) != 0;
    for (struct dt_zk_reply *r = dt_zk_take(e->zk), *next; r; r = next) {
        next = r->next;
        dt_assert_cmp(e->outstanding, >, 0);
        e->outstanding--;
        on_reply(e, r);
        dt_zk_reply_free(r);
    }
    if (!dt_lease_runs(&base->lease, dt_clock_mono_us(base->clock)))
        dt_nodes_lose_all(e, "ZooKeeper has not answered for two thirds of the session timeout");
    const bool connected = dt_zk_elector_session_serve(e);
    if (connected)
        dt_zk_elector_session_ping(e);
    else
        dt_nodes_serve_disconnected(e);
    if (connected && dt_clock_mono_us(base->clock) >= e->not_before_us && dt_zk_elector_session_paths_made(e)) {
        dt_member_serve(e);
        if (e->members.stale && !e->members.asked)
            dt_zk_elector_list(e, DT_ASK_MEMBERS);
        if (e->leaders.stale && !e->leaders.asked)
            dt_zk_elector_list(e, DT_ASK_LEADERS);
        dt_nodes_serve(e);
    }
    serve_plan(e);
}

static int64_t next_us(const dt_elector *base)
{
    const dt_zk_elector *e = (const dt_zk_elector *)base;
    const int64_t at_us = dt_zk_elector_session_next_us(e);

    return e->not_before_us > dt_clock_mono_us(base->clock) ? dt_earlier(at_us, e->not_before_us) : at_us;
}

/* ---- life ---- */

static void end_session(dt_elector *base)
{
    dt_zk_elector_session_close(of(base));
}

static void free_zk(dt_elector *base)
{
    dt_zk_elector *e = of(base);

    dt_zk_free(e->zk);
    free(e->servers);
    free(e->owner);
    free(e);
}

static dt_status make_parts(dt_zk_elector *e, const struct dt_elector_env *env, dt_mailbox *box, struct dt_error *err)
{
    int n = snprintf(e->leaders_path, DT_ELECTOR_PATH, "/duetime/%s/leaders", env->installation);

    e->config = env->config;
    e->servers = strdup(env->config->zookeeper_servers);
    e->owner = strndup(env->owner, OWNER_MAX);
    if (!e->servers || !e->owner || dt_zk_new(box, &e->zk) != DT_OK)
        return dt_fail(err, DT_NOMEM, "elector");
    e->members_watch = (struct dt_zk_watch){box, DT_ELECTOR_MEMBERS};
    e->leaders_watch = (struct dt_zk_watch){box, DT_ELECTOR_LEADERS};
    if (n < 0 || n >= DT_ELECTOR_PATH)
        return dt_fail(err, DT_INVALID, "elector: the installation's name is too long");
    snprintf(e->members_path, DT_ELECTOR_PATH, "/duetime/%s/members", env->installation);
    snprintf(e->paths[0], DT_ELECTOR_PATH, "/duetime");
    snprintf(e->paths[1], DT_ELECTOR_PATH, "/duetime/%s", env->installation);
    memcpy(e->paths[2], e->members_path, DT_ELECTOR_PATH);
    memcpy(e->paths[3], e->leaders_path, DT_ELECTOR_PATH);
    return DT_OK;
}

static dt_status make(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out, struct dt_error *err)
{
    dt_zk_elector *e = calloc(1, sizeof(*e));

    if (!e)
        return dt_fail(err, DT_NOMEM, "elector");
    e->backoff_us = BACKOFF_MIN_US;
    e->timeout_ms = (int)env->config->zookeeper_session_timeout;
    dt_lease_set_timeout(&e->base.lease, e->timeout_ms);
    const dt_status status = make_parts(e, env, box, err);

    if (status == DT_OK)
        *out = &e->base;
    else
        free_zk(&e->base);
    return status;
}

const struct dt_elector_kind dt_elector_zk = {.name = "zookeeper",
                                              .server = DT_OUTAGE_ZOOKEEPER,
                                              .make = make,
                                              .step = step,
                                              .next_us = next_us,
                                              .close = end_session,
                                              .free = free_zk};
