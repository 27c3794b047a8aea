/* The election by leases in MySQL: the contract that all elections keep (support/elector_suite.c), behind a door that
 * is shut, held and opened again in place of a server that is killed, stopped and started; and what only leases can be
 * asked. */
#include "support/elector_suite.h"

#include "dispatch/fence.h"
#include "store/processes.h"
#include "support/mysql_fixture.h"
#include "support/mysql_wire.h"
#include "support/tcp_proxy.h"
#include "support/zk_fixture.h"

enum { PERIOD_MS = TIMEOUT_MS * 3 / 10 };

static struct tcp_proxy door;
static struct dt_config config; /* borrows mysql_fixture.config's texts */
static char nothing[] = "", loopback[] = "127.0.0.1";

/* ---- the world ---- */

static void prepare(void)
{
    mysql_fixture_make("leases");
    mysql_fixture.config.shards_count = SHARDS * 2;
    mysql_fixture_migrate();
    tcp_proxy_open(&door, mysql_fixture.config.mysql_socket, (int)mysql_fixture.config.mysql_port);
    config = mysql_fixture.config;
    config.zookeeper_servers = nothing;
    config.zookeeper_session_timeout = TIMEOUT_MS;
    config.mysql_socket = nothing;
    config.mysql_host = loopback;
    config.mysql_port = door.port;
}

static void remove_server(void)
{
    tcp_proxy_end(&door);
    mysql_fixture_drop();
}

static void forget(void)
{
    tcp_proxy_hold(&door, false);
    tcp_proxy_reopen(&door);
    wire_heal();
    run_sql("DELETE FROM election_members; DELETE FROM leases; DELETE FROM processes;UPDATE shards SET epoch = 0, "
            "token = 0, owner = NULL");
}

static void kill_server(void)
{
    tcp_proxy_shut(&door);
}

static void start_server(void)
{
    tcp_proxy_reopen(&door);
}

static void pause_server(void)
{
    tcp_proxy_hold(&door, true);
}

static void resume_server(void)
{
    tcp_proxy_hold(&door, false);
}

static const struct dt_config *config_of(void)
{
    return &config;
}

/* ---- tests ---- */

/* Waits a while, in which players look at the election; nothing may happen. */
static void go_on(int ms)
{
    for (const int64_t until_us = now_us() + ms * INT64_C(1000); now_us() < until_us; wait_a_moment())
        look();
}

ELECTOR_TEST(the_elector_has_a_name)
{
    assert_string_equal(dt_elector_name(&config), "mysql");
}

ELECTOR_TEST(every_lease_is_a_row_that_names_its_member)
{
    start(0);
    start(1);
    AWAIT_SPLIT(2, 2);
    assert_sql_number(2, "SELECT COUNT(*) FROM leases l JOIN election_members m ON m.id = l.member WHERE m.name = "
                         "'host:1' AND NOT m.ended");
    assert_sql_number(SHARDS, "SELECT COUNT(*) FROM leases");
}

ELECTOR_TEST(a_member_that_stops_in_order_leaves_no_rows)
{
    start(0);
    AWAIT_SPLIT(4);
    stop(&players[0]);
    assert_sql_number(0, "SELECT COUNT(*) FROM leases");
    assert_sql_number(0, "SELECT COUNT(*) FROM election_members WHERE NOT ended");
    start(1);
    AWAIT_SPLIT(0, 4);
}

static int64_t fewest_renewals(void)
{
    return sql_number("SELECT MIN(renewals) FROM election_members WHERE NOT ended");
}

ELECTOR_TEST(connections_closed_by_the_server_cost_no_shard)
{
    start(0);
    start(1);
    AWAIT_SPLIT(2, 2);
    for (int i = 0; i < 4; i++) {
        mysql_fixture_kill_sessions();
        go_on(100);
    }
    const int64_t renewals = fewest_renewals();
    AWAIT(fewest_renewals() > renewals);
    assert_int_equal(players[0].lost + players[1].lost, 0);
    assert_int_equal(overlaps, 0);
}

/* Who joined first leads one shard more: with lost answers this is any of the three. */
static bool lead_all_in_fair_shares(void)
{
    const int a = led_by(&players[0]), b = led_by(&players[1]), c = led_by(&players[2]);
    look();
    return a >= 1 && b >= 1 && c >= 1 && a + b + c == SHARDS;
}

ELECTOR_TEST(lost_answers_cost_no_shard_and_no_member)
{
    impatient();
    for (int i = 0; i < 3; i++) {
        wire_execution_loss = i % 2 ? LOSE_BEFORE : LOSE_AFTER;
        start(i);
        go_on(PERIOD_MS / 3);
    }
    AWAIT(lead_all_in_fair_shares());
    for (int i = 0; i < 10; i++) {
        wire_execution_loss = i % 2 ? LOSE_BEFORE : LOSE_AFTER;
        go_on(PERIOD_MS / 2);
    }
    wire_heal();
    AWAIT(lead_all_in_fair_shares());
    assert_sql_number(3, "SELECT COUNT(*) FROM election_members WHERE NOT ended");
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_lease_deleted_by_hand_is_lost_and_taken_again)
{
    start(0);
    AWAIT_SPLIT(4);
    run_sql("DELETE FROM leases WHERE shard = 2");
    AWAIT((look(), atomic_load(&players[0].lost) == 1 && led_by(&players[0]) == SHARDS));
}

/* With a timeout so long that the next look by itself is far away. */
ELECTOR_TEST(a_member_takes_a_shard_at_once_when_it_hears_that_it_was_given_back)
{
    timeout_ms = 10 * WAIT_MS;
    start(0);
    AWAIT_SPLIT(4);
    start(1);
    AWAIT_SPLIT(2, 2);
    players_look = false;
    atomic_store(&players_hear, true);
    dt_elector_leave(players[0].elector);
    AWAIT_SPLIT(0, 4);
    atomic_store(&players_hear, false);
    assert_int_equal(overlaps, 0);
}

/* ---- the fence ---- */

static pthread_mutex_t fence_lock = PTHREAD_MUTEX_INITIALIZER;
static dt_store *fence_store;
static int64_t epochs[SHARDS * 2]; /* the latest, as leaders wrote it */
static _Atomic int fences, repeated;

/* What a leader does first: raises the epoch. */
static void take_over(struct player *p, unsigned shard)
{
    struct dt_error err = {0};
    struct dt_fence fence;
    struct dt_inflight inflight = {0};
    char owner[16];
    const struct dt_leadership who = {.shard = shard, .token = p->number + 1, .owner = owner, .index_at = "nowhere"};
    snprintf(owner, sizeof(owner), "host:%d", p->number);
    pthread_mutex_lock(&fence_lock);
    if (dt_store_takeover(fence_store, &who, &fence, &inflight, &err) == DT_OK) {
        atomic_fetch_add(&fences, 1);
        atomic_fetch_add(&repeated, fence.epoch <= epochs[shard]);
        epochs[shard] = fence.epoch;
    }
    pthread_mutex_unlock(&fence_lock);
    dt_inflight_clear(&inflight);
}

/* What a dispatcher says of itself once a second. */
static void beat(int number, const char *elected_by)
{
    struct dt_error err = {0};
    char name[16];
    snprintf(name, sizeof(name), "host:%d", number);
    const struct dt_process process = {
        .id = number + 1, .dispatcher = true, .name = name, .leads = "", .elected_by = elected_by};
    pthread_mutex_lock(&fence_lock);
    OK(dt_store_beat(fence_store, &process, &err));
    pthread_mutex_unlock(&fence_lock);
}

static void begin_fencing(void)
{
    fence_store = mysql_fixture_store();
    memset(epochs, 0, sizeof(epochs));
    fences = repeated = 0;
    player_gains = take_over;
}

static void end_fencing(void)
{
    player_gains = NULL;
    dt_store_free(fence_store);
}

ELECTOR_TEST(no_two_leaderships_of_a_shard_have_the_same_epoch)
{
    begin_fencing();
    for (int i = 0; i < 3; i++) {
        start(0);
        start(1);
        AWAIT_SPLIT(2, 2);
        stop(&players[0]);
        AWAIT_SPLIT(0, 4);
        stop(&players[1]);
    }
    assert_true(fences >= 3 * SHARDS);
    assert_int_equal(repeated, 0);
    assert_int_equal(overlaps, 0);
    end_fencing();
}

/* One dispatcher after the other gets another configuration, and back. */
ELECTOR_TEST(an_installation_changes_from_zookeeper_to_leases_and_back)
{
    static struct zk_server zk;
    zk_server_prepare(&zk);
    zk_server_start(&zk);
    struct dt_config with_zk = config;
    with_zk.zookeeper_servers = zk.endpoint;
    with_zk.zookeeper_session_timeout = PATIENT_MS;
    begin_fencing();
    start_with(0, &with_zk);
    AWAIT_SPLIT(4, 0, 0);
    beat(0, "zookeeper");

    start(1); /* by leases, while ZooKeeper's leads: it waits */
    for (int i = 0; i < 10; i++) {
        go_on(100);
        beat(0, "zookeeper");
        assert_true(lead_this_many((const int[]){4, 0, 0, -1}));
    }
    stop(&players[0]);
    beat(0, NULL);
    AWAIT_SPLIT(0, 4, 0);
    beat(1, "mysql");
    start(2);
    AWAIT_SPLIT(0, 2, 2);
    assert_int_equal(overlaps, 0);

    stop(&players[2]);
    AWAIT_SPLIT(0, 4, 0);
    start_with(0, &with_zk); /* and back: ZooKeeper's leads at once, fenced by the epoch; those by leases give way */
    AWAIT_SPLIT(4, 4, 0);
    beat(0, "zookeeper");
    AWAIT_SPLIT(4, 0, 0);
    assert_int_equal(repeated, 0);
    end_fencing();
    stop(&players[0]);
    zk_server_remove(&zk);
}

int main(void)
{
    static const struct elector_world world = {.prepare = prepare,
                                               .remove = remove_server,
                                               .fresh = forget,
                                               .kill = kill_server,
                                               .start = start_server,
                                               .pause = pause_server,
                                               .resume = resume_server,
                                               .config = config_of};
    return elector_suite_run(&world);
}
