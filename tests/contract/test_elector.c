/*
 * The election on a private ZooKeeper that is killed, stopped and started again. Every gain, loss and release of every
 * elector is recorded with its time; two that lead one shard at once are an error in every test, unless the test
 * expects it.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define THREADED /* the multi-threaded client: declares the synchronous calls too */
#include <zookeeper/zookeeper.h>

#include <cmocka.h>

#include "election/elector.h"
#include "support/redis_fixture.h"
#include "support/zk_fixture.h"

enum { SHARDS = 4, ELECTORS = 3, TIMEOUT_MS = 1000, LEASE_MS = TIMEOUT_MS * 2 / 3 };
/* Scheduling on a busy machine with sanitizers. */
enum { SLACK_MS = 150 };

struct player {
    int number;
    dt_elector *elector;
    _Atomic bool leads[SHARDS * 2]; /* told gained, and neither lost nor released since */
    _Atomic bool asked[SHARDS * 2]; /* told release, not yet released */
    _Atomic int gained, lost;
    _Atomic int64_t lost_us; /* when the last one was lost */
    _Atomic bool keep;       /* do not release at once when asked */
};

static struct zk_server server;
static struct player players[ELECTORS];
static _Atomic int leader_of[SHARDS * 2]; /* player's number + 1; 0 = nobody */
static _Atomic int overlaps;
static char installation[64];
static zhandle_t *_Atomic newest_handle;

/* The elector's session is seen by standing between it and the library. */
zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                           int flags, log_callback_fn log_callback)
{
    zhandle_t *(*real)(const char *, watcher_fn, int, const clientid_t *, void *, int, log_callback_fn);

    zhandle_t *zh;

    *(void **)&real = dlsym(RTLD_NEXT, "zookeeper_init2");
    zh = real(host, fn, recv_timeout, clientid, context, flags, log_callback);
    atomic_store(&newest_handle, zh);
    return zh;
}

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* ---- what the electors say ---- */

static void on_gained(void *arg, unsigned shard)
{
    struct player *p = arg;
    int nobody = 0;

    if (!atomic_compare_exchange_strong(&leader_of[shard], &nobody, p->number + 1))
        atomic_fetch_add(&overlaps, 1);
    atomic_store(&p->leads[shard], true);
    atomic_fetch_add(&p->gained, 1);
}

static void let_go(struct player *p, unsigned shard)
{
    int me = p->number + 1;

    atomic_store(&p->leads[shard], false);
    atomic_compare_exchange_strong(&leader_of[shard], &me, 0);
}

static void on_lost(void *arg, unsigned shard)
{
    struct player *p = arg;

    let_go(p, shard);
    atomic_store(&p->lost_us, now_us());
    atomic_fetch_add(&p->lost, 1);
}

static void on_release(void *arg, unsigned shard)
{
    struct player *p = arg;

    atomic_store(&p->asked[shard], true);
    if (atomic_load(&p->keep))
        return;
    let_go(p, shard);
    atomic_store(&p->asked[shard], false);
    dt_elector_released(p->elector, shard);
}

/* ---- players ---- */

static struct player *start(int number)
{
    struct player *p = &players[number];
    const struct dt_elector_events events = {.arg = p, .gained = on_gained, .release = on_release, .lost = on_lost};
    const struct dt_config config = {.zookeeper_servers = server.endpoint, .zookeeper_session_timeout = TIMEOUT_MS};
    struct dt_error err = {0};
    char owner[32];

    memset(p, 0, sizeof(*p));
    p->number = number;
    snprintf(owner, sizeof(owner), "host:%d", number);
    const struct dt_elector_env env = {.config = &config,
                                       .installation = installation,
                                       .shards = SHARDS,
                                       .owner = owner,
                                       .clock = dt_clock_system(),
                                       .events = events};
    if (dt_elector_start(&env, &p->elector, &err) != DT_OK)
        fail_msg("%s", err.text);
    return p;
}

static void stop(struct player *p)
{
    dt_elector_stop(p->elector);
    p->elector = NULL;
}

static int led_by(const struct player *p)
{
    int n = 0;

    for (unsigned s = 0; s < SHARDS * 2; s++)
        n += atomic_load(&p->leads[s]);
    return n;
}

static int gains(void)
{
    int n = 0;

    for (int i = 0; i < ELECTORS; i++)
        n += atomic_load(&players[i].gained);
    return n;
}

/* The numbers that each of the players should lead; -1 ends the list. */
static bool lead_this_many(void *arg)
{
    const int *want = arg;

    for (int i = 0; i < ELECTORS && want[i] >= 0; i++) {
        if (led_by(&players[i]) != want[i])
            return false;
    }
    return true;
}

#define AWAIT_SPLIT(deadline_ms, ...)                                                                                  \
    do {                                                                                                               \
        int want_[] = {__VA_ARGS__, -1};                                                                               \
        if (!wait_until(lead_this_many, want_, deadline_ms))                                                           \
            fail_msg("shards led: %d %d %d", led_by(&players[0]), led_by(&players[1]), led_by(&players[2]));           \
    } while (0)

static bool is_idle(void *arg)
{
    return dt_elector_idle(((struct player *)arg)->elector);
}

static bool has_lost_all(void *arg)
{
    return led_by(arg) == 0;
}

static bool asked_for_one(void *arg)
{
    const struct player *p = arg;

    for (unsigned s = 0; s < SHARDS; s++) {
        if (atomic_load(&p->asked[s]))
            return true;
    }
    return false;
}

/* ---- set up ---- */

static int start_server(void **state)
{
    (void)state;
    zk_server_prepare(&server);
    zk_server_start(&server);
    return 0;
}

static int remove_server(void **state)
{
    (void)state;
    zk_server_remove(&server);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    redis_fixture_name(installation, sizeof(installation), "elector");
    memset(players, 0, sizeof(players));
    for (unsigned s = 0; s < SHARDS * 2; s++)
        atomic_store(&leader_of[s], 0);
    atomic_store(&overlaps, 0);
    if (server.pid == 0)
        zk_server_start(&server);
    return 0;
}

static int quit(void **state)
{
    (void)state;
    for (int i = 0; i < ELECTORS; i++) {
        if (players[i].elector != NULL)
            stop(&players[i]);
    }
    return 0;
}

/* ---- tests ---- */

static void a_single_member_leads_every_shard(void **state)
{
    (void)state;
    start(0);
    AWAIT_SPLIT(5000, SHARDS);
    for (unsigned s = 0; s < SHARDS; s++)
        assert_true(dt_elector_leads(players[0].elector, s));
    assert_false(dt_elector_leads(players[0].elector, SHARDS));
}

static void joins_move_only_what_the_new_member_will_lead(void **state)
{
    unsigned rank, members;
    int before;

    (void)state;
    start(0);
    AWAIT_SPLIT(5000, 4);
    before = gains();
    start(1);
    AWAIT_SPLIT(5000, 2, 2);
    print_message("second member: %d moves\n", gains() - before);
    assert_int_equal(gains() - before, 2);
    before = gains();
    start(2);
    AWAIT_SPLIT(5000, 2, 1, 1);
    print_message("third member: %d moves\n", gains() - before);
    assert_int_equal(gains() - before, 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(dt_elector_rank(players[i].elector, &rank, &members));
        assert_int_equal(rank, i);
        assert_int_equal(members, 3);
    }
    assert_int_equal(overlaps, 0);
}

static void a_leaving_member_hands_over_at_once(void **state)
{
    int64_t begin_us;
    int before;

    (void)state;
    start(0);
    AWAIT_SPLIT(5000, 4);
    start(1);
    AWAIT_SPLIT(5000, 2, 2);
    before = gains();
    begin_us = now_us();
    dt_elector_leave(players[0].elector);
    AWAIT_SPLIT(TIMEOUT_MS / 2, 0, 4);
    print_message("handed over in %.1f ms, %d moves\n", (double)(now_us() - begin_us) / 1e3, gains() - before);
    assert_int_equal(gains() - before, 2);
    assert_true(wait_until(is_idle, &players[0], 1000));
    assert_int_equal(overlaps, 0);
}

static void a_shard_is_not_taken_before_it_was_released(void **state)
{
    struct player *first;

    (void)state;
    first = start(0);
    AWAIT_SPLIT(5000, 4);
    atomic_store(&first->keep, true);
    start(1);
    assert_true(wait_until(asked_for_one, first, 5000));
    assert_false(wait_until(asked_for_one, &players[1], 50));
    assert_int_equal(led_by(&players[1]), 0);
    assert_int_equal(led_by(first), 4);
    for (unsigned s = 0; s < SHARDS; s++) {
        assert_true(dt_elector_leads(first->elector, s)); /* ours until we say that we have stopped */
        if (atomic_load(&first->asked[s])) {
            let_go(first, s);
            dt_elector_released(first->elector, s);
        }
    }
    AWAIT_SPLIT(5000, 2, 2);
    assert_int_equal(overlaps, 0);
}

/* The process dies with its session open: only the session's timeout frees its shards. */
static void a_killed_process_is_replaced_after_the_session_timeout(void **state)
{
    int64_t killed_us;
    int ready[2];
    char c;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        start(0);
        while (led_by(&players[0]) != SHARDS)
            usleep(1000);
        (void)!write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    atomic_store(&players[0].gained, 0);
    start(1);
    {
        int want[] = {0, 2, -1}; /* the child hands over two to the new member */
        assert_true(wait_until(lead_this_many, want, 5000));
    }
    killed_us = now_us();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    AWAIT_SPLIT(TIMEOUT_MS + 2 * ZK_TICK_MS + 250 + SLACK_MS, 0, 4);
    print_message("replaced %.0f ms after kill -9 (session timeout %d ms)\n", (double)(now_us() - killed_us) / 1e3,
                  TIMEOUT_MS);
}

static void on_nothing(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static bool is_connected(void *arg)
{
    return zoo_state(arg) == ZOO_CONNECTED_STATE;
}

/* A second client that has the session's id and password closes it, unless the first takes it back before. */
static void close_session_of(const clientid_t *id)
{
    zhandle_t *thief = zookeeper_init(server.endpoint, on_nothing, TIMEOUT_MS, id, NULL, 0);

    assert_non_null(thief);
    wait_until(is_connected, thief, 1000);
    zookeeper_close(thief);
}

static void a_member_whose_session_expires_loses_its_shards_and_joins_anew(void **state)
{
    struct player *p;
    clientid_t id;
    int64_t end_us = now_us() + 10000000;

    (void)state;
    p = start(0);
    AWAIT_SPLIT(5000, 4);
    id = *zoo_client_id(newest_handle);
    while (atomic_load(&p->lost) == 0 && now_us() < end_us)
        close_session_of(&id);
    AWAIT_SPLIT(5000, 4);
    assert_int_equal(atomic_load(&p->lost), SHARDS);
    assert_int_equal(atomic_load(&p->gained), 2 * SHARDS);
    assert_int_not_equal(zoo_client_id(newest_handle)->client_id, id.client_id);
    assert_int_equal(overlaps, 0);
}

static void shards_are_lost_within_two_thirds_of_the_timeout_when_the_server_hangs(void **state)
{
    struct player *p;
    int64_t stopped_us;

    (void)state;
    p = start(0);
    AWAIT_SPLIT(5000, 4);
    zk_server_pause(&server);
    stopped_us = now_us();
    assert_true(wait_until(has_lost_all, p, LEASE_MS + SLACK_MS));
    print_message("lost %.0f ms after the server stopped (two thirds of the timeout: %d ms)\n",
                  (double)(atomic_load(&p->lost_us) - stopped_us) / 1e3, LEASE_MS);
    assert_true(atomic_load(&p->lost_us) - stopped_us <= (LEASE_MS + SLACK_MS) * 1000);
    for (unsigned s = 0; s < SHARDS; s++)
        assert_false(dt_elector_leads(p->elector, s));
    assert_true(dt_elector_idle(p->elector));
    zk_server_resume(&server);
    AWAIT_SPLIT(10000, 4);
    assert_int_equal(overlaps, 0);
}

static void a_server_that_is_killed_and_started_again_gets_its_leaders_back(void **state)
{
    struct player *p;
    int64_t killed_us;

    (void)state;
    p = start(0);
    start(1);
    AWAIT_SPLIT(5000, 2, 2);
    zk_server_kill(&server);
    killed_us = now_us();
    assert_true(wait_until(has_lost_all, p, LEASE_MS + SLACK_MS));
    assert_true(wait_until(has_lost_all, &players[1], LEASE_MS + SLACK_MS));
    assert_true(atomic_load(&p->lost_us) - killed_us <= (LEASE_MS + SLACK_MS) * 1000);
    zk_server_start(&server);
    AWAIT_SPLIT(15000, 2, 2);
    assert_int_equal(overlaps, 0);
}

static void a_member_that_starts_before_the_server_leads_when_it_comes(void **state)
{
    (void)state;
    zk_server_kill(&server);
    start(0);
    zk_server_start(&server);
    AWAIT_SPLIT(10000, 4);
}

static void leaving_does_not_wait_for_a_server_that_is_gone(void **state)
{
    struct player *p;

    (void)state;
    p = start(0);
    AWAIT_SPLIT(5000, 4);
    zk_server_kill(&server);
    dt_elector_leave(p->elector);
    assert_true(wait_until(is_idle, p, LEASE_MS));
    stop(p);
    zk_server_start(&server);
}

static void a_new_number_of_shards_is_shared_out(void **state)
{
    (void)state;
    start(0);
    AWAIT_SPLIT(5000, 4);
    start(1);
    AWAIT_SPLIT(5000, 2, 2);
    dt_elector_set_shards(players[0].elector, 7);
    dt_elector_set_shards(players[1].elector, 7);
    AWAIT_SPLIT(5000, 4, 3);
    dt_elector_set_shards(players[0].elector, 3);
    dt_elector_set_shards(players[1].elector, 3);
    AWAIT_SPLIT(5000, 2, 1);
    assert_int_equal(overlaps, 0);
}

static bool gained_again(void *arg)
{
    struct player *p = arg;

    return atomic_load(&p->lost) == 1 && led_by(p) == SHARDS;
}

static void a_leader_node_that_somebody_deletes_is_noticed(void **state)
{
    char path[160];
    zhandle_t *zh;
    struct player *p;

    (void)state;
    p = start(0);
    AWAIT_SPLIT(5000, 4);
    zh = zookeeper_init(server.endpoint, on_nothing, TIMEOUT_MS, NULL, NULL, 0);
    assert_non_null(zh);
    assert_true(wait_until(is_connected, zh, 5000));
    snprintf(path, sizeof(path), "/duetime/%s/leaders/2", installation);
    assert_int_equal(zoo_delete(zh, path, -1), ZOK);
    zookeeper_close(zh);
    assert_true(wait_until(gained_again, p, 5000));
}

/* Says "ready" when it leads, and whether it still leads when it is asked. */
static void lead_until_asked(int ask, int answer)
{
    struct player *p = start(0);
    char c;

    while (led_by(p) != SHARDS)
        usleep(1000);
    (void)!write(answer, "r", 1);
    if (read(ask, &c, 1) == 1)
        (void)!write(answer, dt_elector_leads(p->elector, 0) ? "y" : "n", 1);
    _exit(0);
}

static void a_process_that_was_stopped_past_its_lease_does_not_lead(void **state)
{
    int64_t until_us;
    int ask[2], answer[2];
    char c = '?';
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(answer), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        lead_until_asked(ask[0], answer[1]);
    assert_int_equal(read(answer[0], &c, 1), 1);
    assert_int_equal(c, 'r');
    assert_int_equal(kill(pid, SIGSTOP), 0);
    for (until_us = now_us() + (LEASE_MS + 50) * 1000; now_us() < until_us;)
        usleep(10000); /* the length of the stop is what is tested */
    assert_int_equal(write(ask[1], "?", 1), 1);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(read(answer[0], &c, 1), 1);
    waitpid(pid, NULL, 0);
    assert_int_equal(c, 'n');
    close(ask[0]), close(ask[1]), close(answer[0]), close(answer[1]);
}

static bool has_place(void *arg)
{
    unsigned rank, members;

    return dt_elector_rank(((struct player *)arg)->elector, &rank, &members);
}

static void a_place_is_not_known_before_the_server_was_seen_and_kept_while_it_is_away(void **state)
{
    unsigned rank = 9, members = 9;
    struct player *p;

    (void)state;
    zk_server_kill(&server);
    p = start(0);
    assert_false(dt_elector_rank(p->elector, &rank, &members));
    zk_server_start(&server);
    assert_true(wait_until(has_place, p, 10000));
    AWAIT_SPLIT(10000, 4);
    zk_server_kill(&server);
    assert_true(wait_until(has_lost_all, p, LEASE_MS + SLACK_MS));
    assert_true(dt_elector_rank(p->elector, &rank, &members));
    assert_int_equal(rank, 0);
    assert_int_equal(members, 1);
    zk_server_start(&server);
    AWAIT_SPLIT(10000, 4);
}

/*
 * libzookeeper forgets, once in a great many times, a completion that its threads queue while a handle is closed whose
 * server is gone; what the elector itself would leak is still told.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_member_leads_every_shard, fresh, quit),
        cmocka_unit_test_setup_teardown(joins_move_only_what_the_new_member_will_lead, fresh, quit),
        cmocka_unit_test_setup_teardown(a_leaving_member_hands_over_at_once, fresh, quit),
        cmocka_unit_test_setup_teardown(a_shard_is_not_taken_before_it_was_released, fresh, quit),
        cmocka_unit_test_setup_teardown(a_killed_process_is_replaced_after_the_session_timeout, fresh, quit),
        cmocka_unit_test_setup_teardown(a_member_whose_session_expires_loses_its_shards_and_joins_anew, fresh, quit),
        cmocka_unit_test_setup_teardown(shards_are_lost_within_two_thirds_of_the_timeout_when_the_server_hangs, fresh,
                                        quit),
        cmocka_unit_test_setup_teardown(a_server_that_is_killed_and_started_again_gets_its_leaders_back, fresh, quit),
        cmocka_unit_test_setup_teardown(a_member_that_starts_before_the_server_leads_when_it_comes, fresh, quit),
        cmocka_unit_test_setup_teardown(leaving_does_not_wait_for_a_server_that_is_gone, fresh, quit),
        cmocka_unit_test_setup_teardown(a_new_number_of_shards_is_shared_out, fresh, quit),
        cmocka_unit_test_setup_teardown(a_leader_node_that_somebody_deletes_is_noticed, fresh, quit),
        cmocka_unit_test_setup_teardown(a_process_that_was_stopped_past_its_lease_does_not_lead, fresh, quit),
        cmocka_unit_test_setup_teardown(a_place_is_not_known_before_the_server_was_seen_and_kept_while_it_is_away,
                                        fresh, quit),
    };

    return cmocka_run_group_tests(tests, start_server, remove_server);
}
