/*
 * Owns:            this process's member node, and what is known of the members: how many, and which place is ours.
 * Refuses to know: shards.
 * Invariant:       one node a session. A second one, made by a request whose answer was lost, is deleted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "elector_parts.h"

static void ask_quit(dt_zk_elector *e, const char *name)
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
            ask_quit(e, e->member_name);
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
        DT_LOG(INFO, "elector", "joined", DT_S("member", e->member_name ? e->member_name : ""));
    } else if (r->outcome == DT_ZK_LOST) {
        e->joined = DT_JOIN_UNSURE; /* the list of members will tell */
    } else {
        e->joined = DT_JOIN_NO;
        e->paths_made = e->paths_asked = e->paths_made && r->outcome != DT_ZK_MISSING;
        dt_zk_elector_trouble(e, "join", r);
    }
    e->members.stale = true;
}

void dt_member_quit(dt_zk_elector *e, const struct dt_zk_reply *r)
{
    e->quit_done = e->quit_done || r->outcome == DT_ZK_OK || r->outcome == DT_ZK_MISSING;
    e->quit_asked = e->quit_done;
}

/* Finds our place among the members, and deletes what is ours beyond one node. */
void dt_member_listed(dt_zk_elector *e, const struct dt_zk_reply *r)
{
    const char *const *names = (const char *const *)r->children;
    unsigned own_nodes = 0;

    e->members.asked = false;
    if (r->outcome != DT_ZK_OK) {
        dt_zk_elector_list_failed(e, &e->members, r);
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
            ask_quit(e, names[i]);
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
