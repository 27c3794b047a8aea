#include "support/zk_fixture.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/wait.h"

static int open_port(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

void zk_server_prepare(struct zk_server *server)
{
    memset(server, 0, sizeof(*server));
    close(open_port(&server->port));
    snprintf(server->endpoint, sizeof(server->endpoint), "127.0.0.1:%d", server->port);
    snprintf(server->dir, sizeof(server->dir), "/tmp/dt-zk-XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    char path[128];
    snprintf(path, sizeof(path), "%s/zoo.cfg", server->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "tickTime=%d\nmaxSessionTimeout=60000\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
            ZK_TICK_MS, server->dir, server->port);
    assert_int_equal(fclose(f), 0);
}

/* Serving, not merely listening. */
static bool answers(const struct zk_server *server)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)server->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char answer[64] = "";
    ssize_t n = -1;
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && write(fd, "srvr", 4) == 4)
        n = read(fd, answer, sizeof(answer) - 1);
    close(fd);
    return n > 0 && strncmp(answer, "Zookeeper version", 17) == 0;
}

static void child(const struct zk_server *server)
{
    char config[128], log[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies takes its server along */
    snprintf(config, sizeof(config), "%s/zoo.cfg", server->dir);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    if (!freopen(log, "a", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(126);
    execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
           "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

void zk_server_start(struct zk_server *server)
{
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        child(server);
    AWAIT_OR(answers(server), print_error("no ZooKeeper on port %d, see %s/log\n", server->port, server->dir));
}

void zk_server_kill(struct zk_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void zk_server_pause(struct zk_server *server)
{
    stop_child(server->pid);
}

void zk_server_resume(struct zk_server *server)
{
    assert_int_equal(kill(server->pid, SIGCONT), 0);
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

void zk_server_remove(struct zk_server *server)
{
    zk_server_kill(server);
    nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
