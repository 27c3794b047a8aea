/* A dispatcher process: connects elector, shard loops, results, outbox, housekeeper and wake-ups. Only this part knows
 * all other parts. */
#pragma once

#include "base/clock.h"
#include "base/config.h"

struct dt_service;

typedef struct dt_dispatcher dt_dispatcher;

/* Creates a dispatcher, which connects to nothing yet. `random` returns unpredictable numbers (for tokens and jitter);
 * called on any thread. */
dt_status dt_dispatcher_new(const struct dt_config *config, const dt_clock *clock, uint64_t (*random)(void),
                            dt_dispatcher **out, struct dt_error *err);
/* Sets the connection to the service manager, which is notified when the dispatcher waits, is ready, and is alive.
 * Borrowed. Must be called before dt_dispatcher_run. */
void dt_dispatcher_tells(dt_dispatcher *dispatcher, struct dt_service *service);
/* Runs the dispatcher until dt_dispatcher_stop. First waits for MySQL (with its schema) and Kafka, in any order. Gives
 * back its shards before it returns. */
dt_status dt_dispatcher_run(dt_dispatcher *dispatcher, struct dt_error *err);
/* Makes dt_dispatcher_run return. Any thread; not from a signal handler. */
void dt_dispatcher_stop(dt_dispatcher *dispatcher);
/* The hook of base/assert.h: stores the failed assertion in MySQL before the process aborts. */
void dt_dispatcher_died(void *dispatcher, const char *where, const char *what, int shard);
void dt_dispatcher_free(dt_dispatcher *dispatcher);
