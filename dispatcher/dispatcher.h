/*
 * A dispatcher process: wires elector, shard loops, results, outbox, housekeeper and wake-ups together, and is the only
 * part that knows them all.
 */
#ifndef DT_DISPATCHER_DISPATCHER_H
#define DT_DISPATCHER_DISPATCHER_H

#include "base/clock.h"
#include "base/config.h"

struct dt_service;

typedef struct dt_dispatcher dt_dispatcher;

/* `random` gives unpredictable numbers (tokens, jitter); any thread. Nothing is connected yet. */
DT_MUST_CHECK dt_status dt_dispatcher_new(const struct dt_config *config, const dt_clock *clock,
                                          uint64_t (*random)(void), dt_dispatcher **out, struct dt_error *err);
/* Before dt_dispatcher_run: sets the service that is notified when the dispatcher waits, is ready, and lives.
 * Borrowed. */
void dt_dispatcher_tells(dt_dispatcher *dispatcher, struct dt_service *service);
/* Serves until dt_dispatcher_stop: waits for MySQL (with its schema) and Kafka first, in any order of start; on
 * stopping hands its shards over and returns. */
DT_MUST_CHECK dt_status dt_dispatcher_run(dt_dispatcher *dispatcher, struct dt_error *err);
/* Any thread; not from a signal handler. */
void dt_dispatcher_stop(dt_dispatcher *dispatcher);
/* The hook of base/assert.h: leaves a finding in MySQL, before the process dies. */
void dt_dispatcher_died(void *dispatcher, const char *where, const char *what, int shard);
void dt_dispatcher_free(dt_dispatcher *dispatcher);

#endif
