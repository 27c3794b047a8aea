/* What a service manager hears: the test is the manager, and listens on a socket of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/suite.h"

#include "base/service.h"

struct manager {
    int fd;
    char name[108];
    char heard[512];
};

/* The kernel chooses an abstract name. */
static void listen_abstractly(struct manager *manager)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t n = sizeof(address);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(manager->fd, (struct sockaddr *)&address, &n), 0);
    n -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
    snprintf(manager->name, sizeof(manager->name), "@%.*s", (int)n - 1, address.sun_path + 1);
    setenv("NOTIFY_SOCKET", manager->name, 1);
}

static void close_manager(struct manager *manager)
{
    close(manager->fd);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

#define RIG_TEST(name) TEST_ON(struct manager, manager, name, listen_abstractly, close_manager)

static const char *heard(struct manager *manager)
{
    ssize_t n = recv(manager->fd, manager->heard, sizeof(manager->heard) - 1, 0);
    manager->heard[n > 0 ? n : 0] = '\0';
    return manager->heard;
}

RIG_TEST(each_step_of_the_life_of_a_service_is_one_message)
{
    struct dt_service service;
    dt_service_open(&service);
    assert_true(dt_service_heard(&service));
    dt_service_waits(&service, "waits for MySQL");
    assert_string_equal(heard(manager), "STATUS=waits for MySQL\nEXTEND_TIMEOUT_USEC=30000000");
    dt_service_reloading(&service, 76); /* too early: it would end the start */
    dt_service_reloaded(&service);
    dt_service_ready(&service);
    assert_string_equal(heard(manager), "READY=1\nSTATUS=serves\nWATCHDOG=1");
    dt_service_reloading(&service, 77);
    assert_string_equal(heard(manager), "RELOADING=1\nMONOTONIC_USEC=77");
    dt_service_reloaded(&service);
    assert_string_equal(heard(manager), "READY=1\nSTATUS=serves\nWATCHDOG=1");
    dt_service_tell(&service, DT_SERVICE_ALIVE);
    assert_string_equal(heard(manager), "WATCHDOG=1");
    dt_service_tell(&service, DT_SERVICE_STOPPING);
    assert_string_equal(heard(manager), "STOPPING=1\nSTATUS=finishes running work");
    dt_service_close(&service);
    dt_service_tell(&service, DT_SERVICE_ALIVE);
    assert_string_equal(heard(manager), "");
}

RIG_TEST(a_socket_may_have_a_path)
{
    char folder[] = "/tmp/service-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct dt_service service;
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", folder);
    close(manager->fd);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    dt_service_open(&service);
    dt_service_tell(&service, DT_SERVICE_ALIVE);
    assert_string_equal(heard(manager), "WATCHDOG=1");
    dt_service_close(&service);
    unlink(address.sun_path);
    rmdir(folder);
}

RIG_TEST(keep_alives_are_due_twice_per_watchdog_interval)
{
    struct dt_service service;
    char pid[24];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("WATCHDOG_USEC", "60000000", 1);
    dt_service_open(&service);
    assert_int_equal(dt_service_pause_us(&service), 30000000);
    dt_service_close(&service);
    setenv("WATCHDOG_PID", pid, 1);
    dt_service_open(&service);
    assert_int_equal(dt_service_pause_us(&service), 30000000);
    dt_service_close(&service);
}

RIG_TEST(the_watchdog_of_another_process_is_not_ours)
{
    struct dt_service service;
    setenv("WATCHDOG_USEC", "60000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    dt_service_open(&service);
    assert_true(dt_service_pause_us(&service) == INT64_MAX);
    dt_service_close(&service);
}

RIG_TEST(invalid_numbers_start_no_watchdog)
{
    static const char *const texts[] = {"", "0", "-5", "12x", "x", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct dt_service service;
        setenv("WATCHDOG_USEC", texts[i], 1);
        dt_service_open(&service);
        assert_true(dt_service_pause_us(&service) == INT64_MAX);
        dt_service_close(&service);
    }
}

RIG_TEST(without_a_manager_nothing_happens)
{
    static const char *const names[] = {"", "@", "relative", "/nowhere/at/all"};
    setenv("WATCHDOG_USEC", "60000000", 1);
    for (size_t i = 0; i <= sizeof(names) / sizeof(names[0]); i++) {
        struct dt_service service;
        if (i < sizeof(names) / sizeof(names[0]))
            setenv("NOTIFY_SOCKET", names[i], 1);
        else
            unsetenv("NOTIFY_SOCKET");
        dt_service_open(&service);
        assert_false(dt_service_heard(&service));
        assert_true(dt_service_pause_us(&service) == INT64_MAX);
        dt_service_ready(&service);
        dt_service_close(&service);
    }
}

/* However its threads hang. */
TEST(a_program_that_does_not_exit_by_itself_is_stopped_in_order)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        dt_stop_bound(0);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
