/*
 * Internals of an elector by ZooKeeper, shared by its two files. The elector's thread, or a test that calls
 * dt_elector_step, runs all of it.
 *
 *   elector_nodes.c   requests, and the pauses after failures; leader nodes; this process's member node; lists of nodes
 *   elector_zk.c      the session, its lease and the paths; the step and the plan (elector_kind.h). Calls
 *                     elector_nodes.c
 *
 *   /duetime/<installation>/members/m-<guid>-<seq>   ephemeral sequential, one per process
 *   /duetime/<installation>/leaders/<shard>          ephemeral; data = guid of the leader
 */
#pragma once

#include "base/outage.h"
#include "elector_kind.h"
#include "zk.h"

/* Bits of the elector's mailbox. zk.h and elector_kind.h have further bits. */
enum { DT_ELECTOR_MEMBERS = 4, DT_ELECTOR_LEADERS = 8 };

enum { DT_ELECTOR_PATH = 256, DT_ELECTOR_GUID = 33 };

/* The state of a leader node; elector_nodes.c has the transitions. */
enum dt_node_state { DT_NODE_NONE, DT_NODE_TAKING, DT_NODE_HELD, DT_NODE_RELEASING, DT_NODE_DROPPING, DT_NODE_UNSURE };

struct dt_node {
    enum dt_node_state state;
    bool unwanted; /* if the state is TAKING or UNSURE: delete the node as soon as it is known to be ours */
    bool looking;  /* we have requested the owner of the node, and not read the answer */
};

enum dt_joined { DT_JOIN_NO, DT_JOIN_SENT, DT_JOIN_UNSURE, DT_JOIN_YES };

struct dt_listing {
    bool known, asked, stale;
};

typedef struct dt_zk_elector {
    struct dt_elector base;

    /* Members that are set once. */
    const struct dt_config *config; /* borrowed; read again for the user and password, which may change */
    char *servers, *owner;
    char members_path[DT_ELECTOR_PATH], leaders_path[DT_ELECTOR_PATH];
    char paths[4][DT_ELECTOR_PATH]; /* paths to create, in this order; the last two are members_path and leaders_path */
    struct dt_zk_watch members_watch, leaders_watch;

    /* State of this session, used only by the elector's thread. */
    dt_zk *zk;
    int timeout_ms;
    char guid[DT_ELECTOR_GUID];
    bool connected;
    int64_t away_us; /* mono: since when no server has answered the current handle; 0: connected, or no handle */
    bool paths_asked, paths_made; /* both are cleared if a path is missing: all are created again first */
    enum dt_joined joined;
    char *member_name;
    bool quit_asked, quit_done;
    struct dt_listing members, leaders;
    unsigned n_members, rank;
    bool taken[DT_SHARDS_MAX];
    struct dt_node nodes[DT_SHARDS_MAX];
    unsigned outstanding; /* number of requests whose reply was not read yet */
    bool pinging;
    int64_t asked_us; /* mono: when the last request was sent */
    bool refused;     /* a request was refused since the session's password was last compared with the configured one */

    /* State that outlives a session, used only by the elector's thread. */
    struct dt_outage_part outage;
} dt_zk_elector;

/* ---- elector_nodes.c: requests ---- */

enum dt_zk_request {
    DT_ASK_PATH,
    DT_ASK_JOIN,
    DT_ASK_QUIT,
    DT_ASK_MEMBERS,
    DT_ASK_LEADERS,
    DT_ASK_TAKE,
    DT_ASK_DROP,
    DT_ASK_LOOK,
    DT_ASK_PING
};

enum { DT_ZK_BACKOFF_MAX_US = 5000000 };
/* Creates a request for zk.h. index: number of the shard, or index of the path. NULL: memory ran out, and the elector
 * backs off. */
struct dt_zk_reply *dt_zk_elector_request(dt_zk_elector *e, enum dt_zk_request request, unsigned index);
/* Requests the list of members or leaders, with a watch that signals the next change of the list. */
void dt_zk_elector_list(dt_zk_elector *e, enum dt_zk_request request);
/* Logs a failure as part of the outage of ZooKeeper. */
void dt_zk_elector_note(dt_zk_elector *e, const char *what, const char *request, const char *reason);
/* Called when ZooKeeper refused the request: logs it, and backs off. */
void dt_zk_elector_trouble(dt_zk_elector *e, const char *request, const struct dt_zk_reply *reply);

/* ---- elector_nodes.c: the leader nodes ---- */

void dt_nodes_take(dt_zk_elector *e, unsigned shard);
/* Releases a shard. If its node is HELD, wants its loop to step down. Otherwise, the node is deleted as soon as it is
 * known to be ours. */
void dt_nodes_release(dt_zk_elector *e, unsigned shard);
/* Loses all shards that are led. Their nodes are checked later. */
void dt_nodes_lose_all(dt_zk_elector *e, const char *why);
/* Called when the session has ended, and all nodes with it. */
void dt_nodes_forget(dt_zk_elector *e);
/* Checks nodes in the state UNSURE, and deletes the nodes of shards whose loops have ended. Does nothing while backing
 * off. */
void dt_nodes_serve(dt_zk_elector *e);
/* Called without a connection: notes the nodes of shards whose loops have ended, to delete these nodes when the elector
 * is connected again. */
void dt_nodes_serve_disconnected(dt_zk_elector *e);
/* Fills in the input for the plan. mine: shards that this process leads, or is about to lead; taken: shards that are
 * not free for any member. Both arrays have DT_SHARDS_MAX elements. */
void dt_nodes_view(const dt_zk_elector *e, bool *mine, bool *taken);
/* These functions handle answers to DT_ASK_TAKE, _DROP, _LOOK and _LEADERS. */
void dt_nodes_taken(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_nodes_dropped(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_nodes_looked(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_nodes_listed(dt_zk_elector *e, struct dt_zk_reply *reply);

/* ---- elector_nodes.c: the member node ---- */

/* Joins the election, or leaves it if the elector is leaving. */
void dt_member_serve(dt_zk_elector *e);
/* These functions handle answers to DT_ASK_JOIN, _QUIT and _MEMBERS. dt_member_joined takes ownership of the name in
 * the reply. */
void dt_member_joined(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_member_quit(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_member_listed(dt_zk_elector *e, struct dt_zk_reply *reply);
/* Called when the session has ended, and the member node with it. */
void dt_member_forget(dt_zk_elector *e);
