/*
 * A receiver of callbacks for tests: an HTTP server on 127.0.0.1, one thread a connection. It reads requests; what it says
 * to them is the test's, and may be anything but HTTP.
 *
 * The handler runs on the connection's thread. What it shares with the test is atomic, or locked by it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct receiver receiver;
typedef struct receiver_connection receiver_connection;

struct receiver_request {
    const char *head; /* terminated; request line and headers as they came */
    const char *path; /* terminated */
    const char *body;
    size_t n;
    unsigned number; /* 1: the first on its connection */
};

/* True: the connection is kept, and its next request read; false: it is closed. */
typedef bool receiver_handler(void *arg, receiver_connection *connection, const struct receiver_request *request);

enum receiver_h2 {
    RECEIVER_H2_NOT_OFFERED,
    RECEIVER_H2_ANSWERS, /* every stream with 204 */
    RECEIVER_H2_REFUSES  /* every stream but the first of a connection with REFUSED_STREAM */
};

struct receiver_options {
    receiver_handler *handler; /* not called for HTTP/2 */
    void *arg;
    const char *certificate, *key; /* PEM; NULL = no TLS */
    enum receiver_h2 h2;
};

receiver *receiver_start(const struct receiver_options *options);
uint16_t receiver_port(const receiver *r);
/* Since the start: connections that were accepted, whole requests (of HTTP/2: streams). */
unsigned receiver_connections(const receiver *r);
unsigned receiver_requests(const receiver *r);
/* Closes all connections and waits for their threads. */
void receiver_stop(receiver *r);

/* False: the peer is gone, or the receiver stops. */
bool receiver_say(receiver_connection *connection, const void *bytes, size_t n);
bool receiver_say_text(receiver_connection *connection, const char *text);
/* Waits; false: the receiver stops. */
bool receiver_wait_ms(receiver_connection *connection, unsigned ms);
/* Makes the end of the connection a reset in place of a close. */
void receiver_reset(receiver_connection *connection);
/* Returns when the peer has gone, or the receiver stops. */
void receiver_hold(receiver_connection *connection);

/* Makes a certificate for receiver.test, valid today, and its key, by the openssl program. */
void receiver_make_certificate(const char *certificate, const char *key);
