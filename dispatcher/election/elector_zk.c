/*
 * Owns:            the session with ZooKeeper, this process's member node, and the leader nodes of the shards it leads.
 * Refuses to know: MySQL, Kafka, and what leading a shard means. Safety is theirs; here it is only decided who tries.
 *
 * One thread does everything. ZooKeeper's threads copy what they bring into `inbox`, signal the mailbox and return;
 * calls of other threads set a flag and signal. Requests are asynchronous throughout, so that a server that hangs
 * cannot keep the thread from telling the shards in time that they are lost.
 *
 *   NONE ──create──▶ TAKING ──ours──▶ HELD ──above share──▶ RELEASING ──released──▶ DROPPING ──gone──▶ NONE
 *                      │               │                        │                       │
 *                      └──answer lost──┴───────lease over───────┴──────answer lost──────┴──▶ UNSURE
 *   UNSURE ──look──▶ HELD, DROPPING or NONE
 *
 * Lease: a request that ZooKeeper answered was sent at some time. At that time the session lived, and it lives on for
 * its whole timeout from then. We lead for two thirds of the timeout from the sending of the last answered request, by
 * the monotonic clock. So it does not matter how a silence began: cut, killed, stopped, or this process itself stopped
 * for a while. As long as a shard is led a request is sent every 0.3 timeouts, in place of the client's own ping (which
 * comes after a third of silence).
 *
 * Invariants:
 *   - gained, release and lost are called on this thread only. A shard is gained only while the lease runs, and lost at
 *     its end.
 *   - A node is believed to be ours only by the answer to its creation, or by looking that its owner is our session.
 *   - A session that expired is closed here, never in a callback, and nothing of it is left when the next one begins.
 */
#include "elector.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zookeeper/zookeeper.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/outage.h"
#include "base/thread.h"
#include "elector_share.h"

enum { SIGNAL_INBOX = 1, SIGNAL_SESSION = 2, SIGNAL_MEMBERS = 4, SIGNAL_LEADERS = 8, SIGNAL_CALLER = 16 };
enum { BACKOFF_MIN_US = 100000, BACKOFF_MAX_US = 5000000, CLOSE_WAIT_US = 300000 };
enum { PATH_SIZE = 256, GUID_SIZE = 33 };

enum node_state { NODE_NONE, NODE_TAKING, NODE_HELD, NODE_RELEASING, NODE_DROPPING, NODE_UNSURE };

struct node {
    enum node_state state;
    bool unwanted; /* TAKING, UNSURE: to be dropped as soon as it is known to be ours */
    bool looking;
};

enum request_kind { ASK_PATH, ASK_JOIN, ASK_QUIT, ASK_MEMBERS, ASK_LEADERS, ASK_TAKE, ASK_DROP, ASK_LOOK, ASK_PING };

/* A request under way, then its answer. */
struct reply {
    struct reply *next;
    struct dt_elector *elector;
    enum request_kind kind;
    unsigned shard; /* TAKE, DROP, LOOK; PATH: which */
    int64_t sent_us;
    int rc;
    int64_t owner_session; /* LOOK */
    char *name;            /* JOIN: the node that was made */
    char **children;       /* MEMBERS, LEADERS */
    size_t n_children;
};

enum joined { JOIN_NO, JOIN_SENT, JOIN_UNSURE, JOIN_YES };

/* Where a list of children stands. */
struct listing {
    bool known, asked, stale;
};

struct dt_elector {
    /* set once */
    char *servers, *owner;
    int timeout_ms;
    const dt_clock *clock;
    struct dt_elector_events events;
    char members_path[PATH_SIZE], leaders_path[PATH_SIZE];
    char paths[4][PATH_SIZE];
    struct dt_thread thread;
    dt_mailbox *box;

    /* shared with every thread */
    pthread_mutex_t lock; /* inbox */
    struct reply *inbox, **inbox_end;
    _Atomic unsigned shards;
    _Atomic bool leaving;
    _Atomic bool released[DT_SHARDS_MAX];
    _Atomic bool leads[DT_SHARDS_MAX]; /* HELD or RELEASING */
    _Atomic unsigned n_leads;
    _Atomic int64_t lease_until_us, lease_us; /* its end; its length */
    _Atomic uint64_t place;                   /* members << 32 | rank, as last seen; 0 = never */

    /* the elector's thread only: this session */
    zhandle_t *zh;
    char guid[GUID_SIZE];
    bool connected;
    bool paths_asked, paths_made;
    enum joined joined;
    char *member_name;
    bool quit_asked, quit_done;
    struct listing members, leaders;
    unsigned n_members, rank;
    bool taken[DT_SHARDS_MAX];
    struct node nodes[DT_SHARDS_MAX];
    unsigned outstanding; /* requests whose answer was not read */
    bool pinging;
    int64_t asked_us; /* when the last request was sent */

    int64_t not_before_us; /* after trouble: no requests, or no new session, until then */
    int64_t backoff_us;
    struct dt_outage_part outage;
    struct dt_share_plan plan; /* scratch */
};

/* ---- small things ---- */

static int64_t now_us(const struct dt_elector *e)
{
    return dt_clock_mono_us(e->clock);
}

static uint64_t random_u64(const struct dt_elector *e)
{
    uint64_t v;

    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint64_t)now_us(e) * 6364136223846793005u;
    return v;
}

static void set_timeout(struct dt_elector *e, int timeout_ms)
{
    e->timeout_ms = timeout_ms;
    atomic_store(&e->lease_us, timeout_ms * INT64_C(1000) * 2 / 3);
}

static int64_t ping_every_us(const struct dt_elector *e)
{
    return e->timeout_ms * INT64_C(300);
}

/* Doubling, with jitter: between half of the step and all of it. */
static void back_off(struct dt_elector *e)
{
    int64_t step = e->backoff_us;

    e->not_before_us = now_us(e) + step / 2 + (int64_t)(random_u64(e) % (uint64_t)(step / 2));
    e->backoff_us = step * 2 < BACKOFF_MAX_US ? step * 2 : BACKOFF_MAX_US;
}

static bool answered(int rc)
{
    return rc == ZOK || (rc < ZAPIERROR && rc != ZSESSIONEXPIRED && rc != ZCLOSING && rc != ZSESSIONMOVED);
}

static void reply_free(struct reply *r)
{
    for (size_t i = 0; i < r->n_children; i++)
        free(r->children[i]);
    free(r->children);
    free(r->name);
    free(r);
}

/* ---- ZooKeeper's threads ---- */

static void put(struct reply *r, int rc)
{
    struct dt_elector *e = r->elector;

    r->rc = rc;
    r->next = NULL;
    pthread_mutex_lock(&e->lock);
    *e->inbox_end = r;
    e->inbox_end = &r->next;
    pthread_mutex_unlock(&e->lock);
}

static void post(struct reply *r, int rc)
{
    struct dt_elector *e = r->elector;

    put(r, rc);
    dt_mailbox_signal(e->box, SIGNAL_INBOX);
}

/* Never back: answers come in order, but this is called by two threads. */
static void extend_lease(struct dt_elector *e, int64_t sent_us)
{
    const int64_t until_us = sent_us + atomic_load(&e->lease_us);
    int64_t was_us = atomic_load(&e->lease_until_us);

    while (until_us > was_us && !atomic_compare_exchange_weak(&e->lease_until_us, &was_us, until_us))
        ;
}

static struct reply *reply_of(const void *data)
{
    return (struct reply *)(uintptr_t)data;
}

static void on_string(int rc, const char *value, const void *data)
{
    struct reply *r = reply_of(data);
    const char *base = rc == ZOK && value ? strrchr(value, '/') : NULL;

    if (base)
        r->name = strdup(base + 1);
    post(r, rc);
}

static void on_void(int rc, const void *data)
{
    post(reply_of(data), rc);
}

/* The answer to a ping: all that it says is that the lease goes on, so nobody is woken for it. */
static void on_ping(int rc, const struct Stat *stat, const void *data)
{
    struct reply *r = reply_of(data);
    struct dt_elector *e = r->elector;

    (void)stat;
    if (!answered(rc)) {
        post(r, rc);
        return;
    }
    extend_lease(e, r->sent_us);
    put(r, rc);
}

static void on_data(int rc, const char *value, int n, const struct Stat *stat, const void *data)
{
    struct reply *r = reply_of(data);

    (void)value, (void)n;
    if (rc == ZOK && stat)
        r->owner_session = stat->ephemeralOwner;
    post(r, rc);
}

/* A list that memory does not suffice for is as good as none: it is asked for again. */
static void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    struct reply *r = reply_of(data);
    size_t n = rc == ZOK && strings ? (size_t)strings->count : 0;

    if (n > 0 && (r->children = calloc(n, sizeof(*r->children))) == NULL)
        rc = ZSYSTEMERROR;
    while (rc == ZOK && r->n_children < n) {
        char *copy = strdup(strings->data[r->n_children]);

        if (!copy)
            rc = ZSYSTEMERROR;
        else
            r->children[r->n_children++] = copy;
    }
    post(r, rc);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct dt_elector *e = context;

    (void)zh, (void)state, (void)path;
    if (type == ZOO_SESSION_EVENT)
        dt_mailbox_signal(e->box, SIGNAL_SESSION);
}

static void on_members_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct dt_elector *e = context;

    (void)zh, (void)state, (void)path;
    if (type != ZOO_SESSION_EVENT)
        dt_mailbox_signal(e->box, SIGNAL_MEMBERS);
}

static void on_leaders_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct dt_elector *e = context;

    (void)zh, (void)state, (void)path;
    if (type != ZOO_SESSION_EVENT)
        dt_mailbox_signal(e->box, SIGNAL_LEADERS);
}

static void on_log(const char *text)
{
    DT_LOG(DEBUG, "zookeeper", text);
}

/* ---- nodes ---- */

static bool leads_in(enum node_state state)
{
    return state == NODE_HELD || state == NODE_RELEASING;
}

/* The one place where a node's state changes. */
static void node_to(struct dt_elector *e, unsigned shard, enum node_state state)
{
    struct node *node = &e->nodes[shard];
    const bool led = leads_in(node->state);
    const bool leads = leads_in(state);

    node->state = state;
    if (state == NODE_NONE || state == NODE_HELD)
        node->unwanted = false;
    if (state == NODE_HELD)
        atomic_store(&e->released[shard], false);
    if (led == leads)
        return;
    atomic_store(&e->leads[shard], leads);
    if (leads)
        atomic_fetch_add(&e->n_leads, 1);
    else
        atomic_fetch_sub(&e->n_leads, 1);
}

/* Stop leading now; whether the node is still ours will be looked at. */
static void lose(struct dt_elector *e, unsigned shard)
{
    struct node *node = &e->nodes[shard];

    node->unwanted = node->unwanted || node->state == NODE_RELEASING;
    node_to(e, shard, NODE_UNSURE);
    e->events.lost(e->events.arg, shard);
}

static void lose_all(struct dt_elector *e, const char *why)
{
    unsigned n = atomic_load(&e->n_leads);

    if (n == 0)
        return;
    DT_LOG(WARN, "elector", "stepping down", DT_S("reason", why), DT_I("shards", n));
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (leads_in(e->nodes[s].state))
            lose(e, s);
    }
}

/* ---- requests ---- */

static struct reply *new_request(struct dt_elector *e, enum request_kind kind, unsigned shard)
{
    struct reply *r = calloc(1, sizeof(*r));

    if (!r) {
        back_off(e);
        return NULL;
    }
    r->elector = e;
    r->kind = kind;
    r->shard = shard;
    r->sent_us = e->asked_us = now_us(e);
    e->outstanding++;
    return r;
}

/* A request that did not even go out is answered like one whose answer was lost. */
static void sent(struct reply *r, int rc)
{
    if (rc != ZOK)
        post(r, ZCONNECTIONLOSS);
}

static void leader_path(const struct dt_elector *e, unsigned shard, char *path)
{
    snprintf(path, PATH_SIZE + 16, "%s/%u", e->leaders_path, shard);
}

static void ask_paths(struct dt_elector *e)
{
    e->paths_asked = true;
    for (unsigned i = 0; i < 4; i++) {
        struct reply *r = new_request(e, ASK_PATH, i);

        if (r)
            sent(r, zoo_acreate(e->zh, e->paths[i], "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, r));
        else
            e->paths_asked = false;
    }
}

static void ask_join(struct dt_elector *e)
{
    char path[PATH_SIZE + GUID_SIZE + 8];
    struct reply *r = new_request(e, ASK_JOIN, 0);

    if (!r)
        return;
    e->joined = JOIN_SENT;
    snprintf(path, sizeof(path), "%s/m-%s-", e->members_path, e->guid);
    sent(r, zoo_acreate(e->zh, path, e->owner, (int)strlen(e->owner), &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL | ZOO_SEQUENCE, on_string, r));
}

static void ask_quit(struct dt_elector *e, const char *name)
{
    char path[PATH_SIZE * 2];
    struct reply *r = new_request(e, ASK_QUIT, 0);

    if (!r)
        return;
    snprintf(path, sizeof(path), "%s/%s", e->members_path, name);
    sent(r, zoo_adelete(e->zh, path, -1, on_void, r));
}

static void ask_children(struct dt_elector *e, enum request_kind kind, struct listing *l, const char *path,
                         watcher_fn watcher)
{
    struct reply *r = new_request(e, kind, 0);

    if (!r)
        return;
    l->asked = true;
    l->stale = false;
    sent(r, zoo_awget_children(e->zh, path, watcher, e, on_strings, r));
}

static void ask_take(struct dt_elector *e, unsigned shard)
{
    char path[PATH_SIZE + 16];
    char data[GUID_SIZE + 256];
    struct reply *r = new_request(e, ASK_TAKE, shard);

    if (!r)
        return;
    node_to(e, shard, NODE_TAKING);
    leader_path(e, shard, path);
    snprintf(data, sizeof(data), "%s %s", e->guid, e->owner);
    sent(r, zoo_acreate(e->zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, on_string, r));
}

/* Only for a node that is known to be ours: none but its owner's session deletes it, so no version is needed. */
static void ask_drop(struct dt_elector *e, unsigned shard)
{
    char path[PATH_SIZE + 16];
    struct reply *r = new_request(e, ASK_DROP, shard);

    if (!r) {
        e->nodes[shard].unwanted = true;
        node_to(e, shard, NODE_UNSURE);
        return;
    }
    node_to(e, shard, NODE_DROPPING);
    leader_path(e, shard, path);
    sent(r, zoo_adelete(e->zh, path, -1, on_void, r));
}

static void ask_look(struct dt_elector *e, unsigned shard)
{
    char path[PATH_SIZE + 16];
    struct reply *r = new_request(e, ASK_LOOK, shard);

    if (!r)
        return;
    e->nodes[shard].looking = true;
    leader_path(e, shard, path);
    sent(r, zoo_aget(e->zh, path, 0, on_data, r));
}

static void ask_ping(struct dt_elector *e)
{
    struct reply *r = new_request(e, ASK_PING, 0);

    if (!r)
        return;
    e->pinging = true;
    sent(r, zoo_aexists(e->zh, e->leaders_path, 0, on_ping, r));
}

/* ---- answers ---- */

/* The node is ours. Lead, unless it is not wanted any more or the lease ran out while we were told. */
static void own(struct dt_elector *e, unsigned shard)
{
    struct node *node = &e->nodes[shard];

    if (node->unwanted || atomic_load(&e->leaving)) {
        node->unwanted = true;
        ask_drop(e, shard);
        return;
    }
    if (now_us(e) >= atomic_load(&e->lease_until_us)) {
        node_to(e, shard, NODE_UNSURE);
        return;
    }
    node_to(e, shard, NODE_HELD);
    e->events.gained(e->events.arg, shard);
}

static void note_failure(struct dt_elector *e, const char *what, const char *request, int rc)
{
    struct dt_error err = {0};

    (void)dt_fail(&err, DT_UNAVAILABLE, "%s: %s", request, zerror(rc));
    dt_outage_failed(&e->outage, DT_OUTAGE_ZOOKEEPER, "elector", what, DT_UNAVAILABLE, &err);
}

static void trouble(struct dt_elector *e, const char *what, int rc)
{
    note_failure(e, "ZooKeeper refused a request", what, rc);
    back_off(e);
}

static void on_path_reply(struct dt_elector *e, const struct reply *r)
{
    if (r->rc != ZOK && r->rc != ZNODEEXISTS) {
        e->paths_asked = false;
        if (answered(r->rc) && r->rc != ZNONODE)
            trouble(e, e->paths[r->shard], r->rc);
        return;
    }
    if (r->shard == 3 && e->paths_asked) {
        e->paths_made = true;
        e->members.stale = e->leaders.stale = true;
    }
}

static void on_join_reply(struct dt_elector *e, struct reply *r)
{
    if (r->rc == ZOK) {
        e->joined = JOIN_YES;
        free(e->member_name);
        e->member_name = r->name;
        r->name = NULL;
        DT_LOG(INFO, "elector", "joined", DT_S("member", e->member_name ? e->member_name : ""));
    } else if (!answered(r->rc)) {
        e->joined = JOIN_UNSURE; /* the list of members will tell */
    } else {
        e->joined = JOIN_NO;
        e->paths_made = e->paths_asked = e->paths_made && r->rc != ZNONODE;
        trouble(e, "join", r->rc);
    }
    e->members.stale = true;
}

/* A listing whose answer did not come, or whose path has gone. */
static void on_list_failed(struct dt_elector *e, struct listing *l, int rc)
{
    l->stale = true;
    if (!answered(rc))
        return;
    if (rc == ZNONODE)
        e->paths_made = e->paths_asked = false;
    trouble(e, "list", rc);
}

/* Which of the members are we? A second node of ours, made by a request whose answer was lost, goes. */
static void find_self(struct dt_elector *e, const struct reply *r)
{
    const char *const *names = (const char *const *)r->children;
    bool found = dt_share_rank(names, r->n_children, e->guid, &e->rank);
    unsigned own_nodes = 0;

    for (size_t i = 0; i < r->n_children; i++) {
        if (strstr(names[i], e->guid) == NULL || own_nodes++ == 0)
            continue;
        ask_quit(e, names[i]);
    }
    if (found)
        e->joined = JOIN_YES;
    else if (e->joined == JOIN_UNSURE || e->joined == JOIN_YES)
        e->joined = JOIN_NO;
    e->n_members = (unsigned)r->n_children;
    if (found)
        atomic_store(&e->place, (uint64_t)e->n_members << 32 | e->rank);
}

static void remember_member(struct dt_elector *e, const struct reply *r)
{
    for (size_t i = 0; !e->member_name && i < r->n_children; i++) {
        if (strstr(r->children[i], e->guid) != NULL)
            e->member_name = strdup(r->children[i]);
    }
}

static void on_members_reply(struct dt_elector *e, const struct reply *r)
{
    e->members.asked = false;
    if (r->rc != ZOK) {
        on_list_failed(e, &e->members, r->rc);
        return;
    }
    e->members.known = true;
    find_self(e, r);
    remember_member(e, r);
}

static void on_leaders_reply(struct dt_elector *e, const struct reply *r)
{
    e->leaders.asked = false;
    if (r->rc != ZOK) {
        on_list_failed(e, &e->leaders, r->rc);
        return;
    }
    e->leaders.known = true;
    memset(e->taken, 0, sizeof(e->taken));
    for (size_t i = 0; i < r->n_children; i++) {
        unsigned long s = strtoul(r->children[i], NULL, 10);

        if (s < DT_SHARDS_MAX)
            e->taken[s] = true;
    }
    /* A leader's node that somebody deleted by hand: look, so that two do not believe in it for ever. */
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->nodes[s].state == NODE_HELD && !e->taken[s] && !e->nodes[s].looking)
            ask_look(e, s);
    }
}

static void on_take_reply(struct dt_elector *e, const struct reply *r)
{
    if (e->nodes[r->shard].state != NODE_TAKING)
        return;
    if (r->rc == ZOK) {
        own(e, r->shard);
        return;
    }
    node_to(e, r->shard, answered(r->rc) ? NODE_NONE : NODE_UNSURE);
    e->taken[r->shard] = e->taken[r->shard] || r->rc == ZNODEEXISTS;
    if (r->rc == ZNONODE)
        e->paths_made = e->paths_asked = false;
    if (answered(r->rc) && r->rc != ZNODEEXISTS)
        trouble(e, "take", r->rc);
}

static void on_drop_reply(struct dt_elector *e, const struct reply *r)
{
    if (e->nodes[r->shard].state != NODE_DROPPING)
        return;
    if (r->rc == ZOK || r->rc == ZNONODE) {
        node_to(e, r->shard, NODE_NONE);
        return;
    }
    e->nodes[r->shard].unwanted = true;
    node_to(e, r->shard, NODE_UNSURE);
    if (answered(r->rc))
        trouble(e, "drop", r->rc);
}

static void on_look_reply(struct dt_elector *e, const struct reply *r)
{
    struct node *node = &e->nodes[r->shard];
    const bool ours = r->rc == ZOK && r->owner_session == zoo_client_id(e->zh)->client_id;

    node->looking = false;
    if (!answered(r->rc) || (node->state != NODE_UNSURE && !leads_in(node->state)))
        return;
    if (ours && node->state == NODE_UNSURE) {
        own(e, r->shard);
    } else if (!ours) {
        if (leads_in(node->state))
            lose(e, r->shard);
        node_to(e, r->shard, NODE_NONE);
    }
}

static void confirm(struct dt_elector *e, const struct reply *r)
{
    if (!answered(r->rc))
        return;
    if (r->rc == ZOK) {
        e->backoff_us = BACKOFF_MIN_US;
        dt_outage_over(&e->outage);
    }
    extend_lease(e, r->sent_us);
}

static void on_reply(struct dt_elector *e, struct reply *r)
{
    confirm(e, r);
    switch (r->kind) {
    case ASK_PATH:
        on_path_reply(e, r);
        break;
    case ASK_JOIN:
        on_join_reply(e, r);
        break;
    case ASK_QUIT:
        e->quit_done = e->quit_done || r->rc == ZOK || r->rc == ZNONODE;
        e->quit_asked = e->quit_done;
        break;
    case ASK_MEMBERS:
        on_members_reply(e, r);
        break;
    case ASK_LEADERS:
        on_leaders_reply(e, r);
        break;
    case ASK_TAKE:
        on_take_reply(e, r);
        break;
    case ASK_DROP:
        on_drop_reply(e, r);
        break;
    case ASK_LOOK:
        on_look_reply(e, r);
        break;
    case ASK_PING:
        e->pinging = false;
        break;
    }
}

static struct reply *take_inbox(struct dt_elector *e)
{
    struct reply *list;

    pthread_mutex_lock(&e->lock);
    list = e->inbox;
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    pthread_mutex_unlock(&e->lock);
    return list;
}

static void read_inbox(struct dt_elector *e)
{
    struct reply *next;

    for (struct reply *r = take_inbox(e); r != NULL; r = next) {
        next = r->next;
        e->outstanding--;
        on_reply(e, r);
        reply_free(r);
    }
}

static void throw_inbox_away(struct dt_elector *e)
{
    struct reply *next;

    for (struct reply *r = take_inbox(e); r != NULL; r = next) {
        next = r->next;
        e->outstanding--;
        reply_free(r);
    }
}

/* ---- the session ---- */

/* The library may lose what is under way while it closes: answers that are on their way are waited for a moment. */
static void await_answers(struct dt_elector *e)
{
    const int64_t until_us = now_us(e) + CLOSE_WAIT_US;

    throw_inbox_away(e);
    while (e->outstanding > 0 && now_us(e) < until_us) {
        dt_mailbox_wait(e->box, now_us(e) + 10000); /* an answered ping signals nothing */
        throw_inbox_away(e);
    }
}

static void session_open(struct dt_elector *e)
{
    snprintf(e->guid, sizeof(e->guid), "%016" PRIx64 "%016" PRIx64, random_u64(e), random_u64(e));
    e->zh = zookeeper_init2(e->servers, on_session, e->timeout_ms, NULL, e, 0, on_log);
    if (!e->zh)
        back_off(e);
}

/* Nothing of the session is left: neither nodes nor requests nor what was known. */
static void session_close(struct dt_elector *e)
{
    lose_all(e, "the session has ended");
    if (e->zh) {
        await_answers(e);
        zookeeper_close(e->zh); /* no callback runs any more when it returns */
        throw_inbox_away(e);
    }
    e->zh = NULL;
    e->outstanding = 0;
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        node_to(e, s, NODE_NONE);
        e->nodes[s] = (struct node){0};
    }
    e->connected = e->paths_asked = e->paths_made = e->pinging = e->quit_asked = e->quit_done = false;
    e->joined = JOIN_NO;
    e->members = e->leaders = (struct listing){0};
    e->asked_us = 0;
    atomic_store(&e->lease_until_us, 0);
    free(e->member_name);
    e->member_name = NULL;
}

/* Looks at the session's state; true: connected. */
static bool session_serve(struct dt_elector *e)
{
    int state;
    bool was = e->connected;

    if (!e->zh) {
        if (!atomic_load(&e->leaving) && now_us(e) >= e->not_before_us)
            session_open(e);
        return false;
    }
    state = zoo_state(e->zh);
    if (is_unrecoverable(e->zh)) {
        DT_LOG(WARN, "elector", "the ZooKeeper session has expired");
        session_close(e);
        back_off(e);
        return false;
    }
    e->connected = state == ZOO_CONNECTED_STATE;
    if (e->connected && !was) {
        set_timeout(e, zoo_recv_timeout(e->zh)); /* as negotiated */
        e->asked_us = 0;                         /* a request at once: the lease may be short */
        DT_LOG(INFO, "elector", "connected to ZooKeeper", DT_I("session_timeout_ms", e->timeout_ms));
    } else if (was && !e->connected) {
        note_failure(e, "connection to ZooKeeper lost", "session", ZCONNECTIONLOSS);
    }
    return e->connected;
}

/* ---- a turn ---- */

static void serve_lists(struct dt_elector *e)
{
    if (e->members.stale && !e->members.asked)
        ask_children(e, ASK_MEMBERS, &e->members, e->members_path, on_members_watch);
    if (e->leaders.stale && !e->leaders.asked)
        ask_children(e, ASK_LEADERS, &e->leaders, e->leaders_path, on_leaders_watch);
}

static void serve_nodes(struct dt_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        struct node *node = &e->nodes[s];

        if (node->state == NODE_UNSURE && !node->looking)
            ask_look(e, s);
        if (node->state == NODE_RELEASING && atomic_load(&e->released[s]))
            ask_drop(e, s);
    }
}

static void serve_membership(struct dt_elector *e)
{
    if (!atomic_load(&e->leaving)) {
        if (e->joined == JOIN_NO)
            ask_join(e);
    } else if (e->member_name && !e->quit_asked) {
        e->quit_asked = true;
        ask_quit(e, e->member_name);
    }
}

static void release(struct dt_elector *e, unsigned shard)
{
    struct node *node = &e->nodes[shard];

    if (node->state != NODE_HELD) {
        node->unwanted = true; /* dropped as soon as it is known to be ours */
        return;
    }
    node_to(e, shard, NODE_RELEASING);
    e->events.release(e->events.arg, shard);
}

static void make_plan(struct dt_elector *e)
{
    bool mine[DT_SHARDS_MAX], taken[DT_SHARDS_MAX];
    const struct dt_share_view view = {.shards = atomic_load(&e->shards),
                                       .members = e->n_members,
                                       .rank = e->rank,
                                       .leaving = atomic_load(&e->leaving),
                                       .mine = mine,
                                       .taken = taken};

    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        enum node_state state = e->nodes[s].state;

        mine[s] = (state == NODE_HELD || state == NODE_TAKING || state == NODE_UNSURE) && !e->nodes[s].unwanted;
        taken[s] = e->taken[s] || state != NODE_NONE;
    }
    dt_share_plan(&view, &e->plan);
    for (size_t i = 0; i < e->plan.n_release; i++)
        release(e, e->plan.release[i]);
    for (size_t i = 0; i < e->plan.n_take && e->connected; i++)
        ask_take(e, e->plan.take[i]);
}

static void serve_plan(struct dt_elector *e)
{
    if (atomic_load(&e->leaving) || (e->connected && e->joined == JOIN_YES && e->members.known && e->leaders.known &&
                                     !e->members.stale && !e->members.asked && !e->leaders.stale && !e->leaders.asked))
        make_plan(e);
}

static void serve_ping(struct dt_elector *e)
{
    if (atomic_load(&e->n_leads) > 0 && !e->pinging && now_us(e) >= e->asked_us + ping_every_us(e))
        ask_ping(e);
}

static void serve_connected(struct dt_elector *e)
{
    serve_ping(e);
    if (now_us(e) < e->not_before_us)
        return;
    if (!e->paths_asked)
        ask_paths(e);
    if (!e->paths_made)
        return;
    serve_membership(e);
    serve_lists(e);
    serve_nodes(e);
}

/* Without a connection a node that a loop gave back cannot be deleted; it will be when ZooKeeper is there again. */
static void serve_disconnected(struct dt_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->nodes[s].state == NODE_RELEASING && atomic_load(&e->released[s])) {
            e->nodes[s].unwanted = true;
            node_to(e, s, NODE_UNSURE);
        }
    }
}

static void turn(struct dt_elector *e, uint32_t signals)
{
    e->members.stale = e->members.stale || (signals & SIGNAL_MEMBERS) != 0;
    e->leaders.stale = e->leaders.stale || (signals & SIGNAL_LEADERS) != 0;
    read_inbox(e);
    if (now_us(e) >= atomic_load(&e->lease_until_us))
        lose_all(e, "ZooKeeper has not answered for two thirds of the session timeout");
    if (session_serve(e))
        serve_connected(e);
    else
        serve_disconnected(e);
    serve_plan(e);
}

/* When there will be something to do without a signal. */
static int64_t next_turn_us(const struct dt_elector *e)
{
    int64_t at = INT64_MAX;
    int64_t now = now_us(e);

    if (atomic_load(&e->n_leads) > 0) {
        at = atomic_load(&e->lease_until_us);
        if (e->connected && e->asked_us + ping_every_us(e) > now && e->asked_us + ping_every_us(e) < at)
            at = e->asked_us + ping_every_us(e);
    }
    if (e->not_before_us > now && e->not_before_us < at)
        at = e->not_before_us;
    return at;
}

static void elector_main(void *arg)
{
    struct dt_elector *e = arg;
    uint32_t signals = 0;

    while (!dt_thread_stopping(&e->thread)) {
        turn(e, signals);
        signals = dt_mailbox_wait(e->box, next_turn_us(e));
    }
    session_close(e);
}

/* ---- the interface ---- */

void dt_elector_released(dt_elector *e, unsigned shard)
{
    if (shard >= DT_SHARDS_MAX)
        return;
    atomic_store(&e->released[shard], true);
    dt_mailbox_signal(e->box, SIGNAL_CALLER);
}

bool dt_elector_leads(const dt_elector *e, unsigned shard)
{
    return shard < DT_SHARDS_MAX && atomic_load(&e->leads[shard]) && now_us(e) < atomic_load(&e->lease_until_us);
}

bool dt_elector_rank(const dt_elector *e, unsigned *rank, unsigned *members)
{
    const uint64_t place = atomic_load(&e->place);

    *rank = (unsigned)(place & UINT32_MAX);
    *members = (unsigned)(place >> 32);
    return place != 0;
}

void dt_elector_set_shards(dt_elector *e, unsigned shards)
{
    atomic_store(&e->shards, shards < DT_SHARDS_MAX ? shards : (unsigned)DT_SHARDS_MAX);
    dt_mailbox_signal(e->box, SIGNAL_CALLER);
}

void dt_elector_leave(dt_elector *e)
{
    atomic_store(&e->leaving, true);
    dt_mailbox_signal(e->box, SIGNAL_CALLER);
}

bool dt_elector_idle(const dt_elector *e)
{
    return atomic_load(&e->n_leads) == 0;
}

static void elector_free(struct dt_elector *e)
{
    dt_mailbox_free(e->box);
    pthread_mutex_destroy(&e->lock);
    free(e->servers);
    free(e->owner);
    free(e);
}

void dt_elector_stop(dt_elector *e)
{
    if (!e)
        return;
    dt_thread_stop(&e->thread, e->box);
    elector_free(e);
}

static dt_status make_paths(struct dt_elector *e, const char *installation, struct dt_error *err)
{
    int n = snprintf(e->leaders_path, PATH_SIZE, "/duetime/%s/leaders", installation);

    if (n < 0 || n >= PATH_SIZE)
        return dt_fail(err, DT_INVALID, "elector: the installation's name is too long");
    snprintf(e->members_path, PATH_SIZE, "/duetime/%s/members", installation);
    snprintf(e->paths[0], PATH_SIZE, "/duetime");
    snprintf(e->paths[1], PATH_SIZE, "/duetime/%s", installation);
    memcpy(e->paths[2], e->members_path, PATH_SIZE);
    memcpy(e->paths[3], e->leaders_path, PATH_SIZE);
    return DT_OK;
}

static dt_status elector_new(const struct dt_config *config, const char *owner, dt_elector **out, struct dt_error *err)
{
    struct dt_elector *e = calloc(1, sizeof(*e));

    *out = NULL;
    if (!e)
        return dt_fail(err, DT_NOMEM, "elector");
    pthread_mutex_init(&e->lock, NULL);
    e->inbox_end = &e->inbox;
    e->backoff_us = BACKOFF_MIN_US;
    set_timeout(e, (int)config->zookeeper_session_timeout);
    e->servers = strdup(config->zookeeper_servers);
    e->owner = strndup(owner, 200);
    if (!e->servers || !e->owner || dt_mailbox_new(&e->box) != DT_OK) {
        elector_free(e);
        return dt_fail(err, DT_NOMEM, "elector");
    }
    *out = e;
    return DT_OK;
}

dt_status dt_elector_start(const struct dt_config *config, const char *installation, unsigned shards, const char *owner,
                           const dt_clock *clock, const struct dt_elector_events *events, dt_elector **out,
                           struct dt_error *err)
{
    struct dt_elector *e;
    dt_status status = elector_new(config, owner, &e, err);

    *out = NULL;
    if (status != DT_OK)
        return status;
    e->clock = clock;
    e->events = *events;
    atomic_store(&e->shards, shards < DT_SHARDS_MAX ? shards : (unsigned)DT_SHARDS_MAX);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    *out = e; /* before anything is called back */
    status = make_paths(e, installation, err);
    if (status == DT_OK)
        status = dt_thread_start(&e->thread, "election", elector_main, e, err);
    if (status != DT_OK) {
        *out = NULL;
        elector_free(e);
    }
    return status;
}
