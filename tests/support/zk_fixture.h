/* A private ZooKeeper on a free port of the loopback, which may be killed, stopped and started again with its data.
 * Ticks of 100 ms, sessions from 200 ms to 10 s. Everything here fails the running cmocka test when it cannot do its
 * work. */
#pragma once

#include <sys/types.h>

struct zk_server {
    pid_t pid;
    int port;
    char endpoint[32];
    char dir[64];
};

enum { ZK_TICK_MS = 100 };

void zk_server_prepare(struct zk_server *server); /* port and folder, nothing running yet */
void zk_server_start(struct zk_server *server);   /* returns when it answers */
void zk_server_kill(struct zk_server *server);    /* kill -9, waited for; may be called twice */
void zk_server_pause(struct zk_server *server);   /* SIGSTOP */
void zk_server_resume(struct zk_server *server);
void zk_server_remove(struct zk_server *server); /* kill, and the folder is gone */
