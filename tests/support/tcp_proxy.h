/* A door between a program and its server: what connects to a port of the loopback is passed on to the server. It can be
 * shut, as a server that was killed; held, as one that was stopped; and opened again on the same port. Its connections may
 * vanish. One thread of its own, which a forked child does not have: the child uses the parent's. Everything here fails the
 * running cmocka test when it cannot do its work. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { TCP_PROXY_PAIRS = 64 };

struct tcp_proxy {
    int port;
    /* the server: a Unix socket, or a port of the loopback when `socket` is empty */
    char socket[108];
    int server_port;
    /* the proxy's */
    int listener;
    struct {
        int client, server; /* -1: none */
    } pairs[TCP_PROXY_PAIRS];
    pthread_t thread;
    pthread_mutex_t lock; /* of the sockets */
    _Atomic bool held, ending;
};

void tcp_proxy_open(struct tcp_proxy *proxy, const char *path, int server_port); /* on a free port */
void tcp_proxy_shut(struct tcp_proxy *proxy); /* every connection breaks, and none is taken; may be called twice */
void tcp_proxy_reopen(struct tcp_proxy *proxy);
void tcp_proxy_hold(struct tcp_proxy *proxy, bool held);
/* The connections that are there hear nothing any more and end without a word, as when a machine loses its power. New
 * ones are taken. */
void tcp_proxy_vanish(struct tcp_proxy *proxy);
void tcp_proxy_end(struct tcp_proxy *proxy);
