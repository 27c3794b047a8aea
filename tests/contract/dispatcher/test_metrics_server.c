/* Where the dispatcher's metrics are served. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/suite.h"

#include "metrics_server.h"

static int connected(int family, const char *address, uint16_t port)
{
    struct sockaddr_storage to = {0};
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&to)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&to)->sin6_addr;
    to.ss_family = (sa_family_t)family;
    ((struct sockaddr_in *)&to)->sin_port = htons(port); /* at the same place in both */
    assert_int_equal(inet_pton(family, address, at), 1);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to,
                             family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)),
                     0);
    return fd;
}

static void assert_answers(int family, const char *address, uint16_t port)
{
    static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
    const struct timeval patience = {.tv_sec = 20}; /* shorter than a connection that says nothing may stay */
    char answer[256] = {0};
    int fd = connected(family, address, port);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    assert_true(read(fd, answer, sizeof(answer) - 1) > 0);
    assert_non_null(strstr(answer, "200 OK"));
    close(fd);
}

TEST(the_address_may_be_the_loopback_or_any_of_the_machine)
{
    static const char *const addresses[] = {"127.0.0.1", "0.0.0.0"};
    for (size_t i = 0; i < 2; i++) {
        dt_metrics_server *server = NULL;
        struct dt_error err = {0};
        uint16_t port = 0;
        assert_int_equal(dt_metrics_server_start(addresses[i], 0, &port, &server, &err), DT_OK);
        assert_true(port > 0);
        assert_answers(AF_INET, "127.0.0.1", port);
        dt_metrics_server_stop(server);
    }
}

TEST(each_request_gets_its_status)
{
    static const char *const asked[][2] = {{"GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
                                           {"GET http://x/healthz?a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
                                           {"GET /other HTTP/1.0\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
                                           {"POST /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
                                           {"hello\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"}};
    dt_metrics_server *server = NULL;
    struct dt_error err = {0};
    uint16_t port = 0;
    assert_int_equal(dt_metrics_server_start("127.0.0.1", 0, &port, &server, &err), DT_OK);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        char answer[256] = {0};
        int fd = connected(AF_INET, "127.0.0.1", port);
        assert_int_equal(write(fd, asked[i][0], strlen(asked[i][0])), strlen(asked[i][0]));
        assert_true(read(fd, answer, sizeof(answer) - 1) > 0);
        if (strncmp(answer, asked[i][1], strlen(asked[i][1])) != 0)
            fail_msg("%s: %s", asked[i][0], answer);
        close(fd);
    }
    dt_metrics_server_stop(server);
}

TEST(the_address_may_be_ipv6)
{
    dt_metrics_server *server = NULL;
    struct dt_error err = {0};
    uint16_t port = 0;
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&loopback, sizeof(loopback)) != 0)
        return; /* the machine has none */
    close(probe);
    assert_int_equal(dt_metrics_server_start("::1", 0, &port, &server, &err), DT_OK);
    assert_answers(AF_INET6, "::1", port);
    dt_metrics_server_stop(server);
}

TEST(an_invalid_address_is_named_in_the_error)
{
    dt_metrics_server *server = NULL;
    struct dt_error err = {0};
    uint16_t port = 0;
    assert_int_equal(dt_metrics_server_start("localhost", 0, &port, &server, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "\"localhost\""));
    assert_null(server);
}

TEST(a_port_in_use_is_reported_and_leaves_nothing_to_stop)
{
    dt_metrics_server *first = NULL;
    dt_metrics_server *second = NULL;
    struct dt_error err = {0};
    uint16_t port = 0;
    uint16_t bound = 0;
    assert_int_equal(dt_metrics_server_start("127.0.0.1", 0, &port, &first, &err), DT_OK);
    assert_int_equal(dt_metrics_server_start("127.0.0.1", port, &bound, &second, &err), DT_SYSTEM);
    assert_non_null(strstr(err.text, "cannot listen for /metrics on 127.0.0.1"));
    assert_null(second);
    dt_metrics_server_stop(second);
    assert_answers(AF_INET, "127.0.0.1", port);
    dt_metrics_server_stop(first);
}

TEST(silent_or_partial_connections_do_not_block_others)
{
    static const char *const said[] = {"", "GET /metr", "GET /metrics HTTP/1.1\r\n"};
    dt_metrics_server *server = NULL;
    struct dt_error err = {0};
    uint16_t port = 0;
    int crowd[300];
    assert_int_equal(dt_metrics_server_start("127.0.0.1", 0, &port, &server, &err), DT_OK);
    for (size_t i = 0; i < 300; i++) {
        const char *words = said[i % 3];
        crowd[i] = connected(AF_INET, "127.0.0.1", port);
        (void)send(crowd[i], words, strlen(words), MSG_NOSIGNAL);
        if (i % 50 == 49)
            assert_answers(AF_INET, "127.0.0.1", port);
    }
    for (size_t i = 0; i < 300; i++)
        close(crowd[i]);
    assert_answers(AF_INET, "127.0.0.1", port);
    dt_metrics_server_stop(server);
}
