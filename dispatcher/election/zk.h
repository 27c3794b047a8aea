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
    DT_ZK_ANSWERED = 1, /* bit of the mailbox: dt_zk_take has replies to return */
    DT_ZK_SESSION = 2,  /* bit of the mailbox: the result of dt_zk_state has changed */
};

/* REFUSED: ZooKeeper returned another error. LOST: no answer arrived, so the request may or may not have been carried
 * out. */
enum dt_zk_outcome { DT_ZK_OK, DT_ZK_EXISTS, DT_ZK_MISSING, DT_ZK_REFUSED, DT_ZK_LOST };

/* A request while it runs, and its answer afterwards. The caller frees it with dt_zk_reply_free. */
struct dt_zk_reply {
    /* Set by the caller. */
    int request;
    unsigned index;
    int64_t sent_us; /* mono: when the request was sent */
    /* Set by zk.c while the request runs. */
    dt_zk *zk;
    struct dt_lease *lease;
    struct dt_zk_reply *next; /* next reply in the list of dt_zk_take */
    enum dt_zk_outcome outcome;
    const char *reason;    /* why the outcome is not OK, in ZooKeeper's words; static */
    int64_t owner_session; /* answer to dt_zk_owner */
    /* Answer to dt_zk_create: name of the created node, without its path; NULL: memory ran out. */
    char *name;
    char **children; /* answer to dt_zk_list */
    size_t n_children;
};

void dt_zk_reply_free(struct dt_zk_reply *reply);

/* ---- the session ---- */

enum dt_zk_state { DT_ZK_CLOSED, DT_ZK_CONNECTING, DT_ZK_CONNECTED, DT_ZK_EXPIRED };

/* Creates a port without a session. The mailbox is borrowed. */
dt_status dt_zk_new(dt_mailbox *mailbox, dt_zk **out);
void dt_zk_free(dt_zk *zk); /* frees a port whose session is closed; accepts NULL */
struct dt_zk_server {
    /* Servers as host:port, separated by commas. After the last server a chroot ("/apps/jobs") may follow, which must
     * exist. */
    const char *hosts;
    /* "user:password": only this user may change the created nodes. "": any client may change them. */
    const char *digest;
};
/*
 * Opens a session. False: there is no session, and none is being opened. True: the client continues to connect after
 * this call has returned. Texts are copied.
 *
 * If there is a session already, it gets a new handle, which resolves names again and has seen no data. (If a server
 * has lost its data, it refuses for ever a handle that has seen newer data, but reports to a new handle that the
 * session has expired.) The session must be CONNECTING, without running requests; watches of lists end.
 */
bool dt_zk_open(dt_zk *zk, const struct dt_zk_server *server, int timeout_ms);
/* Returns whether the handle was opened with this digest. */
bool dt_zk_opened_as(const dt_zk *zk, const char *digest);
/* Ends the session. After it returns, no reply is added and no signal sent. If ZooKeeper's client lost a reply, the
 * reply is never returned. */
void dt_zk_close(dt_zk *zk);
/* Returns the session's state. CONNECTED: *timeout_ms is the negotiated timeout. EXPIRED lasts until the session is
 * closed and opened again. */
enum dt_zk_state dt_zk_state(dt_zk *zk, int *timeout_ms);
/* Returns the id of the session, which owns the ephemeral nodes that it creates. */
int64_t dt_zk_session(dt_zk *zk);

/* Returns all replies since the last call, oldest first; the caller frees them. NULL: there are none. */
struct dt_zk_reply *dt_zk_take(dt_zk *zk);

/* ---- requests, while there is a session; each takes the reply over ---- */

enum dt_zk_node { DT_ZK_PERSISTENT, DT_ZK_EPHEMERAL, DT_ZK_SEQUENTIAL /* DT_ZK_SEQUENTIAL nodes are also ephemeral */ };

/* A watch: gets a signal when a list has changed since it was read. Must outlive the session. */
struct dt_zk_watch {
    dt_mailbox *mailbox;
    uint32_t signal;
};

void dt_zk_create(dt_zk *zk, struct dt_zk_reply *reply, const char *path, const char *data, enum dt_zk_node node);
void dt_zk_delete(dt_zk *zk, struct dt_zk_reply *reply, const char *path);
void dt_zk_list(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_zk_watch *watch);
/* Requests the id of the session that owns a node. */
void dt_zk_owner(dt_zk *zk, struct dt_zk_reply *reply, const char *path);
/* Sends a request whose answer only extends the lease: at once, on ZooKeeper's thread, counted from sent_us. Only a
 * LOST reply sends a signal. */
void dt_zk_ping(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_lease *lease);
