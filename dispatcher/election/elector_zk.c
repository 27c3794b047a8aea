/*
 * Owns:            the session with ZooKeeper, its lease, and the paths of the nodes; each step of the elector, and its
 *                  plan.
 * Refuses to know: MySQL, Kafka, and what leading a shard means.
 *
 * One thread does everything. ZooKeeper's threads post replies and signal the mailbox (zk.h); functions that other
 * threads call set a flag and signal. All requests are asynchronous, so a server that hangs cannot keep the thread from
 * losing its shards in time.
 *
 * While a shard is led, the elector sends a request every 0.3 timeouts, because the client's own ping, which is sent
 * after a third of the timeout without traffic, cannot extend the lease (elector_kind.h). If a handle gets no answer
 * for two timeouts, another handle replaces it in the same session: a ZooKeeper that lost its data never accepts the
 * old handle again.
 *
 * Invariant: an expired session is closed by the elector's thread, never in a callback, and all of its state is cleared
 * before the next session begins.
 */
#include <inttypes.h>

#include "base/log.h"
#include "base/secrets.h"
#include "elector_parts.h"
#include "zk.h"

enum { BACKOFF_MIN_US = 100000, CLOSE_WAIT_US = 300000, OWNER_MAX = 200, PATHS = 4, AWAY_TIMEOUTS = 2 };

static int64_t ping_every_us(const dt_zk_elector *e)
{
    return e->timeout_ms * INT64_C(300);
}

/* ---- opening and closing ---- */

static void discard_replies(dt_zk_elector *e)
{
    struct dt_zk_reply *next;
    for (struct dt_zk_reply *r = dt_zk_take(e->zk); r; r = next) {
        next = r->next;
        dt_assert_cmp(e->outstanding, >, 0);
        e->outstanding--;
        dt_zk_reply_free(r);
    }
}

/* Opens a handle. False: there is no handle now. */
static bool open_handle(dt_zk_elector *e)
{
    struct dt_strbuf digest = {0};
    bool known = dt_secret_now(e->config, &e->config->zookeeper_auth, &digest) == DT_OK;
    const struct dt_zk_server server = {e->servers, digest.p ? digest.p : ""};
    bool open = known && dt_zk_open(e->zk, &server, e->timeout_ms);
    dt_secret_forget(&digest);
    return open;
}

/* Ends the session, and with it all leaderships. Clears its state. */
static void close_session(dt_zk_elector *e)
{
    const int64_t until_us = dt_clock_mono_us(e->base.clock) + CLOSE_WAIT_US;
    int timeout_ms;
    dt_nodes_lose_all(e, "the session has ended");
    if (dt_zk_state(e->zk, &timeout_ms) != DT_ZK_CLOSED) {
        /* ZooKeeper's client may lose replies while it closes, so this waits a moment for replies that have not arrived
         * yet. */
        discard_replies(e);
        while (e->outstanding > 0 && dt_clock_mono_us(e->base.clock) < until_us) {
            dt_mailbox_wait(e->base.box, dt_clock_mono_us(e->base.clock) +
                                             10000); /* an answered ping sends no signal, so this loop polls */
            discard_replies(e);
        }
        dt_zk_close(e->zk);
        discard_replies(e);
    }
    e->outstanding = 0;
    dt_nodes_forget(e);
    dt_member_forget(e);
    e->paths_made = e->paths_asked = false;
    e->connected = e->pinging = false;
    e->away_us = 0;
    e->members = e->leaders = (struct dt_listing){0};
    e->asked_us = 0;
    dt_lease_end(&e->base.lease);
}

/* ---- away ---- */

static int64_t replace_handle_at_us(const dt_zk_elector *e)
{
    return e->away_us ? e->away_us + AWAY_TIMEOUTS * e->timeout_ms * INT64_C(1000) : INT64_MAX;
}

static bool serve_open_handle(dt_zk_elector *e, bool connected, int timeout_ms)
{
    struct dt_strbuf digest = {0};
    const bool was = e->connected;
    /* If a request was refused and the configured password has changed since the session began, opens a new session: a
     * node can only be changed with the password with which it was created. */
    bool other = e->refused && dt_secret_now(e->config, &e->config->zookeeper_auth, &digest) == DT_OK &&
                 !dt_zk_opened_as(e->zk, digest.p ? digest.p : "");
    e->refused = false;
    dt_secret_forget(&digest);
    if (other) {
        close_session(e);
        return false;
    }
    e->connected = connected;
    e->away_us = connected ? 0 : e->away_us ? e->away_us : dt_clock_mono_us(e->base.clock);
    if (connected && !was) {
        e->timeout_ms = timeout_ms; /* the negotiated timeout */
        dt_lease_set_timeout(&e->base.lease, timeout_ms);
        e->asked_us = 0; /* sends a request at once, because the rest of the lease may be short */
        DT_LOG(INFO, "elector", "connected to ZooKeeper", DT_I("session_timeout_ms", timeout_ms));
    } else if (was && !connected) {
        dt_zk_elector_note(e, "connection to ZooKeeper lost", "session", "connection loss");
    }
    if (connected || dt_clock_mono_us(e->base.clock) < replace_handle_at_us(e))
        return connected;
    e->away_us = dt_clock_mono_us(e->base.clock);
    /* The lists must be read again, because the old handle's watches ended with it. */
    e->members.stale = e->leaders.stale = true;
    /* When the connection was lost, each running request must have got a reply (DT_ZK_LOST). If a reply is missing, the
     * session is ended. */
    if (e->outstanding > 0 || !open_handle(e)) {
        close_session(e);
        dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
    }
    return false;
}

/* Opens a session if there is none, and closes an expired session. Returns whether it is connected. */
static bool serve_session(dt_zk_elector *e)
{
    int timeout_ms = 0;
    enum dt_zk_state state = dt_zk_state(e->zk, &timeout_ms);
    switch (state) {
    case DT_ZK_CLOSED:
        if (atomic_load(&e->base.leaving) || dt_clock_mono_us(e->base.clock) < e->base.not_before_us)
            return false;
        dt_assert(e->outstanding == 0 && !e->connected && atomic_load(&e->base.n_leads) == 0);
        snprintf(e->guid, sizeof(e->guid), "%016" PRIx64 "%016" PRIx64, dt_elector_random(&e->base),
                 dt_elector_random(&e->base));
        if (!open_handle(e))
            dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
        return false;
    case DT_ZK_EXPIRED:
        DT_LOG(WARN, "elector", "the ZooKeeper session has expired");
        close_session(e);
        dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
        return false;
    default:
        return serve_open_handle(e, state == DT_ZK_CONNECTED, timeout_ms);
    }
}

/* ---- paths ---- */

/* Requests to create the paths, once. Returns whether they exist. */
static bool make_paths(dt_zk_elector *e)
{
    if (e->paths_asked)
        return e->paths_made;
    e->paths_asked = true;
    for (unsigned i = 0; i < PATHS; i++) {
        struct dt_zk_reply *r = dt_zk_elector_request(e, DT_ASK_PATH, i);
        if (r)
            dt_zk_create(e->zk, r, e->paths[i], "", DT_ZK_PERSISTENT);
        else
            e->paths_asked = false;
    }
    return e->paths_made;
}

static void on_path_made(dt_zk_elector *e, struct dt_zk_reply *r)
{
    dt_assert_cmp(r->index, <, PATHS);
    if (r->outcome == DT_ZK_OK || r->outcome == DT_ZK_EXISTS) {
        if (r->index == PATHS - 1 && e->paths_asked)
            e->paths_made = e->members.stale = e->leaders.stale = true;
        return;
    }
    e->paths_asked = false;
    /* If the first path cannot be created because its parent is missing, the chroot does not exist. If that happens to
     * a later path, the path before it is missing, and all are requested again. */
    if (r->outcome == DT_ZK_LOST || (r->outcome == DT_ZK_MISSING && r->index > 0))
        return;
    if (r->outcome == DT_ZK_MISSING) {
        dt_zk_elector_note(e, "the chroot of zookeeper.servers does not exist", e->paths[0], r->reason);
        dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
    } else {
        dt_zk_elector_trouble(e, e->paths[r->index], r);
    }
}

static dt_zk_elector *elector_of(dt_elector *base)
{
    return (dt_zk_elector *)base; /* base is the first member */
}

/* ---- replies ---- */

static void on_ping_answered(dt_zk_elector *e, struct dt_zk_reply *)
{
    e->pinging = false;
}

static void on_reply(dt_zk_elector *e, struct dt_zk_reply *r)
{
    static void (*const handlers[])(dt_zk_elector *, struct dt_zk_reply *) = {
        [DT_ASK_PATH] = on_path_made,        [DT_ASK_JOIN] = dt_member_joined,   [DT_ASK_QUIT] = dt_member_quit,
        [DT_ASK_MEMBERS] = dt_member_listed, [DT_ASK_LEADERS] = dt_nodes_listed, [DT_ASK_TAKE] = dt_nodes_taken,
        [DT_ASK_DROP] = dt_nodes_dropped,    [DT_ASK_LOOK] = dt_nodes_looked,    [DT_ASK_PING] = on_ping_answered};
    if (r->outcome == DT_ZK_OK) {
        e->base.backoff_us = BACKOFF_MIN_US;
        dt_outage_over(&e->outage);
    }
    if (r->outcome != DT_ZK_LOST) /* any answer proves that the session lived when the request was sent */
        dt_lease_extend(&e->base.lease, r->sent_us);
    handlers[r->request](e, r);
}

/* ---- the plan ---- */

static bool is_listing_fresh(const struct dt_listing *list)
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
    if (!view.leaving &&
        !(e->connected && e->joined == DT_JOIN_YES && is_listing_fresh(&e->members) && is_listing_fresh(&e->leaders)))
        return;
    dt_nodes_view(e, mine, taken);
    dt_share_plan(&view, &e->base.plan);
    for (size_t i = 0; i < e->base.plan.n_release; i++)
        dt_nodes_release(e, e->base.plan.release[i]);
    for (size_t i = 0; i < e->base.plan.n_take && e->connected; i++)
        dt_nodes_take(e, e->base.plan.take[i]);
}

static void step_elector(dt_elector *base, uint32_t signals)
{
    dt_zk_elector *e = elector_of(base);
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
    const bool connected = serve_session(e);
    if (!connected)
        dt_nodes_serve_disconnected(e);
    /* renews the lease while a shard is led */
    if (connected && atomic_load(&base->n_leads) > 0 && !e->pinging &&
        dt_clock_mono_us(base->clock) >= e->asked_us + ping_every_us(e)) {
        struct dt_zk_reply *ping = dt_zk_elector_request(e, DT_ASK_PING, 0);
        e->pinging = ping;
        if (ping)
            dt_zk_ping(e->zk, ping, e->leaders_path, &base->lease);
    }
    if (connected && dt_clock_mono_us(base->clock) >= e->base.not_before_us && make_paths(e)) {
        dt_member_serve(e);
        if (e->members.stale && !e->members.asked)
            dt_zk_elector_list(e, DT_ASK_MEMBERS);
        if (e->leaders.stale && !e->leaders.asked)
            dt_zk_elector_list(e, DT_ASK_LEADERS);
        dt_nodes_serve(e);
    }
    serve_plan(e);
}

static int64_t next_step_at_us(const dt_elector *base)
{
    const dt_zk_elector *e = (const dt_zk_elector *)base;
    const int64_t now_us = dt_clock_mono_us(base->clock);
    const int64_t ping_us = e->asked_us + ping_every_us(e);
    int64_t at_us = replace_handle_at_us(e);
    if (atomic_load(&base->n_leads) > 0) {
        at_us = dt_earlier(atomic_load(&base->lease.until_us), at_us);
        if (e->connected && ping_us > now_us)
            at_us = dt_earlier(at_us, ping_us);
    }
    return e->base.not_before_us > now_us ? dt_earlier(at_us, e->base.not_before_us) : at_us;
}

static void end_session(dt_elector *base)
{
    close_session(elector_of(base));
}

static void free_zk_elector(dt_elector *base)
{
    dt_zk_elector *e = elector_of(base);
    dt_zk_free(e->zk);
    free(e->servers);
    free(e->owner);
    free(e);
}

static dt_status make_elector_parts(dt_zk_elector *e, const struct dt_elector_env *env, dt_mailbox *box,
                                    struct dt_error *err)
{
    int n = snprintf(e->leaders_path, DT_ELECTOR_PATH, "/duetime/%s/leaders", env->installation);
    e->config = env->config;
    e->servers = strdup(env->config->zookeeper_servers);
    e->owner = strndup(env->owner, OWNER_MAX);
    if (!e->servers || !e->owner || dt_zk_new(box, &e->zk) != DT_OK)
        return dt_fail(err, DT_NOMEM, "out of memory");
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

static dt_status make_zk_elector(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out,
                                 struct dt_error *err)
{
    dt_zk_elector *e = calloc(1, sizeof(*e));
    if (!e)
        return dt_fail(err, DT_NOMEM, "out of memory");
    e->base.backoff_us = BACKOFF_MIN_US;
    e->timeout_ms = (int)env->config->zookeeper_session_timeout;
    dt_lease_set_timeout(&e->base.lease, e->timeout_ms);
    const dt_status status = make_elector_parts(e, env, box, err);
    if (status == DT_OK)
        *out = &e->base;
    else
        free_zk_elector(&e->base);
    return status;
}

const struct dt_elector_kind dt_elector_zk = {.name = "zookeeper",
                                              .server = DT_OUTAGE_ZOOKEEPER,
                                              .make = make_zk_elector,
                                              .step = step_elector,
                                              .next_us = next_step_at_us,
                                              .close = end_session,
                                              .free = free_zk_elector};
