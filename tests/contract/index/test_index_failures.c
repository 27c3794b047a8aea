/* The promises of index/index.h when things go wrong: servers that are killed, stopped, filled up, flushed, or closed
 * by a password. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "support/rigs/index_rig.h"
#include "support/tcp_proxy.h"

static void private_with_password(struct fixture *fx)
{
    private_with(fx, "open sesame");
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

RIG_TEST(flushed_scripts_are_loaded_again_without_a_failed_call, private)
{
    int64_t id = id_of(fx, 0, 0), next_ms;
    struct dt_entry got[4], after = {1, 1, 0};
    bool intact;
    size_t n;
    put_one(fx, 1, 1);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, 100, 0}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 100);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_fix(fx->index, 0, &(struct dt_fix){id, 100, 200}, 1, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_range(fx->index, 0, &(struct dt_range){0, FAR, &after, 4}, got, &n, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &(struct dt_entry){id, 200, 0}, 1, &fx->err));
    assert_int_equal(score(fx, id), 0);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 5, &next_ms, &fx->err));
    assert_int_equal(score(fx, id), 200);
    redis_fixture_text(fx->endpoints, 0, "SCRIPT FLUSH");
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
}

RIG_TEST(a_killed_server_is_unavailable_and_is_found_again, private)
{
    put_one(fx, 1, 100);
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, fx->endpoints)); /* says which */
    redis_server_again(&fx->server);
    AWAIT(dt_index_ping(fx->index, NULL) == DT_OK);
    assert_int_equal(score(fx, 1), 0); /* it came back empty: the marker tells a leader */
    put_one(fx, 1, 100);
    assert_int_equal(score(fx, 1), 100);
}

/* Ends every connection but the one that asks for it. */
static void end_connections(struct fixture *fx)
{
    assert_true(redis_fixture_number(fx->endpoints, 0, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

RIG_TEST(a_connection_that_the_server_ended_while_idle_fails_no_call, private)
{
    int64_t id = id_of(fx, 0, 0), out, at_ms;
    struct dt_entry entry = {id, 1, 0}, got[2];
    struct dt_fix fix = {id, 1, 2};
    struct dt_str *topics;
    bool flag;
    size_t n;
    ARENA(arena);
    OK(dt_index_ping(fx->index, &fx->err));
#define STALE_OK(call)                                                                                                 \
    do {                                                                                                               \
        end_connections(fx);                                                                                           \
        OK(call);                                                                                                      \
    } while (0)
    STALE_OK(dt_index_ping(fx->index, &fx->err));
    STALE_OK(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, true, &fx->err));
    STALE_OK(dt_index_wake(fx->index, 0, false, &fx->err));
    STALE_OK(dt_index_wake_all(fx->index, &fx->err));
    STALE_OK(due(fx, 0, MARKER, 5, 2, got));
    assert_int_equal(fx->due.n, 1);
    STALE_OK(dt_index_mark(fx->index, 0, MARKER, NULL, &flag, &fx->gone, &fx->err));
    STALE_OK(dt_index_fix(fx->index, 0, &fix, 1, &fx->err));
    assert_int_equal(score(fx, id), 2);
    STALE_OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &(struct dt_entry){id, 2, 0}, 1, &fx->err));
    STALE_OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 1, &out, &fx->err));
    STALE_OK(dt_index_held(fx->index, 0, &arena, &topics, &n, &fx->err));
    STALE_OK(dt_index_range(fx->index, 0, &(struct dt_range){0, 9, NULL, 2}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    STALE_OK(dt_index_count(fx->index, 0, 0, 9, &out, &fx->err));
    STALE_OK(dt_index_add_missing(fx->index, 0, &entry, 1, &fx->err));
    STALE_OK(dt_index_scores(fx->index, 0, &entry, 1, &at_ms, &fx->err));
    STALE_OK(dt_index_fill(fx->index, &fx->map, &entry, 1, &fx->err));
#undef STALE_OK
}

RIG_TEST(a_server_that_was_restarted_while_idle_fails_no_call, private)
{
    put_one(fx, 1, 100);
    for (int i = 0; i < 3; i++) {
        redis_server_kill(&fx->server);
        redis_server_again(&fx->server);
        OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100 + i, 0}, 1, FAR, true, &fx->err));
        assert_int_equal(score(fx, 1), 100 + i);
    }
}

/* Connections of this process to a port of the loopback. */
static unsigned connections_to(int port, int fds[8])
{
    unsigned n = 0;
    for (int fd = 0; fd < 256 && n < 8; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            fds[n++] = fd;
    }
    return n;
}

/* The server's kernel acknowledged something long after we had sent anything: only a probe is answered so. */
static bool was_probed(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_last_data_sent >= info.tcpi_last_ack_recv + 1000;
}

static bool all_were_probed(void *arg)
{
    struct fixture *fx = arg;
    int fds[8];
    unsigned n = connections_to(fx->server.port, fds);
    unsigned probed = 0;
    assert_int_equal(n, 2);
    for (unsigned i = 0; i < n; i++)
        probed += was_probed(fds[i]);
    return probed == n;
}

RIG_TEST(connections_that_are_idle_are_probed, private)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, 1);
    OK(dt_index_ping(fx->index, &fx->err));
    AWAIT(all_were_probed(fx));
}

static bool nothing_is_connected(void *arg)
{
    const struct tcp_proxy *proxy = arg;
    int fds[8];
    return connections_to(proxy->port, fds) == 0;
}

RIG_TEST(a_connection_whose_peer_vanished_while_idle_fails_no_call, private)
{
    struct tcp_proxy proxy;
    INDEX(index) = NULL;
    tcp_proxy_open(&proxy, "", fx->server.port);
    snprintf(fx->endpoints, sizeof(fx->endpoints), "127.0.0.1:%d", proxy.port);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &index, &fx->err));
    OK(dt_index_ping(index, &fx->err));
    assert_false(nothing_is_connected(&proxy));
    tcp_proxy_vanish(&proxy);
    AWAIT(nothing_is_connected(&proxy)); /* the connection was idle, and its end is noticed */
    OK(dt_index_ping(index, &fx->err));
    assert_false(nothing_is_connected(&proxy));
    tcp_proxy_end(&proxy);
}

static void *put_in_a_thread(void *arg)
{
    struct fixture *fx = arg;
    dt_status status =
        dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100, 0}, 1, FAR, true, &(struct dt_error){0});
    return (void *)(intptr_t)status;
}

RIG_TEST(a_connection_that_ends_before_the_first_answer_has_its_commands_sent_again, private)
{
    void *status;
    dt_index_free(fx->index);
    open_index(fx, WAIT_MS);
    OK(dt_index_ping(fx->index, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "CLIENT PAUSE 120000 WRITE");
    pthread_t thread = start_thread(put_in_a_thread, fx);
    AWAIT(strstr(redis_fixture_text(fx->endpoints, 0, "INFO clients"), "blocked_clients:1"));
    end_connections(fx);
    redis_fixture_text(fx->endpoints, 0, "CLIENT UNPAUSE");
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, DT_OK);
    assert_int_equal(score(fx, 1), 100);
}

static void failing_is(struct fixture *fx, const char *list)
{
    char text[256];
    dt_index_failing(fx->index, text, sizeof(text));
    assert_string_equal(text, list);
}

/* Commands of several words, which a format as an argument would make one of. */
static void by_hand(struct fixture *fx, const char *command)
{
    char words[4][40] = {"", "", "", ""};
    int n = sscanf(command, "%39s %39s %39s %39s", words[0], words[1], words[2], words[3]);
    assert_in_range(n, 3, 4);
    if (n == 4)
        redis_fixture_text(fx->endpoints, 0, "%s %s %s %s", words[0], words[1], words[2], words[3]);
    else
        redis_fixture_text(fx->endpoints, 0, "%s %s %s", words[0], words[1], words[2]);
}

RIG_TEST(a_probe_shows_whether_changes_are_accepted_and_leaves_no_data, private)
{
    static const char *const troubles[][2] = {
        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
        {"ACL SETUSER default -evalsha", "ACL SETUSER default +@all"},
        {"ACL SETUSER default -@write", "ACL SETUSER default +@all"},
    };

    OK(dt_index_probe(fx->index, &fx->err));
    failing_is(fx, "");
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "DBSIZE"), 0);
    for (unsigned i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        by_hand(fx, troubles[i][0]);
        OK(dt_index_ping(fx->index, &fx->err)); /* it is there, and well, for who asks no more */
        UNAVAILABLE(dt_index_probe(fx->index, &fx->err));
        failing_is(fx, "*");
        by_hand(fx, troubles[i][1]);
        OK(dt_index_probe(fx->index, &fx->err));
        failing_is(fx, "");
    }
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_probe(fx->index, &fx->err));
    failing_is(fx, "*");
}

RIG_TEST(a_listener_knows_whether_announcements_arrive, private)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, 1);
    assert_true(dt_wake_hears(wake));
    redis_server_kill(&fx->server);
    expect_heard(&heard, &heard.all, 2);
    assert_false(dt_wake_hears(wake));
    redis_server_again(&fx->server);
    expect_heard(&heard, &heard.all, 3);
    assert_true(dt_wake_hears(wake));
}

/* A clock that stands still until it is told to go on. */
static int64_t still_us;
STUB(static int64_t, still, (const dt_clock *clock), still_us)

RIG_TEST(no_connection_is_tried_before_the_back_off_has_ended, private)
{
    dt_clock clock = {.mono_us = still, .real_ms = still};
    INDEX(index) = NULL;
    still_us = 1000000000;
    OK(dt_index_new(&fx->config, fx->installation, &clock, &index, &fx->err));
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    redis_server_again(&fx->server);
    UNAVAILABLE(dt_index_ping(index, &fx->err)); /* at once, without a look */
    still_us += 9000;
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    still_us += 12000; /* the first back-off is at most 20 ms */
    OK(dt_index_ping(index, &fx->err));

    redis_server_kill(&fx->server);
    for (int i = 0; i < 20; i++) {
        UNAVAILABLE(dt_index_ping(index, &fx->err));
        still_us += 2000001; /* they grow, but never beyond 2 s */
    }
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    redis_server_again(&fx->server);
    still_us += 900000; /* and are no shorter than half of that now */
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    still_us += 1100001;
    OK(dt_index_ping(index, &fx->err));
}

RIG_TEST(every_call_returns_unavailable_while_the_server_is_down, private)
{
    struct dt_entry entry = {1, 1, 0}, got[2];
    struct dt_fix fix = {1, 1, 2};
    struct dt_str *topics;
    int64_t out;
    size_t n = 9;
    bool flag;
    ARENA(arena);
    redis_server_kill(&fx->server);
    UNAVAILABLE(dt_index_ping(fx->index, &fx->err));
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &entry, 1, FAR, false, &fx->err));
    UNAVAILABLE(dt_index_wake(fx->index, 0, false, &fx->err));
    UNAVAILABLE(dt_index_wake_all(fx->index, &fx->err));
    UNAVAILABLE(due(fx, 0, MARKER, 5, 2, got));
    assert_int_equal(fx->due.n, 0);
    UNAVAILABLE(dt_index_mark(fx->index, 0, MARKER, NULL, &flag, &fx->gone, &fx->err));
    UNAVAILABLE(dt_index_fix(fx->index, 0, &fix, 1, &fx->err));
    UNAVAILABLE(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 1, &out, &fx->err));
    UNAVAILABLE(dt_index_held(fx->index, 0, &arena, &topics, &n, &fx->err));
    UNAVAILABLE(dt_index_range(fx->index, 0, &(struct dt_range){0, 9, NULL, 2}, got, &n, &fx->err));
    UNAVAILABLE(dt_index_count(fx->index, 0, 0, 9, &out, &fx->err));
    UNAVAILABLE(dt_index_add_missing(fx->index, 0, &entry, 1, &fx->err));
    UNAVAILABLE(dt_index_scores(fx->index, 0, &entry, 1, &out, &fx->err));
    UNAVAILABLE(dt_index_fill(fx->index, &fx->map, &entry, 1, &fx->err));
}

RIG_TEST(a_late_answer_is_never_taken_for_another_commands, private)
{
    const struct dt_config config = redis_fixture_config(fx->endpoints, "", 300);
    int64_t count;
    INDEX(index) = NULL;
    put_one(fx, id_of(fx, 0, 0), 100);
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &index, &fx->err));
    AWAIT(dt_index_ping(index, NULL) == DT_OK);
    stop_child(fx->server.pid);
    UNAVAILABLE(dt_index_count(index, 0, 0, FAR, &count, &fx->err)); /* its answer, 1, comes later */
    kill(fx->server.pid, SIGCONT);
    AWAIT(dt_index_ping(index, NULL) == DT_OK && dt_index_count(index, 0, 0, 50, &count, NULL) == DT_OK);
    assert_int_equal(count, 0);
}

RIG_TEST(a_server_without_memory_is_unavailable_but_its_connection_is_kept, private)
{
    int64_t connections, count;
    put_one(fx, 1, 100);
    connections = redis_fixture_number(fx->endpoints, 0, "EVAL %s 0", "return 0");
    connections =
        strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "connections_received:") + 21, NULL, 10);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 1");
    for (int wake = 0; wake < 2; wake++) {
        UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, wake, &fx->err));
        assert_non_null(strstr(fx->err.text, "OOM"));
    }
    OK(dt_index_count(fx->index, dt_shard_of(&fx->map, 1), 0, FAR, &count, &fx->err)); /* reading goes on */
    assert_int_equal(count, 1);
    put_one(fx, 1, 0); /* so does removing */
    assert_int_equal(score(fx, 1), 0);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 0");
    put_one(fx, 2, 100);
    /* only the commands by hand connected: two CONFIG SET and this INFO */
    assert_int_equal(
        strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "connections_received:") + 21, NULL, 10),
        connections + 3);
}

RIG_TEST(a_read_only_server_is_unavailable_for_writes, private)
{
    int64_t count;
    put_one(fx, 1, 100);
    redis_fixture_text(fx->endpoints, 0, "REPLICAOF 127.0.0.1 1");
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){2, 100, 0}, 1, FAR, true, &fx->err));
    assert_non_null(strstr(fx->err.text, "READONLY"));
    OK(dt_index_count(fx->index, dt_shard_of(&fx->map, 1), 0, FAR, &count, &fx->err));
    redis_fixture_text(fx->endpoints, 0, "REPLICAOF NO ONE");
    put_one(fx, 2, 100);
}

RIG_TEST(a_key_of_another_type_is_an_error_of_that_shard_alone, private)
{
    redis_fixture_text(fx->endpoints, 0, "SET %s:{0}:due nonsense", fx->installation);
    UNAVAILABLE(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 0, 0), 1, 0}, 1, FAR, true, &fx->err));
    put_one(fx, id_of(fx, 1, 0), 100);
}

RIG_TEST(an_emptied_server_accepts_new_entries, private)
{
    put_one(fx, 1, 100);
    redis_fixture_text(fx->endpoints, 0, "FLUSHALL");
    assert_int_equal(score(fx, 1), 0);
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){1, 100, 0}, 1, FAR, true, &fx->err));
    assert_int_equal(score(fx, 1), 100);
}

RIG_TEST(entries_of_the_other_endpoints_arrive_when_one_is_down, private)
{
    struct dt_entry entries[100];
    struct redis_server other;
    char failing[128];
    INDEX(both) = NULL;
    unsigned here = 0;
    spread_over_endpoints(fx);
    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), " %s , %s,", fx->server.endpoint, other.endpoint);
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    OK(dt_index_ping(both, &fx->err));
    redis_server_kill(&other);
    for (int i = 0; i < 100; i++)
        entries[i] = (struct dt_entry){i + 1, 100, 0};
    UNAVAILABLE(dt_index_put(both, &fx->map, entries, 100, FAR, true, &fx->err));
    UNAVAILABLE(dt_index_ping(both, &fx->err));
    assert_non_null(strstr(fx->err.text, other.endpoint));
    dt_index_failing(both, failing, sizeof(failing));
    assert_string_equal(failing, other.endpoint);
    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        int64_t n;
        here += dt_index_count(both, shard, 0, FAR, &n, NULL) == DT_OK && n > 0;
    }
    assert_in_range(here, 1, fx->map.shards - 1);
}

RIG_TEST(a_silent_endpoint_does_not_delay_entries_of_others, private)
{
    enum { TIMEOUT_MS = 2000 };
    struct redis_server other;
    int64_t ids[2] = {0, 0}, before_us;
    dt_index *both;
    spread_over_endpoints(fx);
    redis_server_start(&other, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s,%s", fx->server.endpoint, other.endpoint);
    fx->config.redis_timeout = TIMEOUT_MS;
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &both, &fx->err));
    stop_child(other.pid);
    for (int64_t id = 1; id < 200 && !(ids[0] && ids[1]); id++) { /* which endpoint holds which? */
        dt_status status = dt_index_put(both, &fx->map, &(struct dt_entry){id, 100, 0}, 1, FAR, true, &fx->err);
        ids[status != DT_OK] = id;
    }
    assert_true(ids[0] && ids[1]);
    for (int i = 0; i < 1000; i++)
        OK(dt_index_put(both, &fx->map, &(struct dt_entry){ids[0], 100 + i, 0}, 1, FAR, true, &fx->err));
    /* the wait after silence is a fifth as long: of a thousand calls, only a few wait for an answer */
    before_us = dt_clock_mono_us(dt_clock_system());
    UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100, 0}, 1, FAR, true, &fx->err));
    for (int i = 0; i < 1000; i++)
        UNAVAILABLE(dt_index_put(both, &fx->map, &(struct dt_entry){ids[1], 100, 0}, 1, FAR, true, &fx->err));
    assert_true(dt_clock_mono_us(dt_clock_system()) - before_us < 100 * TIMEOUT_MS * 1000);
    dt_index_free(both);
    redis_server_kill(&other);
}

RIG_TEST(a_shard_keeps_its_endpoint_when_the_list_is_reordered, private)
{
    struct redis_server other;
    char turned[128], straight[128];
    dt_index *a, *b;
    redis_server_start(&other, "");
    snprintf(straight, sizeof(straight), "%s,%s", fx->server.endpoint, other.endpoint);
    snprintf(turned, sizeof(turned), "%s,%s", other.endpoint, fx->server.endpoint);
    struct dt_config config = redis_fixture_config(straight, "", 500);
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &a, &fx->err));
    config.redis_endpoints = turned;
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &b, &fx->err));
    for (int64_t id = 1; id <= 50; id++) {
        OK(dt_index_put(a, &fx->map, &(struct dt_entry){id, 100 + id, 0}, 1, FAR, true, &fx->err));
        assert_int_equal(redis_fixture_score(b, &fx->map, id), 100 + id);
    }
    dt_index_free(a);
    dt_index_free(b);
    redis_server_kill(&other);
}

RIG_TEST(a_password_opens_the_server_for_commands_and_wake_ups, private_with_password)
{
    struct heard heard;
    WAKE(wake) = listen_to(fx, &heard, 1);
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id_of(fx, 2, 0), 100, 0}, 1, FAR, true, &fx->err));
    expect_heard(&heard, &heard.by_shard[2], 1);
}

RIG_TEST(a_wrong_or_missing_password_is_unavailable_with_a_reason, private_with_password)
{
    struct dt_config config = redis_fixture_config(fx->endpoints, "wrong", 300);
    INDEX(index) = NULL;
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &index, &fx->err));
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    assert_non_null(strstr(fx->err.text, "WRONGPASS"));
    dt_index_free(index);
    config.redis_password = (char[]){""};
    OK(dt_index_new(&config, fx->installation, dt_clock_system(), &index, &fx->err));
    UNAVAILABLE(dt_index_ping(index, &fx->err));
    assert_non_null(strstr(fx->err.text, "NOAUTH"));
}

TEST(a_bad_list_of_endpoints_is_refused_with_the_element)
{
    static const char *const bad[] = {" , ", "localhost", "h:0", "h:65536", "h:1x", ":6379", "h:"};
    struct dt_error err;
    dt_index *index;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_config config = redis_fixture_config(bad[i], "", 100);
        assert_int_equal(dt_index_new(&config, "x", dt_clock_system(), &index, &err), DT_INVALID);
        assert_null(index);
        assert_non_null(strstr(err.text, "redis.endpoints"));
    }
    struct dt_config config = redis_fixture_config("127.0.0.1:1", "", 100);
    assert_int_equal(dt_index_new(&config, "", dt_clock_system(), &index, &err), DT_INVALID);
}

TEST(without_endpoints_there_is_no_index)
{
    struct dt_config config = redis_fixture_config("", "", 100);
    struct dt_error err;
    char down[8];
    INDEX(index) = (dt_index *)&config;
    WAKE(wake) = (dt_wake *)&config;
    assert_int_equal(dt_index_new(&config, "x", dt_clock_system(), &index, &err), DT_OK);
    assert_null(index);
    assert_int_equal(dt_wake_start(&config, "x", NULL, NULL, &wake, &err), DT_OK);
    assert_null(wake);
    assert_string_equal(dt_index_home(index, 3), "");
    dt_index_failing(index, down, sizeof(down));
    assert_string_equal(down, "*");
}
