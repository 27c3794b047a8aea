/* The subscriber: one thread that receives the wake-ups from all endpoints. Leaders and API processes publish them. */
#pragma once

#include "base/config.h"
#include "base/text/strbuf.h"

typedef struct dt_wake dt_wake;
/* Starts the thread, which calls on_wake; on_wake must not block. If shard is -1, everything may have changed, because
 * a connection was lost or restored. config and arg must outlive the thread. *out is NULL after a failure, and if no
 * endpoints are configured. */
dt_status dt_wake_start(const struct dt_config *config, const char *installation,
                        void (*on_wake)(void *arg, int shard, bool outbox), void *arg, dt_wake **out,
                        struct dt_error *err);
/* Starts the thread (as dt_wake_start does) in a process whose clients wait for pops: it calls on_offers when jobs of a
 * topic wait for a pop. If topic is absent, any topic may have jobs, because a connection was lost or restored. */
dt_status dt_wake_start_for_pops(const struct dt_config *config, const char *installation,
                                 void (*on_offers)(void *arg, struct dt_str topic), void *arg, dt_wake **out,
                                 struct dt_error *err);
/* Ends the thread and frees the subscriber. Accepts NULL. */
void dt_wake_stop(dt_wake *wake);
/* Returns whether the channels of all endpoints are connected. While a channel is not connected, its wake-ups are lost.
 * May be called from any thread. */
bool dt_wake_hears(const dt_wake *wake);
