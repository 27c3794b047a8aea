/* The election on a private ZooKeeper that is killed, stopped and started again: the contract that all elections keep
 * (support/elector_suite.c), and what only ZooKeeper's can be asked. */
#include "support/elector_suite.h"

#include <dlfcn.h>
#define THREADED /* the multi-threaded client: declares the synchronous calls too */
#include <zookeeper/zookeeper.h>

#include "support/zk_fixture.h"

static struct zk_server server;
static struct dt_config config;
static zhandle_t *_Atomic newest_handle;

/* The elector's session is seen by standing between it and the library. */
zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                           int flags, log_callback_fn log_callback)
{
    zhandle_t *(*real)(const char *, watcher_fn, int, const clientid_t *, void *, int, log_callback_fn);

    *(void **)&real = dlsym(RTLD_NEXT, "zookeeper_init2");
    zhandle_t *zh = real(host, fn, recv_timeout, clientid, context, flags, log_callback);
    atomic_store(&newest_handle, zh);
    return zh;
}

/* ---- the world ---- */

static void prepare(void)
{
    zk_server_prepare(&server);
    zk_server_start(&server);
    config = (struct dt_config){.zookeeper_servers = server.endpoint, .zookeeper_session_timeout = TIMEOUT_MS};
}

static void remove_server(void)
{
    zk_server_remove(&server);
}

static void start_server(void)
{
    if (server.pid == 0)
        zk_server_start(&server);
}

static void kill_server(void)
{
    zk_server_kill(&server);
}

static void pause_server(void)
{
    zk_server_pause(&server);
}

static void resume_server(void)
{
    zk_server_resume(&server);
}

static const struct dt_config *config_of(void)
{
    return &config;
}

/* ---- tests ---- */

STUB(static void, on_nothing, (zhandle_t * zh, int type, int state, const char *path, void *context), )

/* A second client that has the session's id and password closes it, unless the first takes it back before. */
static void close_session_of(const clientid_t *id)
{
    zhandle_t *thief = zookeeper_init(server.endpoint, on_nothing, TIMEOUT_MS, id, NULL, 0);
    assert_non_null(thief);
    AWAIT(zoo_state(thief) == ZOO_CONNECTED_STATE || zoo_state(thief) == ZOO_EXPIRED_SESSION_STATE);
    zookeeper_close(thief);
}

ELECTOR_TEST(a_member_whose_session_expires_loses_its_shards_and_joins_again)
{
    struct player *p = start(0);
    AWAIT_SPLIT(4);
    clientid_t id = *zoo_client_id(newest_handle);
    AWAIT(atomic_load(&p->lost) > 0 || (close_session_of(&id), false));
    AWAIT_SPLIT(4);
    assert_int_equal(atomic_load(&p->lost), SHARDS);
    assert_int_equal(atomic_load(&p->gained), 2 * SHARDS);
    assert_int_not_equal(zoo_client_id(newest_handle)->client_id, id.client_id);
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_leader_node_deleted_by_hand_is_noticed)
{
    char path[160];
    struct player *p = start(0);
    AWAIT_SPLIT(4);
    zhandle_t *zh = zookeeper_init(server.endpoint, on_nothing, TIMEOUT_MS, NULL, NULL, 0);
    assert_non_null(zh);
    AWAIT(zoo_state(zh) == ZOO_CONNECTED_STATE);
    snprintf(path, sizeof(path), "/duetime/%s/leaders/2", installation);
    assert_int_equal(zoo_delete(zh, path, -1), ZOK);
    zookeeper_close(zh);
    AWAIT(atomic_load(&p->lost) == 1 && led_by(p) == SHARDS);
}

ELECTOR_TEST(the_elector_has_a_name)
{
    assert_string_equal(dt_elector_name(&config), "zookeeper");
}

int main(void)
{
    static const struct elector_world world = {.prepare = prepare,
                                               .remove = remove_server,
                                               .fresh = start_server,
                                               .kill = kill_server,
                                               .start = start_server,
                                               .pause = pause_server,
                                               .resume = resume_server,
                                               .config = config_of};
    return elector_suite_run(&world);
}
