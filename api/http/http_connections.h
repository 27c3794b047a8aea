/*
 * The connection table: every connection that was let in, for as long as its socket is open. It decides when the time
 * of a connection is up and, when others wait for a slot, which connection ends: the one that has been of no use for
 * the longest, because it is silent, or its body is so slow that it might as well be.
 *
 *   IDLE --head--> READING --body complete--> BUSY --answer queued--> SENDING --sent--> IDLE
 *
 * dt_connections_add, dt_connections_remove and dt_connection_enter are called on the connection's HTTP thread. The
 * other functions may only shut down a socket; the connection's thread then finds out, and reads the reason in `cut`.
 */
#ifndef DT_API_HTTP_CONNECTIONS_H
#define DT_API_HTTP_CONNECTIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/metrics.h"
#include "http_receiver.h"
#include "request/request.h"

enum dt_phase { DT_PHASE_IDLE, DT_PHASE_READING, DT_PHASE_BUSY, DT_PHASE_SENDING };
enum { DT_CUT_NOT = -1 }; /* besides enum dt_cut */

#define DT_SWEEP_US INT64_C(250000)

/* One connection, embedded in its exchange. fd and receiver are set before it is added; its thread writes the
 * atomics. */
struct dt_connection {
    int fd;
    dt_receiver *receiver;
    _Atomic int phase;        /* enum dt_phase */
    _Atomic int64_t since_us; /* begin of the phase */
    _Atomic int64_t heard_us; /* when something of the body was taken */
    _Atomic bool suspended;   /* its request is with another thread, which keeps its deadline */
    _Atomic bool known;       /* a caller with a known token has used it */
    _Atomic int cut;          /* why the body under way was cut off: enum dt_cut, or DT_CUT_NOT */
    /* Under the lock. */
    struct dt_connection *prev, *next;
    bool leaving;         /* it was evicted */
    uint64_t heard_bytes; /* when it was looked at */
    int64_t quick_us;     /* when its body was last found to be quick enough */
};

struct dt_connections {
    const struct dt_config *config;
    const dt_clock *clock;
    _Atomic bool draining, cutting; /* the server ends: answers close, bodies are waited for no longer */
    pthread_mutex_t lock;           /* of the list; a connection in it has its socket open */
    struct dt_connection *first;
    size_t n;
    int64_t looked_us;
    dt_metric *connections;
};

void dt_connections_init(struct dt_connections *table, const struct dt_config *config, const dt_clock *clock);
void dt_connections_clear(struct dt_connections *table);

void dt_connection_enter(const struct dt_connections *table, struct dt_connection *conn, enum dt_phase phase);
/* True: the table was empty before. */
bool dt_connections_add(struct dt_connections *table, struct dt_connection *conn);
/* Called before the socket is closed. */
void dt_connections_remove(struct dt_connections *table, struct dt_connection *conn);

/* No client is late by the time in which this process did not look: since_us of all connections moves by it. Any
 * thread. */
void dt_connections_forgive(struct dt_connections *table);
/* Ends the connections whose time is up. Called each DT_SWEEP_US by one thread. False: the table is empty. */
bool dt_connections_sweep(struct dt_connections *table);
/*
 * Ends up to n connections that are of no use, because n others wait for a slot. Connections of known callers that are
 * only silent are spared, unless it is pressing.
 */
void dt_connections_evict(struct dt_connections *table, size_t n, bool pressing);

#endif
