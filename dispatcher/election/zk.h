/*
 * The port to ZooKeeper: one session, and asynchronous requests. No call waits for a server.
 *
 * A caller allocates a struct dt_zk_reply (all zeroes), sets its own members, and passes it to a request. dt_zk_take
 * returns the reply exactly once: with ZooKeeper's answer, or as DT_ZK_LOST. ZooKeeper's threads copy the answer into
 * the reply, signal the mailbox and return.
 *
 * Only the elector's thread calls these functions. zk.c is the only file that includes zookeeper.h; tests link another
 * one.
 */
#pragma once

#include "base/status.h"
#include "base/thread.h"
#include "elector_kind.h"

typedef struct dt_zk dt_zk;

enum {
    DT_ZK_ANSWERED = 1, /* dt_zk_take has replies */
    DT_ZK_SESSION = 2,  /* dt_zk_state has changed */
};

/* REFUSED: any other answer. LOST: no answer, so the request may or may not have been carried out. */
enum dt_zk_outcome { DT_ZK_OK, DT_ZK_EXISTS, DT_ZK_MISSING, DT_ZK_REFUSED, DT_ZK_LOST };

/* A running request, then its answer. Freed by dt_zk_reply_free. */
struct dt_zk_reply {
    /* Members of the caller. */
    int request;
    unsigned index;
    int64_t sent_us; /* mono */
    /* Members of the adapter, while the request runs. */
    dt_zk *zk;
    struct dt_lease *lease;
    struct dt_zk_reply *next; /* in the list of dt_zk_take */
    enum dt_zk_outcome outcome;
    const char *reason;    /* of any outcome but OK, in ZooKeeper's words; static */
    int64_t owner_session; /* answer to dt_zk_owner */
    char *name;            /* dt_zk_create: the node that was created, without its path; NULL also if memory ran out */
    char **children;       /* answer to dt_zk_list */
    size_t n_children;
};

void dt_zk_reply_free(struct dt_zk_reply *reply);

/* ---- the session ---- */

enum dt_zk_state { DT_ZK_CLOSED, DT_ZK_CONNECTING, DT_ZK_CONNECTED, DT_ZK_EXPIRED };

/* No session yet. The mailbox is borrowed. */
DT_MUST_CHECK dt_status dt_zk_new(dt_mailbox *mailbox, dt_zk **out);
void dt_zk_free(dt_zk *zk); /* a closed session; accepts NULL */
struct dt_zk_server {
    /* The servers as host:port, separated by commas; after the last one a chroot ("/apps/jobs"), which must exist. */
    const char *hosts;
    /* "user:password": only this user may change the created nodes; "": any client may. */
    const char *digest;
};
/*
 * False: no session, and no attempt to get one. True: it continues to connect after it returned. Texts are copied.
 *
 * An existing session continues with another handle, which has no versions of nodes and resolves names again. If a
 * server lost its data, it refuses for ever a handle that has seen newer data, and tells this new one that the session
 * has expired. Only for a session that is CONNECTING, without running requests; the watches of lists end.
 */
bool dt_zk_open(dt_zk *zk, const struct dt_zk_server *server, int timeout_ms);
/* Whether the handle was opened with this digest. */
bool dt_zk_opened_as(const dt_zk *zk, const char *digest);
/*
 * Ends the session. After it returns, no reply is added and no signal sent. Replies that ZooKeeper's client has lost do
 * not arrive any more.
 */
void dt_zk_close(dt_zk *zk);
/* CONNECTED: *timeout_ms is the negotiated timeout of the session. EXPIRED stays until it is closed and opened. */
enum dt_zk_state dt_zk_state(dt_zk *zk, int *timeout_ms);
/* The session that owns ephemeral nodes created now. */
int64_t dt_zk_session(dt_zk *zk);

/* All replies since the last call, oldest first; the caller frees them. NULL: none. */
struct dt_zk_reply *dt_zk_take(dt_zk *zk);

/* ---- requests, while there is a session; each takes the reply over ---- */

enum dt_zk_node { DT_ZK_PERSISTENT, DT_ZK_EPHEMERAL, DT_ZK_SEQUENTIAL /* and ephemeral */ };

/* Signals when the list has changed since it was read; must outlive the session. */
struct dt_zk_watch {
    dt_mailbox *mailbox;
    uint32_t signal;
};

void dt_zk_create(dt_zk *zk, struct dt_zk_reply *reply, const char *path, const char *data, enum dt_zk_node node);
void dt_zk_delete(dt_zk *zk, struct dt_zk_reply *reply, const char *path);
void dt_zk_list(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_zk_watch *watch);
/* Which session owns a node. */
void dt_zk_owner(dt_zk *zk, struct dt_zk_reply *reply, const char *path);
/* Requests only an answer, which extends the lease from sent_us at once, on ZooKeeper's thread. Only a LOST one sends a
 * signal. */
void dt_zk_ping(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_lease *lease);
