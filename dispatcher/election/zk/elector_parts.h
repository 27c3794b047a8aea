/*
 * The inside of an elector, shared by its files and nobody else. Each calls only those above it in this list.
 *
 *   elector_link.c     requests to ZooKeeper, the pauses after trouble
 *   elector_nodes.c    the leader nodes of shards: their states, the list of them
 *   elector_member.c   this process's member node, and the list of members
 *   elector_session.c  the session: opening, closing, the lease, the paths
 *   elector.c          the thread, the plan, the interface
 *
 * All of it runs on the elector's thread, or in a test that calls dt_elector_step.
 */
#ifndef DT_DISPATCHER_ELECTOR_PARTS_H
#define DT_DISPATCHER_ELECTOR_PARTS_H

#include "base/mailbox.h"
#include "base/outage.h"
#include "base/thread.h"
#include "election/elector.h"
#include "election/elector_share.h"
#include "election/lease.h"
#include "zk.h"

/* Signals besides ZooKeeper's (zk.h). */
enum { DT_ELECTOR_MEMBERS = 4, DT_ELECTOR_LEADERS = 8, DT_ELECTOR_CALLER = 16 };

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

struct dt_elector {
    /* set once */
    char *servers, *owner;
    const dt_clock *clock;
    struct dt_elector_events events;
    char members_path[DT_ELECTOR_PATH], leaders_path[DT_ELECTOR_PATH];
    char paths[4][DT_ELECTOR_PATH]; /* to be made, in this order; the two above are the last */
    struct dt_thread thread;
    dt_mailbox *box;
    struct dt_zk_watch members_watch, leaders_watch;

    /* shared with every thread */
    _Atomic unsigned shards;
    _Atomic bool leaving;
    _Atomic bool released[DT_SHARDS_MAX];
    _Atomic bool leads[DT_SHARDS_MAX]; /* HELD or RELEASING */
    _Atomic unsigned n_leads;
    struct dt_lease lease;
    _Atomic uint64_t place; /* members << 32 | rank, as last seen; 0 = never */

    /* the elector's thread only: this session */
    dt_zk *zk;
    int timeout_ms;
    char guid[DT_ELECTOR_GUID];
    bool connected;
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

    /* the elector's thread only: every session */
    int64_t not_before_us; /* after trouble: no requests, or no new session, until then */
    int64_t backoff_us;
    struct dt_outage_part outage;
    struct dt_share_plan plan; /* scratch */
};

/* ---- elector_link.c ---- */

/* What a reply answers. */
enum dt_elector_request {
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

int64_t dt_elector_now_us(const dt_elector *e);
uint64_t dt_elector_random(const dt_elector *e);
/* No request, and no new session, for a while: twice as long each time, with jitter. */
void dt_elector_back_off(dt_elector *e);
/* A request to be handed to zk.h; index: the shard, or the path. NULL: no memory, and the elector backs off. */
struct dt_zk_reply *dt_elector_request(dt_elector *e, enum dt_elector_request request, unsigned index);
/* Asks for a list of children, and to be told when it changes. */
void dt_elector_list(dt_elector *e, enum dt_elector_request request);
/* The list did not come, or its path has gone. */
void dt_elector_list_failed(dt_elector *e, struct dt_listing *list, const struct dt_zk_reply *reply);
/* The paths have to be made again before anything else. */
void dt_elector_paths_gone(dt_elector *e);
/* Tells of a failure, as the outage's manner is. */
void dt_elector_note(dt_elector *e, const char *what, const char *request, const char *reason);
/* ZooKeeper refused the request: notes it, and backs off. */
void dt_elector_trouble(dt_elector *e, const char *request, const struct dt_zk_reply *reply);

/* ---- elector_nodes.c ---- */

void dt_nodes_take(dt_elector *e, unsigned shard);
/* HELD: events.release. Anything else on its way to HELD: dropped as soon as it is known to be ours. */
void dt_nodes_release(dt_elector *e, unsigned shard);
/* events.lost for all that are led; what became of the nodes will be looked at. */
void dt_nodes_lose_all(dt_elector *e, const char *why);
/* The session has ended, and all nodes with it. */
void dt_nodes_forget(dt_elector *e);
/* Asks for what is unsure, and gives back what loops have released. Only without trouble. */
void dt_nodes_serve(dt_elector *e);
/* Without a connection: what loops have released is dropped when there is one again. */
void dt_nodes_serve_disconnected(dt_elector *e);
/* What the plan sees of the shards: led here or about to be, and not free for anybody. Both DT_SHARDS_MAX long. */
void dt_nodes_view(const dt_elector *e, bool *mine, bool *taken);
/* Answers to DT_ASK_TAKE, _DROP, _LOOK and _LEADERS. */
void dt_nodes_taken(dt_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_dropped(dt_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_looked(dt_elector *e, const struct dt_zk_reply *reply);
void dt_nodes_listed(dt_elector *e, const struct dt_zk_reply *reply);

/* ---- elector_member.c ---- */

/* Joins, or quits when the elector is leaving. */
void dt_member_serve(dt_elector *e);
/* Answers to DT_ASK_JOIN, _QUIT and _MEMBERS. The first one's name is taken out of the reply. */
void dt_member_joined(dt_elector *e, struct dt_zk_reply *reply);
void dt_member_quit(dt_elector *e, const struct dt_zk_reply *reply);
void dt_member_listed(dt_elector *e, const struct dt_zk_reply *reply);
/* The session has ended, and the node with it. */
void dt_member_forget(dt_elector *e);

/* ---- elector_session.c ---- */

/* Opens a session when there is none, closes one that has expired. True: connected. */
bool dt_elector_session_serve(dt_elector *e);
/* Ends the session, and all that was led and known by it. */
void dt_elector_session_close(dt_elector *e);
/* Makes the paths when that was not asked for yet. True: they are there. */
bool dt_elector_session_paths_made(dt_elector *e);
/* Answer to DT_ASK_PATH. */
void dt_elector_session_path_made(dt_elector *e, const struct dt_zk_reply *reply);
/* Keeps the lease going while something is led. */
void dt_elector_session_ping(dt_elector *e);
/* When the next ping is due, or the lease over; INT64_MAX while nothing is led. */
int64_t dt_elector_session_next_us(const dt_elector *e);

/* ---- elector.c, for tests ---- */

/* All of an elector but its thread. The session is opened by the first step. */
DT_MUST_CHECK dt_status dt_elector_new(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
/* Reads what came, and does what there is to do. Never waits, but when a session is closed. */
void dt_elector_step(dt_elector *e, uint32_t signals);
/* Mono: when there will be something to do without a signal; INT64_MAX = never. */
int64_t dt_elector_next_us(const dt_elector *e);

#endif
