/*
 * A dispatcher process: connects elector, shard loops, results, outbox, housekeeper and wake-ups. It alone knows all of
 * them.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"

struct dt_service;

typedef struct dt_dispatcher dt_dispatcher;

/* Connects to nothing yet. `random` returns unpredictable numbers (tokens, jitter), on any thread. */
DT_MUST_CHECK dt_status dt_dispatcher_new(const struct dt_config *config, const dt_clock *clock,
                                          uint64_t (*random)(void), dt_dispatcher **out, struct dt_error *err);
/* Sets the service that is notified when the dispatcher waits, is ready, and lives. Borrowed. Call it before
 * dt_dispatcher_run. */
void dt_dispatcher_tells(dt_dispatcher *dispatcher, struct dt_service *service);
/* Serves until dt_dispatcher_stop. First waits for MySQL (with its schema) and Kafka, whichever order they start in.
 * Before it returns, it releases its shards. */
DT_MUST_CHECK dt_status dt_dispatcher_run(dt_dispatcher *dispatcher, struct dt_error *err);
/* Any thread; not from a signal handler. */
void dt_dispatcher_stop(dt_dispatcher *dispatcher);
/* The hook of base/assert.h: stores a finding in MySQL before the process dies. */
void dt_dispatcher_died(void *dispatcher, const char *where, const char *what, int shard);
void dt_dispatcher_free(dt_dispatcher *dispatcher);
