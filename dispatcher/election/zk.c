/*
 * Owns: the handle of ZooKeeper's client, and the list of replies that were not taken yet. Refuses to know: what nodes
 * are for.
 *
 * Invariants: a callback takes only the lock of that list, and never waits. A request that could not be sent gets the
 * same reply as a request whose answer was lost.
 */
#include "zk.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

#include "base/log.h"

struct dt_zk {
    zhandle_t *zh;
    bool secured; /* only the user of `digest` may change created nodes */
    char *digest; /* user and password */
    dt_mailbox *mailbox;
    pthread_mutex_t lock; /* protects the list of replies */
    struct dt_zk_reply *inbox, **inbox_end;
};

/* ---- replies ---- */

void dt_zk_reply_free(struct dt_zk_reply *reply)
{
    for (size_t i = 0; i < reply->n_children; i++)
        free(reply->children[i]);
    free(reply->children);
    free(reply->name);
    free(reply);
}

static enum dt_zk_outcome outcome_of(int rc)
{
    switch (rc) {
    case ZOK:
        return DT_ZK_OK;
    case ZNODEEXISTS:
        return DT_ZK_EXISTS;
    case ZNONODE:
        return DT_ZK_MISSING;
    case ZSESSIONEXPIRED:
    case ZCLOSING:
    case ZSESSIONMOVED:
        return DT_ZK_LOST;
    default:
        return rc < ZAPIERROR ? DT_ZK_REFUSED : DT_ZK_LOST;
    }
}

static void queue_reply(dt_zk *zk, struct dt_zk_reply *reply, int rc)
{
    reply->outcome = outcome_of(rc);
    reply->reason = zerror(rc);
    reply->next = NULL;
    pthread_mutex_lock(&zk->lock);
    dt_assert(!*zk->inbox_end);
    *zk->inbox_end = reply;
    zk->inbox_end = &reply->next;
    pthread_mutex_unlock(&zk->lock);
}

static void post_reply(dt_zk *zk, struct dt_zk_reply *reply, int rc)
{
    queue_reply(zk, reply, rc);
    dt_mailbox_signal(zk->mailbox, DT_ZK_ANSWERED);
}

struct dt_zk_reply *dt_zk_take(dt_zk *zk)
{
    struct dt_zk_reply *list;
    pthread_mutex_lock(&zk->lock);
    list = zk->inbox;
    zk->inbox = NULL;
    zk->inbox_end = &zk->inbox;
    pthread_mutex_unlock(&zk->lock);
    return list;
}

/* ---- ZooKeeper's threads ---- */

static struct dt_zk_reply *reply_of(const void *data)
{
    return (struct dt_zk_reply *)(uintptr_t)data;
}

static void on_string(int rc, const char *value, const void *data)
{
    struct dt_zk_reply *reply = reply_of(data);
    const char *base = rc == ZOK && value ? strrchr(value, '/') : NULL;
    if (base)
        reply->name = strdup(base + 1);
    post_reply(reply->zk, reply, rc);
}

static void on_void(int rc, const void *data)
{
    struct dt_zk_reply *reply = reply_of(data);
    post_reply(reply->zk, reply, rc);
}

/* An answered ping wakes no thread: it only extends the lease. */
static void on_ping(int rc, const struct Stat *, const void *data)
{
    struct dt_zk_reply *reply = reply_of(data);
    if (outcome_of(rc) == DT_ZK_LOST) {
        post_reply(reply->zk, reply, rc);
        return;
    }
    dt_lease_extend(reply->lease, reply->sent_us);
    queue_reply(reply->zk, reply, rc);
}

static void on_data(int rc, const char *, int, const struct Stat *stat, const void *data)
{
    struct dt_zk_reply *reply = reply_of(data);
    if (rc == ZOK && stat)
        reply->owner_session = stat->ephemeralOwner;
    post_reply(reply->zk, reply, rc);
}

/* If memory runs out while the list of children is copied, the reply fails, and the caller requests the list again. */
static void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    struct dt_zk_reply *reply = reply_of(data);
    size_t n = rc == ZOK && strings ? (size_t)strings->count : 0;
    if (n > 0 && (reply->children = calloc(n, sizeof(*reply->children))) == NULL)
        rc = ZSYSTEMERROR;
    while (rc == ZOK && reply->n_children < n) {
        char *copy = strdup(strings->data[reply->n_children]);
        if (!copy)
            rc = ZSYSTEMERROR;
        else
            reply->children[reply->n_children++] = copy;
    }
    post_reply(reply->zk, reply, rc);
}

static void on_session(zhandle_t *, int type, int, const char *, void *context)
{
    dt_zk *zk = context;
    if (type == ZOO_SESSION_EVENT)
        dt_mailbox_signal(zk->mailbox, DT_ZK_SESSION);
}

static void on_watch(zhandle_t *, int type, int, const char *, void *context)
{
    const struct dt_zk_watch *watch = context;
    if (type != ZOO_SESSION_EVENT)
        dt_mailbox_signal(watch->mailbox, watch->signal);
}

static void on_log(const char *text)
{
    DT_LOG(DEBUG, "zookeeper", text);
}

/* ---- the session ---- */

dt_status dt_zk_new(dt_mailbox *mailbox, dt_zk **out)
{
    dt_zk *zk = calloc(1, sizeof(*zk));
    *out = zk;
    if (!zk)
        return DT_NOMEM;
    pthread_mutex_init(&zk->lock, NULL);
    zk->mailbox = mailbox;
    zk->inbox_end = &zk->inbox;
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    return DT_OK;
}

void dt_zk_free(dt_zk *zk)
{
    if (!zk)
        return;
    pthread_mutex_destroy(&zk->lock);
    free(zk);
}

bool dt_zk_opened_as(const dt_zk *zk, const char *digest)
{
    return zk->digest && strcmp(zk->digest, digest) == 0;
}

/* Opens a handle. ZooKeeper accepts any digest; a wrong digest is only noticed when a node belongs to another user.
 * ZooKeeper's client sends the digest again after each reconnect. */
bool dt_zk_open(dt_zk *zk, const struct dt_zk_server *server, int timeout_ms)
{
    const char *digest = server->digest;
    clientid_t session = {0};

    if (zk->zh)
        session = *zoo_client_id(zk->zh);
    dt_zk_close(zk);
    zk->zh = zookeeper_init2(server->hosts, on_session, timeout_ms, session.client_id ? &session : NULL, zk, 0, on_log);
    if (!zk->zh)
        return false;
    zk->secured = digest[0];
    zk->digest = strdup(digest);
    if (!zk->digest || (zk->secured && zoo_add_auth(zk->zh, "digest", digest, (int)strlen(digest), NULL, NULL) != ZOK))
        dt_zk_close(zk);
    return zk->zh;
}

void dt_zk_close(dt_zk *zk)
{
    if (zk->zh)
        zookeeper_close(zk->zh); /* after this call no callback runs */
    zk->zh = NULL;
    if (zk->digest)
        explicit_bzero(zk->digest, strlen(zk->digest));
    free(zk->digest);
    zk->digest = NULL;
}

enum dt_zk_state dt_zk_state(dt_zk *zk, int *timeout_ms)
{
    int state;
    if (!zk->zh)
        return DT_ZK_CLOSED;
    state = zoo_state(zk->zh);
    if (is_unrecoverable(zk->zh))
        return DT_ZK_EXPIRED;
    if (state != ZOO_CONNECTED_STATE)
        return DT_ZK_CONNECTING;
    *timeout_ms = zoo_recv_timeout(zk->zh);
    return DT_ZK_CONNECTED;
}

int64_t dt_zk_session(dt_zk *zk)
{
    return zoo_client_id(zk->zh)->client_id;
}

/* ---- requests ---- */

/* If the client did not accept the request (rc), posts a reply, because the client will call no callback. */
static void post_if_rejected(dt_zk *zk, struct dt_zk_reply *reply, int rc)
{
    if (rc != ZOK)
        post_reply(zk, reply, ZCONNECTIONLOSS);
}

void dt_zk_create(dt_zk *zk, struct dt_zk_reply *reply, const char *path, const char *data, enum dt_zk_node node)
{
    const struct ACL_vector *acl = zk->secured ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    int flags = node == DT_ZK_PERSISTENT ? 0 : ZOO_EPHEMERAL | (node == DT_ZK_SEQUENTIAL ? ZOO_SEQUENCE : 0);
    reply->zk = zk;
    post_if_rejected(zk, reply, zoo_acreate(zk->zh, path, data, (int)strlen(data), acl, flags, on_string, reply));
}

void dt_zk_delete(dt_zk *zk, struct dt_zk_reply *reply, const char *path)
{
    reply->zk = zk;
    post_if_rejected(zk, reply, zoo_adelete(zk->zh, path, -1, on_void, reply));
}

void dt_zk_list(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_zk_watch *watch)
{
    reply->zk = zk;
    post_if_rejected(zk, reply, zoo_awget_children(zk->zh, path, on_watch, watch, on_strings, reply));
}

void dt_zk_owner(dt_zk *zk, struct dt_zk_reply *reply, const char *path)
{
    reply->zk = zk;
    post_if_rejected(zk, reply, zoo_aget(zk->zh, path, 0, on_data, reply));
}

void dt_zk_ping(dt_zk *zk, struct dt_zk_reply *reply, const char *path, struct dt_lease *lease)
{
    reply->zk = zk;
    reply->lease = lease;
    post_if_rejected(zk, reply, zoo_aexists(zk->zh, path, 0, on_ping, reply));
}
