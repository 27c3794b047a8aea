/*
 * The inside of an elector by ZooKeeper, shared by its files and nobody else. Each calls only those above it in this
 * list.
 *
 *   elector_nodes.c     requests to ZooKeeper, the pauses after trouble
 *   elector_nodes.c    the leader nodes of shards: their states, the list of them
 *   elector_nodes.c   this process's member node, and the list of members
 *   elector_zk.c  the session: opening, closing, the lease, the paths
 *   elector_zk.c       the step, the plan; what elector_kind.h asks for
 *
 *   /duetime/<installation>/members/m-<guid>-<seq>   ephemeral sequential, one a process
 *   /duetime/<installation>/leaders/<shard>          ephemeral; data = guid of the leader
 *
 * All of it runs on the elector's thread, or in a test that calls dt_elector_step.
 */
#ifndef DT_DISPATCHER_ELECTOR_PARTS_H
#define DT_DISPATCHER_ELECTOR_PARTS_H

#include "base/outage.h"
#include "elector_kind.h"
#include "zk.h"

/* Signals besides ZooKeeper's (zk.h) and DT_ELECTOR_CALLER. */
enum { DT_ELECTOR_MEMBERS = 4, DT_ELECTOR_LEADERS = 8 };

enum { DT_ELECTOR_PATH = 256, DT_ELECTOR_GUID = 33 };

/* Where a leader node stands; elector_nodes.c draws the ways. */
enum dt_node_state { DT_NODE_NONE, DT_NODE_TAKING, DT_NODE_HELD, DT_NODE_RELEASING, DT_NODE_DROPPING, DT_NODE_UNSURE };

struct dt_node {
    enum dt_node_state state;
    bool unwanted; /* TAKING, UNSURE: to be dropped as soon as it is known to be ours */
    bool looking;  /* its owner is being asked for */
};

enum dt_joined { DT_JOIN_NO, DT_JOIN_SENT, DT_JOIN_UNSURE, DT_JOIN_YES };

/* Where a list of children stands. */
struct dt_listing {
    bool known, asked, stale;
};

typedef struct dt_zk_elector {
    struct dt_elector base;

    /* set once */
    const struct dt_config *config; /* borrowed: for the digest, which may change */
    char *servers, *owner;
    char members_path[DT_ELECTOR_PATH], leaders_path[DT_ELECTOR_PATH];
    char paths[4][DT_ELECTOR_PATH]; /* to be made, in this order; the two above are the last */
    struct dt_zk_watch members_watch, leaders_watch;

    /* the elector's thread only: this session */
    dt_zk *zk;
    int timeout_ms;
    char guid[DT_ELECTOR_GUID];
    bool connected;
    int64_t away_us; /* since when nobody has answered this handle; 0: it is connected, or there is none */
    bool paths_asked, paths_made;
    enum dt_joined joined;
    char *member_name;
    bool quit_asked, quit_done;
    struct dt_listing members, leaders;
    unsigned n_members, rank;
    bool taken[DT_SHARDS_MAX];
    struct dt_node nodes[DT_SHARDS_MAX];
    unsigned outstanding; /* requests whose reply was not read */
    bool pinging;
    int64_t asked_us; /* when the last request was sent */
    bool refused;     /* a request was, since the password was last compared with the one that the session has */

    /* the elector's thread only: every session */
    int64_t not_before_us; /* after trouble: no requests, or no new session, until then */
    int64_t backoff_us;
    struct dt_outage_part outage;
} dt_zk_elector;

/* ---- elector_nodes.c ---- */

/* The request that a reply answers. */
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

/* No request, and no new session, for a while: twice as long each time, with jitter. */
void dt_zk_elector_back_off(dt_zk_elector *e);
/* A request to be handed to zk.h; index: the shard, or the path. NULL: no memory, and the elector backs off. */
struct dt_zk_reply *dt_zk_elector_request(dt_zk_elector *e, enum dt_zk_request request, unsigned index);
/* Asks for a list of children, and to be told when it changes. */
void dt_zk_elector_list(dt_zk_elector *e, enum dt_zk_request request);
/* The list did not come, or its path has gone. */
void dt_zk_elector_list_failed(dt_zk_elector *e, struct dt_listing *list, const struct dt_zk_reply *reply);
/* The paths have to be made again before anything else. */
void dt_zk_elector_paths_gone(dt_zk_elector *e);
/* Tells of a failure, as the outage's manner is. */
void dt_zk_elector_note(dt_zk_elector *e, const char *what, const char *request, const char *reason);
/* ZooKeeper refused the request: notes it, and backs off. */
void dt_zk_elector_trouble(dt_zk_elector *e, const char *request, const struct dt_zk_reply *reply);

/* ---- elector_nodes.c ---- */

void dt_nodes_take(dt_zk_elector *e, unsigned shard);
/* HELD: events.release. Anything else on its way to HELD: dropped as soon as it is known to be ours. */
void dt_nodes_release(dt_zk_elector *e, unsigned shard);
/* events.lost for all that are led; what became of the nodes will be looked at. */
void dt_nodes_lose_all(dt_zk_elector *e, const char *why);
/* The session has ended, and all nodes with it. */
void dt_nodes_forget(dt_zk_elector *e);
/* Asks for what is unsure, and gives back what loops have released. Only without trouble. */
void dt_nodes_serve(dt_zk_elector *e);
/* Without a connection: what loops have released is dropped when there is one again. */
void dt_nodes_serve_disconnected(dt_zk_elector *e);
/* The shards, as the plan sees them: led here or about to be, and not free for anybody. Both DT_SHARDS_MAX long. */
void dt_nodes_view(const dt_zk_elector *e, bool *mine, bool *taken);
/* Answers to DT_ASK_TAKE, _DROP, _LOOK and _LEADERS. */
void dt_nodes_taken(dt_zk_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_dropped(dt_zk_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_looked(dt_zk_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_listed(dt_zk_elector *e, const struct dt_zk_reply *reply);

/* ---- elector_nodes.c ---- */

/* Joins, or quits when the elector is leaving. */
void dt_member_serve(dt_zk_elector *e);
/* Answers to DT_ASK_JOIN, _QUIT and _MEMBERS. The first one's name is taken out of the reply. */
void dt_member_joined(dt_zk_elector *e, struct dt_zk_reply *reply);
void dt_member_quit(dt_zk_elector *e, const struct dt_zk_reply *reply);
void dt_member_listed(dt_zk_elector *e, const struct dt_zk_reply *reply);
/* The session has ended, and the node with it. */
void dt_member_forget(dt_zk_elector *e);

/* ---- elector_zk.c ---- */

/* Opens a session when there is none, closes one that has expired. True: connected. */
bool dt_zk_elector_session_serve(dt_zk_elector *e);
/* Ends the session, and all that was led and known by it. */
void dt_zk_elector_session_close(dt_zk_elector *e);
/* Makes the paths when that was not asked for yet. True: they are there. */
bool dt_zk_elector_session_paths_made(dt_zk_elector *e);
/* Answer to DT_ASK_PATH. */
void dt_zk_elector_session_path_made(dt_zk_elector *e, const struct dt_zk_reply *reply);
/* Keeps the lease going while something is led. */
void dt_zk_elector_session_ping(dt_zk_elector *e);
/* When the next ping is due, or the lease over; INT64_MAX while nothing is led. */
int64_t dt_zk_elector_session_next_us(const dt_zk_elector *e);

#endif
