/*
 * Owns:            requests to ZooKeeper (their memory, count and time, and pauses after failures); the leader nodes
 *                  of shards; this process's member node, and its rank among the members.
 * Refuses to know: which shards to lead (elector_share.c), and what leading a shard means.
 *
 *   NONE ──create──▶ TAKING ──ours──▶ HELD ──above share──▶ RELEASING ──released──▶ DROPPING ──gone──▶ NONE
 *                      │               │                        │                       │
 *                      └──answer lost──┴───────lease over───────┴──────answer lost──────┴──▶ UNSURE
 *   UNSURE ──look──▶ HELD, DROPPING or NONE
 *
 * Invariants:
 *   - A shard is gained only while the lease runs.
 *   - A node counts as ours only after the answer to its creation, or after a check that its owner is our session.
 *   - A session has one member node. If an answer was lost and there is a second one, it is deleted.
 */

#include "base/log.h"
#include "elector_parts.h"
#include "zk.h"

struct dt_zk_reply *dt_zk_elector_request(dt_zk_elector *e, enum dt_zk_request request, unsigned index)
{
    struct dt_zk_reply *r = calloc(1, sizeof(*r));
    if (!r) {
        dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
        return NULL;
    }
    r->request = (int)request;
    r->index = index;
    r->sent_us = e->asked_us = dt_clock_mono_us(e->base.clock);
    e->outstanding++;
    return r;
}

void dt_zk_elector_list(dt_zk_elector *e, enum dt_zk_request request)
{
    const bool members = request == DT_ASK_MEMBERS;
    struct dt_listing *list = members ? &e->members : &e->leaders;
    struct dt_zk_reply *r = dt_zk_elector_request(e, request, 0);
    if (!r)
        return;
    list->asked = true;
    list->stale = false;
    dt_zk_list(e->zk, r, members ? e->members_path : e->leaders_path, members ? &e->members_watch : &e->leaders_watch);
}

void dt_zk_elector_note(dt_zk_elector *e, const char *what, const char *request, const char *reason)
{
    struct dt_error err = {0};
    (void)dt_fail(&err, DT_UNAVAILABLE, "%s: %s", request, reason);
    dt_outage_failed(&e->outage, DT_OUTAGE_ZOOKEEPER, "elector", what, DT_UNAVAILABLE, &err);
}

void dt_zk_elector_trouble(dt_zk_elector *e, const char *request, const struct dt_zk_reply *r)
{
    dt_zk_elector_note(e, "ZooKeeper refused a request", request, r->reason);
    e->refused = true;
    dt_elector_back_off(&e->base, DT_ZK_BACKOFF_MAX_US);
}

static void on_list_failed(dt_zk_elector *e, struct dt_listing *list, const struct dt_zk_reply *r)
{
    list->stale = true;
    if (r->outcome == DT_ZK_LOST)
        return;
    if (r->outcome == DT_ZK_MISSING)
        e->paths_made = e->paths_asked = false;
    dt_zk_elector_trouble(e, "list", r);
}

/* ---- leader nodes: states ---- */

static bool is_leading(enum dt_node_state state)
{
    return state == DT_NODE_HELD || state == DT_NODE_RELEASING;
}

/* Only this function changes the state of a node. */
static void set_node_state(dt_zk_elector *e, unsigned shard, enum dt_node_state state)
{
    struct dt_node *node = &e->nodes[shard];
    dt_assert(state != DT_NODE_HELD || node->state == DT_NODE_TAKING || node->state == DT_NODE_UNSURE);
    dt_assert(state != DT_NODE_RELEASING || node->state == DT_NODE_HELD);
    node->state = state;
    if (state == DT_NODE_NONE || state == DT_NODE_HELD)
        node->unwanted = false;
    dt_elector_set_leads(&e->base, shard, is_leading(state));
}

/* Ends the leadership of the shard now. A later request finds out whether the node is still ours. */
static void lose_leader_node(dt_zk_elector *e, unsigned shard)
{
    struct dt_node *node = &e->nodes[shard];
    node->unwanted = node->unwanted || node->state == DT_NODE_RELEASING;
    set_node_state(e, shard, DT_NODE_UNSURE);
    e->base.events.want(e->base.events.arg, shard, DT_WANT_NOTHING);
}

void dt_nodes_lose_all(dt_zk_elector *e, const char *why)
{
    unsigned n = atomic_load(&e->base.n_leads);
    if (n == 0)
        return;
    DT_LOG(WARN, "elector", "stepping down", DT_S("reason", why), DT_I("shards", n));
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (is_leading(e->nodes[s].state))
            lose_leader_node(e, s);
    }
}

void dt_nodes_forget(dt_zk_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        set_node_state(e, s, DT_NODE_NONE);
        e->nodes[s] = (struct dt_node){0};
    }
}

void dt_nodes_view(const dt_zk_elector *e, bool *mine, bool *taken)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        const struct dt_node *node = &e->nodes[s];
        enum dt_node_state state = node->state;
        mine[s] = (state == DT_NODE_HELD || state == DT_NODE_TAKING || state == DT_NODE_UNSURE) && !node->unwanted;
        taken[s] = e->taken[s] || state != DT_NODE_NONE;
    }
}

/* ---- leader nodes: requests ---- */

static void leader_path(const dt_zk_elector *e, unsigned shard, char *path)
{
    snprintf(path, DT_ELECTOR_PATH + 16, "%s/%u", e->leaders_path, shard);
}

void dt_nodes_take(dt_zk_elector *e, unsigned shard)
{
    char path[DT_ELECTOR_PATH + 16];
    char data[DT_ELECTOR_GUID + 256];
    struct dt_zk_reply *r = dt_zk_elector_request(e, DT_ASK_TAKE, shard);
    if (!r)
        return;
    set_node_state(e, shard, DT_NODE_TAKING);
    leader_path(e, shard, path);
    snprintf(data, sizeof(data), "%s %s", e->guid, e->owner);
    dt_zk_create(e->zk, r, path, data, DT_ZK_EPHEMERAL);
}

/* Deletes a node that is known to be ours. No version is needed, because only the owner's session deletes a node. */
static void delete_leader_node(dt_zk_elector *e, unsigned shard)
{
    char path[DT_ELECTOR_PATH + 16];
    struct dt_zk_reply *r = dt_zk_elector_request(e, DT_ASK_DROP, shard);
    if (!r) {
        e->nodes[shard].unwanted = true;
        set_node_state(e, shard, DT_NODE_UNSURE);
        return;
    }
    set_node_state(e, shard, DT_NODE_DROPPING);
    leader_path(e, shard, path);
    dt_zk_delete(e->zk, r, path);
}

static void read_leader_node(dt_zk_elector *e, unsigned shard)
{
    char path[DT_ELECTOR_PATH + 16];
    struct dt_zk_reply *r = dt_zk_elector_request(e, DT_ASK_LOOK, shard);
    if (!r)
        return;
    e->nodes[shard].looking = true;
    leader_path(e, shard, path);
    dt_zk_owner(e->zk, r, path);
}

void dt_nodes_release(dt_zk_elector *e, unsigned shard)
{
    struct dt_node *node = &e->nodes[shard];
    if (node->state != DT_NODE_HELD) {
        node->unwanted = true; /* delete the node as soon as it is known to be ours */
        return;
    }
    set_node_state(e, shard, DT_NODE_RELEASING);
    e->base.events.want(e->base.events.arg, shard, DT_WANT_RELEASE);
}

void dt_nodes_serve(dt_zk_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        struct dt_node *node = &e->nodes[s];
        if (node->state == DT_NODE_UNSURE && !node->looking)
            read_leader_node(e, s);
        if (node->state == DT_NODE_RELEASING && atomic_load(&e->base.released[s]))
            delete_leader_node(e, s);
    }
}

void dt_nodes_serve_disconnected(dt_zk_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->nodes[s].state == DT_NODE_RELEASING && atomic_load(&e->base.released[s])) {
            e->nodes[s].unwanted = true;
            set_node_state(e, s, DT_NODE_UNSURE);
        }
    }
}

/* ---- leader nodes: answers ---- */

/* Handles a node that is known to be ours: leads the shard, unless the shard is not wanted any more, or the lease ended
 * before the answer was read. */
static void lead_with_own_node(dt_zk_elector *e, unsigned shard)
{
    struct dt_node *node = &e->nodes[shard];
    if (node->unwanted || atomic_load(&e->base.leaving)) {
        node->unwanted = true;
        delete_leader_node(e, shard);
        return;
    }
    if (!dt_lease_runs(&e->base.lease, dt_clock_mono_us(e->base.clock))) {
        set_node_state(e, shard, DT_NODE_UNSURE);
        return;
    }
    set_node_state(e, shard, DT_NODE_HELD);
    e->base.events.want(e->base.events.arg, shard, DT_WANT_LEAD);
}

void dt_nodes_taken(dt_zk_elector *e, struct dt_zk_reply *r)
{
    if (e->nodes[r->index].state != DT_NODE_TAKING)
        return;
    if (r->outcome == DT_ZK_OK) {
        lead_with_own_node(e, r->index);
        return;
    }
    set_node_state(e, r->index, r->outcome != DT_ZK_LOST ? DT_NODE_NONE : DT_NODE_UNSURE);
    e->taken[r->index] = e->taken[r->index] || r->outcome == DT_ZK_EXISTS;
    if (r->outcome == DT_ZK_MISSING)
        e->paths_made = e->paths_asked = false;
    if (r->outcome != DT_ZK_LOST && r->outcome != DT_ZK_EXISTS)
        dt_zk_elector_trouble(e, "take", r);
}

void dt_nodes_dropped(dt_zk_elector *e, struct dt_zk_reply *r)
{
    if (e->nodes[r->index].state != DT_NODE_DROPPING)
        return;
    if (r->outcome == DT_ZK_OK || r->outcome == DT_ZK_MISSING) {
        set_node_state(e, r->index, DT_NODE_NONE);
        return;
    }
    e->nodes[r->index].unwanted = true;
    set_node_state(e, r->index, DT_NODE_UNSURE);
    if (r->outcome != DT_ZK_LOST)
        dt_zk_elector_trouble(e, "drop", r);
}

void dt_nodes_looked(dt_zk_elector *e, struct dt_zk_reply *r)
{
    struct dt_node *node = &e->nodes[r->index];
    const bool ours = r->outcome == DT_ZK_OK && r->owner_session == dt_zk_session(e->zk);
    node->looking = false;
    if (r->outcome == DT_ZK_LOST || (node->state != DT_NODE_UNSURE && !is_leading(node->state)))
        return;
    if (ours && node->state == DT_NODE_UNSURE) {
        lead_with_own_node(e, r->index);
    } else if (!ours) {
        if (is_leading(node->state))
            lose_leader_node(e, r->index);
        set_node_state(e, r->index, DT_NODE_NONE);
    }
}

void dt_nodes_listed(dt_zk_elector *e, struct dt_zk_reply *r)
{
    e->leaders.asked = false;
    if (r->outcome != DT_ZK_OK) {
        on_list_failed(e, &e->leaders, r);
        return;
    }
    e->leaders.known = true;
    memset(e->taken, 0, sizeof(e->taken));
    for (size_t i = 0; i < r->n_children; i++) {
        unsigned long s = strtoul(r->children[i], NULL, 10);
        if (s < DT_SHARDS_MAX)
            e->taken[s] = true;
    }
    /* If we lead a shard and its node is missing, an operator may have deleted the node. Checks who owns the node, so
     * that two processes do not lead the shard for long. */
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->nodes[s].state == DT_NODE_HELD && !e->taken[s] && !e->nodes[s].looking)
            read_leader_node(e, s);
    }
}

/* ---- the member node ---- */

static void delete_member_node(dt_zk_elector *e, const char *name)
{
    char path[DT_ELECTOR_PATH * 2];
    struct dt_zk_reply *r = dt_zk_elector_request(e, DT_ASK_QUIT, 0);
    if (!r)
        return;
    snprintf(path, sizeof(path), "%s/%s", e->members_path, name);
    dt_zk_delete(e->zk, r, path);
}

void dt_member_serve(dt_zk_elector *e)
{
    char path[DT_ELECTOR_PATH + DT_ELECTOR_GUID + 8];
    if (atomic_load(&e->base.leaving)) {
        if (e->member_name && !e->quit_asked) {
            e->quit_asked = true;
            delete_member_node(e, e->member_name);
        }
        return;
    }
    struct dt_zk_reply *r = e->joined == DT_JOIN_NO ? dt_zk_elector_request(e, DT_ASK_JOIN, 0) : NULL;
    if (!r)
        return;
    e->joined = DT_JOIN_SENT;
    snprintf(path, sizeof(path), "%s/m-%s-", e->members_path, e->guid);
    dt_zk_create(e->zk, r, path, e->owner, DT_ZK_SEQUENTIAL);
}

void dt_member_joined(dt_zk_elector *e, struct dt_zk_reply *r)
{
    if (r->outcome == DT_ZK_OK) {
        e->joined = DT_JOIN_YES;
        free(e->member_name);
        e->member_name = r->name;
        r->name = NULL;
        DT_LOG(INFO, "elector", "joined the election", DT_S("member", e->member_name ? e->member_name : ""));
    } else if (r->outcome == DT_ZK_LOST) {
        e->joined = DT_JOIN_UNSURE; /* the list of members will show whether this process has joined */
    } else {
        e->joined = DT_JOIN_NO;
        e->paths_made = e->paths_asked = e->paths_made && r->outcome != DT_ZK_MISSING;
        dt_zk_elector_trouble(e, "join", r);
    }
    e->members.stale = true;
}

void dt_member_quit(dt_zk_elector *e, struct dt_zk_reply *r)
{
    e->quit_done = e->quit_done || r->outcome == DT_ZK_OK || r->outcome == DT_ZK_MISSING;
    e->quit_asked = e->quit_done;
}

/* Reads the answer with the list of members: finds our rank, and deletes all of our member nodes except one. */
void dt_member_listed(dt_zk_elector *e, struct dt_zk_reply *r)
{
    const char *const *names = (const char *const *)r->children;
    unsigned own_nodes = 0;
    e->members.asked = false;
    if (r->outcome != DT_ZK_OK) {
        on_list_failed(e, &e->members, r);
        return;
    }
    e->members.known = true;
    e->n_members = (unsigned)r->n_children;
    if (dt_share_rank(names, r->n_children, e->guid, &e->rank)) {
        e->joined = DT_JOIN_YES;
        dt_elector_set_place(&e->base, e->rank, e->n_members);
    } else if (e->joined == DT_JOIN_UNSURE || e->joined == DT_JOIN_YES) {
        e->joined = DT_JOIN_NO;
    }
    for (size_t i = 0; i < r->n_children; i++) {
        if (strstr(names[i], e->guid) == NULL)
            continue;
        if (own_nodes++ > 0)
            delete_member_node(e, names[i]);
        else if (!e->member_name)
            e->member_name = strdup(names[i]);
    }
}

void dt_member_forget(dt_zk_elector *e)
{
    e->quit_asked = e->quit_done = false;
    e->joined = DT_JOIN_NO;
    free(e->member_name);
    e->member_name = NULL;
}
