/* What a link to Redis needs no server for: the list of endpoints, and how long a failure is left alone. */

#include "support/suite.h"

#include "redis/redis_link.h"

#define FIRST_US INT64_C(20000)
#define MOST_US  INT64_C(2000000)
#define CHANCES  1000

TEST(endpoints_are_read_in_their_order_with_blanks_and_brackets)
{
    static const struct {
        const char *name, *host;
        int port;
    } wanted[] = {{"redis-a:6379", "redis-a", 6379}, {"127.0.0.1:1", "127.0.0.1", 1}, {"[::1]:65535", "::1", 65535}};
    struct dt_endpoint *endpoints;
    struct dt_error err = {0};
    unsigned n;
    assert_int_equal(dt_endpoints_parse(" redis-a:6379 ,,127.0.0.1:1\t, [::1]:65535,", &endpoints, &n, &err), DT_OK);
    assert_int_equal(n, 3);
    for (unsigned i = 0; i < n; i++) {
        assert_members(endpoints[i], (name, wanted[i].name), (host, wanted[i].host), (port, wanted[i].port));
    }
    dt_endpoints_free(endpoints, n);
}

TEST(a_master_that_sentinels_know_is_an_endpoint)
{
    struct dt_endpoint *endpoints;
    struct dt_error err;
    unsigned n;
    assert_int_equal(dt_endpoints_parse("master:mine,master:6379", &endpoints, &n, &err), DT_OK);
    assert_int_equal(n, 2);
    assert_members(endpoints[0], (master, true), (name, "master:mine"), (host, "mine"));
    assert_false(endpoints[1].master); /* a host of that name */
    assert_string_equal(endpoints[1].host, "master");
    dt_endpoints_free(endpoints, n);
}

TEST(an_invalid_endpoint_is_named_and_none_is_returned)
{
    static const char *const rows[][2] = {
        {"a:1,b", "\"b\" is not host:port"},
        {":1", "\":1\" is not host:port"},
        {"a:", "the port of \"a:\" is not 1-65535"},
        {"a:1,b:0", "the port of \"b:0\""},
        {"a:65536", "the port of \"a:65536\""},
        {"a:1x", "the port of \"a:1x\""},
        {"a:-1", "the port of \"a:-1\""},
        {"", "is empty"},
        {" , ", "is empty"},
    };
    struct dt_error err = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dt_endpoint *endpoints = (void *)1;
        unsigned n = 1;
        assert_int_equal(dt_endpoints_parse(rows[i][0], &endpoints, &n, &err), DT_INVALID);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], err.text);
        assert_null(endpoints);
        assert_int_equal(n, 0);
    }
    dt_endpoints_free(NULL, 0);
}

/* Each failure is waited for twice as long as the one before, up to a bound; half of the wait is chance, of which no two
 * links that fail together have the same. */
TEST(the_wait_before_a_reconnect_doubles_up_to_its_bound_and_half_of_it_is_random)
{
    static struct dt_backoff all[CHANCES];
    int64_t most = FIRST_US;
    for (unsigned failures = 0; failures < 80; failures++) {
        int64_t shortest = INT64_MAX;
        int64_t longest = 0;
        for (unsigned i = 0; i < CHANCES; i++) {
            int64_t wait = dt_backoff_us(&all[i], 1000000 + UINT64_C(7919) * i);
            assert_in_range(wait, most / 2, most);
            assert_int_equal(all[i].failures, failures + 1);
            shortest = wait < shortest ? wait : shortest;
            longest = wait > longest ? wait : longest;
        }
        assert_true(shortest < most / 2 + most / 20);
        assert_true(longest > most - most / 20);
        most = 2 * most < MOST_US ? 2 * most : MOST_US;
    }
}

TEST(a_recovered_link_starts_with_the_shortest_wait)
{
    struct dt_backoff backoff = {0};
    for (int i = 0; i < 20; i++)
        (void)dt_backoff_us(&backoff, 7);
    backoff.failures = 0;
    assert_in_range(dt_backoff_us(&backoff, 7), FIRST_US / 2, FIRST_US);
}

TEST(an_unreachable_server_is_reported_with_the_reason)
{
    struct dt_config config = {.redis_timeout = 1000};
    struct dt_endpoint *endpoints;
    struct dt_error err = {0};
    dt_link *link;
    unsigned n;
    assert_int_equal(dt_endpoints_parse("127.0.0.1:1", &endpoints, &n, &err), DT_OK);
    assert_int_equal(dt_link_new(&config, endpoints, dt_clock_system(), NULL, 0, &link), DT_OK);
    assert_false(dt_link_failing(link));
    assert_int_equal(dt_link_ready(link, &err), DT_UNAVAILABLE);
    assert_string_equal(err.text, "redis 127.0.0.1:1: connect: Connection refused");
    assert_true(dt_link_failing(link));
    assert_false(dt_link_connected(link));
    assert_int_equal(dt_link_ready(link, &err), DT_UNAVAILABLE);
    dt_link_free(link);
    dt_endpoints_free(endpoints, n);
}
