/*
 * Owns:            the elector's thread and its step, the plan, and what other threads may ask.
 * Refuses to know: MySQL, Kafka, and what leading a shard means. Safety is theirs; here it is only decided who tries.
 *
 * One thread does everything. ZooKeeper's threads post replies and signal the mailbox (zk.h); calls of other threads set a
 * flag and signal. Requests are asynchronous throughout, so that a server that hangs cannot keep the thread from telling
 * the shards in time that they are lost.
 *
 * Invariant: gained, release and lost are called on this thread only. A shard is lost at the end of the lease at the
 * latest.
 */
#include "elector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "election/zk/elector_parts.h"

enum { BACKOFF_MIN_US = 100000, OWNER_MAX = 200 };

/* ---- replies ---- */

/* Any answer says that the session lived when the request was sent. */
static void confirm(dt_elector *e, const struct dt_zk_reply *r)
{
    if (r->outcome == DT_ZK_LOST)
        return;
    if (r->outcome == DT_ZK_OK) {
        e->backoff_us = BACKOFF_MIN_US;
        dt_outage_over(&e->outage);
    }
    dt_lease_extend(&e->lease, r->sent_us);
}

static void on_reply(dt_elector *e, struct dt_zk_reply *r)
{
    confirm(e, r);
    switch ((enum dt_elector_request)r->request) {
    case DT_ASK_PATH:
        dt_elector_session_path_made(e, r);
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

static void read_replies(dt_elector *e)
{
    struct dt_zk_reply *next;

    for (struct dt_zk_reply *r = dt_zk_take(e->zk); r; r = next) {
        next = r->next;
        e->outstanding--;
        on_reply(e, r);
        dt_zk_reply_free(r);
    }
}

/* ---- the plan ---- */

static void make_plan(dt_elector *e)
{
    bool mine[DT_SHARDS_MAX];
    bool taken[DT_SHARDS_MAX];
    const struct dt_share_view view = {.shards = atomic_load(&e->shards),
                                       .members = e->n_members,
                                       .rank = e->rank,
                                       .leaving = atomic_load(&e->leaving),
                                       .mine = mine,
                                       .taken = taken};

    dt_nodes_view(e, mine, taken);
    dt_share_plan(&view, &e->plan);
    for (size_t i = 0; i < e->plan.n_release; i++)
        dt_nodes_release(e, e->plan.release[i]);
    for (size_t i = 0; i < e->plan.n_take && e->connected; i++)
        dt_nodes_take(e, e->plan.take[i]);
}

static bool is_fresh(const struct dt_listing *list)
{
    return list->known && !list->stale && !list->asked;
}

static void serve_plan(dt_elector *e)
{
    if (atomic_load(&e->leaving) ||
        (e->connected && e->joined == DT_JOIN_YES && is_fresh(&e->members) && is_fresh(&e->leaders)))
        make_plan(e);
}

/* ---- the step ---- */

static void serve_list(dt_elector *e, const struct dt_listing *list, enum dt_elector_request request)
{
    if (list->stale && !list->asked)
        dt_elector_list(e, request);
}

static void serve_connected(dt_elector *e)
{
    dt_elector_session_ping(e);
    if (dt_elector_now_us(e) < e->not_before_us || !dt_elector_session_paths_made(e))
        return;
    dt_member_serve(e);
    serve_list(e, &e->members, DT_ASK_MEMBERS);
    serve_list(e, &e->leaders, DT_ASK_LEADERS);
    dt_nodes_serve(e);
}

void dt_elector_step(dt_elector *e, uint32_t signals)
{
    e->members.stale = e->members.stale || (signals & DT_ELECTOR_MEMBERS) != 0;
    e->leaders.stale = e->leaders.stale || (signals & DT_ELECTOR_LEADERS) != 0;
    read_replies(e);
    if (!dt_lease_runs(&e->lease, dt_elector_now_us(e)))
        dt_nodes_lose_all(e, "ZooKeeper has not answered for two thirds of the session timeout");
    if (dt_elector_session_serve(e))
        serve_connected(e);
    else
        dt_nodes_serve_disconnected(e);
    serve_plan(e);
}

int64_t dt_elector_next_us(const dt_elector *e)
{
    const int64_t at_us = dt_elector_session_next_us(e);

    return e->not_before_us > dt_elector_now_us(e) ? dt_earlier(at_us, e->not_before_us) : at_us;
}

static void run(void *arg)
{
    dt_elector *e = arg;
    uint32_t signals = 0;

    while (!dt_thread_stopping(&e->thread)) {
        dt_elector_step(e, signals);
        signals = dt_mailbox_wait(e->box, dt_elector_next_us(e));
    }
    dt_elector_session_close(e);
}

/* ---- the interface ---- */

void dt_elector_released(dt_elector *e, unsigned shard)
{
    if (shard >= DT_SHARDS_MAX)
        return;
    atomic_store(&e->released[shard], true);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

bool dt_elector_leads(const dt_elector *e, unsigned shard)
{
    return shard < DT_SHARDS_MAX && atomic_load(&e->leads[shard]) && dt_lease_runs(&e->lease, dt_elector_now_us(e));
}

bool dt_elector_rank(const dt_elector *e, unsigned *rank, unsigned *members)
{
    const uint64_t place = atomic_load(&e->place);

    *rank = (unsigned)(place & UINT32_MAX);
    *members = (unsigned)(place >> 32);
    return place != 0;
}

void dt_elector_set_shards(dt_elector *e, unsigned shards)
{
    atomic_store(&e->shards, shards < DT_SHARDS_MAX ? shards : (unsigned)DT_SHARDS_MAX);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

void dt_elector_leave(dt_elector *e)
{
    atomic_store(&e->leaving, true);
    dt_mailbox_signal(e->box, DT_ELECTOR_CALLER);
}

bool dt_elector_idle(const dt_elector *e)
{
    return atomic_load(&e->n_leads) == 0;
}

/* ---- life ---- */

static void elector_free(dt_elector *e)
{
    dt_zk_free(e->zk);
    dt_mailbox_free(e->box);
    free(e->servers);
    free(e->owner);
    free(e);
}

void dt_elector_stop(dt_elector *e)
{
    if (!e)
        return;
    dt_thread_stop(&e->thread, e->box);
    elector_free(e);
}

static dt_status make_paths(dt_elector *e, const char *installation, struct dt_error *err)
{
    int n = snprintf(e->leaders_path, DT_ELECTOR_PATH, "/duetime/%s/leaders", installation);

    if (n < 0 || n >= DT_ELECTOR_PATH)
        return dt_fail(err, DT_INVALID, "elector: the installation's name is too long");
    snprintf(e->members_path, DT_ELECTOR_PATH, "/duetime/%s/members", installation);
    snprintf(e->paths[0], DT_ELECTOR_PATH, "/duetime");
    snprintf(e->paths[1], DT_ELECTOR_PATH, "/duetime/%s", installation);
    memcpy(e->paths[2], e->members_path, DT_ELECTOR_PATH);
    memcpy(e->paths[3], e->leaders_path, DT_ELECTOR_PATH);
    return DT_OK;
}

static dt_status make_parts(dt_elector *e, const struct dt_elector_env *env, struct dt_error *err)
{
    e->servers = strdup(env->config->zookeeper_servers);
    e->owner = strndup(env->owner, OWNER_MAX);
    if (!e->servers || !e->owner || dt_mailbox_new(&e->box) != DT_OK || dt_zk_new(e->box, &e->zk) != DT_OK)
        return dt_fail(err, DT_NOMEM, "elector");
    e->members_watch = (struct dt_zk_watch){e->box, DT_ELECTOR_MEMBERS};
    e->leaders_watch = (struct dt_zk_watch){e->box, DT_ELECTOR_LEADERS};
    return make_paths(e, env->installation, err);
}

dt_status dt_elector_new(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err)
{
    dt_elector *e = calloc(1, sizeof(*e));
    dt_status status;

    *out = NULL;
    if (!e)
        return dt_fail(err, DT_NOMEM, "elector");
    e->clock = env->clock;
    e->events = env->events;
    e->backoff_us = BACKOFF_MIN_US;
    e->timeout_ms = (int)env->config->zookeeper_session_timeout;
    dt_lease_set_timeout(&e->lease, e->timeout_ms);
    atomic_store(&e->shards, env->shards < DT_SHARDS_MAX ? env->shards : (unsigned)DT_SHARDS_MAX);
    status = make_parts(e, env, err);
    if (status != DT_OK) {
        elector_free(e);
        return status;
    }
    *out = e;
    return DT_OK;
}

dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err)
{
    dt_status status = dt_elector_new(env, out, err); /* *out is there before anything is called back */

    if (status == DT_OK)
        status = dt_thread_start(&(*out)->thread, "election", run, *out, err);
    if (status != DT_OK && *out) {
        elector_free(*out);
        *out = NULL;
    }
    return status;
}
