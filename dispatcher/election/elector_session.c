/*
 * Owns:            the session with ZooKeeper, the lease that rests on it, and the paths above all nodes.
 * Refuses to know: what is led, but that something is.
 *
 * As long as a shard is led a request is sent every 0.3 timeouts, in place of the client's own ping, which comes after
 * a third of silence: lease.h has the reason.
 *
 * A handle that nobody has answered for two timeouts is replaced, on the same session: an emptied ZooKeeper would never
 * take it back.
 *
 * Invariant: a session that expired is closed here, never in a callback, and nothing of it is left when the next one
 * begins.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/secrets.h"
#include "elector_parts.h"
#include "zk.h"

enum { CLOSE_WAIT_US = 300000, PATHS = 4, AWAY_TIMEOUTS = 2 };

static int64_t ping_every_us(const dt_zk_elector *e)
{
    return e->timeout_ms * INT64_C(300);
}

/* ---- opening and closing ---- */

static void throw_replies_away(dt_zk_elector *e)
{
    struct dt_zk_reply *next;

    for (struct dt_zk_reply *r = dt_zk_take(e->zk); r; r = next) {
        next = r->next;
        dt_assert_cmp(e->outstanding, >, 0);
        e->outstanding--;
        dt_zk_reply_free(r);
    }
}

/* False: there is no handle now. */
static bool open_handle(dt_zk_elector *e)
{
    struct dt_strbuf digest = {0};
    bool known = dt_secret_now(e->config, &e->config->zookeeper_auth, &digest) == DT_OK;
    const struct dt_zk_server server = {e->servers, digest.p ? digest.p : ""};
    bool open = known && dt_zk_open(e->zk, &server, e->timeout_ms);

    dt_secret_forget(&digest);
    return open;
}

void dt_zk_elector_session_close(dt_zk_elector *e)
{
    const int64_t until_us = dt_clock_mono_us(e->base.clock) + CLOSE_WAIT_US;
    int timeout_ms;

    dt_nodes_lose_all(e, "the session has ended");
    if (dt_zk_state(e->zk, &timeout_ms) != DT_ZK_CLOSED) {
        /* ZooKeeper's client may lose what is under way while it closes: replies that are on their way are waited for a
         * moment. */
        throw_replies_away(e);
        while (e->outstanding > 0 && dt_clock_mono_us(e->base.clock) < until_us) {
            dt_mailbox_wait(e->base.box,
                            dt_clock_mono_us(e->base.clock) + 10000); /* an answered ping signals nothing */
            throw_replies_away(e);
        }
        dt_zk_close(e->zk);
        throw_replies_away(e);
    }
    e->outstanding = 0;
    dt_nodes_forget(e);
    dt_member_forget(e);
    dt_zk_elector_paths_gone(e);
    e->connected = e->pinging = false;
    e->away_us = 0;
    e->members = e->leaders = (struct dt_listing){0};
    e->asked_us = 0;
    dt_lease_end(&e->base.lease);
}

/* ---- away ---- */

static int64_t replaced_us(const dt_zk_elector *e)
{
    return e->away_us ? e->away_us + AWAY_TIMEOUTS * e->timeout_ms * INT64_C(1000) : INT64_MAX;
}

static bool serve_open(dt_zk_elector *e, bool connected, int timeout_ms)
{
    struct dt_strbuf digest = {0};
    const bool was = e->connected;

    /* A request was refused, and the password is another one by now: nodes of a new session are for that one alone. */
    bool other = e->refused && dt_secret_now(e->config, &e->config->zookeeper_auth, &digest) == DT_OK &&
                 !dt_zk_opened_as(e->zk, digest.p ? digest.p : "");
    e->refused = false;
    dt_secret_forget(&digest);
    if (other) {
        dt_zk_elector_session_close(e);
        return false;
    }
    e->connected = connected;
    e->away_us = connected ? 0 : e->away_us ? e->away_us : dt_clock_mono_us(e->base.clock);
    if (connected && !was) {
        e->timeout_ms = timeout_ms; /* as negotiated */
        dt_lease_set_timeout(&e->base.lease, timeout_ms);
        e->asked_us = 0; /* a request at once: the lease may be short */
        DT_LOG(INFO, "elector", "connected to ZooKeeper", DT_I("session_timeout_ms", timeout_ms));
    } else if (was && !connected) {
        dt_zk_elector_note(e, "connection to ZooKeeper lost", "session", "connection loss");
    }
    if (connected || dt_clock_mono_us(e->base.clock) < replaced_us(e))
        return connected;
    e->away_us = dt_clock_mono_us(e->base.clock);
    e->members.stale = e->leaders.stale = true; /* nobody watches them any more */
    /* What was asked has had its answer when the connection was lost; an answer that is missing costs the session. */
    if (e->outstanding > 0 || !open_handle(e)) {
        dt_zk_elector_session_close(e);
        dt_zk_elector_back_off(e);
    }
    return false;
}

bool dt_zk_elector_session_serve(dt_zk_elector *e)
{
    int timeout_ms = 0;
    enum dt_zk_state state = dt_zk_state(e->zk, &timeout_ms);

    switch (state) {
    case DT_ZK_CLOSED:
        if (atomic_load(&e->base.leaving) || dt_clock_mono_us(e->base.clock) < e->not_before_us)
            return false;
        dt_assert(e->outstanding == 0 && !e->connected && atomic_load(&e->base.n_leads) == 0);
        snprintf(e->guid, sizeof(e->guid), "%016" PRIx64 "%016" PRIx64, dt_elector_random(&e->base),
                 dt_elector_random(&e->base));
        if (!open_handle(e))
            dt_zk_elector_back_off(e);
        return false;
    case DT_ZK_EXPIRED:
        DT_LOG(WARN, "elector", "the ZooKeeper session has expired");
        dt_zk_elector_session_close(e);
        dt_zk_elector_back_off(e);
        return false;
    default:
        return serve_open(e, state == DT_ZK_CONNECTED, timeout_ms);
    }
}

/* ---- the lease ---- */

void dt_zk_elector_session_ping(dt_zk_elector *e)
{
    struct dt_zk_reply *r;

    if (atomic_load(&e->base.n_leads) == 0 || e->pinging ||
        dt_clock_mono_us(e->base.clock) < e->asked_us + ping_every_us(e))
        return;
    r = dt_zk_elector_request(e, DT_ASK_PING, 0);
    if (!r)
        return;
    e->pinging = true;
    dt_zk_ping(e->zk, r, e->leaders_path, &e->base.lease);
}

int64_t dt_zk_elector_session_next_us(const dt_zk_elector *e)
{
    const int64_t now_us = dt_clock_mono_us(e->base.clock);
    const int64_t ping_us = e->asked_us + ping_every_us(e);
    int64_t at_us;

    if (atomic_load(&e->base.n_leads) == 0)
        return replaced_us(e);
    at_us = dt_earlier(atomic_load(&e->base.lease.until_us), replaced_us(e));
    return e->connected && ping_us > now_us ? dt_earlier(at_us, ping_us) : at_us;
}

/* ---- paths ---- */

bool dt_zk_elector_session_paths_made(dt_zk_elector *e)
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

void dt_zk_elector_session_path_made(dt_zk_elector *e, const struct dt_zk_reply *r)
{
    dt_assert_cmp(r->index, <, PATHS);
    if (r->outcome == DT_ZK_OK || r->outcome == DT_ZK_EXISTS) {
        if (r->index == PATHS - 1 && e->paths_asked)
            e->paths_made = e->members.stale = e->leaders.stale = true;
        return;
    }
    e->paths_asked = false;
    /* Above the first path there is only a chroot; the others are missed where the one above was not made. */
    if (r->outcome == DT_ZK_LOST || (r->outcome == DT_ZK_MISSING && r->index > 0))
        return;
    if (r->outcome == DT_ZK_MISSING) {
        dt_zk_elector_note(e, "the chroot of zookeeper.servers is not there", e->paths[0], r->reason);
        dt_zk_elector_back_off(e);
    } else {
        dt_zk_elector_trouble(e, e->paths[r->index], r);
    }
}
